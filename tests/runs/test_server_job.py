"""How the server's job says why it ended, as far as its disk lets it."""

import errno
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fedner.engines.flare.job_ends import read_ends
from fedner.runs.deployment import server_job
from fedner.runs.deployment.server_job import coordinate_job
from fedner.settings import Study
from full_disk import full_disk

STUDY = Study(training={"rounds": 1}, platforms=[{"name": "a", "public_size": 40}])


def test_a_full_disk_of_the_server_is_noted_if_there_is_room_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(server_job, "coordinate", fails)
    with pytest.raises(OSError, match="No space"):
        coordinate_job(STUDY, "run", tmp_path / "run", {})
    [end] = read_ends(tmp_path / "run")
    assert (end.outcome, end.full_disks) == ("fault", ("the server",))
    with pytest.raises(OSError, match="No space"), full_disk():
        coordinate_job(STUDY, "run", tmp_path / "run", {})
    assert read_ends(tmp_path / "run") == [end]


def test_another_error_of_the_system_is_no_passing_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        (tmp_path / "absent" / "round").write_bytes(b"state")

    monkeypatch.setattr(server_job, "coordinate", fails)
    with pytest.raises(FileNotFoundError):
        coordinate_job(STUDY, "run", tmp_path / "run", {})
    [end] = read_ends(tmp_path / "run")
    assert end.outcome == "failed"
    assert "the server failed" in end.words
