"""`fedner data platforms` and `fedner demo`: the built-in platforms, or one corpus divided."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rich.text import Text

from fedner.cli.inputs import CliUnit, Loaded, ready_to_write
from fedner.cli.output import console, highlighted, show_place, table
from fedner.corpus.document import Corpus, Document
from fedner.corpus.groups import take
from fedner.corpus.platforms import Division, by_source, divide
from fedner.corpus.sentence import Entity, Sentence
from fedner.errors import FednerError

NUM_EXAMPLES = 2
NUM_PLATFORMS = 3


@dataclass(frozen=True, slots=True)
class ShownSentence:
    """A sentence that is shown, and its entities in tokens."""

    tokens: tuple[str, ...]
    entities: tuple[Entity, ...]


@dataclass(frozen=True, slots=True)
class PlatformRow:
    """What is shown of a platform.

    Attributes:
        platform: Its name.
        labels: The types that it annotates.
        documents: How many documents it has.
        sentences: How many sentences.
        tokens: How many tokens.
        mentions: Mentions by type.
        description: One line on a built-in platform.
        scheme: The tag scheme of a built-in platform.
        flattening: What preparing changed, counted.
        examples: A few sentences of a built-in platform.
    """

    platform: str
    labels: tuple[str, ...]
    documents: int
    sentences: int
    tokens: int
    mentions: Mapping[str, int]
    description: str = ""
    scheme: str = ""
    flattening: Mapping[str, int] | None = None
    examples: tuple[ShownSentence, ...] = ()


@dataclass(frozen=True, slots=True)
class PlatformsReport:
    """What `fedner data platforms` shows.

    Attributes:
        title: What the platforms are.
        synthetic: Whether they are built in.
        platforms: The platforms one by one.
        written: The folder that they were written to, or None.
        divided_documents: Documents with sentences on several platforms.
        divided_patients: Patients with sentences on several platforms.
    """

    title: str
    synthetic: bool
    platforms: tuple[PlatformRow, ...]
    written: str | None
    divided_documents: int = 0
    divided_patients: int = 0


def built_in(
    num_sentences: int, seed: int, out: Path | None, *, overwrite: bool = False
) -> PlatformsReport:
    """Generate the built-in platforms, write them where asked, return their statistics."""
    from fedner.corpus.synthetic import PLATFORMS, generate

    rows = []
    for name in PLATFORMS:
        corpus = generate(name, num_sentences, seed)
        if out is not None:
            _write(name, corpus, out, overwrite=overwrite)
        rows.append(_built_in_row(name, corpus))
    title = f"Built-in platforms (synthetic, seed {seed})"
    return PlatformsReport(title, True, tuple(rows), _written(out))


def _built_in_row(name: str, corpus: Corpus) -> PlatformRow:
    from fedner.corpus.prepare import prepare
    from fedner.corpus.synthetic import PLATFORMS

    platform, prepared = PLATFORMS[name], prepare(corpus, sentences="as given")
    return replace(
        _row(name, platform.labels, prepared.sentences),
        description=platform.description,
        scheme=platform.scheme,
        flattening=dict(prepared.changes.rows()),
        examples=_examples(prepared.sentences),
    )


def refuse_division(into: int | None, how: Division) -> None:
    """Refuse options that divide a corpus where none was given."""
    if into is not None or how != "equal":
        given = f"--how {how}" if into is None else f"--into {into}"
        raise FednerError(f"{given} divides a corpus, but no corpus was given", "Name its PATH.")


def divided(
    loaded: Loaded,
    *,
    into: int | None,
    how: Division,
    alpha: float,
    by: CliUnit,
    seed: int,
    out: Path | None,
    overwrite: bool = False,
) -> PlatformsReport:
    """Divide one corpus among platforms, write them where asked, return their statistics."""
    if how == "source" and into is not None:
        raise FednerError(
            f"--into {into} does not go with --how source: every source is a platform",
            "Leave out --into, or choose --how equal, size-skew or label-skew.",
        )
    sentences = loaded.prepared(None, "longest").sentences
    number = NUM_PLATFORMS if into is None else into
    if how == "source":
        shares = by_source(sentences)
    else:
        found = divide(sentences, into=number, how=how, seed=seed, alpha=alpha, by=by)
        shares = {f"platform-{place}": own for place, own in enumerate(found, start=1)}
    platforms = {name: take(sentences, own) for name, own in shares.items()}
    if out is not None:
        _write_shares(loaded.corpus, sentences, platforms, out, overwrite=overwrite)
    return PlatformsReport(
        title=f"{loaded.corpus.name} among {len(platforms)} platforms ({how}, seed {seed})",
        synthetic=False,
        platforms=tuple(_row(name, loaded.corpus.labels, own) for name, own in platforms.items()),
        written=_written(out),
        divided_documents=_num_divided(platforms.values(), "document"),
        divided_patients=_num_divided(platforms.values(), "patient"),
    )


def _write_shares(
    corpus: Corpus,
    whole: Sequence[Sentence],
    platforms: Mapping[str, Sequence[Sentence]],
    out: Path,
    *,
    overwrite: bool,
) -> None:
    from fedner.corpus.excerpt import as_documents

    known: dict[str, Document] = {document.id: document for document in corpus}
    for name, own in platforms.items():
        documents = as_documents(own, whole, known)
        _write(name, Corpus(name, corpus.labels, documents), out, overwrite=overwrite)


def _write(name: str, corpus: Corpus, out: Path, *, overwrite: bool) -> None:
    from fedner.corpus.writers.jsonl import write_jsonl

    file = out / f"{_file_name(name)}.jsonl"
    write_jsonl(ready_to_write(file, overwrite=overwrite), corpus)


def _num_divided(parts: Iterable[Sequence[Sentence]], unit: Literal["document", "patient"]) -> int:
    """Count the documents or patients with sentences on more than one platform."""
    owners = [{getattr(sentence, unit) for sentence in part} - {None} for part in parts]
    return sum(count > 1 for count in Counter(each for part in owners for each in part).values())


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)


def _written(out: Path | None) -> str | None:
    return None if out is None else str(out)


def _row(name: str, labels: Sequence[str], sentences: Sequence[Sentence]) -> PlatformRow:
    mentions = Counter(entity.label for sentence in sentences for entity in sentence.entities)
    return PlatformRow(
        platform=name,
        labels=tuple(labels),
        documents=len({sentence.document for sentence in sentences}),
        sentences=len(sentences),
        tokens=sum(len(sentence.tokens) for sentence in sentences),
        mentions=dict(sorted(mentions.items())),
    )


def _examples(sentences: Sequence[Sentence]) -> tuple[ShownSentence, ...]:
    chosen = [sentence for sentence in sentences if len(sentence.entities) > 1][:NUM_EXAMPLES]
    return tuple(ShownSentence(sentence.tokens, sentence.entities) for sentence in chosen)


def show(report: PlatformsReport) -> None:
    """Print the platforms and a few sentences of each."""
    rows = [
        (
            row.platform,
            row.scheme,
            row.documents,
            row.sentences,
            row.tokens,
            ", ".join(f"{label} {count:,}" for label, count in row.mentions.items()),
        )
        for row in report.platforms
    ]
    columns = ("platform", "scheme", "documents", "sentences", "tokens", "mentions")
    console.print(table(report.title, columns, rows))
    for row in report.platforms:
        for example in row.examples:
            console.print(_shown(example, row.labels))
    divided_units = {"document": report.divided_documents, "patient": report.divided_patients}
    for what, count in divided_units.items():
        if count:
            console.print(
                f"{count:,} {what}s have sentences on several platforms; --by {what} keeps "
                "them together",
                style="yellow",
            )
    if report.written:
        show_place("written to", report.written)


def _shown(example: ShownSentence, labels: Sequence[str]) -> Text:
    starts, position = [], 0
    for token in example.tokens:
        starts.append(position)
        position += len(token) + 1
    mentions = [
        (starts[start], starts[end - 1] + len(example.tokens[end - 1]), label)
        for start, end, label in example.entities
    ]
    line = highlighted(" ".join(example.tokens), mentions, labels)
    line.pad_left(2)
    return line
