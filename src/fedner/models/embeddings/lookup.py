"""How a word is looked up among vectors: the rule that taggers and coverage counts share."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedner.models.embeddings.vectors_store import VectorStore

Lowercase = Literal["never", "fallback", "always"]
DEFAULT_LOWERCASE: Lowercase = "fallback"


def find_rows(store: VectorStore, words: Sequence[str], lowercase: Lowercase) -> NDArray[np.int64]:
    """Return the row of each word, or -1 where the vectors do not have it.

    Args:
        store: The vectors.
        words: The words as they stand in a text.
        lowercase: "never" looks words up as they stand, "always" in lower case, "fallback" first
            as they stand and then in lower case.
    """
    found = store.find([word.lower() for word in words] if lowercase == "always" else words)
    if lowercase == "fallback":
        missing = np.flatnonzero(found < 0)
        found[missing] = store.find([words[index].lower() for index in missing.tolist()])
    return found
