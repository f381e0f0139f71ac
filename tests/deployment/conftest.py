"""FLARE's sessions leave sockets to the garbage collector; ours is another matter."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "deployment" in item.keywords:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            unraisable = "ignore::pytest.PytestUnraisableExceptionWarning"
            item.add_marker(pytest.mark.filterwarnings(unraisable))
