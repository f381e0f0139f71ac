"""What guarded platforms send and a coordinator stores, errors of every kind included: no canary.

The same search as on installed kits, without processes: bytes are all that crosses here.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from canaries import CANARIES, FOLDER, LABEL, TEXT, write_canaries
from leaks import find_leaks, leaked

from fedner.engines.in_process import InProcess
from fedner.errors import FednerError
from fedner.federated.failure_codes import FAILURES
from fedner.federated.message_bytes import order_from_bytes, reply_from_bytes, to_bytes
from fedner.federated.messages import Failure, Order, Reply
from fedner.runs.coordinator import coordinate
from fedner.runs.disclosure_record import RECORD, DisclosureRecord, read_record
from fedner.runs.policy import GuardedAnswer
from fedner.runs.site import Site, open_site
from fedner.runs.site_answer import SiteAnswer
from fedner.runs.study_defaults import with_defaults
from fedner.settings import PlatformSettings, PolicySettings, Study

NAMES = ("north", "south")
TABLES: dict[str, Any] = {
    "model": {"hidden": 6, "filters": 8, "character_filters": 6, "character_dimension": 6},
    "embeddings": {"dimension": 8, "buckets": 64},
    "training": {"rounds": 2, "batch_size": 12, "evaluate_every": 1, "checkpoint_every": 1},
    "platforms": [{"name": name, "public_size": 20} for name in NAMES],
}
Spoil = Callable[[pytest.MonkeyPatch], None]


class Crossing:
    """An engine that carries bytes alone, and stores what crosses where a server would."""

    def __init__(self, inner: InProcess, store: Path) -> None:
        store.mkdir()
        self.inner, self.store, self.platforms = inner, store, inner.platforms
        self.replies: list[tuple[str, bytes]] = []

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        read = {name: order_from_bytes(to_bytes(order)) for name, order in orders.items()}
        for reply in self.inner.ask(read, timeout):
            data = to_bytes(reply)
            self.replies.append((reply.platform, data))
            (self.store / f"{len(self.replies)}.bin").write_bytes(data)
            yield reply_from_bytes(data)

    def close(self) -> None:
        self.inner.close()


@pytest.fixture(scope="module")
def study() -> Study:
    return with_defaults(Study(**TABLES))


@pytest.fixture(scope="module")
def sites(study: Study, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Site]:
    folder = tmp_path_factory.mktemp("platforms")
    opened = {}
    for name in NAMES:
        data = write_canaries(folder / name)
        own = PlatformSettings(name=name, data=str(data), format="jsonl")
        opened[name] = open_site(study, own, folder / name / FOLDER / "run")
    return opened


def federated(sites: Mapping[str, Site], folder: Path) -> tuple[Crossing, FednerError | None]:
    """Run a study through guarded platforms; return what crossed, and how it ended."""

    def answer(name: str) -> GuardedAnswer:
        record = DisclosureRecord(folder / "homes" / name / RECORD)
        return GuardedAnswer(SiteAnswer(sites[name]), sites[name], record, asked_by="server")

    study = next(iter(sites.values())).study
    engine, error = Crossing(InProcess(answer, list(sites)), folder / "server"), None
    with closing(engine):
        try:
            coordinate(study, engine, folder / "server" / "run")
        except FednerError as raised:
            error = raised
    return engine, error


def test_no_canary_leaves_in_a_whole_run(sites: dict[str, Site], tmp_path: Path) -> None:
    crossing, error = federated(sites, tmp_path)
    assert error is None
    assert len(crossing.replies) > 10
    assert find_leaks(tmp_path / "server", CANARIES) == []
    at_home = find_leaks(sites["north"].folder.path, [LABEL])
    assert at_home, "the searcher finds what stays at home"


def test_every_message_is_on_record_before_it_left(sites: dict[str, Site], tmp_path: Path) -> None:
    from hashlib import sha256

    crossing, _ = federated(sites, tmp_path)
    for name in NAMES:
        lines = read_record(tmp_path / "homes" / name / RECORD).lines
        sent = [sha256(data).hexdigest() for who, data in crossing.replies if who == name]
        assert [line.message_digest for line in lines] == sent


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def at(target: str, error: Exception) -> Spoil:
    return lambda patch: patch.setattr(target, raising(error))


WORDS = f"{TEXT} in {FOLDER}"
SPOILED: dict[str, Spoil] = {
    "an error of ours": at("fedner.runs.site_answer.build_platform", FednerError(WORDS, WORDS)),
    "an error of Python": at("fedner.runs.site_answer.build_platform", KeyError(WORDS)),
    "text in bytes": at("fedner.runs.site_answer.build_platform", UnicodeDecodeError(
        "utf-8", TEXT.encode(), 0, 1, WORDS)),
    "no memory": at("fedner.federated.platform.Platform.run_round", MemoryError(WORDS)),
    "a missing file": at(
        "fedner.federated.platform.Platform.run_round", FileNotFoundError(2, WORDS, FOLDER)
    ),
    "in scoring": at("fedner.federated.platform.Platform.scores", ValueError(WORDS)),
    "in storing": at("fedner.federated.answering.write_state", OSError(28, WORDS, FOLDER)),
    "in finishing": at("fedner.runs.site_answer.write_results", RuntimeError(WORDS)),
    "in the guard": at("fedner.runs.policy.guard.order_refusal", ValueError(WORDS)),
    "in the record": at("fedner.runs.disclosure_record._write_all", OSError(28, WORDS, FOLDER)),
}  # fmt: skip


@pytest.mark.parametrize("case", SPOILED)
def test_no_canary_leaves_with_an_error(
    sites: dict[str, Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    own = {
        name: _moved(site, tmp_path / "homes" / name / "run") for name, site in sites.items()
    }  # fmt: skip
    SPOILED[case](monkeypatch)
    crossing, error = federated(own, tmp_path)
    failures = [reply_from_bytes(data) for _, data in crossing.replies]
    codes = {reply.code for reply in failures if isinstance(reply, Failure)}
    assert codes
    assert codes <= set(FAILURES)
    assert error is not None
    assert leaked(str(error).encode(), CANARIES) == set()
    assert find_leaks(tmp_path / "server", CANARIES) == []


def test_a_planted_leak_is_found(
    sites: dict[str, Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a code could hold a text, this search would tell."""
    from fedner.federated import failure_codes

    monkeypatch.setitem(failure_codes.FAILURES, f"about {TEXT}", "a leak")  # type: ignore[arg-type]
    monkeypatch.setattr("fedner.runs.policy.guard.order_refusal", lambda *_, **__: f"about {TEXT}")
    federated(sites, tmp_path)
    assert {leak.canary for leak in find_leaks(tmp_path / "server", CANARIES)} == {TEXT}


def test_a_policy_is_no_message_either(sites: dict[str, Site], tmp_path: Path) -> None:
    """Values of the policy are the platform's own: refusals name none of them."""
    own = {}
    for name, site in sites.items():
        policy = PolicySettings(max_rounds=1, types=(LABEL,), newcomers=(FOLDER,))
        own[name] = _moved(site, tmp_path / "homes" / name / "run", policy)
    _, error = federated(own, tmp_path)
    assert error is not None
    assert "its policy allows fewer rounds" in str(error)
    assert find_leaks(tmp_path / "server", CANARIES) == []


def _moved(site: Site, folder: Path, policy: PolicySettings | None = None) -> Site:
    from dataclasses import replace

    own = site.own.model_copy(update={"policy": policy or site.own.policy})
    return replace(site, own=own, folder=replace(site.folder, path=folder))
