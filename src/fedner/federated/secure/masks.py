"""Masks: the key stream of AES-256-CTR, added to words modulo a power of two.

One stream for each key, from counter 0; its bytes are read as little-endian words. Streams are made
and added in blocks that stay in the cache.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from fedner.federated.grid import Words

_BLOCK_BYTES = 2**18
_ZEROS = memoryview(bytes(_BLOCK_BYTES))
_START = bytes(16)


class Mask(NamedTuple):
    """A mask by its key.

    Attributes:
        key: 32 bytes, for this mask alone.
        sign: 1 where it is added, -1 where it is taken away.
    """

    key: bytes
    sign: int


def add_masks(words: Words, masks: Sequence[Mask]) -> None:
    """Add masks to words, in place.

    Args:
        words: One row of uint32 or uint64.
        masks: Which, in any order: sums modulo a power of two do not depend on it.
    """
    streams = [(Cipher(AES(mask.key), CTR(_START)).encryptor(), mask.sign) for mask in masks]
    buffer = bytearray(_BLOCK_BYTES)
    stream = np.frombuffer(buffer, words.dtype.newbyteorder("<"))
    for begin in range(0, len(words), len(stream)):
        block = words[begin : begin + len(stream)]
        num_bytes = block.nbytes
        for encryptor, sign in streams:
            encryptor.update_into(_ZEROS[:num_bytes], buffer)
            if sign > 0:
                block += stream[: len(block)]
            else:
                block -= stream[: len(block)]
