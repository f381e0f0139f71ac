"""Entity types with descriptions: public ones in the study, others at home."""

from typing import Any

import pytest
from study_examples import STUDY, own, study

from fedner.settings import SettingsError, Study, parse_as, platform_toml, study_toml
from fedner.settings.sections import MAX_DESCRIPTION

ADR = "adverse drug reaction, an unwanted effect of a medicine"


def test_descriptions_are_part_of_the_study_and_its_digest() -> None:
    described, other = study(types={"ADR": ADR}), study(types={"ADR": ADR + "s"})
    assert described.types == {"ADR": ADR}
    assert len({study().digest, described.digest, other.digest}) == 3
    assert f'ADR = "{ADR}"' in study_toml(described)


def test_descriptions_of_a_platform_are_its_own() -> None:
    settings = own(types={"Own kind": "something of ours"})
    assert "types" not in repr(settings)
    assert '"Own kind" = "something of ours"' in platform_toml(settings)
    assert "something of ours" not in str(settings)


@pytest.mark.parametrize(
    "types",
    [
        {"ADR": ""},
        {"ADR": "two\nlines"},
        {"ADR": "\x1b[31mred"},
        {"ADR": "right to left \u202e"},
        {"ADR": " blank"},
        {"ADR": "x" * (MAX_DESCRIPTION + 1)},
        {"": "without a name"},
        {"A\tR": "a name with a tab"},
        {"x" * 101: "a long name"},
    ],
)
def test_names_and_descriptions_are_one_printable_line(types: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=r"types: .*expected names of 1 to 100 .*wrong: the"):
        study(types=types)
    with pytest.raises(SettingsError, match="types"):
        own(types=types)


def test_all_wrong_descriptions_are_reported_together_with_other_problems() -> None:
    tables: dict[str, Any] = STUDY | {"types": {"A": "", "B": "fine", "C": "\0"}, "seed": -1}
    with pytest.raises(SettingsError) as raised:
        parse_as(Study, tables, "study.toml")
    assert "the description of 'A', the description of 'C'" in raised.value.message
    assert {each.key for each in raised.value.problems} == {"types", "seed"}


def test_a_description_that_is_no_text_is_named_by_its_type() -> None:
    with pytest.raises(SettingsError, match=r"types\.ADR: found 3; expected text in quotes"):
        study(types={"ADR": 3})
