"""Tagger layers written down plainly, so that gradients of gradients exist.

The fused LSTM and the CRF of training are differentiable once. These are not fast, and give the
same loss: `tests/audit/test_audit_sentences.py` compares gradients with those of training.

Shapes: L tokens, D features, K tags.
"""

import torch
from torch import Tensor, nn

from fedner.errors import FednerError
from fedner.models.layers.bilstm import BiLSTM
from fedner.models.layers.linear_chain import LinearChain
from fedner.models.layers.word_cnn import WordCNN
from fedner.models.tagger import Tagger

_FORBIDDEN = -1e4  # its exponential is 0


def can_read(tagger: Tagger) -> bool:
    """Whether every stage behind the embeddings is written down here."""
    layers = [stage.layer for stage in tagger.stages.encoders[:-1]]
    return tagger.embeddings.context_dimension == 0 and all(
        isinstance(layer, (BiLSTM, WordCNN)) for layer in layers
    )


def loss(tagger: Tagger, x_LD: Tensor, tags_LK: Tensor) -> Tensor:
    """Return the negative log-likelihood of soft tags of one sentence, without dropout.

    Args:
        tagger: The tagger, in the precision of the features.
        x_LD: What each token is made of.
        tags_LK: How much each token has of each tag; a gold path has a 1 in every row.
    """
    hidden = x_LD
    for stage in tagger.stages.encoders[:-1]:
        hidden = _encoded(stage.layer, hidden)
    emissions_LK: Tensor = tagger.emissions(hidden)
    if isinstance(tagger.decoder, LinearChain):
        return _chain_loss(tagger.decoder, emissions_LK, tags_LK)
    return -(torch.log_softmax(emissions_LK, dim=1) * tags_LK).sum()


def _encoded(layer: nn.Module, x_LD: Tensor) -> Tensor:
    if isinstance(layer, WordCNN):
        convolved: Tensor = layer([x_LD.unsqueeze(0)]).squeeze(0)
        return convolved
    if not isinstance(layer, BiLSTM):
        raise FednerError(f"a layer {type(layer).__name__} has no reference form for attacks")
    for number in range(layer.lstm.num_layers):
        onward = _lstm(layer.lstm, f"l{number}", x_LD)
        back = _lstm(layer.lstm, f"l{number}_reverse", x_LD.flip(0)).flip(0)
        x_LD = torch.cat((onward, back), dim=1)
    return x_LD


def _lstm(lstm: nn.LSTM, suffix: str, x_LD: Tensor) -> Tensor:
    """Run one direction of one layer (Hochreiter and Schmidhuber 1997, with forget gates)."""
    w_ih, w_hh, b_ih, b_hh = (
        getattr(lstm, f"{kind}_{suffix}")
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    gates_LG = x_LD @ w_ih.t() + b_ih + b_hh
    state = cell = x_LD.new_zeros(lstm.hidden_size)
    states = []
    for gates_G in gates_LG:
        entry, forget, new, out = (gates_G + w_hh @ state).chunk(4)
        cell = forget.sigmoid() * cell + entry.sigmoid() * new.tanh()
        state = out.sigmoid() * cell.tanh()
        states.append(state)
    return torch.stack(states)


def _chain_loss(chain: LinearChain, emissions_LK: Tensor, tags_LK: Tensor) -> Tensor:
    """Return log Z minus the score of the tags; a forbidden step has no score of its own."""
    start_K, end_K, steps_KK = chain.potentials()
    score = (emissions_LK * tags_LK).sum() + start_K @ tags_LK[0] + end_K @ tags_LK[-1]
    allowed_KK = steps_KK.masked_fill(chain.forbidden_transitions, 0.0)
    score = score + ((tags_LK[:-1] @ allowed_KK) * tags_LK[1:]).sum()
    held_KK = steps_KK.masked_fill(chain.forbidden_transitions, _FORBIDDEN)
    total_K = emissions_LK[0] + start_K.masked_fill(chain.forbidden_start, _FORBIDDEN)
    for emission_K in emissions_LK[1:]:
        total_K = torch.logsumexp(total_K.unsqueeze(1) + held_KK, dim=0) + emission_K
    ended_K = total_K + end_K.masked_fill(chain.forbidden_end, _FORBIDDEN)
    return torch.logsumexp(ended_K, dim=0) - score
