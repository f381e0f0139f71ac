"""scripts/release.py in a repository of its own: version, CHANGELOG and tag agree, or it stops."""

import datetime
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts import release

TODAY = datetime.date(2026, 11, 18)
CHANGES = """# Changelog

## [Unreleased]

### Added

- A thing.
"""


def run_git(root: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for key in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{key}_NAME", "a")
        monkeypatch.setenv(f"GIT_{key}_EMAIL", "a@b")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    root = tmp_path / "repository"
    (root / "src" / "fedner").mkdir(parents=True)
    (root / "docs").mkdir()
    (root / "src" / "fedner" / "version.py").write_text('"""."""\n\n__version__ = "0.1.0"\n')
    (root / "CHANGELOG.md").write_text(CHANGES)
    (root / "docs" / "page.md").write_text('pip install "fedner-0.1.0-py3-none-any.whl[flare]"\n')
    run_git(root, "init", "--quiet")
    run_git(root, "add", ".")
    run_git(root, "commit", "--quiet", "-m", "first")
    return root


def test_a_release_moves_unreleased_under_its_number_and_is_tagged(repository: Path) -> None:
    assert "0.1.0 is to come" in release.check(repository)
    release.prepare(repository, "0.2.0", TODAY)
    held = release.sections(repository)
    assert list(held) == ["Unreleased", "0.2.0"]
    assert held["Unreleased"] == ("", "")
    assert held["0.2.0"] == ("2026-11-18", "### Added\n\n- A thing.")
    assert release.version(repository) == "0.2.0"
    assert "fedner-0.2.0-py3" in (repository / "docs" / "page.md").read_text()
    assert "released before" in release.check(repository)
    release.tag(repository)
    assert run_git(repository, "cat-file", "-t", "v0.2.0").strip() == "tag", "annotated"
    said = run_git(repository, "tag", "-l", "--format=%(contents)", "v0.2.0")
    assert said.strip() == "fedner 0.2.0\n\n### Added\n\n- A thing."
    assert "agree" in release.check(repository)
    assert run_git(repository, "status", "--porcelain") == ""
    with pytest.raises(release.ReleaseError, match="tagged already"):
        release.tag(repository)


def test_the_first_release_may_have_the_number_that_is_there(repository: Path) -> None:
    release.prepare(repository, "0.1.0", TODAY)
    with pytest.raises(release.ReleaseError, match="not above"):
        release.prepare(repository, "0.1.0", TODAY)


@pytest.mark.parametrize("number", ["0.0.9", "0.2", "v0.2.0", "0.2.0rc1"])
def test_no_release_goes_back_or_has_another_form(repository: Path, number: str) -> None:
    with pytest.raises(release.ReleaseError, match=r"not above|no version"):
        release.prepare(repository, number, TODAY)
    assert run_git(repository, "status", "--porcelain") == ""


def test_a_tree_with_changes_is_refused(repository: Path) -> None:
    (repository / "new.txt").write_text("not committed")
    with pytest.raises(release.ReleaseError, match=r"uncommitted changes:\n\?\? new.txt"):
        release.prepare(repository, "0.2.0", TODAY)
    (repository / "new.txt").unlink()
    release.prepare(repository, "0.2.0", TODAY)
    (repository / "CHANGELOG.md").write_text(CHANGES)
    with pytest.raises(release.ReleaseError, match="uncommitted changes"):
        release.tag(repository)


def test_nothing_to_release_is_no_release(repository: Path) -> None:
    release.prepare(repository, "0.2.0", TODAY)
    with pytest.raises(release.ReleaseError, match="nothing to release"):
        release.prepare(repository, "0.3.0", TODAY)


def test_a_tag_without_its_section_is_refused_and_found(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(release.ReleaseError, match=r"no section ## \[0.1.0\]"):
        release.tag(repository)
    run_git(repository, "tag", "-a", "-m", "by hand", "v0.3.0")
    assert release.main(["check"], repository) == 1
    said = capsys.readouterr().err
    assert "this is not 0.3.0" in said
    assert "version.py says 0.1.0" in said


def test_sources_and_newest_section_agree(repository: Path) -> None:
    release.prepare(repository, "0.2.0", TODAY)
    path = repository / release.VERSION_FILE
    path.write_text(path.read_text().replace("0.2.0", "0.3.0"))
    with pytest.raises(
        release.ReleaseError, match=r"the newest section of CHANGELOG\.md is 0\.2\.0"
    ):
        release.check(repository)
