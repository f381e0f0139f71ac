"""Who goes where by a keyed hash: the test side, a kept share, a slice.

Under differential privacy neighbouring data sets differ in one unit, and every other unit must stay
where it was. A shuffle of positions does not do that: one sentence less, and a fifth of the others
change sides. Here the side of a group follows from its own identity and a secret key, and from
nothing else: not from its place in a file, nor from how many others there are. So sizes are near
the asked shares and not exactly equal to them, and with one key a smaller share is always part of a
larger one.

The identity of a sentence is its words: equal sentences go together. That of a patient is its id.
That of a document is its name; where its reader could only number it (`notes.tsv#17`), its words.
"""

import hashlib
import re
from collections.abc import Sequence

from fedner.corpus.groups import Group, Indices, Unit, check_share, gather, groups_of
from fedner.corpus.sentence import Sentence
from fedner.corpus.splits import Split
from fedner.errors import FednerError

KEY_BYTES = 32
_BITS = 128
# How every reader names a document that has no name of its own: the file, and the place in it.
_NUMBERED = re.compile(r"#\d+$")


def is_numbered(document: str) -> bool:
    """Whether a document's id was made from its place in a file, and so is no name."""
    return not document or _NUMBERED.search(document) is not None


def identity_of(sentences: Sequence[Sentence], group: Group, by: Unit) -> str:
    """Return what names a group for good, wherever it stands and whatever stands beside it.

    Args:
        sentences: All sentences.
        group: The positions of the group's own.
        by: What a group is.
    """
    first = sentences[group[0]]
    if by == "patient":
        return str(first.patient)
    if by == "document" and not is_numbered(first.document):
        return first.document
    words = ["\0".join(sentences[position].tokens) for position in group]
    return words[0] if by == "sentence" else "\2".join(["", *words])


def keyed_number(key: bytes, purpose: str, identity: str) -> int:
    """Return a number of 128 bits, uniform to whoever has no key.

    Args:
        key: The secret; an empty one gives a plain hash, for simulations.
        purpose: What it decides; numbers for different purposes are independent.
        identity: What names the unit.
    """
    named = f"{len(purpose)}:{purpose}{identity}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(named, key=key, digest_size=_BITS // 8).digest()
    return int.from_bytes(digest, "big")


def keyed_split(sentences: Sequence[Sentence], *, by: Unit, test: float, key: bytes) -> Split:
    """Split `sentences` by the key: each group is tested on with the chance `test`.

    Guarantee:
        One group more or less, or another order of the file, moves no other group.

    Args:
        sentences: What is to be split.
        by: What must stay together.
        test: The share of the groups that goes to the test side, between 0 and 1.
        key: The secret of the platform, of `KEY_BYTES` bytes.

    Raises:
        FednerError: If a side stays empty, or the key is too short.
    """
    check_share("The share of the test side", test)
    tested, trained = _parted(sentences, by, test, key, "test")
    for side, found in (("test", tested), ("training", trained)):
        if not found:
            raise FednerError(
                f"Split by {by} with the platform's key: none of {len(sentences):,} sentences "
                f"fell on the {side} side; the share to test on is {test:g}.",
                "Take another share, or more data: the key decides for each unit by itself.",
            )
    return Split(gather(trained), gather(tested))


def keyed_sample(sentences: Sequence[Sentence], share: float, by: Unit, key: bytes) -> Indices:
    """Return positions of a share of `sentences`: the key keeps each group with that chance.

    Guarantee:
        One group more or less moves no other; a smaller sample is part of a larger one.
    """
    check_share("The share of a sample", share, whole=True)
    kept, _ = _parted(sentences, by, share, key, "keep")
    if not kept:
        raise FednerError(
            f"Sample of {share:g} of {len(sentences):,} sentences with the platform's key: empty.",
            "Take a greater share, or more data.",
        )
    return gather(kept)


def _parted(
    sentences: Sequence[Sentence], by: Unit, share: float, key: bytes, purpose: str
) -> tuple[list[Group], list[Group]]:
    """Return the groups that the key chooses with the chance `share`, and the others."""
    if len(key) != KEY_BYTES:
        raise FednerError(f"A key of {len(key)} bytes; expected {KEY_BYTES}.")
    border = int(share * 2.0**_BITS)
    chosen: list[Group] = []
    others: list[Group] = []
    for group in groups_of(sentences, by):
        number = keyed_number(key, purpose, identity_of(sentences, group, by))
        (chosen if number < border else others).append(group)
    return chosen, others
