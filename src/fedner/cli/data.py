"""`fedner data`: look at corpora, convert, split and divide them."""

import typer

from fedner.cli import data_arguments as given
from fedner.cli import label_maps
from fedner.cli.arguments import AsJson
from fedner.cli.label_maps import LabelMap
from fedner.cli.reading import Reading, takes_reading

app = typer.Typer(
    help="Look at corpora, convert, split and divide them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command("inspect")
@takes_reading()
def inspect(
    path: given.InputPath,
    reading: Reading,
    sentences: given.SentencesOption = None,
    flatten: given.FlattenOption = "longest",
    examples: given.ExamplesOption = 3,
    json: AsJson = False,
) -> None:
    """Show what is in PATH, what is wrong with it, and what training would see. Always finishes."""
    from fedner.cli import inputs, inspection_view
    from fedner.corpus import inspection

    options, policy = reading.options, inputs.sentence_policy(sentences)
    if reading.format == "auto" and (
        several := inspection.inspect_all(path, options=options, sentences=policy, flatten=flatten)
    ):
        inspection_view.show_several(path, several, as_json=json)
        return
    found = inspection.inspect(
        path,
        reading.format,
        options=options,
        sentences=policy,
        flatten=flatten,
        num_examples=examples,
    )
    inspection_view.show(path, found, lenient=reading.lenient, as_json=json)


@app.command("convert")
@takes_reading()
def convert(
    source: given.SourcePath,
    target: given.TargetPath,
    to: given.ToOption,
    reading: Reading,
    sentences: given.SentencesOption = None,
    flatten: given.FlattenOption = "longest",
    label_map: LabelMap = None,
    to_scheme: given.ToSchemeOption = "BIO",
    overwrite: given.OverwriteOption = False,
    json: AsJson = False,
) -> None:
    """Read IN strictly (or leniently) and write it in another format; losses are counted."""
    from fedner.cli import conversion
    from fedner.cli.output import show_json

    result = conversion.convert(
        reading.load(source),
        target,
        to,
        label_map=label_maps.parse(label_map),
        scheme=to_scheme,
        sentences=sentences,
        flatten=flatten,
        overwrite=overwrite,
    )
    show_json(result) if json else conversion.show(result)


@app.command("split")
@takes_reading()
def split(
    source: given.InputPath,
    out: given.SplitFolder,
    reading: Reading,
    by: given.ByOption = "sentence",
    test: given.TestOption = 0.2,
    folds: given.FoldsOption = 0,
    seed: given.SeedOption = 1,
    sentences: given.SentencesOption = None,
    flatten: given.FlattenOption = "longest",
    overwrite: given.OverwriteOption = False,
    json: AsJson = False,
) -> None:
    """Split a corpus into training and test parts and report texts that occur in both."""
    from fedner.cli import splitting
    from fedner.cli.output import show_json

    result = splitting.split(
        reading.load(source),
        out,
        splitting.Asked(by, test, folds, seed),
        sentences=sentences,
        flatten=flatten,
        overwrite=overwrite,
    )
    show_json(result) if json else splitting.show(result)


@app.command("platforms")
@takes_reading()
def platforms(
    reading: Reading,
    source: given.DividedPath = None,
    out: given.OutOption = None,
    into: given.IntoOption = None,
    how: given.HowOption = "equal",
    alpha: given.AlphaOption = 0.5,
    by: given.ByOption = "sentence",
    num_sentences: given.SizeOption = 500,
    seed: given.SeedOption = 1,
    overwrite: given.OverwriteOption = False,
    json: AsJson = False,
) -> None:
    """Show (and write) the built-in synthetic platforms, or divide one corpus among platforms."""
    from fedner.cli import platforms_view
    from fedner.cli.output import show_json

    if source is None:
        platforms_view.refuse_division(into, how)
        result = platforms_view.built_in(num_sentences, seed, out, overwrite=overwrite)
    else:
        result = platforms_view.divided(
            reading.load(source),
            into=into,
            how=how,
            alpha=alpha,
            by=by,
            seed=seed,
            out=out,
            overwrite=overwrite,
        )
    show_json(result) if json else platforms_view.show(result)


@app.command("overlap")
@takes_reading(patients=False)
def overlap(
    sources: given.SeveralPaths,
    reading: Reading,
    with_label: given.WithLabelOption = False,
    json: AsJson = False,
) -> None:
    """Count the entity strings that corpora have in common. Simulation only: it compares texts."""
    from fedner.cli import overlap_view
    from fedner.cli.output import show_json

    found = overlap_view.overlap(sources, reading, with_label=with_label)
    show_json(found) if json else overlap_view.show(found)


@app.command("formats")
def formats(name: given.FormatName = None, json: AsJson = False) -> None:
    """List the formats that fedner reads, and the options of each (--option NAME=VALUE)."""
    from fedner.cli import formats_view
    from fedner.cli.output import show_json

    found = formats_view.formats(name)
    show_json(found) if json else formats_view.show(found)
