"""`model.initial`: a folder in a federation file, a name and a digest in the study."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from study_examples import own, study

from fedner.errors import FednerError
from fedner.settings import (
    NamedModel,
    SettingsError,
    Study,
    escape_problems,
    federation_of,
    parse,
    parse_as,
    resolved,
    study_of,
    study_toml,
)

NAMED = {"name": "public corpora", "digest": "ab" * 32}
TABLES: dict[str, Any] = {
    "training": {"rounds": 1},
    "model": {"initial": "models/public"},
    "platforms": [{"name": "clinic", "data": "notes", "public_size": 4}],
}


def test_the_study_has_name_and_digest_in_its_own_digest() -> None:
    begun = study(model={"initial": NAMED})
    other = study(model={"initial": {**NAMED, "digest": "cd" * 32}})
    assert len({study().digest, begun.digest, other.digest}) == 3
    assert parse_as(Study, tomllib.loads(study_toml(begun)), "study.toml") == begun
    assert "initial" not in study_toml(study())


def test_both_halves_of_a_federation_file(tmp_path: Path) -> None:
    settings = resolved(parse(TABLES), tmp_path)
    assert settings.model.initial == str(tmp_path / "models" / "public")
    assert "public" not in repr(settings.model)
    named = NamedModel(**NAMED)
    found = study_of(settings, {}, initial=named)
    assert found.model.initial == named
    assert str(tmp_path) not in study_toml(found)
    with pytest.raises(FednerError, match="a study needs its digest"):
        study_of(settings, {})
    again = federation_of(found, [own()], initial=settings.model.initial)
    assert again.model == settings.model
    assert federation_of(found, [own()]).model.initial == "public corpora", "stands in"


@pytest.mark.parametrize(
    ("initial", "problem"),
    [
        ("models/public", "a table with name and digest"),
        ({"name": "x"}, r"model\.initial\.digest: found nothing"),
        ({**NAMED, "digest": "AB"}, "a SHA-256 digest"),
        ({**NAMED, "name": "two\nlines"}, "printable characters in one line"),
        ({**NAMED, "name": ""}, "printable characters in one line"),
        ({**NAMED, "path": "/models"}, "a key that there is not"),
    ],
)
def test_what_a_study_cannot_begin_with(initial: object, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        study(model={"initial": initial})


def test_a_backslash_that_toml_read_as_an_escape_is_found() -> None:
    [problem] = escape_problems(parse({**TABLES, "model": {"initial": "C:\temp"}}))
    assert problem.key == "model.initial"
