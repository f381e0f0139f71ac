"""The coordinator is built from a study and an engine alone; a site from the study and its own."""

import ast
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import fedner
from fedner.engines.in_process import InProcess
from fedner.errors import FednerError
from fedner.federated.messages import Order, Reply, Update
from fedner.runs.coordinator import coordinate
from fedner.runs.folder import RunFolder
from fedner.runs.public_files import declared_files
from fedner.runs.schedule import algorithm_for
from fedner.runs.simulation import engine_for, open_sites, train_run
from fedner.runs.site import open_site
from fedner.runs.site_answer import SiteAnswer
from fedner.settings import Settings, platform_settings_of

Make = Callable[..., Settings]


class TouchedError(Exception):
    """Somebody looked at what only the platform may see."""


class Trap:
    """Stands for what a platform holds: whoever touches it outside of an answer is caught."""

    answering = False

    def __init__(self, held: Any) -> None:
        object.__setattr__(self, "_held", held)

    def __getattribute__(self, name: str) -> Any:
        if not Trap.answering:
            raise TouchedError(name)
        return getattr(object.__getattribute__(self, "_held"), name)


@contextmanager
def _answering() -> Iterator[None]:
    Trap.answering = True
    try:
        yield
    finally:
        Trap.answering = False


class TrappedEngine:
    """An engine behind which platforms may look at their data, and before which nobody may."""

    def __init__(self, inner: InProcess) -> None:
        self._inner = inner
        self.platforms = inner.platforms

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        with _answering():
            replies = list(self._inner.ask(orders, timeout))
        yield from replies

    def close(self) -> None:
        with _answering():
            self._inner.close()


def _trapped(settings: Settings, path: Path) -> tuple[Any, TrappedEngine]:
    sites = open_sites(settings, path)
    study = sites[0].study
    algorithm = algorithm_for(study)
    held = {site.name: replace(site, data=Trap(site.data)) for site in sites}  # type: ignore[arg-type]
    inner = InProcess(lambda name: SiteAnswer(held[name], algorithm), list(held))
    return study, TrappedEngine(inner)


def test_the_coordinator_never_touches_what_a_platform_holds(tiny: Make, tmp_path: Path) -> None:
    settings = tiny("training.rounds=3", "training.finetune_epochs=1")
    train_run(settings, tmp_path / "simulation")
    study, engine = _trapped(settings, tmp_path / "apart")
    with pytest.raises(TouchedError):
        _ = Trap(settings).title
    with closing(engine):
        done = coordinate(study, engine, tmp_path / "apart")
    assert len(done.rounds) == 3
    assert set(done.reports) == set(study.names)
    first, second = (RunFolder(tmp_path / each).shared(3) for each in ("simulation", "apart"))
    assert first
    assert all(torch.equal(first[name], second[name]) for name in first)


class Silent:
    """An engine of platforms that do not exist: every one answers with zeros."""

    def __init__(self, names: list[str]) -> None:
        self.platforms = names
        self.seen: list[str] = []

    def ask(self, orders: Mapping[str, Order], timeout: float | None = None) -> Iterator[Reply]:
        from fedner.federated.messages import ScoreReport

        del timeout
        for name, order in orders.items():
            self.seen.append(order.verb)
            if order.verb in ("evaluate", "finish"):
                yield ScoreReport(name, order.round)
            elif order.verb == "round":
                zeros = type(order.shared)({n: t * 0 for n, t in order.shared.items()})
                yield Update(name, order.round, zeros, loss=1.0)
            else:
                yield Update(name, order.round)

    def close(self) -> None:
        return None


def test_a_study_runs_where_no_data_and_no_vectors_are(tiny: Make, tmp_path: Path) -> None:
    study = open_sites(tiny("training.rounds=2"), tmp_path / "none")[0].study
    read_back = type(study).model_validate(json.loads(json.dumps(study.model_dump(mode="json"))))
    assert read_back.digest == study.digest
    engine = Silent(study.names)
    done = coordinate(read_back, engine, tmp_path / "run")
    assert [each.round for each in done.rounds] == [1, 2]
    assert engine.seen[0] == "begin"
    assert engine.seen[-1] == "finish"


def test_the_coordinators_modules_cannot_reach_a_site() -> None:
    root = Path(fedner.__file__).parent
    seen, waiting = set(), ["fedner.runs.coordinator"]
    while waiting:
        name = waiting.pop()
        path = root.joinpath(*name.split(".")[1:])
        file = (
            path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
        )
        if name in seen or not name.startswith("fedner") or not file.is_file():
            continue
        seen.add(name)
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                waiting += [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
            elif isinstance(node, ast.Import):
                waiting += [each.name for each in node.names]
    forbidden = {
        "fedner.runs.site",
        "fedner.runs.platform_data",
        "fedner.runs.site_ledger",
        "fedner.runs.local_training",
        "fedner.runs.site_platform",
        "fedner.runs.site_results",
    }
    assert "fedner.runs.blueprint" in seen, "the walk works"
    assert not seen & forbidden


def test_a_site_is_made_of_the_study_and_its_own_settings(tiny: Make, tmp_path: Path) -> None:
    settings = tiny("training.rounds=2")
    study = open_sites(settings, tmp_path / "a")[0].study
    own = platform_settings_of(settings, "forum-posts")
    site = open_site(study, own, tmp_path / "b")
    assert site.name == "forum-posts"
    assert "tokens" not in repr(site)
    assert not any(
        word in repr(site) for word in site.data.sentences[0].tokens[:1] if len(word) > 6
    )


def test_a_platform_refuses_orders_of_another_study(tiny: Make, tmp_path: Path) -> None:
    sites = open_sites(tiny("training.rounds=2"), tmp_path / "a")
    study = sites[0].study
    other = study.model_copy(update={"seed": study.seed + 1})
    settings = tiny("training.rounds=2")
    engine = engine_for(settings, sites, algorithm_for(study))
    with closing(engine), pytest.raises(FednerError, match="it refused the order"):
        coordinate(other, engine, tmp_path / "run")


def test_a_platform_that_a_study_does_not_name_has_no_half_of_it(
    tiny: Make, tmp_path: Path
) -> None:
    settings = tiny()
    study = open_sites(settings, tmp_path / "a")[0].study
    own = platform_settings_of(settings, "forum-posts").model_copy(update={"name": "stranger"})
    with pytest.raises(FednerError, match="stranger"):
        open_site(study, own, tmp_path / "b")


@pytest.mark.parametrize(
    ("policy", "named"),
    [
        ({"studies": ("0" * 64,)}, "policy.studies"),
        ({"mechanisms": ("unit-local",)}, "policy.mechanisms"),
        ({"max_rounds": 1}, "policy.max_rounds"),
    ],
)
def test_a_platforms_policy_decides(
    tiny: Make, tmp_path: Path, policy: dict[str, Any], named: str
) -> None:
    settings = tiny("training.rounds=2")
    study = open_sites(settings, tmp_path / "a")[0].study
    own = platform_settings_of(settings, "forum-posts")
    kept = own.policy.model_copy(update=policy)
    with pytest.raises(FednerError, match=named):
        open_site(study, own.model_copy(update={"policy": kept}), tmp_path / "b")


def test_loss_and_scores_stay_where_the_policy_says_so(tiny: Make, tmp_path: Path) -> None:
    settings = tiny("training.rounds=2", "training.evaluate_every=1")
    sites = open_sites(settings, tmp_path / "a")
    kept = sites[0].own.policy.model_copy(update={"sends_loss": False, "sends_scores": False})
    own = sites[0].own.model_copy(update={"policy": kept})
    sites[0] = replace(sites[0], own=own)
    algorithm = algorithm_for(sites[0].study)
    with closing(engine_for(settings, sites, algorithm)) as engine:
        done = coordinate(sites[0].study, engine, tmp_path / "a")
    quiet, other = sites[0].name, sites[1].name
    for record in done.rounds:
        assert quiet not in record.losses
        assert quiet not in record.scores
        assert other in record.losses
        assert other in record.scores
    assert not done.reports[quiet].scores
    assert done.reports[other].scores


def test_declared_files_say_when_the_files_themselves_are_needed(
    tiny: Make, tmp_path: Path
) -> None:
    study = open_sites(tiny(), tmp_path / "a")[0].study
    assert declared_files(study).words.dimension == 8
    vectors = {"name": "v", "digest": "0" * 64, "dimension": 3}
    held = study.embeddings.model_copy(update={"words": _named(vectors), "trainable": True})
    with pytest.raises(FednerError, match="trains its embeddings"):
        declared_files(study.model_copy(update={"embeddings": held}))
    frozen = held.model_copy(update={"trainable": False})
    files = declared_files(study.model_copy(update={"embeddings": frozen}))
    assert files.words.dimension == 3
    with pytest.raises(FednerError, match="declared here, not opened"):
        files.words.rows(["aspirin"])


def _named(record: dict[str, Any]) -> Any:
    from fedner.settings import NamedVectors

    return NamedVectors(**record)


def _vectors(path: Path, shift: float) -> Path:
    rows = (f"{word} {shift:.2f} {shift + 0.5:.2f}" for word in ("the", "of", "aspirin", "pain"))
    path.write_text("\n".join(rows) + "\n")
    return path


def test_a_site_opens_no_other_vectors_than_those_of_the_study(
    tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    named, other = _vectors(tmp_path / "named.txt", 0.1), _vectors(tmp_path / "other.txt", 0.2)
    settings = tiny(f'embeddings.words="{named}"', "training.rounds=2")
    study = open_sites(settings, tmp_path / "a")[0].study
    own = platform_settings_of(settings, "forum-posts")
    assert open_site(study, own, tmp_path / "b").blueprint.files.words.dimension == 2
    moved = own.embeddings.model_copy(update={"words": str(other)})
    with pytest.raises(FednerError, match=r"embeddings\.words: 'other.txt' has digest"):
        open_site(study, own.model_copy(update={"embeddings": moved}), tmp_path / "c")
    nowhere = own.embeddings.model_copy(update={"words": None})
    with pytest.raises(FednerError, match="nothing says where it is"):
        open_site(study, own.model_copy(update={"embeddings": nowhere}), tmp_path / "d")


def test_a_site_opens_no_other_encoder_than_that_of_the_study(
    tiny: Make, tmp_path: Path, tiny_bert: Path
) -> None:
    cache = f'embeddings.cache="{tmp_path / "cache"}"'
    context = f'embeddings.context="{tiny_bert}"'
    settings = tiny('model.recipe="ELMoNER"', context, cache, "training.rounds=2")
    study = open_sites(settings, tmp_path / "a")[0].study
    held = study.embeddings.context
    assert held is not None
    changed = held.model_copy(update={"digest": "0" * 64})
    embeddings = study.embeddings.model_copy(update={"context": changed})
    own = platform_settings_of(settings, "forum-posts")
    with pytest.raises(FednerError, match=r"embeddings\.context: .* has digest"):
        open_site(study.model_copy(update={"embeddings": embeddings}), own, tmp_path / "c")
