"""The container file and the compose file: what they name is there, and they may do little."""

import re
import runpy
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
CONTAINER = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
COMPOSE = (ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8")


def test_the_image_has_a_user_of_its_own_and_labels_and_says_how_it_stops() -> None:
    last = CONTAINER[CONTAINER.rindex("\nFROM ") :]
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", last, re.MULTILINE), "a number: not root"
    for line in ("STOPSIGNAL SIGTERM", 'ENTRYPOINT ["fedner"]'):
        assert f"\n{line}\n" in last
    assert "image.licenses" in last
    assert "pip" not in last, "nothing is fetched in the stage that is kept"
    [image] = re.findall(r"^ARG PYTHON_IMAGE=\S+:(\S+)$", CONTAINER, re.MULTILINE)
    assert re.match(r"3\.\d+-", image), "a tag, not the latest"


def services() -> dict[str, dict[str, Any]]:
    return yaml.safe_load(COMPOSE)["services"]


@pytest.mark.parametrize("name", ["server", "platform"])
def test_services_of_the_compose_file_may_do_nothing_but_their_work(name: str) -> None:
    service = services()[name]
    assert service["profiles"] == [name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["user"].startswith("${FEDNER_USER:?"), "no default: never root by accident"
    assert {"restart", "mem_limit", "cpus", "pids_limit", "logging"} <= set(service)
    writable = [each["target"] for each in service["volumes"] if not each.get("read_only")]
    assert writable == ["/srv/fedner"], "texts and settings are read alone"
    assert all(each["bind"] == {"create_host_path": False} for each in service["volumes"])
    assert ("ports" in service) == (name == "server"), "nothing connects to a platform"
    context = ROOT / "deploy" / service["build"]["context"]
    assert (context / service["build"]["dockerfile"]).samefile(ROOT / "deploy" / "Containerfile")
    program = service["healthcheck"]["test"][2]
    assert re.search(rf"^COPY deploy/{Path(program).name} {program}$", CONTAINER, re.MULTILINE)


@pytest.mark.parametrize("name", ["server", "platform"])
def test_commands_of_the_compose_file_are_those_of_the_units(name: str) -> None:
    values = {"FEDNER_PLATFORM": "%i"}
    given = " ".join(services()[name]["command"])
    for key, value in values.items():
        given = re.sub(rf"\$\{{{key}:-[^}}]*\}}", value, given)
    unit = {"server": "fedner-server.service", "platform": "fedner-platform@.service"}[name]
    text = (ROOT / "deploy" / "systemd" / unit).read_text(encoding="utf-8")
    assert f"\nExecStart=/opt/fedner/bin/fedner {given}\n" in text


def test_the_example_of_an_environment_names_what_compose_reads() -> None:
    example = (ROOT / "deploy" / "env.example").read_text(encoding="utf-8")
    told = set(re.findall(r"^([A-Z_]+)=", example, re.MULTILINE))
    asked = set(re.findall(r"\$\{([A-Z_]+)", COMPOSE))
    assert asked - told == {"FEDNER_IMAGE", "TORCH_INDEX"}, "these have to do with building"
    assert told <= asked


@pytest.mark.parametrize("wanted", ["listens", "connected", "either"])
def test_healthy_reads_the_kernels_table_of_connections(wanted: str) -> None:
    program = ROOT / "deploy" / "healthy.py"
    with socket.socket() as server, socket.socket() as platform:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        asked = [sys.executable, str(program), wanted, str(port)]
        assert subprocess.run(asked, check=False).returncode == 1, "nobody listens"
        server.listen()
        listening = subprocess.run(asked, check=False).returncode
        assert listening == (1 if wanted == "connected" else 0)
        platform.connect(("127.0.0.1", port))
        assert subprocess.run(asked, check=False).returncode == 0


@pytest.mark.parametrize(
    ("own", "other", "state", "healthy"),
    [
        ("1F42", "0000", "0A", {"listens", "either"}),
        ("1F42", "A000", "01", set()),  # a member that is connected here, and nobody listens
        ("A000", "1F42", "01", {"connected", "either"}),
        ("A000", "1F42", "02", set()),  # asked, and not answered yet
        ("1F42", "A000", "06", set()),  # over, and kept for a while
        ("1F43", "1F43", "0A", set()),
    ],
)
def test_healthy_tells_connections_apart(
    tmp_path: Path, own: str, other: str, state: str, healthy: set[str]
) -> None:
    is_healthy = runpy.run_path(str(ROOT / "deploy" / "healthy.py"))["is_healthy"]
    table = tmp_path / "tcp"
    table.write_text(f"  sl  local rem st\n   0: 0100007F:{own} 0100007F:{other} {state} 0:0 0\n")
    tables = (table, tmp_path / "tcp6")
    assert {
        each for each in ("listens", "connected", "either") if is_healthy(each, 8002, tables)
    } == (healthy)
