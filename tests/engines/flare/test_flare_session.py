"""Sessions with FLARE's server: the working folder that they need, and give back."""

from pathlib import Path

import pytest

from fedner.engines.flare.session import _empty_folder


def test_the_working_folder_is_empty_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "comm_config.json").write_text("{}")
    with _empty_folder():
        assert list(Path().iterdir()) == []
    assert Path.cwd() == tmp_path


@pytest.mark.parametrize("is_within", [False, True])
def test_a_working_folder_that_was_removed_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_within: bool
) -> None:
    """A watchdog may outlive the folder that it was started in."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    if not is_within:
        gone.rmdir()
    with _empty_folder():
        if is_within:
            gone.rmdir()
    for _ in range(2):
        with _empty_folder():
            assert list(Path().iterdir()) == []
