"""The noise itself: its law, its independence, and that nothing unclipped is ever noised."""

import ast
import math
import os
import ssl
import struct
import sys
import threading
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import fedner
from fedner.errors import FednerError
from fedner.privacy.entropy import (
    SeededSimulation,
    Source,
    SystemEntropy,
    system_bytes,
)
from fedner.privacy.noise import (
    Clipped,
    clip,
    divide,
    gaussian,
    signal_to_noise,
    sum_of_disjoint,
    system_normals,
)
from fedner.tensors import norm

SOURCES: list[Source] = [SystemEntropy(), SeededSimulation(7, ("test",))]
NUM_DRAWS = 40_000
# The system's entropy is another in every run, and about a hundred numbers are held against this:
# right noise fails one of them in ten million runs.
Z = 6.2


def released(sigma: float, source: Source, size: int = NUM_DRAWS) -> Tensor:
    zeros = Clipped({"w": torch.zeros(size)}, 2.0)
    return gaussian(zeros, sigma / 2.0, source).value["w"].double()


def variance_fits(drawn: Tensor, sigma: float) -> bool:
    """Whether the mean square of normals of deviation `sigma` may be this one."""
    found = float(drawn.square().mean()) / sigma**2
    return abs(found - 1) < Z * math.sqrt(2 / drawn.numel())


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("sigma", [0.03, 1.0, 50.0])
def test_sigma_is_accepted_and_its_neighbours_are_not(source: Source, sigma: float) -> None:
    drawn = released(sigma, source)
    assert variance_fits(drawn, sigma)
    assert not variance_fits(drawn, sigma * 2 / 3)
    assert not variance_fits(drawn, sigma * 3 / 2)


def distance_from_normal(drawn: Tensor) -> float:
    """Kolmogorov and Smirnov's distance between draws and the standard normal law."""
    ordered = drawn.sort().values
    law = torch.special.ndtr(ordered)
    ranks = torch.arange(1, len(ordered) + 1, dtype=torch.float64) / len(ordered)
    return float(torch.maximum((ranks - law).abs(), (ranks - 1 / len(ordered) - law).abs()).max())


@pytest.mark.parametrize("source", SOURCES)
def test_the_law_is_normal(source: Source) -> None:
    drawn = released(1.0, source)
    limit = 3.2 / math.sqrt(len(drawn))  # passed by chance once in 400 million times
    assert distance_from_normal(drawn) < limit
    assert distance_from_normal(drawn * 1.2) > limit
    uniform = (torch.rand(len(drawn), dtype=torch.float64) - 0.5) * math.sqrt(12)
    assert distance_from_normal(uniform) > limit


def test_tails_and_moments_of_the_system_normals() -> None:
    drawn = system_normals(2_000_001)
    assert len(drawn) == 2_000_001
    beyond = float((drawn.abs() > 3).double().mean())
    expected = math.erfc(3 / math.sqrt(2))
    assert abs(beyond - expected) < Z * math.sqrt(expected / len(drawn))
    assert abs(float((drawn**4).mean()) - 3) < Z * math.sqrt(96 / len(drawn))
    assert abs(float(drawn.mean())) < Z / math.sqrt(len(drawn))
    assert float(drawn.abs().max()) > 4.3


def test_normals_are_box_and_mullers_of_the_drawn_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slow obvious version, on bits of both ends of every range."""
    words = [0, 1, 2**63 - 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF]
    turns = [0, 2**31 - 1, 2**31, 2**32 - 1, 12345, 2**30]
    drawn = struct.pack("<6Q6I", *words, *turns)
    monkeypatch.setattr("fedner.privacy.keystream.system_bytes", lambda count: drawn[:count])
    expected = []
    for trig in (math.cos, math.sin):
        for word, turn in zip(words, turns, strict=True):
            radius = math.sqrt(-2 * math.log((word % 2**63 + 0.5) / 2**63))
            expected.append(radius * trig(math.tau * (turn + 0.5) / 2**32))
    found = system_normals(12)
    torch.testing.assert_close(
        found, torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9
    )
    assert 9.3 < math.hypot(float(found[0]), float(found[6])) < 9.5  # all bits of the radius 0


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # torch has threads
def test_a_forked_process_draws_other_bytes() -> None:
    """Also where OpenSSL was used before the fork, and children draw at the same time."""
    seen = {system_bytes(32)}
    pipes = []
    for _ in range(3):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, system_bytes(32))
            os._exit(0)
        os.close(write)
        pipes.append((child, read))
    for child, read in pipes:
        seen.add(os.read(read, 32))
        os.close(read)
        os.waitpid(child, 0)
    seen.add(system_bytes(32))
    assert len(seen) == 5
    assert all(len(each) == 32 for each in seen)


def test_threads_that_draw_at_once_share_no_bytes() -> None:
    barrier = threading.Barrier(4)
    drawn: list[bytes] = []

    def draw() -> None:
        barrier.wait()
        drawn.extend(system_bytes(32) for _ in range(50))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == len(drawn) == 200


def test_without_openssl_the_kernel_gives_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def kernel(count: int) -> bytes:
        asked.append(count)
        return bytes(count)

    def broken(count: int) -> bytes:
        raise ssl.SSLError(f"no {count} bytes")

    monkeypatch.setattr("fedner.privacy.entropy.os.urandom", kernel)
    with monkeypatch.context() as failing:
        failing.setattr("ssl.RAND_bytes", broken)
        assert system_bytes(40) == bytes(40)
    assert asked[-1] == 40
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "ssl", None)
        assert system_bytes(24) == bytes(24)
    assert asked[-1] == 24


def test_every_draw_is_seeded_anew_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copied virtual machine has the cipher's state twice, but not the kernel's next bytes."""
    seeds: list[bytes] = []
    monkeypatch.setattr("ssl.RAND_add", lambda seed, entropy: seeds.append(seed[: int(entropy)]))
    system_bytes(8)
    system_normals(10)
    assert [len(seed) for seed in seeds] == [48, 48]
    assert seeds[0] != seeds[1]


def test_both_halves_of_a_pair_are_independent() -> None:
    drawn = system_normals(200_000)
    first, second = drawn[:100_000], drawn[100_000:]
    assert abs(correlation(first, second)) < Z / math.sqrt(100_000)
    assert abs(correlation(first.square(), second.square())) < Z / math.sqrt(100_000)


def correlation(left: Tensor, right: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([left, right]))[0, 1])


@pytest.mark.parametrize(
    "make",
    [lambda: SystemEntropy(), lambda: SeededSimulation(3)],
    ids=["system", "simulation"],
)
def test_steps_tensors_and_platforms_are_independent(make: Callable[[], Source]) -> None:
    zeros = Clipped({"a": torch.zeros(NUM_DRAWS), "b": torch.zeros(NUM_DRAWS)}, 1.0)
    drawn = []
    for platform in ("x", "y"):
        for step in range(3):
            source = make().at("platform", platform, "step", step)
            drawn.extend(gaussian(zeros, 1.0, source).value.values())
    for left, right in combinations(drawn, 2):
        assert abs(correlation(left, right)) < Z / math.sqrt(NUM_DRAWS)
    assert correlation(drawn[0], drawn[0] + drawn[1]) > 0.5  # the check can see dependence


def test_within_a_tensor_neighbours_are_independent() -> None:
    drawn = released(1.0, SystemEntropy(), 200_000)
    for lag in (1, 2, 7, 100_000):
        assert abs(correlation(drawn[:-lag], drawn[lag:])) < Z / math.sqrt(len(drawn) - lag)


def test_the_system_never_repeats_and_a_simulation_does() -> None:
    assert not torch.equal(released(1.0, SystemEntropy()), released(1.0, SystemEntropy()))
    seeded = SeededSimulation(1).at("step", 4)
    assert torch.equal(released(1.0, seeded), released(1.0, SeededSimulation(1, ("step", 4))))
    assert not torch.equal(released(1.0, seeded), released(1.0, SeededSimulation(2, ("step", 4))))


def test_torch_seeds_do_not_reach_the_system_noise() -> None:
    torch.manual_seed(0)
    first = released(1.0, SystemEntropy())
    torch.manual_seed(0)
    assert not torch.equal(first, released(1.0, SystemEntropy()))


@pytest.mark.parametrize("source", SOURCES)
def test_a_simulation_is_labelled(source: Source) -> None:
    noised = gaussian(clip({"w": torch.ones(3)}, 1.0), 1.0, source)
    assert noised.is_simulation == isinstance(source, SeededSimulation)
    assert divide(noised, 10).is_simulation == noised.is_simulation


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("sigma", [0.3, 1.0, 17.0])
def test_released_values_lie_on_one_grid(source: Source, sigma: float) -> None:
    """No low bits of the protected value: neighbours are released on the same multiples."""
    grid = 2.0 ** (math.floor(math.log2(sigma)) - 16)
    for value in (0.0, 1 / 3, math.pi * 1e-5):
        protected = Clipped({"w": torch.full((500,), value)}, 1.0)
        multiples = gaussian(protected, sigma, source).value["w"].double() / grid
        assert torch.equal(multiples, multiples.round())


@pytest.mark.parametrize("source", SOURCES)
def test_noise_is_added_to_the_sum_and_changes_no_input(source: Source) -> None:
    before = {"a": torch.full((300, 100), 40.0), "empty": torch.zeros(0), "one": torch.tensor(2.0)}
    copies = {name: tensor.clone() for name, tensor in before.items()}
    noised = gaussian(Clipped(before, 3.0), 0.5, source)
    assert noised.standard_deviation == 1.5
    assert abs(float(noised.value["a"].mean()) - 40) < Z * 1.5 / math.sqrt(30_000)
    assert {name: tensor.shape for name, tensor in noised.value.items()} == {
        name: tensor.shape for name, tensor in before.items()
    }
    assert all(torch.equal(before[name], copies[name]) for name in before)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("sigma", [0.03, 50.0])
def test_on_a_device_the_law_is_the_same(sigma: float) -> None:
    value = torch.full((NUM_DRAWS,), math.pi, device="cuda")
    noised = gaussian(Clipped({"w": value, "empty": value[:0]}, 2.0), sigma / 2, SystemEntropy())
    assert noised.value["w"].device.type == "cuda"
    drawn = noised.value["w"].double().cpu()
    grid = 2.0 ** (math.floor(math.log2(sigma)) - 16)
    assert torch.equal((drawn / grid).round() * grid, drawn)
    assert variance_fits(drawn - math.pi, sigma)
    assert not variance_fits(drawn - math.pi, sigma * 2 / 3)
    assert not variance_fits(drawn - math.pi, sigma * 3 / 2)
    with pytest.raises(FednerError, match="not a finite"):
        gaussian(Clipped({"w": value.log().sub(99).sqrt()}, 1.0), 1.0, SystemEntropy())


def test_blocks_join_seamlessly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedner.privacy.noise._CPU_BLOCK", 1_000)
    monkeypatch.setattr(
        "fedner.privacy.noise.system_normals", lambda n, device: torch.zeros(n).double().to(device)
    )
    value = torch.arange(4_321.0)
    assert torch.equal(gaussian(Clipped({"w": value}, 1.0), 1.0, SystemEntropy()).value["w"], value)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_only_finite_clipped_values_are_noised(bad: float) -> None:
    with pytest.raises(FednerError, match="not a finite"):
        gaussian(Clipped({"w": torch.tensor([bad])}, 1.0), 1.0, SystemEntropy())


def test_only_real_numbers_are_noised() -> None:
    with pytest.raises(FednerError, match="int64; expected real numbers"):
        gaussian(Clipped({"w": torch.tensor([1, 2])}, 1.0), 1.0, SystemEntropy())


def test_noise_takes_only_what_clipping_returned() -> None:
    bare: object = {"w": torch.ones(3)}
    with pytest.raises(FednerError, match="Clip first"):
        gaussian(bare, 1.0, SystemEntropy())  # type: ignore[arg-type]  # that is the point


def test_only_clipping_functions_make_clipped_values() -> None:
    """Read the source: nobody else in the house calls the constructor."""
    root = Path(fedner.__file__).parent
    makers = set()
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Clipped":
                makers.add(file.relative_to(root).as_posix())
    assert "privacy/noise.py" in makers
    assert makers <= {"privacy/noise.py", "privacy/dpsgd.py"}


states = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=6)


@given(states, st.floats(1e-3, 1e3))
def test_clipping_bounds_the_norm_and_keeps_the_direction(
    values: list[float], bound: float
) -> None:
    state = {"a": torch.tensor(values), "b": torch.tensor(values[:1])}
    clipped = clip(state, bound)
    assert clipped.bound == bound
    assert norm(clipped.value) <= bound * (1 + 1e-6)
    if norm(state) <= bound:
        assert all(torch.equal(clipped.value[name], state[name]) for name in state)
    else:
        assert norm(clipped.value) == pytest.approx(bound, rel=1e-5)


def test_clipping_zero_and_what_is_not_finite() -> None:
    assert norm(clip({"w": torch.zeros(4)}, 1.0).value) == 0
    for bad in (float("nan"), float("inf")):
        assert norm(clip({"w": torch.tensor([bad, 1.0])}, 1.0).value) == 0


@pytest.mark.parametrize("bound", [0.0, -1.0, float("inf"), float("nan")])
def test_a_senseless_bound_is_refused(bound: float) -> None:
    with pytest.raises(FednerError, match="clipping bound"):
        clip({"w": torch.ones(2)}, bound)


@pytest.mark.parametrize("multiplier", [-0.1, float("nan"), float("inf")])
def test_a_senseless_multiplier_is_refused(multiplier: float) -> None:
    with pytest.raises(FednerError, match="multiplier"):
        gaussian(clip({"w": torch.ones(2)}, 1.0), multiplier, SystemEntropy())


def test_disjoint_sums_add_up_at_one_bound() -> None:
    parts = [clip({"w": torch.full((2,), float(at))}, 9.0) for at in range(4)]
    total = sum_of_disjoint(parts)
    assert total.bound == 9.0
    assert torch.equal(total.value["w"], torch.full((2,), 6.0))
    assert torch.equal(parts[0].value["w"], torch.zeros(2))
    with pytest.raises(FednerError, match="bounds"):
        sum_of_disjoint([*parts, clip({"w": torch.ones(2)}, 1.0)])
    with pytest.raises(FednerError, match="different tensors"):
        sum_of_disjoint([*parts, clip({"v": torch.ones(2)}, 9.0)])
    with pytest.raises(FednerError, match="bounds"):
        sum_of_disjoint([])


def test_the_mean_is_over_the_expected_size() -> None:
    noised = gaussian(Clipped({"w": torch.full((2,), 8.0)}, 1.0), 0.0, SystemEntropy())
    assert torch.equal(divide(noised, 4.0).value["w"], torch.full((2,), 2.0))
    with pytest.raises(FednerError, match="expected size"):
        divide(noised, 0)


def test_signal_to_noise() -> None:
    clipped = Clipped({"w": torch.full((4,), 3.0)}, 1.0)
    assert signal_to_noise(clipped, 1.5) == pytest.approx(2.0)
    assert math.isinf(signal_to_noise(clipped, 0.0))
