"""The round loop: resuming, participation, refusals, and what is left on disk."""

import gc
import json
import multiprocessing
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from linear_platform import initial, linear_partition, random_platform

from fedner.engines.in_process import InProcess
from fedner.errors import FednerError
from fedner.federated.aggregate import RULES
from fedner.federated.algorithms import ALGORITHMS, algorithm_named
from fedner.federated.answering import answers
from fedner.federated.checkpoints import read_state, stored_rounds
from fedner.federated.folder_lock import held_by_this_process
from fedner.federated.messages import Failure, Order, Reply, Update
from fedner.federated.participation import Participation
from fedner.federated.record import RoundRecord
from fedner.federated.run import RECORD, RunRecord, RunSettings, run

NAMES = ["alpha", "beta", "gamma"]
SIZES = {"alpha": 12, "beta": 10, "gamma": 5}


def settings(rounds: int = 7, **changes: Any) -> RunSettings:
    return RunSettings("test", rounds, changes.pop("batch_size", 6), SIZES, **changes)


def start(
    name: str = "fedner",
    folder: Path | None = None,
    *,
    resume: bool = False,
    engine: Any = None,
    **changes: Any,
) -> RunRecord:
    algorithm = algorithm_named(name)
    if engine is None:
        engine = InProcess(answers(random_platform, algorithm, folder), NAMES)
    return run(
        algorithm, engine, initial(), settings(**changes), seed=7, folder=folder, resume=resume
    )


def same_weights(one: RunRecord, other: RunRecord) -> bool:
    return all(
        torch.equal(one.server.shared[key], other.server.shared[key]) for key in one.server.shared
    )


class Tampering:
    """An engine whose replies are altered on their way."""

    def __init__(self, alter: Any, **options: Any) -> None:
        self._engine = InProcess(
            answers(random_platform, algorithm_named("fedner")), NAMES, **options
        )
        self._alter = alter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        verb = next(iter(orders.values())).verb
        for reply in self._engine.ask(orders, timeout):
            yield self._alter(reply) if verb == "round" else reply


def spoilt(reply: Reply) -> Reply:
    if isinstance(reply, Update) and (reply.platform, reply.round) == ("beta", 2):
        bad = {name: tensor * float("nan") for name, tensor in reply.tensors.items()}
        return Update("beta", 2, linear_partition().shared_state({**bad, "private.c": bad}))
    return reply


def silent(reply: Reply) -> Reply:
    if (reply.platform, reply.round) == ("beta", 2):
        return Failure("beta", 2, "worker-died")
    return reply


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.parametrize("stop", [1, 4])
def test_resumed_equals_uninterrupted(name: str, stop: int, tmp_path: Path) -> None:
    options: dict[str, Any] = {"evaluate_every": 2, "checkpoint_every": 1}
    whole = start(name, tmp_path / "whole", **options)
    start(name, tmp_path / "parts", rounds=stop, **options)
    parts = start(name, tmp_path / "parts", resume=True, **options)
    assert parts.resumed_from == stop
    assert same_weights(whole, parts)
    for one, other in zip(whole.rounds, parts.rounds, strict=True):
        assert (one.round, one.loss, one.norms, one.losses) == (
            other.round,
            other.loss,
            other.norms,
            other.losses,
        )
    for platform in NAMES:
        ends = [
            read_state(tmp_path / part / "platforms" / platform, 7) for part in ("whole", "parts")
        ]
        assert ends[0][1] == ends[1][1]
        assert all(torch.equal(ends[0][0][key], ends[1][0][key]) for key in ends[0][0])


def test_resume_takes_the_newest_round_that_everybody_has(tmp_path: Path) -> None:
    whole = start(folder=tmp_path / "whole", checkpoint_every=1)
    folder = tmp_path / "parts"
    start(folder=folder, rounds=5, checkpoint_every=1)
    # As if the power had gone after two platforms had stored round 5, and in mid-line.
    (folder / "platforms" / "gamma" / "round-000005.safetensors").unlink()
    (folder / "server" / "round-000005.safetensors").unlink()
    with (folder / RECORD).open("ab") as record:
        record.write(b'{"round": 6, "sec')
    resumed = start(folder=folder, resume=True, checkpoint_every=1)
    assert resumed.resumed_from == 4
    assert same_weights(whole, resumed)
    lines = [json.loads(line) for line in (folder / RECORD).read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3, 4, 5, 6, 7]


def test_resume_without_a_checkpoint_begins_anew(tmp_path: Path) -> None:
    start(folder=tmp_path / "run", rounds=2)
    again = start(folder=tmp_path / "run", resume=True)
    assert again.resumed_from == 0
    assert same_weights(again, start())
    assert [each.round for each in again.rounds] == [1, 2, 3, 4, 5, 6, 7]


def test_a_finished_run_resumes_to_itself(tmp_path: Path) -> None:
    done = start(folder=tmp_path / "run", checkpoint_every=3)
    again = start(folder=tmp_path / "run", resume=True, checkpoint_every=3)
    assert again.resumed_from == 7
    assert same_weights(done, again)
    assert again.rounds == done.rounds


def test_what_is_on_disk_is_the_owners_and_the_last_two(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    start(folder=folder, checkpoint_every=2)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stored_rounds(folder / "server") == [6, 7]
    for platform in NAMES:
        assert stored_rounds(folder / "platforms" / platform) == [6, 7]
    for path in folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_server_and_platforms_store_their_own_parts_only(tmp_path: Path) -> None:
    start(folder=tmp_path / "run", checkpoint_every=7)
    server, _ = read_state(tmp_path / "run" / "server", 7)
    held, facts = read_state(tmp_path / "run" / "platforms" / "beta", 7)
    assert not [key for key in server if "private" in key]
    assert {key for key in held if key.startswith("private/")} == {"private/private.c"}
    assert not [key for key in held if "shared." in key]
    assert facts["last_round"] == 7


def test_a_folder_with_a_run_is_not_overwritten(tmp_path: Path) -> None:
    start(folder=tmp_path / "run", rounds=1)
    with pytest.raises(FednerError, match="already holds a run"):
        start(folder=tmp_path / "run")


def test_another_algorithm_cannot_take_over(tmp_path: Path) -> None:
    start("fedner", tmp_path / "run", checkpoint_every=1, rounds=2)
    with pytest.raises(FednerError, match="that of another algorithm"):
        start("scaffold", tmp_path / "run", checkpoint_every=1, resume=True)


def test_an_altered_checkpoint_or_record_is_refused(tmp_path: Path) -> None:
    start(folder=tmp_path / "run", checkpoint_every=1, rounds=3)
    record = tmp_path / "run" / RECORD
    whole = record.read_bytes()
    record.write_bytes(b"".join(whole.splitlines(keepends=True)[1:]))
    with pytest.raises(FednerError, match=r"rounds\.jsonl, line 1 has round 2"):
        start(folder=tmp_path / "run", checkpoint_every=1, resume=True)
    record.write_bytes(whole)
    state = tmp_path / "run" / "server" / "round-000003.safetensors"
    data = bytearray(state.read_bytes())
    data[-1] ^= 1
    state.write_bytes(bytes(data))
    with pytest.raises(FednerError):
        start(folder=tmp_path / "run", checkpoint_every=1, resume=True)


def test_the_record_of_a_round(tmp_path: Path) -> None:
    done = start(folder=tmp_path / "run", rounds=4, evaluate_every=3)
    lines = [json.loads(line) for line in (tmp_path / "run" / RECORD).read_text().splitlines()]
    assert [bool(line["scores"]) for line in lines] == [False, False, True, True]
    first = lines[0]
    assert first["bytes_up"] == {"alpha": 8, "beta": 8, "gamma": 8}
    assert first["bytes_down"] == {"alpha": 8, "beta": 8, "gamma": 8}
    mean = sum(SIZES[name] * first["losses"][name] for name in NAMES) / 27
    assert first["loss"] == pytest.approx(mean)
    assert first["seconds"] > 0
    assert set(lines[3]["scores"]) == set(NAMES)
    told = {name: each.as_dict() for name, each in done.rounds[3].scores.items()}
    assert told == lines[3]["scores"]


def test_a_spoilt_update_is_left_out_and_recorded() -> None:
    done = start(engine=Tampering(spoilt))
    refusal = done.rounds[1].refusals[0]
    assert (refusal.platform, refusal.code) == ("beta", "not-finite")
    assert set(done.rounds[1].norms) == {"alpha", "gamma"}
    assert set(done.rounds[2].norms) == set(NAMES)
    assert all(bool(torch.isfinite(each).all()) for each in done.server.shared.values())


def test_a_spoilt_update_may_stop_the_run() -> None:
    with pytest.raises(FednerError, match="the update of platform 'beta' was refused"):
        start(engine=Tampering(spoilt), on_refusal="stop")


def test_without_a_quorum_everybody_must_answer() -> None:
    with pytest.raises(FednerError, match=r"round 2: 2 of 3 .* \(beta: its worker process ended\)"):
        start(engine=Tampering(silent))


def test_a_quorum_goes_on_with_whoever_answered() -> None:
    done = start(engine=Tampering(silent), participation=Participation(quorum=2))
    assert done.rounds[1].failures[0].code == "worker-died"
    assert set(done.rounds[1].norms) == {"alpha", "gamma"}
    with pytest.raises(FednerError, match="expected at least 3"):
        start(engine=Tampering(silent), participation=Participation(quorum=3))


def test_nobody_answering_is_named() -> None:
    def dead(reply: Reply) -> Reply:
        return Failure(reply.platform, reply.round, "patient Jane Doe")

    with pytest.raises(FednerError, match="alpha: its reply was not a message"):
        start(engine=Tampering(dead), participation=Participation(quorum=1))


def test_a_sample_of_platforms_shares_the_whole_batch() -> None:
    done = start(rounds=20, participation=Participation(sample=2), batch_size=2)
    assert all(len(each.norms) == 2 for each in done.rounds)
    assert {name for each in done.rounds for name in each.norms} == set(NAMES)
    with pytest.raises(FednerError, match="found 2 sentences for 3 platforms"):
        start(batch_size=2)


def test_the_order_of_platforms_does_not_matter() -> None:
    class Backwards(Tampering):
        def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
            return iter(list(super().ask(orders, timeout))[::-1])

    assert same_weights(start(engine=Backwards(lambda reply: reply)), start())


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_runs(rule: str) -> None:
    assert len(start(rule=RULES[rule]).rounds) == 7


def test_settings_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    algorithm = algorithm_named("fedner")
    engine = InProcess(answers(random_platform, algorithm), ["alpha", "delta"])
    with pytest.raises(FednerError, match=r"differ in the platforms \['beta', 'delta', 'gamma'\]"):
        run(algorithm, engine, initial(), settings(), seed=1)
    with pytest.raises(FednerError, match="checkpoints need a folder"):
        start(checkpoint_every=1)
    engine = InProcess(answers(random_platform, algorithm), NAMES)
    with pytest.raises(FednerError, match=r"round 1, save: 0 of 3 .* it cannot take part"):
        start(engine=engine, folder=tmp_path / "run", checkpoint_every=1)


def test_a_folder_serves_one_run_at_a_time(tmp_path: Path) -> None:
    """Held by another process, as POSIX locks do not tell apart the hands of one."""
    start(folder=tmp_path / "run", rounds=1)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    holder = context.Process(target=_hold, args=(tmp_path / "run", there))
    holder.start()
    assert here.recv() == "held"
    with pytest.raises(FednerError, match="is in use by another process"):
        start(folder=tmp_path / "run", resume=True)
    here.send("go")
    holder.join()
    start(folder=tmp_path / "run", resume=True)


def _hold(folder: Path, pipe: Any) -> None:
    with held_by_this_process(folder):
        pipe.send("held")
        pipe.recv()


def test_progress_is_told_round_by_round() -> None:
    seen: list[int] = []
    algorithm = algorithm_named("fedner")
    engine = InProcess(answers(random_platform, algorithm), NAMES)
    run(
        algorithm,
        engine,
        initial(),
        settings(rounds=3),
        seed=1,
        on_round=lambda record: seen.append(record.round),
    )
    assert seen == [1, 2, 3]


def test_rounds_on_the_disk_are_not_held_in_memory(tmp_path: Path) -> None:
    """A run of two hours over FLARE had 64,000 rounds, and its process grew with each."""
    gc.collect()
    held: dict[int, int] = {}

    def look(done: RoundRecord) -> None:
        if done.round in (100, 500):
            gc.collect()
            held[done.round] = sum(type(each) is RoundRecord for each in gc.get_objects())

    algorithm = algorithm_named("fedner")
    engine = InProcess(answers(random_platform, algorithm, tmp_path), NAMES)
    found = run(algorithm, engine, initial(), settings(500), seed=7, folder=tmp_path, on_round=look)
    assert held[500] == held[100] <= 2
    assert [each.round for each in found.rounds] == list(range(1, 501))
