"""Settings by cross-validation on the newcomer's own training sentences: three folds by its unit.

Every candidate (an arm with a setting) is trained once for each fold and asked about the sentences
of that fold; counts add up over the folds. The test part has no part in it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from fedner.corpus.groups import Grouping
from fedner.corpus.splits import k_folds
from fedner.runs.joining.candidates import Arm, Grid, Setting
from fedner.runs.joining.jobs import Found, Job, predictions, run_job
from fedner.runs.joining.newcomer import FOLDS, Newcomer
from fedner.runs.joining.store import Store
from fedner.runs.side_by_side import side_by_side
from fedner.scoring import Counts, strict_by_sentence

OnJob = Callable[[int, int, str], None]  # how many are done, of how many, and which one just was


def fold_jobs(newcomer: Newcomer, candidates: Grid) -> list[Job]:
    """Return every training of the cross-validation: the settings of all arms on all folds."""
    data = newcomer.data
    grouping = Grouping.of(data.train_sentences, newcomer.unit)
    folds = [
        (_placed(data.train, each.train), _placed(data.train, each.test))
        for each in k_folds(grouping, FOLDS, newcomer.seed)
    ]
    return [
        Job(arm, setting, f"fold-{number}", train, held)
        for arm, settings in candidates.items()
        for setting in settings
        for number, (train, held) in enumerate(folds, start=1)
    ]


def _placed(places: Sequence[int], chosen: Iterable[int]) -> tuple[int, ...]:
    return tuple(places[each] for each in chosen)


def run_jobs(
    newcomer: Newcomer, jobs: Sequence[Job], store: Store, workers: int, on_job: OnJob
) -> None:
    """Run every job that is not finished yet, and keep what it found.

    Args:
        newcomer: Whose jobs.
        jobs: The jobs.
        store: Where finished ones are.
        workers: How many processes; 1 stays in this one.
        on_job: Called after every job.

    Raises:
        FednerError: A training failed, or a process died.
    """
    missing = {job.name: job for job in jobs if not store.has(job)}
    done = len(jobs) - len(missing)
    on_job(done, len(jobs), "")

    def report(name: str) -> None:
        nonlocal done
        done += 1
        on_job(done, len(jobs), name)

    work = partial(_work, newcomer, missing, store)
    if workers < 2 or len(missing) < 2:
        for name in missing:
            work(name, report)
        return
    loads = {name: len(job.train) * job.setting.epochs for name, job in missing.items()}
    side_by_side(work, loads, min(workers, len(missing)), report)
    on_job(len(jobs), len(jobs), "")  # the last report may still be on its way


def _work(
    newcomer: Newcomer,
    jobs: Mapping[str, Job],
    store: Store,
    name: str,
    report: Callable[[str], None],
) -> None:
    store.write(jobs[name], run_job(newcomer, jobs[name]))
    report(name)


def pooled_counts(newcomer: Newcomer, parts: Sequence[Sequence[Job]], store: Store) -> Counts:
    """Return the strict counts over the held-out sentences of all folds.

    Args:
        newcomer: Whose sentences.
        parts: For each fold the jobs whose mean predicts; a single one is itself.
        store: Where their results are.
    """
    return sum((micro_counts(newcomer, jobs, store) for jobs in parts), Counts())


def micro_counts(newcomer: Newcomer, jobs: Sequence[Job], store: Store) -> Counts:
    """Return the strict counts of the mean of some jobs on the sentences that they held out."""
    return sum(sentence_counts(newcomer, jobs[0].held, [store.read(job) for job in jobs]), Counts())


def sentence_counts(
    newcomer: Newcomer, held: Sequence[int], found: Sequence[Found]
) -> list[Counts]:
    """Return the strict counts of every held-out sentence."""
    sentences = [newcomer.data.sentences[at] for at in held]
    predicted = predictions(found, [len(each.tokens) for each in sentences], newcomer.space)
    gold = [each.entities for each in sentences]
    return strict_by_sentence(gold, predicted, newcomer.space.labels)


def jobs_of(jobs: Iterable[Job], arm: Arm, setting: Setting) -> list[Job]:
    """Return the jobs of one candidate, a fold each."""
    return [job for job in jobs if (job.arm, job.setting) == (arm, setting)]
