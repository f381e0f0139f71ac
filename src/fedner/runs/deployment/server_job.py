"""What the server's job does: the coordinator's half of a study over live links."""

import logging
import time
from collections.abc import Mapping
from pathlib import Path

from fedner.durable import is_disk_full
from fedner.engines.flare.engine import FlareEngine, Link, StoppedError
from fedner.engines.flare.garbage import Garbage
from fedner.engines.flare.job_ends import (
    JobEnd,
    append_end,
    full_disk_end,
    job_end,
    note_begin,
)
from fedner.errors import FednerError
from fedner.federated.folder_lock import FolderInUseError
from fedner.federated.record import RoundRecord
from fedner.federated.run import RunRecord
from fedner.runs.coordinator import coordinate
from fedner.settings import Study

_log = logging.getLogger(__name__)


def coordinate_job(study: Study, run: str, folder: Path, links: Mapping[str, Link]) -> RunRecord:
    """Take a run from where it stands to its last round.

    Every job of a run comes here: one that ended before its time has a successor, which goes on
    from the newest round that server and platforms have stored.

    Args:
        study: The public study.
        run: The run's name.
        folder: The run's folder at the server.
        links: The platforms that take part in this job.

    Raises:
        FednerError: Too few platforms answered, or the folder holds another study.
    """
    garbage = Garbage()

    def on_round(record: RoundRecord) -> None:
        _tell(record)
        garbage.collect()

    with FlareEngine(links, study.names) as engine:
        _note_begin(folder)
        try:
            done = coordinate(study, engine, folder, resume=True, on_round=on_round, run_name=run)
        except FolderInUseError:
            raise  # the last job of this run still ends: it says by itself how
        except StoppedError:
            # FLARE ends the whole job some seconds after one platform's process has died.
            if lost := engine.lost:
                _append_end(folder, job_end(lost, "a platform's process ended"))
            raise
        except (FednerError, OSError) as error:
            _append_end(folder, _end_of(error, engine))
            raise
    append_end(folder, JobEnd("done", time=time.time()))
    return done


def _end_of(error: FednerError | OSError, engine: FlareEngine) -> JobEnd:
    if is_disk_full(error):
        return full_disk_end("the server's disk is full")
    words = error.message if isinstance(error, FednerError) else f"the server failed: {error}"
    return job_end(engine.missing, words)


def _note_begin(folder: Path) -> None:
    """Tell the watchdog that nobody need be looked for any more; a full disk ends the job soon."""
    try:
        note_begin(folder)
    except (FednerError, OSError) as error:
        _log.warning("the beginning of the job could not be noted: %s", error)


def _append_end(folder: Path, end: JobEnd) -> None:
    """Say how a job ended, as far as the disk has room for that."""
    try:
        append_end(folder, end)
    except OSError as error:
        _log.warning("the end of the job could not be noted: %s", error)


def _tell(record: RoundRecord) -> None:
    loss = "" if record.loss is None else f", loss {record.loss:.4f}"
    told = [f"{each.platform}: {each.message}" for each in record.failures]
    told += [f"{each.platform}: refused, {each.message}" for each in record.refusals]
    level = logging.WARNING if told else logging.INFO
    words = "; ".join([f"round {record.round}: {record.seconds:.2f} s{loss}", *told])
    _log.log(level, "%s", words)
