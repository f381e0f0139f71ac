"""How many platforms a secure sum needs: public facts, without any key."""

from dataclasses import dataclass

from fedner.errors import FednerError


@dataclass(frozen=True, slots=True)
class SumTerms:
    """Who may collude, and how many must be left.

    Of n platforms that are asked, c may work together with the server. A list of survivors counts
    with t > (n + c) / 2 signatures: of two different lists one honest platform would have had to
    sign both. Two honest platforms at least must be in every sum, or one would be seen alone.

    Attributes:
        num_platforms: n: how many are asked in a round.
        colluding: c: how many of them may work together with the server.
        quorum: How many must be left by the study; None wants all.
    """

    num_platforms: int
    colluding: int = 1
    quorum: int | None = None

    def __post_init__(self) -> None:
        """Refuse terms that no round could meet."""
        if self.colluding < 0:
            raise FednerError(f"secure sum: found {self.colluding} colluding; expected 0 or more")
        if self.num_platforms < self.colluding + 2:
            raise FednerError(
                f"secure sum: found {self.num_platforms} platforms in a round with "
                f"{self.colluding} colluding; expected at least {self.colluding + 2}",
                "Every sum needs two honest platforms, or one would be seen alone: ask more "
                "platforms, or lower transport.colluding.",
            )

    @property
    def threshold(self) -> int:
        """t: how many shares open a secret, and how many signatures a list needs."""
        return (self.num_platforms + self.colluding) // 2 + 1

    @property
    def least_survivors(self) -> int:
        """How many platforms are in a sum at least; with fewer it stays unopened."""
        asked = self.num_platforms if self.quorum is None else self.quorum
        return max(self.least_quorum, asked)

    @property
    def least_quorum(self) -> int:
        """The smallest quorum that a study may have."""
        return max(self.threshold, self.colluding + 2)

    @property
    def least_honest(self) -> int:
        """How many of those do not collude: whose noise nobody else knows."""
        return self.least_survivors - self.colluding

    @property
    def most_missing(self) -> int:
        """How many platforms may drop out of a round."""
        return self.num_platforms - self.least_survivors
