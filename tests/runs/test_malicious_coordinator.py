"""A coordinator that asks for what it should not get: refused in fixed words, before any work."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from guarded_sites import NAME, code, guarded, order_of, site_of, with_policy

from fedner.federated.failure_codes import FAILURES
from fedner.federated.message_bytes import to_bytes
from fedner.federated.messages import Failure, Order, Reply, ScoreReport, Update
from fedner.privacy.ledger_owner import ledger_chain
from fedner.runs.disclosure_record import RECORD, DisclosureRecord, read_record
from fedner.runs.policy import GuardedAnswer, extent, most_answers, reply_refusal
from fedner.runs.site import Site
from fedner.settings import Settings
from fedner.tensors import SharedState

Make = Callable[..., Settings]


@pytest.fixture(scope="module")
def site(tiny: Make, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return site_of(tiny(), tmp_path_factory.mktemp("sites"))


@pytest.fixture
def own(site: Site, tmp_path: Path) -> Iterator[GuardedAnswer]:
    fresh = replace(site, folder=replace(site.folder, path=tmp_path / "run"))
    answer = guarded(fresh, tmp_path)
    yield answer
    answer.close()


def other(state: SharedState, **changes: Any) -> SharedState:
    return SharedState({**state, **changes})


def without_first(state: SharedState) -> SharedState:
    return SharedState(dict(list(state.items())[1:]))


ATTACKS: dict[str, tuple[Callable[[Order], Order], str]] = {
    "another study": (lambda order: replace(order, study="f" * 64), "order-study"),
    "no study": (lambda order: replace(order, study=""), "order-study"),
    "a private tensor": (
        lambda order: replace(
            order, shared=other(order.shared, **{"emissions.weight": torch.ones(2)})
        ),
        "order-tensors",
    ),
    "fewer tensors": (
        lambda order: replace(order, shared=without_first(order.shared)), "order-tensors",
    ),
    "no tensors": (lambda order: replace(order, shared=SharedState({})), "order-tensors"),
    "extra tensors": (
        lambda order: replace(order, extra=SharedState({"decoder.transitions": torch.ones(2)})),
        "order-tensors",
    ),
    "extra copies": (lambda order: replace(order, extra=order.shared), "order-refused"),
    "relayed bytes": (lambda order: replace(order, relayed={"x": b"y"}), "order-tensors"),
    "tensors with begin": (lambda order: replace(order, verb="begin", round=0), "order-tensors"),
    "an unknown verb": (lambda order: replace(order, verb="export"), "order-verb"),  # type: ignore[arg-type]
    "a shape": (
        lambda order: replace(
            order, shared=SharedState({k: v[:1] for k, v in order.shared.items()})
        ),
        "order-refused",
    ),
    "what is not a number": (
        lambda order: replace(
            order, shared=SharedState({k: v * float("nan") for k, v in order.shared.items()})
        ),
        "order-refused",
    ),
    "a batch of one": (lambda order: replace(order, batches={NAME: 1}), "order-refused"),
    "a batch beside a stranger": (
        lambda order: replace(order, batches={NAME: 12, "x": 1}), "order-refused",
    ),
    "nobody chosen": (lambda order: replace(order, batches={}), "order-refused"),
    "a round beyond the study": (lambda order: replace(order, round=7), "order-refused"),
    "round 0": (lambda order: replace(order, round=0), "order-refused"),
    "a run that is no name": (lambda order: replace(order, run="a\x1b[2J"), "order-refused"),
    "a phase of a sum": (
        lambda order: replace(order, verb="sum", phase=1, shared=SharedState({})), "order-refused",
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_order_that_is_not_the_studys_is_refused(
    own: GuardedAnswer, site: Site, tmp_path: Path, attack: str
) -> None:
    change, expected = ATTACKS[attack]
    reply = own(change(order_of(site)))
    assert code(reply) == expected
    assert isinstance(reply, Failure)
    assert reply.message == FAILURES[expected], "words of ours"
    assert read_record(tmp_path / RECORD).lines[-1].code == expected, "refusals are on record"
    assert isinstance(own(order_of(site)), Update), "an honest order is answered all the same"


def test_an_honest_run_is_answered_verb_by_verb(own: GuardedAnswer, site: Site) -> None:
    bare = order_of(site, shared=SharedState({}), batches={}, round=0)
    assert isinstance(own(replace(bare, verb="begin")), Update)
    assert isinstance(own(order_of(site)), Update)
    assert isinstance(own(order_of(site, verb="evaluate")), ScoreReport)
    assert isinstance(own(replace(bare, verb="save", round=1)), Update)
    assert isinstance(own(replace(bare, verb="load", round=1)), Update)
    assert isinstance(own(order_of(site, verb="finish")), ScoreReport)


def test_a_run_keeps_its_name(own: GuardedAnswer, site: Site) -> None:
    assert not code(own(order_of(site)))
    assert code(own(order_of(site, run="another", round=2))) == "order-run"


POLICIES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "rounds": ({"max_rounds": 2}, {"round": 3}, "policy-rounds"),
    "alone in the sum": ({"min_others": 1}, {"names": [NAME]}, "policy-others"),
    "too few others": ({"min_others": 2}, {"names": [NAME, "forum-posts"]}, "policy-others"),
    "tensors": ({"shared": ["word_cnn"]}, {}, "policy-tensors"),
    "memory": ({"max_memory_gb": 0.001}, {}, "policy-memory"),
}


@pytest.mark.parametrize("case", POLICIES)
def test_the_policy_holds_at_every_order(site: Site, tmp_path: Path, case: str) -> None:
    policy, asked, expected = POLICIES[case]
    answer = guarded(with_policy(site, **policy), tmp_path)
    assert code(answer(order_of(site, **asked))) == expected
    free = guarded(with_policy(site), tmp_path)
    assert code(free(order_of(site, **asked))) in ("", "order-refused"), "it was the policy"
    answer.close()
    free.close()


def test_names_of_strangers_are_no_other_platforms(site: Site, tmp_path: Path) -> None:
    answer = guarded(with_policy(site, min_others=2), tmp_path)
    batches = {NAME: 4, "forum-posts": 4, "invented": 4}
    assert code(answer(order_of(site, batches=batches))) == "policy-others"


def test_a_study_asked_again_and_again_gets_so_many_updates(site: Site, tmp_path: Path) -> None:
    """`load` goes back to the beginning: without a bound a coordinator could ask for ever."""
    bounded = with_policy(site, max_updates=2)
    bounded = replace(bounded, folder=replace(site.folder, path=tmp_path / "run"))
    back = order_of(site, shared=SharedState({}), batches={}, round=0, verb="load")
    answer = guarded(bounded, tmp_path)
    for _ in range(2):
        assert isinstance(answer(order_of(site)), Update)
        assert isinstance(answer(back), Update)
    assert code(answer(order_of(site))) == "policy-updates"
    answer.close()
    again = guarded(bounded, tmp_path)
    assert code(again(order_of(site))) == "policy-updates", "a new process counts the old ones"
    again.close()


def test_scores_asked_again_and_again_come_to_an_end(site: Site, tmp_path: Path) -> None:
    """Scores of ever other weights tell as much as updates do."""
    bounded = with_policy(site, max_updates=2)
    bounded = replace(bounded, folder=replace(site.folder, path=tmp_path / "run"))
    answer = guarded(bounded, tmp_path)
    assert isinstance(answer(order_of(site)), Update)
    for verb in ("evaluate", "finish"):
        asked = order_of(site, verb=verb)
        codes = [code(answer(asked)) for _ in range(4)]
        assert codes == ["", "", "policy-updates", "policy-updates"], verb
    save = order_of(site, verb="save", shared=SharedState({}), batches={})
    assert [code(answer(save)) for _ in range(4)] == [""] * 4, "these tell nothing"
    answer.close()


def test_a_study_has_a_bound_without_any_key(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_LEAST", 1), ("_RUNS", 1), ("_RESUBMISSIONS", 0)):
        monkeypatch.setattr(extent, name, value)
    rounds = site.study.training.rounds
    assert rounds is not None
    fresh = replace(site, folder=replace(site.folder, path=tmp_path / "run"))
    answer = guarded(with_policy(fresh), tmp_path)
    back = order_of(site, shared=SharedState({}), batches={}, round=0, verb="load")
    codes = [(code(answer(order_of(site))), code(answer(back))) for _ in range(rounds + 1)]
    assert codes == [("", "")] * rounds + [("policy-updates", "")]
    answer.close()


LENGTHS: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "a few rounds": ({"rounds": 4}, {}, 1_000),
    "checkpoints": ({"rounds": 2_000, "checkpoint_every": 100}, {}, 3 * 2_000 + 20 * 100),
    "only the end is stored": ({"rounds": 2_000, "checkpoint_every": 0}, {}, 23 * 2_000),
    "so many runs": (
        {"rounds": 2_000, "checkpoint_every": 1}, {"max_runs": 5}, 5 * 2_000 + 20,
    ),
    "its own": ({"rounds": 2_000}, {"max_updates": 7}, 7),
}  # fmt: skip


@pytest.mark.parametrize("case", LENGTHS)
def test_the_bound_is_far_above_what_an_honest_run_needs(site: Site, case: str) -> None:
    training, policy, most = LENGTHS[case]
    length = site.study.training.model_copy(update={"epochs": None} | training)
    study = site.study.model_copy(update={"training": length})
    assert most_answers(study, with_policy(site, **policy).own) == most


def test_hours_are_counted_from_the_first_order_of_a_run(site: Site, tmp_path: Path) -> None:
    bounded = with_policy(site, max_hours=1e-9)
    first = guarded(bounded, tmp_path)
    bare = order_of(site, shared=SharedState({}), batches={}, round=0, verb="begin")
    assert not code(first(bare))
    assert code(first(bare)) == "policy-hours"
    assert code(guarded(bounded, tmp_path)(bare)) == "policy-hours", "in a new process too"
    assert not code(guarded(bounded, tmp_path)(replace(bare, run="another")))


# Under differential privacy.


@pytest.mark.parametrize(
    ("policy", "spends"),
    [({"epsilon": 3.0}, "policy.epsilon"), ({"epsilon_in_all": 3.0}, "policy.epsilon_in_all")],
)
def test_epsilon_is_bounded_at_every_order(
    tiny: Make, tmp_path: Path, ledgers: Any, caplog: pytest.LogCaptureFixture,
    policy: dict[str, Any], spends: str,
) -> None:  # fmt: skip
    """The ledger grants 500; under other names of the run the same study goes on spending."""
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    settings = tiny(*ledgers(500.0), "privacy.noise_multiplier=1.0")
    protected = site_of(settings, tmp_path / "sites")
    bounded, replies = with_policy(protected, **policy), []
    for run in range(8):
        at = replace(bounded, folder=replace(bounded.folder, path=tmp_path / f"run {run}"))
        answer = guarded(at, tmp_path)
        replies.append(answer(order_of(at, run=f"run {run}")))
        answer.close()
    codes = [code(reply) for reply in replies]
    assert codes[0] == ""
    assert codes[-1] == "budget-spent"
    assert sorted(codes) == codes, "once spent, always spent"
    assert spends in caplog.text
    assert len(ledger_chain(Path(str(protected.own.ledger))).releases) == codes.count("")
    caplog.clear()
    resent = guarded(
        replace(bounded, folder=replace(bounded.folder, path=tmp_path / "run 0")), tmp_path
    )
    assert isinstance(resent(order_of(bounded, run="run 0")), Update), "resending costs nothing"
    resent.close()


def test_what_crosses_machines_is_checked_at_every_order_too(tiny: Make, tmp_path: Path) -> None:
    on = ("privacy.mechanism=unit-local", "privacy.simulation=true", "privacy.noise_multiplier=1.0")
    seeded = site_of(tiny(*on), tmp_path / "seeded")
    assert code(guarded(seeded, tmp_path)(order_of(seeded))) == "policy-simulation"
    accepts = guarded(with_policy(seeded, accepts_simulation=True), tmp_path)
    assert isinstance(accepts(order_of(seeded)), Update)
    accepts.close()


# What the platform itself might get wrong.


def test_a_reply_that_says_too_much_is_withheld(site: Site, caplog: Any) -> None:
    shared = site.blueprint.initial_shared()
    update = Update(NAME, 1, shared, loss=1.0)
    assert reply_refusal(site, update) is None
    private = other(shared, **{"emissions.weight": torch.ones(2)})
    cases: list[tuple[Site, Reply]] = [
        (site, replace(update, tensors=private)),
        (site, replace(update, extra=SharedState({"x": torch.ones(1)}))),
        (with_policy(site, shared=["word_cnn"]), update),
        (with_policy(site, sends_loss=False), update),
        (with_policy(site, sends_scores=False), ScoreReport(NAME, 1, {"federated": object()})),  # type: ignore[dict-item]
        (site, replace(update, platform="forum-posts")),
    ]
    for where, reply in cases:
        assert reply_refusal(where, reply) == "reply-withheld"


def test_what_is_withheld_is_neither_sent_nor_recorded_as_sent(site: Site, tmp_path: Path) -> None:
    class Careless:
        def __call__(self, order: Order) -> Reply:
            shared = other(order.shared, **{"emissions.weight": torch.ones(2)})
            return Update(NAME, order.round, shared)

        def rest(self) -> None: ...

        def close(self) -> None: ...

    record = DisclosureRecord(tmp_path / RECORD)
    answer = GuardedAnswer(Careless(), site, record, asked_by="server")
    assert answer(order_of(site)) == Failure(NAME, 1, "reply-withheld")
    (line,) = read_record(tmp_path / RECORD).lines
    assert (line.code, line.tensors) == ("reply-withheld", ())


def test_an_uncounted_update_of_a_protected_study_is_withheld(
    tiny: Make, tmp_path: Path, ledgers: Any
) -> None:
    settings = tiny(*ledgers(500.0), "privacy.noise_multiplier=1.0")
    protected = site_of(settings, tmp_path / "sites")
    shared = protected.blueprint.initial_shared()
    assert reply_refusal(protected, Update(NAME, 1, shared)) == "reply-withheld"
    assert reply_refusal(protected, Update(NAME, 1)) is None, "it carries nothing"
    assert reply_refusal(protected, Update(NAME, 1, loss=0.5)) == "reply-withheld"


def test_nothing_is_sent_that_is_not_on_record(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = guarded(replace(site, folder=replace(site.folder, path=tmp_path / "run")), tmp_path)
    assert not code(answer(order_of(site)))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("fedner.runs.disclosure_record._write_all", full)
        assert code(answer(order_of(site, round=2))) == "disk-full"
        assert len(read_record(tmp_path / RECORD).lines) == 1
    assert not code(answer(order_of(site, round=2)))
    recorded = [(line.round, line.code) for line in read_record(tmp_path / RECORD).lines]
    assert recorded == [(1, ""), (2, "disk-full"), (2, "")], "said later, in its place"
    lines = (tmp_path / RECORD).read_bytes().splitlines()
    lines[0] = lines[0].replace(b"case", b"cave").replace(b"run", b"rum")
    (tmp_path / RECORD).write_bytes(b"\n".join(lines) + b"\n\n")
    assert code(answer(order_of(site, round=3))) == "record-failed", "tampered with"
    answer.close()


def test_a_failure_that_has_nothing_to_do_with_the_record_is_on_record_before_it_leaves(
    site: Site, tmp_path: Path
) -> None:
    class Broken:
        def __call__(self, order: Order) -> Reply:
            shared = {name: each.clone() for name, each in order.shared.items()}
            next(iter(shared.values())).fill_(float("nan"))
            return Update(NAME, order.round, shared)

        def rest(self) -> None: ...

        def close(self) -> None: ...

    record = DisclosureRecord(tmp_path / RECORD)
    answer = GuardedAnswer(Broken(), site, record, asked_by="server")
    assert code(answer(order_of(site))) == "not-finite"
    (line,) = read_record(tmp_path / RECORD).lines
    assert (line.code, line.tensors) == ("not-finite", ())


def test_a_refusal_tells_no_text_of_the_platforms(
    own: GuardedAnswer, site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Replies to attacks are the same few bytes whatever the platform holds."""
    caplog.set_level(logging.CRITICAL)
    for change, expected in ATTACKS.values():
        sent = to_bytes(own(change(order_of(site))))
        assert expected.encode() in sent
        assert len(sent) < 400
