"""Scores of a tagger: counts that add up across batches, platforms and rounds, with intervals."""

from fedner.scoring.counts import (
    Counts,
    Measures,
    RelaxedCounts,
    TokenCounts,
    macro,
    micro,
    micro_relaxed,
)
from fedner.scoring.documents import score_documents, scores_by_document
from fedner.scoring.intervals import Interval, PairedTest, bootstrap_interval, paired_test
from fedner.scoring.mistakes import (
    MISTAKE_KINDS,
    MistakeKind,
    by_kind,
    count_mistakes,
    pair_mistakes,
)
from fedner.scoring.scores import Scores
from fedner.scoring.seed_means import PairedMeans, mean_interval, paired_means
from fedner.scoring.sentences import (
    relaxed_by_sentence,
    score,
    score_tags,
    strict_by_sentence,
)

__all__ = [
    "MISTAKE_KINDS",
    "Counts",
    "Interval",
    "Measures",
    "MistakeKind",
    "PairedMeans",
    "PairedTest",
    "RelaxedCounts",
    "Scores",
    "TokenCounts",
    "bootstrap_interval",
    "by_kind",
    "count_mistakes",
    "macro",
    "mean_interval",
    "micro",
    "micro_relaxed",
    "pair_mistakes",
    "paired_means",
    "paired_test",
    "relaxed_by_sentence",
    "score",
    "score_documents",
    "score_tags",
    "scores_by_document",
    "strict_by_sentence",
]
