"""A federation in two halves: written, read, and checked by public facts and at each platform."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fedner.errors import FednerError
from fedner.federated.checkpoints import read_state
from fedner.privacy.budget import Budget
from fedner.privacy.ledger_owner import open_ledger
from fedner.runs.checks import checked
from fedner.runs.platform_file import read_platform
from fedner.runs.simulation import train_run
from fedner.runs.study_checks import platform_problems, study_problems, text_findings
from fedner.runs.study_files import (
    halves_of,
    read_halves,
    read_study,
    write_halves,
)
from fedner.settings import PlatformSettings, Settings, SettingsError, Study, parse_as

STUDY: dict[str, Any] = {
    "training": {"rounds": 3},
    "platforms": [
        {"name": "clinic", "public_size": 400, "labels": ["ADE"]},
        {"name": "ward", "public_size": 250, "labels": ["ADE", "Drug"]},
    ],
}
DP = {"mechanism": "unit-local", "epsilon": 3.0, "delta": 1e-5, "tuned_on": "public"}
COLUMNS = "Nausea\tB-ADE\nafter\tO\naspirin\tO\n\nNo\tO\npain\tB-ADE\n\n" * 4


def study(**changes: Any) -> Study:
    return parse_as(Study, STUDY | changes, "study.toml")


def own(tmp_path: Path, name: str = "clinic", **changes: Any) -> PlatformSettings:
    data = tmp_path / "notes.tsv"
    data.write_text(COLUMNS)
    tables = {"name": name, "data": str(data), "format": "columns", "options": {"scheme": "BIO"}}
    return parse_as(PlatformSettings, tables | changes, "platform.toml")


def keys(problems: list[Any]) -> list[str]:
    return [each.key for each in problems]


def test_a_sound_study_has_no_problem_and_needs_no_file() -> None:
    assert study_problems(study()) == []
    assert study_problems(study(training={"epochs": 2})) == []
    vectors = {"name": "glove", "digest": "a" * 64, "dimension": 50}
    assert study_problems(study(embeddings={"words": vectors})) == []


def test_all_problems_that_public_facts_show_are_reported() -> None:
    wrong = study(
        model={"recipe": "ELMoNER"},
        partition={"shared": "everything"},
        algorithm={"name": "fednre"},
        participation={"sample": 3},
        training={"rounds": 3, "baselines": ["centralized"]},
        privacy=DP | {"delta": 0.01, "simulation": True},
        platforms=[
            {"name": "clinic", "public_size": 400},
            {"name": "Clinic", "public_size": 2, "labels": [], "tag_scheme": "BIOES"},
        ],
    )
    assert set(keys(study_problems(wrong))) == {
        "embeddings.context",
        "platforms[0].labels",
        "platforms[1].labels",
        "platforms[1].tag_scheme",
        "algorithm.name",
        "participation.sample",
        "platforms[0].name",
        "platforms[1].name",
        "training.baselines",
        "privacy.delta for clinic",
    }


def test_a_deployed_study_is_not_asked_for_what_platforms_hold() -> None:
    assert study_problems(study(privacy=DP)) == []
    undeclared = [{"name": "clinic", "public_size": 400}]
    found = study_problems(study(privacy=DP, platforms=undeclared))
    assert keys(found) == ["platforms[0].labels"]


def test_a_platform_that_fits_has_no_problem(tmp_path: Path) -> None:
    assert platform_problems(study(), own(tmp_path)) == []
    assert text_findings(study(), own(tmp_path)) == ([], [])


def test_all_problems_of_a_platform_are_reported(tmp_path: Path) -> None:
    wrong = own(
        tmp_path,
        data=str(tmp_path / "notse.tsv"),
        format="colums",
        label_map={"Adverse": "ADR"},
        patients={"file": str(tmp_path / "patients.csv")},
        policy={"max_rounds": 2, "epsilon": 1.0},
    )
    found = platform_problems(study(), wrong)
    assert keys(found) == [
        "policy.max_rounds",
        "policy.epsilon",
        "data",
        "patients.file",
        "format",
        "label_map.Adverse",
    ]
    assert "notes.tsv" in found[2].hint


def test_rounds_of_a_study_in_epochs_are_counted_from_public_sizes(tmp_path: Path) -> None:
    by_epochs = study(training={"epochs": 2, "batch_size": 65})  # 10 rounds show all 650 once
    bounded = {"policy": {"max_rounds": 20}}
    assert platform_problems(by_epochs, own(tmp_path, **bounded)) == []
    bounded = {"policy": {"max_rounds": 19}}
    found = platform_problems(by_epochs, own(tmp_path, **bounded))
    assert keys(found) == ["policy.max_rounds"]
    assert "20 rounds" in found[0].found


def test_a_stranger_is_named(tmp_path: Path) -> None:
    assert keys(platform_problems(study(), own(tmp_path, "clinics"))) == ["name"]


def test_types_of_the_texts_are_held_against_the_declared_ones(tmp_path: Path) -> None:
    found, _ = text_findings(study(), own(tmp_path, "ward"))
    assert keys(found) == ["labels"]
    assert "'Drug'" in found[0].found
    broken = own(tmp_path)
    Path(broken.data).write_text("no columns here\n")
    assert keys(text_findings(study(), broken)[0]) == ["data"]


def test_word_vectors_must_be_those_of_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    vectors = tmp_path / "glove.txt"
    vectors.write_text("pain 1 2\nfever 3 4\n")
    tables = {
        "training": {"rounds": 1},
        "embeddings": {"words": "glove.txt"},
        "platforms": [{"name": "clinic", "data": "synthetic:case-reports"}],
    }
    halves = halves_of(checked(tables, tmp_path))
    assert halves.study.embeddings.words is not None
    assert halves.study.embeddings.words.dimension == 2
    clinic = halves.platforms["clinic"]
    assert platform_problems(halves.study, clinic) == []

    vectors.write_text("pain 1 2\nfever 3 5\n")
    found = platform_problems(halves.study, clinic)
    assert keys(found) == ["embeddings.words"]
    assert halves.study.embeddings.words.digest in found[0].expected

    vectors.unlink()
    assert keys(platform_problems(halves.study, clinic)) == ["embeddings.words"]
    nowhere = clinic.model_copy(update={"embeddings": type(clinic.embeddings)()})
    found = platform_problems(halves.study, nowhere)
    assert keys(found) == ["embeddings.words"]
    assert "platform" not in found[0].found
    assert "PATH" in found[0].hint


def test_a_deployed_study_asks_each_platform_for_its_ledger(tmp_path: Path) -> None:
    deployed = study(privacy=DP)
    assert keys(platform_problems(deployed, own(tmp_path))) == ["ledger"]
    open_ledger(tmp_path / "ledger", Budget(3.0, 1e-5, "sentence"), 400)
    ready = own(tmp_path, ledger=str(tmp_path / "ledger"))
    assert platform_problems(deployed, ready) == []
    other = study(privacy=DP | {"unit": "document"})
    found = platform_problems(other, ready)
    assert keys(found) == ["ledger"]
    assert "'document'" in found[0].found
    careless = own(tmp_path, ledger=str(tmp_path / "ledger"), format="auto", split={"seed": 3})
    assert keys(platform_problems(deployed, careless)) == ["format", "split.seed"]


def test_halves_are_written_and_read_back(tiny: Callable[..., Settings], tmp_path: Path) -> None:
    federation = tiny("platforms.0.public_size=20")
    halves = halves_of(federation)
    assert halves.undeclared == ("forum-posts", "social-posts")
    paths = write_halves(halves, tmp_path / "out")
    assert read_study(paths[0]) == halves.study
    assert [read_platform(path) for path in paths[1:]] == list(halves.platforms.values())
    assert all(path.stat().st_mode & 0o077 == 0 for path in paths[1:])
    with pytest.raises(FednerError, match="already there"):
        write_halves(halves, tmp_path / "out")


def test_nothing_is_written_where_one_file_is_in_the_way(
    tiny: Callable[..., Settings], tmp_path: Path
) -> None:
    (tmp_path / "social-posts").mkdir()
    (tmp_path / "social-posts" / "platform.toml").write_text("mine")
    with pytest.raises(FednerError, match="already there"):
        write_halves(halves_of(tiny()), tmp_path)
    assert not (tmp_path / "study.toml").exists()


def test_problems_of_all_files_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        "sead = 1\n[training]\nrounds = 1\n[[platforms]]\nname = 'a'\npublic_size = 3\n"
    )
    (tmp_path / "a.toml").write_text("name = 'a'\nlabels = ['ADE']\n")
    with pytest.raises(SettingsError) as caught:
        read_halves(tmp_path / "study.toml", [tmp_path / "a.toml"])
    assert keys(list(caught.value.problems)) == [
        f"{tmp_path / 'study.toml'}: sead",
        f"{tmp_path / 'a.toml'}: data",
        f"{tmp_path / 'a.toml'}: labels",
    ]


def test_two_halves_train_as_one_file_does(tiny: Callable[..., Settings], tmp_path: Path) -> None:
    federation = tiny("training.rounds=2", "training.evaluate_every=0")
    paths = write_halves(halves_of(federation), tmp_path / "halves")
    again = read_halves(paths[0], paths[1:], ["training.checkpoint_every=1", "engine.workers=0"])
    train_run(federation, tmp_path / "one")
    train_run(again, tmp_path / "two")
    weights = [read_state(tmp_path / run / "server", 2)[0] for run in ("one", "two")]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


def test_a_simulation_computes_where_its_platforms_do_or_as_asked(
    tiny: Callable[..., Settings], tmp_path: Path
) -> None:
    paths = write_halves(halves_of(tiny("engine.device=auto")), tmp_path)
    assert read_halves(paths[0], paths[1:]).engine.device == "auto"
    asked = read_halves(paths[0], paths[1:], ["engine.workers=2"])
    assert asked.engine.workers == 2
    with pytest.raises(SettingsError, match="'workers'"):
        read_halves(paths[0], paths[1:], ["engine.worker=2"])


DESCRIBED = {"model": {"head": "described"}, "types": {"Drug": "name of a drug"}}


def test_labels_without_a_description_are_warnings_on_the_platforms_own_screen(
    tmp_path: Path,
) -> None:
    assert text_findings(study(), own(tmp_path))[1] == [], "a free head reads none"
    problems, warnings = text_findings(study(**DESCRIBED), own(tmp_path))
    assert problems == []
    assert len(warnings) == 1
    assert "clinic: ADE without a description" in warnings[0]
    described = own(tmp_path, types={"ADE": "something bad"})
    assert text_findings(study(**DESCRIBED), described) == ([], [])


def test_a_platform_cannot_describe_what_the_study_describes(tmp_path: Path) -> None:
    contradicting = own(tmp_path, types={"Drug": "something else", "ADE": "something bad"})
    assert keys(platform_problems(study(**DESCRIBED), contradicting)) == ["types.Drug"]
    assert study_problems(study(**DESCRIBED)) == []
