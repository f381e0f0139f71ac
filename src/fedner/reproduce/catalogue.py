"""Every study by its name."""

from fedner.errors import FednerError
from fedner.reproduce import beyond, fedner_2020, privacy_utility, tagging_2021
from fedner.reproduce.reproduction import Reproduction
from fedner.settings import nearest

CATALOGUE: dict[str, Reproduction] = {
    study.name: study
    for study in (
        *fedner_2020.STUDIES,
        *tagging_2021.STUDIES,
        *beyond.STUDIES,
        *privacy_utility.STUDIES,
    )
}


def study_named(name: str) -> Reproduction:
    """Return a study by its name.

    Raises:
        FednerError: There is none of that name.
    """
    if name not in CATALOGUE:
        raise FednerError(f"no study {name!r}", f"{nearest(name, list(CATALOGUE))} (--list)")
    return CATALOGUE[name]
