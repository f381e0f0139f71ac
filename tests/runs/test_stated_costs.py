"""What a platform says that a release cost is held against the study: one lie ends no run."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opened_sites import opened

from fedner.engines.in_process import InProcess
from fedner.federated.message_bytes import reply_from_bytes, to_bytes
from fedner.federated.messages import Order, Reply, ScoreReport, Update
from fedner.federated.run import RunRecord
from fedner.privacy.events import to_json
from fedner.runs.coordinator import coordinate
from fedner.runs.privacy import releases_of
from fedner.runs.report.coordinator import SCORE_REPORTS
from fedner.runs.schedule import algorithm_for
from fedner.runs.site_answer import SiteAnswer
from fedner.settings import Settings

Make = Callable[..., Settings]
LIAR = "case-reports"
PRIVATE = 'privacy={mechanism="unit-local", noise_multiplier=1.0, simulation=true}'
SCORED = (
    'privacy={mechanism="unit-local", noise_multiplier=1.0, simulation=true, '
    "scores={noise_multiplier=2.0, max_norm=2.0, every=1}}"
)
NO_PLAIN_SCORES = "training.evaluate_every=0"


class Lying:
    """An engine in which one platform's replies of the second round are altered on the way."""

    def __init__(self, sites: Any, alter: Callable[[Reply], Reply]) -> None:
        algorithm = algorithm_for(next(iter(sites.values())).study)
        self.inner = InProcess(lambda name: SiteAnswer(sites[name], algorithm), list(sites))
        self.platforms, self.alter = self.inner.platforms, alter

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        for reply in self.inner.ask(orders, timeout):
            is_asked = reply.platform == LIAR and reply.round == 2
            yield self.alter(reply) if is_asked else reply

    def close(self) -> None:
        self.inner.close()


def told(make: Make, folder: Path, alter: Callable[[Reply], Reply], *keys: str) -> RunRecord:
    sites = opened(make("training.rounds=3", "participation.quorum=2", *keys), folder / "sites")
    with closing(Lying(sites, alter)) as engine:
        study = next(iter(sites.values())).study
        done = coordinate(study, engine, folder / "run")
    assert (folder / "run" / SCORE_REPORTS).is_file()  # written last
    return done


@pytest.mark.parametrize(
    "lie",
    [
        {"unit": "patient"},
        {"steps": 2**31 - 1},
        {"sampling_probability": 5e-324},
        {"adjacency": "replace_one", "sampling_probability": 1.0},
        {"public_units": 7},
        {"is_simulation": False},
        {"noise_multiplier": 1e300},
        {"noise_multiplier": 1e-320},
    ],
)
def test_an_update_that_lies_of_its_cost_is_refused(
    tiny: Make, tmp_path: Path, lie: dict[str, Any]
) -> None:
    def alter(reply: Reply) -> Reply:
        if not isinstance(reply, Update) or reply.event is None:
            return reply
        stated = {**reply.event, "release": {**reply.event["release"], **lie}}
        return replace(reply, event=stated)

    first, second, third = told(tiny, tmp_path, alter, PRIVATE).rounds
    assert [each.platform for each in second.refusals] == [LIAR]
    assert first.refusals == third.refusals == ()
    assert LIAR in first.events
    assert LIAR not in second.events  # nobody could say what that comes to
    assert first.events[LIAR] == third.events[LIAR]


def test_an_update_that_keeps_silent_about_its_cost_is_refused(tiny: Make, tmp_path: Path) -> None:
    def alter(reply: Reply) -> Reply:
        return replace(reply, event=None) if isinstance(reply, Update) else reply

    first, second, third = told(tiny, tmp_path, alter, PRIVATE).rounds
    assert [(each.platform, each.code) for each in second.refusals] == [(LIAR, "ledger")]
    assert first.refusals == third.refusals == ()


def test_scores_that_lie_of_their_cost_are_not_taken(tiny: Make, tmp_path: Path) -> None:
    def alter(reply: Reply) -> Reply:
        if not isinstance(reply, ScoreReport) or reply.noised is None:
            return reply
        event = replace(reply.noised.event, unit="patient")
        noised = replace(reply.noised, event=event)
        lie = replace(reply, noised=noised, event={"release": to_json(event)})
        return reply_from_bytes(to_bytes(lie))

    first, second, third = told(tiny, tmp_path, alter, SCORED, NO_PLAIN_SCORES).rounds
    assert LIAR in first.scores
    assert LIAR in third.scores
    assert set(second.scores) == {"forum-posts", "social-posts"}
    assert [(each.platform, each.verb, each.code) for each in second.failures] == [
        (LIAR, "evaluate", "malformed")
    ]


@pytest.mark.parametrize(
    "keys",
    [
        (PRIVATE,),
        (SCORED, NO_PLAIN_SCORES),
        (PRIVATE.replace("unit-local", "platform"),),
        (PRIVATE.replace("unit-local", "unit-central"),),
        (PRIVATE.replace("unit-local", "platform-central"),),
        (PRIVATE, 'algorithm={name="fedavg", local={epochs=2}}'),
        (PRIVATE, 'algorithm={name="scaffold", epochs=1}'),
        (PRIVATE, "training.slice=0.5", "training.rounds_per_slice=2"),
        (
            PRIVATE.replace("unit-local", "platform"),
            "training.slice=0.5",
            'algorithm={name="fedavg", local={epochs=1}}',
        ),
        (PRIVATE, "participation.sample=2"),
    ],
)
def test_honest_platforms_say_what_the_study_says(
    tiny: Make, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    rounds = told(tiny, tmp_path, lambda reply: reply, *keys).rounds
    assert all(not each.refusals and not each.failures for each in rounds)
    assert all(each.events for each in rounds)


def test_without_dp_nothing_is_planned(tiny: Make, tmp_path: Path) -> None:
    site = opened(tiny(), tmp_path)[LIAR]
    assert releases_of(site.blueprint, algorithm_for(site.study)) is None
