"""How long things last and how fast they go: baselines, the private schedule, local fine-tuning."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from joining_options import joined, late
from torch import Tensor

from fedner.corpus.document import Corpus
from fedner.corpus.synthetic import generate
from fedner.corpus.writers.jsonl import write_jsonl
from fedner.errors import FednerError
from fedner.models.features import select
from fedner.models.tagger import Tagger
from fedner.optimizers import OptimizerSettings
from fedner.runs.local_training import finetune, train_baseline
from fedner.runs.schedule import algorithm_for, run_settings
from fedner.runs.simulation import open_sites, train_run
from fedner.runs.site import Site
from fedner.runs.site_platform import build_platform
from fedner.seeds import derive
from fedner.settings import Settings, Study
from fedner.training import TrainingSettings, train

Make = Callable[..., Settings]
NAME = "case-reports"
# The rounds are 4, the training part of every platform has 28 sentences, the batch is 12.
ALGORITHMS = {
    "fedner": ('algorithm={name="fedner",local_steps=3}', 4 * 3),
    "fedavg, epochs": ('algorithm={name="fedavg",local={epochs=2}}', 4 * 2 * 3),
    "fedavg, steps": ('algorithm={name="fedavg",local={steps=6}}', 4 * 6),
}


def site_of(settings: Settings, path: Path = Path("unused")) -> Site:
    return next(site for site in open_sites(settings, path) if site.name == NAME)


@pytest.mark.parametrize("case", ALGORITHMS)
def test_a_baseline_takes_the_steps_of_all_rounds(tiny: Make, tmp_path: Path, case: str) -> None:
    algorithm, steps = ALGORITHMS[case]
    one = f"{{name={NAME!r},data='synthetic:{NAME}',num_sentences=40,split={{test=0.3}}}}"
    short = ("training.rounds=4", "training.baseline_epochs=1", "training.patience=1")
    settings = tiny(algorithm, *short, f"platforms=[{one}]")
    site = site_of(settings, tmp_path / "run")
    assert len(site.data.train) == 28
    train_baseline(site, algorithm_for(site.study), lambda _: None)
    held = site.folder.read("baselines/local-only.json")
    assert held["batch_size"] == 12
    assert held["steps_in_federation"] == steps
    assert held["epochs"] == steps / 3, "three batches of 12 in an epoch; it learns nothing so soon"
    assert held["steps"] == steps


@pytest.mark.parametrize("case", ALGORITHMS)
def test_the_rate_of_the_private_part_reaches_zero_with_the_last_step(
    tiny: Make, case: str
) -> None:
    algorithm, steps = ALGORITHMS[case]
    settings = tiny(algorithm, "training.rounds=4", 'local_optimizer.schedule="linear"')
    site = site_of(settings)
    optimizer = build_platform(site, algorithm_for(site.study)).settings.optimizer
    rates = [optimizer.learning_rate_at(step) for step in range(steps + 1)]
    assert rates == pytest.approx([0.02 * (1 - step / steps) for step in range(steps + 1)])
    assert rates[-2] > 0.0 == rates[-1]


# Local fine-tuning.


def weights(tagger: Tagger) -> dict[str, Tensor]:
    return {name: weight.detach().clone() for name, weight in tagger.named_parameters()}


def fine_tuned(settings: Settings) -> dict[str, Tensor]:
    site = site_of(settings)
    tagger = site.tagger()
    finetune(site, tagger)
    return weights(tagger)


def by_hand(settings: Settings, optimizer: OptimizerSettings) -> dict[str, Tensor]:
    site = site_of(settings)
    tagger = site.tagger()
    corpus = select(site.encoded(), site.data.train)
    plan = TrainingSettings(epochs=3, batch_size=12, optimizer=optimizer, max_grad_norm=5.0)
    train(tagger, corpus, plan, derive(settings.seed, "finish", "platform", NAME))
    return weights(tagger)


def are_equal(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return all(torch.equal(left[name], right[name]) for name in left)


def test_local_fine_tuning_begins_at_half_the_rate_and_falls_to_zero(tiny: Make) -> None:
    settings = tiny(
        "training.finetune_epochs=3",
        "local_optimizer.learning_rate=0.02",
        "local_optimizer.max_grad_norm=5.0",
    )
    half = OptimizerSettings("adam", 0.01, schedule="linear", decay_steps=3 * 3)
    found = fine_tuned(settings)
    assert are_equal(found, by_hand(settings, half))
    for other in (replace(half, learning_rate=0.02), replace(half, schedule="constant")):
        assert not are_equal(found, by_hand(settings, other))


# Whole patients.


def of_two_patients(path: Path) -> Path:
    """A corpus whose training part is one patient's: none is left to hold out."""
    corpus = generate(NAME, 40, 1)
    own = (replace(each, patient=f"p{place % 2}") for place, each in enumerate(corpus.documents))
    write_jsonl(path, Corpus(corpus.name, corpus.labels, tuple(own)))
    return path


def test_a_baseline_holds_out_by_what_the_platform_splits_by(tiny: Make, tmp_path: Path) -> None:
    path = of_two_patients(tmp_path / "ward.jsonl")
    held = ("training.rounds=1", 'training.baselines=["local-only"]', f"platforms.0.data={path}")
    settings = tiny(*held, "platforms.0.split={by='patient',test=0.5}")
    with pytest.raises(FednerError, match="found 1 patient; expected at least 2"):
        train_run(settings, tmp_path / "run")


def test_a_late_platform_holds_out_by_what_it_splits_by(finished: Path, tmp_path: Path) -> None:
    path = of_two_patients(tmp_path / "ward.jsonl")
    platform = late(data=str(path), split={"by": "patient", "test": 0.5})
    with pytest.raises(FednerError, match=r"1 patients to train on.*at least 3 are needed"):
        joined(finished, tmp_path / "late", platform)


def test_the_study_says_how_long_replies_may_take() -> None:
    study = Study(
        training={"rounds": 1},
        participation={"timeout": 7.5},
        platforms=[{"name": "a", "public_size": 40}],
    )
    assert run_settings(study, algorithm_for(study)).timeout == 7.5
