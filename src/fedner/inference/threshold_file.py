"""The threshold of a calibration: a small sealed file beside the tagger that it is for."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from fedner.durable import write_text
from fedner.errors import FednerError
from fedner.inference.calibration import Calibration, Wish
from fedner.inference.removal_scores import Remaining, RemovalScores
from fedner.scoring.intervals import Interval
from fedner.sealed import SEAL, read_sealed, seal_of
from fedner.version import __version__

NAME: Final = "redaction.json"
"""What the file is called in the folder of a tagger."""

_KIND, _VERSION = "redaction threshold", 1
_AGAIN = "Choose the threshold again with `fedner redaction calibrate`."


@dataclass(frozen=True, slots=True)
class ChosenThreshold:
    """A calibration, and what it holds for.

    Attributes:
        model: The digest of the tagger's weights.
        types: The types that are removed.
        calibration: The threshold and what it comes to.
    """

    model: str
    types: tuple[str, ...]
    calibration: Calibration


def write_threshold(path: Path, chosen: ChosenThreshold) -> None:
    """Write the file, whole or not at all; one that is there is replaced."""
    record = {
        "kind": _KIND,
        "version": _VERSION,
        "fedner": __version__,
        "model": chosen.model,
        "types": list(chosen.types),
        **asdict(chosen.calibration),
    }
    record[SEAL] = seal_of(record)
    write_text(path, json.dumps(record, indent=2) + "\n")


def read_threshold(path: Path, model: str) -> ChosenThreshold:
    """Return what `write_threshold` wrote.

    Args:
        path: The file.
        model: The digest of the tagger that shall be used.

    Raises:
        FednerError: The file is harmed, or was made for another tagger.
    """
    if not path.is_file():
        raise FednerError(f"{path}: no such file", _AGAIN)
    record = read_sealed(path, _KIND, _VERSION, _AGAIN)
    if record["model"] != model:
        raise FednerError(
            f"{path}: found a threshold for the tagger {str(record['model'])[:12]}; expected one "
            f"for {model[:12]}",
            f"Another tagger misses other mentions. {_AGAIN}",
        )
    calibration = Calibration(
        record["threshold"],
        Wish(**record["wish"]),
        record["chosen_on"],
        _scores(record["measured"]),
    )
    return ChosenThreshold(model, tuple(record["types"]), calibration)


def _scores(fields: Mapping[str, Any]) -> RemovalScores:
    by_type = {name: _remaining(each) for name, each in fields["by_type"].items()}
    return RemovalScores(
        _remaining(fields["overall"]),
        by_type,
        fields["words"],
        Interval(**fields["lost"]),
        fields["groups"],
    )


def _remaining(fields: Mapping[str, Any]) -> Remaining:
    return Remaining(fields["mentions"], fields["missed"], Interval(**fields["share"]))
