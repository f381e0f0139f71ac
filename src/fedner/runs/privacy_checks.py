"""What cannot be meant in a [privacy] table: every combination that would prove nothing."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from fedner.corpus.readers import READERS
from fedner.corpus.readers.options import facts
from fedner.errors import FednerError
from fedner.federated.algorithms import Algorithm
from fedner.models.partition import shares_tags
from fedner.models.zoo import RECIPES
from fedner.privacy.budget import delta_problem, delta_warning
from fedner.privacy.events import Unit
from fedner.privacy.mechanisms import MECHANISMS, Asked, Mechanism, MechanismFacts
from fedner.privacy.mechanisms.mechanism import WHY_NOT_CLEAR, all_problems
from fedner.runs.type_descriptions import head_of
from fedner.settings import PlatformEntry, SettingProblem, Settings, SettingsError, Study
from fedner.settings.sections import PrivacySettings

_FROM_FINE_TO_COARSE = ("sentence", "document", "patient")


def privacy_problems(
    settings: Settings, algorithm: Algorithm | None, own: Mechanism | None = None
) -> Iterator[SettingProblem]:
    """Yield every problem of an enabled [privacy] table with the rest of the file.

    Args:
        settings: The settings.
        algorithm: The algorithm, or None where it is wrong itself.
        own: A mechanism of one's own in place of the one that the file names.
    """
    mechanism = mechanism_of(settings.privacy, own)
    yield from _encoder_problems(settings)
    yield from _part_problems(settings)
    yield from _delta_problems(settings, mechanism)
    yield from _score_problems(settings)
    yield from _unit_problems(settings, mechanism)
    yield from all_problems(mechanism, asked_of(settings, algorithm))
    if not settings.privacy.simulation:
        yield from _deployment_problems(settings, mechanism)
    budget, target = settings.privacy.budget, settings.privacy.epsilon
    if budget is not None and target is not None and budget < target:
        yield SettingProblem("privacy.budget", f"{budget:g}", f"at least epsilon, {target:g}")


def _encoder_problems(settings: Settings) -> Iterator[SettingProblem]:
    name = settings.model.recipe.lower()
    trains = {each.name.lower() for each in RECIPES.values() if each.trains_encoder}
    if name in trains:
        how = "through adapters" if settings.model.adapter else "whole"
        yield SettingProblem(
            "model.recipe",
            f"{settings.model.recipe!r}, trained {how}, with privacy",
            "a recipe that reads its encoder frozen, as DP-BI-LSTM-CRF or ELMoNER",
            "A pretrained encoder stays frozen under differential privacy: the noise on its many "
            "weights would destroy what it knows long before they learn anything.",
        )


def _part_problems(settings: Settings) -> Iterator[SettingProblem]:
    if settings.privacy.private_part == "clear":
        yield SettingProblem(
            "privacy.private_part", "'clear'", "joint or frozen", f"Refused: {WHY_NOT_CLEAR}."
        )


def _score_problems(settings: Settings) -> Iterator[SettingProblem]:
    every = settings.training.evaluate_every
    if every and settings.privacy.scores is not None:
        yield SettingProblem(
            "training.evaluate_every", str(every), "0 or no such key",
            "privacy.scores.every says when noised scores are disclosed.",
        )  # fmt: skip


def _unit_problems(settings: Settings, mechanism: Mechanism) -> Iterator[SettingProblem]:
    """Yield shards of one corpus that would put a unit on several platforms."""
    if not mechanism.samples_units:
        return
    unit = settings.privacy.unit
    for number, platform in enumerate(settings.platforms):
        by = platform.split.by
        is_torn = _FROM_FINE_TO_COARSE.index(by) < _FROM_FINE_TO_COARSE.index(unit)
        if platform.shard is not None and is_torn:
            yield SettingProblem(
                f"platforms[{number}].split.by", f"{by!r} with shard and privacy.unit {unit!r}",
                repr(unit),
                f"Shards cut by {by} put a {unit} on several platforms, each of which clips it by "
                "itself.",
            )  # fmt: skip


def mechanism_of(privacy: PrivacySettings, own: Mechanism | None = None) -> Mechanism:
    """Return the mechanism of settings with differential privacy.

    Args:
        privacy: The [privacy] table.
        own: A mechanism of one's own in place of the one that the table names.
    """
    return MECHANISMS[privacy.mechanism] if own is None else own


def mechanism_for(privacy: PrivacySettings, own: Mechanism | None = None) -> Mechanism | None:
    """Return the mechanism of any settings; None without differential privacy.

    Raises:
        FednerError: A mechanism of one's own where the settings have no differential privacy, and
            so neither a bound nor a delta.
    """
    if privacy.enabled:
        return mechanism_of(privacy, own)
    if own is None:
        return None
    raise FednerError(
        f"mechanism {own.name!r} for a study without differential privacy",
        "Add a [privacy] table: it says how much noise, max_grad_norm and delta.",
    )


def require_provable(study: Study, algorithm: Algorithm, mechanism: Mechanism | None) -> None:
    """Raise if a mechanism would prove nothing for a study and an algorithm.

    Raises:
        SettingsError: All problems at once.
    """
    problems = () if mechanism is None else all_problems(mechanism, asked_of(study, algorithm))
    if found := list(problems):
        raise SettingsError("the study", found)


def asked_of(settings: Settings | Study, algorithm: Algorithm | None) -> Asked:
    """Return what a file asks for beside its mechanism.

    Args:
        settings: The settings.
        algorithm: The algorithm, or None where it is wrong itself.
    """
    privacy, partition = settings.privacy, settings.partition
    asked = Asked(
        private_part=privacy.private_part,
        aggregation=settings.participation.aggregation,
        is_marginal=partition.unannotated == "marginal"
        and shares_tags(partition.shared, head_of(settings.model)),
        has_scores=privacy.scores is not None,
        names_unit="unit" in privacy.model_fields_set and privacy.unit != "sentence",
        encoding=settings.transport.encoding,
    )
    if algorithm is None:
        return asked
    return replace(
        asked,
        algorithm=algorithm.name,
        sends=algorithm.sends,
        has_extra=algorithm.has_extra,
        loss_reading=algorithm.loss_reading,
        steps=most_steps(settings, algorithm),
        weighting=algorithm.weighting,
    )


def most_steps(settings: Settings | Study, algorithm: Algorithm) -> int:
    """Return the most local steps that a round has, by the sizes that the file declares."""
    batch = settings.training.batch_size
    sizes = [float(each.public_size or batch) for each in settings.platforms]
    return max(algorithm.steps(batch, size) for size in sizes)


def _delta_problems(settings: Settings, mechanism: Mechanism) -> Iterator[SettingProblem]:
    """Yield a delta that promises nothing for a size that the file declares."""
    declared = {each.name: each.public_size for each in settings.platforms if each.public_size}
    yield from delta_problems(settings, declared, mechanism.facts)


def delta_problems(
    settings: Settings | Study, sizes: Mapping[str, int], mechanism: MechanismFacts
) -> list[SettingProblem]:
    """Return the platforms whose public size makes the delta of the run worthless.

    Args:
        settings: Settings with privacy.
        sizes: The public size of each platform, in units.
        mechanism: What protects them.
    """
    delta = settings.privacy.delta
    counted = _counted(settings, sizes, mechanism)
    found = ((name, size, delta_problem(delta, size)) for name, size in counted)
    return [
        SettingProblem(
            f"privacy.delta for {name}",
            problem,
            f"at most {0.1 / size:.2g}",
            "Take a delta of at most a tenth of one over the public size.",
        )
        for name, size, problem in found
        if problem is not None
    ]


def delta_warnings(
    settings: Settings | Study, sizes: Mapping[str, int], mechanism: MechanismFacts
) -> list[str]:
    """Return of which platforms the delta is allowed and still large."""
    delta = settings.privacy.delta
    counted = _counted(settings, sizes, mechanism)
    found = ((name, delta_warning(delta, size)) for name, size in counted)
    return [f"Platform {name}: {warning}." for name, warning in found if warning is not None]


def _counted(
    settings: Settings | Study, sizes: Mapping[str, int], mechanism: MechanismFacts
) -> Iterable[tuple[str, int]]:
    """Return how many units a platform's delta is about: the platforms, where they are the unit."""
    if not mechanism.samples_units:
        return [("all platforms", len(settings.platforms))]
    return sizes.items()


def _deployment_problems(settings: Settings, mechanism: Mechanism) -> Iterator[SettingProblem]:
    privacy, training = settings.privacy, settings.training
    if privacy.budget is not None:
        yield SettingProblem(
            "privacy.budget", f"{privacy.budget:g}", "no such key in a deployed run",
            "The budget belongs to the platform: its owner grants it with `fedner privacy open`.",
        )  # fmt: skip
    if privacy.noise_multiplier == 0:
        yield SettingProblem(
            "privacy.noise_multiplier", "0", "above 0", "Without noise nobody is protected."
        )
    if training.evaluate_every and privacy.scores is None:
        yield SettingProblem(
            "training.evaluate_every", str(training.evaluate_every), "0 or no such key",
            "Scores by round would be disclosed without noise.",
        )  # fmt: skip
    if training.baselines:
        yield SettingProblem(
            "training.baselines", str(list(training.baselines)), "no baselines",
            "They train without noise; compare in a simulation.",
        )  # fmt: skip
    yield from _tuning_problems(settings)
    shared: dict[str, str] = {}
    for number, platform in enumerate(settings.platforms):
        unit = mechanism.unit(privacy.unit)
        yield from _deployed_platform_problems(settings, platform, f"platforms[{number}]", unit)
        if platform.ledger is not None and platform.ledger in shared:
            yield SettingProblem(
                f"platforms[{number}].ledger", f"that of {shared[platform.ledger]}",
                "a ledger of its own", "Each platform answers for its own units.",
            )  # fmt: skip
        shared.setdefault(platform.ledger or "", platform.name)


def _tuning_problems(settings: Settings) -> Iterator[SettingProblem]:
    """Yield settings of which nobody says how they were chosen."""
    tuned_on, uncharged = settings.privacy.tuned_on, settings.privacy.uncharged
    if tuned_on is None:
        yield SettingProblem(
            "privacy.tuned_on", "no such key", "nothing, public, charged or protected",
            "Say on which data the settings of this file were chosen. Choosing them by scores "
            "on the protected data reveals something about those data: write charged if each "
            "trial is in the platforms' ledgers, otherwise protected.",
        )  # fmt: skip
    if tuned_on == "protected" and not uncharged:
        yield SettingProblem(
            "privacy.uncharged", "nothing, with tuned_on 'protected'",
            "what was chosen on the protected data, and how",
            "Epsilon does not cover it, so report and model card say it.",
        )  # fmt: skip


def _deployed_platform_problems(
    settings: Settings, platform: PlatformEntry, key: str, unit: Unit
) -> Iterator[SettingProblem]:
    counted = settings.privacy.unit
    if platform.ledger is None:
        yield SettingProblem(
            f"{key}.ledger", "nothing", "the folder of a ledger that the platform's owner opened",
            f"fedner privacy open FOLDER --epsilon E --delta {settings.privacy.delta:g} "
            f"--unit {unit} --public-size {platform.public_size or 'N'}",
        )  # fmt: skip
    if platform.public_size is None:
        yield SettingProblem(
            f"{key}.public_size", "nothing", f"a rounded number of {counted}s",
            "The true number can reveal whether somebody is in the data.",
        )  # fmt: skip
    if platform.shard is not None:
        yield SettingProblem(
            f"{key}.shard", repr(platform.shard), "no such key",
            "Platforms that are shards of one corpus are for simulations.",
        )  # fmt: skip
    if platform.synthetic is None:
        yield from _deployed_data_problems(platform, key)
        if platform.format == "ade" and unit in ("document", "patient"):
            yield SettingProblem(
                f"{key}.format", f"'ade' with privacy.unit {unit!r}", "unit 'sentence', or jsonl",
                "This reader leaves out sentences that an earlier document has, so adding a "
                "document changes others: convert the corpus once with `fedner data convert`.",
            )  # fmt: skip


def _deployed_data_problems(platform: PlatformEntry, key: str) -> Iterator[SettingProblem]:
    """Yield what would be read off the data, so that one unit could change all others."""
    if platform.labels is None:
        yield SettingProblem(
            f"{key}.labels", "nothing", "the types that it annotates",
            "If they were read from the texts, they could reveal whether somebody has a rare "
            "type, and the size of the model would depend on it.",
        )  # fmt: skip
    if platform.format == "auto":
        yield SettingProblem(
            f"{key}.format", "'auto'", "the name of the format",
            "If it were recognised by content, one unit could change it; `fedner data "
            "inspect` names it.",
        )  # fmt: skip
    for fact in facts(READERS[platform.format].options) if platform.format in READERS else ():
        if fact.is_detected and fact.name not in platform.options:
            yield SettingProblem(
                f"{key}.options.{fact.name}", "nothing", fact.help,
                "If it were read from the data, one unit could change it, and with it "
                "everybody's entities.",
            )  # fmt: skip
    if platform.split.seed is not None:
        yield SettingProblem(
            f"{key}.split.seed", str(platform.split.seed), "no such key in a deployed run",
            "The key of the platform's ledger draws the split.",
        )  # fmt: skip
