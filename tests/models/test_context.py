"""The cache of context features: right, private, resumable, and never half."""

import json
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.models.embeddings import context
from fedner.models.embeddings.context import (
    ContextFeatures,
    cached_features,
    content_key,
    open_features,
    plan_batches,
)
from traced import traced_peak

SENTENCES = [["a", "fever"], [], ["x"] * 40, ["no", "pain", "today"], ["a", "fever"], ["é"]]


class Lengths:
    """An encoder of three obvious features, which counts how often it is asked."""

    name = "lengths"
    dimension = 3

    def __init__(self, digest: str = "1", fail_after: int = 10**9) -> None:
        self.digest = digest
        self.num_encoded = 0
        self.fail_after = fail_after

    def encode(self, sentences: list) -> list:
        out = []
        for tokens in sentences:
            if self.num_encoded >= self.fail_after:
                raise KeyboardInterrupt
            self.num_encoded += 1
            rows = [[len(t), position, len(tokens)] for position, t in enumerate(tokens)]
            out.append(np.array(rows, dtype=np.float32).reshape(-1, 3))
        return out


def check(features: ContextFeatures, sentences: list) -> None:
    expected = Lengths().encode(sentences)
    assert len(features) == len(sentences)
    for index, rows in enumerate(expected):
        assert features[index].dtype == np.float16
        np.testing.assert_array_equal(features[index], rows)
    tokens = np.concatenate(expected)
    np.testing.assert_array_equal(features.whole(), tokens)
    np.testing.assert_array_equal(features.take(np.int64([3, 0, 3])), tokens[[3, 0, 3]])


class Together(Lengths):
    """An encoder whose features depend on how many sentences it reads at once."""

    def encode(self, sentences: list) -> list:
        return [rows + 0.25 * len(sentences) for rows in super().encode(sentences)]


def test_one_by_one_a_sentence_has_its_features_from_nobody_else(tmp_path: Path) -> None:
    every = cached_features(Together(), SENTENCES, tmp_path, one_by_one=True)
    fewer = cached_features(Together(), SENTENCES[:-1], tmp_path, one_by_one=True)
    for index in range(len(SENTENCES) - 1):
        np.testing.assert_array_equal(every[index], fewer[index])
    batched = cached_features(Together(), SENTENCES, tmp_path)  # has a cache of its own
    assert not np.array_equal(batched[0], every[0])


def test_features_are_computed_once(tmp_path: Path) -> None:
    encoder, seen = Lengths(), []
    check(cached_features(encoder, SENTENCES, tmp_path, lambda *at: seen.append(at)), SENTENCES)
    assert encoder.num_encoded == 5
    assert seen[-1] == (48, 48)
    features = cached_features(encoder, SENTENCES, tmp_path)
    check(features, SENTENCES)
    assert encoder.num_encoded == 5
    copied = pickle.loads(pickle.dumps(features))  # noqa: S301  # our own object, as workers get it
    check(copied, SENTENCES)
    with pytest.raises(IndexError):
        features[6]
    np.testing.assert_array_equal(features[-1], features[5])


def test_text_weights_and_order_each_make_another_cache(tmp_path: Path) -> None:
    keys = {
        content_key(Lengths(), SENTENCES),
        content_key(Lengths("2"), SENTENCES),
        content_key(Lengths(), SENTENCES[::-1]),
        content_key(Lengths(), [["a fever"]]),
        content_key(Lengths(), [["a", "fever"]]),
        content_key(Lengths(), [["af", "ever"]]),
        content_key(Lengths(), [["a"], ["fever"]]),
        content_key(Lengths(), [["a", "fever"], []]),
        content_key(Lengths(), []),
    }
    assert len(keys) == 9


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
def test_only_the_owner_can_read(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        cached_features(Lengths(), SENTENCES, tmp_path / "cache")
    finally:
        os.umask(before)
    for path in [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize("name", ["features.npy", "offsets.npy", "blocks.npy", "about.json"])
@pytest.mark.parametrize("damage", ["cut", "alter", "remove"])
def test_a_damaged_cache_is_refused(tmp_path: Path, name: str, damage: str) -> None:
    path = cached_features(Lengths(), SENTENCES, tmp_path).folder / name
    data = bytearray(path.read_bytes())
    path.unlink()
    data[-3] ^= 1
    if damage != "remove":
        path.write_bytes(data[:-1] if damage == "cut" else data)
    with pytest.raises(FednerError):
        open_features(path.parent).whole()


def test_an_interrupted_computation_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "JOURNAL_SECONDS", 0.0)
    monkeypatch.setattr(
        context, "plan_batches", lambda sentences, _: plan_batches(sentences, characters=10)
    )
    with pytest.raises(KeyboardInterrupt):
        cached_features(Lengths(fail_after=3), SENTENCES, tmp_path)
    assert not (tmp_path / content_key(Lengths(), SENTENCES)).exists()
    resumed = Lengths()
    check(cached_features(resumed, SENTENCES, tmp_path), SENTENCES)
    assert resumed.num_encoded == 2


@pytest.mark.parametrize("damage", [b"", b"nonsense\n", b"other 48 3\n2\n"])
def test_a_journal_that_does_not_fit_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes
) -> None:
    monkeypatch.setattr(context, "JOURNAL_SECONDS", 0.0)
    with pytest.raises(KeyboardInterrupt):
        cached_features(Lengths(fail_after=0), SENTENCES, tmp_path)
    (journal,) = tmp_path.glob(".*.journal")
    journal.write_bytes(damage)
    encoder = Lengths()
    check(cached_features(encoder, SENTENCES, tmp_path), SENTENCES)
    assert encoder.num_encoded == 5


def test_a_line_of_the_journal_cut_off_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "JOURNAL_SECONDS", 0.0)
    sentences = [[f"w{i}" * 10] for i in range(30)]
    monkeypatch.setattr(context, "plan_batches", lambda s, _: plan_batches(s, characters=1))
    with pytest.raises(KeyboardInterrupt):
        cached_features(Lengths(fail_after=12), sentences, tmp_path)
    (journal,) = tmp_path.glob(".*.journal")
    assert journal.read_bytes().endswith(b"\n12\n")
    journal.write_bytes(journal.read_bytes()[:-1])
    encoder = Lengths()
    check(cached_features(encoder, sentences, tmp_path), sentences)
    assert encoder.num_encoded == 19


KILLED = """
import sys, time
sys.path += {tests!r}
from pathlib import Path
from test_context import Lengths, cached_features, context, plan_batches
context.JOURNAL_SECONDS = 0.0
class Slow(Lengths):
    def encode(self, sentences):
        time.sleep(0.01)
        return super().encode(sentences)
context.plan_batches = lambda sentences, _: plan_batches(sentences, 1)
cached_features(Slow(), [[f"w{{i}}"] * 5 for i in range(200)], Path({folder!r}),
                lambda done, total: print(done, flush=True))
"""


def test_kill_at_any_moment_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "plan_batches", lambda s, _: plan_batches(s, characters=1))
    sentences = [[f"w{i}"] * 5 for i in range(200)]
    script = KILLED.format(tests=sys.path, folder=str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    for _ in range(20):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not (tmp_path / content_key(Lengths(), sentences)).exists()
    encoder = Lengths()
    check(cached_features(encoder, sentences, tmp_path), sentences)
    assert encoder.num_encoded < 190  # at least what the journal had was not computed again
    assert not list(tmp_path.glob(".*.part"))
    assert not list(tmp_path.glob(".*.journal"))


def test_killed_while_sealing_computes_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(context, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            cached_features(Lengths(), SENTENCES, tmp_path)
    encoder = Lengths()
    check(cached_features(encoder, SENTENCES, tmp_path), SENTENCES)
    assert encoder.num_encoded == 0


def test_an_encoder_that_breaks_its_promise_is_named(tmp_path: Path) -> None:
    class Wrong(Lengths):
        def encode(self, sentences: list) -> list:
            return [np.full((len(s), 3), 1e9, dtype=np.float32) for s in sentences]

    with pytest.raises(FednerError, match=r"encoder lengths .* finite in half precision: False"):
        cached_features(Wrong(), SENTENCES, tmp_path)


def test_an_empty_corpus(tmp_path: Path) -> None:
    for sentences in ([], [[]]):
        features = cached_features(Lengths(), sentences, tmp_path)
        assert (len(features), features.num_tokens) == (len(sentences), 0)
        assert features.whole().shape == (0, 3)


@given(st.lists(st.lists(st.text(max_size=5), max_size=6), max_size=20), st.integers(1, 60))
def test_batches_cover_every_sentence_once(sentences: list, characters: int) -> None:
    batches = plan_batches(sentences, characters)
    assert sorted(i for b in batches for i in b) == [i for i, s in enumerate(sentences) if s]
    for batch in batches:
        widths = [sum(map(len, sentences[i])) + len(sentences[i]) for i in batch]
        assert widths == sorted(widths, reverse=True)
        assert len(batch) == 1 or widths[0] * len(batch) <= characters


def test_opening_reads_nothing_however_large(tmp_path: Path) -> None:
    sentences = [["w"] * 1000 for _ in range(24)]  # 24 MB, of which one is asked for

    class Wide(Lengths):
        dimension = 500

        def encode(self, sentences: list) -> list:
            return [np.ones((len(s), 500), np.float32) for s in sentences]

    folder = cached_features(Wide(), sentences, tmp_path).folder
    assert json.loads((folder / "about.json").read_bytes())["encoder"] == "lengths"
    sums: list[float] = []
    peak = traced_peak(lambda: sums.append(open_features(folder)[17].sum(dtype=np.float64)))
    assert sums == [500_000]
    assert peak < 6 * 2**20
