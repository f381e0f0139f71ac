"""The Flair encoder against a slow NumPy LSTM, on tiny made-up weights and on the real ones."""

import json
import lzma
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_flair import CHARACTERS, Arrays, save, tiny

from fedner.errors import FednerError
from fedner.models.embeddings import flair
from fedner.models.embeddings.context import cached_features
from fedner.models.embeddings.flair import FlairEncoder
from fedner.models.embeddings.origin import EmbeddingOrigin

SENTENCES = [
    ["the", "patient", "had", "a", "rash", "."],
    ["a"],
    [],
    ["no", "", "ÄÖ漢😀", "\ud800"],
    ["x" * 70, "y"],
    ["the", "patient"],
]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def slow_states(arrays: Arrays, direction: str, text: str) -> np.ndarray:
    """The state after the line break and after each character of `text`, one step at a time."""
    weight = {k.split("/")[1]: v for k, v in arrays.items() if k.startswith(direction)}
    characters = weight["chars"].tolist()
    weight = {k: v.astype(np.float64) for k, v in weight.items() if v.dtype.kind == "f"}
    hidden = weight["rnn.weight_hh_l0"].shape[1]
    state, cell, states = np.zeros(hidden), np.zeros(hidden), []
    for character in "\n" + text:
        code = characters.index(character) if character in characters else 0
        gates = (
            weight["rnn.weight_ih_l0"] @ weight["encoder.weight"][code]
            + weight["rnn.bias_ih_l0"]
            + weight["rnn.weight_hh_l0"] @ state
            + weight["rnn.bias_hh_l0"]
        )
        i, f, g, o = np.split(gates, 4)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        state = sigmoid(o) * np.tanh(cell)
        states.append(state)
    return np.array(states)


def slow_features(arrays: Arrays, tokens: list[str], at_blank: bool = False) -> np.ndarray:
    text = " ".join(tokens)
    forward = slow_states(arrays, "forward", text + " ")
    backward = slow_states(arrays, "backward", text[::-1] + " ")
    rows, start = [], 0
    for token in tokens:
        end = start + len(token)
        left, right = forward[end + at_blank], backward[len(text) - start + at_blank]
        rows.append(np.concatenate([left, right]))
        start = end + 1
    return np.array(rows).reshape(len(tokens), forward.shape[1] + backward.shape[1])


@pytest.mark.parametrize("read_at", ["character", "blank"])
@pytest.mark.parametrize("positions", [1, 64, 1 << 14])
def test_features_equal_the_slow_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_at: str, positions: int
) -> None:
    monkeypatch.setattr(flair, "POSITIONS_AT_A_TIME", positions)
    arrays = tiny()
    encoder = FlairEncoder.load(save(tmp_path / "t.npz", arrays), read_at=read_at)
    features = encoder.encode(SENTENCES)
    assert encoder.dimension == 12
    for tokens, found in zip(SENTENCES, features, strict=True):
        assert found.dtype == np.float32
        assert found.shape == (len(tokens), 12)
        expected = slow_features(arrays, tokens, read_at == "blank")
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_batch_equals_one_sentence_at_a_time(tmp_path: Path) -> None:
    encoder = FlairEncoder.load(save(tmp_path / "t.npz", tiny()))
    together = encoder.encode(SENTENCES)
    for tokens, found in zip(SENTENCES, together, strict=True):
        np.testing.assert_allclose(encoder.encode([tokens])[0], found, atol=1e-6)
    assert encoder.encode([]) == []


def test_a_very_long_sentence(tmp_path: Path) -> None:
    encoder = FlairEncoder.load(save(tmp_path / "t.npz", tiny()))
    (features,) = encoder.encode([["word"] * 10_000])
    assert features.shape == (10_000, 12)
    assert np.isfinite(features).all()


def test_perplexity_equals_the_slow_one(tmp_path: Path) -> None:
    arrays, text = tiny(), "a rash"
    encoder = FlairEncoder.load(save(tmp_path / "t.npz", arrays))
    for direction, ordered in (("forward", text), ("backward", text[::-1])):
        states = slow_states(arrays, direction, ordered)[:-1]
        logits = states @ arrays[f"{direction}/decoder.weight"].T
        logits = logits + arrays[f"{direction}/decoder.bias"]
        chosen = logits[np.arange(6), [CHARACTERS.index(c) for c in ordered]]
        surprise = np.log(np.exp(logits).sum(axis=1)) - chosen
        expected = np.exp(surprise.mean())
        assert encoder.perplexity(text, direction) == pytest.approx(expected, rel=1e-4)
    with pytest.raises(FednerError, match="empty text"):
        encoder.perplexity("", "forward")


def test_half_precision_is_near(tmp_path: Path) -> None:
    path = save(tmp_path / "t.npz", tiny())
    exact = FlairEncoder.load(path)
    rough = FlairEncoder.load(path, precision="bfloat16")
    for a, b in zip(exact.encode(SENTENCES), rough.encode(SENTENCES), strict=True):
        np.testing.assert_allclose(a, b, atol=0.1)
    assert exact.digest != rough.digest


def test_origin_and_digest(tmp_path: Path) -> None:
    encoder = FlairEncoder.load(save(tmp_path / "news.npz", tiny()))
    packed = FlairEncoder.load(save(tmp_path / "news.npz.xz", tiny()))
    other = FlairEncoder.load(save(tmp_path / "other.npz", tiny(seed=1)))
    assert encoder.digest == packed.digest
    assert encoder.origin.sha256 != other.origin.sha256
    assert encoder.name == "news"
    record = json.loads(json.dumps(encoder.origin.to_json()))
    assert EmbeddingOrigin.from_json(record) == encoder.origin


def test_it_fills_the_context_cache(tmp_path: Path) -> None:
    encoder = FlairEncoder.load(save(tmp_path / "t.npz", tiny()))
    features = cached_features(encoder, SENTENCES, tmp_path / "cache")
    for index, rows in enumerate(encoder.encode(SENTENCES)):
        np.testing.assert_allclose(features[index], rows, atol=1e-3)


def damaged() -> dict[str, Arrays]:
    missing, shape, characters, few = tiny(), tiny(), tiny(), tiny()
    del missing["backward/rnn.bias_hh_l0"]
    shape["forward/rnn.weight_ih_l0"] = np.zeros((3, 3), np.float32)
    characters["forward/chars"] = np.array(["<unk>", *["a"] * (len(CHARACTERS) - 1)])
    few["forward/chars"] = np.array(CHARACTERS[:-1])
    return {
        "backward/rnn.bias_hh_l0: missing": missing,
        "forward/rnn.weight_ih_l0: float32 of shape": shape,
        "not distinct": characters,
        "forward/chars has 29 entries": few,
        "is not a Flair language model": {"x": np.zeros(3)},
    }


@pytest.mark.parametrize("message", list(damaged()))
def test_other_arrays_are_refused(tmp_path: Path, message: str) -> None:
    with pytest.raises(FednerError, match=message):
        FlairEncoder.load(save(tmp_path / "t.npz", damaged()[message]))


def test_damaged_files_are_refused_and_nothing_is_unpickled(tmp_path: Path) -> None:
    whole = save(tmp_path / "t.npz", tiny()).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:-50])
    (tmp_path / "cut.npz.xz").write_bytes(lzma.compress(whole)[:-50])
    (tmp_path / "empty.npz").write_bytes(b"")
    pickled = {**tiny(), "forward/chars": np.array(CHARACTERS, dtype=object)}
    save(tmp_path / "pickled.npz", pickled)
    for name in ("cut.npz", "cut.npz.xz", "empty.npz", "pickled.npz", "absent.npz"):
        with pytest.raises(FednerError, match=name):
            FlairEncoder.load(tmp_path / name)
    with pytest.raises(FednerError, match="precision"):
        FlairEncoder.load(tmp_path / "t.npz", precision="int8")  # type: ignore[arg-type]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-3), ("float16", 0.02)])
def test_the_gpu_gives_the_same(tmp_path: Path, precision: str, tolerance: float) -> None:
    path = save(tmp_path / "t.npz", tiny())
    on_gpu = FlairEncoder.load(path, "cuda", precision=precision).encode(SENTENCES)
    for a, b in zip(FlairEncoder.load(path).encode(SENTENCES), on_gpu, strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance)


NEWS = "The government said on Tuesday that it would raise taxes on imported cars next year ."


@pytest.mark.data
def test_the_real_weights_know_english(data: Path) -> None:
    path = data / "flair-news-fast" / "flair-news-fast.npz.xz"
    encoder = FlairEncoder.load(path)
    assert encoder.dimension == 2048
    shuffled = list(NEWS)
    random.Random(0).shuffle(shuffled)
    for direction in flair.DIRECTIONS:
        assert encoder.perplexity(NEWS, direction) < 3.5
        assert encoder.perplexity("".join(shuffled), direction) > 50
    sentences = [NEWS.split(), ["Imported", "cars", "!"], ["β-blockers", "5", "mg"]]
    arrays = flair._load_arrays(path)
    for tokens, found in zip(sentences, encoder.encode(sentences), strict=True):
        np.testing.assert_allclose(found, slow_features(arrays, tokens), atol=1e-4)
