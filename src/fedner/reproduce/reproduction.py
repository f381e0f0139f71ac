"""What a reproduction is: cells to run, the rows that they come to, tables and figures of rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Factor = str | int | float
Source = Literal["Ge et al. 2020", "Jana & Biemann 2021", "beyond both papers"]
Layout = Literal["federation", "one corpus", "own"]


@dataclass(frozen=True, slots=True)
class Cell:
    """The least that is run, stored and taken up again.

    Attributes:
        key: Names it within its study; the same in every call: "ELMoNER/ade/repeat-3".
        factors: What it is about, in plain values; all its rows have them.
        cost: How long it takes, in thousands of sentences that a CNN-CLSTM-CRF trains on.
        work: Names the training itself, where cells of other studies are the same one: a study that
            reuses another's rows takes them over. Empty where nobody else has it.
    """

    key: str
    factors: Mapping[str, Factor]
    cost: float = 1.0
    work: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the tidy table: what was varied, and what was measured.

    Attributes:
        factors: What was varied: model, platform, repeat.
        measures: What came out; None where it has no value, as an epsilon without noise.
    """

    factors: Mapping[str, Factor]
    measures: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class PlatformInput:
    """One platform's corpus.

    Attributes:
        name: What tables call it.
        data: Where it is, or "synthetic:NAME".
        format: Its format; "auto" looks.
        test_data: A test part of its own, or None for a share of the corpus.
        options: Those of the format.
        label_map: Types that are called otherwise than in the source.
        labels: Its entity types; empty until it was read.
        num_sentences: How many sentences it has; 0 until it was read.
        counts: Sentences, documents, mentions and distinct strings, as they are in the source.
        reading: What reading skipped, changed or found wrong, in words, counted.
        digest: Of its sentences; empty until it was read.
    """

    name: str
    data: str
    format: str = "auto"
    test_data: str | None = None
    options: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    label_map: Mapping[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    num_sentences: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    reading: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a study runs on.

    Attributes:
        platforms: The corpora that are its platforms.
        words: Word vectors by path, or "hashed".
        context: A context encoder by path, or "none".
        more_contexts: Further encoders, for studies that compare several.
        out: The folder of the study.
        root: The folder of corpora that --data names, for studies with corpora of their own.
        repeats: How many seeds.
        first_seed: The first of them.
        device: "cpu" or "cuda".
        is_rehearsal: Whether everything is small: few sentences, tiny models, few steps. Shows that
            a study runs; its numbers mean nothing.
    """

    platforms: tuple[PlatformInput, ...]
    words: str
    context: str
    out: Path
    root: Path | None = None
    repeats: int = 1
    first_seed: int = 1
    device: str = "cpu"
    is_rehearsal: bool = False
    more_contexts: tuple[str, ...] = ()

    @property
    def seeds(self) -> range:
        """The seeds of all repeats."""
        return range(self.first_seed, self.first_seed + self.repeats)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the platforms, in the order given."""
        return tuple(each.name for each in self.platforms)

    def platform(self, name: str) -> PlatformInput:
        """Return a platform by its name."""
        return next(each for each in self.platforms if each.name == name)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over repeats.

    Attributes:
        mean: The mean.
        deviation: The standard deviation over repeats; None of a single one.
        low: The lower end of the 95 % Student interval of the mean; None of a single repeat.
        high: Its upper end.
        num: How many repeats.
        published: What the paper has in this place; None where it has nothing, or other data.
    """

    mean: float
    deviation: float | None
    low: float | None
    high: float | None
    num: int
    published: float | None = None


Entry = str | Estimate | None  # None is a cell that was not run: shown as missing


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a paper, or of ours.

    Attributes:
        name: Names its files.
        title: What it shows.
        columns: The heads of the columns; the first is that of the rows' names.
        rows: The rows; as many entries as columns.
        notes: What a reader must know to trust it.
        digits: Digits after the point.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Entry, ...], ...]
    notes: tuple[str, ...] = ()
    digits: int = 2


@dataclass(frozen=True, slots=True)
class Series:
    """One curve, or the bars of one colour.

    Attributes:
        label: Its name in the legend.
        points: Where it stands for each mark of the axis; None where nothing was run.
    """

    label: str
    points: tuple[Estimate | None, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: What it shows.
        marks: The marks of the horizontal axis.
        series: Its curves or bars.
        x_label: What the horizontal axis is.
        y_label: What the vertical axis is.
        places: Where the marks stand, for numbers at their true distance; None sets them evenly.
        spans_gaps: Whether curves have marks of their own and go on over those of others; else a
            gap is something that was not run.
        least: The least value that the measure can have, where axes are to begin no lower.
    """

    title: str
    marks: tuple[str, ...]
    series: tuple[Series, ...]
    x_label: str
    y_label: str = "strict F1"
    places: tuple[float, ...] | None = None
    spans_gaps: bool = False
    least: float | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a paper, or of ours.

    Attributes:
        name: Names its file.
        title: What it shows.
        panels: Its axes, side by side.
        kind: Curves, or bars beside each other.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    kind: Literal["curves", "bars"] = "curves"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a study shows of its rows."""

    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()


Rows = Sequence[Row]
Stage = Callable[[Inputs, Rows], Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A study that can be run by its name.

    Attributes:
        name: What it is called on the command line.
        source: Whose it is.
        title: What it shows, in a line.
        layout: What its platforms are: a federation of several corpora, one corpus that is divided,
            or corpora of its own choice from --data.
        corpora: Which corpora it takes, by preference: the first set that is wholly in --data.
        needs: Which of "words" and "context" it cannot do without.
        stages: What it runs: each stage sees the rows of those before it (to choose by).
        run: Runs one cell on a `bench.Bench`.
        show: Makes tables and figures of rows.
        settings: What every run of it has, in words, for its page.
        repeats: How many repeats it has unless asked for others.
        least_platforms: How many platforms it needs.
    """

    name: str
    source: Source
    title: str
    layout: Layout
    corpora: tuple[tuple[str, ...], ...]
    stages: tuple[Stage, ...]
    run: Callable[[Cell, Any], Sequence[Row]]
    show: Callable[[Rows, Inputs], Shown]
    needs: frozenset[str] = frozenset()
    settings: tuple[str, ...] = ()
    repeats: int = 10
    least_platforms: int = 1
