"""`fedner reproduce`: every table and figure of both papers, and the studies beyond them."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fedner.cli.arguments import AsJson

if TYPE_CHECKING:
    from fedner.reproduce.opening import Opened, Options
    from fedner.reproduce.plan import Plan
    from fedner.reproduce.reproduction import Inputs, Reproduction, Shown
    from fedner.reproduce.running import Listener, Run

_MINUTE, _HOUR = 60, 3600

Name = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Which study; --list shows all.")
]
Data = Annotated[Path | None, typer.Option("--data", help="A folder that holds corpora by name.")]
Platforms = Annotated[
    list[str] | None,
    typer.Option("--platform", help="NAME, or NAME=PATH[:FORMAT]; several times."),
]
Out = Annotated[Path | None, typer.Option("--out", help="The study's folder; default runs/NAME.")]
Words = Annotated[str | None, typer.Option("--words", help="Word vectors.")]
Contexts = Annotated[
    list[str] | None,
    typer.Option("--context", help="ELMo or Hugging Face folder, Flair; `encoders`: several."),
]
Repeats = Annotated[
    int | None, typer.Option("--repeats", min=1, help="Seeds; default as in the paper.")
]
FirstSeed = Annotated[int, typer.Option("--first-seed", help="The first seed.")]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Trainings side by side.")]
Device = Annotated[Literal["cpu", "cuda", "auto"], typer.Option("--device", help="Where to train.")]
BuiltIn = Annotated[
    bool, typer.Option("--built-in", help="Rehearse on built-in platforms: tiny, needs no data.")
]
Rehearse = Annotated[
    bool,
    typer.Option("--rehearse", help="Rehearse on your own data: few sentences, tiny models."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with what --out holds.")]
Reuse = Annotated[
    list[Path] | None,
    typer.Option("--reuse", help="A study whose identical trainings are reused. Repeatable."),
]
Seconds = Annotated[
    float | None, typer.Option("--seconds", help="Begin no training after this many seconds.")
]
Redraw = Annotated[
    bool,
    typer.Option(
        "--redraw", help="Make tables and figures again from the rows in --out; needs no data."
    ),
]
OnlyPlan = Annotated[
    bool, typer.Option("--plan", help="Show what would run and how long it takes, and stop.")
]
List = Annotated[bool, typer.Option("--list", help="Show every study.")]


def reproduce(
    name: Name = None,
    data: Data = None,
    platform: Platforms = None,
    out: Out = None,
    words: Words = None,
    context: Contexts = None,
    repeats: Repeats = None,
    first_seed: FirstSeed = 1,
    jobs: Jobs = None,
    device: Device = "auto",
    built_in: BuiltIn = False,
    rehearse: Rehearse = False,
    resume: Resume = False,
    reuse: Reuse = None,
    seconds: Seconds = None,
    redraw: Redraw = False,
    plan: OnlyPlan = False,
    list_: List = False,
    json: AsJson = False,
) -> None:
    """Run a paper's study or a further one: rows, tables, figures and one page."""
    if list_ or name is None:
        _show_list(as_json=json)
        return
    from fedner.reproduce.catalogue import study_named
    from fedner.reproduce.opening import Options

    study = study_named(name)
    options = Options(
        Path("runs") / name if out is None else out,
        data,
        platform or (),
        words,
        context or (),
        repeats,
        first_seed,
        device,
        built_in,
        resume,
        reuse or (),
        rehearse,
    )
    if redraw:
        _redraw(study, options.out, as_json=json)
        return
    _reproduce(study, options, jobs, seconds, only_plan=plan, as_json=json)


def _reproduce(
    study: "Reproduction",
    options: "Options",
    jobs: int | None,
    seconds: float | None,
    *,
    only_plan: bool,
    as_json: bool,
) -> None:
    from fedner.reproduce.opening import command_of, default_jobs, open_study
    from fedner.reproduce.running import Run

    begun = time.monotonic()
    opened = open_study(study, options, command_of(), only_plan=only_plan)
    number = jobs or (1 if options.is_rehearsal else default_jobs(opened.inputs.device))
    run = Run(study, opened.inputs, number, seconds, begun, opened.works)
    if not as_json:
        _show_corpora(opened)
        _show_stand_ins(study, opened)
    if only_plan:
        _show_plan_only(run, as_json=as_json)
        return
    shown = _run(run, is_quiet=as_json)
    _show_result(study, opened.inputs, shown, as_json=as_json)


def _show_list(*, as_json: bool) -> None:
    from fedner.cli.output import console, show_json, table
    from fedner.reproduce.catalogue import CATALOGUE

    if as_json:
        show_json(
            [
                {"name": each.name, "source": each.source, "title": each.title}
                for each in CATALOGUE.values()
            ]
        )
        return
    rows = [(each.name, each.source, each.title) for each in CATALOGUE.values()]
    console.print(table("Studies", ("name", "whose", "what"), rows))
    console.print("fedner reproduce NAME --data DIR, or --built-in to see it run without data")


def _show_corpora(opened: "Opened") -> None:
    """Say what was read, from where, and how much of it was lost on the way."""
    from fedner.cli.output import console, show_place, table
    from fedner.reproduce.inputs import losses

    held = opened.inputs.platforms
    if not held:
        return
    for name, place in opened.sources.items():
        show_place(f"{name}:", place)
    rows = [(each.name, *(f"{number:,}" for number in losses(each).values())) for each in held]
    console.print(table("What was read", ("corpus", *losses(held[0])), rows))


def _show_stand_ins(study: "Reproduction", opened: "Opened") -> None:
    """Say which of the paper's own corpora were not found, where others stand in for them."""
    from fedner.cli.output import console

    own = study.corpora[0] if len(study.corpora) > 1 else ()
    missing = [name for name in own if name not in opened.sources]
    if missing and opened.sources:
        console.print(f"not found: {', '.join(missing)}; other corpora stand in for the paper's")


def _run(run: "Run", *, is_quiet: bool) -> "Shown":
    """Run the study; Ctrl-C stops cleanly, shows what there is and says how to go on."""
    from fedner.cli.train import INTERRUPTED
    from fedner.reproduce.output import write_output
    from fedner.reproduce.running import run_study
    from fedner.reproduce.store import all_rows, read_cells, read_study

    status = 0
    try:
        if is_quiet:
            run_study(run)
        else:
            with _Bar() as bar:
                run_study(run, bar.listener())
    except KeyboardInterrupt:
        typer.echo("stopped; the same command with --resume goes on", err=True)
        status = INTERRUPTED
    rows = all_rows(read_cells(run.inputs.out))
    shown = write_output(run.study, rows, run.inputs, read_study(run.inputs.out))
    if status:
        raise typer.Exit(status)
    return shown


def _redraw(study: "Reproduction", folder: Path, *, as_json: bool) -> None:
    """Make everything of stored rows again; nothing is trained."""
    from fedner.errors import FednerError
    from fedner.reproduce.opening import drawn_inputs
    from fedner.reproduce.output import write_output
    from fedner.reproduce.store import all_rows, read_cells, read_study

    inputs = drawn_inputs(folder)
    about = read_study(folder)
    held = about["identity"]["study"]
    if held != study.name:
        raise FednerError(f"{folder} holds {held}, not {study.name}", f"Name it: {held}.")
    shown = write_output(study, all_rows(read_cells(folder)), inputs, about)
    _show_result(study, inputs, shown, as_json=as_json)


def _show_plan_only(run: "Run", *, as_json: bool) -> None:
    from fedner.cli.output import console, show_json
    from fedner.reproduce.running import first_plan

    found = first_plan(run)
    if as_json:
        show_json(_plan_facts(found))
        return
    console.print(_plan_words(found))


def _plan_facts(plan: "Plan") -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(plan)


def _plan_words(plan: "Plan") -> str:
    todo = plan.num_cells - plan.num_stored
    basis = "by what this study has taken so far" if plan.is_measured else "by a reference machine"
    stored = f", {plan.num_stored:,} are there" if plan.num_stored else ""
    stage = f"stage {plan.stage} of {plan.num_stages}: " if plan.num_stages > 1 else ""
    later = "; later stages are not counted" if plan.stage < plan.num_stages else ""
    return (
        f"{stage}{plan.num_cells:,} runs{stored}; {todo:,} to do, {plan.jobs} side by side, "
        f"about {in_words(plan.seconds)} {basis}{later}"
    )


def in_words(seconds: float) -> str:
    """Return a length of time as people say it.

    >>> in_words(42), in_words(600), in_words(9000)
    ('42 seconds', '10 minutes', '2.5 hours')
    """
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} seconds"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} minutes"
    return f"{seconds / _HOUR:.1f} hours"


class _Bar:
    """The screen of a study: the plan, a bar, what is left."""

    def __init__(self) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )

        from fedner.cli.output import console

        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task: Any = None

    def __enter__(self) -> "_Bar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def listener(self) -> "Listener":
        """Return what the study calls."""
        from fedner.reproduce.running import Listener

        return Listener(self._plan, self._cell)

    def _plan(self, plan: "Plan") -> None:
        self._console.print(_plan_words(plan))
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(
            "runs", total=plan.num_cells, completed=plan.num_stored, left=""
        )

    def _cell(self, key: str, seconds: float, left: float | None) -> None:
        words = "" if left is None else f"{in_words(max(0.0, left))} left"
        self._bar.update(self._task, advance=1, left=words, description=key[-40:])
        if not self._console.is_terminal:
            self._console.print(f"{key}: {seconds:.1f} s; {words}")


def _widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> Sequence[int] | None:
    """Return widths at which no word of a table is broken; None where the screen is too narrow."""
    cells = [[head, *(row[at] for row in rows)] for at, head in enumerate(columns)]
    found = [max(len(word) for cell in held for word in cell.split() or [""]) for held in cells]
    spare = width - sum(found) - 3 * len(columns) - 1
    if spare < 0:
        return None
    for at, held in enumerate(cells):
        more = min(spare, max(map(len, held)) - found[at])
        found[at] += more
        spare -= more
    return found


def _show_result(study: "Reproduction", inputs: "Inputs", shown: "Shown", *, as_json: bool) -> None:
    from dataclasses import asdict

    from fedner.cli.output import console, show_json, show_place, table
    from fedner.reproduce.output import PAGE, REHEARSAL
    from fedner.reproduce.tables import short

    if as_json:
        found = {"study": study.name, "out": str(inputs.out), "rehearsal": inputs.is_rehearsal}
        read = {each.name: {**each.counts, "reading": each.reading} for each in inputs.platforms}
        show_json({**found, "corpora": read, **asdict(shown)})
        return
    for each in shown.tables:
        rows = [[short(entry, each.digits) for entry in row] for row in each.rows]
        widths = _widths(each.columns, rows, console.width)
        if widths is None:
            show_place(f"{each.title}:", inputs.out / "tables" / f"{each.name}.md")
            continue
        shown_table = table(each.title, each.columns, rows)
        for column, column_width in zip(shown_table.columns, widths, strict=True):
            column.width = column_width
        console.print(shown_table)
    for note in shown.notes:
        console.print(f"- {note}")
    if inputs.is_rehearsal:
        console.print(REHEARSAL, style="bold")
    show_place("everything on one page:", inputs.out / PAGE, " (opens offline)")
