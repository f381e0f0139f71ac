"""What a platform's entity types are described by: the study's words, its own, or their names.

The study's [types] are public. What a platform describes in its own settings stays with it, and so
does the name of a type that the study does not declare.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from fedner.models.partition import shares_head, shares_tags
from fedner.models.zoo import RECIPES
from fedner.settings import PlatformSettings, SettingProblem, Settings, Study
from fedner.settings.sections import ModelSettings

DESCRIBED = "described"


def head_of(model: ModelSettings) -> str:
    """Return the head of a model: as the settings say, else the recipe's own."""
    own = {each.name.lower(): each.head for each in RECIPES.values()}
    return model.head or own.get(model.recipe.lower(), "free")


def has_described_head(settings: Settings | Study) -> bool:
    """Whether taggers score entity types by their descriptions."""
    return head_of(settings.model) == DESCRIBED


def descriptions_of(
    types: Mapping[str, str], own: Mapping[str, str], labels: Iterable[str]
) -> dict[str, str]:
    """Return what each label is described by; one without a description by its own name.

    Args:
        types: The study's types.
        own: Those that the platform describes itself.
        labels: The labels.
    """
    return {label: types.get(label) or own.get(label) or label for label in sorted(labels)}


def public_descriptions(study: Study) -> dict[str, str]:
    """Return the types that everybody knows: the study's [types], else all declared labels."""
    return descriptions_of(study.types, {}, study.types or _declared(study))


def description_warnings(
    study: Study, own: PlatformSettings, labels: Collection[str]
) -> Iterator[str]:
    """Yield what the platform itself should hear of the descriptions of its labels."""
    if not has_described_head(study):
        return
    bare = sorted({*labels} - {*study.types} - {*own.types})
    if bare:
        yield (
            f"{own.name}: {', '.join(bare)} without a description: described by name alone. "
            "Map labels to the study's types (label_map), or describe them in platform.toml: "
            f'[types] {bare[0]} = "...".'
        )
    if secret := sorted({*labels} - {*study.types} - _declared(study)):
        yield from _guess_warning(study, own.name, secret)
    if unused := sorted({*own.types} - {*labels}):
        yield (
            f"{own.name}: [types] describes {', '.join(unused)}, which its tagger does not have. "
            f"Its types are {', '.join(sorted(labels))}."
        )


def _declared(study: Study) -> set[str]:
    """Return all labels that platforms declare."""
    return {label for platform in study.platforms for label in platform.labels or ()}


def _guess_warning(study: Study, name: str, secret: Collection[str]) -> Iterator[str]:
    """Yield that types which nobody declared can be guessed from a shared head."""
    if shares_head(study.partition.shared):
        yield (
            f"{name}: {', '.join(secret)} not declared in the study, and the described head is "
            "shared: a server that guesses a type can test the guess on updates, and noise for "
            "single units does not hide it (docs/privacy.md). Declare the types, or agree on "
            'partition.shared = "encoder".'
        )


def own_type_problems(
    types: Mapping[str, str], own: Mapping[str, str], key: str = "types"
) -> Iterator[SettingProblem]:
    """Yield types that a platform describes although the study does: all must mean the same.

    Args:
        types: The study's types.
        own: Those that the platform describes itself.
        key: What messages call the table of the platform.
    """
    for name in sorted(types.keys() & own.keys()):
        yield SettingProblem(
            f"{key}.{name}",
            "a description of the platform's own",
            "none: the study describes this type, for all platforms alike",
            "Leave it out, or give your type another name (label_map).",
        )


def _has_public_types(settings: Settings) -> bool:
    return bool(settings.types) or any(each.declares_types for each in settings.platforms)


def head_problems(settings: Settings) -> Iterator[SettingProblem]:
    """Yield keys that only a described head has, and descriptions that contradict the study."""
    model = settings.model
    if not has_described_head(settings):
        for key in ("rank", "residual"):
            if (value := getattr(model, key)) is not None:
                yield SettingProblem(
                    f"model.{key}", str(value).lower(), "no such key with a free head",
                    'Only head = "described" has it.',
                )  # fmt: skip
    elif shares_tags(settings.partition.shared) and not _has_public_types(settings):
        yield SettingProblem(
            "types", "nothing, and no platform declares labels", "at least one described type",
            "The head is shared, and the run releases it over the types that everybody knows; "
            "platforms may keep others to themselves.",
        )  # fmt: skip
    for number, platform in enumerate(settings.platforms):
        yield from own_type_problems(settings.types, platform.types, f"platforms[{number}].types")
