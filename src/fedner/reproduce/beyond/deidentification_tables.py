"""Tables and figure of `deidentification`: what remains and is lost, over repeats and of one."""

from fedner.experiments.deidentification.corpora import LOOKED_FOR, TYPES
from fedner.reproduce.estimates import chosen, estimate, estimated, series_along, values_of
from fedner.reproduce.reproduction import (
    Entry,
    Factor,
    Figure,
    Inputs,
    Panel,
    Row,
    Rows,
    Shown,
    Table,
)

NAMES = tuple(TYPES)
LOCAL, FEW, JOINED = "local-only", "local-only, few", "joined, few"
PRESIDIO = "Presidio's analyzer"
PRESIDIO_VARIABLE = "FEDNER_PRESIDIO"
TAGGERS = (LOCAL, FEW, JOINED)
ALL_TYPES = "all types"
REFUSED = "refused"

# A measure, and its column.
COLUMNS = {
    "remain": "of 1,000 mentions remain",
    "remain_looked_for": "of the types that Presidio looks for",
    "lost": "of 1,000 other words lost",
}
REFUSED_NOTE = (
    f"{REFUSED}: no threshold reaches the wanted recall within the share of other words that may "
    "be lost."
)
UNTRAINED_NOTE = (
    "Presidio's analyzer was not trained on such texts, and the taggers were; it does not look for "
    "all annotated types."
)
WITHOUT_PRESIDIO = (
    f"Presidio's rows are missing: {PRESIDIO_VARIABLE} named no Python that has presidio-analyzer."
)
TEXTS_NOTE = "95 % intervals of one repeat: over its texts, those of one template being one group."


def best_path_of(arm: str) -> str:
    """Return what tables call the removal of a tagger's best path."""
    return f"{arm}, best path"


def by_threshold_of(arm: str) -> str:
    """Return what tables call the removal of a tagger's words above a threshold."""
    return f"{arm}, threshold"


REMOVALS = (
    *(way(arm) for arm in TAGGERS for way in (best_path_of, by_threshold_of)),
    PRESIDIO,
)


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return what remains and is lost: over repeats, of the first one, and by type."""
    tables = (_over_repeats(rows), _of_one_repeat(rows, inputs.first_seed), *_by_type(rows))
    notes = [UNTRAINED_NOTE, *_refusals(rows)]
    if not chosen(rows, removal=PRESIDIO):
        notes.append(WITHOUT_PRESIDIO)
    return Shown(tables, (_bars(rows),), tuple(notes))


def _place(name: str, removal: str, label: str = ALL_TYPES) -> dict[str, Factor]:
    return {"corpus": name, "removal": removal, "type": label}


def _entry(rows: Rows, measure: str, place: dict[str, Factor]) -> Entry:
    """Return a mean over repeats; "refused" where each was, None where nothing was run."""
    found = estimate(values_of(rows, measure, **place))
    return REFUSED if found is None and _is_refused(rows, place) else found


def _is_refused(rows: Rows, place: dict[str, Factor]) -> bool:
    """Whether a removal was tried and found no threshold in any repeat."""
    held = chosen(rows, **{**place, "type": ALL_TYPES})
    return bool(held) and all(each.measures["remain"] is None for each in held)


def _over_repeats(rows: Rows) -> Table:
    lines = [
        (f"{name}: {removal}", *(_entry(rows, each, _place(name, removal)) for each in COLUMNS))
        for name in NAMES
        for removal in REMOVALS
    ]
    return Table(
        "deidentification",
        "What a removal leaves and what it costs, of 1,000",
        ("corpus: removal", *COLUMNS.values()),
        tuple(lines),
        (REFUSED_NOTE,),
        digits=0,
    )


def _of_one_repeat(rows: Rows, seed: int) -> Table:
    """Return one repeat, with the intervals that it has by itself."""
    lines: list[tuple[Entry, ...]] = []
    for name in NAMES:
        for removal in REMOVALS:
            found = chosen(rows, repeat=seed, **_place(name, removal))
            entries = _own_entries(found[0]) if found else (None,) * (len(COLUMNS) + 2)
            lines.append((f"{name}: {removal}", *entries))
    return Table(
        "deidentification-one-repeat",
        f"The repeat of seed {seed}, with its intervals over texts",
        ("corpus: removal", *COLUMNS.values(), "threshold", "mentions"),
        tuple(lines),
        (TEXTS_NOTE, REFUSED_NOTE),
    )


def _own_entries(row: Row) -> tuple[Entry, ...]:
    """Return value and interval of each measure, threshold and number of mentions, in words.

    >>> measures = {"remain": 20.4, "remain_low": 9.6, "remain_high": 37.2, "mentions": 500}
    >>> measures |= {f"lost{end}": 0 for end in ("", "_low", "_high")}
    >>> measures |= {f"remain_looked_for{end}": 1.2 for end in ("", "_low", "_high")}
    >>> _own_entries(Row({}, {**measures, "threshold": 0.1234}))
    ('20 (10 to 37)', '1 (1 to 1)', '0 (0 to 0)', '0.123', '500')
    """
    held = row.measures
    if held["remain"] is None:
        return (REFUSED,) * (len(COLUMNS) + 2)
    shares = [
        f"{held[name]:.0f} ({held[f'{name}_low']:.0f} to {held[f'{name}_high']:.0f})"
        for name in COLUMNS
    ]
    threshold = held["threshold"]
    return (
        *shares,
        "none" if threshold is None else f"{threshold:.3g}",
        f"{held['mentions']:,.0f}",
    )


def _by_type(rows: Rows) -> list[Table]:
    """Return a table for each corpus: of 1,000 mentions of each type remain."""
    return [
        Table(
            f"deidentification-types-{name}",
            f"{name}: of 1,000 mentions of a type remain",
            ("type", "Presidio looks for it", "mentions", *REMOVALS),
            tuple(_type_line(rows, name, label) for label in _labels(rows, name)),
            ("Types without a mention in the half that measures are left out.", REFUSED_NOTE),
            digits=0,
        )
        for name in NAMES
    ]


def _labels(rows: Rows, name: str) -> list[str]:
    """Return the types that were measured."""
    found = {str(row.factors["type"]) for row in chosen(rows, corpus=name)}
    return sorted(found - {ALL_TYPES})


def _type_line(rows: Rows, name: str, label: str) -> tuple[Entry, ...]:
    first = next(
        removal for removal in REMOVALS if chosen(rows, **_place(name, removal, label))
    )  # every removal is measured on the same mentions
    return (
        label,
        "yes" if label in LOOKED_FOR[name] else "no",
        estimated(rows, "mentions", None, **_place(name, first, label)),
        *(_entry(rows, "remain", _place(name, removal, label)) for removal in REMOVALS),
    )


def _refusals(rows: Rows) -> list[str]:
    """Return in how many repeats a threshold was refused: means are those of the others."""
    found = []
    for name in NAMES:
        for removal in map(by_threshold_of, TAGGERS):
            held = chosen(rows, **_place(name, removal))
            refused = sum(row.measures["remain"] is None for row in held)
            if refused:
                found.append(f"{name}: {removal} was refused in {refused} of {len(held)} repeats")
    return found


def _bars(rows: Rows) -> Figure:
    panels = tuple(
        Panel(
            "",
            NAMES,
            tuple(
                series_along(rows, removal, [_place(name, removal) for name in NAMES], measure)
                for removal in REMOVALS
            ),
            "corpus",
            title,
            least=0.0,
        )
        for measure, title in COLUMNS.items()
        if measure != "remain_looked_for"
    )
    return Figure("deidentification", "What a removal leaves and costs", panels, "bars")
