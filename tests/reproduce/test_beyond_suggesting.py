"""`suggesting`: the curve of annotated sentences, and what is paired with what."""

from pathlib import Path

import pytest
from beyond_rehearsal import Rehearsed, assert_whole, rehearse

from fedner.reproduce.beyond.suggesting import SUGGESTING


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    return rehearse(SUGGESTING, tmp_path_factory.mktemp("suggesting"))


def test_a_rehearsal_has_every_point(rehearsed: Rehearsed) -> None:
    assert_whole(rehearsed.shown)
