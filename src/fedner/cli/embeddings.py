"""`fedner embeddings`: what word vectors are, and what they cover of a platform's words."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedner.cli.arguments import AsJson
from fedner.cli.data_arguments import FlattenOption, SentencesOption
from fedner.cli.reading import Reading, takes_reading

app = typer.Typer(
    help="Look at word vectors and what they cover.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def group() -> None:
    """Look at word vectors and what they cover."""


@app.command("inspect")
@takes_reading(patients=False)
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
    reading: Reading,
    top: Annotated[int, typer.Option("--top", help="How many unknown words to show.")] = 20,
    lowercase: Annotated[
        Literal["never", "fallback", "always"],
        typer.Option("--lowercase", help="How the tagger looks words up (embeddings.lowercase)."),
    ] = "fallback",
    sentences: SentencesOption = None,
    flatten: FlattenOption = "longest",
    json: AsJson = False,
) -> None:
    """Show what FILE is and what it covers of CORPUS. Local: words appear only on this screen."""
    from fedner.cli import embeddings_view
    from fedner.models.embeddings.coverage import coverage
    from fedner.models.embeddings.vectors_file import open_vectors
    from fedner.models.embeddings.vectors_source import recognise_vectors

    form = recognise_vectors(vectors)
    loaded = reading.load(corpus)
    store = open_vectors(vectors)
    prepared = loaded.prepared(sentences, flatten)
    found = coverage(store, prepared.sentences, lowercase=lowercase, top=top)
    if json:
        from fedner.cli.output import show_json

        show_json(embeddings_view.as_json(vectors, form, store.facts, corpus, loaded.format, found))
        return
    embeddings_view.show(vectors, form, store.facts, corpus, found)
