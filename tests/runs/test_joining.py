"""Joining later: what is received, tried, kept and measured; what is never sent or written."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from joining_options import LATE, QUICK, joined, late

from fedner.corpus.synthetic import generate
from fedner.corpus.writers.jsonl import write_jsonl
from fedner.errors import FednerError
from fedner.experiments.joining import study
from fedner.inference.predict import Predictor
from fedner.models.averaged import AveragedTagger, chain_of
from fedner.models.checkpoint import load_tagger
from fedner.models.features import collate, select
from fedner.runs.folder import RunFolder
from fedner.runs.joining import choice as choice_module
from fedner.runs.joining import cross_validation
from fedner.runs.joining import join as join_module
from fedner.runs.joining.candidates import ARMS, Setting, grid, schedule, training_of
from fedner.runs.joining.choice import METHODS, choose
from fedner.runs.joining.cross_validation import fold_jobs, jobs_of, run_jobs, sentence_counts
from fedner.runs.joining.curve import curve_jobs, nested_parts
from fedner.runs.joining.jobs import Found, Job, run_job, trained
from fedner.runs.joining.newcomer import Newcomer, described, newcomer, read_data
from fedner.runs.joining.received import open_received, shared_weights
from fedner.runs.joining.record import RECEIVED
from fedner.runs.joining.store import UNFINISHED, Store
from fedner.runs.outcome import outcome_of
from fedner.runs.simulation import train_run
from fedner.scoring import Counts
from fedner.settings import Settings, SettingsError
from fedner.training import Evaluation

LEARNS = Setting(2e-2, 25)


def all_files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def own(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Newcomer:
    data = read_data(LATE, 1, has_test=True)
    types = described(data.labels, {}, {})
    cache = tmp_path_factory.mktemp("cache")
    return newcomer(open_received(finished), data, "sentence", types, 1, cache)


@pytest.fixture(scope="module")
def done(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished joining."""
    folder = tmp_path_factory.mktemp("joined") / "late"
    joined(finished, folder)
    return folder


def test_it_receives_and_writes_nothing_where_it_received_from(
    finished: Path, tmp_path: Path
) -> None:
    before = all_files(finished)
    found, kept = joined(finished, tmp_path / "late")
    assert all_files(finished) == before, "the run is read, never written"
    assert found.as_dict()["sent"] == "nothing"
    assert not (tmp_path / "late" / UNFINISHED).exists()
    assert os.name != "posix" or (tmp_path / "late").stat().st_mode & 0o077 == 0
    record = json.loads((tmp_path / "late" / "joining.json").read_text())
    assert record == json.loads(json.dumps(found.as_dict()))
    loaded = load_tagger(tmp_path / "late")
    assert loaded.facts["joining"]["kept"] == found.kept
    text = "Took aspirin, got a terrible headache and nausea."
    assert Predictor.of(loaded).predict(text) == Predictor.of(kept).predict(text)


def test_the_joined_arm_begins_with_the_received_weights(finished: Path, own: Newcomer) -> None:
    shared = shared_weights(RunFolder(finished))
    weights = dict(own.tagger("joined").named_parameters())
    assert shared
    assert all(torch.equal(weights[name], shared[name]) for name in shared)
    for arm in ("described", "free"):
        fresh = dict(own.tagger(arm).named_parameters())
        moved = [name for name in shared if not torch.equal(fresh[name], shared[name])]
        assert moved, f"{arm} must have nothing of the run"
        assert own.recipe(arm).head == arm


def test_the_local_arms_never_depend_on_what_was_received(own: Newcomer) -> None:
    """Attack: other received weights; a local-only candidate must come to the same bits."""
    other = {name: each + 1 for name, each in own.received.weights.items()}
    changed = replace(own, received=replace(own.received, weights=other))
    for arm in ARMS:
        job = Job(arm, Setting(1e-3, 1), "fold-1", own.data.train, own.data.test)
        one, two = run_job(own, job), run_job(changed, job)
        assert torch.equal(one.emissions_TK, two.emissions_TK) == (arm != "joined")


def test_folds_cover_the_training_part_once_and_never_touch_the_test_part(own: Newcomer) -> None:
    jobs = fold_jobs(own, QUICK)
    assert len(jobs) == 3 * sum(map(len, QUICK.values()))
    for arm, settings in QUICK.items():
        for setting in settings:
            of_one = jobs_of(jobs, arm, setting)
            held = [at for job in of_one for at in job.held]
            assert sorted(held) == sorted(own.data.train)
            for job in of_one:
                assert not set(job.held) & set(job.train)
                assert not set(own.data.test) & {*job.held, *job.train}


def test_folds_keep_patients_together(tmp_path: Path, finished: Path) -> None:
    path = tmp_path / "ward.jsonl"
    lines = ['{"fedner": "corpus", "version": 1, "name": "ward", "labels": ["Drug"]}']
    lines += [
        json.dumps({"id": str(n), "text": "took aspirin", "patient": str(n % 8),
                    "spans": [{"start": 5, "end": 12, "label": "Drug"}]})
        for n in range(40)
    ]  # fmt: skip
    path.write_text("\n".join(lines))
    entry = late(data=str(path), split={"by": "patient", "test": 0.25})
    data = read_data(entry, 1, has_test=True)
    own = newcomer(open_received(finished), data, "patient", {"Drug": "Drug"}, 1, tmp_path)
    for job in fold_jobs(own, QUICK):
        patients = [{data.sentences[at].patient for at in part} for part in (job.held, job.train)]
        assert not patients[0] & patients[1]
    for part in nested_parts(own)[:-1]:
        inside = {data.sentences[at].patient for at in part}
        outside = {data.sentences[at].patient for at in set(data.train) - set(part)}
        assert not inside & outside


def test_parts_of_the_curve_are_nested(own: Newcomer) -> None:
    parts = nested_parts(own)
    assert [len(each) for each in parts] == [8, 16, 32]
    assert all(set(one) < set(other) for one, other in pairwise(parts))


def test_scores_from_stored_emissions_are_those_of_the_tagger(
    own: Newcomer, tmp_path: Path
) -> None:
    """What is kept of a training says the same as the tagger itself, arm by arm."""
    store = Store(tmp_path / "s", own.digest)
    for arm in ARMS:
        job = Job(arm, Setting(5e-3, 4), "fold-1", own.data.train, own.data.test)
        store.write(job, run_job(own, job))
        part = Evaluation(select(own.corpus, own.data.test), own.data.test_sentences, own.space)
        counts = sum(sentence_counts(own, job.held, [store.read(job)]), Counts())
        assert counts == part.scores(trained(own, job)).strict_micro


def test_the_average_is_judged_as_it_is_kept(own: Newcomer) -> None:
    jobs = [Job(arm, LEARNS, "fold-1", own.data.train, own.data.test) for arm in ARMS[1:]]
    found = [run_job(own, job) for job in jobs]
    taggers = [trained(own, job) for job in jobs]
    recipes = [own.recipe(job.arm) for job in jobs]
    mean = AveragedTagger(taggers, recipes, own.space)
    part = Evaluation(select(own.corpus, own.data.test), own.data.test_sentences, own.space)
    counts = sum(sentence_counts(own, own.data.test, found), Counts())
    assert counts == part.scores(mean).strict_micro
    assert counts.tp > 0, "nothing was learned: the test would show nothing"
    alone = [sum(sentence_counts(own, own.data.test, [each]), Counts()) for each in found]
    assert counts not in alone, "the mean is neither of its members"


def made_up(own: Newcomer, job: Job, sure_of: Callable[[int], bool]) -> Found:
    """Return a result that is right, and sure, on some sentences, and finds nothing elsewhere."""
    rows = []
    for at in job.held:
        tags_L = collate(own.corpus, [at]).gold_tags[0]
        right_LK = torch.nn.functional.one_hot(tags_L, len(own.space.tags)) * 10.0
        nothing_LK = torch.zeros_like(right_LK)
        nothing_LK[:, 0] = 1.0
        rows.append(right_LK if sure_of(at) else nothing_LK)
    chain = chain_of(own.tagger("free").decoder)
    return Found(torch.cat(rows), chain)


@pytest.mark.parametrize(
    ("right", "arm", "kept"),
    [
        ({"joined": "all", "described": "some", "free": "none"}, "described", "joined"),
        ({"joined": "some", "described": "all", "free": "none"}, "described", "local-only"),
        ({"joined": "some", "described": "none", "free": "all"}, "free", "local-only"),
        ({"joined": "some", "described": "none", "free": "others"}, "free", "average"),
        ({"joined": "some", "described": "others", "free": "none"}, "described", "average"),
        ({"joined": "all", "described": "all", "free": "all"}, "described", "joined"),
    ],
)
def test_what_is_best_on_the_folds_is_kept(
    own: Newcomer, tmp_path: Path, right: dict[str, str], arm: str, kept: str
) -> None:
    knows = {
        "all": lambda _: True,
        "some": lambda at: at % 2 == 0,
        "others": lambda at: at % 2 == 1,
        "none": lambda _: False,
    }
    tried = {each: (Setting(1e-3, 1),) for each in ARMS}
    jobs, store = fold_jobs(own, tried), Store(tmp_path / "s", own.digest)
    for job in jobs:
        store.write(job, made_up(own, job, knows[right[job.arm]]))
    choice = choose(own, tried, jobs, store)
    assert (choice.local.arm, choice.kept) == (arm, kept)
    assert choice.selection_f1[choice.kept] == 1.0
    assert [each.arm for each in choice.members] == {
        "joined": ["joined"], "local-only": [arm], "average": ["joined", arm]
    }[kept]  # fmt: skip


def test_what_is_kept_is_what_was_tested(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tagger on disk, read back and scored again, comes to the result that was reported."""
    monkeypatch.setattr(join_module, "clear", lambda _: None)  # train once for all methods
    data = read_data(LATE, 1, has_test=True)
    seen = []
    for method in METHODS:
        monkeypatch.setattr(choice_module, "best_method", lambda _, chosen=method: chosen)
        found, _ = joined(finished, tmp_path / "late", grid=dict.fromkeys(ARMS, (LEARNS,)))
        predicted = Predictor.load(tmp_path / "late").predict_sentences(data.test_sentences)
        again = outcome_of(data, [[entity for entity, _ in each] for each in predicted], "sentence")
        assert found.kept == method
        assert found.result is not None
        assert again == found.result.outcome
        assert again.scores.strict_micro.tp > 0, "nothing was learned: nothing would show"
        assert again not in seen, "every method is a tagger of its own"
        seen.append(again)


def test_the_choice_is_the_best_of_pooled_counts(own: Newcomer, tmp_path: Path) -> None:
    tried = {arm: (Setting(1e-4, 1), Setting(5e-3, 6)) for arm in ARMS}
    jobs, store = fold_jobs(own, tried), Store(tmp_path / "s", own.digest)
    run_jobs(own, jobs, store, 1, lambda *_: None)
    choice = choose(own, tried, jobs, store)
    scores = {(each.arm, each.setting): each.selection_f1 for each in choice.candidates}
    assert len(scores) == 6
    for (arm, setting), f1 in scores.items():
        counts = [sentence_counts(own, job.held, [store.read(job)])
                  for job in jobs_of(jobs, arm, setting)]  # fmt: skip
        assert f1 == sum((one for fold in counts for one in fold), Counts()).f1
    assert choice.joined.selection_f1 == max(
        f1 for (arm, _), f1 in scores.items() if arm == "joined"
    )
    assert choice.local.selection_f1 == max(
        f1 for (arm, _), f1 in scores.items() if arm != "joined"
    )
    assert choice.selection_f1[choice.kept] == max(choice.selection_f1.values())
    assert max(scores.values()) > 0, "nothing was learned: the test would show nothing"


def test_a_candidate_that_diverges_finds_nothing_and_is_not_kept(
    own: Newcomer, tmp_path: Path
) -> None:
    wild = Setting(1e30, 3)
    tried = {arm: (wild, Setting(5e-3, 6)) for arm in ARMS}
    jobs, store = fold_jobs(own, tried), Store(tmp_path / "s", own.digest)
    run_jobs(own, jobs, store, 1, lambda *_: None)
    choice = choose(own, tried, jobs, store)
    assert {each.selection_f1 for each in choice.candidates if each.setting == wild} == {0.0}
    assert wild not in (choice.joined.setting, choice.local.setting)
    kept = Job("free", wild, "test-all", own.data.train, own.data.test, keeps_weights=True)
    with pytest.raises(FednerError, match="the loss of epoch"):
        run_job(own, kept)


def test_trainings_side_by_side_come_to_the_same_bits(own: Newcomer, tmp_path: Path) -> None:
    jobs = fold_jobs(own, {arm: (Setting(1e-3, 1),) for arm in ARMS})
    told: list[int] = []
    stores = [Store(tmp_path / str(workers), own.digest) for workers in (1, 2)]
    for workers, store in zip((1, 2), stores, strict=True):
        run_jobs(own, jobs, store, workers, lambda done, *_: told.append(done))
    for job in jobs:
        one, other = (store.read(job) for store in stores)
        assert torch.equal(one.emissions_TK, other.emissions_TK)
    assert told[-1] == len(jobs)


def test_finished_trainings_are_not_trained_again(
    own: Newcomer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = fold_jobs(own, {"joined": (Setting(1e-3, 1),)})
    store = Store(tmp_path / "s", own.digest)
    run_jobs(own, jobs, store, 1, lambda *_: None)
    broken = store._path(jobs[0])
    broken.write_bytes(broken.read_bytes()[:-5])
    ran: list[str] = []
    run_jobs(own, jobs, store, 1, lambda _, __, name: ran.append(name))
    assert ran == ["", jobs[0].name], "only the harmed one is trained again"
    for changed in (
        replace(own, seed=2),
        replace(own, received=replace(own.received, digest="other")),
        replace(own, data=replace(own.data, sentences=own.data.sentences[::-1])),
    ):
        assert not any(Store(tmp_path / "s", changed.digest).has(job) for job in jobs)
    assert not store.has(replace(jobs[0], setting=Setting(1e-3, 2)))


KILLED = """
import sys
import time
from pathlib import Path
sys.path.insert(0, sys.argv[3])
import os, signal, torch
torch.set_num_threads(1)
from joining_options import joined
from fedner.runs.joining import store
write = store.Store.write
def killing(self, job, found):
    write(self, job, found)
    if len(list(self.folder.glob("*.safetensors"))) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
store.Store.write = killing
joined(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_killed_and_begun_again_gives_the_same_tagger(
    finished: Path, done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "late"
    here = str(Path(__file__).parent)
    stopped = subprocess.run(
        [sys.executable, "-c", KILLED, str(finished), str(out), here], check=False
    )
    assert stopped.returncode == -signal.SIGKILL
    assert len(list((out / UNFINISHED).glob("*.safetensors"))) == 5
    assert not (out / "model.json").exists()
    ran: list[str] = []
    real = cross_validation.run_job
    monkeypatch.setattr(
        cross_validation, "run_job", lambda own, job: (ran.append(job.name), real(own, job))[1]
    )
    joined(finished, out)
    assert len(ran) == 18 + 6 - 5
    assert (out / "joining.json").read_bytes() == (done / "joining.json").read_bytes()
    one, other = (load_tagger(each).tagger.state_dict() for each in (out, done))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_results_come_from_the_test_part_alone(done: Path) -> None:
    record = json.loads((done / "joining.json").read_text())
    assert record["test_sentences"] == 8
    assert set(record["results"]) == {"joined", "local-only", "average"}
    assert set(record["selection"]["methods"]) == {"joined", "local-only", "average"}
    assert "not a result" in record["selection"]["note"]
    assert [each["sentences"] for each in record["worth"]] == [8, 16, 32]


def test_without_a_test_part_no_result_is_claimed(finished: Path, tmp_path: Path) -> None:
    found, _ = joined(finished, tmp_path / "late", has_test=False)
    assert (found.num_train, found.num_test) == (40, 0)
    assert (found.results, found.worth, found.gain) == ({}, (), None)
    card = (tmp_path / "late" / "MODEL_CARD.md").read_text()
    assert "Nobody knows how good the tagger is" in card
    assert load_tagger(tmp_path / "late").space.labels == ("ADE", "Drug")


def test_a_test_file_of_its_own(finished: Path, tmp_path: Path) -> None:
    for name, seed in (("own", 1), ("test", 2)):
        write_jsonl(tmp_path / f"{name}.jsonl", generate("social-posts", 20, seed=seed))
    entry = late(
        data=str(tmp_path / "own.jsonl"), split={"test_data": str(tmp_path / "test.jsonl")}
    )
    data = read_data(entry, 1, has_test=True)
    assert (len(data.train), len(data.test)) == (20, 20)


def test_types_are_described_by_oneself_then_by_the_model_then_by_their_name() -> None:
    found = described(
        ("ADE", "Drug", "Dosage"), {"ADE": "mine"}, {"ADE": "theirs", "Drug": "a medicine"}
    )
    assert found == {"ADE": "mine", "Drug": "a medicine", "Dosage": "Dosage"}
    with pytest.raises(FednerError, match="no type 'Dose'") as caught:
        described(("Dosage",), {"Dose": "x"}, {})
    assert "Dosage" in caught.value.hint
    for wrong in ("two\nlines", "x" * 10_000, "\x1b[31m"):
        with pytest.raises(FednerError, match="in one line") as told:
            described(("Dosage",), {"Dosage": wrong}, {})
        assert "\x1b" not in told.value.message


def test_tags_that_a_run_shares_are_taken_over_by_name(
    tiny: Callable[..., Settings], tmp_path: Path
) -> None:
    train_run(tiny("partition.shared=everything", "training.rounds=2"), tmp_path / "run")
    received = open_received(tmp_path / "run")
    entry = late(labels=["Drug", "Gene"], label_map={"ADE": "Gene"})
    data = read_data(entry, 1, has_test=True)
    own = newcomer(received, data, "sentence", {"Drug": "", "Gene": ""}, 1, tmp_path)
    weights = dict(own.tagger("joined").named_parameters())
    fresh = dict(received.fresh(received.recipe, own.space, own.types, 1).named_parameters())
    for name, tags in (("emissions.weight", 1), ("decoder.transitions", 2)):
        for at, tag in enumerate(own.space.tags):
            mine, given = weights[name][at], received.weights[name]
            if tag in received.tags:
                theirs = given[received.tags.index(tag)]
                if tags == 2:
                    shared = [t for t in own.space.tags if t in received.tags]
                    mine = mine[[own.space.tags.index(t) for t in shared]]
                    theirs = theirs[[received.tags.index(t) for t in shared]]
                assert torch.equal(mine, theirs)
            else:
                assert torch.equal(mine, fresh[name][at]), "a type of its own begins afresh"


@pytest.mark.parametrize("inside", ["", "platforms/late"])
def test_nothing_is_written_into_what_was_received(finished: Path, inside: str) -> None:
    with pytest.raises(FednerError, match="never written"):
        joined(finished, finished / inside)


def test_a_folder_that_is_taken_is_refused(finished: Path, done: Path, tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="already there"):
        joined(finished, done)
    (tmp_path / "file").write_text("")
    with pytest.raises(FednerError, match="already there"):
        joined(finished, tmp_path / "file")


def test_a_tagger_with_a_free_head_is_refused(finished: Path, tmp_path: Path) -> None:
    folder = RunFolder(finished).tagger("case-reports", "federated")
    with pytest.raises(FednerError, match="has only the types"):
        joined(folder, tmp_path / "late")
    with pytest.raises(FednerError, match="neither a shared model nor a finished run"):
        joined(tmp_path, tmp_path.parent / "late")


def test_too_few_sentences_are_refused(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(FednerError, match=r"2 sentences to train on.*at least 3"):
        joined(finished, tmp_path / "late", late(num_sentences=3, split={"test": 0.4}))
    assert not (tmp_path / "late").exists()


@pytest.mark.parametrize("option", [{"epochs": 0}, {"workers": 0}])
def test_numbers_below_one_are_refused(
    finished: Path, tmp_path: Path, option: dict[str, int]
) -> None:
    with pytest.raises(FednerError, match="expected at least 1"):
        joined(finished, tmp_path / "late", **option)


def test_types_that_do_not_fit_are_told_before_anything_is_trained(
    finished: Path, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as caught:
        joined(finished, tmp_path / "late", late(labels=["Drugs"]))
    absent, strange = map(str, caught.value.problems)
    assert "--labels: found 'Drugs'" in absent
    assert "Did you mean 'Drug'?" in absent
    assert "--label-map ADE=." in strange
    assert not (tmp_path / "late").exists()


def test_the_schedule_is_shorter_for_more_sentences() -> None:
    found = {size: tuple(schedule(size)) for size in (25, 50, 51, 399, 400, 1_000, 1_001, 9_999)}
    assert found == {size: study.schedule(size) for size in found}
    assert found == {
        25: (40, 8), 50: (40, 8), 51: (20, 16), 399: (20, 16), 400: (20, 32), 1_000: (20, 32),
        1_001: (15, 64), 9_999: (15, 64),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("has_head", "measured"), [(True, study.JOINED_GRID), (False, study.FRESH_GRID)]
)
def test_the_settings_that_are_tried_are_those_that_the_study_measured(
    has_head: bool, measured: tuple[study.Setting, ...]
) -> None:
    tried = grid(100, has_head=has_head)
    rows = {arm: [(each.learning_rate, each.pull) for each in tried[arm]] for arm in ARMS}
    for arm, settings in (
        ("joined", measured),
        ("described", study.DESCRIBED_GRID),
        ("free", study.PUBLISHED_GRID),
    ):
        assert rows[arm] == [(each.learning_rate, each.pull) for each in settings]
        assert len(rows[arm]) == 6
    every = [each for settings in tried.values() for each in settings]
    assert {(each.epochs, each.batch_size) for each in every} == {(20, 16)}
    for settings in tried.values():
        assert len({each.label for each in settings}) == 6, "a file each"


def test_a_part_is_trained_as_long_as_is_usual_for_it_unless_epochs_are_given(
    own: Newcomer,
) -> None:
    usual = grid(100, has_head=True)["joined"][1]
    parts = curve_jobs(own, "joined", usual)
    assert [(each.setting.epochs, each.setting.batch_size) for each in parts] == [
        (40, 8), (40, 8), (20, 16)
    ]  # fmt: skip
    assert {(each.setting.learning_rate, each.setting.pull) for each in parts} == {(2e-3, 30)}
    given = grid(100, has_head=True, epochs=2)
    assert all(each.epochs == 2 for settings in given.values() for each in settings)
    assert {each.setting for each in curve_jobs(own, "free", given["free"][0])} == {
        given["free"][0]
    }


def test_a_pull_holds_the_joined_arm_to_what_was_received(own: Newcomer) -> None:
    first = dict(own.tagger("joined").named_parameters())
    ways = []
    for pull in (0.0, 100.0):
        job = Job("joined", Setting(5e-3, 6, pull), "fold-1", own.data.train, own.data.test)
        weights = dict(trained(own, job).named_parameters())
        shared = own.received.weights
        moved = [(weights[name] - first[name]).detach().square().sum() for name in shared]
        ways.append(float(torch.stack(moved).sum().sqrt()))
    assert ways[1] < 0.5 * ways[0]


def test_only_a_head_that_was_received_is_held_to_what_it_was(
    tiny: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A described head that begins afresh has no score as received, and the grid of fresh heads."""
    head = ('model.head="described"', "model.rank=4", "training.rounds=1")
    heads = {}
    monkeypatch.setattr(
        join_module, "grid", lambda _, **asked: heads.update(has=asked["has_head"]) or QUICK
    )
    for shared, has_head in (("encoder", False), ("everything", True)):
        run = tmp_path / shared
        train_run(tiny(*head, f'partition.shared="{shared}"'), run)
        found, _ = joined(run, tmp_path / f"late-{shared}", grid=None)
        assert heads == {"has": has_head}
        assert (RECEIVED in found.results) == has_head


def test_learning_rates_decay_to_zero_at_the_last_step(own: Newcomer) -> None:
    plan = training_of(Setting(1e-3, 4), own.recipe("joined"), 33)
    steps = 4 * -(-33 // plan.batch_size)
    assert plan.optimizer.decay_steps == steps
    assert plan.optimizer.learning_rate_at(steps) == 0.0
    assert plan.max_grad_norm == 5.0


ORPHANS = """
import os, sys, time
from pathlib import Path
from fedner.runs.side_by_side import side_by_side
def work(name, told):
    (Path(sys.argv[1]) / str(os.getpid())).touch()
    time.sleep(600)
side_by_side(work, {"a": 1, "b": 1}, 2, print)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes by /proc")
def test_no_process_outlives_one_that_was_killed(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ORPHANS, str(tmp_path)])
    deadline = time.monotonic() + 240
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    children = [int(each.name) for each in tmp_path.iterdir()]
    process.kill()
    process.wait()
    while any(is_running(each) for each in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(children) == 2
    assert not any(is_running(each) for each in children)


def is_running(process: int) -> bool:
    """Whether a process computes still; one that nobody waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
