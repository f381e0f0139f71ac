"""ChaCha20 on CUDA where Triton is installed: one launch for a whole keystream.

`keystream.plain_keystream` does the same in some five hundred operations of torch.

Shapes: N blocks of 16 words.
"""

import importlib
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

# Imported by name: Triton comes with torch's CUDA builds alone, and carries no types.
triton: Any = importlib.import_module("triton")
tl: Any = importlib.import_module("triton.language")
if TYPE_CHECKING:
    constexpr = Any
else:
    constexpr = tl.constexpr  # what Triton knows compile-time arguments by

_BLOCKS = 128


def keystream(start_16: Tensor, num_blocks: int) -> Tensor:
    """Return the keystream of consecutive blocks as 32-bit words in one row.

    Args:
        start_16: The words of the first block before mixing, on the device.
        num_blocks: How many blocks.
    """
    words = torch.empty(16 * num_blocks, dtype=torch.int32, device=start_16.device)
    with torch.cuda.device_of(start_16):
        _kernel[(triton.cdiv(num_blocks, _BLOCKS),)](start_16, words, num_blocks, _BLOCKS)
    return words


@triton.jit
def _rotated(x, bits: constexpr):
    return (x << bits) | (x >> (32 - bits))


@triton.jit
def _quarter(a, b, c, d):
    a = a + b
    d = _rotated(d ^ a, 16)
    c = c + d
    b = _rotated(b ^ c, 12)
    a = a + b
    d = _rotated(d ^ a, 8)
    c = c + d
    b = _rotated(b ^ c, 7)
    return a, b, c, d


@triton.jit
def _word(start, place: constexpr, zeros):
    return tl.load(start + place).to(tl.uint32, bitcast=True) + zeros


@triton.jit
def _kernel(start, words, num_blocks, blocks: constexpr):
    block_N = tl.program_id(0) * blocks + tl.arange(0, blocks)
    zeros = (block_N * 0).to(tl.uint32)
    counter = _word(start, 12, zeros) + block_N.to(tl.uint32)
    s0, s1, s2, s3 = (
        _word(start, 0, zeros),
        _word(start, 1, zeros),
        _word(start, 2, zeros),
        _word(start, 3, zeros),
    )
    s4, s5, s6, s7 = (
        _word(start, 4, zeros),
        _word(start, 5, zeros),
        _word(start, 6, zeros),
        _word(start, 7, zeros),
    )
    s8, s9, s10, s11 = (
        _word(start, 8, zeros),
        _word(start, 9, zeros),
        _word(start, 10, zeros),
        _word(start, 11, zeros),
    )
    s12, s13, s14, s15 = (
        counter,
        _word(start, 13, zeros),
        _word(start, 14, zeros),
        _word(start, 15, zeros),
    )
    for _ in range(10):
        s0, s4, s8, s12 = _quarter(s0, s4, s8, s12)
        s1, s5, s9, s13 = _quarter(s1, s5, s9, s13)
        s2, s6, s10, s14 = _quarter(s2, s6, s10, s14)
        s3, s7, s11, s15 = _quarter(s3, s7, s11, s15)
        s0, s5, s10, s15 = _quarter(s0, s5, s10, s15)
        s1, s6, s11, s12 = _quarter(s1, s6, s11, s12)
        s2, s7, s8, s13 = _quarter(s2, s7, s8, s13)
        s3, s4, s9, s14 = _quarter(s3, s4, s9, s14)
    _store(words, 0, s0 + _word(start, 0, zeros), block_N, num_blocks)
    _store(words, 1, s1 + _word(start, 1, zeros), block_N, num_blocks)
    _store(words, 2, s2 + _word(start, 2, zeros), block_N, num_blocks)
    _store(words, 3, s3 + _word(start, 3, zeros), block_N, num_blocks)
    _store(words, 4, s4 + _word(start, 4, zeros), block_N, num_blocks)
    _store(words, 5, s5 + _word(start, 5, zeros), block_N, num_blocks)
    _store(words, 6, s6 + _word(start, 6, zeros), block_N, num_blocks)
    _store(words, 7, s7 + _word(start, 7, zeros), block_N, num_blocks)
    _store(words, 8, s8 + _word(start, 8, zeros), block_N, num_blocks)
    _store(words, 9, s9 + _word(start, 9, zeros), block_N, num_blocks)
    _store(words, 10, s10 + _word(start, 10, zeros), block_N, num_blocks)
    _store(words, 11, s11 + _word(start, 11, zeros), block_N, num_blocks)
    _store(words, 12, s12 + counter, block_N, num_blocks)
    _store(words, 13, s13 + _word(start, 13, zeros), block_N, num_blocks)
    _store(words, 14, s14 + _word(start, 14, zeros), block_N, num_blocks)
    _store(words, 15, s15 + _word(start, 15, zeros), block_N, num_blocks)


@triton.jit
def _store(words, place: constexpr, value, block_N, num_blocks):
    tl.store(words + block_N * 16 + place, value.to(tl.int32, bitcast=True), block_N < num_blocks)
