"""Poisson sampling over units: who takes part in a step, and with which sentences.

Every unit takes part with the same probability, independently of all others (Abadi et al. 2016;
what the accountant assumes). The number drawn is private: sums are divided by the *expected* size,
and an empty sample is a step like any other, whose release is noise alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fedner.corpus.assignment import identity_of, keyed_number
from fedner.corpus.groups import Group, groups_of
from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.privacy.entropy import Source, random_words

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

SampledUnit = Literal["sentence", "document", "patient"]
_WORD = 2**64


@dataclass(frozen=True, slots=True)
class Units:
    """The protected units of a platform's training data.

    Attributes:
        unit: What a unit is.
        members: The positions of each unit's sentences.
    """

    unit: SampledUnit
    members: tuple[Group, ...]

    def __len__(self) -> int:
        return len(self.members)


@dataclass(frozen=True, slots=True)
class PoissonSample:
    """The sentences of one step; a unit's sentences stand together.

    Attributes:
        sentences: Positions of the sentences in the training data.
        units_B: The unit of each of them, numbered 0, 1, 2, ... within this draw.
        num_units: How many units were drawn. It is never disclosed.
    """

    sentences: tuple[int, ...]
    units_B: tuple[int, ...]
    num_units: int


def units_of(sentences: Sequence[Sentence], unit: SampledUnit) -> Units:
    """Return the units of `sentences`.

    Raises:
        FednerError: If a sentence does not say to which document or patient it belongs.
    """
    return Units(unit, groups_of(sentences, unit))


def sampling_probability(expected_batch: float, public_units: int) -> float:
    """Return how likely each unit is drawn: the expected batch over the *public* size n_i.

    The true number of units may differ from a rounded public size; the probability is exact all the
    same, since it is a public constant.
    """
    if not (public_units >= 1 and expected_batch > 0):
        raise FednerError(
            f"Sampling: found an expected batch of {expected_batch} and a public size of "
            f"{public_units}; expected a positive batch and at least one unit."
        )
    return min(1.0, expected_batch / public_units)


def expected_size(probability: float, public_units: int) -> float:
    """Return what sums are divided by: the expected number of units, from public facts alone."""
    return probability * public_units


def poisson_sample(num_units: int, probability: float, source: Source) -> "npt.NDArray[np.intp]":
    """Return the sorted indices of the units that take part in a step.

    Guarantee:
        Each unit is drawn independently, with the probability rounded down to a multiple of 2^-64:
        never above what is accounted for.

    Edge cases:
        The result may be empty, and the step is then released as noise alone.

    Args:
        num_units: How many units there are.
        probability: How likely each of them takes part.
        source: Where the randomness comes from; in deployment the operating system.
    """
    import numpy as np

    if not 0 < probability <= 1:
        raise FednerError(f"The sampling probability is {probability}; expected in (0, 1].")
    threshold = int(probability * _WORD)
    if threshold >= _WORD:
        return np.arange(num_units, dtype=np.intp)
    words = random_words(source, num_units, "sample")
    return np.flatnonzero(words < np.uint64(threshold))


def draw_sentences(
    units: Units, probability: float, source: Source, *, max_sentences: int | None = None
) -> PoissonSample:
    """Draw the units of one step, and at most `max_sentences` of each unit's sentences.

    Which sentences of a unit take part depends on that unit and on chance alone, so it changes
    nothing for the others; all that are taken are clipped together.

    Raises:
        FednerError: If `max_sentences` is below 1.
    """
    if max_sentences is not None and max_sentences < 1:
        raise FednerError(f"At most {max_sentences} sentences of a unit; expected at least 1.")
    sentences: list[int] = []
    units_b: list[int] = []
    drawn = poisson_sample(len(units), probability, source).tolist()
    for number, unit in enumerate(drawn):
        members = units.members[unit]
        if max_sentences is not None and len(members) > max_sentences:
            # Each unit has its own stream, fresh entropy in deployment. In a simulation its name is
            # the unit's place, which another unit may move: a simulation protects nobody.
            members = _some(members, max_sentences, source.at("unit", unit))
        sentences.extend(members)
        units_b.extend([number] * len(members))
    return PoissonSample(tuple(sentences), tuple(units_b), len(drawn))


def slice_of(unit_key: str, num_slices: int, slicing: str, key: bytes = b"") -> int:
    """Return the slice of a unit, from its own identity and the platform's key alone.

    Guarantee:
        Adding or removing other units moves nobody to another slice, so releases on different
        slices compose in parallel. Slices of exactly equal size, which depend on how many units
        there are, do not have this property.

    Args:
        unit_key: What names the unit for good (`assignment.identity_of`).
        num_slices: How many slices there are.
        slicing: The name of this way of cutting; another name cuts differently.
        key: The platform's secret; empty in a simulation, where everybody may know the slices.
    """
    if num_slices < 1:
        raise FednerError(f"Found {num_slices} slices; expected at least one.")
    return keyed_number(key, slicing, unit_key) % num_slices


def sliced(
    sentences: Sequence[Sentence], every: Units, num_slices: int, slicing: str, key: bytes = b""
) -> tuple[Units, ...]:
    """Return the units of each slice; `slice_of` explains the arguments."""
    if num_slices == 1:
        return (every,)
    parts: list[list[Group]] = [[] for _ in range(num_slices)]
    for members in every.members:
        name = identity_of(sentences, members, every.unit)
        parts[slice_of(name, num_slices, slicing, key)].append(members)
    return tuple(Units(every.unit, tuple(part)) for part in parts)


def _some(members: Group, count: int, source: Source) -> Group:
    """Return `count` members, each subset equally likely, in the order of the data."""
    import numpy as np

    order = np.argsort(random_words(source, len(members), "members"), kind="stable")
    return tuple(members[position] for position in sorted(order[:count].tolist()))
