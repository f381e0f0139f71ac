"""Folders redacted by key: structure, names, patients; stopped by kill -9 and gone on with."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.errors import FednerError
from fedner.inference.home_key import DateShift, HomeKey, make_key
from fedner.inference.predict import Predictor
from fedner.inference.redacted_files import Plan, plan_redaction, redact_files
from fedner.inference.redaction_audit import KIND, read_audit
from fedner.inference.redaction_rules import Rules
from fedner.models.checkpoint import save_tagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.zoo import build_tagger, recipe_named, resized

KEY = HomeKey(bytes(range(32)))
WORDS = [
    "Seen",
    "Anna",
    "Smith",
    "and",
    "Bob",
    "Lee",
    "with",
    "aspirin",
    "on",
    "Monday",
    "and",
    "again",
    "after",
    "rash",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger without training that finds something in nearly every text."""
    torch.manual_seed(0)
    recipe = resized(recipe_named("CNN-CRF"), hidden=4, filters=8, character_filters=4)
    space = TagSpace.of(("DATE", "NAME"), "BIO")
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(64, 8)), space, seed=3)
    with torch.no_grad():
        tagger.emissions.bias[0] = -0.3
    folder = tmp_path_factory.mktemp("model") / "tagger"
    save_tagger(folder, tagger, recipe, space)
    return folder


@pytest.fixture(scope="module")
def predictor(model: Path) -> Predictor:
    return Predictor.load(model)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    root = tmp_path / "notes"
    for patient in ("Smith", "Lee"):
        folder = root / patient
        folder.mkdir(parents=True)
        for number in range(3):
            words = [WORDS[(number + at * 5) % len(WORDS)] for at in range(12)]
            (folder / f"{patient}-{number}.TXT").write_text(" ".join(words) + ".\n")
    return root


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def done(predictor: Predictor, plan: Plan) -> dict[str, bytes]:
    list(redact_files(predictor, plan))
    return contents(plan.target)


def keyed(**options: object) -> Rules:
    given = {"how": "pseudonym", "key": KEY, "dates": DateShift(("DATE",)), "keeps_names": False}
    return Rules(**(given | options))  # type: ignore[arg-type]


def test_names_of_files_and_folders_go_and_structure_stays(
    predictor: Predictor, notes: Path, tmp_path: Path
) -> None:
    found = done(predictor, plan_redaction(notes, tmp_path / "out", keyed()))
    assert len(found) == 6
    assert all(name.endswith(".TXT") for name in found)
    folders = [name.split("/")[0] for name in found]
    assert sorted(folders.count(each) for each in set(folders)) == [3, 3]
    every = "".join(found) + str(found.values())
    assert "Smith-" not in every
    assert "Lee-" not in every
    again = done(predictor, plan_redaction(notes, tmp_path / "again", keyed()))
    assert again == found, "the same key gives the same names and texts"
    other = HomeKey(bytes(32))
    assert done(predictor, plan_redaction(notes, tmp_path / "o", keyed(key=other))).keys() != found


def test_pseudonyms_hold_for_a_patient_and_end_there(
    predictor: Predictor, notes: Path, tmp_path: Path
) -> None:
    from fedner.corpus.patients import PatientSource

    for path in notes.rglob("*.TXT"):
        path.write_text("Anna Smith Anna Smith")
    by_folder = keyed(patients=PatientSource(pattern=r"^(?P<patient>[^/]+)/"), keeps_names=True)
    found = done(predictor, plan_redaction(notes, tmp_path / "a", by_folder))
    smith = {text for name, text in found.items() if name.startswith("Smith")}
    lee = {text for name, text in found.items() if name.startswith("Lee")}
    assert len(smith) == len(lee) == 1 != len(smith & lee)
    alone = done(predictor, plan_redaction(notes, tmp_path / "b", keyed()))
    assert len(set(alone.values())) == 6, "without patients every note is a patient of its own"


def test_a_table_of_patients_must_name_every_note(notes: Path, tmp_path: Path) -> None:
    from fedner.corpus.patients import PatientSource

    table = tmp_path / "patients.csv"
    table.write_text("document,patient\nSmith/Smith-0,1\n")
    with pytest.raises(FednerError, match="5 of 6 notes have no patient: Lee/Lee-0"):
        plan_redaction(notes, tmp_path / "out", keyed(patients=PatientSource(table)))
    table.write_text("document,patient\nGone/Gone-0,1\n")
    with pytest.raises(FednerError, match=r"patients\.csv:2: unknown document") as wrong:
        plan_redaction(notes, tmp_path / "out", keyed(patients=PatientSource(table)))
    assert "--lenient" not in wrong.value.hint, "redact has no such option"
    by_digit = PatientSource(pattern="^(?P<patient>[0-9]+)")
    with pytest.raises(FednerError, match="6 of 6 notes"):
        plan_redaction(notes, tmp_path / "out", keyed(patients=by_digit))


def test_the_audit_says_what_was_replaced_where_and_no_words(
    predictor: Predictor, notes: Path, tmp_path: Path
) -> None:
    plan = plan_redaction(notes, tmp_path / "out", keyed())
    files = list(redact_files(predictor, plan))
    assert plan.audit == tmp_path / "out.audit.jsonl"
    assert plan.audit.stat().st_mode & 0o777 == 0o600
    assert json.loads(plan.audit.read_text().splitlines()[0])["fedner"] == KIND
    assert KEY.secret.hex() not in plan.audit.read_text()
    assert "Anna" not in plan.audit.read_text()
    records = {each.source: each for each in read_audit(plan.audit)}
    assert len(records) == 6
    for file in files:
        record = records[file.source.relative_to(notes).as_posix()]
        assert record.replacements == file.replacements
        assert tmp_path / "out" / record.target == file.target
        old, new = file.source.read_text(), file.target.read_text()
        for each in record.replacements:
            assert new[: each.new_start][-3:] == old[: each.start][-3:] or each.start < 3
    assert sum(len(each.replacements) for each in files) > 0


def test_a_stopped_redaction_goes_on(predictor: Predictor, notes: Path, tmp_path: Path) -> None:
    whole = done(predictor, plan_redaction(notes, tmp_path / "whole", keyed()))
    plan = plan_redaction(notes, tmp_path / "out", keyed())
    running = redact_files(predictor, plan)
    for _ in range(2):
        next(running)
    running.close()
    assert len(contents(plan.target)) == 2
    audit = tmp_path / "out.audit.jsonl"
    kept = audit.read_bytes()
    lost = next(iter(plan.target.rglob("*.TXT")))
    lost.unlink()  # a line whose file was not written
    audit.write_bytes(kept + b'{"source":"Smi')  # half a line
    half = lost.with_name(f".{lost.name}.0123456789ab.part")
    half.write_text("half")
    again = plan_redaction(notes, tmp_path / "out", keyed())
    before = [each.is_from_before for each in redact_files(predictor, again)]
    assert sorted(before) == [False] * 5 + [True]
    assert contents(plan.target) == whole
    assert sorted(each.source for each in read_audit(audit)) == sorted(
        path.relative_to(notes).as_posix() for path in notes.rglob("*.TXT")
    )
    assert audit.stat().st_mode & 0o777 == 0o600


def test_new_notes_are_added_and_changed_ones_refused(
    predictor: Predictor, notes: Path, tmp_path: Path
) -> None:
    done(predictor, plan_redaction(notes, tmp_path / "out", keyed()))
    (notes / "new.txt").write_text("Seen Anna.")
    files = list(redact_files(predictor, plan_redaction(notes, tmp_path / "out", keyed())))
    assert [each.source.name for each in files if not each.is_from_before] == ["new.txt"]
    (notes / "new.txt").write_text("Seen Bob.")
    with pytest.raises(FednerError, match="has changed since"):
        done(predictor, plan_redaction(notes, tmp_path / "out", keyed()))


@pytest.mark.parametrize(
    "other",
    [{"threshold": 0.1}, {"types": ("NAME",)}, {"key": HomeKey(bytes(32))}, {"how": "mask"}],
)
def test_another_redaction_into_the_same_place_is_refused(
    predictor: Predictor, notes: Path, tmp_path: Path, other: dict[str, object]
) -> None:
    rules = keyed(keeps_names=True)
    done(predictor, plan_redaction(notes, tmp_path / "out", rules))
    before = contents(tmp_path / "out")
    with pytest.raises(FednerError, match="is of another redaction"):
        done(predictor, plan_redaction(notes, tmp_path / "out", keyed(keeps_names=True, **other)))
    assert contents(tmp_path / "out") == before


def test_foreign_files_in_the_way_are_refused(
    predictor: Predictor, notes: Path, tmp_path: Path
) -> None:
    plan = plan_redaction(notes, tmp_path / "out", Rules())
    running = redact_files(predictor, plan)
    next(running)
    running.close()
    (tmp_path / "out" / "Smith").mkdir()
    (tmp_path / "out" / "Smith" / "Smith-2.TXT").write_text("mine")
    with pytest.raises(FednerError, match="already there"):
        done(predictor, plan_redaction(notes, tmp_path / "out", Rules()))
    assert (tmp_path / "out" / "Smith" / "Smith-2.TXT").read_text() == "mine"


def test_what_stays_at_home_may_not_stand_in_the_output(notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(FednerError, match="must not be given away"):
        plan_redaction(notes, out, Rules(), audit=out / "audit.jsonl")
    for wrong in ({"how": "pseudonym"}, {"keeps_names": False}):
        with pytest.raises(FednerError, match="need a secret key"):
            Rules(**wrong)  # type: ignore[arg-type]
    for threshold in (0.0, 1.1, -1.0):
        with pytest.raises(FednerError, match="threshold"):
            Rules(threshold=threshold)


def test_two_at_a_time_are_refused(predictor: Predictor, notes: Path, tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    running = redact_files(predictor, plan_redaction(notes, tmp_path / "out", Rules()))
    next(running)
    script = "import sys, pathlib; from fedner.inference.redaction_audit import open_audit\n"
    script += "with open_audit(pathlib.Path(sys.argv[1]), {}, []): pass"
    other = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "out.audit.jsonl")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    running.close()
    assert "another process is redacting" in other.stderr


COMMAND = (sys.executable, "-m", "fedner")


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs kill -9")
def test_kill_9_in_the_middle_loses_nothing_and_doubles_nothing(
    model: Path, predictor: Predictor, tmp_path: Path
) -> None:
    notes, out, key = tmp_path / "notes", tmp_path / "out", tmp_path / "home.key"
    notes.mkdir()
    for number in range(300):
        text = " ".join(WORDS[(number + at) % len(WORDS)] for at in range(250))
        (notes / f"{number}.txt").write_text(f"{text} {number}.\n")
    secret = make_key(key)
    command = ["redact", str(model), str(notes), "--out", str(out), "--key", str(key)]
    process = subprocess.Popen([*COMMAND, *command], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(out.glob("*.txt"))) < 20 and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    num_done = len(list(out.glob("*.txt")))
    assert 20 <= num_done < 300, "it was killed in the middle"
    result = CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert sum(each["from_before"] for each in said["files"]) >= num_done - 1
    rules = keyed(key=secret, types=("DATE", "NAME"))
    assert contents(out) == done(predictor, plan_redaction(notes, tmp_path / "whole", rules))
    sources = [each.source for each in read_audit(Path(said["audit"]))]
    assert len(sources) == len(set(sources)) == 300
