"""The word embedding as a module, and row-sparse Adam against dense Adam."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fedner.errors import FednerError
from fedner.models.embeddings.sparse_rows import SparseRowsAdam, clip_gradient_norm
from fedner.models.embeddings.words import HashedWords, WordEmbedding, WordVectors

SOURCE = HashedWords(30, 5)


def test_a_frozen_table_is_no_parameter_and_in_no_state_dict(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("a 1 2\nb 3 4\n")
    vectors = WordVectors.open(tmp_path / "v.txt", cache=tmp_path / "cache")
    for source in (SOURCE, vectors):
        embedding = WordEmbedding(source)
        assert not list(embedding.parameters())
        assert not embedding.state_dict()
        assert copy.deepcopy(embedding).source is source
    embedding = WordEmbedding(vectors)
    rows = torch.from_numpy(vectors.rows(["b", "a", "?"]))
    out = embedding(torch.cat([rows, torch.tensor([0])]).reshape(2, 2))
    assert out.tolist() == [[[3, 4], [1, 2]], [[2, 3], [0, 0]]]
    assert not out.requires_grad


@pytest.mark.parametrize("row_sparse", [True, False])
def test_the_gradient_is_that_of_a_plain_embedding(row_sparse: bool) -> None:
    embedding = WordEmbedding(SOURCE, trainable=True, row_sparse=row_sparse)
    plain = nn.Embedding.from_pretrained(
        embedding.weight.detach().clone(), freeze=False, padding_idx=0
    )
    rows = torch.tensor([[3, 0, 3], [7, 1, 0]])
    weights = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    for module in (embedding, plain):
        (module(rows).sin() * weights).sum().backward()
    assert embedding.weight.grad is not None
    assert embedding.weight.grad.is_sparse == row_sparse
    torch.testing.assert_close(embedding.weight.grad.to_dense(), plain.weight.grad)
    assert not embedding.weight.grad.to_dense()[0].any()
    assert list(embedding.state_dict()) == ["weight"]


def train(
    embedding: WordEmbedding, batches: list[torch.Tensor], rates: list[float], betas: tuple
) -> list[float]:
    """Train towards fixed targets; the loss of each step shows what forward read."""
    targets = torch.randn(SOURCE.num_rows, 5, generator=torch.Generator().manual_seed(1))
    if embedding.row_sparse:
        optimizer = SparseRowsAdam(embedding.weight, betas=betas)
        embedding.follow(optimizer)
    else:
        optimizer = torch.optim.Adam(embedding.parameters(), betas=betas)
    losses = []
    for rows, rate in zip(batches, rates, strict=True):
        if embedding.row_sparse:
            optimizer.lr = rate
        else:
            optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        loss = ((embedding(rows) - targets[rows]) ** 2).sum()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=6), min_size=1, max_size=60),
    st.sampled_from([(0.9, 0.999), (0.5, 0.9), (0.9, 0.5), (0.0, 0.0)]),
    st.integers(0, 10**6),
)
def test_row_sparse_adam_equals_dense_adam(
    accesses: list[list[int]], betas: tuple[float, float], seed: int
) -> None:
    batches = [torch.tensor(rows) for rows in accesses]
    rates = np.random.default_rng(seed).uniform(0, 0.02, len(batches)).tolist()
    lazy = WordEmbedding(SOURCE, trainable=True)
    dense = WordEmbedding(SOURCE, trainable=True, row_sparse=False)
    lazy_losses = train(lazy, batches, rates, betas)
    dense_losses = train(dense, batches, rates, betas)
    assert lazy_losses == pytest.approx(dense_losses, rel=1e-5, abs=1e-5)
    torch.testing.assert_close(
        lazy.state_dict()["weight"], dense.state_dict()["weight"], atol=1e-6, rtol=1e-6
    )


def test_rows_idle_for_thousands_of_steps_are_caught_up_exactly() -> None:
    batches = [torch.tensor([1, 2, 3]), torch.tensor([4])] + [torch.tensor([5, 6])] * 2500
    batches += [torch.tensor([1, 4])]
    rates = [0.01 * (1 + 0.5 * np.sin(i / 50)) for i in range(len(batches))]
    lazy = WordEmbedding(SOURCE, trainable=True)
    dense = WordEmbedding(SOURCE, trainable=True, row_sparse=False)
    train(lazy, batches, rates, (0.9, 0.999))
    train(dense, batches, rates, (0.9, 0.999))
    stale = lazy.weight.detach().clone()
    assert (stale[2] - dense.weight[2]).abs().max() > 1e-3  # so there is something to catch up
    torch.testing.assert_close(lazy.state_dict()["weight"], dense.weight.data, atol=1e-6, rtol=1e-6)


def test_a_resumed_optimizer_goes_on_bit_for_bit() -> None:
    generator = torch.Generator().manual_seed(3)
    batches = [torch.randint(0, 31, (5,), generator=generator) for _ in range(40)]

    def steps(embedding: WordEmbedding, optimizer: SparseRowsAdam, part: list) -> None:
        embedding.follow(optimizer)
        for rows in part:
            optimizer.zero_grad()
            (embedding(rows) ** 2).sum().backward()
            optimizer.step()

    whole = WordEmbedding(SOURCE, trainable=True)
    steps(whole, SparseRowsAdam(whole.weight), batches)
    first = WordEmbedding(SOURCE, trainable=True)
    optimizer = SparseRowsAdam(first.weight)
    steps(first, optimizer, batches[:17])
    state, weight = optimizer.state_dict(), first.weight.detach().clone()
    second = WordEmbedding(SOURCE, trainable=True)
    second.weight.data.copy_(weight)
    resumed = SparseRowsAdam(second.weight)
    resumed.load_state_dict(state)
    steps(second, resumed, batches[17:])
    assert torch.equal(second.state_dict()["weight"], whole.state_dict()["weight"])
    with pytest.raises(FednerError, match="not one of row-sparse Adam"):
        resumed.load_state_dict({"rows": state["rows"]})


def test_plain_sgd_takes_row_sparse_gradients() -> None:
    results = []
    for row_sparse in (True, False):
        embedding = WordEmbedding(SOURCE, trainable=True, row_sparse=row_sparse)
        optimizer = torch.optim.SGD(embedding.parameters(), lr=0.1)
        for rows in ([1, 1, 2], [2, 9], [1]):
            optimizer.zero_grad()
            (embedding(torch.tensor(rows)) ** 3).sum().backward()
            optimizer.step()
        results.append(embedding.weight.detach().clone())
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("max_norm", [0.5, 1e6])
def test_clipping_equals_the_dense_one(max_norm: float) -> None:
    norms, gradients = [], []
    for row_sparse in (True, False):
        embedding = WordEmbedding(SOURCE, trainable=True, row_sparse=row_sparse)
        other = nn.Parameter(torch.ones(3))
        for rows in ([1, 2, 1], [2, 5]):  # two backward passes: rows repeat in the sum
            ((embedding(torch.tensor(rows)) * 3).sum() + (other**2).sum()).backward()
        parameters = [embedding.weight, other, nn.Parameter(torch.ones(1))]
        clip = clip_gradient_norm if row_sparse else nn.utils.clip_grad_norm_
        norms.append(float(clip(parameters, max_norm)))
        gradients.append((embedding.weight.grad.to_dense(), other.grad))
    assert norms[0] == pytest.approx(norms[1], rel=1e-6)
    torch.testing.assert_close(gradients[0], gradients[1])


def test_misuse_is_refused() -> None:
    embedding = WordEmbedding(SOURCE, trainable=True)
    other = WordEmbedding(SOURCE, trainable=True)
    with pytest.raises(FednerError, match="another parameter"):
        embedding.follow(SparseRowsAdam(other.weight))
    with pytest.raises(FednerError, match="has no rows"):
        SparseRowsAdam(nn.Parameter(torch.ones(3)))
    with pytest.raises(FednerError, match="lr -1"):
        SparseRowsAdam(other.weight, lr=-1)
