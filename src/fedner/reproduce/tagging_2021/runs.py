"""Train a plan and say what it came to: one row over all platforms, one for each of them."""

from collections.abc import Mapping, Sequence

from fedner.federated.record import RoundRecord
from fedner.reproduce.bench import Bench, Ran, score_measures
from fedner.reproduce.reproduction import Cell, Factor, Row
from fedner.reproduce.tagging_2021.plans import SHARES, Plan, rehearsed
from fedner.reproduce.tagging_2021.shards import platform_entries
from fedner.runs.folder import FEDERATED
from fedner.runs.records import PlatformSpent
from fedner.runs.release_costs import recorded_events, spent_on
from fedner.scoring import Scores

ALL = "all"  # the platform of rows over all of them


def run_plan(bench: Bench, cell: Cell, plan: Plan) -> list[Row]:
    """Train a plan; return its rows.

    Args:
        bench: Runs it.
        cell: The cell; its factor `repeat` is the seed.
        plan: What is trained.
    """
    own = rehearsed(plan) if bench.inputs.is_rehearsal else plan
    seed = int(cell.factors["repeat"])
    entries = platform_entries(bench, seed, own.num_platforms, own.micro_batch)
    if own.keep < 1:
        entries = [{**each, "split": {**each["split"], "keep": own.keep}} for each in entries]
    settings = bench.settings(seed, own.tables, entries)
    ran = bench.federated(cell.key, settings)
    delta = settings.privacy.delta
    if own.is_sliced:
        return _by_share(ran, cell.factors, delta if own.has_dp else None)
    found = {name: each.methods[FEDERATED] for name, each in ran.scores.platforms.items()}
    return _rows(found, ran.spent, ran.history, cell.factors)


def _by_share(ran: Ran, factors: Mapping[str, Factor], delta: float | None) -> list[Row]:
    """Return the rows after every share of the data, with what had been released by then."""
    rows: list[Row] = []
    for share in SHARES:
        until = ran.history[: round(len(ran.history) * share / 100)]
        found = {name: each for name, each in until[-1].scores.items() if isinstance(each, Scores)}
        names = sorted(found) if delta is not None else ()
        spent = {name: spent_on(recorded_events(until, name), delta or 0.0) for name in names}
        rows += _rows(found, spent, until, {**factors, "share": share})
    return rows


def _rows(
    found: Mapping[str, Scores],
    spent: Mapping[str, PlatformSpent],
    rounds: Sequence[RoundRecord],
    factors: Mapping[str, Factor],
) -> list[Row]:
    up = sum(sum(each.bytes_up.values()) for each in rounds)
    whole = {
        **score_measures(sum(found.values(), Scores())),
        "epsilon": largest([each.pld for each in spent.values()]),
        "epsilon_rdp": largest([each.rdp for each in spent.values()]),
        "rounds": float(len(rounds)),
        "bytes_up": float(up),
    }
    apart = [
        Row({**factors, "platform": name}, _spent_measures(spent[name])) for name in sorted(spent)
    ]
    return [Row({**factors, "platform": ALL}, whole), *apart]


def _spent_measures(spent: PlatformSpent) -> dict[str, float | None]:
    return {
        "epsilon": spent.pld,
        "epsilon_rdp": spent.rdp,
        "steps": float(spent.steps),
        "units": float(max(spent.public_units, default=0)),
        "sampling_probability": max(spent.sampling_probability, default=None),
    }


def largest(epsilons: Sequence[float | None]) -> float | None:
    """Return what the worst-off platform spent; None without DP, or without any noise."""
    finite = [each for each in epsilons if each is not None]
    return max(finite) if finite and len(finite) == len(epsilons) else None
