"""Platforms with canaries in texts, labels, ids, file names and paths; none of them may leave."""

import json
from pathlib import Path

TEXT, LABEL = "Zebrafinkomycin", "WhisperedFinding"
DOCUMENT, PATIENT = "document-quokka-771", "patient-axolotl-552"
FOLDER, FILE = "ward-of-narwhals", "notes-of-pangolins"
CANARIES = (TEXT, LABEL, DOCUMENT, PATIENT, FOLDER, FILE)


def write_canaries(folder: Path, count: int = 30) -> Path:
    """Write a corpus with canaries in every place; return its file, whose path holds two more."""
    place = folder / FOLDER
    place.mkdir(parents=True)
    path = place / f"{FILE}.jsonl"
    header = {"fedner": "corpus", "version": 1, "name": FILE, "labels": ["ADE", LABEL]}
    lines = [json.dumps(header)]
    for number in range(count):
        text = f"Nausea {number} after {TEXT} was seen."
        start = text.index(TEXT)
        spans = [
            {"start": 0, "end": 6, "label": "ADE"},
            {"start": start, "end": start + len(TEXT), "label": LABEL},
        ]
        record = {
            "id": f"{DOCUMENT}-{number}",
            "text": text,
            "spans": spans,
            "segments": [{"start": 0, "end": len(text)}],
            "patient": f"{PATIENT}-{number}",
            "source": FILE,
        }
        lines.append(json.dumps(record))
    path.write_text("\n".join(lines) + "\n")
    return path
