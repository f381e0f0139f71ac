"""What a platform and a server do to take part: ask with a key of their own, install the answer."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from fedner.durable import owner_folder, write_text
from fedner.errors import FednerError
from fedner.runs.deployment.approvals import (
    Approval,
    Request,
    WantedCertificate,
    own_certificate,
    read_approval,
    read_letter,
    write_letter,
)
from fedner.runs.deployment.federation import require_host, require_name
from fedner.runs.deployment.homes import PlatformHome, ServerHome, begin_home
from fedner.runs.deployment.identity import (
    fingerprint,
    make_key,
    read_certificate,
    read_key,
    signing_request,
)
from fedner.runs.deployment.kits import write_admin_kit, write_platform_kit, write_server_kit
from fedner.runs.deployment.study_changes import Change, study_changes
from fedner.settings import Study
from fedner.settings.sections import Section


class HomeRecord(Section):
    """Whose home a folder is."""

    fedner: Literal["home"] = "home"
    version: Literal[1] = 1
    kind: Literal["platform", "server"]
    name: str
    made: datetime


def request_platform(home: PlatformHome, name: str) -> Request:
    """Begin a platform's home with a key of its own, and ask for a certificate.

    In a home that has its key already, the same key is asked for again: to renew.

    Raises:
        FednerError: The name does not fit, or the folder is something else.
    """
    require_name(name, "the platform is called")
    if home.record.is_file():
        _require_same(home, "platform", name)
    else:
        _begin(home, "platform", name, (home.startup,))
    key = read_key(home.key) if home.key.exists() else make_key(home.key)
    wanted = WantedCertificate(
        kind="platform", name=name, signing_request=signing_request(key, name)
    )
    return Request(kind="platform", name=name, certificates=(wanted,))


def request_server(home: ServerHome, host: str) -> Request:
    """Begin a server's home with keys of its own, for itself and for the watchdog beside it.

    Raises:
        FednerError: The host has no sound name, or the folder is something else.
    """
    require_host(host)
    if home.record.is_file():
        _require_same(home, "server", host)
    else:
        _begin(home, "server", host, (home.startup, home.watchdog.startup))
    wanted = []
    for kind, name, path in _server_identities(home, host):
        key = read_key(path) if path.exists() else make_key(path)
        wanted.append(
            WantedCertificate(kind=kind, name=name, signing_request=signing_request(key, name))
        )
    return Request(kind="server", name=host, certificates=tuple(wanted))


def _server_identities(
    home: ServerHome, host: str
) -> tuple[tuple[Literal["server", "watchdog"], str, Path], ...]:
    return (
        ("server", host, home.key),
        ("watchdog", home.watchdog.name, home.watchdog.key),
    )


def _begin(
    home: PlatformHome | ServerHome,
    kind: Literal["platform", "server"],
    name: str,
    folders: tuple[Path, ...],
) -> None:
    begin_home(home.path)
    for folder in folders:
        owner_folder(folder)
    write_letter(home.record, HomeRecord(kind=kind, name=name, made=datetime.now(UTC)))


def _require_same(home: PlatformHome | ServerHome, kind: str, name: str) -> None:
    found = read_home(home)
    if (found.kind, found.name) != (kind, name):
        raise FednerError(
            f"{home.path} is the home of the {found.kind} {found.name!r}, not of {name!r}",
            "Name another folder with --home.",
        )


def read_home(home: PlatformHome | ServerHome) -> HomeRecord:
    """Return whose home a folder is.

    Raises:
        FednerError: It is none.
    """
    kind = "platform" if isinstance(home, PlatformHome) else "server"
    if not home.record.is_file():
        raise FednerError(
            f"{home.path} is not the home of a {kind}: it has no {home.record.name}",
            f"Name it with --home, or begin one: fedner {kind} request NAME",
        )
    return read_letter(HomeRecord, home.record, "record of a home", "Restore it from a backup.")


def install_platform(
    home: PlatformHome, path: Path, authority: str | None = None, *, accepts_study: bool = False
) -> tuple[Approval, tuple[Change, ...]]:
    """Install an approval in the home that asked for it; return it and what changed in the study.

    Args:
        home: The platform's home.
        path: The approval.
        authority: The fingerprint that its authority must have; None trusts the file.
        accepts_study: Whether the platform's owner takes part in another study than the installed
            one: a renewed certificate must not bring one unseen.

    Raises:
        FednerError: The approval was altered, is for another key or name, is out of date, or is
            for another study than the installed one, which was not accepted.
    """
    name = read_home(home).name
    approval = _fitting_approval(home, path, name, authority)
    certificate = own_certificate(approval, name, "platform", fingerprint(read_key(home.key)), path)
    _require_same_federation(home, approval, path)
    changes = _changes(home, approval)
    if changes and not accepts_study:
        raise _another_study(home, path, changes)
    write_platform_kit(home, approval.place, name)
    write_text(home.authority, approval.authority)
    write_text(home.certificate, certificate)
    write_letter(home.approval, approval)
    return approval, changes


def _changes(home: PlatformHome, approval: Approval) -> tuple[Change, ...]:
    """Return what an approval changes in the study that is installed; nothing in a new home."""
    if not home.approval.is_file():
        return ()
    return study_changes(installed_study(home), study_of(approval))


def _another_study(home: PlatformHome, path: Path, changes: tuple[Change, ...]) -> FednerError:
    listed = "".join(f"\n  {each}" for each in changes)
    return FednerError(
        f"{path} is for another study than the one installed in {home.path}; what changed:{listed}",
        "Nothing was installed. To take part in the new study: fedner platform install "
        f"{path} --home {home.path} --accept-study",
    )


def install_server(home: ServerHome, path: Path, authority: str | None = None) -> Approval:
    """Install an approval in the server's home that asked for it.

    Raises:
        FednerError: The approval was altered, is for another key or host, or is out of date.
    """
    host = read_home(home).name
    approval = _fitting_approval(home, path, host, authority)
    certificates = [
        own_certificate(approval, name, kind, fingerprint(read_key(key)), path)
        for kind, name, key in _server_identities(home, host)
    ]
    _require_same_federation(home, approval, path)
    write_server_kit(home, approval.place)
    write_admin_kit(home.watchdog, approval.place)
    for place in (home.authority, home.watchdog.authority):
        write_text(place, approval.authority)
    write_text(home.certificate, certificates[0])
    write_text(home.watchdog.certificate, certificates[1])
    write_letter(home.approval, approval)
    return approval


def _fitting_approval(
    home: PlatformHome | ServerHome, path: Path, name: str, authority: str | None
) -> Approval:
    approval = read_approval(path, authority)
    kind = "platform" if isinstance(home, PlatformHome) else "server"
    if (approval.kind, approval.name) != (kind, name):
        raise FednerError(
            f"{path} is for the {approval.kind} {approval.name!r}; {home.path} is the home of the "
            f"{kind} {name!r}",
            "Install it in the home that sent the request.",
        )
    return approval


def _require_same_federation(
    home: PlatformHome | ServerHome, approval: Approval, path: Path
) -> None:
    """Refuse an approval of another authority than the one that is installed."""
    if not home.approval.is_file():
        return
    old = fingerprint(read_certificate(installed(home).authority, str(home.approval)))
    new = fingerprint(read_certificate(approval.authority, str(path)))
    if old != new:
        raise FednerError(
            f"{path} is of another federation (authority {new}) than {home.path} (authority {old})",
            "Every federation needs a separate home: make the request from a new one, with --home.",
        )


def installed(home: PlatformHome | ServerHome) -> Approval:
    """Return the approval that is installed in a home.

    Raises:
        FednerError: None is, or it was altered.
    """
    name = read_home(home).name
    if not home.approval.is_file():
        kind = "platform" if isinstance(home, PlatformHome) else "server"
        raise FednerError(
            f"{home.path}: {name} requested to take part, but no approval is installed",
            f"When the coordinator has sent it: fedner {kind} install APPROVAL --home {home.path}",
        )
    return read_approval(home.approval)


def installed_study(home: PlatformHome | ServerHome) -> Study:
    """Return the study of the federation that a home is installed for."""
    return study_of(installed(home))


def study_of(approval: Approval) -> Study:
    """Return the study of an approval that was read."""
    return Study.model_validate_json(approval.study)
