"""What a platform's disclosure record comes to, run by run."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedner.errors import FednerError
from fedner.privacy.accountant import epsilon
from fedner.privacy.events import GaussianRelease, from_json
from fedner.runs.disclosure_record import ReadRecord, RecordLine
from fedner.runs.release_costs import finite, merged


@dataclass(frozen=True, slots=True)
class RunDisclosure:
    """What left for one run.

    Attributes:
        run: Its name.
        study: The digest of its study.
        asked_by: Who asked, sorted.
        first: When the first line was written.
        last: When the last one was.
        updates: How many updates left.
        resent: How many of them had left before, at no new cost.
        masked: How many of them were masked for a secure sum, or encrypted.
        score_reports: How many replies named scores.
        num_bytes: The bytes of all messages.
        refused: How often which code was sent in place of an answer.
        mechanism: What protected it.
        epsilon: What all of it cost together, by PLD; None where nothing bounds it.
        delta: That of epsilon.
    """

    run: str
    study: str
    asked_by: tuple[str, ...]
    first: str
    last: str
    updates: int
    resent: int
    masked: int
    score_reports: int
    num_bytes: int
    refused: Mapping[str, int]
    mechanism: str
    epsilon: float | None
    delta: float | None


def summarise(record: ReadRecord) -> list[RunDisclosure]:
    """Return what was sent for each run, in the order of their first lines."""
    by_run: dict[tuple[str, str], list[RecordLine]] = {}
    for line in record.lines:
        by_run.setdefault((line.run, line.study), []).append(line)
    return [_summary(lines) for lines in by_run.values()]


def require_digest(record: ReadRecord, digest: str) -> int:
    """Return the number of the line with a digest that somebody noted elsewhere.

    Args:
        record: The record.
        digest: The digest, or at least its first eight characters.

    Raises:
        FednerError: No line has it: the record is not the one of which it was noted.
    """
    asked = digest.strip().lower()
    if len(asked) < _LEAST_DIGEST:
        raise FednerError(f"the digest {digest!r}: expected at least {_LEAST_DIGEST} characters")
    for line in record.lines:
        if line.digest.startswith(asked):
            return line.counter + 1
    raise FednerError(
        f"no line of the record has the digest {digest!r}",
        "Since you noted it, the record was rewritten or an older state was restored.",
    )


_LEAST_DIGEST = 8


def _summary(lines: Sequence[RecordLine]) -> RunDisclosure:
    first, updates = lines[0], [line for line in lines if line.is_update]
    costly = _distinct(line for line in lines if line.event is not None)
    delta = costly[0].delta if costly else None
    return RunDisclosure(
        run=first.run,
        study=first.study,
        asked_by=tuple(sorted({line.asked_by for line in lines})),
        first=first.time,
        last=lines[-1].time,
        updates=len(updates),
        resent=len(updates) - len(_distinct(updates)),
        masked=sum(line.phase > 0 for line in updates),
        score_reports=sum(line.has_scores for line in lines),
        num_bytes=sum(line.num_bytes for line in lines),
        refused=dict(Counter(line.code for line in lines if line.code)),
        mechanism=lines[-1].mechanism,
        epsilon=None if delta is None else _epsilon(costly, delta),
        delta=delta,
    )


def _distinct(lines: Iterable[RecordLine]) -> list[RecordLine]:
    """Return the lines without what was sent before: the same numbers for the same round."""
    return list({_content(line): line for line in lines}.values())


def _content(line: RecordLine) -> tuple[object, ...]:
    """Return what a line carried: of tensors their norms, for a ledger's mark is new each time."""
    norms = tuple(tensor["norm"] for tensor in line.tensors)
    return line.run, line.verb, line.round, norms or line.message_digest


def _epsilon(lines: Sequence[RecordLine], delta: float) -> float | None:
    stated = [from_json(line.event["release"]) for line in lines if line.event is not None]
    events = [event for event in stated if isinstance(event, GaussianRelease)]
    return finite(epsilon(merged(events), delta).pld)
