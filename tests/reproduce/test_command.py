"""`fedner reproduce` as people type it, on a study of no data; and what it rests on."""

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
import stand_ins
from typer.testing import CliRunner, Result

from fedner.cli import reproduce as command
from fedner.cli.app import app
from fedner.cli.train import INTERRUPTED
from fedner.errors import FednerError
from fedner.reproduce import opening, running
from fedner.reproduce.catalogue import CATALOGUE
from fedner.reproduce.inputs import stored
from fedner.reproduce.locating import located
from fedner.reproduce.opening import Options, default_jobs, drawn_inputs, open_study
from fedner.reproduce.output import REHEARSAL
from fedner.reproduce.plan import MEASURED_SECONDS, MOST_SIDE_BY_SIDE, Pace, planned
from fedner.reproduce.reproduction import (
    Cell,
    Inputs,
    PlatformInput,
    Reproduction,
    Row,
    Rows,
    Shown,
    Table,
)
from fedner.reproduce.running import Listener, Run, first_plan, run_study
from fedner.reproduce.store import StoredCell, add_cell, read_cells

NAME = "of-nothing"
NOTE = "smaller < larger & so on"


def cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    return [
        Cell(f"{size}/repeat-{seed}", {"size": size, "repeat": seed}, float(size))
        for size in (1, 3, 2)
        for seed in inputs.seeds
    ]


def last(inputs: Inputs, _rows: Rows) -> list[Cell]:
    return [Cell("last", {"size": 9, "repeat": 1}, 1.0)]


def run(cell: Cell, _bench: object) -> list[Row]:
    return [Row({}, {"f1": 10.0 * int(cell.factors["size"])})]


def show(rows: Rows, inputs: Inputs) -> Shown:
    wide = "a_column_whose_head_is_one_word_that_no_screen_of_eighty_letters_has_room_for"
    tables = (
        Table("short", "A short table", ("size", "rows"), (("all", str(len(rows))),)),
        Table("wide", "A wide table", ("size", wide, wide[::-1]), (("all", "1", None),)),
    )
    return Shown(tables, (), (NOTE,))


STUDY = Reproduction(
    NAME, "beyond both papers", "Of nothing", "own", (), (cells, last), run, show, repeats=2
)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOGUE, NAME, STUDY)


def invoke(out: Path, *more: str, name: str = NAME) -> Result:
    words = ["reproduce", name, "--out", str(out), "--device", "cpu", "--jobs", "1", *more]
    return CliRunner().invoke(app, words)


def test_a_study_leaves_rows_tables_and_pages(tmp_path: Path) -> None:
    told = invoke(tmp_path)
    assert told.exit_code == 0, told.output
    assert "A short table" in told.output
    assert "a_column_whose_head" not in told.output  # it does not fit: its place is named
    assert "wide.md" in told.output.replace("\n", "")
    assert REHEARSAL not in told.output.replace("\n", " ")
    assert (tmp_path / "rows.csv").read_text().count("\n") == 1 + 2 * 3 + 1
    for page, is_html in (("results.md", False), ("index.html", True)):
        text = (tmp_path / page).read_text()
        assert ("smaller &lt; larger &amp; so on" if is_html else NOTE) in text
        assert "seeds 1 to 2; a seed names" in text
        assert "A rehearsal" not in text
    one = invoke(tmp_path / "one", "--repeats", "1")
    assert one.exit_code == 0
    assert "seeds 1; a seed names" in (tmp_path / "one" / "results.md").read_text()


def test_a_rehearsal_says_so_wherever_its_numbers_stand(tmp_path: Path) -> None:
    told = invoke(tmp_path, "--rehearse")
    assert told.exit_code == 0, told.output
    assert "Its numbers mean nothing" in " ".join(told.output.split())
    assert all(REHEARSAL in (tmp_path / page).read_text() for page in ("results.md", "index.html"))
    assert len(read_cells(tmp_path)) == 3 + 1  # one repeat unless asked for more
    whole = invoke(tmp_path, "--resume")
    assert isinstance(whole.exception, FednerError)
    assert "rehearsal: True, now False" in str(whole.exception)


def test_it_goes_on_only_where_it_is_asked_to_and_names_each_command_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "command_of", lambda: ["reproduce", NAME])
    assert invoke(tmp_path).exit_code == 0
    with monkeypatch.context() as reading:  # it is refused before anything is read
        reading.setattr(opening, "stored", lambda _: pytest.fail("read"))
        again = invoke(tmp_path)
    assert isinstance(again.exception, FednerError)
    assert "has a study already" in str(again.exception)
    for _ in range(2):
        assert invoke(tmp_path, "--resume").exit_code == 0
    assert (tmp_path / "results.md").read_text().count(f"fedner reproduce {NAME}") == 1
    assert len(json.loads((tmp_path / "study.json").read_text())["sessions"]) == 3


def test_no_word_of_a_table_on_the_screen_is_broken() -> None:
    columns = ("model", "strict F1", "strict precision", "strict recall")
    rows = [("CNN-CLSTM-CRF", "3.12", "2.22", "5.26"), ("ELMoNER (strong baseline)", "0.0", "", "")]
    least = 13 + 6 + 9 + 6 + 3 * 4 + 1
    assert command._widths(columns, rows, least - 1) is None
    assert command._widths(columns, rows, least) == [13, 6, 9, 6]
    assert command._widths(columns, rows, least + 15) == [25, 9, 9, 6]
    assert command._widths(columns, rows, 200) == [25, 9, 16, 13]


def test_a_plan_runs_nothing(tmp_path: Path) -> None:
    told = invoke(tmp_path, "--plan")
    assert told.exit_code == 0, told.output
    assert "stage 1 of 2: 6 runs; 6 to do, 1 side by side" in told.output
    assert "later stages are not counted" in " ".join(told.output.split())
    assert read_cells(tmp_path) == {}
    found = json.loads(invoke(tmp_path, "--plan", "--json").stdout)
    assert (found["num_cells"], found["num_stored"], found["jobs"]) == (6, 0, 1)
    words = ["reproduce", NAME, "--out", str(tmp_path), "--device", "cpu", "--plan", "--json"]
    for more, jobs in (([], default_jobs("cpu")), (["--jobs", "7"], 7), (["--rehearse"], 1)):
        assert json.loads(CliRunner().invoke(app, [*words, *more]).stdout)["jobs"] == jobs


def test_nothing_begins_after_the_time_and_the_page_says_what_is_missing(tmp_path: Path) -> None:
    told = invoke(tmp_path, "--seconds", "0")
    assert told.exit_code == 0, told.output
    assert read_cells(tmp_path) == {}
    assert "missing: not run" in (tmp_path / "results.md").read_text()


def test_reading_counts_as_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = open_study

    def slow(*arguments: Any, **named: Any) -> Any:
        time.sleep(0.02)
        return real(*arguments, **named)

    monkeypatch.setattr(opening, "open_study", slow)
    assert invoke(tmp_path, "--seconds", "0.01").exit_code == 0
    assert read_cells(tmp_path) == {}


def test_stopped_by_hand_it_shows_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(cell: Cell, _bench: object) -> Sequence[Row]:
        if cell.factors["size"] == 2:
            raise KeyboardInterrupt
        return run(cell, _bench)

    monkeypatch.setitem(CATALOGUE, NAME, replace(STUDY, run=stopped))
    told = invoke(tmp_path, "--repeats", "1")
    assert told.exit_code == INTERRUPTED
    assert "--resume goes on" in told.output
    assert list(read_cells(tmp_path)) == ["3/repeat-1"]  # the longest of a repeat is the first
    assert (tmp_path / "index.html").is_file()


def test_drawn_again_it_is_the_study_that_was_run(tmp_path: Path) -> None:
    invoke(tmp_path)
    page = (tmp_path / "index.html").read_text()
    (tmp_path / "index.html").unlink()
    assert invoke(tmp_path, "--redraw").exit_code == 0
    assert (tmp_path / "index.html").read_text() == page
    other = invoke(tmp_path, "--redraw", name="fedner-table1")
    assert isinstance(other.exception, FednerError)
    assert f"holds {NAME}, not fedner-table1" in str(other.exception)
    about = json.loads((tmp_path / "study.json").read_text())
    del about["inputs"]
    (tmp_path / "study.json").write_text(json.dumps(about))
    with pytest.raises(FednerError, match="says nothing of its inputs"):
        drawn_inputs(tmp_path)


def test_what_stands_in_for_the_papers_corpora_is_said(tmp_path: Path) -> None:
    root = tmp_path / "data"
    stand_ins.ade(root / "ade-corpus-v2", 4)
    (root / "psytar").mkdir()
    (root / "twimed").mkdir()
    (root / "psytar" / "all.full.txt").write_text("Rash B-ADR\nagain O\n\n")
    (root / "twimed" / "gold" / "pubmed").mkdir(parents=True)
    (root / "twimed" / "gold" / "pubmed" / "1.txt").write_text("Rash again")
    (root / "twimed" / "gold" / "pubmed" / "1.ann").write_text("T1\tSymptom 0 4\tRash\n")
    out = tmp_path / "out"
    told = invoke(out, "--data", str(root), "--plan", name="fedner-table1")
    assert told.exit_code == 0, told.output
    said = " ".join(told.output.split())
    assert "not found: cadec, smm4h; other corpora stand in for the paper's" in said
    stand_ins.cadec(root / "cadec", 4)
    stand_ins.smm4h(root / "smm4h", 4)
    told = invoke(out, "--data", str(root), "--plan", name="fedner-table1")
    assert "stand in" not in told.output


def test_no_time_below_nothing_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    bar = command._Bar()
    with bar:
        bar._plan(planned(1, 1, [], [], {}, Pace("cpu", 1)))
        bar._cell("a", 1.0, -0.0001)
    assert "-0" not in capsys.readouterr().out


# The plan.


def test_one_gpu_is_worth_so_many_machines_and_no_more() -> None:
    held = cells(Inputs((), "hashed", "none", Path(), repeats=4), [])
    cost = sum(cell.cost for cell in held)
    many, few = (planned(1, 1, held, held, {}, Pace("cuda", jobs)) for jobs in (50, 2))
    most = MOST_SIDE_BY_SIDE["cuda"]
    assert many.seconds == pytest.approx(cost * MEASURED_SECONDS["cuda"] / most)
    assert few.seconds == pytest.approx(cost * MEASURED_SECONDS["cuda"] / 2)
    cores = planned(1, 1, held, held, {}, Pace("cpu", 50))
    assert cores.seconds == pytest.approx(cost * MEASURED_SECONDS["cpu"] / 50)


def test_the_plan_counts_what_is_stored_of_what_is_wanted() -> None:
    held = cells(Inputs((), "hashed", "none", Path(), repeats=1), [])
    known = {held[0].key: StoredCell((), 1.0), "of another stage": StoredCell((), 100.0)}
    plan = planned(2, 3, held, held[1:], known, Pace("cpu", 1))
    assert (plan.num_cells, plan.num_stored, plan.is_measured) == (3, 1, True)
    assert plan.seconds == pytest.approx(sum(cell.cost for cell in held[1:]))


def test_the_pace_is_known_after_the_first_cell_alone() -> None:
    pace = Pace("cpu", 1)
    pace.begin()
    assert pace.seconds_for(3.0) is None
    pace.note(2.0)
    time.sleep(0.01)
    left = pace.seconds_for(4.0)
    assert left is not None
    assert left >= 0.02
    assert pace.seconds_for(0.0) == 0


# What runs.


def held_at(out: Path, repeats: int = 2) -> Inputs:
    return Inputs((), "hashed", "none", out, repeats=repeats)


def test_whole_repeats_come_first_and_of_a_repeat_the_longest(tmp_path: Path) -> None:
    heard: list[tuple[str, float | None]] = []
    listener = Listener(cell=lambda key, _, left: heard.append((key, left)))
    run_study(Run(STUDY, held_at(tmp_path)), listener)
    assert [key for key, _ in heard] == [
        *(f"{size}/repeat-{seed}" for seed in (1, 2) for size in (3, 2, 1)),
        "last",
    ]
    assert heard[5][1] == 0  # nothing of this stage is left
    assert all(left is not None and left > 0 for _, left in heard[:5])


def test_no_later_stage_is_planned_after_the_time(tmp_path: Path) -> None:
    stages: list[int] = []
    listener = Listener(plan=lambda plan: stages.append(plan.stage))
    run_study(Run(STUDY, held_at(tmp_path), seconds=0.0, begun=time.monotonic() - 1), listener)
    assert stages == [1]


def test_a_training_without_a_name_is_nobody_elses(tmp_path: Path) -> None:
    other = StoredCell((Row({}, {"f1": 99.0}),), 1.0)
    rows = run_study(Run(STUDY, held_at(tmp_path), works={"": other}))
    assert 99.0 not in [row.measures["f1"] for row in rows]


def test_a_plan_is_that_of_the_first_stage_that_lacks_cells(tmp_path: Path) -> None:
    inputs = held_at(tmp_path, 1)
    for cell in cells(inputs, []):
        add_cell(tmp_path, cell, run(cell, None), 1.0)
    assert first_plan(Run(STUDY, inputs)).stage == 2
    add_cell(tmp_path, last(inputs, [])[0], [Row({}, {"f1": 1.0})], 1.0)
    assert first_plan(Run(STUDY, inputs)).stage == 2


class _Pool:
    """A pool of no processes."""

    def __init__(self, breaks_at: int | None = None) -> None:
        self.given: list[str] = []
        self.breaks_at = breaks_at

    def submit(self, _work: object, _name: str, cell: Cell) -> Future[tuple[list[Row], float]]:
        self.given.append(cell.key)
        future: Future[tuple[list[Row], float]] = Future()
        if len(self.given) == self.breaks_at:
            future.set_exception(BrokenProcessPool("killed"))
        else:
            future.set_result((run(cell, None), 0.0))
        return future


def pooled(monkeypatch: pytest.MonkeyPatch, pool: _Pool) -> None:
    @contextmanager
    def opened(_run: Run) -> Iterator[_Pool]:
        yield pool

    monkeypatch.setattr(running, "_pool", opened)


def test_a_killed_process_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pooled(monkeypatch, _Pool(breaks_at=3))
    with pytest.raises(FednerError, match="a process of the study was killed") as raised:
        run_study(Run(STUDY, held_at(tmp_path), jobs=2))
    assert "--resume and fewer --jobs" in str(raised.value.hint)
    assert set(read_cells(tmp_path)) >= {"3/repeat-1", "2/repeat-1"}  # what had ended


def test_no_cell_is_given_to_the_pool_after_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, answers = _Pool(), chain([True] * 3, repeat(False))
    pooled(monkeypatch, pool)
    monkeypatch.setattr(Run, "has_time", property(lambda _: next(answers)))
    run_study(Run(STUDY, held_at(tmp_path), jobs=6))
    assert pool.given == ["3/repeat-1", "2/repeat-1"]
    assert sorted(read_cells(tmp_path)) == sorted(pool.given)  # what has begun is waited for


# What a study is made of.


def test_other_vectors_or_encoders_are_another_study(tmp_path: Path) -> None:
    words, context = tmp_path / "vectors.txt", tmp_path / "encoder.npz"
    words.write_text("the 1 2\n")
    context.write_text("numbers")
    options = Options(
        tmp_path / "out", words=str(words), contexts=(str(context), "hub:b"), device="cpu"
    )
    open_study(STUDY, options, [])
    again = replace(options, resume=True)
    open_study(STUDY, again, [])
    for changed, said in (
        (replace(again, contexts=("hub:a", "hub:b")), "context"),
        (replace(again, contexts=(str(context),)), "more_contexts"),
        (replace(again, rehearse=True), "rehearsal"),
    ):
        with pytest.raises(FednerError, match=said):
            open_study(STUDY, changed, [])
    words.write_text("the 1 2\nof 3 4\n")
    with pytest.raises(FednerError, match=r"words: 'vectors.txt \(8 bytes\)', now"):
        open_study(STUDY, again, [])


def test_another_test_part_is_another_study(tmp_path: Path) -> None:
    folder = stand_ins.conll2003(tmp_path / "conll2003", 20)
    digests = []
    for line in ("", "Ann NNP I-NP I-PER\n\n"):
        with (folder / "eng.testb").open("a") as file:
            file.write(line)
        found = located(tmp_path, "conll2003")
        assert found is not None
        digests.append(stored(Inputs((found,), "hashed", "none", tmp_path / "out")))
    one, other = (each.platforms[0] for each in digests)
    assert one.digest != other.digest
    assert one.num_sentences == other.num_sentences == 20


def test_sentences_without_tokens_are_none(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    spans = [{"start": 0, "end": 4, "label": "ADE"}]
    path.write_text(
        json.dumps({"id": "1", "text": "Rash again", "spans": spans})
        + "\n"
        + json.dumps({"id": "2", "text": " \n\n ", "spans": []})
        + "\n"
    )
    inputs = Inputs((PlatformInput("a", str(path)),), "hashed", "none", tmp_path / "out")
    held = stored(inputs).platforms[0]
    assert (held.num_sentences, held.counts["documents"]) == (1, 2)


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    folder = stand_ins.conll2003(tmp_path / "conll2003", 20)
    for part in ("eng.train", "eng.testb"):
        with (folder / part).open("ab") as file:
            file.write(b"Ren\xe9 NNP I-NP I-PER\n\n")
    found = located(tmp_path, "conll2003")
    assert found is not None
    reading = stored(Inputs((found,), "hashed", "none", tmp_path / "out")).platforms[0].reading
    assert reading["problem: not UTF-8"] == 2  # one in each part
    assert any("U+FFFD" in what for what in reading)
    assert reading["of these problems, what was kept all the same"] == 2


def test_a_gpu_takes_as_many_jobs_as_gain_and_leaves_a_core(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for cores, cpu, cuda in ((1, 1, 1), (4, 4, 3), (64, 64, opening.MOST_GPU_JOBS)):
        monkeypatch.setattr(opening.os, "cpu_count", lambda cores=cores: cores)
        assert (default_jobs("cpu"), default_jobs("cuda")) == (cpu, cuda)
