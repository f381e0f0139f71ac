"""All that a platform says of what it refuses or fails at: a code, and fixed words for it.

Loads no torch: processes that stay for weeks, and commands that only sign, say these words too.
"""

from collections.abc import Mapping

# What a platform's policy refuses, before a job or at an order. Public facts decide, never data.
REFUSALS: Mapping[str, str] = {
    "job-foreign": "the job is not one that fedner wrote",
    "request-foreign": "it answers nothing but the jobs that fedner wrote",
    "study-unsound": "the study has problems that everybody can see: fedner study check",
    "platform-unready": "its own settings do not fit the study; its own log says why",
    "policy-platform": "the study does not name it",
    "policy-approval": "its installed approval is for another study",
    "policy-study": "its policy does not accept this study",
    "policy-algorithm": "its policy does not accept this algorithm",
    "policy-model": "its policy does not accept this model",
    "policy-tensors": "its policy does not let these tensors be shared",
    "policy-types": "its policy does not let these entity types be shared",
    "policy-mechanism": "its policy does not accept this mechanism of differential privacy",
    "policy-unit": "its policy asks for a larger protected unit",
    "policy-noise": "its policy does not accept who adds the noise",
    "policy-simulation": "its policy does not accept noise from a seed",
    "policy-study-budget": "the study sets a privacy budget, which only the platform may do",
    "policy-epsilon": "the study may spend more epsilon than its policy allows one study",
    "policy-epsilon-in-all": "the study may bring epsilon above what its policy allows in all",
    "policy-ledger": "its privacy ledger does not grant what the study asks for",
    "policy-secure-sum": "its policy asks for a secure sum",
    "policy-encryption": "its policy asks for encrypted sums",
    "policy-others": "its policy asks for more other platforms in a sum",
    "policy-pinned": "its policy asks for platforms whose certificates it has pinned",
    "policy-rounds": "its policy allows fewer rounds",
    "policy-runs": "its policy allows no further run of this study",
    "policy-updates": "its policy allows no more updates or scores for this study",
    "policy-hours": "its policy allows no more hours for this run",
    "policy-memory": "its policy allows less memory",
    "policy-release": "its policy does not let the model be released so widely",
    "order-verb": "its policy does not know this order",
    "order-study": "it refused the order, which is of another study",
    "order-run": "it refused the order, which is of another run",
    "order-tensors": "it refused the order, which has other tensors than the study's",
    "reply-withheld": "its policy withheld the reply",
    "record-failed": "it could not record what it would have sent, and sent nothing",
}
# All that a failure ever says. The cause, with its text, stays in the platform's own log.
FAILURES: Mapping[str, str] = {
    "budget-spent": "its privacy budget does not allow this release",
    "order-refused": "it refused the order, which does not fit its study",
    "round-passed": "it was asked for a round before its newest one, and not for a stored answer",
    "folder-in-use": "another process still works in its folder",
    "not-finite": "what it computed has numbers that are not finite",
    "disk-full": "its disk is full",
    "error": "it cannot take part; its own log says why",
    "unexpected": "it failed; its own log says why",
    "sum-refused": "it refused a phase of the sum; its own log says why",
    "sum-left-out": "the sum of this round was opened without it before",
    "sums-missed": "it missed more encrypted sums than the server keeps",
    "key-ended": "it ended the key of the encrypted run; its own log says why",
    "malformed": "its reply was not a message of this version",
    "worker-died": "its worker process ended",
    "no-reply": "it did not answer in time",
    "platform-gone": "the connection to it ended",
    **REFUSALS,
}


def is_code(value: object) -> bool:
    """Whether a value is the code of a failure."""
    return isinstance(value, str) and value in FAILURES
