"""What stands on top of a run, and whom its platforms must trust."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fedner.privacy.mechanisms.unit_local import TRUST as UNTRUSTED
from fedner.runs.privacy_checks import mechanism_for
from fedner.runs.records import RunScores, Verdict
from fedner.runs.trust import trust_note
from fedner.runs.verdict import privacy_sentence, verdict_sentence, zero_sentence
from fedner.settings import Settings
from run_records import (
    gain_of,
    platform_of,
    platform_spent,
    privacy_spent,
    run_scores,
    scores_of,
)

Make = Callable[..., Settings]


def scores(**gains: tuple[Verdict, float] | None) -> RunScores:
    right = scores_of(("X", 1, 1))
    return run_scores(
        **{
            name: platform_of(gain and gain_of(gain[0], gain[1] / 100), federated=right)
            for name, gain in gains.items()
        }
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            scores(a=("yes", 4.0), b=("yes", 2.0)),
            "Joining helped all 2 platforms (+3.0 points of strict F1 on average).",
        ),
        (
            scores(a=("yes", 4.0), b=("not clear", 0.0), c=("no", -1.0)),
            (
                "Joining helped a; it harmed c; for b it is not clear "
                "(+1.0 points of strict F1 on average)."
            ),
        ),
        (
            scores(a=("not clear", -0.04)),
            "It is not clear whether joining helped a (+0.0 points of strict F1).",
        ),
        (
            scores(a=("not clear", 0.1), b=("not clear", 0.1)),
            (
                "It is not clear whether joining helped any of 2 platforms "
                "(+0.1 points of strict F1 on average)."
            ),
        ),
        (
            scores(a=("no", -1.0), b=("no", -1.0)),
            "Joining harmed all 2 platforms (-1.0 points of strict F1 on average).",
        ),
        (
            scores(a=None, b=None),
            (
                "Strict F1 is 66.7 on 2 platforms on average; no local-only baseline was trained, "
                "so it is not known whether joining helped."
            ),
        ),
    ],
)
def test_the_verdict_is_one_sentence(found: RunScores, expected: str) -> None:
    assert verdict_sentence(found) == expected


def test_a_score_of_zero_is_named_wherever_it_is() -> None:
    right = scores_of(("X", 1, 1))
    assert zero_sentence({"a": {"federated": right}}) == ""
    found = {
        "a": {"federated": right, "local-only": scores_of(("X", 0, 3))},
        "b": {"federated": scores_of(("X", 1, 0), ("Y", 0, 2), ("Z", 0, 0))},
    }
    said = zero_sentence(found)
    assert "a (local-only)" in said
    assert "Y of b (federated)" in said
    assert "Z" not in said, "nobody tested a type without a gold mention"
    assert "Y" not in zero_sentence(found, {"b": ["X"]}), "a type that is not public"


def test_what_privacy_a_run_had_is_said_plainly() -> None:
    spent = privacy_spent(a=platform_spent(1.5), b=platform_spent(3.984))
    assert privacy_sentence(None).startswith("No differential privacy:")
    said = privacy_sentence(spent)
    assert "epsilon 3.98 at delta 1e-05 for one sentence" in said
    assert "by each platform" in said
    assert "server that must be trusted" in privacy_sentence(replace(spent, noise_by="server"))
    assert "nobody is protected" in privacy_sentence(replace(spent, simulation=True))
    assert "epsilon infinite" in privacy_sentence(privacy_spent(a=platform_spent(None)))


DEPLOYED = (
    "privacy.mechanism=unit-local", "privacy.noise_multiplier=1.0", "privacy.tuned_on=public",
    "training.evaluate_every=0",
    *(f"platforms.{number}.public_size=30" for number in range(3)),
    *(f"platforms.{number}.ledger=ledgers/{number}" for number in range(3)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "is_untrusted"),
    [
        (DEPLOYED, True),
        ((*DEPLOYED, "privacy.mechanism=unit-central"), False),
        ((*DEPLOYED, "privacy.simulation=true"), False),
        ((*DEPLOYED, "privacy.simulation=true", "privacy.noise_multiplier=0"), False),
        ((), False),
        (("transport.secure_sum=true",), False),
    ],
)
def test_the_server_need_not_be_trusted_only_where_that_is_true(
    tiny: Make, changes: tuple[str, ...], is_untrusted: bool
) -> None:
    settings = tiny(*changes)
    mechanism = mechanism_for(settings.privacy)
    note = trust_note(settings, None if mechanism is None else mechanism.facts)
    assert (note == UNTRUSTED) is is_untrusted
    assert ("need not be trusted" in note) is is_untrusted
    assert ("server must be trusted" in note) is not is_untrusted
