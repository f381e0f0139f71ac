"""The audit of a platform of a run or a study: record, picture, command and model card."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from fedner.audit.finding import DEFENCES, Finding, absent, unchanged
from fedner.cli.app import app
from fedner.errors import FednerError
from fedner.models.partition import shares_head
from fedner.models.zoo import RECIPES
from fedner.runs import auditing
from fedner.runs.auditing import audit_site, keep_in_run, write_audit
from fedner.runs.checks import read_settings
from fedner.runs.folder import RunFolder
from fedner.runs.records import read_as
from fedner.runs.records.audit import AUDIT, AuditRecord
from fedner.runs.report.audit_picture import audit_svg
from fedner.runs.report.audit_words import audit_section
from fedner.runs.report.page import _audits
from fedner.runs.simulation import open_sites, train_run
from fedner.runs.study_defaults import with_defaults
from fedner.runs.study_files import halves_of, write_halves
from fedner.runs.type_descriptions import description_warnings, has_described_head
from fedner.settings import Settings

FEDERATION = """
title = "tiny audited"
[model]
recipe = "LSTM-CRF"
hidden = 6
head = "described"
rank = 4
[embeddings]
dimension = 8
buckets = 512
trainable = true
[partition]
shared = "everything"
[training]
rounds = 2
batch_size = 8
[[platforms]]
name = "case-reports"
data = "synthetic:case-reports"
num_sentences = 60
[[platforms]]
name = "social-posts"
data = "synthetic:social-posts"
num_sentences = 50
"""


def cells(defence_result: float = 0.9, promised: float | None = None) -> tuple[Finding, ...]:
    run = Finding("words", "none", "F1", "run", defence_result, 0.8, 1.0, 0.5, 1.0, promised)
    local = Finding("words", "local", "F1", "run", 0.1, 0.0, 0.2, 0.5, 0.1)
    others = [unchanged("words", each, "F1", "none", "why") for each in DEFENCES[2:]]
    return (run, local, *others, *absent("types", "F1", "frozen"))


def record(**changes: object) -> AuditRecord:
    held = AuditRecord("case-reports", "d" * 64, 1, 1.0, 1.5, 3, False, cells())
    return replace(held, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audited") / "federation.toml"
    path.write_text(FEDERATION)
    return path


@pytest.fixture(scope="module")
def run(federation: Path) -> Path:
    folder = federation.parent / "run"
    train_run(read_settings(federation), folder)
    return folder


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attacks are tried in tests/audit: here it counts what becomes of their findings."""
    monkeypatch.setattr(auditing, "audit", lambda *_: list(cells()))


def invoked(*arguments: object, code: int = 0) -> str:
    command = ["privacy", "audit", *map(str, arguments)]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    places = write_audit(record(), tmp_path / "out")
    assert read_as(AuditRecord, places.record, "") == record()
    assert places.record.name == AUDIT
    assert places.record.stat().st_mode & 0o077 == 0
    assert places.picture.stat().st_mode & 0o077 == 0


def test_the_picture_has_every_cell_and_its_words() -> None:
    root = ElementTree.fromstring(audit_svg(record()))  # noqa: S314 - our own output
    texts = "".join(root.itertext())
    for words in ("leak", "inconclusive", "as no defence", "nothing to attack", "local DP", "100%"):
        assert words in texts
    boxes = [each for each in root.iter() if each.tag.endswith("rect")]
    assert len(boxes) == 1 + 2 * len(DEFENCES)


def test_the_card_tells_of_audits_but_not_of_protected_platforms() -> None:
    told = audit_section({"case-reports": record()}, is_deployed=False)
    assert "## Privacy audit" in told
    assert "1 of 2 attacks worked: words" in told
    assert "Inconclusive: words" in told
    kept = audit_section({"case-reports": record()}, is_deployed=True)
    assert "stays with them" in kept
    assert "leak" not in kept.replace("Privacy audit", "")
    assert audit_section({}, is_deployed=False) == ""


def test_the_report_shows_the_picture_but_not_of_protected_platforms() -> None:
    for is_deployed in (False, True):
        found = SimpleNamespace(audits={"case-reports": record()}, is_deployed=is_deployed)
        assert ("<svg" in _audits(found)) != is_deployed  # type: ignore[arg-type]


def test_what_was_promised_and_broken_is_said(run: Path) -> None:
    broken = record(findings=cells(0.9, promised=0.7))
    assert [each.attack for each in broken.broken] == ["words"]
    assert "The protection is broken" in audit_section({"a": broken}, is_deployed=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auditing, "audit", lambda *_: list(cells(0.9, promised=0.7)))
        assert "broken: words under none" in invoked(run, code=1)


@pytest.mark.usefixtures("quick")
def test_the_smallest_platform_of_a_run_is_audited_and_the_card_says_so(run: Path) -> None:
    shown = invoked(run)
    assert "social-posts" in shown
    assert "No result says that a defence is safe" in shown
    folder = RunFolder(run)
    assert (folder.site("social-posts").path / AUDIT).is_file()
    assert "## Privacy audit" in folder.card.read_text()
    named = json.loads(invoked(run, "--platform", "case-reports", "--json"))
    assert named["platform"] == "case-reports"
    assert named["noise_multiplier"] == 1.0
    assert not named["is_asked_for"]
    with pytest.raises(FednerError, match="no platform 'nobody'"):
        invoked(run, "--platform", "nobody")
    with pytest.raises(FednerError, match="is a run"):
        invoked(run, "platform.toml")


@pytest.mark.usefixtures("quick")
def test_a_platform_audits_itself_before_it_joins(federation: Path, tmp_path: Path) -> None:
    write_halves(halves_of(read_settings(federation)), tmp_path / "halves")
    own = tmp_path / "halves" / "case-reports" / "platform.toml"
    invoked(tmp_path / "halves" / "study.toml", own)
    assert (own.parent / "audit" / AUDIT).is_file()
    with pytest.raises(FednerError, match="an audit of a study needs"):
        invoked(tmp_path / "halves" / "study.toml")


def test_the_noise_of_the_study_is_what_is_audited(federation: Path) -> None:
    private = ("privacy.mechanism=unit-local", "privacy.noise_multiplier=2.5",
               "privacy.max_grad_norm=0.5", "privacy.simulation=true")  # fmt: skip
    settings = read_settings(federation, private)
    site = open_sites(settings, federation.parent / "unused")[0]
    asked = auditing._asked_for(site)
    assert asked is not None
    assert (asked.max_grad_norm, asked.noise_multiplier, asked.num_platforms) == (0.5, 2.5, 3)
    with pytest.raises(FednerError, match="its own noise"):
        audit_site(site, 1, noise_multiplier=1.0)


def test_no_recipe_has_a_described_head_unless_the_study_asks_for_one() -> None:
    """The audit's answer (docs/privacy.md): a described head is never a default."""
    bare = FEDERATION.replace('head = "described"', "").replace("rank = 4", "")
    bare = bare.replace('shared = "everything"', "")
    for recipe in RECIPES:
        written = tomllib.loads(bare.replace("LSTM-CRF", recipe))
        assert not has_described_head(with_defaults(Settings.model_validate(written)))
    written = tomllib.loads(bare.replace('recipe = "LSTM-CRF"', ""))
    assert not shares_head(with_defaults(Settings.model_validate(written)).partition.shared)


def test_types_that_nobody_declared_are_warned_about_where_the_head_is_shared(
    federation: Path, tmp_path: Path
) -> None:
    for shared, is_warned in (("everything", True), ("encoder", False)):
        halves = halves_of(read_settings(federation, (f"partition.shared={shared}",)))
        study = halves.study
        platforms = tuple(each.model_copy(update={"labels": None}) for each in study.platforms)
        silent = study.model_copy(update={"platforms": platforms})
        own = halves.platforms["case-reports"]
        said = " ".join(description_warnings(silent, own, ["Drug"]))
        assert ("Drug not declared" in said) == is_warned
        declared = study.model_copy(update={"types": {"Drug": "name of a medicine"}})
        assert "not declared" not in " ".join(description_warnings(declared, own, ["Drug"]))


def test_types_are_guessed_among_others(federation: Path) -> None:
    site = open_sites(read_settings(federation), federation.parent / "unused")[0]
    held = auditing._audited(site)
    assert held.guesses is not None
    assert {"Drug", "Gene"} <= set(held.guesses.labels)
    assert held.target.shared == site.blueprint.partition.shared
    with pytest.raises(FednerError, match="above 0"):
        audit_site(site, 1, noise_multiplier=0.0)


def test_a_record_in_a_run_that_is_not_finished_needs_no_report(tmp_path: Path) -> None:
    keep_in_run(record(), RunFolder(tmp_path))
    assert not (tmp_path / "report.html").exists()
