"""What the server's job does: the coordinator's half of a study over live links."""

import logging
from collections.abc import Mapping
from pathlib import Path

from fedner.engines.flare.engine import FlareEngine, Link
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
    with FlareEngine(links, study.names) as engine:
        return coordinate(
            study, engine, folder, resume=True, on_round=_tell, run_name=run, device="cpu"
        )


def _tell(record: RoundRecord) -> None:
    loss = "" if record.loss is None else f", loss {record.loss:.4f}"
    gone = "".join(f"; {each.platform}: {each.message}" for each in record.failures)
    _log.info("round %d: %.2f s%s%s", record.round, record.seconds, loss, gone)
