"""From settings to a federation: embeddings, data, taggers, partition, platforms."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.federated.algorithms import FednerSettings, LocalTraining
from fedner.federated.annotation import marginalised_losses
from fedner.federated.checkpoints import owner_folder
from fedner.federated.dp_steps import DPSteps
from fedner.federated.learner import Losses, TaggerLearner, gold_losses
from fedner.federated.orders import PublicPlan
from fedner.federated.platform import LocalSettings, Platform
from fedner.federated.platform import platform as new_platform
from fedner.federated.sampling import slice_indices
from fedner.federated.sizes import rounds_per_epoch
from fedner.models.device import require_device
from fedner.models.embeddings.context import ContextFeatures, cached_features
from fedner.models.embeddings.low_rank import Adapter
from fedner.models.embeddings.opening import AnyEncoder
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.embeddings.pieces import Pieces
from fedner.models.embeddings.trained_encoder import PretrainedEncoder
from fedner.models.embeddings.vectors_file import default_cache
from fedner.models.embeddings.words import WordEmbedding, WordSource
from fedner.models.features import EncodedCorpus, TagSpace, context_tensor, encode_corpus, select
from fedner.models.partition import Partition, partition
from fedner.models.partition import shares_tags as cut_shares_tags
from fedner.models.tagger import Tagger
from fedner.models.zoo import Recipe, build_tagger, recipe_named
from fedner.optimizers import OptimizerSettings
from fedner.runs.annotated_types import IN_FILE, Wording
from fedner.runs.checks import parameters_of
from fedner.runs.embedding_checks import SOURCE as EMBEDDINGS
from fedner.runs.embedding_checks import open_encoder, open_words, path_problems
from fedner.runs.platform_data import PlatformData, load_platforms, true_size
from fedner.settings import SettingProblem, Settings, SettingsError
from fedner.tensors import SharedState
from fedner.training import Evaluation, trainable

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Federation:
    """Everything that platforms are built from; it can be handed to worker processes.

    Attributes:
        settings: The settings of the run.
        recipe: The recipe with the sizes of the run.
        source: The word vectors, or the hashed table.
        data: What each platform trains and tests on.
        partition: What is shared and what is private.
        spaces: The tags of each platform.
        features: The cached context features of each platform; empty where there are none.
        context: Where the context comes from, or None.
        encoder: What taggers that train their encoder begin with, or None.
        device: Where platforms compute.
    """

    settings: Settings
    recipe: Recipe
    source: WordSource
    data: Mapping[str, PlatformData]
    partition: Partition
    spaces: Mapping[str, TagSpace]
    features: Mapping[str, ContextFeatures] = field(default_factory=dict)
    context: EmbeddingOrigin | None = None
    encoder: PretrainedEncoder | None = None
    device: str = "cpu"

    @property
    def names(self) -> list[str]:
        """The platforms, sorted."""
        return sorted(self.data)

    @property
    def public_sizes(self) -> dict[str, int]:
        """The declared size of each platform; its training sentences where it declares none.

        Under differential privacy it counts the protected units.
        """
        declared = {each.name: each.public_size for each in self.settings.platforms}
        return {name: declared[name] or self.true_size(name) for name in self.names}

    def true_size(self, name: str) -> int:
        """Return how many training sentences, or protected units, a platform has."""
        return true_size(self.data[name], self.settings.privacy)


def assemble(settings: Settings, say: Say | None = None, wording: Wording = IN_FILE) -> Federation:
    """Read all data, open the embeddings, compute context features, partition the model.

    Args:
        settings: Checked settings (`checks.read_settings`).
        say: Called with a line on what is being done.
        wording: How the user spells the settings: in a file, or as options of a command.

    Raises:
        FednerError: Data, embeddings or the partition do not fit together.
    """
    tell = say or (lambda _: None)
    # Embeddings first: a wrong path is found before anybody waits for data.
    if wrong := list(path_problems(settings)):
        raise SettingsError(EMBEDDINGS, wrong)
    device = settings.engine.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    require_device(device)
    tell("opening the embeddings")
    source, encoder = open_words(settings), open_encoder(settings, device)
    tell("reading the platforms' data")
    data = load_platforms(settings, wording)
    recipe, spaces = sized_recipe(settings), _spaces(settings, data)
    draft = Federation(settings, recipe, source, data, Partition((), ()), spaces, device=device)
    if isinstance(encoder, PretrainedEncoder):
        draft = replace(draft, encoder=encoder, context=encoder.origin)
    elif encoder is not None:
        features = _context(settings, data, encoder, tell)
        draft = replace(draft, features=features, context=encoder.origin)
    names = trainable(new_tagger(draft, draft.names[0]))
    try:
        return replace(draft, partition=partition(names, settings.partition.shared))
    except FednerError as error:
        problem = SettingProblem("partition.shared", error.message, "trained modules", error.hint)
        raise SettingsError("the partition", [problem]) from error


def sized_recipe(settings: Settings) -> Recipe:
    """Return the recipe with the sizes that the settings give."""
    given = settings.model.model_dump(exclude={"recipe", "tag_scheme"}, exclude_none=True)
    if "adapter" in given:
        given["adapter"] = Adapter(**given["adapter"])
    return replace(recipe_named(settings.model.recipe), **given)


def _context(
    settings: Settings, data: Mapping[str, PlatformData], encoder: AnyEncoder, tell: Say
) -> dict[str, ContextFeatures]:
    """Compute the context features of every platform into its own, owner-only cache."""
    held = settings.embeddings
    cache = default_cache().parent / "context" if held.cache is None else Path(held.cache)
    is_deployed = settings.privacy.enabled and not settings.privacy.simulation
    features = {}
    for name, platform in data.items():
        tell(f"context features of {name} (kept for the next time)")
        tokens = [sentence.tokens for sentence in platform.sentences]
        features[name] = cached_features(
            encoder, tokens, owner_folder(cache / name), one_by_one=is_deployed
        )
    return features


def _spaces(settings: Settings, data: Mapping[str, PlatformData]) -> dict[str, TagSpace]:
    """Return every platform's tags: its own, or those of all where the tags are shared."""
    scheme = settings.model.tag_scheme
    if not shares_tags(settings):
        return {name: TagSpace.of(each.labels, scheme) for name, each in data.items()}
    union = {label for each in data.values() for label in each.labels}
    return dict.fromkeys(data, TagSpace.of(sorted(union), scheme))


def shares_tags(settings: Settings) -> bool:
    """Whether what belongs to single tags is shared, so that all platforms need the same tags."""
    return cut_shares_tags(settings.partition.shared)


def new_tagger(federation: Federation, name: str, space: TagSpace | None = None) -> Tagger:
    """Return a platform's tagger at its beginning; shared weights are the same on every platform.

    Args:
        federation: What it is built from.
        name: The platform.
        space: Other tags than the platform's own, as for centralized data.
    """
    settings = federation.settings
    words = WordEmbedding(federation.source, trainable=settings.embeddings.trainable)
    context = federation.context
    tagger = build_tagger(
        federation.recipe,
        words,
        federation.spaces[name] if space is None else space,
        0 if context is None else context.dimension,
        settings.seed,
        context_layers=1 if context is None else context.layers,
        encoder=federation.encoder,
    )
    return tagger.to(federation.device)


def initial_shared(federation: Federation) -> SharedState:
    """Return the first shared weights."""
    tagger = new_tagger(federation, federation.names[0])
    weights = {name: weight.detach().clone() for name, weight in trainable(tagger).items()}
    return federation.partition.shared_state(weights)


def encoded(federation: Federation, name: str, space: TagSpace | None = None) -> EncodedCorpus:
    """Return all sentences of a platform as tensors, with gold tags."""
    features = federation.features.get(name)
    context = None if features is None else context_tensor(features, federation.device)
    sentences = federation.data[name].sentences
    return encode_corpus(
        sentences,
        WordEmbedding(federation.source, trainable=federation.settings.embeddings.trainable),
        space=federation.spaces[name] if space is None else space,
        context_TD=context,
        pieces=pieces_of(federation, sentences),
        device=federation.device,
    )


def pieces_of(federation: Federation, sentences: Sequence[Sentence]) -> Pieces | None:
    """Return the pieces of sentences, where an encoder is trained."""
    if federation.encoder is None:
        return None
    return federation.encoder.pieces([sentence.tokens for sentence in sentences])


def evaluation_part(
    federation: Federation, name: str, corpus: EncodedCorpus, space: TagSpace | None = None
) -> Evaluation:
    """Return what a platform is tested on."""
    data = federation.data[name]
    tags = federation.spaces[name] if space is None else space
    return Evaluation(select(corpus, data.test), data.test_sentences, tags)


def local_optimizer(settings: Settings) -> OptimizerSettings:
    """Return how private weights are stepped, at first, and the weights of baselines."""
    held = settings.local_optimizer
    factors: tuple[tuple[str, float], ...] = ()
    if held.encoder_learning_rate is not None:
        factors = (("embeddings.context", held.encoder_learning_rate / held.learning_rate),)
    return OptimizerSettings(
        held.name,
        held.learning_rate,
        momentum=held.momentum,
        weight_decay=held.weight_decay,
        factors=factors,
    )


def build_platform(
    federation: Federation,
    name: str,
    privacy: DPSteps | None = None,
    *,
    plan: PublicPlan | None = None,
) -> Platform:
    """Return a platform at its beginning.

    Args:
        federation: What it is built from.
        name: The platform.
        privacy: Its steps under differential privacy (`runs.privacy`); None without differential
            privacy.
        plan: The public plan of the run, which the platform holds orders against.
    """
    settings = federation.settings
    corpus = encoded(federation, name)
    data = federation.data[name]
    space = federation.spaces[name]
    losses: Losses = gold_losses
    if shares_tags(settings) and settings.partition.unannotated == "marginal":
        losses = marginalised_losses(space, data.labels)
    learner = TaggerLearner(
        new_tagger(federation, name),
        select(corpus, data.train),
        losses,
        evaluation_part(federation, name, corpus),
        data.labels,
    )
    pools = None
    if settings.training.slice is not None and (privacy is None or not privacy.samples_units):
        by = settings.platform(name).split.by
        share = settings.training.slice
        pools = slice_indices(data.train_sentences, share, settings.seed, by=by)
    optimizer = local_optimizer(settings)
    if settings.local_optimizer.schedule == "linear":
        steps = num_rounds(federation) * local_steps(federation, name)
        warmup_ratio = settings.local_optimizer.warmup_ratio
        optimizer = replace(
            optimizer, schedule="linear", decay_steps=steps, warmup_ratio=warmup_ratio
        )
    local = LocalSettings(
        optimizer,
        settings.local_optimizer.max_grad_norm or None,
        rounds_per_slice=settings.training.rounds_per_slice,
        ema_decay=settings.training.ema_decay,
        names_types=settings.platform(name).declares_types,
    )
    return new_platform(
        name, learner, federation.partition, settings.seed, local,
        pools=pools, privacy=privacy, plan=plan,
    )  # fmt: skip


def local_steps(federation: Federation, name: str) -> int:
    """Return how many steps a platform takes in a round, by its public size."""
    parameters = parameters_of(federation.settings)
    if isinstance(parameters, FednerSettings):
        return parameters.local_steps
    local = getattr(parameters, "local", None)
    if not isinstance(local, LocalTraining):
        return 1
    per_epoch = -(-federation.public_sizes[name] // federation.settings.training.batch_size)
    return local.epochs * per_epoch if local.steps is None else local.steps


def rounds_in_epoch(federation: Federation) -> float:
    """Return how many rounds show every platform's sentences about once; may be below 1."""
    settings, sizes = federation.settings, federation.public_sizes
    parameters = parameters_of(settings)
    batch, sample = settings.training.batch_size, settings.participation.sample
    if isinstance(parameters, FednerSettings):
        steps = -(-sum(sizes.values()) // batch)
        if parameters.batching == "each":
            steps = max(-(-size // batch) for size in sizes.values())
        elif sample is None:
            steps = rounds_per_epoch(sizes, batch)
        return max(1, -(-steps // parameters.local_steps))
    local = getattr(parameters, "local", None)
    if not isinstance(local, LocalTraining):
        raise FednerError(
            f"algorithm {settings.algorithm.name!r} does not say how long a round is",
            "Give training.rounds instead of training.epochs.",
        )
    turns = 1.0 if sample is None else len(sizes) / sample
    if local.steps is None:
        return turns / local.epochs
    return turns * max(-(-size // batch) for size in sizes.values()) / local.steps


def num_rounds(federation: Federation) -> int:
    """Return how many rounds the run has."""
    training = federation.settings.training
    if training.rounds is not None:
        return training.rounds
    return max(1, round((training.epochs or 1) * rounds_in_epoch(federation)))
