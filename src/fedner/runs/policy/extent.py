"""How often a platform answers for one study: a bound that holds without any key of its policy.

A round that is asked for again is trained again, and scores of other weights tell something new. A
server that is not honest could ask without end. The bound is far above what an honest run needs:
several whole runs, and many resubmissions after faults, each of which repeats the rounds since the
newest checkpoint.
"""

from fedner.federated.messages import Verb
from fedner.runs.schedule import algorithm_for, num_rounds, rounds_between_checkpoints
from fedner.settings import PlatformSettings, Study

# The orders whose answers tell something of the texts; each kind has the whole bound.
COUNTED: frozenset[Verb] = frozenset({"round", "evaluate", "finish"})
_RUNS = 3  # whole runs of the study, where the policy does not say how many it allows
_RESUBMISSIONS = 20
_LEAST = 1_000  # a rehearsal of a few rounds may be repeated often


def most_answers(study: Study, own: PlatformSettings) -> int:
    """Return how many orders of each kind a platform answers for a study, in all its runs.

    Args:
        study: The study.
        own: The platform's settings: `policy.max_updates` decides where it is set.
    """
    policy = own.policy
    if policy.max_updates is not None:
        return policy.max_updates
    algorithm = algorithm_for(study)
    whole = (policy.max_runs or _RUNS) * num_rounds(study, algorithm)
    return max(_LEAST, whole + _RESUBMISSIONS * rounds_between_checkpoints(study, algorithm))
