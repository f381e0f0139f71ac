"""Starts that fail: what is said, in which order, and that nothing is left behind."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fedner.errors import FednerError
from fedner.federated.folder_lock import FolderInUseError
from fedner.models.checkpoint import load_tagger
from fedner.runs import simulation
from fedner.runs.folder import (
    AT_WORK,
    SETTINGS,
    STUDY,
    RunFolder,
    begin,
    discard_empty,
    tagger_folder,
)
from fedner.runs.simulation import Progress, train_run
from fedner.settings import Settings, SettingsError
from watched_runs import held

Make = Callable[..., Settings]
WITHOUT_GPU = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


def nothing_in(folder: Path) -> bool:
    return not any(folder.iterdir())


def test_bad_data_leave_no_folder_and_the_next_start_is_free(tiny: Make, tmp_path: Path) -> None:
    data, runs = tmp_path / "train.tsv", tmp_path / "runs"
    runs.mkdir()
    data.write_text("a\tB-X\nb\n")
    settings = tiny(f"platforms.0.data={data}", "platforms.0.format=columns", "training.rounds=1")
    with pytest.raises(SettingsError, match=r"platforms\[0\] \(case-reports\)"):
        train_run(settings, runs / "run")
    assert nothing_in(runs)
    data.write_text("a\tB-X\n\nb\tO\n\n" * 5)
    assert train_run(settings, runs / "run").platforms


def test_labels_that_do_not_fit_leave_no_folder(tiny: Make, tmp_path: Path) -> None:
    settings = tiny('platforms.0.labels=["ADR", "Drugs"]')
    with pytest.raises(SettingsError, match=r"platforms\[0\]\.labels \(case-reports\)"):
        train_run(settings, tmp_path / "run")
    assert nothing_in(tmp_path)


def test_embeddings_are_looked_at_before_data(tiny: Make, tmp_path: Path) -> None:
    vectors, data = tmp_path / "vectors.txt", tmp_path / "train.tsv"
    vectors.write_text("This is a letter.\nIt holds no vectors at all.\n")
    data.write_text("a\tB-X\n\nb\tO\n\n" * 5)
    settings = tiny(f'embeddings.words="{vectors}"', f"platforms.0.data={data}")
    data.unlink()
    with pytest.raises(SettingsError, match=r"embeddings\.words: found") as caught:
        train_run(settings, tmp_path / "run")
    assert "platforms" not in str(caught.value), "data were not read yet"
    assert not (tmp_path / "run").exists()
    vectors.unlink()  # as for a run that is resumed after its vectors were moved
    with pytest.raises(SettingsError, match=r"embeddings\.words: found .*vectors\.txt; expected"):
        train_run(settings, tmp_path / "run")


def test_an_encoder_that_is_none_is_named_by_its_key(tiny: Make, tmp_path: Path) -> None:
    (tmp_path / "encoder").mkdir()
    settings = tiny('model.recipe="ELMoNER"', f'embeddings.context="{tmp_path / "encoder"}"')
    with pytest.raises(SettingsError, match=r"embeddings\.context: found .* no context encoder"):
        train_run(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_units_that_nobody_named_leave_no_folder(tiny: Make, tmp_path: Path) -> None:
    (tmp_path / "train.tsv").write_text("a\tB-X\n\nb\tO\n\n" * 10)
    private = (
        "privacy.mechanism=unit-local",
        "privacy.noise_multiplier=1.0",
        "privacy.simulation=true",
    )
    data = f"platforms.0.data={tmp_path / 'train.tsv'}"
    with pytest.raises(SettingsError, match="patient"):
        train_run(tiny(*private, "privacy.unit=patient", data), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_fails_before_the_first_round_leaves_nothing(
    tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise FednerError("no worker could be started")

    monkeypatch.setattr(simulation, "engine_for", fail)
    with pytest.raises(FednerError, match="no worker"):
        train_run(tiny(), tmp_path / "run")
    assert nothing_in(tmp_path)
    (tmp_path / "mine").mkdir()
    with pytest.raises(FednerError, match="no worker"):
        train_run(tiny(), tmp_path / "mine")
    assert nothing_in(tmp_path / "mine"), "a folder that was there stays, as empty as it was"


@pytest.mark.parametrize(
    "worth", ["platforms/a/ledger/ledger.jsonl", "rounds.jsonl", "platforms/a/taggers/local-only/x"]
)
def test_a_folder_with_anything_worth_keeping_is_kept(
    tiny: Make, tmp_path: Path, worth: str
) -> None:
    folder = begin(tmp_path / "run", tiny(), resume=False)
    folder.write(STUDY, {})
    path = folder.path / worth
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    discard_empty(folder)
    assert {SETTINGS, STUDY} < {each.name for each in folder.path.iterdir()}
    assert path.is_file()
    path.unlink()
    discard_empty(RunFolder(tmp_path / "run"))
    assert nothing_in(tmp_path)


@WITHOUT_GPU
def test_a_gpu_that_is_not_there_is_an_error_with_a_hint(
    tiny: Make, finished: Path, tmp_path: Path
) -> None:
    with pytest.raises(FednerError, match="no GPU") as caught:
        load_tagger(tagger_folder(finished, "forum-posts"), device="cuda")
    assert "--device cpu" in caught.value.hint
    settings = tiny()
    elsewhere = settings.engine.model_copy(update={"device": "cuda"})
    with pytest.raises(FednerError, match="no GPU"):
        train_run(settings.model_copy(update={"engine": elsewhere}), tmp_path / "run")
    assert nothing_in(tmp_path)


def test_a_simulation_holds_its_folder_from_the_baselines_on(tiny: Make, tmp_path: Path) -> None:
    settings = tiny('training.baselines=["local-only"]', "training.rounds=1")
    seen: list[bool | None] = []

    def look(words: str) -> None:
        if words.startswith("local-only"):
            seen.append(held_elsewhere(tmp_path / "run"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_run(settings, tmp_path / "run", progress=Progress(say=look))
    assert seen == [True]
    assert not held_elsewhere(tmp_path / "run")
    with held(tmp_path / "run", AT_WORK), pytest.raises(FolderInUseError):
        train_run(settings, tmp_path / "run", resume=True)
    assert not (tmp_path / "run" / "platforms").exists()


def held_elsewhere(folder: Path) -> bool:
    """Ask another process whether this one holds the folder: nobody sees a lock of their own."""
    program = (
        "import sys; from pathlib import Path; from fedner.federated.folder_lock import is_held; "
        "print(is_held(Path(sys.argv[1]), sys.argv[2]))"
    )
    command = [sys.executable, "-c", program, str(folder), AT_WORK]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout == "True\n"
