"""Records of a run: read back as they were written, frozen, with the keys that others rely on."""

import json
from dataclasses import FrozenInstanceError, is_dataclass
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.runs import records
from fedner.runs.folder import COUNTS, DISCLOSURE, FACTS, PRIVACY, SCORES, RunFolder
from fedner.runs.records import (
    Disclosure,
    PlatformScores,
    PrivacySpent,
    RunDisclosure,
    RunFacts,
    RunScores,
    SiteFacts,
    UnitCounts,
)
from fedner.runs.records.border import from_json
from run_records import (
    gain_of,
    platform_of,
    platform_spent,
    privacy_spent,
    run_disclosure,
    run_scores,
    scores_of,
)

OF_RUN = {SCORES: RunScores, FACTS: RunFacts, DISCLOSURE: RunDisclosure}
OF_SITE = {SCORES: PlatformScores, FACTS: SiteFacts, DISCLOSURE: Disclosure, COUNTS: UnitCounts}


@pytest.mark.parametrize("name", OF_RUN)
def test_files_of_a_run_read_back_to_the_very_bytes(finished: Path, name: str) -> None:
    stated = json.loads((finished / name).read_bytes())
    record = RunFolder(finished).read_as(OF_RUN[name], name)
    again = record.as_dict()
    assert json.dumps(again) == json.dumps(stated), "keys, their order and every value"


@pytest.mark.parametrize("name", OF_SITE)
def test_files_of_a_platform_read_back_to_the_very_bytes(finished: Path, name: str) -> None:
    site = RunFolder(finished).site("forum-posts")
    again = site.read_as(OF_SITE[name], name).as_dict()
    assert json.dumps(again) == json.dumps(site.read(name))


def test_what_was_spent_reads_back(tmp_path: Path) -> None:
    spent = privacy_spent(a=platform_spent(None), b=platform_spent(3.0))
    folder = RunFolder(tmp_path)
    assert folder.privacy() is None
    folder.write(PRIVACY, spent.as_dict())
    assert folder.privacy() == spent
    (tmp_path / PRIVACY).write_text(json.dumps({**spent.as_dict(), "noise_by": "nobody"}))
    with pytest.raises(FednerError, match=r"privacy.json is damaged: noise_by: .* found .nobody."):
        folder.privacy()


def test_scores_read_back_with_their_means_computed_afresh() -> None:
    right, half = scores_of(("X", 1, 0)), scores_of(("X", 1, 2))
    gain = gain_of("yes", 0.2, 0.1, 0.3)
    held = run_scores(a=platform_of(gain, local_only=half, federated=right),
                      b=platform_of(None, federated=half))  # fmt: skip
    stated = held.as_dict()
    assert list(stated) == ["title", "seed", "synthetic", "platforms", "mean"]
    assert stated["mean"]["federated"] == {"strict": 0.75, "relaxed": 1.0}
    assert stated["mean"]["local-only"]["strict"] == 0.5
    assert from_json(RunScores, json.dumps(stated), "x") == held
    assert (held.main_method, list(held.gains)) == ("federated", ["a"])
    assert run_scores(a=platform_of(local_only=half)).main_method == "local-only"
    assert run_scores().main_method is None


def test_what_all_platforms_have_in_common_stands_once() -> None:
    found = run_disclosure("a", "b").as_dict()
    assert found["never"] == ["texts"]
    assert not {"never", "notes"} & set(found["platforms"]["a"])
    assert found["platforms"]["b"]["numbers_per_update"] == 22_713_089 + 127


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "x is damaged: invalid JSON"),
        ("[]", "x is damaged: input should be an object; found []"),
        ("{}", "x is damaged: mechanism: missing (and 11 more problems)"),
    ],
)
def test_what_is_no_record_is_told_in_one_line(text: str, told: str) -> None:
    with pytest.raises(FednerError) as caught:
        from_json(PrivacySpent, text, "x")
    assert caught.value.message.startswith(told)
    assert "\n" not in caught.value.message


def test_every_record_is_frozen_and_slotted() -> None:
    kinds = [each for each in vars(records).values() if isinstance(each, type)]
    assert len(kinds) > 12
    assert all(is_dataclass(each) and hasattr(each, "__slots__") for each in kinds)
    with pytest.raises(FrozenInstanceError):
        run_scores().title = "other"  # type: ignore[misc]


def test_a_note_on_some_platforms_names_them_and_one_on_all_stands_once() -> None:
    one = Disclosure(1, 0, 1, 1, (), 0, 0, 30, (), ("texts",), ("all", "some"))
    other = Disclosure(1, 0, 1, 1, (), 0, 0, 30, (), ("texts",), ("all",))
    assert RunDisclosure.of({"a": one, "b": other}).notes == ("all", "a: some")
    assert RunDisclosure.of({"a": one}).notes == ("all", "some")
