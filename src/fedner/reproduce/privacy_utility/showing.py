"""Tables and figure of the study: a split counts once, however many seeds of noise met it."""

from collections.abc import Mapping
from statistics import fmean

from fedner.experiments.joining.private_study import (
    ARMS,
    CENTRAL,
    EPSILONS,
    FEDERATIONS,
    NEWCOMERS,
    OWN_SENTENCES,
    PLAIN,
    PUBLIC_ONLY,
)
from fedner.reproduce.estimates import chosen, estimate
from fedner.reproduce.privacy_utility.cells import (
    ALL,
    ALONE,
    EPSILONS_OF,
    NEWCOMER,
    RELEASED,
    STARTS,
)
from fedner.reproduce.reproduction import (
    Entry,
    Estimate,
    Factor,
    Figure,
    Inputs,
    Panel,
    Rows,
    Series,
    Shown,
    Table,
)

NAME = "privacy-utility"
NO_DP = "no DP"
COLUMNS = (NO_DP, *(f"epsilon {each:g}" for each in EPSILONS))
NOT_APPLICABLE = "–"
SETTINGS = (
    (
        "Models with a described head, everything shared, sentences protected, delta 1e-5 by PLD; "
        "word vectors and encoder frozen. From scratch: joint Poisson batches of 2,048, 60 epochs; "
        "from a public model: 4,096, 120 epochs; Adam 0.005, EMA of the weights. Public models "
        "were trained on corpora of nobody in the federation (medical: MACCROBAT, NCBI-disease, "
        "BC5CDR; BTC: WNUT 17)."
    ),
    (
        "All but the first row begin with the public model. central: the server adds the noise to "
        "the sum. distributed: platforms add shares of it under a secure sum, one of them "
        "colluding. local: each platform adds the same noise to its own part."
    ),
    (
        "Without DP: 1,500 steps of 32 sentences each platform. Learning rates and batches were "
        "chosen on another split; epsilon does not cover that."
    ),
    "A repeat is a split; up to five seeds of noise meet it, and it counts with their mean.",
)
NEWCOMER_NOTE = (
    f"A newcomer of {OWN_SENTENCES} sentences receives the partners' model, fine-tunes at home "
    "without noise and sends nothing. scratch: all partners of the joining study trained under DP; "
    "public: those of its federation did, from a public model; public only: nobody did."
)


def show(rows: Rows, _inputs: Inputs) -> Shown:
    """Return F1 by epsilon, the distance from central noise, and newcomers."""
    return Shown((_by_epsilon(rows), _distances(rows), _newcomers(rows)), (_figure(rows),))


def by_split(rows: Rows, **factors: Factor) -> dict[Factor, float]:
    """Return the mean of each split over the seeds of noise that met it."""
    found: dict[Factor, list[float]] = {}
    for row in chosen(rows, **factors):
        value = row.measures.get("strict_f1")
        if value is not None:
            found.setdefault(row.factors["repeat"], []).append(value)
    return {split: fmean(found[split]) for split in sorted(found)}


def _score(rows: Rows, part: str, federation: str, arm: str, epsilon: float) -> Estimate | None:
    place: dict[str, Factor] = {"part": part, "federation": federation, "arm": arm}
    return estimate(list(by_split(rows, **place, epsilon=epsilon, platform=ALL).values()))


def _released(rows: Rows, federation: str, arm: str, epsilon: float) -> Entry:
    """Return a score; without noise nobody adds it, and it is that of the same start."""
    if epsilon not in EPSILONS_OF[arm]:
        return _score(rows, RELEASED, federation, CENTRAL.name, epsilon)
    return _score(rows, RELEASED, federation, arm, epsilon)


def _by_epsilon(rows: Rows) -> Table:
    lines = [
        (
            f"{federation}: {arm}",
            *(_released(rows, federation, arm, each) for each in (PLAIN, *EPSILONS)),
        )
        for federation in FEDERATIONS
        for arm in ARMS
    ]
    note = "Strict F1 in percent over the test parts of all platforms."
    title = "Strict F1 of a model that may be released, by epsilon"
    return Table(NAME, title, ("noise", *COLUMNS), tuple(lines), (note,))


def _distances(rows: Rows) -> Table:
    """Return how far noise of others lies from that of a trusted server, on the same seeds."""
    others = [arm for arm in ARMS.values() if arm.start == "public" and arm != CENTRAL]
    lines = [
        (
            f"{federation}: {arm.name}",
            *(_distance(rows, federation, arm.name, epsilon) for epsilon in EPSILONS),
        )
        for federation in FEDERATIONS
        for arm in others
    ]
    note = (
        "Points of strict F1 less those of central noise, by the splits and seeds of noise that "
        "both have; each split counts once."
    )
    title = "What it costs that no server is trusted with the noise"
    return Table(f"{NAME}-distance", title, ("noise", *COLUMNS[1:]), tuple(lines), (note,))


def _distance(rows: Rows, federation: str, arm: str, epsilon: float) -> Entry:
    place: dict[str, Factor] = {"part": RELEASED, "federation": federation, "epsilon": epsilon}
    own = _by_seed(rows, {**place, "arm": arm})
    central = _by_seed(rows, {**place, "arm": CENTRAL.name})
    found: dict[Factor, list[float]] = {}
    for split, seed in sorted(own.keys() & central):
        found.setdefault(split, []).append(own[split, seed] - central[split, seed])
    return estimate([fmean(each) for each in found.values()])


def _by_seed(rows: Rows, factors: Mapping[str, Factor]) -> dict[tuple[int, int], float]:
    held = chosen(rows, **factors, platform=ALL)
    return {
        (int(row.factors["repeat"]), int(row.factors["noise_seed"])): row.measures["strict_f1"] or 0
        for row in held
    }


def _newcomers(rows: Rows) -> Table:
    lines: list[tuple[Entry, ...]] = []
    for newcomer in NEWCOMERS:
        alone = _score(rows, ALONE, newcomer, ALONE, PLAIN)
        blank = (NOT_APPLICABLE,) * len(EPSILONS)
        lines.append((f"{newcomer}: alone", alone, *blank, NOT_APPLICABLE))
        for start, epsilons in STARTS.items():
            scores = [
                _score(rows, NEWCOMER, newcomer, start, each)
                if each in epsilons
                else NOT_APPLICABLE
                for each in (PLAIN, *EPSILONS)
            ]
            share = _kept_share(rows, newcomer, start)
            lines.append((f"{newcomer}: {start}", *scores, share))
    columns = ("newcomer: what it receives", *COLUMNS, "of the gain at epsilon 3, %")
    title = "Strict F1 of newcomers whose partners trained under DP"
    return Table(f"{NAME}-newcomers", title, columns, tuple(lines), (NEWCOMER_NOTE,))


def _kept_share(rows: Rows, newcomer: str, start: str) -> Entry:
    """Return how much of the gain of joining is left at epsilon 3, as a ratio of means."""
    if start == PUBLIC_ONLY:
        return NOT_APPLICABLE
    alone = _score(rows, ALONE, newcomer, ALONE, PLAIN)
    plain = _score(rows, NEWCOMER, newcomer, start, PLAIN)
    noised = _score(rows, NEWCOMER, newcomer, start, EPSILONS[1])
    if alone is None or plain is None or noised is None:
        return None
    gain = plain.mean - alone.mean
    return NOT_APPLICABLE if gain <= 0 else f"{100 * (noised.mean - alone.mean) / gain:.0f}"


def _figure(rows: Rows) -> Figure:
    panels = tuple(_panel(rows, federation) for federation in FEDERATIONS)
    return Figure(NAME, "Strict F1 against epsilon, by who adds the noise", panels)


def _panel(rows: Rows, federation: str) -> Panel:
    places = (*EPSILONS, PLAIN)
    series = []
    for arm in ARMS:
        points = (_released(rows, federation, arm, each) for each in places)
        series.append(Series(arm, tuple(_drawn(each) for each in points)))
    marks = (*(f"{each:g}" for each in EPSILONS), NO_DP)
    return Panel(federation, marks, tuple(series), "epsilon")


def _drawn(entry: Entry) -> Estimate | None:
    return entry if isinstance(entry, Estimate) else None
