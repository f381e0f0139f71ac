"""The job that is submitted: configuration alone, and the study as text."""

import json
from pathlib import Path

import pytest

from fedner.engines.flare.job import JobSpec, require_run_name, write_job
from fedner.engines.flare.processes import Program
from fedner.errors import FednerError

STUDY = json.dumps({"embeddings": {"path": "looks like a class to FLARE"}})


def tables(folder: Path) -> dict[str, dict]:
    return {
        str(path.relative_to(folder)): json.loads(path.read_text())
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_it_holds_three_tables_and_no_python(tmp_path: Path) -> None:
    write_job(JobSpec("run-1", STUDY, ["b", "a"], roster="signed"), tmp_path / "job")
    found = tables(tmp_path / "job")
    assert sorted(found) == [
        "meta.json",
        "platform/config/config_fed_client.json",
        "server/config/config_fed_server.json",
    ]
    meta = found["meta.json"]
    assert meta["deploy_map"] == {"server": ["server"], "platform": ["a", "b"]}
    assert meta["mandatory_clients"] == ["a", "b"]
    assert meta["min_clients"] == 2
    facts = {"run": "run-1", "study": STUDY, "roster": "signed"}
    assert meta["resource_spec"]["a"] == {"fedner": facts}
    (endpoint,) = found["platform/config/config_fed_client.json"]["components"]
    assert endpoint["args"] == facts, "a platform decides again on what the job brought"


def test_a_quorum_names_nobody_mandatory(tmp_path: Path) -> None:
    write_job(JobSpec("run-1", STUDY, ["a", "b", "c"], quorum=2), tmp_path / "job")
    meta = tables(tmp_path / "job")["meta.json"]
    assert meta["min_clients"] == 2
    assert "mandatory_clients" not in meta


def test_all_that_is_built_is_allowed_and_the_study_is_text(tmp_path: Path) -> None:
    from fedner.runs.deployment.kits import ALLOWED_CLASSES

    write_job(JobSpec("run-1", STUDY, ["a"]), tmp_path / "job")
    built = []
    for table in tables(tmp_path / "job").values():
        built += list(_paths(table))
    assert len(built) == 4
    assert set(built) <= set(ALLOWED_CLASSES)


def _paths(value: object) -> list[str]:
    if isinstance(value, dict):
        own = [value["path"]] if "path" in value else []
        return own + [path for each in value.values() for path in _paths(each)]
    if isinstance(value, list):
        return [path for each in value for path in _paths(each)]
    return []


@pytest.mark.parametrize("name", ["", "../up", "A", "a/b", "a b", "-a", "a" * 101, 3, None])
def test_a_run_name_can_be_a_folder(name: object) -> None:
    with pytest.raises(FednerError, match="run name"):
        require_run_name(name)


def test_nobody_is_left(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="no platform"):
        write_job(JobSpec("run-1", STUDY, []), tmp_path / "job")


def test_settings_of_flare_in_the_owners_environment_are_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NVFLARE_STREAMING_CHUNK_SIZE", "NVFL_X", "FEDNER_X", "PYTHONSTARTUP"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("KEPT", "1")
    found = Program(tmp_path, tmp_path, "fedner").environment
    assert found["MALLOC_ARENA_MAX"] == "2"  # else FLARE's processes grow for hours
    assert found["KEPT"] == "1"
    assert not {"NVFLARE_STREAMING_CHUNK_SIZE", "NVFL_X", "FEDNER_X", "PYTHONSTARTUP"} & {*found}
