"""Types that nobody annotated: how well does a description alone find them?

Every kind of type is left out once, at all platforms that have it: its entities count as "O" there,
as they do where a platform does not annotate it. The model then gets its description. 80 % of every
platform are trained on, types are scored on the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedner.experiments.joining import stacked_crf
from fedner.experiments.joining.corpora import DESCRIPTIONS, MEDICAL, StudyCorpus
from fedner.experiments.joining.kinds import DESCRIBED, first_weights
from fedner.experiments.joining.stack import Tags, Weights, hidden_states, potentials
from fedner.experiments.joining.training import (
    MOST_ROWS,
    Indices,
    Plan,
    Sentences,
    Source,
    f1,
    matches,
    train,
)
from fedner.experiments.joining.world import World

Pairs = Sequence[tuple[str, str]]  # platforms and types of theirs

STEPS, BATCH_SIZE, LEARNING_RATE, DROPOUT = 1_000, 32, 2e-3, 0.3
REHEARSED_STEPS = 1

_LIKE: dict[str, tuple[tuple[str, str], ...]] = {
    "drug": (
        ("ade", "Drug"),
        ("twimed", "Drug"),
        ("bc5cdr", "Chemical"),
        ("maccrobat", "Medication"),
    ),
    "disease": (
        ("twimed", "Disease"),
        ("bc5cdr", "Disease"),
        ("ncbi", "Disease"),
        ("maccrobat", "Disease_disorder"),
    ),
    "symptom": (("twimed", "Symptom"), ("psytar", "SSI"), ("maccrobat", "Sign_symptom")),
    "adverse effect": (("ade", "ADE"), ("psytar", "ADR")),
    "dosage": (("ade", "Dosage"), ("maccrobat", "Dosage")),
    "indication": (("psytar", "DI"),),
    "withdrawal": (("psytar", "WD"),),
}


@dataclass(frozen=True, slots=True)
class UnseenType:
    """A type that no platform annotated, on one of them.

    Attributes:
        group: The kind of type that was left out.
        platform: Whose test sentences.
        type: The platform's own name of it.
        seed: Of splits and weights.
        f1: Strict F1 in percent, of that type alone.
        mentions: Of it in the test sentences.
    """

    group: str
    platform: str
    type: str
    seed: int
    f1: float
    mentions: int


def groups() -> dict[str, tuple[tuple[str, str], ...]]:
    """Return all kinds of types by platform and name; types that only one platform has by name."""
    known = {pair for pairs in _LIKE.values() for pair in pairs}
    others = {
        label: ((platform, label),)
        for platform in MEDICAL
        for label in DESCRIPTIONS[platform]
        if (platform, label) not in known
    }
    return {**_LIKE, **others}


def groups_of(world: World) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return all kinds of types of a world; a rehearsal has those of the built-in platforms."""
    if not world.is_rehearsal:
        return groups()
    found: dict[str, list[tuple[str, str]]] = {}
    for platform in MEDICAL:
        for label in world.corpora[platform].labels:
            found.setdefault(label, []).append((platform, label))
    return {label: tuple(pairs) for label, pairs in found.items()}


def leave_one_out(world: World, seed: int) -> list[UnseenType]:
    """Train one model without each kind of type, side by side, and score it on that."""
    left_out = groups_of(world)
    weights = _trained(world, list(left_out.values()), seed)
    found = []
    for model, (group, pairs) in enumerate(left_out.items()):
        member = {name: each[model : model + 1] for name, each in weights.items()}
        for platform, label in pairs:
            _, held = world.corpora[platform].parts(seed)
            right, predicted, gold = _counts(
                world, member, platform, label, world.numbers(platform, held)
            )
            score = f1(right, predicted, gold)
            found.append(UnseenType(group, platform, label, seed, score, gold))
    return found


def _trained(world: World, left_out: Sequence[Pairs], seed: int) -> Weights:
    """Train one model for each kind of type, on platforms that do not annotate it."""
    number, steps = len(left_out), REHEARSED_STEPS if world.is_rehearsal else STEPS
    variants = list(range(number))
    return train(
        first_weights(world, DESCRIBED, [seed] * number),
        DESCRIBED.tokens(world),
        without_types(world, left_out),
        [_source(world, platform, left_out, seed) for platform in reversed(MEDICAL)],
        Plan(steps, [LEARNING_RATE] * number, DROPOUT, seed, variants=variants),
    )


def _source(world: World, platform: str, left_out: Sequence[Pairs], seed: int) -> Source:
    """Return a platform's training part; each model has the tags of what is not left out."""
    corpus = world.corpora[platform]
    own, _ = corpus.parts(seed)
    tags = Tags.bio([world.vectors[platform]] * len(left_out), world.device)
    is_own = tags.is_own_MK.clone()
    for model, pairs in enumerate(left_out):
        for begin in _begin_tags(corpus, pairs):
            is_own[model, begin : begin + 2] = False
    return Source(
        [world.numbers(platform, own)] * len(left_out),
        BATCH_SIZE,
        replace(tags, is_own_MK=is_own),
        torch.ones(len(left_out), device=world.device) / len(MEDICAL),
    )


def _begin_tags(corpus: StudyCorpus, pairs: Pairs) -> list[int]:
    """Return the tags that begin the types of a platform which are among the pairs."""
    return [2 * corpus.labels.index(label) + 1 for name, label in pairs if name == corpus.name]


def without_types(world: World, left_out: Sequence[Pairs]) -> Sentences:
    """Return all sentences with one row of gold tags for each model: its types are "O"."""
    gold_VN = world.sentences.gold_VN[:1].repeat(len(left_out), 1)
    for model, pairs in enumerate(left_out):
        for name, corpus in world.corpora.items():
            begin, end = _tokens_of(world, name)
            part_N = gold_VN[model, begin:end]
            for tag in _begin_tags(corpus, pairs):
                part_N[(part_N == tag) | (part_N == tag + 1)] = 0
    return replace(world.sentences, gold_VN=gold_VN)


def _tokens_of(world: World, name: str) -> tuple[int, int]:
    """Return a platform's tokens, from and to."""
    begin = int(world.sentences.starts_S[world.first[name]])
    return begin, begin + sum(len(each.tokens) for each in world.corpora[name].sentences)


@torch.no_grad()
def _counts(
    world: World, member: Weights, platform: str, label: str, chosen: Indices
) -> tuple[int, int, int]:
    """Return right, found and gold entities of one type, among all types of the platform."""
    tags = Tags.bio([world.vectors[platform]], world.device)
    begin_tag = 2 * world.corpora[platform].labels.index(label) + 1
    totals = torch.zeros(3, dtype=torch.int64, device=world.device)
    for begin in range(0, len(chosen), MOST_ROWS // 4):
        rows = world.sentences.rows(chosen[None, begin : begin + MOST_ROWS // 4])
        states = hidden_states(member, DESCRIBED.tokens(world), rows)
        paths = stacked_crf.best_paths(potentials(member, states, rows, tags))
        found_MBL = paths.view(rows.token_MBL.shape) * rows.mask
        gold_MBL = world.sentences.gold_VN[0][rows.token_MBL] * rows.mask
        totals += matches(_only(found_MBL, begin_tag), _only(gold_MBL, begin_tag))[0]
    right, predicted, gold = totals.tolist()
    return right, predicted, gold


def _only(tags_MBL: Tensor, begin_tag: int) -> Tensor:
    """Return the tags of one type, "O" for all others."""
    return torch.where((tags_MBL == begin_tag) | (tags_MBL == begin_tag + 1), tags_MBL, 0)
