"""A tiny ELMo with random weights, in the files that its makers publish them in."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from fedner.models.embeddings.elmo_files import ElmoOptions, expected_shapes

Arrays = dict[str, np.ndarray]

OPTIONS = ElmoOptions(
    character_dimension=3,
    filters=((1, 2), (2, 4), (3, 5)),
    num_highways=2,
    max_characters=8,
    activation="relu",
    cells=6,
    projection=4,
    num_layers=2,
    cell_clip=0.2,
    projection_clip=0.08,
    has_skips=True,
)


def random_weights(options: ElmoOptions = OPTIONS, seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    shapes = expected_shapes(options).items()
    # Small enough for words of size 1, large enough for both clips to bite.
    return {name: rng.normal(0, 0.4, size=shape).astype(np.float32) for name, shape in shapes}


def as_json(options: ElmoOptions) -> dict[str, Any]:
    return {
        "lstm": {
            "cell_clip": options.cell_clip,
            "use_skip_connections": options.has_skips,
            "n_layers": options.num_layers,
            "proj_clip": options.projection_clip,
            "projection_dim": options.projection,
            "dim": options.cells,
        },
        "char_cnn": {
            "embedding": {"dim": options.character_dimension},
            "filters": [list(pair) for pair in options.filters],
            "n_highway": options.num_highways,
            "n_characters": 262,
            "max_characters_per_token": options.max_characters,
            "activation": options.activation,
        },
    }


def save(h5py: Any, folder: Path, options: ElmoOptions, weights: Arrays) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "options.json").write_text(json.dumps(as_json(options)))
    with h5py.File(folder / "weights.hdf5", "w") as archive:
        for name, array in weights.items():
            archive[name] = array
    return folder
