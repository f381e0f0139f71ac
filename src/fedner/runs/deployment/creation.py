"""Whole steps of the coordinator, from file to file, as the commands take them."""

from dataclasses import dataclass
from pathlib import Path

from fedner.errors import FednerError
from fedner.runs.deployment.approvals import read_request, write_letter
from fedner.runs.deployment.federation import (
    CERTIFICATE_DAYS,
    approve,
    create_federation,
    federation_name,
    read_authority,
)
from fedner.runs.deployment.homes import FederationHome, ServerHome
from fedner.runs.deployment.identity import fingerprint as fingerprint_of
from fedner.runs.deployment.identity import read_certificate
from fedner.runs.deployment.kits import Place
from fedner.runs.deployment.pins import parse_fingerprint
from fedner.runs.deployment.taking_part import request_server
from fedner.runs.deployment.trial import install_here
from fedner.settings import Study


@dataclass(frozen=True, slots=True)
class Created:
    """A new federation.

    Attributes:
        name: Its name.
        study: The digest of its study.
        authority: The fingerprint of its authority.
        home: The coordinator's folder.
        server: The server's home, if it was made here.
        platforms: Who may ask to take part.
    """

    name: str
    study: str
    authority: str
    home: Path
    server: Path | None
    platforms: tuple[str, ...]


def create_with_server(
    home: Path,
    study: Study,
    *,
    host: str,
    port: int,
    name: str | None = None,
    server: Path | None = None,
    days: int = CERTIFICATE_DAYS,
) -> Created:
    """Create a federation and, if its folder is named, the server's home on this machine.

    Raises:
        FednerError: A name does not fit, or a folder is in use.
    """
    if server is not None and server.exists() and any(server.iterdir()):
        raise FednerError(
            f"{server} is already there and not empty", "Name another folder with --server-home."
        )
    federation = FederationHome(home)
    place = Place(federation_name(study.title) if name is None else name, host, port)
    create_federation(federation, study, place, days)
    if server is not None:
        install_here(federation, ServerHome(server), request_server(ServerHome(server), host), days)
    authority = fingerprint_of(read_authority(federation).certificate)
    return Created(place.federation, study.digest, authority, home, server, tuple(study.names))


@dataclass(frozen=True, slots=True)
class Approved:
    """A request that was approved.

    Attributes:
        name: Whose it was.
        kind: Platform or server.
        fingerprint: Of its key.
        expires: The last day of the certificate.
        approval: The file that goes back.
    """

    name: str
    kind: str
    fingerprint: str
    expires: str
    approval: Path


def approve_file(
    home: Path,
    path: Path,
    *,
    out: Path | None = None,
    fingerprint: str | None = None,
    days: int = CERTIFICATE_DAYS,
) -> Approved:
    """Approve a request and write the approval.

    Raises:
        FednerError: The request was altered, is not of this study, or of another key than the
            fingerprint says.
    """
    request = read_request(path)
    found = fingerprint_of(request.certificates[0].read(str(path)))
    if fingerprint is not None and parse_fingerprint(fingerprint) != found:
        raise FednerError(
            f"{path} is of a key with the fingerprint {found}; expected "
            f"{parse_fingerprint(fingerprint)}",
            "Do not approve it: ask the sender which file is the right one.",
        )
    approval = approve(FederationHome(home), request, days)
    target = Path(f"{request.name}.approval.json") if out is None else out
    write_letter(target, approval)
    ends = read_certificate(approval.certificates[request.kind], str(path)).not_valid_after_utc
    return Approved(request.name, request.kind, found, f"{ends:%Y-%m-%d}", target)
