"""What a run began with: the initial model's own facts of its privacy are carried along."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedner.runs.records.facts import InitialFacts
from fedner.settings import Study

NO_PRIVACY = "no differential privacy"
# Of what a model says of itself; nothing else is handed on with models that began with it.
_TEXTS, _NUMBERS = ("run", "study"), ("rounds", "platforms")
_SPENT = ("mechanism", "unit", "epsilon", "delta", "accountant", "simulation")
_DEEPEST = 20

COVERS = (
    "Epsilon is what this run spent, and says nothing of the initial model. If that was trained "
    "with differential privacy on texts of these platforms, both epsilons add up. If it was "
    "trained on them without, nothing bounds what it reveals about them, and the guarantee is "
    "void. The run cannot know which."
)
CANNOT_KNOW = "the run cannot know it"


def carried_facts(facts: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """Return what is carried along of a model's facts: its run, its privacy, what it began with.

    Args:
        facts: As the model has them; what is not of the expected form is left out.
        depth: How many models began with one another so far.
    """
    kept: dict[str, Any] = {key: facts[key] for key in _TEXTS if isinstance(facts.get(key), str)}
    kept |= {key: facts[key] for key in _NUMBERS if isinstance(facts.get(key), int)}
    kept["privacy"] = _spent(facts.get("privacy"))
    first = facts.get("initial")
    kept["initial"] = None
    if isinstance(first, Mapping) and depth < _DEEPEST:
        own = first.get("facts")
        kept["initial"] = {
            "name": str(first.get("name")),
            "digest": str(first.get("digest")),
            "facts": carried_facts(own, depth + 1) if isinstance(own, Mapping) else None,
        }
    return kept


def _spent(stated: object) -> dict[str, Any] | str | None:
    """Return what a model says of its privacy; None where it says nothing that can be read."""
    if stated == NO_PRIVACY:
        return NO_PRIVACY
    if not isinstance(stated, Mapping) or not {*_SPENT} <= {*stated}:
        return None
    epsilon, delta = stated["epsilon"], stated["delta"]
    if not isinstance(epsilon, int | float | None) or not isinstance(delta, int | float):
        return None
    return {key: stated[key] for key in _SPENT}


def is_protected(facts: Mapping[str, Any] | None) -> bool:
    """Whether a model says of itself, and of all that it began with, that noise protects it."""
    if facts is None:
        return False
    first = facts.get("initial")
    return _has_noise(facts) and (first is None or is_protected(first.get("facts")))


def _has_noise(facts: Mapping[str, Any]) -> bool:
    """Whether a model says that its own training was noised, and not only in a simulation."""
    spent = facts.get("privacy")
    return isinstance(spent, Mapping) and not spent["simulation"] and spent["epsilon"] is not None


def began_with(initial: InitialFacts) -> str:
    """Return in one sentence what a run began with, and how that was trained."""
    return f"Began with {_told(initial.name, initial.digest, initial.facts)}."


def _told(name: str, digest: str, facts: Mapping[str, Any] | None) -> str:
    head = f"{name} (digest {digest})"
    if facts is None:
        return f"{head}; the coordinator's record says how it was trained"
    text = f"{head}, trained {_privacy_words(facts.get('privacy'))}{_where(facts)}"
    first = facts.get("initial")
    if first is None:
        return text
    return f"{text}; it began with {_told(first['name'], first['digest'], first['facts'])}"


def _where(facts: Mapping[str, Any]) -> str:
    number, rounds, study = (facts.get(key) for key in ("platforms", "rounds", "study"))
    if number is None or rounds is None:
        return ""
    named = "" if study is None else f" of the study {study}"
    return f" on {number:,} platforms{named} in {rounds:,} rounds"


def _privacy_words(spent: Mapping[str, Any] | str | None) -> str:
    if spent is None:
        return "with unstated privacy"
    if isinstance(spent, str):
        return "without differential privacy"
    bound = "infinite" if spent["epsilon"] is None else f"{spent['epsilon']:.3g}"
    terms = f"epsilon {bound} at delta {spent['delta']:g} for one {spent['unit']}"
    if spent["simulation"]:
        return f"with simulated differential privacy ({terms}), which protects nobody,"
    return f"with {terms} ({spent['mechanism']})"


def initial_warnings(
    study: Study, name: str, facts: Mapping[str, Any], makers: Sequence[str] | None
) -> Iterator[str]:
    """Yield what a run under differential privacy should know of the model that it begins with.

    Args:
        study: The study of the run.
        name: The initial model.
        facts: What it says of itself.
        makers: Who trained it; None where nobody knows.
    """
    if not study.privacy.enabled:
        return
    both = sorted({*(makers or ())} & {*study.names})
    who = ", ".join(both)
    if is_protected(facts):
        spent = facts["privacy"]
        terms = f"epsilon {spent['epsilon']:.3g} at delta {spent['delta']:g}"
        if both:
            yield (
                f"{name} was trained with {terms} on {who}, which take part in this run: for their "
                "texts the epsilons of both runs add up. Their ledgers count both."
            )
        elif makers is None:
            yield (
                f"{name} was trained with {terms}: on platforms that also take part in this run "
                f"the epsilons of both runs add up; {CANNOT_KNOW}."
            )
        return
    how = _privacy_words(facts.get("privacy")).rstrip(",")
    where = f" on {who}, which take part in this run" if both else ""
    if _has_noise(facts):
        where += f", and began with {facts['initial']['name']}, which was not protected throughout"
    yield (
        f"{name} was trained {how}{where}. If it saw texts that this run protects, the guarantee "
        f"of this run is void for them; {CANNOT_KNOW}. Begin with models of public texts."
    )
