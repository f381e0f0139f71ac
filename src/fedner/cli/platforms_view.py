"""`fedner data platforms` and `fedner demo`: the built-in platforms, or one corpus divided."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from fedner.cli.inputs import CliUnit, Loaded, ready_to_write
from fedner.cli.output import console, highlighted, show_place, table
from fedner.corpus.document import Corpus
from fedner.corpus.groups import take
from fedner.corpus.platforms import Division, by_source, divide
from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError

NUM_EXAMPLES = 2
NUM_PLATFORMS = 3


def built_in(
    num_sentences: int, seed: int, out: Path | None, *, overwrite: bool = False
) -> dict[str, Any]:
    """Generate the built-in platforms, write them where asked, return their statistics."""
    from fedner.corpus.prepare import prepare
    from fedner.corpus.synthetic import PLATFORMS, generate
    from fedner.corpus.writers.jsonl import write_jsonl

    rows = []
    for name, platform in PLATFORMS.items():
        corpus = generate(name, num_sentences, seed)
        prepared = prepare(corpus, sentences="as given")
        if out is not None:
            write_jsonl(ready_to_write(out / f"{name}.jsonl", overwrite=overwrite), corpus)
        rows.append(
            {
                "platform": name,
                "description": platform.description,
                "scheme": platform.scheme,
                "labels": list(platform.labels),
                **_statistics(prepared.sentences),
                "flattening": dict(prepared.changes.rows()),
                "examples": _examples(prepared.sentences),
            }
        )
    title = f"Built-in platforms (synthetic, seed {seed})"
    return {"title": title, "synthetic": True, "platforms": rows, "written": _written(out)}


def refuse_division(into: int | None, how: Division) -> None:
    """Refuse options that divide a corpus where none was given."""
    if into is not None or how != "equal":
        given = f"--how {how}" if into is None else f"--into {into}"
        raise FednerError(f"{given} divides a corpus, and none was given", "Name its PATH.")


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
) -> dict[str, Any]:
    """Divide one corpus among platforms, write them where asked, return their statistics."""
    from fedner.corpus.excerpt import as_documents
    from fedner.corpus.writers.jsonl import write_jsonl

    if how == "source" and into is not None:
        raise FednerError(
            f"--into {into} does not go with --how source: every source is a platform",
            "Leave out --into, or choose --how equal, size-skew or label-skew.",
        )
    sentences = loaded.prepared(None, "longest").sentences
    if how == "source":
        parts = {name: take(sentences, own) for name, own in by_source(sentences).items()}
    else:
        shares = divide(
            sentences,
            into=NUM_PLATFORMS if into is None else into,
            how=how,
            seed=seed,
            alpha=alpha,
            by=by,
        )
        parts = {
            f"platform-{number}": take(sentences, own) for number, own in enumerate(shares, start=1)
        }
    known = {document.id: document for document in loaded.corpus}
    rows = []
    for name, part in parts.items():
        if out is not None:
            documents = as_documents(part, sentences, known)
            corpus = Corpus(name, loaded.corpus.labels, documents)
            file = out / f"{_file_name(name)}.jsonl"
            write_jsonl(ready_to_write(file, overwrite=overwrite), corpus)
        rows.append({"platform": name, "labels": list(loaded.corpus.labels), **_statistics(part)})
    title = f"{loaded.corpus.name} among {len(rows)} platforms ({how}, seed {seed})"
    return {
        "title": title,
        "synthetic": False,
        "platforms": rows,
        "divided_documents": _num_divided(parts.values(), "document"),
        "divided_patients": _num_divided(parts.values(), "patient"),
        "written": _written(out),
    }


def _num_divided(parts: Iterable[Sequence[Sentence]], unit: Literal["document", "patient"]) -> int:
    """Count the documents or patients with sentences on more than one platform."""
    owners = [{getattr(sentence, unit) for sentence in part} - {None} for part in parts]
    return sum(count > 1 for count in Counter(each for part in owners for each in part).values())


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)


def _written(out: Path | None) -> str | None:
    return None if out is None else str(out)


def _statistics(sentences: Sequence[Sentence]) -> dict[str, Any]:
    mentions = Counter(entity.label for sentence in sentences for entity in sentence.entities)
    return {
        "documents": len({sentence.document for sentence in sentences}),
        "sentences": len(sentences),
        "tokens": sum(len(sentence.tokens) for sentence in sentences),
        "mentions": dict(sorted(mentions.items())),
    }


def _examples(sentences: Sequence[Sentence]) -> list[dict[str, Any]]:
    chosen = [sentence for sentence in sentences if len(sentence.entities) > 1][:NUM_EXAMPLES]
    return [
        {
            "tokens": list(sentence.tokens),
            "entities": [list(entity) for entity in sentence.entities],
        }
        for sentence in chosen
    ]


def show(result: dict[str, Any]) -> None:
    """Print the platforms and a few sentences of each."""
    rows = [
        (
            row["platform"],
            row.get("scheme", ""),
            row["documents"],
            row["sentences"],
            row["tokens"],
            ", ".join(f"{label} {count:,}" for label, count in row["mentions"].items()),
        )
        for row in result["platforms"]
    ]
    columns = ("platform", "scheme", "documents", "sentences", "tokens", "mentions")
    console.print(table(result["title"], columns, rows))
    for row in result["platforms"]:
        for example in row.get("examples", ()):
            console.print(_shown(row, example))
    for what in ("documents", "patients"):
        if count := result.get(f"divided_{what}"):
            console.print(
                f"{count:,} {what} have sentences on several platforms; --by {what[:-1]} keeps "
                "them together",
                style="yellow",
            )
    if result["written"]:
        show_place("written to", result["written"])


def _shown(row: dict[str, Any], example: dict[str, Any]) -> Any:
    tokens, starts, position = example["tokens"], [], 0
    for token in tokens:
        starts.append(position)
        position += len(token) + 1
    mentions = [
        (starts[start], starts[end - 1] + len(tokens[end - 1]), label)
        for start, end, label in example["entities"]
    ]
    line = highlighted(" ".join(tokens), mentions, row["labels"])
    line.pad_left(2)
    return line
