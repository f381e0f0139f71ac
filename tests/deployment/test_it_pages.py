"""docs/it-department.md and docs/operating.md: what they claim holds, by the commands they name."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from live import NAMES, Live, live, quick_keys, tiny_settings

from fedner.engines.flare.processes import members
from fedner.errors import FednerError
from fedner.runs.deployment.checks import check_platform
from fedner.runs.deployment.link import measure_link
from fedner.runs.deployment.serving import CHUNK_BYTES
from fedner.runs.deployment.sessions import coordinator_session
from fedner.runs.deployment.taking_part import installed

pytestmark = pytest.mark.deployment
DOCS = Path(__file__).parents[2] / "docs"
DEPLOY = DOCS.parent / "deploy"
OWN = NAMES[0]
ROUNDS = 400


def commands(page: str) -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


IT = commands("it-department.md")


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """A federation in the middle of a run."""
    with quick_keys(), live(tmp_path_factory.mktemp("it"), tiny_settings(ROUNDS)) as found:
        found.start()
        found.wait_connected()
        found.submit()
        found.wait_round(2)
        yield found


def run(federation: Live, start: str, code: int | None = 0) -> str:
    """Run the page's one command that starts so, in the name of this federation."""
    [line] = [each for each in IT if each.startswith(start)]
    place = installed(federation.homes.server).place
    typed = line.replace("fl.example.org:8002", place.target)
    typed = re.sub(r"\bnorth\b", str(federation.homes.platforms[OWN].path), typed)
    typed = typed.replace("platform.toml", str(federation.settings[OWN]))
    typed = re.sub(r"^fedner ", f"{sys.executable} -m fedner ", typed)
    done = subprocess.run(
        ["bash", "-c", typed], capture_output=True, text=True, timeout=60, check=False
    )
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_platform_listens_on_loopback_and_reaches_the_server_alone(federation: Live) -> None:
    """What `ss` shows, for the processes of this platform."""
    place = installed(federation.homes.server).place
    listening, reached = set(), set()
    for pid in members(federation.homes.platforms[OWN].path):
        for each in psutil.Process(pid).net_connections("inet"):
            if each.status == psutil.CONN_LISTEN:
                listening.add(each.laddr.ip)
            elif each.raddr:
                reached.add((each.raddr.ip, each.raddr.port))
    assert listening <= {"127.0.0.1", "::1"}
    assert any(port == place.port for _, port in reached), "it is connected"
    assert {ip for ip, _ in reached} <= {"127.0.0.1", "::1"}  # the server is on this machine too


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_the_port_answers_nobody_without_a_certificate(federation: Live) -> None:
    said = run(federation, "sleep 2 | openssl s_client", code=None)
    assert re.search(r"alert.*certificate required|alert.*handshake failure", said, re.IGNORECASE)


def test_keys_and_homes_belong_to_their_owner(federation: Live) -> None:
    home = federation.homes.platforms[OWN]
    assert run(federation, "find north -name") == ""
    assert run(federation, "find north -maxdepth") == ""
    home.key.chmod(0o644)
    assert str(home.key) in run(federation, "find north -name")
    home.key.chmod(0o600)


def test_the_record_is_shown_and_verified(federation: Live) -> None:
    assert "verified" in run(federation, "fedner platform record").lower()


def test_the_check_says_what_would_happen(federation: Live) -> None:
    said = run(federation, "fedner platform check")
    assert "connection" in said
    assert "policy" in said


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_the_certificate_names_the_platform(federation: Live) -> None:
    assert OWN in run(federation, "openssl x509")


def test_the_link_is_measured_and_tells_how_long_messages_take(federation: Live) -> None:
    """As `fedner platform check --link` and `fedner federation train` do."""
    with coordinator_session(federation.homes.federation) as session:
        found = measure_link(session)
        with pytest.raises(FednerError, match="between 0"):
            session.ask("link", str(2 * CHUNK_BYTES))
    assert 0 < found.latency < 5
    assert found.slower > 1e4
    checks = check_platform(federation.homes.platforms[OWN], measures_link=True)
    links = [each for each in checks if each.subject == "link"]
    assert [each.result for each in links] == ["ok", "ok"]
    assert "Mbit/s" in links[0].found
    assert f"{ROUNDS} rounds" in links[1].found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
@pytest.mark.parametrize(
    "unit", ["fedner-server.service", "fedner-platform@.service", "fedner-serve@.service"]
)
def test_units_are_sound(unit: str, tmp_path: Path) -> None:
    named = tmp_path / unit.replace("@", "@north")
    text = (DEPLOY / "systemd" / unit).read_text(encoding="utf-8")
    named.write_text(text.replace("/opt/fedner/bin/fedner", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(named)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Unknown" not in done.stderr


def test_every_command_of_the_it_page_is_tried_here() -> None:
    tried = (
        "ss ",
        "sleep 2 | openssl ",
        "openssl x509 ",
        "find north -name",
        "find north -maxdepth",
        "fedner platform ",
    )
    assert [line for line in IT if not line.startswith(tried)] == []
