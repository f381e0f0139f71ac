"""The CRF on the CPU: forward-backward and Viterbi in NumPy, on views of the tensors.

A sentence needs one small matrix product a token, so that what costs time is the overhead of the
calls, and NumPy's is a quarter of torch's. Forward-backward runs on probabilities in float64 with
occasional rescaling. Let every non-zero number of a step be at least `_TINY`: then no product of
the next step underflows. This is checked afterwards, for every number and every step, so that the
result is either exact or handed over to the log-space loop, sentence by sentence.

Sentences are sorted by length and stored time first: those that go on are always the first rows.

Shapes: B sentences (sorted, longest first), L tokens of the longest, K tags.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from fedner.models.crf_chain import Chain, Posterior, with_exact_rows

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_TINY = 1e-90  # three of them multiplied, and divided by the largest scale, are no underflow
_WIDE = 200.0  # the widest range of scores whose exponentials are all above _TINY
_DRIFT = 80.0  # how far, in nats, numbers should drift before they are rescaled
_LONGEST_STRETCH = 16  # tokens between two rescalings


class _Sorted(NamedTuple):
    """How the sentences are laid out: longest first, empty ones left out.

    Attributes:
        rows_B: Which sentence of the batch each row is.
        is_given_order: Whether the batch came in this order and without empty sentences.
        lengths_B: The lengths of the rows, falling.
        active_L: How many rows reach each token.
    """

    rows_B: Ints
    is_given_order: bool
    lengths_B: Ints
    active_L: list[int]


class _Lattice(NamedTuple):
    """The potentials as shifted probabilities: the largest of each kind is 1.

    Attributes:
        emissions_LBK: exp(emission - peak); 1 behind a sentence's end.
        start_K: exp(start - its peak).
        end_K: exp(end - its peak).
        transitions_KK: exp(transition - its peak).
        shift_B: What the peaks add up to along each sentence.
        is_exact_B: Whether no potential of the sentence is too small for the method.
        stretch: After how many tokens to rescale.
    """

    emissions_LBK: Floats
    start_K: Floats
    end_K: Floats
    transitions_KK: Floats
    shift_B: Floats
    is_exact_B: npt.NDArray[np.bool_]
    stretch: int


def posterior(chain: Chain) -> Posterior:
    """Return log-partition, marginals and expected steps by one forward-backward."""
    layout = _sort(chain.lengths_B.numpy())
    if not layout.active_L:
        log_partition_B = torch.zeros(len(chain.lengths_B), dtype=torch.float64)
        marginals_BLK = torch.zeros(chain.emissions_BLK.shape, dtype=torch.float64)
        return Posterior(log_partition_B, marginals_BLK, _no_steps(chain))
    with np.errstate(all="ignore"):
        lattice = _lattice(chain, layout)
        before_LBK, scales_LB = _forward(lattice, layout)
        after_LBK, ahead_LBK, back_scales_LB = _backward(lattice, layout)
        ends_B, is_exact_B = _log_sums(lattice, layout, before_LBK, scales_LB)
        is_exact_B &= _has_no_tiny(ahead_LBK)
        marginals_LBK = np.multiply(before_LBK, after_LBK, out=after_LBK)
        sums_LB = torch.from_numpy(marginals_LBK).sum(2).numpy()
        sums_LB[sums_LB == 0.0] = 1.0  # behind a sentence's end, or no path at all
        marginals_LBK /= sums_LB[..., None]
        # `before` and `ahead` may have been rescaled at a token, `sums` is after and before it.
        sums_LB *= scales_LB
        sums_LB /= back_scales_LB
        ahead_LBK[1:] /= sums_LB[1:, :, None]
    steps_BKK = _expected_steps(before_LBK, ahead_LBK, lattice.transitions_KK)
    result = _unsort(chain, layout, ends_B, marginals_LBK, steps_BKK)
    if not is_exact_B.all():
        return with_exact_rows(chain, result, torch.from_numpy(layout.rows_B[~is_exact_B]))
    return result


def _sort(lengths_B: Ints) -> _Sorted:
    """Return the layout of a batch."""
    longest = int(lengths_B.max(initial=0))
    if longest == 0:
        return _Sorted(np.empty(0, np.int64), False, np.empty(0, np.int64), [])
    num_sentences = len(lengths_B)
    if lengths_B.min() == longest:
        return _Sorted(np.arange(num_sentences), True, lengths_B, [num_sentences] * longest)
    rows_B = np.argsort(-lengths_B, kind="stable")
    sorted_B = lengths_B[rows_B]
    is_given_order = bool(sorted_B[-1] > 0 and (np.diff(rows_B) > 0).all())
    if sorted_B[-1] == 0:
        rows_B, sorted_B = rows_B[sorted_B > 0], sorted_B[sorted_B > 0]
    ended_L = np.bincount(sorted_B, minlength=longest + 1)[:-1].cumsum()
    return _Sorted(rows_B, is_given_order, sorted_B, (len(sorted_B) - ended_L).tolist())


def _time_first(chain: Chain, layout: _Sorted) -> Floats:
    """Return the emissions as a new float64 array, time first, 0 behind a sentence's end."""
    given_BLK = chain.emissions_BLK.numpy()
    if not layout.is_given_order:
        given_BLK = given_BLK[layout.rows_B]
    num_tokens = len(layout.active_L)
    result_LBK = given_BLK[:, :num_tokens].transpose(1, 0, 2).astype(np.float64, order="C")
    if num_tokens and layout.lengths_B[-1] < num_tokens:
        result_LBK[np.arange(num_tokens)[:, None] >= layout.lengths_B] = 0.0
    return result_LBK


def _lattice(chain: Chain, layout: _Sorted) -> _Lattice:
    """Return the shifted probabilities of a batch."""
    emissions_LBK, shift_B, spread, is_exact_B = _shifted_emissions(chain, layout)
    start_K, start_peak, start_range = _shifted(chain.start_K)
    end_K, end_peak, end_range = _shifted(chain.end_K)
    transitions_KK, step_peak, step_range = _shifted(chain.transitions_KK)
    shift_B += start_peak + end_peak + step_peak * (layout.lengths_B - 1)
    widest = max(start_range, end_range, step_range)
    is_exact_B &= widest <= _WIDE
    # Numbers sink by half their range a token, as a rule, and rise by the log of K at most.
    drift = (spread + widest) / 2.0 + math.log(len(start_K)) + 1.0
    # The order matters where a training diverged: of 1 and NaN, `max` takes the first.
    stretch = int(min(max(1.0, _DRIFT / drift), _LONGEST_STRETCH))
    return _Lattice(emissions_LBK, start_K, end_K, transitions_KK, shift_B, is_exact_B, stretch)


def _shifted_emissions(
    chain: Chain, layout: _Sorted
) -> tuple[Floats, Floats, float, npt.NDArray[np.bool_]]:
    """Return exp(emissions - peaks), the sums of the peaks, the range, and who fits into it."""
    emissions_LBK = _time_first(chain, layout)
    shift_B: Floats = np.zeros(len(layout.rows_B))
    is_exact_B = np.ones(len(layout.rows_B), np.bool_)
    top = float(emissions_LBK.max())
    spread = top - float(emissions_LBK.min())
    if spread <= _WIDE:  # the usual case: one peak for all spares a maximum for every token
        emissions_LBK -= top
        shift_B += layout.lengths_B * top
    else:
        peaks_LB = emissions_LBK.max(2)
        peaks_LB[np.isneginf(peaks_LB)] = 0.0
        shift_B += peaks_LB.sum(0)
        emissions_LBK -= peaks_LB[..., None]
        is_possible_LBK = emissions_LBK > -np.inf
        spread = -float(emissions_LBK.min(where=is_possible_LBK, initial=0.0))
        if spread > _WIDE:
            is_exact_B &= ~(is_possible_LBK & (emissions_LBK < -_WIDE)).any((0, 2))
    return np.exp(emissions_LBK, out=emissions_LBK), shift_B, spread, is_exact_B


def _shifted(scores: torch.Tensor) -> tuple[Floats, float, float]:
    """Return exp(scores - peak), the peak, and the range of the finite scores."""
    values = scores.double().numpy()
    peak = float(values.max())
    if peak == -np.inf:
        return np.zeros(values.shape), 0.0, 0.0
    lowest = float(values.min())
    if lowest == -np.inf:
        lowest = float(values.min(where=values > -np.inf, initial=peak))
    return np.exp(values - peak), peak, peak - lowest


def _forward(lattice: _Lattice, layout: _Sorted) -> tuple[Floats, Floats]:
    """Return `before` (each prefix summed over its paths, up to scale) and the scales taken out."""
    emissions_LBK, transitions_KK = lattice.emissions_LBK, lattice.transitions_KK
    before_LBK = np.zeros_like(emissions_LBK)
    scales_LB = np.ones(before_LBK.shape[:2])
    np.multiply(emissions_LBK[0], lattice.start_K, out=before_LBK[0])
    for t in range(1, len(layout.active_L)):
        active = layout.active_L[t]
        here_BK = before_LBK[t, :active]
        np.dot(before_LBK[t - 1, :active], transitions_KK, out=here_BK)
        np.multiply(here_BK, emissions_LBK[t, :active], out=here_BK)
        if t % lattice.stretch == 0:
            _rescale(here_BK, scales_LB[t, :active])
    return before_LBK, scales_LB


def _backward(lattice: _Lattice, layout: _Sorted) -> tuple[Floats, Floats, Floats]:
    """Return `after` (each suffix behind a token), `ahead` (with the token itself) and scales."""
    emissions_LBK = lattice.emissions_LBK
    backwards_KK = np.ascontiguousarray(lattice.transitions_KK.T)
    after_LBK = np.empty_like(emissions_LBK)
    after_LBK[...] = lattice.end_K
    ahead_LBK = np.zeros_like(emissions_LBK)
    scales_LB = np.ones(after_LBK.shape[:2])
    for t in range(len(layout.active_L) - 1, 0, -1):
        active = layout.active_L[t]
        here_BK = ahead_LBK[t, :active]
        np.multiply(after_LBK[t, :active], emissions_LBK[t, :active], out=here_BK)
        if t % lattice.stretch == 0:
            _rescale(here_BK, scales_LB[t, :active])
        np.dot(here_BK, backwards_KK, out=after_LBK[t - 1, :active])
    return after_LBK, ahead_LBK, scales_LB


def _rescale(values_BK: Floats, scales_B: Floats) -> None:
    """Divide each row by its maximum, in place, and note the maximum; rows of zeros stay."""
    np.max(values_BK, axis=1, out=scales_B)
    scales_B[scales_B == 0.0] = 1.0
    values_BK /= scales_B[:, None]


def _log_sums(
    lattice: _Lattice, layout: _Sorted, before_LBK: Floats, scales_LB: Floats
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the log-partition of each row, and whether it is exact."""
    last_BK = before_LBK[layout.lengths_B - 1, np.arange(len(layout.lengths_B))]
    sums_B = np.log(last_BK @ lattice.end_K)
    logs_B = np.log(scales_LB[:: lattice.stretch]).sum(0)
    return sums_B + logs_B + lattice.shift_B, lattice.is_exact_B & _has_no_tiny(before_LBK)


def _has_no_tiny(values_LBK: Floats) -> npt.NDArray[np.bool_]:
    """Return for each row whether its numbers are all zero or large enough to stay exact."""
    suspect_LBK = values_LBK < _TINY
    suspect_LBK &= values_LBK > 0.0
    if not suspect_LBK.any():
        return np.ones(values_LBK.shape[1], np.bool_)
    return np.logical_not(suspect_LBK.any((0, 2)))


def _expected_steps(before_LBK: Floats, ahead_LBK: Floats, transitions_KK: Floats) -> torch.Tensor:
    """Return (B, K, K) the expected steps; torch multiplies, so that its thread count holds."""
    sources_BKL = torch.from_numpy(before_LBK[:-1]).permute(1, 2, 0)
    targets_BLK = torch.from_numpy(ahead_LBK[1:]).permute(1, 0, 2)
    return torch.bmm(sources_BKL, targets_BLK).mul_(torch.from_numpy(transitions_KK))


def _no_steps(chain: Chain) -> torch.Tensor:
    num_sentences, _, num_tags = chain.emissions_BLK.shape
    return torch.zeros(num_sentences, num_tags, num_tags, dtype=torch.float64)


def _unsort(
    chain: Chain, layout: _Sorted, ends_B: Floats, marginals_LBK: Floats, steps_BKK: torch.Tensor
) -> Posterior:
    """Return the posterior in the order and padding of the batch."""
    sums_B = torch.from_numpy(ends_B)
    marginals_BLK = torch.from_numpy(marginals_LBK).transpose(0, 1)
    num_tokens = marginals_BLK.shape[1]
    if layout.is_given_order and num_tokens == chain.emissions_BLK.shape[1]:
        return Posterior(sums_B, marginals_BLK, steps_BKK)
    rows_B = torch.from_numpy(layout.rows_B)
    padded_BLK = torch.zeros(chain.emissions_BLK.shape, dtype=torch.float64)
    padded_BLK[rows_B, :num_tokens] = marginals_BLK
    log_partition_B = torch.zeros(len(padded_BLK), dtype=torch.float64)
    log_partition_B[rows_B] = sums_B
    return Posterior(
        log_partition_B, padded_BLK, _no_steps(chain).index_copy_(0, rows_B, steps_BKK)
    )


def best_paths(chain: Chain) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (B, L) the best tags, 0 behind a sentence's end, and (B,) their scores in float64."""
    layout = _sort(chain.lengths_B.numpy())
    with np.errstate(invalid="ignore"):
        return _trace_back(chain, layout, _best_prefixes(chain, layout))


def trace_back(chain: Chain) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the same from a chain whose emissions are the scores of the best prefixes."""
    layout = _sort(chain.lengths_B.numpy())
    with np.errstate(invalid="ignore"):
        return _trace_back(chain, layout, _time_first(chain, layout))


def _best_prefixes(chain: Chain, layout: _Sorted) -> Floats:
    """Return the score of the best prefix that ends in each tag.

    Sentences come last here: the inner loops run over them and the maximum over the first axis.
    """
    emissions_LKB = np.ascontiguousarray(_time_first(chain, layout).transpose(0, 2, 1))
    num_tokens, num_tags, num_rows = emissions_LKB.shape
    transitions_KK1 = chain.transitions_KK.double().numpy()[:, :, None]
    best_LKB = emissions_LKB
    best_LKB[:1] += chain.start_K.double().numpy()[:, None]
    room = np.empty(num_tags * num_tags * num_rows)
    for t in range(1, num_tokens):
        active = layout.active_L[t]
        steps_KKB = room[: num_tags * num_tags * active].reshape(num_tags, num_tags, active)
        np.add(best_LKB[t - 1, :, None, :active], transitions_KK1, out=steps_KKB)
        best_LKB[t, :, :active] += np.maximum.reduce(steps_KKB, axis=0)
    return np.ascontiguousarray(best_LKB.transpose(0, 2, 1))


def _trace_back(
    chain: Chain, layout: _Sorted, best_LBK: Floats
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the paths that `best` leads back along; equal scores go to the lower tag."""
    into_KK = np.ascontiguousarray(chain.transitions_KK.double().numpy().T)
    rows_B = np.arange(len(layout.lengths_B))
    ends_BK = best_LBK[layout.lengths_B - 1, rows_B] + chain.end_K.double().numpy()
    tags_B = ends_BK.argmax(1)
    paths_LB = np.zeros(best_LBK.shape[:2], np.int64)
    paths_LB[layout.lengths_B - 1, rows_B] = tags_B
    for t in range(len(layout.active_L) - 2, -1, -1):
        active = layout.active_L[t + 1]
        steps_BK = into_KK[paths_LB[t + 1, :active]]
        steps_BK += best_LBK[t, :active]
        steps_BK.argmax(1, out=paths_LB[t, :active])
    num_sentences, num_tokens, _ = chain.emissions_BLK.shape
    all_tags_BL = np.zeros((num_sentences, num_tokens), np.int64)
    all_tags_BL[layout.rows_B, : len(paths_LB)] = paths_LB.T
    scores_B = np.zeros(num_sentences)
    scores_B[layout.rows_B] = ends_BK[rows_B, tags_B]
    return torch.from_numpy(all_tags_BL), torch.from_numpy(scores_B)
