"""From options to inputs: corpora by name, what is missing, read once for the whole study."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import stand_ins

from fedner.corpus.prepare import prepare
from fedner.corpus.reading import read
from fedner.errors import FednerError
from fedner.reproduce.catalogue import CATALOGUE, study_named
from fedner.reproduce.inputs import rehearsal_context, stored
from fedner.reproduce.locating import (
    BUILT_IN,
    embeddings_for,
    located,
    named_platform,
    platforms_for,
)
from fedner.reproduce.opening import Options, drawn_inputs, open_study
from fedner.reproduce.reproduction import Inputs, PlatformInput

TABLE2 = CATALOGUE["fedner-table2"]
CONLL = "-DOCSTART- -X- O O\n\nAspirin NN I-NP I-MISC\nhelped VB I-VP O\n\n"


def conll_folder(root: Path) -> Path:
    folder = root / "conll2003"
    folder.mkdir()
    for part in ("eng.train", "eng.testb"):
        (folder / part).write_text(CONLL)
    return folder


def column_file(path: Path) -> Path:
    path.write_text("Nausea B-ADE\nafter O\naspirin B-Drug\n\nBoth O\nhelped O\n\n")
    return path


def test_names_of_the_issue_are_all_there() -> None:
    wanted = {
        *(
            f"fedner-{each}"
            for each in ("table1", "table2", "figure3", "figure4", "figure5", "figure6")
        ),
        *(f"tagging-table{number}" for number in range(1, 7)),
        "tagging-collapse",
        "joining",
        "privacy-utility",
        "communication",
        "schemes",
        "platforms",
        "domains",
        "deidentification",
        "demo",
        "dp-cost",
        "dp-settings",
        "encoders",
        "joining-settings",
        "suggesting",
    }
    assert set(CATALOGUE) == wanted
    assert all(study.name == name for name, study in CATALOGUE.items())


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(FednerError, match="no study 'fedner-table3'") as raised:
        study_named("fedner-table3")
    assert "fedner-table" in str(raised.value.hint)


def test_the_papers_own_corpora_go_before_the_open_ones(tmp_path: Path) -> None:
    for name in ("psytar", "twimed/gold/pubmed"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "psytar/all.full.txt").write_text("a O\n")
    stand_ins.ade(tmp_path / "ade-corpus-v2", 4)
    found = platforms_for(TABLE2, tmp_path, (), is_built_in=False)
    assert [each.name for each in found] == ["ade", "psytar", "twimed"]
    stand_ins.cadec(tmp_path / "cadec", 4)
    stand_ins.smm4h(tmp_path / "smm4h", 4)
    found = platforms_for(TABLE2, tmp_path, (), is_built_in=False)
    assert [each.name for each in found] == ["cadec", "ade", "smm4h"]


def test_without_data_it_says_what_to_get_and_offers_the_built_in_platforms(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="no corpora to run on") as raised:
        platforms_for(TABLE2, tmp_path, (), is_built_in=False)
    hint = str(raised.value.hint)
    assert all(
        word in hint for word in ("CADEC", "ADE Corpus V2", "PsyTAR", "--platform", "--built-in")
    )


def test_a_corpus_with_a_test_file_of_its_own_is_tested_on_it(tmp_path: Path) -> None:
    folder = conll_folder(tmp_path)
    for found in (located(tmp_path, "conll2003"), named_platform(f"conll2003={folder}", None)):
        assert found is not None
        assert found.data.endswith("eng.train")
        assert found.test_data is not None
        assert found.test_data.endswith("eng.testb")
    named = named_platform(f"conll2003={folder}", None)
    held = stored(Inputs((named,), "hashed", "none", tmp_path / "out"))
    assert held.platforms[0].test_data is not None
    assert held.platforms[0].labels == ("MISC",)
    (folder / "eng.testb").unlink()
    assert located(tmp_path, "conll2003") is None


def test_a_platform_is_named_by_path_and_format(tmp_path: Path) -> None:
    path = column_file(tmp_path / "notes.conll")
    assert named_platform(f"mine={path}", None) == PlatformInput("mine", str(path))
    assert named_platform(f"mine={path}:columns", None).format == "columns"
    with pytest.raises(FednerError, match="is not there"):
        named_platform(f"mine={path}.gone", None)
    with pytest.raises(FednerError, match="no corpus of that name"):
        named_platform("ade", tmp_path)
    assert named_platform(f"my corpus.2={path}", None).name == "my corpus.2"
    for name in ("", "a/b", "../../mine", ".", "n" * 65):
        with pytest.raises(FednerError, match="is no name that files and folders can have"):
            named_platform(f"{name}={path}", None)


def test_embeddings_are_found_in_the_folder_of_corpora_or_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="--words and --context"):
        embeddings_for(TABLE2, tmp_path, None, None)
    (tmp_path / "minilm").mkdir()
    words = tmp_path / "glove.6B.300d.txt"
    words.write_text("the 1 2\n")
    found = embeddings_for(TABLE2, tmp_path, None, None)
    assert found == (str(words), str(tmp_path / "minilm"))
    with pytest.raises(FednerError, match="is not there"):
        embeddings_for(TABLE2, tmp_path, str(tmp_path / "gone"), None)
    assert embeddings_for(CATALOGUE["fedner-table1"], None, None, None) == ("hashed", "none")


def test_corpora_are_read_once_and_come_back_as_the_same_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = column_file(tmp_path / "notes.conll")
    inputs = Inputs((PlatformInput("mine", str(path)),), "hashed", "none", tmp_path / "out")
    held = stored(inputs)
    given = [each for each in prepare(read(path)).sentences if each.tokens]
    kept = prepare(read(Path(held.platforms[0].data), "jsonl")).sentences
    assert [(each.tokens, each.entities) for each in kept] == [
        (each.tokens, each.entities) for each in given
    ]
    assert held.platforms[0].counts["mentions"] == 2
    monkeypatch.setattr("fedner.reproduce.inputs.read_recognised", _nobody_reads)
    assert stored(inputs) == held


def _nobody_reads(*_: object, **__: object) -> object:
    raise AssertionError("read again")


def test_other_text_is_another_study(tmp_path: Path) -> None:
    path = column_file(tmp_path / "notes.conll")
    other = tmp_path / "other.conll"
    other.write_text(path.read_text() + "One O\nmore O\n\n")
    first, second = (
        stored(Inputs((PlatformInput("mine", str(each)),), "hashed", "none", tmp_path / each.stem))
        for each in (path, other)
    )
    assert first.platforms[0].digest != second.platforms[0].digest


def test_a_study_can_be_drawn_again_without_its_data(tmp_path: Path) -> None:
    options = Options(tmp_path / "out", built_in=True, device="cpu")
    opened = open_study(TABLE2, options, ["reproduce", "fedner-table2"])
    drawn = drawn_inputs(tmp_path / "out")
    assert drawn.names == opened.inputs.names == BUILT_IN
    assert [each.labels for each in drawn.platforms] == [e.labels for e in opened.inputs.platforms]
    assert drawn.is_rehearsal
    text = (tmp_path / "out" / "study.json").read_text()
    assert str(tmp_path) not in json.dumps(json.loads(text)["inputs"])
    with pytest.raises(FednerError, match="has a study already"):
        open_study(TABLE2, options, [])
    seeded = replace(options, resume=True, first_seed=7)
    with pytest.raises(FednerError, match="first_seed: 1, now 7"):
        open_study(TABLE2, seeded, [])


def test_a_rehearsals_context_is_the_same_each_time(tmp_path: Path) -> None:
    one, two = (Path(rehearsal_context(tmp_path / each)) for each in ("a", "b"))
    from fedner.models.embeddings.flair import FlairEncoder

    assert FlairEncoder.load(one).digest == FlairEncoder.load(two).digest


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="is not a folder"):
        open_study(TABLE2, Options(tmp_path / "out", data=tmp_path / "gone"), [])


def test_another_file_under_the_same_name_is_read(tmp_path: Path) -> None:
    path, other = column_file(tmp_path / "notes.conll"), tmp_path / "other.conll"
    other.write_text(path.read_text() + "One O\nmore O\n\n")
    first, second = (
        stored(Inputs((PlatformInput("mine", str(each)),), "hashed", "none", tmp_path / "out"))
        for each in (path, other)
    )
    assert second.platforms[0].num_sentences == first.platforms[0].num_sentences + 1
