"""What a platform's policy lets the process of a run take: cores and memory."""

import os
from pathlib import Path

from fedner.errors import FednerError
from fedner.settings import PlatformSettings

_GB = 2**30
_STATM = Path("/proc/self/statm")


def limit_process(own: PlatformSettings) -> None:
    """Bound this process, and all that it starts, to the cores and the memory of the policy.

    Call it once, before data are read. Beyond the memory an allocation fails, which is the
    platform's own failure and nobody else's.

    Raises:
        FednerError: The system has no such bounds.
    """
    policy = own.policy
    if policy.max_cpus is not None:
        _limit_cpus(policy.max_cpus)
    if policy.max_memory_gb is not None:
        _limit_memory(int(policy.max_memory_gb * _GB))


def memory_refusal(own: PlatformSettings) -> str | None:
    """Return the refusal of a platform whose process holds more memory than its policy allows."""
    most = own.policy.max_memory_gb
    if most is None:
        return None
    return "policy-memory" if resident_bytes() > most * _GB else None


def resident_bytes() -> int:
    """Return how much memory this process holds now; its peak where the system tells no more."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def _limit_cpus(most: int) -> None:
    if not hasattr(os, "sched_setaffinity"):
        raise _unbounded("policy.max_cpus")
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[:most])


def _limit_memory(most: int) -> None:
    try:
        import resource

        # Not the address space: a GPU driver maps far more of it than anybody uses.
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))
    except (ImportError, ValueError, OSError) as error:
        raise _unbounded("policy.max_memory_gb") from error


def _unbounded(key: str) -> FednerError:
    return FednerError(
        f"{key} cannot be kept on this system", "Run the platform on Linux, or leave the key out."
    )
