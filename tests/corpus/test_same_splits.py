"""The same seed gives the same split, for good: runs of years ago must come out alike."""

import hashlib
from collections.abc import Sequence

import pytest

from fedner.corpus.assignment import keyed_sample, keyed_split
from fedner.corpus.groups import Grouping, Unit
from fedner.corpus.platforms import by_source, divide, slices
from fedner.corpus.sentence import Entity, Sentence
from fedner.corpus.splits import Split, holdout, k_folds, split, subsample

KEY = bytes(range(32))

# What each way of choosing gave before splits returned positions: hashes of the positions.
RECORDED: dict[Unit, list[str]] = {
    "sentence": [
        "cb87a749d4ea2caa", "5f4f3df729ab50ca", "b9cfb8de8c2db78e", "9088b8de0a79208e",
        "56f9615c438d0bdc", "c1632d291bddbf0f", "27fd3f62848b6863", "ae55632ded6b0098",
        "a27b2aec46dec735", "d424d0ed68b4c9ae",
    ],
    "document": [
        "203468e0e7f1c9a2", "a8bde17175f87b71", "f51a4e9fb8fc124a", "0a1b921ae5a5a999",
        "9f685ca0d10abf12", "78a844d88f0c3a8b", "ee154d56f4bf9497", "a04bba75ab15695c",
        "fa488a742a36dbce", "aca9012820d7933d",
    ],
    "patient": [
        "d0a72ae67e30791f", "d90c4433caa72b16", "5b76dfb4009e9589", "697f4d04cda73cbc",
        "7d04df0e7f76e156", "d22156a158e5c856", "f37ee3181520ce03", "a9b51710e206a1f5",
        "2b1ca54dfedabcc6", "54f5e151cb0dae5c",
    ],
}  # fmt: skip


def sentence(number: int) -> Sentence:
    entities = (Entity(0, 1, "AB"[number % 2]),) if number % 3 else ()
    owner = number * number % 17
    words = (f"w{number % 29}",)
    return Sentence(f"d{owner}.{number % 7}", number, words, (0,), (2,), entities, f"p{owner}")


SENTENCES = [sentence(number) for number in range(90)]


def digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def both(found: Split) -> list[list[int]]:
    return [list(found.train), list(found.test)]


def lists(parts: Sequence[Sequence[int]]) -> list[list[int]]:
    return [list(part) for part in parts]


@pytest.mark.parametrize("by", ["sentence", "document", "patient"])
def test_every_way_of_choosing_gives_what_it_always_gave(by: Unit) -> None:
    grouping = Grouping.of(SENTENCES, by)
    found = [
        both(split(grouping, test=0.3, seed=5)),
        both(holdout(grouping, share=0.1, seed=5)),
        [both(fold) for fold in k_folds(grouping, 3, 5)],
        list(subsample(grouping, 0.4, 5)),
        lists(slices(grouping, 0.3, 5)),
        lists(divide(SENTENCES, into=3, how="equal", seed=5, by=by)),
        lists(divide(SENTENCES, into=3, how="size-skew", seed=5, by=by)),
        lists(divide(SENTENCES, into=3, how="label-skew", seed=5, by=by)),
        both(keyed_split(SENTENCES, by=by, test=0.3, key=KEY)),
        list(keyed_sample(SENTENCES, 0.4, by, KEY)),
    ]
    assert [digest(each) for each in found] == RECORDED[by]


def test_sources_hold_what_they_always_held() -> None:
    found = {name: list(part) for name, part in by_source(SENTENCES).items()}
    assert digest(found) == "b7f917caf68a8960"
