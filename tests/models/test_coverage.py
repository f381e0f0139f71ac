"""Coverage of a corpus by word vectors, against counting one token at a time."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.corpus.sentence import Entity, Sentence
from fedner.models.embeddings.coverage import Covered, coverage
from fedner.models.embeddings.lookup import Lowercase, find_rows
from fedner.models.embeddings.vectors_file import convert
from fedner.models.embeddings.vectors_store import VectorStore, open_store
from fedner.models.embeddings.words import WordVectors

HELD = ("aa", "Bb", "cC", "dd", "İ")
TOKENS = ("aa", "AA", "Aa", "Bb", "bb", "BB", "cC", "cc", "dd", "ee", "EE", "i̇", "İ")
RULES: tuple[Lowercase, ...] = ("never", "fallback", "always")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> VectorStore:
    folder = tmp_path_factory.mktemp("vectors")
    (folder / "v.txt").write_text("".join(f"{word} 1 2\n" for word in HELD))
    convert(folder / "v.txt", folder / "store")
    return open_store(folder / "store")


def is_found(word: str, rule: Lowercase) -> bool:
    if rule == "fallback":
        return word in HELD or word.lower() in HELD
    return (word if rule == "never" else word.lower()) in HELD


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    tokens = draw(st.lists(st.sampled_from(TOKENS), max_size=8))
    borders = sorted(draw(st.sets(st.integers(0, len(tokens)), max_size=4)))
    pairs = list(zip(borders[::2], borders[1::2], strict=False))
    labels = draw(st.lists(st.sampled_from("XY"), min_size=len(pairs), max_size=len(pairs)))
    return Sentence.of(tokens, tuple(Entity(*p, x) for p, x in zip(pairs, labels, strict=True)))


def expected(words: list[str], rule: Lowercase) -> Covered:
    return Covered(
        len(words),
        sum(is_found(word, "never") for word in words),
        sum(is_found(word, "always") for word in words),
        sum(is_found(word, rule) for word in words),
    )


@given(st.lists(sentences(), max_size=6), st.sampled_from(RULES), st.integers(0, 5))
def test_counts_agree_with_the_obvious_ones(
    store: VectorStore, corpus: list[Sentence], rule: Lowercase, top: int
) -> None:
    found = coverage(store, corpus, lowercase=rule, top=top)
    everywhere = [token for sentence in corpus for token in sentence.tokens]
    spans = [
        (entity.label, sentence.tokens[entity.start : entity.end])
        for sentence in corpus
        for entity in sentence.entities
    ]
    inside = [token for _, tokens in spans for token in tokens]
    assert found.everywhere.tokens == expected(everywhere, rule)
    assert found.everywhere.types == expected(sorted(set(everywhere)), rule)
    assert found.mentions.tokens == expected(inside, rule)
    assert found.mentions.types == expected(sorted(set(inside)), rule)
    assert list(found.by_label) == sorted({label for label, _ in spans})
    for label, part in found.by_label.items():
        held = [token for each, tokens in spans if each == label for token in tokens]
        assert part.tokens == expected(held, rule)
    missing = Counter(token for token in everywhere if not is_found(token, rule))
    listed = [(each.word, each.tokens) for each in found.unknown]
    assert listed == sorted(missing.items(), key=lambda item: (-item[1], item[0]))[:top]
    assert all(each.in_mentions == inside.count(each.word) for each in found.unknown)
    assert all(each.in_mentions for each in found.unknown_in_mentions)


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_is_the_taggers_own(store: VectorStore, rule: Lowercase) -> None:
    known = WordVectors(store, lowercase=rule).is_known(TOKENS).tolist()
    assert known == [is_found(word, rule) for word in TOKENS]
    assert (find_rows(store, TOKENS, rule) >= 0).tolist() == known


def test_nothing_to_cover(store: VectorStore) -> None:
    found = coverage(store, [])
    assert found.everywhere.tokens.total == 0
    assert found.everywhere.tokens.share == 1.0


@pytest.mark.data
def test_real_vectors_on_real_text(data: Path, tmp_path: Path) -> None:
    from fedner.corpus.prepare import prepare
    from fedner.corpus.reading import read

    convert(data / "glove-6b" / "glove.6B.50d.subset.txt.xz", tmp_path / "store")
    prepared = prepare(read(data / "psytar" / "all.test.txt.xz"), sentences="as given")
    found = coverage(open_store(tmp_path / "store"), prepared.sentences)
    assert found.everywhere.tokens.total == sum(len(each.tokens) for each in prepared.sentences)
    assert 0.9 < found.everywhere.tokens.share < 1.0
    assert found.everywhere.tokens.exact < found.everywhere.tokens.found, "GloVe is in lower case"
