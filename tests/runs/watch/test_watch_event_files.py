"""Event files are read back by TensorBoard itself, also of a run that went on from earlier."""

from pathlib import Path

import pytest

from fedner.runs.watch.exporting import export
from fedner.runs.watch.folders import local_source
from watched_runs import (
    append,
    begin_run,
    missing_in,
    record_of,
    refused_in,
    resume_after,
    study_of,
)

pytest.importorskip("tensorboard")
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fedner.runs.watch.event_files import EventFiles


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    read = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    read.Reload()
    return {
        tag: [(each.step, each.value) for each in read.Scalars(tag)]
        for tag in read.Tags()["scalars"]
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return begin_run(tmp_path / "my run", study_of())


def exported(folder: Path, place: Path) -> dict[str, list[tuple[int, float]]]:
    files = EventFiles(place)
    export(local_source(folder, files), files, once=True)
    files.close()
    return scalars(place / folder.name)


def test_tensorboard_reads_every_round_of_every_platform(folder: Path, tmp_path: Path) -> None:
    records = [record_of(number) for number in range(1, 11)]
    records[3] = missing_in(records[3], "social-posts")
    records[4] = refused_in(refused_in(records[4], "forum-posts"), "forum-posts")
    records[6] = missing_in(records[6], "social-posts")
    append(folder, *records)
    found = exported(folder, tmp_path / "tb")
    assert found["loss/case-reports"] == [
        (each.round, pytest.approx(each.losses["case-reports"])) for each in records
    ]
    assert found["loss/mean of all"][-1] == (10, pytest.approx(records[-1].loss))
    assert [step for step, _ in found["strict_f1/forum-posts"]] == [5, 10]
    assert found["strict_f1/forum-posts"][1][1] == pytest.approx(
        records[9].scores["forum-posts"].strict_micro.f1
    )
    assert found["bytes_up/social-posts"][0] == (1, 1_000.0)
    assert found["bytes_down/social-posts"][0] == (1, 1_500.0)
    assert found["seconds_per_round"][4] == (5, 0.75)
    assert found["missing/social-posts"] == [(4, 1.0), (7, 2.0)]
    assert found["refused/forum-posts"] == [(5, 1.0)]


def test_a_second_export_replaces_the_first(folder: Path, tmp_path: Path) -> None:
    append(folder, record_of(1))
    (tmp_path / "tb" / folder.name).mkdir(parents=True)
    foreign = tmp_path / "tb" / folder.name / "events.out.tfevents.1.other"
    foreign.write_bytes(b"")
    exported(folder, tmp_path / "tb")
    append(folder, record_of(2))
    found = exported(folder, tmp_path / "tb")
    assert [step for step, _ in found["seconds_per_round"]] == [1, 2]
    assert foreign.exists()
    assert len(list(foreign.parent.iterdir())) == 2


def test_rounds_that_are_taken_again_take_the_place_of_the_first(
    folder: Path, tmp_path: Path
) -> None:
    files = EventFiles(tmp_path / "tb")
    source = local_source(folder, files)
    append(folder, *(record_of(number) for number in range(1, 7)))
    export(source, files, once=True)
    resume_after(folder, 3)
    append(folder, record_of(4, loss=99.0))
    export(source, files, once=True)
    files.close()
    found = scalars(tmp_path / "tb" / folder.name)
    assert [step for step, _ in found["seconds_per_round"]] == [1, 2, 3, 4]
    assert found["loss/mean of all"][-1] == (4, 99.0)
