"""study.toml and platform.toml: all problems at once, and files that read back equal."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_examples import STUDY, own, study

from fedner.errors import FednerError
from fedner.settings import (
    PlatformSettings,
    SettingsError,
    Study,
    attempt_as,
    parse_as,
    platform_escape_problems,
    platform_toml,
    read_toml,
    resolved_platform,
    study_toml,
)
from fedner.settings.writing import to_toml


def told(kind: Any, tables: dict[str, Any]) -> dict[str, str]:
    return {each.key: str(each) for each in attempt_as(kind, tables)[1]}


def test_all_problems_of_a_study_are_reported_together() -> None:
    found = told(
        Study,
        {
            "sead": 1,
            "embeddings": {
                "words": "/home/glove.txt",
                "context": {"name": "minilm", "digest": "xyz"},
            },
            "platforms": [
                {"name": "clinic", "data": "notes"},
                {"name": "ward", "public_size": 0, "tag_scheme": "BIEOS"},
                3,
            ],
        },
    )
    assert set(found) == {
        "sead",
        "embeddings.words",
        "embeddings.context.digest",
        "embeddings.context.dimension",
        "training",
        "platforms[0].public_size",
        "platforms[0].data",
        "platforms[1].public_size",
        "platforms[1].tag_scheme",
        "platforms[2]",
    }
    assert "'seed'" in found["sead"]
    assert "platform.toml" in found["embeddings.words"]
    assert "SHA-256" in found["embeddings.context.digest"]
    assert "'BIOES'" in found["platforms[1].tag_scheme"]


def test_all_problems_of_a_platform_are_reported_together() -> None:
    found = told(
        PlatformSettings,
        {
            "name": "clinic",
            "labels": ["ADE"],
            "policy": {"study": [], "studies": [""], "epsilon": 0},
        },
    )
    assert set(found) == {"data", "labels", "policy.epsilon", "policy.study", "policy.studies[0]"}
    assert "'studies'" in found["policy.study"]
    assert "SHA-256" in found["policy.studies[0]"]


def test_a_key_in_the_wrong_half_is_sent_to_the_other() -> None:
    platform = {"name": "clinic", "public_size": 4, "ledger": "l", "ledgr": "l"}
    found = told(Study, STUDY | {"engine": {"workers": 2}, "platforms": [platform]})
    assert "platform.toml" in found["platforms[0].ledger"]
    assert "platform.toml" not in found["platforms[0].ledgr"]
    assert "federation file" in found["engine"]
    own_keys = {"name": "clinic", "data": "d", "public_size": 4, "training": {}, "sed": 1}
    found = told(PlatformSettings, own_keys)
    assert "study.toml" in found["public_size"]
    assert "study.toml" in found["training"]
    assert "study.toml" not in found["sed"]


def test_a_study_without_platforms_is_none() -> None:
    assert set(told(Study, STUDY | {"platforms": []})) == {"platforms"}
    assert set(told(Study, {"training": {"rounds": 1}})) == {"platforms"}


def test_an_empty_platform_file_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "platform.toml").write_text("# later\n")
    with pytest.raises(FednerError, match="expected at least name and data"):
        read_toml(tmp_path / "platform.toml", "name and data")


def test_a_study_reads_back_equal_and_says_everything() -> None:
    made = study(
        title='"quoted" \\ and \x7f\t',
        seed=2**63 - 1,
        embeddings={
            "words": {"name": "glove", "digest": "a" * 64, "dimension": 50},
            "context": {"name": "e", "digest": "b" * 64, "dimension": 9, "layers": 2},
        },
        algorithm={"name": "fedner", "server_optimizer": {"name": "adam", "learning_rate": 1e-5}},
        privacy={"mechanism": "none", "delta": 1e-7, "uncharged": ["a", "ü"]},
    )
    text = study_toml(made)
    again = parse_as(Study, tomllib.loads(text), "study.toml")
    assert again == made
    assert again.digest == made.digest
    assert "batch_size = 64" in text, "defaults are written out"


def test_the_order_of_keys_in_the_file_changes_no_digest() -> None:
    one = study(algorithm={"name": "fedner", "local_steps": 2, "loss": "sum"})
    other = study(algorithm={"loss": "sum", "local_steps": 2, "name": "fedner"})
    assert one.digest == other.digest
    assert one.digest != study().digest


def test_a_platform_reads_back_equal_and_says_what_is_no_default() -> None:
    made = own(
        data="C:\\notes",
        label_map={"Adverse reaction": "ADE", "x.y": ""},
        split={"by": "patient", "test": 0.25},
        policy={"studies": ["c" * 64], "sends_scores": False},
    )
    text = platform_toml(made)
    assert parse_as(PlatformSettings, tomllib.loads(text), "p") == made
    assert "flatten" not in text
    assert '"Adverse reaction" = "ADE"' in text


def test_what_toml_cannot_say_is_an_error() -> None:
    whole = study()
    changed = whole.training.model_copy(update={"rounds": None})
    with pytest.raises(FednerError, match="read back differently"):
        study_toml(whole.model_copy(update={"training": changed}))
    with pytest.raises(FednerError, match="cannot be written"):
        study_toml(whole.model_copy(update={"title": "\ud800"}))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PLAIN = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)


@given(
    st.dictionaries(
        TEXT,
        st.recursive(
            PLAIN,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_any_plain_table_reads_back_equal(tables: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(tables)) == tables


def test_every_path_of_a_platform_becomes_absolute(tmp_path: Path) -> None:
    made = own(
        ledger="ledger",
        split={"test_data": "test"},
        patients={"file": "p.csv"},
        embeddings={"words": "glove", "context": "hub:minilm", "cache": "c"},
    )
    found = resolved_platform(made, tmp_path).model_dump()
    assert found["data"] == str(tmp_path / "notes")
    assert found["ledger"] == str(tmp_path / "ledger")
    assert found["split"]["test_data"] == str(tmp_path / "test")
    assert found["patients"]["file"] == str(tmp_path / "p.csv")
    assert found["embeddings"]["words"] == str(tmp_path / "glove")
    assert found["embeddings"]["context"] == "hub:minilm"
    assert found["embeddings"]["cache"] == str(tmp_path / "c")
    synthetic = resolved_platform(own(data="synthetic:case-reports"), tmp_path)
    assert synthetic.data == "synthetic:case-reports"
    assert synthetic.ledger is None


def test_escapes_in_any_path_of_a_platform_are_seen() -> None:
    made = own(data="C:\temp", patients={"file": "C:\new"}, embeddings={"words": "\b"})
    keys = [each.key for each in platform_escape_problems(made)]
    assert keys == ["data", "patients.file", "embeddings.words"]


def test_a_wrong_study_raises_with_its_name() -> None:
    with pytest.raises(SettingsError, match=r"study\.toml: 1 problem"):
        study(seed="x")
