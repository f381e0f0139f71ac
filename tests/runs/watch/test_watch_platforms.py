"""A platform watches a run by its own lines alone; homes are told apart."""

import json
import math
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from fedner.engines.flare.job_ends import note_begin
from fedner.errors import FednerError
from fedner.privacy.events import to_json
from fedner.runs.disclosure_record import RECORD, REFUSED, SENT
from fedner.runs.folder import SCORES, write_record
from fedner.runs.own_progress import OWN_PROGRESS, OwnProgress
from fedner.runs.reply_log import REPLIES, Sent
from fedner.runs.watch.event_files import EventFiles
from fedner.runs.watch.exporting import export
from fedner.runs.watch.opening import open_source
from fedner.runs.watch.own_lines import OwnLines
from fedner.runs.watch.platforms import folder_source, home_source
from fedner.runs.watch.source import Source
from fedner.runs.watch.watcher import cost_all, read_all
from run_records import gain_of, platform_of
from watched_runs import append, begin_run, record_of, released, scores_near, study_of

NAME = "case-reports"


def sent(verb: str, round_: int, up: int = 0, down: int = 0, **facts: Any) -> dict[str, Any]:
    kind = "ScoreReport" if verb in ("evaluate", "finish") else "Update"
    return asdict(Sent("run-1", verb, round_, kind, up, down, **facts))


def write(path: Path, *lines: Mapping[str, Any]) -> None:
    with path.open("a") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a platform keeps of a simulation."""
    run = begin_run(tmp_path / "run", study_of())
    own = run / "platforms" / NAME
    own.mkdir(parents=True)
    return own


def rounds(first: int, last: int, **facts: Any) -> Iterator[dict[str, Any]]:
    return (sent("round", number, 1_000, 1_500, **facts) for number in range(first, last + 1))


def test_a_platform_sees_its_own_bytes_and_rounds(folder: Path) -> None:
    write(folder / REPLIES, sent("begin", 0), sent("load", 0), *rounds(1, 3))
    write(folder / REPLIES, sent("evaluate", 3, 0, 1_500), *rounds(4, 4))
    shown = read_all(open_source(folder))
    assert (shown.view, shown.platform, shown.round, shown.rounds) == ("platform", NAME, 4, 20)
    assert [each.name for each in shown.platforms] == [NAME]
    assert (shown.platforms[0].bytes_up, shown.platforms[0].bytes_down) == (4_000, 7_500)
    assert (shown.loss, shown.f1) == ((), ())


def noted(round_: int, run: str = "run-1", **values: float) -> dict[str, Any]:
    return {"run": run, "round": round_, **values}


def test_a_platform_sees_the_losses_and_scores_that_it_noted(folder: Path) -> None:
    write(folder / OWN_PROGRESS, *(noted(each, loss=1 / each) for each in (1, 2, 3)))
    write(folder / OWN_PROGRESS, noted(3, f1=0.25), noted(3, "another run", loss=9.0, f1=0.9))
    write(folder / REPLIES, *rounds(1, 3), sent("evaluate", 3, 0, 1_500))
    source = open_source(folder)
    shown = read_all(source)
    assert [(each.name, [point.mean for point in each.points]) for each in shown.loss] == [
        (NAME, [1.0, 0.5, 1 / 3])
    ]
    assert (shown.platforms[0].f1, shown.platforms[0].f1_round) == (0.25, 3)
    # It goes on: the newest line was noted, but its reply has not been sent.
    write(folder / OWN_PROGRESS, noted(3, loss=0.3), noted(4, loss=0.2), noted(5, loss=0.1))
    write(folder / OWN_PROGRESS, noted(2, f1=0.5))
    write(folder / REPLIES, sent("load", 2), sent("evaluate", 2), *rounds(3, 4))
    shown = read_all(source)
    assert [point.last for point in shown.loss[0].points] == [1, 2, 3, 4]
    assert shown.platforms[0].loss == 0.2
    assert [point.last for point in shown.f1[0].points] == [3]


def test_a_loss_that_is_no_number_hides_nothing(folder: Path) -> None:
    """Training diverged: the round fails by name, and the run is still shown."""
    progress = OwnProgress(folder / OWN_PROGRESS)
    for round_, loss in enumerate((0.5, math.inf, math.nan), start=1):
        progress.note_loss("run-1", round_, loss)
    progress.close()
    write(folder / REPLIES, *rounds(1, 2), sent("round", 3, code="not-finite"))
    shown = read_all(open_source(folder))
    assert [point.last for point in shown.loss[0].points] == [1]
    assert (shown.round, len(shown.incidents)) == (2, 1)


def test_a_long_run_is_read_without_looking_at_all_of_it_in_every_round(folder: Path) -> None:
    """Losses are read ahead by megabytes; a round looks at its own and at those before."""
    num_rounds = 2_000
    write(folder / OWN_PROGRESS, *(noted(each, loss=0.5) for each in range(1, num_rounds + 1)))
    own, compared = OwnLines(folder, "run-1"), []

    class Round(int):
        """Notes what it is compared with."""

        def __ge__(self, other: int) -> bool:
            compared.append(other)
            return int(self) >= other

    assert [own.take("loss", Round(each)) for each in range(1, num_rounds + 1)] == [
        0.5
    ] * num_rounds
    assert len(compared) <= 3 * num_rounds


def test_curves_of_a_platform_without_notes_are_explained(folder: Path) -> None:
    write(folder / REPLIES, *rounds(1, 3))
    assert read_all(open_source(folder)).notes["loss"].startswith("No round has been trained here")


def test_a_platforms_own_curves_are_written_for_tensorboard(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    write(folder / OWN_PROGRESS, noted(1, loss=0.5), noted(1, f1=0.25))
    write(folder / REPLIES, *rounds(1, 1), sent("evaluate", 1))
    files = EventFiles(tmp_path / "tb")
    export(folder_source(folder, files), files, once=True)
    files.close()
    read = EventAccumulator(str(tmp_path / "tb" / "run-1"))
    read.Reload()
    held = {tag: [each.value for each in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
    assert (held[f"loss/{NAME}"], held[f"strict_f1/{NAME}"]) == ([0.5], [0.25])


@pytest.mark.parametrize("line", [{"round": 1, "loss": 1.0}, {"run": "run-1", "round": "1"},
                                  {"run": "run-1", "round": 1, "loss": "high"}])  # fmt: skip
def test_a_damaged_note_is_named(folder: Path, line: dict[str, Any]) -> None:
    write(folder / OWN_PROGRESS, line)
    write(folder / REPLIES, *rounds(1, 1))
    with pytest.raises(
        FednerError, match=r"own-progress\.jsonl has a line that describes no round"
    ):
        read_all(open_source(folder))


def test_a_round_that_is_taken_again_is_sent_again_and_charged_once(folder: Path) -> None:
    pytest.importorskip("dp_accounting")
    from fedner.privacy.accountant import rdp_epsilon

    privacy = {"mechanism": "unit-local", "noise_multiplier": 1.0, "simulation": True,
               "accountant": "rdp"}  # fmt: skip
    begin_run(folder.parent.parent, study_of(privacy=privacy))
    event = {"release": to_json(released(NAME))}
    lines = [*rounds(1, 4, event=event), sent("load", 2), *rounds(3, 5, event=event)]
    write(folder / REPLIES, *lines)
    source = open_source(folder)
    read_all(source)
    cost_all(source)
    shown = source.snapshot()
    assert shown.round == 5
    assert shown.platforms[0].bytes_up == 7_000
    assert [point.last for point in shown.traffic[0].points] == [1, 2, 3, 4, 5]
    assert shown.platforms[0].epsilon == rdp_epsilon({(1.0, 0.25): 5}, 1e-5)


def test_what_a_platform_could_not_do_is_named(folder: Path) -> None:
    write(folder / REPLIES, *rounds(1, 1), sent("round", 2, code="disk-full"))
    shown = read_all(open_source(folder))
    assert shown.round == 1
    assert [(each.round, each.why) for each in shown.incidents] == [(2, "its disk is full")]


def test_a_finished_platform_shows_its_own_scores_and_verdict(folder: Path) -> None:
    write(folder / REPLIES, *rounds(1, 20), sent("finish", 20, 0, 1_500))
    own = platform_of(gain_of("yes", 0.05, 0.01, 0.1),
                      local_only=scores_near(0.4), federated=scores_near(0.5))  # fmt: skip
    write_record(folder, SCORES, own.as_dict())
    shown = read_all(open_source(folder))
    assert shown.standing.phase == "done"
    assert shown.verdict[0].startswith("Joining helped case-reports")
    assert shown.platforms[0].final["federated"] == scores_near(0.5).strict_micro.f1
    assert shown.platforms[0].bytes_down == 21 * 1_500


def home(path: Path) -> Path:
    """A platform's home whose approval is not at hand."""
    (path / "runs").mkdir(parents=True)
    write_record(path, "platform.json", {"fedner": "home", "name": NAME})
    return path


def line(run: str, verb: str, round_: int, second: int, **facts: Any) -> dict[str, Any]:
    stated = asdict(Sent(run, verb, round_, "Update", 1_000, 1_500))
    time = f"2026-11-18T10:00:{second:02}.000+00:00"
    return stated | {"entry": SENT, "study": "s", "time": time} | facts


def test_a_home_follows_its_newest_run_with_the_times_of_its_record(tmp_path: Path) -> None:
    place = home(tmp_path / "home")
    lines = [line("run-1", "round", 1, 0), *(line("run-2", "round", n, 2 * n) for n in (1, 2, 3))]
    write(place / RECORD, *lines)
    source = open_source(place)
    shown = read_all(source)
    assert (shown.run, shown.round, shown.seconds) == ("run-2", 3, 4.0)
    assert shown.standing.phase == "waiting"
    write(place / RECORD, line("run-3", "round", 1, 50))
    shown = read_all(source)
    assert (shown.run, shown.round, shown.platforms[0].bytes_up) == ("run-3", 1, 1_000)
    assert read_all(home_source(place, "run-1")).round == 1


def test_a_home_says_why_it_refused_a_job(tmp_path: Path) -> None:
    place = home(tmp_path / "home")
    codes = "policy-rounds, policy-noise"
    write(place / RECORD, line("run-1", "", 0, 0, entry=REFUSED, code=codes))
    standing = read_all(open_source(place)).standing
    assert standing.phase == "refused"
    assert standing.words.startswith("its policy allows fewer rounds; its policy does not accept")


def test_a_home_that_was_asked_nothing_waits(tmp_path: Path) -> None:
    shown = read_all(open_source(home(tmp_path / "home")))
    assert (shown.standing.phase, shown.run) == ("waiting", "")


def server_home(path: Path) -> Path:
    (path / "runs").mkdir(parents=True)
    write_record(path, "server.json", {"fedner": "home"})
    return path


def test_a_server_follows_its_newest_run(tmp_path: Path) -> None:
    place = server_home(tmp_path / "server")
    source = open_source(place)
    assert "no run yet" in read_all(source).standing.words
    for number, run in enumerate(("b-first", "a-second"), start=1):
        folder = begin_run(place / "runs" / run, study_of(), is_local=False)
        append(folder, *(record_of(each) for each in range(1, number + 1)))
        note_begin(folder)
        assert (read_all(source).run, source.snapshot().round) == (run, number)
    assert read_all(open_source(place, "b-first")).round == 1
    with pytest.raises(FednerError, match="has no run 'c'"):
        open_source(place, "c")


@pytest.mark.parametrize("is_there", [True, False])
def test_what_is_no_run_is_refused_with_what_to_name(tmp_path: Path, is_there: bool) -> None:
    path = tmp_path / "nothing"
    if is_there:
        path.mkdir()
    with pytest.raises(FednerError, match=r"holds no run|no such folder") as caught:
        open_source(path)
    assert "home of a server" in caught.value.hint


def test_a_run_folder_has_no_other_runs(folder: Path) -> None:
    with pytest.raises(FednerError, match="so it has no run 'x'"):
        open_source(folder.parent.parent, "x")


def test_the_folder_of_a_run_in_a_home_is_watched_with_its_record(tmp_path: Path) -> None:
    place = home(tmp_path / "home")
    write(place / RECORD, line("run-1", "round", 1, 0), line("run-2", "round", 1, 9))
    (place / "runs" / "run-1").mkdir()
    write(place / "runs" / "run-1" / REPLIES, sent("round", 1))
    shown = read_all(open_source(place / "runs" / "run-1"))
    assert (shown.run, shown.round, shown.platforms[0].bytes_up) == ("run-1", 1, 1_000)


def test_a_line_that_is_no_reply_is_named(folder: Path) -> None:
    write(folder / REPLIES, {"run": 3})
    source = open_source(folder)
    for _ in range(2):
        with pytest.raises(FednerError, match="describes no reply"):
            read_all(source)


def test_a_record_that_was_put_back_is_read_anew(folder: Path) -> None:
    write(folder / REPLIES, *rounds(1, 5))
    source: Source = open_source(folder)
    assert read_all(source).round == 5
    shutil.copy(folder / REPLIES, folder / "older")
    older = (folder / "older").read_bytes().splitlines(keepends=True)[:2]
    (folder / "older").write_bytes(b"".join(older))
    (folder / "older").replace(folder / REPLIES)
    assert (read_all(source).round, source.snapshot().platforms[0].bytes_up) == (2, 2_000)
