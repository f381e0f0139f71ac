"""Joining in a test's time: a setting or two for each arm, an epoch each."""

from pathlib import Path
from typing import Any

from fedner.models.checkpoint import LoadedTagger
from fedner.runs.joining.candidates import ARMS, Grid, Setting
from fedner.runs.joining.join import JoinOptions, join
from fedner.runs.joining.record import Joined
from fedner.settings import PlatformEntry

QUICK: Grid = {arm: (Setting(1e-3, 1), Setting(2e-3, 1)) for arm in ARMS}
LATE = PlatformEntry(name="late", data="synthetic:social-posts", num_sentences=40)


def late(**update: Any) -> PlatformEntry:
    """Return the newcomer's settings with other values."""
    return PlatformEntry.model_validate({**LATE.model_dump(exclude_unset=True), **update})


def joined(
    model: Path, out: Path, platform: PlatformEntry = LATE, **options: Any
) -> tuple[Joined, LoadedTagger]:
    """Join quickly."""
    return join(model, platform, out, JoinOptions(**{"grid": QUICK, **options}))
