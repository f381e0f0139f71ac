"""`fedner platform check`: every check says what is wrong when something is wrong."""

import shutil
import socket
import ssl
import threading
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.runs.deployment import approvals, certificate_check, checks, clock
from fedner.runs.deployment.approvals import write_letter
from fedner.runs.deployment.checks import Check, check_platform
from fedner.runs.deployment.expiry import Expiry, expiry, expiry_warning
from fedner.runs.deployment.federation import approve, mark_removed, signed_roster
from fedner.runs.deployment.homes import PlatformHome
from fedner.runs.deployment.identity import fingerprint, read_key
from fedner.runs.deployment.kits import Place
from fedner.runs.deployment.pins import (
    job_pin_problems,
    parse_fingerprint,
    pin,
    pin_problems,
    pinned_names,
    read_pins,
    roster_fingerprints,
    spoken,
    unpin,
)
from fedner.runs.deployment.starting import start_platform
from fedner.runs.deployment.taking_part import install_platform, installed, request_platform
from fedner.runs.deployment.trial import Homes

SETTINGS = """
name = "north"
data = "synthetic:case-reports"
num_sentences = 60
label_map = { Drug = "", Dosage = "" }
"""


@pytest.fixture
def north(homes: Homes) -> PlatformHome:
    return homes.platforms["north"]


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "platform.toml"
    path.write_text(SETTINGS)
    return path


def found(checks: list[Check], subject: str) -> list[tuple[str, str]]:
    return [(each.result, each.found) for each in checks if each.subject == subject]


def results(checks: list[Check]) -> dict[str, str]:
    return {each.subject: each.result for each in checks}


@contextmanager
def answering(context: ssl.SSLContext) -> Iterator[int]:
    """A server that does the TLS handshake and waits, as FLARE's does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        over = threading.Event()

        def serve() -> None:
            plain, _ = listener.accept()
            with plain:
                try:
                    with context.wrap_socket(plain, server_side=True):
                        over.wait(5)
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            thread.join()


def server_context(homes: Homes, authority: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(homes.server.certificate, homes.server.key)
    context.load_verify_locations(authority or homes.server.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def connection(home: PlatformHome, port: int) -> Check:
    (check,) = checks.check_connection(home, Place("side-effects", "localhost", port))
    return check


def test_all_is_looked_at(north: PlatformHome, settings: Path) -> None:
    found = check_platform(north, settings)
    result = results(found)
    subjects = "home certificate clock connection settings data labels policy pins disk"
    assert list(result) == subjects.split()
    assert result["connection"] == "problem"  # no server was started
    assert {result[name] for name in ("home", "certificate", "data", "labels", "policy")} == {"ok"}
    (policy,) = [each.found for each in found if each.subject == "policy"]
    assert "at most 1,000 updates leave for it" in policy


def test_the_connection_is_made_with_both_certificates(homes: Homes, north: PlatformHome) -> None:
    with answering(server_context(homes)) as port:
        assert connection(north, port).result == "ok"


def test_somebody_elses_server_is_noticed(homes: Homes, north: PlatformHome) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    other = homes.platforms["south"]  # a platform that plays the server
    context.load_cert_chain(other.certificate, other.key)
    with answering(context) as port:
        check = connection(north, port)
    assert check.result == "problem"
    assert "is not this federation's server" in check.found


def test_a_server_that_refuses_the_certificate_is_noticed(
    homes: Homes, north: PlatformHome
) -> None:
    # It trusts nobody but itself: the platform's certificate is of an unknown authority.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(homes.server.certificate, homes.server.key)
    context.verify_mode = ssl.CERT_REQUIRED
    with answering(context) as port:
        check = connection(north, port)
    assert check.result == "problem"
    assert "ended the connection" in check.found


def test_a_home_open_to_others_is_a_problem(north: PlatformHome) -> None:
    north.path.chmod(0o755)
    assert results(check_platform(north))["home"] == "problem"


def test_a_home_without_an_approval_is_a_problem(tmp_path: Path, small_keys: None) -> None:
    home = PlatformHome(tmp_path / "west")
    request_platform(home, "west")
    assert results(check_platform(home)) == {"home": "ok", "approval": "problem"}
    assert results(check_platform(PlatformHome(tmp_path / "none")))["home"] == "problem"


def test_a_certificate_of_another_key_is_a_problem(homes: Homes, north: PlatformHome) -> None:
    shutil.copy(homes.platforms["south"].certificate, north.certificate)
    assert results(check_platform(north))["certificate"] == "problem"


def test_a_certificate_of_another_authority_is_a_problem(homes: Homes, north: PlatformHome) -> None:
    shutil.copy(homes.server.certificate, north.authority)
    assert results(check_platform(north))["certificate"] == "problem"


@pytest.mark.parametrize(("days", "result"), [(10, "warning"), (400, "ok")])
def test_a_certificate_that_ends_soon_is_said(
    homes: Homes, north: PlatformHome, tmp_path: Path, days: int, result: str
) -> None:
    path = tmp_path / "renewed.json"
    write_letter(path, approve(homes.federation, request_platform(north, "north"), days))
    install_platform(north, path)
    assert results(check_platform(north))["certificate"] == result


def test_a_certificate_that_ended_is_a_problem_and_starts_nothing(
    north: PlatformHome, settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certificate_check, "expiry", lambda ends: Expiry(ends, -1))
    assert results(check_platform(north))["certificate"] == "problem"
    with pytest.raises(FednerError, match=r"ends on .* \(ended\)") as caught:
        start_platform(north, settings)
    assert "fedner platform request north" in caught.value.hint


def test_a_clock_before_the_approval_is_a_problem(
    north: PlatformHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Early(datetime):
        @classmethod
        def now(cls, _tz: object = None) -> datetime:
            return datetime(2020, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(checks, "datetime", Early)
    assert results(check_platform(north))["clock"] == "problem"


@pytest.mark.parametrize(("says", "result"), [(True, "ok"), (None, "ok"), (False, "warning")])
def test_a_clock_that_nobody_sets_is_said(
    north: PlatformHome, monkeypatch: pytest.MonkeyPatch, says: bool | None, result: str
) -> None:
    monkeypatch.setattr(checks, "is_synchronised", lambda: says)
    assert results(check_platform(north))["clock"] == result


def test_the_system_is_asked_about_its_clock() -> None:
    assert clock.is_synchronised() in (True, False, None)


@pytest.mark.parametrize(
    ("line", "subject"),
    [
        ('data = "nowhere/"', "data"),
        ('label_map = { Drug = "Medicine" }', "labels"),
        ("[policy]\nmax_rounds = 1", "policy"),
        ('[policy]\nalgorithms = ["scaffold"]', "policy"),
        ('name = "south"', "settings"),
        ("typo = 1", "settings"),
    ],
)
def test_settings_that_do_not_fit_are_named(
    north: PlatformHome, settings: Path, line: str, subject: str
) -> None:
    key = line.split(" ", maxsplit=1)[0]
    kept = [each for each in SETTINGS.splitlines() if not each.startswith(key)]
    settings.write_text("\n".join([*kept, line]))
    assert results(check_platform(north, settings))[subject] == "problem"


@pytest.mark.parametrize(("free", "result"), [(10**8, "problem"), (10**9, "warning")])
def test_a_full_disk_is_said(
    north: PlatformHome, monkeypatch: pytest.MonkeyPatch, free: int, result: str
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**12, 0, free))
    assert results(check_platform(north))["disk"] == result


def test_another_key_in_a_pinned_name_is_a_problem(homes: Homes, north: PlatformHome) -> None:
    """Whoever holds the authority invents a platform `south`: its pin tells."""
    roster = roster_fingerprints(approvals_of(homes))
    assert pin(north, "south", spoken(roster["south"]).upper()) is None
    pin(north, "west", "1" * 64)
    assert not [each for each in found(pins_of(homes, north), "pins") if each[0] == "problem"]
    old = pin(north, "south", "0" * 64)
    assert old == roster["south"]
    said = found(pins_of(homes, north), "pins")
    assert said[0][0] == "problem"
    assert roster["south"] in said[0][1]


def approvals_of(homes: Homes) -> tuple[approvals.Member, ...]:
    return signed_roster(homes.federation).members


def pins_of(homes: Homes, home: PlatformHome) -> list[Check]:
    path = home.path / "roster.json"
    write_letter(path, signed_roster(homes.federation))
    return check_platform(home, None, path)


def test_a_roster_of_somebody_else_is_refused(north: PlatformHome, tmp_path: Path) -> None:
    path = tmp_path / "roster.json"
    path.write_text('{"fedner": "roster"}')
    assert results(check_platform(north, None, path))["pins"] == "problem"


def test_a_platform_that_was_removed_learns_it(homes: Homes, north: PlatformHome) -> None:
    mark_removed(homes.federation, "north", is_removed=True)
    assert ("problem", "north was removed from the federation") in found(
        pins_of(homes, north), "pins"
    )


def test_pins_are_compared_with_a_roster() -> None:
    roster = {"a": "1" * 64, "b": "2" * 64, "c": "3" * 64}
    names = ["a", "b", "c", "d"]
    pins = {"b": "2" * 64, "c": "9" * 64}
    loose = pin_problems(pins, "a", names, roster, all_pinned=False)
    assert [each.name for each in loose] == ["c"]
    strict = pin_problems(pins, "a", names, roster, all_pinned=True)
    assert [each.name for each in strict] == ["c", "d"]
    assert pinned_names(pins, roster) == {"b"}
    hidden = pin_problems({"d": "4" * 64}, "a", ["a", "d"], roster, all_pinned=True)
    assert [str(each) for each in hidden] == ["d is pinned, but the roster does not show its key"]


def test_a_platform_that_wants_pins_has_a_problem_without(
    homes: Homes, north: PlatformHome, settings: Path
) -> None:
    assert results(check_platform(north, settings))["pins"] == "warning"
    settings.write_text(SETTINGS + "[policy]\npinned = true\n")
    result = results(check_platform(north, settings))
    assert (result["pins"], result["policy"]) == ("problem", "problem")
    pin(north, "south", fingerprint(read_key(homes.platforms["south"].key)))
    pin(north, "west", "1" * 64)
    assert results(check_platform(north, settings))["policy"] == "ok"


def test_the_roster_of_a_job_is_compared(homes: Homes, north: PlatformHome) -> None:
    roster = signed_roster(homes.federation).model_dump_json()
    names = ["north", "south"]
    assert job_pin_problems(north, names, roster, all_pinned=False) == []
    assert [str(each) for each in job_pin_problems(north, names, roster, all_pinned=True)] == [
        "south is not pinned"
    ]
    pin(north, "south", fingerprint(read_key(homes.platforms["south"].key)))
    assert job_pin_problems(north, names, roster, all_pinned=True) == []
    pin(north, "south", "0" * 64)
    (problem,) = job_pin_problems(north, names, roster, all_pinned=False)
    assert problem.is_other
    with pytest.raises(FednerError, match="the job is not signed by this federation's authority"):
        job_pin_problems(north, names, roster.replace("platform", "server"), all_pinned=False)


def test_pins_can_be_forgotten(north: PlatformHome) -> None:
    pin(north, "south", "ab" * 32)
    assert read_pins(north) == {"south": "ab" * 32}
    with pytest.raises(FednerError, match="no fingerprint of 'soth' is pinned"):
        unpin(north, "soth")
    unpin(north, "south")
    assert read_pins(north) == {}


def test_what_cannot_be_pinned_is_refused(north: PlatformHome) -> None:
    with pytest.raises(FednerError, match="is this platform itself"):
        pin(north, "north", "ab" * 32)
    with pytest.raises(FednerError, match="expected 64 hexadecimal digits, found 63"):
        pin(north, "south", "a" * 63)
    own = fingerprint(read_key(north.key))
    assert parse_fingerprint(spoken(own)) == own == parse_fingerprint(own.upper())


def test_a_harmed_list_of_pins_accepts_nobody(north: PlatformHome) -> None:
    north.pins.write_text("{")
    with pytest.raises(FednerError, match=r"pins\.json is no list of pins"):
        read_pins(north)
    assert results(check_platform(north))["pins"] == "problem"


def test_the_roster_of_an_approval_is_what_was_known_then(north: PlatformHome) -> None:
    assert roster_fingerprints(installed(north).roster).keys() == {"north"}


def test_expiry_is_warned_of() -> None:
    now = datetime.now(UTC)
    assert expiry_warning("north", now + timedelta(days=31), "x") is None
    assert "ends on" in str(expiry_warning("north", now + timedelta(days=20), "x"))
    assert "ended on" in str(expiry_warning("north", now - timedelta(days=1), "x"))
    assert (
        expiry(now + timedelta(days=30, seconds=9)).words == f"{now + timedelta(days=30):%Y-%m-%d}"
    )
