"""The coordinator's own report: what platforms reported, and that nothing else is in it."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from fedner.federated.messages import Failure, Order, Reply, ScoreReport, Update
from fedner.federated.run import RunRecord
from fedner.runs.coordinator import coordinate
from fedner.runs.folder import SCORES, RunFolder
from fedner.runs.records import RunScores, ScoreReports
from fedner.runs.report.coordinator import (
    COORDINATOR_REPORT,
    SCORE_REPORTS,
    score_reports,
    write_coordinator_report,
)
from fedner.runs.schedule import algorithm_for
from fedner.runs.simulation import engine_for, open_sites, train_run
from fedner.scoring import Scores
from fedner.settings import Settings, Study
from run_records import scores_of

Make = Callable[..., Settings]


def known(folder: Path) -> ScoreReports:
    return RunFolder(folder).read_as(ScoreReports, SCORE_REPORTS)


def page(folder: Path) -> str:
    return (folder / COORDINATOR_REPORT).read_text()


def cells(text: str) -> dict[str, list[str]]:
    """Return the cells of the first table, by platform."""
    rows = re.findall(r"<tr>(<td>.*?)</tr>", text[: text.index("</table>")])
    found = [re.findall(r"<td>(.*?)</td>", row) for row in rows]
    return {unescape(row[0]): row[1:] for row in found}


def test_a_simulation_has_what_the_platforms_reported(finished: Path) -> None:
    found, scores = known(finished), RunFolder(finished).read_as(RunScores, SCORES)
    study = RunFolder(finished).study()
    assert (found.title, found.study, found.rounds) == ("tiny", study.digest, 12)
    assert found.methods == ["local-only", "federated"], "nobody reports a centralized tagger"
    table = cells(page(finished))
    for name, platform in found.platforms.items():
        own = scores.platforms[name].methods
        assert platform.state == "reported"
        assert platform.rounds == 12
        assert platform.scores == {method: own[method] for method in found.methods}
        expected = [
            f"{100 * own[method].strict_micro.f1:.1f}"
            f"<small>relaxed {100 * own[method].relaxed_micro.f1:.1f}</small>"
            for method in found.methods
        ]
        assert table[name] == expected
    assert study.digest in page(finished)
    assert "every platform that was asked answered" in page(finished)
    assert not re.search(r"https?://|//[a-z]|@import|url\(|<script", page(finished))


def test_what_was_written_reads_back(finished: Path) -> None:
    stated = json.loads((finished / SCORE_REPORTS).read_bytes())
    assert known(finished).as_dict() == stated
    for name in (SCORE_REPORTS, COORDINATOR_REPORT):
        assert (finished / name).stat().st_mode & 0o077 == 0


def test_types_that_a_study_does_not_declare_are_nowhere(tiny: Make, tmp_path: Path) -> None:
    text = "aspirin\tB-Secret\nhelped\tO\n\nrash\tB-Hidden\nafter\tO\n\n"
    (tmp_path / "ward.tsv").write_text(text * 20)
    ward = f"{{name='ward',data='{tmp_path / 'ward.tsv'}'}}"
    built_in = "{name='forum-posts',data='synthetic:forum-posts',num_sentences=40}"
    train_run(tiny(f"platforms=[{ward},{built_in}]", "training.rounds=2"), tmp_path / "run")
    found = known(tmp_path / "run").platforms
    assert found["ward"].scores["federated"].labels == ("*",)
    assert len(found["forum-posts"].scores["federated"].labels) > 1, "public ones are named"
    for name in (SCORE_REPORTS, COORDINATOR_REPORT):
        told = (tmp_path / "run" / name).read_text()
        assert "Secret" not in told
        assert "Hidden" not in told


def record_of(study: Study, scores: Scores) -> RunRecord:
    """A run in which every platform says more than it should."""
    reports = {name: ScoreReport(name, 1, {"federated": scores}) for name in study.names}
    return RunRecord(None, (), reports=reports)  # type: ignore[arg-type]


def test_names_and_plain_scores_are_dropped_even_where_a_platform_sends_them(
    tiny: Make, tmp_path: Path
) -> None:
    study = open_sites(tiny("training.rounds=1"), tmp_path / "a")[0].study
    talking = record_of(study, scores_of(("Secret", 3, 1)))
    undeclared = study.platforms[0].model_copy(update={"labels": None})
    closed = study.model_copy(update={"platforms": (undeclared, *study.platforms[1:])})
    found = score_reports(closed, talking).platforms[undeclared.name]
    assert found.scores["federated"].labels == ("*",)
    assert found.scores["federated"].strict_micro.tp == 3
    privacy = study.privacy.model_copy(update={"mechanism": "unit-local", "simulation": False})
    deployed = study.model_copy(update={"privacy": privacy})
    assert deployed.is_deployed
    known_of_it = write_coordinator_report(tmp_path, deployed, talking)
    assert all(each.state == "not reported" for each in known_of_it.platforms.values())
    assert "Secret" not in (tmp_path / SCORE_REPORTS).read_text()


@pytest.mark.parametrize("is_scored", [True, False])
def test_of_a_deployed_run_nothing_but_noised_scores_is_known(
    tiny: Make, tmp_path: Path, ledgers: Callable[..., tuple[str, ...]], is_scored: bool
) -> None:
    scored = "privacy.scores={every=2, noise_multiplier=30.0, max_norm=4.0}"
    terms = (*ledgers(60), "privacy.noise_multiplier=1.0", "training.rounds=4")
    train_run(tiny(*terms, *([scored] if is_scored else [])), tmp_path / "run")
    found, text = known(tmp_path / "run"), page(tmp_path / "run")
    last = RunFolder(tmp_path / "run").rounds()[-1].scores
    for name, platform in found.platforms.items():
        assert platform.scores == {}
        assert platform.state == ("reported" if is_scored else "not reported")
        assert platform.noised == last.get(name)
        assert platform.noised_in == (4 if is_scored else None)
        assert cells(text)[name] == ["not reported"], "of the finished tagger"
    assert ("Noised scores" in text) is is_scored
    assert "relaxed" not in text
    assert "local-only" not in text[text.index("<body>") :]


def test_what_a_policy_keeps_is_shown_as_not_reported(tiny: Make, tmp_path: Path) -> None:
    settings = tiny("training.rounds=1", "training.evaluate_every=0")
    sites = open_sites(settings, tmp_path / "a")
    kept = sites[0].own.policy.model_copy(update={"sends_scores": False})
    sites[0] = replace(sites[0], own=sites[0].own.model_copy(update={"policy": kept}))
    with closing(engine_for(settings, sites, algorithm_for(sites[0].study))) as engine:
        coordinate(sites[0].study, engine, tmp_path / "a")
    table = cells(page(tmp_path / "a"))
    assert table[sites[0].name] == ["not reported"]
    assert "relaxed" in table[sites[1].name][0]
    assert known(tmp_path / "a").platforms[sites[0].name].state == "not reported"


class Leaving:
    """An engine whose first platform is gone when the others finish, and silent in round 2."""

    def __init__(self, names: list[str]) -> None:
        self.platforms = names

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        del timeout
        for name, order in orders.items():
            is_first = name == self.platforms[0]
            if is_first and (order.verb == "finish" or (order.verb, order.round) == ("round", 2)):
                yield Failure(name, order.round, "no-reply")
            elif order.verb in ("evaluate", "finish"):
                yield ScoreReport(name, order.round, {"federated": scores_of(("X", 1, 1))})
            elif order.verb == "round":
                zeros = type(order.shared)({n: t * 0 for n, t in order.shared.items()})
                yield Update(name, order.round, zeros, loss=1.0)
            else:
                yield Update(name, order.round)

    def close(self) -> None:
        return None


def test_missing_platforms_and_incidents_are_named(tiny: Make, tmp_path: Path) -> None:
    settings = tiny("training.rounds=3", "training.evaluate_every=0", "participation.quorum=2")
    study = open_sites(settings, tmp_path / "none")[0].study
    coordinate(study, Leaving(study.names), tmp_path / "run")
    found, text = known(tmp_path / "run"), page(tmp_path / "run")
    gone = study.names[0]
    assert found.missing == [gone]
    assert [(each.round, each.platform, each.asked, each.kind) for each in found.incidents] == [
        (2, gone, "round", "no answer"),
        (None, gone, "finish", "no answer"),
    ]
    assert found.platforms[gone].rounds == 2
    assert f"Missing at the end: {gone}." in text
    assert cells(text)[gone] == ["missing"]
    assert "<td>end</td>" in text


def test_names_are_text_and_never_markup(tiny: Make, tmp_path: Path) -> None:
    study = open_sites(tiny("training.rounds=1"), tmp_path / "a")[0].study
    named = study.model_copy(update={"title": "<script>&x"})
    write_coordinator_report(tmp_path, named, record_of(study, scores_of(("X", 1, 1))))
    assert "<script" not in page(tmp_path)
    assert "&lt;script&gt;&amp;x" in page(tmp_path)
