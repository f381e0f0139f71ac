"""Who refuses a job: the fixed words of ours that FLARE's remarks on it carry."""

import re
from collections.abc import Iterable, Mapping, Sequence

from fedner.federated.failure_codes import FAILURES

_CODES = {words: code for code, words in FAILURES.items()}


def refusals_in(remarks: Sequence[str], names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return who refused, and the fixed words that FLARE's remarks on a job carry.

    >>> refusals_in(["Details: north: its policy allows fewer rounds; x;south:ok"], ["north"])
    {'north': ('its policy allows fewer rounds',)}
    """
    found: dict[str, dict[str, None]] = {}
    for remark in remarks:
        marks = [(at.start(), name) for name in names for at in _marks(name, remark)]
        for words in FAILURES.values():
            for at in re.finditer(re.escape(words), remark):
                before = [mark for mark in marks if mark[0] < at.start()]
                if before:
                    found.setdefault(max(before)[1], {})[words] = None
    return {name: tuple(found[name]) for name in sorted(found)}


def refusal_codes(refusals: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the code of the first reason of each platform that refuses."""
    return {name: _CODES[words[0]] for name, words in refusals.items()}


def refusal_words(refusals: Mapping[str, Sequence[str]]) -> str:
    """Return who refuses and why, in a form that `refusals_in` reads again."""
    return "; ".join(f"{name}: {'; '.join(refusals[name])}" for name in sorted(refusals))


def _marks(name: str, remark: str) -> Iterable[re.Match[str]]:
    return re.finditer(rf"(?<![A-Za-z0-9_-]){re.escape(name)}:", remark)
