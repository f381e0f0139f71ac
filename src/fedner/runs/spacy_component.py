"""A trained tagger in a spaCy pipeline: `nlp.add_pipe("fedner", config={"model": PATH})`.

spaCy imports this file whenever it makes any pipeline (the entry point `spacy_factories`), so it
imports nothing heavy before a component of its own is asked for.

The tagger reads the text of the document with fedner's own sentences and tokens, and so predicts
what `fedner predict` does, whatever the pipeline's tokeniser. spaCy's entities are made of whole
tokens: where a mention begins or ends within one, the token is split there (`spacy_tokens.py`), so
that offsets are those of `fedner predict`. On request the mention is widened instead; where two
then share a token, the surer one stands.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedner.corpus.readers.extras import required
from fedner.errors import FednerError
from fedner.runs.spacy_tokens import split_tokens

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span

    from fedner.inference.predict import Predictor
    from fedner.inference.reading import Mention

SPLIT, EXPAND = "split", "expand"

_Language = required("spacy.language", "spacy", "spaCy components").Language


@dataclass(frozen=True, slots=True)
class TaggerPlace:
    """Where a tagger is found and where it shall run.

    Attributes:
        model: A run folder, or the folder of a saved tagger.
        platform: Whose tagger of a run.
        vectors: Its word vectors, where they moved.
        context: Its context encoder, where it moved.
        device: Where to run: "cpu" or "cuda".
    """

    model: Path
    platform: str | None = None
    vectors: Path | None = None
    context: Path | None = None
    device: str = "cpu"

    @property
    def folder(self) -> Path:
        """The folder of the tagger itself."""
        from fedner.runs.folder import tagger_folder

        return tagger_folder(self.model, self.platform)

    def open(self) -> "Predictor":
        """Load the tagger."""
        from fedner.inference.predict import Predictor

        return Predictor.load(
            self.folder, vectors=self.vectors, context=self.context, device=self.device
        )


class FednerComponent:
    """The component: sets `doc.ents`, and on request a span group with confidences.

    Attributes:
        place: Where its tagger is.
        overwrite_ents: Whether its mentions replace entities that are there already; else those
            stand, and mentions that overlap them are left out (as with spaCy's own rulers).
        spans_key: The key in `doc.spans` for all mentions, with their confidences as `scores`;
            None for none.
        alignment_mode: What is done with a mention that begins or ends within a token: "split" the
            token, or "expand" the mention.
    """

    def __init__(
        self,
        place: TaggerPlace,
        *,
        overwrite_ents: bool,
        spans_key: str | None,
        alignment_mode: str = SPLIT,
    ) -> None:
        if alignment_mode not in (SPLIT, EXPAND):
            raise FednerError(
                f"alignment_mode: found {alignment_mode!r}; expected {SPLIT!r} or {EXPAND!r}",
                f'"{SPLIT}" keeps the borders of mentions, "{EXPAND}" those of tokens.',
            )
        self.place = place
        self.alignment_mode = alignment_mode
        self.overwrite_ents = overwrite_ents
        self.spans_key = spans_key
        self._predictor: Predictor | None = None
        self._process = os.getpid()
        if place.model.exists():  # mistakes show at once; `from_disk` may yet bring what is not
            self._predictor = place.open()

    @property
    def predictor(self) -> "Predictor":
        """The open tagger."""
        if self._predictor is None:
            if not self.place.model.exists():
                raise FednerError(
                    f"the model of the spaCy component is missing: {self.place.model}",
                    'Name a run folder or a saved tagger in config={"model": ...}.',
                )
            self._predictor = self.place.open()
        if os.getpid() != self._process:
            _work_alone()
            self._process = os.getpid()
        return self._predictor

    @property
    def labels(self) -> tuple[str, ...]:
        """The entity types that it finds; none while its tagger is yet to come from disk."""
        # spaCy asks for them before `from_disk`.
        return () if self._predictor is None else self._predictor.model.space.labels

    def __call__(self, doc: "Doc") -> "Doc":
        """Set the entities of one document."""
        self._annotate(doc, self.predictor.predict(doc.text))
        return doc

    def pipe(self, stream: Iterable["Doc"], *, batch_size: int = 128) -> Iterator["Doc"]:
        """Set the entities of many documents, `batch_size` of them at a time."""
        rest = iter(stream)
        while docs := list(islice(rest, max(1, batch_size))):
            found = self.predictor.predict_texts([doc.text for doc in docs])
            for doc, mentions in zip(docs, found, strict=True):
                self._annotate(doc, mentions)
                yield doc

    def to_disk(self, path: Path | str, *, exclude: Iterable[str] = ()) -> None:
        """Copy the tagger and its frozen embeddings: the saved pipeline then stands alone."""
        del exclude
        from fedner.models.embeddings.words import WordVectors

        target, source = Path(path), self.predictor.model.words.source
        vectors = source.store.folder if isinstance(source, WordVectors) else None
        _copy_tagger(self.place.folder, target, vectors, self.place.context)

    def from_disk(self, path: Path | str, *, exclude: Iterable[str] = ()) -> "FednerComponent":
        """Open the tagger that `to_disk` copied."""
        del exclude
        self.place = TaggerPlace(Path(path), device=self.place.device)
        self._predictor = self.place.open()
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process opens the same files instead of receiving a copy of the tagger.
        return _reopened, (
            self.place,
            self.overwrite_ents,
            self.spans_key,
            self.alignment_mode,
        )

    def _annotate(self, doc: "Doc", mentions: Sequence["Mention"]) -> None:
        if self.alignment_mode == SPLIT:
            split_tokens(doc, {at for each in mentions for at in (each.start, each.end)})
        found = [
            (span, mention.confidence)
            for mention in mentions
            if (span := _span(doc, mention)) is not None
        ]
        doc.set_ents(_entities(doc, found, overwrite=self.overwrite_ents))
        if self.spans_key is not None:
            doc.spans[self.spans_key] = [span for span, _ in found]
            doc.spans[self.spans_key].attrs["scores"] = [sure for _, sure in found]


def _span(doc: "Doc", mention: "Mention") -> "Span | None":
    return doc.char_span(mention.start, mention.end, mention.label, alignment_mode="expand")


def _entities(
    doc: "Doc", found: Sequence[tuple["Span", float]], *, overwrite: bool
) -> list["Span"]:
    """Return what shall be the document's entities: those that are there and those found."""
    there = list(doc.ents)
    taken = set() if overwrite else {token.i for span in there for token in span}
    chosen = []
    for span, _ in sorted(found, key=lambda each: -each[1]):
        tokens = set(range(span.start, span.end))
        if taken.isdisjoint(tokens):
            taken |= tokens
            chosen.append(span)
    if not overwrite:
        return there + chosen
    return [span for span in there if taken.isdisjoint(range(span.start, span.end))] + chosen


def _copy_tagger(folder: Path, target: Path, vectors: Path | None, context: Path | None) -> None:
    """Copy a saved tagger with its embeddings; its card comes last, so that half a copy is none."""
    from fedner.models.checkpoint import CARD
    from fedner.models.checkpoint_embeddings import CONTEXT, VECTORS

    if target.resolve() == folder.resolve():
        return
    record = json.loads((folder / CARD).read_bytes())["context"]
    if context is None and record is not None and not (folder / CONTEXT).is_dir():
        context = Path(record["path"]) if record["path"] else None
    try:
        target.mkdir(parents=True, exist_ok=True)
        (target / CARD).unlink(missing_ok=True)
        shutil.copytree(folder, target, ignore=shutil.ignore_patterns(CARD), dirs_exist_ok=True)
        if vectors is not None:
            _copy(vectors, target / VECTORS)
        if context is not None:
            _copy(context, target / CONTEXT / context.name)
        shutil.copy2(folder / CARD, target / CARD)
    except OSError as error:
        raise FednerError(
            f"cannot copy {folder} to {target}: {error.strerror or error}", "Choose another folder."
        ) from error


def _copy(source: Path, target: Path) -> None:
    """Copy a file or a folder, unless it is where it shall be."""
    target.parent.mkdir(exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy2(source, target)


def _work_alone() -> None:
    """Let torch use one thread: `nlp.pipe(n_process=...)` has forked this process.

    The threads of the parent do not survive a fork, and torch would wait for them for ever.
    """
    import torch

    torch.set_num_threads(1)


def _reopened(
    place: TaggerPlace, overwrite_ents: bool, spans_key: str | None, alignment_mode: str
) -> FednerComponent:
    return FednerComponent(
        place,
        overwrite_ents=overwrite_ents,
        spans_key=spans_key,
        alignment_mode=alignment_mode,
    )


def create_component(
    nlp: Any,
    name: str,
    model: str,
    platform: str | None,
    vectors: str | None,
    context: str | None,
    device: str,
    overwrite_ents: bool,
    spans_key: str | None,
    alignment_mode: str,
) -> FednerComponent:
    """Return the component that a pipeline's configuration asks for.

    Args:
        nlp: The pipeline.
        name: What the component is called in it.
        model: A run folder, or the folder of a saved tagger. Where it does not exist, the pipeline
            can still be loaded from disk, where it has a copy of its own.
        platform: Whose tagger of a run; needed where there are several.
        vectors: The model's word vectors, if they moved.
        context: The model's context encoder, if it moved.
        device: "cpu" or "cuda".
        overwrite_ents: See `FednerComponent`.
        spans_key: See `FednerComponent`.
        alignment_mode: See `FednerComponent`.
    """
    del nlp, name
    place = TaggerPlace(
        Path(model),
        platform,
        None if vectors is None else Path(vectors),
        None if context is None else Path(context),
        device,
    )
    return _reopened(place, overwrite_ents, spans_key, alignment_mode)


_Language.factory(
    "fedner",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config={
        "platform": None,
        "vectors": None,
        "context": None,
        "device": "cpu",
        "overwrite_ents": False,
        "spans_key": None,
        "alignment_mode": SPLIT,
    },
    func=create_component,
)
