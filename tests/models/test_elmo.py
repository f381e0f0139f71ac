"""ELMo against the published outputs, and against a slow NumPy version of its equations."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_platform import CONTEXT_DIMENSION, small, small_platform

from fedner.errors import FednerError
from fedner.inference.predict import Predictor
from fedner.models.checkpoint import EmbeddingPaths, load_tagger, save_tagger
from fedner.models.embeddings import elmo_bilm
from fedner.models.embeddings.context import cached_features
from fedner.models.embeddings.elmo import ElmoEncoder
from fedner.models.embeddings.elmo_bilm import BiLanguageModel, Memory, encode_characters
from fedner.models.embeddings.elmo_files import (
    ElmoOptions,
    cell_name,
    digest_of,
    find_files,
    read_options,
)
from fedner.models.embeddings.opening import open_context_encoder
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.features import collate, encode_corpus
from fedner.models.layers.scalar_mix import ScalarMix
from fedner.models.partition import partition
from fedner.models.tagger import Tagger
from fedner.models.zoo import RECIPES, build_tagger
from fedner.training import TrainingSettings, train, trainable
from tiny_elmo import OPTIONS, Arrays, as_json, random_weights, save

SENTENCES = [
    ["the", "patient", "had", "a", "rash", "."],
    ["a"],
    [],
    ["no", "", "ÄÖ漢😀", "\ud800", "much-too-long"],
    ["the", "patient"],
]


def encoder_of(
    options: ElmoOptions, weights: Arrays, features: str = "layers", precision: str = "float32"
) -> ElmoEncoder:
    width = 2 * options.projection * (options.num_layers + 1 if features == "layers" else 1)
    settings = {"features": features, "precision": precision}
    origin = EmbeddingOrigin("elmo", "tiny", digest_of(options, weights), width, settings)
    return ElmoEncoder(BiLanguageModel(options, weights), origin, torch.device("cpu"))


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def slow_word(options: ElmoOptions, weights: Arrays, codes: list[int]) -> np.ndarray:
    line = weights["char_embed"][codes].astype(np.float64)
    found: list[float] = []
    activation = np.tanh if options.activation == "tanh" else lambda x: np.maximum(x, 0)
    for number, (width, count) in enumerate(options.filters):
        kernel, bias = weights[f"CNN/W_cnn_{number}"][0], weights[f"CNN/b_cnn_{number}"]
        for one in range(count):
            places = range(len(line) - width + 1)
            best = max((line[p : p + width] * kernel[:, :, one]).sum() for p in places)
            found.append(float(activation(best + bias[one])))
    x = np.array(found)
    for number in range(options.num_highways):
        w = {k.split("/")[1]: v for k, v in weights.items() if k.startswith(f"CNN_high_{number}")}
        gate = sigmoid(x @ w["W_carry"] + w["b_carry"])
        x = gate * np.maximum(x @ w["W_transform"] + w["b_transform"], 0) + (1 - gate) * x
    if "CNN_proj/W_proj" in weights:
        x = x @ weights["CNN_proj/W_proj"] + weights["CNN_proj/b_proj"]
    return x


def slow_lstm(options: ElmoOptions, weights: Arrays, cell: str, line: np.ndarray) -> np.ndarray:
    kernel, bias, projection = (weights[f"{cell}/{k}"] for k in ("W_0", "B", "W_P_0"))
    state, cells, out = np.zeros(options.projection), np.zeros(options.cells), []
    for x in line:
        i, j, f, o = np.split(np.concatenate([x, state]) @ kernel + bias, 4)
        cells = sigmoid(f + 1) * cells + sigmoid(i) * np.tanh(j)
        if options.cell_clip:
            cells = np.clip(cells, -options.cell_clip, options.cell_clip)
        state = (sigmoid(o) * np.tanh(cells)) @ projection
        if options.projection_clip:
            state = np.clip(state, -options.projection_clip, options.projection_clip)
        out.append(state)
    return np.array(out)


def slow_layers(options: ElmoOptions, weights: Arrays, words: list[str]) -> list[np.ndarray]:
    """All layers of a sentence, each (L, 2P), a word and a step at a time."""
    room = options.max_characters

    def codes_of(inside: list[int]) -> list[int]:
        return ([258, *inside[: room - 2], 259] + [260] * room)[:room]

    lines = [codes_of(list(word.encode("utf-8", "ignore"))) for word in words]
    lines = [codes_of([256]), *lines, codes_of([257])]
    tokens = np.array([slow_word(options, weights, codes) for codes in lines])
    sides = []
    for direction, turn in (("RNN_0", 1), ("RNN_1", -1)):
        outputs = [tokens[::turn]]
        for layer in range(options.num_layers):
            out = slow_lstm(options, weights, cell_name(direction, layer), outputs[-1])
            outputs.append(out + outputs[-1] if layer and options.has_skips else out)
        sides.append([output[::turn][1:-1] for output in outputs])
    return [np.concatenate(pair, axis=-1) for pair in zip(*sides, strict=True)]


VARIANTS = [
    OPTIONS,
    replace(OPTIONS, has_skips=False),
    replace(OPTIONS, activation="tanh", cell_clip=None, projection_clip=None),
    replace(OPTIONS, num_highways=0, num_layers=1, projection=11),  # as many as filters
    replace(OPTIONS, num_layers=3),
]


class TestAgainstNumPy:
    @pytest.mark.parametrize("options", VARIANTS)
    def test_all_layers(self, options: ElmoOptions) -> None:
        weights = random_weights(options)
        encoder = encoder_of(options, weights)
        found = encoder.encode(SENTENCES)
        assert encoder.num_layers == options.num_layers + 1
        for words, features in zip(SENTENCES, found, strict=True):
            assert features.shape == (len(words), encoder.dimension)
            assert features.dtype == np.float32
            if words:
                expected = np.concatenate(slow_layers(options, weights, words), axis=-1)
                np.testing.assert_allclose(features, expected, atol=1e-5)

    def test_both_clips_bite_here(self) -> None:
        weights = random_weights(OPTIONS)
        for loose in (replace(OPTIONS, cell_clip=None), replace(OPTIONS, projection_clip=None)):
            one, two = (slow_layers(o, weights, SENTENCES[0])[-1] for o in (OPTIONS, loose))
            assert np.abs(one - two).max() > 0.01

    def test_mean_and_top(self) -> None:
        weights = random_weights(OPTIONS)
        layers = slow_layers(OPTIONS, weights, SENTENCES[0])
        top = encoder_of(OPTIONS, weights, "top")
        mean = encoder_of(OPTIONS, weights, "mean")
        assert (top.dimension, top.num_layers) == (mean.dimension, mean.num_layers) == (8, 1)
        np.testing.assert_allclose(top.encode(SENTENCES)[0], layers[-1], atol=1e-5)
        np.testing.assert_allclose(mean.encode(SENTENCES)[0], np.mean(layers, axis=0), atol=1e-5)

    def test_portions_change_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        encoder = encoder_of(OPTIONS, random_weights(OPTIONS))
        whole = encoder.encode(SENTENCES)
        monkeypatch.setattr(elmo_bilm, "WORDS_AT_A_TIME", 2)
        monkeypatch.setattr(elmo_bilm, "POSITIONS_AT_A_TIME", 5)
        for one, two in zip(whole, encoder.encode(SENTENCES), strict=True):
            np.testing.assert_allclose(one, two, atol=1e-6)

    def test_a_sentence_alone_gives_the_same_in_any_order(self) -> None:
        encoder = encoder_of(OPTIONS, random_weights(OPTIONS))
        together = encoder.encode(SENTENCES)
        backwards = encoder.encode(SENTENCES[::-1])[::-1]
        for words, one, two in zip(SENTENCES, together, backwards, strict=True):
            np.testing.assert_allclose(one, two, atol=1e-6)
            np.testing.assert_allclose(one, encoder.encode([words])[0], atol=1e-6)

    def test_words_are_their_bytes_between_marks(self) -> None:
        codes = encode_characters(["é", "", "abcdefghij"], 6).tolist()
        assert codes == [
            [258, 256, 259, 260, 260, 260],
            [258, 257, 259, 260, 260, 260],
            [258, 0xC3, 0xA9, 259, 260, 260],
            [258, 259, 260, 260, 260, 260],
            [258, *b"abcd", 259],
        ]

    @pytest.mark.parametrize(("precision", "near"), [("bfloat16", 0.3), ("float16", 0.03)])
    def test_half_precision_is_near(self, precision: str, near: float) -> None:
        weights = random_weights(OPTIONS)
        full = encoder_of(OPTIONS, weights).encode(SENTENCES)[0]
        half = encoder_of(OPTIONS, weights, precision=precision).encode(SENTENCES)[0]
        assert 0 < np.abs(full - half).max() < near

    def test_frozen_whatever_its_tagger_does(self) -> None:
        model = BiLanguageModel(OPTIONS, random_weights(OPTIONS)).train()
        assert not model.training
        assert not any(parameter.requires_grad for parameter in model.parameters())

    def test_features_are_cached(self, tmp_path: Path) -> None:
        encoder = encoder_of(OPTIONS, random_weights(OPTIONS))
        cache = cached_features(encoder, SENTENCES, tmp_path)
        for cached, plain in zip(cache, encoder.encode(SENTENCES), strict=True):
            np.testing.assert_allclose(cached, plain, atol=5e-3, rtol=1e-3)


@pytest.fixture(scope="module")
def h5py() -> Any:
    return pytest.importorskip("h5py", reason="needs the extra elmo")


class TestFiles:
    @pytest.mark.parametrize("options", VARIANTS)
    def test_options_are_read(self, options: ElmoOptions, tmp_path: Path) -> None:
        (tmp_path / "options.json").write_text(json.dumps(as_json(options)))
        assert read_options(tmp_path / "options.json") == options

    def test_a_folder_or_both_files(self, h5py: Any, tmp_path: Path) -> None:
        weights = random_weights(OPTIONS)
        save(h5py, tmp_path, OPTIONS, weights)
        torch.manual_seed(1)
        expected = torch.rand(1)
        torch.manual_seed(1)
        encoder = ElmoEncoder.load(tmp_path)
        assert torch.equal(torch.rand(1), expected)
        named = ElmoEncoder.load(tmp_path / "options.json", weights=tmp_path / "weights.hdf5")
        built = encoder_of(OPTIONS, weights).encode(SENTENCES)
        for one, two, three in zip(
            encoder.encode(SENTENCES), named.encode(SENTENCES), built, strict=True
        ):
            assert (one == two).all()
            assert (one == three).all()
        assert encoder.digest == named.digest
        settings: dict[str, Any] = dict(encoder.origin.settings)
        assert ElmoEncoder.load(tmp_path, **settings).origin == encoder.origin

    def test_the_digest_tells_weights_options_and_settings_apart(
        self, h5py: Any, tmp_path: Path
    ) -> None:
        weights = random_weights(OPTIONS)
        first = save(h5py, tmp_path / "first", OPTIONS, weights)
        other = save(h5py, tmp_path / "other", OPTIONS, random_weights(OPTIONS, seed=1))
        plain = save(h5py, tmp_path / "plain", replace(OPTIONS, has_skips=False), weights)
        encoders = [
            ElmoEncoder.load(first),
            ElmoEncoder.load(other),
            ElmoEncoder.load(plain),
            ElmoEncoder.load(first, features="top"),
            ElmoEncoder.load(first, precision="float16"),
        ]
        assert len({encoder.digest for encoder in encoders}) == 5

    def test_every_wrong_array_is_named(self, h5py: Any, tmp_path: Path) -> None:
        weights = random_weights(OPTIONS)
        del weights["CNN_proj/b_proj"]
        weights["char_embed"] = weights["char_embed"][:-1]
        weights["CNN/b_cnn_0"][0] = np.nan
        weights["CNN/b_cnn_1"] = weights["CNN/b_cnn_1"].astype(np.int64)
        with pytest.raises(FednerError) as error:
            ElmoEncoder.load(save(h5py, tmp_path, OPTIONS, weights))
        for part in (
            "CNN_proj/b_proj: missing",
            "char_embed: float32 of shape (260, 3); expected floats of shape (261, 3)",
            "CNN/b_cnn_0: not finite",
            "CNN/b_cnn_1: int64",
        ):
            assert part in error.value.message

    def test_a_group_in_the_place_of_an_array(self, h5py: Any, tmp_path: Path) -> None:
        save(h5py, tmp_path, OPTIONS, {"char_embed/inside": np.zeros(1, np.float32)})
        with pytest.raises(FednerError, match="char_embed: missing"):
            ElmoEncoder.load(tmp_path)

    def test_damaged_weights(self, h5py: Any, tmp_path: Path) -> None:
        save(h5py, tmp_path, OPTIONS, random_weights(OPTIONS))
        whole = (tmp_path / "weights.hdf5").read_bytes()
        (tmp_path / "weights.hdf5").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(FednerError, match="not a valid HDF5 file"):
            ElmoEncoder.load(tmp_path)
        (tmp_path / "weights.hdf5").unlink()
        with pytest.raises(FednerError, match=r"holds 0 files \*weights.hdf5"):
            ElmoEncoder.load(tmp_path)
        with pytest.raises(FednerError, match="no file"):
            ElmoEncoder.load(tmp_path / "options.json", weights=tmp_path / "weights.hdf5")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"lstm": {}}, "KeyError"),
            ({"char_cnn": None}, "TypeError"),
            ({"char_cnn": {**as_json(OPTIONS)["char_cnn"], "filters": [[1]]}}, "ValueError"),
            ({"char_cnn": {**as_json(OPTIONS)["char_cnn"], "filters": []}}, "fit no ELMo"),
            ({"char_cnn": {**as_json(OPTIONS)["char_cnn"], "filters": [[9, 1]]}}, "fit no ELMo"),
            ({"char_cnn": {**as_json(OPTIONS)["char_cnn"], "activation": "sin"}}, "fit no ELMo"),
            ({"lstm": {**as_json(OPTIONS)["lstm"], "dim": 0}}, "fit no ELMo"),
        ],
    )
    def test_options_of_no_sense(
        self, tmp_path: Path, change: dict[str, Any], message: str
    ) -> None:
        path = tmp_path / "options.json"
        path.write_text(json.dumps({**as_json(OPTIONS), **change}))
        with pytest.raises(FednerError, match=message):
            read_options(path)

    @pytest.mark.parametrize("text", ["", "[]", "{", "3", '"x"'])
    def test_options_that_are_none(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "options.json").write_text(text)
        with pytest.raises(FednerError, match="not the options file"):
            read_options(tmp_path / "options.json")

    def test_missing_options_and_two_of_them(self, tmp_path: Path) -> None:
        with pytest.raises(FednerError, match="cannot read"):
            read_options(tmp_path / "options.json")
        for name in ("a_options.json", "b_options.json"):
            (tmp_path / name).write_text("{}")
        with pytest.raises(FednerError, match="holds 2 files"):
            find_files(tmp_path)

    def test_unknown_settings(self, tmp_path: Path) -> None:
        settings: list[dict[str, Any]] = [{"features": "all"}, {"precision": "int8"}]
        for setting in settings:
            with pytest.raises(FednerError, match="features '"):
                ElmoEncoder.load(tmp_path, **setting)

    def test_without_the_library_the_extra_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "h5py", None)
        (tmp_path / "options.json").write_text(json.dumps(as_json(OPTIONS)))
        (tmp_path / "weights.hdf5").write_bytes(b"")
        with pytest.raises(FednerError, match="h5py") as error:
            ElmoEncoder.load(tmp_path)
        assert "fedner[elmo]" in error.value.hint


SETS = {"allennlp": "sentences.json", "bilm-tf": "lm_embeddings_sentences.json"}


def read_batch(
    model: BiLanguageModel, batch: list[list[str]], memory: Memory | None
) -> tuple[list[np.ndarray], Memory]:
    """The top layer of each sentence, and where it ended."""
    words = sorted({word for sentence in batch for word in sentence})
    codes = encode_characters(words, model.options.max_characters)
    vectors = model.read_words(torch.from_numpy(codes))
    lengths = [len(sentence) + 2 for sentence in batch]
    rows = torch.ones((max(lengths), len(batch)), dtype=torch.long)
    for column, sentence in enumerate(batch):
        line = [0, *(words.index(word) + 2 for word in sentence)]
        rows[: len(line), column] = torch.tensor(line)
    layers, memory = model.read_sentences(vectors[rows], lengths, memory)
    return [layers[-1, 1 : n - 1, column].numpy() for column, n in enumerate(lengths)], memory


@pytest.mark.data
@pytest.mark.parametrize("kind", list(SETS))
class TestGoldens:
    """The published outputs: three rows of ten sentences, the top layer in both directions."""

    def load(self, h5py: Any, data: Path, kind: str) -> tuple[Any, Any]:
        folder = data / "elmo-fixtures" / kind
        given = json.loads((folder / SETS[kind]).read_text())
        rows = [[sentence.split() for sentence in row] for row in given]
        goldens = []
        for number in range(len(rows)):
            with h5py.File(folder / f"lm_embeddings_{number}.hdf5") as archive:
                both = [archive[str(batch)][...] for batch in range(10)]
            goldens.append([np.concatenate([forward, back], -1) for forward, back in both])
        return list(zip(*rows, strict=True)), list(zip(*goldens, strict=True))

    def test_state_carried_from_batch_to_batch(self, h5py: Any, data: Path, kind: str) -> None:
        batches, goldens = self.load(h5py, data, kind)
        encoder = ElmoEncoder.load(data / "elmo-fixtures" / kind)
        assert encoder.model.options.has_skips == (kind == "allennlp")
        memory: Memory | None = None
        for batch, expected in zip(batches, goldens, strict=True):
            found, memory = read_batch(encoder.model, list(batch), memory)
            for one, two in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, two, atol=1e-5, rtol=0)

    def test_without_it_only_the_first_batch_is_alike(
        self, h5py: Any, data: Path, kind: str
    ) -> None:
        batches, goldens = self.load(h5py, data, kind)
        encoder = ElmoEncoder.load(data / "elmo-fixtures" / kind, features="top")
        for number, (batch, expected) in enumerate(zip(batches, goldens, strict=True)):
            pairs = zip(encoder.encode(list(batch)), expected, strict=True)
            difference = max(np.abs(one - two).max() for one, two in pairs)
            assert difference < 1e-5 if number == 0 else difference > 0.1

    def test_words_below_the_lstms(self, h5py: Any, data: Path, kind: str) -> None:
        if kind != "allennlp":
            pytest.skip("bilm-tf publishes none")
        folder = data / "elmo-fixtures" / kind
        model = ElmoEncoder.load(folder).model
        words = (folder / "vocab_test.txt").read_text().split("\n")
        with h5py.File(folder / "elmo_token_embeddings.hdf5") as archive:
            expected = archive["embedding"][...]
        codes = encode_characters(words, model.options.max_characters)
        marks, found = np.split(model.read_words(torch.from_numpy(codes)).numpy(), [2])
        # Two entries of the vocabulary are the marks of a sentence's ends.
        found[words.index("<S>")], found[words.index("</S>")] = marks
        np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


class TestScalarMix:
    def test_begins_as_the_plain_mean(self) -> None:
        layers = torch.randn(2, 5, 3 * 4)
        expected = layers.view(2, 5, 3, 4).mean(dim=2)
        torch.testing.assert_close(ScalarMix(3)(layers), expected)

    def test_weighs_by_softmax_and_factor(self) -> None:
        mix = ScalarMix(2)
        with torch.no_grad():
            mix.weights.copy_(torch.tensor([0.0, np.log(3.0)]))
            mix.factor.fill_(2.0)
        layers = torch.tensor([[1.0, 2.0, 10.0, 20.0]])
        torch.testing.assert_close(mix(layers), torch.tensor([[15.5, 31.0]]))
        assert (mix(torch.zeros(1, 4)) == 0).all()

    def test_gradients(self) -> None:
        mix = ScalarMix(3).double()
        layers = torch.randn(4, 6, dtype=torch.double, requires_grad=True)
        assert torch.autograd.gradcheck(mix, (layers,))
        mix(layers).square().sum().backward()
        assert mix.weights.grad is not None
        assert mix.weights.grad.abs().min() > 0

    def test_features_that_are_no_layers(self) -> None:
        with pytest.raises(FednerError, match="13 context features are not 3 layers"):
            ScalarMix(3)(torch.zeros(1, 13))
        with pytest.raises(FednerError, match="a mix of 0 layers"):
            ScalarMix(0)

    @pytest.mark.parametrize(
        ("cut", "is_shared"),
        [
            ("embeddings", True),
            ("fedner", True),
            ("encoder", True),
            ("everything", True),
            ("nothing", False),
            (("word_cnn",), False),
        ],
    )
    def test_every_cut_that_shares_the_embeddings_shares_it(
        self, cut: str | tuple[str, ...], is_shared: bool
    ) -> None:
        split = partition(trainable(mixed_tagger()), cut)
        for name in ("embeddings.mix.weights", "embeddings.mix.factor"):
            assert (name in split.shared) is is_shared
            assert (name in split.private) is not is_shared

    def test_in_a_tagger_it_is_trained(self) -> None:
        tagger, platform = mixed_tagger(), small_platform()
        assert tagger.embeddings.mix is not None
        assert tagger.embeddings.dimension_out == 40 + 20 + CONTEXT_DIMENSION
        assert (tagger.embeddings.mix.weights == 0).all()
        assert (tagger.embeddings.mix.factor == 1).all(), "it begins as the plain mean"
        corpus = platform.encoded(small(RECIPES["ELMoNER"]), 3 * CONTEXT_DIMENSION)
        train(tagger, corpus, TrainingSettings(epochs=2, batch_size=8), seed=1)
        assert len(set(tagger.embeddings.mix.weights.tolist())) == 3
        assert tagger.embeddings.mix.factor.item() != 1.0

    def test_untrained_it_is_a_tagger_of_the_mean(self) -> None:
        platform, recipe = small_platform(), small(RECIPES["ELMoNER"])
        plain = build_tagger(recipe, platform.words, platform.space, CONTEXT_DIMENSION).eval()
        corpus = platform.encoded(recipe, 3 * CONTEXT_DIMENSION)
        batch = collate(corpus, range(8))
        assert batch.context_BLD is not None
        mean_BLD = batch.context_BLD.unflatten(-1, (3, -1)).mean(dim=-2)
        found = mixed_tagger().eval()(batch)
        torch.testing.assert_close(found, plain(replace(batch, context_BLD=mean_BLD)))

    def test_layers_without_features_to_mix(self) -> None:
        platform = small_platform()
        with pytest.raises(FednerError, match="3 layers of them are to be mixed"):
            build_tagger(
                small(RECIPES["LSTM-CRF"]), platform.words, platform.space, context_layers=3
            )
        with pytest.raises(FednerError, match="13 context features are not 3 layers"):
            build_tagger(RECIPES["ELMoNER"], platform.words, platform.space, 13, context_layers=3)


class TestInATagger:
    def test_the_origin_tells_how_many_layers(self) -> None:
        origin = EmbeddingOrigin("elmo", "tiny", "0" * 64, 24, {"features": "layers"}, layers=3)
        assert EmbeddingOrigin.from_json(origin.to_json()) == origin
        single = replace(origin, layers=1)
        assert "layers" not in single.to_json(), "as checkpoints have it that knew of none"
        assert EmbeddingOrigin.from_json(single.to_json()) == single
        for wrong in (0, "3", None):
            with pytest.raises(FednerError, match="layers"):
                EmbeddingOrigin.from_json({**origin.to_json(), "layers": wrong})

    def test_a_saved_tagger_has_its_mix_and_predicts_the_same(
        self, h5py: Any, tmp_path: Path
    ) -> None:
        folder = save(h5py, tmp_path / "elmo", OPTIONS, random_weights(OPTIONS))
        encoder = open_context_encoder(folder)
        assert (encoder.origin.layers, encoder.dimension) == (3, 24)
        platform, recipe = small_platform(), small(RECIPES["ELMoNER"])
        features = encoder.encode([sentence.tokens for sentence in platform.sentences])
        context_TD = torch.from_numpy(np.concatenate(features)).half()
        corpus = encode_corpus(
            platform.sentences, platform.words, space=platform.space, context_TD=context_TD
        )
        tagger = build_tagger(recipe, platform.words, platform.space, 24, context_layers=3)
        train(tagger, corpus, TrainingSettings(epochs=1, batch_size=8), seed=1)
        save_tagger(
            tmp_path / "model",
            tagger,
            recipe,
            platform.space,
            context=encoder.origin,
            paths=EmbeddingPaths(context=folder),
        )
        loaded = load_tagger(tmp_path / "model")
        assert loaded.encoder is not None
        assert loaded.encoder.origin == encoder.origin
        batch = collate(corpus, range(20))
        assert torch.equal(loaded.tagger(batch), tagger.eval()(batch))
        found = Predictor.of(loaded).predict_tokens([platform.sentences[0].tokens])
        assert len(found) == 1

    @pytest.mark.data
    @pytest.mark.usefixtures("h5py")
    def test_the_published_elmo(self, data: Path) -> None:
        encoder = open_context_encoder(data / "elmo-fixtures" / "allennlp")
        layers = encoder.encode([["the", "patient", "had", "a", "rash"]])[0]
        mix = ScalarMix(encoder.origin.layers)
        mean = ElmoEncoder.load(data / "elmo-fixtures" / "allennlp", features="mean")
        expected = mean.encode([["the", "patient", "had", "a", "rash"]])[0]
        found = mix(torch.from_numpy(layers)).detach().numpy()
        np.testing.assert_allclose(found, expected, atol=1e-5)


def mixed_tagger() -> Tagger:
    platform, recipe = small_platform(), small(RECIPES["ELMoNER"])
    dimension = 3 * CONTEXT_DIMENSION
    return build_tagger(recipe, platform.words, platform.space, dimension, context_layers=3)
