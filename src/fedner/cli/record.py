"""`fedner platform record`: show and verify what a platform ever sent."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fedner.runs.disclosure_record import ReadRecord, RecordLine
    from fedner.runs.disclosure_summary import RunDisclosure

_SHORT = 12  # characters of a digest that people compare


def record(
    home: Annotated[Path, typer.Option("--home", metavar="FOLDER", help="The platform's folder.")],
    run: Annotated[
        str | None, typer.Option("--run", metavar="RUN", help="Show every line of one run.")
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option("--expect", metavar="DIGEST", help="A digest that you noted elsewhere."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Verify the disclosure record, and show what this platform ever sent, and to whom."""
    from fedner.runs.disclosure_record import RECORD

    show_record(home / RECORD, run=run, expect=expect, as_json=json)


def show_record(
    path: Path, *, run: str | None = None, expect: str | None = None, as_json: bool = False
) -> None:
    """Verify a disclosure record and print what it tells.

    Args:
        path: The file of the record.
        run: The run whose lines are shown; None sums up each run.
        expect: A digest that must be that of one of its lines.
        as_json: Whether to print JSON.

    Raises:
        FednerError: There is no record, it was tampered with, or has no such run or digest.
    """
    from fedner.runs.disclosure_record import read_record
    from fedner.runs.disclosure_summary import require_digest

    found = read_record(path)
    _require_lines(found, path, run)
    seen = None if expect is None else require_digest(found, expect)
    if as_json:
        _show_json(found, run)
    elif run is None:
        _show_runs(found)
    else:
        _show_lines([line for line in found.lines if line.run == run])
    if not as_json:
        _show_verdict(found, seen)


def _require_lines(found: "ReadRecord", path: Path, run: str | None) -> None:
    from fedner.errors import FednerError
    from fedner.settings import nearest

    if not found.lines:
        raise FednerError(
            f"there is no disclosure record at {path}",
            "No server has ever asked this platform for anything.",
        )
    runs = sorted({line.run for line in found.lines})
    if run is not None and run not in runs:
        raise FednerError(f"the record has no run {run!r}", nearest(run, runs))


def _show_json(found: "ReadRecord", run: str | None) -> None:
    from fedner.cli.output import show_json
    from fedner.runs.disclosure_summary import summarise

    runs = [each for each in summarise(found) if run in (None, each.run)]
    lines = [line for line in found.lines if run in (None, line.run)]
    facts = {"verified": True, "num_lines": len(found.lines), "digest": found.digest}
    show_json({**facts, "runs": runs, "lines": lines})


def _show_runs(found: "ReadRecord") -> None:
    """Print a few lines for each run: a table of so many columns fits no terminal."""
    from fedner.cli.output import console, show_place
    from fedner.runs.disclosure_summary import summarise

    for each in summarise(found):
        show_place("run", each.run or "none: requests that belong to no job")
        for line in _summary_lines(each):
            console.print(f"  {line}", soft_wrap=True)
    print()


def _summary_lines(run: "RunDisclosure") -> Iterator[str]:
    """Yield what left for a run, in words."""
    from fedner.federated.failure_codes import FAILURES

    by = ", ".join(run.asked_by)
    yield f"{run.first[:16].replace('T', ' ')} to {run.last[:16].replace('T', ' ')}, asked by {by}"
    if run.study:
        yield f"study {run.study}"
    again = f" ({run.resent:,} of them again)" if run.resent else ""
    again += f" ({run.masked:,} of them masked or encrypted)" if run.masked else ""
    yield (
        f"sent: {run.updates:,} updates{again}, {run.score_reports:,} score reports, "
        f"{run.num_bytes:,} bytes in all"
    )
    if run.epsilon is not None:
        yield f"mechanism {run.mechanism}, epsilon {run.epsilon:.4g} at delta {run.delta:g}"
    elif run.updates and run.mechanism == "none":
        yield "no differential privacy: nothing bounds what the updates reveal"
    for codes, count in run.refused.items():
        words = "; ".join(FAILURES.get(code, code) for code in codes.split(", "))
        yield f"refused: {count:,} x {codes} ({words})"


def _show_lines(lines: "Sequence[RecordLine]") -> None:
    from fedner.cli.output import console, table

    rows = [
        (
            line.time[:19],
            line.asked_by,
            f"{line.verb or line.entry}{f', phase {line.phase}' if line.phase else ''}",
            line.round,
            line.code or line.kind,
            len(line.tensors),
            _norm(line),
            line.num_bytes,
            line.message_digest[:_SHORT],
            line.mechanism,
            _epsilon(line.epsilon),
        )
        for line in lines
    ]
    columns = (
        "time",
        "asked by",
        "order",
        "round",
        "reply",
        "tensors",
        "norm",
        "bytes",
        "digest",
        "mechanism",
        "epsilon",
    )
    console.print(table(f"Run {lines[0].run}", columns, rows))
    shapes = {each["name"]: each["shape"] for line in lines for each in line.tensors}
    if shapes:
        named = [(name, " x ".join(map(str, shape)) or "1") for name, shape in shapes.items()]
        console.print(table("Tensors that were sent", ("name", "shape"), named))


def _norm(line: "RecordLine") -> str:
    """Return the norm of all tensors of a reply together."""
    squares = sum(tensor["norm"] ** 2 for tensor in line.tensors)
    return f"{squares**0.5:.4g}" if line.tensors else "-"


def _epsilon(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _show_verdict(found: "ReadRecord", seen: int | None) -> None:
    from fedner.cli.output import show_place

    count = len(found.lines)
    print(
        f"verified: {count:,} {'line' if count == 1 else 'lines'}, none changed, missing or moved"
    )
    if seen is not None:
        print(f"the digest that you noted is that of line {seen:,}")
    show_place("digest of the last line, to note elsewhere:", found.digest)
