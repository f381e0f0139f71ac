"""Keys as users get them: the other tests make shorter ones, to be quick."""

from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="needs the extra flare")

from fedner.runs.deployment.identity import make_key, read_key


def test_a_key_has_3072_bits_and_is_its_owners_alone(tmp_path: Path) -> None:
    make_key(tmp_path / "own.key")
    assert read_key(tmp_path / "own.key").key_size == 3072
    assert (tmp_path / "own.key").stat().st_mode & 0o777 == 0o600
