"""Arguments and options of `fedner data`, each declared once."""

from pathlib import Path
from typing import Annotated

import typer

from fedner.cli.inputs import CliSentences, CliUnit, TargetFormat
from fedner.corpus.flatten import FlattenPolicy
from fedner.corpus.platforms import Division

_INPUT = "A file, a folder, an archive (.zip, .tar.*) or a path within one: a.zip!/notes."

InputPath = Annotated[Path, typer.Argument(metavar="PATH", help=_INPUT)]
SourcePath = Annotated[Path, typer.Argument(metavar="IN", help=_INPUT)]
TargetPath = Annotated[
    Path,
    typer.Argument(metavar="OUT", help="The file (for brat: folder) to write; .gz, .xz compress."),
]
SplitFolder = Annotated[
    Path, typer.Argument(metavar="OUT", help="The folder for train.jsonl and test.jsonl.")
]
DividedPath = Annotated[
    Path | None,
    typer.Argument(metavar="PATH", help="A corpus to divide; without it, the built-in platforms."),
]
SeveralPaths = Annotated[list[Path], typer.Argument(metavar="A B ...", help="Two or more corpora.")]
FormatName = Annotated[
    str | None, typer.Argument(metavar="FORMAT", help="Only this one; all by default.")
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
        help="How mentions are flattened: longest (longest first, discontinuous ones as their "
        "hull), first-fragment, or contiguous (only contiguous mentions).",
    ),
]
ExamplesOption = Annotated[
    int, typer.Option("--examples", help="How many example sentences to show.")
]
ToOption = Annotated[
    TargetFormat,
    typer.Option(
        "--to",
        metavar="FORMAT",
        help="The format to write: jsonl, columns, brat, bioc, bioc-json; label-studio, doccano or "
        "xmi for annotation tools.",
    ),
]
ToSchemeOption = Annotated[str, typer.Option("--to-scheme", help="The tag scheme to write.")]
ByOption = Annotated[
    CliUnit,
    typer.Option(
        "--by", metavar="UNIT", help="What stays together: sentence, document or patient."
    ),
]
TestOption = Annotated[float, typer.Option("--test", help="The share of the test part.")]
FoldsOption = Annotated[int, typer.Option("--folds", help="k folds instead of one split.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="The folder for one JSONL file per platform.")
]
IntoOption = Annotated[
    int | None,
    typer.Option("--into", help="How many platforms to divide PATH among; 3 by default."),
]
HowOption = Annotated[
    Division,
    typer.Option(
        "--how",
        metavar="HOW",
        help="How PATH is divided: equal, size-skew, label-skew or by source.",
    ),
]
AlphaOption = Annotated[
    float, typer.Option("--alpha", help="The Dirichlet alpha: smaller is more skewed.")
]
SizeOption = Annotated[
    int, typer.Option("--num-sentences", help="The size of each built-in platform.")
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace files that are already there.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="The seed of every random choice.")]
WithLabelOption = Annotated[
    bool, typer.Option("--with-label", help="Count a string only if its label agrees too.")
]
