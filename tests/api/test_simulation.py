"""A federation of corpora in memory: the same as from files, and nothing is printed or left."""

import json
import re
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

import fedner
from fedner.corpus.writers import write_brat, write_columns, write_jsonl
from fedner.federated.record import RoundRecord
from fedner.runs.checks import checked
from fedner.runs.simulation import train_run

ROOT = Path(__file__).resolve().parents[2]
SNIPPETS = ROOT / "docs" / "snippets"
NAMES = ("case-reports", "forum-posts")
SMALL = {"hidden": 6, "filters": 8, "character_filters": 6, "character_dimension": 6}
CORPORA = {name: fedner.synthetic_corpus(name, 40, seed=1) for name in NAMES}
SECTIONS = {"model": SMALL, "embeddings": {"dimension": 8, "buckets": 64}}


def small_study(**sections: object) -> fedner.Study:
    return fedner.study_for(CORPORA, **{"training": {"rounds": 2}, **SECTIONS, **sections})


def test_it_trains_the_very_weights_of_a_federation_file(tmp_path: Path) -> None:
    size = 35
    tables = {
        "title": "study", "training": {"rounds": 2}, **SECTIONS,
        "platforms": [
            {"name": name, "data": f"synthetic:{name}", "num_sentences": 40, "public_size": size}
            for name in NAMES
        ],
    }  # fmt: skip
    train_run(checked(tables, tmp_path), tmp_path / "file")
    study = small_study(public_sizes=dict.fromkeys(NAMES, size))
    done = fedner.simulate(study, CORPORA)
    for name in NAMES:
        own = fedner.Tagger.load(tmp_path / "file", platform=name).predictor.model.tagger
        found = done.taggers[name].predictor.model.tagger.state_dict()
        for key, weight in own.state_dict().items():
            assert torch.equal(weight, found[key]), (name, key)


def test_nothing_is_printed_and_nothing_is_left_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    done = fedner.simulate(small_study(), CORPORA)
    assert done.folder is None
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    done.taggers["forum-posts"].save(tmp_path / "kept")
    assert fedner.Tagger.load(tmp_path / "kept").labels == CORPORA["forum-posts"].labels


def test_it_says_scores_disclosure_and_rounds(tmp_path: Path) -> None:
    rounds: list[RoundRecord] = []
    study = small_study(
        training={"rounds": 2, "baselines": ["local-only"], "baseline_epochs": 1, "patience": 1}
    )
    folder = tmp_path / "run"
    done = fedner.simulate(
        study, CORPORA, folder, centralized=True, on_round=rounds.append,
        engine=fedner.EngineSettings(workers=2), split={"by": "document", "test": 0.3},
    )  # fmt: skip
    assert [each.round for each in rounds] == [1, 2]
    assert done.folder == folder
    assert done.study == study
    for name in NAMES:
        assert set(done.scores[name]) == {"local-only", "federated", "centralized"}
        assert done.scores[name]["federated"].labels == CORPORA[name].labels
    assert (folder / "report.html").is_file()
    told = json.loads((folder / "disclosure.json").read_text())
    assert set(told["platforms"]) == set(NAMES)
    again = fedner.simulate(
        study, CORPORA, folder, centralized=True, resume=True,
        engine=fedner.EngineSettings(workers=2), split={"by": "document", "test": 0.3},
    )  # fmt: skip
    assert again.scores == done.scores


def test_an_algorithm_of_ones_own_takes_part() -> None:
    usual = fedner.simulate(small_study(), CORPORA)
    other = fedner.simulate(small_study(), CORPORA, algorithm=fedner.fedavg())
    one, two = (
        each.taggers["forum-posts"].predictor.model.tagger.state_dict() for each in (usual, other)
    )
    assert any(not torch.equal(one[key], two[key]) for key in one)


def test_corpora_must_be_those_of_the_study() -> None:
    with pytest.raises(fedner.FednerError, match=r"corpora of clinic; expected one each of case"):
        fedner.simulate(small_study(), {"clinic": CORPORA["forum-posts"]})
    with pytest.raises(fedner.FednerError, match="forum-posts"):
        fedner.simulate(small_study(), {**CORPORA, "forum-posts": CORPORA["case-reports"]})


def test_a_study_has_rounded_sizes_and_types_unless_told_otherwise() -> None:
    large = {"clinic": fedner.synthetic_corpus("case-reports", 700, seed=1)}
    study = fedner.study_for(large, training={"rounds": 1})
    assert study.public_sizes == {"clinic": 560}
    assert study.platform("clinic").labels == large["clinic"].labels
    silent = fedner.study_for(large, training={"rounds": 1}, declare_types=False,
                              public_sizes={"clinic": 600})  # fmt: skip
    assert silent.platform("clinic").labels is None
    assert silent.public_sizes == {"clinic": 600}
    assert "ADE" not in silent.canonical


def test_units_are_counted_where_units_are_protected() -> None:
    privacy = {"mechanism": "unit-local", "unit": "patient", "noise_multiplier": 1.0,
               "simulation": True, "delta": 1e-3}  # fmt: skip
    study = fedner.study_for(
        CORPORA, training={"rounds": 1, "batch_size": 4}, privacy=privacy, split={"by": "patient"}
    )
    patients = {name: len({each.patient for each in CORPORA[name]}) for name in NAMES}
    assert all(study.public_sizes[name] < patients[name] for name in NAMES)


def test_wrong_tables_are_reported_together() -> None:
    with pytest.raises(fedner.FednerError) as caught:
        small_study(training={"rounds": 0}, algoritm={"name": "fedavg"}, seed="one")
    for key in ("training.rounds", "algoritm", "seed"):
        assert key in caught.value.message
    with pytest.raises(fedner.FednerError, match="no corpus"):
        fedner.study_for({}, training={"rounds": 1})
    with pytest.raises(fedner.FednerError, match=r"centralized=True") as caught:
        small_study(training={"rounds": 1, "baselines": ["centralized"]})


def test_a_deployed_study_asks_for_declared_sizes() -> None:
    privacy = {"mechanism": "unit-local", "noise_multiplier": 1.0, "tuned_on": "public"}
    with pytest.raises(fedner.FednerError, match="public_size"):
        small_study(privacy=privacy)


def test_no_patient_and_no_document_falls_on_both_sides() -> None:
    corpus = fedner.synthetic_corpus("social-posts", 60, seed=1)
    train, test = fedner.split(corpus, by="patient", test=0.3, seed=3)
    assert not {each.patient for each in train} & {each.patient for each in test}
    assert sorted(each.id for each in (*train, *test)) == sorted(each.id for each in corpus)
    assert train.labels == test.labels == corpus.labels
    assert fedner.split(corpus, by="patient", test=0.3, seed=3) == (train, test)
    assert fedner.split(corpus, by="patient", test=0.3, seed=4) != (train, test)
    alone = fedner.Corpus("one", ("ADE",), corpus.documents[:1])
    with pytest.raises(fedner.FednerError, match="found 1 document"):
        fedner.split(alone)


@pytest.mark.parametrize("name", ["train_alone", "train_federated"])
def test_snippets_run_are_short_and_stand_in_the_docs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for each, corpus in CORPORA.items():
        write_jsonl(tmp_path / f"{each}.jsonl", corpus)
    paths = [str(tmp_path / f"{each}.jsonl") for each in NAMES]
    model, run = str(tmp_path / "model"), str(tmp_path / "run")
    given = {"train_alone": [paths[0], model], "train_federated": [run, *paths]}[name]
    path = SNIPPETS / f"{name}.py"
    body = path.read_text().split('"""\n\n', 1)[1]
    assert len(body.splitlines()) <= 10
    assert body in (ROOT / "docs" / "python.md").read_text()
    quick = body.replace('"epochs": 15', '"rounds": 1, "baseline_epochs": 1')
    quick = quick.replace("epochs=15", "epochs=1")
    assert quick != body, "the test shortens them"
    (tmp_path / "snippet.py").write_text(quick)
    monkeypatch.setattr(sys, "argv", [name, *given])
    runpy.run_path(str(tmp_path / "snippet.py"), run_name="__main__")
    shown = capsys.readouterr().out
    if name == "train_alone":
        assert shown.startswith("strict F1: 0.")
        assert fedner.Tagger.load(model).labels == CORPORA[NAMES[0]].labels
    else:
        assert [line.split(" ")[0] for line in shown.splitlines()] == list(NAMES)
        assert shown.count("'local-only'") == shown.count("'federated'") == 2


def test_the_lines_of_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "README.md").read_text().split("## In Python", 1)[1]
    (snippet,) = re.findall(r"```python\n(.*?)```", page, re.S)
    monkeypatch.chdir(tmp_path)
    write_brat(tmp_path / "clinic", CORPORA["case-reports"])
    write_columns(tmp_path / "forum.conll", fedner.prepare(CORPORA["forum-posts"]).sentences)
    quick = snippet.replace('"epochs": 15', '"rounds": 1, "baseline_epochs": 1')
    assert quick != snippet
    exec(compile(quick, "README.md", "exec"), {})  # noqa: S102 - our own page
    assert (tmp_path / "tagger" / "model.json").is_file()


def test_a_study_in_memory_begins_with_a_released_model(tmp_path: Path) -> None:
    corpora, described = CORPORA, {**SMALL, "head": "described", "rank": 4}
    tables: dict[str, Any] = {
        **SECTIONS,
        "model": described,
        "partition": {"shared": "everything"},
        "training": {"rounds": 1},
    }
    fedner.simulate(fedner.study_for(corpora, **tables), corpora, tmp_path / "one")
    path = tmp_path / "one" / "model"
    begins = {**tables, "model": {**described, "initial": path}}
    study = fedner.study_for(corpora, **begins)
    assert study.model.initial is not None
    fedner.simulate(study, corpora, tmp_path / "two", initial=path)
    facts = json.loads((tmp_path / "two" / "facts.json").read_text())
    assert facts["initial"]["digest"] == study.model.initial.digest
    with pytest.raises(fedner.FednerError, match="nothing says where it is"):
        fedner.simulate(study, corpora)
    with pytest.raises(fedner.FednerError, match="begins from scratch"):
        fedner.Tagger.train(corpora["case-reports"], model=begins["model"])
