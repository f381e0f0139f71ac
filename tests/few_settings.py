"""A newcomer tries two settings for each arm, not six: what it tries is another test's matter."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fedner.runs.joining import candidates


@contextmanager
def few_settings() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_RECEIVED", "_RECEIVED_WITHOUT_HEAD", "_DESCRIBED", "_FREE"):
            patch.setattr(candidates, name, getattr(candidates, name)[2:4])
        yield
