"""The files of an ELMo as its makers publish them: `options.json` and `weights.hdf5`.

Both are checked against each other in full, and every problem is named, before anything is built.
The arrays keep the names and the layout that bilm-tf gave them (see `elmo_bilm` for the meaning).
"""

import hashlib
import importlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedner.errors import FednerError

Arrays = Mapping[str, NDArray[np.float32]]

# 256 bytes, begin and end of sentence, begin and end of word, padding.
NUM_CHARACTERS = 261
ACTIVATIONS = ("relu", "tanh")
DIRECTIONS = ("RNN_0", "RNN_1")  # left to right, right to left
_HINT = "Take options.json and weights.hdf5 of one and the same ELMo, as they were published."


@dataclass(frozen=True, slots=True)
class ElmoOptions:
    """The sizes of an ELMo.

    Attributes:
        character_dimension: Size of a character embedding.
        filters: Width and number of the filters of each convolution.
        num_highways: Highway layers above the convolutions.
        max_characters: Characters of a word that are read, the two marks of its ends included.
        activation: "relu" or "tanh", after the convolutions.
        cells: Cells of an LSTM layer.
        projection: What the cells are projected to; also the size of a word below the LSTMs.
        num_layers: LSTM layers in each direction.
        cell_clip: Cells stay within this; None: unbounded.
        projection_clip: Projections stay within this; None: unbounded.
        has_skips: Whether layers above the first add their input to their output.
    """

    character_dimension: int
    filters: tuple[tuple[int, int], ...]
    num_highways: int
    max_characters: int
    activation: str
    cells: int
    projection: int
    num_layers: int
    cell_clip: float | None
    projection_clip: float | None
    has_skips: bool

    @property
    def num_filters(self) -> int:
        """Filters of all convolutions."""
        return sum(number for _, number in self.filters)


def find_files(source: Path) -> tuple[Path, Path]:
    """Return the options and the weights in a folder.

    Raises:
        FednerError: If the folder has none, or more than one of either.
    """
    found = []
    for pattern in ("*options.json", "*weights.hdf5"):
        paths = sorted(source.glob(pattern))
        if len(paths) != 1:
            raise FednerError(
                f"{source} holds {len(paths)} files {pattern}; expected one",
                "Give the folder of one ELMo, or its options and its weights by name.",
            )
        found.append(paths[0])
    return found[0], found[1]


def read_options(path: Path) -> ElmoOptions:
    """Read `options.json`.

    Raises:
        FednerError: If it is missing, no JSON, or a size is missing or of no sense.
    """
    try:
        given = json.loads(path.read_bytes())
        options = _options_of(given["char_cnn"], given["lstm"])
    except OSError as error:
        raise FednerError(f"cannot read {path}: {error.strerror or error}", _HINT) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise FednerError(
            f"{path} is not the options file of a character ELMo: {type(error).__name__} {error}",
            _HINT,
        ) from error
    sizes = [options.character_dimension, options.cells, options.projection, options.num_layers]
    sizes += [size for pair in options.filters for size in pair]
    widest = max((width for width, _ in options.filters), default=0)
    is_sound = min(sizes) > 0 and 0 < widest <= options.max_characters
    if not is_sound or options.num_highways < 0 or options.activation not in ACTIVATIONS:
        raise FednerError(f"{path}: these sizes fit no ELMo: {options}", _HINT)
    return options


def _options_of(characters: Mapping[str, Any], lstm: Mapping[str, Any]) -> ElmoOptions:
    clips = [lstm.get("cell_clip"), lstm.get("proj_clip")]
    return ElmoOptions(
        character_dimension=int(characters["embedding"]["dim"]),
        filters=tuple((int(width), int(number)) for width, number in characters["filters"]),
        num_highways=int(characters.get("n_highway") or 0),
        max_characters=int(characters["max_characters_per_token"]),
        activation=str(characters["activation"]),
        cells=int(lstm["dim"]),
        projection=int(lstm["projection_dim"]),
        num_layers=int(lstm["n_layers"]),
        # 0 and null both mean that nothing is clipped.
        cell_clip=float(clips[0]) if clips[0] else None,
        projection_clip=float(clips[1]) if clips[1] else None,
        has_skips=bool(lstm["use_skip_connections"]),
    )


def expected_shapes(options: ElmoOptions) -> dict[str, tuple[int, ...]]:
    """Return the arrays that an ELMo of these sizes has."""
    dimension, filters = options.character_dimension, options.num_filters
    cells, projection = options.cells, options.projection
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (NUM_CHARACTERS, dimension)}
    for number, (width, count) in enumerate(options.filters):
        shapes[f"CNN/W_cnn_{number}"] = (1, width, dimension, count)
        shapes[f"CNN/b_cnn_{number}"] = (count,)
    for number in range(options.num_highways):
        for gate in ("carry", "transform"):
            shapes[f"CNN_high_{number}/W_{gate}"] = (filters, filters)
            shapes[f"CNN_high_{number}/b_{gate}"] = (filters,)
    if filters != projection:
        shapes["CNN_proj/W_proj"] = (filters, projection)
        shapes["CNN_proj/b_proj"] = (projection,)
    for direction in DIRECTIONS:
        for layer in range(options.num_layers):
            cell = cell_name(direction, layer)
            shapes[f"{cell}/W_0"] = (2 * projection, 4 * cells)
            shapes[f"{cell}/B"] = (4 * cells,)
            shapes[f"{cell}/W_P_0"] = (cells, projection)
    return shapes


def cell_name(direction: str, layer: int) -> str:
    """Return under which name the arrays of an LSTM layer stand."""
    return f"{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def read_weights(path: Path, options: ElmoOptions) -> dict[str, NDArray[np.float32]]:
    """Read `weights.hdf5`.

    Raises:
        FednerError: If h5py is not installed, or the file is missing, damaged, or does not hold
            the arrays that the options ask for.
    """
    h5py = _library()
    if not path.is_file():
        raise FednerError(f"no file {path}", _HINT)
    weights: dict[str, NDArray[np.float32]] = {}
    problems = []
    try:
        with h5py.File(path, "r") as archive:
            for name, shape in expected_shapes(options).items():
                found = archive.get(name)
                is_array = isinstance(found, h5py.Dataset)
                if is_array and found.shape == shape and found.dtype.kind == "f":
                    weights[name] = np.ascontiguousarray(found[...], dtype=np.float32)
                    continue
                what = f"{found.dtype} of shape {found.shape}" if is_array else "missing"
                problems.append(f"  {name}: {what}; expected floats of shape {shape}")
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        raise FednerError(f"{path} is not a valid HDF5 file: {error}", _HINT) from error
    problems += [f"  {name}: not finite" for name, a in weights.items() if not np.isfinite(a).all()]
    if problems:
        raise FednerError("\n".join([f"{path} is not the ELMo of its options", *problems]), _HINT)
    return weights


def _library() -> ModuleType:
    try:
        return importlib.import_module("h5py")
    except ImportError as error:
        raise FednerError(
            f"the weights of an ELMo are read with the library h5py: {error}",
            "Install it: pip install 'fedner[elmo]'",
        ) from error


def digest_of(options: ElmoOptions, weights: Arrays) -> str:
    """Hash what decides the features, however the files are called and packed."""
    digest = hashlib.sha256(json.dumps(asdict(options), sort_keys=True).encode())
    for name, array in sorted(weights.items()):
        digest.update(f"{name} {array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()
