"""`fedner redact` on tables, lines of JSON, several inputs and standard input, as users type it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.errors import FednerError
from fedner.inference import job
from fedner.inference.home_key import make_key
from fedner.inference.redaction_audit import read_audit
from fedner.models.checkpoint import save_tagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.zoo import build_tagger, recipe_named, resized

TABLE = "id,patient,note,ward\n" + "".join(
    f'{n},p{n % 3},"Seen Anna Smith, aspirin {n}",W\n' for n in range(9)
)
# Every word goes, so that tests need no trained tagger.
ALL = ("--threshold", "0.0001", "--remove", "NAME")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    recipe = resized(recipe_named("CNN-CRF"), hidden=4, filters=8, character_filters=4)
    space = TagSpace.of(("DATE", "NAME"), "BIO")
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(64, 8)), space, seed=3)
    folder = tmp_path_factory.mktemp("model") / "tagger"
    save_tagger(folder, tagger, recipe, space)
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table and a key, in which the command is typed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text(TABLE)
    make_key(tmp_path / "home.key")
    return tmp_path


def run(model: Path, *arguments: object, stdin: str = "") -> Result:
    command = ["redact", str(model), *map(str, arguments), *ALL]
    return CliRunner().invoke(app, command, input=stdin, catch_exceptions=False)


def said(model: Path, *arguments: object) -> Any:
    result = run(model, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_table_comes_out_with_its_audit_list(model: Path, here: Path) -> None:
    found = said(model, "in.csv", "--out", "out.csv", "--text-column", "note", "--id-column", "id")
    (table,) = found["tables"]
    assert (table["rows"], table["texts"], table["kept_columns"]) == (
        9,
        9,
        ["id", "patient", "ward"],
    )
    rows = (here / "out.csv").read_text().splitlines()
    assert rows[0] == "id,patient,note,ward"
    assert all(re.fullmatch(r'\d,p\d,"\[NAME\].*",W', row) for row in rows[1:])
    assert "Anna" not in (here / "out.csv").read_text()
    audit = here / "out.csv.audit.jsonl"
    assert audit.stat().st_mode & 0o777 == 0o600
    assert len(read_audit(audit)) == 9
    assert "Anna" not in audit.read_text()
    assert not list(here.glob("*.partial"))
    with pytest.raises(FednerError, match="already there"):
        run(model, "in.csv", "--out", "out.csv", "--text-column", "note", "--id-column", "id")


def test_people_see_which_columns_stayed(model: Path, here: Path) -> None:
    result = run(model, "in.csv", "--out", "o.csv", "--text-column", "note", "--key", "home.key")
    shown = " ".join(result.stdout.split())
    assert "unchanged columns: id, patient, ward" in shown
    assert "every row counts as a separate patient" in shown


def test_a_killed_redaction_of_a_table_goes_on(
    model: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--text-column", "note", "--patient-column", "patient", "--key", "home.key")
    said(model, "in.csv", "--out", "whole.csv", *options)
    append, count = job.append_whole, 0

    def dies(descriptor: int, data: bytes) -> None:
        nonlocal count
        count += 1
        if count == 5:
            append(descriptor, data[:10])
            raise RuntimeError
        append(descriptor, data)

    monkeypatch.setattr(job, "append_whole", dies)
    with pytest.raises(RuntimeError):
        run(model, "in.csv", "--out", "out.csv", *options, "--json")
    monkeypatch.setattr(job, "append_whole", append)
    assert not (here / "out.csv").exists()
    with pytest.raises(FednerError, match="unfinished job with other"):
        run(model, "in.csv", "--out", "out.csv", "--text-column", "note")
    (table,) = said(model, "in.csv", "--out", "out.csv", *options)["tables"]
    assert table["resumed"] == 4
    assert (here / "out.csv").read_bytes() == (here / "whole.csv").read_bytes()
    assert len(read_audit(here / "out.csv.audit.jsonl")) == 9


def test_a_table_that_changes_meanwhile_is_refused(
    model: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = job.Job._finish

    def changed(*arguments: Any) -> Any:
        (here / "in.csv").write_text(TABLE.replace("aspirin 5", "Smith!"))
        return read(*arguments)

    monkeypatch.setattr(job.Job, "_finish", changed)
    with pytest.raises(FednerError, match="changed while it was redacted"):
        run(model, "in.csv", "--out", "out.csv", "--text-column", "note")
    assert not (here / "out.csv").exists()


def test_several_tables_go_into_a_folder_and_their_lists_beside_it(model: Path, here: Path) -> None:
    (here / "exports").mkdir()
    (here / "exports" / "Smith.csv").write_text(TABLE)
    options = ("--text-column", "note", "--out", "safe", "--key", "home.key")
    found = said(model, "exports", "in.csv", *options)
    names = [Path(each["target"]).name for each in found["tables"]]
    assert all(re.fullmatch(r"[a-z2-7]{8}\.csv", name) for name in names)
    assert sorted(path.name for path in (here / "safe").iterdir()) == sorted(names)
    assert (here / "safe.audit").stat().st_mode & 0o777 == 0o700
    again = said(model, "exports", "in.csv", *options)
    assert (again["tables"], again["tables_from_before"]) == ([], 2)
    with pytest.raises(FednerError, match="from another redaction"):
        run(model, "exports", "in.csv", *options, "--how", "type")
    (here / "in.csv").write_text(TABLE + "99,p1,new,W\n")
    with pytest.raises(FednerError, match=r"from another redaction or another in\.csv"):
        run(model, "exports", "in.csv", *options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("in.csv", "--out", "o.csv"),
            "is a table with the columns id, patient, note, ward",
        ),
        (("in.csv",), "no --out"),
        (("in.csv", "--out", "o.csv", "--id-column", "id"), "--id-column without --text-column"),
        (("in.csv", "--out", "o.csv", "--format", "csv"), "but no --text-column"),
        (("in.csv", "--out", "o.csv", "--format", "xls"), "--format xls"),
        (("in.csv", "--out", "o.parquet", "--text-column", "note"), "is csv, as its input"),
        (("in.csv", "--out", "o.csv", "--text-column", "n"), 'no column "n"'),
        (
            ("in.csv", "--out", "o.csv", "--text-column", "note", "--code-column", "id"),
            "a secret key",
        ),
        (("in.csv", "--out", "o.csv", "--text-column", "note", "--patient", "x"), "--patient is"),
        (("-", "in.csv"), "standard input and other inputs"),
        (("-", "--json"), "standard output holds the redacted text"),
        (("-", "--key", "home.key"), "whose is it"),
        (("-", "--text-column", "note", "--format", "parquet"), "cannot be read as parquet"),
        (("note.xml", "--out", "o"), "not plain text, by its name"),
        (("in.csv", "in.csv", "--out", "o", "--text-column", "note"), "more than once"),
    ],
)
def test_what_does_not_fit_is_refused(
    model: Path, here: Path, arguments: tuple[str, ...], message: str
) -> None:
    (here / "note.xml").write_text("<a>Smith</a>")
    with pytest.raises(FednerError, match=re.escape(message)):
        run(model, *arguments)
    assert sorted(path.name for path in here.iterdir()) == ["home.key", "in.csv", "note.xml"]


def test_a_note_goes_from_standard_input_to_standard_output(model: Path, here: Path) -> None:
    result = run(model, "-", "--how", "mask", stdin="Anna Smith.\r\n")
    assert result.stdout_bytes == b"**********.\r\n"
    assert "measured by `fedner redaction calibrate`" in " ".join(result.stderr.split())
    result = run(model, "-", "--key", "home.key", "--patient", "7", "--out", "o.txt", stdin="Anna")
    assert re.fullmatch(r"\[NAME-\w{8}\]", (here / "o.txt").read_text())
    assert (here / "o.txt").stat().st_mode & 0o777 == 0o600


def test_a_table_goes_from_standard_input_to_standard_output(model: Path, here: Path) -> None:
    options = ("--text-column", "note", "--patient-column", "patient", "--key", "home.key")
    said(model, "in.csv", "--out", "out.csv", *options)
    result = run(model, "-", *options, "--audit", "list.jsonl", stdin=TABLE + "broken\n")
    assert result.stdout == (here / "out.csv").read_text()
    assert result.exit_code == 1
    assert "1 row not read" in result.stderr
    assert len((here / "list.jsonl").read_text().splitlines()) == 9


def test_lines_of_json_need_no_option(model: Path, here: Path) -> None:
    (here / "in.jsonl").write_text('{"id":1,"text":"Anna Smith"}\n')
    said(model, "in.jsonl", "--out", "out.jsonl")
    assert json.loads((here / "out.jsonl").read_text()) == {"id": 1, "text": "[NAME]"}


def test_several_folders_keep_what_they_are_called(model: Path, here: Path) -> None:
    for place in ("east", "west/deep"):
        (here / place).mkdir(parents=True)
        (here / place / "a.txt").write_text("Anna")
    found = said(model, "east", "west", "--out", "safe")
    assert sorted(path.relative_to(here / "safe") for path in (here / "safe").rglob("*.txt")) == [
        Path("east/a.txt"),
        Path("west/deep/a.txt"),
    ]
    assert len(read_audit(Path(found["audit"]))) == 2
    with pytest.raises(FednerError, match="is inside"):
        run(model, "west", "west/deep", "--out", "other")
    with pytest.raises(FednerError, match="is inside"):
        run(model, "east", "west", "--out", "west/safe")


def test_people_are_told_that_names_of_files_stayed(model: Path, here: Path) -> None:
    (here / "notes").mkdir()
    (here / "notes" / "John_Smith_2020.txt").write_text("Anna")
    plain = " ".join(run(model, "notes", "--out", "plain").stdout.split())
    assert "names of files and folders are unchanged" in plain
    keyed = run(model, "notes", "--out", "safe", "--key", "home.key")
    assert "are unchanged" not in keyed.stdout
    assert not list((here / "safe").glob("*Smith*"))
