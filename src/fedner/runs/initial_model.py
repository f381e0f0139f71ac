"""The model that a federation begins with: opened by whoever coordinates, and by nobody else.

It is a tagger with a described head, as an earlier run released it (`RUN/model`), or a finished run
of any head, of which the shared weights are taken. Platforms get them with the first order, like
any other first weights. Its embeddings are not opened: their digests must be those of the study.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from fedner.corpus.schemes import Scheme
from fedner.errors import FednerError
from fedner.federated.checkpoints import stored_rounds
from fedner.models.checkpoint_card import CARD, SavedTagger, read_saved
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.partition import ALWAYS_PRIVATE, lies_under
from fedner.models.zoo import Recipe
from fedner.runs.blueprint import Blueprint, common_space, shares_tags, sized_recipe
from fedner.runs.folder import STUDY, RunFolder, resume_command
from fedner.runs.initial_facts import carried_facts, initial_warnings
from fedner.runs.privacy_checks import mechanism_for
from fedner.runs.public_files import stated_origins
from fedner.runs.records import InitialFacts
from fedner.runs.schedule import algorithm_for, num_rounds
from fedner.runs.shared_model import SHARED_MODEL, model_facts
from fedner.runs.type_descriptions import DESCRIBED
from fedner.sealed import seal_of
from fedner.settings import NamedModel, SettingProblem, Settings, SettingsError, Study
from fedner.settings.sections import MAX_MODEL_NAME
from fedner.tensor_files import tensors_digest
from fedner.tensors import SharedState

SOURCE = "the initial model"
KEY = "model.initial"
# What a study may have otherwise: where its modules are cut, what only training knows, what is
# always private.
_MAY_DIFFER = ("split", "dropout", "residual")
_SAME_KIND = "Train with the settings of the initial model, or begin from scratch."


@dataclass(frozen=True, slots=True)
class InitialModel:
    """A model to begin with, and what a study must have in common with it.

    Attributes:
        named: What studies call it.
        recipe: What it is composed of.
        scheme: Its tag scheme.
        words: Where its word vectors come from.
        trains_words: Whether its word table is trained.
        context: Where its context features come from; None without.
        weights: Its weights by name.
        facts: What it says of itself, as far as that is carried along (`carried_facts`).
        tags: The tags that weights belong to; None where they belong to none.
        characters: The alphabet of its characters; None where it reads none or does not say.
        platforms: Who trained it, where its run is at hand; None where nobody knows.
    """

    named: NamedModel
    recipe: Recipe
    scheme: Scheme
    words: EmbeddingOrigin
    trains_words: bool
    context: EmbeddingOrigin | None
    weights: Mapping[str, Tensor]
    facts: Mapping[str, Any] = field(default_factory=dict)
    tags: tuple[str, ...] | None = None
    characters: Mapping[str, Any] | None = None
    platforms: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"InitialModel({self.named.name!r}, {self.named.digest[:12]}...)"


def open_initial(path: Path | str) -> InitialModel:
    """Open a model to begin with; nothing is written there.

    Args:
        path: The folder of a described tagger, as RUN/model, or of a finished run.

    Raises:
        FednerError: There is none, it is damaged, or it cannot be begun with.
    """
    folder = Path(path)
    if (folder / CARD).is_file():
        return _of_tagger(folder)
    if (folder / SHARED_MODEL / CARD).is_file():
        return _of_tagger(folder / SHARED_MODEL)
    if (folder / STUDY).is_file():
        return _of_run(RunFolder(folder))
    raise FednerError(
        f"{KEY}: {folder} holds neither a released model nor a finished run",
        "Name the folder RUN/model that a run with a described head released, or RUN itself.",
    )


def opened_initial(settings: Settings) -> InitialModel | None:
    """Open the model that a federation file begins with; None where it begins from scratch."""
    return None if settings.model.initial is None else open_initial(settings.model.initial)


def named_initial(settings: Settings, folder: Path) -> NamedModel | None:
    """Return the name of the model that a federation begins with.

    Args:
        settings: The federation file.
        folder: The run folder: of a run that began, its study says it, and no model is opened.
    """
    if settings.model.initial is None:
        return None
    run = RunFolder(folder)
    if (folder / STUDY).is_file() and (held := run.study().model.initial) is not None:
        return held
    return open_initial(settings.model.initial).named


def _of_tagger(folder: Path) -> InitialModel:
    saved = read_saved(folder)
    if saved.is_average:
        raise FednerError(
            f"{KEY}: {folder} is an average of taggers, made by `fedner join` for its own platform",
            "Name the shared model that it joined.",
        )
    if saved.recipe.head != DESCRIBED:
        raise FednerError(
            f"{KEY}: the head of {folder} is {saved.recipe.head!r}: it is one platform's tagger, "
            "for its own tags; expected a described head",
            "Name the folder of a whole finished run: its shared weights are taken.",
        )
    return InitialModel(
        named=NamedModel(name=_name(saved.facts.get("run"), folder), digest=saved.digest),
        recipe=saved.recipe,
        scheme=saved.space.scheme,
        words=saved.words,
        trains_words=saved.trains_words,
        context=saved.context,
        weights={
            name: each
            for name, each in saved.tensors.items()
            if not lies_under(name, ALWAYS_PRIVATE)
        },
        facts=carried_facts(saved.facts),
        characters=saved.characters,
        platforms=_makers(folder, saved),
    )


def _makers(folder: Path, saved: SavedTagger) -> tuple[str, ...] | None:
    """Return who trained a released model, where it still stands in the folder of its run."""
    run = RunFolder(folder.resolve().parent)
    if not (run.path / STUDY).is_file():
        return None
    study = run.study()
    return tuple(study.names) if study.digest == saved.facts.get("study") else None


def _of_run(run: RunFolder) -> InitialModel:
    """Take the shared weights of a finished run whose heads are its platforms' own."""
    study, rounds = run.study(), stored_rounds(run.weights_folder())
    if not rounds or rounds[-1] != num_rounds(study, algorithm_for(study)):
        raise FednerError(
            f"{KEY}: {run.path} is not finished",
            f"`{resume_command(run.path)}` goes on with it.",
        )
    weights = run.shared(rounds[-1])
    if not weights:
        raise FednerError(
            f"{KEY}: {run.path} shared nothing, so there is nothing to begin with",
            "Name a run whose partition shares a module.",
        )
    mechanism = mechanism_for(study.privacy)
    facts = carried_facts(model_facts(study, mechanism, run.rounds(), run.initial()))
    words, context = stated_origins(study)
    digest = seal_of({"weights": tensors_digest(weights), "facts": facts})
    return InitialModel(
        named=NamedModel(name=_name(study.title, run.path), digest=digest),
        recipe=sized_recipe(study.model),
        scheme=study.model.tag_scheme,
        words=words,
        trains_words=study.embeddings.trainable,
        context=context,
        weights=weights,
        facts=facts,
        tags=common_space(study).tags if shares_tags(study) else None,
        platforms=tuple(study.names),
    )


def _name(title: object, folder: Path) -> str:
    """Return what people call a model, in one printable line."""
    for text in (str(title or ""), folder.resolve().name):
        line = "".join(each for each in text if each.isprintable()).strip()
        if line:
            return line[:MAX_MODEL_NAME].strip()
    return "model"


def facts_of(study: Study, model: InitialModel) -> InitialFacts:
    """Return what a run keeps of the model that it begins with."""
    warnings = initial_warnings(study, model.named.name, model.facts, model.platforms)
    return InitialFacts(model.named.name, model.named.digest, model.facts, tuple(warnings))


def require_named(model: InitialModel, named: NamedModel | None) -> None:
    """Raise unless a model is the one that a study begins with.

    Raises:
        SettingsError: It is another one; both digests are named.
    """
    if named is not None and named.digest == model.named.digest:
        return
    expected = "none: this study begins from scratch"
    if named is not None:
        expected = f"{named.name!r} with the digest {named.digest}"
    found = f"{model.named.name!r} with the digest {model.named.digest}"
    hint = "Use exactly the model that the study names, complete and undamaged."
    raise SettingsError(SOURCE, [SettingProblem(KEY, found, expected, hint)])


def located_initial(study: Study, path: Path | str | None) -> InitialModel | None:
    """Open the model that a study begins with, where whoever coordinates has it.

    Args:
        study: The study.
        path: Where the model lies; None where nobody said so.

    Raises:
        FednerError: The study begins with a model and nothing says where it is, or it is another.
    """
    named = study.model.initial
    if path is None:
        if named is None:
            return None
        raise FednerError(
            f"the study begins with the model {named.name!r} (digest {named.digest}), and "
            "nothing says where it is",
            "The coordinator has it: fedner train STUDY --initial FOLDER; in Python initial=.",
        )
    model = open_initial(path)
    require_named(model, named)
    return model


def require_same_kind(study: Study, model: InitialModel) -> None:
    """Raise unless weights of a model mean the same in a study: types and partition may differ.

    Raises:
        SettingsError: All that differs: recipe, sizes, head, rank, tag scheme, embeddings.
    """
    if problems := list(_differences(study, model)):
        raise SettingsError(SOURCE, problems)


def _differences(study: Study, model: InitialModel) -> Iterator[SettingProblem]:
    words, context = stated_origins(study)
    ours, theirs = asdict(sized_recipe(study.model)), asdict(model.recipe)
    pairs = {
        "model.recipe": (ours.pop("name"), theirs.pop("name")),
        **{f"model.{key}": (ours[key], theirs[key]) for key in ours if key not in _MAY_DIFFER},
        "model.tag_scheme": (study.model.tag_scheme, model.scheme),
        "embeddings.words": (_words(words), _words(model.words)),
        "embeddings.trainable": (study.embeddings.trainable, model.trains_words),
        "embeddings.context": (_context(context), _context(model.context)),
    }
    if model.tags is not None and shares_tags(study):
        pairs["platforms.labels"] = (list(common_space(study).tags), list(model.tags))
    for key, (found, expected) in pairs.items():
        if found != expected:
            expected_words = f"{expected!r}, as {model.named.name!r} has it"
            yield SettingProblem(key, repr(found), expected_words, _SAME_KIND)


def _words(origin: EmbeddingOrigin) -> str:
    """Return all of a word source that decides its numbers; its name may be another."""
    held = ", ".join(f"{key} {value}" for key, value in sorted(origin.settings.items()))
    digest = f", digest {origin.sha256}" if origin.sha256 else ""
    return f"{origin.kind} of {origin.dimension}{digest}, {held}"


def _context(origin: EmbeddingOrigin | None) -> str:
    if origin is None:
        return "none"
    return f"encoder of {origin.dimension}, {origin.layers} layers, digest {origin.sha256}"


def first_weights(plan: Blueprint, model: InitialModel | None) -> SharedState:
    """Return the first shared weights: drawn by the seed, or those of the initial model.

    Args:
        plan: What the study's taggers are built from.
        model: The initial model; None begins from scratch.

    Raises:
        FednerError: It is of another kind, or lacks shared weights, or has them in other shapes.
    """
    fresh = plan.initial_shared()
    if model is None:
        return fresh
    require_same_kind(plan.study, model)
    _require_alphabet(plan, model)
    name, held = model.named.name, model.weights
    missing = [each for each in fresh if each not in held]
    if missing:
        raise FednerError(
            f"{KEY}: {name!r} has no {', '.join(missing)}, which this study shares",
            "Share fewer modules (partition.shared), or begin with a model that shared them.",
        )
    wrong = [
        f"{each} {tuple(held[each].shape)} for {tuple(fresh[each].shape)}"
        for each in fresh
        if held[each].shape != fresh[each].shape or held[each].dtype != fresh[each].dtype
    ]
    if wrong:
        raise FednerError(f"{KEY}: {name!r} has other shapes or types: {'; '.join(wrong)}")
    return plan.partition.shared_state(
        {each: held[each].to(tensor.device).clone() for each, tensor in fresh.items()}
    )


def _require_alphabet(plan: Blueprint, model: InitialModel) -> None:
    characters = plan.skeleton().embeddings.characters
    if model.characters is None or characters is None:
        return
    if dict(model.characters) != characters.origin.to_json():
        raise FednerError(
            f"{KEY}: the characters of {model.named.name!r} are not those of this release",
            "Use the release that wrote the model.",
        )
