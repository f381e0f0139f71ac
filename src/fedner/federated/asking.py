"""Asking all platforms for something that is not a round: replies by name, and who is missing.

A missing platform is a value: without a quorum everybody must have answered, with one that many.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fedner.errors import FednerError
from fedner.federated.aggregate import in_canonical_order
from fedner.federated.engine import Engine
from fedner.federated.messages import Failure, Order, Reply, failure, is_name, reply_problem
from fedner.federated.record import Missing, missing

Kind = TypeVar("Kind", bound=Reply)


@dataclass(frozen=True, slots=True)
class Answers(Generic[Kind]):
    """What came of an order.

    Attributes:
        replies: By platform, sorted.
        missing: Those who did not answer, or not with a message of the right form.
    """

    replies: Mapping[str, Kind]
    missing: tuple[Missing, ...]


def ask_for(
    kind: type[Kind],
    engine: Engine,
    orders: Mapping[str, Order],
    timeout: float | None = None,
    quorum: int | None = None,
) -> Answers[Kind]:
    """Return the replies of one type to orders of one verb.

    Args:
        kind: What is expected.
        engine: Who is asked.
        orders: By platform; at least one.
        timeout: Seconds that the replies may take.
        quorum: How many must come; None wants all, 0 none.

    Raises:
        FednerError: If too few came.
    """
    order = next(iter(orders.values()))
    replies: dict[str, Kind] = {}
    failures: list[Failure] = []
    for reply in in_canonical_order(engine.ask(orders, timeout), sorted(orders)):
        if not is_name(reply.platform) or reply.platform not in orders:
            continue  # nobody asked
        if isinstance(reply, kind) and _fits(reply, order):
            replies[reply.platform] = reply
        else:
            failures.append(_failed(reply, order))
    gone = tuple(missing(each, order.verb) for each in failures)
    require_quorum(len(replies), len(orders), gone, quorum, f"round {order.round}, {order.verb}")
    return Answers(replies, gone)


def ask_alike(orders_for: Sequence[str], order: Order) -> dict[str, Order]:
    """Return the same order for many platforms."""
    return dict.fromkeys(sorted(orders_for), order)


def require_quorum(
    num_answered: int,
    num_asked: int,
    gone: Iterable[Missing],
    quorum: int | None,
    what: str,
    refused: Sequence[str] = (),
) -> None:
    """Raise if too few platforms answered.

    Args:
        num_answered: How many did.
        num_asked: How many were asked.
        gone: Those who did not.
        quorum: How many must have; None wants all.
        what: What they were asked for.
        refused: Words on those whose answer was refused.

    Raises:
        FednerError: If so.
    """
    reasons = [f"{each.platform}: {each.message}" for each in gone]
    has_enough = not reasons if quorum is None else num_answered >= quorum
    if has_enough and (num_answered or quorum == 0):
        return
    wanted = "all" if quorum is None else f"at least {quorum}"
    raise FednerError(
        f"{what}: {num_answered} of {num_asked} platforms gave a valid answer; expected {wanted} "
        f"({'; '.join([*reasons, *refused])})",
        "Fix those platforms and resume the run, or give a quorum.",
    )


def _fits(reply: Reply, order: Order) -> bool:
    try:
        return reply.round == order.round and reply_problem(reply) is None
    except Exception:  # noqa: BLE001 - whatever a platform sent, the coordinator goes on
        return False


def _failed(reply: Reply, order: Order) -> Failure:
    """Return a failure in our own words, of a reply that may be anything."""
    is_known = isinstance(reply, Failure) and reply_problem(reply) is None
    code = reply.code if is_known and isinstance(reply, Failure) else "malformed"
    return failure(reply.platform, order.round, code)
