"""Who takes part in a round, and how many must have answered for it to stand."""

from collections.abc import Sequence
from dataclasses import dataclass

from fedner.errors import FednerError
from fedner.seeds import seeded


@dataclass(frozen=True, slots=True)
class Participation:
    """The rule of taking part.

    Attributes:
        sample: Ask this many platforms, drawn anew in every round; None asks all.
        quorum: A round stands with this many accepted updates, whoever they are from; None wants
            an answer of every platform asked.
    """

    sample: int | None = None
    quorum: int | None = None


def check_participation(rule: Participation, num_platforms: int) -> None:
    """Raise unless the rule can be met by a federation of this size."""
    asked = num_platforms if rule.sample is None else rule.sample
    if not 1 <= asked <= num_platforms:
        raise FednerError(
            f"participation: found a sample of {rule.sample} of {num_platforms} platforms",
            f"Draw between 1 and {num_platforms}, or leave it out to ask all.",
        )
    if rule.quorum is not None and not 1 <= rule.quorum <= asked:
        raise FednerError(
            f"participation: found a quorum of {rule.quorum} of {asked} platforms asked",
            f"Give a quorum between 1 and {asked}, or leave it out to require all.",
        )


def choose(rule: Participation, platforms: Sequence[str], seed: int, round_: int) -> list[str]:
    """Return who is asked in a round, sorted; the choice follows from seed and round alone."""
    every = sorted(platforms)
    if rule.sample is None:
        return every
    drawn = seeded(seed, "round", round_, "participation").choice(
        len(every), size=rule.sample, replace=False
    )
    return [every[index] for index in sorted(drawn.tolist())]
