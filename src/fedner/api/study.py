"""A study for corpora that are in memory: sizes and types are filled in from them."""

from collections.abc import Mapping
from typing import Any

from fedner.api.tables import Table, settings_of
from fedner.corpus.document import Corpus
from fedner.errors import FednerError
from fedner.runs.initial_model import opened_initial
from fedner.runs.platform_data import load_platform
from fedner.runs.protected_units import true_size
from fedner.runs.public_files import open_named_files
from fedner.settings import Settings, Study, study_of

_DIGITS = 2  # of a public size: an exact number would be one more thing to know


def study_for(
    corpora: Mapping[str, Corpus],
    *,
    split: Table | None = None,
    public_sizes: Mapping[str, int] | None = None,
    declare_types: bool = True,
    **sections: Any,
) -> Study:
    """Return a study for platforms whose corpora are in memory.

    >>> import fedner
    >>> names = ("case-reports", "forum-posts")
    >>> corpora = {name: fedner.synthetic_corpus(name, 60, seed=1) for name in names}
    >>> study = fedner.study_for(corpora, training={"epochs": 5}, algorithm={"name": "fedavg"})
    >>> study.public_sizes["forum-posts"]
    49

    Args:
        corpora: By the name of their platform.
        split: How each platform's corpus will be split: the table [platforms.split] of a federation
            file.
        public_sizes: What platforms declare as their size; by default the number of training
            sentences, or of protected units, rounded to two digits.
        declare_types: Whether everybody may know which types each corpus annotates.
        **sections: The tables of federation.toml, as `training={"epochs": 5}`,
            `model={"recipe": "CNN-CLSTM-CRF"}`, `embeddings={"words": "glove.txt"}`, `title="..."`
            (docs/federation.md explains every key).

    Raises:
        FednerError: All problems of the tables at once, or corpora that do not fit them.
    """
    if not corpora:
        raise FednerError("no corpus; expected at least one", "Pass {'NAME': corpus, ...}.")
    declared = public_sizes or {}
    entries = [
        {
            "name": name,
            "labels": list(corpus.labels) if declare_types else None,
            "public_size": declared.get(name),
            "split": dict(split or {}),
        }
        for name, corpus in corpora.items()
    ]
    settings = settings_of({"title": "study", **sections}, entries)
    _require_no_pooling(settings)
    files = open_named_files(settings, "cpu")
    sizes = {name: _rounded_size(settings, name, corpus) for name, corpus in corpora.items()}
    initial = opened_initial(settings)
    named = None if initial is None else initial.named
    return study_of(settings, sizes, files.words.origin, files.context, initial=named)


def _require_no_pooling(settings: Settings) -> None:
    """Refuse the centralized baseline: a study's platforms never join their texts."""
    if "centralized" in settings.training.baselines:
        raise FednerError(
            "training.baselines has 'centralized', which no study can ask of its platforms",
            "Ask the simulation: fedner.simulate(study, corpora, centralized=True).",
        )


def _rounded_size(settings: Settings, name: str, corpus: Corpus) -> int:
    entry = settings.platform(name)
    if entry.public_size is not None:
        return entry.public_size
    size = true_size(load_platform(entry, settings.seed, corpus=corpus), settings.privacy)
    return max(1, int(float(f"{size:.{_DIGITS}g}")))
