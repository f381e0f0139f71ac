"""Random bits where they are needed: the system's on a CPU, a keyed cipher's on an accelerator.

For the noise and the dropout masks of deployed runs. Coordinates whose gradient is zero show the
noise itself, so nobody may find the rest from a part: a generator with a short seed (32 bits of
torch's on a CPU, 64 on CUDA) can be searched. On an accelerator the host's bits would cost more
than the step, so there ChaCha20 (RFC 8439; Bernstein 2008) makes them, with a fresh 256-bit key and
nonce from the system for every draw.

Shapes: N blocks of 16 words.
"""

import functools
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from fedner.privacy.entropy import system_bytes

_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)  # "expand 32-byte k", all positive
_BLOCK_WORDS = 16
_KEY_BYTES, _NONCE_BYTES = 32, 12


def random_int16(count: int, device: torch.device) -> Tensor:
    """Return uniform 16-bit integers that nobody can repeat."""
    return random_int32((count + 1) // 2, device).view(torch.int16)[:count]


def random_int32(count: int, device: torch.device) -> Tensor:
    """Return uniform 32-bit integers that nobody can repeat."""
    if device.type == "cpu":
        drawn = bytearray(system_bytes(4 * max(1, count)))
        return torch.frombuffer(drawn, dtype=torch.int32)[:count]
    num_blocks = (count + _BLOCK_WORDS - 1) // _BLOCK_WORDS
    key, nonce = system_bytes(_KEY_BYTES), system_bytes(_NONCE_BYTES)
    return keystream(key, nonce, 0, num_blocks, device)[:count]


def keystream(
    key: bytes, nonce: bytes, counter: int, num_blocks: int, device: torch.device
) -> Tensor:
    """Return the keystream of ChaCha20 as 32-bit words, 16 for each block, in one row."""
    fixed = np.frombuffer(key + nonce, dtype="<u4").view(np.int32).tolist()
    start = [*_CONSTANTS, *fixed[:8], counter, *fixed[8:]]
    if device.type == "cuda" and _triton_works(device):
        from fedner.privacy import keystream_triton

        return keystream_triton.keystream(_words(start, device), num_blocks)
    return plain_keystream(start, num_blocks, device)


def _words(start: list[int], device: torch.device) -> Tensor:
    return torch.tensor(start, dtype=torch.int32).pin_memory().to(device, non_blocking=True)


@functools.lru_cache
def _triton_works(device: torch.device) -> bool:
    """Whether Triton gives the stream that plain torch gives on a device."""
    if find_spec("triton") is None:
        return False
    start = [*_CONSTANTS, *range(8), -3, 1, 2, 3]
    try:
        from fedner.privacy import keystream_triton

        found = keystream_triton.keystream(_words(start, device), 150)
        return torch.equal(found, plain_keystream(start, 150, device))
    except Exception:  # noqa: BLE001 - a compiler may fail in any way; the plain form is there
        return False


def plain_keystream(start: list[int], num_blocks: int, device: torch.device) -> Tensor:
    """Return the keystream by torch's own operations: blocks side by side, words one by one."""
    first_N = torch.arange(num_blocks, device=device).to(torch.int32)
    words = [torch.full_like(first_N, word) for word in start]
    words[12] += first_N
    state = _rounds([word.clone() for word in words])
    mixed = [word + first for word, first in zip(state, words, strict=True)]
    return torch.stack(mixed, dim=1).flatten()


def _rounds(state: list[Tensor]) -> list[Tensor]:
    """Mix the words: ten times columns, then diagonals."""
    # As rows of four words, diagonals become columns when each row is turned by its number.
    rows = [torch.stack(state[4 * row : 4 * row + 4]) for row in range(4)]
    for _ in range(10):
        rows = _quarter_rounds(*rows)
        turned = [rows[0], *(rows[row].roll(-row, 0) for row in (1, 2, 3))]
        turned = _quarter_rounds(*turned)
        rows = [turned[0], *(turned[row].roll(row, 0) for row in (1, 2, 3))]
    return [word_N for row in rows for word_N in row.unbind(0)]


def _quarter_rounds(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> list[Tensor]:
    """Mix four columns at once (RFC 8439, section 2.1)."""
    a = a + b
    d = _rotated(d ^ a, 16)
    c = c + d
    b = _rotated(b ^ c, 12)
    a = a + b
    d = _rotated(d ^ a, 8)
    c = c + d
    b = _rotated(b ^ c, 7)
    return [a, b, c, d]


def _rotated(words: Tensor, bits: int) -> Tensor:
    """Rotate signed 32-bit words to the left."""
    low = (1 << bits) - 1
    return (words << bits) | ((words >> (32 - bits)) & low)
