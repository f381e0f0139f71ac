"""A federation file: what it spells, and all that is wrong with it at once."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedner.errors import FednerError
from fedner.settings import (
    SettingsError,
    attempt,
    escape_problems,
    nearest,
    override,
    parse,
    read_toml,
    record_from,
    resolved,
)

SOUND = {
    "training": {"rounds": 3},
    "platforms": [{"name": "a", "data": "a.tsv"}, {"name": "b", "data": "b.tsv"}],
}


def keys(tables: dict) -> list[str]:
    return [problem.key for problem in attempt(tables)[1]]


def test_what_is_left_out_has_its_default() -> None:
    settings = parse(SOUND)
    assert settings.training.batch_size == 64
    assert settings.model.recipe == "CNN-CLSTM-CRF"
    assert settings.algorithm.name == "fedner"
    assert settings.platforms[0].split.by == "sentence"


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        parse(SOUND).training.batch_size = 3  # type: ignore[misc]


def test_every_problem_is_told_with_key_value_and_expectation() -> None:
    wrong = {
        "sead": 1,
        "model": {"hiden": 3, "tag_scheme": "BOI", "dropout": 1.5},
        "partition": {"shared": [1]},
        "training": {"rounds": 0, "baselines": ["local"]},
        "platforms": [
            {"name": "../x", "data": 3, "split": {"by": "sentnce", "test": 0.2, "test_data": "t"}},
            {"data": "b.tsv", "label": []},
            7,
        ],
    }
    with pytest.raises(SettingsError) as caught:
        parse(wrong, "federation.toml")
    told = {problem.key: problem for problem in caught.value.problems}
    assert set(told) == {
        "sead",
        "model.hiden",
        "model.tag_scheme",
        "model.dropout",
        "partition.shared",
        "training.rounds",
        "training.baselines[0]",
        "platforms[0].name",
        "platforms[0].data",
        "platforms[0].split.by",
        "platforms[0].split",
        "platforms[1].name",
        "platforms[1].label",
        "platforms[2]",
    }
    assert "'seed'" in told["sead"].hint
    assert "'hidden'" in told["model.hiden"].hint
    assert "'BIO'" in told["model.tag_scheme"].hint
    assert "'local-only'" in told["training.baselines[0]"].hint
    assert told["platforms[0].data"].found == "3"
    assert "folder" in told["platforms[0].name"].expected
    assert str(caught.value).count("\n") >= len(told)


def test_numbers_are_not_text() -> None:
    assert keys({**SOUND, "seed": "3"}) == ["seed"]
    assert keys({**SOUND, "training": {"rounds": True}}) == ["training.rounds"]
    assert keys({**SOUND, "training": {"rounds": 3.5}}) == ["training.rounds"]


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ({}, ["training", "platforms"]),
        ({"training": 4, "platforms": 3}, ["training", "platforms"]),
        ({"training": {"rounds": 1}, "platforms": []}, ["platforms"]),
        ({"training": {"rounds": 1, "epochs": 1}, "platforms": SOUND["platforms"]}, ["training"]),
    ],
)
def test_whole_sections_that_are_missing_or_wrong(tables: dict, expected: list[str]) -> None:
    assert keys(tables) == expected


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["training", "platforms", "model", "name", "data", "split", "rounds", "x"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_any_table_gives_settings_or_problems_and_never_another_error(value: object) -> None:
    tables = value if isinstance(value, dict) else {"training": value, "platforms": value}
    settings, problems = attempt(tables)
    assert problems or settings is not None


def test_overrides_are_typed_and_reach_platforms_by_name_or_place() -> None:
    changed = override(
        SOUND,
        [
            "model.hidden=100",
            'training.baselines=["local-only"]',
            "platforms.b.public_size=7",
            "platforms.0.data=else where.tsv",
            "title=two words",
            "algorithm.server_optimizer.learning_rate=0.5",
        ],
    )
    settings = parse(changed)
    assert settings.model.hidden == 100
    assert settings.training.baselines == ("local-only",)
    assert settings.platforms[1].public_size == 7
    assert settings.platforms[0].data == "else where.tsv"
    assert settings.title == "two words"
    assert settings.algorithm.parameters == {"server_optimizer": {"learning_rate": 0.5}}
    assert "model" not in SOUND, "the tables themselves stay as they are"


def test_a_length_that_is_set_takes_the_place_of_the_other() -> None:
    assert parse(override(SOUND, ["training.epochs=4"])).training.rounds is None
    assert parse(override(SOUND, ["training.rounds=4"])).training.epochs is None


def test_overrides_that_lead_nowhere_are_all_told() -> None:
    with pytest.raises(SettingsError) as caught:
        override(
            SOUND, ["nonsense", "platforms.c.data=x", "training.rounds.deep=1", "platforms.0=x"]
        )
    assert len(caught.value.problems) == 4


def test_paths_become_absolute_and_words_stay(tmp_path: Path) -> None:
    tables = {
        **SOUND,
        "embeddings": {"words": "vectors.txt", "cache": "features"},
        "platforms": [
            {"name": "a", "data": "a.tsv", "split": {"test_data": "test.tsv"}},
            {"name": "b", "data": "synthetic:case-reports"},
        ],
    }
    settings = resolved(parse(tables), tmp_path)
    assert settings.embeddings.words == str(tmp_path / "vectors.txt")
    assert settings.embeddings.context == "none"
    assert settings.embeddings.cache == str(tmp_path / "features")
    assert settings.platforms[0].data == str(tmp_path / "a.tsv")
    assert settings.platforms[0].split.test_data == str(tmp_path / "test.tsv")
    assert settings.platforms[1].data == "synthetic:case-reports"
    assert parse(settings.model_dump(mode="json")) == settings


def test_a_file_that_is_no_toml_says_where(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text("seed = \n")
    with pytest.raises(FednerError, match="line 1"):
        read_toml(path)
    with pytest.raises(FednerError, match="fedner init"):
        read_toml(tmp_path / "missing.toml")


@pytest.mark.parametrize("text", ["", " \n", "# nothing yet\n", "\ufeff"])
def test_an_empty_file_is_called_empty(tmp_path: Path, text: str) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FednerError, match=r"empty|nothing but comments") as caught:
        read_toml(path)
    assert "fedner init" in caught.value.hint


@pytest.mark.parametrize("windows", [r"C:\Users\me\notes", r"\\server\share\x", r"..\corpora\x"])
def test_a_windows_path_in_double_quotes_gets_a_useful_word(tmp_path: Path, windows: str) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(f'title = "x"\n[[platforms]]\ndata = "{windows}"\n')
    with pytest.raises(FednerError, match="line 3") as caught:
        read_toml(path)
    assert f"'{windows}'" in caught.value.hint
    assert windows.replace("\\", "/") in caught.value.hint


def test_a_windows_path_that_happens_to_be_valid_toml_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "federation.toml"
    path.write_text(
        '[training]\nrounds = 1\n[embeddings]\nwords = "C:\\new\\f.txt"\n[[platforms]]\n'
        'name = "a"\ndata = "C:\\temp\\notes"\nsplit = { test_data = "C:\\temp\\b" }\n'
    )
    problems = escape_problems(parse(read_toml(path)))
    keys = ["embeddings.words", "platforms[0].data", "platforms[0].split.test_data"]
    assert [problem.key for problem in problems] == keys
    assert "single quotes" in problems[0].hint


def test_the_nearest_name_is_asked_for() -> None:
    assert nearest("FedNRE", ["fedavg", "fedner"]) == "Did you mean 'fedner'?"
    assert nearest("zzz", ["fedavg", "fedner"]) == "Choose one of fedavg, fedner."


@dataclass(frozen=True, slots=True)
class Inner:
    rate: float = 0.1
    betas: tuple[float, float] = (0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Outer:
    steps: int = 1
    inner: Inner = field(default_factory=Inner)


def test_a_dataclass_is_filled_from_a_table() -> None:
    table = {"inner": {"rate": 2, "betas": [0.5, 0.6]}}
    made, problems = record_from(Outer, table)
    assert not problems
    assert made == Outer(1, Inner(2.0, (0.5, 0.6)))


def test_a_table_that_does_not_fit_a_dataclass_is_told_key_by_key() -> None:
    made, problems = record_from(Outer, {"step": 2, "inner": {"rate": "x"}}, "algorithm.")
    assert made is None
    assert {problem.key for problem in problems} == {"algorithm.step", "algorithm.inner.rate"}
    assert any("'steps'" in problem.hint for problem in problems)


def test_patients_come_from_exactly_one_place() -> None:
    def tables(patients: dict[str, object]) -> dict[str, object]:
        platform = {"name": "a", "data": "notes", "patients": patients}
        return {"training": {"rounds": 1}, "platforms": [platform]}

    found = resolved(parse(tables({"file": "p.csv"})), Path("/data")).platforms[0].patients
    assert found is not None
    assert found.file == "/data/p.csv"
    for wrong in ({}, {"file": "p.csv", "pattern": "x"}):
        with pytest.raises(SettingsError, match="exactly one of file, column and pattern"):
            parse(tables(wrong))
