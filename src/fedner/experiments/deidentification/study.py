"""What a removal leaves of two synthetic corpora: alone, joined, beside Presidio's analyzer.

    python -m fedner.experiments.deidentification.study DATA --out FOLDER --presidio PYTHON

DATA is the folder of development corpora. 60 % of the templates (or questions) are trained on; of
the rest one half chooses the threshold, the other half measures every arm. What is finished stands
in FOLDER and is not run again.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fedner.durable import write_text
from fedner.errors import FednerError
from fedner.experiments.deidentification.arms import (
    Size,
    by_best_path,
    by_presidio,
    by_threshold,
    joined,
    train_local_only,
)
from fedner.experiments.deidentification.corpora import LOOKED_FOR, TYPES, Parts, load, parts
from fedner.inference.calibration import Wish, choose, halves
from fedner.inference.removal_scores import ScoredDocument, scores_at
from fedner.scoring import Interval

FEW = 100
ANY = 1e-9  # what an arm without a threshold removes at all
NAMES = tuple(TYPES)
WISH, SIZE = Wish(0.98, most_lost=0.3), Size()
_COLUMNS = (
    "corpus",
    "removal",
    "of 1,000 mentions remain",
    "of the types that Presidio looks for",
    "of 1,000 other words lost",
)


@dataclass(frozen=True, slots=True)
class Result:
    """What an arm leaves of one corpus, per thousand, with 95 % intervals.

    Attributes:
        corpus: The corpus.
        arm: What removes.
        threshold: The threshold; None where the arm has none.
        mentions: How many mentions were measured on.
        remain: How many of 1,000 remain: the value and both ends.
        remain_looked_for: The same for the types that Presidio looks for.
        lost: How many of 1,000 other words are lost.
        by_type: How many of 1,000 remain, by type.
    """

    corpus: str
    arm: str
    threshold: float | None
    mentions: int
    remain: tuple[float, float, float]
    remain_looked_for: tuple[float, float, float]
    lost: tuple[float, float, float]
    by_type: dict[str, float]


@dataclass(frozen=True, slots=True)
class StudyJob:
    """What the study runs.

    Attributes:
        data: The folder of development corpora.
        out: Where runs and results go.
        seed: Names splits and first weights.
        wish: What thresholds are chosen for.
        size: How long taggers train.
        few: How many documents the platform that joins has.
        presidio: The Python that has Presidio's analyzer; None leaves it out.
        names: Which corpora.
    """

    data: Path
    out: Path
    seed: int = 1
    wish: Wish = WISH
    size: Size = SIZE
    few: int = FEW
    presidio: Path | None = None
    names: tuple[str, ...] = NAMES

    @property
    def words(self) -> Path:
        """The word vectors."""
        return self.data / "glove-6b" / "glove.6B.50d.subset.txt.xz"


Scored = list[ScoredDocument]
Arm = Callable[[StudyJob, str, Parts], tuple[Scored, Scored]]
"""From a corpus and its parts to what the best path removes, and what thresholds do."""


def local_only(job: StudyJob, name: str, own: Parts) -> tuple[Scored, Scored]:
    """A tagger trained on all documents of the training part."""
    folder = job.out / name / "local-only"
    return _both(train_local_only(folder, own.train, job.words, job.seed, job.size), own)


def local_only_few(job: StudyJob, name: str, own: Parts) -> tuple[Scored, Scored]:
    """A tagger trained on a few documents."""
    folder = job.out / name / f"local-only-{job.few}"
    few, size = own.first(job.few), replace(job.size, epochs=3 * job.size.epochs)
    return _both(train_local_only(folder, few, job.words, job.seed, size), own)


def joined_few(job: StudyJob, name: str, own: Parts) -> tuple[Scored, Scored]:
    """The same few documents join a model that was trained on the other corpus."""
    other = next(each for each in NAMES if each != name)
    partner = parts(load(job.data, other), job.seed).train
    place = job.out / other / "described"
    model = train_local_only(place, partner, job.words, job.seed, job.size, described=True)
    tagger = joined(job.out / name / "joined", model, own.first(job.few), job.seed, job.size)
    return _both(tagger, own)


def _both(tagger: Path, own: Parts) -> tuple[Scored, Scored]:
    types = own.held_out.labels
    return by_best_path(tagger, own.held_out, types), by_threshold(tagger, own.held_out, types)


ARMS: dict[str, Arm] = {
    "local-only": local_only,
    "local-only, few": local_only_few,
    "joined, few": joined_few,
}


def run(job: StudyJob) -> list[Result]:
    """Run all arms; a result that is there is not measured again."""
    results: list[Result] = []
    for name in job.names:
        own = parts(load(job.data, name), job.seed)
        for arm in ARMS:
            results += _kept(job.out / name / f"{arm.replace(', ', '-')}.json", job, name, arm, own)
        if job.presidio is not None:
            folder = job.out / name
            folder.mkdir(parents=True, exist_ok=True)
            types = own.held_out.labels
            found = by_presidio(job.presidio, folder, own.held_out, types)
            results.append(_result(job, name, "Presidio's analyzer", found, ANY, None))
    return results


def _kept(path: Path, job: StudyJob, name: str, arm: str, own: Parts) -> list[Result]:
    if not path.is_file():
        best, tokens = ARMS[arm](job, name, own)
        found = [_result(job, name, f"{arm}, best path", best, ANY, None)]
        try:
            threshold = choose(halves(tokens, job.seed)[0], job.wish)
            found.append(_result(job, name, f"{arm}, threshold", tokens, threshold, threshold))
        except FednerError as refused:
            print(f"{name}, {arm}: {refused.message}", flush=True)
        write_text(path, json.dumps([asdict(each) for each in found], indent=2))
    return [Result(**each) for each in json.loads(path.read_text())]


def _result(
    job: StudyJob,
    corpus: str,
    arm: str,
    documents: Sequence[ScoredDocument],
    at: float,
    threshold: float | None,
) -> Result:
    """Measure on the half that chose no threshold."""
    measuring = halves(documents, job.seed)[1]
    scores = scores_at(measuring, at)
    looked_for = scores_at([_only(each, LOOKED_FOR[corpus]) for each in measuring], at)
    return Result(
        corpus,
        arm,
        threshold,
        scores.overall.mentions,
        _per_thousand(scores.overall.share),
        _per_thousand(looked_for.overall.share),
        _per_thousand(scores.lost),
        {name: round(1000 * each.share.value, 1) for name, each in scores.by_type.items()},
    )


def _only(document: ScoredDocument, types: Sequence[str]) -> ScoredDocument:
    return replace(document, mentions=tuple(each for each in document.mentions if each[0] in types))


def _per_thousand(share: Interval) -> tuple[float, float, float]:
    value, low, high = share.points
    return round(10 * value, 1), round(10 * low, 1), round(10 * high, 1)


def table(results: Sequence[Result]) -> str:
    """Return the results as a table of Markdown."""
    lines = [f"| {' | '.join(_COLUMNS)} |", "|---|---|---|---|---|"]
    for each in results:
        cells = map(_words, (each.remain, each.remain_looked_for, each.lost))
        lines.append(f"| {each.corpus} | {each.arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _words(numbers: Sequence[float]) -> str:
    value, low, high = numbers
    return f"{value:.0f} ({low:.0f} to {high:.0f})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/deidentification"))
    parser.add_argument("--presidio", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=SIZE.epochs)
    parser.add_argument("--join-epochs", type=int)
    parser.add_argument("--recall", type=float, default=WISH.recall)
    asked = parser.parse_args(arguments)
    job = StudyJob(
        asked.data,
        asked.out,
        asked.seed,
        replace(WISH, recall=asked.recall),
        Size(asked.epochs, asked.join_epochs),
        presidio=asked.presidio,
    )
    print(table(run(job)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
