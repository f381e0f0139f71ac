"""A platform's steps under differential privacy: Poisson sample, clip, release, account.

`Platform.gradient` is the one place where an algorithm gets a step's gradient, so that with noise
there everything after it is post-processing of noised values. What is clipped and noised, and
where, is the mechanism's (`privacy.mechanisms`); here it is fed, step by step.

What a failure tells. A round is charged before data are touched (`releases`). If sampling, clipping
or noising then fails, whatever the reason, the step goes on with a clipped sum of exact zeros,
released like any other: nobody can tell. The cause is for the platform's own log.
"""

import logging
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch

from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.federated.learner import Learner
from fedner.models.partition import Partition
from fedner.models.tagger import Tagger
from fedner.privacy.entropy import Source
from fedner.privacy.events import GaussianRelease
from fedner.privacy.ledger import Ledger
from fedner.privacy.mechanisms import ClippedStep, PlatformPrivacy
from fedner.privacy.noise import Clipped, clip, part_of
from fedner.privacy.sampling import (
    PoissonSample,
    SampledUnit,
    Units,
    draw_sentences,
    sliced,
    units_of,
)
from fedner.seeds import PathPart
from fedner.tensors import SharedState, State, map_shared

_NOBODY = PoissonSample((), (), 0)
_log = logging.getLogger(__name__)


class BudgetSpentError(FednerError):
    """A release that the platform's own ledger refuses."""


@dataclass(slots=True)
class DPSteps:
    """The DP steps of one platform at work.

    Attributes:
        settings: How they are protected.
        pools: The units of each slice; none where no unit is sampled.
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
        expected = self.settings.num_slices if self.samples_units else 0
        if len(self.pools) != expected:
            raise FednerError(
                f"found {len(self.pools)} pools of units; expected {expected}",
                "Make them with `sliced_units`.",
            )

    @property
    def samples_units(self) -> bool:
        """Whether steps are sampled, clipped and released unit by unit."""
        return self.settings.mechanism.samples_units

    def begin(self, turn: int, num_steps: int = 1) -> None:
        """Begin a round: which slice it draws from and how many steps it takes, by public facts.

        Raises:
            FednerError: If the numbers make no sense.
        """
        if turn < 0 or num_steps < 1:
            raise FednerError(
                f"a round of {num_steps} steps in slice {turn}; expected at least 1 step, in a "
                "slice from 0 up",
                "Rounds are counted from 1.",
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
        self,
        run: str,
        round_: int,
        request: str,
        event: GaussianRelease,
        platform: str,
        study: str = "",
    ) -> None:
        """Have the ledger count a release, durably, before data are touched.

        Raises:
            BudgetSpentError: If the ledger refuses it; nothing was counted then.
        """
        if self.ledger is not None:
            try:
                self.ledger.charge(run, round_, request, event, platform, study)
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
    ) -> State:
        """Return what the mechanism lets the algorithm see of one step's gradient.

        Guarantee:
            That of the mechanism, for one step over a Poisson sample of units.

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
        released = partial(self._released, learner.weights(), partition.shared, batch, source)
        value: State | None = None
        try:
            clipped = self._clipped(learner, self._sample(batch, source), names, masks)
            value = released(part_of(clipped, names))
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

    def _released(
        self, weights: State, shared: tuple[str, ...], batch: int, source: Source, clipped: Clipped
    ) -> State:
        """Return what the mechanism makes of a step's clipped sum."""
        release = self.settings.mechanism.on_gradient
        if release is None:
            raise FednerError(
                f"a step by unit; mechanism {self.settings.mechanism.name!r} samples none"
            )
        step = ClippedStep(clipped, shared, weights, self.settings.expected(batch), source)
        return release(self.settings, step)

    def update(self, tensors: SharedState, path: Sequence[PathPart]) -> SharedState:
        """Return what the mechanism lets be transmitted of an update."""
        release = self.settings.mechanism.on_update
        if release is None:
            return tensors  # made of released values alone
        if not self.samples_units:
            self._take_step()
        return release(self.settings, tensors, self.settings.source.at(*path))

    def noise_alone(self, like: SharedState, batch: int, path: Sequence[PathPart]) -> SharedState:
        """Return an update in which there is nothing but noise; with a trusted server, nothing."""
        source, release = self.settings.source.at(*path), self.settings.mechanism.on_update
        tensors = map_shared(torch.zeros_like, like)
        if self.samples_units:
            nobody = clip(tensors, self.settings.max_grad_norm)
            tensors = SharedState(dict(self._released(like, tuple(like), batch, source, nobody)))
        return tensors if release is None else release(self.settings, tensors, source)

    def _names(self, learner: Learner, partition: Partition) -> tuple[str, ...]:
        """Return the weights that are trained."""
        is_frozen = self.settings.private_part == "frozen"
        return partition.shared if is_frozen else tuple(learner.weights())

    def _take_step(self) -> None:
        if self.taken >= self.num_steps or (self.ledger is not None and not self.is_charged):
            raise FednerError(
                f"step {self.taken + 1} of a round for which {self.num_steps} were charged",
                "The algorithm must say how many steps a round takes (`Algorithm.steps`).",
            )
        self.taken += 1


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
            "Use the key of the platform's ledger.",
        )
    every = units_of(sentences, unit)
    return sliced(sentences, every, settings.num_slices, settings.slicing, key)
