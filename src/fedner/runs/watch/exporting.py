"""Writing a run for TensorBoard as it grows."""

import time

from fedner.runs.watch.event_files import EventFiles
from fedner.runs.watch.snapshot import Snapshot
from fedner.runs.watch.source import Source
from fedner.runs.watch.watcher import LOOK_SECONDS, cost_all, read_all


def export(source: Source, files: EventFiles, *, once: bool) -> Snapshot:
    """Write rounds and epsilons until the run is over; return how it stood at last.

    Args:
        source: The run, which tells `files` of its rounds.
        files: Where they are written.
        once: Write what is there now, and wait for nothing.

    Raises:
        FednerError: The run is damaged, or there is no accountant for its epsilon.
    """
    while True:
        shown = read_all(source)
        is_last = once or shown.standing.is_over
        if is_last:
            shown = read_all(source)  # the last rounds may have come before its end was told
            cost_all(source)
        else:
            source.cost_one()
        files.add_costs(source.snapshot())
        files.flush()
        if is_last:
            return shown
        time.sleep(LOOK_SECONDS)
