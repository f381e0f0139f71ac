"""One corpus among n platforms, for simulations: equal, skewed in size or label, or by source.

Whatever the way, every sentence goes to exactly one platform and keeps its place in the order.

Papers: equal parts are those of the 2021 paper on differentially private federated tagging. The
label skew draws, for each label, the platforms' shares of it from a symmetric Dirichlet
distribution, as Yurochkin et al. (2019, Bayesian nonparametric federated learning) do for classes;
the label of a sentence is the one that most of its mentions have. What differs: instead of drawing
again until every platform has enough, each platform first gets its minimum from a random draw
without skew, and the rest is skewed. So no draw is in vain, and with the default minimum of one
sentence the difference is negligible.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

from fedner.corpus.groups import (
    Group,
    Grouping,
    Indices,
    Unit,
    apportion,
    check_share,
    deal,
    deal_evenly,
    gather,
    groups_of,
    num_sentences,
    shuffled,
)
from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.seeds import PathPart, seeded

Division = Literal["equal", "size-skew", "label-skew", "source"]
Platforms = tuple[Indices, ...]

# Beyond this the skew is below one sentence in any corpus, and NumPy's draw nears overflow.
MAX_ALPHA = 1e6


def divide(
    sentences: Sequence[Sentence],
    *,
    into: int | None = None,
    how: Division,
    seed: int,
    alpha: float = 0.5,
    minimum: int = 1,
    by: Unit = "sentence",
    source: Callable[[Sentence], str] | None = None,
) -> Platforms:
    """Divide `sentences` among platforms; return the positions of each platform's sentences.

    Args:
        sentences: The corpus.
        into: The number of platforms. With `how="source"` it may be left out, and must agree with
            the number of sources where it is given.
        how: "equal": sizes that differ by at most one (balanced, where `by` keeps groups together).
            "size-skew": sizes from a Dirichlet distribution. "label-skew": for each label, the
            platforms' shares of it from a Dirichlet distribution; sentences without a mention
            count as having a label of their own. "source": as `by_source`.
        seed: Where the randomness comes from; without effect on "source".
        alpha: The concentration of the Dirichlet distribution: the smaller, the more skewed.
        minimum: How many sentences every platform must have, at least 1.
        by: What must stay together on one platform.
        source: For "source", what tells where a sentence comes from.

    Raises:
        FednerError: Where the sentences do not suffice, naming what is lacking.
    """
    if minimum < 1:
        raise FednerError(f"Minimum of a platform: found {minimum}; expected 1 sentence or more.")
    if how == "source":
        parts = tuple(by_source(sentences, source or source_of_id, by=by).values())
        _check_number_of_sources(len(parts), into)
    else:
        parts = _divide_at_random(sentences, into, how, seed, alpha, minimum, by)
    for number, part in enumerate(parts, start=1):
        if len(part) < minimum:
            raise FednerError(
                f"Platform {number} of {len(parts)} gets {len(part):,} sentences; expected at "
                f"least {minimum:,}.",
                "Lower the minimum, take fewer platforms or keep smaller groups together.",
            )
    return parts


def _divide_at_random(
    sentences: Sequence[Sentence],
    into: int | None,
    how: Division,
    seed: int,
    alpha: float,
    minimum: int,
    by: Unit,
) -> Platforms:
    if into is None or into < 1:
        raise FednerError(
            f"Number of platforms: found {into}; expected 1 or more.",
            f"Say among how many platforms to divide ({how} needs a number).",
        )
    groups = shuffled(groups_of(sentences, by), seed, "divide", how, by)
    _check_enough(len(sentences), len(groups), into, minimum, by)
    if how == "equal":
        return tuple(gather(part) for part in deal_evenly(groups, into))
    _check_skew(how, alpha)
    parts, rest = _reserve(groups, into, minimum)
    for stream, stratum in _strata(sentences, rest, how):
        weights = _dirichlet(into, alpha, seed, "divide", how, *stream)
        quotas = apportion(weights, num_sentences(stratum))
        for part, dealt in zip(parts, deal(stratum, quotas), strict=True):
            part.extend(dealt)
    return tuple(map(gather, parts))


def _check_skew(how: Division, alpha: float) -> None:
    if how not in ("size-skew", "label-skew"):
        raise FednerError(
            f"Way of dividing: found {how!r}; expected equal, size-skew, label-skew or source."
        )
    if not 0 < alpha <= MAX_ALPHA:
        raise FednerError(
            f"Concentration alpha: found {alpha}; expected above 0 and at most {MAX_ALPHA:,.0f}.",
            "0.1 is strong skew, 0.5 clear, 10 slight; for no skew divide equally.",
        )


def _strata(
    sentences: Sequence[Sentence], groups: Sequence[Group], how: Division
) -> list[tuple[tuple[str, ...], list[Group]]]:
    """Return the groups that are dealt together, each with the name of its random stream."""
    if how == "size-skew":
        return [((), list(groups))]
    strata: dict[tuple[str, ...], list[Group]] = {}
    for group in groups:
        label = dominant_label([sentences[position] for position in group])
        strata.setdefault(() if label is None else (label,), []).append(group)
    return sorted(strata.items())


def _reserve(
    groups: Sequence[Group], into: int, minimum: int
) -> tuple[list[list[Group]], list[Group]]:
    """Give every platform its minimum in turn; return what each has, and what is left."""
    parts: list[list[Group]] = [[] for _ in range(into)]
    left = iter(groups)
    for part in parts:
        size = 0
        while size < minimum and (group := next(left, None)) is not None:
            part.append(group)
            size += len(group)
    return parts, list(left)


def _dirichlet(num: int, alpha: float, seed: int, *path: PathPart) -> list[float]:
    weights: list[float] = seeded(seed, *path, "weights").dirichlet([alpha] * num).tolist()
    return weights


def _check_enough(num_all: int, num_groups: int, into: int, minimum: int, by: Unit) -> None:
    if num_all < into * minimum or num_groups < into:
        raise FednerError(
            f"{num_all:,} sentences in {num_groups:,} groups (by {by}) among {into:,} platforms: "
            f"expected at least {into * minimum:,} sentences ({minimum:,} for each platform) and "
            f"{into:,} groups.",
            "Take fewer platforms, a lower minimum or a finer unit.",
        )


def dominant_label(sentences: Sequence[Sentence]) -> str | None:
    """Return the label that most mentions have, or None where there is no mention.

    Of equally frequent labels, the alphabetically first.
    """
    counts = Counter(entity.label for sentence in sentences for entity in sentence.entities)
    return min(counts, key=lambda label: (-counts[label], label), default=None)


def source_of_id(sentence: Sentence) -> str:
    """Return where a sentence comes from, judged by the id of its document.

    That is the folder part of the id where it has one, else the id without the number at its end:
    `btc/a/17` is from `btc/a`, `ARTHROTEC.12` from `ARTHROTEC`. Empty for an id that is a number.
    """
    folder, slash, _ = sentence.document.rpartition("/")
    return folder if slash else re.sub(r"[\W_]*\d+$", "", sentence.document)


def by_source(
    sentences: Sequence[Sentence],
    source: Callable[[Sentence], str] = source_of_id,
    *,
    by: Unit = "sentence",
) -> dict[str, Indices]:
    """Return the positions of every source's sentences, the sources sorted by name.

    Raises:
        FednerError: Where a sentence has no source, or sentences that `by` keeps together have
            several.
    """
    if not sentences:
        raise FednerError("Division by source: no sentences; expected at least one.")
    members: dict[str, list[Group]] = {}
    for group in groups_of(sentences, by):
        names = sorted({source(sentences[position]) for position in group})
        if len(names) > 1 or not names[0]:
            found = f"several sources ({', '.join(names)})" if len(names) > 1 else "no source"
            raise FednerError(
                f"Division by source: the {by} of document {sentences[group[0]].document!r} has "
                f"{found}; expected exactly one.",
                "Say where a sentence comes from with `source`, or divide in another way.",
            )
        members.setdefault(names[0], []).append(group)
    return {name: gather(members[name]) for name in sorted(members)}


def _check_number_of_sources(num_sources: int, into: int | None) -> None:
    if into is not None and into != num_sources:
        raise FednerError(
            f"Division by source: found {num_sources:,} sources; expected {into:,}, the number of "
            "platforms asked for.",
            "Leave the number out, or give a `source` that yields as many.",
        )


def slices(grouping: Grouping, share: float, seed: int) -> Platforms:
    """Cut a platform's data into disjoint random slices, for incremental training.

    There are as many slices as whole shares fit into 1, and the last one also takes the remainder:
    0.1 gives ten slices of a tenth, 0.3 gives slices of 30, 30 and 40 %. By sentence, sizes are
    exact up to rounding. Slices that are disjoint by patient compose in parallel under
    differential privacy at the level of the patient; slices by sentence do not.

    Args:
        grouping: The platform's data, and what must stay together.
        share: The size of a slice, above 0 and at most 1.
        seed: Where the randomness comes from.
    """
    check_share("The share of a slice", share, whole=True)
    by, size = grouping.by, grouping.size
    groups = grouping.shuffled(seed, "slices", by)
    # A whole number of shares may come out a hair short; a tiny share must not overflow.
    num_slices = int(min(1 / share * (1 + 1e-12), 1e12))
    if num_slices > len(groups):
        raise FednerError(
            f"Slices of {share:g}: found {len(groups):,} {by}s for {num_slices:,} slices; expected "
            f"at least one {by} for each.",
            "Take larger slices or a finer unit.",
        )
    ends = [int(share * at * size + 0.5) for at in range(num_slices)] + [size]
    parts, rest = _reserve(groups, num_slices, 1)
    quotas = [
        end - start - num_sentences(part)
        for (start, end), part in zip(pairwise(ends), parts, strict=True)
    ]
    for part, dealt in zip(parts, deal(rest, quotas), strict=True):
        part.extend(dealt)
    return tuple(map(gather, parts))
