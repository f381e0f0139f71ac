"""`fedner data formats`: the formats that fedner reads, and the options that their readers have."""

from dataclasses import dataclass

from fedner.cli.output import console
from fedner.corpus.readers import READERS
from fedner.corpus.readers.options import OptionFact, facts
from fedner.corpus.reading import reader_named


@dataclass(frozen=True, slots=True)
class FormatFacts:
    """What users are shown of a format.

    Attributes:
        format: Its name.
        description: One line on it.
        options: What `--option` takes for it.
    """

    format: str
    description: str
    options: tuple[OptionFact, ...]


def formats(name: str | None = None) -> list[FormatFacts]:
    """Return every format of the readers' table in the order of recognition, or the named one."""
    readers = READERS.values() if name is None else [reader_named(name)]
    return [FormatFacts(each.name, each.description, facts(each.options)) for each in readers]


def show(found: list[FormatFacts]) -> None:
    """Print the formats and their options."""
    for each in found:
        console.print(f"{each.format}: {each.description}", style="bold")
        for fact in each.options:
            default = "" if fact.default is None else f", {fact.default} by default"
            console.print(f"  --option {fact.name}=...  {fact.help} ({fact.type}{default})")
