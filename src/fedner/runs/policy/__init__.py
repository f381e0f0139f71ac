"""A platform's policy at work: before a job, at every order, and on every reply.

`job_problems` decides about a job, `GuardedAnswer` about each order and each reply; both give codes
of `federated.failure_codes.REFUSALS`, whose words are ours. What was found and expected stays at
the platform.
"""

from fedner.runs.policy.extent import most_answers
from fedner.runs.policy.guard import GuardedAnswer, reply_refusal
from fedner.runs.policy.job import approval_problems, job_problems
from fedner.runs.policy.orders import order_refusal
from fedner.runs.policy.process_limits import limit_process, memory_refusal
from fedner.runs.policy.refusal import Refusal
from fedner.runs.study_policy import study_policy_problems

__all__ = [
    "GuardedAnswer",
    "Refusal",
    "approval_problems",
    "job_problems",
    "limit_process",
    "memory_refusal",
    "most_answers",
    "order_refusal",
    "reply_refusal",
    "study_policy_problems",
]
