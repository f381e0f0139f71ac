"""Who may read an output: those who could read all of its inputs, and nobody else.

Redacted texts and predictions are made of the same words as their inputs. A letter that only its
owner may read must not become a file that everybody on the machine may read, whatever the umask.
Modes are those of POSIX; elsewhere there is nothing to compute and the system decides.

Guarantee: whoever is neither owner nor administrator and may read an output could read each of its
inputs. Both the modes of the files and those of the folders on the way count.
Edge cases: an input with an access control list gives outputs for the owner alone. Lists that the
output's folder hands down to new files, and shares of other systems, are not looked at.
"""

import os
import stat
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from fedner.errors import FednerError

OWNER_ONLY: Final = 0o600
_GROUP_READ, _OTHERS_READ = stat.S_IRGRP, stat.S_IROTH
_ACCESS_LIST: Final = "system.posix_acl_access"


class _Readers(NamedTuple):
    """Who may read an input beside its owner: the members of which group, and all others?"""

    group: int | None
    others: bool


def output_mode(inputs: Iterable[Path], target: Path) -> int:
    """Return the mode of a file that is made of `inputs` and shall stand at `target`.

    Args:
        inputs: Everything that the output is made of; none of them (standard input) gives a file
            for the owner alone.
        target: Where the output goes; its folders may be yet to be made.

    Returns:
        The permissions for `os.open`, to which the process's umask still applies.
    """
    if os.name != "posix":
        return 0o666
    paths = list(inputs)
    parent = _existing(target)
    groups, others = bool(paths), bool(paths)
    for path in paths:
        readers = _readers(path, parent)
        others = others and readers.others
        groups = groups and (readers.others or readers.group == _group_of_new(parent))
    return OWNER_ONLY | (_GROUP_READ if groups else 0) | (_OTHERS_READ if others else 0)


def folder_mode(source: Path) -> int:
    """Return the mode of a folder that is made for the outputs of those in `source`."""
    if os.name != "posix":
        return 0o777
    return stat.S_IRWXU | (source.stat().st_mode & 0o055)


def make_folders(folder: Path, source: Path) -> None:
    """Make a folder and those above it that are missing, none more open than `source`."""
    mode = folder_mode(source)
    try:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(mode=mode, exist_ok=True)
    except OSError as error:
        raise FednerError(
            f"cannot make the folder {folder}: {error.strerror or error}",
            "Choose a place where you may write.",
        ) from error


def _readers(path: Path, parent: Path) -> _Readers:
    """Return who may read an input; folders that hide the output just as well do not count."""
    real = Path(os.path.realpath(path))
    state = real.stat()
    if _has_access_list(real):
        return _Readers(None, False)
    way = [each for each in real.parents if each not in _way_to(parent)]
    passes = [each.stat() for each in way]
    # Where a group may do less than all others, its members are not among those who may.
    may_read, may_pass = _OTHERS_READ | _GROUP_READ, stat.S_IXOTH | stat.S_IXGRP
    others = _has(state, may_read) and all(_has(each, may_pass) for each in passes)
    by_group = _has(state, _GROUP_READ) and all(
        _has(each, stat.S_IXGRP if each.st_gid == state.st_gid else may_pass) for each in passes
    )
    return _Readers(state.st_gid if by_group else None, others)


def _has(state: os.stat_result, bits: int) -> bool:
    return state.st_mode & bits == bits


@cache
def _way_to(folder: Path) -> frozenset[Path]:
    return frozenset((folder, *folder.parents))


def _existing(target: Path) -> Path:
    """Return the folder in which the output, or the first folder made for it, will stand."""
    real = Path(os.path.realpath(target))
    return next(each for each in real.parents if each.is_dir())


def _group_of_new(folder: Path) -> int:
    """Return the group of a file that is made in `folder`."""
    state = folder.stat()
    takes_folders = bool(state.st_mode & stat.S_ISGID) or sys.platform == "darwin"
    return state.st_gid if takes_folders else os.getegid()


def _has_access_list(path: Path) -> bool:
    names = getattr(os, "listxattr", None)
    if names is None:
        return False
    try:
        return _ACCESS_LIST in names(path)
    except OSError:  # a file system without such attributes
        return False
