"""The language model of ELMo, in both directions, as TensorFlow computed it.

Peters et al. 2018 ("Deep contextualized word representations"), after Jozefowicz et al. 2016: a
word is read by its characters (UTF-8 bytes) with convolutions, a maximum over the places, highway
layers and a projection. Sentences, with a mark before and one behind, then pass through LSTM layers
that project and clip:

    i, j, f, o = split([x, h] W + b)                 in this order
    c = clip(sigmoid(f + 1) c + sigmoid(i) tanh(j))
    h = clip((sigmoid(o) tanh(c)) W_P)

Where the ELMo has skip connections, layers above the first give h + x.

The language model was trained on one endless text per row of the batch: the state after a sentence
is where the next one begins. `BiLanguageModel` can do so too (`memory`), because the published
reference outputs were made that way.

Shapes: U distinct words, C characters, F filters, P projection, H cells, T tokens of the longest
sentence with its marks, B sentences.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedner.models.embeddings.elmo_files import DIRECTIONS, Arrays, ElmoOptions, cell_name

BEGIN_SENTENCE, END_SENTENCE, BEGIN_WORD, END_WORD, PADDING = 256, 257, 258, 259, 260
# Words and positions computed at a time: they bound memory for texts of any size.
WORDS_AT_A_TIME = 1 << 9
POSITIONS_AT_A_TIME = 1 << 11

# For each direction and layer, the projection and the cells where each sentence ended.
Memory = list[list[tuple[Tensor, Tensor]]]


def encode_characters(words: Sequence[str], max_characters: int) -> NDArray[np.int64]:
    """Return the characters of words (U + 2, C); first stand the marks of a sentence's ends.

    A word is its bytes in UTF-8 between a mark of its beginning and one of its end; what is longer
    than the ELMo reads is cut off, as in its training.
    """
    room = max_characters - 2
    lines = [word.encode("utf-8", "ignore")[:room] for word in words]
    codes_UC = np.full((len(words) + 2, max_characters), PADDING, dtype=np.int64)
    codes_UC[:, 0] = BEGIN_WORD
    codes_UC[:2, 1] = (BEGIN_SENTENCE, END_SENTENCE)
    codes_UC[:2, 2] = END_WORD
    for row, line in enumerate(lines, start=2):
        codes_UC[row, 1 : len(line) + 1] = np.frombuffer(line, dtype=np.uint8)
        codes_UC[row, len(line) + 1] = END_WORD
    return codes_UC


class CharacterWords(nn.Module):
    """Characters to words: convolutions, highways, projection."""

    def __init__(self, options: ElmoOptions, weights: Arrays) -> None:
        super().__init__()
        self.activation = torch.relu if options.activation == "relu" else torch.tanh
        self.characters = _parameter(weights["char_embed"])
        self.convolutions = nn.ModuleList()
        for number, (width, count) in enumerate(options.filters):
            convolution = nn.Conv1d(options.character_dimension, count, width)
            kernel_WDF = weights[f"CNN/W_cnn_{number}"][0]
            convolution.weight = _parameter(kernel_WDF.transpose(2, 1, 0))
            convolution.bias = _parameter(weights[f"CNN/b_cnn_{number}"])
            self.convolutions.append(convolution)
        gates = [f"CNN_high_{number}" for number in range(options.num_highways)]
        self.carries = nn.ModuleList(_linear(weights, gate, "carry") for gate in gates)
        self.transforms = nn.ModuleList(_linear(weights, gate, "transform") for gate in gates)
        self.projection: nn.Module = nn.Identity()
        if options.num_filters != options.projection:
            self.projection = _linear(weights, "CNN_proj", "proj")

    def forward(self, codes_UC: Tensor) -> Tensor:
        """Return a vector for each word (U, P)."""
        x_UDC = functional.embedding(codes_UC, self.characters).transpose(1, 2)
        found = [self.activation(one(x_UDC).amax(dim=-1)) for one in self.convolutions]
        x_UF = torch.cat(found, dim=-1)
        for carry, transform in zip(self.carries, self.transforms, strict=True):
            open_UF = torch.sigmoid(carry(x_UF))
            x_UF = open_UF * torch.relu(transform(x_UF)) + (1 - open_UF) * x_UF
        projected_UP: Tensor = self.projection(x_UF)
        return projected_UP


class ProjectedLSTM(nn.Module):
    """One LSTM layer in one direction, with projection and clipping."""

    def __init__(self, options: ElmoOptions, weights: Arrays, cell: str) -> None:
        super().__init__()
        kernel = weights[f"{cell}/W_0"]
        bias = weights[f"{cell}/B"].copy()
        cells = options.cells
        bias[2 * cells : 3 * cells] += 1.0  # TensorFlow adds it to the forget gate at run time
        self.clips = (options.cell_clip, options.projection_clip)
        self.from_input = _parameter(kernel[: options.projection].T)
        self.from_state = _parameter(kernel[options.projection :])
        self.bias = _parameter(bias)
        self.projection = _parameter(weights[f"{cell}/W_P_0"])

    def forward(
        self, x_TBP: Tensor, num_reading: Sequence[int], state: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Read sentences, longest first; return outputs and where each sentence ended.

        Args:
            x_TBP: The input.
            num_reading: For each place, how many sentences are that long.
            state: The projections and cells to begin with.
        """
        state_BP, cells_BH = state[0].clone(), state[1].clone()
        out_TBP = torch.zeros_like(x_TBP)
        step = max(1, POSITIONS_AT_A_TIME // x_TBP.shape[1])
        for start in range(0, len(x_TBP), step):
            part = x_TBP[start : start + step, : num_reading[start]]
            gates = functional.linear(part, self.from_input, self.bias)
            for place, gates_BG in enumerate(gates, start=start):
                n = num_reading[place]
                i, j, f, o = torch.addmm(gates_BG[:n], state_BP[:n], self.from_state).chunk(
                    4, dim=-1
                )
                kept = torch.sigmoid(f) * cells_BH[:n] + torch.sigmoid(i) * torch.tanh(j)
                cells_BH[:n] = _clipped(kept, self.clips[0])
                shown = torch.sigmoid(o) * torch.tanh(cells_BH[:n])
                state_BP[:n] = _clipped(shown @ self.projection, self.clips[1])
                out_TBP[place, :n] = state_BP[:n]
        return out_TBP, (state_BP, cells_BH)


class BiLanguageModel(nn.Module):
    """The whole frozen model: words to the states of every layer in both directions."""

    def __init__(self, options: ElmoOptions, weights: Arrays) -> None:
        super().__init__()
        self.options = options
        self.words = CharacterWords(options, weights)
        self.directions = nn.ModuleList(
            nn.ModuleList(
                ProjectedLSTM(options, weights, cell_name(direction, layer))
                for layer in range(options.num_layers)
            )
            for direction in DIRECTIONS
        )
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> Self:
        """Stay as it is: it is frozen, and has nothing that training would change."""
        del mode
        return super().train(False)

    @torch.inference_mode()
    def read_words(self, codes_UC: Tensor) -> Tensor:
        """Return the vector of each word below the LSTMs (U, P)."""
        return torch.cat([self.words(part) for part in torch.split(codes_UC, WORDS_AT_A_TIME)])

    @torch.inference_mode()
    def read_sentences(
        self, tokens_TBP: Tensor, lengths: Sequence[int], memory: Memory | None = None
    ) -> tuple[Tensor, Memory]:
        """Return every layer (layers + 1, T, B, 2P) and where each sentence ended.

        Args:
            tokens_TBP: The vectors of the words, padded behind; with the marks of the ends.
            lengths: How many there are of each sentence, at least 1.
            memory: Where the sentences before these ended; None to begin with zeros, by which the
                features of a sentence depend on nothing else.
        """
        order = sorted(range(len(lengths)), key=lambda column: -lengths[column])
        device = tokens_TBP.device
        columns = torch.tensor(order, device=device)
        back = torch.argsort(columns)
        length_B = torch.tensor(lengths, device=device)[columns]
        place_T1 = torch.arange(len(tokens_TBP), device=device).unsqueeze(1)
        mirrored_TB = torch.where(place_T1 < length_B, length_B - 1 - place_T1, place_T1)
        num_reading = (place_T1 < length_B).sum(dim=1).tolist()
        x_TBP = tokens_TBP[:, columns]
        mirrored_TBP = mirrored_TB.unsqueeze(-1).expand_as(x_TBP)
        sides, ends = [], []
        for number, layers in enumerate(self.directions):
            begun = self._begin(x_TBP, memory, number, columns)
            given = x_TBP.gather(0, mirrored_TBP) if number else x_TBP
            outputs, ended = self._climb(layers, given, num_reading, begun)
            sides.append([o.gather(0, mirrored_TBP) if number else o for o in outputs])
            ends.append([(state[back], cells[back]) for state, cells in ended])
        both = [torch.cat(pair, dim=-1)[:, back] for pair in zip(*sides, strict=True)]
        return torch.stack(both), ends

    def _begin(
        self, x_TBP: Tensor, memory: Memory | None, direction: int, columns: Tensor
    ) -> list[tuple[Tensor, Tensor]]:
        if memory is not None:
            return [(state[columns], cells[columns]) for state, cells in memory[direction]]
        num_sentences = x_TBP.shape[1]
        state_BP = x_TBP.new_zeros(num_sentences, self.options.projection)
        cells_BH = x_TBP.new_zeros(num_sentences, self.options.cells)
        return [(state_BP, cells_BH)] * self.options.num_layers

    def _climb(
        self,
        layers: nn.Module,
        x_TBP: Tensor,
        num_reading: Sequence[int],
        begun: Sequence[tuple[Tensor, Tensor]],
    ) -> tuple[list[Tensor], list[tuple[Tensor, Tensor]]]:
        """Return the words and the output of every layer of one direction, and its states."""
        outputs, ends = [x_TBP], []
        for number, (layer, state) in enumerate(zip(layers.children(), begun, strict=True)):
            out_TBP, ended = layer(outputs[-1], num_reading, state)
            if number and self.options.has_skips:
                out_TBP = out_TBP + outputs[-1]
            outputs.append(out_TBP)
            ends.append(ended)
        return outputs, ends


def _parameter(array: NDArray[np.float32]) -> nn.Parameter:
    return nn.Parameter(torch.from_numpy(np.ascontiguousarray(array)), requires_grad=False)


def _linear(weights: Arrays, group: str, name: str) -> nn.Linear:
    kernel = weights[f"{group}/W_{name}"]
    linear = nn.Linear(*kernel.shape)
    linear.weight = _parameter(kernel.T)
    linear.bias = _parameter(weights[f"{group}/b_{name}"])
    return linear


def _clipped(values: Tensor, bound: float | None) -> Tensor:
    return values if bound is None else values.clamp(-bound, bound)
