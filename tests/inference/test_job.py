"""A prediction as a job: every format, kill -9 at the worst moments, bounded memory."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.corpus.document import Document
from fedner.corpus.reading import read
from fedner.errors import FednerError
from fedner.inference.found_files import CSV_COLUMNS, format_of
from fedner.inference.job import Job
from fedner.inference.onnx_export import export_onnx
from fedner.inference.reading import Mention, Predicted
from fedner.inference.several import open_inputs
from fedner.models.checkpoint import load_tagger, save_tagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.zoo import build_tagger, recipe_named, resized
from traced import traced_peak

TEXTS = (
    "Took aspirin.\r\nNo rash after ibuprofen.\r\n",
    "🤒 Fever, then \x0baspirin & <rash>.\n",
    'He said "aspirin, 20 mg".\n\n\nLine two.',
)
KILLED = Path(__file__).with_name("killed_prediction.py")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger without training whose mind changes from word to word, in its ONNX form."""
    torch.set_num_threads(1)
    recipe = resized(recipe_named("CNN-CRF"), hidden=4, filters=8, character_filters=4)
    space = TagSpace.of(("ADE", "Drug"), "BIO")
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(64, 8)), space, seed=3)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in tagger.parameters():
            weight.normal_(0.0, 0.7, generator=generator)
    folder = tmp_path_factory.mktemp("model")
    save_tagger(folder / "saved", tagger, recipe, space)
    export_onnx(load_tagger(folder / "saved"), folder / "exported")
    return folder / "exported"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    for number in range(30):
        place = folder / "deep" if number % 3 else folder
        text = f"Note {number}. {TEXTS[number % len(TEXTS)]}"
        (place / f"{number:02}.txt").write_bytes(text.encode())
    (folder / "scan.txt").write_bytes(b"\x89PNG\r\n\x1a\n")
    return folder


def predicted(*arguments: object) -> dict[str, object]:
    command = ["predict", *map(str, arguments), "--json"]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code in (0, 1), result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


Found = dict[str, list[tuple[int, int, str]]]


def spans(path: Path) -> Found:
    return {
        each.id: sorted((span.start, span.end, span.label) for span in each.spans)
        for each in read(path, lenient=True)
    }


def test_every_format_carries_offsets_and_confidences(
    model: Path, notes: Path, tmp_path: Path
) -> None:
    done = predicted(model, notes, "--out", tmp_path / "a.jsonl")
    assert (done["documents"], done["resumed"]) == (30, 0)
    truth = spans(tmp_path / "a.jsonl")
    assert len(truth) == 30
    assert sum(map(len, truth.values())) == done["mentions"]
    assert done["mentions"], "else nothing is tested"
    lines = (tmp_path / "a.jsonl").read_text().splitlines()[1:]
    sure = [span["confidence"] for line in lines for span in json.loads(line)["spans"]]

    predicted(model, notes, "--out", tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == CSV_COLUMNS
    found: Found = {name: [] for name in truth}
    for row in rows:
        start, end = int(row["start"]), int(row["end"])
        text = (notes / row["source"]).read_bytes().decode()
        assert text[start:end] == row["text"], "offsets are those of the whole file"
        found[row["document"]].append((start, end, row["label"]))
    assert found == truth
    assert [float(row["confidence"]) for row in rows] == sure

    predicted(model, notes, "--out", tmp_path / "brat", "--to", "brat")
    assert spans(tmp_path / "brat") == truth
    note = (tmp_path / "brat" / "deep" / "01.txt").read_bytes()
    assert note == (notes / "deep" / "01.txt").read_bytes()
    marks = "".join(path.read_text() for path in sorted((tmp_path / "brat").rglob("*.ann")))
    assert len(
        re.findall(r"^#\d+\tAnnotatorNotes T\d+\tconfidence [01]\.\d+$", marks, re.M)
    ) == len(sure)


def test_what_a_format_cannot_carry_is_skipped_and_named(
    model: Path, notes: Path, tmp_path: Path
) -> None:
    pytest.importorskip("bioc", reason="needs the extra formats")
    out = tmp_path / "a.xml"
    done = predicted(model, notes, "--out", out)
    assert done["format"] == "bioc"
    truth = predicted(model, notes, "--out", tmp_path / "a.jsonl")
    assert truth["mentions"] == done["mentions"]
    kept = {name for name, _ in spans(out).items()}
    lost = {f"{number:02}" for number in range(1, 30, 3)}
    assert {name.rpartition("/")[2] for name in spans(tmp_path / "a.jsonl").keys() - kept} == lost
    assert all(spans(out)[name] == spans(tmp_path / "a.jsonl")[name] for name in kept)
    assert out.read_text().count('key="confidence"') > 10
    with (tmp_path / "a.xml.skipped.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1 + len(lost)
    assert {row["why"].partition(":")[2][:8] for row in rows if "BioC" in row["why"]} == {
        " U+000B "
    }
    assert done["skipped"] == str(tmp_path / "a.xml.skipped.csv")


def killed(when: str, number: int, *arguments: object) -> int:
    command = [sys.executable, str(KILLED), when, str(number), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True).returncode


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_job_goes_on_with_nothing_twice(model: Path, notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "found.jsonl"
    predicted(model, notes, "--out", tmp_path / "whole.jsonl")
    options = (model, notes, "--out", out)
    for when, number in (("append", 7), ("append", 1), ("append", 12), ("write", 0)):
        assert killed(when, number, *options) == -signal.SIGKILL
        assert not out.exists(), "an output is whole or not there"
        assert (tmp_path / "found.jsonl.partial").stat().st_mode & 0o077 == 0
    done = predicted(*options)
    assert (done["documents"], done["resumed"]) == (30, 30)
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {
        "notes",
        "found.jsonl",
        "found.jsonl.skipped.csv",
        "whole.jsonl",
        "whole.jsonl.skipped.csv",
    }


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_job_killed_at_its_very_end_is_done(model: Path, notes: Path, tmp_path: Path) -> None:
    options = (model, notes, "--out", tmp_path / "brat", "--to", "brat")
    assert killed("placed", 0, *options) == -signal.SIGKILL
    before = sorted((tmp_path / "brat").rglob("*"))
    done = predicted(*options)
    assert done["resumed"] == 30
    assert sorted((tmp_path / "brat").rglob("*")) == before
    assert not (tmp_path / "brat.partial").exists()
    with pytest.raises(FednerError, match="already there"):
        predicted(*options)


class Rule:
    """A tagger by rule: fast enough for many notes; it may stop after some of them."""

    labels = ("Drug",)
    digest = "rule"

    def __init__(self, stop_after: int = 10**9) -> None:
        self.stop_after = stop_after

    def predict_documents(self, documents: Iterable[Document]) -> Iterator[Predicted]:
        for number, document in enumerate(documents):
            if number == self.stop_after:
                raise KeyboardInterrupt
            places = [match.span() for match in re.finditer("aspirin", document.text)]
            found = [Mention(a, b, "Drug", document.text[a:b], 0.5) for a, b in places]
            yield Predicted(document, tuple(found))


def job_of(out: Path) -> Job:
    return Job(out, format_of(out), {"inputs": ["notes"]})


def test_a_job_goes_on_only_with_its_own_inputs(notes: Path, tmp_path: Path) -> None:
    job = job_of(tmp_path / "a.jsonl")
    with pytest.raises(KeyboardInterrupt):
        job.run(Rule(10), open_inputs([notes]))
    assert job.partial.is_dir()
    other = Job(job.out, "jsonl", {"inputs": ["others"]})
    with pytest.raises(FednerError, match="an unfinished job with other inputs") as caught:
        other.run(Rule(), open_inputs([notes]))
    assert "--restart" in caught.value.hint
    first = notes / "00.txt"
    text = first.read_bytes()
    first.write_text("Another text.")
    with pytest.raises(FednerError, match="the inputs have changed"):
        job.run(Rule(), open_inputs([notes]))
    first.write_bytes(text)
    assert job.run(Rule(), open_inputs([notes])).resumed == 10


def test_fewer_notes_than_before_are_noticed_and_restart_begins_anew(
    notes: Path, tmp_path: Path
) -> None:
    job = job_of(tmp_path / "a.jsonl")
    with pytest.raises(KeyboardInterrupt):
        job.run(Rule(29), open_inputs([notes]))
    for path in notes.rglob("*.txt"):
        if path.name > "05":
            path.unlink()
    with pytest.raises(FednerError, match="the inputs have changed"):
        job.run(Rule(), open_inputs([notes]))
    done = job.run(Rule(), open_inputs([notes]), restart=True)
    assert (done.documents, done.resumed) == (5, 0)


def test_what_is_done_is_kept_whatever_goes_wrong(notes: Path, tmp_path: Path) -> None:
    job = job_of(tmp_path / "a.jsonl")

    class InTheWay(Rule):
        def predict_documents(self, documents: Iterable[Document]) -> Iterator[Predicted]:
            yield from super().predict_documents(documents)
            job.out.write_text("of somebody else")

    with pytest.raises(FednerError, match="already there"):
        job.run(InTheWay(), open_inputs([notes]))
    assert job.out.read_text() == "of somebody else"
    job.out.unlink()
    assert job.run(Rule(), open_inputs([notes])).resumed == 30
    with pytest.raises(FednerError, match="is inside"):
        job_of(notes / "deep" / "a.jsonl").check_target([notes])
    with pytest.raises(FednerError, match="standard output is no file"):
        job_of(Path("-")).check_target([notes])
    with pytest.raises(KeyboardInterrupt):
        job_of(tmp_path / "b.jsonl").run(Rule(0), open_inputs([notes]))
    assert not (tmp_path / "b.jsonl.partial").exists(), "nothing was done"


def test_two_processes_do_not_write_one_output(notes: Path, tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    job = job_of(tmp_path / "a.jsonl")
    job.partial.mkdir()
    code = (
        "import sys; from pathlib import Path; "
        "from fedner.federated.folder_lock import held_by_this_process\n"
        "with held_by_this_process(Path(sys.argv[1])): print('held', flush=True); input()"
    )
    command = [sys.executable, "-c", code, str(job.partial)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(FednerError, match="in use"):
            job.run(Rule(), open_inputs([notes]))
        other.communicate(b"\n")
    assert job.run(Rule(), open_inputs([notes])).documents == 30


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.xml"])
def test_memory_does_not_grow_with_the_notes(name: str, tmp_path: Path) -> None:
    def peak(num_notes: int) -> int:
        table = tmp_path / f"{num_notes}.csv"
        with table.open("w") as file:
            file.write("key,note\n")
            for number in range(num_notes):
                file.write(f"{number},{'Nothing else. ' * 150}aspirin\n")
        from fedner.inference.tables import Columns

        opened = open_inputs([table], columns=Columns("note", "key"))
        work = job_of(tmp_path / f"{num_notes}-{name}")
        return traced_peak(lambda: work.run(Rule(), opened))

    peak(20)  # what is loaded once
    small, large = peak(50), peak(600)
    assert large < small + 300_000, "1.1 MB of further text is not held"


@pytest.mark.slow
def test_ten_thousand_notes_of_a_folder(model: Path, tmp_path: Path) -> None:
    code = (
        "import resource, sys; from fedner.cli import main\n"
        "try: main()\n"
        "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )

    def peak(num_notes: int) -> int:
        folder = tmp_path / str(num_notes)
        folder.mkdir()
        for number in range(num_notes):
            (folder / f"{number:05}.txt").write_text(f"Note {number}. " + TEXTS[0] * 60)
        out = tmp_path / f"{num_notes}.jsonl"
        command = [
            sys.executable,
            "-c",
            code,
            "predict",
            str(model),
            str(folder),
            "--out",
            str(out),
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert len(out.read_bytes().splitlines()) == num_notes + 1
        return int(done.stderr.splitlines()[-1])

    assert peak(10_000) < peak(500) + 25_000, "kilobytes; the texts alone have 26,000 more"
