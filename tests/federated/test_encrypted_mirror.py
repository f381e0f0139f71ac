"""Copies of the server at the platforms: the plain run, without a server that has weights."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from fedner.errors import FednerError
from fedner.federated.aggregate import WeightedMean, combine
from fedner.federated.algorithms import Algorithm
from fedner.federated.algorithms.algorithm import Server
from fedner.federated.algorithms.fedadam import fedadam
from fedner.federated.algorithms.fedavg import fedavg
from fedner.federated.algorithms.fedner import fedner
from fedner.federated.algorithms.scaffold import scaffold
from fedner.federated.checkpoints import stored_rounds
from fedner.federated.ema import averaged
from fedner.federated.encrypted.ciphertexts import RunningSum, decrypt, encrypt
from fedner.federated.encrypted.keys import KeylessContext, RunKey, keyless_context, make_run_key
from fedner.federated.encrypted.mirror import Mirror, MirrorPlan
from fedner.federated.encrypted.parameters import CkksParameters
from fedner.federated.messages import Update
from fedner.federated.secure_sum import mean_scales
from fedner.federated.sizes import platform_weights
from fedner.federated.summation import Totals, values_of
from fedner.tensors import SharedState

SIZES = {"a": 30, "b": 50, "c": 20, "d": 90}
ALGORITHMS = {"fedavg": fedavg, "fedner": fedner, "fedadam": fedadam, "scaffold": scaffold}
NUM_ROUNDS = 50


def initial() -> SharedState:
    generator = torch.Generator().manual_seed(1)
    return SharedState(
        {
            "v": torch.randn(7, generator=generator),
            "w": torch.randn(3, 5, generator=generator),
        }
    )


def update_of(name: str, round_: int, server: Server, sends: str) -> Update:
    """Return what a platform makes of the weights: a pull towards its own optimum, and some noise.

    The weights have a part in it, so that a difference between two runs would grow.
    """
    generator = torch.Generator().manual_seed(1000 * round_ + sum(map(ord, name)))
    tensors = {}
    for key, weight in server.shared.items():
        optimum = torch.linspace(-1, 1, weight.numel()).view(weight.shape) * ord(name) / 100
        pull = (weight - optimum) * 0.2 + torch.randn(weight.shape, generator=generator) * 0.05
        tensors[key] = pull if sends == "gradients" else -pull
    extra = {key: each * 0.1 for key, each in tensors.items()} if server.extra else {}
    return Update(name, round_, SharedState(tensors), SharedState(extra))


def survivors(round_: int) -> list[str]:
    drawn = np.random.default_rng(round_).permutation(sorted(SIZES)).tolist()
    return sorted(drawn[: 2 + round_ % 3])


@cache
def contexts(parameters: CkksParameters) -> tuple[RunKey, KeylessContext]:
    return make_run_key(parameters), keyless_context(parameters)


def encrypted_totals(
    updates: Mapping[str, Update], weights: Mapping[str, float], parameters: CkksParameters
) -> Totals:
    """Encrypt, add without a key, decrypt: as platforms and server do."""
    scales, factor = mean_scales(weights)
    key, keyless = contexts(parameters)
    shapes = {name: each.shape for name, each in values_of(next(iter(updates.values()))).items()}
    number = sum(shape.numel() for shape in shapes.values())
    total = RunningSum(keyless, number)
    for name, update in updates.items():
        flat = torch.cat([each.double().reshape(-1) for each in values_of(update).values()])
        total.add(encrypt(key, flat.numpy() * scales[name], scales[name]))
    row = torch.from_numpy(decrypt(key, total.total(), number) * factor)
    pieces = row.split_with_sizes([shape.numel() for shape in shapes.values()])
    return {
        name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)
    }


@pytest.mark.parametrize("name", ALGORITHMS)
def test_encrypted_rounds_equal_plain_ones_over_fifty_rounds_with_drop_outs(name: str) -> None:
    algorithm: Algorithm = ALGORITHMS[name]()
    weights = platform_weights(SIZES, algorithm.weighting)
    parameters = CkksParameters.for_range(4, 4.0)
    plain, ema = algorithm.init(initial()), SharedState({})
    plan = MirrorPlan(algorithm, weights, ema_decay=0.9)
    mirror = Mirror.begun(plan, initial())
    batches = dict.fromkeys(SIZES, 3)
    for round_ in range(1, NUM_ROUNDS + 1):
        names = survivors(round_)
        sent = [update_of(each, round_, plain, algorithm.sends) for each in names]
        combined = combine(iter(sent), weights, WeightedMean, 12, {})
        plain = algorithm.advance(plain, combined)
        ema = SharedState(averaged(ema, plain.shared, round_ - 1, 0.9))
        own = {each: update_of(each, round_, mirror.server, algorithm.sends) for each in names}
        mirror.advance(round_, encrypted_totals(own, weights, parameters), names, batches)
    for key, weight in plain.shared.items():
        assert (mirror.server.shared[key] - weight).abs().max() <= 1e-6
        assert (mirror.shared[key] - ema[key]).abs().max() <= 1e-6
        assert (weight - initial()[key]).abs().max() > 0.04
    assert mirror.round == NUM_ROUNDS


def totals(seed: int) -> Totals:
    generator = torch.Generator().manual_seed(seed)
    shapes = {f"tensors/{name}": each.shape for name, each in initial().items()}
    return {
        name: torch.randn(shape, generator=generator, dtype=torch.float64)
        for name, shape in shapes.items()
    }


def begun(decay: float | None = 0.9) -> Mirror:
    return Mirror.begun(MirrorPlan(fedner(), dict.fromkeys(SIZES, 1.0), decay), initial())


def test_copies_with_the_same_sums_have_the_same_digest_and_with_others_another() -> None:
    one, other, third = begun(), begun(), begun()
    assert one.digest() == other.digest()
    for round_ in (1, 2):
        for each in (one, other):
            each.advance(round_, totals(round_), ["a", "b"], dict.fromkeys(SIZES, 1))
    assert one.digest() == other.digest() != third.digest()
    # The last bit of one number, the optimizer alone, the EMA alone, the round alone.
    other.server.shared["v"][0] = torch.nextafter(other.server.shared["v"][0], torch.tensor(9.0))
    assert one.digest() != other.digest()
    for part in ("first", "second"):
        again = stepped_twice()
        assert again.server.optimizer is not None
        getattr(again.server.optimizer, part)["v"][0] += 1e-3
        assert one.digest() != again.digest()
    again = stepped_twice()
    again.ema["v"][0] += 1e-3
    assert one.digest() != again.digest()
    again = stepped_twice()
    again.round = 3
    assert one.digest() != again.digest()


def stepped_twice() -> Mirror:
    mirror = begun()
    for round_ in (1, 2):
        mirror.advance(round_, totals(round_), ["a", "b"], dict.fromkeys(SIZES, 1))
    return mirror


def test_a_stored_copy_goes_on_as_if_never_stopped(tmp_path: Path) -> None:
    whole = stepped_twice()
    whole.store(tmp_path)
    assert Mirror.restored(whole.plan, initial(), tmp_path / "none", 2) is None
    again = Mirror.restored(whole.plan, initial(), tmp_path, 2)
    assert again is not None
    assert again.digest() == whole.digest()
    for each in (whole, again):
        each.advance(3, totals(3), ["c"], dict.fromkeys(SIZES, 1))
    assert again.digest() == whole.digest()


def test_copies_of_later_rounds_are_dropped(tmp_path: Path) -> None:
    mirror = begun()
    for round_ in (1, 2):
        mirror.advance(round_, totals(round_), ["a", "b"], dict.fromkeys(SIZES, 1))
        mirror.store(tmp_path)
    back = Mirror.restored(mirror.plan, initial(), tmp_path, 1)
    assert back is not None
    assert back.round == 1
    assert stored_rounds(tmp_path) == [1]


def test_sums_of_other_rounds_or_other_tensors_are_refused_and_change_nothing() -> None:
    mirror = stepped_twice()
    before = mirror.digest()
    for round_ in (1, 2, 4):
        with pytest.raises(FednerError, match="after round 2"):
            mirror.advance(round_, totals(1), ["a"], {"a": 1})
    missing = {"tensors/v": totals(1)["tensors/v"]}
    other = {**totals(1), "tensors/v": torch.zeros(8)}
    extra = {**totals(1), "extra/v": torch.zeros(7)}
    for found in (missing, other, extra):
        with pytest.raises(FednerError, match="other tensors"):
            mirror.advance(3, found, ["a"], {"a": 1})
    assert mirror.digest() == before
