"""A platform's data as its settings say: labels, splits, what cannot be read."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.runs.checks import checked
from fedner.runs.platform_data import PlatformData, load_platform, load_platforms
from fedner.settings import Settings, SettingsError

TEXT = "aspirin\tB-Drug\nhelped\tO\n\nrash\tB-Effect\nafter\tO\nx\tB-Other\n\n"


def load(tmp_path: Path, text: str = TEXT * 10, **table: object) -> PlatformData:
    path = tmp_path / "train.tsv"
    path.write_text(text)
    tables = {
        "training": {"rounds": 1},
        "platforms": [{"name": "a", "data": str(path), **table}],
    }
    return load_platform(checked(tables, tmp_path).platforms[0], seed=1)


def test_labels_are_renamed_and_left_out(tmp_path: Path) -> None:
    data = load(tmp_path, label_map={"Effect": "ADE", "Other": ""})
    assert data.labels == ("ADE", "Drug")
    assert {entity.label for each in data.sentences for entity in each.entities} == {"ADE", "Drug"}
    assert data.changes.dropped_labels == 10


def test_declared_labels_are_all_there_is(tmp_path: Path) -> None:
    data = load(tmp_path, labels=["Drug", "Dose"])
    assert data.labels == ("Dose", "Drug")
    assert {entity.label for each in data.sentences for entity in each.entities} == {"Drug"}


def test_a_label_map_that_names_a_strange_type_is_told(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="Efect") as caught:
        load(tmp_path, label_map={"Efect": "ADE"})
    assert "'Effect'" in caught.value.hint


def test_parts_are_disjoint_and_follow_the_seed(tmp_path: Path) -> None:
    data = load(tmp_path, split={"test": 0.25, "seed": 3})
    assert len(data.test) == 5
    assert sorted((*data.train, *data.test)) == list(range(20))
    again = load(tmp_path, split={"test": 0.25, "seed": 3})
    assert again.test_digest == data.test_digest
    assert load(tmp_path, split={"test": 0.25, "seed": 4}).test != data.test


def test_equal_parts_of_one_corpus_are_the_whole_and_disjoint(tmp_path: Path) -> None:
    text = "".join(f"word{number}\tB-Drug\n\n" for number in range(11))
    test = tmp_path / "test.tsv"
    test.write_text("ibuprofen\tB-Drug\n\n")
    split = {"test_data": str(test)}
    parts = [load(tmp_path, text, part=f"{number}/3", split=split) for number in (1, 2, 3)]
    assert sorted(len(part.train) for part in parts) == [3, 4, 4]
    words = [each.tokens[0] for part in parts for each in part.train_sentences]
    assert sorted(words) == sorted(f"word{number}" for number in range(11))
    assert {part.test_digest for part in parts} == {parts[0].test_digest}


@pytest.mark.parametrize("part", ["0/3", "4/3", "1/0", "half"])
def test_parts_that_are_none_are_refused(tmp_path: Path, part: str) -> None:
    with pytest.raises(SettingsError, match="part"):
        load(tmp_path, part=part)


def test_a_test_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("ibuprofen\tB-Drug\n\nfine\tO\n")
    data = load(tmp_path, split={"test_data": str(tmp_path / "test.tsv")})
    assert [each.tokens for each in data.test_sentences] == [("ibuprofen",), ("fine",)]
    assert len(data.train) == 20


def test_the_digest_knows_gold_entities(tmp_path: Path) -> None:
    one = load(tmp_path, "a\tB-X\n\nb\tO\n", split={"test": 0.5})
    other = load(tmp_path, "a\tB-Y\n\nb\tB-Y\n", split={"test": 0.5})
    assert one.test_digest != other.test_digest


def test_the_troubles_of_all_platforms_are_told_together(
    tiny: Callable[..., Settings], tmp_path: Path
) -> None:
    bad = tmp_path / "bad.tsv"
    bad.write_text("a\tB-X\nb\tZ-X-?\tmore\n")
    short = tmp_path / "short.tsv"
    short.write_text("a\tB-X\n")
    settings = tiny(f"platforms.0.data={bad}", f"platforms.2.data={short}")
    with pytest.raises(SettingsError) as caught:
        load_platforms(settings)
    assert [problem.key.split(" ")[0] for problem in caught.value.problems] == [
        "platforms[0]",
        "platforms[2]",
    ]
