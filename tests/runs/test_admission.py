"""Whether a job may start at a platform: refused codes, rosters, records, tokens; no processes."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from guarded_sites import order_of

from fedner.errors import FednerError
from fedner.federated.failure_codes import FAILURES
from fedner.federated.message_bytes import reply_from_bytes, to_bytes
from fedner.federated.messages import Failure, Order
from fedner.runs.deployment import asking, identity
from fedner.runs.deployment.admission import refusal, refusal_codes
from fedner.runs.deployment.announcing import (
    MOST_STUDY,
    Announced,
    Facts,
    announced,
    facts_in,
    facts_of,
    study_in,
)
from fedner.runs.deployment.federation import mark_removed, signed_roster
from fedner.runs.deployment.homes import FederationHome, PlatformHome
from fedner.runs.deployment.pins import pin
from fedner.runs.deployment.platform_job import RefusedJob, answer_bytes, platform_answer
from fedner.runs.deployment.trial import Homes, trial_homes
from fedner.runs.disclosure_record import RECORD, read_record
from fedner.runs.study_defaults import with_defaults
from fedner.settings import PlatformSettings, Study, parse_as, platform_toml

NAMES = ("case-reports", "forum-posts")
TABLES: dict[str, Any] = {
    "title": "admission",
    "model": {"hidden": 6, "filters": 8, "character_filters": 6, "character_dimension": 6},
    "embeddings": {"dimension": 8, "buckets": 64},
    "training": {"rounds": 4, "batch_size": 12, "evaluate_every": 0},
    "platforms": [
        {"name": name, "public_size": 40, "labels": ["ADE", "Dosage", "Drug"]} for name in NAMES
    ],
}
DP = {"mechanism": "unit-local", "noise_multiplier": 2.0, "tuned_on": "public", "unit": "document"}
WHO = "server for coordinator@fedner.local"


def study(**changes: Any) -> Study:
    return with_defaults(parse_as(Study, TABLES | changes, "study.toml"))


def spec(of: Study | None = None, **changes: Any) -> dict[str, Any]:
    facts = {"run": "run-1", "study": (of or study()).canonical, "roster": ""}
    return {"fedner": facts | changes}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Homes]]:
    """Two federations of the same names, each with an authority of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "KEY_BITS", 2048)
        folder = tmp_path_factory.mktemp("federations")
        yield {each: trial_homes(folder / each, study(), NAMES, 1) for each in ("ours", "theirs")}


@pytest.fixture
def home(made: dict[str, Homes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlatformHome:
    """The home of the first platform, with settings that allow whatever a study asks for."""
    shutil.copytree(made["ours"].platforms[NAMES[0]].path, tmp_path / "home")
    place = PlatformHome(tmp_path / "home")
    monkeypatch.setenv("FEDNER_HOME", str(place.path))
    monkeypatch.setenv("FEDNER_SETTINGS", str(tmp_path / "platform.toml"))
    settled()
    return place


def settled(policy: dict[str, Any] | None = None, name: str = NAMES[0]) -> PlatformSettings:
    """Write the settings of the platform; return them."""
    tables = {"name": name, "data": f"synthetic:{NAMES[0]}", "num_sentences": 40}
    own = parse_as(PlatformSettings, tables | {"policy": policy or {}}, "platform.toml")
    Path(os.environ["FEDNER_SETTINGS"]).write_text(platform_toml(own))
    return own


def roster(homes: Homes) -> str:
    return signed_roster(FederationHome(homes.federation.path)).model_dump_json()


def test_an_honest_job_may_start(home: PlatformHome, made: dict[str, Homes]) -> None:
    assert refusal(spec(), WHO) == ""
    assert refusal(spec(roster=roster(made["ours"])), WHO) == ""
    assert not (home.path / RECORD).exists()


FOREIGN: dict[str, Any] = {
    "nothing": None,
    "a list": [],
    "another key": {"cookies": 1},
    "facts that are none": {"fedner": "study"},
    "no study": spec(study=None),
    "a study as table": spec(study={"path": "os.system"}),
    "no JSON": spec(study="{"),
    "deep JSON": spec(study="[" * 100_000),
    "a study that is a list": spec(study="[]"),
    "an unknown key": spec(study=json.dumps({"tables": 1})),
    "a long study": spec(study=" " * (MOST_STUDY + 1)),
    "a run that climbs": spec(run="../../escaped"),
    "a run that is none": spec(run=7),
    "a roster that is no text": spec(roster=["x"]),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_no_job_of_ours_is_refused_in_fixed_words(home: PlatformHome, kind: str) -> None:
    assert refusal(FOREIGN[kind], WHO) == FAILURES["job-foreign"]
    (line,) = read_record(home.path / RECORD).lines
    assert (line.entry, line.code, line.asked_by) == ("refused", "job-foreign", WHO)


ANY = {"studies": ["any"]}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "another digest": ({"studies": ["0" * 64]}, {}, "policy-study"),
    "more rounds": ({"max_rounds": 3}, {}, "policy-rounds"),
    "another algorithm": ({"algorithms": ["fedavg"]}, {}, "policy-algorithm"),
    "seeded noise": (ANY, {"privacy": DP | {"simulation": True}}, "policy-simulation"),
    "its budget": (
        ANY,
        {"privacy": DP | {"simulation": True, "budget": 9.0}},
        "policy-study-budget",
    ),
    "noise of the server": (ANY, {"privacy": DP | {"mechanism": "unit-central"}}, "policy-noise"),
    "not named": (
        ANY,
        {"platforms": [{"name": "x", "public_size": 4, "labels": ["ADE"]}]},
        "policy-platform",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refused_study_is_on_record_with_who_asked(home: PlatformHome, kind: str) -> None:
    policy, changes, code = REFUSED[kind]
    settled(policy)
    asked = study(**changes)
    words = refusal(spec(asked), WHO)
    assert FAILURES[code] in words.split("; ")
    assert set(words.split("; ")) <= set(FAILURES.values()), "fixed words"
    (line,) = read_record(home.path / RECORD).lines
    assert code in line.code.split(", ")
    assert (line.asked_by, line.study, line.run) == (WHO, asked.digest, "run-1")


def test_a_study_that_was_not_installed_is_refused_unless_the_platform_names_it(
    home: PlatformHome,
) -> None:
    other = study(title="another")
    words = FAILURES["policy-approval"]
    assert refusal(spec(other), WHO) == words
    (line,) = read_record(home.path / RECORD).lines
    assert (line.code, line.study) == ("policy-approval", other.digest)
    settled({"max_rounds": 3})
    assert refusal(spec(other), WHO) == words, "nothing else of it is looked at"
    settled({"studies": [other.digest]})
    assert refusal(spec(other), WHO) == ""
    assert refusal(spec(), WHO) == FAILURES["policy-study"], "a list is the whole list"
    settled({"studies": ["any"]})
    assert [refusal(spec(each), WHO) for each in (other, study())] == ["", ""]
    settled({"studies": ["any"], "max_rounds": 3})
    assert refusal(spec(other), WHO) == FAILURES["policy-rounds"], "the other keys hold"


def test_a_job_of_a_study_that_was_not_installed_answers_no_order(home: PlatformHome) -> None:
    brought = study(title="another")
    answer = endpoint(home, Announced("run-1", brought))(NAMES[0])
    assert answer == RefusedJob(NAMES[0], "policy-approval")


def test_settings_that_are_gone_refuse_without_a_word_of_theirs(
    home: PlatformHome, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FEDNER_SETTINGS", str(tmp_path / "ward-of-narwhals.toml"))
    assert refusal(spec(), WHO) == FAILURES["platform-unready"]
    (line,) = read_record(home.path / RECORD).lines
    assert line.code == "platform-unready"


def test_a_record_that_was_tampered_with_stops_no_refusal(home: PlatformHome) -> None:
    (home.path / RECORD).write_text("no record\nno record\n")
    assert refusal(None, WHO) == FAILURES["job-foreign"]


def test_a_roster_of_another_authority_is_refused(
    home: PlatformHome, made: dict[str, Homes]
) -> None:
    job = Announced("run-1", study(), roster(made["theirs"]))
    assert refusal_codes(job, settled(), home.path) == ("policy-pinned",)
    altered = json.loads(roster(made["ours"]))
    altered["members"] = altered["members"][:1]
    job = Announced("run-1", study(), json.dumps(altered))
    assert refusal_codes(job, settled(), home.path) == ("policy-pinned",)
    assert refusal_codes(Announced("run-1", study(), "{"), settled(), home.path) == (
        "policy-pinned",
    )


def test_another_key_in_a_pinned_name_is_refused(
    home: PlatformHome, made: dict[str, Homes]
) -> None:
    pin(home, NAMES[1], "f" * 64)
    job = Announced("run-1", study(), roster(made["ours"]))
    assert refusal_codes(job, settled(), home.path) == ("policy-pinned",)


def test_unpinned_platforms_are_refused_where_the_policy_asks_for_pins(home: PlatformHome) -> None:
    job = Announced("run-1", study())
    assert "policy-pinned" in refusal_codes(job, settled({"pinned": True}), home.path)


def test_a_pinned_platform_that_the_roster_does_not_show_is_not_known(
    home: PlatformHome, made: dict[str, Homes], tmp_path: Path
) -> None:
    shutil.copytree(made["ours"].federation.path, tmp_path / "federation")
    coordinator = FederationHome(tmp_path / "federation")
    whole = signed_roster(coordinator)
    (key,) = [each.fingerprint for each in whole.members if each.name == NAMES[1]]
    pin(home, NAMES[1], key)
    mark_removed(coordinator, NAMES[1], is_removed=True)
    strict = settled({"pinned": True})
    found = [
        refusal_codes(Announced("run-1", study(), each.model_dump_json()), strict, home.path)
        for each in (whole, signed_roster(coordinator))
    ]
    assert found == [(), ("policy-pinned",)]


def endpoint(home: PlatformHome, job: Announced) -> Any:
    settings = Path(os.environ["FEDNER_SETTINGS"])
    return platform_answer(job, home.path, settings, "server")


def test_a_job_that_brings_another_study_than_it_announced_is_refused(home: PlatformHome) -> None:
    """The gate saw an honest study; what the job is built with passes the policy again."""
    settled({"max_rounds": 4} | ANY)
    assert refusal(spec(), WHO) == ""
    brought = study(training=TABLES["training"] | {"rounds": 400})
    answer = endpoint(home, Announced("run-1", brought))(NAMES[0])
    assert isinstance(answer, RefusedJob)
    reply = answer(Order("run-1", 1, study=brought.digest))
    assert isinstance(reply, Failure)
    assert reply.code == "policy-rounds"
    (line,) = read_record(home.path / RECORD).lines
    assert (line.entry, line.study, line.asked_by) == ("refused", brought.digest, "server")
    assert not (home.path / "runs").exists() or not list((home.path / "runs").iterdir())


def test_settings_of_another_platform_are_no_ones(home: PlatformHome) -> None:
    settled(name="somebody-else")
    with pytest.raises(FednerError, match="these are the settings of 'somebody-else'"):
        endpoint(home, Announced("run-1", study()))(NAMES[0])


class OneAnswer:
    """A roster of one platform."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def answer(self, name: str, order: Order) -> Any:
        del name
        return self._answer(order)


def test_orders_of_a_job_pass_the_policy_and_stand_in_the_record(home: PlatformHome) -> None:
    own = settled({"max_rounds": 4})
    job = Announced("run-1", study())
    answer = endpoint(home, job)(NAMES[0])
    held = OneAnswer(answer)
    site = answer._site
    asked = order_of(site, run="run-1")
    for order, code in (
        (asked, ""),
        (order_of(site, run="run-2"), "order-run"),
        (order_of(site, run="run-1", study="0" * 64), "order-study"),
    ):
        reply = reply_from_bytes(answer_bytes(held, own.name, to_bytes(order)))  # type: ignore[arg-type]
        assert (reply.code if isinstance(reply, Failure) else "") == code
    garbage = reply_from_bytes(answer_bytes(held, own.name, b"garbage"))  # type: ignore[arg-type]
    assert isinstance(garbage, Failure)
    assert garbage.code == "order-refused"
    lines = read_record(home.path / RECORD).lines
    assert [line.code for line in lines] == ["", "order-run", "order-study"]
    assert {line.asked_by for line in lines} == {"server"}
    answer.close()


def test_facts_are_words_of_sound_length() -> None:
    asked = spec()["fedner"]
    assert facts_in({"fedner": asked}) == Facts(asked["run"], asked["study"], "")
    assert announced(facts_in(spec())) == Announced("run-1", study())
    with pytest.raises(FednerError, match="roster"):
        facts_of("run-1", "{}", " " * (MOST_STUDY + 1))
    with pytest.raises(FednerError, match="not JSON"):
        study_in("[" * 100_000)
    with pytest.raises(FednerError, match="without a study as text"):
        facts_of("run-1", " " * (MOST_STUDY + 1))


# The parent's side: it asks a child, and remembers what was accepted.


def asked_child(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[Any]:
    questions: list[Any] = []
    left = list(answers)

    def ask(question: str) -> str:
        questions.append(json.loads(question))
        return left.pop(0)

    monkeypatch.setattr(asking, "_ask_child", ask)
    return questions


def test_what_was_accepted_is_not_asked_again(
    home: PlatformHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = asked_child(monkeypatch, "", "no", "no", "no")
    admission = asking.Admission()
    assert [admission.refusal(spec(), WHO) for _ in range(3)] == ["", "", ""]
    assert len(questions) == 1
    assert questions[0]["asked_by"] == WHO
    again = "server for watchdog@fedner.local"
    assert admission.refusal(spec(), again) == "", "the watchdog submits it again"
    assert len(questions) == 1
    assert admission.refusal(spec(run="run-2"), WHO) == "no", "another job"
    settled({"max_rounds": 1})
    assert admission.refusal(spec(), WHO) == "no", "other settings"
    settled()
    pin(home, NAMES[1], "f" * 64)
    assert admission.refusal(spec(), WHO) == "no", "other pins"


def test_a_newer_approval_is_asked_about_anew(
    home: PlatformHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = asked_child(monkeypatch, "no", "")
    admission = asking.Admission()
    assert admission.refusal(spec(), WHO) == "no"
    home.approval.write_text(home.approval.read_text() + "\n")
    assert admission.refusal(spec(), WHO) == ""
    assert len(questions) == 2


def test_what_was_refused_is_asked_again_after_a_while(
    home: PlatformHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that did not wait hears the words when it asks again."""
    del home
    questions = asked_child(monkeypatch, "no", "no", "")
    admission = asking.Admission()
    assert [admission.refusal(spec(), WHO) for _ in range(2)] == ["no", "no"]
    assert len(questions) == 1
    assert admission.refusal(spec(), "somebody else") == "no", "who asked is on record"
    assert len(questions) == 2
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 61)
    assert admission.refusal(spec(), WHO) == ""
    assert len(questions) == 3


def test_a_child_that_fails_refuses(home: PlatformHome, monkeypatch: pytest.MonkeyPatch) -> None:
    del home
    monkeypatch.setattr(asking, "_MODULE", "fedner.no_such_module")
    assert asking.Admission().refusal(spec(), WHO) == FAILURES["platform-unready"]


def test_a_child_that_takes_too_long_refuses(
    home: PlatformHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    del home
    monkeypatch.setattr(asking, "_SECONDS", 0.01)
    assert asking.Admission().refusal(spec(), WHO) == FAILURES["platform-unready"]


def test_answers_do_not_pile_up(home: PlatformHome, monkeypatch: pytest.MonkeyPatch) -> None:
    del home
    monkeypatch.setattr(asking, "_MOST_REMEMBERED", 5)
    asked_child(monkeypatch, *[""] * 8)
    admission = asking.Admission()
    for number in range(8):
        assert admission.refusal(spec(run=f"run-{number}"), WHO) == ""
    assert len(admission._accepted) == 5


def test_what_one_was_refused_and_another_accepted_is_accepted(
    home: PlatformHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A platform was not ready when the coordinator asked; the watchdog asked later."""
    del home
    asked_child(monkeypatch, "not ready", "")
    admission = asking.Admission()
    assert admission.refusal(spec(), WHO) == "not ready"
    assert admission.refusal(spec(), "watchdog") == ""
    assert admission.refusal(spec(), WHO) == ""


def test_words_that_are_no_json_are_refused_by_the_child(
    home: PlatformHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    del home
    questions = asked_child(monkeypatch, "no")
    assert asking.Admission().refusal({"fedner": object()}, WHO) == "no"
    assert questions == [{"spec": None, "asked_by": WHO}]


def test_a_real_child_decides_and_records(home: PlatformHome) -> None:
    settled({"max_rounds": 3})
    assert asking.Admission().refusal(spec(), WHO) == FAILURES["policy-rounds"]
    (line,) = read_record(home.path / RECORD).lines
    assert (line.code, line.asked_by) == ("policy-rounds", WHO)
