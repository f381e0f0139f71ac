"""`fedner models`: the recipes of the zoo, their sizes and what they share by default."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fedner.cli.arguments import AsJson
from fedner.corpus.schemes import Scheme

if TYPE_CHECKING:
    from fedner.models.zoo import Recipe

# What the counts are stated for: the sizes that the papers and the shipped encoders have.
WORD_DIMENSION = 300
CONTEXT_DIMENSION = 2_048
# A trained encoder is counted as MiniLM of six layers: the smallest that is much used.
ENCODER = "MiniLM-L6-H384"
ENCODER_DIMENSION = 384
LABELS = ("ADE", "Drug")
SCHEME: Scheme = "BIO"


@dataclass(frozen=True, slots=True)
class DescribedModel:
    """A recipe as it is listed, with what its tagger trains, shares and keeps.

    Attributes:
        name: Of the recipe.
        composition: Its parts, in words.
        paper: Where it comes from.
        reading: What differs from the paper, or was read into it.
        parameters: How many numbers are trained.
        parameters_by_module: The same by module.
        split: The partition preset.
        shared_modules: The modules that are shared.
        private_modules: The modules that stay.
        shared_parameters: How many numbers are shared.
        private_parameters: How many numbers stay.
    """

    name: str
    composition: str
    paper: str
    reading: str
    parameters: int
    parameters_by_module: Mapping[str, int]
    split: str
    shared_modules: tuple[str, ...]
    private_modules: tuple[str, ...]
    shared_parameters: int
    private_parameters: int


def models(json: AsJson = False) -> None:
    """List the models: composition, paper, trained parameters, and what is shared by default."""
    from fedner.models.zoo import RECIPES

    rows = [_described(recipe) for recipe in RECIPES.values()]
    if json:
        from fedner.cli.output import show_json

        show_json({"counted_for": _counted_for(), "models": rows})
        return
    _show(rows)


def _counted_for() -> dict[str, object]:
    return {
        "word_dimension": WORD_DIMENSION,
        "words": "frozen",
        "context_dimension": CONTEXT_DIMENSION,
        "trained_encoder": ENCODER,
        "labels": list(LABELS),
        "scheme": SCHEME,
    }


def _described(recipe: "Recipe") -> DescribedModel:
    from fedner.models.embeddings.words import HashedWords, WordEmbedding
    from fedner.models.features import TagSpace
    from fedner.models.partition import partition
    from fedner.models.zoo import build_tagger, parameter_counts

    # A frozen table has no parameter, so one row of it will do.
    words = WordEmbedding(HashedWords(1, WORD_DIMENSION))
    dimension = CONTEXT_DIMENSION if recipe.context else 0
    built = recipe
    if recipe.trains_encoder:
        # The head alone is built: an encoder is a folder that not everybody has.
        built, dimension = replace(recipe, trains_encoder=False), ENCODER_DIMENSION
    tagger = build_tagger(built, words, TagSpace.of(LABELS, SCHEME), dimension)
    sizes = {name: weight.numel() for name, weight in tagger.named_parameters()}
    counts = parameter_counts(tagger)
    if recipe.trains_encoder:
        counts = {"embeddings.context": encoder_numbers(), **counts}
        sizes["embeddings.context.model"] = counts["embeddings.context"]
    split = partition(sizes, recipe.split)
    return DescribedModel(
        name=recipe.name,
        composition=recipe.composition,
        paper=recipe.paper,
        reading=recipe.reading,
        parameters=sum(sizes.values()),
        parameters_by_module=counts,
        split=recipe.split,
        shared_modules=_modules(split.shared),
        private_modules=_modules(split.private),
        shared_parameters=sum(sizes[name] for name in split.shared),
        private_parameters=sum(sizes[name] for name in split.private),
    )


def encoder_numbers(
    pieces: int = 30_522, positions: int = 512, hidden: int = ENCODER_DIMENSION, layers: int = 6
) -> int:
    """Return how many numbers a BERT encoder trains: tables and norm, attention, feed-forward."""
    tables = (pieces + positions + 2) * hidden + 2 * hidden
    attention = 4 * (hidden * hidden + hidden) + 2 * hidden
    forward = 2 * 4 * hidden * hidden + 4 * hidden + hidden + 2 * hidden
    return tables + layers * (attention + forward)


def _modules(names: Iterable[str]) -> tuple[str, ...]:
    modules = [name.split(".") for name in names]
    found = {".".join(m[:2]) if m[0] == "embeddings" else m[0] for m in modules}
    return tuple(sorted(found))


def _show(rows: Sequence[DescribedModel]) -> None:
    from rich.text import Text

    from fedner.cli.output import console, table

    console.print(
        table(
            "Models",
            ("model", "trained", "shared", "private", "split"),
            [
                (
                    f"{row.name}\n  {row.composition}",
                    row.parameters,
                    row.shared_parameters,
                    row.private_parameters,
                    row.split,
                )
                for row in rows
            ],
        )
    )
    console.print(
        f"Parameters for frozen word vectors of {WORD_DIMENSION} numbers, {CONTEXT_DIMENSION:,} "
        f"context features (ELMoNER), {ENCODER} as trained encoder, and the labels "
        f"{', '.join(LABELS)} in {SCHEME}.",
        style="dim",
    )
    for row in rows:
        described = f": {row.paper}. {row.reading}"
        console.print(Text.assemble((row.name, "bold"), described))
