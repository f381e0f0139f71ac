"""One round of an encrypted sum: 2 million numbers, 10 platforms.

Processor time of one core: of one platform (it rounds and encrypts its update, and decrypts the
sum), and of the server, which adds what all sent. Bytes are those of a platform, both ways.
"""

import time

import numpy as np

from fedner.federated.encrypted.ciphertexts import RunningSum, decrypt, encrypt
from fedner.federated.encrypted.keys import keyless_context, make_run_key
from fedner.federated.encrypted.parameters import CkksParameters

NUM_NUMBERS, NUM_PLATFORMS, NUM_REPEATS = 2_000_000, 10, 3
Row = tuple[str, float, str]


def one_round(seed: int) -> tuple[float, float, float, float, float, float]:
    """Return seconds to encrypt, to decrypt and of the server; bytes up and down; the error."""
    parameters = CkksParameters.for_range(NUM_PLATFORMS, 64.0)  # as for differences of weights
    key, keyless = make_run_key(parameters), keyless_context(parameters)
    drawn = np.random.default_rng(seed)
    total = RunningSum(keyless, NUM_NUMBERS)
    exact = np.zeros(NUM_NUMBERS)
    encrypting = adding = up = 0.0
    for _ in range(NUM_PLATFORMS):
        update = drawn.normal(size=NUM_NUMBERS).astype(np.float32) / np.float32(NUM_PLATFORMS)
        exact += update
        began = time.process_time()
        row = encrypt(key, update, 1 / NUM_PLATFORMS)
        sent = time.process_time()
        total.add(row)
        encrypting, adding = encrypting + sent - began, adding + time.process_time() - sent
        up = max(up, len(row.data))
    began = time.process_time()
    summed = total.total()
    adding += time.process_time() - began
    began = time.process_time()
    found = decrypt(key, summed, NUM_NUMBERS)
    decrypting = time.process_time() - began
    error = float(np.abs(found - exact).max())
    return encrypting / NUM_PLATFORMS, decrypting, adding, up, len(summed.data), error


def main() -> list[Row]:
    """Time rounds; return (name, value, unit) rows, each the best of three."""
    found = [one_round(each) for each in range(NUM_REPEATS)]
    encrypting, decrypting, adding, up, down = (
        min(each[place] for each in found) for place in range(5)
    )
    plain = 4 * NUM_NUMBERS
    return [
        ("a platform, processor time (bar: 3.5 s)", encrypting + decrypting, "s"),
        ("  of it to encrypt", encrypting, "s"),
        ("  of it to decrypt", decrypting, "s"),
        ("a platform, bytes up and down (bar: 115 MB)", (up + down) / 1e6, "MB"),
        ("bytes up / float32 in the clear", up / plain, "x"),
        (f"the server adds {NUM_PLATFORMS} platforms", adding, "s"),
        ("largest error of a sum (bar: 1)", max(each[5] for each in found) * 1e6, "1e-6"),
    ]
