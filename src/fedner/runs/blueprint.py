"""Model and mechanism as everybody builds them from the study: no platform's data have a part."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fedner.errors import FednerError
from fedner.models.embeddings.low_rank import Adapter
from fedner.models.embeddings.words import WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.partition import Partition, partition
from fedner.models.partition import shares_tags as preset_shares_tags
from fedner.models.tagger import Tagger
from fedner.models.types import TypeVectors, type_dimension, type_vectors
from fedner.models.zoo import Recipe, build_tagger, recipe_named
from fedner.optimizers import OptimizerSettings
from fedner.privacy.mechanisms import Mechanism
from fedner.runs.privacy_checks import mechanism_for
from fedner.runs.public_files import PublicFiles
from fedner.runs.type_descriptions import DESCRIBED, head_of
from fedner.settings import SettingProblem, SettingsError, Study
from fedner.settings.sections import ModelSettings
from fedner.tensors import SharedState
from fedner.training import trainable

# Where the tags are private the shared weights do not depend on them: one type stands for all.
_ANY_TYPES = ("type",)


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What taggers are built from.

    Attributes:
        study: The public study.
        recipe: The recipe with the sizes of the study.
        files: The embeddings, opened or declared.
        partition: What is shared and what is private.
        device: Where taggers compute.
        mechanism: What protects the platforms' units; None without differential privacy.
        types: The described types that taggers may have; None where the head is free, or where
            nobody described any, as at a coordinator.
    """

    study: Study
    recipe: Recipe
    files: PublicFiles
    partition: Partition
    device: str = "cpu"
    mechanism: Mechanism | None = None
    types: TypeVectors | None = None

    def word_embedding(self) -> WordEmbedding:
        """Return the word embedding, frozen or trained as the study says."""
        return WordEmbedding(self.files.words, trainable=self.study.embeddings.trainable)

    def tagger(self, space: TagSpace) -> Tagger:
        """Return a tagger at its beginning; shared weights are the same on every platform."""
        context = self.files.context
        tagger = build_tagger(
            self.recipe,
            self.word_embedding(),
            space,
            0 if context is None else context.dimension,
            self.study.seed,
            context_layers=1 if context is None else context.layers,
            encoder=self.files.trained,
            types=self._types(),
        )
        return tagger.to(self.device)

    def _types(self) -> TypeVectors | int | None:
        if self.recipe.head != DESCRIBED:
            return None
        if self.types is None:
            return type_dimension(self.files.words, self.files.context)
        return self.types

    def describing(self, descriptions: Mapping[str, str]) -> "Blueprint":
        """Return the blueprint whose described heads know these types.

        Args:
            descriptions: By the name of the type.

        Raises:
            FednerError: What descriptions are read with is declared, not opened.
        """
        if self.recipe.head != DESCRIBED:
            return self
        files = self.files
        if not files.can_describe:
            raise FednerError(
                "type descriptions need the study's embeddings, which are only declared here, "
                "not opened",
                "Open them (PublicFiles).",
            )
        encoder = files.trained if files.reader is None else files.reader
        types = type_vectors(descriptions, encoder=encoder, words=files.words)
        return replace(self, types=types)

    def skeleton(self) -> Tagger:
        """Return a tagger of the shared weights; private ones and types may be stand-ins."""
        return replace(self, types=None).tagger(common_space(self.study))

    def initial_shared(self) -> SharedState:
        """Return the first shared weights."""
        weights = trainable(self.skeleton())
        return self.partition.shared_state(
            {name: weight.detach().clone() for name, weight in weights.items()}
        )


def blueprint(
    study: Study, files: PublicFiles, device: str = "cpu", mechanism: Mechanism | None = None
) -> Blueprint:
    """Return what the study's taggers are built from.

    Args:
        study: The study.
        files: The embeddings.
        device: Where taggers compute.
        mechanism: A mechanism of one's own in place of the one that the study names.

    Raises:
        SettingsError: The study shares modules that its model does not train.
        FednerError: A mechanism of one's own for a study without differential privacy.
    """
    chosen = mechanism_for(study.privacy, mechanism)
    draft = Blueprint(study, sized_recipe(study.model), files, Partition((), ()), device, chosen)
    names = trainable(draft.skeleton())
    try:
        return replace(draft, partition=partition(names, study.partition.shared))
    except FednerError as error:
        problem = SettingProblem("partition.shared", error.message, "trained modules", error.hint)
        raise SettingsError("the partition", [problem]) from error


def sized_recipe(model: ModelSettings) -> Recipe:
    """Return the recipe with the sizes that the settings give."""
    given = model.model_dump(exclude={"recipe", "tag_scheme", "initial"}, exclude_none=True)
    if "adapter" in given:
        given["adapter"] = Adapter(**given["adapter"])
    return replace(recipe_named(model.recipe), **given)


def shares_tags(study: Study) -> bool:
    """Whether what belongs to single tags is shared, so that all platforms need the same tags."""
    return preset_shares_tags(study.partition.shared, head_of(study.model))


def common_space(study: Study) -> TagSpace:
    """Return the tags of all platforms where they are shared; else any: nothing shared has them."""
    if not shares_tags(study):
        return TagSpace.of(_ANY_TYPES, study.model.tag_scheme)
    declared = {label for each in study.platforms for label in each.labels or ()}
    return TagSpace.of(sorted(declared), study.model.tag_scheme)


def own_space(study: Study, name: str, labels: tuple[str, ...]) -> TagSpace:
    """Return the tags of a platform's own types, in the scheme that it trains."""
    return TagSpace.of(labels, study.platform(name).tag_scheme or study.model.tag_scheme)


def space_of(study: Study, name: str, labels: tuple[str, ...]) -> TagSpace:
    """Return the tags of a platform's federated tagger."""
    return common_space(study) if shares_tags(study) else own_space(study, name, labels)


def local_optimizer(study: Study) -> OptimizerSettings:
    """Return how a platform steps weights of its own, at the first learning rate."""
    held = study.local_optimizer
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
