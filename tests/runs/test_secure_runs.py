"""Whole runs with a secure sum: settings, engines, records, refusals."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from opened_sites import opened

from fedner.errors import FednerError
from fedner.federated.messages import Order, SumMessage, Update
from fedner.federated.record import RoundRecord
from fedner.privacy.events import GaussianRelease, to_json
from fedner.runs.checks import algorithm_of, checked
from fedner.runs.disclosure_record import DisclosureRecord, Protection, read_record
from fedner.runs.disclosure_summary import summarise
from fedner.runs.folder import RunFolder
from fedner.runs.policy.guard import reply_refusal
from fedner.runs.policy.orders import order_refusal
from fedner.runs.schedule import run_settings
from fedner.runs.simulation import Progress, train_run
from fedner.runs.site import Site
from fedner.runs.site_answer import SiteAnswer
from fedner.runs.study_defaults import with_defaults
from fedner.runs.study_policy import study_policy_problems
from fedner.runs.sums import sum_terms, sum_warnings
from fedner.runs.trust import trust_note
from fedner.settings import PolicySettings, Settings, SettingsError, Study, override, study_of
from fedner.settings.sections import ParticipationSettings, PrivacySettings, TransportSettings

NAMES = ("case-reports", "forum-posts", "social-posts")
TABLES: dict[str, Any] = {
    "title": "masked",
    "model": {"hidden": 6, "filters": 8, "character_filters": 6, "character_dimension": 6},
    "embeddings": {"dimension": 8, "buckets": 64},
    "training": {"rounds": 2, "batch_size": 12, "evaluate_every": 0},
    "platforms": [
        {"name": name, "data": f"synthetic:{name}", "num_sentences": 40, "split": {"test": 0.3}}
        for name in NAMES
    ],
}
SIZES = dict.fromkeys(NAMES, 28)
SECURE = "transport={secure_sum=true}"
FEDAVG = 'algorithm={name="fedavg",local={steps=2,optimizer={name="sgd",learning_rate=0.1}}}'


def settings(*assignments: str) -> Settings:
    return checked(override(TABLES, assignments), Path.cwd())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run in the clear."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    train_run(settings(), folder)
    return RunFolder(folder)


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, list[str]]:
    """The same with a secure sum, and what was said."""
    folder, said = tmp_path_factory.mktemp("masked") / "run", []
    train_run(settings(SECURE), folder, progress=Progress(say=said.append))
    return RunFolder(folder), said


def assert_alike(found: RunFolder, wanted: RunFolder, atol: float = 1e-6) -> None:
    one, other = found.shared(2), wanted.shared(2)
    assert one.keys() == other.keys()
    assert all(torch.allclose(one[name], other[name], atol=atol) for name in other)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_comes_to_the_plain_one_within_the_stated_error(
    plain: RunFolder, masked: tuple[RunFolder, list[str]]
) -> None:
    done, _ = masked
    assert_alike(done, plain)
    first = done.rounds()[0]
    assert not first.norms, "nobody could see a norm"
    assert not first.losses
    assert 1.9 < first.bytes_up[NAMES[0]] / plain.rounds()[0].bytes_up[NAMES[0]] <= 2.2
    own = done.site(NAMES[0]).path
    entries = [(each["entry"], each["round"]) for each in lines_of(own / "secure-sums.jsonl")]
    assert entries == [("sent", 1), ("opened", 1), ("sent", 2), ("opened", 2)]
    kinds = {(each["kind"], each["verb"]) for each in lines_of(own / "replies.jsonl")}
    assert {("SumMessage", "round"), ("SumMessage", "sum")} <= kinds
    assert ("Update", "round") not in kinds


@pytest.mark.parametrize("engine", ["engine.as_bytes=true", "engine.workers=2"])
def test_every_engine_comes_to_the_same_bits(
    engine: str, masked: tuple[RunFolder, list[str]], tmp_path: Path
) -> None:
    train_run(settings(SECURE, engine), tmp_path / "run")
    found, wanted = RunFolder(tmp_path / "run").shared(2), masked[0].shared(2)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted), "masks leave no trace"


def test_records_say_what_the_server_could_open(masked: tuple[RunFolder, list[str]]) -> None:
    notes = masked[0].site(NAMES[0]).read("disclosure.json")["notes"]
    assert any("could open sums of at least 3 platforms" in note for note in notes)
    page = (masked[0].site(NAMES[0]).path / "report.html").read_text()
    assert "could open sums of at least 3 platforms" in page
    trust = trust_note(masked[0].study(), None)
    assert "sums: it opened those of at least 3 platforms and no single update" in trust


def test_fedavg_is_summed_securely_too(tmp_path: Path) -> None:
    train_run(settings(FEDAVG, SECURE), tmp_path / "run")
    train_run(settings(FEDAVG), tmp_path / "plain")
    assert_alike(RunFolder(tmp_path / "run"), RunFolder(tmp_path / "plain"))


def test_a_described_head_is_summed_securely_too(tmp_path: Path) -> None:
    described = ("model.head='described'", "partition.shared='everything'")
    train_run(settings(*described, SECURE), tmp_path / "run")
    train_run(settings(*described), tmp_path / "plain")
    found = RunFolder(tmp_path / "run")
    assert any(name.startswith("emissions") for name in found.shared(2)), sorted(found.shared(2))
    assert_alike(found, RunFolder(tmp_path / "plain"))


def test_differential_privacy_costs_the_same_and_is_told(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    dp = "mechanism='unit-local',simulation=true,noise_multiplier=2.0,delta=0.01,accountant='rdp'"
    given = (f"privacy={{{dp}}}", "training.rounds=1")
    train_run(settings(*given, SECURE), tmp_path / "secure")
    train_run(settings(*given), tmp_path / "plain")
    found, wanted = RunFolder(tmp_path / "secure"), RunFolder(tmp_path / "plain")
    spent, expected = (each.read("privacy.json")["platforms"] for each in (found, wanted))
    assert {n: (e["rdp"], e["steps"]) for n, e in spent.items()} == {
        n: (e["rdp"], e["steps"]) for n, e in expected.items()
    }
    one, other = found.shared(1), wanted.shared(1)
    assert all(torch.allclose(one[name], other[name], atol=1e-5) for name in other)
    assert found.rounds()[0].events == wanted.rounds()[0].events != {}


def problems(*assignments: str) -> dict[str, str]:
    with pytest.raises(SettingsError) as caught:
        settings(*assignments)
    return {each.key: f"{each.found}; {each.expected}" for each in caught.value.problems}


CENTRAL = "simulation=true,noise_multiplier=1.0"


def secure(*others: str) -> str:
    return f"transport={{{','.join(('secure_sum=true', *others))}}}"


@pytest.mark.parametrize(
    ("given", "key", "words"),
    [
        ((secure(), "participation.aggregation='median'"), "participation.aggregation", "'mean'"),
        ((secure(), "participation.norm_factor=10"), "participation.norm_factor", "no such key"),
        ((secure(), "participation.norm_factor=100"), "participation.norm_factor", "no such key"),
        ((f"privacy={{mechanism='unit-central',{CENTRAL}}}", "participation.norm_factor=100"),
         "participation.norm_factor", "100 with mechanism 'unit-central'"),
        ((f"privacy={{mechanism='unit-central',{CENTRAL}}}", "participation.norm_bound=9.5"),
         "participation.norm_bound", "9.5 with mechanism 'unit-central'"),
        ((secure(), f"privacy={{mechanism='distributed',{CENTRAL}}}", "participation.norm_bound=9"),
         "participation.norm_bound", "9 with mechanism 'distributed'"),
        ((secure("encoding='int8'"), FEDAVG), "transport.encoding", "'float32'"),
        ((secure("encoding='bfloat16'"), FEDAVG), "transport.encoding", "'float32'"),
        ((secure(), "participation.quorum=2"), "participation.quorum", "at least 3"),
        ((secure(), "participation.sample=2"), "transport.secure_sum", "at least 3"),
        ((secure("colluding=2"),), "transport.secure_sum", "at least 4"),
        (("transport={colluding=2}",), "transport.colluding", "without a secure sum"),
        (("transport={colluding=1}",), "transport.colluding", "without a secure sum"),
        (
            (secure(), f"privacy={{mechanism='unit-central',{CENTRAL}}}"),
            "transport.secure_sum",
            "'unit-central'",
        ),
        (
            (secure(), f"privacy={{mechanism='platform-central',{CENTRAL},delta=0.01}}"),
            "transport.secure_sum",
            "'platform-central'",
        ),
    ],
)  # fmt: skip
def test_what_needs_single_updates_or_more_platforms_is_refused_when_settings_are_read(
    given: tuple[str, ...], key: str, words: str
) -> None:
    found = problems(*given)
    assert words in found[key], found


@pytest.mark.parametrize(
    ("given", "factor", "colluding"),
    [
        ((), 100.0, None),
        (("participation.norm_factor=7",), 7.0, None),
        ((SECURE,), None, 1),
        ((secure("colluding=0"),), None, 0),
        ((f"privacy={{mechanism='unit-central',{CENTRAL}}}",), None, None),
        ((f"privacy={{mechanism='unit-local',{CENTRAL}}}",), 100.0, None),
    ],
)
def test_a_study_says_what_is_in_force_where_a_key_is_left_out(
    given: tuple[str, ...], factor: float | None, colluding: int | None
) -> None:
    asked = settings(*given)
    assert (asked.participation.norm_factor, asked.transport.colluding) == (factor, colluding)
    study = study_of(asked, SIZES)
    assert run_settings(study, algorithm_of(study)).norms.factor == factor


def test_a_study_made_in_python_leaves_the_same_out() -> None:
    for given, factor in (((), 100.0), ((SECURE,), None)):
        study = Study.model_validate_json(study_of(settings(*given), SIZES).canonical)
        bare = study.model_copy(
            update={
                "participation": ParticipationSettings(),
                "transport": TransportSettings(secure_sum=study.transport.secure_sum),
            }
        )
        assert run_settings(bare, algorithm_of(bare)).norms.factor == factor
        assert sum_terms(bare).colluding == 1
        assert with_defaults(bare) == study


def test_three_platforms_tolerate_no_drop_out_and_it_is_said(
    masked: tuple[RunFolder, list[str]],
) -> None:
    (warning,) = sum_warnings(settings(SECURE))
    assert "with 3 platforms, of which 1 may collude, no platform may drop out" in warning
    assert "a federation of 4 platforms would" in warning
    assert f"warning: {warning}" in masked[1]
    assert sum_warnings(settings()) == []
    (warning,) = sum_warnings(settings(secure("colluding=0")))
    assert "participation.quorum = 2 would" in warning
    tolerant = settings(secure("colluding=0"), "participation.quorum=2")
    assert sum_warnings(tolerant) == []
    assert sum_terms(tolerant).most_missing == 1


def test_a_run_is_not_resumed_in_the_clear(masked: tuple[RunFolder, list[str]]) -> None:
    with pytest.raises(FednerError, match="transport"):
        train_run(settings(), masked[0].path, resume=True)


class StoppedError(Exception):
    """The run was stopped."""


def test_a_run_that_is_resumed_opens_the_same_lists_again(
    masked: tuple[RunFolder, list[str]], tmp_path: Path
) -> None:
    def stop(record: RoundRecord) -> None:
        raise StoppedError(record.round)

    once = settings(SECURE, "training.checkpoint_every=2")
    with pytest.raises(StoppedError):
        train_run(once, tmp_path / "run", progress=Progress(round=stop))
    train_run(once, tmp_path / "run", resume=True)
    done, whole = RunFolder(tmp_path / "run"), masked[0].shared(2)
    assert all(torch.equal(done.shared(2)[name], whole[name]) for name in whole)
    lines = lines_of(done.site(NAMES[0]).path / "secure-sums.jsonl")
    opened = [each["members"] for each in lines if (each["entry"], each["round"]) == ("opened", 1)]
    assert len(opened) == 2
    assert len(set(opened)) == 1


# The gate of a platform.


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return opened(settings(SECURE), tmp_path_factory.mktemp("site"))[NAMES[0]]


@pytest.fixture(scope="module")
def clear_site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return opened(settings(), tmp_path_factory.mktemp("site"))[NAMES[0]]


def test_nothing_leaves_in_the_clear_where_the_study_has_a_secure_sum(site: Site) -> None:
    shared = site.blueprint.initial_shared()
    assert reply_refusal(site, Update(NAMES[0], 1, shared)) == "reply-withheld"
    assert reply_refusal(site, Update(NAMES[0], 0, stored=(1,))) is None
    words = {f"tensors/{name}": each.long() for name, each in shared.items()}
    assert reply_refusal(site, SumMessage(NAMES[0], 1, 3, tensors=words)) is None
    private = {"tensors/emissions.weight": torch.ones(1).long()}
    assert reply_refusal(site, SumMessage(NAMES[0], 1, 3, tensors=private)) == "reply-withheld"
    stranger = {"stranger": b"share"}
    assert reply_refusal(site, SumMessage(NAMES[0], 1, 2, stranger)) == "reply-withheld"
    assert reply_refusal(site, SumMessage(NAMES[0], 1, 2, {NAMES[1]: b"share"})) is None


def test_a_study_in_the_clear_has_no_phases(site: Site, clear_site: Site) -> None:
    message = SumMessage(NAMES[0], 1, 1, {NAMES[0]: b"keys"})
    assert reply_refusal(clear_site, message) == "reply-withheld"
    for each, expected in ((site, None), (clear_site, "order-tensors")):
        batches = dict.fromkeys(NAMES, 4)
        order = Order("run", 1, batches=batches, verb="sum", study=each.study.digest, phase=1)
        assert order_refusal(each, order) == (expected and "order-refused")
        shared = each.blueprint.initial_shared()
        work = replace(order, verb="round", phase=3, shared=shared, relayed={NAMES[1]: b"share"})
        assert order_refusal(each, work) == expected
        assert order_refusal(each, replace(work, verb="evaluate")) == "order-tensors"


def test_a_platform_that_wants_a_secure_sum_accepts_one(site: Site, clear_site: Site) -> None:
    own = site.own.model_copy(update={"policy": PolicySettings(secure_sum=True)})
    assert study_policy_problems(site.study, own) == []
    (problem,) = study_policy_problems(clear_site.study, own)
    assert problem.key == "policy.secure_sum"


def test_a_deployed_study_needs_the_platforms_own_keys(site: Site) -> None:
    privacy = PrivacySettings(mechanism="unit-local", noise_multiplier=1.0, tuned_on="public")
    deployed = replace(site, study=site.study.model_copy(update={"privacy": privacy}))
    with pytest.raises(FednerError, match="needs the platform's own key"):
        SiteAnswer(deployed)


def test_what_left_for_a_sum_is_on_record_with_its_phase_and_cost(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    release = GaussianRelease(2.0, 0.1, "sentence", 1.0, 100)
    event = {"release": to_json(release)}
    order = Order("run", 1, verb="round", phase=3, study="s")
    words = {"tensors/w": torch.ones(2).long()}
    record = DisclosureRecord(tmp_path / "record.jsonl")
    line = record.append(
        order, SumMessage("c", 1, 3, tensors=words, event=event), asked_by="server",
        protection=Protection("unit-local", 1e-3, "rdp"),
    )  # fmt: skip
    assert (line.phase, line.is_update, line.event) == (3, True, event)
    assert line.epsilon is not None
    record.append(replace(order, verb="sum", phase=5), SumMessage("c", 1, 5), asked_by="server")
    (run,) = summarise(read_record(tmp_path / "record.jsonl"))
    assert (run.updates, run.masked) == (1, 1)
