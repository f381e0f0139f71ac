"""An algorithm from outside the package: schedules, noise, baselines and checks are its own.

Federated evolution strategy of two points in miniature: platforms train nothing. Each sends one
gradient, the server alone takes sign steps (signSGD, Bernstein et al. 2018). No settings class, no
row in a table: all that fedner knows of it is what the record states.
"""

from pathlib import Path

import pytest
import torch
from tiny_federation import BATCH, NAMES, SIZE, settings

from fedner.errors import FednerError
from fedner.federated.aggregate import Combined
from fedner.federated.algorithms import Algorithm, Server, baseline_batches, epoch_rounds, one_step
from fedner.federated.algorithms.algorithm import copied
from fedner.federated.contribution import Contribution
from fedner.federated.messages import Order
from fedner.federated.platform import Platform
from fedner.privacy.accountant import noise_for
from fedner.runs.folder import RunFolder
from fedner.runs.simulation import train_run
from fedner.tensors import SharedState, map_shared

EPOCHS = f"training={{epochs=2,batch_size={BATCH},evaluate_every=0}}"
DP = "privacy={mechanism='unit-local',simulation=true,epsilon=6.0,delta=0.001}"


def begin(shared: SharedState) -> Server:
    return Server(copied(shared))


def local(platform: Platform, order: Order) -> Contribution:
    gradient = platform.gradient(order, step=0)
    platform.step_private(gradient)
    return Contribution(gradient.shared, [gradient.loss])


def advance(server: Server, combined: Combined) -> Server:
    return Server(
        map_shared(lambda w, g: w - 0.01 * torch.sign(g), server.shared, combined.tensors)
    )


SIGN = Algorithm(
    "sign", begin, local, advance, sends="gradients", steps=one_step, identity="sign 0.01"
)


def run_of(folder: Path, *assignments: str, algorithm: Algorithm = SIGN) -> RunFolder:
    train_run(settings(*assignments), folder, algorithm=algorithm)
    return RunFolder(folder)


def test_it_runs_for_as_many_rounds_as_its_own_steps_take(tmp_path: Path) -> None:
    rounds = run_of(tmp_path / "run", EPOCHS).rounds()
    assert len(rounds) == 6, "2 epochs of ceil(28 / 12) single steps"
    assert rounds[-1].losses.keys() == set(NAMES)


def test_a_target_epsilon_takes_the_noise_of_its_own_steps(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting", reason="privacy accounting needs fedner[privacy]")
    spent = run_of(tmp_path / "run", EPOCHS, DP).read("privacy.json")["platforms"]
    expected = noise_for(
        6.0, sampling_probability=BATCH / SIZE, steps=6, delta=0.001, accountant="pld"
    )
    for each in spent.values():
        assert each["steps"] == 6
        assert each["noise_multiplier"] == [pytest.approx(expected)]
        assert 5.5 < each["pld"] <= 6.0


def test_its_local_only_baseline_is_fair(tmp_path: Path) -> None:
    folder = run_of(
        tmp_path / "run", EPOCHS, 'training.baselines=["local-only"]',
        "training.baseline_epochs=1", "training.patience=1",
    )  # fmt: skip
    for name in NAMES:
        record = folder.site(name).read("baselines/local-only.json")
        assert [each["batch_size"] for each in record["tried"]] == [BATCH]
        assert record["steps_in_federation"] == 6
        assert record["steps"] >= 6


def test_what_it_states_is_checked_like_what_a_file_says(tmp_path: Path) -> None:
    central = DP.replace("unit-local", "unit-central")
    steps = Algorithm("two", begin, local, advance, sends="gradients", steps=lambda _b, _s: 2)
    with pytest.raises(FednerError, match="shared weights that nobody noised"):
        run_of(tmp_path / "a", central, algorithm=steps)
    whole = DP.replace("unit-local", "platform").replace("0.001", "0.01")
    extra = Algorithm("extra", begin, local, advance, has_extra=True, steps=one_step)
    with pytest.raises(FednerError, match="extra tensors"):
        run_of(tmp_path / "b", whole, algorithm=extra)
    joint = Algorithm("joint", begin, local, advance, batching="joint", steps=one_step)
    with pytest.raises(FednerError, match=r"training\.batch_size"):
        run_of(tmp_path / "c", "training.batch_size=1", algorithm=joint)
    assert not list(tmp_path.iterdir()), "nothing is written for what cannot run"


def test_what_is_left_out_follows_from_the_rest() -> None:
    sizes = {"a": 30, "b": 10}
    assert epoch_rounds(SIGN, sizes, 10) == 3
    assert epoch_rounds(SIGN, sizes, 10, num_sampled=1) == 6
    assert baseline_batches(SIGN, sizes, 8, "b") == (8,)
    joint = Algorithm("joint", begin, local, advance, batching="joint", steps=one_step)
    assert epoch_rounds(joint, sizes, 8) == 5
    assert baseline_batches(joint, sizes, 8, "b") == (8, 2)
