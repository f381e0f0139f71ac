"""Which unlabelled texts to annotate next: those of which a tagger is least sure, no two alike.

The uncertainty of a text is the negative log-likelihood of its best path under the tagger, divided
by what it costs to annotate: its tokens, and `OPENING_TOKENS` for opening it. Without the latter
that is the maximum normalized log-probability of Shen et al. 2018 (Deep active learning for named
entity recognition, ICLR), which cures least confidence of its preference for long texts (Settles
and Craven 2008, EMNLP) and then prefers the shortest. The best path of a text is that of all of its
sentences: their log-likelihoods add up.

Both: of the `CANDIDATES_PER_PLACE` times as many most uncertain texts those that represent the
uncertainty of all of these best, and are unlike what is annotated already (`spread.py`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from fedner.inference.spread import nearest, spread, text_vectors
from fedner.seeds import seeded

Ranking = Literal["both", "uncertainty", "diversity", "random"]

OPENING_TOKENS: Final = 10
CANDIDATES_PER_PLACE: Final = 3
MOST_CANDIDATES: Final = 6_000


def uncertainty_of(negative_log_likelihood: float, num_tokens: int) -> float:
    """Return how unsure a tagger is of a text, for what the text costs; 0 of one without tokens.

    >>> uncertainty_of(6.0, 20)
    0.2
    """
    if not num_tokens:
        return 0.0
    return max(0.0, negative_log_likelihood) / (num_tokens + OPENING_TOKENS)


def ranked(
    by: Ranking,
    uncertainty_N: Sequence[float] | NDArray[np.float64],
    texts_of: Callable[[Sequence[int]], Iterable[str]],
    count: int,
    known: Sequence[str] = (),
    seed: int = 0,
) -> list[int]:
    """Return which texts to annotate, the most useful first.

    Args:
        by: What decides.
        uncertainty_N: How unsure the tagger is of each text.
        texts_of: Returns some texts by their numbers; asked once, and only where words count.
        count: How many are wanted; fewer where there are fewer.
        known: Texts that are annotated already.
        seed: Draws the texts of a random choice, and those looked at for diversity where there are
            very many.
    """
    uncertain_N = np.asarray(uncertainty_N, np.float64)
    count = min(count, len(uncertain_N))
    if by == "random":
        drawn: list[int] = seeded(seed, "suggest", "random").permutation(len(uncertain_N)).tolist()
        return drawn[:count]
    by_doubt = np.argsort(-uncertain_N, kind="stable")
    if by == "uncertainty":
        most: list[int] = by_doubt[:count].tolist()
        return most
    if by == "both":
        candidates = by_doubt[: max(count, min(CANDIDATES_PER_PLACE * count, MOST_CANDIDATES))]
        weights = uncertain_N[candidates]
    else:
        size = max(min(len(uncertain_N), MOST_CANDIDATES), count)
        looked_at = seeded(seed, "suggest", "diversity").permutation(len(uncertain_N))[:size]
        candidates, weights = np.sort(looked_at), np.ones(size)
    return _spread_over(candidates, weights, texts_of, count, known)


def _spread_over(
    candidates: NDArray[np.int64],
    weights: NDArray[np.float64],
    texts_of: Callable[[Sequence[int]], Iterable[str]],
    count: int,
    known: Sequence[str],
) -> list[int]:
    """Return the candidates that represent all of them, beside what is known."""
    numbers = candidates.tolist()
    vectors = text_vectors([*texts_of(numbers), *known])
    own, others = vectors[: len(numbers)], vectors[len(numbers) :]
    return [numbers[each] for each in spread(own, count, nearest(own, others), weights)]
