"""Types that nobody annotated: how well does a description alone find them?

Every kind of type is left out once, at all platforms that have it: its entities count as "O" there,
as they do where a platform does not annotate it. The model then gets its description. 80 % of every
platform are trained on, types are scored on the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedner.experiments.joining import stacked_crf
from fedner.experiments.joining.arms import DESCRIBED
from fedner.experiments.joining.corpora import DESCRIPTIONS, MEDICAL
from fedner.experiments.joining.stack import Tags, hidden_states, potentials
from fedner.experiments.joining.training import MOST_ROWS, Plan, Sentences, Source, matches, train
from fedner.experiments.joining.world import World, first_weights

STEPS, BATCH_SIZE, LEARNING_RATE, DROPOUT = 1_000, 32, 2e-3, 0.3

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


def leave_one_out(world: World, seed: int) -> list[UnseenType]:
    """Train one model without each kind of type, side by side, and score it on that."""
    left_out = list(groups().items())
    sentences = _without(world, [pairs for _, pairs in left_out])
    sources, test = [], {}
    for platform in reversed(MEDICAL):
        own, held = world.corpora[platform].parts(seed)
        test[platform] = world.numbers(platform, held)
        tags = Tags.bio([world.vectors[platform]] * len(left_out), world.device)
        is_own = tags.is_own_MK.clone()
        for model, (_, pairs) in enumerate(left_out):
            for label in (label for name, label in pairs if name == platform):
                begin = 2 * world.corpora[platform].labels.index(label) + 1
                is_own[model, begin : begin + 2] = False
        sources.append(
            Source(
                [world.numbers(platform, own)] * len(left_out),
                BATCH_SIZE,
                replace(tags, is_own_MK=is_own),
                torch.ones(len(left_out), device=world.device) / len(MEDICAL),
            )
        )
    weights = train(
        first_weights(
            [seed] * len(left_out),
            world.described.features_ND.shape[1],
            world.device,
            head="described",
        ),
        DESCRIBED.tokens(world),
        sentences,
        sources,
        Plan(
            STEPS,
            [LEARNING_RATE] * len(left_out),
            DROPOUT,
            seed,
            variants=list(range(len(left_out))),
        ),
    )
    found = []
    for model, (group, pairs) in enumerate(left_out):
        member = {name: each[model : model + 1] for name, each in weights.items()}
        for platform, label in pairs:
            counted = _counts(world, member, platform, label, test[platform])
            right, predicted, gold = counted
            f1 = 200.0 * right / max(1, predicted + gold)
            found.append(UnseenType(group, platform, label, seed, f1, gold))
    return found


def _without(world: World, left_out: Sequence[Sequence[tuple[str, str]]]) -> Sentences:
    """Return all sentences with one row of gold tags for each model: its types are "O"."""
    held = world.sentences
    gold_VN = held.gold_VN[:1].repeat(len(left_out), 1)
    ends = {**_first_tokens(world)}
    for model, pairs in enumerate(left_out):
        for platform, label in pairs:
            begin, end = ends[platform]
            tag = 2 * world.corpora[platform].labels.index(label) + 1
            part_N = gold_VN[model, begin:end]
            part_N[(part_N == tag) | (part_N == tag + 1)] = 0
    return replace(held, gold_VN=gold_VN)


def _first_tokens(world: World) -> Mapping[str, tuple[int, int]]:
    """Return the tokens of each platform, from and to."""
    found = {}
    for name, corpus in world.corpora.items():
        begin = int(world.sentences.starts_S[world.first[name]])
        found[name] = (begin, begin + sum(len(each.tokens) for each in corpus.sentences))
    return found


@torch.no_grad()
def _counts(
    world: World, member: dict[str, Tensor], platform: str, label: str, chosen: object
) -> tuple[int, int, int]:
    """Return right, found and gold entities of one type, among all types of the platform."""
    tags = Tags.bio([world.vectors[platform]], world.device)
    begin_tag = 2 * world.corpora[platform].labels.index(label) + 1
    totals = torch.zeros(3, dtype=torch.int64, device=world.device)
    numbers = torch.as_tensor(chosen).numpy()
    for begin in range(0, len(numbers), MOST_ROWS // 4):
        rows = world.sentences.rows(numbers[None, begin : begin + MOST_ROWS // 4])
        states = hidden_states(member, DESCRIBED.tokens(world), rows)
        paths = stacked_crf.best_paths(potentials(member, states, rows, tags))
        found_MBL = paths.view(rows.token_MBL.shape) * rows.mask_MBL
        gold_MBL = world.sentences.gold_VN[0][rows.token_MBL] * rows.mask_MBL
        only = [
            torch.where((each == begin_tag) | (each == begin_tag + 1), each, 0)
            for each in (found_MBL, gold_MBL)
        ]
        totals += matches(only[0], only[1])[0]
    right, predicted, gold = totals.tolist()
    return right, predicted, gold
