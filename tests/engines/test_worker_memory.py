"""Workers' memory: slots for updates, and freed pages that stay."""

import multiprocessing
import resource
import sys
from multiprocessing.connection import Connection

import pytest
import torch

from fedner.engines.allocator import keep_freed_memory
from fedner.engines.workers import num_slots


def test_small_updates_have_a_slot_for_each_platform_and_large_ones_two() -> None:
    part = [str(number) for number in range(10)]
    assert num_slots(part, 2**20, "fork") == 10
    assert num_slots(part, 8 * 2**20, "fork") == 4
    assert num_slots(part, 2**30, "fork") == 2
    assert num_slots(part[:1], 2**20, "fork") == 2
    assert num_slots(part, 2**20, "spawn") == 2
    assert num_slots(part, 0, "fork") == 10


def _faults_of_steps(pipe: Connection) -> None:
    torch.set_num_threads(1)
    done = keep_freed_memory()
    before = 0
    for step in range(30):
        tensors = [torch.ones(2**19) for _ in range(4)]  # 8 MB a step, all of it freed
        del tensors
        if step == 4:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pipe.send((done, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no mallopt")
def test_a_worker_that_keeps_what_it_frees_has_hardly_any_fault() -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_faults_of_steps, args=(there,))
    process.start()
    done, faults = here.recv()
    process.join()
    assert done
    assert faults < 2_000  # 25 steps touch 51,200 pages
