"""The tables and figures of `communication`."""

import math
from collections.abc import Sequence
from statistics import fmean

from fedner.reproduce.beyond.communication import (
    COMMUNICATION_WORDS,
    ENCODER,
    ENCODINGS,
    LOCAL_STEPS,
    TAGGER,
    probes,
    run,
    trainings,
)
from fedner.reproduce.beyond.encoder_plans import WAYS
from fedner.reproduce.beyond.plans import MEAN, mean_f1
from fedner.reproduce.estimates import chosen, paired_gain, values_of
from fedner.reproduce.reproduction import (
    Entry,
    Estimate,
    Factor,
    Figure,
    Inputs,
    Panel,
    Reproduction,
    Rows,
    Series,
    Shown,
    Table,
)

SECONDS = 8e-6  # for a byte at 1 Mbit/s
WHOLE_NUMBERS = ENCODINGS[0]
NO_ENCODER = (
    "The rows of a trained encoder were not run; they need --context with a Hugging Face folder "
    "(config.json)."
)
BYTES_WORDS = "Up and down: bytes of tensors of one platform, all rounds together, mean over seeds."


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return what each way costs and what it reaches."""
    notes = (*_rates(rows), *(() if chosen(rows, part=ENCODER) else (NO_ENCODER,)))
    tables = (_tagger_table(rows), _encoder_table(rows, inputs))
    return Shown(tables, (_by_bytes(rows), _by_rounds(rows)), notes)


def _way(steps: int, encoding: str) -> dict[str, Factor]:
    return {"part": TAGGER, "local_steps": steps, "encoding": encoding, "platform": MEAN}


def _tagger_table(rows: Rows) -> Table:
    columns = (
        "K",
        "encoding",
        "rounds",
        "strict F1",
        "against float32, K = 1",
        "up, MB",
        "down, MB",
        "bytes",
        "minutes at 1 Mbit/s",
    )
    lines = [_tagger_line(rows, steps, each) for steps in LOCAL_STEPS for each in ENCODINGS]
    return Table(
        "communication",
        "Mean strict F1 of the platforms, and bytes, at the same number of local steps",
        columns,
        tuple(lines),
        ("Differences are paired by seed.", BYTES_WORDS),
    )


def _tagger_line(rows: Rows, steps: int, encoding: str) -> tuple[Entry, ...]:
    factors, whole = _way(steps, encoding), _way(LOCAL_STEPS[0], WHOLE_NUMBERS)
    gain: Entry = "0" if factors == whole else paired_gain(rows, "strict_f1", whole, factors)
    up, down = (_mean(rows, part, factors) for part in ("bytes_up", "bytes_down"))
    rounds, everything = _mean(rows, "rounds", factors), _bytes(rows, whole)
    carried = None if up is None or down is None else up + down
    share = None if carried is None or not everything else f"{carried / everything:.1%}"
    return (
        str(steps),
        encoding,
        None if rounds is None else f"{rounds:,.0f}",
        mean_f1(rows, factors),
        gain,
        None if up is None else _number(up / 1e6),
        None if down is None else _number(down / 1e6),
        share,
        None if carried is None else _number(carried * SECONDS / 60),
    )


def _number(value: float) -> str:
    """Return three digits, or all before the point.

    >>> _number(3586.88), _number(0.26667), _number(45.0)
    ('3,587', '0.267', '45')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _mean(rows: Rows, measure: str, factors: dict[str, Factor]) -> float | None:
    held = values_of(rows, measure, **factors)
    return fmean(held) if held else None


def _bytes(rows: Rows, factors: dict[str, Factor]) -> float | None:
    up, down = (_mean(rows, part, factors) for part in ("bytes_up", "bytes_down"))
    return None if up is None or down is None else up + down


def _encoder_table(rows: Rows, inputs: Inputs) -> Table:
    names = sorted({str(row.factors["platform"]) for row in chosen(rows, part=ENCODER)} - {MEAN})
    places = (*(names or inputs.names), MEAN)
    lines = []
    for way in WAYS:
        held: dict[str, Factor] = {"part": ENCODER, "way": way}
        rounds, up, down = (
            _mean(rows, each, {**held, "platform": MEAN})
            for each in ("rounds", "bytes_up", "bytes_down")
        )
        found: tuple[Entry, ...] = (
            *(mean_f1(rows, {**held, "platform": each}) for each in places),
            None if rounds is None else f"{rounds:,.0f}",
            None if up is None else _number(up / 1e6),
            None if down is None else _number(down / 1e6),
        )
        lines.append((way, *found))
    return Table(
        "communication-encoder",
        "Strict F1 of a trained encoder, and bytes",
        ("trained and sent", *places, "rounds", "up, MB", "down, MB"),
        tuple(lines),
        (BYTES_WORDS,),
    )


def _rates(rows: Rows) -> tuple[str, ...]:
    """Return which learning rates were chosen."""
    held = {
        row.factors["local_steps"]: row.factors["learning_rate"]
        for row in chosen(rows, part=TAGGER)
    }
    if not held:
        return ()
    found = ", ".join(f"{held[steps]:g} at K = {steps}" for steps in LOCAL_STEPS if steps in held)
    return (f"Learning rates chosen by the probes: {found}.",)


def _by_bytes(rows: Rows) -> Figure:
    """Return F1 against the bytes of one platform, in powers of ten."""
    curves: dict[str, list[dict[str, Factor]]] = {
        each: [_way(steps, each) for steps in LOCAL_STEPS] for each in ENCODINGS
    }
    curves |= {way: [{"part": ENCODER, "way": way, "platform": MEAN}] for way in WAYS}
    points = {
        label: {
            size: mean_f1(rows, factors)
            for factors in ways
            if (size := _bytes(rows, factors)) is not None
        }
        for label, ways in curves.items()
    }
    sizes = sorted({size for held in points.values() for size in held})
    places = sorted({*sizes, *_powers(sizes)})
    marks = tuple(_shown(each) if each in _powers(sizes) else "" for each in places)
    series = tuple(
        Series(label, tuple(held.get(each) for each in places))
        for label, held in points.items()
        if held
    )
    panel = Panel(
        "K = 8 to 1 from left to right",
        marks,
        series,
        "bytes of one platform, up and down",
        places=tuple(math.log10(each) for each in places) or None,
        spans_gaps=True,
    )
    return Figure("communication", "Strict F1 against bytes", (panel,))


def _powers(sizes: Sequence[float]) -> set[float]:
    """Return the powers of ten from below the least size to above the greatest."""
    if not sizes:
        return set()
    low, high = math.floor(math.log10(min(sizes))), math.ceil(math.log10(max(sizes)))
    return {10.0**power for power in range(low, high + 1)}


def _shown(size: float) -> str:
    """Return bytes as people read them.

    >>> _shown(1e6), _shown(1e4), _shown(1e10)
    ('1 MB', '10 kB', '10 GB')
    """
    for unit, bytes_ in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= bytes_:
            return f"{size / bytes_:g} {unit}"
    return f"{size:g} B"


def _by_rounds(rows: Rows) -> Figure:
    rounds = {steps: _mean(rows, "rounds", _way(steps, WHOLE_NUMBERS)) for steps in LOCAL_STEPS}
    held = [steps for steps in reversed(LOCAL_STEPS) if rounds[steps] is not None]
    series = []
    for encoding in ENCODINGS:
        points: tuple[Estimate | None, ...] = tuple(
            mean_f1(rows, _way(steps, encoding)) for steps in held
        )
        series.append(Series(encoding, points))
    panel = Panel(
        "the same number of local steps",
        tuple(f"{rounds[steps]:,.0f}" for steps in held),
        tuple(series),
        "rounds",
    )
    return Figure("communication-rounds", "Strict F1 against rounds", (panel,))


COMMUNICATION = Reproduction(
    name="communication",
    source="beyond both papers",
    title="F1 against rounds and bytes: local steps, bfloat16, int8, adapters",
    layout="federation",
    corpora=(("cadec", "ade", "smm4h"), ("ade", "psytar", "twimed")),
    stages=(probes, trainings),
    run=run,
    show=show,
    settings=COMMUNICATION_WORDS,
    repeats=5,
)
