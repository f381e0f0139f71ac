"""`fedner demo`: the main job on built-in data, with nothing to set up."""

from pathlib import Path
from typing import Annotated

import typer

from fedner.cli.arguments import AsJson


def demo(
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="RUN", help="The run folder; default: a new one."),
    ] = None,
    num_sentences: Annotated[
        int, typer.Option("--num-sentences", help="The size of each built-in platform.")
    ] = 500,
    epochs: Annotated[
        int | None, typer.Option("--epochs", help="Passes over the data, for a shorter look.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The seed of every random choice.")] = 1,
    workers: Annotated[int, typer.Option("--workers", help="Processes to compute with.")] = 2,
    json: AsJson = False,
) -> None:
    """Train three synthetic platforms local-only, federated and centralized: did joining help?"""
    from importlib.resources import files

    from fedner.cli.output import console, show_json
    from fedner.cli.results_view import SYNTHETIC_NOTE
    from fedner.cli.train import show_finished, train_shown, verdicts
    from fedner.runs.checks import read_settings
    from fedner.runs.folder import DISCLOSURE, RunFolder

    path = Path(str(files("fedner.runs").joinpath("demo.toml")))
    changes = [f"seed={seed}", f"engine.workers={workers}"]
    changes += [f"platforms.{number}.num_sentences={num_sentences}" for number in range(3)]
    if epochs is not None:
        changes += [f"training.epochs={epochs}", f"training.baseline_epochs={epochs}"]
    settings = read_settings(path, tuple(changes))
    folder = _free(Path("runs") / "demo") if out is None else out
    if not json:
        console.print(SYNTHETIC_NOTE, style="bold", end=" ")
        console.print("Three platforms that cannot share their texts:")
        for platform in settings.platforms:
            console.print(f"  {platform.name}: {_described(platform.name)}", soft_wrap=True)
    scores = train_shown(settings, folder, is_quiet=json)
    if json:
        found = RunFolder(folder).read(DISCLOSURE)
        summary = {"run": str(folder), "synthetic": True, **verdicts(folder, scores)}
        show_json({**summary, "scores": scores.as_dict(), "disclosure": found})
        return
    show_finished(folder, scores)


def _described(name: str) -> str:
    from fedner.corpus.synthetic import PLATFORMS

    platform = PLATFORMS[name]
    return f"{platform.description}; annotates {', '.join(platform.labels)}"


def _free(path: Path) -> Path:
    """Return the first of demo, demo-2, demo-3 ... that is not there yet."""
    number = 1
    candidate = path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate
