"""Made-up Flair weights of a few numbers, in the form of the real ones."""

import io
import lzma
from pathlib import Path

import numpy as np

CHARACTERS = ["<unk>", " ", "\n", *"abcdefghijklmnopqrstuvwxyz."]
Arrays = dict[str, np.ndarray]


def tiny(hidden: int = 6, dimension: int = 4, seed: int = 0) -> Arrays:
    rng = np.random.default_rng(seed)
    arrays: Arrays = {}
    count = len(CHARACTERS)
    for direction in ("forward", "backward"):
        shapes = {
            "encoder.weight": (count, dimension),
            "rnn.weight_ih_l0": (4 * hidden, dimension),
            "rnn.weight_hh_l0": (4 * hidden, hidden),
            "rnn.bias_ih_l0": (4 * hidden,),
            "rnn.bias_hh_l0": (4 * hidden,),
            "decoder.weight": (count, hidden),
            "decoder.bias": (count,),
        }
        for name, shape in shapes.items():
            arrays[f"{direction}/{name}"] = rng.normal(size=shape).astype(np.float32)
        arrays[f"{direction}/chars"] = np.array(CHARACTERS)
        arrays[f"{direction}/name"] = np.array("tiny")
    return arrays


def save(path: Path, arrays: Arrays) -> Path:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    data = buffer.getvalue()
    path.write_bytes(lzma.compress(data) if path.suffix == ".xz" else data)
    return path
