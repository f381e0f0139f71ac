"""What a mechanism is: a record of functions over clipped values and public facts.

Three places, in the order in which values walk:

    on_gradient   at the platform, in every step: the clipped sum over a Poisson sample of units
    on_update     at the platform, once in a round: the whole update
    on_sum        at the server, once in a round: the sum over platforms

A mechanism says at which of them it clips or noises, what the accountant records, whom the
platforms must trust, what may be reported beside the update, and which studies it would prove
nothing for. Nobody outside this folder asks which mechanism it is.

To add one: a file named for it with paper, guarantee and edge cases on top, a row in
`mechanisms/__init__.py`, and a statistical test that accepts sigma and rejects 2/3 and 3/2 of it.
Its event is a `GaussianRelease`: exact for Gaussian noise, and an upper bound for whatever
satisfies mu-Gaussian differential privacy (Dong, Roth and Su 2022) with multiplier 1/mu, such as
discrete noise (`privacy.discrete_bound`). Noise of another kind needs an event of its own in
`privacy.events` and `privacy.accountant`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from fedner.errors import FednerError
from fedner.privacy.discrete_bound import DiscreteNoise
from fedner.privacy.dpsgd import Loss
from fedner.privacy.entropy import Source, SystemEntropy
from fedner.privacy.events import Adjacency, GaussianRelease, Slice, Unit
from fedner.privacy.noise import Clipped
from fedner.privacy.noise_shares import JointSum
from fedner.privacy.sampling import SampledUnit, expected_size, sampling_probability
from fedner.settings import SettingProblem
from fedner.settings.policy import NoisePlace
from fedner.settings.sections import Encoding
from fedner.tensors import SharedState, State

PrivatePart = Literal["joint", "frozen", "clear"]

WHY_NOT_CLEAR = (
    "removing one unit changes the private weights and through them the shared gradient of every "
    "other unit, so that noise on the shared part alone proves nothing"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a study asks for beside its mechanism: public facts.

    Attributes:
        algorithm: What people call the algorithm.
        sends: What its updates are: "gradients", "differences" or "weights".
        has_extra: Whether extra tensors are sent beside them.
        loss_reading: Whether gradients are those of the mean or the sum of the loss.
        steps: The most gradients that a platform takes in a round.
        weighting: How much platforms count in a sum: "size", "sqrt-size" or "equal".
        private_part: What becomes of the private part.
        aggregation: How updates are aggregated.
        is_marginal: Whether the loss leaves types open that a platform does not annotate.
        has_scores: Whether noised scores are to be disclosed.
        names_unit: Whether the study says which unit is protected.
        encoding: In which numbers updates travel.
    """

    algorithm: str = "fedner"
    sends: str = "gradients"
    has_extra: bool = False
    loss_reading: str = "mean"
    steps: int = 1
    weighting: str = "size"
    private_part: PrivatePart = "joint"
    aggregation: str = "mean"
    is_marginal: bool = False
    has_scores: bool = False
    names_unit: bool = False
    encoding: Encoding = "float32"


@dataclass(frozen=True, slots=True)
class ClippedStep:
    """A step's clipped sum, and what its release needs beside it.

    Attributes:
        clipped: The sum over the units of a Poisson sample, shared and private part together.
        shared: The names that travel.
        weights: The weights that it steps, for their precision.
        expected: The expected number of units: what sums are divided by.
        source: Where this step's noise comes from.
    """

    clipped: Clipped
    shared: tuple[str, ...]
    weights: State
    expected: float
    source: Source


@dataclass(frozen=True, slots=True)
class SumRelease:
    """What a mechanism does at the server.

    Attributes:
        received: Makes of one platform's update, and the bound, a clipped part of the sum.
        divisors: The expected size of every platform's part, of the batches of a round, all public
            sizes and the number of slices: what the sum is divided by.
        noised: Releases the sum, of the terms, the sum, what it is divided by, the weights for
            their precision, and the source of the noise.
        clips_received: Whether `received` brings the norm of each part under the bound by itself,
            whatever was sent: then it bounds what was decoded, too.
    """

    received: Callable[[State, float], Clipped]
    divisors: Callable[[Mapping[str, int], Mapping[str, int], int], dict[str, float]]
    noised: "Callable[[NoiseTerms, Clipped, float, State, Source], State]"
    clips_received: bool = False


@dataclass(frozen=True, slots=True)
class NoiseTerms:
    """What every release of noise needs to know.

    Attributes:
        max_grad_norm: The clipping bound.
        noise_multiplier: Standard deviation of the noise over that bound.
        padding_rows: Rows of tables that are never trained, where noise has no business.
    """

    max_grad_norm: float
    noise_multiplier: float
    padding_rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MechanismFacts:
    """What records and reports say of a mechanism; it can be stored.

    Attributes:
        name: What people call it.
        trust: Whom the platforms of a deployed run must trust, as a sentence.
        samples_units: Whether units are protected, and not whole platforms.
        noise_place: Who adds the noise: each platform its own ("local"), all of them together
            ("distributed"), or the server ("central").
    """

    name: str
    trust: str
    samples_units: bool
    noise_place: NoisePlace

    def unit(self, sampled: SampledUnit) -> Unit:
        """Return whose presence is protected if the study names this unit."""
        return sampled if self.samples_units else "platform"


@dataclass(frozen=True, slots=True)
class Mechanism:
    """How what a platform discloses is protected.

    >>> import fedner, dataclasses
    >>> from fedner.privacy.mechanisms import UNIT_LOCAL
    >>> UNIT_LOCAL.samples_units, UNIT_LOCAL.noise_place
    (True, 'local')
    >>> mine = dataclasses.replace(UNIT_LOCAL, name="mine", trust="Nobody but the platform.")
    >>> isinstance(mine, fedner.Mechanism)
    True

    Attributes:
        name: Its name in the settings.
        event: What the accountant records for a round, given the platform's terms, the batch, the
            steps that the algorithm takes and the slice. If units are not sampled, a round is one
            release, however many steps it took. The event's noise multiplier is proportional to
            that of the terms, so that noise can be chosen for a target epsilon.
        problems: Why it would prove nothing for a study: all reasons together, none if it holds.
        trust: Whom the platforms of a deployed run must trust, as a sentence.
        on_gradient: What a platform's algorithm sees of a step. None: steps are taken in the clear
            and no unit is sampled; then the whole update must be protected.
        on_update: What is transmitted of an update. None: it is transmitted unchanged, because it
            is made of released values only.
        on_sum: What the server does to the sum. None: updates are released one by one.
        adjacency: Which data sets are neighbours.
        shares_noise: Whether each platform adds a share of the noise that the sum needs: a single
            update then has too little, and a summation must hide it.
    """

    name: str
    event: "Callable[[PlatformPrivacy, int, int, int], GaussianRelease]"
    problems: Callable[[Asked], Iterator[SettingProblem]]
    trust: str
    on_gradient: "Callable[[PlatformPrivacy, ClippedStep], State] | None" = None
    on_update: "Callable[[PlatformPrivacy, SharedState, Source], SharedState] | None" = None
    on_sum: SumRelease | None = None
    adjacency: Adjacency = "add_or_remove_one"
    shares_noise: bool = False

    @property
    def samples_units(self) -> bool:
        """Whether steps are sampled, clipped and released unit by unit."""
        return self.on_gradient is not None

    @property
    def releases_sum(self) -> bool:
        """Whether only the sum is released: what the server receives must not outlive its round.

        Then norms of updates are not recorded, and in deployment every round is stored before the
        next begins, because adding noise to a sum twice would be two releases.
        """
        return self.on_sum is not None

    @property
    def noise_place(self) -> NoisePlace:
        """Who adds the noise."""
        if self.shares_noise:
            return "distributed"
        return "central" if self.releases_sum else "local"

    @property
    def facts(self) -> MechanismFacts:
        """What records and reports say about it."""
        return MechanismFacts(self.name, self.trust, self.samples_units, self.noise_place)

    def unit(self, sampled: SampledUnit) -> Unit:
        """Return whose presence is protected if the study names this unit."""
        return self.facts.unit(sampled)


def all_problems(mechanism: Mechanism, asked: Asked) -> Iterator[SettingProblem]:
    """Yield every reason why a mechanism would prove nothing for what is asked."""
    yield from mechanism.problems(asked)
    yield from encoding_problems(mechanism, asked)


def encoding_problems(mechanism: Mechanism, asked: Asked) -> Iterator[SettingProblem]:
    """Yield an encoding that would move what the noise at the server was made for.

    Noised at the platform, an update is encoded after the noise: post-processing of released
    values, whose remainders are made of them alone. Where the server adds the noise, rounding
    moves what one unit contributes by more than it was clipped to, unless the server bounds each
    decoded update itself.
    """
    bounds_decoded = mechanism.on_sum is None or mechanism.on_sum.clips_received
    if asked.encoding != "float32" and not bounds_decoded:
        yield SettingProblem(
            "transport.encoding", f"{asked.encoding!r} with mechanism {mechanism.name!r}",
            "float32, or noise at the platforms (unit-local, platform)",
            "Rounded sums move by more than the bound that the server's noise was made for, and "
            "nobody can see in a sum what one unit contributed.",
        )  # fmt: skip


def require_fitting(mechanism: Mechanism, asked: Asked, who: str) -> None:
    """Raise if a mechanism would prove nothing for what is asked.

    Raises:
        FednerError: Naming every problem.
    """
    found = list(all_problems(mechanism, asked))
    if found:
        wrong = "; ".join(
            f"{each.key}: found {each.found}; expected {each.expected}" for each in found
        )
        raise FednerError(f"{who}: {wrong}", " ".join(each.hint for each in found if each.hint))


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
        mechanism: What is clipped and noised, where and by whom.
        max_grad_norm: The largest norm of a unit's gradient, shared and private together; of the
            whole update where no unit is sampled.
        noise_multiplier: Standard deviation of the noise over `max_grad_norm`.
        public_units: The declared number of units, n_i.
        unit: What a unit is, where units are sampled.
        private_part: What becomes of the private part; see `unit_local`.
        loss: A sentence's loss as the sum or the mean over its tokens.
        max_sentences: How many sentences of a unit take part in a step at most.
        num_slices: Slices of an incremental schedule, disjoint by unit.
        source: Where sample and noise come from: the operating system, or a seed in a simulation.
        padding_rows: Rows of tables that are never trained (padding), where noise has no business.
        scores: How disclosed scores are noised; None where none are disclosed.
        joint: The sum that the platforms make together; None where each of them releases its own.
    """

    mechanism: Mechanism
    max_grad_norm: float
    noise_multiplier: float
    public_units: int
    unit: SampledUnit = "sentence"
    private_part: PrivatePart = "joint"
    loss: Loss = "sum"
    max_sentences: int | None = None
    num_slices: int = 1
    source: Source = field(default_factory=SystemEntropy)
    padding_rows: Mapping[str, int] = field(default_factory=dict)
    scores: ScoreNoise | None = None
    joint: JointSum | None = None

    def __post_init__(self) -> None:
        if (self.joint is not None) != self.mechanism.shares_noise:
            raise FednerError(
                f"mechanism {self.mechanism.name!r} with joint sum {self.joint}; expected one "
                "exactly where platforms share the noise",
                "It says how many platforms there are, and how many numbers they send.",
            )
        if self.private_part == "clear":
            raise FednerError(
                f"private part 'clear' is refused: {WHY_NOT_CLEAR}",
                "Take 'joint', or 'frozen' and train the private part after the last update.",
            )
        if self.num_slices < 1 or (not self.mechanism.samples_units and self.num_slices > 1):
            raise FednerError(
                f"found {self.num_slices} slices with mechanism {self.mechanism.name!r}; "
                "expected 1 slice if the platform is the unit, else at least 1",
                "A platform is in every slice of its data.",
            )
        asked = Asked(private_part=self.private_part, has_scores=self.scores is not None)
        require_fitting(self.mechanism, asked, f"mechanism {self.mechanism.name!r}")
        # The events know which numbers make sense.
        self.event(1, 1)
        self.score_event()

    @property
    def terms(self) -> NoiseTerms:
        """What a release of noise needs of this."""
        return NoiseTerms(self.max_grad_norm, self.noise_multiplier, self.padding_rows)

    def discrete(self) -> DiscreteNoise | None:
        """Return the noise that the platforms make together, if they do."""
        if self.joint is None:
            return None
        return self.joint.noise(self.max_grad_norm, self.noise_multiplier)

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
        return sampling_probability(batch * self.num_slices, self.public_units)

    def expected(self, batch: int) -> float:
        """Return what a step's sum is divided by."""
        return expected_size(self.probability(batch), self.public_units) / self.num_slices

    def slice(self, turn: int) -> Slice | None:
        """Return the slice that the steps of a round touch; None where there is only one."""
        return Slice(self.slicing, str(turn)) if self.num_slices > 1 else None

    def event(self, batch: int, steps: int, turn: int = 0) -> GaussianRelease:
        """Return what the accountant hears of the steps of a round.

        Args:
            batch: The expected number of units in a step.
            steps: How many.
            turn: The slice.

        Raises:
            FednerError: If there is no such slice.
        """
        if not 0 <= turn < self.num_slices:
            raise FednerError(
                f"slice {turn} of an incremental schedule; expected one from 0 to "
                f"{self.num_slices - 1}",
                "Rounds are counted from 1.",
            )
        return self.mechanism.event(self, batch, steps, turn)

    def score_event(self) -> GaussianRelease | None:
        """Return what the accountant hears of one release of scores, if there is one."""
        if self.scores is None:
            return None
        return GaussianRelease(
            noise_multiplier=self.scores.noise_multiplier,
            sampling_probability=1.0,
            unit=self.mechanism.unit(self.unit),
            max_norm=self.scores.max_norm,
            public_units=self.public_units,
            purpose="statistics",
            is_simulation=self.source.is_simulation,
        )


def without_rows(state: State, rows: Mapping[str, int]) -> dict[str, Tensor]:
    """Return a noised state with zeros in the rows that are never trained: post-processing."""
    result = dict(state)
    for name, row in rows.items():
        if name in result:
            result[name][row].zero_()
    return result
