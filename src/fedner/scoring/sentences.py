"""Scores of tagged sentences: from tags or from flat entities to counts by label.

What counts: with `labels`, the labels that the gold corpus annotates. A prediction of any other
label is neither right nor wrong, since nobody looked for such mentions: it is left out and counted
as ignored. Without `labels`, every label that occurs on either side counts, as in seqeval.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from fedner.corpus.sentence import Entity
from fedner.scoring.counts import Counts, RelaxedCounts
from fedner.scoring.scores import Scores

if TYPE_CHECKING:
    from fedner.scoring.alignment import Aligned
    from fedner.scoring.mentions import Ints, Matches, Mentions


def score(
    gold: Sequence[Sequence[Entity]],
    predicted: Sequence[Sequence[Entity]],
    labels: Collection[str] | None = None,
    *,
    lengths: Sequence[int] | None = None,
) -> Scores:
    """Score flat entities, sentence by sentence.

    Args:
        gold: The gold entities of every sentence.
        predicted: The predicted ones, in the same order of sentences.
        labels: What the gold corpus annotates; None for all that occurs.
        lengths: How many tokens each sentence has. Only with them are there token-level scores,
            over the BIO tags of the entities.

    Raises:
        FednerError: The sides do not fit together, or entities of a sentence overlap.
    """
    from fedner.scoring.alignment import align_entities

    return _scores(align_entities(gold, predicted, _scored(labels), lengths), labels)


def score_tags(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    labels: Collection[str] | None = None,
) -> Scores:
    """Score tags of any scheme: IO, IOB1, BIO, BIOES and BILOU, legal sequences or not.

    They are read by the conlleval rules, under which one reading fits all these schemes: B and S
    (U) begin a mention; I and E (L) go on with the mention before them if that is of their type and
    not ended by E or S, and begin one otherwise. The token-level scores compare tags as they stand.

    Args:
        gold: The gold tags of every sentence.
        predicted: The predicted ones, as many for every sentence.
        labels: What the gold corpus annotates; None for all that occurs.

    Raises:
        FednerError: The sides do not fit together, or a tag is of no known form.
    """
    from fedner.scoring.alignment import align_tags

    return _scores(align_tags(gold, predicted, _scored(labels)), labels)


def strict_by_sentence(
    gold: Sequence[Sequence[Entity]],
    predicted: Sequence[Sequence[Entity]],
    labels: Collection[str] | None = None,
) -> list[Counts]:
    """Return the strict counts of each sentence, all labels together: the units of a bootstrap."""
    from fedner.scoring.mentions import strict_counts

    return strict_counts(*_matched_by_sentence(gold, predicted, labels), len(gold))


def relaxed_by_sentence(
    gold: Sequence[Sequence[Entity]],
    predicted: Sequence[Sequence[Entity]],
    labels: Collection[str] | None = None,
    *,
    any_type: bool = False,
) -> list[RelaxedCounts]:
    """Return the relaxed counts of each sentence, all labels together: units of a bootstrap."""
    from fedner.scoring.mentions import relaxed_counts

    matched = _matched_by_sentence(gold, predicted, labels)
    return relaxed_counts(*matched, len(gold), any_type=any_type)


def _matched_by_sentence(
    gold: Sequence[Sequence[Entity]],
    predicted: Sequence[Sequence[Entity]],
    labels: Collection[str] | None,
) -> "tuple[Matches, Ints, Ints]":
    """Return the matches, and the sentence of each gold and each predicted mention."""
    from fedner.scoring.alignment import align_entities
    from fedner.scoring.mentions import match, sentence_of

    aligned = align_entities(gold, predicted, _scored(labels), None)
    one, other = _chosen(aligned, labels)
    offsets = aligned.offsets
    return match(one, other), sentence_of(one, offsets), sentence_of(other, offsets)


def _scored(labels: Collection[str] | None) -> Callable[[str], bool]:
    return (lambda _label: True) if labels is None else frozenset(labels).__contains__


def _chosen(aligned: "Aligned", labels: Collection[str] | None) -> "tuple[Mentions, Mentions]":
    """Return the mentions of both sides that are scored."""
    import numpy as np

    is_scored = np.array([*map(_scored(labels), aligned.names)], np.bool_)
    gold, predicted = (
        side.only(is_scored[side.labels]) for side in (aligned.gold, aligned.predicted)
    )
    return gold, predicted


def _scores(aligned: "Aligned", labels: Collection[str] | None) -> Scores:
    from fedner.scoring.mentions import match, relaxed_counts, strict_counts

    gold, predicted = _chosen(aligned, labels)
    matches = match(gold, predicted)
    groups = gold.labels, predicted.labels, len(aligned.names)
    strict = dict(zip(aligned.names, strict_counts(matches, *groups), strict=True))
    relaxed, any_type = (
        dict(
            zip(
                aligned.names,
                relaxed_counts(matches, *groups, any_type=flag),
                strict=True,
            )
        )
        for flag in (False, True)
    )
    if labels is None:
        shown = sorted(name for name, each in strict.items() if each.gold or each.predicted)
    else:
        shown = sorted(set(labels))
    return Scores(
        {label: strict.get(label, Counts()) for label in shown},
        {label: relaxed.get(label, RelaxedCounts()) for label in shown},
        {label: any_type.get(label, RelaxedCounts()) for label in shown},
        aligned.tokens,
        _ignored(aligned.predicted, aligned.names, labels),
        _ignored(aligned.gold, aligned.names, labels),
    )


def _ignored(
    mentions: "Mentions", names: tuple[str, ...], labels: Collection[str] | None
) -> dict[str, int]:
    """Count the mentions of labels that are not scored."""
    import numpy as np

    is_scored = _scored(labels)
    totals = np.bincount(mentions.labels, minlength=len(names)).tolist()
    pairs = sorted(zip(names, totals, strict=True))
    return {name: total for name, total in pairs if total and not is_scored(name)}
