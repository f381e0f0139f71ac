"""Tables and figures of rows: entity F1 first, the paper's token measure and its floor beside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedner.reproduce.estimates import chosen, estimate, estimated, values_of
from fedner.reproduce.reproduction import (
    Entry,
    Factor,
    Figure,
    Inputs,
    Panel,
    Rows,
    Series,
    Shown,
    Table,
)
from fedner.reproduce.tagging_2021.claims import Claim
from fedner.reproduce.tagging_2021.designs import Design, Way
from fedner.reproduce.tagging_2021.published import MEASURES, Published
from fedner.reproduce.tagging_2021.runs import ALL

OWN_CORPUS = ("conll2003",)
SCORED = ("strict_f1", *MEASURES)
HEADS = ("entity F1, strict", "token precision", "token recall", "token F")
EPSILON_HEADS = ("epsilon, PLD", "epsilon, RDP")
ALWAYS_O = "always O"
NO_DP = "no DP"
SPENT = {
    "units": "{:,.0f}",
    "sampling_probability": "{:.4f}",
    "steps": "{:,.0f}",
    "epsilon": "{:.3f}",
    "epsilon_rdp": "{:.3f}",
}
NOTE = (
    "In percent; the paper writes 0.916 for 91.6. Token columns are what the paper most likely "
    "reports: token-level, weighted by tag, O included. A tagger that never finds anything has "
    f'the line "{ALWAYS_O}" on them: read them against it.'
)
EPSILON_NOTE = (
    "Epsilon is that of the worst-off platform, delta 1e-5, from the steps and sampling "
    "probabilities that were executed; slices are disjoint, so that a sentence pays for its own."
)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a design is shown.

    Attributes:
        name: Names table and figure.
        title: What they show.
        design: What was run.
        published: The paper's numbers.
        claims: What the paper says of them.
        has_dp: Whether there is an epsilon.
        has_figure: Whether there are curves along the axis.
    """

    name: str
    title: str
    design: Design
    published: Published
    claims: tuple[Claim, ...] = ()
    has_dp: bool = False
    has_figure: bool = True

    def show(self, rows: Rows, inputs: Inputs) -> Shown:
        """Return table, figure and what they say of the paper's claims."""
        published = self.published if inputs.names == OWN_CORPUS else {}
        tables = [self._table(rows, published)]
        if any("epsilon" in held for held in self.published.values()):
            tables.append(self._epsilons(rows, published))
        figures = (self._figure(rows, published),) if self.has_figure else ()
        notes = tuple(claim.told(rows) for claim in self.claims)
        return Shown(tuple(tables), figures, notes)

    def _places(self) -> list[tuple[Factor | None, Way]]:
        """Return every row's place: by way, then by value of the axis."""
        axis = self.design.axis
        values: Sequence[Factor | None] = (None,) if axis is None else axis.values
        return [(value, way) for way in self.design.ways for value in values]

    def _factors(self, value: Factor | None, way: Way) -> dict[str, Factor]:
        axis = self.design.axis
        held: dict[str, Factor] = {"way": way.label, "platform": ALL}
        return held if axis is None or value is None else {**held, axis.name: value}

    def _name(self, value: Factor | None, way: Way) -> str:
        axis = self.design.axis
        if axis is None or value is None:
            return self._label(way)
        return f"{self._label(way)}, {axis.form.format(value)}"

    def _label(self, way: Way) -> str:
        """Return what a way is called; beside the paper's own, with whose it is."""
        return f"ours: {way.label}" if self.published and way.paper is None else way.label

    def _table(self, rows: Rows, published: Published) -> Table:
        heads = HEADS + (EPSILON_HEADS if self.has_dp else ())
        lines = [self._line(rows, published, value, way) for value, way in self._places()]
        notes = (NOTE, *((EPSILON_NOTE,) if self.has_dp else ()))
        lines.append(self._always_o(rows))
        return Table(self.name, self.title, ("trained how", *heads), tuple(lines), notes)

    def _line(
        self, rows: Rows, published: Published, value: Factor | None, way: Way
    ) -> tuple[Entry, ...]:
        theirs = published.get((way.paper or "", value), {})
        own = chosen(rows, **self._factors(value, way))
        found: list[Entry] = [estimated(own, each, theirs.get(each)) for each in SCORED]
        if self.has_dp:
            found += [_epsilon(own, each, theirs) for each in ("epsilon", "epsilon_rdp")]
        return (self._name(value, way), *found)

    def _always_o(self, rows: Rows) -> tuple[Entry, ...]:
        """Return the line of a tagger that finds nothing: the same in all rows of a repeat."""
        held = _one_of_each_repeat(rows)
        none = [0.0] * len(held)
        tokens = [estimated(held, each.replace("token", "always_o")) for each in MEASURES]
        spent: list[Entry] = [estimate(none), estimate(none)] if self.has_dp else []
        return (ALWAYS_O, estimate(none), *tokens, *spent)

    def _epsilons(self, rows: Rows, published: Published) -> Table:
        heads = ("sentences of a platform", "sampling probability", "noised steps", "epsilon, PLD")
        places = [(value, way) for value, way in self._places() if way.paper is not None]
        lines = tuple(self._spent(rows, published, value, way) for value, way in places)
        note = (
            "From the least to the largest of all platforms and repeats. The paper quotes one "
            "epsilon for all n, but sampling probability and steps of a platform change with n and "
            "with slices."
        )
        columns = ("trained how", *heads, "epsilon, RDP", "epsilon in the paper")
        title = "The epsilon that each platform truly spent"
        return Table(f"{self.name}-epsilon", title, columns, lines, (note,))

    def _spent(
        self, rows: Rows, published: Published, value: Factor | None, way: Way
    ) -> tuple[Entry, ...]:
        factors = self._factors(value, way)
        del factors["platform"]
        own = [row for row in chosen(rows, **factors) if row.factors["platform"] != ALL]
        quoted = published.get((way.paper or "", value), {}).get("epsilon")
        found = (_range(own, measure, form) for measure, form in SPENT.items())
        return (self._name(value, way), *found, "" if quoted is None else f"{quoted:g}")

    def _figure(self, rows: Rows, published: Published) -> Figure:
        panels = (
            self._panel(rows, published, "strict_f1", HEADS[0]),
            self._panel(rows, published, "token_f1", "token F, O included"),
        )
        return Figure(self.name, self.title, panels)

    def _panel(self, rows: Rows, published: Published, measure: str, label: str) -> Panel:
        axis = self.design.axis
        if axis is None:
            raise TypeError(f"{self.name} has no axis to draw along")
        series = []
        for way in self.design.ways:
            points = tuple(
                estimated(
                    rows,
                    measure,
                    published.get((way.paper or "", value), {}).get(measure),
                    **self._factors(value, way),
                )
                for value in axis.values
            )
            series.append(Series(self._label(way), points))
        if measure == "token_f1":
            floor = estimated(_one_of_each_repeat(rows), "always_o_f1")
            series.append(Series(ALWAYS_O, (floor,) * len(axis.values)))
        marks = tuple(f"{value:g}" for value in axis.values)
        return Panel(label, marks, tuple(series), axis.label, label, least=0.0)


def _one_of_each_repeat(rows: Rows) -> Rows:
    """Return a row of each repeat: the test part, and so its floor, is that of all of them."""
    return list({row.factors["repeat"]: row for row in chosen(rows, platform=ALL)}.values())


def _epsilon(own: Rows, measure: str, theirs: Mapping[str, float]) -> Entry:
    """Return an epsilon, or that there is no DP in rows that were run."""
    found = estimated(own, measure, theirs.get(measure))
    return NO_DP if own and found is None else found


def _range(own: Rows, measure: str, form: str) -> Entry:
    """Return the least and the largest of all platforms and repeats; None where nothing was run."""
    values = values_of(own, measure)
    if not values:
        return None
    least, most = form.format(min(values)), form.format(max(values))
    return least if least == most else f"{least} to {most}"
