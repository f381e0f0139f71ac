"""All attacks on one platform, one row of the table each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fedner.audit import canaries, membership, sentences, words
from fedner.audit import described_types as types
from fedner.audit import hostile_orders as orders
from fedner.audit import hostile_weights as hostile
from fedner.audit import update_membership as updates
from fedner.audit.canaries import CanaryBudget
from fedner.audit.described_types import TypesBudget
from fedner.audit.finding import DEFENCES, Finding
from fedner.audit.gradient_matching import SentenceBudget
from fedner.audit.hostile_weights import HostileBudget
from fedner.audit.observation import Protection, Target
from fedner.audit.shadow_models import ShadowBudget
from fedner.audit.update_membership import UpdateBudget
from fedner.audit.words import WordsBudget
from fedner.errors import FednerError
from fedner.models.features import TagSpace
from fedner.models.types import TypeVectors

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class AuditBudget:
    """How much every attack may try; the defaults fit into five minutes of two cores.

    Attributes:
        words: Of words from a word table.
        sentences: Of sentences from gradients.
        updates: Of members of a round.
        shadows: Of members of the training data.
        types: Of types of a described head.
        canaries: Of the one-run bound.
        hostile: Of hostile weights.
    """

    words: WordsBudget = field(default_factory=WordsBudget)
    sentences: SentenceBudget = field(default_factory=SentenceBudget)
    updates: UpdateBudget = field(default_factory=UpdateBudget)
    shadows: ShadowBudget = field(default_factory=ShadowBudget)
    types: TypesBudget = field(default_factory=TypesBudget)
    canaries: CanaryBudget = field(default_factory=CanaryBudget)
    hostile: HostileBudget = field(default_factory=HostileBudget)


@dataclass(frozen=True, slots=True)
class Audited:
    """One platform as attackers meet it.

    Attributes:
        target: Its model, its sentences and what it shares.
        space: The tags of its tagger.
        guesses: The types that an attacker tries; None where the head is free.
    """

    target: Target
    space: TagSpace
    guesses: TypeVectors | None = None


def audit(
    held: Audited,
    protection: Protection,
    seed: int,
    budget: AuditBudget | None = None,
    say: Say | None = None,
) -> list[Finding]:
    """Run all attacks against all defences; return the table, row by row.

    An attack that cannot be made on this platform is inconclusive, and says why.

    Args:
        held: The platform.
        protection: How strong the defences are.
        seed: Of every draw.
        budget: How much may be tried.
        say: Called with a line on what is being done.
    """
    tell: Say = (lambda _: None) if say is None else say
    found: list[Finding] = []
    for attack in _attacks(held, protection, seed, AuditBudget() if budget is None else budget):
        tell(attack.words)
        found += _row(attack)
    return found


@dataclass(frozen=True, slots=True)
class _Attack:
    """One attack as the suite runs it.

    Attributes:
        words: What is being done, in words.
        names: The rows that it gives.
        measure: What their numbers are.
        run: Gives them.
    """

    words: str
    names: tuple[str, ...]
    measure: str
    run: Callable[[], list[Finding]]


def _attacks(
    held: Audited, protection: Protection, seed: int, budget: AuditBudget
) -> Iterator[_Attack]:
    """Yield every attack, in the order of the table."""
    target, space = held.target, held.space
    yield _Attack(
        "words of batches", (words.ATTACK,), words.MEASURE,
        lambda: words.audit_words(target, protection, seed, budget.words),
    )  # fmt: skip
    yield _Attack(
        "sentences of batches", (sentences.ATTACK,), sentences.MEASURE,
        lambda: sentences.audit_sentences(target, space, protection, seed, budget.sentences),
    )  # fmt: skip
    yield _Attack(
        "members of rounds", (updates.ATTACK,), updates.MEASURE,
        lambda: updates.audit_update_membership(target, protection, seed, budget.updates),
    )  # fmt: skip
    yield _Attack(
        "members of the training data: shadow models are trained", membership.ATTACKS,
        membership.MEASURE,
        lambda: membership.audit_membership(target, space, protection, seed, budget.shadows),
    )  # fmt: skip
    yield _Attack(
        "types of the head", (types.ATTACK,), types.MEASURE,
        lambda: types.audit_types(target, held.guesses, protection, seed, budget.types),
    )  # fmt: skip
    yield _Attack(
        "canaries", (canaries.ATTACK,), canaries.MEASURE,
        lambda: canaries.audit_canaries(target, protection, seed, budget.canaries),
    )  # fmt: skip
    yield _Attack(
        "hostile weights", (hostile.ATTACK,), hostile.MEASURE,
        lambda: hostile.audit_hostile_weights(target, protection, seed, budget.hostile),
    )  # fmt: skip
    yield _Attack(
        "hostile orders", (orders.ATTACK,), orders.MEASURE,
        lambda: orders.audit_hostile_orders(target),
    )  # fmt: skip


def _row(attack: _Attack) -> list[Finding]:
    """Return the rows of an attack; inconclusive ones, with the reason, where it cannot be made."""
    try:
        return attack.run()
    except FednerError as error:
        return [
            Finding(name, defence, attack.measure, note=f"not made: {error.message}")
            for name in attack.names
            for defence in DEFENCES
        ]
