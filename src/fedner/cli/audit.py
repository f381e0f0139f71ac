"""`fedner privacy audit`: attacks on a platform's own data, before it sends anything."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedner.cli.arguments import AsJson

if TYPE_CHECKING:
    from fedner.runs.auditing import AuditPlaces, Say
    from fedner.runs.records.audit import AuditRecord

BROKEN = 1
SAID = (
    "No result says that a defence is safe: other attacks may do better. Planted leak: the "
    "share that the attack found; below a half it is inconclusive."
)


def audit(
    path: Annotated[
        Path, typer.Argument(metavar="RUN|STUDY", help="The folder of a run, or a study.toml.")
    ],
    own: Annotated[
        Path | None,
        typer.Argument(metavar="[PLATFORM]", help="With a study: the platform's platform.toml."),
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option("--platform", help="Of a run: the platform to attack; default: the smallest."),
    ] = None,
    noise_multiplier: Annotated[
        float | None,
        typer.Option("--noise-multiplier", help="For the DP columns, if the study has no noise."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The seed of all random choices.")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Default: the platform's folder of the run, or audit/."
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Attack one platform's updates and models under every defence, and say what was found.

    Run it on your own data before you join; it sends nothing. An attack that does not find
    a leak which it planted itself is inconclusive; no result says that anything is safe. Exits
    with 1 if an attack found more than a defence allows.
    """
    from fedner.cli.output import console

    say: Say = (lambda _: None) if json else (lambda line: console.print(line, style="dim"))
    record, places = _audited(path, own, platform, noise_multiplier, seed, out, say)
    if json:
        from fedner.cli.output import show_json

        show_json({**record.as_dict(), "written": [str(places.record), str(places.picture)]})
    else:
        _show(record, places)
    if record.broken:
        raise typer.Exit(BROKEN)


def _audited(
    path: Path,
    own: Path | None,
    platform: str | None,
    noise_multiplier: float | None,
    seed: int,
    out: Path | None,
    say: "Say",
) -> "tuple[AuditRecord, AuditPlaces]":
    """Open the platform, attack it, and write what was found."""
    from fedner.errors import FednerError
    from fedner.runs.auditing import (
        audit_site,
        is_run,
        keep_in_run,
        run_site,
        study_site,
        write_audit,
    )
    from fedner.runs.folder import RunFolder

    if is_run(path):
        if own is not None:
            raise FednerError(
                f"{path} is a run, but {own} was given too",
                "For a run, name the platform with --platform NAME.",
            )
        site = run_site(RunFolder(path), platform, say)
    elif own is None or platform is not None:
        raise FednerError(
            f"{path} is not a run; an audit of a study needs the platform's own settings",
            "Write `fedner privacy audit study.toml platform.toml`.",
        )
    else:
        site = study_site(path, own, own.parent / "audit", say)
    record = audit_site(site, seed, noise_multiplier=noise_multiplier, say=say)
    if out is None and is_run(path):
        return record, keep_in_run(record, RunFolder(path))
    return record, write_audit(record, site.folder.path if out is None else out)


def _show(record: "AuditRecord", places: "AuditPlaces") -> None:
    from rich.padding import Padding

    from fedner.cli.output import console, show_place
    from fedner.runs.report.audit_words import ENCRYPTED, by_verdict, power, terms

    console.print(f"{record.platform}: attacks against each defence", style="bold")
    for attack in record.attacks:
        row = list(record.row(attack))
        console.print(f"{attack}: {row[0].measure} (planted leak: {power(row)} found)")
        for verdict, defences in by_verdict(row).items():
            console.print(Padding(f"{verdict}: {defences}", (0, 0, 0, 4)))
    console.print(f"{terms(record)} {ENCRYPTED}", style="dim")
    console.print(SAID, style="dim")
    for each in record.broken:
        console.print(f"broken: {each.attack} under {each.defence}: {each.note}", style="bold red")
    show_place("every number:", places.record)
    show_place("picture:", places.picture)
