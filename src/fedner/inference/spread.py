"""Texts that stand for many others: which of some to take so that all of them are represented.

Texts become vectors of their words, tf-idf with hashed words (Weinberger et al. 2009), so that any
tagger will do and a text costs 8 KB, however long it is. `spread` maximizes facility location, the
sum over all texts of their similarity to the nearest one taken, greedily: within 1 - 1/e of the
best choice (Nemhauser et al. 1978), lazily (Minoux 1978). Over uncertain texts that is filtered
active submodular selection (Wei, Iyer and Bilmes 2015, ICML); Shen et al. 2018 (ICLR) use it for
named entities. A near copy of what was taken adds nothing, an outlier represents only itself.

Shapes: N texts, D dimensions, M texts that are known already.
"""

import heapq
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

DIMENSION: Final = 2048
_ROWS_AT_A_TIME: Final = 512
_WORD: Final = re.compile(r"\w+")
_DIGITS: Final = re.compile(r"\d+")

Vectors = NDArray[np.float32]


def text_vectors(texts: Iterable[str]) -> Vectors:
    """Return (N, D): a vector of length 1 for each text, or of zeros where it has no word."""
    counted = [_counts(text) for text in texts]
    frequency = Counter(word for counts in counted for word in counts)
    vectors_ND = np.zeros((len(counted), DIMENSION), np.float32)
    for row, counts in enumerate(counted):
        for word, count in counts.items():
            rarity = math.log((1 + len(counted)) / (1 + frequency[word])) + 1.0
            sign = 1.0 if word & 1 else -1.0  # words of one bucket cancel as often as they add
            vectors_ND[row, (word >> 1) % DIMENSION] += sign * (1.0 + math.log(count)) * rarity
    lengths_N = np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    np.divide(vectors_ND, lengths_N, out=vectors_ND, where=lengths_N > 0)
    return vectors_ND


def _counts(text: str) -> Counter[int]:
    """Return how often each word stands in a text, words by their hash; numbers are alike."""
    words = _WORD.findall(_DIGITS.sub("0", text.casefold()))
    return Counter(zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in words)


def nearest(vectors_ND: Vectors, known_MD: Vectors) -> NDArray[np.float32]:
    """Return (N,) how similar each text is to the most similar of those known; 0 without any."""
    best_N = np.zeros(len(vectors_ND), np.float32)
    for start in range(0, len(known_MD), _ROWS_AT_A_TIME):
        part = vectors_ND @ known_MD[start : start + _ROWS_AT_A_TIME].T
        np.maximum(best_N, part.max(axis=1), out=best_N)
    return best_N


def spread(
    vectors_ND: Vectors,
    count: int,
    covered_N: NDArray[np.float32] | None = None,
    weights_N: NDArray[np.float64] | None = None,
) -> list[int]:
    """Return the texts to take, the one that represents most first.

    Args:
        vectors_ND: The texts.
        count: How many to take.
        covered_N: How well each is represented before anything is taken; None for not at all.
        weights_N: How much it matters that each is represented; None for alike.

    Of equals the first is taken.
    """
    similar_NN = np.maximum(vectors_ND @ vectors_ND.T, 0.0)
    weights = np.ones(len(vectors_ND)) if weights_N is None else np.asarray(weights_N)
    covered = np.zeros(len(vectors_ND), np.float32) if covered_N is None else covered_N.copy()

    def gain(text: int) -> float:
        return float(np.maximum(similar_NN[text] - covered, 0.0) @ weights)

    # A gain only falls while more is taken: who leads with a fresh gain leads for good.
    heap = [(-gain(text), text, 0) for text in range(len(vectors_ND))]
    heapq.heapify(heap)
    taken: list[int] = []
    while heap and len(taken) < count:
        _, text, reckoned = heapq.heappop(heap)
        if reckoned < len(taken):
            heapq.heappush(heap, (-gain(text), text, len(taken)))
            continue
        taken.append(text)
        np.maximum(covered, similar_NN[text], out=covered)
    return taken
