"""What `fedner demo` shows: two platforms train together, a third joins with a few sentences.

Everything is built in: synthetic text, hashed words, nothing to download. The third platform only
receives. A demonstration that was stopped goes on in its folder.
"""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from fedner.errors import FednerError
from fedner.runs.checks import read_settings
from fedner.runs.folder import RunFolder
from fedner.runs.joining.join import JoinOptions, JoinProgress, join
from fedner.runs.joining.record import Joined
from fedner.runs.simulation import Progress, train_run
from fedner.settings import PlatformEntry, Settings

TOGETHER = "together"
NEWCOMER = "social-posts"
OWN = 25
_HELD = 1_000  # sentences of the newcomer; half of them are its test part, `OWN` are annotated


@dataclass(frozen=True, slots=True)
class Demonstration:
    """Where a demonstration lies, and what it runs.

    Attributes:
        folder: Its folder.
        settings: The federation of the two platforms.
        newcomer: The third platform.
        options: How that one joins.
    """

    folder: Path
    settings: Settings
    newcomer: PlatformEntry
    options: JoinOptions

    @property
    def together(self) -> RunFolder:
        """The run of the two platforms."""
        return RunFolder(self.folder / TOGETHER)

    @property
    def model(self) -> Path:
        """The model that they release."""
        return self.folder / TOGETHER / "model"

    @property
    def tagger(self) -> Path:
        """The newcomer's own tagger."""
        return self.folder / self.newcomer.name

    def next_command(self, own: int) -> str:
        """Return the command that lets the newcomer join again with more sentences."""
        split = self.newcomer.split
        return (
            f"fedner join {self.model} --data {self.newcomer.data} "
            f"--num-sentences {self.newcomer.num_sentences} --by {split.by} --test {split.test} "
            f"--own {own} --seed {self.options.seed} --out {self.folder / f'own-{own}'}"
        )


def demonstration(
    folder: Path,
    seed: int = 1,
    *,
    num_sentences: int | None = None,
    rounds: int | None = None,
    epochs: int | None = None,
    workers: int = 1,
) -> Demonstration:
    """Return a demonstration.

    Args:
        folder: Where it goes.
        seed: Names every random choice, the synthetic text included.
        num_sentences: The size of each of the two platforms; None is that of the file.
        rounds: How long they train; None is that of the file.
        epochs: The usual epochs of the newcomer's trainings; None goes by its sentences.
        workers: How many trainings of the newcomer run side by side.

    Raises:
        FednerError: A number is below 1.
    """
    given = {"num-sentences": num_sentences, "rounds": rounds, "epochs": epochs, "workers": workers}
    for name, value in given.items():
        if value is not None and value < 1:
            raise FednerError(f"--{name} {value}; expected at least 1", "Leave it out.")
    changes = [f"seed={seed}"]
    if num_sentences is not None:
        changes += [f"platforms.{number}.num_sentences={num_sentences}" for number in range(2)]
    if rounds is not None:
        changes += [f"training.rounds={rounds}"]
    path = Path(str(files("fedner.runs").joinpath("demo.toml")))
    newcomer = PlatformEntry.model_validate(
        {
            "name": NEWCOMER,
            "data": f"synthetic:{NEWCOMER}",
            "num_sentences": _HELD,
            "split": {"by": "patient", "test": 0.5},
        }
    )
    options = JoinOptions(own=OWN, seed=seed, epochs=epochs, workers=workers)
    return Demonstration(folder, read_settings(path, tuple(changes)), newcomer, options)


def train_together(shown: Demonstration, progress: Progress | None = None) -> None:
    """Train the two platforms; what is there already is not trained again."""
    if not (shown.model / "model.json").is_file():
        folder = shown.folder / TOGETHER
        train_run(shown.settings, folder, resume=folder.exists(), progress=progress)


def let_join(shown: Demonstration, progress: JoinProgress | None = None) -> Joined:
    """Let the third platform join, and return what that came to."""
    joined, _ = join(shown.model, shown.newcomer, shown.tagger, shown.options, progress=progress)
    return joined
