"""One platform's half of a study: its data, features, ledger and taggers. It never leaves.

A site is made of the public study and the platform's own settings. Everything that only one
platform may see is computed here; what the coordinator gets of it are the replies of
`federated.messages`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedner.corpus.document import Corpus
from fedner.durable import owner_folder
from fedner.errors import FednerError
from fedner.federated.algorithms import Algorithm
from fedner.models.device import require_device
from fedner.models.embeddings.context import ContextFeatures, cached_features
from fedner.models.embeddings.vectors_file import default_cache
from fedner.models.features import EncodedCorpus, TagSpace, context_tensor, encode_corpus, select
from fedner.models.tagger import Tagger
from fedner.privacy.mechanisms import Mechanism
from fedner.runs.blueprint import Blueprint, blueprint, own_space, space_of
from fedner.runs.folder import SiteFolder
from fedner.runs.platform_data import PlatformData, load_site_data
from fedner.runs.privacy_checks import mechanism_for, require_provable
from fedner.runs.protected_units import true_size
from fedner.runs.public_files import PublicFiles, open_files
from fedner.runs.schedule import algorithm_for
from fedner.runs.study_policy import study_policy_problems
from fedner.runs.type_descriptions import (
    description_warnings,
    descriptions_of,
    own_type_problems,
)
from fedner.settings import PlatformSettings, SettingsError, Study
from fedner.training import Evaluation

Say = Callable[[str], None]


def _nothing(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Site:
    """What one platform holds; it can be passed to a worker process on the same machine.

    >>> import fedner
    >>> corpus = fedner.synthetic_corpus("case-reports", 40, seed=1)
    >>> study = fedner.study_for({"clinic": corpus}, training={"rounds": 1})
    >>> own = fedner.PlatformSettings(name="clinic", data="notes/")
    >>> site = fedner.open_site(study, own, "clinic", corpus=corpus)
    >>> isinstance(site, fedner.Site), site.name
    (True, 'clinic')

    Attributes:
        study: The public study.
        own: The platform's own settings.
        blueprint: What its taggers are built from.
        data: The sentences that it trains and tests on.
        space: The tags of its federated tagger.
        folder: Where its states, taggers and results go.
        features: Its cached context features; None if there are none.
    """

    study: Study
    own: PlatformSettings
    blueprint: Blueprint
    data: PlatformData
    space: TagSpace
    folder: SiteFolder
    features: ContextFeatures | None = None

    def __repr__(self) -> str:
        return f"Site({self.name!r} of {self.study.title!r})"

    @property
    def name(self) -> str:
        """The platform."""
        return self.own.name

    @property
    def own_space(self) -> TagSpace:
        """The tags of the types that it annotates itself."""
        return own_space(self.study, self.name, self.data.labels)

    @property
    def true_size(self) -> int:
        """How many training sentences, or protected units, it has; known only here."""
        return true_size(self.data, self.study.privacy, self.blueprint.mechanism)

    @property
    def declares_types(self) -> bool:
        """Whether the study declares the types that it annotates."""
        return self.study.platform(self.name).labels is not None

    def tagger(self, space: TagSpace | None = None) -> Tagger:
        """Return an untrained tagger, with the platform's tags or others.

        Types that the platform does not have (for a centralized tagger) are described by their
        names.
        """
        plan, chosen = self.blueprint, self.space if space is None else space
        if plan.types is not None and not {*chosen.labels} <= {*plan.types.labels}:
            plan = plan.describing(self.descriptions(chosen.labels))
        return plan.tagger(chosen)

    def descriptions(self, labels: Sequence[str] | None = None) -> dict[str, str]:
        """Return the descriptions of the platform's types, or of others."""
        chosen = self.data.labels if labels is None else labels
        return descriptions_of(self.study.types, self.own.types, chosen)

    def encoded(self, space: TagSpace | None = None) -> EncodedCorpus:
        """Return all its sentences as tensors, with gold tags."""
        device = self.blueprint.device
        trained = self.blueprint.files.trained
        sentences = self.data.sentences
        return encode_corpus(
            sentences,
            self.blueprint.word_embedding(),
            space=self.space if space is None else space,
            context_TD=None if self.features is None else context_tensor(self.features, device),
            pieces=None if trained is None else trained.pieces([each.tokens for each in sentences]),
            device=device,
        )

    def training_part(self, space: TagSpace | None = None) -> EncodedCorpus:
        """Return the sentences that it trains on, as tensors."""
        return select(self.encoded(space), self.data.train)

    def evaluation_part(
        self, corpus: EncodedCorpus | None = None, space: TagSpace | None = None
    ) -> Evaluation:
        """Return the sentences that it is tested on.

        Args:
            corpus: All its sentences with the tags of `space`; None encodes them.
            space: Other tags than those of its federated tagger.
        """
        tags = self.space if space is None else space
        every = self.encoded(tags) if corpus is None else corpus
        return Evaluation(select(every, self.data.test), self.data.test_sentences, tags)


def open_site(
    study: Study,
    own: PlatformSettings,
    folder: Path | str,
    *,
    algorithm: Algorithm | None = None,
    mechanism: Mechanism | None = None,
    corpus: Corpus | None = None,
    files: PublicFiles | None = None,
    data: PlatformData | None = None,
    say: Say = _nothing,
    has_features: bool = True,
) -> Site:
    """Open one platform's half of a study: policy first, then embeddings, data and features.

    >>> import fedner
    >>> corpus = fedner.synthetic_corpus("case-reports", 40, seed=1)
    >>> study = fedner.study_for({"clinic": corpus}, training={"rounds": 1})
    >>> own = fedner.PlatformSettings(name="clinic", data="notes/")
    >>> fedner.open_site(study, own, "clinic", corpus=corpus)
    Site('clinic' of 'study')

    Args:
        study: The public study.
        own: The platform's own settings.
        folder: Where its states, taggers and results go.
        algorithm: Your own algorithm in place of the one that the study names.
        mechanism: Your own mechanism in place of the one that the study names.
        corpus: Its annotated texts, if they are in memory; None reads them as `own` says.
        files: The study's embeddings, if they are open already.
        data: Its data, if they were read already.
        say: Called with a line on what is being done.
        has_features: Whether context features are computed; without them nothing can be trained.

    Raises:
        FednerError: The platform's policy forbids the study, the mechanism would prove nothing for
            it, embeddings are not those that the study names, or data do not fit.
    """
    chosen, protects = algorithm_for(study, algorithm), mechanism_for(study.privacy, mechanism)
    if problems := study_policy_problems(study, own, algorithm, mechanism):
        raise SettingsError(f"the policy of {own.name}", problems)
    require_provable(study, chosen, protects)
    if problems := list(own_type_problems(study.types, own.types)):
        raise SettingsError(f"the settings of {own.name}", problems)
    device = chosen_device(own)
    opened = open_files(study, own.embeddings, device) if files is None else files
    held = load_site_data(study, own, corpus, mechanism) if data is None else data
    for warning in description_warnings(study, own, held.labels):
        say(f"warning: {warning}")
    described = descriptions_of(study.types, own.types, held.labels)
    return Site(
        study,
        own,
        blueprint(study, opened, device, mechanism).describing(described),
        held,
        space_of(study, own.name, held.labels),
        SiteFolder(Path(folder)),
        _features(study, own, held, opened, say) if has_features else None,
    )


def chosen_device(own: PlatformSettings) -> str:
    """Return where a platform computes: "cpu" or "cuda".

    Raises:
        FednerError: There is no such device.
    """
    import torch

    device = own.device or "cpu"
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    require_device(device)
    return device


def _features(
    study: Study, own: PlatformSettings, data: PlatformData, files: PublicFiles, say: Say
) -> ContextFeatures | None:
    """Compute the context features of a platform into its own, owner-only cache."""
    if files.reader is None:
        if files.context is not None and files.trained is None:
            raise FednerError(
                f"{own.name}: the encoder {files.context.name!r} is declared, not opened"
            )
        return None
    say(f"context features of {own.name} (kept for the next time)")
    given = own.embeddings.cache
    cache = default_cache().parent / "context" if given is None else Path(given)
    tokens = [sentence.tokens for sentence in data.sentences]
    folder = owner_folder(cache / own.name)
    return cached_features(files.reader, tokens, folder, one_by_one=study.is_deployed)
