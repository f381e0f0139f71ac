"""Write synthetic notes to try de-identification on: `python synthetic_notes.py FOLDER`."""

import csv
import json
import random
import re
import sys
from pathlib import Path

FIRST = [
    "Anna",
    "Bob",
    "Carla",
    "David",
    "Elena",
    "Frank",
    "Grace",
    "Henry",
    "Ines",
    "Jonas",
    "Karen",
    "Luis",
    "Mara",
    "Nils",
]
LAST = [
    "Adler",
    "Brook",
    "Costa",
    "Dunn",
    "Eriksen",
    "Fox",
    "Garcia",
    "Hill",
    "Ito",
    "Jensen",
    "Klein",
    "Lopez",
    "Moss",
]
PLACES = ["Mercy Hospital", "Cedar Clinic", "St. Vincent's", "Riverside Clinic", "Elm Street Ward"]
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
]
LINES = """{NAME} was seen on {DATE} at {PLACE} with nausea after aspirin.
Follow-up of {NAME} ({DATE}): the rash is gone, ibuprofen was stopped.
Admitted to {PLACE} on {DATE}. Dr. {NAME} increased the dose of metformin.
Patient {NAME} reports headache since {DATE}; no fever, no cough.
Discharged from {PLACE}. Next visit on {DATE}.
No known allergies. Continue warfarin 5 mg daily.""".splitlines()


def note(rng: random.Random, name: str) -> tuple[str, list[dict[str, object]]]:
    """Return a note on a patient, and where names, dates and places stand in it."""
    text, spans = "", []
    for line in rng.sample(LINES, 3):
        for piece in re.split(r"(\{[A-Z]+\})", line):
            label, words = piece.strip("{}"), piece
            if label == "NAME":
                words = name
            elif label == "DATE":
                words = f"{rng.choice(MONTHS)} {rng.randint(1, 28)}, {rng.randint(2015, 2024)}"
            elif label == "PLACE":
                words = rng.choice(PLACES)
            if words != piece:
                spans.append({"start": len(text), "end": len(text) + len(words), "label": label})
            text += words
        text += "\n"
    return text, spans


folder, rng = Path(sys.argv[1]), random.Random(1)  # noqa: S311 - nothing secret
names = [f"{first} {last}" for first in FIRST for last in LAST]
rng.shuffle(names)
for part, people in (("train", names[:80]), ("held-out", names[80:160])):
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{part}.jsonl").open("w") as file:
        for number, name in enumerate(people):
            for visit in range(2):
                text, spans = note(rng, name)
                record = {"id": f"{number}-{visit}", "text": text, "spans": spans}
                print(json.dumps(record | {"patient": str(number)}), file=file)
with (folder / "export.csv").open("w", newline="") as file:
    table = csv.writer(file)
    table.writerow(("visit", "patient", "seen", "note"))
    for number, name in enumerate(names[160:]):
        place = folder / "notes" / name.replace(" ", "_") / f"{name.replace(' ', '_')}_2020.txt"
        place.parent.mkdir(parents=True)
        place.write_text(note(rng, name)[0])
        table.writerow((number, f"MRN{number:04}", "2021-03-05", note(rng, name)[0]))
