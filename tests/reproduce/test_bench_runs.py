"""A cell that was killed at any moment is run again, or goes on."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from fedner.reproduce.bench import Bench
from fedner.reproduce.inputs import stored
from fedner.reproduce.reproduction import Inputs, PlatformInput
from fedner.reproduce.tagging_2021.plans import NO_DP, as_in_2021, rehearsed

TABLES = rehearsed(as_in_2021(1, NO_DP)).tables


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    platform = PlatformInput("case-reports", "synthetic:case-reports")
    return Bench(stored(Inputs((platform,), "hashed", "none", tmp_path, is_rehearsal=True)))


@pytest.mark.parametrize("lost", ["settings.json", "rounds.jsonl", "platforms"])
def test_killed_while_a_finished_run_is_removed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    settings = bench.settings(1, TABLES)
    real = shutil.rmtree

    def killed(path: Path, *_: Any, **__: Any) -> None:
        if not Path(path).exists():
            return
        found = Path(path) / lost
        real(found) if found.is_dir() else found.unlink(missing_ok=True)
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        bench.federated("cell/one", settings)
    monkeypatch.setattr(shutil, "rmtree", real)
    again = bench.federated("cell/one", settings)
    assert again.rounds == 1
    assert list((bench.inputs.out / "under-way").iterdir()) == []


def test_killed_before_a_run_was_begun(bench: Bench) -> None:
    folder = bench.inputs.out / "under-way" / "cell-one"
    (folder / "platforms" / "a").mkdir(parents=True)
    (folder / "rounds.jsonl").write_text("{}")
    assert bench.federated("cell/one", bench.settings(1, TABLES)).rounds == 1
