"""How many words of a corpus the vectors have, and which frequent ones they lack.

Unknown words are words of a platform's texts: whoever calls this shows them to the platform alone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fedner.corpus.sentence import Sentence
from fedner.models.embeddings.lookup import DEFAULT_LOWERCASE, Lowercase, find_rows
from fedner.models.embeddings.vectors_store import VectorStore


@dataclass(frozen=True, slots=True)
class Covered:
    """How many of some words the vectors have.

    Attributes:
        total: How many there are.
        exact: How many are found as they stand.
        lowercased: How many are found in lower case.
        found: How many are found by the tagger's own rule.
    """

    total: int = 0
    exact: int = 0
    lowercased: int = 0
    found: int = 0

    @property
    def share(self) -> float:
        """The share that the tagger finds; 1 where there are no words."""
        return self.found / self.total if self.total else 1.0


@dataclass(frozen=True, slots=True)
class Part:
    """The coverage of one part of a corpus.

    Attributes:
        tokens: Of its running words.
        types: Of its distinct words.
    """

    tokens: Covered
    types: Covered


@dataclass(frozen=True, slots=True)
class UnknownWord:
    """A word that the vectors lack.

    Attributes:
        word: The word.
        tokens: How often it occurs.
        in_mentions: How often within a mention.
    """

    word: str
    tokens: int
    in_mentions: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """What vectors cover of a corpus.

    Attributes:
        everywhere: Of all words.
        mentions: Of the words within mentions, which is what matters to a tagger.
        by_label: Of the words within mentions of each type.
        unknown: The most frequent words that the vectors lack.
        unknown_in_mentions: The most frequent of those within mentions.
        lowercase: The rule that the tagger looks words up by.
    """

    everywhere: Part
    mentions: Part
    by_label: Mapping[str, Part]
    unknown: tuple[UnknownWord, ...]
    unknown_in_mentions: tuple[UnknownWord, ...]
    lowercase: Lowercase


@dataclass(slots=True)
class _Words:
    """How often each word occurs, in all, in mentions, and in mentions of each label."""

    everywhere: Counter[str] = field(default_factory=Counter)
    in_mentions: Counter[str] = field(default_factory=Counter)
    by_label: dict[str, Counter[str]] = field(default_factory=dict)


def coverage(
    store: VectorStore,
    sentences: Iterable[Sentence],
    *,
    lowercase: Lowercase = DEFAULT_LOWERCASE,
    top: int = 20,
) -> Coverage:
    """Count what the vectors cover.

    Args:
        store: The vectors.
        sentences: The sentences, tokenised as a tagger gets them.
        lowercase: The rule that the tagger will look words up by.
        top: How many unknown words are named.
    """
    words = _counted(sentences)
    known = _known(store, tuple(words.everywhere), lowercase)
    return Coverage(
        _part(words.everywhere, known),
        _part(words.in_mentions, known),
        {label: _part(words.by_label[label], known) for label in sorted(words.by_label)},
        _unknown(words.everywhere, words, known, top),
        _unknown(words.in_mentions, words, known, top),
        lowercase,
    )


def _counted(sentences: Iterable[Sentence]) -> _Words:
    words = _Words()
    for sentence in sentences:
        words.everywhere.update(sentence.tokens)
        for entity in sentence.entities:
            tokens = sentence.tokens[entity.start : entity.end]
            words.in_mentions.update(tokens)
            words.by_label.setdefault(entity.label, Counter()).update(tokens)
    return words


def _known(
    store: VectorStore, words: Sequence[str], lowercase: Lowercase
) -> dict[str, tuple[bool, bool, bool]]:
    """Return for every word whether it is found as it stands, in lower case, by the rule."""
    rules: tuple[Lowercase, ...] = ("never", "always", lowercase)
    found = [(find_rows(store, words, rule) >= 0).tolist() for rule in rules]
    return dict(zip(words, zip(*found, strict=True), strict=True))


def _part(counts: Mapping[str, int], known: Mapping[str, tuple[bool, bool, bool]]) -> Part:
    tokens, types = [0, 0, 0], [0, 0, 0]
    for word, count in counts.items():
        for rule, is_found in enumerate(known[word]):
            tokens[rule] += count * is_found
            types[rule] += is_found
    return Part(Covered(sum(counts.values()), *tokens), Covered(len(counts), *types))


def _unknown(
    counts: Mapping[str, int],
    words: _Words,
    known: Mapping[str, tuple[bool, bool, bool]],
    top: int,
) -> tuple[UnknownWord, ...]:
    missing = [word for word in counts if not known[word][2]]
    missing.sort(key=lambda word: (-counts[word], word))
    return tuple(
        UnknownWord(word, words.everywhere[word], words.in_mentions[word])
        for word in missing[: max(0, top)]
    )
