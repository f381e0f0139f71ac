"""What the coordinator does: create a federation, approve requests, remove members."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from fedner.durable import owner_folder, write_text
from fedner.errors import FednerError
from fedner.federated.folder_lock import held_by_this_process
from fedner.runs.deployment.approvals import (
    Approval,
    FlareName,
    Host,
    Member,
    Port,
    Request,
    Roster,
    WantedCertificate,
    read_letter,
    require_sound,
    write_letter,
)
from fedner.runs.deployment.homes import FederationHome, begin_home
from fedner.runs.deployment.identity import (
    Authority,
    fingerprint,
    issue,
    make_authority,
    make_key,
    pem,
    read_certificate,
    read_key,
    read_signing_request,
    sign,
    signing_request,
)
from fedner.runs.deployment.kits import Place, write_admin_kit
from fedner.settings import Study
from fedner.settings.problems import nearest
from fedner.settings.sections import Digest, Section

CERTIFICATE_DAYS = 365
_FLARE_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$")
_HOST = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,62}[A-Za-z0-9])?$")
_RESERVED = {"server", "coordinator", "watchdog", "admin", "all"}


class FederationRecord(Section):
    """What a federation is, and who takes part."""

    fedner: Literal["federation"] = "federation"
    version: Literal[1] = 1
    name: FlareName
    host: Host
    port: Port
    study_digest: Digest
    created: datetime
    members: tuple[Member, ...] = ()

    @property
    def place(self) -> Place:
        """Where the server is."""
        return Place(self.name, self.host, self.port)

    def member(self, name: str) -> Member | None:
        """Return who has a name, or None."""
        return next((each for each in self.members if each.name == name), None)

    def with_member(self, member: Member) -> "FederationRecord":
        """Return the record with somebody new, or with the newer state of somebody."""
        others = tuple(each for each in self.members if each.name != member.name)
        members = tuple(sorted((*others, member), key=lambda each: (each.kind, each.name)))
        return self.model_copy(update={"members": members})


def federation_name(title: str) -> str:
    """Return a name for FLARE from the title of a study.

    >>> federation_name("Side effects, 3 hospitals")
    'side-effects-3-hospitals'
    """
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].strip("-") or "federation"


def name_problem(name: str) -> str | None:
    """Return what is wrong with a platform's name across machines, or None."""
    if not _FLARE_NAME.match(name):
        return "letters, digits, - and _ only, at most 63, beginning with a letter or digit"
    if name.lower() in _RESERVED:
        return f"none of {', '.join(sorted(_RESERVED))}"
    return None


def require_name(name: str, what: str) -> None:
    """Refuse a name that FLARE cannot carry.

    Raises:
        FednerError: It cannot.
    """
    if (problem := name_problem(name)) is not None:
        raise FednerError(f"{what} {name!r}; expected {problem}", "Choose another name.")


def require_host(host: str) -> None:
    """Refuse what cannot be the name or address of a machine.

    Raises:
        FednerError: It cannot.
    """
    if not _HOST.match(host):
        raise FednerError(
            f"the server's host is {host!r:.80}; expected a host name or an IPv4 address of at "
            "most 64 characters, without a port",
            "Name the host as platforms reach it, as fl.example.org.",
        )


def create_federation(
    home: FederationHome, study: Study, place: Place, days: int = CERTIFICATE_DAYS
) -> FederationRecord:
    """Make the folder of a federation: study, certificate authority, the coordinator's identity.

    Raises:
        FednerError: A name or the host does not fit, or the folder is in use.
    """
    _require_fitting(study, place)
    begin_home(home.path)
    owner_folder(home.authority.parent)
    authority = make_authority(home.authority_key, place.federation)
    write_text(home.authority, pem(authority.certificate))
    _write_study(home, study)
    record = FederationRecord(
        name=place.federation,
        host=place.host,
        port=place.port,
        study_digest=study.digest,
        created=datetime.now(UTC),
    )
    record = record.with_member(_make_coordinator(home, authority, place, days))
    write_letter(home.record, record)
    return record


def _require_fitting(study: Study, place: Place) -> None:
    require_name(place.federation, "the federation is called")
    for name in may_ask(study):
        require_name(name, "the study has a platform")
    require_host(place.host)
    if place.host in may_ask(study):
        raise FednerError(
            f"a platform and the server's host are both called {place.host!r}",
            "Rename the platform in the study.",
        )


def may_ask(study: Study) -> tuple[str, ...]:
    """Return who may be approved: the platforms, and newcomers that only receive the model."""
    return tuple(dict.fromkeys((*study.names, *study.release.newcomers)))


def _make_coordinator(
    home: FederationHome, authority: Authority, place: Place, days: int
) -> Member:
    write_admin_kit(home.admin, place)
    make_key(home.admin.key)
    write_text(home.admin.authority, pem(authority.certificate))
    return _certify_coordinator(home, authority, days)


def _certify_coordinator(home: FederationHome, authority: Authority, days: int) -> Member:
    admin = home.admin
    wanted = signing_request(read_key(admin.key), admin.name)
    request = read_signing_request(wanted, str(admin.key))
    certificate = issue(authority, request, admin.name, "coordinator", days)
    write_text(admin.certificate, pem(certificate))
    return Member(
        name=admin.name,
        kind="coordinator",
        fingerprint=fingerprint(certificate),
        expires=certificate.not_valid_after_utc,
        approved=datetime.now(UTC),
    )


def renew_coordinator(home: FederationHome, days: int = CERTIFICATE_DAYS) -> Member:
    """Renew the coordinator's own certificate, with the same key.

    Raises:
        FednerError: It is no folder of a federation, or the authority's key is missing.
    """
    with _alone(home):
        record = read_federation(home)
        member = _certify_coordinator(home, read_authority(home), days)
        write_letter(home.record, record.with_member(member))
    return member


def read_federation(home: FederationHome) -> FederationRecord:
    """Return what the coordinator's folder says.

    Raises:
        FednerError: It is no such folder, or its record is harmed.
    """
    if not home.record.is_file():
        raise FednerError(
            f"{home.path} is not the folder of a federation: it has no {home.record.name}",
            "Name it with --home, or make one: fedner federation create study.toml",
        )
    hint = "Restore it from your backup."
    return read_letter(FederationRecord, home.record, "record of a federation", hint)


def read_federation_study(home: FederationHome) -> Study:
    """Return the study of a federation.

    Raises:
        FednerError: It was altered since the federation was created.
    """
    record = read_federation(home)
    hint = (
        "Restore it from your backup. After an upgrade of fedner that knows more keys of a study, "
        "or for another study: fedner federation update study.toml"
    )
    study = read_letter(Study, home.study, "study", hint)
    if study.digest != record.study_digest:
        raise FednerError(
            f"{home.study} was altered: its digest is {study.digest}; expected "
            f"{record.study_digest}",
            hint,
        )
    return study


def read_authority(home: FederationHome) -> Authority:
    """Return the authority with its private key.

    Raises:
        FednerError: Key or certificate are missing or do not fit.
    """
    certificate = read_certificate(_text(home.authority), str(home.authority))
    key = read_key(home.authority_key)
    if fingerprint(certificate) != fingerprint(key):
        raise FednerError(
            f"{home.authority} is not the certificate of {home.authority_key}",
            "Restore both from the same backup.",
        )
    if certificate.not_valid_after_utc <= datetime.now(UTC):
        raise FednerError(
            f"the authority of {home.path} ended on {certificate.not_valid_after_utc:%Y-%m-%d}",
            "Create a new federation; every member must request a certificate again.",
        )
    return Authority(key, certificate)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise FednerError(f"{path} cannot be read: {error}", "Restore it.") from error


def approve(home: FederationHome, request: Request, days: int = CERTIFICATE_DAYS) -> Approval:
    """Give a request its certificates, and remember whom they were given.

    Asking again with the same key renews the certificate.

    Raises:
        FednerError: The study has no such platform, it was removed, or the name belongs to
            another key.
    """
    with _alone(home):
        record, study = read_federation(home), read_federation_study(home)
        authority = read_authority(home)
        _require_expected(request, study, record)
        certificates: dict[str, str] = {}
        for wanted in request.certificates:
            member, certificates[wanted.kind] = _approved(authority, wanted, record, days)
            record = record.with_member(member)
        write_letter(home.record, record)
    approval = Approval(
        kind=request.kind,
        name=request.name,
        federation=record.name,
        host=record.host,
        port=record.port,
        authority=pem(authority.certificate),
        certificates=certificates,
        study=study.canonical,
        roster=record.members,
    )
    return approval.model_copy(update={"signature": sign(authority, approval.signed_text)})


def _require_expected(request: Request, study: Study, record: FederationRecord) -> None:
    require_sound(request, "the request", "Ask the sender for the file again, unaltered.")
    if request.kind == "server":
        if request.name != record.host:
            raise FednerError(
                f"the request is of a server on {request.name!r}; this federation's server is on "
                f"{record.host!r}",
                f"Request it again there: fedner server request {record.host}",
            )
    elif request.name not in may_ask(study):
        raise FednerError(
            f"the study has no platform {request.name!r}; it has {', '.join(may_ask(study))}",
            nearest(request.name, may_ask(study)),
        )


def _approved(
    authority: Authority, wanted: WantedCertificate, record: FederationRecord, days: int
) -> tuple[Member, str]:
    request = wanted.read("the request")
    known = record.member(wanted.name)
    if known is not None and known.fingerprint != fingerprint(request):
        raise FednerError(
            f"{wanted.name} was approved with another key: fingerprint {known.fingerprint}; this "
            f"request has {fingerprint(request)}",
            "Ask the platform by telephone. A name keeps its key: the same name cannot get a "
            "certificate for another key.",
        )
    if known is not None and known.removed is not None:
        raise FednerError(
            f"{wanted.name} was removed on {known.removed:%Y-%m-%d}",
            f"First let it take part again: fedner federation restore {wanted.name}",
        )
    certificate = issue(authority, request, wanted.name, wanted.kind, days)
    member = Member(
        name=wanted.name,
        kind=wanted.kind,
        fingerprint=fingerprint(certificate),
        expires=certificate.not_valid_after_utc,
        approved=datetime.now(UTC),
    )
    return member, pem(certificate)


def signed_roster(home: FederationHome) -> Roster:
    """Return all who were approved, signed by the authority."""
    record, authority = read_federation(home), read_authority(home)
    roster = Roster(federation=record.name, written=datetime.now(UTC), members=record.members)
    return roster.model_copy(update={"signature": sign(authority, roster.signed_text)})


def replace_study(home: FederationHome, study: Study) -> FederationRecord:
    """Give a federation another study, such as one with a further platform; all keys stay.

    Raises:
        FednerError: A name does not fit.
    """
    with _alone(home):
        record = read_federation(home)
        _require_fitting(study, record.place)
        record = record.model_copy(update={"study_digest": study.digest})
        # In this order: a crash between the two leaves a study that is refused, never a wrong one.
        write_letter(home.record, record)
        _write_study(home, study)
    return record


def _write_study(home: FederationHome, study: Study) -> None:
    text = json.dumps(json.loads(study.canonical), indent=2, ensure_ascii=False)
    write_text(home.study, text + "\n")


def mark_removed(home: FederationHome, name: str, *, is_removed: bool) -> FederationRecord:
    """Remember that a platform was removed, or takes part again; the server must be told as well.

    Raises:
        FednerError: No platform of that name was approved.
    """
    with _alone(home):
        record = read_federation(home)
        member = _platform(record, name)
        if (member.removed is not None) != is_removed:
            moment = datetime.now(UTC) if is_removed else None
            record = record.with_member(member.model_copy(update={"removed": moment}))
            write_letter(home.record, record)
    return record


def _platform(record: FederationRecord, name: str) -> Member:
    member = record.member(name)
    if member is None or not member.is_platform:
        names = [each.name for each in record.members if each.is_platform]
        raise FednerError(
            f"no platform {name!r} was approved; approved are: {', '.join(names) or 'none'}",
            nearest(name, names),
        )
    return member


@contextmanager
def _alone(home: FederationHome) -> Iterator[None]:
    read_federation(home)
    with held_by_this_process(home.path):
        yield
