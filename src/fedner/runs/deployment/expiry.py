"""When certificates end, said before it happens."""

from dataclasses import dataclass
from datetime import UTC, datetime

WARN_DAYS = 30


@dataclass(frozen=True, slots=True)
class Expiry:
    """When a certificate ends.

    Attributes:
        ends: The moment.
        days: Whole days until then; negative once it is over.
    """

    ends: datetime
    days: int

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.days < 0

    @property
    def is_soon(self) -> bool:
        """Whether it ends within the days in which a renewal should be under way."""
        return not self.is_over and self.days < WARN_DAYS

    @property
    def words(self) -> str:
        """What a table shows.

        >>> from datetime import timedelta
        >>> now = datetime(2026, 11, 16, tzinfo=UTC)
        >>> expiry(now + timedelta(days=200), now).words
        '2027-06-04'
        >>> expiry(now + timedelta(days=12), now).words
        '2026-11-28 (in 12 days: renew)'
        >>> expiry(now - timedelta(hours=1), now).words
        '2026-11-15 (ended)'
        """
        day = f"{self.ends:%Y-%m-%d}"
        if self.is_over:
            return f"{day} (ended)"
        return f"{day} (in {self.days} days: renew)" if self.is_soon else day


def expiry(ends: datetime, now: datetime | None = None) -> Expiry:
    """Return how far the end of a certificate is."""
    return Expiry(ends, (ends - (now or datetime.now(UTC))).days)


def expiry_warning(name: str, ends: datetime, renewal: str) -> str | None:
    """Return what to say of a certificate that ends soon or has ended, or None.

    Args:
        name: Whose certificate it is.
        ends: When it ends.
        renewal: The command that begins a renewal.
    """
    found = expiry(ends)
    if found.is_over:
        return f"the certificate of {name} ended on {found.ends:%Y-%m-%d}: renew it with {renewal}"
    if found.is_soon:
        return (
            f"the certificate of {name} ends on {found.ends:%Y-%m-%d}, in {found.days} days: "
            f"renew it with {renewal}"
        )
    return None
