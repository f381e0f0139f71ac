"""Many small taggers of one shape trained side by side, as one computation.

Cross-validation over settings and seeds means thousands of trainings of some hundred steps, each
far too small for a GPU. Here M taggers are one: every weight has a first axis of models, a step is
one batch of each. Names and shapes of the weights are those of `models.tagger.Tagger`, so a member
goes to and from a tagger as it is, and a test shows that a member learns what that tagger learns.

Shapes: M models, B sentences of each, L tokens, D features, H hidden units, G = 4H gates, E = 2
directions, K tags, R rank, T types, F filters, A alphabet.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from fedner.experiments.joining.stacked_crf import FORBIDDEN, Potentials
from fedner.models.embeddings.characters import NUM_CODES, PADDING

Weights = dict[str, Tensor]  # by the name of the tagger's weight, models first


@dataclass(frozen=True, slots=True)
class Tokens:
    """The words of all platforms on the device, looked up by global token numbers.

    Attributes:
        features_ND: The frozen features of every token: words, shapes, context.
        codes_NC: The characters of every token, as codes; None where no tagger reads them.
        num_words: How many of the features stand before the characters' (those of the word).
    """

    features_ND: Tensor
    codes_NC: Tensor | None = None
    num_words: int = 0


@dataclass(frozen=True, slots=True)
class Rows:
    """The sentences of one step: B rows of each model.

    Attributes:
        token_MBL: Global numbers of the tokens; anything behind an end.
        length_MB: Tokens of each sentence.
    """

    token_MBL: Tensor
    length_MB: Tensor

    @property
    def mask(self) -> Tensor:
        """Whether there is a token (M, B, L)."""
        places_L = torch.arange(self.token_MBL.shape[2], device=self.length_MB.device)
        return places_L < self.length_MB[..., None]


@dataclass(frozen=True, slots=True)
class Tags:
    """What the tags of each model mean: K of them, "O" first, those past a model's own unused.

    Attributes:
        is_own_MK: Whether the model has the tag.
        is_begin_K: Whether a tag begins an entity (kind B).
        vectors_MKE: The vector of each tag's type; zeros for "O" and where nothing is described.
        step_KK: Which number of the kind-only transitions a step takes, by index.
        allowed_KK: Whether the scheme allows the step.
        starts_K: Whether the scheme allows to begin with the tag.
    """

    is_own_MK: Tensor
    is_begin_K: Tensor
    vectors_MKE: Tensor
    step_KK: Tensor
    allowed_KK: Tensor
    starts_K: Tensor

    @classmethod
    def bio(cls, vectors: Sequence[Tensor], device: torch.device, room: int = 0) -> "Tags":
        """Return the tags O, B-1, I-1, B-2, ... of models with these type vectors (T_m, E) each.

        Args:
            vectors: The vectors of each model's own types.
            device: Where they are wanted.
            room: Types that there is room for; 0 for as many as the largest model has.
        """
        most = room or max(len(each) for each in vectors)
        num_tags = 2 * most + 1
        padded = torch.zeros(len(vectors), num_tags, vectors[0].shape[1])
        is_own = torch.zeros(len(vectors), num_tags, dtype=torch.bool)
        for model, each in enumerate(vectors):
            count = len(each)
            padded[model, 1 : 2 * count : 2] = each
            padded[model, 2 : 2 * count + 1 : 2] = each
            is_own[model, : 2 * count + 1] = True
        tag_K = torch.arange(num_tags)
        is_begin, is_inside = tag_K % 2 == 1, (tag_K % 2 == 0) & (tag_K > 0)
        kind_K = torch.where(is_begin, 1, torch.where(is_inside, 2, 0))
        is_same = (tag_K[:, None] + 1) // 2 == (tag_K[None, :] + 1) // 2
        allowed = ~is_inside[None, :] | (is_same & (kind_K[:, None] > 0))
        # O->O, O->B, -, B->O, B->B, B->I, I->O, I->B, I->I; O->I never happens.
        step = 3 * kind_K[:, None] + kind_K[None, :]
        parts = (is_own, is_begin, padded, step, allowed, ~is_inside)
        return cls(*(part.to(device) for part in parts))


def hidden_states(weights: Weights, tokens: Tokens, rows: Rows, dropout: float = 0.0) -> Tensor:
    """Return what the encoder makes of every token (M, B, L, 2H).

    Args:
        weights: The weights of all models.
        tokens: The features.
        rows: The sentences.
        dropout: After features, word CNN and BiLSTM; 0 where nothing is trained.
    """
    x_MBLD = tokens.features_ND[rows.token_MBL].to(weights[_INPUT[0]].dtype)
    x_MBLD = functional.dropout(x_MBLD, dropout)
    if "embeddings.characters.convolution.weight" in weights and tokens.codes_NC is not None:
        words_MBLF = _characters(weights, tokens.codes_NC[rows.token_MBL].long())
        words_MBLF = functional.dropout(words_MBLF, dropout)
        before, after = x_MBLD[..., : tokens.num_words], x_MBLD[..., tokens.num_words :]
        x_MBLD = torch.cat((before, words_MBLF, after), -1)
    if "word_cnn.convolutions.0.weight" in weights:
        x_MBLD = x_MBLD * rows.mask[..., None]
        x_MBLD = functional.dropout(_word_cnn(weights, x_MBLD), dropout)
    return functional.dropout(_bilstm(weights, x_MBLD, rows), dropout)


_INPUT = ("bilstm.lstm.weight_ih_l0", "bilstm.lstm.weight_ih_l0_reverse")
_HIDDEN = ("bilstm.lstm.weight_hh_l0", "bilstm.lstm.weight_hh_l0_reverse")
_BIASES = (
    ("bilstm.lstm.bias_ih_l0", "bilstm.lstm.bias_hh_l0"),
    ("bilstm.lstm.bias_ih_l0_reverse", "bilstm.lstm.bias_hh_l0_reverse"),
)


def _characters(weights: Weights, codes_MBLC: Tensor) -> Tensor:
    """Return the character CNN's features (M, B, L, F): see `models.layers.character_cnn`."""
    characters_MAD = weights["embeddings.characters.embedding.weight"]
    keep_A1 = (torch.arange(NUM_CODES, device=codes_MBLC.device) != PADDING)[:, None]
    taps = weights["embeddings.characters.convolution.weight"].unbind(3)
    tables = [torch.bmm(characters_MAD * keep_A1, each.transpose(1, 2)) for each in taps]
    num_models, *sizes, longest = codes_MBLC.shape
    codes_MNC = functional.pad(codes_MBLC.reshape(num_models, -1, longest), (1, 1))
    with torch.no_grad():
        winner_MNF = _winners(tables, codes_MNC, longest)
    total = weights["embeddings.characters.convolution.bias"][:, None]
    for tap, table_MAF in enumerate(tables):
        code_MNF = codes_MNC.gather(2, winner_MNF + tap)
        total = total + table_MAF.gather(1, code_MNF)
    is_word_MN1 = (codes_MNC > 0).any(2, keepdim=True)
    return torch.where(is_word_MN1, total, 0.0).view(num_models, *sizes, -1)


def _winners(tables: Sequence[Tensor], codes_MNC: Tensor, longest: int) -> Tensor:
    """Return the place of the highest value of each filter in each word (M, N, F)."""
    num_models, num_words, _ = codes_MNC.shape
    offset_M1 = (torch.arange(num_models, device=codes_MNC.device) * NUM_CODES)[:, None]
    flat = [table.detach().flatten(0, 1) for table in tables]
    filters = flat[0].shape[1]
    best = flat[0].new_full((num_models, num_words, filters), -torch.inf)
    where = torch.zeros_like(best, dtype=torch.int64)
    for place in range(longest):
        own_MN = codes_MNC[:, :, place + 1]
        value = torch.zeros_like(best)
        for tap, table in enumerate(flat):
            value += functional.embedding(codes_MNC[:, :, place + tap] + offset_M1, table)
        is_better = (value > best) & (own_MN > 0)[..., None]
        best = torch.where(is_better, value, best)
        where = torch.where(is_better, place, where)
    return where


def _word_cnn(weights: Weights, x_MBLD: Tensor) -> Tensor:
    """Return the word CNN's features, of width 3 with a ReLU."""
    taps_MFDW = weights["word_cnn.convolutions.0.weight"]
    num_models, num_rows, num_tokens, size = x_MBLD.shape
    padded = functional.pad(x_MBLD, (0, 0, 1, 1))
    total = weights["word_cnn.convolutions.0.bias"][:, None]
    for tap in range(3):
        shifted = padded[:, :, tap : tap + num_tokens].reshape(num_models, -1, size)
        total = torch.baddbmm(total, shifted, taps_MFDW[..., tap].transpose(1, 2))
    return functional.relu(total).view(num_models, num_rows, num_tokens, -1)


def _bilstm(weights: Weights, x_MBLD: Tensor, rows: Rows) -> Tensor:
    """Return the states of both directions (M, B, L, 2H)."""
    mirrored_MBL = _mirrored(rows.length_MB, x_MBLD.shape[2])
    gates_LXBG = gates(weights, x_MBLD, mirrored_MBL)
    recurrent_XGH = torch.cat([weights[name] for name in _HIDDEN])
    states_LXBH: Tensor = _Recurrence.apply(gates_LXBG, recurrent_XGH)  # type: ignore[no-untyped-call]
    ahead, back = directions(states_LXBH)
    return torch.cat((ahead, _reordered(back, mirrored_MBL)), -1)


def gates(weights: Weights, x_MBLD: Tensor, mirrored_MBL: Tensor) -> Tensor:
    """Return what the inputs give the gates of both directions (L, X, B, G), X = 2 M.

    Time comes first, then models of both directions: what a step of the recurrence takes in one
    piece. The second direction has the tokens of every sentence in reverse.
    """
    num_models, num_rows, num_tokens, size = x_MBLD.shape
    flat_MND = x_MBLD.reshape(num_models, -1, size)
    found = []
    for direction in range(2):
        first, second = _BIASES[direction]
        bias_M1G = (weights[first] + weights[second])[:, None]
        gates_MNG = torch.baddbmm(bias_M1G, flat_MND, weights[_INPUT[direction]].transpose(1, 2))
        gates_MBLG = gates_MNG.view(num_models, num_rows, num_tokens, -1)
        found.append(_reordered(gates_MBLG, mirrored_MBL) if direction else gates_MBLG)
    return torch.stack(found).permute(3, 0, 1, 2, 4).flatten(1, 2).contiguous()


def directions(states_LXBH: Tensor) -> tuple[Tensor, Tensor]:
    """Return the states of each direction (M, B, L, H), tokens in its own order."""
    num_tokens, num_both, num_rows, hidden = states_LXBH.shape
    apart = states_LXBH.view(num_tokens, 2, num_both // 2, num_rows, hidden)
    ahead, back = apart.permute(1, 2, 3, 0, 4)
    return ahead, back


def _mirrored(length_MB: Tensor, num_tokens: int) -> Tensor:
    places_L = torch.arange(num_tokens, device=length_MB.device)
    inside = places_L < length_MB[..., None]
    return torch.where(inside, length_MB[..., None] - 1 - places_L, places_L)


def _reordered(values_MBLD: Tensor, order_MBL: Tensor) -> Tensor:
    return values_MBLD.gather(2, order_MBL[..., None].expand_as(values_MBLD))


class _Recurrence(torch.autograd.Function):
    """An LSTM's recurrence from the gates' inputs on, for all models and directions at once."""

    @staticmethod
    def forward(ctx: Any, gates_LXBG: Tensor, recurrent_XGH: Tensor) -> Tensor:
        """Return the states (L, X, B, H)."""
        num_tokens, num_models, num_rows, num_gates = gates_LXBG.shape
        hidden = num_gates // 4
        states = [gates_LXBG.new_zeros(num_models * num_rows, hidden)]
        cells, worked = [torch.zeros_like(states[0])], []
        across_XHG = recurrent_XGH.transpose(1, 2)
        for t in range(num_tokens):
            before = torch.bmm(states[-1].view(num_models, num_rows, hidden), across_XHG)
            state, cell, work = _cell(
                gates_LXBG[t].view(-1, num_gates), before.view(-1, num_gates), cells[-1]
            )
            states.append(state)
            cells.append(cell)
            worked.append(work)
        ctx.save_for_backward(recurrent_XGH)
        ctx.states, ctx.cells, ctx.worked = states, cells, worked
        return torch.stack(states[1:]).view(num_tokens, num_models, num_rows, hidden)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, into_LXBH: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the gradients of the gates' inputs and, where wanted, the recurrent weights."""
        (recurrent_XGH,) = ctx.saved_tensors
        num_tokens, num_models, num_rows, hidden = into_LXBH.shape
        into = into_LXBH.contiguous().view(num_tokens, -1, hidden)
        into_state, into_cell = into[-1], torch.zeros_like(ctx.cells[0])
        into_gates = []
        for t in range(num_tokens - 1, -1, -1):
            gates, into_cell = _cell_backward(
                into_state, into_cell, ctx.cells[t], ctx.cells[t + 1], ctx.worked[t]
            )
            into_gates.append(gates)
            if t:
                rows = gates.view(num_models, num_rows, 4 * hidden)
                into_state = torch.baddbmm(
                    into[t - 1].view(num_models, num_rows, hidden), rows, recurrent_XGH
                ).view(-1, hidden)
        gates_LXBG = torch.stack(into_gates[::-1]).view(num_tokens, num_models, num_rows, -1)
        if not ctx.needs_input_grad[1]:
            return gates_LXBG, None
        # One product over all steps: gates of a token with the state before it.
        before = torch.stack(ctx.states[:-1]).view(num_tokens, num_models, num_rows, hidden)
        later = gates_LXBG.permute(1, 3, 0, 2).reshape(num_models, 4 * hidden, -1)
        earlier = before.permute(1, 0, 2, 3).reshape(num_models, -1, hidden)
        return gates_LXBG, torch.bmm(later, earlier)


def _cell(inputs: Tensor, before: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return state, cell and activated gates of one step."""
    if inputs.is_cuda:
        found: tuple[Tensor, Tensor, Tensor] = torch.ops.aten._thnn_fused_lstm_cell(
            inputs, before, cell, None, None
        )
        return found
    enter, keep, new, out = (inputs + before).chunk(4, 1)
    gates = (enter.sigmoid(), keep.sigmoid(), new.tanh(), out.sigmoid())
    cell = gates[1] * cell + gates[0] * gates[2]
    return gates[3] * cell.tanh(), cell, torch.cat(gates, 1)


def _cell_backward(
    into_state: Tensor, into_cell: Tensor, before: Tensor, after: Tensor, worked: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the gates before activation and of the cell before the step."""
    if into_state.is_cuda:
        gates, cell, _ = torch.ops.aten._thnn_fused_lstm_cell_backward_impl(
            into_state, into_cell, before, after, worked, False
        )
        return gates, cell
    enter, keep, new, out = worked.chunk(4, 1)
    bent = after.tanh()
    into_cell = into_cell + into_state * out * (1 - bent * bent)
    gates = torch.cat(
        (
            into_cell * new * enter * (1 - enter),
            into_cell * before * keep * (1 - keep),
            into_cell * enter * (1 - new * new),
            into_state * bent * out * (1 - out),
        ),
        1,
    )
    return gates, into_cell * keep


def potentials(weights: Weights, states_MBLD: Tensor, rows: Rows, tags: Tags) -> Potentials:
    """Return all that the CRF reads, by the head that the weights have."""
    num_models, _, num_tokens, size = states_MBLD.shape
    flat_MND = states_MBLD.reshape(num_models, -1, size)
    if "emissions.outside.weight" in weights:
        emissions = torch.bmm(flat_MND, _described(weights, tags).transpose(1, 2))
        scores_M9 = _kind_scores(weights["decoder.steps"])
        transitions = scores_M9[:, tags.step_KK]
        start = end = emissions.new_zeros(num_models, len(tags.is_begin_K))
    else:
        emissions = torch.baddbmm(
            weights["emissions.bias"][:, None],
            flat_MND,
            weights["emissions.weight"].transpose(1, 2),
        )
        start, end = weights["decoder.start"], weights["decoder.end"]
        transitions = weights["decoder.transitions"]
    emissions = emissions.masked_fill(~tags.is_own_MK[:, None], FORBIDDEN)
    return Potentials(
        emissions.view(-1, num_tokens, emissions.shape[2]),
        start.masked_fill(~tags.starts_K, FORBIDDEN),
        end,
        transitions.masked_fill(~tags.allowed_KK, FORBIDDEN),
        rows.length_MB.flatten(),
    )


# Where each of the kind-only steps stands in `Tags.step_KK`, in the order of `decoder.steps`.
STEP_ORDER = {
    "O->O": 0,
    "O->B": 1,
    "B->O": 3,
    "B->B": 4,
    "B->I": 5,
    "I->O": 6,
    "I->B": 7,
    "I->I": 8,
}


def _kind_scores(steps_M8: Tensor) -> Tensor:
    places = torch.tensor(list(STEP_ORDER.values()), device=steps_M8.device)
    return steps_M8.new_zeros(len(steps_M8), 9).index_copy(1, places, steps_M8)


def _described(weights: Weights, tags: Tags) -> Tensor:
    """Return the emission weights (M, K, D) of all tags: bilinear in state and description."""
    found = []
    for kind in ("B", "I"):
        token_MRD = weights[f"emissions.token.{kind}.weight"]
        type_MRE = weights[f"emissions.type.{kind}.weight"]
        query_MKR = torch.bmm(tags.vectors_MKE, type_MRE.transpose(1, 2))
        found.append(torch.bmm(query_MKR, token_MRD) / math.sqrt(token_MRD.shape[1]))
    begin, inside = found
    entity_MKD = torch.where(tags.is_begin_K[:, None], begin, inside)
    outside_M1D = weights["emissions.outside.weight"]
    return torch.cat((outside_M1D, entity_MKD[:, 1:]), 1)


def stacked(members: Sequence[Mapping[str, Tensor]], device: torch.device) -> Weights:
    """Return the weights of several taggers of one shape, models first."""
    return {
        name: torch.stack([each[name].detach().float() for each in members]).to(device)
        for name in members[0]
    }
