"""What a platform refuses, and its ways that few runs take."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from linear_platform import LinearLearner, initial, linear_platform, random_platform
from tagger_platforms import sentences_of

from fedner.errors import FednerError
from fedner.federated.algorithms import FednerSettings, fedner
from fedner.federated.dp_steps import DPSteps, sliced_units
from fedner.federated.messages import Order
from fedner.federated.platform import LocalSettings, platform
from fedner.models.partition import partition
from fedner.privacy.entropy import SeededSimulation
from fedner.privacy.mechanisms import UNIT_LOCAL, Mechanism, PlatformPrivacy
from fedner.privacy.sampling import Units
from fedner.runs.own_progress import OWN_PROGRESS, OwnProgress
from fedner.tensors import SharedState

SIZE = 12


def steps(mechanism: Mechanism = UNIT_LOCAL) -> DPSteps:
    settings = PlatformPrivacy(mechanism, 1.0, 0.0, SIZE, source=SeededSimulation(5))
    return DPSteps(settings, (Units("sentence", tuple((at,) for at in range(SIZE))),))


def test_a_partition_of_another_model_is_refused() -> None:
    other = partition(["private.c", "shared.a", "shared.odd"], ["shared"])
    with pytest.raises(FednerError, match=r"'p'.*differ in \['shared.b', 'shared.odd'\]"):
        platform("p", LinearLearner([[1.0, 1.0, 1.0]], [1.0]), other, 7)


@pytest.mark.parametrize("gone", ["shared.a", "shared.b"])
def test_a_broadcast_without_a_weight_changes_nothing(gone: str) -> None:
    own = random_platform("alpha", SIZE)
    before = {name: tensor.clone() for name, tensor in own.shared().items()}
    rest = {name: tensor + 1 for name, tensor in initial().items() if name != gone}
    with pytest.raises(FednerError, match=gone):
        own.run_round(fedner(), Order("run", 1, SharedState(rest), batches={"alpha": 4}))
    assert all(torch.equal(before[name], tensor) for name, tensor in own.shared().items())


def test_an_algorithm_without_losses_works_where_losses_are_noted_at_home(tmp_path: Path) -> None:
    silent = replace(fedner(), local=lambda *asked: fedner().local(*asked)._replace(losses=[]))
    own = linear_platform("p", LocalSettings(reports_loss=False))
    own.progress = OwnProgress(tmp_path / OWN_PROGRESS)
    update = own.run_round(silent, Order("run", 1, initial(), batches={"p": 1}))
    assert update.loss is None
    assert not own.progress.path.exists()


def dp_answer(reading: str, mechanism: Mechanism = UNIT_LOCAL) -> dict[str, float]:
    own = random_platform("alpha", SIZE, privacy=steps(mechanism))
    algorithm = fedner(FednerSettings(loss=reading))  # type: ignore[arg-type]
    update = own.run_round(algorithm, Order("run", 1, initial(), batches={"alpha": 4}))
    return {name: float(tensor) for name, tensor in update.tensors.items()}


def test_a_noised_sum_is_the_noised_mean_times_the_expected_size() -> None:
    mean, total = dp_answer("mean"), dp_answer("sum")
    assert set(mean) == {"shared.a", "shared.b"}
    for name, value in mean.items():
        assert value != 0
        assert total[name] == pytest.approx(4 * value, rel=1e-6)


@pytest.mark.parametrize("unit", ["document", "patient"])
def test_units_are_cut_into_slices_by_their_own_names(unit: str) -> None:
    sentences = [
        replace(each, document=f"d{place // 2}", patient=f"p{place // 4}")
        for place, each in enumerate(sentences_of("social-posts"))
    ]
    settings = PlatformPrivacy(
        UNIT_LOCAL, 1.0, 1.0, 40, unit, num_slices=3, source=SeededSimulation(5)
    )  # type: ignore[arg-type]

    def slices(of: list) -> dict[str, int]:  # type: ignore[type-arg]
        cut = sliced_units(of, unit, settings)  # type: ignore[arg-type]
        return {
            str(getattr(of[members[0]], unit)): number
            for number, part in enumerate(cut)
            for members in part.members
        }

    whole = slices(sentences)
    assert len(whole) == {"document": 20, "patient": 10}[unit]
    assert len(set(whole.values())) == 3
    # One unit less moves no other.
    without = [each for each in sentences if each.document != "d0" and each.patient != "p0"]
    assert slices(without).items() < whole.items()
