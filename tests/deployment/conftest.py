"""Homes of a small federation, made once: keys take a moment."""

from pathlib import Path

import pytest

from fedner.runs.deployment import identity
from fedner.runs.deployment.trial import Homes, trial_homes
from fedner.settings import Study

NAMES = ("north", "south", "west")


@pytest.fixture(scope="session")
def study() -> Study:
    return Study(
        title="Side effects",
        training={"rounds": 2},
        platforms=[{"name": name, "public_size": 40, "labels": ["ADE"]} for name in NAMES],
    )


@pytest.fixture
def small_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are made five times as quickly."""
    monkeypatch.setattr(identity, "KEY_BITS", 2048)


@pytest.fixture(scope="session")
def made(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Homes:
    """Homes that no test changes; `homes` is for those that do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "KEY_BITS", 2048)
        return trial_homes(tmp_path_factory.mktemp("made"), study, NAMES[:2], 1)


@pytest.fixture
def homes(made: Homes, tmp_path: Path, small_keys: None) -> Homes:
    """A copy of the homes."""
    import shutil

    from fedner.runs.deployment.homes import FederationHome, PlatformHome, ServerHome

    folder = tmp_path / "homes"
    shutil.copytree(made.federation.path.parent, folder)
    return Homes(
        FederationHome(folder / "federation"),
        ServerHome(folder / "server"),
        {name: PlatformHome(folder / "platforms" / name) for name in made.platforms},
    )
