"""`fedner embeddings`: what word vectors are, and what they cover of a platform's words."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedner.cli.data import (
    ColumnsOption,
    FlattenOption,
    FormatOption,
    JsonOption,
    LenientOption,
    SchemeOption,
    SentencesOption,
)

app = typer.Typer(
    help="Look at word vectors and what they cover.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def group() -> None:
    """Look at word vectors and what they cover."""


@app.command("inspect")
def inspect(
    vectors: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Word vectors: text (GloVe, word2vec, fastText .vec), word2vec binary, a folder "
            "with vectors.npy and words.tsv, or a converted store.",
        ),
    ],
    corpus: Annotated[
        Path, typer.Option("--corpus", metavar="CORPUS", help="A corpus in any format.")
    ],
    format: FormatOption = "auto",
    top: Annotated[int, typer.Option("--top", help="How many unknown words to show.")] = 20,
    lowercase: Annotated[
        Literal["never", "fallback", "always"],
        typer.Option("--lowercase", help="How the tagger looks words up (embeddings.lowercase)."),
    ] = "fallback",
    lenient: LenientOption = False,
    scheme: SchemeOption = None,
    columns: ColumnsOption = None,
    sentences: SentencesOption = None,
    flatten: FlattenOption = "longest",
    json: JsonOption = False,
) -> None:
    """Show what FILE is and what it covers of CORPUS. Local: words go to this screen alone."""
    from fedner.cli import embeddings_view, inputs
    from fedner.models.embeddings.coverage import coverage
    from fedner.models.embeddings.vectors_file import open_vectors
    from fedner.models.embeddings.vectors_source import recognise_vectors

    form = recognise_vectors(vectors)
    loaded = inputs.load(corpus, format, lenient=lenient, options=inputs.options(scheme, columns))
    store = open_vectors(vectors)
    prepared = loaded.prepared(sentences, flatten)
    found = coverage(store, prepared.sentences, lowercase=lowercase, top=top)
    if json:
        from fedner.cli.output import show_json

        show_json(embeddings_view.as_json(vectors, form, store.facts, corpus, loaded.format, found))
        return
    embeddings_view.show(vectors, form, store.facts, corpus, found)
