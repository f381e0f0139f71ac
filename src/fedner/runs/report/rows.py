"""What page, card and console say in the same words: epsilon, bytes, what a platform sent."""

from fedner.runs.records import Disclosure, PlatformSpent

ADJACENCY = {
    "add_or_remove_one": "with and without one unit",
    "replace_one": "any two data sets of the platform",
    None: "nothing was released",
}
GUARANTEE = ("epsilon (PLD)", "epsilon (RDP)", "delta", "unit", "neighbours")
SENT = (
    "updates sent", "tensors in each", "numbers in each", "bytes in all", "training losses",
    "score reports",
)  # fmt: skip


def guarantee_cells(one: PlatformSpent) -> list[str]:
    """Return what was proved for a platform, in the columns `GUARANTEE`; plain text."""
    return [
        epsilon_words(one.pld),
        epsilon_words(one.rdp),
        f"{one.delta:g}",
        one.unit or "-",
        ADJACENCY[one.adjacency],
    ]


def epsilon_words(value: float | None) -> str:
    """Return an epsilon as people read it; None is that of a release without noise."""
    return "infinite" if value is None else f"{value:.3f}"


def over_all_runs(one: PlatformSpent) -> str:
    """Return the epsilon over all runs, as far as there is a ledger."""
    return "-" if one.in_all is None else epsilon_words(one.in_all)


def sent_cells(one: Disclosure) -> list[str]:
    """Return what a platform sent, in the columns `SENT`; plain text."""
    return [
        f"{one.updates:,}",
        f"{len(one.tensors)}",
        f"{one.numbers_per_update:,}",
        f"{one.bytes:,} ({size(one.bytes)})",
        f"{one.training_losses:,}",
        f"{one.score_reports:,}",
    ]


def size(num_bytes: int) -> str:
    """Return a number of bytes as people read it."""
    value = float(num_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{num_bytes:,} bytes"
