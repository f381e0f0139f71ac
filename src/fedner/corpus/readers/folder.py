"""Which files of a folder belong to a format that keeps many documents in a file."""

from collections.abc import Callable
from pathlib import Path

from fedner.corpus.files import files_in, head, stem
from fedner.corpus.problems import Problem, ProblemLog

_MAX_SHOWN = 8


def reason_in(path: Path, reason: Callable[[Path], str | None]) -> str | None:
    """Return why a file, or the first fitting file of a folder, looks like a format.

    Args:
        path: A file or a folder.
        reason: Says why one file looks like the format, or None.
    """
    for file in files_in(path):
        if (why := reason(file)) is not None:
            return why if file == path else f"{file.name}: {why}"
    return None


def reason_or_none(path: Path, reason: Callable[[Path], str | None]) -> str | None:
    """Return why a path looks like a format; a path that the system refuses is no corpus."""
    try:
        return reason(path)
    except OSError:
        return None


def choose(
    path: Path, looks_right: Callable[[Path], bool], log: ProblemLog, what: str
) -> list[Path]:
    """Return the file itself, or the files of a folder that look right; say what is left out.

    A file without readable content is chosen too if it is named like the chosen ones: what is wrong
    with it must be reported.

    Args:
        path: A file or a folder.
        looks_right: Whether a file's content looks like the format.
        log: Where it is said what was left out, and reported if nothing was found.
        what: What the files hold, for people ("token columns").
    """
    if not path.is_dir():
        return [path]
    files = files_in(path)
    right = {file for file in files if looks_right(file)}
    suffixes = {_suffix(file) for file in right}
    chosen = [
        file
        for file in files
        if file in right or (_suffix(file) in suffixes and not (head(file) or "").strip())
    ]
    if not chosen:
        log.report(
            Problem(
                "not a corpus", str(path), None, f"{len(files)} files, none with {what}",
                f"files with {what}", "Name the right folder or file, or another format.",
            )
        )  # fmt: skip
    elif left_out := [file.name for file in files if file not in chosen]:
        shown = ", ".join(left_out[:_MAX_SHOWN])
        more = f" and {len(left_out) - _MAX_SHOWN} more" if len(left_out) > _MAX_SHOWN else ""
        log.remark(f"left out, no {what}: {shown}{more}")
    return chosen


def _suffix(path: Path) -> str:
    return Path(stem(path)).suffix.lower()
