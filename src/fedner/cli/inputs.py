"""What several commands take: corpora and how they are read, in the words of the command line."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fedner.corpus.flatten import FlattenPolicy
from fedner.corpus.prepare import SentenceChoice
from fedner.corpus.read_options import ReadOptions
from fedner.corpus.segment import SentencePolicy
from fedner.errors import FednerError

if TYPE_CHECKING:
    from fedner.corpus.document import Corpus
    from fedner.corpus.prepare import Prepared

CliSentences = Literal["given", "line", "rule"]
CliUnit = Literal["sentence", "document", "patient"]
TargetFormat = Literal[
    "jsonl", "columns", "brat", "bioc", "bioc-json", "label-studio", "doccano", "xmi"
]

_SENTENCES: dict[str, SentencePolicy] = {"given": "as given", "line": "line", "rule": "rule"}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A corpus that a command read, and what was said on the way.

    Attributes:
        corpus: The documents.
        format: The format that it was read as.
        sentences: The sentence policy of that format.
        remarks: Harmless things worth saying, and what lenient reading kept or skipped.
        changes: What stands in the corpus otherwise than in its files.
    """

    corpus: "Corpus"
    format: str
    sentences: SentenceChoice
    remarks: dict[str, int]
    changes: dict[str, int] = field(default_factory=dict)

    def prepared(self, sentences: CliSentences | None, flatten: FlattenPolicy) -> "Prepared":
        """Return the flat sentences that training would see."""
        from fedner.corpus.prepare import prepare

        return prepare(
            self.corpus, sentences=sentence_policy(sentences) or self.sentences, flatten=flatten
        )


def sentence_policy(choice: CliSentences | None) -> SentencePolicy | None:
    """Return the policy that the command line's word stands for."""
    return None if choice is None else _SENTENCES[choice]


def ready_to_write(path: Path, *, overwrite: bool = False) -> Path:
    """Return `path` with its folder made; what is already there is kept unless asked otherwise."""
    if path.exists() and not overwrite:
        raise FednerError(f"{path} is already there", "Choose another name, or add --overwrite.")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def load(
    path: Path,
    format: str = "auto",
    *,
    lenient: bool = False,
    options: ReadOptions | None = None,
) -> Loaded:
    """Read a corpus strictly or leniently, and keep what was said on the way."""
    from fedner.corpus.problems import ProblemLog
    from fedner.corpus.reading import read_recognised

    log = ProblemLog()
    recognition, corpus = read_recognised(path, format, lenient=lenient, options=options, log=log)
    remarks = dict(log.remarks)
    for kind, count in log.counts.items():
        remarks[f"problem: {kind}"] = count
    choice, changes = recognition.sentence_choice, dict(log.changes)
    return Loaded(corpus, recognition.format, choice, remarks, changes)
