"""Cores, memory and hours of a platform's policy, kept by the operating system."""

import os
import resource
import subprocess
import sys
import textwrap

import pytest

from fedner.runs.policy.process_limits import limit_process, num_cpus, resident_bytes
from fedner.settings import PlatformSettings

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the bounds are those of Linux")


def limited(policy: str, program: str) -> tuple[int, str]:
    """Run a program in a process that the policy bounds; return how it ended and what it said."""
    begin = f"""
        import os, threading
        from fedner.runs.policy.process_limits import limit_process
        from fedner.settings import PlatformSettings
        own = PlatformSettings(name="clinic", data="notes", policy={policy})
        waiting = threading.Event()
        threading.Thread(target=waiting.wait, daemon=True).start()
        limit_process(own)
    """
    text = textwrap.dedent(begin) + textwrap.dedent(program)
    command = [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_cores_of_every_thread_and_memory_are_bounded() -> None:
    program = """
        every = [os.sched_getaffinity(int(each)) for each in os.listdir("/proc/self/task")]
        print(len(every) > 1, {len(each) for each in every})
        small = bytearray(2**20)
        try:
            bytearray(4 * 2**30)
        except MemoryError:
            print("refused")
    """
    assert limited("{'max_cpus': 1, 'max_memory_gb': 3}", program) == (0, "True {1}\nrefused\n")


def test_an_order_without_end_ends() -> None:
    second = 1 / 3600 / num_cpus()
    code, _ = limited(f"{{'max_hours': {second}, 'max_cpus': 4096}}", "while True: pass")
    assert code < 0, "the system ended it"


def test_without_a_policy_nothing_is_bounded() -> None:
    def bounds() -> list[object]:
        kinds = (resource.RLIMIT_CPU, resource.RLIMIT_DATA)
        return [os.sched_getaffinity(0), *map(resource.getrlimit, kinds)]

    before = bounds()
    limit_process(PlatformSettings(name="clinic", data="notes"))
    assert bounds() == before


def test_resident_memory_is_that_of_this_process() -> None:
    before = resident_bytes()
    held = bytearray(os.urandom(1)) * (200 * 2**20)
    assert resident_bytes() - before > 150 * 2**20
    del held
