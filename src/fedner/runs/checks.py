"""What only other rooms can judge in a configuration: names, files, numbers that must fit."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from fedner.errors import FednerError
from fedner.federated.algorithms import (
    ALGORITHMS,
    Algorithm,
    algorithm_named,
    lasting,
)
from fedner.federated.encoding import require_encodable
from fedner.models.partition import PRESETS, shares_tags
from fedner.models.zoo import RECIPES, Recipe, recipe_named
from fedner.privacy.mechanisms import Mechanism
from fedner.runs.embedding_checks import initial_problems, path_problems
from fedner.runs.platform_checks import data_problems
from fedner.runs.privacy_checks import mechanism_for, privacy_problems
from fedner.runs.study_defaults import algorithm_in_force, with_defaults
from fedner.runs.sums import sum_problems
from fedner.runs.type_descriptions import has_described_head, head_of, head_problems
from fedner.settings import (
    HASHED,
    NO_CONTEXT,
    RECIPES_OWN,
    SettingProblem,
    Settings,
    SettingsError,
    Study,
    attempt,
    escape_problems,
    nearest,
    override,
    read_toml,
    record_from,
    resolved,
)

MODULES = ("embeddings", "word_cnn", "bilstm", "emissions", "decoder")


def read_settings(path: Path, assignments: tuple[str, ...] = ()) -> Settings:
    """Read a federation file, with `key=value` assignments over it and every path absolute.

    Raises:
        SettingsError: All problems of the file at once.
        FednerError: It cannot be read, or is not TOML.
    """
    return checked(override(read_toml(path), assignments), path.parent, str(path))


def checked(tables: dict[str, Any], folder: Path, source: str = "settings") -> Settings:
    """Return the settings that the tables spell, checked against every other room.

    Args:
        tables: As TOML has them.
        folder: What relative paths are relative to.
        source: What the error calls the tables.

    Raises:
        SettingsError: All problems at once.
    """
    understood, problems = attempt(tables)
    if understood is not None:
        problems += escape_problems(understood)
        understood = with_defaults(resolved(understood, folder))
        reported = {problem.key for problem in problems}
        problems += [each for each in cross_problems(understood) if each.key not in reported]
    if understood is None or problems:
        raise SettingsError(source, problems)
    return understood


def cross_problems(settings: Settings) -> list[SettingProblem]:
    """Return every problem that a section alone cannot show."""
    return [
        *public_problems(settings),
        *path_problems(settings),
        *initial_problems(settings),
        *_engine_problems(settings),
        *_own_problems(settings),
    ]


def public_problems(settings: Settings) -> list[SettingProblem]:
    """Return the problems of what everyone knows; no file is looked at.

    The [privacy] table also asks for keys of the platforms' own, as their ledgers.
    """
    return [
        *_model_problems(settings),
        *head_problems(settings),
        *_partition_problems(settings),
        *_type_problems(settings),
        *_algorithm_problems(settings),
        *_declared_problems(settings),
        *_finish_problems(settings),
        *_privacy_problems(settings),
        *sum_problems(settings, mechanism_for(settings.privacy), _algorithm(settings)[0]),
    ]


def algorithm_of(settings: Settings | Study, rounds: int | None = None) -> Algorithm:
    """Return the algorithm with its parameters.

    Args:
        settings: Checked settings.
        rounds: The length of the run: where a linear rate of the server ends, unless it says so.

    Raises:
        SettingsError: There is no such algorithm, or parameters are wrong.
    """
    made, problems = _algorithm(settings)
    if made is None:
        raise SettingsError("algorithm", problems)
    return made if rounds is None else lasting(made, rounds)


def require_fitting(
    settings: Settings, algorithm: Algorithm | None, mechanism: Mechanism | None
) -> None:
    """Raise unless what comes from Python fits settings that were checked with others.

    Args:
        settings: The settings.
        algorithm: An algorithm of one's own; None for that of the settings.
        mechanism: A mechanism of one's own; None for that of the settings.

    Raises:
        SettingsError: All problems at once.
        FednerError: A mechanism of one's own for settings without differential privacy.
    """
    if algorithm is None and mechanism is None:
        return
    chosen = algorithm_of(settings) if algorithm is None else algorithm
    problems = [*_batch_problems(settings, chosen), *_encoding_problems(settings, chosen)]
    problems += sum_problems(settings, mechanism_for(settings.privacy, mechanism), chosen)
    if mechanism_for(settings.privacy, mechanism) is not None:
        problems += privacy_problems(settings, chosen, mechanism)
    if problems:
        who = "" if mechanism is None else f", mechanism {mechanism.name!r}"
        raise SettingsError(f"algorithm {chosen.name!r}{who}", problems)


def _algorithm(settings: Settings | Study) -> tuple[Algorithm | None, list[SettingProblem]]:
    chosen = settings.algorithm
    if chosen.name not in ALGORITHMS:
        known = list(ALGORITHMS)
        problem = SettingProblem(
            "algorithm.name", repr(chosen.name), f"one of {', '.join(known)}",
            nearest(chosen.name, known),
        )  # fmt: skip
        return None, [problem]
    kind = ALGORITHMS[chosen.name].settings
    given = algorithm_in_force(settings).parameters  # of studies from Python too
    try:
        parameters, problems = record_from(kind, given, "algorithm.")
        if problems:
            return None, problems
        return algorithm_named(chosen.name, parameters), []
    except FednerError as error:
        return None, [SettingProblem("algorithm", repr(chosen.parameters), error.message)]


def _model_problems(settings: Settings) -> Iterator[SettingProblem]:
    model, embeddings = settings.model, settings.embeddings
    names = {name.lower() for name in RECIPES}
    if model.recipe.lower() not in names:
        expected = f"one of {', '.join(RECIPES)}"
        yield SettingProblem(
            "model.recipe", repr(model.recipe), expected, nearest(model.recipe, RECIPES)
        )
    elif recipe_named(model.recipe).context != (embeddings.context != NO_CONTEXT):
        wants = recipe_named(model.recipe).context
        yield SettingProblem(
            "embeddings.context",
            repr(embeddings.context),
            f"{'context weights' if wants else repr(NO_CONTEXT)} for recipe {model.recipe}",
            _context_hint(recipe_named(model.recipe)),
        )
    else:
        yield from _encoder_problems(settings, recipe_named(model.recipe))
    if embeddings.words == HASHED and embeddings.lowercase == "fallback":
        yield SettingProblem("embeddings.lowercase", "'fallback'", "never or always, when hashed")


def _context_hint(recipe: Recipe) -> str:
    if recipe.trains_encoder:
        return "Name the folder of a Hugging Face encoder."
    if recipe.context:
        return "CNN-CLSTM-CRF is ELMoNER without context."
    return "ELMoNER reads context."


def _encoder_problems(settings: Settings, recipe: Recipe) -> Iterator[SettingProblem]:
    """Yield what does not fit a recipe that trains its encoder, or one that does not."""
    model, embeddings, stepped = settings.model, settings.embeddings, settings.local_optimizer
    if not recipe.trains_encoder:
        hint = "Only the recipe transformer trains its encoder."
        if model.adapter is not None:
            yield SettingProblem("model.adapter", "a table", f"none for {recipe.name}", hint)
        if stepped.encoder_learning_rate is not None:
            found, expected = f"{stepped.encoder_learning_rate:g}", f"no such key for {recipe.name}"
            yield SettingProblem("local_optimizer.encoder_learning_rate", found, expected, hint)
        return
    if not recipe.words and (embeddings.words != HASHED or embeddings.trainable):
        key = "words" if embeddings.words != HASHED else "trainable"
        found = repr(getattr(embeddings, key))
        expected = f"no such key: {recipe.name} reads no word vectors"
        yield SettingProblem(f"embeddings.{key}", found, expected)


def _partition_problems(settings: Settings) -> Iterator[SettingProblem]:
    shared = settings.partition.shared
    if isinstance(shared, str):
        known = [
            RECIPES_OWN,
            *PRESETS,
        ]  # where the recipe itself is wrong, its own partition is open
        if shared not in known:
            expected = f"one of {', '.join(known)}, or a list of modules"
            yield SettingProblem("partition.shared", repr(shared), expected, nearest(shared, known))
        return
    wanted = settings.model.recipe.lower()
    recipes = [each for name, each in RECIPES.items() if name.lower() == wanted]
    modules = (*MODULES, *(stage.name for each in recipes for stage in each.extra_stages))
    for number, prefix in enumerate(shared):
        if prefix.partition(".")[0] not in modules:
            yield SettingProblem(
                f"partition.shared[{number}]", repr(prefix), "a module of the tagger",
                nearest(prefix, modules),
            )  # fmt: skip


def _type_problems(settings: Settings) -> Iterator[SettingProblem]:
    """Yield the platforms whose types all would come to know although they are not declared."""
    if not shares_tags(settings.partition.shared, head_of(settings.model)):
        return
    for number, platform in enumerate(settings.platforms):
        if not platform.declares_types:
            yield SettingProblem(
                f"platforms[{number}].labels", "nothing", "the types that it annotates",
                "What belongs to single tags is shared, so all platforms know each other's types: "
                "only declared ones may be disclosed.",
            )  # fmt: skip


def _finish_problems(settings: Settings) -> Iterator[SettingProblem]:
    found = str(settings.training.finetune_epochs)
    if settings.training.finetune_epochs and settings.privacy.enabled:
        yield SettingProblem(
            "training.finetune_epochs", found, "0 under differential privacy",
            "Local fine-tuning sees the texts in the clear: its taggers would not be protected.",
        )  # fmt: skip
    if settings.training.finetune_epochs and settings.partition.unannotated == "marginal":
        yield SettingProblem(
            "training.finetune_epochs", found, "0 where unannotated types are marginalised",
            "Local fine-tuning counts them as O, which would undo what was learnt of them.",
        )  # fmt: skip


def _algorithm_problems(settings: Settings) -> Iterator[SettingProblem]:
    algorithm, problems = _algorithm(settings)
    yield from problems
    if algorithm is not None:
        yield from _batch_problems(settings, algorithm)
        yield from _encoding_problems(settings, algorithm)
    number, asked = len(settings.platforms), settings.participation
    drawn = number if asked.sample is None else asked.sample
    if drawn > number:
        expected = f"at most the {number} platforms"
        yield SettingProblem("participation.sample", str(asked.sample), expected)
    if asked.quorum is not None and asked.quorum > drawn:
        expected = f"at most the {drawn} platforms that are asked"
        yield SettingProblem("participation.quorum", str(asked.quorum), expected)


def _batch_problems(settings: Settings, algorithm: Algorithm) -> Iterator[SettingProblem]:
    """Yield a joint batch that leaves a platform without a sentence."""
    number, sample = len(settings.platforms), settings.participation.sample
    asked = number if sample is None else min(sample, number)
    if algorithm.batching == "joint" and settings.training.batch_size < asked:
        yield SettingProblem(
            "training.batch_size",
            str(settings.training.batch_size),
            f"at least 1 sentence for each of {asked} platforms",
            "Take a larger batch, or draw fewer platforms with participation.sample.",
        )


def _encoding_problems(settings: Settings, algorithm: Algorithm) -> Iterator[SettingProblem]:
    """Yield an encoding of updates that are whole weights."""
    encoding = settings.transport.encoding
    try:
        require_encodable(encoding, algorithm.sends)
    except FednerError as error:
        found = f"{encoding!r} for {algorithm.name}, which sends whole weights"
        yield SettingProblem("transport.encoding", found, "'float32'", error.hint)


def _privacy_problems(settings: Settings) -> list[SettingProblem]:
    if not settings.privacy.enabled:
        return []
    return list(privacy_problems(settings, _algorithm(settings)[0]))


def _engine_problems(settings: Settings) -> Iterator[SettingProblem]:
    engine = settings.engine
    if engine.device == "cuda" and not torch.cuda.is_available():
        yield SettingProblem("engine.device", "'cuda'", "a GPU that torch can see", "Take 'cpu'.")


def _declared_problems(settings: Settings) -> Iterator[SettingProblem]:
    """Yield what platforms declare and cannot mean: names, types and schemes of tags."""
    # Names are folders, and some file systems do not tell capitals from small letters.
    times = Counter(platform.name.lower() for platform in settings.platforms)
    # A described head shares no tags, but what it shares has a part for every kind of tag.
    has_common_kinds = shares_tags(settings.partition.shared)
    why = "What belongs to single tags is shared, so all platforms learn the same tags."
    if has_described_head(settings):
        why = "The shared head has weights for each kind of tag: all platforms need the same."
    for number, platform in enumerate(settings.platforms):
        key = f"platforms[{number}]"
        if times[platform.name.lower()] > 1:
            yield SettingProblem(
                f"{key}.name", repr(platform.name),
                "a name of its own, also where capitals and small letters are alike",
            )  # fmt: skip
        if platform.labels == ():
            yield SettingProblem(f"{key}.labels", "[]", "at least one type, or no such key")
        scheme = platform.tag_scheme
        if has_common_kinds and scheme not in (None, settings.model.tag_scheme):
            yield SettingProblem(
                f"{key}.tag_scheme", repr(scheme), f"{settings.model.tag_scheme!r}, as in [model]",
                why,
            )  # fmt: skip


def _own_problems(settings: Settings) -> Iterator[SettingProblem]:
    for number, platform in enumerate(settings.platforms):
        yield from data_problems(platform, platform.labels, f"platforms[{number}].")
