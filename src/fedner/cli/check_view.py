"""How the check of a federation looks to people."""

from rich.text import Text

from fedner.cli.output import console, table
from fedner.cli.progress import duration
from fedner.runs.annotated_types import left_out_words
from fedner.runs.readiness import Readiness, RepeatedTexts
from fedner.runs.records import PlatformSpent
from fedner.runs.report.rows import size
from fedner.runs.work_estimate import Work

_BUSY = 0.7  # with less of a processor, times are mostly those of other programs


def show(found: Readiness, command: str) -> None:
    """Print data, types and losses, repeated texts, size, privacy, time, warnings, verdict.

    Args:
        found: What was found.
        command: What trains the federation.
    """
    _show_data(found)
    _show_changes(found)
    for each in found.repeated:
        _warn(_repeated_words(each))
    _show_size(found)
    if found.privacy:
        _show_privacy(found)
    if found.work is not None:
        _show_work(found.work)
    warnings = list(found.warnings)
    for name, facts in found.platforms.items():
        warnings += [f"{name}: {warning}" for warning in facts.warnings]
    for warning in warnings:
        _warn(warning)
    num_warnings = len(warnings) + len(found.repeated)
    verdict = Text("ready to train", style="bold green")
    if num_warnings:
        said = f", with {num_warnings:,} warning{'s' if num_warnings > 1 else ''} above"
        verdict.append(said, style="bold yellow")
    console.print(Text.assemble(verdict, ": ", command), soft_wrap=True)


def _warn(line: str) -> None:
    console.print(Text(f"warning: {line}", style="yellow"), soft_wrap=True)


def _show_data(found: Readiness) -> None:
    rows = [(name, each.train, each.test) for name, each in found.platforms.items()]
    console.print(table("Sentences by platform", ("platform", "train", "test"), rows))
    types = [
        (f"{name}: {row.type}", row.mentions, row.kept, row.flattened, row.left_out, row.skipped)
        for name, each in found.platforms.items()
        for row in each.types
    ]
    columns = ("type", "in the files", "kept", "flattened", "left out", "skipped")
    console.print(table("Mentions by type", columns, types))


def _show_changes(found: Readiness) -> None:
    for name, each in found.platforms.items():
        if words := left_out_words(each.types):
            console.print(f"{name}: left out of training and test: {words}", soft_wrap=True)
        for what, count in {**each.changes, **each.remarks}.items():
            console.print(Text(f"{name}: {count:,} {what}", style="dim"), soft_wrap=True)


def _repeated_words(each: RepeatedTexts) -> str:
    whose = "its own training part" if each.train == each.test else f"what {each.train} trains on"
    found = "1 test sentence" if each.sentences == 1 else f"{each.sentences:,} test sentences"
    return f"{each.test}: {found} ({each.share:.1%}) word for word in {whose}"


def _show_size(found: Readiness) -> None:
    traffic = found.traffic
    rows: list[tuple[str, object]] = [
        ("rounds", traffic.rounds),
        ("shared numbers", found.num_shared),
        ("private numbers, at most", max(found.num_private.values())),
        ("down in a round", size(traffic.down)),
        ("up in a round", size(traffic.up)),
        ("over each link in all", size(traffic.num_bytes)),
    ]
    console.print(table("Model and link", ("", ""), rows))


def _show_privacy(found: Readiness) -> None:
    rows = [(name, *_spent_cells(each)) for name, each in found.privacy.items()]
    columns = ("platform", "epsilon (PLD)", "(RDP)", "delta", "noise", "steps", "unit")
    console.print(table("What the whole run would spend, at most", columns, rows))


def _spent_cells(one: PlatformSpent) -> tuple[object, ...]:
    values = (one.pld, one.rdp)
    epsilons = ["none reached" if each is None else f"{each:.4g}" for each in values]
    noise = ", ".join(f"{each:.4g}" for each in one.noise_multiplier)
    return (*epsilons, f"{one.delta:g}", noise, one.steps, one.unit or "")


def _show_work(work: Work) -> None:
    rest = f"at least {duration(work.seconds_of_rest)}" if work.seconds_of_rest else "none"
    rows = [
        ("rounds", f"about {duration(work.seconds_of_rounds)}"),
        ("scoring on the way and at the end", f"about {duration(work.seconds_of_scores)}"),
        ("baselines and local fine-tuning", rest),
        ("memory of this process so far", size(work.peak_bytes)),
    ]
    if work.peak_gpu_bytes is not None:
        rows.append(("memory on the GPU so far", size(work.peak_gpu_bytes)))
    console.print(table("On this machine, by a trial round", ("", ""), rows))
    if work.processor_share < _BUSY:
        share = work.processor_share
        said = (
            f"the machine is busy: this process had a processor {100 * share:.0f} % of the time. "
        )
        said += f"On an idle machine all of it would take about {duration(work.seconds * share)}"
        console.print(said, style="yellow")
