"""Many notes in constant memory: the most that `fedner predict` and `fedner redact` hold at once.

Run it alone with `python -m benchmarks.notes_memory [--notes 1000 10000]`. The notes are synthetic,
about 400 characters each, in a folder and in a CSV table; the tagger is small and not trained. What
a process holds at most is mostly torch: the growth from the few notes to the many is what counts.
"""

import argparse
import csv
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks._memory import in_fresh_process, peak_megabytes

Row = tuple[str, float, str]
NOTES = (1_000, 10_000)
WORDS = ("Seen", "Anna", "Smith", "on", "2021-03-05", "at", "Mercy", "rash", "after", ";")
WORDS_OF_A_NOTE = 70


def write_notes(folder: Path, count: int) -> None:
    """Write notes into `folder/notes`, by tens into sub-folders, and the same into a table."""
    rng = random.Random(5)
    with (folder / "notes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "patient", "note"))
        for number in range(count):
            text = f"{' '.join(rng.choices(WORDS, k=WORDS_OF_A_NOTE))} {number}."
            writer.writerow((number, number % 100, text))
            place = folder / "notes" / f"{number // 100:03}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{number}.txt").write_text(text)


def save_small_tagger(folder: Path) -> None:
    """Save a tagger that finds something in most notes."""
    import torch

    from fedner.models.checkpoint import save_tagger
    from fedner.models.embeddings.words import HashedWords, WordEmbedding
    from fedner.models.features import TagSpace
    from fedner.models.zoo import build_tagger, recipe_named, resized

    recipe = resized(recipe_named("CNN-CRF"), hidden=4, filters=8, character_filters=4)
    space = TagSpace.of(("DATE", "NAME"), "BIO")
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(64, 8)), space, seed=3)
    with torch.no_grad():
        tagger.emissions.bias[0] = -0.3
    save_tagger(folder, tagger, recipe, space)


def run_command(arguments: Sequence[str]) -> None:
    """Run `fedner ARGUMENTS` and print the most that this process held, as JSON."""
    from fedner.cli import main as command

    sys.argv = ["fedner", *arguments]
    with suppress(SystemExit):
        command()
    print(json.dumps(peak_megabytes()))


def commands(folder: Path, out: Path) -> dict[str, tuple[str, ...]]:
    """Return the commands by what they do."""
    model, notes, table = (str(folder / each) for each in ("tagger", "notes", "notes.csv"))
    key = str(folder / "home.key")
    of_table = (table, "--text-column", "note", "--id-column", "id", "--patient-column", "patient")
    return {
        "predict, folder": ("predict", model, notes, "--out", str(out / "a.jsonl"), "--json"),
        "predict, table": ("predict", model, *of_table, "--out", str(out / "b.jsonl"), "--json"),
        "redact, folder": ("redact", model, notes, "--out", str(out / "c"), "--key", key),
        "redact, table": ("redact", model, *of_table, "--out", str(out / "d.csv"), "--key", key),
    }


def main(counts: Sequence[int] = NOTES) -> list[Row]:
    """Return the peak of each command for each number of notes."""
    from fedner.inference.home_key import make_key

    rows: list[Row] = []
    for count in counts:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            write_notes(folder, count)
            save_small_tagger(folder / "tagger")
            make_key(folder / "home.key")
            out = folder / "out"
            out.mkdir()
            for what, arguments in commands(folder, out).items():
                peak = in_fresh_process("benchmarks.notes_memory", "--run", *arguments)
                rows.append((f"{what}: {count:,} notes, peak memory", peak, "MB"))
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run_command(sys.argv[2:])
    else:
        parser = argparse.ArgumentParser(description=__doc__)
        parser.add_argument("--notes", type=int, nargs="+", default=NOTES)
        for what, value, unit in main(parser.parse_args().notes):
            print(f"{what:<72} {value:>12,.1f} {unit}")
