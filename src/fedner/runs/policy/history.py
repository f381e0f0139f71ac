"""What a platform's own record tells of a study: how often it ran here."""

from pathlib import Path

from fedner.runs.disclosure_record import RECORD, read_record


def runs_of(study: str, home: Path) -> set[str]:
    """Return the names of the runs of a study, by digest, that this platform answered.

    Args:
        study: The digest.
        home: The platform's home, in which its disclosure record stands.

    Raises:
        FednerError: The record was tampered with: then nobody can tell.
    """
    return {line.run for line in read_record(home / RECORD).lines if line.study == study}
