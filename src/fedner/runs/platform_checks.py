"""Whether a platform's own settings can be followed: files that exist, formats, names of types."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from fedner.corpus.archives import input_exists
from fedner.corpus.readers import READERS
from fedner.corpus.readers.options import option_problems
from fedner.corpus.reading import AUTO
from fedner.corpus.synthetic import PLATFORMS
from fedner.runs.embedding_checks import nearest_path
from fedner.settings import PlatformSettings, SettingProblem, nearest


def data_problems(
    own: PlatformSettings, labels: Sequence[str] | None, prefix: str = ""
) -> Iterator[SettingProblem]:
    """Yield what is wrong with a platform's data, before they are read.

    Args:
        own: The platform's settings.
        labels: The types that it declares; None where it declares none.
        prefix: What stands before the keys in messages, as "platforms[0].".
    """
    yield from _source_problems(own, prefix)
    yield from _reading_problems(own, prefix)
    yield from _label_map_problems(own, labels, prefix)


def _source_problems(own: PlatformSettings, prefix: str) -> Iterator[SettingProblem]:
    synthetic = own.synthetic
    if synthetic is not None and synthetic not in PLATFORMS:
        yield SettingProblem(
            f"{prefix}data", repr(own.data), f"synthetic: and one of {', '.join(PLATFORMS)}",
            nearest(synthetic, PLATFORMS),
        )  # fmt: skip
    patients = None if own.patients is None else own.patients.file
    paths = {
        "data": own.data if synthetic is None else None,
        "split.test_data": own.split.test_data,
        "patients.file": patients,
    }
    for key, path in paths.items():
        if path is not None and not input_exists(Path(path)):
            hint = nearest_path(Path(path))
            yield SettingProblem(f"{prefix}{key}", path, "a file or folder", hint)


def _reading_problems(own: PlatformSettings, prefix: str) -> Iterator[SettingProblem]:
    known = [AUTO, *READERS]
    if own.format not in known:
        yield SettingProblem(
            f"{prefix}format", repr(own.format), f"one of {', '.join(known)}",
            nearest(own.format, known),
        )  # fmt: skip
    if own.format in READERS:
        for wrong in option_problems(READERS[own.format].options, own.options):
            place = f"{prefix}options.{wrong.name}"
            yield SettingProblem(place, wrong.found, wrong.expected, wrong.hint)


def _label_map_problems(
    own: PlatformSettings, labels: Sequence[str] | None, prefix: str
) -> Iterator[SettingProblem]:
    for old, new in own.label_map.items():
        if labels and new and new not in labels:
            expected = f"one of the labels ({', '.join(labels)}), or an empty string"
            hint = nearest(new, labels)
            yield SettingProblem(f"{prefix}label_map.{old}", repr(new), expected, hint)
