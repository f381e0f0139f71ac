"""A platform's data as its settings say: labels, splits, what cannot be read."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import fedner.corpus
from fedner.corpus.files import CHANGE_UNDECODED
from fedner.errors import FednerError
from fedner.privacy.budget import Budget
from fedner.privacy.ledger_owner import open_ledger
from fedner.privacy.sampling import units_of
from fedner.runs.annotated_types import TypeRow, left_out_words
from fedner.runs.checks import checked
from fedner.runs.file_words import KEYS
from fedner.runs.platform_data import PlatformData, load_platform, load_platforms
from fedner.settings import Settings, SettingsError

TEXT = "aspirin\tB-Drug\nhelped\tO\n\nrash\tB-Effect\nafter\tO\nx\tB-Other\n\n"


def settings_of(tmp_path: Path, text: str, tables: dict | None = None, **table: object) -> Settings:
    path = tmp_path / "train.tsv"
    path.write_text(text)
    platforms = [{"name": "a", "data": str(path), **table}]
    return checked({"training": {"rounds": 1}, "platforms": platforms, **(tables or {})}, tmp_path)


def load(tmp_path: Path, text: str = TEXT * 10, **table: object) -> PlatformData:
    return load_platform(settings_of(tmp_path, text, **table).platforms[0], seed=1)


def problems(tmp_path: Path, **table: object) -> list[str]:
    """What is wrong with the types of a platform that has Drug, Effect and Other."""
    with pytest.raises(SettingsError) as caught:
        load_platforms(settings_of(tmp_path, TEXT * 10, **table))
    return [str(problem) for problem in caught.value.problems]


def test_labels_are_renamed_and_left_out(tmp_path: Path) -> None:
    data = load(tmp_path, label_map={"Effect": "ADE", "Other": ""})
    assert data.labels == ("ADE", "Drug")
    assert {entity.label for each in data.sentences for entity in each.entities} == {"ADE", "Drug"}
    assert data.changes.dropped_labels == 10


def test_a_declared_type_that_the_data_never_have_is_an_error(tmp_path: Path) -> None:
    absent, strange = problems(tmp_path, labels=["Drugs", "Other"])
    assert absent.startswith("platforms[0].labels (a): found 'Drugs', which the data do not have")
    assert "Drug, Effect, Other" in absent
    assert "Did you mean 'Drug'?" in absent
    assert 'label_map = { Drug = "Drugs" }' in absent
    assert 'label_map = { Effect = "" }' in strange, "Drug was asked about already"


def test_a_type_that_nothing_declares_or_maps_is_an_error_with_a_way_to_leave_it_out(
    tmp_path: Path,
) -> None:
    (said,) = problems(tmp_path, labels=["Drug"])
    assert "Effect (10 mentions), Other (10 mentions)" in said
    assert 'label_map = { Effect = "", Other = "" }' in said
    data = load_platforms(
        settings_of(tmp_path, TEXT * 10, labels=["Drug"], label_map={"Effect": "", "Other": ""})
    )["a"]
    assert {entity.label for each in data.sentences for entity in each.entities} == {"Drug"}
    assert data.warnings == ()


def test_odd_names_of_types_are_quoted_in_the_hint(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "a\tB-Side effect\n\nb\tB-X\n\n" * 5, labels=["X"])
    with pytest.raises(SettingsError, match=r'label_map = \{ "Side effect" = "" \}'):
        load_platforms(settings)


def test_a_label_map_that_names_a_strange_type_is_told(tmp_path: Path) -> None:
    (said,) = problems(tmp_path, label_map={"Efect": "ADE"})
    assert said.startswith("platforms[0].label_map (a): found 'Efect'")
    assert "Did you mean 'Effect'?" in said


def test_a_label_map_may_name_types_of_the_test_file_alone(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("rash\tB-Rash\n\naspirin\tB-Drug\n\n")
    table = {"label_map": {"Rash": "Effect"}, "split": {"test_data": str(tmp_path / "test.tsv")}}
    data = load_platforms(settings_of(tmp_path, TEXT * 10, **table))["a"]
    assert data.labels == ("Drug", "Effect", "Other")


def test_whether_a_protected_run_begins_does_not_depend_on_its_texts(tmp_path: Path) -> None:
    open_ledger(tmp_path / "ledger", Budget(3.0, 1e-5, "sentence"), 100)
    privacy = {"mechanism": "unit-local", "noise_multiplier": 1.0, "tuned_on": "nothing"}
    table = {"labels": ["Drugs"], "public_size": 100, "format": "columns"}
    table["options"] = {"scheme": "BIO"}
    table["ledger"] = str(tmp_path / "ledger")
    distinct = "".join(f"drug{number}\tB-Drug\n\n" for number in range(100))
    data = load_platforms(settings_of(tmp_path, distinct, {"privacy": privacy}, **table))["a"]
    assert data.labels == ("Drugs",)
    assert "Did you mean 'Drug'?" in data.warnings[0], "its owner is warned"
    simulated = {"privacy": {**privacy, "simulation": True}}
    with pytest.raises(SettingsError, match="Did you mean 'Drug'"):
        load_platforms(settings_of(tmp_path, TEXT * 10, simulated, **table))


def test_what_is_left_out_is_counted_by_type(tmp_path: Path) -> None:
    data = tmp_path / "notes.jsonl"
    mentions = [[0, 1, "A"], [0, 3, "A"], [4, 5, "B"], [4, 5, "C"], [9, 99, "B"]]
    data.write_text((json.dumps({"text": "a b c", "label": mentions}) + "\n") * 4)
    table = {"lenient": True, "label_map": {"A": "X", "C": ""}, "format": "doccano"}
    settings = settings_of(tmp_path, "", **table, data=str(data))
    held = load_platforms(settings)["a"]
    rows = {row.type: row for row in held.facts().types}
    assert rows["X"] == TypeRow("X", ("A",), mentions=8, skipped=0, left_out=0, flattened=4, kept=4)
    assert (rows["B"].mentions, rows["B"].skipped, rows["B"].kept) == (8, 4, 4)
    assert (rows["C"].left_out, rows["C"].kept) == (4, 0)
    assert left_out_words(rows.values()) == (
        "4 C by labels or label_map; 4 X by flattening; 4 B by lenient reading"
    )


def test_a_type_without_a_training_mention_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("rash\tB-Rash\n\n")
    split = {"test_data": str(tmp_path / "test.tsv")}
    data = load_platforms(settings_of(tmp_path, TEXT * 10, split=split))["a"]
    assert data.warnings == ("no training sentence mentions Rash: the tagger cannot learn it",)


def test_readers_name_keys_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_platforms(settings_of(tmp_path, "a\tB-X\nb\n", format="columns"))
    assert "read with `lenient = true`" in str(caught.value)
    assert "--lenient" not in str(caught.value)


def test_every_option_in_a_hint_of_a_reader_has_a_key() -> None:
    folder = Path(fedner.corpus.__file__).parent
    hints = [
        option
        for path in folder.rglob("*.py")
        for line in path.read_text().splitlines()
        if '"' in line and '"""' not in line
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", line)
    ]
    assert hints
    assert set(hints) <= set(KEYS)


def test_data_that_cannot_train_are_said_in_the_words_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_bytes("Müde.\n".encode("latin-1"))
    (tmp_path / "notes" / "a.ann").write_text("T1\tADE 0 4\tMüde\n", encoding="utf-8")
    (said,) = problems(tmp_path, data=str(tmp_path / "notes"))
    assert 'Name its encoding, for example `encoding = "latin-1"`; lenient' in said
    assert "--" not in said
    assert ".;" not in said
    (one,) = problems(tmp_path, data=str(few(tmp_path)))
    assert one.startswith(
        "platforms[0] (a): Split by sentence: found 1 sentence; expected at least"
    )
    assert one.endswith(" 2. Read more data.")


def few(tmp_path: Path) -> Path:
    """Write a single sentence."""
    path = tmp_path / "one.tsv"
    path.write_text("aspirin\tB-Drug\nhelped\tO\n\n")
    return path


def test_parts_are_disjoint_and_follow_the_seed(tmp_path: Path) -> None:
    data = load(tmp_path, split={"test": 0.25, "seed": 3})
    assert len(data.test) == 5
    assert sorted((*data.train, *data.test)) == list(range(20))
    again = load(tmp_path, split={"test": 0.25, "seed": 3})
    assert again.test_digest == data.test_digest
    assert load(tmp_path, split={"test": 0.25, "seed": 4}).test != data.test


def test_equal_shards_of_one_corpus_are_the_whole_and_disjoint(tmp_path: Path) -> None:
    text = "".join(f"word{number}\tB-Drug\n\n" for number in range(11))
    test = tmp_path / "test.tsv"
    test.write_text("ibuprofen\tB-Drug\n\n")
    split = {"test_data": str(test)}
    parts = [load(tmp_path, text, shard=f"{number}/3", split=split) for number in (1, 2, 3)]
    assert sorted(len(part.train) for part in parts) == [3, 4, 4]
    words = [each.tokens[0] for part in parts for each in part.train_sentences]
    assert sorted(words) == sorted(f"word{number}" for number in range(11))
    assert {part.test_digest for part in parts} == {parts[0].test_digest}


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1/0", "half"])
def test_shards_that_are_none_are_refused(tmp_path: Path, shard: str) -> None:
    with pytest.raises(SettingsError, match="shard"):
        load(tmp_path, shard=shard)


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


def test_patients_of_a_table_decide_splits_and_units(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"n{number}.txt").write_text("Aspirin helped.\nNo rash.\n")
        (tmp_path / f"n{number}.ann").write_text("T1\tDrug 0 7\tAspirin\n")
    table = tmp_path / "patients.csv"
    rows = [f"n{number},p{number % 4}\n" for number in range(12)]
    table.write_text("document,patient\n" + "".join(rows))

    def read(**more: object) -> PlatformData:
        platform = {"name": "a", "data": str(tmp_path), "split": {"by": "patient"}, **more}
        tables = {"training": {"rounds": 1}, "platforms": [platform]}
        return load_platform(checked(tables, tmp_path).platforms[0], seed=1)

    data = read(patients={"file": "patients.csv"})
    assert len(units_of(data.sentences, "patient")) == 4
    assert len(units_of(data.sentences, "document")) == 12
    assert not {s.patient for s in data.train_sentences} & {s.patient for s in data.test_sentences}
    assert not any("test part" in remark for remark in data.remarks)
    by_sentence = read(patients={"pattern": r"^n\d*(?P<patient>\d)"}, split={"by": "sentence"})
    both = "patients with sentences in the training and in the test part"
    assert by_sentence.remarks[both] >= 1, "what leaks is said"
    table.write_text("".join(rows[:-2]))
    with pytest.raises(FednerError, match=r"2 documents: n10, n11") as caught:
        read(patients={"file": "patients.csv"})
    assert "--patients" in caught.value.hint


def test_a_table_of_patients_for_training_and_test_file(tmp_path: Path) -> None:
    test = tmp_path / "test.tsv"
    test.write_text("-DOCSTART-\tid=z\tO\n\n" + TEXT)
    text = "-DOCSTART-\tid=y\tO\n\n" + TEXT
    table = tmp_path / "p.csv"
    table.write_text("y,one\nz,two\n")
    more = {"split": {"test_data": str(test)}, "patients": {"file": "p.csv"}}
    data = load(tmp_path, text, **more)
    assert [sentence.patient for sentence in data.sentences] == ["one"] * 2 + ["two"] * 2
    table.write_text("y,one\nz,two\nw,two\n")
    with pytest.raises(FednerError, match=r'p.csv:3: unknown document: found the document "w"'):
        load(tmp_path, text, **more)
    assert load(tmp_path, text, **more, lenient=True).remarks["problem: unknown document"] == 1


def test_an_encoding_and_what_is_not_text_in_it(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_bytes((TEXT * 9 + "fièvre\tB-Effect\n\n").encode("latin-1"))

    def read(**more: object) -> PlatformData:
        tables = {
            "training": {"rounds": 1},
            "platforms": [{"name": "a", "data": str(path), **more}],
        }
        return load_platform(checked(tables, tmp_path).platforms[0], seed=1)

    assert read(encoding="latin-1").sentences[-1].tokens == ("fièvre",)
    assert read(lenient=True).facts().remarks[CHANGE_UNDECODED] == 1
    with pytest.raises(FednerError, match="--encoding latin-1"):
        read()
