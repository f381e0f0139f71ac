"""Private steps: joint clipping, noise where it belongs, sensitivity, what leaves, its cost."""

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_platform import LinearLearner, initial, linear_partition, random_platform
from numpy.typing import NDArray
from tagger_platforms import NAMES, first_shared, new_tagger, sentences_of, tagger_platform
from torch import Tensor

from fedner.corpus.sentence import Sentence
from fedner.engines.in_process import InProcess
from fedner.errors import FednerError
from fedner.federated.algorithms import (
    Algorithm,
    FedAvgSettings,
    FednerSettings,
    LocalTraining,
    ScaffoldSettings,
    algorithm_named,
    fedavg,
    fedner,
    scaffold,
)
from fedner.federated.answering import answers
from fedner.federated.checkpoints import read_state
from fedner.federated.dp_steps import (
    DPSteps,
    padding_rows,
    sliced_units,
)
from fedner.federated.message_bytes import to_bytes, update_from_bytes
from fedner.federated.messages import Order
from fedner.federated.platform import Platform, platform
from fedner.federated.run import RunRecord, RunSettings, run
from fedner.federated.screening import NormRule
from fedner.federated.server_noise import ServerNoise
from fedner.federated.sizes import Weighting, platform_weights
from fedner.privacy.entropy import SeededSimulation, SystemEntropy
from fedner.privacy.events import GaussianRelease, from_json
from fedner.privacy.mechanisms import (
    MECHANISMS,
    PLATFORM,
    PLATFORM_CENTRAL,
    UNIT_CENTRAL,
    UNIT_LOCAL,
    Mechanism,
    PlatformPrivacy,
)
from fedner.privacy.noise import Clipped
from fedner.privacy.noise import clip as clip_state
from fedner.privacy.noise_shares import JointSum
from fedner.privacy.sampling import PoissonSample, Units, draw_sentences
from fedner.privacy.sum_terms import SumTerms
from fedner.training import trainable
from sigmas import Z, accepts

SOURCE = SeededSimulation(5)
SIZES = {"alpha": 12, "beta": 10, "gamma": 5}


def every_sentence(size: int) -> tuple[Units, ...]:
    return (Units("sentence", tuple((position,) for position in range(size))),)


def linear_steps(size: int = 12, noise: float = 1.0, **changes: object) -> DPSteps:
    privacy = PlatformPrivacy(UNIT_LOCAL, 1.0, noise, size, source=SOURCE)
    privacy = replace(privacy, **changes)  # type: ignore[arg-type]
    return DPSteps(privacy, every_sentence(size) if privacy.mechanism.samples_units else ())


def dp_linear(name: str, **changes: object) -> Platform:
    return random_platform(name, SIZES[name], privacy=linear_steps(SIZES[name], **changes))


def linear_run(
    algorithm: Algorithm, rounds: int = 4, folder: Path | None = None, **changes: object
) -> RunRecord:
    noise = None
    mechanism = changes.get("mechanism", UNIT_LOCAL)
    if isinstance(mechanism, Mechanism) and mechanism.releases_sum:
        noise = ServerNoise(mechanism, 1.0, 1.0, source=SOURCE)
    engine = InProcess(
        answers(lambda name: dp_linear(name, **changes), algorithm, folder), list(SIZES)
    )
    every = 1 if folder is not None else 0
    plan = RunSettings("dp", rounds, 9, SIZES, noise=noise, checkpoint_every=every)
    resume = folder is not None and (folder / "rounds.jsonl").exists()
    return run(algorithm, engine, initial(), plan, 7, folder, resume=resume)


def shared_of(record: RunRecord) -> dict[str, list[float]]:
    return {name: tensor.tolist() for name, tensor in record.server.shared.items()}


# Joint clipping and the real tagger.


def tagger_steps(name: str, noise: float = 0.0, **changes: object) -> DPSteps:
    sentences = sentences_of(name)
    rows = padding_rows(new_tagger(name, "fedner"))
    privacy = PlatformPrivacy(
        UNIT_LOCAL, 0.5, noise, 40, "document", source=SOURCE, padding_rows=rows
    )
    privacy = replace(privacy, **changes)  # type: ignore[arg-type]
    return DPSteps(privacy, sliced_units(sentences, "document", privacy))


def one_by_one(name: str, steps: DPSteps, batch: int, names: set[str]) -> dict[str, Tensor]:
    """Each unit's gradient by plain backward passes, clipped over `names` together, summed."""
    own = tagger_platform(name, dropout=0.0)
    path = ("round", 1, "platform", name, "step", 0)
    sample = draw_sentences(steps.pools[0], steps.settings.probability(batch), SOURCE.at(*path))
    weights = trainable(own.learner.tagger)  # type: ignore[attr-defined]
    total = {each: torch.zeros_like(weights[each]).detach() for each in names}
    for unit in range(sample.num_units):
        mine = [s for s, u in zip(sample.sentences, sample.units_B, strict=True) if u == unit]
        summed: dict[str, Tensor] = {}
        for sentence in mine:
            _, gradient = own.learner.gradients(np.asarray([sentence]), 0)
            summed = {key: summed.get(key, 0) + gradient[key] for key in names}
        size = float(torch.sqrt(sum(each.double().square().sum() for each in summed.values())))
        for key in names:
            total[key] += summed[key] * min(1.0, steps.settings.max_grad_norm / size)
    assert sample.num_units > 1
    return total


@pytest.mark.parametrize("part", ["joint", "frozen"])
@pytest.mark.parametrize("mechanism", [UNIT_LOCAL, UNIT_CENTRAL], ids=lambda each: each.name)
def test_a_step_is_the_slow_loop_over_units(part: str, mechanism: Mechanism) -> None:
    name, batch = NAMES[0], 20
    steps = tagger_steps(name, private_part=part, mechanism=mechanism)
    own = tagger_platform(name, dropout=0.0, privacy=steps)
    broadcast = Order("run", 1, first_shared(dropout=0.0), batches={name: batch})
    steps.begin(0)
    found = own.gradient(broadcast, 0)
    names = {*own.partition.shared, *(own.partition.private if part == "joint" else ())}
    expected = one_by_one(name, steps, batch, names)
    divisor = 1.0 if mechanism is UNIT_CENTRAL else steps.settings.expected(batch)
    for key, tensor in found.shared.items():
        # A sum that nobody noised yet keeps all its digits.
        wide = expected[key].double() if mechanism is UNIT_CENTRAL else expected[key]
        torch.testing.assert_close(tensor, wide / divisor, rtol=1e-4, atol=1e-7)
    assert set(found.private) == (set(own.partition.private) if part == "joint" else set())
    for key, tensor in found.private.items():
        mean = expected[key] / steps.settings.expected(batch)
        torch.testing.assert_close(tensor, mean, rtol=1e-4, atol=1e-7)
    assert bool(torch.isnan(found.loss)), "the loss of a DP step is never disclosed"


def test_a_frozen_private_part_stays_and_thaws() -> None:
    name = NAMES[0]
    own = tagger_platform(name, privacy=tagger_steps(name, 1.0, private_part="frozen"))
    before = {key: tensor.clone() for key, tensor in own.private().items()}
    broadcast = Order("run", 1, first_shared(), batches={name: 8})
    own.run_round(fedner(FednerSettings(local_steps=2)), broadcast)
    assert all(torch.equal(before[key], tensor) for key, tensor in own.private().items())
    assert all(tensor.requires_grad for tensor in own.private().values())


def test_padding_rows_stay_zero_under_noise() -> None:
    name = NAMES[0]
    own = tagger_platform(name, privacy=tagger_steps(name, 1.0))
    update = own.run_round(fedner(), Order("run", 1, first_shared(), batches={name: 8}))
    table = update.tensors["embeddings.characters.embedding.weight"]
    assert not bool(table[0].any())
    assert bool(table[1:].all())


def test_an_empty_draw_is_noise_alone_and_says_nothing_of_it() -> None:
    own = random_platform(
        "alpha", 12, privacy=linear_steps(noise_multiplier=2.0, public_units=10**9)
    )
    update = own.run_round(fedner(), Order("run", 1, initial(), batches={"alpha": 1}))
    assert all(float(tensor) != 0.0 for tensor in update.tensors.values())
    assert own.learner.seen == []  # type: ignore[attr-defined]
    assert update.loss is None


# Noise: accepted at sigma, rejected at two thirds and at three halves of it.

WIDE = 40_000


class WideLearner(LinearLearner):
    """Shared and private weights with room for statistics; its gradients are zero."""

    def __init__(self) -> None:
        super().__init__([[0.0, 0.0, 0.0]], [0.0])
        for name in self._weights:
            self._weights[name] = torch.zeros(WIDE)

    def clipped(
        self,
        sample: PoissonSample,
        max_grad_norm: float,
        names: Collection[str],
        loss: str,
        seed: int,
    ) -> Clipped:
        del sample, loss, seed
        return clip_state({name: torch.zeros(WIDE) for name in names}, max_grad_norm)

    def gradients(
        self, sentences: NDArray[np.int64], seed: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        del sentences, seed
        return torch.zeros(()), {name: torch.zeros(WIDE) for name in self._weights}


def wide(name: str, **changes: object) -> Platform:
    steps = linear_steps(1, **{"public_units": 4, **changes})
    return platform(name, WideLearner(), linear_partition(), 7, privacy=steps)


@pytest.mark.parametrize("is_deployed", [False, True])
def test_noise_of_an_update_is_that_of_its_event(is_deployed: bool) -> None:
    source = SystemEntropy() if is_deployed else SOURCE
    own = wide("a", noise_multiplier=1.5, max_grad_norm=2.0, source=source)
    other = wide("b", noise_multiplier=1.5, max_grad_norm=2.0, source=source)
    shared = {name: torch.zeros(WIDE) for name in ("shared.a", "shared.b")}
    broadcast = Order("run", 1, linear_partition().shared_state({**shared, "private.c": None}),
                          batches={"a": 2})  # type: ignore[dict-item]  # fmt: skip
    steps = own.privacy
    assert steps is not None
    steps.begin(0)
    found = own.gradient(broadcast, 0)
    sigma = 1.5 * 2.0 / 2  # the expected size is 2
    for tensor in (*found.shared.values(), *found.private.values()):
        assert accepts(tensor, sigma)
        assert not accepts(tensor, sigma * 2 / 3)
        assert not accepts(tensor, sigma * 3 / 2)
    update = own.run_round(fedner(), replace(broadcast, round=2))
    for tensor in update.tensors.values():
        assert accepts(tensor, sigma)
        assert not accepts(tensor, sigma * 2 / 3)
        assert not accepts(tensor, sigma * 3 / 2)
    steps.begin(0, 2)
    again = own.gradient(broadcast, 1)
    pairs = [
        (found.shared["shared.a"], found.shared["shared.b"]),
        (found.shared["shared.a"], found.private["private.c"]),
        (found.shared["shared.a"], again.shared["shared.a"]),
        (found.shared["shared.a"], other.privacy.gradient(
            WideLearner(), linear_partition(), 2, ("round", 1, "platform", "b", "step", 0), 0
        )["shared.a"]),
    ]  # fmt: skip
    for left, right in pairs:
        correlation = float(torch.corrcoef(torch.stack([left, right]))[0, 1])
        assert abs(correlation) < Z / WIDE**0.5


@pytest.mark.parametrize("mechanism", [UNIT_CENTRAL, PLATFORM_CENTRAL], ids=lambda each: each.name)
def test_noise_of_the_server_is_on_the_sum(mechanism: Mechanism) -> None:
    changes = {"mechanism": mechanism, "max_grad_norm": 3.0}
    algorithm = fedner(FednerSettings(server_optimizer=FedAvgSettings().local.optimizer))
    engine = InProcess(answers(lambda name: wide(name, **changes), algorithm), ["a", "b"])
    noise = ServerNoise(mechanism, 3.0, 0.5, source=SOURCE)
    plan = RunSettings("dp", 1, 4, {"a": 4, "b": 4}, noise=noise)
    zeros = {name: torch.zeros(WIDE) for name in ("shared.a", "shared.b", "private.c")}
    done = run(algorithm, engine, linear_partition().shared_state(zeros), plan, 7)
    # SGD at rate 0.1 along the noised sum over 4 expected units, or over 2 platforms.
    sigma = 0.1 * 0.5 * 3.0 / (4 if mechanism.samples_units else 2)
    for tensor in done.server.shared.values():
        assert accepts(tensor, sigma)
        assert not accepts(tensor, sigma * 2 / 3)
        assert not accepts(tensor, sigma * 3 / 2)
    assert done.rounds[0].norms == {}, "what came without noise is not for the record"


def test_strict_local_privacy_bounds_and_noises_the_whole_update() -> None:
    own = random_platform(
        "alpha", privacy=linear_steps(mechanism=PLATFORM, noise_multiplier=0.0, max_grad_norm=1e-3)
    )
    update = own.run_round(fedavg(), Order("run", 1, initial(), batches={"alpha": 4}))
    size = sum(float(tensor.square().sum()) for tensor in update.tensors.values()) ** 0.5
    assert size == pytest.approx(1e-3)
    event = from_json(update.event["release"])  # type: ignore[index]
    assert isinstance(event, GaussianRelease)
    assert (event.unit, event.adjacency, event.sampling_probability, event.steps) == (
        "platform", "replace_one", 1.0, 1,
    )  # fmt: skip


# Sensitivity.

number = st.floats(-5, 5, width=32)
points = st.lists(st.tuples(number, number, number, number), min_size=1, max_size=6)


def pre_noise(data: list[tuple[float, ...]], weights: tuple[float, ...], clip: float) -> Tensor:
    learner = LinearLearner([each[:3] for each in data], [each[3] for each in data])
    for name, value in zip(learner.weights(), weights, strict=True):
        learner.weights()[name].fill_(value)
    units = every_sentence(len(data))
    steps = DPSteps(PlatformPrivacy(UNIT_LOCAL, clip, 0.0, 1, source=SOURCE), units)
    found = steps.gradient(learner, linear_partition(), 1, (), 0)  # all units; divided by 1
    return torch.cat([found[name] for name in sorted(found)]).double()


@settings(deadline=None, max_examples=60)
@given(points, st.tuples(number, number, number), st.data())
def test_one_unit_moves_the_joint_sum_by_at_most_the_clip(
    data: list[tuple[float, ...]], weights: tuple[float, ...], choice: st.DataObject
) -> None:
    if len(data) < 2:
        data = [*data, data[0]]
    gone = choice.draw(st.integers(0, len(data) - 1))
    without = [each for place, each in enumerate(data) if place != gone]
    moved = pre_noise(data, weights, 0.7) - pre_noise(without, weights, 0.7)
    assert float(moved.norm()) <= 0.7 * (1 + 1e-5) + 1e-5


def test_private_in_the_clear_is_refused_because_it_moves_more_than_the_clip() -> None:
    with pytest.raises(FednerError, match="every other unit"):
        PlatformPrivacy(UNIT_LOCAL, 1.0, 1.0, 10, private_part="clear")
    # What would happen: step the private weight in the clear, then look at the shared sum.
    many = [(1.0, 0.0, 1.0, 0.0)] * 30
    odd = (0.0, 0.0, 3.0, 9.0)  # touches the private weight alone: its shared gradient is zero

    def second_shared_sum(data: list[tuple[float, ...]]) -> Tensor:
        learner = LinearLearner([each[:3] for each in data], [each[3] for each in data])
        _, first = learner.gradients(np.arange(len(data)), 0)
        learner.weights()["private.c"] -= 1.0 * first["private.c"]
        total = torch.zeros(2)
        for place in range(len(data)):
            _, own = learner.gradients(np.asarray([place]), 0)
            shared = torch.cat([own["shared.a"], own["shared.b"]])
            total += shared * min(1.0, 1.0 / max(float(shared.norm()), 1e-12))
        return total

    moved = second_shared_sum([*many, odd]) - second_shared_sum(many)
    assert float(moved.norm()) > 5.0, "the clip is 1"


# Whole runs.


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=lambda each: each.name)
def test_every_noise_runs_with_fedner_and_tells_what_it_cost(mechanism: Mechanism) -> None:
    joint = JointSum(SumTerms(3), 2) if mechanism.shares_noise else None
    done = linear_run(fedner(), mechanism=mechanism, joint=joint)
    for record in done.rounds:
        assert record.loss is None
        assert set(record.events) == set(SIZES)
    event = done.rounds[0].events["beta"]
    assert isinstance(event, GaussianRelease)
    assert event.is_simulation
    probability = 3 / 10 if mechanism.samples_units else 1.0
    assert event.sampling_probability == pytest.approx(probability)


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "fedadam", "scaffold"])
def test_relatives_take_local_noise_and_count_their_public_steps(name: str) -> None:
    done = linear_run(algorithm_named(name), public_units=90)
    event = done.rounds[0].events["gamma"]
    assert isinstance(event, GaussianRelease)
    assert event.steps == 10, "by the public 90 units in batches of 9, not by the true 5"


REFUSED = {
    "differences": (fedavg(), UNIT_CENTRAL),
    "local_steps: found 2": (fedner(FednerSettings(local_steps=2)), UNIT_CENTRAL),
    "'weights'": (fedavg(FedAvgSettings(sends="weights")), PLATFORM_CENTRAL),
    "'sum' with noise on the sum; expected mean": (
        fedner(FednerSettings(loss="sum")), UNIT_CENTRAL,
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_what_noise_at_the_server_does_not_cover_is_refused_by_server_and_platforms(
    why: str,
) -> None:
    algorithm, mechanism = REFUSED[why]
    with pytest.raises(FednerError, match=f"noise at the server: .*{why}"):
        linear_run(algorithm, mechanism=mechanism)
    own = dp_linear("alpha", mechanism=mechanism)
    with pytest.raises(FednerError, match=f"platform 'alpha': .*{why}"):
        own.run_round(algorithm, Order("run", 1, initial(), batches={"alpha": 4}))


def test_fedavg_with_noise_at_the_server_protects_platforms() -> None:
    assert linear_run(fedavg(), mechanism=PLATFORM_CENTRAL).rounds


def test_unit_platform_refuses_what_its_one_clip_does_not_cover() -> None:
    own = dp_linear("alpha", mechanism=PLATFORM)
    algorithm = scaffold(ScaffoldSettings(steps=1))
    extra = algorithm.init(initial()).extra
    with pytest.raises(FednerError, match="extra tensors"):
        own.run_round(algorithm, Order("run", 1, initial(), extra, {"alpha": 4}))


def test_scaffolds_variates_are_made_of_noised_steps_alone() -> None:
    """With an empty draw the variate is that of the noise: data have no other way into it."""
    algorithm = scaffold(ScaffoldSettings(steps=2))
    answers = []
    for name in ("alpha", "beta"):
        own = random_platform(name, 12, privacy=linear_steps(public_units=10**9))
        own.name = "same"  # other data, the same streams
        answers.append(own.run_round(algorithm, Order(
            "run", 1, initial(), algorithm.init(initial()).extra, {"same": 1}
        )))  # fmt: skip
    left, right = answers
    assert to_bytes(left) == to_bytes(right)
    assert all(float(tensor) for tensor in left.extra.values())


def test_slices_are_disjoint_by_unit_and_compose_in_parallel() -> None:
    sentences = sentences_of(NAMES[0])
    privacy = PlatformPrivacy(UNIT_LOCAL, 1.0, 1.0, 40, "document", num_slices=3, source=SOURCE)
    pools = sliced_units(sentences, "document", privacy)
    members = [sentence for pool in pools for unit in pool.members for sentence in unit]
    assert sorted(members) == list(range(len(sentences)))
    gone = sentences[0].document
    fewer = [each for each in sentences if each.document != gone]
    names = [{sentences[unit[0]].document for unit in pool.members} for pool in pools]
    after = [
        {fewer[unit[0]].document for unit in pool.members}
        for pool in sliced_units(fewer, "document", privacy)
    ]
    assert after == [each - {gone} for each in names], "nobody else moved"
    steps = DPSteps(privacy, pools)
    slices = []
    for turn in range(5):
        steps.begin(turn)
        assert not steps.is_charged
        slices.append(steps.event(4).slice.name)  # type: ignore[union-attr]
    assert slices == ["0", "1", "2", "2", "2"]
    assert steps.settings.probability(4) == pytest.approx(4 * 3 / 40)
    assert steps.settings.expected(4) == pytest.approx(4)


def test_a_sentence_less_moves_no_other_to_another_slice() -> None:
    """Not even the sentences behind it in its document, whose places are counted anew."""
    words = [(f"word{number}", "and", "more") for number in range(60)]
    privacy = PlatformPrivacy(UNIT_LOCAL, 1.0, 1.0, 40, num_slices=4, source=SOURCE)

    def slices(kept: list[tuple[str, ...]]) -> list[set[tuple[str, ...]]]:
        sentences = [
            replace(Sentence.of(tokens), document="one", index=index)
            for index, tokens in enumerate(kept)
        ]
        pools = sliced_units(sentences, "sentence", privacy)
        return [{sentences[unit[0]].tokens for unit in pool.members} for pool in pools]

    assert slices(words[1:]) == [each - {words[0]} for each in slices(words)]
    assert all(slices(words))


def test_the_order_of_platforms_and_a_resume_change_no_bit(tmp_path: Path) -> None:
    algorithm = fedavg(FedAvgSettings(LocalTraining(steps=2)))
    whole = linear_run(algorithm, 6)
    linear_run(algorithm, 3, tmp_path / "run")
    resumed = linear_run(algorithm, 6, tmp_path / "run")
    assert resumed.resumed_from == 3
    assert shared_of(resumed) == shared_of(whole)
    central = linear_run(fedner(), mechanism=UNIT_CENTRAL)
    backwards = dict(reversed(SIZES.items()))
    engine = InProcess(
        answers(lambda name: dp_linear(name, mechanism=UNIT_CENTRAL), fedner()), list(backwards)
    )
    noise = ServerNoise(UNIT_CENTRAL, 1.0, 1.0, source=SOURCE)
    other = run(fedner(), engine, initial(), RunSettings("dp", 4, 9, backwards, noise=noise), 7)
    assert shared_of(other) == shared_of(central)


def test_what_leaves_is_noised_and_nothing_else() -> None:
    own = dp_linear("alpha")
    update = own.run_round(fedner(), Order("run", 1, initial(), batches={"alpha": 4}))
    back = update_from_bytes(to_bytes(update))
    assert back.loss is None
    assert set(back.event) == {"release"}  # type: ignore[arg-type]
    assert "num_units" not in json.dumps(back.event), "how many were drawn is private"


# Every platform its own whole batch.


@pytest.mark.parametrize("mechanism", [UNIT_LOCAL, UNIT_CENTRAL], ids=lambda each: each.name)
def test_own_batches_are_accounted_with_n_over_the_public_size(mechanism: Mechanism) -> None:
    algorithm = fedner(FednerSettings(batching="each"))
    done = linear_run(algorithm, rounds=2, mechanism=mechanism)
    for record in done.rounds:
        for name, size in SIZES.items():
            event = record.events[name]
            assert isinstance(event, GaussianRelease)
            assert event.sampling_probability == min(1.0, 9 / size), "9 units of each platform"
    assert min(SIZES.values()) < 9, "a platform below the batch takes part as a whole"


def test_the_server_divides_own_batches_by_what_all_of_them_expect() -> None:
    """Without noise the joint step is the sum of clipped gradients over 9 + 9 + 5 units."""
    silent = {"mechanism": UNIT_CENTRAL, "noise_multiplier": 0.0}
    draws = {}
    for name, size in SIZES.items():
        own = dp_linear(name, **silent)
        ask = Order("dp", 1, initial(), batches=dict.fromkeys(SIZES, 9))
        draws[name] = own.run_round(fedner(), ask).tensors
        assert own.privacy is not None
        assert own.privacy.settings.expected(9) == min(9, size)
    algorithm = fedner(
        FednerSettings(
            server_optimizer=replace(FedAvgSettings().local.optimizer, learning_rate=1.0),
            batching="each",
        )
    )
    noise = ServerNoise(UNIT_CENTRAL, 1.0, 0.0, source=SOURCE)
    engine = InProcess(answers(lambda name: dp_linear(name, **silent), algorithm), list(SIZES))
    done = run(algorithm, engine, initial(), RunSettings("dp", 1, 9, SIZES, noise=noise), 7)
    for key, tensor in done.server.shared.items():
        total = sum(float(draws[name][key]) for name in SIZES)
        assert float(tensor) == pytest.approx(-total / (9 + 9 + 5), rel=1e-5)


@pytest.mark.parametrize("weighting", ["sqrt-size", "equal"])
def test_weights_of_platforms_under_noise_at_the_server_raise_no_sensitivity(
    weighting: Weighting,
) -> None:
    """The noised mean has the platforms' weights; no sum is scaled up before the noise."""
    silent = {"mechanism": UNIT_CENTRAL, "noise_multiplier": 0.0}
    batches = dict.fromkeys(SIZES, 9)
    noise = ServerNoise(UNIT_CENTRAL, 1.0, 0.0, source=SOURCE)
    scales = noise.scales(batches, SIZES, weighting)
    assert max(scales.values()) == 1.0, "the noise covers the largest"
    assert noise.scales(batches, SIZES, "size") == {}
    means = {}
    for name, size in SIZES.items():
        ask = Order("dp", 1, initial(), batches=batches)
        sums = dp_linear(name, **silent).run_round(fedner(), ask).tensors
        means[name] = {key: float(each) / min(9, size) for key, each in sums.items()}
    server = replace(FedAvgSettings().local.optimizer, learning_rate=1.0)
    algorithm = fedner(FednerSettings(server, batching="each", weighting=weighting))
    engine = InProcess(answers(lambda name: dp_linear(name, **silent), algorithm), list(SIZES))
    done = run(algorithm, engine, initial(), RunSettings("dp", 1, 9, SIZES, noise=noise), 7)
    weights = platform_weights(SIZES, weighting)
    for key, tensor in done.server.shared.items():
        mean = sum(weights[name] * means[name][key] for name in SIZES) / sum(weights.values())
        assert float(tensor) == pytest.approx(-mean, rel=1e-5)


def test_the_noise_of_a_weighted_sum_is_that_of_its_event() -> None:
    algorithm = fedner(
        FednerSettings(FedAvgSettings().local.optimizer, batching="each", weighting="equal")
    )
    changes = {"mechanism": UNIT_CENTRAL, "max_grad_norm": 3.0}
    engine = InProcess(answers(lambda name: wide(name, **changes), algorithm), ["a", "b"])
    noise = ServerNoise(UNIT_CENTRAL, 3.0, 0.5, source=SOURCE)
    plan = RunSettings("dp", 1, 4, {"a": 4, "b": 2}, noise=noise)
    zeros = {name: torch.zeros(WIDE) for name in ("shared.a", "shared.b", "private.c")}
    done = run(algorithm, engine, linear_partition().shared_state(zeros), plan, 7)
    # a expects 4 units that count 1/2 each, b 2 units that count 1: the sum is divided by 4.
    sigma = 0.1 * 0.5 * 3.0 / 4
    for tensor in done.server.shared.values():
        assert accepts(tensor, sigma)
        assert not accepts(tensor, sigma * 2 / 3)
        assert not accepts(tensor, sigma * 3 / 2)


# What is random and is not noise.


class Overheard(LinearLearner):
    """Remembers which seeds of dropout it was given."""

    def __init__(self) -> None:
        super().__init__([[1.0, 0.0, 1.0]] * 4, [1.0] * 4)
        self.seeds: list[int] = []

    def clipped(
        self,
        sample: PoissonSample,
        max_grad_norm: float,
        names: Collection[str],
        loss: str,
        seed: int,
    ) -> Clipped:
        if sample.num_units:  # nobody is drawn to see beforehand whether the model can be clipped
            self.seeds.append(seed)
        return super().clipped(sample, max_grad_norm, names, loss, seed)


@pytest.mark.parametrize("is_deployed", [False, True])
def test_dropout_of_a_deployed_step_follows_from_no_seed(is_deployed: bool) -> None:
    """Masks move with every unit less: a server that can derive them knows more than epsilon."""
    source = SystemEntropy() if is_deployed else SOURCE
    seeds = []
    for _ in range(2):
        learner = Overheard()
        own = platform(
            "alpha", learner, linear_partition(), 7, privacy=linear_steps(4, source=source)
        )
        own.run_round(fedner(), Order("run", 1, initial(), batches={"alpha": 4}))
        seeds += learner.seeds
    assert len(seeds) == 2
    if is_deployed:
        assert seeds == [None, None]
    else:
        assert seeds[0] == seeds[1] is not None


# What the server refuses.


def test_the_server_refuses_no_sum_for_its_size_before_it_noised_it() -> None:
    """Empty draws have norm 0: by their median every other sum would be absurd."""
    algorithm = fedner()
    made = answers(lambda name: dp_linear(name, mechanism=UNIT_CENTRAL), algorithm)
    engine = InProcess(made, list(SIZES))
    noise = ServerNoise(UNIT_CENTRAL, 1.0, 1.0, source=SOURCE)
    strict = NormRule(factor=1.0001, bound=1e-6)
    plan = RunSettings("dp", 12, 3, SIZES, noise=noise, norms=strict, on_refusal="stop")
    done = run(algorithm, engine, initial(), plan, 7)
    assert not any(each.refusals for each in done.rounds)


def test_norms_of_sums_without_noise_are_stored_nowhere(tmp_path: Path) -> None:
    linear_run(fedner(), rounds=3, folder=tmp_path / "central", mechanism=UNIT_CENTRAL)
    linear_run(fedner(), rounds=3, folder=tmp_path / "local")
    assert read_state(tmp_path / "central" / "server", 3)[1]["norms"] == []
    assert read_state(tmp_path / "local" / "server", 3)[1]["norms"]


def test_a_failed_step_for_the_server_has_the_precision_of_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sums that the server noises are float64: zeros in float32 would tell that work failed."""
    name = NAMES[0]

    def answer(fails: bool) -> dict[str, torch.dtype]:
        own = tagger_platform(name, privacy=tagger_steps(name, 1.0, mechanism=UNIT_CENTRAL))
        if fails:
            monkeypatch.setattr("fedner.federated.dp_steps.draw_sentences", lambda *_, **__: 1 / 0)
        order = Order("run", 1, first_shared(), batches={name: 8})
        update = own.run_round(fedner(), order)
        assert bool(next(iter(update.tensors.values())).any()) is not fails
        return {key: tensor.dtype for key, tensor in update.tensors.items()}

    working = answer(fails=False)
    assert set(working.values()) == {torch.float64}
    assert answer(fails=True) == working


def test_one_update_of_a_round_is_released_and_no_second() -> None:
    steps = linear_steps(mechanism=PLATFORM)
    steps.begin(0)
    steps.update(initial(), ("round", 1))
    with pytest.raises(FednerError, match="for which 1 were charged"):
        steps.update(initial(), ("round", 1))
