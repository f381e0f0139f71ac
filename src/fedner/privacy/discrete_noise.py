r"""Exact draws of the discrete Gaussian: whole numbers, so that noise can be summed modulo 2^bits.

Law: Canonne, Kamath and Steinke (2020), "The discrete Gaussian for differential privacy":
P(x) is in proportion to exp(-x^2 / (2 sigma^2)) for every integer x; here sigma is an integer, too.

Sampler: Karney (2016), "Sampling exactly from the normal distribution", algorithm D at mean 0:

    1. k = 0, 1, 2, ... with probability in proportion to exp(-k^2 / 2), and a sign.
    2. j uniform in 0 .. sigma - 1; x = j / sigma.
    3. Keep with probability exp(-x^2 / 2) * exp(-x)^k; else begin anew.
    4. The draw is sign * (k sigma + j); "minus zero" begins anew.

Exactness. No floating-point number has a part in a draw, so there are no holes to read the
protected value from (Mironov 2012): a uniform integer below sigma is Lemire's (2019) product of a
random word, with rejection; exp(-p) comes by von Neumann (1951) from coins of probability p / n; k
is read off a table of 63 bits, and a word that falls on an entry is resolved by further bits, as
many as it takes. What differs from the papers: whole tensors are drawn at once.

Not covered: how long a draw takes depends on the numbers that were drawn.
"""

import functools
from collections.abc import Callable
from decimal import Decimal, localcontext

import torch
from torch import Tensor

from fedner.errors import FednerError
from fedner.privacy.entropy import SeededSimulation, Source
from fedner.privacy.keystream import random_int32

# A product of a 32-bit word and a deviation must fit into 63 bits.
MOST_DEVIATION = 2**31 - 1
_WORD = 0xFFFFFFFF
_CELL_BITS = 63
# Draws made at a time: what stays in a core's cache; on an accelerator, few launches.
_CPU_BLOCK = 1 << 16
_DEVICE_BLOCK = 1 << 23
_MORE_TRIALS = 1.42  # of sqrt(2 / pi) * sum over k of exp(-k^2 / 2) that are needed on average

Words = Callable[[int], Tensor]  # so many uniform 32-bit words, as 64-bit integers


def discrete_gaussian(count: int, deviation: int, source: Source, device: torch.device) -> Tensor:
    """Return independent draws of the discrete Gaussian as 64-bit integers.

    Guarantee:
        Exactly its law, where the words are uniform: those of the system are a cipher's.

    Args:
        count: How many.
        deviation: Sigma, from 0 (zeros) up.
        source: Where they come from; a simulation gives the same for the same path.
        device: Where they are made.

    Raises:
        FednerError: If the deviation is none that can be drawn.
    """
    if not 0 <= deviation <= MOST_DEVIATION:
        raise FednerError(
            f"The deviation of discrete noise is {deviation}; expected 0 to {MOST_DEVIATION}.",
            "Take a coarser grid.",
        )
    drawn = torch.zeros(count, dtype=torch.int64, device=device)
    if deviation == 0:
        return drawn
    words = _words_of(source, device)
    block = _CPU_BLOCK if device.type == "cpu" else _DEVICE_BLOCK
    filled = 0
    while filled < count:
        trials = min(block, int((count - filled) * _MORE_TRIALS) + 64)
        kept = _kept(trials, deviation, words)[: count - filled]
        drawn[filled : filled + len(kept)] = kept
        filled += len(kept)
    return drawn


def _words_of(source: Source, device: torch.device) -> Words:
    if isinstance(source, SeededSimulation):
        generator = torch.Generator(device).manual_seed(source.stream_seed())
        return lambda count: torch.randint(
            0, _WORD + 1, (count,), generator=generator, device=device
        )
    return lambda count: random_int32(count, device).to(torch.int64).bitwise_and_(_WORD)


def _kept(trials: int, deviation: int, words: Words) -> Tensor:
    """Return the draws of those trials that were kept, in their order."""
    k = _cells(trials, words)
    j = _below(trials, deviation, words)
    is_kept = _survive_half_square(j, deviation, words)
    for times in range(1, int(k.max()) + 1):
        at = (is_kept & (k >= times)).nonzero().squeeze(1)
        is_kept[at] = _survive(j[at], deviation, words)
    is_negative = words(trials) & 1 == 1
    size = k * deviation + j
    is_kept &= ~(is_negative & (size == 0))
    return torch.where(is_negative, -size, size)[is_kept]


def _below(count: int, limit: int, words: Words) -> Tensor:
    """Return uniform integers from 0 up to below a limit: Lemire (2019)."""
    refused = (_WORD + 1) % limit
    product = words(count).mul_(limit)
    while refused:
        again = ((product & _WORD) < refused).nonzero().squeeze(1)
        if not len(again):
            break
        product[again] = words(len(again)).mul_(limit)
    return product.bitwise_right_shift_(32)


def _survive(j: Tensor, deviation: int, words: Words) -> Tensor:
    """Return coins of probability exp(-j / deviation)."""
    return _von_neumann(
        len(j), j.device, words, lambda at: _below(len(at), deviation, words) < j[at]
    )


def _survive_half_square(j: Tensor, deviation: int, words: Words) -> Tensor:
    """Return coins of probability exp(-(j / deviation)^2 / 2)."""

    def heads(at: Tensor) -> Tensor:
        found = words(len(at)) & 1 == 1
        for _ in range(2):
            still = found.nonzero().squeeze(1)
            found[still] = _below(len(still), deviation, words) < j[at[still]]
        return found

    return _von_neumann(len(j), j.device, words, heads)


def _von_neumann(
    count: int, device: torch.device, words: Words, heads: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return coins of probability exp(-p), of a way to toss coins of probability p.

    The n-th toss is one of p / n; the number of the first tails is odd with probability
    1 - p + p^2 / 2! - ... = exp(-p).
    """
    result = torch.zeros(count, dtype=torch.bool, device=device)
    at, turn = torch.arange(count, device=device), 1
    while len(at):
        is_heads = heads(at)
        if turn > 1:
            still = is_heads.nonzero().squeeze(1)
            is_heads[still] = _below(len(still), turn, words) == 0
        if turn % 2:
            result[at[~is_heads]] = True
        at, turn = at[is_heads], turn + 1
    return result


def _cells(count: int, words: Words) -> Tensor:
    """Return numbers k with probability in proportion to exp(-k^2 / 2)."""
    high, low = words(count), words(count)
    drawn = high.bitwise_right_shift_(1).bitwise_left_shift_(32).bitwise_or_(low)
    table = _table(drawn.device)
    k = torch.bucketize(drawn, table, right=True)
    # An entry is the cell in which the border lies: there more bits decide.
    is_border = torch.isin(drawn, table)
    for at in is_border.nonzero().flatten().tolist():
        k[at] = resolved_cell(int(drawn[at]), _CELL_BITS, lambda: int(words(1)))
    return k


@functools.lru_cache
def _table(device: torch.device) -> Tensor:
    borders = {border(k, _CELL_BITS) for k in range(_terms(_CELL_BITS))}
    return torch.tensor(sorted(borders), dtype=torch.int64, device=device)


@functools.lru_cache
def border(k: int, bits: int) -> int:
    """Return the probability of 0 .. k, times 2^bits, rounded down."""
    with localcontext() as context:
        # Many more digits than 2^bits has: no border lies that near to a whole number.
        context.prec = bits + 150
        weights = [(Decimal(-n * n) / 2).exp() for n in range(_terms(bits) + 1)]
        return int(sum(weights[: k + 1]) / sum(weights) * 2**bits)


def _terms(bits: int) -> int:
    """Return how many terms exp(-k^2 / 2) are larger than 2^-(bits + 200), or more."""
    return int((1.4 * (bits + 200)) ** 0.5) + 2


def resolved_cell(drawn: int, bits: int, more: Callable[[], int]) -> int:
    """Return the k of a draw that lies on a border, with 32 more bits at a time.

    Args:
        drawn: The bits so far, as a whole number.
        bits: How many.
        more: Draws a 32-bit word.
    """
    while True:
        for k in range(_terms(bits)):
            if drawn == border(k, bits):
                break  # the border lies in this cell
            if drawn < border(k, bits):
                return k
        drawn, bits = (drawn << 32) | more(), bits + 32
