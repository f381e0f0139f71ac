"""A reader from outside the package, with an option of its own, through every public way in.

Files of the format begin with "%spans"; a line is a text, a separator and the words that are drugs.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fedner import cli
from fedner.corpus import (
    Document,
    NoOptions,
    Problem,
    ProblemLog,
    Reader,
    ReadOptions,
    Span,
    inspect,
    option,
    read,
    register_reader,
)
from fedner.corpus.readers import READERS
from fedner.errors import FednerError
from fedner.runs.checks import checked
from fedner.runs.platform_data import load_platform
from fedner.settings import SettingsError

HEADER = "%spans"
CONTENT = f"{HEADER}\n" + "".join(f"took aspirin on day {day}|aspirin\n" for day in range(20))


@dataclass(frozen=True, slots=True)
class PipeOptions:
    """The options of the format."""

    separator: str = option("|", "what stands between text and words")
    first_line: int = option(2, "the first line with a text", is_detected=True)


def recognise(path: Path) -> str | None:
    """Say why a file looks like the format."""
    is_ours = path.is_file() and path.read_bytes().startswith(HEADER.encode())
    return "it begins with %spans" if is_ours else None


def stream(path: Path, log: ProblemLog, options: PipeOptions) -> Iterator[Document]:
    """Yield a document for each line."""
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if number < options.first_line:
            continue
        text, separator, word = line.partition(options.separator)
        start = text.find(word)
        if not separator or start < 0:
            log.report(
                Problem(
                    "malformed line", path.name, number, repr(line), "text|word", "Fix the line."
                )
            )
            continue
        yield Document(f"{path.name}#{number}", text, (Span.of(start, start + len(word), "Drug"),))


PIPES = Reader(
    name="pipes",
    description="a text and its drug a line",
    recognise=recognise,
    stream=stream,
    sentences="line",
    options=PipeOptions,
)


@pytest.fixture
def registered() -> Iterator[None]:
    """The reader in the table, for one test."""
    before = dict(READERS)
    register_reader(PIPES)
    yield
    READERS.clear()
    READERS.update(before)


@pytest.fixture
def semicolons(tmp_path: Path) -> Path:
    path = tmp_path / "notes.pipes"
    path.write_text(CONTENT.replace("|", ";"))
    return path


def test_the_record_itself_is_a_format(semicolons: Path) -> None:
    options = ReadOptions({"separator": ";"})
    corpus = read(semicolons, PIPES, options=options)
    assert len(corpus) == 20
    assert corpus.labels == ("Drug",)
    assert inspect(semicolons, PIPES, options=options).total.mentions == {"Drug": 20}
    with pytest.raises(FednerError, match="20 problems"):
        read(semicolons, PIPES)  # the default separator does not fit


def test_a_value_from_text_is_converted_and_a_wrong_one_names_the_reader(semicolons: Path) -> None:
    assert (
        len(read(semicolons, PIPES, options=ReadOptions({"separator": ";", "first_line": "12"})))
        == 10
    )
    with pytest.raises(FednerError) as caught:
        read(semicolons, PIPES, options=ReadOptions({"seperator": ";", "first_line": "two"}))
    message = caught.value.message
    assert "option seperator of pipes: found seperator = ';'" in message
    assert "separator, first_line" in message
    assert "option first_line of pipes: found 'two'; expected a whole number" in message
    assert 'Did you mean "separator"?' in caught.value.hint


def test_the_column_of_patients_is_refused_where_the_reader_has_no_such_option(
    semicolons: Path,
) -> None:
    with pytest.raises(FednerError, match=r"pipes .* has no columns"):
        read(semicolons, PIPES, options=ReadOptions({"separator": ";", "patient_column": "2"}))


@pytest.mark.usefixtures("registered")
def test_a_registered_reader_is_recognised_and_known_by_name(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(CONTENT)
    assert inspect(path).recognition.why == "it begins with %spans"
    assert len(read(path, "pipes")) == 20
    path.write_text(f"{HEADER}\tO\n" + "rash\tB-ADE\nfine\tO\n\n" * 5)
    assert inspect(path).recognition.format == "pipes", "before the built-in ones"
    with pytest.raises(FednerError, match='reader "pipes": found another reader of that name'):
        register_reader(Reader("pipes", "", recognise, lambda *_: iter(()), "line", NoOptions))
    register_reader(PIPES)  # once more is no harm


def settings(path: Path, options: dict[str, Any], **tables: Any) -> Any:
    platform = {"name": "clinic", "data": str(path), "format": "pipes", "options": options}
    return checked({"training": {"rounds": 1}, "platforms": [{**platform, **tables}]}, path.parent)


@pytest.mark.usefixtures("registered")
def test_settings_pass_the_option_on(semicolons: Path) -> None:
    found = settings(semicolons, {"separator": ";"})
    data = load_platform(found.platforms[0], seed=1)
    assert len(data.sentences) == 20
    with pytest.raises(SettingsError) as caught:
        settings(semicolons, {"separater": ";"})
    [problem] = caught.value.problems
    assert problem.key == "platforms[0].options.separater"
    assert 'Did you mean "separator"?' in str(problem)


@pytest.mark.usefixtures("registered")
def test_the_command_line_passes_the_option_on(
    semicolons: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = command_line(capsys)
    found = run("data", "inspect", semicolons, "--option", "separator=;")
    assert found["format"] == "pipes"
    assert found["mentions"] == {"Drug": 20}
    assert run("data", "formats", "pipes")[0]["options"][0]["name"] == "separator"
    wrong = run("data", "inspect", semicolons, "--option", "separator", code=2)
    assert "expected NAME=VALUE" in wrong["error"]["message"]


def command_line(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def run(*arguments: object, code: int = 0) -> Any:
        before, sys.argv = sys.argv, ["fedner", *map(str, arguments), "--json"]
        try:
            with pytest.raises(SystemExit) as done:
                cli.main()
        finally:
            sys.argv = before
        assert int(done.value.code or 0) == code
        said = capsys.readouterr()
        return json.loads(said.out)

    return run
