"""Random bits for dropout: the cipher against its standard, and what a deployed run draws from."""

import os

import pytest
import torch

from fedner.models.layers.dropout import Dropout, masks_from
from fedner.privacy import keystream as keystream_module
from fedner.privacy.keystream import keystream, random_int16

CPU = torch.device("cpu")


def test_the_block_of_rfc_8439() -> None:
    """Section 2.3.2."""
    nonce = bytes.fromhex("000000090000004a00000000")
    block = keystream(bytes(range(32)), nonce, 1, 1, CPU).numpy().tobytes()
    assert block.hex() == (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


def test_the_whole_stream_of_rfc_8439() -> None:
    """Appendix A.1, test vectors 1 and 2: blocks 0 and 1 of a zero key."""
    stream = keystream(bytes(32), bytes(12), 0, 2, CPU).numpy().tobytes()
    assert stream[:16].hex() == "76b8e0ada0f13d90405d6ae55386bd28"
    assert stream[64:80].hex() == "9f07e7be5551387a98ba977c732d080d"


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 1000])
def test_as_many_numbers_as_asked_for(count: int) -> None:
    assert random_int16(count, CPU).shape == (count,)


def test_a_deployed_mask_ignores_the_seed_of_torch_and_is_never_the_same() -> None:
    dropout = Dropout(0.5).train()
    x = torch.ones(4096)
    with masks_from(dropout, random_int16):
        torch.manual_seed(1)
        first = dropout(x)
        torch.manual_seed(1)
        second = dropout(x)
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    third = dropout(x)
    torch.manual_seed(1)
    assert torch.equal(third, dropout(x))  # outside the block the generator is torch's again


def test_masks_take_two_bytes_of_the_system_for_every_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def counted(count: int) -> bytes:
        asked.append(count)
        return os.urandom(count)

    monkeypatch.setattr(keystream_module, "system_bytes", counted)
    dropout = Dropout(0.2).train()
    with masks_from(dropout, random_int16):
        kept = float((dropout(torch.ones(200_000)) > 0).double().mean())
    assert asked == [400_000]
    assert abs(kept - 0.8) < 0.0055  # 6 standard deviations: these bytes have no seed


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_on_a_gpu_the_cipher_gives_the_same_stream() -> None:
    here = keystream(bytes(range(32)), bytes(12), 7, 100, CPU)
    assert torch.equal(
        here, keystream(bytes(range(32)), bytes(12), 7, 100, torch.device("cuda")).cpu()
    )
    assert random_int16(1001, torch.device("cuda")).shape == (1001,)
