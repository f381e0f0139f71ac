"""How long a run is, by public facts alone: rounds, epochs, when to score and when to store."""

from fedner.federated.aggregate import RULES
from fedner.federated.algorithms import Algorithm, epoch_rounds, lasting
from fedner.federated.orders import PublicPlan
from fedner.federated.participation import Participation
from fedner.federated.run import RunSettings
from fedner.federated.screening import NormRule
from fedner.federated.server_noise import ServerNoise
from fedner.runs.checks import algorithm_of
from fedner.runs.study_defaults import norm_factor_in_force
from fedner.settings import Study


def algorithm_for(study: Study, own: Algorithm | None = None) -> Algorithm:
    """Return the study's algorithm, its schedules ending with the run.

    Args:
        study: The study.
        own: An algorithm of one's own in place of the one that the study names.
    """
    chosen = algorithm_of(study) if own is None else own
    return lasting(chosen, num_rounds(study, chosen))


def rounds_in_epoch(study: Study, algorithm: Algorithm) -> float:
    """Return how many rounds show every platform's sentences about once; may be below 1."""
    return epoch_rounds(
        algorithm, study.public_sizes, study.training.batch_size, study.participation.sample
    )


def num_rounds(study: Study, algorithm: Algorithm) -> int:
    """Return how many rounds the run has."""
    training = study.training
    if training.rounds is not None:
        return training.rounds
    return max(1, round((training.epochs or 1) * rounds_in_epoch(study, algorithm)))


def public_plan(study: Study, algorithm: Algorithm) -> PublicPlan:
    """Return what platforms hold orders against."""
    return PublicPlan(
        study.public_sizes,
        study.training.batch_size,
        algorithm.batching,
        num_rounds(study, algorithm),
    )


def run_settings(
    study: Study, algorithm: Algorithm, noise: ServerNoise | None = None, name: str | None = None
) -> RunSettings:
    """Return how the coordinator runs a study.

    Args:
        study: The study.
        algorithm: What platforms and coordinator compute.
        noise: The noise that the coordinator adds to the sum; None where it adds none.
        name: The name of the run in ledgers; None takes the title.
    """
    training, asked = study.training, study.participation
    rounds = num_rounds(study, algorithm)
    return RunSettings(
        run=study.title if name is None else name,
        rounds=rounds,
        batch_size=training.batch_size,
        public_sizes=study.public_sizes,
        participation=Participation(asked.sample, asked.quorum),
        rule=RULES[asked.aggregation],
        norms=NormRule(norm_factor_in_force(study), asked.norm_bound),
        on_refusal=asked.on_refusal,
        timeout=asked.timeout,
        evaluate_every=_evaluate_every(study, algorithm),
        # The last round is always kept: it is the result.
        checkpoint_every=_checkpoint_every(study, algorithm, noise) or rounds,
        noise=noise,
        ema_decay=training.ema_decay,
        study=study.digest,
        encoding=study.transport.encoding,
    )


def rounds_between_checkpoints(study: Study, algorithm: Algorithm) -> int:
    """Return how many rounds a run repeats at most that goes on after a fault."""
    rounds = num_rounds(study, algorithm)
    return min(rounds, _checkpoint_every(study, algorithm, None) or rounds)


def _epoch(study: Study, algorithm: Algorithm) -> int:
    return max(1, round(rounds_in_epoch(study, algorithm)))


def _evaluate_every(study: Study, algorithm: Algorithm) -> int:
    every = study.training.evaluate_every
    if study.privacy.enabled and study.privacy.scores is not None:
        return study.privacy.scores.every
    if study.is_deployed:
        return 0  # scores by round would leave the platforms without noise
    return _epoch(study, algorithm) if every is None else every


def _checkpoint_every(study: Study, algorithm: Algorithm, noise: ServerNoise | None) -> int:
    if noise is not None and not noise.source.is_simulation:
        return 1  # a sum must not be noised twice, not even after a crash
    if study.transport.encryption is not None:
        return 1  # sums are kept since the oldest round that a platform may go on from
    if study.transport.secure_sum and study.participation.quorum is not None:
        return 1  # a round that is taken again may be opened for the same platforms only
    every = study.training.checkpoint_every
    return _epoch(study, algorithm) if every is None else every
