"""What a tagger found, written in every format and read back: awkward texts keep their offsets."""

import csv
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedner.corpus.document import Document
from fedner.corpus.reading import read_recognised
from fedner.inference.found_files import Output, OutputFormat, found_line, write_found
from fedner.inference.notes import LeftOut
from fedner.inference.reading import Mention, Predicted

AWKWARD = "aZ \t\n\r\ufeff\u0301é😀👩\u200d⚕\u2028\u0085\xa0<&\"'];,\\"
LABELS = ("Drug", "NAME")


@st.composite
def documents(draw: st.DrawFn, number: int) -> Predicted:
    """Draw a text and mentions in it that do not overlap, none of blanks alone."""
    text = draw(st.text(st.sampled_from(AWKWARD), min_size=1, max_size=30))
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=6)))
    mentions = []
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        words = text[start:end]
        if words.strip() == words != "":
            label = draw(st.sampled_from(LABELS))
            confidence = draw(st.integers(0, 1000)) / 1000
            mentions.append(Mention(start, end, label, words, confidence))
    return Predicted(Document(f"note-{number}", text, source=f"{number}.txt"), tuple(mentions))


FOUND = st.tuples(documents(0), documents(1)).filter(
    lambda pair: any(each.mentions for each in pair)
)


def write(
    format: OutputFormat, found: tuple[Predicted, ...], folder: Path
) -> tuple[Path, set[str]]:
    """Return what was written, and the notes that the format could not carry."""
    lines = folder / "lines"
    lines.write_text("".join(map(found_line, found)), encoding="utf-8", newline="")
    left_out: list[LeftOut] = []
    suffix = {"bioc": ".xml", "csv": ".csv", "label-studio": ".json", "doccano": ".jsonl"}
    place = folder / f"out{suffix.get(format, '')}"
    with lines.open("rb") as file:
        write_found(format, file, Output(place, LABELS, 0o644, left_out))
    return place, {each.path.stem for each in left_out}


def accepted(path: Path) -> None:
    """Do what somebody does who submits every pre-annotation."""
    records = json.loads(path.read_text(encoding="utf-8"))
    for record in records:
        record["annotations"] = [{"result": record["predictions"][0]["result"]}]
    path.write_text(json.dumps(records), encoding="utf-8")


def expected(found: tuple[Predicted, ...], left_out: set[str]) -> dict[str, Any]:
    return {
        str(each.document.source).removesuffix(".txt"): (
            each.document.text,
            sorted((one.start, one.end, one.label) for one in each.mentions),
        )
        for each in found
        if str(each.document.source).removesuffix(".txt") not in left_out
    }


@pytest.mark.parametrize("format", ["jsonl", "brat", "bioc", "label-studio", "doccano", "xmi"])
@given(found=FOUND)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
def test_awkward_texts_come_back_whole_or_are_named(
    format: OutputFormat, found: tuple[Predicted, ...]
) -> None:
    for library in {"bioc": ("bioc",), "xmi": ("cassis",)}.get(format, ()):
        pytest.importorskip(library)
    with tempfile.TemporaryDirectory() as place:
        path, left_out = write(format, found, Path(place))
        whole = expected(found, left_out)
        if not any(spans for _, spans in whole.values()):
            return  # nothing is left to recognise the format by
        if format == "label-studio":
            accepted(path)
        _, corpus = read_recognised(path, format)
        back = {
            document.id.removeprefix("note-"): (
                document.text,
                sorted((span.start, span.end, span.label) for span in document.spans),
            )
            for document in corpus
        }
        assert back == whole


@given(found=FOUND)
@settings(max_examples=25, deadline=None)
def test_a_csv_has_each_mention_with_its_words(found: tuple[Predicted, ...]) -> None:
    with tempfile.TemporaryDirectory() as place:
        path, _ = write("csv", found, Path(place))
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [
                (row["document"], int(row["start"]), int(row["end"]), row["label"], row["text"])
                for row in csv.DictReader(file)
            ]
    assert rows == [
        (each.document.id, one.start, one.end, one.label, one.text)
        for each in found
        for one in each.mentions
    ]
