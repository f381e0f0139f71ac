"""Guards of requests, approvals, the federation's folder and pins, one line each, made anew."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.runs.deployment import federation as coordinating
from fedner.runs.deployment.approvals import (
    read_approval,
    read_request,
    verified_roster,
    write_letter,
)
from fedner.runs.deployment.creation import (
    Approved,
    Created,
    approve_file,
    create_with_server,
)
from fedner.runs.deployment.federation import (
    approve,
    create_federation,
    federation_name,
    mark_removed,
    read_authority,
    read_federation,
    renew_coordinator,
    replace_study,
    signed_roster,
)
from fedner.runs.deployment.homes import WATCHDOG, FederationHome, PlatformHome, ServerHome
from fedner.runs.deployment.identity import common_name, fingerprint, read_certificate, sign
from fedner.runs.deployment.kits import Place
from fedner.runs.deployment.pins import roster_fingerprints, unpin
from fedner.runs.deployment.taking_part import (
    install_platform,
    install_server,
    installed,
    request_platform,
    request_server,
)
from fedner.runs.deployment.trial import Homes
from fedner.settings import Study

HERE = Place("side-effects", "localhost", 1)


@pytest.fixture(scope="module")
def created(study: Study, tmp_path_factory: pytest.TempPathFactory) -> FederationHome:
    """A federation in which nobody was approved yet."""
    home = FederationHome(tmp_path_factory.mktemp("created") / "federation")
    create_federation(home, study, HERE)
    return home


@pytest.fixture
def fresh(created: FederationHome, tmp_path: Path, small_keys: None) -> FederationHome:
    shutil.copytree(created.path, tmp_path / "federation")
    return FederationHome(tmp_path / "federation")


def moment(value: datetime) -> type[datetime]:
    """Return a clock that stands."""

    class Standing(datetime):
        @classmethod
        def now(cls, _tz: object = None) -> datetime:
            return value

    return Standing


def named(study: Study, name: str) -> Study:
    other = study.platforms[0].model_copy(update={"name": name})
    return study.model_copy(update={"platforms": (*study.platforms, other)})


# The coordinator.


@pytest.mark.parametrize("name", ["a b", "server", ""])
def test_a_federation_of_a_wrong_name_is_not_made(study: Study, tmp_path: Path, name: str) -> None:
    home = FederationHome(tmp_path / "f")
    with pytest.raises(FednerError, match="the federation is called"):
        create_federation(home, study, Place(name, "localhost", 1))
    with pytest.raises(FednerError, match="the study has a platform"):
        create_federation(home, named(study, "admin"), HERE)
    with pytest.raises(FednerError, match="a platform and the server's host are both called"):
        create_federation(home, study, Place("x", study.names[0], 1))
    assert not home.path.exists()


def test_a_study_of_wrong_names_replaces_none(fresh: FederationHome, study: Study) -> None:
    before = fresh.study.read_bytes()
    with pytest.raises(FednerError, match="the study has a platform"):
        replace_study(fresh, named(study, "admin"))
    assert fresh.study.read_bytes() == before


def test_a_title_without_letters_still_has_a_name() -> None:
    assert federation_name("!!!") == "federation"
    assert federation_name("A b") == "a-b"


def test_the_coordinator_can_go_to_the_server_at_once(created: FederationHome) -> None:
    admin = created.admin
    assert admin.authority.read_bytes() == created.authority.read_bytes()
    assert common_name(read_certificate(admin.certificate.read_text(), "own")) == admin.name
    assert list((admin.kit / "startup").glob("*.json"))


STEPS: dict[str, Callable[[FederationHome, Study], object]] = {
    "renew": lambda home, _: renew_coordinator(home),
    "approve": lambda home, _: approve(
        home, request_platform(PlatformHome(home.path.parent / "north"), "north")
    ),
    "update": replace_study,
    "remove": lambda home, _: mark_removed(home, "north", is_removed=True),
}


@pytest.mark.parametrize("step", STEPS)
def test_one_process_at_a_time_writes_the_record(
    fresh: FederationHome, study: Study, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    STEPS["approve"](fresh, study)
    held: list[Path] = []

    @contextmanager
    def holding(folder: Path) -> Iterator[None]:
        held.append(folder)
        yield
        held.remove(folder)

    def write(path: Path, value: object) -> None:
        assert held == [fresh.path]
        write_letter(path, value)  # type: ignore[arg-type]

    monkeypatch.setattr(coordinating, "held_by_this_process", holding)
    monkeypatch.setattr(coordinating, "write_letter", write)
    STEPS[step](fresh, study)
    assert held == []


def test_an_authority_whose_files_do_not_fit_signs_nothing(
    fresh: FederationHome, tmp_path: Path, study: Study
) -> None:
    other = FederationHome(tmp_path / "other")
    create_federation(other, study, HERE)
    own = fresh.authority.read_bytes()
    fresh.authority.write_bytes(other.authority.read_bytes())
    with pytest.raises(FednerError, match="is not the certificate of"):
        read_authority(fresh)
    fresh.authority.write_bytes(own)
    read_authority(fresh)
    fresh.authority.unlink()
    with pytest.raises(FednerError, match=r"rootCA\.pem cannot be read|cannot be read"):
        read_authority(fresh)


def test_an_authority_that_ends_signs_nothing(
    created: FederationHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = read_certificate(created.authority.read_text(), "authority").not_valid_after_utc
    monkeypatch.setattr(coordinating, "datetime", moment(ends))
    with pytest.raises(FednerError, match=r"the authority of .* ended on"):
        read_authority(created)


def test_nobody_is_removed_who_was_not_approved(fresh: FederationHome, study: Study) -> None:
    with pytest.raises(FednerError, match="approved are: none"):
        mark_removed(fresh, "north", is_removed=True)
    STEPS["approve"](fresh, study)
    with pytest.raises(FednerError, match="no platform 'south' was approved; approved are: north"):
        mark_removed(fresh, "south", is_removed=True)


def test_a_servers_folder_that_is_in_use_is_left_alone(
    study: Study, tmp_path: Path, small_keys: None
) -> None:
    server = tmp_path / "server"
    server.mkdir()
    (server / "thesis.txt").write_text("mine")
    place = {"host": "localhost", "port": 1, "server": server}
    with pytest.raises(FednerError, match="is already there and not empty"):
        create_with_server(tmp_path / "federation", study, **place)  # type: ignore[arg-type]
    assert not (tmp_path / "federation").exists()
    (server / "thesis.txt").unlink()
    home = tmp_path / "federation"
    made = create_with_server(home, study, name="ours", days=40, **place)  # type: ignore[arg-type]
    approval = installed(ServerHome(server))
    assert (approval.host, approval.place.federation) == ("localhost", "ours")
    authority = fingerprint(read_certificate(approval.authority, "the approval"))
    assert made == Created("ours", study.digest, authority, home, server, tuple(study.names))
    ends = read_certificate(approval.certificates["server"], "it").not_valid_after_utc
    assert 39 <= (ends - datetime.now(UTC)).days <= 40


def test_a_request_of_another_key_than_was_read_out_is_not_approved(
    fresh: FederationHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`fedner federation approve --fingerprint`: what was said on the telephone decides."""
    monkeypatch.chdir(tmp_path)
    path, target = tmp_path / "north.request.json", tmp_path / "sent.json"
    for name in ("south", "north"):
        request = request_platform(PlatformHome(tmp_path / name), name)
        write_letter(tmp_path / f"{name}.request.json", request)
    own, other = (
        fingerprint(read_request(tmp_path / f"{name}.request.json").certificates[0].read("it"))
        for name in ("north", "south")
    )
    with pytest.raises(FednerError, match=f"fingerprint {own}; expected {other}"):
        approve_file(fresh.path, path, out=target, fingerprint=other)
    assert not target.exists()
    assert all(each.name != "north" for each in read_federation(fresh).members)
    for said in (None, own, own.upper()):
        found = approve_file(fresh.path, path, out=target, fingerprint=said, days=40)
        ends = datetime.strptime(found.expires, "%Y-%m-%d").replace(tzinfo=UTC)
        assert 38 <= (ends - datetime.now(UTC)).days <= 40
        assert found == Approved("north", "platform", own, found.expires, target)
    install_platform(PlatformHome(tmp_path / "north"), target)
    assert approve_file(fresh.path, path).approval == Path("north.approval.json")
    assert Path("north.approval.json").is_file()


# Letters.


def test_what_is_wrong_in_a_letter_is_named(fresh: FederationHome, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("[1]")
    with pytest.raises(FednerError, match="the file: "):
        read_request(path)
    request = request_platform(PlatformHome(tmp_path / "north"), "north")
    write_letter(path, request)
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"kind": 7}))
    with pytest.raises(FednerError, match="fedner: kind: "):
        read_request(path)
    path.write_text(json.dumps(content | {"certificates": []}))
    with pytest.raises(FednerError, match="asks for certificates of nobody; it needs"):
        read_request(path)


def test_a_letter_may_be_written_in_another_order(homes: Homes, tmp_path: Path) -> None:
    """Its signature is of what it says: `jq -S` and the like change nothing of that."""
    approval = installed(homes.server)
    path = tmp_path / "sorted.json"
    content = json.loads(homes.server.approval.read_text())
    content["certificates"] = dict(reversed(content["certificates"].items()))
    path.write_text(json.dumps(dict(reversed(content.items()))))
    again = read_approval(path)
    assert again == approval
    assert again.place == Place(approval.federation, approval.host, approval.port)


def test_a_study_that_cannot_be_read_is_not_installed(
    fresh: FederationHome, tmp_path: Path
) -> None:
    home = PlatformHome(tmp_path / "north")
    approval = approve(fresh, request_platform(home, "north"))
    other = approval.model_copy(update={"study": '{"of": "a later release"}'})
    other = other.model_copy(update={"signature": sign(read_authority(fresh), other.signed_text)})
    write_letter(tmp_path / "a.json", other)
    with pytest.raises(FednerError, match="holds a study that this release of fedner cannot read"):
        read_approval(tmp_path / "a.json")


def test_a_certificate_has_ended_at_its_last_moment(
    fresh: FederationHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = PlatformHome(tmp_path / "north")
    approval = approve(fresh, request_platform(home, "north"))
    write_letter(tmp_path / "a.json", approval)
    ends = read_certificate(approval.certificates["platform"], "own").not_valid_after_utc
    monkeypatch.setattr("fedner.runs.deployment.approvals.datetime", moment(ends))
    with pytest.raises(FednerError, match="the certificate ended on"):
        install_platform(home, tmp_path / "a.json")


def test_a_roster_is_of_this_federation(homes: Homes) -> None:
    approval = read_approval(homes.platforms["north"].approval)
    with pytest.raises(FednerError, match="the roster is not a roster of fedner: "):
        verified_roster("{", approval, "the roster")
    other = signed_roster(homes.federation).model_copy(update={"federation": "another"})
    signature = sign(read_authority(homes.federation), other.signed_text)
    text = other.model_copy(update={"signature": signature}).model_dump_json()
    with pytest.raises(FednerError, match="not signed by this federation's authority"):
        verified_roster(text, approval, "the roster")


# Those who take part.


def test_a_server_asks_under_one_sound_name(tmp_path: Path, small_keys: None) -> None:
    home = ServerHome(tmp_path / "server")
    with pytest.raises(FednerError, match="the server's host is"):
        request_server(home, "https://a")
    assert not home.path.exists()
    request_server(home, "localhost")
    with pytest.raises(FednerError, match="is the home of the server 'localhost', not of 'other'"):
        request_server(home, "other")


def test_what_is_installed_is_all_that_a_start_needs(fresh: FederationHome, tmp_path: Path) -> None:
    north, server = PlatformHome(tmp_path / "north"), ServerHome(tmp_path / "server")
    for home, kind in ((north, "platform"), (server, "server")):
        with pytest.raises(FednerError, match="is not the home of a"):
            installed(home)
        asked = request_platform(north, "north") if kind == "platform" else None
        request = asked or request_server(server, "localhost")
        with pytest.raises(FednerError, match="no approval is installed") as caught:
            installed(home)
        assert f"fedner {kind} install" in caught.value.hint
        write_letter(tmp_path / f"{kind}.json", approve(fresh, request))
    install_platform(north, tmp_path / "platform.json")
    install_server(server, tmp_path / "server.json")
    assert (north.startup / "fed_client.json").is_file()
    assert (server.startup / "fed_server.json").is_file()
    watchdog = server.watchdog
    assert list((watchdog.kit / "startup").glob("*.json"))
    assert common_name(read_certificate(watchdog.certificate.read_text(), "own")) == WATCHDOG
    for each in (north.authority, server.authority, watchdog.authority):
        assert each.read_bytes() == fresh.authority.read_bytes()


def test_a_servers_home_has_one_federation(homes: Homes, study: Study, tmp_path: Path) -> None:
    other = FederationHome(tmp_path / "other")
    create_federation(other, study, HERE)
    approval = approve(other, request_server(homes.server, "localhost"))
    write_letter(tmp_path / "a.json", approval)
    with pytest.raises(FednerError, match="is of another federation"):
        install_server(homes.server, tmp_path / "a.json")


# Pins.


def test_pins_are_those_of_a_home(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="is not the home of a platform"):
        unpin(PlatformHome(tmp_path), "south")


def test_a_removed_platform_has_no_fingerprint_in_a_roster(homes: Homes) -> None:
    assert set(roster_fingerprints(read_federation(homes.federation).members)) == {"north", "south"}
    mark_removed(homes.federation, "south", is_removed=True)
    assert set(roster_fingerprints(read_federation(homes.federation).members)) == {"north"}
