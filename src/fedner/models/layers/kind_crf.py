"""A CRF whose scores go by kinds of tags alone: a few numbers for all types of all platforms.

The kind of a tag is its prefix ("B", "I", ..., or "O"). Stepping from one kind to another has one
number where the entity goes on and another where it does not; the types themselves play no part.
BIO has eight: O->O, O->B, B->O, I->O, B->B and I->B (another entity, of any type), B->I and I->I
(the same entity). What the scheme forbids stays forbidden. Beginning and ending have no score.

So platforms with different types can share the numbers, and a model reads types that none of them
had.

Shapes: B sentences, L tokens, K tags, S numbers.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from fedner.corpus.schemes import Scheme, allowed_transitions, decode, split_tag, tag_set
from fedner.corpus.sentence import Entity
from fedner.models.features import TagSpace
from fedner.models.layers.forms import DecoderForms
from fedner.models.layers.linear_chain import LinearChain, Potentials, chain_scores

StepKind = tuple[str, str, bool]
# Two types show every kind of step that any number of them has.
_TWO_TYPES = ("a", "b")


def step_kinds(scheme: Scheme, *, constrained: bool = True) -> tuple[StepKind, ...]:
    """Return every kind of step of a scheme: from, to, and whether one entity goes on.

    >>> step_kinds("IO")[1:3]
    (('O', 'I', False), ('I', 'O', False))
    """
    steps = _steps(tag_set(_TWO_TYPES, scheme), scheme, constrained=constrained)
    return tuple(dict.fromkeys(kind for kind, _, _ in steps))


def _steps(
    tags: tuple[str, ...], scheme: Scheme, *, constrained: bool
) -> Iterator[tuple[StepKind, int, int]]:
    """Yield the kind of every step that may be taken, and the tags that it leads from and to."""
    allowed = allowed_transitions(tags, scheme).step
    for row, before in enumerate(tags):
        for column, after in enumerate(tags):
            if allowed[row][column] or not constrained:
                yield _kind_of(before, after), row, column


def _kind_of(before: str, after: str) -> StepKind:
    label = split_tag(before)[1]
    goes_on = decode([before, after]) == [Entity(0, 2, label)]
    return split_tag(before)[0], split_tag(after)[0], goes_on


class KindCRF(LinearChain):
    """A chain of one score for every kind of step, zero to begin with.

    Attributes:
        step_kinds: What each number stands for; the scheme alone decides.
        steps: The numbers (S).
        which_SKK: Where each number belongs.
    """

    which_SKK: Tensor

    def __init__(self, space: TagSpace, *, constrained: bool = True) -> None:
        super().__init__(len(space.tags), space.transitions if constrained else None)
        self.step_kinds = step_kinds(space.scheme, constrained=constrained)
        self.steps = nn.Parameter(torch.zeros(len(self.step_kinds)))
        which_SKK = torch.zeros(len(self.step_kinds), self.num_tags, self.num_tags)
        for kind, row, column in _steps(space.tags, space.scheme, constrained=constrained):
            which_SKK[self.step_kinds.index(kind), row, column] = 1.0
        self.register_buffer("which_SKK", which_SKK, persistent=False)

    def potentials(self) -> Potentials:
        """Return the number of every step; every sum has one term, so nothing is rounded."""
        zeros_K = self.steps.new_zeros(self.num_tags)
        transitions_KK = (self.steps[:, None, None] * self.which_SKK).sum(0)
        return Potentials(zeros_K, zeros_K, transitions_KK)


def _sentence_gradients(
    crf: KindCRF, emissions_BLK: Tensor, tags_BL: Tensor, lengths_B: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the gradients of the negative log-likelihood: see `DecoderForms`."""
    result = crf.sentence_gradients(emissions_BLK.detach(), tags_BL, lengths_B)
    if not crf.steps.requires_grad:
        return -result.emissions_BLK, {}
    counts_BX = result.parameters.transitions_BKK.flatten(1)
    steps_BS = counts_BX @ crf.which_SKK.flatten(1).to(counts_BX).t()
    return -result.emissions_BLK, {"steps": -steps_BS}


FORMS = DecoderForms("kind CRF", _sentence_gradients, chain_scores)
