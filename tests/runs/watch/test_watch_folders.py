"""A run's folder is watched: its rounds, how far it is, and what it came to."""

from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.federated.folder_lock import is_held
from fedner.federated.run import RECORD
from fedner.runs.folder import AT_WORK, PRIVACY, SCORES, write_record
from fedner.runs.watch.folders import FolderSource, local_source, server_source
from fedner.runs.watch.snapshot import Snapshot
from fedner.runs.watch.tallies import MEAN, points_for
from fedner.runs.watch.watcher import cost_all, read_all
from run_records import gain_of, platform_of, platform_spent, privacy_spent, run_scores
from watched_runs import (
    GONE,
    NAMES,
    append,
    begin_run,
    end_job,
    held,
    missing_in,
    record_of,
    refused_in,
    released,
    resume_after,
    scores_near,
    study_of,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return begin_run(tmp_path / "run", study_of())


def shown_of(source: FolderSource) -> Snapshot:
    return read_all(source)


def test_what_rounds_say_is_shown_by_platform(folder: Path) -> None:
    records = [record_of(number) for number in range(1, 11)]
    records[6] = missing_in(records[6], "social-posts")
    records[7] = refused_in(records[7], "forum-posts")
    append(folder, *records)
    shown = shown_of(local_source(folder))
    assert (shown.title, shown.round, shown.rounds) == ("watched", 10, 20)
    assert shown.seconds == pytest.approx(5.5)
    assert [each.name for each in shown.loss] == [MEAN, *NAMES]
    assert [point.mean for point in shown.loss[1].points] == [
        each.losses["case-reports"] for each in records
    ]
    assert [(point.last, point.mean) for point in shown.f1[0].points] == [
        (number, records[number - 1].scores["case-reports"].strict_micro.f1) for number in (5, 10)
    ]
    assert [each.points[-1].mean for each in shown.traffic] == [30_000.0, 45_000.0]
    rows = {each.name: each for each in shown.platforms}
    assert (rows["forum-posts"].refused, rows["social-posts"].missing) == (1, 1)
    assert (rows["case-reports"].bytes_up, rows["case-reports"].bytes_down) == (10_000, 15_000)
    assert rows["social-posts"].loss == records[-1].losses["social-posts"]
    assert [(each.round, each.platform, each.kind, each.why) for each in shown.incidents] == [
        (8, "forum-posts", "refused", "its norm is absurd"),
        (7, "social-posts", "no answer", GONE),
    ]
    marks = {each.name: ([p.last for p in each.refused], [p.last for p in each.missing])
             for each in shown.marks}  # fmt: skip
    assert marks == {"case-reports": ([], []), "forum-posts": ([8], []), "social-posts": ([], [7])}


def test_a_run_is_read_as_it_grows_like_one_that_was_there(folder: Path) -> None:
    growing = local_source(folder)
    for number in range(1, 31):
        append(folder, record_of(number))
        if number % 7 == 0:
            growing.look()
    assert shown_of(growing) == shown_of(local_source(folder))


def test_a_run_that_goes_on_from_an_earlier_round_is_read_anew(folder: Path) -> None:
    append(folder, *(record_of(number) for number in range(1, 10)))
    source = local_source(folder)
    assert shown_of(source).round == 9
    resume_after(folder, 6)
    assert shown_of(source).round == 6
    append(folder, record_of(7))
    shown = shown_of(source)
    assert (shown.round, shown.loss[0].points[-1].last) == (7, 7)
    assert shown.platforms[0].bytes_up == 7_000


def test_a_half_written_round_is_waited_for(folder: Path) -> None:
    append(folder, record_of(1))
    source = local_source(folder)
    line = record_of(2).line()
    with (folder / RECORD).open("ab") as file:
        file.write(line[:40])
        file.flush()
        assert shown_of(source).round == 1
        file.write(line[40:])
    assert shown_of(source).round == 2


def test_a_damaged_round_is_named(folder: Path) -> None:
    append(folder, record_of(1), record_of(3))
    source = local_source(folder)
    for _ in range(2):  # it stays damaged, also when more was written
        with pytest.raises(FednerError, match="line 2 has round 3; expected 2"):
            read_all(source)
        append(folder, record_of(2))
    resume_after(folder, 1)
    append(folder, record_of(2))
    assert read_all(source).round == 2


def test_curves_of_many_platforms_have_fewer_points() -> None:
    assert [points_for(each) for each in (0, 3, 30, 1000)] == [400, 400, 200, 64]


def test_whoever_works_in_a_folder_is_seen_and_not_disturbed(tmp_path: Path) -> None:
    assert is_held(tmp_path) is False
    with held(tmp_path):
        assert is_held(tmp_path) is True
        assert is_held(tmp_path, AT_WORK) is False
    assert is_held(tmp_path) is False


def test_a_local_run_prepares_runs_finishes_and_is_done(folder: Path) -> None:
    source = local_source(folder)
    assert shown_of(source).standing.phase == "stopped"
    assert "before its first round" in shown_of(source).standing.words
    baselines = study_of(training={"rounds": 20, "baselines": ["local-only"]})
    with held(folder, AT_WORK):
        assert shown_of(source).standing.words == "the first round"
        begin_run(folder, baselines)
        said = shown_of(source).standing
        assert (said.phase, said.words) == ("preparing", "local-only baselines: 0 of 3 are trained")
        append(folder, *(record_of(number) for number in range(1, 5)))
        running = shown_of(source)
        assert running.standing.phase == "running"
        assert running.seconds_left == pytest.approx(0.5 * 16)
        append(folder, *(record_of(number) for number in range(5, 21)))
        finishing = shown_of(source)
        assert (finishing.standing.phase, finishing.seconds_left) == ("finishing", None)
    stopped = shown_of(source).standing
    assert (stopped.phase, stopped.is_over) == ("stopped", True)
    assert f"fedner train {folder} --resume" in stopped.words


def test_a_finished_run_tells_its_verdict_and_what_was_spent(folder: Path) -> None:
    append(folder, *(record_of(number) for number in range(1, 21)))
    one = platform_of(gain_of("yes", 0.05, 0.01, 0.1),
                      local_only=scores_near(0.4), federated=scores_near(0.5))  # fmt: skip
    write_record(folder, SCORES, run_scores(**{"case-reports": one}).as_dict())
    spent = privacy_spent(**{"case-reports": platform_spent()})
    write_record(folder, PRIVACY, spent.as_dict())
    shown = shown_of(local_source(folder))
    assert shown.standing.phase == "done"
    assert shown.verdict[0].startswith("Joining helped case-reports (+5.0 points")
    assert shown.references == {"case-reports": scores_near(0.4).strict_micro.f1}
    row = shown.platforms[0]
    assert row.final["federated"] == scores_near(0.5).strict_micro.f1
    assert (row.in_all, row.granted) == (17.123, 20.0)


@pytest.fixture
def server(tmp_path: Path) -> Path:
    folder = begin_run(tmp_path / "run-1", study_of(), is_local=False)
    append(folder, *(record_of(number) for number in range(1, 4)))
    return folder


def test_a_server_waits_for_a_platform_by_name(server: Path) -> None:
    end_job(server, "fault", missing={"social-posts": "platform-gone"})
    shown = shown_of(server_source(server))
    assert shown.view == "coordinator"
    assert (shown.standing.phase, shown.standing.waiting_for) == ("waiting", ("social-posts",))
    assert [each.name for each in shown.platforms if each.is_missing] == ["social-posts"]
    assert not shown.standing.is_over
    assert shown.seconds_left is None


def test_a_refused_run_says_who_refused_and_why(server: Path) -> None:
    words = "forum-posts: its policy allows fewer rounds"
    end_job(server, "refused", missing={"forum-posts": "policy-rounds"}, words=words)
    standing = shown_of(server_source(server)).standing
    assert (standing.phase, standing.words) == ("refused", words)


@pytest.mark.parametrize(
    ("outcome", "phase"), [("done", "done"), ("failed", "failed"), ("stopped", "stopped")]
)
def test_how_the_last_job_ended_is_how_a_run_stands(server: Path, outcome: str, phase: str) -> None:
    end_job(server, outcome)
    assert shown_of(server_source(server)).standing.phase == phase


def test_a_job_that_was_killed_leaves_no_line_and_is_interrupted(server: Path) -> None:
    end_job(server, "fault", missing={"social-posts": "platform-gone"})
    (server / "job_began").write_text("3.0")
    source = server_source(server)
    assert shown_of(source).standing.phase == "interrupted"
    with held(server):
        assert shown_of(source).standing.phase == "running"


def test_epsilon_grows_with_what_was_released_and_is_that_of_the_accountant(
    tmp_path: Path,
) -> None:
    pytest.importorskip("dp_accounting")
    from fedner.privacy.accountant import rdp_epsilon

    privacy = {"mechanism": "unit-local", "noise_multiplier": 1.0, "simulation": True,
               "accountant": "rdp"}  # fmt: skip
    folder = begin_run(tmp_path / "run", study_of(privacy=privacy))
    events = {name: released(name) for name in NAMES}
    for number in range(1, 41):
        append(folder, record_of(number, loss=None, losses={}, scores={}, events=events))
    source = local_source(folder)
    read_all(source)
    cost_all(source, newest_alone=True)
    newest = source.snapshot()
    spent = rdp_epsilon({(1.0, 0.25): 40}, 1e-5)
    assert [each.epsilon for each in newest.platforms] == [spent] * 3
    cost_all(source)
    shown = source.snapshot()
    curve = shown.epsilon[0].points
    assert curve[-1].mean == spent
    assert [each.mean for each in curve] == sorted(each.mean for each in curve)
    assert len(curve) <= 24
    rounds = {each.last: each.mean for each in curve}
    assert rounds[20] == rdp_epsilon({(1.0, 0.25): 20}, 1e-5)
    assert shown.privacy is not None
    assert (shown.privacy.mechanism, shown.privacy.is_simulation) == ("unit-local", True)
