"""The platforms of the joining study, opened once in every process.

In a rehearsal every corpus is a few sentences of its own or, without --data, a built-in platform
under the corpus's name, so that everything else is the code of the full study.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from fedner.corpus.prepare import prepare
from fedner.corpus.synthetic import generate
from fedner.errors import FednerError
from fedner.experiments.joining import world as joining
from fedner.experiments.joining.corpora import StudyCorpus, load
from fedner.experiments.joining.world import Sizes, World
from fedner.models.embeddings.words import HashedWords
from fedner.reproduce.bench import Bench
from fedner.reproduce.locating import BUILT_IN
from fedner.reproduce.reproduction import Inputs

REHEARSED_SENTENCES = 15
REHEARSED_SIZES = Sizes(4, 4, 4, 3)
CORPORA_WORDS = "ade-corpus-v2, psytar, twimed, btc, mtl-bio, maccrobat2020 and wnut17"

_worlds: dict[tuple[Path, tuple[str, ...]], World] = {}  # of this process


def world_for(bench: Bench, names: Sequence[str]) -> World:
    """Return the platforms of these names on the bench's device."""
    key = (bench.inputs.out, tuple(names))
    if key not in _worlds:
        torch.backends.cuda.matmul.allow_tf32 = True
        _worlds[key] = _opened(bench.inputs, names)
    return _worlds[key]


def require_corpora(inputs: Inputs) -> None:
    """Raise where a study of the development corpora has no folder of them."""
    if not inputs.is_rehearsal and inputs.root is None:
        raise FednerError(
            "the study has no corpora to run on",
            f"Name the folder that holds {CORPORA_WORDS}: --data DIR. Or look how it runs on "
            "built-in platforms: --built-in.",
        )


def _opened(inputs: Inputs, names: Sequence[str]) -> World:
    require_corpora(inputs)
    cache, context = inputs.out / "cache" / "features", Path(inputs.context)
    if inputs.is_rehearsal or inputs.root is None:
        found = {name: _few(inputs, name, place) for place, name in enumerate(names)}
        words = HashedWords(200, 5)
        small = joining.built(found, words, context, inputs.device, cache)
        return replace(small, sizes=REHEARSED_SIZES, is_rehearsal=True)
    return joining.build(inputs.root, Path(inputs.words), context, names, inputs.device, cache)


def _few(inputs: Inputs, name: str, place: int) -> StudyCorpus:
    """Return a few sentences of a platform of --data, or of a built-in platform without."""
    if inputs.root is None:
        return _stand_in(name, place)
    whole = load(inputs.root, name)
    numbers = [at for at, each in enumerate(whole.sentences) if each.entities]
    few = tuple(whole.sentences[at] for at in numbers[:REHEARSED_SENTENCES])
    return replace(whole, sentences=few, by="sentence")


def _stand_in(name: str, place: int) -> StudyCorpus:
    """Return a built-in platform under another name; no two have the same sentences."""
    corpus = generate(BUILT_IN[place % len(BUILT_IN)], REHEARSED_SENTENCES, seed=100 + place)
    sentences = prepare(corpus, sentences="as given").sentences
    kept = tuple(each for each in sentences if each.tokens)
    return StudyCorpus(name, tuple(sorted(corpus.labels)), kept, "sentence")
