"""A tagger as people use it: train it on a corpus, save it, load it, let it read."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedner.api.tables import Table, settings_of
from fedner.corpus.document import Corpus, Document, Span
from fedner.corpus.prepare import prepare
from fedner.corpus.sentence import Sentence
from fedner.durable import owner_folder
from fedner.errors import FednerError
from fedner.inference.predict import Mention, Predicted, Predictor, context_features
from fedner.models.checkpoint import EmbeddingPaths, LoadedTagger, save_tagger
from fedner.models.features import EncodedCorpus, TagSpace, encode_corpus
from fedner.runs.blueprint import Blueprint, blueprint, local_optimizer, own_space
from fedner.runs.folder import FEDERATED, tagger_folder
from fedner.runs.public_files import open_named_files, path_of
from fedner.runs.simulation import simulated_device
from fedner.runs.type_descriptions import descriptions_of
from fedner.scoring import Scores, score_documents
from fedner.settings import HASHED, NO_CONTEXT, Settings, study_of
from fedner.training import EpochRecord, TrainingSettings, hold_out, train

OnEpoch = Callable[[EpochRecord], None]
_OWN = "own"  # the only platform where a tagger is trained alone
_RECIPES = {False: "CNN-CLSTM-CRF", True: "ELMoNER"}  # without and with context features


@dataclass(frozen=True, slots=True)
class Tagger:
    """A trained tagger: it finds mentions in any text.

    >>> import fedner
    >>> corpus = fedner.synthetic_corpus("case-reports", 40, seed=1)
    >>> small = {"hidden": 8, "filters": 8, "character_filters": 8}
    >>> tagger = fedner.Tagger.train(corpus, epochs=1, model=small)
    >>> tagger
    Tagger('CNN-CLSTM-CRF', types=3)
    >>> mentions = tagger.predict("Nausea after aspirin.")
    >>> all(each.label in tagger.labels for each in mentions)
    True

    Attributes:
        predictor: Runs the tagger and holds everything that it needs.
    """

    predictor: Predictor

    def __repr__(self) -> str:
        return f"Tagger({self.recipe!r}, types={len(self.labels)})"

    @property
    def labels(self) -> tuple[str, ...]:
        """The types that it finds, sorted."""
        return self.predictor.model.space.labels

    @property
    def recipe(self) -> str:
        """The name of its recipe."""
        return self.predictor.model.recipe.name

    @property
    def facts(self) -> Mapping[str, Any]:
        """What was recorded when it was made: its labels, rounds, the result of joining."""
        return self.predictor.model.facts

    @classmethod
    def train(
        cls,
        corpus: Corpus,
        *,
        words: Path | str = HASHED,
        context: Path | str | None = None,
        epochs: int = 15,
        patience: int | None = None,
        batch_size: int = 32,
        learning_rate: float = 1e-3,
        model: Table | None = None,
        embeddings: Table | None = None,
        types: Mapping[str, str] | None = None,
        device: str = "cpu",
        seed: int = 1,
        on_epoch: OnEpoch | None = None,
    ) -> "Tagger":
        """Train a tagger on the whole of one corpus, with no other platform.

        Args:
            corpus: What to train on; hold out what you want to score on (`fedner.split`).
            words: Word vectors by their path, or "hashed" for random ones.
            context: A context encoder by its path; None trains without one.
            epochs: The number of epochs, at most.
            patience: Hold out a tenth of the sentences, stop after this many epochs without a
                better score on it, and keep the best weights; None trains all epochs.
            batch_size: Sentences in a step.
            learning_rate: Of Adam.
            model: The recipe and its sizes, as the table [model] of federation.toml has them.
            embeddings: More on words, as the table [embeddings] has it.
            types: Descriptions of entity types by name, for `model={"head": "described"}`; a type
                without one is described by its name.
            device: "cpu", "cuda" or "auto".
            seed: Names every random choice.
            on_epoch: Called with the learning curve's point of every epoch.

        Raises:
            FednerError: Settings, embeddings or the corpus do not fit.
        """
        if not corpus.labels:
            raise FednerError("the corpus annotates no type", "Train on one with labels.")
        sections: dict[str, Any] = {
            "seed": seed,
            "types": dict(types or {}),
            "model": {"recipe": _RECIPES[context is not None], **(model or {})},
            "embeddings": {"words": words, "context": context or NO_CONTEXT, **(embeddings or {})},
            "training": {"epochs": epochs, "batch_size": batch_size},
            "local_optimizer": {"learning_rate": learning_rate},
            "engine": {"device": device},
        }
        settings = settings_of(sections, [{"name": _OWN, "labels": list(corpus.labels)}])
        sentences = prepare(corpus, labels=corpus.labels).sentences
        plan = _blueprint(settings, len(sentences)).describing(
            descriptions_of(settings.types, {}, corpus.labels)
        )
        return cls(Predictor.of(_trained(settings, plan, corpus, sentences, patience, on_epoch)))

    @classmethod
    def load(
        cls,
        folder: Path | str,
        *,
        platform: str | None = None,
        method: str = FEDERATED,
        words: Path | None = None,
        context: Path | None = None,
        device: str = "cpu",
    ) -> "Tagger":
        """Load a saved tagger, or that of a platform of a finished run.

        Args:
            folder: The folder of a saved tagger, or of a run.
            platform: Whose tagger, of a run.
            method: Which of them: "federated", or a baseline.
            words: The path of its word vectors, if they are not found automatically.
            context: The path of its context encoder, likewise.
            device: "cpu" or "cuda".

        Raises:
            FednerError: There is no such tagger, it is damaged, or the embeddings are not its own.
        """
        place = tagger_folder(Path(folder), platform, method)
        return cls(Predictor.load(place, vectors=words, context=context, device=device))

    def save(self, folder: Path | str, *, include_embeddings: bool = False) -> None:
        """Save it into a folder that only its owner can read; every command of fedner reads it.

        Args:
            folder: Where to save it; created if it does not exist.
            include_embeddings: Whether to copy the frozen embeddings too, for other machines.

        Raises:
            FednerError: The folder cannot be written.
        """
        model = self.predictor.model
        save_tagger(
            owner_folder(Path(folder)),  # what was trained on texts may tell of them
            model.tagger,
            model.recipe,
            model.space,
            context=model.context,
            paths=model.paths,
            include_embeddings=include_embeddings,
            facts=model.facts,
        )

    def predict(self, text: str) -> tuple[Mention, ...]:
        """Return the mentions of a text, with offsets and confidences, in the order of the text."""
        return self.predictor.predict(text)

    def predict_documents(self, documents: Iterable[Document]) -> Iterator[Predicted]:
        """Yield each document with its mentions; only a chunk of them is held in memory."""
        return self.predictor.predict_documents(documents)

    def annotate(self, corpus: Corpus) -> Corpus:
        """Return a corpus whose mentions are replaced by those that the tagger finds."""
        found = self.predict_documents(corpus)
        return Corpus(corpus.name, self.labels, tuple(map(_with_mentions, found)))

    def score(self, corpus: Corpus) -> Scores:
        """Score it on a corpus that it was not trained on, over the types annotated there."""
        return score_documents(corpus, self.annotate(corpus))


def _with_mentions(found: Predicted) -> Document:
    spans = tuple(Span.of(each.start, each.end, each.label) for each in found.mentions)
    return replace(found.document, spans=spans)


def _blueprint(settings: Settings, num_sentences: int) -> Blueprint:
    """Return what a tagger that is trained alone is built from: a study of one platform."""
    if settings.model.initial is not None:
        raise FednerError(
            "model.initial: a tagger that is trained by itself begins from scratch",
            "Leave the key out; fedner.join trains a released model on texts of your own.",
        )
    device = simulated_device(settings)
    files = open_named_files(settings, device)
    sizes = {_OWN: max(1, num_sentences)}
    return blueprint(study_of(settings, sizes, files.words.origin, files.context), files, device)


def _trained(
    settings: Settings,
    plan: Blueprint,
    corpus: Corpus,
    sentences: tuple[Sentence, ...],
    patience: int | None,
    on_epoch: OnEpoch | None,
) -> LoadedTagger:
    study, held = plan.study, settings.embeddings
    space = own_space(study, _OWN, corpus.labels)
    tagger = plan.tagger(space)
    every = _encoded(plan, sentences, space)
    seen, held_out = every, None
    if patience is not None:
        seen, held_out = hold_out(every, sentences, space, seed=study.seed)
    train(
        tagger,
        seen,
        TrainingSettings(
            epochs=study.training.epochs or 1,
            batch_size=study.training.batch_size,
            optimizer=local_optimizer(study),
            max_grad_norm=study.local_optimizer.max_grad_norm or None,
            patience=patience,
        ),
        study.seed,
        held_out=held_out,
        after_epoch=None if on_epoch is None else lambda state: on_epoch(state.curve[-1]),
    )
    paths = EmbeddingPaths(path_of(held.words), path_of(held.context))
    facts = {"method": "local-only", "labels": list(space.labels)}
    return LoadedTagger(tagger.eval(), plan.recipe, space, plan.files.reader, facts, "", paths)


def _encoded(plan: Blueprint, sentences: tuple[Sentence, ...], space: TagSpace) -> EncodedCorpus:
    """Return the sentences as tensors, with gold tags."""
    trained, reader = plan.files.trained, plan.files.reader
    return encode_corpus(
        sentences,
        plan.word_embedding(),
        space=space,
        context_TD=None if reader is None else context_features(reader, sentences),
        pieces=None if trained is None else trained.pieces([each.tokens for each in sentences]),
        device=plan.device,
    )
