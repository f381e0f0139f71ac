"""Options of readers: declared by a record, checked in one place, the same from every way in."""

from pathlib import Path

import pytest

from fedner.corpus import ReadOptions, inspect, read
from fedner.corpus.inspection import inspect_all
from fedner.corpus.patients import PatientSource
from fedner.corpus.readers import READERS
from fedner.corpus.readers.options import OptionFact, checked, facts, option_problems
from fedner.errors import FednerError

TAG_FIRST = "O\taspirin\tp1\nB-ADE\trash\tp1\n\nO\tfine\tp2\n"


@pytest.fixture
def tag_first(tmp_path: Path) -> Path:
    path = tmp_path / "a.tsv"
    path.write_text(TAG_FIRST)
    return path


def test_every_option_of_every_reader_is_explained_and_has_a_default() -> None:
    for reader in READERS.values():
        record = reader.options()  # whatever is not given has a default
        for fact in facts(reader.options):
            assert fact.help
            assert fact.type
            assert getattr(record, fact.name) == fact.default


def test_facts_are_what_the_record_says() -> None:
    found = {fact.name: fact for fact in facts(READERS["columns"].options)}
    assert found["separator"] == OptionFact(
        "separator", "auto or tab or blank", "auto", "what separates the columns"
    )
    assert found["scheme"].is_detected
    assert not found["tag_column"].is_detected


@pytest.mark.parametrize("number", [0, "0"])
def test_columns_are_chosen_by_number_or_by_its_text(tag_first: Path, number: object) -> None:
    options = ReadOptions({"tag_column": number, "token_column": "1", "patient_column": 2})
    corpus = read(tag_first, "columns", options=options)
    assert [document.text for document in corpus] == ["aspirin rash", "fine"]
    assert [document.patient for document in corpus] == ["p1", "p2"]
    assert corpus.labels == ("ADE",)


def test_everything_wrong_is_reported_together() -> None:
    given = {"scheme": "BOI", "separator": "comma", "tag_column": 1.5, "tag_colum": 1}
    problems = {each.name: each for each in option_problems(READERS["columns"].options, given)}
    assert problems.keys() == given.keys()
    assert problems["scheme"].expected.startswith("one of IO, IOB1, BIO")
    assert problems["separator"].expected == "auto or tab or blank"
    assert problems["tag_column"].expected == "a whole number"
    assert problems["tag_colum"].hint == 'Did you mean "tag_column"?'
    with pytest.raises(FednerError) as caught:
        checked("columns", READERS["columns"].options, given)
    assert len(caught.value.message.splitlines()) == 4
    assert "option separator of columns: found 'comma'" in caught.value.message


def test_an_option_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Aspirin helped.")
    (tmp_path / "a.ann").write_text("T1\tDrug 0 7\tAspirin\n")
    with pytest.raises(FednerError, match=r"option scheme of brat: .* it has no options"):
        read(tmp_path, options=ReadOptions({"scheme": "BIO"}))


def test_two_sources_of_patients_are_refused(tag_first: Path) -> None:
    options = ReadOptions({"patient_column": "2"}, patients=PatientSource(column="1"))
    with pytest.raises(FednerError, match="patient_column and another source"):
        read(tag_first, "columns", options=options)


def test_an_option_that_finds_no_patient_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "1", "text": "Fine.", "spans": []}\n')
    found = inspect(path, options=ReadOptions({"patient_column": "mrn"}))
    assert found.log.counts == {"no such column": 1}


def test_in_a_folder_of_corpora_each_format_takes_its_own(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "train.tsv").write_text("rash\tB-ADE\nfine\tO\n\n" * 5)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.txt").write_text("Aspirin helped.")
    (tmp_path / "b" / "a.ann").write_text("T1\tDrug 0 7\tAspirin\n")
    found = inspect_all(tmp_path, options=ReadOptions({"scheme": "IOB2"}))
    assert {each.recognition.tag_scheme for each in found.values()} == {"BIO", None}
    with pytest.raises(FednerError, match=r'found "shceme"; expected one that .* have') as caught:
        inspect_all(tmp_path, options=ReadOptions({"shceme": "IOB2"}))
    assert "scheme" in caught.value.message


def test_a_wrong_encoding_is_refused_before_anything_is_read(tag_first: Path) -> None:
    with pytest.raises(FednerError, match='found "latin-11"'):
        inspect(tag_first, "columns", options=ReadOptions(encoding="latin-11"))
