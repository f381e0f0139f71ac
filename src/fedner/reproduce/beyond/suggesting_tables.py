"""What `suggesting` shows: F1 by annotated sentences, gains over random choice, and the effort."""

from collections import Counter
from collections.abc import Iterator, Sequence

from fedner.reproduce.estimates import estimate, estimated, paired_gain, values_of
from fedner.reproduce.reproduction import (
    Entry,
    Estimate,
    Figure,
    Inputs,
    Panel,
    Rows,
    Series,
    Shown,
    Table,
)

LABELS = {
    "both": "suggest (uncertainty and diversity)",
    "uncertainty": "uncertainty alone",
    "diversity": "diversity alone",
    "random": "random",
}
F1 = "strict_f1"
SIZES = (50, 100, 200, 400, 800)
REHEARSED_SIZES = (8, 16)


def sizes_of(inputs: Inputs) -> tuple[int, ...]:
    """Return how many sentences are annotated in each round, all rounds together."""
    return REHEARSED_SIZES if inputs.is_rehearsal else SIZES


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return curves, gains over random choice paired by repeat, and what was annotated for them."""
    sizes = sizes_of(inputs)
    scores = tuple(_scores(rows, name, sizes) for name in inputs.names)
    return Shown(
        (*scores, _gains(rows, inputs, sizes), _effort(rows, inputs, sizes)),
        (_curves(rows, inputs, sizes), _by_tokens(rows, inputs, sizes)),
        tuple(_missing(rows, inputs, sizes)),
    )


def _missing(rows: Rows, inputs: Inputs, sizes: Sequence[int]) -> Iterator[str]:
    """Yield for each corpus how many of the repeats are there, where not all are."""
    for name in inputs.names:
        num_rows = Counter(row.factors["repeat"] for row in rows if row.factors["platform"] == name)
        whole = sum(num == len(LABELS) * len(sizes) for num in num_rows.values())
        partly = len(num_rows) - whole
        if whole < inputs.repeats:
            more = f", {partly} in part" if partly else ""
            yield (
                f"{name}: {whole} of {inputs.repeats} repeats were run with all ways to "
                f"choose{more}; the others are missing. Compare ways by the paired differences: "
                "the means of two ways may be over different repeats."
            )


def _scores(rows: Rows, name: str, sizes: Sequence[int]) -> Table:
    lines = [
        (label, *(estimated(rows, F1, platform=name, arm=arm, size=size) for size in sizes))
        for arm, label in LABELS.items()
    ]
    return Table(
        f"suggesting-{name}",
        f"{name}: strict F1 by annotated sentences",
        ("chosen by", *map(str, sizes)),
        tuple(lines),
    )


def _gains(rows: Rows, inputs: Inputs, sizes: Sequence[int]) -> Table:
    """Return paired differences to random choice, and their mean over the rounds of a repeat."""
    later = sizes[1:]
    lines: list[tuple[Entry, ...]] = []
    for name in inputs.names:
        for arm in [each for each in LABELS if each != "random"]:
            gains = [
                paired_gain(
                    rows,
                    F1,
                    {"platform": name, "arm": "random", "size": size},
                    {"platform": name, "arm": arm, "size": size},
                )
                for size in later
            ]
            lines.append((name, LABELS[arm], *gains, _mean_gain(rows, name, arm, later)))
    return Table(
        "suggesting-gains",
        "Strict F1 against random choice of as many sentences, paired by repeat",
        ("corpus", "chosen by", *map(str, later), "mean of the rounds"),
        tuple(lines),
        ("At the first size nothing has been chosen: all ways have the same sentences.",),
    )


def _mean_gain(rows: Rows, name: str, arm: str, sizes: Sequence[int]) -> Estimate | None:
    """Return the gain over random choice, in each repeat the mean over its rounds."""
    by_repeat: dict[object, dict[tuple[str, int], float]] = {}
    for row in rows:
        value = row.measures.get(F1)
        if row.factors["platform"] == name and value is not None:
            place = (str(row.factors["arm"]), int(row.factors["size"]))
            by_repeat.setdefault(row.factors["repeat"], {})[place] = value
    gains = [
        sum(held[arm, size] - held["random", size] for size in sizes) / len(sizes)
        for held in by_repeat.values()
        if sizes and all((each, size) in held for each in (arm, "random") for size in sizes)
    ]
    return estimate(gains)


def _effort(rows: Rows, inputs: Inputs, sizes: Sequence[int]) -> Table:
    """Return the tokens that an annotator reads and the mentions that they mark."""
    lines = [
        (
            name,
            label,
            *(_counted(rows, name, arm, size) for size in sizes),
        )
        for name in inputs.names
        for arm, label in LABELS.items()
    ]
    return Table(
        "suggesting-effort",
        "What was annotated: tokens / mentions, mean over repeats",
        ("corpus", "chosen by", *map(str, sizes)),
        tuple(lines),
    )


def _counted(rows: Rows, name: str, arm: str, size: int) -> Entry:
    where: dict[str, str | int] = {"platform": name, "arm": arm, "size": size}
    tokens, mentions = values_of(rows, "tokens", **where), values_of(rows, "mentions", **where)
    if not tokens:
        return None
    return f"{sum(tokens) / len(tokens):,.0f} / {sum(mentions) / len(mentions):,.0f}"


def _curves(rows: Rows, inputs: Inputs, sizes: Sequence[int]) -> Figure:
    panels = [
        Panel(
            name,
            tuple(map(str, sizes)),
            tuple(
                Series(
                    label,
                    tuple(estimated(rows, F1, platform=name, arm=arm, size=size) for size in sizes),
                )
                for arm, label in LABELS.items()
            ),
            "annotated sentences (doubled from mark to mark)",
        )
        for name in inputs.names
    ]
    return Figure("suggesting", "Strict F1 by annotated sentences", tuple(panels))


def _by_tokens(rows: Rows, inputs: Inputs, sizes: Sequence[int]) -> Figure:
    run = [name for name in inputs.names if values_of(rows, F1, platform=name)]
    panels = [_token_panel(rows, name, sizes) for name in run]
    return Figure("suggesting-tokens", "Strict F1 by annotated tokens", tuple(panels))


def _token_panel(rows: Rows, name: str, sizes: Sequence[int]) -> Panel:
    """Return a panel whose curves stand where their sentences' tokens put them."""
    points: list[tuple[float, str, Estimate]] = []
    for arm in LABELS:
        for size in sizes:
            point = estimated(rows, F1, platform=name, arm=arm, size=size)
            tokens = values_of(rows, "tokens", platform=name, arm=arm, size=size)
            if point is not None and tokens:
                points.append((sum(tokens) / len(tokens) / 1000, arm, point))
    points.sort(key=lambda each: each[0])
    series = tuple(
        Series(label, tuple(point if of == arm else None for _, of, point in points))
        for arm, label in LABELS.items()
        if any(of == arm for _, of, _ in points)
    )
    places = tuple(place for place, _, _ in points)
    return Panel(
        name,
        _sparse(places),
        series,
        "thousands of annotated tokens",
        places=places,
        spans_gaps=True,
    )


def _sparse(places: Sequence[float]) -> tuple[str, ...]:
    """Return the marks of an axis, those left blank that would stand on the one before.

    >>> _sparse([1.0, 1.1, 5.0, 9.0])
    ('1.0', '', '5.0', '9.0')
    """
    marks: list[str] = []
    room = (max(places, default=0.0) - min(places, default=0.0)) / 8
    last: float | None = None
    for place in places:
        is_free = last is None or place - last >= room
        marks.append(f"{place:.1f}" if is_free else "")
        last = place if is_free else last
    return tuple(marks)
