"""What a platform's policy says of a study, with the tables of every room.

`study_policy_problems` holds wherever a platform takes part, in one process too.
`crossing_problems` are for studies whose coordinator is another party.
"""

from collections.abc import Iterator, Sequence

from fedner.federated.algorithms import Algorithm
from fedner.models.partition import PRESETS, lies_under, shares_tags
from fedner.privacy.mechanisms import Mechanism
from fedner.runs.privacy_checks import mechanism_for
from fedner.runs.schedule import algorithm_for, num_rounds
from fedner.runs.study_defaults import with_defaults
from fedner.runs.type_descriptions import head_of
from fedner.settings import PlatformSettings, SettingProblem, Study, policy_problems
from fedner.settings.policy import UNITS, UNNAMED_NOISE, NoisePlace

_GB = 2**30


def study_policy_problems(
    study: Study,
    own: PlatformSettings,
    algorithm: Algorithm | None = None,
    mechanism: Mechanism | None = None,
) -> list[SettingProblem]:
    """Return every reason of its policy for which a platform does not take part in a study.

    Args:
        study: The study.
        own: The platform's settings.
        algorithm: An algorithm of one's own in place of the one that the study names.
        mechanism: A mechanism of one's own in place of the one that the study names.

    Raises:
        FednerError: The study names no algorithm that there is, or parameters are wrong.
    """
    used = mechanism_for(study.privacy, mechanism)
    name = None if used is None else used.name
    rounds = num_rounds(study, algorithm_for(study, algorithm))
    found = policy_problems(study, own, rounds, name)
    reported = {problem.key for problem in found}
    more = [
        *_tensor_problems(study, own),
        *_shared_type_problems(study, own),
        *_unit_problems(study, own, used),
        *_noise_problems(own.policy.noise_places, used),
    ]
    return [*found, *(problem for problem in more if problem.key not in reported)]


def crossing_problems(study: Study, own: PlatformSettings) -> list[SettingProblem]:
    """Return what no study of another party may do unless the platform's policy names it.

    Noise from a seed protects nobody; noise of the server asks for trust in the server; a budget is
    the platform's to grant.
    """
    return [*_simulation_problems(study, own), *_central_problems(study, own)]


def size_problems(
    study: Study, own: PlatformSettings, machine_bytes: int
) -> Iterator[SettingProblem]:
    """Yield a study that no machine here can hold: asked before anything of it is built.

    Args:
        study: The study.
        own: The platform's settings.
        machine_bytes: How much memory the machine has.
    """
    most = own.policy.max_memory_gb
    bound = machine_bytes if most is None else min(machine_bytes, int(most * _GB))
    needed = _least_bytes(study)
    if needed > bound:
        yield SettingProblem(
            "policy.max_memory_gb",
            f"a model of at least {needed / _GB:.3g} GB",
            f"at most {bound / _GB:.3g} GB",
        )
    slices, units = study.training.slice, min(study.public_sizes.values())
    if slices is not None and 1 / slices > units:
        yield SettingProblem(
            "training.slice", f"{slices:g}", f"at least 1/{units}: no more slices than units"
        )


def _least_bytes(study: Study) -> int:
    """Return less than the weights of a study's tagger take, from the sizes that it names."""
    held, model = study.embeddings, study.model
    table = held.buckets * held.dimension if held.words is None else 0
    word = held.dimension if held.words is None else held.words.dimension
    word += 0 if held.context is None else held.context.dimension * held.context.layers
    hidden, filters = model.hidden or 0, model.filters or 0
    characters = (model.character_filters or 0) * (model.character_dimension or 1)
    return 4 * (table + 4 * hidden * hidden + filters * word + characters)


def is_accepted_tensor(name: str, own: PlatformSettings) -> bool:
    """Whether a platform's policy lets a tensor of this name be shared."""
    accepted = own.policy.shared
    return accepted is None or any(lies_under(name, prefix) for prefix in accepted)


def _tensor_problems(study: Study, own: PlatformSettings) -> Iterator[SettingProblem]:
    asked = shared_modules(study)
    if odd := [prefix for prefix in asked if not is_accepted_tensor(prefix, own)]:
        yield SettingProblem(
            "policy.shared",
            f"a study that shares {', '.join(odd)}",
            f"at most {', '.join(own.policy.shared or ()) or 'nothing'}",
        )


def shared_modules(study: Study) -> Sequence[str]:
    """Return the modules that a study shares, by dotted name; a preset is written out."""
    shared = with_defaults(study).partition.shared
    return PRESETS.get(shared, (shared,)) if isinstance(shared, str) else shared


def _shared_type_problems(study: Study, own: PlatformSettings) -> Iterator[SettingProblem]:
    """Yield types of others, where tags are shared: the platform would train weights for them."""
    accepted = own.policy.types
    shared = with_defaults(study).partition.shared
    if accepted is None or not shares_tags(shared, head_of(study.model)):
        return
    every = {label for each in study.platforms for label in each.labels or ()}
    if unknown := sorted(every - {*accepted}):
        yield SettingProblem(
            "policy.types",
            f"a study that shares tags of {', '.join(unknown)}",
            f"at most {', '.join(accepted) or 'no type'}",
        )


def _unit_problems(
    study: Study, own: PlatformSettings, mechanism: Mechanism | None
) -> Iterator[SettingProblem]:
    least = own.policy.unit
    if least is None:
        return
    if mechanism is None or not study.is_deployed:
        found = "a study that protects no unit"
    elif mechanism.samples_units and UNITS.index(study.privacy.unit) < UNITS.index(least):
        found = f"a study that protects one {study.privacy.unit}"
    else:
        return  # a whole platform holds every smaller unit
    yield SettingProblem("policy.unit", found, f"one that protects at least a {least}")


def _noise_problems(
    accepted: Sequence[NoisePlace], mechanism: Mechanism | None
) -> Iterator[SettingProblem]:
    if accepted and mechanism is not None and mechanism.noise_place not in accepted:
        yield SettingProblem(
            "policy.noise_places",
            f"mechanism {mechanism.name!r}, whose noise is {mechanism.noise_place}",
            f"noise that is {' or '.join(accepted)}",
        )


def _simulation_problems(study: Study, own: PlatformSettings) -> Iterator[SettingProblem]:
    if study.privacy.simulation and not own.policy.accepts_simulation:
        yield SettingProblem(
            "policy.accepts_simulation",
            "a study whose noise comes from a seed (privacy.simulation)",
            "noise of the operating system",
            "Whoever knows the study can take such noise off again: it is for rehearsals.",
        )
    if study.privacy.budget is not None:
        yield SettingProblem(
            "privacy.budget",
            f"{study.privacy.budget:g}, in the study",
            "no such key",
            "The budget belongs to the platform: its owner grants it with `fedner privacy open`.",
        )


def _central_problems(study: Study, own: PlatformSettings) -> Iterator[SettingProblem]:
    """Yield noise of the server where the platform did not name it."""
    mechanism = mechanism_for(study.privacy)
    yield from _noise_problems(own.policy.noise_places or UNNAMED_NOISE, mechanism)
