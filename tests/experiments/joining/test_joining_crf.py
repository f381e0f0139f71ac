"""The stacked CRF against the product's: many models at once, each with tags of its own."""

import pytest
import torch
from torch import Tensor

from fedner.experiments.joining import stacked_crf
from fedner.experiments.joining.stack import Rows, Tags, potentials
from fedner.experiments.joining.stacked_crf import Potentials
from fedner.models.features import TagSpace
from fedner.models.layers.crf import CRF
from fedner.models.layers.kind_crf import KindCRF, step_kinds

NUM_TYPES = (1, 3, 2)
LENGTHS = torch.tensor([[5, 1, 4], [2, 5, 3], [1, 1, 5]])
LONGEST = 5
KINDS = {"free": CRF, "described": KindCRF}


def space_of(number: int) -> TagSpace:
    return TagSpace.of([f"t{place}" for place in range(number)], "BIO")


def crf_of(head: str, number: int, generator: torch.Generator) -> CRF | KindCRF:
    space = space_of(number)
    crf = CRF(len(space.tags), space.transitions) if head == "free" else KindCRF(space)
    for weight in crf.parameters():
        weight.data.normal_(generator=generator)
    return crf


def stacked(crfs: list[CRF | KindCRF], emissions: list[Tensor]) -> tuple[Potentials, Tags]:
    """Return the scores of CRFs of different tags in the stack's form."""
    tags = Tags.bio([torch.zeros(number, 2) for number in NUM_TYPES], torch.device("cpu"))
    most = len(tags.is_begin_K)
    stack = torch.zeros(3, 3, LONGEST, most)
    start, end, steps = torch.zeros(3, most), torch.zeros(3, most), torch.zeros(3, most, most)
    for model, (crf, own) in enumerate(zip(crfs, emissions, strict=True)):
        num = own.shape[2]
        found = crf.potentials()
        stack[model, :, :, :num] = own
        start[model, :num], end[model, :num] = found.start_K, found.end_K
        steps[model, :num, :num] = found.transitions_KK
    stack = stack.masked_fill(~tags.is_own_MK[:, None, None], stacked_crf.FORBIDDEN)
    return Potentials(
        stack.view(9, LONGEST, most),
        start.masked_fill(~tags.starts_K, stacked_crf.FORBIDDEN),
        end,
        steps.masked_fill(~tags.allowed_KK, stacked_crf.FORBIDDEN),
        LENGTHS.flatten(),
    ), tags


@pytest.mark.parametrize("head", list(KINDS))
def test_losses_gradients_and_paths_are_those_of_each_crf(head: str) -> None:
    generator = torch.Generator().manual_seed(4)
    crfs = [crf_of(head, number, generator) for number in NUM_TYPES]
    emissions = [torch.randn(3, LONGEST, crf.num_tags, generator=generator) for crf in crfs]
    found, _ = stacked([*crfs], emissions)
    parts = [part.detach().requires_grad_() for part in found[:4]]
    found = Potentials(parts[0], parts[1], parts[2], parts[3], found.lengths_N)
    paths = stacked_crf.best_paths(found)
    gold = paths.roll(1, 0) % 2  # any tags: B of the first type or "O"
    losses = stacked_crf.losses(found, gold)
    weights = torch.linspace(0.5, 2.0, 9)
    into = torch.autograd.grad((losses * weights).sum(), parts)
    for model, (crf, own) in enumerate(zip(crfs, emissions, strict=True)):
        rows, num = slice(3 * model, 3 * model + 3), crf.num_tags
        own.requires_grad_()
        expected = -crf.log_likelihood(own, gold[rows], LENGTHS[model])
        torch.testing.assert_close(losses[rows], expected, atol=1e-5, rtol=1e-5)
        wanted = torch.autograd.grad(
            (expected * weights[rows]).sum(), [own, *crf.parameters()], allow_unused=True
        )
        torch.testing.assert_close(into[0][rows, :, :num], wanted[0], atol=1e-5, rtol=1e-4)
        assert not into[0][rows, :, num:].any()
        check_parameters(crf, [each[model] for each in into[1:]], wanted[1:])
        best, _ = crf.viterbi(own, LENGTHS[model])
        mask = torch.arange(LONGEST) < LENGTHS[model][:, None]
        assert torch.equal(paths[rows][mask], best[mask])


def check_parameters(
    crf: CRF | KindCRF, found: list[Tensor], wanted: tuple[Tensor | None, ...]
) -> None:
    num = crf.num_tags
    start, end, steps = found[0][:num], found[1][:num], found[2][:num, :num]
    if isinstance(crf, CRF):
        for own, expected in zip((start, end, steps), wanted, strict=True):
            torch.testing.assert_close(own, expected, atol=1e-5, rtol=1e-4)
    else:
        by_kind = (steps * crf.which_SKK).sum((1, 2))
        torch.testing.assert_close(by_kind, wanted[0], atol=1e-5, rtol=1e-4)


def test_steps_of_a_described_head_stand_where_the_kind_crf_has_them() -> None:
    """`decoder.steps` is in the order of the product's kinds of steps."""
    steps = torch.arange(1.0, 9.0)
    tags = Tags.bio([torch.zeros(3, 2)], torch.device("cpu"))
    weights = {
        "emissions.outside.weight": torch.zeros(1, 1, 4),
        **{
            f"emissions.{which}.{kind}.weight": torch.zeros(1, 3, size)
            for which, size in (("token", 4), ("type", 2))
            for kind in "BI"
        },
        "decoder.steps": steps[None],
    }
    rows = Rows(torch.zeros(1, 1, 2, dtype=torch.int64), torch.tensor([[2]]))
    found = potentials(weights, torch.zeros(1, 1, 2, 4), rows, tags)
    space = space_of(3)
    crf = KindCRF(space)
    crf.steps.data.copy_(steps)
    allowed = torch.tensor(space.transitions.step)
    expected = crf.potentials().transitions_KK.detach().masked_fill(~allowed, stacked_crf.FORBIDDEN)
    assert torch.equal(found.transitions_MKK[0], expected)
    begins = torch.tensor(space.transitions.start)
    assert torch.equal(found.start_MK[0] == 0, begins)
    assert len(step_kinds("BIO")) == 8


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("head", list(KINDS))
def test_the_kernel_on_a_gpu_is_the_loop(head: str) -> None:
    pytest.importorskip("triton")
    generator = torch.Generator().manual_seed(4)
    crfs = [crf_of(head, number, generator) for number in NUM_TYPES]
    emissions = [torch.randn(3, LONGEST, crf.num_tags, generator=generator) for crf in crfs]
    found, _ = stacked([*crfs], emissions)
    found = Potentials(*(part.detach() for part in found))
    there = stacked_crf._posterior(Potentials(*(part.cuda() for part in found)))
    for own, expected in zip(there, stacked_crf.posterior_by_loop(found), strict=True):
        torch.testing.assert_close(own.cpu(), expected, atol=1e-4, rtol=1e-4)
