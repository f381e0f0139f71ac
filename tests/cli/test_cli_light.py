"""What a hospital's commands load: a process that stays for weeks, or only signs, has no torch."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from pathlib import Path
sys.modules["torch"] = sys.modules["numpy"] = None  # importing them now fails
from typer.testing import CliRunner
from fedner.cli.app import app
from fedner.runs.deployment import creation, identity, starting
from fedner.settings import Study

identity.KEY_BITS = 2048
starting._run = lambda _program, log, *_: log("runs")
starting._require_free_port = lambda _: None
platforms = [{"name": name, "public_size": 40, "labels": ["ADE"]} for name in ("north", "south")]
study = Study(title="light", training={"rounds": 2}, platforms=platforms)
creation.create_with_server(
    Path("federation"), study, host="localhost", port=1, server=Path("server")
)

for line in sys.stdin.read().splitlines():
    result = CliRunner().invoke(app, line.split(), catch_exceptions=False)
    assert result.exit_code == 0, line + result.output
"""
COMMANDS = """\
platform request north
federation approve north.request.json
platform install north.approval.json
platform show --home north
platform pin south 0000000000000000000000000000000000000000000000000000000000000000 --home north
platform unpin south --home north
federation roster --out roster.json
federation members
federation renew
server show
server start
platform start --settings platform.toml
"""
PARENT = """
import sys
import fedner.runs.deployment.components
heavy = {"torch", "numpy", "pydantic", "cryptography.x509"} & set(sys.modules)
sys.exit(", ".join(sorted(heavy - set(sys.argv[1].split(",")))) or None)
"""


def test_commands_that_sign_or_start_need_no_torch(tmp_path: Path) -> None:
    (tmp_path / "platform.toml").write_text('name = "north"\ndata = "synthetic:case-reports"\n')
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=COMMANDS, cwd=tmp_path, env=dict(os.environ),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_platforms_parent_process_loads_flare_and_little_else() -> None:
    flare = "import sys, nvflare.private.fed.app.client.client_train; print(','.join(sys.modules))"
    own = subprocess.run(
        [sys.executable, "-c", flare], capture_output=True, text=True, check=True
    ).stdout.strip()
    done = subprocess.run(
        [sys.executable, "-c", PARENT, own], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
