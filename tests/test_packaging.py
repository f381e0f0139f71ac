"""scripts/packaging: what is built, what may be in it, where it is tried, what is told of it."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hatchling", reason="needs the extra dev")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.packaging import build, contents, licences, places, pythons, sbom, wheelhouse
from scripts.packaging.places import PackagingError

ROOT = Path(__file__).resolve().parents[1]
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "fedner"
version = "0.1.0"
requires-python = ">=3.11"
license-files = ["LICENSE"]
scripts = { fedner = "fedner:main" }
[tool.hatch.build.targets.sdist]
include = ["/src", "/CHANGELOG.md", "/LICENSE", "/README.md"]
[tool.hatch.build.targets.wheel]
packages = ["src/fedner"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a checkout of a package that is small."""
    root = tmp_path / "checkout"
    package = root / "src" / "fedner"
    package.mkdir(parents=True)
    (root / "pyproject.toml").write_text(PROJECT)
    for name in ("README.md", "LICENSE", "CHANGELOG.md", ".gitignore"):
        (root / name).write_text(".venv/\n")
    (package / "__init__.py").write_text('"""."""\n')
    (package / "page.css").write_text("body {}\n")
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    subprocess.run(["git", "add", "."], cwd=root, check=True)
    return root


def test_the_same_bytes_every_time_and_from_the_sdist(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795026459")
    place = tmp_path / "built"
    place.mkdir()
    files = build.built_alike(project, place)
    assert [path.name for path in files] == ["fedner-0.1.0.tar.gz", "fedner-0.1.0-py3-none-any.whl"]
    assert [each for path in files for each in contents.problems(path, project)] == []
    dates = {info.date_time[:3] for info in zipfile.ZipFile(files[1]).infolist()}
    assert dates == {(2026, 11, 18)}


def test_a_build_with_other_bytes_is_refused(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795026459")

    def earlier(root: Path, out: Path, date: str) -> list[Path]:
        return build.build(root, out, str(int(date) - 100))

    with pytest.raises(PackagingError, match="has other bytes when it is built twice"):
        build.built_alike(project, tmp_path, earlier)


def test_the_wheel_of_this_repository_holds_what_git_tracks(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    [wheel] = build.build(ROOT, tmp_path, "1795026459", kinds=("wheel",))
    found = [each for each in contents.problems(wheel, ROOT) if "not tracked" not in each]
    assert found == []
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in ("runs/demo.toml", "runs/report/style.css", "py.typed"):
        assert f"fedner/{path}" in names
    assert not [name for name in names if not name.startswith(("fedner/", "fedner-"))]
    assert not [name for name in names if re.search(r"(^|/)tests?/|\.pyc$", name)]


def _problems(project: Path, tmp_path: Path) -> list[str]:
    files = build.build(project, tmp_path, "1795026459")
    return [each for path in files for each in contents.problems(path, project)]


def test_what_git_does_not_track_is_found_in_both(project: Path, tmp_path: Path) -> None:
    (project / "src" / "fedner" / "notes.txt").write_text("of a patient")
    assert _problems(project, tmp_path) == [
        "fedner-0.1.0.tar.gz holds src/fedner/notes.txt, which is not tracked",
        "fedner-0.1.0-py3-none-any.whl holds fedner/notes.txt, which is not tracked",
    ]


def test_package_data_that_is_left_out_is_found(project: Path, tmp_path: Path) -> None:
    left_out = '[tool.hatch.build]\nexclude = ["*.css"]\n'
    (project / "pyproject.toml").write_text(PROJECT + left_out)
    assert _problems(project, tmp_path) == [
        "fedner-0.1.0.tar.gz lacks src/fedner/page.css",
        "fedner-0.1.0-py3-none-any.whl lacks fedner/page.css",
    ]


def test_folders_of_this_machine_are_found(project: Path, tmp_path: Path) -> None:
    (project / "src" / "fedner" / "__init__.py").write_text(f'PLACE = "{project}/x"\n')
    assert _problems(project, tmp_path) == [
        "fedner-0.1.0.tar.gz: fedner-0.1.0/src/fedner/__init__.py names a folder of this machine",
        "fedner-0.1.0-py3-none-any.whl: fedner/__init__.py names a folder of this machine",
    ]


def _python(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return folder / name


def test_a_shim_whose_version_is_not_chosen_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shims, versions = tmp_path / "shims", tmp_path / "versions" / "3.99.1" / "bin"
    _python(shims, "python3.99", "exit 127")
    monkeypatch.setenv("PATH", str(shims), prepend=":")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert pythons.find("3.99") is None
    there = _python(versions, "python3.99", "echo 3.99")
    assert pythons.find("3.99") == str(there)
    _python(versions, "python3.99", "echo 3.98")
    assert pythons.find("3.99") is None, "it is another version"


def test_the_oldest_python_must_be_here_and_others_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pythons, "find", lambda name: "p" if name == "3.11" else None)
    assert pythons.found(["3.11", "3.13"]) == {"3.11": "p"}
    assert "Python 3.13: not on this machine, skipped" in capsys.readouterr().out
    monkeypatch.setattr(pythons, "find", lambda _: None)
    with pytest.raises(PackagingError, match=r"Python 3.11 is not on this machine"):
        pythons.found(["3.11", "3.13"])


def test_promised_pythons_begin_with_the_required_one() -> None:
    assert pythons.promised() == ["3.11", "3.12", "3.13"]
    assert places.project()["requires-python"] == f">={pythons.OLDEST}"


def test_extras_that_users_cannot_want_are_refused() -> None:
    assert places.wanted_extras("flare, privacy") == ["flare", "privacy"]
    assert places.wanted_extras("") == []
    assert places.wanted_extras("all") == places.extras_for_users()
    with pytest.raises(PackagingError, match="no extra for users is called dev, flair"):
        places.wanted_extras("flair,dev")


def test_a_wheelhouse_that_was_altered_is_not_installed(tmp_path: Path) -> None:
    wheel = tmp_path / "some_thing-1.0+cpu-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    line = wheelhouse.locked([wheel])
    assert line == f"some-thing==1.0+cpu --hash=sha256:{build.digest(wheel)}\n"
    (tmp_path / "requirements.txt").write_text(line)
    (tmp_path / "SHA256SUMS").write_text(wheelhouse.checksums(tmp_path))
    assert "SHA256SUMS" not in wheelhouse.checksums(tmp_path)
    wheel.write_bytes(b"other")
    with pytest.raises(subprocess.CalledProcessError) as caught:
        wheelhouse.install(tmp_path, Path("/bin/false"), ())
    assert caught.value.cmd[0] == "sha256sum"
    assert "some_thing" in caught.value.stdout


@pytest.mark.parametrize(
    ("listed", "differ"),
    [
        ([("a", "1"), ("b-c", "2")], ""),
        ([("a", "1")], "b-c 2"),
        ([("a", "1"), ("b-c", "3")], "b-c 2, b-c 3"),
        ([("a", "1"), ("b-c", "2"), ("d", "4")], "d 4"),
    ],
)
def test_a_bill_of_materials_is_all_that_is_installed(
    listed: list[tuple[str, str]], differ: str
) -> None:
    bill: dict[str, Any] = {"components": [{"name": n, "version": v} for n, v in listed]}
    installed = {("a", "1"), ("b-c", "2")}
    if not differ:
        sbom.check(bill, installed)
        return
    with pytest.raises(PackagingError, match=f"differ in: {differ}$"):
        sbom.check(bill, installed)


@pytest.mark.parametrize(
    ("metadata", "expected", "kind"),
    [
        ({"license_expression": "MPL-2.0 AND MIT", "license": "x"}, "MPL-2.0 AND MIT", "copyleft"),
        ({"license": "BSD 3-Clause"}, "BSD 3-Clause", ""),
        ({"license": "MIT\n\nPermission", "classifier": ["License :: OSI Approved :: MIT License"]},
         "MIT License", ""),
        ({"license": "UNKNOWN", "classifier": ["Topic :: X"]}, "not stated", "not stated"),
        ({"classifier": ["License :: Other/Proprietary License"]},
         "Other/Proprietary License", "proprietary"),
        ({"license": "LGPLv3+"}, "LGPLv3+", "copyleft"),
    ],
)  # fmt: skip
def test_licences_are_read_and_sorted(metadata: dict[str, Any], expected: str, kind: str) -> None:
    assert licences.licence(metadata) == expected
    row = licences.Row("a", "1", licences.licence(metadata), "", ("fedner",), direct=True)
    assert row.kind == kind


def test_what_an_extra_brings_goes_through_extras_of_others_and_markers() -> None:
    def of(name: str, *wanted: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "version": "1", "requires_dist": list(wanted)}}

    report = {
        "environment": {"sys_platform": "linux", "python_version": "3.11"},
        "install": [
            of("fedner", "always", 'B_b[more]>=1; extra == "some"', 'c; extra == "other"'),
            of("always"), of("b.b", 'deep; extra == "more"', 'mac; sys_platform == "darwin"'),
            of("deep"), of("mac"), of("c", "always"),
        ],
    }  # fmt: skip
    rows = licences.rows(report, ["some", "other"], {"b-b"})
    found = {row.name: row.extras for row in rows}
    assert found == {
        "always": ("fedner",), "b-b": ("some",), "c": ("other",), "deep": ("some",), "mac": (),
    }  # fmt: skip
    assert [row.name for row in rows if row.direct] == ["b-b"]


def test_the_page_on_licences_lists_every_dependency_that_the_project_names() -> None:
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| \*\*\[?([a-z0-9-]+)", page, re.MULTILINE))
    missing = licences.direct_dependencies() - told
    assert missing == set(), "run `make licences`"


def test_the_page_on_licences_names_whoever_is_copyleft_or_proprietary_above() -> None:
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    everything = page.split("## Everything that users install")[1].split("\n## ")[0]
    for kind in ("copyleft", "proprietary"):
        above = page.split(f"## {kind.title()}")[1].split("\n## ")[0]
        marked = re.findall(rf"^\| \*{{0,2}}\[?([a-z0-9-]+).*\*\*{kind}\*\*", everything, re.M)
        assert set(re.findall(r"^- `([a-z0-9-]+)`", above, re.M)) == set(marked)
        assert marked
    cells = re.findall(r"^\| .*? \| (.*?) \| (.*?) \|", everything, re.M)[2:]
    unmarked = [
        licence for licence, kind in cells if not kind and licences.COPYLEFT.search(licence)
    ]
    assert unmarked == []


def test_the_page_on_installing_knows_every_extra_and_target() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    extras = re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE)
    assert extras == places.extras_for_users()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"\bmake ([a-z-]+)", page)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for path in set(re.findall(r"`(deploy/[\w./@-]+)`", page)) - {"deploy/.env"}:
        assert (ROOT / path).exists(), path
    named = set(re.findall(r"fedner-([\d.]+?)(?=-py3|\.tar)", page))
    assert named == {places.version()}
    for name in pythons.promised():
        assert name in page
