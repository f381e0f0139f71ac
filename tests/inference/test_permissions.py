"""Outputs are as readable as their inputs, never more: file modes, folders, temporary files."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fedner import durable
from fedner.cli.app import app
from fedner.errors import FednerError
from fedner.inference.permissions import output_mode
from fedner.models.checkpoint import save_tagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.zoo import build_tagger, recipe_named, resized

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs the modes of POSIX")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    recipe = resized(recipe_named("CNN-CRF"), hidden=4, filters=8, character_filters=4)
    space = TagSpace.of(("ADE", "Drug"), "BIO")
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(64, 8)), space, seed=3)
    held = tmp_path_factory.mktemp("model") / "tagger"
    save_tagger(held, tagger, recipe, space)
    return held


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The modes of all files while they are written."""
    modes: list[int] = []
    create = os.open

    def looking(path, flags, *arguments, **options):
        descriptor = create(path, flags, *arguments, **options)
        if flags & os.O_CREAT:
            modes.append(mode_of(descriptor))
        return descriptor

    monkeypatch.setattr(os, "open", looking)
    return modes


def mode_of(place: Path | int) -> int:
    state = os.fstat(place) if isinstance(place, int) else place.stat()
    return stat.S_IMODE(state.st_mode)


def note(path: Path, mode: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("Took aspirin.")
    path.chmod(mode)
    return path


def run(*arguments: object, stdin: str | None = None) -> None:
    command = [str(each) for each in arguments]
    result = CliRunner().invoke(app, command, catch_exceptions=False, input=stdin)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("command", ["redact", "predict"])
@pytest.mark.parametrize(("mode", "expected"), [(0o600, 0o600), (0o400, 0o600), (0o644, 0o644)])
def test_a_file(
    command: str, mode: int, expected: int, model: Path, tmp_path: Path, seen: list[int]
) -> None:
    source, out = note(tmp_path / "a.txt", mode), tmp_path / "new" / "out.txt"
    if command == "predict":
        out.parent.mkdir()
    run(command, model, source, "--out", out)
    assert mode_of(out) == expected
    assert expected in seen
    assert set(seen) <= {expected, 0o600}, "temporary files are no more readable either"


def test_a_folder_is_followed_file_by_file(model: Path, tmp_path: Path, seen: list[int]) -> None:
    root = tmp_path / "notes"
    note(root / "open.txt", 0o644)
    note(root / "closed" / "secret.txt", 0o640)
    note(root / "closed" / "own.txt", 0o600)
    (root / "closed").chmod(0o700)
    root.chmod(0o750)
    run("redact", model, root, "--out", tmp_path / "out")
    assert mode_of(tmp_path / "out") == 0o750
    assert mode_of(tmp_path / "out" / "closed") == 0o700
    assert mode_of(tmp_path / "out" / "closed" / "own.txt") == 0o600
    for path in (tmp_path / "out").rglob("*.txt"):
        assert mode_of(path) & ~mode_of(root / path.relative_to(tmp_path / "out")) & 0o077 == 0
    run("predict", model, root, "--out", tmp_path / "found.jsonl")
    assert mode_of(tmp_path / "found.jsonl") == 0o600, "one of its inputs is the owner's alone"
    assert seen[-1] == 0o600


def test_a_corpus_of_one_closed_file(model: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "1", "text": "Took aspirin."}\n')
    corpus.chmod(0o600)
    run("predict", model, corpus, "--out", tmp_path / "found.jsonl")
    assert mode_of(tmp_path / "found.jsonl") == 0o600


def test_standard_input_gives_a_file_for_the_owner(model: Path, tmp_path: Path) -> None:
    run("predict", model, "-", "--out", tmp_path / "found.jsonl", stdin="Took aspirin.")
    assert mode_of(tmp_path / "found.jsonl") == 0o600


def test_a_closed_folder_around_an_input_counts(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    source = note(closed / "a.txt", 0o644)
    closed.chmod(0o700)
    assert output_mode([source], tmp_path / "b.txt") == 0o600
    assert output_mode([source], closed / "b.txt") == 0o644, "which is closed around it too"
    closed.chmod(0o750)
    assert output_mode([source], tmp_path / "b.txt") == 0o640
    closed.chmod(0o755)
    assert output_mode([source], tmp_path / "b.txt") == 0o644


def test_another_group_may_not_read_what_its_own_could_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = note(tmp_path / "a.txt", 0o640)
    assert output_mode([source], tmp_path / "b.txt") == 0o640
    monkeypatch.setattr(os, "getegid", lambda: source.stat().st_gid + 1)
    assert output_mode([source], tmp_path / "b.txt") == 0o600
    source.chmod(0o604)
    assert output_mode([source], tmp_path / "b.txt") == 0o600, "its group may not read it"
    source.chmod(0o644)
    assert output_mode([source], tmp_path / "b.txt") == 0o644


def test_the_umask_still_applies(model: Path, tmp_path: Path) -> None:
    os.umask(0o077)
    source = note(tmp_path / "a.txt", 0o644)
    run("redact", model, source, "--out", tmp_path / "b.txt")
    assert mode_of(tmp_path / "b.txt") == 0o600


def test_a_file_that_appears_meanwhile_stays(tmp_path: Path) -> None:
    target = tmp_path / "a"

    def write() -> None:
        with durable.writing(target, overwrite=False) as handle:
            handle.write(b"new")
            target.write_bytes(b"theirs")

    with pytest.raises(FednerError, match="already there"):
        write()
    assert target.read_bytes() == b"theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
