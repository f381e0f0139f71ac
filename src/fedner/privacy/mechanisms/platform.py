"""A whole platform protected by itself: the update of a round is clipped and noised ("platform").

Paper: McMahan et al. 2018 ("Learning differentially private recurrent language models") for
clipping a whole update; here the platform adds the noise itself, which is strict local differential
privacy (Kasiviswanathan et al. 2008).

The platform trains in the clear, clips its update of a round at C and sends

    clipped update + N(0, (multiplier * C)^2).

Guarantee: (epsilon, delta) for any two data sets of the platform (replace-one: the update moves by
at most 2 C), for whoever sees all that it transmits; one Gaussian release a round, without
sampling.

Edge cases: an update that is not finite becomes zero: noise alone. The private part is trained
without noise, so that neither scores nor a finished tagger may be given away. Whole weights are
refused: clipping would shrink the model, not the change. So are extra tensors, which clipping the
update does not cover.
"""

from collections.abc import Iterator

from fedner.privacy.entropy import Source
from fedner.privacy.events import GaussianRelease
from fedner.privacy.mechanisms.mechanism import Asked, Mechanism, PlatformPrivacy, without_rows
from fedner.privacy.mechanisms.unit_local import TRUST
from fedner.privacy.noise import clip, gaussian
from fedner.settings import SettingProblem
from fedner.tensors import SharedState


def whole_event(privacy: PlatformPrivacy, batch: int, steps: int, turn: int) -> GaussianRelease:
    """Return the event of one update, whatever led to it."""
    del batch, steps, turn
    return GaussianRelease(
        noise_multiplier=privacy.noise_multiplier,
        sampling_probability=1.0,
        unit="platform",
        max_norm=privacy.max_grad_norm,
        public_units=1,
        adjacency=privacy.mechanism.adjacency,
        is_simulation=privacy.source.is_simulation,
    )


def whole_problems(asked: Asked) -> Iterator[SettingProblem]:
    """Yield what clipping a whole update cannot be combined with, wherever the noise is added."""
    if asked.private_part == "frozen":
        yield SettingProblem(
            "privacy.private_part", "'frozen' where the platform is the unit", "joint",
            "The whole update is protected, whatever the private part does.",
        )  # fmt: skip
    if asked.has_scores:
        yield SettingProblem(
            "privacy.scores", "scores where the platform is the unit", "no such table",
            "The private part is trained in the clear, and scores would tell of it.",
        )  # fmt: skip
    if asked.names_unit:
        yield SettingProblem(
            "privacy.unit", "a unit where the platform is the unit", "no such key",
            "To protect sentences, documents or patients take unit-local or unit-central.",
        )  # fmt: skip
    if asked.has_extra:
        yield SettingProblem(
            "algorithm.name", f"{asked.algorithm!r} where the platform is the unit",
            "an algorithm that sends one update",
            "Its extra tensors (control variates) are sent too; clipping the update does not cover "
            "them.",
        )  # fmt: skip
    if asked.sends == "weights":
        yield SettingProblem(
            "algorithm.sends", "'weights' where the platform is the unit", "delta",
            "Clipping whole weights would shrink the model, not the change.",
        )  # fmt: skip


def _on_update(privacy: PlatformPrivacy, tensors: SharedState, source: Source) -> SharedState:
    noised = gaussian(clip(tensors, privacy.max_grad_norm), privacy.noise_multiplier, source)
    return SharedState(without_rows(noised.value, privacy.padding_rows))


PLATFORM = Mechanism(
    "platform",
    whole_event,
    whole_problems,
    TRUST,
    on_update=_on_update,
    adjacency="replace_one",
)
