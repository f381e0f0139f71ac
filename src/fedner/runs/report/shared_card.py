"""The model card of what a run releases: a tagger of the shared weights, over public types."""

from collections.abc import Iterator, Mapping
from typing import Any

from fedner.runs.initial_facts import COVERS, began_with
from fedner.runs.records.facts import InitialFacts
from fedner.runs.report.card_words import OTHER_TEXTS
from fedner.runs.report.markdown import (
    bullets,
    code,
    code_block,
    document,
    escaped,
    section,
    table,
)
from fedner.runs.trust import NOTHING
from fedner.version import __version__

LEAD = (
    "A named-entity tagger of weights that {platforms:,} platforms trained together while every "
    "text stayed at its platform. It finds the types below by their descriptions. It contains "
    "nothing of a single platform except what the shared weights learnt there."
)
UNTESTED = (
    "Nobody has tested exactly this tagger: every platform tests its own tagger, on its own "
    "types. First score it on your own texts (`fedner score`), or train it on them (`fedner "
    "join`): that sends nothing."
)
NO_DP = f"**No differential privacy.** {NOTHING} Hand it only to those who might see the texts."
USE = (
    "fedner predict FOLDER notes.txt",
    "fedner join FOLDER --data own/ --out tagger",
)


def shared_card(facts: Mapping[str, Any], recipe: str, words: str, context: str | None) -> str:
    """Return the card of a released model.

    Args:
        facts: What the model says of itself (`shared_model.model_facts`).
        recipe: What it is composed of.
        words: The name of its word source.
        context: The name of its encoder; None without one.
    """
    rows = [
        ("study", code(facts["study"])),
        ("recipe", escaped(recipe)),
        ("words", escaped(words)),
        ("context", "none" if context is None else escaped(context)),
        ("rounds", f"{facts['rounds']:,}"),
        ("seed", str(facts["seed"])),
        ("fedner", escaped(__version__)),
    ]
    types = [(escaped(name), escaped(text)) for name, text in facts["types"].items()]
    return document(
        f"Model card: {escaped(facts['run'])}",
        LEAD.format(platforms=facts["platforms"]),
        table(("what", "how"), rows),
        section("Types", table(("type", "description"), types)),
        section("Privacy", *_privacy(facts["privacy"]), *_beginning(facts)),
        section("How to use it", code_block("\n".join(USE), "sh")),
        section("Limits", bullets((UNTESTED, OTHER_TEXTS))),
    )


def _beginning(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the run began with, and what its epsilon says of that."""
    first = facts["initial"]
    if first is None:
        return
    yield escaped(began_with(InitialFacts(first["name"], first["digest"], first["facts"])))
    if not isinstance(facts["privacy"], str):
        yield COVERS


def _privacy(spent: Mapping[str, Any] | str) -> Iterator[str]:
    """Yield what the guarantee is, for whom, and whom to trust."""
    if isinstance(spent, str):
        yield NO_DP
        return
    epsilon = spent["epsilon"]
    bound = "infinite" if epsilon is None else f"{epsilon:.3g}"
    if spent["simulation"]:
        yield "**A simulation: the noise came from a seed, and this model protects nobody.**"
    yield (
        f"Mechanism {code(spent['mechanism'])}, unit {code(spent['unit'])}: epsilon **{bound}** "
        f"at delta {spent['delta']:g} ({spent['accountant']}), the largest of all platforms by "
        "the coordinator's record. The binding count is each platform's own ledger."
    )
    yield spent["trust"]
