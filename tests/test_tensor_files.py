"""Tensor files: bit-exact, sealed, and refused when cut, altered or mistaken for another kind."""

import stat
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.tensor_files import read_tensors, tensors_digest, write_tensors

TENSORS = {
    "a": torch.arange(6, dtype=torch.float32).reshape(2, 3).t(),
    "b.c": torch.tensor(7, dtype=torch.int64),
    "empty": torch.zeros(0, 4, dtype=torch.bfloat16),
    "flags": torch.tensor([True, False]),
}


def test_everything_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    shared = torch.zeros(3)
    write_tensors(path, {**TENSORS, "s": shared, "t": shared}, "kind", 1, {"n": [1, "é"]})
    tensors, facts = read_tensors(path, "kind", 1)
    assert facts == {"n": [1, "é"]}
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_tensors(path, TENSORS, "kind", 1, owner_only=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_flipped_byte_and_any_cut_is_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("t") / "x"
    write_tensors(path, TENSORS, "kind", 1, {"a": 1})
    whole = path.read_bytes()
    where = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        path.write_bytes(whole[:where])
    else:
        flipped = bytearray(whole)
        flipped[where] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(bytes(flipped))
    with pytest.raises(FednerError):
        read_tensors(path, "kind", 1)


def test_other_kinds_and_versions_are_named(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_tensors(path, TENSORS, "kind", 1)
    with pytest.raises(FednerError, match="holds kind, version 1; expected other, version 1"):
        read_tensors(path, "other", 1)
    with pytest.raises(FednerError, match="expected kind, version 2"):
        read_tensors(path, "kind", 2)
    with pytest.raises(FednerError, match="no file"):
        read_tensors(tmp_path / "y", "kind", 1)


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "x")
    with pytest.raises(FednerError, match="not written by fedner"):
        read_tensors(tmp_path / "x", "kind", 1)


def test_the_digest_knows_names_types_and_shapes() -> None:
    tensors = [
        {"a": torch.zeros(2)},
        {"b": torch.zeros(2)},
        {"a": torch.zeros(2, dtype=torch.int32)},
        {"a": torch.zeros(1, 2)},
        {"a": torch.ones(2)},
    ]
    assert len({tensors_digest(each) for each in tensors}) == len(tensors)
