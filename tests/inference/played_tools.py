"""Annotation tools as tests play them: what they import is corrected and exported as they do."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cassis

from fedner.corpus.document import Span
from fedner.corpus.readers import utf16

Gold = Mapping[str, Sequence[Span]]
"""What an annotator makes of each document, by the text of it."""


def label_studio(imported: Path, gold: Gold, exported: Path, skipped: Sequence[int] = ()) -> None:
    """Export as JSON: tasks with numbers of their own, `data` as imported, predictions as numbers.

    Args:
        imported: What `fedner suggest` wrote.
        gold: What the annotator submits.
        exported: The file to write.
        skipped: Tasks that nobody opened, from 0.
    """
    tasks = []
    for number, task in enumerate(json.loads(imported.read_text("utf-8"))):
        text = task["data"]["text"]
        results = [
            {
                "value": {
                    "start": span.start,
                    "end": span.end,
                    "text": text[span.start : span.end],
                    "labels": [span.label],
                },
                "id": f"r{at}Xq",
                "from_name": "label",
                "to_name": "text",
                "type": "labels",
                "origin": "prediction" if at else "manual",
            }
            for at, span in enumerate(gold[text])
        ]
        annotation = {
            "id": 700 + number,
            "completed_by": 1,
            "result": results,
            "was_cancelled": False,
            "ground_truth": False,
            "created_at": "2026-11-18T10:00:00.000000Z",
            "updated_at": "2026-11-18T10:02:00.000000Z",
            "lead_time": 61.2,
            "prediction": task["predictions"][0],
            "result_count": 0,
            "task": 100 + number,
            "project": 3,
        }
        tasks.append(
            {
                "id": 100 + number,
                "annotations": [] if number in skipped else [annotation],
                "drafts": [],
                "predictions": [9000 + number],
                "data": task["data"],
                "meta": {},
                "inner_id": number + 1,
                "total_annotations": int(number not in skipped),
                "cancelled_annotations": 0,
                "project": 3,
                "comment_authors": [],
            }
        )
    exported.write_text(json.dumps(tasks, ensure_ascii=False), "utf-8")


def doccano(imported: Path, gold: Gold, exported: Path) -> None:
    """Export as JSONL: numbers of its own, labels sorted, all other keys of the import kept."""
    lines = []
    for number, line in enumerate(imported.read_text("utf-8").splitlines(), start=1):
        record: dict[str, Any] = json.loads(line)
        text = record.pop("text")
        record.pop("label")
        units = utf16.from_characters(text)
        labels = sorted([units(one.start), units(one.end), one.label] for one in gold[text])
        out = {"id": number, "text": text, **record, "label": labels, "Comments": []}
        lines.append(json.dumps(out, ensure_ascii=False) + "\n")
    exported.write_text("".join(lines), "utf-8")


def inception(imported: Path, gold: Gold, exported: Path) -> None:
    """Export as UIMA CAS XMI: with sentences and tokens of INCEpTION's own."""
    with (imported / "TypeSystem.xml").open("rb") as stream:
        types = cassis.load_typesystem(stream)
    exported.mkdir()
    core = "de.tudarmstadt.ukp.dkpro.core.api"
    for path in sorted(imported.rglob("*.xmi")):
        with path.open("rb") as stream:
            cas = cassis.load_cas_from_xmi(stream, typesystem=types)
        text = cas.sofa_string
        entity = types.get_type(f"{core}.ner.type.NamedEntity")
        for mark in list(cas.select(entity.name)):
            cas.remove(mark)
        for span in gold[text]:
            cas.add(entity(begin=span.start, end=span.end, value=span.label))
        sentence = types.get_type(f"{core}.segmentation.type.Sentence")
        cas.add(sentence(begin=0, end=len(text)))
        token, position = types.get_type(f"{core}.segmentation.type.Token"), 0
        for word in text.split():
            position = text.index(word, position)
            cas.add(token(begin=position, end=position + len(word)))
            position += len(word)
        place = exported / path.relative_to(imported)
        place.parent.mkdir(parents=True, exist_ok=True)
        cas.to_xmi(place)
    (exported / "TypeSystem.xml").write_bytes((imported / "TypeSystem.xml").read_bytes())


PLAYED = {"label-studio": label_studio, "doccano": doccano, "xmi": inception}
NAMES = {"label-studio": "next.json", "doccano": "next.jsonl", "xmi": "next"}
