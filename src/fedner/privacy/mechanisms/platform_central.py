"""A platform's presence protected by a trusted server ("platform-central").

Paper: McMahan et al. 2018, "Learning differentially private recurrent language models" (DP-FedAvg).

The platform clips its update of a round at C; the server clips what it receives once more, adds
N(0, (multiplier * C)^2) to the sum and divides by the number of platforms that took part.

Guarantee: (epsilon, delta) under adding or removing one platform's update, for whoever sees only
what the server hands out; one Gaussian release a round. Who takes part in a round is public.

Whom to trust: the server, with every platform's update, and the channel to it.

Edge cases: those of `platform`. Encoded updates (`transport.encoding`) keep the guarantee: the
server clips what it decoded, so that no platform, whatever remainders it kept, moves a sum by more
than C. With few platforms the noise is as large as the sum. A sum is
noised once: in deployment every round is stored before the next begins.
"""

from collections.abc import Iterator, Mapping

from fedner.privacy.entropy import Source
from fedner.privacy.mechanisms.mechanism import Asked, Mechanism, PlatformPrivacy, SumRelease
from fedner.privacy.mechanisms.platform import whole_event, whole_problems
from fedner.privacy.mechanisms.unit_central import TRUST, noised_mean, sum_problems
from fedner.privacy.noise import clip
from fedner.settings import SettingProblem
from fedner.tensors import SharedState


def _problems(asked: Asked) -> Iterator[SettingProblem]:
    yield from whole_problems(asked)
    yield from sum_problems(asked)
    if asked.weighting == "sqrt-size":
        yield SettingProblem(
            "algorithm.weighting", "'sqrt-size' with platform-central", "equal or size",
            "The noise covers a sum in which every clipped update counts the same, whatever the "
            "sizes of the platforms.",
        )  # fmt: skip


def _on_update(privacy: PlatformPrivacy, tensors: SharedState, source: Source) -> SharedState:
    del source  # the server's noise
    return SharedState(dict(clip(tensors, privacy.max_grad_norm).value))


def _divisors(
    batches: Mapping[str, int], public_sizes: Mapping[str, int], num_slices: int
) -> dict[str, float]:
    del batches, num_slices
    return dict.fromkeys(public_sizes, 1.0)


PLATFORM_CENTRAL = Mechanism(
    "platform-central",
    whole_event,
    _problems,
    TRUST,
    on_update=_on_update,
    on_sum=SumRelease(clip, _divisors, noised_mean, clips_received=True),
)
