"""What a platform's policy lets the process of a run take: cores and memory."""

import math
import os
from contextlib import suppress
from pathlib import Path

from fedner.errors import FednerError
from fedner.settings import PlatformSettings

_GB = 2**30
_STATM = Path("/proc/self/statm")
_TASKS = Path("/proc/self/task")


def limit_process(own: PlatformSettings) -> None:
    """Bound this process, and all that it starts, to cores, memory and hours of the policy.

    Call it once, before data are read. Beyond the memory an allocation fails, which is the
    platform's own failure and nobody else's. Hours are checked at every order; an order that
    computes for longer than all cores could in that time ends the process.

    Raises:
        FednerError: The system has no such bounds.
    """
    policy = own.policy
    if policy.max_cpus is not None:
        _limit_cpus(policy.max_cpus)
    if policy.max_memory_gb is not None:
        _limit_memory(int(policy.max_memory_gb * _GB))
    if policy.max_hours is not None:
        _limit_seconds(math.ceil(policy.max_hours * 3600 * num_cpus()))


def num_cpus() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine_bytes() -> int:
    """Return how much memory this machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


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
    allowed = sorted(os.sched_getaffinity(0))[:most]
    os.sched_setaffinity(0, allowed)
    for thread in _TASKS.iterdir() if _TASKS.is_dir() else ():
        with suppress(OSError):  # it ended meanwhile
            os.sched_setaffinity(int(thread.name), allowed)


def _limit_memory(most: int) -> None:
    # Not the address space: a GPU driver maps far more of it than anybody uses.
    _limit("RLIMIT_DATA", most, "policy.max_memory_gb")


def _limit_seconds(most: int) -> None:
    _limit("RLIMIT_CPU", most, "policy.max_hours")


def _limit(name: str, most: int, key: str) -> None:
    try:
        import resource

        kind = getattr(resource, name)
        _, hard = resource.getrlimit(kind)
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (bound, bound))
    except (ImportError, AttributeError, ValueError, OSError) as error:
        raise _unbounded(key) from error


def _unbounded(key: str) -> FednerError:
    return FednerError(
        f"{key} cannot be kept on this system", "Run the platform on Linux, or leave the key out."
    )
