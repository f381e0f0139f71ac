"""`fedner data`: look at corpora, convert, split and divide them."""

from pathlib import Path
from typing import Annotated

import typer

from fedner.cli import label_maps
from fedner.cli.inputs import CliSentences, CliUnit, TargetFormat
from fedner.cli.label_maps import LabelMap
from fedner.corpus.flatten import FlattenPolicy
from fedner.corpus.platforms import Division

app = typer.Typer(
    help="Look at corpora, convert, split and divide them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

_INPUT = "A file, a folder, an archive (.zip, .tar.*) or a path within one: a.zip!/notes."

FormatOption = Annotated[
    str,
    typer.Option("--format", help="The format of the input; auto says what it recognised and why."),
]
LenientOption = Annotated[
    bool,
    typer.Option(
        "--lenient",
        help="Where offset and quote differ the offset wins; what cannot be placed is skipped.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
SchemeOption = Annotated[
    str | None,
    typer.Option("--scheme", help="The tag scheme of a column file; detected by default."),
]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        "--columns",
        help="Token and tag column of a column file, from 0, e.g. 0,3; negative from the right.",
    ),
]
SentencesOption = Annotated[
    CliSentences | None,
    typer.Option(
        "--sentences",
        help="Sentences as given, one a line, or split by rule; by default as the format has it.",
    ),
]
FlattenOption = Annotated[
    FlattenPolicy,
    typer.Option(
        "--flatten",
        metavar="POLICY",
        help="How mentions are made flat: longest (longest first, discontinuous ones as their "
        "hull), first-fragment, or contiguous (those ones only).",
    ),
]
ByOption = Annotated[
    CliUnit,
    typer.Option(
        "--by", metavar="UNIT", help="What stays together: sentence, document or patient."
    ),
]
EncodingOption = Annotated[
    str | None,
    typer.Option("--encoding", help="The encoding of text files, e.g. latin-1; UTF-8 by default."),
]
PatientsOption = Annotated[
    Path | None,
    typer.Option("--patients", help="A table (.csv, .tsv) with the columns document,patient."),
]
PatientColumnOption = Annotated[
    str | None,
    typer.Option(
        "--patient-column",
        help="The column, key or infon that holds the patient; a number in token columns.",
    ),
]
PatientPatternOption = Annotated[
    str | None,
    typer.Option(
        "--patient-pattern",
        help="The patient in the file's name: a regular expression with (?P<patient>...).",
    ),
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that are already there.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="The seed of every random choice.")]


@app.command("inspect")
def inspect(
    path: Annotated[Path, typer.Argument(metavar="PATH", help=_INPUT)],
    format: FormatOption = "auto",
    lenient: LenientOption = False,
    scheme: SchemeOption = None,
    columns: ColumnsOption = None,
    sentences: SentencesOption = None,
    flatten: FlattenOption = "longest",
    encoding: EncodingOption = None,
    patients: PatientsOption = None,
    patient_column: PatientColumnOption = None,
    patient_pattern: PatientPatternOption = None,
    examples: Annotated[
        int, typer.Option("--examples", help="How many example sentences to show.")
    ] = 3,
    json: JsonOption = False,
) -> None:
    """Show what is in PATH, what is wrong with it, and what training would see. Always finishes."""
    from fedner.cli import inputs, inspection_view
    from fedner.cli.output import show_json
    from fedner.corpus import inspection

    options = inputs.options(
        scheme,
        columns,
        encoding=encoding,
        patients=patients,
        patient_column=patient_column,
        patient_pattern=patient_pattern,
    )
    policy = inputs.sentence_policy(sentences)
    if format == "auto" and (
        several := inspection.inspect_all(path, options=options, sentences=policy, flatten=flatten)
    ):
        inspection_view.show_several(path, several, as_json=json)
        return
    found = inspection.inspect(
        path, format, options=options, sentences=policy, flatten=flatten, num_examples=examples
    )
    if json:
        show_json({"path": str(path), **found.as_dict()})
    else:
        inspection_view.show(path, found, lenient=lenient)


@app.command("convert")
def convert(
    source: Annotated[Path, typer.Argument(metavar="IN", help=_INPUT)],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="The file (for brat: folder) to write; .gz, .xz compress."
        ),
    ],
    to: Annotated[
        TargetFormat,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="The format to write: jsonl, columns, brat, bioc or bioc-json.",
        ),
    ],
    format: FormatOption = "auto",
    lenient: LenientOption = False,
    scheme: SchemeOption = None,
    columns: ColumnsOption = None,
    sentences: SentencesOption = None,
    flatten: FlattenOption = "longest",
    encoding: EncodingOption = None,
    patients: PatientsOption = None,
    patient_column: PatientColumnOption = None,
    patient_pattern: PatientPatternOption = None,
    label_map: LabelMap = None,
    to_scheme: Annotated[str, typer.Option("--to-scheme", help="The tag scheme to write.")] = "BIO",
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Read IN strictly (or leniently) and write it in another format; losses are counted."""
    from fedner.cli import conversion, inputs
    from fedner.cli.output import show_json

    result = conversion.convert(
        inputs.load(
            source,
            format,
            lenient=lenient,
            options=inputs.options(
                scheme,
                columns,
                encoding=encoding,
                patients=patients,
                patient_column=patient_column,
                patient_pattern=patient_pattern,
            ),
        ),
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
def split(
    source: Annotated[Path, typer.Argument(metavar="PATH", help=_INPUT)],
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="The folder for train.jsonl and test.jsonl.")
    ],
    by: ByOption = "sentence",
    test: Annotated[float, typer.Option("--test", help="The share of the test part.")] = 0.2,
    folds: Annotated[int, typer.Option("--folds", help="k folds instead of one split.")] = 0,
    seed: SeedOption = 1,
    format: FormatOption = "auto",
    lenient: LenientOption = False,
    scheme: SchemeOption = None,
    columns: ColumnsOption = None,
    sentences: SentencesOption = None,
    flatten: FlattenOption = "longest",
    encoding: EncodingOption = None,
    patients: PatientsOption = None,
    patient_column: PatientColumnOption = None,
    patient_pattern: PatientPatternOption = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Split a corpus into training and test parts and report texts that occur in both."""
    from fedner.cli import inputs, splitting
    from fedner.cli.output import show_json

    result = splitting.split(
        inputs.load(
            source,
            format,
            lenient=lenient,
            options=inputs.options(
                scheme,
                columns,
                encoding=encoding,
                patients=patients,
                patient_column=patient_column,
                patient_pattern=patient_pattern,
            ),
        ),
        out,
        by=by,
        test=test,
        folds=folds,
        seed=seed,
        sentences=sentences,
        flatten=flatten,
        overwrite=overwrite,
    )
    show_json(result) if json else splitting.show(result)


@app.command("platforms")
def platforms(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="PATH", help="A corpus to divide; without it, the built-in platforms."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder for one JSONL file a platform.")
    ] = None,
    into: Annotated[
        int | None,
        typer.Option("--into", help="How many platforms to divide PATH among; 3 by default."),
    ] = None,
    how: Annotated[
        Division,
        typer.Option(
            "--how",
            metavar="HOW",
            help="How PATH is divided: equal, size-skew, label-skew or by source.",
        ),
    ] = "equal",
    alpha: Annotated[
        float, typer.Option("--alpha", help="The Dirichlet skew: smaller is more.")
    ] = 0.5,
    by: ByOption = "sentence",
    num_sentences: Annotated[
        int, typer.Option("--num-sentences", help="The size of each built-in platform.")
    ] = 500,
    seed: SeedOption = 1,
    format: FormatOption = "auto",
    lenient: LenientOption = False,
    scheme: SchemeOption = None,
    columns: ColumnsOption = None,
    encoding: EncodingOption = None,
    patients: PatientsOption = None,
    patient_column: PatientColumnOption = None,
    patient_pattern: PatientPatternOption = None,
    overwrite: OverwriteOption = False,
    json: JsonOption = False,
) -> None:
    """Show (and write) the built-in synthetic platforms, or divide one corpus among platforms."""
    from fedner.cli import platforms_view
    from fedner.cli.output import show_json

    if source is None:
        platforms_view.refuse_division(into, how)
        result = platforms_view.built_in(num_sentences, seed, out, overwrite=overwrite)
    else:
        from fedner.cli import inputs

        result = platforms_view.divided(
            inputs.load(
                source,
                format,
                lenient=lenient,
                options=inputs.options(
                    scheme,
                    columns,
                    encoding=encoding,
                    patients=patients,
                    patient_column=patient_column,
                    patient_pattern=patient_pattern,
                ),
            ),
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
def overlap(
    sources: Annotated[list[Path], typer.Argument(metavar="A B ...", help="Two or more corpora.")],
    with_label: Annotated[
        bool, typer.Option("--with-label", help="Count a string only where its label agrees too.")
    ] = False,
    format: FormatOption = "auto",
    lenient: LenientOption = False,
    json: JsonOption = False,
) -> None:
    """Count the entity strings that corpora have in common. Simulation only: it compares texts."""
    from fedner.cli import overlap_view
    from fedner.cli.output import show_json

    found = overlap_view.overlap(sources, format, lenient=lenient, with_label=with_label)
    show_json(found) if json else overlap_view.show(found)
