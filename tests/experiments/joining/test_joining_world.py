"""The world from files: corpora, word vectors and encoder as every arm reads them."""

import lzma
from pathlib import Path

import numpy as np
import pytest
import torch

from fedner.experiments.joining import corpora, world
from fedner.models.embeddings.opening import open_context_encoder
from fedner.models.embeddings.words import WordVectors
from fedner.models.types import TYPE_NORM

TEXTS = {
    "btc-a": "The B-ORG\nNHS I-ORG\nin O\nLeeds B-LOC\n\nrash O\n2day O\n",
    "btc-b": "Ann B-PER\nhas O\nfever O\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "btc").mkdir()
    for name, text in TEXTS.items():
        with lzma.open(tmp_path / "btc" / f"{name[-1]}.conll.xz", "wt") as file:
            file.write(text.replace(" ", "\t"))
    (tmp_path / "words.txt").write_text("fever 1 0 0\nrash 0 2 0\nthe 0 0 1\n")
    return tmp_path


def test_the_world_holds_what_the_files_say(folder: Path, tiny_bert: Path) -> None:
    words, names = folder / "words.txt", ("btc-a", "btc-b")
    found = world.build(folder, words, tiny_bert, names, "cpu", folder / "features")
    assert found.first == {"btc-a": 0, "btc-b": 2}
    assert found.sentences.known_lengths.tolist() == [4, 2, 3]
    assert found.sentences.starts_S.tolist() == [0, 4, 6]
    # Types in order: LOC, ORG, PER.
    assert found.sentences.gold_VN[world.REAL].tolist() == [3, 4, 0, 1, 0, 0, 5, 0, 0]
    assert found.numbers("btc-b", np.asarray([0])).tolist() == [2]
    source = WordVectors.open(words)
    spoken = [
        token for each in found.corpora.values() for s in each.sentences for token in s.tokens
    ]
    vectors = torch.from_numpy(source.take(source.rows(spoken))).half()
    encoder = open_context_encoder(tiny_bert, "cpu")
    texts = [s.tokens for each in found.corpora.values() for s in each.sentences]
    context = torch.from_numpy(np.concatenate(list(encoder.encode(texts)))).half()
    assert torch.equal(found.described.features_ND[:, :3], vectors)
    torch.testing.assert_close(found.described.features_ND[:, -16:], context, atol=1e-2, rtol=1e-2)
    assert found.described.features_ND.shape[1] == 3 + 10 + 16
    assert found.described.features_ND[5, 3 + 5] == 1, "2day has a digit"
    assert torch.equal(found.published.features_ND[:, :3], vectors)
    assert found.published.num_words == 3
    assert (found.published.codes_NC != 0).sum(1).tolist() == [len(token) for token in spoken]
    for name in names:
        norms = found.vectors[name].norm(dim=1)
        torch.testing.assert_close(norms, torch.full_like(norms, TYPE_NORM))
    assert torch.equal(found.vectors["btc-a"], found.vectors["btc-b"]), "the same descriptions"


@pytest.mark.parametrize(
    ("name", "number", "by"), [("twimed", 1000, "sentence"), ("btc-e", 200, "sentence")]
)
def test_small_platforms_of_the_real_study(data: Path, name: str, number: int, by: str) -> None:
    found = corpora.load(data, name)
    assert (len(found.sentences), found.by) == (number, by)
    labels = {entity.label for each in found.sentences for entity in each.entities}
    assert labels == set(found.labels) == set(corpora.DESCRIPTIONS[name])
