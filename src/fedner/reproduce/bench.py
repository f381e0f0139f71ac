"""Where cells are run: what one process holds for all of them, and the two ways to train.

Corpora were read once for the whole study and lie in its folder (`inputs.stored`); context features
are computed once and memory-mapped, so that all processes of a machine read one copy.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from fedner.corpus.document import Corpus
from fedner.corpus.reading import read
from fedner.federated.answering import one_thread
from fedner.federated.record import RoundRecord
from fedner.models.features import select
from fedner.models.zoo import recipe_named
from fedner.reproduce.reproduction import Inputs, PlatformInput
from fedner.runs.blueprint import local_optimizer
from fedner.runs.checks import checked
from fedner.runs.folder import LOCAL_ONLY, SETTINGS, RunFolder
from fedner.runs.local_training import train_baseline
from fedner.runs.privacy_record import run_spent
from fedner.runs.records import PlatformSpent, RunScores
from fedner.runs.schedule import algorithm_for
from fedner.runs.simulation import open_sites, train_run
from fedner.runs.site_taggers import stored_tagger
from fedner.scoring import Scores
from fedner.settings import Settings
from fedner.training import TrainingSettings, train

Tables = Mapping[str, Any]
TEST_SHARE = 0.2
# A rehearsal's tagger: every module is there, and each is tiny.
REHEARSED = {"hidden": 8, "filters": 8, "character_filters": 8, "character_dimension": 8}


@dataclass(frozen=True, slots=True)
class Ran:
    """What a federation came to.

    Attributes:
        scores: The scores of all platforms.
        spent: The privacy that each spent; empty without differential privacy.
        rounds: How many rounds there were.
        up: Bytes of tensors that each platform transmitted.
        down: Bytes of tensors that each received.
        history: The record of every round, with scores where `evaluate_every` asked for them.
    """

    scores: RunScores
    spent: Mapping[str, PlatformSpent]
    rounds: int
    up: Mapping[str, int]
    down: Mapping[str, int]
    history: tuple[RoundRecord, ...] = ()


@dataclass(slots=True)
class Bench:
    """What one process holds for the cells of a study.

    Attributes:
        inputs: What the study runs on, corpora read.
        corpora: The corpora that were needed so far.
    """

    inputs: Inputs
    corpora: dict[str, Corpus] = field(default_factory=dict)

    def corpus(self, name: str) -> Corpus:
        """Return a platform's corpus, sentences tokenised and flattened."""
        if name not in self.corpora:
            path = Path(self.inputs.platform(name).data)
            self.corpora[name] = read(path, "jsonl")
        return self.corpora[name]

    def settings(
        self, seed: int, tables: Tables, platforms: Sequence[Mapping[str, Any]] | None = None
    ) -> Settings:
        """Return the settings of a run.

        Args:
            seed: Names split, first weights and batches.
            tables: What the study sets, as a federation file would.
            platforms: The platforms' entries; by default all inputs, 80/20 by sentence.
        """
        own = self.inputs
        entries = [self.entry(each) for each in own.platforms] if platforms is None else platforms
        base: dict[str, Any] = {
            "title": "reproduction",
            "seed": seed,
            "embeddings": {"words": own.words, "context": own.context},
            "engine": {"device": own.device},
            "platforms": list(entries),
        }
        base["embeddings"]["cache"] = str(own.out / "cache" / "features")
        if own.words == "hashed":
            base["embeddings"] |= {"dimension": 16, "buckets": 512, "trainable": True}
        whole = merged(base, tables)
        if own.is_rehearsal:
            whole["model"] = merged(whole.get("model", {}), REHEARSED)
        return checked(_fitting(whole), own.out, "the study's settings")

    def entry(self, platform: PlatformInput | str, **changes: Any) -> dict[str, Any]:
        """Return a platform as a federation file has it.

        Args:
            platform: The platform, or its name.
            changes: Further keys, such as `shard`; those of `split` are merged.
        """
        if isinstance(platform, str):
            platform = self.inputs.platform(platform)
        split: dict[str, Any] = {"by": "sentence", "test": TEST_SHARE}
        if platform.test_data is not None:
            split = {"by": "sentence", "test_data": platform.test_data}
        entry = {
            "name": platform.name,
            "data": platform.data,
            "format": "jsonl",
            "labels": list(platform.labels),
            "split": split,
        }
        return merged(entry, changes)

    def local(
        self, settings: Settings, name: str, *, epochs: int, batch_size: int, graphs: bool = True
    ) -> Scores:
        """Train a platform by itself for some epochs, and score it on its test part.

        The weak baseline of the papers: no choice of batch size, no early stopping.

        Args:
            settings: Of one or more platforms.
            name: Which of them.
            epochs: How many epochs.
            batch_size: Sentences in a batch.
            graphs: Whether steps are recorded and replayed on a GPU.
        """
        alone = settings.model_copy(update={"platforms": (settings.platform(name),)})
        with one_thread(), self._folder(f"local-{name}-{os.getpid()}") as folder:
            (site,) = open_sites(alone, folder, corpora=self.corpora_of(alone))
            space = site.own_space
            tagger = site.tagger(space).to(site.blueprint.device)
            plan = TrainingSettings(
                epochs=epochs,
                batch_size=batch_size,
                optimizer=replace(local_optimizer(site.study), schedule="constant"),
                max_grad_norm=settings.local_optimizer.max_grad_norm or None,
                graphs=graphs,
            )
            every = site.encoded(space)
            train(tagger, select(every, site.data.train), plan, settings.seed)
            return site.evaluation_part(every, space).scores(tagger)

    def local_only(
        self, settings: Settings, name: str, corpora: Mapping[str, Corpus] | None = None
    ) -> Scores:
        """Train a platform by itself as well as its data allow, and score it on its test part.

        The strong baseline of `fedner train`: batch size and length are chosen on a tenth of the
        training part, and it takes at least as many steps as in a federation of its own.

        Args:
            settings: Of one or more platforms.
            name: Which of them.
            corpora: Texts in place of the inputs' own.
        """
        alone = settings.model_copy(update={"platforms": (settings.platform(name),)})
        held = self.corpora_of(alone) if corpora is None else dict(corpora)
        with one_thread(), self._folder(f"local-only-{name}-{os.getpid()}") as folder:
            (site,) = open_sites(alone, folder, corpora=held)
            train_baseline(site, algorithm_for(site.study), lambda _: None)
            tagger, space = stored_tagger(site, LOCAL_ONLY)
            every = site.encoded(space)
            return site.evaluation_part(every, space).scores(tagger.to(site.blueprint.device))

    def federated(
        self, key: str, settings: Settings, corpora: Mapping[str, Corpus] | None = None
    ) -> Ran:
        """Train a federation in a folder of its own, which is removed when it is done.

        Args:
            key: The cell's; a run that was stopped is taken up again.
            settings: Of the run.
            corpora: Texts in place of the inputs' own, as masked ones.
        """
        folder = self.inputs.out / "under-way" / key.replace("/", "-")
        held = self.corpora_of(settings) if corpora is None else dict(corpora)
        # Evaluation in between costs time and is shown nowhere.
        scores = train_run(settings, folder, resume=holds_run(folder), corpora=held)
        run = RunFolder(folder)
        rounds, spent = run.rounds(), run_spent(run)
        names = [each.name for each in settings.platforms]
        ran = Ran(
            scores,
            {} if spent is None else dict(spent.platforms),
            len(rounds),
            {name: sum(each.bytes_up.get(name, 0) for each in rounds) for name in names},
            {name: sum(each.bytes_down.get(name, 0) for each in rounds) for name in names},
            tuple(rounds),
        )
        remove_run(folder)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return ran

    def corpora_of(self, settings: Settings) -> dict[str, Corpus]:
        """Return the corpora of platforms that are inputs as they are: nobody reads them twice.

        A platform of the same name with another file (a masked one), or with a test part of its
        own, is read by the run itself.
        """
        own = {each.name: each.data for each in self.inputs.platforms}
        return {
            each.name: self.corpus(each.name)
            for each in settings.platforms
            if own.get(each.name) == each.data and each.split.test_data is None
        }

    @contextmanager
    def _folder(self, name: str) -> Iterator[Path]:
        folder = self.inputs.out / "under-way" / name
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def holds_run(folder: Path) -> bool:
    """Whether a folder holds a run to go on with; the rest of one that was killed is removed."""
    shutil.rmtree(_finished(folder), ignore_errors=True)
    if (folder / SETTINGS).is_file():
        return True
    shutil.rmtree(folder, ignore_errors=True)
    return False


def remove_run(folder: Path) -> None:
    """Remove a run that is done; killed at any moment, it is there wholly or is no run."""
    done = _finished(folder)
    shutil.rmtree(done, ignore_errors=True)  # the rest of one that was killed right here
    folder.rename(done)
    shutil.rmtree(done)


def _finished(folder: Path) -> Path:
    return folder.with_name(f"{folder.name} (finished)")


def _fitting(tables: dict[str, Any]) -> dict[str, Any]:
    """Return the tables without a context that their recipe has no slot for."""
    recipe = recipe_named(str(tables.get("model", {}).get("recipe", "CNN-CLSTM-CRF")))
    if not recipe.context and tables["embeddings"].get("context") != "none":
        return merged(tables, {"embeddings": {"context": "none"}})
    return tables


def merged(base: Tables, *changes: Tables) -> dict[str, Any]:
    """Return nested tables with changes over them, one after the other; none is changed."""
    found = dict(base)
    for change in changes:
        for key, value in change.items():
            held = found.get(key)
            both = isinstance(held, Mapping) and isinstance(value, Mapping)
            found[key] = merged(held, value) if both else value  # type: ignore[arg-type]
    return found


def score_measures(scores: Scores) -> dict[str, float | None]:
    """Return everything that tables show of scores, in percent."""
    strict, relaxed = scores.strict_micro.measures, scores.relaxed_micro.measures
    any_type = scores.relaxed_any_type_micro.measures
    tokens, always_o = scores.tokens.weighted, scores.tokens.always_o
    named = {
        "strict": strict,
        "relaxed": relaxed,
        "relaxed_any_type": any_type,
        "token": tokens,
        "always_o": always_o,
    }
    return {
        f"{name}_{part}": 100 * getattr(held, part)
        for name, held in named.items()
        for part in ("f1", "precision", "recall")
    }
