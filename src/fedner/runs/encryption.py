"""Encrypted sums of a study: what everybody knows of them, what does not go together with them."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from fedner.errors import FednerError
from fedner.federated.algorithms import Algorithm
from fedner.federated.encrypted.parameters import CkksParameters
from fedner.federated.participation import Participation, choose
from fedner.federated.secure_sum import mean_scales
from fedner.federated.sizes import planned_batches, platform_weights
from fedner.privacy.mechanisms import Mechanism
from fedner.runs.study_defaults import releases_sum
from fedner.settings import SettingProblem, Settings, Study

if TYPE_CHECKING:  # `tenseal` is an extra
    from fedner.federated.encrypted.plan import EncryptionPlan

LEAST_PLATFORMS = 3  # of two, each could take its own update off the sum
# The largest norm of 2,048 numbers of an update, by what it is. What is larger is refused at its
# platform: nothing wraps around. The finer the steps, the less an optimizer such as Adam makes of
# what is rounded.
_LARGEST = {"gradients": 64.0, "differences": 64.0, "weights": 1024.0}
_ROOM = 1.01  # for what rounding adds to a norm that is at its bound
_NOISE = 1.5 * 2048**0.5  # the norm of 2,048 numbers of noise, in deviations, is 1.02 of the root
_MOST_MULTIPLIER = 64.0  # where epsilon is given in place of it
_NOBODY_LOOKS = "With encryption nobody sees a single update, and the server not even the sum."


def encryption_plan(study: Study, algorithm: Algorithm) -> "EncryptionPlan":
    """Return what everybody knows of a study's encrypted sums.

    Raises:
        FednerError: `tenseal` is not installed, or there are more platforms than can be added up
            with the error that is allowed.
    """
    from fedner.federated.encrypted_sum import require_encryption

    require_encryption()
    from fedner.federated.encrypted.mirror import MirrorPlan
    from fedner.federated.encrypted.plan import EncryptionPlan

    weights = platform_weights(study.public_sizes, algorithm.weighting)
    scales, factor = mean_scales(weights)
    asked = study.participation
    return EncryptionPlan(
        parameters_for(study, algorithm),
        MirrorPlan(algorithm, weights, study.training.ema_decay),
        scales,
        factor,
        num_asked(study) if asked.quorum is None else asked.quorum,
        partial(_batches, study, algorithm),
        asked.norm_bound,
        must_be_charged=study.is_deployed,
    )


def parameters_for(settings: Settings | Study, algorithm: Algorithm) -> CkksParameters:
    """Return the parameters of a study's encryption.

    Raises:
        FednerError: Its platforms are too many for the error that is allowed.
    """
    return CkksParameters.for_range(num_asked(settings), _largest(settings, algorithm))


def _largest(settings: Settings | Study, algorithm: Algorithm) -> float:
    """Return the largest norm that the numbers of one ciphertext may have."""
    largest, held = _LARGEST[algorithm.sends], settings.privacy
    if algorithm.sends == "gradients":
        largest = settings.local_optimizer.max_grad_norm or largest
    if held.enabled:
        multiplier = _MOST_MULTIPLIER if held.noise_multiplier is None else held.noise_multiplier
        units = settings.training.batch_size if algorithm.loss_reading == "sum" else 1
        largest = max(largest, held.max_grad_norm * (units + _NOISE * multiplier))
    return largest * _ROOM


def num_asked(settings: Settings | Study) -> int:
    """Return how many platforms are asked in a round."""
    sample = settings.participation.sample
    return len(settings.platforms) if sample is None else sample


def _batches(study: Study, algorithm: Algorithm, round_: int) -> Mapping[str, int]:
    """Return the batches of those who are chosen for a round, as the coordinator plans them."""
    asked, sizes = study.participation, study.public_sizes
    chosen = choose(Participation(asked.sample, asked.quorum), list(sizes), study.seed, round_)
    own = {name: sizes[name] for name in chosen}
    return planned_batches(own, study.training.batch_size, algorithm.batching)


def encryption_problems(
    settings: Settings, mechanism: Mechanism | None, algorithm: Algorithm | None
) -> Iterator[SettingProblem]:
    """Yield all that encrypted sums do not go together with.

    Args:
        settings: The settings, with encryption.
        mechanism: What protects the platforms' units; None without differential privacy.
        algorithm: What platforms and coordinator compute; None where the settings name none.
    """
    transport, key = settings.transport, "transport.encryption"
    if transport.secure_sum:
        yield SettingProblem(
            key, "'ckks' with secure_sum = true", "one of the two",
            "Both hide single updates. Encryption hides sums and weights from the server too; the "
            "secure sum also resists platforms that work together with it.",
        )  # fmt: skip
    if mechanism is not None and (mechanism.noise_place == "central" or mechanism.shares_noise):
        yield SettingProblem(
            key, f"'ckks' with mechanism {mechanism.name!r}",
            "a mechanism with which each update has all of its noise",
            "Every platform can read sums, and with the server's help single updates.",
        )  # fmt: skip
    if transport.encoding != "float32":
        yield SettingProblem(
            "transport.encoding", f"{transport.encoding!r} with encryption", "'float32'",
            "Encoded updates cannot be added up before somebody decodes them.",
        )  # fmt: skip
    yield from _number_problems(settings, algorithm)
    yield from _single_problems(settings)


def _number_problems(settings: Settings, algorithm: Algorithm | None) -> Iterator[SettingProblem]:
    asked, number = settings.participation, num_asked(settings)
    why = "With two platforms in a sum each reads the update of the other."
    if number < LEAST_PLATFORMS:
        found = f"'ckks' with {number} platforms in a round"
        yield SettingProblem("transport.encryption", found, f"at least {LEAST_PLATFORMS}", why)
        return
    if asked.quorum is not None and asked.quorum < LEAST_PLATFORMS:
        expected = f"at least {LEAST_PLATFORMS} with encryption"
        yield SettingProblem("participation.quorum", str(asked.quorum), expected, why)
    if algorithm is None:
        return
    try:
        parameters_for(settings, algorithm)
    except FednerError as error:
        said = error.message.removeprefix("encrypted sum: ").partition("; expected ")
        yield SettingProblem("transport.encryption", said[0], said[2], error.hint)


def _single_problems(settings: Settings) -> Iterator[SettingProblem]:
    """Yield settings that need single updates."""
    asked = settings.participation
    if asked.aggregation != "mean":
        yield SettingProblem(
            "participation.aggregation", repr(asked.aggregation), "'mean'", _NOBODY_LOOKS
        )
    if asked.norm_factor is not None and not releases_sum(settings):
        yield SettingProblem(
            "participation.norm_factor", f"{asked.norm_factor:g}", "no such key",
            f"{_NOBODY_LOOKS} Each platform checks its own against participation.norm_bound.",
        )  # fmt: skip
