"""A platform that joins: what it received, its own sentences, and taggers over its own types."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fedner.corpus.document import Corpus
from fedner.corpus.groups import Grouping, Unit, groups_of
from fedner.corpus.splits import subsample
from fedner.errors import FednerError
from fedner.models.embeddings.context import cached_features
from fedner.models.features import EncodedCorpus, TagSpace, context_tensor, encode_corpus
from fedner.models.tagger import Tagger
from fedner.models.types import TypeVectors
from fedner.models.zoo import Recipe
from fedner.runs.annotated_types import IN_OPTIONS
from fedner.runs.joining.candidates import JOINED, Arm, arm_recipe
from fedner.runs.joining.received import Received
from fedner.runs.platform_data import PlatformData, load_platforms
from fedner.seeds import derive
from fedner.settings import PlatformEntry, Settings, nearest
from fedner.settings.sections import Types
from fedner.version import __version__

FOLDS = 3


@dataclass(frozen=True, slots=True)
class Newcomer:
    """All that the trainings of a newcomer need; it can be handed to a process of this machine.

    Attributes:
        received: The shared model.
        data: Its own sentences, and which of them train and test.
        unit: What of them stays together.
        space: The tags of its own types.
        types: Its types by their descriptions.
        corpus: All its sentences as tensors.
        seed: Names every random choice.
    """

    received: Received
    data: PlatformData
    unit: Unit
    space: TagSpace
    types: TypeVectors
    corpus: EncodedCorpus
    seed: int

    def __repr__(self) -> str:
        return f"Newcomer({self.data.name!r}, {self.received!r})"

    def recipe(self, arm: Arm) -> Recipe:
        """Return what the taggers of an arm are composed of."""
        return arm_recipe(self.received.recipe, arm)

    def tagger(self, arm: Arm) -> Tagger:
        """Return a tagger of an arm before its training at home."""
        tagger = self.received.fresh(self.recipe(arm), self.space, self.types, self.seed)
        return self.received.give(tagger, self.space) if arm == JOINED else tagger

    @property
    def digest(self) -> str:
        """A hash of all that the result of a training depends on, but for the training itself."""
        digest = hashlib.sha256()
        head = [
            __version__, self.received.digest, asdict(self.received.recipe), self.space.tags,
            self.types.descriptions, self.unit, self.seed, self.received.device,
        ]  # fmt: skip
        digest.update(json.dumps(head, sort_keys=True).encode())
        for sentence in self.data.sentences:
            stated = [sentence.tokens, sentence.entities, sentence.document, sentence.patient]
            digest.update(json.dumps(stated).encode())
        return digest.hexdigest()


def read_data(
    platform: PlatformEntry,
    seed: int,
    *,
    has_test: bool,
    own: int | None = None,
    corpus: Corpus | None = None,
    test_corpus: Corpus | None = None,
) -> PlatformData:
    """Read a newcomer's own data.

    Args:
        platform: Where they are, how they are read and split.
        seed: Of the split.
        has_test: Whether a part is kept for the test; else everything trains.
        own: How many of its training sentences are used; None takes all.
        corpus: The texts where they are in memory.
        test_corpus: A test part of its own where it is in memory; then all of the texts train.

    Raises:
        FednerError: The data cannot be read, their types do not fit, or they are too few.
    """
    if not has_test:
        # The draw does not matter: both parts train.
        split = platform.split.model_copy(update={"test": 0.5, "test_data": None})
        platform = platform.model_copy(update={"split": split})
    settings = Settings.model_validate(
        {"seed": seed, "training": {"rounds": 1}, "platforms": [platform.model_dump()]}
    )
    held = {} if corpus is None else {platform.name: corpus}
    tests = {} if test_corpus is None else {platform.name: test_corpus}
    data = load_platforms(settings, IN_OPTIONS, held, test_corpora=tests)[platform.name]
    if not has_test:
        data = replace(data, train=tuple(range(len(data.sentences))), test=())
    if own is not None:
        data = _fewer(data, own, platform.split.by, seed)
    found = len(groups_of(data.train_sentences, platform.split.by))
    if found < FOLDS:
        raise FednerError(
            f"{found} {platform.split.by}s to train on; settings are chosen on {FOLDS} folds of "
            f"them, so at least {FOLDS} are needed",
            "Annotate more, split by a finer unit (--by sentence), or test on less (--test).",
        )
    return data


def _fewer(data: PlatformData, own: int, unit: Unit, seed: int) -> PlatformData:
    """Return the data with so many training sentences, as near as whole units allow.

    The test part stays, and fewer sentences are a part of more: sizes can be compared.
    """
    if not 1 <= own <= len(data.train):
        raise FednerError(
            f"--own {own:,}: there are {len(data.train):,} training sentences",
            "Leave --own out to train on all of them.",
        )
    grouping = Grouping.of(data.train_sentences, unit)
    chosen = subsample(grouping, own / len(data.train), derive(seed, "join", "own"))
    return replace(data, train=tuple(data.train[at] for at in chosen))


def described(
    labels: tuple[str, ...], given: Mapping[str, str], received: Mapping[str, str]
) -> dict[str, str]:
    """Return the description of each of a newcomer's types.

    Args:
        labels: Its types.
        given: Its own descriptions.
        received: Those of the shared model; a type that has none is described by its name.

    Raises:
        FednerError: A description of a type that it does not have, or that is no line of text.
    """
    require_lines(given)
    for name in given:
        if name not in labels:
            raise FednerError(
                f"--types: the data have no type {name!r}; they have {', '.join(labels)}",
                nearest(name, labels),
            )
    return {label: given.get(label) or received.get(label) or label for label in labels}


def require_lines(types: Mapping[str, str]) -> None:
    """Raise unless every type has a short name and a description of one line, as in a study."""
    try:
        TypeAdapter(Types).validate_python(dict(types))
    except ValidationError as error:
        raise FednerError(
            f"--types: found types that do not fit; expected {error.errors()[0]['msg']}",
            'Write --types "Dosage=amount of a drug".',
        ) from None


def newcomer(
    received: Received,
    data: PlatformData,
    unit: Unit,
    descriptions: Mapping[str, str],
    seed: int,
    cache: Path,
) -> Newcomer:
    """Put together what the trainings need.

    Args:
        received: The shared model.
        data: The newcomer's own data.
        unit: What of them stays together.
        descriptions: Of each of its types.
        seed: Names every random choice.
        cache: The folder for the context features of its sentences.
    """
    space = TagSpace.of(data.labels, received.scheme)
    tokens = [sentence.tokens for sentence in data.sentences]
    context_TD = None
    if received.encoder is not None:
        features = cached_features(received.encoder, tokens, cache)
        context_TD = context_tensor(features, received.device)
    corpus = encode_corpus(
        data.sentences,
        received.word_embedding(),
        space=space,
        context_TD=context_TD,
        pieces=None if received.pretrained is None else received.pretrained.pieces(tokens),
        device=received.device,
    )
    types = received.types(descriptions)
    return Newcomer(received, data, unit, space, types, corpus, seed)
