"""How somebody comes to take part: request, approval, installation.

A request holds public keys, and shows that its sender has the private ones. An approval holds the
certificates, where the server is, the study and the roster, signed by the authority. Neither holds
a private key: those never leave the home in which they were made.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from cryptography import x509
from pydantic import Field, StringConstraints, ValidationError

from fedner.durable import write_text
from fedner.errors import FednerError
from fedner.federated.strict_json import read_json
from fedner.runs.deployment.homes import WATCHDOG
from fedner.runs.deployment.identity import (
    Kind,
    common_name,
    fingerprint,
    is_issued_by,
    is_signed_by,
    read_certificate,
    read_signing_request,
)
from fedner.runs.deployment.kits import Place
from fedner.settings import Study
from fedner.settings.sections import Digest, Section

FlareName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")]
Host = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$")]
Port = Annotated[int, Field(ge=1, le=65535)]

_MOST_BYTES = 2_000_000
Letter = TypeVar("Letter", bound=Section)


class WantedCertificate(Section):
    """One key that wants a certificate."""

    kind: Kind
    name: Annotated[str, StringConstraints(max_length=64)]
    signing_request: str

    def read(self, source: str) -> x509.CertificateSigningRequest:
        """Return the signing request, checked."""
        return read_signing_request(self.signing_request, f"{source}, {self.name}")


class Request(Section):
    """What a platform or a server sends to the coordinator."""

    fedner: Literal["request"] = "request"
    version: Literal[1] = 1
    kind: Literal["platform", "server"]
    name: Annotated[str, StringConstraints(max_length=64)]
    certificates: tuple[WantedCertificate, ...]


_PLATFORM: Kind = "platform"


class Member(Section):
    """Somebody to whom the authority gave a certificate.

    Attributes:
        fingerprint: Of the public key.
        expires: When the newest certificate ends.
        removed: When the server was told to refuse it; None while it takes part.
    """

    name: str
    kind: Kind
    fingerprint: Digest
    expires: datetime
    approved: datetime
    removed: datetime | None = None

    @property
    def is_platform(self) -> bool:
        """Whether it trains, and is neither server, coordinator nor watchdog."""
        return self.kind == _PLATFORM


class Roster(Section):
    """All who were approved, signed by the authority: what platforms compare with their pins."""

    fedner: Literal["roster"] = "roster"
    version: Literal[1] = 1
    federation: FlareName
    written: datetime
    members: tuple[Member, ...]
    signature: str = ""

    @property
    def signed_text(self) -> str:
        """What the authority signs: everything but the signature, in one spelling."""
        return _unsigned(self)


def _unsigned(letter: Section) -> str:
    value = letter.model_dump(mode="json", exclude={"signature"})
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


class Approval(Section):
    """What the coordinator sends back, signed by the authority.

    Attributes:
        study: The study in its canonical JSON.
        roster: All who took part when this was written.
    """

    fedner: Literal["approval"] = "approval"
    version: Literal[1] = 1
    kind: Literal["platform", "server"]
    name: str
    federation: FlareName
    host: Host
    port: Port
    authority: str
    certificates: dict[str, str]
    study: str
    roster: tuple[Member, ...]
    signature: str = ""

    @property
    def place(self) -> Place:
        """Where the server is."""
        return Place(self.federation, self.host, self.port)

    @property
    def signed_text(self) -> str:
        """What the authority signs: everything but the signature, in one spelling."""
        return _unsigned(self)


def write_letter(path: Path, letter: Section) -> None:
    """Write a request, an approval or a record as JSON."""
    text = json.dumps(letter.model_dump(mode="json"), indent=2, ensure_ascii=False)
    write_text(path, text + "\n")


def read_letter(kind: type[Letter], path: Path, what: str, hint: str) -> Letter:
    """Read what `write_letter` wrote, perhaps on another machine.

    Raises:
        FednerError: It cannot be read, or is something else.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FednerError(f"{path} cannot be read: {error.strerror}", hint) from error
    try:
        value = read_json(data, _MOST_BYTES)
    except FednerError as error:
        raise FednerError(f"{path} is no {what}: {error.message}", hint) from error
    return _as_letter(kind, value, f"{path} is no {what}", hint)


def _as_letter(kind: type[Letter], value: Any, wrong: str, hint: str) -> Letter:
    try:
        return kind.model_validate_json(json.dumps(value))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(each) for each in first["loc"]) or "the file"
        raise FednerError(f"{wrong}: {place}: {first['msg']}", hint) from error


def read_request(path: Path) -> Request:
    """Read a request and check that its sender holds the keys.

    Raises:
        FednerError: It is no request, was altered, or asks for what its kind does not need.
    """
    hint = "Ask the sender for the file that `fedner platform request` wrote, unaltered."
    request = read_letter(Request, path, "request of fedner", hint)
    require_sound(request, str(path), hint)
    return request


def require_sound(request: Request, source: str, hint: str) -> None:
    """Refuse a request for certificates that its sender does not need, or whose keys it lacks.

    Raises:
        FednerError: It asks for other kinds or names, or a signature is wrong.
    """
    expected = [("platform", request.name)]
    if request.kind == "server":
        expected = [("server", request.name), ("watchdog", WATCHDOG)]
    wanted = [(each.kind, each.name) for each in request.certificates]
    if wanted != expected:
        asked = ", ".join(f"the {kind} {name!r}" for kind, name in wanted) or "nobody"
        needed = ", ".join(f"the {kind} {name!r}" for kind, name in expected)
        raise FednerError(f"{source} asks for certificates of {asked}; it needs {needed}", hint)
    for each in request.certificates:
        each.read(source)


def read_approval(path: Path, authority: str | None = None) -> Approval:
    """Read an approval and check that one authority signed all of it.

    Args:
        path: The file.
        authority: The fingerprint that the authority must have, told out of band; None trusts
            the authority in the file.

    Raises:
        FednerError: It is no approval, was altered, or is of another authority.
    """
    hint = "Ask the coordinator for the file that `fedner federation approve` wrote, unaltered."
    approval = read_letter(Approval, path, "approval of fedner", hint)
    issuer = read_certificate(approval.authority, f"{path}, authority")
    if authority is not None and fingerprint(issuer) != authority:
        raise FednerError(
            f"{path} is of an authority with the fingerprint {fingerprint(issuer)}; expected "
            f"{authority}",
            "Do not install it. Ask the coordinator by telephone which fingerprint is right.",
        )
    if not is_signed_by(issuer, approval.signed_text, approval.signature):
        raise FednerError(f"{path} was altered: its signature does not fit", hint)
    _study_of(approval, path)
    return approval


def verified_roster(text: str | bytes, approval: Approval, source: str) -> Roster:
    """Return a roster, if the authority of the installed approval signed it.

    Args:
        text: The roster as JSON.
        approval: What is installed.
        source: Where the roster is from, for errors.

    Raises:
        FednerError: It is no roster, or somebody else's.
    """
    hint = "Ask the coordinator for what `fedner federation roster` writes."
    wrong = f"{source} is not a roster of fedner"
    try:
        value = read_json(text, _MOST_BYTES)
    except FednerError as error:
        raise FednerError(f"{wrong}: {error.message}", hint) from error
    roster = _as_letter(Roster, value, wrong, hint)
    authority = read_certificate(approval.authority, "the installed approval")
    is_signed = is_signed_by(authority, roster.signed_text, roster.signature)
    if not is_signed or roster.federation != approval.federation:
        raise FednerError(f"{source} is not signed by this federation's authority", hint)
    return roster


def _study_of(approval: Approval, path: Path) -> Study:
    try:
        return Study.model_validate_json(approval.study)
    except ValidationError as error:
        raise FednerError(
            f"{path} holds a study that this release of fedner cannot read",
            "Use the same release as the coordinator.",
        ) from error


def own_certificate(
    approval: Approval, name: str, kind: Kind, own_fingerprint: str, path: Path
) -> str:
    """Return the certificate of a key from an approval, checked against the key.

    Raises:
        FednerError: It is missing, somebody else's, for another key, or out of date.
    """
    again = "Send the request of this home again, and install what comes back."
    text = approval.certificates.get(kind)
    if text is None:
        raise FednerError(f"{path} holds no certificate of a {kind}", again)
    certificate = read_certificate(text, f"{path}, {kind}")
    if common_name(certificate) != name:
        raise FednerError(
            f"{path} is for {common_name(certificate)!r}; this home is of {name!r}",
            "Install it in the home that sent the request.",
        )
    if fingerprint(certificate) != own_fingerprint:
        raise FednerError(
            f"{path} is for another key (fingerprint {fingerprint(certificate)}) than that of "
            f"this home ({own_fingerprint})",
            again,
        )
    if not is_issued_by(certificate, read_certificate(approval.authority, str(path))):
        raise FednerError(f"{path}: the certificate is of another authority", again)
    if certificate.not_valid_after_utc <= datetime.now(UTC):
        raise FednerError(
            f"{path}: the certificate ended on {certificate.not_valid_after_utc:%Y-%m-%d}", again
        )
    return text
