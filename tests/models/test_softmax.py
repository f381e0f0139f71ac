"""The softmax decoder: against the CRF without transitions, which is the same model."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.models.layers.crf import CRF
from fedner.models.layers.softmax import SoftmaxDecoder


@settings(max_examples=30, deadline=None)
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_a_crf_of_zeros_is_a_softmax(lengths: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    longest, num_tags = max(1, *lengths), 3
    emissions = torch.randn(len(lengths), longest, num_tags, generator=generator)
    tags = torch.randint(num_tags, (len(lengths), longest), generator=generator)
    allowed = torch.rand(emissions.shape, generator=generator) < 0.5
    allowed.scatter_(2, tags.unsqueeze(-1), True)
    lengths_B = torch.tensor(lengths)
    crf, softmax = CRF(num_tags), SoftmaxDecoder(num_tags)
    for ours, theirs in (
        (
            softmax.log_likelihood(emissions, tags, lengths_B),
            crf.log_likelihood(emissions, tags, lengths_B),
        ),
        (
            softmax.partial_log_likelihood(emissions, allowed, lengths_B),
            crf.partial_log_likelihood(emissions, allowed, lengths_B),
        ),
        (softmax.marginals(emissions, lengths_B), crf.marginals(emissions, lengths_B)),
        *zip(softmax.viterbi(emissions, lengths_B), crf.viterbi(emissions, lengths_B), strict=True),
    ):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_gradients_are_finite_behind_the_end() -> None:
    emissions = torch.randn(2, 3, 2, requires_grad=True)
    allowed = torch.zeros(2, 3, 2, dtype=torch.bool)
    allowed[0, :, 0] = allowed[1, :1, 1] = True
    lengths = torch.tensor([3, 1])
    value = SoftmaxDecoder(2).partial_log_likelihood(emissions, allowed, lengths)
    value.sum().backward()
    assert torch.isfinite(emissions.grad).all()
    assert not emissions.grad[1, 1:].any()


def test_it_has_no_parameters() -> None:
    assert not list(SoftmaxDecoder(4).parameters())
    with pytest.raises(RuntimeError):
        SoftmaxDecoder(4).log_likelihood(
            torch.zeros(1, 2, 4), torch.full((1, 2), 7), torch.tensor([2])
        )
