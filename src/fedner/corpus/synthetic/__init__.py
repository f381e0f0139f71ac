"""Three built-in platforms of synthetic medical text: seeded, of any size, no real data.

The platforms share a lexicon of drugs and effects but differ in style, labels, tag scheme and
criteria of annotation. Everything that they hold says that it is synthetic.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Literal

from fedner.corpus.document import Corpus, Document, Segment
from fedner.corpus.synthetic import case_reports, forum_posts, social_posts
from fedner.corpus.synthetic.grammar import Draft, Grammar
from fedner.corpus.synthetic.hands import Annotator, annotated
from fedner.errors import FednerError
from fedner.seeds import seeded_scalars

__all__ = ["PLATFORMS", "SyntheticPlatform", "generate", "stream"]


@dataclass(frozen=True, slots=True)
class SyntheticPlatform:
    """What a built-in platform is.

    Attributes:
        name: Its key in `PLATFORMS`.
        description: Its style, in a few words.
        labels: The entity types that it annotates, sorted.
        scheme: The tag scheme that it uses.
        criteria: Its rules of annotation.
    """

    name: str
    description: str
    labels: tuple[str, ...]
    scheme: Literal["BIO", "BIOES", "IOB1"]
    criteria: str


@dataclass(frozen=True, slots=True)
class _Writer:
    """How the documents of a platform come about."""

    short: str
    author: str
    write_patient: Callable[[random.Random], list[tuple[Draft, list[str]]]]
    templates: Callable[[], Grammar]
    sentence_case: Callable[[random.Random, str], str]
    annotator: Annotator


PLATFORMS: dict[str, SyntheticPlatform] = {
    platform.name: platform
    for platform in (
        SyntheticPlatform(
            "case-reports",
            "synthetic case reports: formal English, long sentences, doses, Latin and Greek terms",
            ("ADE", "Dosage", "Drug"),
            "BIO",
            "ADE: the noun phrase with its qualifiers of course and site, without severity. Drug "
            "and Dosage: as a rule only in sentences that blame the drug for an adverse event. "
            "Negated, pre-existing and treated disorders are not marked.",
        ),
        SyntheticPlatform(
            "forum-posts",
            "synthetic forum posts of patients: misspellings, slang, run-on sentences",
            ("ADE", "Disease", "Drug", "Finding", "Symptom"),
            "BIOES",
            "ADE: with its modifiers. Symptom: the reason for taking a drug, often in the words of "
            "an ADE. Disease: a named diagnosis. Finding: a measured or examined result. Drug: "
            "everywhere, classes included. Shared words are marked for both mentions, so some are "
            "discontinuous and some overlap. Denied effects and warnings are not marked.",
        ),
        SyntheticPlatform(
            "social-posts",
            "synthetic short social posts: hashtags, no capitals, drawn-out words, emoji",
            ("ADE", "Drug"),
            "IOB1",
            "ADE: only what the author suffered from a drug, without intensifiers; not what others "
            "have, news, jokes or idioms. Drug: wherever meant as a drug, also as a hashtag.",
        ),
    )
}

_WRITERS: dict[str, _Writer] = {
    name: _Writer(
        short, author, room.write_patient, room.templates, room.sentence_case, room.ANNOTATOR
    )
    for name, short, author, room in (
        ("case-reports", "case", "patient", case_reports),
        ("forum-posts", "forum", "user", forum_posts),
        ("social-posts", "social", "author", social_posts),
    )
}


def stream(platform: str, seed: int) -> Iterator[Document]:
    """Yield the documents of a built-in platform, endlessly; nothing is kept in memory.

    The n-th document depends on the platform, the seed and n alone. Documents of one patient, user
    or author follow each other.

    Raises:
        FednerError: There is no such platform.
    """
    if platform not in _WRITERS:
        raise FednerError(
            f"no built-in platform {platform!r}",
            f"The built-in platforms are {', '.join(PLATFORMS)}.",
        )
    return _documents(platform, _WRITERS[platform], seed)


def generate(platform: str, sentences: int, seed: int) -> Corpus:
    """Return the first documents of a built-in platform that hold `sentences` sentences or more.

    The last document is never cut, so a smaller corpus is always a prefix of a larger one.

    >>> import fedner
    >>> corpus = fedner.synthetic_corpus("forum-posts", 40, seed=1)
    >>> sum(len(document.segments) for document in corpus) >= 40
    True

    Raises:
        FednerError: There is no such platform, or the size is negative.
    """
    if sentences < 0:
        raise FednerError(
            f"cannot make a corpus of {sentences} sentences", "Ask for 0 sentences or more."
        )
    documents: list[Document] = []
    endless = stream(platform, seed)
    while sentences > 0:
        document = next(endless)
        documents.append(document)
        sentences -= len(document.segments or ())
    return Corpus(f"synthetic {platform}", PLATFORMS[platform].labels, tuple(documents))


def _documents(platform: str, writer: _Writer, seed: int) -> Iterator[Document]:
    grammar = writer.templates()
    number = 0
    for index in count():
        rng = seeded_scalars(seed, "synthetic", platform, index)
        patient = f"synthetic-{writer.author}-{index:06d}"
        for draft, plan in writer.write_patient(rng):
            name = f"synthetic-{writer.short}-{number:06d}"
            yield _document(name, patient, writer, grammar, draft, plan)
            number += 1


def _document(
    name: str, patient: str, writer: _Writer, grammar: Grammar, draft: Draft, plan: list[str]
) -> Document:
    """Write the sentences of a plan, then let the platform's annotator mark them."""
    segments: list[Segment] = []
    for rule in plan:
        if segments:
            # The blank between sentences is not the writer's: it is never misspelt.
            draft.pieces.append(" ")
            draft.length += 1
        start, first = draft.length, len(draft.pieces)
        grammar.expand(rule, draft)
        sentence = "".join(draft.pieces[first:])
        draft.pieces[first:] = [writer.sentence_case(draft.rng, sentence)]
        segments.append(Segment(start, draft.length))
    text = "".join(draft.pieces)
    places = tuple(segments)
    spans = annotated(draft.rng, writer.annotator, text, draft.spans, places)
    return Document(name, text, spans, places, patient, "synthetic")
