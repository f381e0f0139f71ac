"""Words in context by the Flair character language models, in ELMo's place.

Akbik, Blythe and Vollgraf 2018 ("Contextual string embeddings for sequence labeling"): an LSTM
reads the characters of the sentence from left to right, another from right to left; a word is the
state of the first after its last character, joined to the state of the second after its first.
Each begins with a line break; characters that it was not trained on are read as unknown.

The weights come as an `.npz` (or `.npz.xz`) of plain arrays, `forward/...` and `backward/...`, with
the names that PyTorch gives them and the characters as `.../chars`. Nothing is unpickled.

Shapes: T characters of the longest sentence, B sentences, N tokens of the batch, H units.
"""

import hashlib
import io
import json
import lzma
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedner.errors import FednerError
from fedner.models.embeddings.context import Sentences, plan_batches
from fedner.models.embeddings.origin import EmbeddingOrigin

Direction = Literal["forward", "backward"]
Precision = Literal["float32", "float16", "bfloat16"]
# At the last character as in the paper, or at the blank after it as Flair's code does by default.
ReadAt = Literal["character", "blank"]

DIRECTIONS: tuple[Direction, Direction] = ("forward", "backward")
START, BLANK, UNKNOWN = "\n", " ", 0
# States held at a time: bounds memory for sentences of any length.
POSITIONS_AT_A_TIME = 1 << 14
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
_HINT = "Take the archive of the Flair models as it was made: plain arrays, nothing pickled."


class CharacterLanguageModel(nn.Module):
    """One direction: characters to states, and states to the next character."""

    def __init__(self, arrays: Mapping[str, NDArray[np.float32]]) -> None:
        super().__init__()
        num_characters, dimension = arrays["encoder.weight"].shape
        hidden = arrays["rnn.weight_hh_l0"].shape[1]
        self.encoder = nn.Embedding(num_characters, dimension)
        self.rnn = nn.LSTM(dimension, hidden)
        self.decoder = nn.Linear(hidden, num_characters)
        self.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
        self.requires_grad_(False)
        self.eval()

    @torch.inference_mode()
    def read(self, codes_TB: Tensor, lengths: Sequence[int], at: "ReadingPoints") -> Tensor:
        """Read sentences side by side, longest first; return the states at the points (N, H).

        Sentences are padded at their end, where an LSTM that reads forward never looks back from.
        """
        states_NH = torch.empty((len(at.positions), self.rnn.hidden_size), dtype=torch.float32)
        step = max(1, POSITIONS_AT_A_TIME // len(lengths))
        memory: tuple[Tensor, Tensor] | None = None
        for start in range(0, lengths[0], step):
            num_reading = sum(length > start for length in lengths)
            if memory is not None:
                memory = (memory[0][:, :num_reading], memory[1][:, :num_reading])
                memory = (memory[0].contiguous(), memory[1].contiguous())
            part = self.encoder(codes_TB[start : start + step, :num_reading])
            out_TBH, memory = self.rnn(part, memory)
            chosen = np.flatnonzero((at.positions >= start) & (at.positions < start + len(part)))
            rows = torch.from_numpy(at.positions[chosen] - start).to(out_TBH.device)
            columns = torch.from_numpy(at.sentences[chosen]).to(out_TBH.device)
            states_NH[torch.from_numpy(chosen)] = out_TBH[rows, columns].float().cpu()
        return states_NH


@dataclass(frozen=True, slots=True)
class ReadingPoints:
    """Where states are taken: for each token its sentence in the batch and its position there."""

    sentences: NDArray[np.int64]
    positions: NDArray[np.int64]


class FlairEncoder:
    """Both language models as a context encoder.

    Attributes:
        device: Where they run.
        precision: What they compute in; half precision is meant for GPUs, and bfloat16 also for
            processors that have it.
        read_at: Where a word's state is taken: at its outermost character, or at the blank after
            it in the direction of reading.
    """

    def __init__(
        self,
        models: Mapping[Direction, CharacterLanguageModel],
        characters: Mapping[Direction, Sequence[str]],
        origin: EmbeddingOrigin,
        device: torch.device,
    ) -> None:
        self.device = device
        self.precision: str = str(origin.settings["precision"])
        self.read_at: str = str(origin.settings["read_at"])
        self._models = {d: models[d].to(device, _DTYPES[self.precision]) for d in DIRECTIONS}
        for model in self._models.values():
            model.rnn.flatten_parameters()  # one block of memory, as cuDNN wants it
        self._codes = {d: _code_table(characters[d]) for d in DIRECTIONS}
        self._origin = origin

    @classmethod
    def load(
        cls,
        path: Path | str,
        device: torch.device | str = "cpu",
        *,
        precision: Precision = "float32",
        read_at: ReadAt = "character",
    ) -> "FlairEncoder":
        """Load the weights.

        Args:
            path: The archive, `.npz` or `.npz.xz`.
            device: Where to run.
            precision: What to compute in.
            read_at: Where a word's state is taken.

        Raises:
            FednerError: If the file is missing, damaged, or holds other arrays.
        """
        if precision not in _DTYPES or read_at not in ("character", "blank"):
            raise FednerError(
                f"precision {precision!r}, read_at {read_at!r}",
                f"Choose a precision of {', '.join(_DTYPES)} and read at character or blank.",
            )
        path = Path(path)
        arrays = _load_arrays(path)
        weights = {d: _weights_of(arrays, d, path) for d in DIRECTIONS}
        characters = {d: _characters_of(arrays, d, path) for d in DIRECTIONS}
        origin = EmbeddingOrigin(
            "flair",
            path.name.removesuffix(".xz").removesuffix(".npz"),
            _digest(weights, characters),
            2 * weights["forward"]["rnn.weight_hh_l0"].shape[1],
            {"precision": precision, "read_at": read_at},
        )
        models = {d: CharacterLanguageModel(weights[d]) for d in DIRECTIONS}
        return cls(models, characters, origin, torch.device(device))

    @property
    def name(self) -> str:
        """What people call the models."""
        return self._origin.name

    @property
    def dimension(self) -> int:
        """The units of both directions."""
        return self._origin.dimension

    @property
    def origin(self) -> EmbeddingOrigin:
        """The weights by their digest, and the settings."""
        return self._origin

    @property
    def digest(self) -> str:
        """A hash of weights and settings."""
        return self._origin.digest

    def encode(self, sentences: Sentences) -> list[NDArray[np.float32]]:
        """Return the features (L, D) of each sentence: its text is the tokens joined by blanks."""
        features = [np.zeros((len(s), self.dimension), np.float32) for s in sentences]
        for batch in plan_batches(sentences):
            rows = np.concatenate(
                [self._read(direction, [sentences[i] for i in batch]) for direction in DIRECTIONS],
                axis=1,
            )
            ends = np.cumsum([len(sentences[index]) for index in batch])
            for index, part in zip(batch, np.split(rows, ends[:-1]), strict=True):
                features[index] = part
        return features

    @torch.inference_mode()
    def perplexity(self, text: str, direction: Direction) -> float:
        """Return how surprised a model is by each character of `text`: 1 is not at all."""
        if not text:
            raise FednerError("an empty text has no perplexity", "Give at least one character.")
        model = self._models[direction]
        ordered = START + (text if direction == "forward" else text[::-1])
        codes_T = torch.from_numpy(_encode(ordered, self._codes[direction])).to(self.device)
        points = ReadingPoints(np.zeros(len(text), np.int64), np.arange(len(text)))
        states_TH = model.read(codes_T.unsqueeze(1), [len(text)], points)
        logits = model.decoder(states_TH.to(self.device, _DTYPES[self.precision])).float()
        return math.exp(float(nn.functional.cross_entropy(logits, codes_T[1:])))

    def _read(self, direction: Direction, batch: Sentences) -> NDArray[np.float32]:
        """Return the states of one direction at every token of the batch (N, H)."""
        texts = [BLANK.join(tokens) for tokens in batch]
        is_forward = direction == "forward"
        lines = [START + (t if is_forward else t[::-1]) + BLANK for t in texts]
        lengths = [len(line) for line in lines]
        codes_TB = np.full((lengths[0], len(lines)), UNKNOWN, dtype=np.int64)
        for column, line in enumerate(lines):
            codes_TB[: len(line), column] = _encode(line, self._codes[direction])
        points = _reading_points(batch, is_forward, self.read_at == "blank")
        moved = torch.from_numpy(codes_TB).to(self.device)
        states: NDArray[np.float32] = self._models[direction].read(moved, lengths, points).numpy()
        return states


def _reading_points(batch: Sentences, is_forward: bool, at_blank: bool) -> ReadingPoints:
    """Return the position of each token's state: the line break is 0, the first character 1."""
    sentences: list[int] = []
    positions: list[int] = []
    for column, tokens in enumerate(batch):
        start, length = 0, sum(map(len, tokens)) + len(tokens) - 1
        for token in tokens:
            position = start + len(token) if is_forward else length - start
            sentences.append(column)
            positions.append(position + at_blank)
            start += len(token) + 1
    return ReadingPoints(np.asarray(sentences, np.int64), np.asarray(positions, np.int64))


def _code_table(characters: Sequence[str]) -> NDArray[np.int64]:
    table = np.full(0x110000, UNKNOWN, dtype=np.int64)
    for code, character in enumerate(characters):
        if code != UNKNOWN:
            table[ord(character)] = code
    return table


def _encode(text: str, table: NDArray[np.int64]) -> NDArray[np.int64]:
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    codes: NDArray[np.int64] = table[points]
    return codes


def _load_arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    try:
        data = path.read_bytes()
        if path.suffix == ".xz":
            data = lzma.decompress(data)
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise FednerError(f"cannot read {path}: {error.strerror or error}", _HINT) from error
    except (lzma.LZMAError, zipfile.BadZipFile, zlib.error, ValueError, EOFError) as error:
        raise FednerError(f"{path} is not a valid archive of arrays: {error}", _HINT) from error


def _weights_of(
    arrays: Mapping[str, NDArray[np.generic]], direction: Direction, path: Path
) -> dict[str, NDArray[np.float32]]:
    """Return the weights of one direction, their shapes checked against each other."""
    encoder = arrays.get(f"{direction}/encoder.weight", np.empty((0, 0)))
    recurrent = arrays.get(f"{direction}/rnn.weight_hh_l0", np.empty((0, 0)))
    characters, dimension = encoder.shape if encoder.ndim == 2 else (0, 0)
    hidden = recurrent.shape[-1]
    shapes = {
        "encoder.weight": (characters, dimension),
        "rnn.weight_ih_l0": (4 * hidden, dimension),
        "rnn.weight_hh_l0": (4 * hidden, hidden),
        "rnn.bias_ih_l0": (4 * hidden,),
        "rnn.bias_hh_l0": (4 * hidden,),
        "decoder.weight": (characters, hidden),
        "decoder.bias": (characters,),
    }
    weights = {}
    problems = []
    for name, shape in shapes.items():
        array = arrays.get(f"{direction}/{name}")
        if array is None or array.shape != shape or 0 in shape or array.dtype.kind != "f":
            found = "missing" if array is None else f"{array.dtype} of shape {array.shape}"
            problems.append(f"  {direction}/{name}: {found}; expected floats of shape {shape}")
        else:
            weights[name] = np.ascontiguousarray(array, dtype=np.float32)
    if problems:
        raise FednerError("\n".join([f"{path} is not a Flair language model", *problems]), _HINT)
    return weights


def _characters_of(
    arrays: Mapping[str, NDArray[np.generic]], direction: Direction, path: Path
) -> list[str]:
    """Return the characters of one direction in the order of their codes; code 0 is unknown."""
    given = arrays.get(f"{direction}/chars", np.empty(0))
    expected = len(arrays[f"{direction}/encoder.weight"])
    characters = [str(character) for character in given.tolist()] if given.ndim == 1 else []
    # Code 0 is a name, such as <unk>; NumPy drops a trailing NUL, which nobody's text has.
    is_sound = all(len(character) <= 1 for character in characters[1:])
    is_distinct = len(set(characters)) == len(characters)
    if len(characters) != expected or not is_sound or not is_distinct:
        raise FednerError(
            f"{path}: {direction}/chars has {len(characters)} entries that are "
            f"{'single' if is_sound else 'not single'} characters and "
            f"{'distinct' if is_distinct else 'not distinct'}; expected {expected}, distinct",
            _HINT,
        )
    return [character or "\0" for character in characters]


def _digest(
    weights: Mapping[Direction, Mapping[str, NDArray[np.float32]]],
    characters: Mapping[Direction, Sequence[str]],
) -> str:
    """Hash what decides the features; the same for the archive plain and compressed."""
    digest = hashlib.sha256()
    for direction in DIRECTIONS:
        digest.update(json.dumps([direction, list(characters[direction])]).encode())
        for name, array in sorted(weights[direction].items()):
            digest.update(f"{name} {array.shape}".encode())
            digest.update(array.data)
    return digest.hexdigest()
