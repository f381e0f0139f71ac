"""A whole federation on one machine, from a study and corpora in memory."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedner.api.tables import IN_MEMORY, Table, memory_problems
from fedner.api.tagger import Tagger
from fedner.corpus.document import Corpus
from fedner.errors import FednerError
from fedner.federated.algorithms import Algorithm
from fedner.federated.record import RoundRecord
from fedner.federated.summation import Summation
from fedner.privacy.mechanisms import Mechanism
from fedner.runs.folder import CENTRALIZED, DISCLOSURE, RunFolder
from fedner.runs.initial_model import located_initial
from fedner.runs.simulation import Progress, train_run
from fedner.runs.study_defaults import with_defaults
from fedner.scoring import Scores
from fedner.settings import (
    EngineSettings,
    OwnEmbeddings,
    PlatformSettings,
    Settings,
    SettingsError,
    Study,
    federation_of,
)

OnRound = Callable[[RoundRecord], None]


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of a simulated federation.

    `fedner.simulate` returns it; its example shows how to use it.

    >>> import fedner
    >>> sorted(fedner.Simulation.__slots__)
    ['disclosure', 'folder', 'scores', 'study', 'taggers']

    Attributes:
        study: The study.
        scores: The scores on every platform's test part: by platform, then by method
            ("federated", and the baselines that the study asks for).
        taggers: Each platform's federated tagger.
        disclosure: What each platform transmitted, and what it kept.
        folder: The run folder with report, record and all taggers; None if none was asked for.
    """

    study: Study
    scores: Mapping[str, Mapping[str, Scores]]
    taggers: Mapping[str, Tagger]
    disclosure: Mapping[str, Any]
    folder: Path | None = None

    def __repr__(self) -> str:
        return f"Simulation({self.study.title!r}, platforms={len(self.taggers)})"


def simulate(
    study: Study,
    corpora: Mapping[str, Corpus],
    folder: Path | str | None = None,
    *,
    algorithm: Algorithm | None = None,
    mechanism: Mechanism | None = None,
    summation: Summation | None = None,
    engine: EngineSettings | None = None,
    split: Table | None = None,
    words: Path | str | None = None,
    context: Path | str | None = None,
    initial: Path | str | None = None,
    centralized: bool = False,
    resume: bool = False,
    on_round: OnRound | None = None,
) -> Simulation:
    """Train a federation of corpora in memory as if no text could be shared; print nothing.

    >>> import fedner
    >>> names = ("case-reports", "forum-posts")
    >>> corpora = {name: fedner.synthetic_corpus(name, 40, seed=1) for name in names}
    >>> small = {"hidden": 8, "filters": 8, "character_filters": 8}
    >>> study = fedner.study_for(corpora, title="trial", training={"rounds": 2}, model=small)
    >>> result = fedner.simulate(study, corpora)
    >>> result
    Simulation('trial', platforms=2)
    >>> 0 <= result.scores["forum-posts"]["federated"].strict_micro.f1 <= 1
    True
    >>> result.taggers["forum-posts"]
    Tagger('CNN-CLSTM-CRF', types=5)

    Args:
        study: What everyone knows (`fedner.study_for`, or read from study.toml).
        corpora: The annotated texts, one corpus for each platform of the study.
        folder: The run folder, for report, record and resuming; None keeps nothing on disk.
        algorithm: Your own algorithm in place of the one that the study names.
        mechanism: Your own mechanism in place of the one that the study names.
        summation: How updates become one sum, in place of what the study says.
        engine: Workers, device and more; by default this process and the CPU.
        split: What each platform is tested on, as the table [platforms.split] of a file has it; by
            default a fifth of its sentences.
        words: The path of the word vectors that the study names.
        context: The path of the context encoder that the study names.
        initial: The path of the model that the study begins with.
        centralized: Whether to train the baseline with all texts in one place too.
        resume: Go on with the run that the folder holds.
        on_round: Called with the record of every round.

    Raises:
        FednerError: Study, corpora and folder do not fit together, or the run had to stop.
    """
    _require_same_platforms(study, corpora)
    located_initial(study, initial)
    paths = OwnEmbeddings(words=_absolute(words), context=_absolute(context))
    settings = _federation(study, engine, split, paths, _absolute(initial), centralized=centralized)
    progress = Progress() if on_round is None else Progress(round=on_round)
    with _run_folder(folder) as place:
        train_run(
            settings,
            place,
            resume=resume,
            algorithm=algorithm,
            mechanism=mechanism,
            summation=summation,
            progress=progress,
            corpora=corpora,
        )
        return _found(RunFolder(place), None if folder is None else place, context)


def _require_same_platforms(study: Study, corpora: Mapping[str, Corpus]) -> None:
    if sorted(corpora) != study.names:
        raise FednerError(
            f"found corpora of {', '.join(sorted(corpora)) or 'no platform'}; expected one each of "
            f"{', '.join(study.names)}, as the study names them",
            "Pass {'NAME': corpus, ...} with the names of the study.",
        )


def _federation(
    study: Study,
    engine: EngineSettings | None,
    split: Table | None,
    paths: OwnEmbeddings,
    initial: str | None,
    *,
    centralized: bool,
) -> Settings:
    """Return the study and the platforms' own settings as one checked federation."""
    table = {"data": IN_MEMORY, "split": dict(split or {}), "embeddings": paths}
    own = [PlatformSettings.model_validate({"name": name, **table}) for name in study.names]
    settings = with_defaults(federation_of(study, own, engine, initial))
    if centralized:
        baselines = (*settings.training.baselines, CENTRALIZED)
        training = settings.training.model_copy(update={"baselines": baselines})
        settings = settings.model_copy(update={"training": training})
    if problems := memory_problems(settings):
        raise SettingsError("the study", problems)
    return settings


def _absolute(path: Path | str | None) -> str | None:
    return None if path is None else str(Path(path).absolute())


@contextmanager
def _run_folder(folder: Path | str | None) -> Iterator[Path]:
    """Yield the folder that was asked for, or one that is gone afterwards."""
    if folder is not None:
        yield Path(folder)
        return
    with TemporaryDirectory(prefix="fedner-") as held:
        yield Path(held) / "run"


def _found(run: RunFolder, kept: Path | None, context: Path | str | None) -> Simulation:
    """Read what a finished run came to."""
    study = run.study()
    weights = None if context is None else Path(context)
    return Simulation(
        study,
        {name: _scores(run, name) for name in study.names},
        {name: Tagger.load(run.tagger(name), context=weights) for name in study.names},
        run.read(DISCLOSURE),
        kept,
    )


def _scores(run: RunFolder, name: str) -> dict[str, Scores]:
    held = run.site(name).read("scores.json")["methods"]
    return {method: Scores.from_dict(record) for method, record in held.items()}
