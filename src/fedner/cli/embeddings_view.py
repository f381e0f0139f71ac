"""How an inspection of word vectors looks: to people, and to machines."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fedner.cli.output import console, table
from fedner.models.embeddings.coverage import Coverage, Covered, Part, UnknownWord

if TYPE_CHECKING:
    from fedner.models.embeddings.vectors_store import StoreFacts

LOCAL_NOTE = "Words of your texts, shown only here: nothing of this was sent or stored."
RULES = {
    "never": "as they stand",
    "fallback": "as they stand, then in lower case",
    "always": "in lower case",
}


def show(path: Path, form: str, facts: "StoreFacts", corpus: Path, found: Coverage) -> None:
    """Print the vectors' format and size, the coverage, and the most frequent unknown words."""
    lead = Text.assemble((str(path), "bold"), ": ", (form, "bold green"))
    console.print(lead, soft_wrap=True)
    console.print(table("Vectors", ("", ""), _fact_rows(facts)))
    columns = ("words", "tokens", "exact", "lower case", "found", "types", "types found")
    title = f"Coverage of {corpus.name}; the tagger looks words up {RULES[found.lowercase]}"
    console.print(table(title, columns, _part_rows(found)))
    if facts.is_lowercased and found.lowercase == "never":
        console.print(
            "The vectors are all in lower case: set embeddings.lowercase to fallback or always.",
            style="yellow",
        )
    for title, words in (
        ("Most frequent unknown words", found.unknown),
        ("Most frequent unknown words in mentions", found.unknown_in_mentions),
    ):
        if words:
            console.print(table(title, ("word", "tokens", "in mentions"), _word_rows(words)))
    if found.unknown:
        console.print(LOCAL_NOTE, style="dim")
    elif found.everywhere.types.found == found.everywhere.types.total:
        console.print("no unknown words", style="green")


def as_json(
    path: Path, form: str, facts: "StoreFacts", corpus: Path, corpus_format: str, found: Coverage
) -> dict[str, Any]:
    """Return all of it as plain JSON values."""
    return {
        "vectors": {"path": str(path), "format": form, **facts._asdict()},
        "corpus": {"path": str(corpus), "format": corpus_format},
        "lowercase": found.lowercase,
        "coverage": _part(found.everywhere),
        "coverage_in_mentions": _part(found.mentions),
        "coverage_by_type": {label: _part(part) for label, part in found.by_label.items()},
        "unknown": [asdict(word) for word in found.unknown],
        "unknown_in_mentions": [asdict(word) for word in found.unknown_in_mentions],
        "note": LOCAL_NOTE,
    }


def _part(part: Part) -> dict[str, Any]:
    return {"tokens": _covered(part.tokens), "types": _covered(part.types)}


def _covered(covered: Covered) -> dict[str, Any]:
    return {**asdict(covered), "share": covered.share}


def _fact_rows(facts: "StoreFacts") -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [
        ("words", facts.num_words),
        ("vectors", facts.num_rows),
        ("numbers in each", facts.dimension),
        ("upper-case letters", "none" if facts.is_lowercased else "yes"),
        ("megabytes in float32", f"{4 * facts.num_rows * facts.dimension / 1e6:,.1f}"),
    ]
    if facts.num_duplicates:
        rows.append(("repeated words, the first one stands", facts.num_duplicates))
    if facts.num_skipped:
        rows.append(("words that no text can hold, left out", facts.num_skipped))
    return rows


def _part_rows(found: Coverage) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    labels = ((f"  {label}", part) for label, part in found.by_label.items())
    for shown, part in (("all", found.everywhere), ("in mentions", found.mentions), *labels):
        tokens, types = part.tokens, part.types
        rows.append(
            (
                Text(shown),
                tokens.total,
                _percent(tokens.exact, tokens.total),
                _percent(tokens.lowercased, tokens.total),
                Text(_percent(tokens.found, tokens.total), style="bold"),
                types.total,
                _percent(types.found, types.total),
            )
        )
    return rows


def _percent(part: int, total: int) -> str:
    return f"{100 * part / total:.1f} %" if total else "-"


def _word_rows(words: Sequence[UnknownWord]) -> list[tuple[object, ...]]:
    # Text, and not a string: a word may look like the console's markup.
    return [(Text(each.word), each.tokens, each.in_mentions) for each in words]
