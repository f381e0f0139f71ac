"""A linear-chain CRF (Lafferty et al. 2001) with a score of its own for every step between tags.

Shapes: B sentences, L tokens, K tags.
"""

import torch
from torch import Tensor, nn

from fedner.corpus.schemes import Transitions
from fedner.models.layers.forms import DecoderForms
from fedner.models.layers.linear_chain import LinearChain, Potentials, chain_scores


class CRF(LinearChain):
    """A chain whose parameters are the scores themselves.

    They begin at zero, where the CRF is a softmax for each token (over what the scheme allows).

    Attributes:
        start: The score of beginning with each tag (K).
        end: The score of ending with each tag (K).
        transitions: The score of stepping from one tag to the next (K, K), indexed [from, to].
    """

    def __init__(self, num_tags: int, transitions: Transitions | None = None) -> None:
        super().__init__(num_tags, transitions)
        self.start = nn.Parameter(torch.zeros(num_tags))
        self.end = nn.Parameter(torch.zeros(num_tags))
        self.transitions = nn.Parameter(torch.zeros(num_tags, num_tags))

    def potentials(self) -> Potentials:
        """Return the parameters."""
        return Potentials(self.start, self.end, self.transitions)


def _sentence_gradients(
    crf: CRF, emissions_BLK: Tensor, tags_BL: Tensor, lengths_B: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the gradients of the negative log-likelihood: see `DecoderForms`."""
    result = crf.sentence_gradients(emissions_BLK.detach(), tags_BL, lengths_B)
    start_BK, end_BK, transitions_BKK = result.parameters
    every = {"start": start_BK, "end": end_BK, "transitions": transitions_BKK}
    trained = {name for name, each in crf.named_parameters() if each.requires_grad}
    return -result.emissions_BLK, {name: -every[name] for name in every if name in trained}


FORMS = DecoderForms("CRF", _sentence_gradients, chain_scores)
