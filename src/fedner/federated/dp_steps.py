"""Differential privacy of a platform's steps: Poisson sample, clip, noise, account.

DP-SGD (Abadi et al. 2016) inside every algorithm: `Platform.gradient` is the one place where an
algorithm gets a step's gradient, so that with noise there everything after it (steps, means,
differences of weights, control variates, moments) is post-processing of noised values.

What is protected is the *joint* gradient. A shared gradient depends on the private weights, and
those were stepped on the same data. So of every unit the shared and the private gradient are
clipped together, both are noised, and the private optimizer sees the noised part alone ("joint").
Also valid: the private part is frozen while updates are transmitted ("frozen"). Not valid is noise
on the shared part only ("clear"): removing one unit changes the private weights and through them
the shared gradient of every other unit, so that no clipping of single units bounds the change.

Where noise is added. Local: by the platform itself; nobody else is trusted. Central: the platform
sends a clipped sum and the server adds the noise once to the sum over all platforms
(`server_noise`). Then the server is trusted with every platform's clipped sums, and the channel to
it must be safe. The private part stays at home in both; its noise is always the platform's own.

What a failure tells. A round is charged before data are touched (`releases`). If drawing, clipping
or noising then fails, whatever the reason, the step goes on with a clipped sum of exact zeros,
noised like any other: nobody can tell. The cause is for the platform's own log.

Unit "platform": the whole update of a round is clipped and noised, whatever led to it. Local, this
is strict local differential privacy: any two data sets of the platform are neighbours. Central, it
is the presence of the platform in the sum that is protected.
"""

import logging
import traceback
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.federated.learner import Learner
from fedner.federated.messages import all_finite
from fedner.models.partition import Partition
from fedner.models.tagger import Tagger
from fedner.privacy.dpsgd import Loss
from fedner.privacy.entropy import Source, SystemEntropy
from fedner.privacy.events import GaussianRelease, Slice, Unit
from fedner.privacy.ledger import Ledger
from fedner.privacy.noise import Clipped, clip, divide, gaussian, part_of, rounded_like
from fedner.privacy.sampling import (
    PoissonSample,
    SampledUnit,
    Units,
    draw_sentences,
    expected_size,
    sampling_probability,
    sliced,
    units_of,
)
from fedner.seeds import PathPart
from fedner.tensors import SharedState, map_shared

Where = Literal["local", "central"]
PrivatePart = Literal["joint", "frozen", "clear"]

_NOBODY = PoissonSample((), (), 0)
_log = logging.getLogger(__name__)

WHY_NOT_CLEAR = (
    "removing one unit changes the private weights and through them the shared gradient of every "
    "other unit, so that noise on the shared part alone proves nothing"
)


class BudgetSpentError(FednerError):
    """A release that the platform's own ledger refuses."""


@dataclass(frozen=True, slots=True)
class ScoreNoise:
    """How the scores that a platform discloses are protected (`privacy.scores`).

    Attributes:
        max_norm: The largest norm of a unit's counts.
        noise_multiplier: Standard deviation of the noise over `max_norm`.
    """

    max_norm: float
    noise_multiplier: float


@dataclass(frozen=True, slots=True)
class PlatformPrivacy:
    """How a platform's releases are protected: public facts, the same for whoever asks.

    Attributes:
        max_grad_norm: The largest norm of a unit's gradient, shared and private together; of the
            whole update where the unit is the platform.
        noise_multiplier: Standard deviation of the noise over `max_grad_norm`.
        public_units: The declared number of units, n_i.
        unit: Whose presence is protected.
        where: Who adds the noise of the shared part.
        private_part: What becomes of the private part; see the top of this file.
        loss: A sentence's loss as the sum or the mean over its tokens.
        max_sentences: How many sentences of a unit take part in a step at most.
        num_slices: Slices of an incremental schedule, disjoint by unit.
        source: Where sample and noise come from: the operating system, or a seed in a simulation.
        padding_rows: Rows of tables that are never trained (padding), where noise has no business.
        scores: How disclosed scores are noised; None where none are disclosed.
    """

    max_grad_norm: float
    noise_multiplier: float
    public_units: int
    unit: Unit = "sentence"
    where: Where = "local"
    private_part: PrivatePart = "joint"
    loss: Loss = "sum"
    max_sentences: int | None = None
    num_slices: int = 1
    source: Source = field(default_factory=SystemEntropy)
    padding_rows: Mapping[str, int] = field(default_factory=dict)
    scores: ScoreNoise | None = None

    def __post_init__(self) -> None:
        if self.private_part == "clear":
            raise FednerError(
                f"private part 'clear' is refused: {WHY_NOT_CLEAR}",
                "Take 'joint', or 'frozen' and train the private part after the last update.",
            )
        if self.num_slices < 1 or (self.unit == "platform" and self.num_slices > 1):
            raise FednerError(
                f"found {self.num_slices} slices with unit {self.unit}; expected 1 slice of unit "
                "platform, or at least 1 of a smaller unit",
                "A platform lies in every slice of its data.",
            )
        if self.scores is not None and self.unit == "platform":
            raise FednerError(
                "noised scores with unit platform: the private part, with which they are computed, "
                "is trained in the clear, so that no clipping bounds what they tell",
                "Protect sentences, documents or patients, or disclose no scores.",
            )
        # The events know which numbers make sense.
        self.event(1, 1)
        self.score_event()

    @property
    def units_in_slice(self) -> float:
        """The public number of units in a slice, on average."""
        return self.public_units / self.num_slices

    @property
    def slicing(self) -> str:
        """The name of the way of cutting; equal names cut equally, in every run."""
        by = "the words of a sentence" if self.unit == "sentence" else self.unit
        how = "" if self.source.is_simulation else "the keyed hash of "
        return f"{self.num_slices} slices by {how}{by}"

    def probability(self, batch: int) -> float:
        """Return how likely each unit of the slice takes part in a step."""
        if self.unit == "platform":
            return 1.0
        return sampling_probability(batch * self.num_slices, self.public_units)

    def expected(self, batch: int) -> float:
        """Return what a step's sum is divided by."""
        return expected_size(self.probability(batch), self.public_units) / self.num_slices

    def event(self, batch: int, steps: int, turn: int = 0) -> GaussianRelease:
        """Return what the accountant hears of the steps of a round.

        Args:
            batch: The expected number of units in a step.
            steps: How many.
            turn: The slice.

        Raises:
            FednerError: If there is no such slice.
        """
        is_whole = self.unit == "platform"
        if not 0 <= turn < self.num_slices:
            raise FednerError(
                f"slice {turn} of an incremental schedule; expected one from 0 to "
                f"{self.num_slices - 1}",
                "Rounds are counted from 1.",
            )
        return GaussianRelease(
            noise_multiplier=self.noise_multiplier,
            sampling_probability=self.probability(batch),
            unit=self.unit,
            max_norm=self.max_grad_norm,
            public_units=1 if is_whole else self.public_units,
            steps=1 if is_whole else steps,
            adjacency="replace_one" if is_whole and self.where == "local" else "add_or_remove_one",
            slice=Slice(self.slicing, str(turn)) if self.num_slices > 1 else None,
            max_sentences=None if is_whole else self.max_sentences,
            is_simulation=self.source.is_simulation,
        )

    def score_event(self) -> GaussianRelease | None:
        """Return what the accountant hears of one release of scores, if there is one."""
        if self.scores is None:
            return None
        return GaussianRelease(
            noise_multiplier=self.scores.noise_multiplier,
            sampling_probability=1.0,
            unit=self.unit,
            max_norm=self.scores.max_norm,
            public_units=self.public_units,
            purpose="statistics",
            is_simulation=self.source.is_simulation,
        )


@dataclass(slots=True)
class DPSteps:
    """The DP steps of one platform at work.

    Attributes:
        settings: How they are protected.
        pools: The units of each slice; none where the unit is the platform.
        ledger: The platform's book of releases; None in a simulation without a budget.
        turn: The slice of the current round.
        num_steps: The steps of the current round: a public fact.
        taken: How many of them were taken.
        tested: The units of the test part; None where no scores are disclosed.
        is_charged: Whether the ledger, if there is one, has counted the current round.
    """

    settings: PlatformPrivacy
    pools: Sequence[Units] = ()
    ledger: Ledger | None = None
    turn: int = 0
    num_steps: int = 1
    taken: int = 0
    tested: Units | None = None
    is_charged: bool = False
    _dtypes: dict[str, torch.dtype] = field(default_factory=dict)

    def __post_init__(self) -> None:
        expected = 0 if self.settings.unit == "platform" else self.settings.num_slices
        if len(self.pools) != expected:
            raise FednerError(
                f"found {len(self.pools)} pools of units; expected {expected}",
                "Make them with `sliced_units`.",
            )

    @property
    def samples_units(self) -> bool:
        """Whether steps are drawn, clipped and noised unit by unit."""
        return self.settings.unit != "platform"

    def begin(self, turn: int, num_steps: int = 1) -> None:
        """Begin a round: which slice it draws from and how many steps it takes, by public facts.

        Raises:
            FednerError: If the numbers make no sense, or noise at the server does not cover them.
        """
        if turn < 0 or num_steps < 1:
            raise FednerError(
                f"a round of {num_steps} steps in slice {turn}; expected at least 1 step, in a "
                "slice from 0 up",
                "Rounds are counted from 1.",
            )
        if num_steps > 1 and self.samples_units and self.settings.where == "central":
            raise FednerError(
                "noise at the server, but more than one step in a round: the second one would "
                "stand on shared weights that nobody noised",
                "Take one local step (fedner with local_steps = 1), noise where = 'local', or "
                "unit = 'platform'.",
            )
        self.turn = min(turn, self.settings.num_slices - 1)
        self.num_steps, self.taken, self.is_charged = num_steps, 0, False

    def check(self, learner: Learner, partition: Partition) -> None:
        """Raise now, before the charge, if the model cannot be clipped at all: nobody is drawn.

        Raises:
            FednerError: If it trains something that has no per-unit gradient, or the like.
        """
        if self.samples_units and not self._dtypes:
            names = self._names(learner, partition)
            found = self._clipped(learner, _NOBODY, names, None)
            self._dtypes = {name: tensor.dtype for name, tensor in found.value.items()}

    def event(self, batch: int) -> GaussianRelease:
        """Return what this round costs, all its steps together."""
        return self.settings.event(batch, self.num_steps, self.turn)

    def charge(
        self, run: str, round_: int, request: str, event: GaussianRelease, platform: str
    ) -> None:
        """Have the ledger count a release, durably, before data are touched.

        Raises:
            BudgetSpentError: If the ledger refuses it; nothing was counted then.
        """
        if self.ledger is not None:
            try:
                self.ledger.charge(run, round_, request, event, platform)
            except FednerError as error:
                raise BudgetSpentError(error.message, error.hint) from error
        self.is_charged = self.is_charged or event.purpose == "training"

    def note_failure(self, what: str) -> None:
        """Tell the owner, and nobody else, of the error that is being handled."""
        text = f"{what}: noise alone is released in its place.\n{traceback.format_exc()}"
        _log.error("%s", text)
        if self.ledger is not None:
            self.ledger.note_failure(text)

    def gradient(
        self,
        learner: Learner,
        partition: Partition,
        batch: int,
        path: Sequence[PathPart],
        dropout_seed: int,
    ) -> dict[str, Tensor]:
        """Return the noised mean gradient of one step, or for the server its clipped shared sum.

        Guarantee:
            One step of the Poisson-subsampled Gaussian mechanism over the joint gradient; with
            noise at the server, once the server has noised the shared sum.

        Edge cases:
            An empty sample is released like any other: noise alone. So is a step whose work on the
            data fails; why is noted for the owner.

        Args:
            learner: The platform's model and data.
            partition: Which weights travel.
            batch: The expected number of units.
            path: Names the step, for simulations.
            dropout_seed: Of the step's dropout, in simulations. One unit less moves the masks of
                all others: that changes nothing only while masks are chance to whoever looks on.

        Raises:
            FednerError: If the step was not charged.
        """
        self._take_step()
        source = self.settings.source.at(*path)
        names = self._names(learner, partition)
        masks = dropout_seed if source.is_simulation else None
        released = partial(self._noised, learner, partition, names, batch, source)
        value: dict[str, Tensor] | None = None
        try:
            value = released(self._clipped(learner, self._sample(batch, source), names, masks))
        except Exception:  # noqa: BLE001 - whatever it is, it may depend on data: nobody hears of it
            self.note_failure(f"step {self.taken} of a round failed")
        # Not in the handler: its frames hold memory that the noise may need.
        return released(self._zeros(learner, names)) if value is None else value

    def _sample(self, batch: int, source: Source) -> PoissonSample:
        settings = self.settings
        probability = settings.probability(batch)
        pool = self.pools[self.turn]
        return draw_sentences(pool, probability, source, max_sentences=settings.max_sentences)

    def _clipped(
        self, learner: Learner, sample: PoissonSample, names: Collection[str], masks: int | None
    ) -> Clipped:
        return learner.clipped(
            sample, self.settings.max_grad_norm, names, self.settings.loss, masks
        )

    def _zeros(self, learner: Learner, names: Collection[str]) -> Clipped:
        """Return the clipped sum of nobody."""
        weights = learner.weights()
        zeros = {
            name: torch.zeros_like(weights[name], dtype=self._dtypes.get(name)).detach()
            for name in names
        }
        return clip(zeros, self.settings.max_grad_norm)

    def _noised(
        self,
        learner: Learner,
        partition: Partition,
        names: Collection[str],
        batch: int,
        source: Source,
        clipped: Clipped,
    ) -> dict[str, Tensor]:
        """Return the mean of a clipped sum with noise; the shared part is left to the server."""
        settings, own = self.settings, tuple(names)
        value: dict[str, Tensor] = {}
        if settings.where == "central":
            own = tuple(name for name in names if name in partition.private)
            value.update(part_of(clipped, partition.shared).value)
            if not all_finite(value):
                raise FednerError("a clipped sum holds numbers that are not finite")
        noised = gaussian(part_of(clipped, own), settings.noise_multiplier, source)
        mean = divide(noised, settings.expected(batch))
        value.update(rounded_like(mean, learner.weights()))
        return without_rows(value, settings.padding_rows)

    def whole_update(self, tensors: SharedState, path: Sequence[PathPart]) -> SharedState:
        """Return the update of a round, clipped as a whole and, locally, noised.

        Edge cases:
            An update that is not finite becomes zero: noise alone.
        """
        self._take_step()
        clipped = clip(tensors, self.settings.max_grad_norm)
        if self.settings.where == "central":
            return SharedState(dict(clipped.value))
        noised = gaussian(clipped, self.settings.noise_multiplier, self.settings.source.at(*path))
        return SharedState(without_rows(noised.value, self.settings.padding_rows))

    def noise_alone(self, like: SharedState, batch: int, path: Sequence[PathPart]) -> SharedState:
        """Return an update in which there is nothing but noise; with a trusted server, nothing."""
        settings = self.settings
        clipped = clip(map_shared(torch.zeros_like, like), settings.max_grad_norm)
        if settings.where == "central":
            return SharedState(dict(clipped.value))
        noised = gaussian(clipped, settings.noise_multiplier, settings.source.at(*path))
        if self.samples_units:
            noised = divide(noised, settings.expected(batch))
        return SharedState(without_rows(noised.value, settings.padding_rows))

    def _names(self, learner: Learner, partition: Partition) -> tuple[str, ...]:
        """Return the weights that are trained."""
        is_frozen = self.settings.private_part == "frozen"
        return partition.shared if is_frozen else tuple(learner.weights())

    def _take_step(self) -> None:
        if self.taken >= self.num_steps or (self.ledger is not None and not self.is_charged):
            raise FednerError(
                f"step {self.taken + 1} of a round for which {self.num_steps} were charged",
                "The algorithm must say how many steps a round takes (platform.Local).",
            )
        self.taken += 1


def without_rows(state: Mapping[str, Tensor], rows: Mapping[str, int]) -> dict[str, Tensor]:
    """Return a noised state with zeros in the rows that are never trained: post-processing."""
    result = dict(state)
    for name, row in rows.items():
        if name in result:
            result[name][row].zero_()
    return result


def padding_rows(tagger: Tagger) -> dict[str, int]:
    """Return the row of each trained table that stands for padding and stays zero."""
    known = {
        f"{stage.name}.{name}": row
        for stage in tagger.stages.all
        for name, row in stage.forms.padding_rows.items()
    }
    trained = {name for name, each in tagger.named_parameters() if each.requires_grad}
    return {name: row for name, row in known.items() if name in trained}


def sliced_units(
    sentences: Sequence[Sentence],
    unit: SampledUnit,
    settings: PlatformPrivacy,
    key: bytes = b"",
) -> tuple[Units, ...]:
    """Return the units of each slice; each unit's slice follows from the unit and the key alone.

    Args:
        sentences: The training part.
        unit: What a unit is.
        settings: How many slices there are.
        key: The key of the platform's ledger; a simulation has none.

    Raises:
        FednerError: If a sentence does not say to which document or patient it belongs, or the
            slices of a deployed platform have no key.
    """
    if settings.num_slices > 1 and not (key or settings.source.is_simulation):
        raise FednerError(
            f"{settings.num_slices} slices of a deployed platform without its key",
            "Take the key of the platform's ledger.",
        )
    every = units_of(sentences, unit)
    return sliced(sentences, every, settings.num_slices, settings.slicing, key)
