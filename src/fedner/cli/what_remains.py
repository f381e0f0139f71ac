"""How many mentions a redaction leaves, said at its end."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedner.inference.threshold_file import ChosenThreshold


def show_what_remains(chosen: "ChosenThreshold | None", *, to_errors: bool = False) -> None:
    """Say what a tagger leaves on held-out documents, where that was measured."""
    from fedner.cli.output import console, errors
    from fedner.inference.calibration import remain_words

    if chosen is None:
        words = "A tagger misses mentions: what it leaves may still identify people. How many it "
        words += "leaves is measured by `fedner redaction calibrate`."
    else:
        words = f"On held-out documents: {remain_words('mentions', chosen.calibration.measured)}. "
        words += "On other texts it may be more."
    (errors if to_errors else console).print(words, style="dim")
