"""Request, approval and installation: what is accepted, what is refused, what never leaves."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedner.errors import FednerError
from fedner.runs.deployment import identity
from fedner.runs.deployment.approvals import (
    Approval,
    Request,
    WantedCertificate,
    read_approval,
    read_request,
    verified_roster,
    write_letter,
)
from fedner.runs.deployment.federation import (
    approve,
    create_federation,
    mark_removed,
    read_authority,
    read_federation,
    read_federation_study,
    replace_study,
    signed_roster,
)
from fedner.runs.deployment.homes import FederationHome, PlatformHome, ServerHome
from fedner.runs.deployment.identity import (
    Authority,
    fingerprint,
    issue,
    pem,
    read_certificate,
    read_key,
    sign,
)
from fedner.runs.deployment.kits import ALLOWED_CLASSES, Place
from fedner.runs.deployment.study_changes import study_changes
from fedner.runs.deployment.taking_part import (
    install_platform,
    installed_study,
    request_platform,
    request_server,
)
from fedner.runs.deployment.trial import Homes
from fedner.settings import Study


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def letter(folder: Path, name: str, value: object) -> Path:
    path = folder / name
    write_letter(path, value)
    return path


def asked(folder: Path, name: str = "west") -> tuple[PlatformHome, Path]:
    home = PlatformHome(folder / name)
    return home, letter(folder, f"{name}.request.json", request_platform(home, name))


def test_keys_are_the_owners_alone_and_stay_in_their_home(homes: Homes, tmp_path: Path) -> None:
    home, request = asked(tmp_path)
    answer = letter(tmp_path, "answer.json", approve(homes.federation, read_request(request)))
    install_platform(home, answer)
    keys = [path for path in files(tmp_path) if b"PRIVATE KEY" in path.read_bytes()]
    assert {path.name for path in keys} == {"authority.key", "client.key", "server.key"}
    assert {path.stat().st_mode & 0o777 for path in keys} == {0o600}
    assert len({path.read_bytes() for path in keys}) == len(keys)
    for folder in (home.path, homes.server.path, homes.federation.path):
        assert folder.stat().st_mode & 0o777 == 0o700
    secret = json.dumps(read_key(home.key).private_numbers().d)
    assert secret not in request.read_text() + answer.read_text()


def test_a_certificate_says_who_for_what_and_no_more(made: Homes) -> None:
    home = made.platforms["north"]
    certificate = read_certificate(home.certificate.read_text(), "north")
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert [each.value for each in names] == ["north"]
    assert not certificate.subject.get_attributes_for_oid(NameOID.UNSTRUCTURED_NAME)  # no role
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert not constraints.ca
    server = read_certificate(made.server.certificate.read_text(), "server")
    usage = server.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    for admin, role in ((made.federation.admin, "coordinator"), (made.server.watchdog, "watchdog")):
        held = read_certificate(admin.certificate.read_text(), role)
        roles = held.subject.get_attributes_for_oid(NameOID.UNSTRUCTURED_NAME)
        assert [each.value for each in roles] == [role]


def test_flares_own_checks_accept_the_certificates(made: Homes) -> None:
    from nvflare.fuel.sec.admin_cert import validate_admin_leaf_cert
    from nvflare.lighter.utils import load_crt, verify_cert_chain

    root = load_crt(str(made.federation.authority))
    for home in (made.server, *made.platforms.values()):
        verify_cert_chain(load_crt(str(home.certificate)), [], root)
    for admin in (made.federation.admin, made.server.watchdog):
        verify_cert_chain(load_crt(str(admin.certificate)), [], root)
        validate_admin_leaf_cert(load_crt(str(admin.certificate)))


def test_a_platform_allows_our_classes_and_nothing_of_other_peoples(made: Homes) -> None:
    for home in (made.server, *made.platforms.values()):
        local = home.workspace / "local"
        resources = json.loads((local / "resources.json").read_text())
        assert resources["class_list_enforcement_mode"] == "enforce"
        assert resources["class_allow_list"] == list(ALLOWED_CLASSES)
        permissions = json.loads((local / "authorization.json").read_text())["permissions"]
        for rights in permissions.values():
            assert rights["byoc"] == rights["shell_commands"] == rights["clone_job"] == "none"
    local = made.platforms["north"].workspace
    assert json.loads((local / "local/resources.json").read_text())["allow_log_streaming"] is False
    client = json.loads((local / "startup/fed_client.json").read_text())["client"]
    assert client["site_config"] == {"allow_log_streaming": False}
    assert client["connection_security"] == "mtls"
    permissions = json.loads((local / "local/authorization.json").read_text())["permissions"]
    assert {rights["view"] for rights in permissions.values()} == {"none"}
    assert {rights["operate"] for rights in permissions.values()} == {"none"}


def test_flares_authorizer_reads_the_rights_as_they_are_meant(made: Homes) -> None:
    from nvflare.fuel.sec.authz import AuthzContext, Person
    from nvflare.security.security import FLAuthorizer

    def allows(home: ServerHome | PlatformHome, role: str, right: str) -> bool:
        policy = json.loads((home.workspace / "local/authorization.json").read_text())
        person = Person("somebody@fedner.local", "fedner", role)
        context = AuthzContext(user=person, submitter=person, right=right)
        return FLAuthorizer("fedner", policy).authorize(context)[0]

    north = made.platforms["north"]
    for role in ("coordinator", "watchdog"):
        assert allows(made.server, role, "submit_job")
        assert allows(north, role, "submit_job")
        for right in ("byoc", "cat", "ls", "clone_job"):
            assert not allows(made.server, role, right)
            assert not allows(north, role, right)
        for right in ("show_errors", "shutdown", "sys_info", "call", "download_job"):
            assert not allows(north, role, right)
    assert allows(made.server, "coordinator", "disable_client")
    assert not allows(made.server, "watchdog", "disable_client")
    for role in ("project_admin", "lead", "north", ""):
        assert not allows(made.server, role, "submit_job")
        assert not allows(north, role, "submit_job")


def test_every_file_of_flare_stands_in_the_home(made: Homes) -> None:
    resources = (made.server.workspace / "local/resources.json").read_text()
    assert "/tmp/nvflare" not in resources  # noqa: S108
    assert str(made.server.jobs.resolve()) in resources


def altered(path: Path, key: str, value: object) -> Path:
    content = json.loads(path.read_text())
    content[key] = value
    path.write_text(json.dumps(content))
    return path


def test_an_altered_request_is_refused(homes: Homes, tmp_path: Path) -> None:
    _, path = asked(tmp_path)
    text = json.loads(path.read_text())["certificates"][0]["signing_request"]
    lines = text.splitlines()
    lines[3] = lines[3][::-1]
    wanted = [{"kind": "platform", "name": "west", "signing_request": "\n".join(lines)}]
    with pytest.raises(FednerError, match=r"no signing request|does not fit the key"):
        read_request(altered(path, "certificates", wanted))


def test_a_request_decides_nothing_but_its_key(homes: Homes, tmp_path: Path) -> None:
    """A platform that asks for somebody else's or a second certificate gets none."""
    _, path = asked(tmp_path)
    given = json.loads(path.read_text())["certificates"]
    for kind in ("server", "coordinator", "watchdog"):
        wanted = [{**given[0], "kind": kind}]
        with pytest.raises(FednerError, match="it needs the platform 'west'"):
            read_request(altered(path, "certificates", wanted))
    with pytest.raises(FednerError, match="it needs the platform 'west'"):
        read_request(altered(path, "certificates", [*given, {**given[0], "kind": "coordinator"}]))


def test_a_request_for_one_name_cannot_take_another(homes: Homes, tmp_path: Path) -> None:
    _, path = asked(tmp_path)
    given = json.loads(path.read_text())["certificates"]
    other = altered(path, "certificates", [{**given[0], "name": "coordinator@fedner.local"}])
    with pytest.raises(FednerError, match=r"'coordinator@fedner\.local'"):
        read_request(other)


def test_a_request_that_never_was_a_file_is_checked_as_well(homes: Homes, tmp_path: Path) -> None:
    _, path = asked(tmp_path)
    (wanted,) = read_request(path).certificates
    other = wanted.model_copy(update={"name": "localhost"})
    with pytest.raises(FednerError, match="it needs the platform 'west'"):
        approve(homes.federation, Request(kind="platform", name="west", certificates=(other,)))


def signed_by(authority: Authority, approval: Approval, **changes: object) -> Approval:
    changed = approval.model_copy(update=changes)
    return changed.model_copy(update={"signature": sign(authority, changed.signed_text)})


def test_a_careless_authority_is_noticed(homes: Homes, study: Study, tmp_path: Path) -> None:
    """Certificates in another's name or of another authority are refused, whoever signed them."""
    home, path = asked(tmp_path)
    approval = approve(homes.federation, read_request(path))
    authority = read_authority(homes.federation)
    request = read_request(path).certificates[0].read("west")
    wrong = issue(authority, request, "south", "platform", 10)
    answer = signed_by(authority, approval, certificates={"platform": pem(wrong)})
    with pytest.raises(FednerError, match="is for 'south'"):
        install_platform(home, letter(tmp_path, "south.json", answer))
    other = FederationHome(tmp_path / "other")
    create_federation(other, study, Place("side-effects", "localhost", 1))
    stranger = issue(read_authority(other), request, "west", "platform", 10)
    answer = signed_by(authority, approval, certificates={"platform": pem(stranger)})
    with pytest.raises(FednerError, match="the certificate is of another authority"):
        install_platform(home, letter(tmp_path, "stranger.json", answer))
    answer = signed_by(authority, approval, certificates={})
    with pytest.raises(FednerError, match="holds no certificate of a platform"):
        install_platform(home, letter(tmp_path, "none.json", answer))


def test_an_empty_folder_becomes_the_owners_alone(tmp_path: Path, small_keys: None) -> None:
    (tmp_path / "west").mkdir(mode=0o755)
    home, _ = asked(tmp_path)
    assert home.path.stat().st_mode & 0o777 == 0o700


def test_a_weak_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "KEY_BITS", 1024)
    _, path = asked(tmp_path)
    monkeypatch.setattr(identity, "KEY_BITS", 2048)
    with pytest.raises(FednerError, match="at least 2048 bits"):
        read_request(path)


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b"[1]", b'{"fedner": "approval"}'])
def test_a_file_that_is_no_request_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(FednerError, match=r"x\.json is no request of fedner"):
        read_request(path)
    with pytest.raises(FednerError, match=r"nowhere\.json cannot be read"):
        read_request(tmp_path / "nowhere.json")


def test_only_platforms_of_the_study_are_approved(homes: Homes, tmp_path: Path) -> None:
    _, path = asked(tmp_path, "nort")
    with pytest.raises(FednerError, match="the study has no platform 'nort'") as caught:
        approve(homes.federation, read_request(path))
    assert "north" in caught.value.hint


def test_a_name_keeps_its_key(homes: Homes, tmp_path: Path) -> None:
    """Somebody else's request in the name of a platform that was approved is refused."""
    _, path = asked(tmp_path, "north")
    with pytest.raises(FednerError, match="approved with another key"):
        approve(homes.federation, read_request(path))


def test_the_same_key_is_renewed(homes: Homes, tmp_path: Path) -> None:
    north = homes.platforms["north"]
    before = read_certificate(north.certificate.read_text(), "north")
    request = request_platform(north, "north")
    path = letter(tmp_path, "again.json", approve(homes.federation, request, days=700))
    install_platform(north, path)
    after = read_certificate(north.certificate.read_text(), "north")
    assert fingerprint(after) == fingerprint(before)
    assert after.not_valid_after_utc > before.not_valid_after_utc + timedelta(days=300)


def test_a_server_elsewhere_is_refused(homes: Homes, tmp_path: Path) -> None:
    request = request_server(ServerHome(tmp_path / "other"), "elsewhere.org")
    with pytest.raises(FednerError, match=r"'elsewhere\.org'; this federation's server is on"):
        approve(homes.federation, request)


@pytest.mark.parametrize(
    ("key", "value"),
    [("host", "evil.org"), ("port", 2), ("study", "{}"), ("roster", []), ("federation", "other")],
)
def test_an_altered_approval_is_refused(
    homes: Homes, tmp_path: Path, key: str, value: object
) -> None:
    home, path = asked(tmp_path)
    answer = letter(tmp_path, "answer.json", approve(homes.federation, read_request(path)))
    with pytest.raises(FednerError, match="was altered"):
        install_platform(home, altered(answer, key, value))
    assert not home.certificate.exists()
    assert not home.approval.exists()


def test_the_authority_can_be_compared(homes: Homes, tmp_path: Path) -> None:
    home, path = asked(tmp_path)
    answer = letter(tmp_path, "answer.json", approve(homes.federation, read_request(path)))
    with pytest.raises(FednerError, match="of an authority with the fingerprint"):
        install_platform(home, answer, "0" * 64)
    right = fingerprint(read_certificate(homes.federation.authority.read_text(), "authority"))
    install_platform(home, answer, right)


def test_an_approval_belongs_to_the_home_that_asked(homes: Homes, tmp_path: Path) -> None:
    home, path = asked(tmp_path)
    answer = letter(tmp_path, "answer.json", approve(homes.federation, read_request(path)))
    with pytest.raises(FednerError, match="the home of the platform 'north'"):
        install_platform(homes.platforms["north"], answer)
    shutil.rmtree(home.path)
    asked(tmp_path)  # another key in the same name
    with pytest.raises(FednerError, match="for another key"):
        install_platform(home, answer)


def test_another_federation_needs_another_home(homes: Homes, study: Study, tmp_path: Path) -> None:
    other = FederationHome(tmp_path / "other")
    create_federation(other, study, Place("other", "localhost", 8003))
    north = homes.platforms["north"]
    answer = letter(tmp_path, "answer.json", approve(other, request_platform(north, "north")))
    with pytest.raises(FednerError, match="of another federation"):
        install_platform(north, answer)


def test_a_certificate_that_ended_is_not_installed(
    homes: Homes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, path = asked(tmp_path)
    answer = letter(tmp_path, "answer.json", approve(homes.federation, read_request(path), days=1))

    class Later(datetime):
        @classmethod
        def now(cls, _tz: object = None) -> datetime:
            return datetime(2126, 1, 1, tzinfo=UTC)

    monkeypatch.setattr("fedner.runs.deployment.approvals.datetime", Later)
    with pytest.raises(FednerError, match="the certificate ended on"):
        install_platform(home, answer)


def test_a_key_that_others_can_read_is_refused(homes: Homes) -> None:
    north = homes.platforms["north"]
    north.key.chmod(0o640)
    with pytest.raises(FednerError, match=r"can be read by others \(mode 0640\)"):
        request_platform(north, "north")


def test_a_removed_platform_is_not_renewed_until_it_is_restored(homes: Homes) -> None:
    mark_removed(homes.federation, "north", is_removed=True)
    request = request_platform(homes.platforms["north"], "north")
    with pytest.raises(FednerError, match="north was removed on") as caught:
        approve(homes.federation, request)
    assert "fedner federation restore north" in caught.value.hint
    mark_removed(homes.federation, "north", is_removed=False)
    approve(homes.federation, request)
    with pytest.raises(FednerError, match=r"no platform 'watchdog@fedner\.local' was approved"):
        mark_removed(homes.federation, "watchdog@fedner.local", is_removed=True)


def test_a_platform_can_be_added_later(homes: Homes, study: Study, tmp_path: Path) -> None:
    _, path = asked(tmp_path, "east")
    with pytest.raises(FednerError, match="no platform 'east'"):
        approve(homes.federation, read_request(path))
    east = study.platforms[0].model_copy(update={"name": "east"})
    grown = study.model_copy(update={"platforms": (*study.platforms, east)})
    replace_study(homes.federation, grown)
    approval = approve(homes.federation, read_request(path))
    assert read_federation_study(homes.federation).digest == grown.digest
    assert {each.name for each in approval.roster} >= {"east", "north", "south"}


def test_another_study_is_installed_only_where_it_was_accepted(
    homes: Homes, study: Study, tmp_path: Path
) -> None:
    north = homes.platforms["north"]
    request = letter(tmp_path, "north.request.json", request_platform(north, "north"))
    training = study.training.model_copy(update={"rounds": 77})
    replace_study(homes.federation, study.model_copy(update={"training": training}))
    path = letter(tmp_path, "new.json", approve(homes.federation, read_request(request)))
    kept = {each: each.read_bytes() for each in files(north.path)}
    with pytest.raises(FednerError, match=r"what changed:\n  training\.rounds: 2 -> 77") as caught:
        install_platform(north, path)
    assert f"install {path} --home {north.path} --accept-study" in caught.value.hint
    assert {each: each.read_bytes() for each in files(north.path)} == kept, "nothing is installed"
    _, changes = install_platform(north, path, accepts_study=True)
    assert [each.key for each in changes] == ["training.rounds"]
    assert installed_study(north).training.rounds == 77
    assert install_platform(north, path)[1] == (), "renewing brings nothing new"


def test_every_change_of_a_study_is_shown(study: Study) -> None:
    first, *rest = study.platforms
    east = first.model_copy(update={"name": "east"})
    larger = first.model_copy(update={"public_size": 12345})
    changed = study.model_copy(update={"platforms": (*rest, larger, east), "title": "b\nc"})
    found = {each.key: each for each in study_changes(study, changed)}
    assert str(found[f"platforms.{first.name}.public_size"]).endswith(" -> 12345")
    assert found["platforms.east.public_size"].before == "nothing"
    assert str(found["title"]).endswith(r' -> "b\nc"'), "on one line"
    assert study_changes(study, study) == ()
    turned = study.model_copy(update={"platforms": study.platforms[::-1]})
    assert [each.key for each in study_changes(study, turned)] == ["platforms (in order)"]


def test_an_altered_study_is_noticed(homes: Homes) -> None:
    altered(homes.federation.study, "seed", 99)
    with pytest.raises(FednerError, match="was altered: its digest is") as caught:
        read_federation_study(homes.federation)
    assert "fedner federation update study.toml" in caught.value.hint, "after an upgrade"


def test_everybody_gets_the_study(made: Homes, study: Study) -> None:
    assert read_federation_study(made.federation).digest == study.digest
    for home in (made.server, *made.platforms.values()):
        assert installed_study(home).digest == study.digest


def test_a_roster_is_signed(homes: Homes, tmp_path: Path) -> None:
    approval = read_approval(homes.platforms["north"].approval)
    text = signed_roster(homes.federation).model_dump_json()
    names = {each.name for each in verified_roster(text, approval, "the roster").members}
    assert {"north", "south", "localhost"} <= names
    with pytest.raises(FednerError, match="not signed by this federation's authority"):
        verified_roster(text.replace('"south"', '"south2"'), approval, "the roster")


@pytest.mark.parametrize("name", ["a b", "a.b", "server", "Coordinator", "-a", "a" * 64, "ä"])
def test_names_that_flare_cannot_carry_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FednerError, match="the platform is called"):
        request_platform(PlatformHome(tmp_path / "home"), name)
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("host", ["", "a:8002", "https://a", "::1", "a" * 65])
def test_hosts_that_flare_cannot_carry_are_refused(study: Study, tmp_path: Path, host: str) -> None:
    with pytest.raises(FednerError, match="the server's host is"):
        create_federation(FederationHome(tmp_path / "f"), study, Place("x", host, 8002))
    assert not (tmp_path / "f").exists()


def test_nothing_is_overwritten(homes: Homes, study: Study, tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="already there and not an empty folder"):
        create_federation(homes.federation, study, Place("x", "localhost", 8002))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(FednerError, match="already there and not an empty folder"):
        request_platform(PlatformHome(tmp_path / "mine"), "west")
    with pytest.raises(FednerError, match="is the home of the platform 'north'"):
        request_platform(homes.platforms["north"], "west")


def test_a_record_that_was_cut_short_is_named(homes: Homes) -> None:
    path = homes.federation.record
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(FednerError, match=r"federation\.json is no record of a federation"):
        read_federation(homes.federation)


def test_a_crash_while_asking_can_be_repeated(tmp_path: Path, small_keys: None) -> None:
    """A home whose key was not made yet, since the machine was switched off, gets it now."""
    home, _ = asked(tmp_path)
    home.key.unlink()
    request = request_platform(home, "west")
    assert isinstance(request, Request)
    assert isinstance(request.certificates[0], WantedCertificate)
    assert read_key(home.key)
