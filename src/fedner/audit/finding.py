"""What an attack found against one defence; it never says that anything is safe."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Defence = Literal["none", "local", "central", "distributed", "secure-sum", "encryption"]
DEFENCES: tuple[Defence, ...] = get_args(Defence)
Status = Literal["run", "unchanged", "absent"]

# An attack that finds less than this of a planted leak says nothing by finding nothing elsewhere.
LEAST_POWER = 0.5

ENCRYPTED = (
    "the server alone sees ciphertexts; with a colluding platform, which has the key, it sees "
    "every update"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One cell of the table of attacks and defences.

    Attributes:
        attack: What people call the attack.
        defence: Against which defence it was tried.
        measure: What the numbers are, as words.
        status: Whether it was run; or the defence cannot change what the attack sees
            ("unchanged"), or there is nothing of the kind to see ("absent"): then it was not.
        result: What the attack came to.
        lower: The lower end of its 95 % interval.
        upper: The upper end.
        chance: What one comes to without looking at what was transmitted.
        power_on_planted_leak: How much of a planted leak the same attack found, from 0 to 1, with
            the same budget.
        promised: What the defence allows an attacker to come to; None where it promises nothing.
        same_as: The defence whose cell holds for this one too, where the status is "unchanged".
        note: What one should know of the cell.
    """

    attack: str
    defence: Defence
    measure: str
    status: Status = "run"
    result: float | None = None
    lower: float | None = None
    upper: float | None = None
    chance: float | None = None
    power_on_planted_leak: float | None = None
    promised: float | None = None
    same_as: Defence | None = None
    note: str = ""

    @property
    def is_inconclusive(self) -> bool:
        """Whether the attack was run without having shown that it can find anything."""
        power = self.power_on_planted_leak
        # A NaN is no power either.
        has_power = power is not None and power >= LEAST_POWER
        return self.status == "run" and not has_power

    @property
    def found_leak(self) -> bool:
        """Whether the attack did better than chance, or than was promised, beyond doubt at 95 %."""
        allowed = self.chance if self.promised is None else self.promised
        if self.status != "run" or self.lower is None or allowed is None:
            return False
        return self.lower > allowed

    @property
    def is_above_chance(self) -> bool:
        """Whether the attack did better than chance at 95 %, allowed or not."""
        is_known = self.lower is not None and self.chance is not None
        return self.status == "run" and is_known and (self.lower or 0.0) > (self.chance or 0.0)

    @property
    def verdict(self) -> str:
        """What the cell says, in a few words."""
        if self.status == "unchanged":
            return f"as {self.same_as}"
        if self.status == "absent":
            return "nothing to attack"
        if self.is_inconclusive:
            return "inconclusive"
        if self.found_leak:
            return "leak"
        return "within epsilon" if self.is_above_chance else "no leak found"

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON, the verdict included."""
        stated = asdict(self)
        return {**stated, "is_inconclusive": self.is_inconclusive, "verdict": self.verdict}


def unchanged(attack: str, defence: Defence, measure: str, same_as: Defence, why: str) -> Finding:
    """Return the cell of a defence that cannot change what the attack sees."""
    return Finding(attack, defence, measure, "unchanged", same_as=same_as, note=why)


def encrypted(attack: str, measure: str) -> Finding:
    """Return the cell of encryption: with the key of a colluding platform it hides nothing."""
    return unchanged(attack, "encryption", measure, "none", ENCRYPTED)


def absent(attack: str, measure: str, why: str) -> list[Finding]:
    """Return the row of an attack for which there is nothing to see, whatever the defence."""
    return [Finding(attack, defence, measure, "absent", note=why) for defence in DEFENCES]


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """Return the cells of a row in the order of the columns."""
    return sorted(findings, key=lambda each: DEFENCES.index(each.defence))
