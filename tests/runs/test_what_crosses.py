"""What leaves real sites, byte by byte: undeclared types never, under DP noised counts alone."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from guarded_sites import order_of as honest_order
from opened_sites import opened

from fedner.engines.in_process import InProcess
from fedner.errors import FednerError
from fedner.federated.message_bytes import order_from_bytes, reply_from_bytes, to_bytes
from fedner.federated.messages import Failure, Order, Reply, ScoreReport, Update
from fedner.federated.run import RunRecord
from fedner.privacy.events import GaussianRelease
from fedner.privacy.ledger_owner import ledger_chain
from fedner.runs.coordinator import coordinate
from fedner.runs.folder import RunFolder
from fedner.runs.own_progress import OWN_PROGRESS
from fedner.runs.reply_log import REPLIES, read_replies
from fedner.runs.schedule import algorithm_for
from fedner.runs.simulation import train_run
from fedner.runs.site import Site
from fedner.runs.site_answer import SiteAnswer
from fedner.scoring import Scores
from fedner.scoring.scores import ANY_LABEL
from fedner.settings import Settings

Make = Callable[..., Settings]
CANARIES = ("CANARYONE", "CANARYTWO")
COLUMNS = "Nausea\tB-{}\nafter\tO\naspirin\tB-Drug\n\nNo\tO\npain\tB-{}\nnow\tO\n\n"


class Wire:
    """An engine that carries bytes alone, and keeps all of them."""

    def __init__(self, sites: Mapping[str, Site]) -> None:
        algorithm = algorithm_for(next(iter(sites.values())).study)
        self.inner = InProcess(lambda name: SiteAnswer(sites[name], algorithm), list(sites))
        self.platforms = self.inner.platforms
        self.down: list[bytes] = []
        self.up: list[tuple[str, bytes]] = []

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        sent = {name: to_bytes(order) for name, order in orders.items()}
        self.down += sent.values()
        read = {name: order_from_bytes(data) for name, data in sent.items()}
        for reply in self.inner.ask(read, timeout):
            data = to_bytes(reply)
            self.up.append((read[reply.platform].verb, data))
            yield reply_from_bytes(data)

    def close(self) -> None:
        self.inner.close()

    def replies(self, verb: str) -> list[Reply]:
        return [reply_from_bytes(data) for asked, data in self.up if asked == verb]


def coordinated(
    sites: Mapping[str, Site], folder: Path, run_name: str | None = None
) -> tuple[Wire, RunRecord]:
    wire = Wire(sites)
    with closing(wire):
        study = next(iter(sites.values())).study
        return wire, coordinate(study, wire, folder, run_name=run_name)


def with_canaries(tiny: Make, folder: Path, *assignments: str) -> dict[str, Site]:
    """Two platforms with a type each that nobody else knows; one has a local-only baseline too."""
    own = []
    for number, canary in enumerate(CANARIES):
        path = folder / f"{number}.tsv"
        path.write_text(COLUMNS.format(canary, canary) * 12)
        own.append(f"platforms.{number}.data={path}")
        own.append(f"platforms.{number}.format=columns")
    return opened(tiny(*own, *EVERY_SCORE, *assignments), folder / "sites")


EVERY_SCORE = (
    "training.rounds=2",
    "training.evaluate_every=1",
    'training.baselines=["local-only"]',
    "training.baseline_epochs=1",
    "training.patience=1",
)


def test_types_that_the_study_does_not_declare_never_cross(tiny: Make, tmp_path: Path) -> None:
    wire, done = coordinated(with_canaries(tiny, tmp_path), tmp_path / "coordinator")
    stored = [each.read_bytes() for each in (tmp_path / "coordinator").rglob("*") if each.is_file()]
    crossed = [*wire.down, *(data for _, data in wire.up), *stored]
    assert len(crossed) > 20
    for canary in CANARIES:
        assert not any(canary.encode() in data or canary in repr(done) for data in crossed)
        assert any(canary in path.read_text() for path in tmp_path.glob("sites/*/*/scores.json"))
    for verb, methods in (("evaluate", {"federated"}), ("finish", {"federated", "local-only"})):
        for reply in wire.replies(verb):
            assert isinstance(reply, ScoreReport)
            assert set(reply.scores) == methods
            if reply.platform != "social-posts":  # made up, and so declared
                assert {key for each in reply.scores.values() for key in each.strict} == {ANY_LABEL}


def test_types_beside_the_declared_ones_never_cross(tiny: Make, tmp_path: Path) -> None:
    declared = [f'platforms.{number}.labels=["Drug"]' for number in range(2)]
    with pytest.raises(FednerError, match="neither declared nor mapped: CANARYONE"):
        with_canaries(tiny, tmp_path, *declared)
    declared += [f'platforms.{n}.label_map={{{each}=""}}' for n, each in enumerate(CANARIES)]
    wire, _ = coordinated(with_canaries(tiny, tmp_path, *declared), tmp_path / "coordinator")
    assert any(b"Drug" in data for verb, data in wire.up if verb == "finish")
    assert not any(canary.encode() in data for canary in CANARIES for _, data in wire.up)


def test_types_that_it_declares_do(tiny: Make, tmp_path: Path) -> None:
    declared = [
        f'platforms.{number}.labels=["{name}", "Drug"]' for number, name in enumerate(CANARIES)
    ]
    wire, _ = coordinated(with_canaries(tiny, tmp_path, *declared), tmp_path / "coordinator")
    for canary in CANARIES:
        for verb in ("evaluate", "finish"):
            assert any(canary.encode() in data for asked, data in wire.up if asked == verb)


def test_under_dp_scores_are_noised_and_charged_and_the_end_tells_nothing(
    tiny: Make, tmp_path: Path, ledgers: Callable[..., tuple[str, ...]]
) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    settings = tiny(
        *ledgers(500.0), "training.rounds=2", "privacy.noise_multiplier=1.0",
        "privacy.scores={every=1,noise_multiplier=5.0}",
    )  # fmt: skip
    wire, done = coordinated(opened(settings, tmp_path / "sites"), tmp_path / "coordinator")
    scored = wire.replies("evaluate")
    assert len(scored) == 6
    for reply in scored:
        assert isinstance(reply, ScoreReport)
        assert not reply.scores
        assert reply.noised is not None
        assert reply.event is not None
    assert wire.replies("finish") == [ScoreReport(name, 2) for name in done.reports]
    assert all(reply.loss is None for reply in wire.replies("round") if isinstance(reply, Update))
    for number in range(3):
        lines = ledger_chain(tmp_path / str(number)).releases
        events = [line.event for line in lines if isinstance(line.event, GaussianRelease)]
        assert sum(event.steps for event in events if event.purpose == "statistics") == 2


def order_of(site: Site, **changes: object) -> Order:
    shared = site.blueprint.initial_shared()
    study = site.study
    return replace(Order(study.title, 1, shared, study=study.digest), **changes)  # type: ignore[arg-type]


BEYOND = {
    "round": {"verb": "round", "round": 3, "batches": {"case-reports": 4}},
    "evaluate": {"verb": "evaluate", "round": 3},
    "save": {"verb": "save", "round": 3},
    "load": {"verb": "load", "round": 3},
    "finish": {"verb": "finish", "round": 3},
    "another batch": {"verb": "round", "round": 1, "batches": {"case-reports": 5}},
    "another study": {"verb": "evaluate", "study": "0" * 64},
    "a phase of no summation": {"verb": "sum", "phase": 1},
}


@pytest.mark.parametrize("sends_scores", [True, False], ids=["tells scores", "tells none"])
def test_orders_that_the_policy_did_not_accept_are_refused_one_by_one(
    tiny: Make, tmp_path: Path, sends_scores: bool
) -> None:
    site = opened(tiny("training.rounds=2"), tmp_path)["case-reports"]
    held = {"max_rounds": 2, "studies": (site.study.digest,), "sends_scores": sends_scores}
    policy = site.own.policy.model_copy(update=held)
    site = replace(site, own=site.own.model_copy(update={"policy": policy}))
    answer = SiteAnswer(site, algorithm_for(site.study))
    with closing(answer):
        for what, changes in BEYOND.items():
            order = order_of(site, **changes)
            assert answer(order) == Failure(site.name, order.round, "order-refused"), what
        assert isinstance(answer(order_of(site, verb="evaluate")), ScoreReport)


def test_a_platform_that_tells_no_scores_finishes_at_home(tiny: Make, tmp_path: Path) -> None:
    site = opened(tiny("training.rounds=2"), tmp_path)["case-reports"]
    policy = site.own.policy.model_copy(update={"sends_scores": False})
    site = replace(site, own=site.own.model_copy(update={"policy": policy}))
    answer = SiteAnswer(site, algorithm_for(site.study))
    with closing(answer):
        for verb in ("evaluate", "finish"):
            order = order_of(site, verb=verb, round=2)
            assert answer(order) == ScoreReport(site.name, 2)
    assert site.folder.read("scores.json")["methods"]["federated"]
    assert site.folder.read("disclosure.json")["score_reports"] == 0


def test_a_platforms_own_report_tells_of_itself_and_of_all_that_left(
    tiny: Make, tmp_path: Path
) -> None:
    site = opened(tiny("training.rounds=2"), tmp_path)["case-reports"]
    answer = SiteAnswer(site, algorithm_for(site.study))
    with closing(answer):
        for verb, number in (("round", 1), ("round", 2), ("evaluate", 2), ("finish", 2)):
            order = honest_order(site, verb=verb, round=number)
            assert not isinstance(answer(order), Failure), verb
    sent = read_replies(site.folder.path / REPLIES)
    told = site.folder.read("disclosure.json")["score_reports"]
    assert told == sum(each.has_scores for each in sent) == 2, "the last one is among them"
    page = (site.folder.path / "report.html").read_text()
    num = len(site.study.platforms)
    assert f"platform case-reports, one of {num}; study {site.study.digest}, algorithm" in page
    assert "2 rounds, fedner" in page, "it does not know how long the others took"
    assert "of the first platform" not in page
    for text in (page, (site.folder.path / "MODEL_CARD.md").read_text()):
        assert ">mean<" not in text
        assert "| mean |" not in text


def _noted(site: Site) -> list[str]:
    return (site.folder.path / OWN_PROGRESS).read_text().splitlines()


def test_what_a_policy_withholds_is_noted_at_home_alone(tiny: Make, tmp_path: Path) -> None:
    site = opened(tiny("training.rounds=2"), tmp_path)["case-reports"]
    policy = site.own.policy.model_copy(update={"sends_loss": False})
    site = replace(site, own=site.own.model_copy(update={"policy": policy}))
    with closing(SiteAnswer(site, algorithm_for(site.study))) as answer:
        first, second = (answer(honest_order(site, verb="round", round=each)) for each in (1, 2))
        told = answer(honest_order(site, verb="evaluate", round=2))
    assert isinstance(first, Update)
    assert isinstance(second, Update)
    assert first.loss is second.loss is None
    assert isinstance(told, ScoreReport)
    lines = [json.loads(line) for line in _noted(site)]
    assert [(each["round"], "loss" in each, "f1" in each) for each in lines] == [
        (1, True, False), (2, True, False), (2, False, True),
    ]  # fmt: skip
    federated = told.scores["federated"]
    assert isinstance(federated, Scores)
    assert lines[2]["f1"] == federated.strict_micro.f1
    assert all(each["loss"] > 0 for each in lines[:2])


def test_under_dp_no_loss_is_noted(tiny: Make, tmp_path: Path) -> None:
    private = 'privacy={mechanism="unit-local", noise_multiplier=1.0, simulation=true}'
    site = opened(tiny("training.rounds=2", private), tmp_path)["case-reports"]
    with closing(SiteAnswer(site, algorithm_for(site.study))) as answer:
        assert isinstance(answer(honest_order(site, verb="round", round=1)), Update)
    assert not (site.folder.path / OWN_PROGRESS).exists()


def test_every_order_names_the_study_that_the_run_folder_keeps(tiny: Make, tmp_path: Path) -> None:
    settings = tiny("training.rounds=1")
    sites = opened(settings, tmp_path / "sites")
    wire, _ = coordinated(sites, tmp_path / "coordinator")
    kept = RunFolder(tmp_path / "coordinator").study()
    assert {order_from_bytes(data).study for data in wire.down} == {kept.digest}
    train_run(settings, tmp_path / "simulation")
    assert RunFolder(tmp_path / "simulation").study().digest == kept.digest


def test_a_run_does_not_go_on_with_another_study(tiny: Make, tmp_path: Path) -> None:
    sites = opened(tiny("training.rounds=1"), tmp_path / "sites")
    wire, _ = coordinated(sites, tmp_path / "coordinator")
    other = next(iter(sites.values())).study.model_copy(update={"seed": 9})
    with pytest.raises(FednerError, match=r"another study: seed was \d, now 9"):
        coordinate(other, wire, tmp_path / "coordinator", resume=True)
