"""Two rounds of three recipes, boiled down to numbers that a change of the arithmetic would move.

Of every tensor: how far it went from its beginning (norm), and the sum of that difference times
fixed weights (checksum), which a sign, an order or a stream of random numbers changes too.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedner.federated.checkpoints import read_state
from fedner.runs.checks import checked
from fedner.runs.folder import PRIVACY, SCORES, RunFolder
from fedner.runs.simulation import open_sites, train_run
from fedner.runs.site import Site
from fedner.settings import Settings, override

FOLDER = Path(__file__).resolve().parent / "records"
ROUNDS = 2
TABLES = {
    "title": "golden",
    "model": {
        "hidden": 12,
        "filters": 12,
        "character_filters": 6,
        "character_dimension": 6,
        "dropout": 0.1,
    },
    "embeddings": {"dimension": 24, "buckets": 2000},
    "training": {"rounds": ROUNDS, "batch_size": 12, "evaluate_every": 1, "checkpoint_every": 1},
    "platforms": [
        {"name": name, "data": f"synthetic:{name}", "num_sentences": 40, "split": {"test": 0.3}}
        for name in ("case-reports", "forum-posts", "social-posts")
    ],
}
RUNS = {
    "fedner-crf": (
        'algorithm={name="fedner",local_steps=30,server_optimizer={learning_rate=0.03}}',
        'local_optimizer={learning_rate=0.1,schedule="linear"}',
    ),
    "fedavg-softmax": (
        'model.recipe="BI-LSTM-TDDL"',
        'partition.shared="everything"',
        'algorithm={name="fedavg",local={epochs=12,optimizer={learning_rate=0.1}}}',
        "training.ema_decay=0.5",
    ),
    "fedner-dp": (
        'algorithm={name="fedner",local_steps=3,server_optimizer={learning_rate=0.01}}',
        "local_optimizer.learning_rate=0.03",
        "privacy={mechanism='unit-local',simulation=true,noise_multiplier=0.8,max_grad_norm=0.5,delta=0.01}",
    ),
}
# How far a value may lie from the recorded one: `relative` to the value, of a checksum to the norm
# of its tensor. Measured between instruction sets (none, AVX2, AVX-512): at most 2e-6 of weights,
# 2e-7 of losses; between one and two threads: nothing.
TOLERANCES: dict[str, dict[str, Any]] = {
    "losses": {
        "relative": 1e-4,
        "absolute": 0.0,
        "reason": "float32 sums in another order, on another processor or by another torch",
    },
    "counts": {
        "relative": 0.0,
        "absolute": 1.0,
        "reason": "one token whose two best tags are nearly equal may fall to either",
    },
    "norms": {
        "relative": 1e-4,
        "absolute": 1e-7,
        "reason": "float32 sums in another order, which Adam's first steps enlarge",
    },
    "checksums": {
        "relative": 3e-4,
        "absolute": 1e-7,
        "reason": "as for norms; here differences of single weights do not cancel",
    },
    "epsilons": {
        "relative": 1e-6,
        "absolute": 0.0,
        "reason": "float64 throughout; another release of the accountant rounds elsewhere",
    },
}


def settings_of(name: str) -> Settings:
    return checked(override(TABLES, RUNS[name]), Path.cwd())


def recorded(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return found


def computed(name: str, path: Path) -> dict[str, dict[str, float]]:
    """Train a golden run into a folder and return its numbers."""
    settings = settings_of(name)
    train_run(settings, path)
    folder = RunFolder(path)
    moved = dict(_moved(open_sites(settings, path), path))
    return {
        "losses": dict(_losses(folder)),
        "counts": dict(_counts(folder)),
        "norms": {key: float(tensor.norm()) for key, tensor in moved.items()},
        "checksums": {key: checksum(tensor) for key, tensor in moved.items()},
        "epsilons": dict(_epsilons(folder)),
    }


def checksum(tensor: Tensor) -> float:
    return float(tensor.flatten() @ torch.arange(1.0, tensor.numel() + 1).double().cos())


def differences(
    found: Mapping[str, Mapping[str, float]], record: Mapping[str, Any]
) -> Iterator[str]:
    """Yield what lies further from a record than its tolerance, or is in one of them alone."""
    for kind, tolerance in record["tolerances"].items():
        own, held = found[kind], record["values"][kind]
        for key in sorted({*own, *held}):
            if key not in own or key not in held:
                yield f"{kind}, {key}: found {own.get(key)}; expected {held.get(key)}"
                continue
            scale = record["values"]["norms"][key] if kind == "checksums" else held[key]
            allowed = tolerance["absolute"] + tolerance["relative"] * abs(scale)
            if not abs(own[key] - held[key]) <= allowed:
                yield f"{kind}, {key}: found {own[key]}; expected {held[key]} to {allowed:.2g}"


def _losses(folder: RunFolder) -> Iterator[tuple[str, float]]:
    for record in folder.rounds():
        for platform, loss in record["losses"].items():
            yield f"round {record['round']}, {platform}", loss


def _counts(folder: RunFolder) -> Iterator[tuple[str, float]]:
    for platform, scores in folder.read(SCORES)["platforms"].items():
        held = scores["methods"]["federated"]
        for kind, keys in (("strict", ("tp", "fp", "fn")), ("relaxed", ("predicted_touching",))):
            for key in keys:
                yield f"{platform}, {kind} {key}", held[kind]["micro"][key]


def _moved(sites: Sequence[Site], path: Path) -> Iterator[tuple[str, Tensor]]:
    shared, _ = read_state(path / "server", ROUNDS)
    yield from _from_beginning("server", shared, sites[0].blueprint.initial_shared())
    for site in sites:
        private, _ = read_state(path / "platforms" / site.name, ROUNDS)
        yield from _from_beginning(site.name, private, dict(site.tagger().named_parameters()))


def _from_beginning(
    owner: str, state: Mapping[str, Tensor], beginning: Mapping[str, Tensor]
) -> Iterator[tuple[str, Tensor]]:
    for key, tensor in sorted(state.items()):
        kind, _, name = key.partition("/")
        if kind in ("shared", "private", "ema"):
            yield f"{owner}, {key}", tensor.double() - beginning[name].detach().double()


def _epsilons(folder: RunFolder) -> Iterator[tuple[str, float]]:
    if not (folder.path / PRIVACY).is_file():
        return
    for platform, spent in folder.read(PRIVACY)["platforms"].items():
        for accountant in ("rdp", "pld"):
            yield f"{platform}, {accountant}", spent[accountant]
