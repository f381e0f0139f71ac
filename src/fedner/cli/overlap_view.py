"""`fedner data overlap`: the entity strings that corpora have in common."""

from collections import Counter
from pathlib import Path

from fedner.cli.output import console, table
from fedner.cli.reading import Reading
from fedner.corpus.shared_entities import Overlap
from fedner.corpus.shared_entities import overlap as count_overlap
from fedner.errors import FednerError


def overlap(sources: list[Path], reading: Reading, *, with_label: bool) -> Overlap:
    """Read the corpora and count what they have in common."""
    if len(sources) < 2:
        raise FednerError(f"only {len(sources)} corpus given", "Name two or more corpora.")
    names = _names(sources)
    platforms = {
        name: reading.load(path).prepared(None, "longest").sentences
        for name, path in zip(names, sources, strict=True)
    }
    return count_overlap(platforms, "string and label" if with_label else "string")


def _names(sources: list[Path]) -> list[str]:
    repeated = {name for name, count in Counter(path.name for path in sources).items() if count > 1}
    return [str(path) if path.name in repeated else path.name for path in sources]


def show(found: Overlap) -> None:
    """Print the overlap."""
    console.print(
        table(
            "Entity strings by platform",
            ("platform", "strings", "mentions", "shared strings", "shared mentions"),
            (
                (one.platform, one.strings, one.mentions, one.shared_strings, one.shared_mentions)
                for one in found.platforms
            ),
        )
    )
    console.print(
        table(
            "In common, two by two",
            ("platforms", "strings", "mentions left", "mentions right"),
            ((" + ".join(pair.platforms), pair.strings, *pair.mentions) for pair in found.pairs),
        )
    )
    console.print(
        f"{found.strings:,} strings on at least two platforms ({found.mentions:,} mentions), "
        f"{found.everywhere:,} on all. Simulation only: this compares texts."
    )
