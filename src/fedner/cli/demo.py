"""`fedner demo`: the main job on built-in data, with nothing to set up."""

from typing import Annotated

import typer


def demo(
    num_sentences: Annotated[
        int, typer.Option("--num-sentences", help="The size of each built-in platform.")
    ] = 500,
    seed: Annotated[int, typer.Option("--seed", help="The seed of every random choice.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Show the three built-in synthetic platforms and what is in them."""
    from fedner.cli import platforms_view
    from fedner.cli.output import show_json

    result = platforms_view.built_in(num_sentences, seed, None)
    show_json(result) if json else platforms_view.show(result)
