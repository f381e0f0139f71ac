"""fedner's tagger beside flair's SequenceTagger and spaCy's ner, one thread each, in one process.

    .venv-peers/bin/python -m benchmarks.peers.taggers

The text is synthetic (case reports). flair and fedner get the same frozen features for each token
(100-d words and 384-d context, precomputed), the same batches of 64 sentences, 2x200 hidden
units, a CRF, Adam 1e-3. flair is given a bare loop over `forward_loss`, which flatters it: its
trainer does more. Prediction goes from sentences to entities. spaCy has its own features; only its
prediction is compared, from given tokens to entities.
"""

import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch

from fedner.corpus.prepare import prepare
from fedner.corpus.schemes import encode
from fedner.corpus.sentence import Sentence
from fedner.corpus.synthetic import generate
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace, collate, encode_corpus
from fedner.models.zoo import Recipe, build_tagger
from fedner.optimizers import OptimizerSettings
from fedner.training import (
    Evaluation,
    bucketed_batches,
    clip_by_norm,
    gradients,
    optimizer_for,
    trainable,
)

WORDS, CONTEXT, HIDDEN, BATCH = 100, 384, 200, 64
TRAINED, PREDICTED, REPEATS = 640, 2_000, 3
Row = tuple[str, float, str]


def sentences() -> list[Sentence]:
    """Return synthetic sentences."""
    return list(prepare(generate("case-reports", PREDICTED, 1)).sentences[:PREDICTED])


def own(data: list[Sentence], context_TD: torch.Tensor, *, characters: bool) -> list[Callable]:
    """Return functions that train on 640 sentences, and that predict all of them."""
    space = TagSpace.of(("ADE", "Dosage", "Drug"), "BIO")
    words = WordEmbedding(HashedWords(20_000, WORDS))
    recipe = Recipe("peer", "", "", characters=characters, context=True, hidden=HIDDEN)
    tagger = build_tagger(recipe, words, space, CONTEXT, 1)
    corpus = encode_corpus(data, words, space=space, context_TD=context_TD)
    weights, optimizer = trainable(tagger), optimizer_for(tagger, OptimizerSettings())

    def train() -> None:
        tagger.train()
        for chosen in bucketed_batches(corpus.lengths[:TRAINED], BATCH, 1, 1):
            _, gradient = gradients(tagger, collate(corpus, chosen))
            optimizer.step(weights, clip_by_norm(gradient, 5.0))

    return [train, lambda: Evaluation(corpus, data, space).predictions(tagger)]


def of_flair(data: list[Sentence], context_TD: torch.Tensor, *, characters: bool) -> list[Callable]:
    """Return the same two functions for flair."""
    import flair
    from flair.data import Dictionary
    from flair.data import Sentence as FlairSentence
    from flair.embeddings import CharacterEmbeddings, StackedEmbeddings, TokenEmbeddings
    from flair.models import SequenceTagger

    flair.device = torch.device("cpu")
    source = HashedWords(20_000, WORDS)
    vectors = torch.from_numpy(source.take(np.arange(source.num_rows)))

    class Precomputed(TokenEmbeddings):
        """The same frozen features, handed over."""

        def __init__(self) -> None:
            super().__init__()
            self.name, self.static_embeddings = "precomputed", True

        @property
        def embedding_length(self) -> int:
            return WORDS + CONTEXT

        @property
        def embedding_type(self) -> str:
            return "word-level"

        def _add_embeddings_internal(self, batch: list[FlairSentence]) -> None:
            for sentence in batch:
                features = sentence.features
                for position, token in enumerate(sentence):
                    token.set_embedding(self.name, features[position])

        @classmethod
        def from_params(cls, _params: dict) -> "Precomputed":
            return cls()

        def to_params(self) -> dict:
            return {}

    made, start = [], 0
    for sentence in data:
        wrapped = FlairSentence(list(sentence.tokens))
        end = start + len(sentence.tokens)
        rows = torch.from_numpy(source.rows(list(sentence.tokens)))
        wrapped.features = torch.cat([vectors[rows], context_TD[start:end].float()], dim=1)
        for entity in sentence.entities:
            wrapped[entity.start : entity.end].add_label("ner", entity.label)
        made.append(wrapped)
        start = end
    labels = Dictionary(add_unk=False)
    labels.span_labels = True
    for label in ("ADE", "Dosage", "Drug"):
        labels.add_item(label)
    parts: list[TokenEmbeddings] = [Precomputed()]
    if characters:
        # flair would download its list of characters; this one is made here, in its own format.
        alphabet = Dictionary()
        for character in sorted(
            {c for sentence in data for token in sentence.tokens for c in token}
        ):
            alphabet.add_item(character)
        with tempfile.NamedTemporaryFile() as file:
            alphabet.save(file.name)
            parts.append(CharacterEmbeddings(path_to_char_dict=file.name))
    tagger = SequenceTagger(
        embeddings=StackedEmbeddings(parts),
        tag_dictionary=labels,
        tag_type="ner",
        tag_format="BIO",
        hidden_size=HIDDEN,
        rnn_layers=1,
        use_crf=True,
        reproject_embeddings=False,
        dropout=0.2,
        word_dropout=0.0,
        locked_dropout=0.0,
    )
    optimizer = torch.optim.Adam([p for p in tagger.parameters() if p.requires_grad], lr=1e-3)
    lengths = np.array([len(sentence.tokens) for sentence in data[:TRAINED]])

    def train() -> None:
        tagger.train()
        for chosen in bucketed_batches(lengths, BATCH, 1, 1):
            optimizer.zero_grad()
            batch = [made[i] for i in chosen]
            for sentence in batch:  # trained embeddings are computed anew, frozen ones are kept
                sentence.clear_embeddings([part.name for part in parts[1:]])
            loss, _ = tagger.forward_loss(batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(tagger.parameters(), 5.0)
            optimizer.step()

    def predict() -> None:
        tagger.eval()
        tagger.predict(made, mini_batch_size=BATCH, embedding_storage_mode="none")

    return [train, predict]


def of_spacy(data: list[Sentence]) -> Callable:
    """Return a function that predicts with spaCy's ner, trained for a moment."""
    import spacy
    from spacy.tokens import Doc
    from spacy.training import Example, biluo_tags_to_spans, iob_to_biluo

    nlp = spacy.blank("en")
    ner = nlp.add_pipe("ner")
    for label in ("ADE", "Dosage", "Drug"):
        ner.add_label(label)

    def example(sentence: Sentence) -> Example:
        words = list(sentence.tokens)
        gold = Doc(nlp.vocab, words=words)
        tags = iob_to_biluo(encode(sentence.entities, len(words), "BIO"))
        gold.ents = biluo_tags_to_spans(gold, tags)
        return Example(Doc(nlp.vocab, words=words), gold)

    optimizer = nlp.initialize()
    for first in range(0, TRAINED, BATCH):
        nlp.update([example(each) for each in data[first : first + BATCH]], sgd=optimizer)

    def predict() -> None:
        docs = (Doc(nlp.vocab, words=list(sentence.tokens)) for sentence in data)
        for doc in nlp.pipe(docs, batch_size=BATCH):
            _ = doc.ents

    return predict


def _medians(functions: dict[str, Callable]) -> dict[str, float]:
    """Return the median seconds of each, the functions taking turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(REPEATS):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> list[Row]:
    torch.set_num_threads(1)
    data = sentences()
    num_tokens = sum(len(sentence.tokens) for sentence in data)
    generator = torch.Generator().manual_seed(1)
    context_TD = torch.randn(num_tokens, CONTEXT, generator=generator).half()
    rows: list[Row] = []
    for characters in (False, True):
        kind = "with characters" if characters else "without characters"
        train, predict = own(data, context_TD, characters=characters)
        flair_train, flair_predict = of_flair(data, context_TD, characters=characters)
        train(), flair_train()  # the first pass warms up
        seconds = _medians({"own": train, "flair": flair_train})
        rows += [
            (f"training, {kind}: fedner", TRAINED / seconds["own"], "sentences/s"),
            (f"training, {kind}: flair", TRAINED / seconds["flair"], "sentences/s"),
            (f"training, {kind}: fedner / flair", seconds["flair"] / seconds["own"], "x"),
        ]
        seconds = _medians({"own": predict, "flair": flair_predict, "spaCy": of_spacy(data)})
        rows += [
            (f"prediction, {kind}: {name}", num_tokens / seconds[key], "tokens/s")
            for key, name in (
                ("own", "fedner"),
                ("flair", "flair"),
                ("spaCy", "spaCy (own features)"),
            )
        ]
        rows += [
            (f"prediction, {kind}: fedner / flair", seconds["flair"] / seconds["own"], "x"),
            (f"prediction, {kind}: fedner / spaCy", seconds["spaCy"] / seconds["own"], "x"),
        ]
    return rows


if __name__ == "__main__":
    for name, value, unit in main():
        print(f"{name:<60} {value:>12,.2f} {unit}", flush=True)
