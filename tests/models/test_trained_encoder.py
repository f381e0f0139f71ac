"""Encoders that are trained with their tagger: what words become, windows, weights, adapters."""

import copy
import json
import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_platform import SmallPlatform, small_platform

from fedner.cli.models import encoder_numbers
from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.models.checkpoint import EmbeddingPaths, load_tagger, save_tagger
from fedner.models.checkpoint_card import recipes_of
from fedner.models.embeddings.low_rank import AdaptedLinear, Adapter
from fedner.models.embeddings.pieces import _groups, gather_pieces
from fedner.models.embeddings.trained_encoder import PretrainedEncoder, TrainedEncoder
from fedner.models.embeddings.transformer_windows import Window, by_length, cut
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import EncodedCorpus, TagSpace, collate, encode_corpus
from fedner.models.graphed import RecordedSteps
from fedner.models.partition import partition
from fedner.models.tagger import Tagger
from fedner.models.zoo import RECIPES, build_tagger, parameter_counts
from fedner.optimizers import OptimizerSettings
from fedner.privacy.dpsgd import clipped_sum
from fedner.training import Evaluation, TrainingSettings, gradients, train, trainable
from tiny_bert import LONGEST, VOCABULARY, save_tiny_bert

RECIPE = RECIPES["transformer"]
ADAPTED = replace(RECIPE, adapter=Adapter(4, 8.0, ("query", "value")))
NO_WORDS = WordEmbedding(HashedWords(1, 1))
LONG = ["the", "patient", "had", "", "nausea", "\x00"] * 9
CAPACITY = LONGEST - 2


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path) -> PretrainedEncoder:
    return PretrainedEncoder.open(tiny_bert)


@pytest.fixture(scope="module")
def platform() -> SmallPlatform:
    return small_platform()


def tagger_of(recipe: Any, encoder: PretrainedEncoder, space: TagSpace, seed: int = 0) -> Tagger:
    return build_tagger(recipe, NO_WORDS, space, encoder.dimension, seed, encoder=encoder)


def encoded(platform: SmallPlatform, encoder: PretrainedEncoder) -> EncodedCorpus:
    pieces = encoder.pieces([sentence.tokens for sentence in platform.sentences])
    return encode_corpus(platform.sentences, NO_WORDS, space=platform.space, pieces=pieces)


def slow_pieces(folder: Path, word: str) -> list[int]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return tokenizer.encode(word, add_special_tokens=False).ids if word else []


def slow_words(folder: Path, words: list[str]) -> np.ndarray:
    """One window at a time, no padding, each word at its first piece in the best window."""
    from transformers import BertModel

    model = BertModel.from_pretrained(folder).eval()
    of_words = [slow_pieces(folder, word) for word in words]
    line = [piece for part in of_words for piece in part]
    number = 1 + max(0, -(-(len(line) - CAPACITY) // (CAPACITY - LONGEST // 4)))
    spread = max(1, number - 1)
    starts = [each * max(0, len(line) - CAPACITY) // spread for each in range(number)]
    rows, first = [], 0
    for part in of_words:
        last = first + len(part)
        margins = [
            min(
                first - start if start else len(line),
                start + CAPACITY - last if start + CAPACITY < len(line) else len(line),
            )
            if start <= first and last <= start + CAPACITY
            else -1
            for start in starts
        ]
        start = starts[int(np.argmax(margins))]
        with torch.no_grad():
            window = torch.tensor([[2, *line[start : start + CAPACITY], 3]])
            states = model(window).last_hidden_state[0].numpy()
        rows.append(states[first - start + 1] if part else np.zeros(16))
        first = last
    return np.array(rows)


class TestReading:
    def test_equals_the_slow_reading_whatever_the_batch(
        self, tiny_bert: Path, encoder: PretrainedEncoder
    ) -> None:
        sentences = [["fever"], LONG, ["Nausea", "and", "rash", "!"], ["", "a"], ["\x00"]]
        pieces = encoder.pieces(sentences)
        lengths = np.array([len(each) for each in sentences])
        batch = gather_pieces(pieces, np.cumsum(lengths) - lengths, lengths)
        found = TrainedEncoder(encoder).eval()(batch).detach().numpy()
        assert found.shape == (5, len(LONG), 16)
        assert sum(len(group[0]) for group in batch.groups) > len(sentences), "LONG has windows"
        for row, words in enumerate(sentences):
            np.testing.assert_allclose(
                found[row, : len(words)], slow_words(tiny_bert, words), atol=1e-5
            )
            assert not found[row, len(words) :].any()

    @settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.lists(st.text("ab é\x00", max_size=30), min_size=1, max_size=9), min_size=1))
    def test_any_words_alone_or_together(
        self, encoder: PretrainedEncoder, sentences: list[list[str]]
    ) -> None:
        pieces = encoder.pieces(sentences)
        lengths = np.array([len(each) for each in sentences])
        starts = np.cumsum(lengths) - lengths
        model = TrainedEncoder(encoder).eval()
        with torch.no_grad():
            together = model(gather_pieces(pieces, starts, lengths))
            for row in range(len(sentences)):
                alone = model(gather_pieces(pieces, starts[[row]], lengths[[row]]))
                assert torch.allclose(together[row, : lengths[row]], alone[0], atol=1e-5)

    @given(st.lists(st.integers(1, 80), min_size=1, max_size=60))
    def test_groups_of_like_length_lose_nothing(self, lengths: list[int]) -> None:
        nothing = np.zeros(0, np.int64)
        windows = [Window(np.zeros(n, np.int64), nothing, nothing) for n in sorted(lengths)[::-1]]
        groups = list(by_length(windows, 2))
        assert [window for group in groups for window in group] == windows
        for group, following in pairwise(groups):
            widest = len(group[0].pieces) + 2
            assert widest * len(group) >= 256
            assert len(following[0].pieces) + 2 < 0.6 * widest

    def test_a_processor_and_a_gpu_read_the_same(self, encoder: PretrainedEncoder) -> None:
        sentences = [["nausea"] * 7, *([["fever"]] * 30), *([["the", "rash"] * 5] * 30)]
        pieces = encoder.pieces(sentences)
        lengths = np.array([len(each) for each in sentences])
        starts = np.cumsum(lengths) - lengths
        windows = [
            cut(pieces.ids_P[a:b], np.arange(b - a), CAPACITY, 6, a)[0]
            for a, b in zip(pieces.offsets[starts], pieces.offsets[starts + lengths], strict=True)
        ]
        split, whole = (
            _groups(windows, len(pieces.ids_P), encoder.reading, split=each)
            for each in (True, False)
        )
        assert len(split[0]) > len(whole[0]) == 1
        for groups, cells in (split, whole):
            flat = np.concatenate([ids.reshape(-1) for ids, _ in groups])
            assert np.array_equal(flat[cells], pieces.ids_P)

    def test_a_batch_without_any_piece_still_has_gradients(
        self, encoder: PretrainedEncoder
    ) -> None:
        space = TagSpace.of(["ADE"], "BIO")
        sentences = [Sentence.of(["", "\x00"])]
        pieces = encoder.pieces([each.tokens for each in sentences])
        corpus = encode_corpus(sentences, NO_WORDS, space=space, pieces=pieces)
        for recipe in (RECIPE, ADAPTED):
            _, found = gradients(tagger_of(recipe, encoder, space), collate(corpus, [0]))
            assert all(torch.isfinite(each).all() for each in found.values())
            inner = [each for name, each in found.items() if name.startswith("embeddings")]
            assert inner
            assert not any(each.any() for each in inner)

    def test_half_precision_files_are_trained_in_full(self, tmp_path: Path) -> None:
        pytest.importorskip("transformers")
        half = PretrainedEncoder.open(save_tiny_bert(tmp_path / "half", half=True))
        assert {each.dtype for each in TrainedEncoder(half).parameters()} == {torch.float32}

    def test_no_corpus_without_pieces_and_none_of_another(
        self, encoder: PretrainedEncoder, platform: SmallPlatform
    ) -> None:
        tagger = tagger_of(RECIPE, encoder, platform.space)
        bare = encode_corpus(platform.sentences, NO_WORDS, space=platform.space)
        with pytest.raises(FednerError, match="encoded without pieces"):
            tagger.losses(collate(bare, [0]))
        with pytest.raises(FednerError, match="pieces for 1 tokens"):
            encode_corpus(platform.sentences, NO_WORDS, pieces=encoder.pieces([["a"]]))

    def test_recipe_and_encoder_must_fit(self, encoder: PretrainedEncoder) -> None:
        space = TagSpace.of(["ADE"], "BIO")
        with pytest.raises(FednerError, match="trains an encoder, but none"):
            build_tagger(RECIPE, NO_WORDS, space, 16)
        with pytest.raises(FednerError, match="trains no encoder, but one"):
            build_tagger(RECIPES["LSTM-CRF"], NO_WORDS, space, 0, encoder=encoder)
        with pytest.raises(FednerError, match="16 features"):
            build_tagger(RECIPE, NO_WORDS, space, 8, encoder=encoder)


def test_the_numbers_that_fedner_models_states() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=90,
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=11,
    )
    model = transformers.BertModel(config, add_pooling_layer=False)
    assert encoder_numbers(90, 11, 8, 3) == sum(each.numel() for each in model.parameters())
    assert encoder_numbers() == 22_565_376


class TestTraining:
    @pytest.mark.parametrize("decoder", ["crf", "softmax"])
    def test_it_learns_fifty_sentences(
        self, tmp_path: Path, platform: SmallPlatform, decoder: str
    ) -> None:
        pytest.importorskip("transformers")
        sizes = {"hidden_size": 48, "num_hidden_layers": 1, "initializer_range": 0.1}
        dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        folder = save_tiny_bert(tmp_path / "bert", **sizes, **dropout)
        encoder = PretrainedEncoder.open(folder)
        recipe = replace(RECIPE, decoder=decoder)
        tagger, corpus = tagger_of(recipe, encoder, platform.space), encoded(platform, encoder)
        plan = TrainingSettings(
            epochs=25, batch_size=5, optimizer=OptimizerSettings(learning_rate=2e-3)
        )
        train(tagger, corpus, plan, seed=1)
        scores = Evaluation(corpus, platform.sentences, platform.space).scores(tagger)
        assert scores.strict_micro.f1 > 0.9

    def test_the_pretrained_encoder_stays_what_it_is(
        self, encoder: PretrainedEncoder, platform: SmallPlatform
    ) -> None:
        before = {n: w.clone() for n, w in encoder.copy_of_model().state_dict().items()}
        corpus = encoded(platform, encoder)
        plan = TrainingSettings(
            epochs=1, batch_size=25, optimizer=OptimizerSettings(learning_rate=1e-2)
        )
        for recipe in (RECIPE, ADAPTED):
            tagger = tagger_of(recipe, encoder, platform.space)
            start = {name: weight.detach().clone() for name, weight in trainable(tagger).items()}
            train(tagger, corpus, plan, seed=1)
            moved = [
                name
                for name, each in trainable(tagger).items()
                if not torch.equal(each, start[name])
            ]
            assert any(name.startswith("embeddings.context") for name in moved)
        after = encoder.copy_of_model().state_dict()
        assert all(torch.equal(before[name], after[name]) for name in before)

    def test_what_words_do_not_pass_through_is_neither_trained_nor_shared(
        self, encoder: PretrainedEncoder, platform: SmallPlatform
    ) -> None:
        names = trainable(tagger_of(RECIPE, encoder, platform.space))
        assert not any("pooler" in name for name in names)
        cut = partition(names, RECIPE.split)
        assert {name.split(".")[0] for name in cut.private} == {"emissions", "decoder"}
        assert {".".join(name.split(".")[:2]) for name in cut.shared} == {"embeddings.context"}

    def test_all_platforms_begin_alike(
        self, encoder: PretrainedEncoder, platform: SmallPlatform
    ) -> None:
        for recipe in (RECIPE, ADAPTED):
            one = trainable(tagger_of(recipe, encoder, platform.space, seed=3))
            other = trainable(tagger_of(recipe, encoder, TagSpace.of(["X"], "BIO"), seed=3))
            for name in partition(one, "encoder").shared:
                assert torch.equal(one[name], other[name])

    def test_no_recording_and_no_dp_steps(
        self, encoder: PretrainedEncoder, platform: SmallPlatform
    ) -> None:
        batch = collate(encoded(platform, encoder), [0, 1])
        for recipe in (RECIPE, ADAPTED):
            tagger = tagger_of(recipe, encoder, platform.space)
            assert not RecordedSteps.fits(tagger, torch.device("cuda"))
            with pytest.raises(FednerError, match="has no per-unit gradient, but") as caught:
                clipped_sum(tagger, batch, [0, 1], 1.0)
            assert "Freeze it" in caught.value.hint

    def test_the_head_alone_has_per_unit_gradients(
        self, encoder: PretrainedEncoder, platform: SmallPlatform
    ) -> None:
        batch = collate(encoded(platform, encoder), [0, 1, 2])
        tagger = tagger_of(RECIPE, encoder, platform.space).eval()
        tagger.embeddings.requires_grad_(False)
        total, norms = clipped_sum(tagger, batch, [0, 1, 2], 1e6)
        loss = tagger.losses(batch).sum()
        weights = trainable(tagger)
        expected = torch.autograd.grad(loss, list(weights.values()))
        assert len(norms) == 3
        for name, each in zip(weights, expected, strict=True):
            assert torch.allclose(total.value[name].float(), each, atol=1e-4), name

    @pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
    @pytest.mark.parametrize("recipe", [RECIPE, ADAPTED], ids=["whole", "adapted"])
    def test_a_gpu_gives_the_gradients_of_the_cpu_nearly_each_time(
        self, tiny_bert: Path, platform: SmallPlatform, recipe: Any
    ) -> None:
        encoder = PretrainedEncoder.open(tiny_bert)  # its own: a frozen one moves with its tagger
        corpus = encoded(platform, encoder)
        tagger = tagger_of(recipe, encoder, platform.space).eval()
        _, expected = gradients(tagger, collate(corpus, range(32)))
        pieces = encoder.pieces([sentence.tokens for sentence in platform.sentences])
        moved = encode_corpus(
            platform.sentences, NO_WORDS, space=platform.space, pieces=pieces, device="cuda"
        )
        tagger.cuda()
        for name, each in gradients(tagger, collate(moved, range(32)))[1].items():
            assert torch.allclose(each.cpu(), expected[name], atol=1e-3, rtol=1e-2), name
        tagger.train()
        found = []
        for _ in range(2):
            torch.manual_seed(3)
            found.append(gradients(tagger, collate(moved, range(32)))[1])
        # Not the same bits: the table of pieces sums the gradients of repeated pieces atomically.
        for name, each in found[0].items():
            assert torch.allclose(each, found[1][name], atol=1e-6, rtol=1e-4), name


class TestAdapters:
    def test_before_the_first_step_the_encoder_is_the_pretrained_one_to_the_bit(
        self, encoder: PretrainedEncoder, platform: SmallPlatform
    ) -> None:
        batch = collate(encoded(platform, encoder), range(6))
        plain = tagger_of(RECIPE, encoder, platform.space).eval()
        adapted = tagger_of(ADAPTED, encoder, platform.space).eval()
        with torch.no_grad():
            assert torch.equal(plain(batch), adapted(batch))

    def test_merged_weights_give_the_same(
        self, encoder: PretrainedEncoder, platform: SmallPlatform
    ) -> None:
        corpus = encoded(platform, encoder)
        tagger = tagger_of(ADAPTED, encoder, platform.space)
        plan = TrainingSettings(
            epochs=2, batch_size=10, optimizer=OptimizerSettings(learning_rate=5e-2)
        )
        train(tagger, corpus, plan, seed=1)
        trained = tagger.embeddings.encoder
        assert trained is not None
        plain = tagger_of(RECIPE, encoder, platform.space)
        whole = plain.embeddings.encoder
        assert whole is not None
        assert whole.model is not None
        merged = trained.merged()
        assert not any(isinstance(each, AdaptedLinear) for each in merged.modules())
        whole.model.load_state_dict(merged.state_dict())
        batch = collate(corpus, range(8))
        with torch.no_grad():
            tagger.eval(), plain.eval()
            ours = trained(batch.encoder_pieces)
            assert torch.allclose(ours, whole(batch.encoder_pieces), atol=1e-5)
            fresh = tagger_of(ADAPTED, encoder, platform.space).eval().embeddings.encoder
            assert fresh is not None
            begun = fresh(batch.encoder_pieces)
        assert (ours - begun).abs().max() > 1e-2, "something was learnt"

    def test_only_adapters_and_head_are_weights(
        self, encoder: PretrainedEncoder, platform: SmallPlatform
    ) -> None:
        tagger = tagger_of(ADAPTED, encoder, platform.space)
        num_tags = len(platform.space.tags)
        assert parameter_counts(tagger) == {
            "embeddings.context": 2 * 2 * (4 * 16 + 16 * 4),
            "emissions": num_tags * 17,
            "decoder": num_tags * (num_tags + 2),
        }
        assert set(tagger.state_dict()) >= set(trainable(tagger))
        held = [name for name in tagger.state_dict() if name.startswith("embeddings")]
        assert all(name.startswith("embeddings.context.adapters.") for name in held)
        assert len(held) == 2 * 2 * 2

    def test_taggers_share_the_frozen_encoder(self, encoder: PretrainedEncoder) -> None:
        one, other = (TrainedEncoder(encoder, Adapter()).encoder for _ in range(2))
        name = "embeddings.word_embeddings.weight"
        assert one.get_parameter(name) is other.get_parameter(name)
        whole = TrainedEncoder(encoder).encoder
        assert whole.get_parameter(name).data_ptr() != one.get_parameter(name).data_ptr()

    def test_modes_and_devices_reach_the_frozen_encoder(self, encoder: PretrainedEncoder) -> None:
        adapted = TrainedEncoder(PretrainedEncoder.open(encoder.folder), Adapter())
        assert adapted.train().encoder.training
        assert not adapted.eval().encoder.training
        adapted.to(torch.float64)
        assert {each.dtype for each in adapted.encoder.parameters()} == {torch.float64}
        inner = dict(adapted.encoder.named_parameters())
        own = next(iter(adapted.adapters.values())).down  # type: ignore[union-attr]
        assert any(each is own for each in inner.values())

    def test_unknown_targets_are_named(self, encoder: PretrainedEncoder) -> None:
        with pytest.raises(FednerError, match="called q_lin") as caught:
            TrainedEncoder(encoder, Adapter(2, 2.0, ("query", "q_lin")))
        assert "query" in caught.value.hint
        with pytest.raises(FednerError, match="adapter targets"):
            TrainedEncoder(encoder, Adapter(2, 2.0, ()))


class TestDisk:
    @pytest.mark.parametrize("recipe", [RECIPE, ADAPTED], ids=["whole", "adapted"])
    def test_a_tagger_comes_back_to_the_bit(
        self,
        tmp_path: Path,
        encoder: PretrainedEncoder,
        platform: SmallPlatform,
        recipe: Any,
    ) -> None:
        corpus = encoded(platform, encoder)
        tagger = tagger_of(recipe, encoder, platform.space)
        plan = TrainingSettings(
            epochs=1, batch_size=10, optimizer=OptimizerSettings(learning_rate=1e-2)
        )
        train(tagger, corpus, plan, seed=1)
        save_tagger(
            tmp_path / "m",
            tagger,
            recipe,
            platform.space,
            context=encoder.origin,
            paths=EmbeddingPaths(context=encoder.folder),
        )
        loaded = load_tagger(tmp_path / "m")
        assert loaded.recipe == recipe
        assert loaded.encoder is None
        batch = collate(corpus, range(9))
        with torch.no_grad():
            assert torch.equal(tagger.eval()(batch), loaded.tagger(batch))
        again = loaded.tagger.embeddings.encoder
        assert again is not None
        theirs = again.source.pieces([sentence.tokens for sentence in platform.sentences])
        assert corpus.pieces is not None
        assert np.array_equal(theirs.ids_P, corpus.pieces.ids_P)

    def test_wholly_trained_it_needs_no_other_folder(
        self, tmp_path: Path, encoder: PretrainedEncoder, platform: SmallPlatform
    ) -> None:
        tagger = tagger_of(RECIPE, encoder, platform.space)
        save_tagger(tmp_path / "m", tagger, RECIPE, platform.space, context=encoder.origin)
        copied = tmp_path / "m" / "context" / "tiny-bert"
        assert "config.json" in {path.name for path in copied.iterdir()}
        assert not list(copied.glob("*.safetensors"))
        batch = collate(encoded(platform, encoder), [0, 1])
        with torch.no_grad():
            assert torch.equal(load_tagger(tmp_path / "m").tagger(batch), tagger.eval()(batch))
        config = json.loads((copied / "config.json").read_text())
        (copied / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
        with pytest.raises(FednerError, match="found neither in its folder nor where they were"):
            load_tagger(tmp_path / "m")
        given = load_tagger(tmp_path / "m", context=encoder.folder)
        with torch.no_grad():
            assert torch.equal(given.tagger(batch), tagger(batch))

    def test_adapters_need_the_very_encoder(
        self, tmp_path: Path, encoder: PretrainedEncoder, platform: SmallPlatform
    ) -> None:
        tagger = tagger_of(ADAPTED, encoder, platform.space)
        paths = EmbeddingPaths(context=encoder.folder)
        save_tagger(tmp_path / "m", tagger, ADAPTED, platform.space, context=encoder.origin)
        size = (tmp_path / "m" / "model.safetensors").stat().st_size
        assert size < 20_000, "the frozen encoder is not in it"
        with pytest.raises(FednerError, match="needs the trained transformer 'tiny-bert'"):
            load_tagger(tmp_path / "m")
        other = save_tiny_bert(tmp_path / "other", seed=1)
        with pytest.raises(FednerError, match="the model was trained with"):
            load_tagger(tmp_path / "m", context=other)
        load_tagger(tmp_path / "m", context=encoder.folder)
        save_tagger(
            tmp_path / "with",
            tagger,
            ADAPTED,
            platform.space,
            context=encoder.origin,
            paths=paths,
            include_embeddings=True,
        )
        assert (tmp_path / "with" / "context" / "tiny-bert" / "model.safetensors").is_file()

    def test_recipes_of_older_models_are_read(self) -> None:
        held = {"name": "LSTM-CRF", "paper": "p", "reading": "r", "widths": []}
        assert recipes_of({"recipe": held})[0].words
        with pytest.raises(FednerError, match="'magic'"):
            recipes_of({"recipe": {**held, "magic": 1}})

    def test_another_process_opens_the_same_encoder_or_none(self, tmp_path: Path) -> None:
        pytest.importorskip("transformers")
        folder = save_tiny_bert(tmp_path / "bert")
        encoder = PretrainedEncoder.open(folder, window=12, overlap=2)
        data = pickle.dumps(encoder)
        assert len(data) < 5_000, "the path travels, the weights do not"
        again = pickle.loads(data)  # noqa: S301 - between our own processes
        assert again.origin == encoder.origin
        assert again.reading == encoder.reading
        assert copy.deepcopy(encoder) is encoder
        save_tiny_bert(folder, seed=5)
        with pytest.raises(FednerError, match="was altered"):
            pickle.loads(data)  # noqa: S301 - between our own processes

    def test_other_families_of_encoders(self, tmp_path: Path) -> None:
        transformers = pytest.importorskip("transformers")
        folder = save_tiny_bert(tmp_path / "mpnet")
        config = transformers.MPNetConfig(
            vocab_size=len(VOCABULARY),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=8,
            max_position_embeddings=40,
        )
        transformers.MPNetModel(config).save_pretrained(folder)
        encoder = PretrainedEncoder.open(folder)
        space = TagSpace.of(["ADE"], "BIO")
        sentences = [Sentence.of(["the", "fever"])]
        pieces = encoder.pieces([each.tokens for each in sentences])
        corpus = encode_corpus(sentences, NO_WORDS, space=space, pieces=pieces)
        tagger = build_tagger(
            replace(RECIPE, adapter=Adapter(2, 2.0, ("q", "v"))),
            NO_WORDS,
            space,
            16,
            encoder=encoder,
        )
        _, found = gradients(tagger, collate(corpus, [0]))
        assert len([name for name in found if ".adapters." in name]) == 4
