"""Folders of platforms: names that can be one, and no way out of the run folder."""

from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.federated.checkpoints import platform_folder


@pytest.mark.parametrize("name", ["a", "ward 3", "St. Mary-7", "_x", "Köln", "a.b"])
def test_a_name_is_a_folder(name: str) -> None:
    assert platform_folder(Path("run"), name) == Path("run/platforms") / name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../b", "a/b", "a\\b", "a ", "a.", " a", "-a", ".a", "a\nb", "a\0", "a:b"],
)
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(FednerError, match="platform name: found"):
        platform_folder(Path("run"), name)
