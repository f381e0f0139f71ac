"""How updates of a study become one sum: in the clear, masked or encrypted ([transport])."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fedner.errors import FednerError
from fedner.federated.algorithms import Algorithm
from fedner.federated.encrypted_sum import encrypted_sum
from fedner.federated.grid import Grid
from fedner.federated.secure_sum import GRID, mean_scales, secure_sum
from fedner.federated.sizes import platform_weights
from fedner.federated.summation import PLAIN, Summation
from fedner.privacy.mechanisms import MECHANISMS, Mechanism
from fedner.privacy.noise_shares import grid_step
from fedner.privacy.sum_terms import SumTerms
from fedner.runs.encryption import encryption_plan, encryption_problems
from fedner.runs.study_defaults import colluding_in_force, releases_sum
from fedner.settings import SettingProblem, Settings, Study

if TYPE_CHECKING:  # `cryptography` is an extra
    from fedner.federated.secure.identities import MakeIdentity
    from fedner.federated.secure.plan import SumPlan

_WHY_NOT_SINGLE = "Under a secure sum nobody sees a single update."


@dataclass(frozen=True, slots=True)
class OwnPart:
    """What a platform brings to a secure or encrypted sum.

    Attributes:
        identities: What it signs with, and knows others by.
        record: Where it keeps which sums it opened; None keeps that in memory.
        keys: Where it keeps the key of an encrypted run; None keeps that in memory.
    """

    identities: "MakeIdentity"
    record: Path | None = None
    keys: Path | None = None


def summation_of(study: Study, algorithm: Algorithm, own: OwnPart | None = None) -> Summation:
    """Return how updates of a study become one sum.

    Args:
        study: The study.
        algorithm: What platforms and coordinator compute.
        own: What a platform brings; None for the coordinator, and for simulations, whose platforms
            sign with keys that follow from the study.

    Raises:
        FednerError: The study asks for a sum that its platforms cannot have.
    """
    if not is_signed(study):
        return PLAIN
    part = OwnPart(simulated_identities(study)) if own is None else own
    if study.transport.encryption is not None:
        return encrypted_sum(encryption_plan(study, algorithm), part.identities, part.keys)
    return secure_sum(sum_plan(study, algorithm), part.identities, part.record)


def is_signed(study: Study) -> bool:
    """Whether platforms hide their updates, and sign what they tell each other for that."""
    return study.transport.secure_sum or study.transport.encryption is not None


def simulated_identities(study: Study) -> "MakeIdentity":
    """Return what makes the identities of a simulation."""
    from functools import partial

    from fedner.federated.secure_sum import require_cryptography

    require_cryptography()
    from fedner.federated.secure.identities import SimulatedIdentity

    return partial(SimulatedIdentity, study.digest)


def sum_plan(study: Study, algorithm: Algorithm) -> "SumPlan":
    """Return what everybody knows of a study's secure sum."""
    from fedner.federated.secure_sum import require_cryptography

    require_cryptography()
    from fedner.federated.secure.plan import SumPlan

    grid, held = GRID, study.privacy
    scales, factor = mean_scales(platform_weights(study.public_sizes, algorithm.weighting))
    if held.enabled and MECHANISMS[held.mechanism].releases_sum:
        # What platforms send lies on the grid of its noise already, and is a sum over units.
        grid = Grid(grid_step(held.max_grad_norm))
        scales, factor = dict.fromkeys(study.names, 1.0), 1.0
    return SumPlan(
        sum_terms(study),
        grid,
        scales,
        factor,
        study.participation.norm_bound,
        must_be_charged=study.is_deployed,
    )


def sum_terms(settings: Settings | Study) -> SumTerms:
    """Return how many platforms a study's secure sum needs.

    Raises:
        FednerError: More than it has.
    """
    asked = settings.participation
    number = len(settings.platforms) if asked.sample is None else asked.sample
    return SumTerms(number, colluding_in_force(settings), asked.quorum)


def sum_problems(
    settings: Settings, mechanism: Mechanism | None, algorithm: Algorithm | None
) -> Iterator[SettingProblem]:
    """Yield all that a secure or encrypted sum does not go together with.

    Args:
        settings: The settings.
        mechanism: What protects the platforms' units; None without differential privacy.
        algorithm: What platforms and coordinator compute; None where the settings name none.
    """
    transport = settings.transport
    yield from _norm_problems(settings)
    if mechanism is not None and mechanism.shares_noise and not transport.secure_sum:
        yield SettingProblem(
            "transport.secure_sum", f"false with mechanism {mechanism.name!r}", "true",
            "Each platform adds a share of the noise: a single update has too little.",
        )  # fmt: skip
    if transport.encryption is not None:
        yield from encryption_problems(settings, mechanism, algorithm)
    if not transport.secure_sum:
        if transport.colluding is not None:
            yield SettingProblem(
                "transport.colluding", f"{transport.colluding} without a secure sum",
                "no such key, or secure_sum = true",
            )  # fmt: skip
        return
    yield from _term_problems(settings)
    yield from _single_problems(settings)
    if mechanism is not None and mechanism.noise_place == "central":
        yield SettingProblem(
            "transport.secure_sum", f"true with mechanism {mechanism.name!r}",
            "a mechanism whose noise the platforms add",
            "A server that adds the noise sees the sum without it, and rounding to the grid moves "
            "what it bounds.",
        )  # fmt: skip


def _term_problems(settings: Settings) -> Iterator[SettingProblem]:
    asked = settings.participation
    try:
        terms = sum_terms(settings)
    except FednerError as error:
        found = error.message.removeprefix("secure sum: found ").partition("; expected ")
        yield SettingProblem("transport.secure_sum", found[0], found[2], error.hint)
        return
    if asked.quorum is not None and asked.quorum < terms.least_quorum:
        yield SettingProblem(
            "participation.quorum", str(asked.quorum),
            f"at least {terms.least_quorum} for a secure sum of {terms.num_platforms} platforms "
            f"of which {terms.colluding} may collude",
            "With fewer a lying server could open two lists and subtract.",
        )  # fmt: skip


def _norm_problems(settings: Settings) -> Iterator[SettingProblem]:
    """Yield rules on norms where only the sum has its whole noise."""
    if not releases_sum(settings):
        return
    for key in ("norm_factor", "norm_bound"):
        if (given := getattr(settings.participation, key)) is not None:
            yield SettingProblem(
                f"participation.{key}", f"{given:g} with mechanism {settings.privacy.mechanism!r}",
                "no such key",
                "A refusal would tell of an update without its whole noise; units are clipped.",
            )  # fmt: skip


def _single_problems(settings: Settings) -> Iterator[SettingProblem]:
    """Yield settings that need single updates."""
    asked, encoding = settings.participation, settings.transport.encoding
    if asked.aggregation != "mean":
        yield SettingProblem(
            "participation.aggregation", repr(asked.aggregation), "'mean'", _WHY_NOT_SINGLE
        )
    if asked.norm_factor is not None and not releases_sum(settings):
        yield SettingProblem(
            "participation.norm_factor", f"{asked.norm_factor:g}", "no such key",
            f"{_WHY_NOT_SINGLE} Each platform checks its own against participation.norm_bound.",
        )  # fmt: skip
    if encoding != "float32":
        yield SettingProblem(
            "transport.encoding", f"{encoding!r} with a secure sum", "'float32'",
            "Encoded updates cannot be added up before somebody decodes them.",
        )  # fmt: skip


def sum_warnings(settings: Settings | Study) -> list[str]:
    """Return what whoever reads a study should know of its secure sum."""
    if not settings.transport.secure_sum:
        return []
    terms = sum_terms(settings)
    if terms.most_missing:
        return []
    number, colluding = terms.num_platforms, terms.colluding
    if terms.least_quorum < number:
        most = f" to {number - 1}" if terms.least_quorum < number - 1 else ""
        hint = f"participation.quorum = {terms.least_quorum}{most} would"
    else:
        hint = f"a federation of {_least_tolerant(colluding)} platforms would"
    said = f"transport.secure_sum: with {number} platforms, of which {colluding} may collude, no "
    said += f"platform may drop out of a round, or it ends unopened ({hint} tolerate one)."
    return [said]


def _least_tolerant(colluding: int) -> int:
    """Return how many platforms it takes to lose one."""
    number = colluding + 2
    while SumTerms(number, colluding, quorum=1).most_missing < 1:
        number += 1
    return number
