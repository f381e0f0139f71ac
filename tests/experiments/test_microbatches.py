"""Copies of a corpus in micro-batches: nothing is lost, and clipping sums is clipping means."""

from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.corpus.prepare import prepare
from fedner.corpus.reading import read_recognised
from fedner.corpus.sentence import Entity, Sentence
from fedner.corpus.synthetic import generate
from fedner.corpus.writers.jsonl import write_jsonl
from fedner.errors import FednerError
from fedner.experiments.microbatches import assignments, main, microbatches, write_microbatches
from fedner.privacy.noise import clip
from fedner.runs.checks import read_settings
from fedner.runs.folder import PRIVACY, RunFolder
from fedner.runs.simulation import train_run

TOKENS = st.lists(st.text("abÄ😀.", min_size=1, max_size=4), min_size=1, max_size=5)


def flat(path: Path) -> list[tuple[tuple[str, ...], tuple[Entity, ...]]]:
    recognition, corpus = read_recognised(path)
    found = prepare(corpus, sentences=recognition.sentence_choice).sentences
    return [(each.tokens, each.entities) for each in found]


@settings(deadline=None)
@given(st.lists(TOKENS, max_size=9), st.integers(1, 4))
def test_sentences_come_back_token_for_token(texts: list[list[str]], size: int) -> None:
    given_ = [Sentence.of(tokens, (Entity(0, len(tokens), "X"),)) for tokens in texts]
    made = list(microbatches(given_, size))
    back = prepare(made).sentences
    assert [(each.tokens, each.entities) for each in back] == [
        (each.tokens, each.entities) for each in given_
    ]
    counts = Counter(each.document for each in back)
    assert len(counts) == -(-len(texts) // size)
    assert all(count == size for count in list(counts.values())[:-1])


def test_a_copy_holds_the_same_sentences_in_another_order(tmp_path: Path) -> None:
    corpus = generate("forum-posts", 50, 1)
    write_jsonl(tmp_path / "own.jsonl", corpus)
    own = flat(tmp_path / "own.jsonl")
    number = write_microbatches(tmp_path / "own.jsonl", tmp_path / "by-4.jsonl", 4)
    again = flat(tmp_path / "by-4.jsonl")
    assert number == -(-len(own) // 4)
    assert Counter(again) == Counter(own)
    assert again != own
    assert read_recognised(tmp_path / "by-4.jsonl")[1].labels == corpus.labels
    write_microbatches(tmp_path / "own.jsonl", tmp_path / "by-1.jsonl", 1)
    assert flat(tmp_path / "by-1.jsonl") == again, "one order for every size"


@settings(deadline=None)
@given(st.integers(1, 6), st.floats(0.01, 10), st.integers(0, 2**32))
def test_clipping_sums_at_m_c_is_m_times_clipping_means_at_c(
    size: int, bound: float, seed: int
) -> None:
    gradients = torch.randn(size, 5, generator=torch.Generator().manual_seed(seed)).double()
    of_sum = clip({"w": gradients.sum(0)}, size * bound).value["w"]
    of_mean = clip({"w": gradients.mean(0)}, bound).value["w"]
    torch.testing.assert_close(of_sum, size * of_mean)


def test_the_settings_are_those_of_averaged_micro_batches() -> None:
    assert assignments(4, 1.5, 32, 0.15) == (
        "privacy.unit=document",
        "privacy.max_grad_norm=6.0",
        "training.batch_size=8",
        "algorithm.local.optimizer.learning_rate=0.0375",
        "platforms.0.split.by=document",
    )
    with pytest.raises(FednerError, match="whole ones"):
        assignments(5, 1.5, 32, 0.15)
    with pytest.raises(FednerError, match="at least 1"):
        write_microbatches(Path("a"), Path("b"), 0)


FEDERATION = """
[model]
recipe = "BI-LSTM-TDDL"
hidden = 4
[embeddings]
dimension = 4
buckets = 16
[partition]
shared = "everything"
[algorithm]
name = "fedavg"
local = { optimizer = { name = "sgd", learning_rate = 0.15 } }
[privacy]
mechanism = "unit-local"
max_grad_norm = 1.5
noise_multiplier = 1.0
simulation = true
[training]
rounds = 1
batch_size = 32
[[platforms]]
name = "all"
data = "own.jsonl"
labels = ["ADE", "Dosage", "Drug"]
"""


def test_the_printed_settings_train_on_the_copy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(tmp_path / "own.jsonl", generate("case-reports", 80, 1))
    (tmp_path / "federation.toml").write_text(FEDERATION)
    main([str(tmp_path / "own.jsonl"), str(tmp_path / "by-4.jsonl"), "--size", "4"])
    last = capsys.readouterr().out.splitlines()[-1]
    given_ = tuple(each.strip() for each in last.split("--set ") if each.strip())
    train_run(read_settings(tmp_path / "federation.toml", given_), tmp_path / "run")
    spent = RunFolder(tmp_path / "run").read(PRIVACY)["platforms"]["all"]
    assert (spent["unit"], spent["max_grad_norm"]) == ("document", [6.0])
    [number] = spent["public_units"]
    assert 16 <= number <= 18, "four fifths of about 21 micro-batches"
    assert spent["sampling_probability"] == [8 / number]
