"""What a platform refuses before a job starts: the study of another party, held against policy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from guarded_sites import NAME, guarded, order_of, site_of

from fedner.federated.failure_codes import FAILURES, REFUSALS
from fedner.privacy.budget import Budget
from fedner.privacy.ledger_owner import open_ledger
from fedner.runs.policy import Refusal, job_problems
from fedner.runs.policy.refusal import _CODES
from fedner.runs.study_defaults import with_defaults
from fedner.settings import PlatformSettings, PolicySettings, Settings, Study, parse_as

Make = Callable[..., Settings]
LABELS = ["ADE", "Drug"]
STUDY: dict[str, Any] = {
    "model": {"hidden": 6, "filters": 8, "character_filters": 6, "character_dimension": 6},
    "embeddings": {"dimension": 8, "buckets": 64},
    "training": {"rounds": 4, "batch_size": 12, "evaluate_every": 0},
    "platforms": [
        {"name": NAME, "public_size": 400, "labels": ["ADE"]},
        {"name": "ward", "public_size": 250, "labels": LABELS},
        {"name": "annex", "public_size": 250, "labels": LABELS},
    ],
}
DP = {
    "mechanism": "unit-local", "noise_multiplier": 2.0, "delta": 1e-5, "tuned_on": "public",
    "unit": "document",
}  # fmt: skip


def study(**changes: Any) -> Study:
    return with_defaults(parse_as(Study, STUDY | changes, "study.toml"))


def own(policy: dict[str, Any] | None = None, **changes: Any) -> PlatformSettings:
    tables = {"name": NAME, "data": "/nowhere", "format": "columns", "options": {"scheme": "BIO"}}
    return parse_as(PlatformSettings, tables | {"policy": policy or {}} | changes, "platform.toml")


def codes(found: tuple[Refusal, ...]) -> set[str]:
    assert all(each.words == REFUSALS[each.code] for each in found), "fixed words"
    return {each.code for each in found}


def opened(folder: Path, epsilon: float = 8.0) -> str:
    open_ledger(folder, Budget(epsilon, 1e-5, "document"), 400)
    return str(folder)


def test_a_sound_study_is_accepted(tmp_path: Path) -> None:
    assert job_problems(study(), own(), tmp_path) == ()
    ledger = opened(tmp_path / "ledger")
    assert job_problems(study(privacy=DP), own(ledger=ledger), tmp_path) == ()


# What is refused without any key of the policy.


@pytest.mark.parametrize(
    ("privacy", "expected"),
    [
        (DP | {"simulation": True}, {"policy-simulation"}),
        (DP | {"simulation": True, "budget": 9.0}, {"policy-simulation", "policy-study-budget"}),
        (DP | {"budget": 9.0}, {"policy-study-budget", "study-unsound"}),
        (DP | {"mechanism": "unit-central"}, {"policy-noise"}),
        (
            DP | {"mechanism": "platform-central", "unit": "sentence", "delta": 0.01},
            {"policy-noise"},
        ),
        (DP | {"noise_multiplier": 0}, {"study-unsound"}),
        (DP | {"delta": 0.3}, {"study-unsound"}),
        (DP | {"private_part": "clear"}, {"study-unsound"}),
        (DP | {"tuned_on": "protected"}, {"study-unsound"}),
    ],
)  # fmt: skip
def test_what_no_study_of_another_party_may_do(
    tmp_path: Path, privacy: dict[str, Any], expected: set[str]
) -> None:
    settings = own(ledger=opened(tmp_path / "ledger"))
    assert codes(job_problems(study(privacy=privacy), settings, tmp_path)) == expected


def test_what_the_platform_named_is_accepted(tmp_path: Path) -> None:
    ledger = opened(tmp_path / "ledger")
    central = study(privacy=DP | {"mechanism": "unit-central"})
    assert not job_problems(central, own({"noise_places": ["central"]}, ledger=ledger))
    assert codes(
        job_problems(study(privacy=DP), own({"noise_places": ["central"]}, ledger=ledger))
    ) == {"policy-noise"}
    seeded = study(privacy=DP | {"simulation": True})
    assert not job_problems(seeded, own({"accepts_simulation": True}))


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": {"name": "fednre"}},
        {"algorithm": {"name": "fedner", "rate": 1}},
        {"model": {"recipe": "no such recipe"}},
        {"partition": {"shared": ["no_such_module"]}},
        {"training": {"rounds": 3, "baselines": ["centralized"]}},
        {"participation": {"sample": 9}},
    ],
)
def test_a_study_that_is_no_study_is_refused_and_never_raises(changes: dict[str, Any]) -> None:
    assert codes(job_problems(study(**changes), own())) == {"study-unsound"}


# Keys that need the tables of other rooms.

REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "studies": ({"studies": ["0" * 64]}, {}, "policy-study"),
    "algorithms": ({"algorithms": ["fedavg"]}, {}, "policy-algorithm"),
    "models": ({"models": ["ELMoNER"]}, {}, "policy-model"),
    "shared": ({"shared": ["word_cnn"]}, {}, "policy-tensors"),
    "a part of a module": ({"shared": ["embeddings.characters", "word_cnn"]}, {}, "policy-tensors"),
    "a name that begins alike": ({"shared": ["embed", "word_cnn"]}, {}, "policy-tensors"),
    "own types": ({"types": ["Drug"]}, {}, "policy-types"),
    "shared tags": ({"types": ["ADE"]}, {"partition": {"shared": "everything"}}, "policy-types"),
    "mechanisms": ({"mechanisms": ["unit-local"]}, {}, "policy-mechanism"),
    "unit": ({"unit": "sentence"}, {}, "policy-unit"),
    "a smaller unit": ({"unit": "patient"}, {"privacy": DP}, "policy-unit"),
    "noise": ({"noise_places": ["distributed"]}, {"privacy": DP}, "policy-noise"),
    "epsilon": ({"epsilon": 0.05}, {"privacy": DP}, "policy-epsilon"),
    "no epsilon": ({"epsilon": 9.0}, {}, "policy-epsilon"),
    "epsilon in all": ({"epsilon_in_all": 0.05}, {"privacy": DP}, "policy-epsilon-in-all"),
    "secure sum": ({"secure_sum": True}, {}, "policy-secure-sum"),
    "others": ({"min_others": 3}, {}, "policy-others"),
    "a quorum of one": ({"min_others": 1}, {"participation": {"quorum": 1}}, "policy-others"),
    "pinned": ({"pinned": True}, {}, "policy-pinned"),
    "rounds": ({"max_rounds": 3}, {}, "policy-rounds"),
    "release": ({}, {"release": {"to": "public"}}, "policy-release"),
    "newcomers": ({"newcomers": ["a"]}, {"release": {"newcomers": ["b"]}}, "policy-release"),
}
ACCEPTED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"algorithms": ["fedner"], "models": ["CNN-CLSTM-CRF"]}, {}),
    ({"shared": ["embeddings", "word_cnn"]}, {}),
    ({"shared": ["embeddings"]}, {"partition": {"shared": ["embeddings.words"]},
                                  "embeddings": {"trainable": True, "dimension": 8}}),
    ({"types": LABELS}, {"partition": {"shared": "everything"}}),
    ({"types": ["ADE"]}, {}),
    ({"unit": "document", "mechanisms": ["unit-local"]}, {"privacy": DP}),
    ({"noise_places": ["local"]}, {"privacy": DP}),
    ({"unit": "sentence", "epsilon": 8.0, "epsilon_in_all": 8.0}, {"privacy": DP}),
    ({"min_others": 2, "max_rounds": 4}, {}),
    ({"secure_sum": True}, {"transport": {"secure_sum": True}}),
    ({"release": "public"}, {"release": {"to": "public", "newcomers": ["b"]}}),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_every_key_refuses(tmp_path: Path, case: str) -> None:
    policy, changes, expected = REFUSED[case]
    settings = own(policy, ledger=opened(tmp_path / "ledger"))
    assert expected in codes(job_problems(study(**changes), settings, tmp_path))
    free = own(ledger=opened(tmp_path / "another")) if expected != "policy-release" else None
    assert free is None or not job_problems(study(**changes), free), "it was the policy"


@pytest.mark.parametrize("number", range(len(ACCEPTED)))
def test_every_key_accepts(tmp_path: Path, number: int) -> None:
    policy, changes = ACCEPTED[number]
    settings = own(policy, ledger=opened(tmp_path / "ledger"))
    assert job_problems(study(**changes), settings, tmp_path) == ()


def test_a_whole_platform_is_more_than_a_patient(tmp_path: Path) -> None:
    open_ledger(tmp_path / "ledger", Budget(8.0, 0.01, "platform", "replace_one"), 3)
    whole = {"mechanism": "platform", "noise_multiplier": 9.0, "delta": 0.01, "tuned_on": "public"}
    settings = own({"unit": "patient"}, ledger=str(tmp_path / "ledger"))
    assert "policy-unit" not in codes(job_problems(study(privacy=whole), settings))


def test_pinned_platforms_are_all_others() -> None:
    pinned = own({"pinned": True})
    assert codes(job_problems(study(), pinned, pinned=["ward"])) == {"policy-pinned"}
    assert not job_problems(study(), pinned, pinned=["ward", "annex"])


def test_a_study_that_does_not_name_the_platform_is_refused() -> None:
    settings = own().model_copy(update={"name": "elsewhere"})
    assert "policy-platform" in codes(job_problems(study(), settings))


# Ledger and budget.


def test_a_protected_study_needs_the_platforms_own_ledger(tmp_path: Path) -> None:
    asked = study(privacy=DP)
    assert codes(job_problems(asked, own())) == {"policy-ledger"}
    assert codes(job_problems(asked, own(ledger=str(tmp_path / "none")))) == {"policy-ledger"}
    other = study(privacy=DP | {"delta": 1e-6})
    assert codes(job_problems(other, own(ledger=opened(tmp_path / "l")))) == {"policy-ledger"}


def test_what_the_whole_run_may_spend_must_fit_the_ledger(tmp_path: Path) -> None:
    poor = own(ledger=opened(tmp_path / "poor", 0.05))
    assert codes(job_problems(study(privacy=DP), poor)) == {"policy-ledger"}


def test_epsilon_of_a_study_counts_all_its_runs_and_in_all_every_study(
    tiny: Make, tmp_path: Path, ledgers: Any
) -> None:
    """One round was spent by another run of the study: there is no room for a whole one more."""
    settings = tiny(*ledgers(500.0), "privacy.noise_multiplier=1.0", "training.rounds=2")
    site = site_of(settings, tmp_path / "sites")
    answer = guarded(site, tmp_path)
    answer(order_of(site, run="first"))
    answer.close()
    asked = site.study
    elsewhere = asked.model_copy(update={"seed": 2})

    def refused(run: str, study: Study = asked, **policy: float) -> set[str]:
        bounded = site.own.model_copy(update={"policy": PolicySettings(**policy)})
        return codes(job_problems(study, bounded, tmp_path, run=run))

    needed = 1.0  # comes to what two rounds spend; three spend more
    while refused("first", epsilon=needed):
        needed *= 1.08
    assert refused("second", epsilon=needed) == {"policy-epsilon"}
    assert refused("second", elsewhere, epsilon=needed) == set(), "another study"
    assert refused("second", elsewhere, epsilon_in_all=needed) == {"policy-epsilon-in-all"}
    assert refused("first", elsewhere, epsilon_in_all=needed) == {"policy-epsilon-in-all"}, (
        "another study under the name of the first run"
    )


def test_a_study_runs_so_often(tiny: Make, tmp_path: Path) -> None:
    site = site_of(tiny(), tmp_path / "sites")
    once = site.own.model_copy(update={"policy": PolicySettings(max_runs=1)})
    assert not job_problems(site.study, once, tmp_path, run="run")
    answer = guarded(site, tmp_path)
    answer(order_of(site))
    answer.close()
    assert not job_problems(site.study, once, tmp_path, run="run"), "it goes on"
    assert codes(job_problems(site.study, once, tmp_path, run="new")) == {"policy-runs"}


def test_a_record_that_was_tampered_with_refuses_all_jobs_that_need_it(
    tiny: Make, tmp_path: Path
) -> None:
    (tmp_path / "disclosure-record.jsonl").write_text("{}\n{}\n")
    assert codes(job_problems(study(), own({"max_runs": 1}), tmp_path)) == {"platform-unready"}


def test_reasons_stay_in_the_platforms_own_log(caplog: pytest.LogCaptureFixture) -> None:
    (refusal,) = job_problems(study(), own({"max_rounds": 3}))
    assert "policy.max_rounds: found a study of 4 rounds; expected at most 3" in caplog.text
    assert str(refusal) == "its policy allows fewer rounds"


def test_every_key_of_the_policy_has_a_code_with_words() -> None:
    without = {"sends_loss", "sends_scores", "max_cpus", "max_updates"}  # not of a whole job
    keys = {f"policy.{key}" for key in PolicySettings.model_fields if key not in without}
    assert keys <= set(_CODES)
    assert set(_CODES.values()) <= set(REFUSALS)
    assert set(REFUSALS) <= set(FAILURES)
    assert all(words and words.isascii() for words in FAILURES.values())


# Studies that are meant to hurt.


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model": {"hidden": 10**8}}, "policy-memory"),
        ({"model": {"filters": 10**11}}, "policy-memory"),
        ({"embeddings": {"buckets": 10**9, "dimension": 10**6}}, "policy-memory"),
        ({"training": {"rounds": 4, "slice": 1e-12}}, "study-unsound"),
        ({"training": {"rounds": 4, "slice": 1e-12}, "privacy": DP}, "study-unsound"),
    ],
)
def test_a_study_that_no_machine_can_hold_is_refused_before_it_is_built(
    changes: dict[str, Any], expected: str
) -> None:
    assert codes(job_problems(study(**changes), own())) == {expected}


def test_a_model_has_at_most_the_memory_of_the_policy() -> None:
    table = study(embeddings={"buckets": 2**20, "dimension": 64})  # 0.25 GB
    assert codes(job_problems(table, own({"max_memory_gb": 0.2}))) == {"policy-memory"}
    assert not job_problems(table, own({"max_memory_gb": 0.3}))


def test_an_unexpected_error_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("fedner.runs.policy.job.study_problems", broken)
    assert codes(job_problems(study(), own())) == {"study-unsound"}
