"""Which sentences to annotate next: `fedner suggest` against random choice.

Active learning played with an annotated corpus. A tagger begins with 50 random sentences; its
suggestions are annotated (their gold entities are looked up), a fresh tagger is trained on all that
is annotated, and so on. Every way to choose has the same test part, the same first sentences and
the same first weights in a repeat, so that differences are paired.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedner.corpus.prepare import prepare
from fedner.corpus.reading import read
from fedner.corpus.sentence import Sentence
from fedner.federated.answering import one_thread
from fedner.inference.predict import Predictor
from fedner.inference.ranking import Ranking, ranked, uncertainty_of
from fedner.models.checkpoint import LoadedTagger
from fedner.models.embeddings.words import WordEmbedding
from fedner.models.features import EncodedCorpus, TagSpace, encode_corpus, select
from fedner.models.zoo import Recipe, build_tagger
from fedner.optimizers import OptimizerSettings
from fedner.reproduce.bench import TEST_SHARE, Bench, score_measures
from fedner.reproduce.beyond.suggesting_tables import SIZES, show, sizes_of
from fedner.reproduce.reproduction import Cell, Inputs, Reproduction, Row, Rows
from fedner.runs.blueprint import sized_recipe
from fedner.runs.public_files import open_named_files
from fedner.scoring import Scores
from fedner.seeds import seeded
from fedner.training import Evaluation, TrainingSettings, train

ARMS: tuple[Ranking, ...] = ("both", "uncertainty", "diversity", "random")
MOST_POOL, MOST_TEST = 3_000, 1_000
BATCH_SIZE, LEAST_STEPS, LEAST_EPOCHS = 16, 320, 16
LEARNING_RATE = 3e-3
MODEL = {
    "recipe": "CNN-LSTM-CRF",
    "hidden": 48,
    "character_filters": 24,
    "character_dimension": 16,
}

POOL_WORDS = (
    f"Pool: {MOST_POOL:,} distinct sentences at most, drawn anew in each repeat; test part: "
    f"{TEST_SHARE:.0%} of the sentences, {MOST_TEST:,} at most, none of them in the pool."
)
ROUNDS_WORDS = (
    f"{SIZES[0]} random sentences first, the same for all ways; then rounds up to "
    f"{', '.join(map(str, SIZES[1:]))}, chosen by the tagger of the round before "
    "(`fedner suggest --unit sentence`). Every round trains a fresh tagger on all of them."
)
TAGGER_WORDS = (
    f"{MODEL['recipe']}, BiLSTM 2x{MODEL['hidden']}, {MODEL['character_filters']} character "
    f"filters, frozen word vectors, no context encoder; Adam {LEARNING_RATE} with linear decay, "
    f"batches of {BATCH_SIZE}, at least {LEAST_EPOCHS} epochs and about {LEAST_STEPS} steps, no "
    "early stopping: a small share of the sentences has no held-out part."
)


def epochs_for(num_sentences: int) -> int:
    """Return how long a tagger is trained: few sentences more often.

    >>> epochs_for(50), epochs_for(800)
    (80, 16)
    """
    steps_per_epoch = -(-num_sentences // BATCH_SIZE)
    return max(LEAST_EPOCHS, LEAST_STEPS // steps_per_epoch)


def cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return a curve for every corpus, way to choose and repeat, a repeat after the other."""
    sizes = sizes_of(inputs)
    cost = sum(size * epochs_for(size) for size in sizes) / 1000
    return [
        Cell(f"{name}/{arm}/repeat-{seed}", {"platform": name, "arm": arm, "repeat": seed}, cost)
        for seed in inputs.seeds
        for name in inputs.names
        for arm in ARMS
    ]


@dataclass(frozen=True, slots=True)
class _Pool:
    """Sentences to choose from, and those to score on; no two are alike."""

    pool: tuple[Sentence, ...]
    test: tuple[Sentence, ...]


@dataclass(frozen=True, slots=True)
class _Trainer:
    """What trains a tagger on some sentences of the pool."""

    held: _Pool
    recipe: Recipe
    words: WordEmbedding
    space: TagSpace
    pool: EncodedCorpus
    test: Evaluation
    seed: int

    def train(self, chosen: Sequence[int], epochs: int) -> tuple[Predictor, Scores]:
        """Return a fresh tagger that has seen these sentences, and its scores."""
        tagger = build_tagger(self.recipe, self.words, self.space, seed=self.seed)
        steps = epochs * -(-len(chosen) // BATCH_SIZE)
        optimizer = OptimizerSettings(
            learning_rate=LEARNING_RATE, schedule="linear", decay_steps=steps
        )
        plan = TrainingSettings(epochs=epochs, batch_size=BATCH_SIZE, optimizer=optimizer)
        train(tagger, select(self.pool, chosen), plan, self.seed)
        tagger.eval()
        scores = self.test.scores(tagger)
        return Predictor.of(LoadedTagger(tagger, self.recipe, self.space)), scores


def run(cell: Cell, bench: Bench) -> Sequence[Row]:
    """Draw one curve."""
    seed, name = int(cell.factors["repeat"]), str(cell.factors["platform"])
    sizes = sizes_of(bench.inputs)
    with one_thread():
        trainer = _trainer(bench, name, seed)
        pool = trainer.held.pool
        order = seeded(seed, "suggesting", "first", name).permutation(len(pool)).tolist()
        annotated: list[int] = order[: sizes[0]]
        rows: list[Row] = []
        for number, size in enumerate(sizes):
            if len(annotated) < size:  # the corpus is used up
                break
            epochs = 1 if bench.inputs.is_rehearsal else epochs_for(size)
            predictor, scores = trainer.train(annotated, epochs)
            seen = [pool[each] for each in annotated]
            rows.append(_row(cell, size, seen, scores))
            if number + 1 < len(sizes):
                wanted = sizes[number + 1] - size
                annotated += _next(cell, predictor, pool, annotated, wanted, seed)
    return rows


def _next(
    cell: Cell,
    predictor: Predictor,
    pool: Sequence[Sentence],
    annotated: Sequence[int],
    count: int,
    seed: int,
) -> list[int]:
    """Return the sentences to annotate next, as `fedner suggest --unit sentence` chooses them."""
    by = next(each for each in ARMS if each == cell.factors["arm"])
    known = set(annotated)
    rest = [number for number in range(len(pool)) if number not in known]
    doubts = [0.0] * len(rest)
    if by in ("both", "uncertainty"):
        judged = predictor.judge_sentences([pool[each] for each in rest])
        doubts = [
            uncertainty_of(doubt, len(pool[each].tokens))
            for each, (_, doubt) in zip(rest, judged, strict=True)
        ]
    texts = [" ".join(pool[each].tokens) for each in annotated]
    chosen = ranked(
        by,
        doubts,
        lambda numbers: (" ".join(pool[rest[each]].tokens) for each in numbers),
        count,
        texts,
        seed + len(annotated),
    )
    return [rest[each] for each in chosen]


def _row(cell: Cell, size: int, seen: Sequence[Sentence], scores: Scores) -> Row:
    measures = {
        **score_measures(scores),
        "tokens": sum(len(each.tokens) for each in seen),
        "mentions": sum(len(each.entities) for each in seen),
    }
    return Row({**cell.factors, "size": size}, measures)


def _trainer(bench: Bench, name: str, seed: int) -> _Trainer:
    tables = {"model": MODEL, "training": {"rounds": 1}}  # trained here, not by a run
    settings = bench.settings(seed, tables, [bench.entry(name)])
    held = _divided(bench, name, seed)
    files = open_named_files(settings, "cpu")
    words = WordEmbedding(files.words, trainable=settings.embeddings.trainable)
    space = TagSpace.of(bench.inputs.platform(name).labels, "BIO")
    encoded = encode_corpus([*held.pool, *held.test], words, space=space)
    pool = select(encoded, range(len(held.pool)))
    test = select(encoded, range(len(held.pool), len(held.pool) + len(held.test)))
    evaluation = Evaluation(test, held.test, space)
    return _Trainer(held, sized_recipe(settings.model), words, space, pool, evaluation, seed)


def _divided(bench: Bench, name: str, seed: int) -> _Pool:
    """Return what may be annotated and what is scored on: the platform's own test part, or a draw.

    Of sentences that are alike one is kept, so that none is in both.
    """
    distinct = _distinct(prepare(bench.corpus(name), sentences="as given").sentences)
    order = seeded(seed, "suggesting", "test", name).permutation(len(distinct)).tolist()
    own = bench.inputs.platform(name).test_data
    if own is None:
        num_test = min(MOST_TEST, round(TEST_SHARE * len(distinct)))
        test = tuple(distinct[each] for each in order[:num_test])
    else:
        num_test = 0
        given = prepare(read(Path(own), "jsonl"), sentences="as given").sentences
        test = tuple(_distinct(given)[:MOST_TEST])
    scored = {each.tokens for each in test}
    pool = [distinct[each] for each in order[num_test:] if distinct[each].tokens not in scored]
    return _Pool(tuple(pool[:MOST_POOL]), test)


def _distinct(sentences: Sequence[Sentence]) -> list[Sentence]:
    return list({each.tokens: each for each in sentences if each.tokens}.values())


SUGGESTING = Reproduction(
    name="suggesting",
    source="beyond both papers",
    title="which sentences to annotate next: fedner suggest against random choice",
    layout="federation",
    corpora=(("ade", "btc"),),
    stages=(cells,),
    run=run,
    show=show,
    settings=(POOL_WORDS, ROUNDS_WORDS, TAGGER_WORDS),
    repeats=5,
)
