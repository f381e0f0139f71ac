"""The model card of a run: its numbers, what it must not tell, odd names, resuming."""

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from joining_options import joined, late
from markdown_it import MarkdownIt
from markdown_it.token import Token

from fedner.corpus.synthetic import generate
from fedner.corpus.writers.jsonl import write_jsonl
from fedner.federated.record import RoundRecord
from fedner.inference.predict import Predictor
from fedner.runs.folder import DISCLOSURE, FACTS, PRIVACY, SCORES, RunFolder
from fedner.runs.records import RunScores
from fedner.runs.report import write_report
from fedner.runs.report.card import spread, stated
from fedner.runs.report.markdown import code, code_block, escaped, table
from fedner.runs.report.page import strict_f1
from fedner.runs.simulation import Progress, open_sites, train_run
from fedner.settings import Settings, parse

Make = Callable[..., Settings]
MARKDOWN = MarkdownIt("commonmark").enable("table")
NAMES = ("case-reports", "forum-posts", "social-posts")
HEADINGS = [
    "Intended use", "Data, as declared", "Scores", "Scores by type", "Privacy",
    "What each platform disclosed", "How to use it", "Limits", "Settings", "Versions",
]  # fmt: skip
DISCLOSED = "What each platform disclosed"
DP_OF_DOCUMENTS = (
    "privacy={mechanism='unit-local',unit='document',simulation=true,noise_multiplier=1.0}"
)


class StopError(Exception):
    """A run is stopped on purpose."""


def headings(text: str) -> list[str]:
    tokens = MARKDOWN.parse(text)
    return [
        tokens[number + 1].content
        for number, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag == "h2"
    ]


def section_of(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def tables(text: str) -> list[list[list[str]]]:
    """Return the cells of every table as a viewer shows them."""
    found: list[list[list[str]]] = []
    is_cell = False
    for token in MARKDOWN.parse(text):
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and is_cell:
            found[-1][-1].append(shown(token))
        is_cell = token.type in ("th_open", "td_open")
    return found


def shown(token: Token) -> str:
    return "".join(each.content for each in token.children or ())


def settings_in(text: str) -> dict[str, Any]:
    blocks = [each for each in MARKDOWN.parse(text) if each.type == "fence"]
    (block,) = [each.content for each in blocks if each.info == "json"]
    held: dict[str, Any] = json.loads(block)
    return held


def test_the_card_has_the_numbers_of_the_run(finished: Path) -> None:
    text = (finished / "MODEL_CARD.md").read_text()
    assert headings(text) == HEADINGS
    scores = RunFolder(finished).read_as(RunScores, SCORES)
    rows = {row[0]: row for row in tables(section_of(text, "Scores"))[0]}
    assert rows["platform"][1:4] == ["local-only", "federated", "centralized"]
    for name in NAMES:
        platform = scores.platforms[name]
        for column, method in enumerate(("local-only", "federated", "centralized"), 1):
            assert rows[name][column].startswith(spread(platform.intervals[method].strict))
        assert rows[name][5] == scores.gains[name].verdict
    left = RunFolder(finished).read(DISCLOSURE)["platforms"]
    sent, tensors = tables(section_of(text, "What each platform disclosed"))
    for row in sent[1:]:
        assert row[1] == str(left[row[0]]["updates"])
        assert row[4].startswith(f"{left[row[0]]['bytes']:,} ")
    assert [row[0] for row in tensors[1:]] == [each["name"] for each in left[NAMES[0]]["tensors"]]
    assert "**No differential privacy.**" in section_of(text, "Privacy")
    assert text.count("**Synthetic data.**") == 1


@pytest.mark.parametrize("place", [".", f"platforms/{NAMES[0]}"])
def test_the_commands_of_a_card_run_in_its_folder(finished: Path, place: str) -> None:
    folder = finished / place
    used = section_of((folder / "MODEL_CARD.md").read_text(), "How to use it")
    (tagger,) = re.findall(r"fedner predict (\S+) notes.txt", used)
    assert f"Predictor.load('{tagger}')" in used
    assert Predictor.load(folder / tagger).predict("Nausea after aspirin.") is not None


def test_the_card_is_its_owners_and_is_written_anew(finished: Path) -> None:
    path = finished / "MODEL_CARD.md"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    path.unlink()
    write_report(RunFolder(finished))
    assert path.read_bytes() == before


def test_a_run_that_was_stopped_has_the_same_card(tiny: Make, tmp_path: Path) -> None:
    settings = tiny("training.rounds=4")
    train_run(settings, tmp_path / "whole")

    def stop(record: RoundRecord) -> None:
        if record.round == 3:
            raise StopError

    with pytest.raises(StopError):
        train_run(settings, tmp_path / "parts", progress=Progress(round=stop))
    assert not (tmp_path / "parts" / "MODEL_CARD.md").exists()
    train_run(settings, tmp_path / "parts", resume=True)
    whole, parts = ((tmp_path / name / "MODEL_CARD.md").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


def test_a_run_without_baselines_says_that_it_cannot_tell(tiny: Make, tmp_path: Path) -> None:
    train_run(tiny("training.rounds=1"), tmp_path / "run")
    told = section_of((tmp_path / "run" / "MODEL_CARD.md").read_text(), "Scores")
    assert "cannot say whether joining helped" in told
    assert tables(told)[0][0] == ["platform", "federated"]


@pytest.mark.parametrize(
    ("given_", "units"), [("training.rounds=1", "sentences"), (DP_OF_DOCUMENTS, "documents")]
)
def test_an_exact_public_size_says_what_it_counts(
    given_: str, units: str, tiny: Make, tmp_path: Path
) -> None:
    train_run(tiny("training.rounds=1", given_), tmp_path / "run")
    told = section_of((tmp_path / "run" / "MODEL_CARD.md").read_text(), DISCLOSED)
    assert told.count(f"is the exact number of {units} to train on") == 1


def test_a_dp_run_tells_what_it_spent(tiny: Make, tmp_path: Path) -> None:
    sizes = (f"platforms.{number}.public_size=30" for number in range(3))
    given_ = (
        "privacy.mechanism=unit-local",
        "privacy.simulation=true",
        "privacy.noise_multiplier=1.0",
    )
    declared = 'privacy.uncharged=["tuned on *all* | texts"]'
    train_run(tiny("training.rounds=2", *given_, declared, *sizes), tmp_path / "run")
    text = (tmp_path / "run" / "MODEL_CARD.md").read_text()
    told = section_of(text, "Privacy spent")
    assert "**Simulation of differential privacy.**" in told
    assert "protects nobody" in told
    assert escaped("tuned on *all* | texts") in told
    spent = RunFolder(tmp_path / "run").read(PRIVACY)["platforms"]
    for row in tables(told)[0][1:]:
        assert row[1:3] == [f"{spent[row[0]][key]:.3f}" for key in ("pld", "rdp")]
    assert "No differential privacy" not in text
    assert "need not be trusted" not in text
    assert "The server must be trusted" in told


@pytest.mark.parametrize("is_scored", [False, True])
def test_the_card_of_protected_platforms_tells_no_score_without_noise(
    tiny: Make, tmp_path: Path, ledgers: Callable[..., tuple[str, ...]], is_scored: bool
) -> None:
    scores = ("privacy.scores={every=2, noise_multiplier=30.0, max_norm=4.0}",) if is_scored else ()
    changes = ("privacy.noise_multiplier=1.0", *ledgers(90), *scores, "training.rounds=2")
    sites = open_sites(tiny(*changes), tmp_path / "none")
    data = {
        site.name: site.data for site in sites
    }  # the keys of these ledgers decide who is trained on
    sizes = [len(data[each.name].train) for each in tiny(*changes).platforms]
    exact = [f"platforms.{number}.public_size={size}" for number, size in enumerate(sizes)]
    train_run(tiny(*changes, *exact), tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    assert folder.read(FACTS)["platforms"]["forum-posts"]["train"] == sizes[1]
    text = (tmp_path / "run" / "MODEL_CARD.md").read_text()
    told = section_of(text, "Scores")
    assert "not covered by epsilon" in told
    assert headings(text) == [
        "Privacy spent" if each == "Privacy" else each
        for each in HEADINGS
        if each != "Scores by type"
    ]
    found = tables(told)
    if is_scored:
        last = folder.rounds()[-1].scores
        expected = {name: f"{100 * strict_f1(each):.1f}" for name, each in last.items()}
        assert {row[0]: row[1] for row in found[0][1:]} == expected
        assert "with noise" in told
    else:
        assert found == []
    assert "Joining" not in text.split("## ")[0], "no verdict, which rests on scores"
    assert "Strict F1 is" not in text
    left_out = {row[3] for row in tables(section_of(text, "Data, as declared"))[1][1:]}
    assert left_out == {"not disclosed: the platform is protected"}
    assert "the server need not be trusted" in text
    assert "exact number" not in text, "nor whether the declared size is the true one"


def test_settings_in_a_card_have_nothing_of_a_platforms_own(tiny: Make) -> None:
    own = {
        "data": "/home/CANARY",
        "ledger": "CANARY",
        "label_map": {"CANARY": "ADE"},
        "patients": {"file": "CANARY"},
        "embeddings": {"words": "/home/CANARY", "cache": "CANARY"},
        "policy": {"studies": ["cafe" * 16], "max_rounds": 9876, "epsilon": 98.75},
        "split": {"test_data": "CANARY"},
        "labels": ["ADE"],
    }
    settings = tiny("embeddings.cache=CANARY").model_dump(mode="json")
    settings["platforms"][0] |= own
    shown = stated(parse(settings, "a test"))
    assert "CANARY" not in shown
    assert "cafe" not in shown
    assert "9876" not in shown
    assert "98.75" not in shown
    assert json.loads(shown)["platforms"][0] == {"name": "case-reports", "labels": ["ADE"]}
    assert json.loads(shown)["platforms"][1]["data"] == "synthetic:forum-posts"


def test_undeclared_facts_of_real_data_are_not_told(tiny: Make, tmp_path: Path) -> None:
    data = tmp_path / "ward-seven-secret.jsonl"
    corpus = generate("case-reports", 47, 1)
    write_jsonl(data, corpus)
    changes = (f"platforms.0.data={data}", "platforms.0.name=ward", "platforms.1.public_size=30")
    train_run(tiny("training.rounds=1", *changes), tmp_path / "run")
    text = (tmp_path / "run" / "MODEL_CARD.md").read_text()
    rows = {row[0]: row for row in tables(section_of(text, "Data, as declared"))[0]}
    assert rows["ward"][1:4] == ["its own, never shared", "not declared", "not declared"]
    assert rows["forum-posts"][3] == "30"
    assert "ward-seven-secret" not in text
    assert str(tmp_path) not in text
    assert "Dosage" not in text, "a type that only the undeclared platform has"
    assert "ward" not in {row[0] for row in tables(section_of(text, "Scores by type"))[0]}
    assert settings_in(text)["platforms"][0] == {"name": "ward"}
    assert "Synthetic data" not in text
    words = {word for each in corpus for word in each.text.split() if len(word) > 9}
    assert not words & set(re.findall(r"\w+", text)), "no text of the platform"


def test_names_are_text_and_never_markup(tiny: Make, tmp_path: Path) -> None:
    title = "# <b>x</b> | `y` **z** [a](http://b.c) ``` &amp;"
    labels = (
        'platforms.0.labels=["A|D*E", "Drug"]',
        'platforms.0.label_map={ ADE = "A|D*E", Dosage = "" }',
    )
    train_run(tiny("training.rounds=1", f"title='{title}'", *labels), tmp_path / "run")
    text = (tmp_path / "run" / "MODEL_CARD.md").read_text()
    tokens = MARKDOWN.parse(text)
    assert shown(tokens[1]) == f"Model card: {title}"
    assert not any(each.type == "html_block" for each in tokens)
    assert settings_in(text)["title"] == title
    assert tables(section_of(text, "Data, as declared"))[0][1][2] == "A|D*E, Drug"


def test_a_platform_that_joins_later_has_a_card(finished: Path, tmp_path: Path) -> None:
    found, _ = joined(finished, tmp_path / "late")
    text = (tmp_path / "late" / "MODEL_CARD.md").read_text()
    assert text.startswith("# Model card: late, joined to tiny\n")
    assert "case-reports" not in text, "the new platform tells nothing of the others"
    assert found.received["digest"] in section_of(text, "What was received")
    assert "Nothing. Joining only receives." in section_of(text, "What the platform disclosed")
    selection = section_of(text, "Selection")
    assert "not a result" in selection
    methods, candidates = tables(selection)
    assert len(methods) == 1 + 3
    assert len(candidates) == 1 + 6
    assert f"{100 * found.choice.selection_f1['joined']:.1f}" in {row[1] for row in methods}
    assert found.result is not None
    f1 = 100 * found.result.outcome.scores.strict_micro.f1
    assert f"| **{found.kept}** (kept) | {f1:.1f} (" in section_of(text, "Result")
    (worth,) = tables(section_of(text, "What joining is worth in own sentences"))
    assert [row[-1] for row in worth[1:]] == [each.words() for each in found.worth]
    assert "no epsilon covers" in section_of(text, "Privacy")


def test_names_on_the_card_of_a_joined_tagger_are_text(finished: Path, tmp_path: Path) -> None:
    platform = late(label_map={"ADE": "A|D*E"}, labels=["A|D*E", "Drug"])
    joined(finished, tmp_path / "late", platform, types={"A|D*E": "<b>x</b> | `y`"})
    text = (tmp_path / "late" / "MODEL_CARD.md").read_text()
    types = tables(section_of(text, "Data"))[1]
    assert types[1] == ["A|D*E", "<b>x</b> | `y`"]
    assert not any(each.type == "html_block" for each in MARKDOWN.parse(text))


@given(st.text())
def test_an_escaped_text_is_shown_as_it_is(text: str) -> None:
    expected = " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text).split())
    (_, inline, _) = MARKDOWN.parse(f"x {escaped(text)} y")
    assert shown(inline).split() == ["x", *expected.split(), "y"]
    rows = tables(table(("a", "b"), [(escaped(text) or "-", "x")]))
    assert rows[0][1][1:] == ["x"], "no cell ends early"


@given(st.text(alphabet="`| a\\", min_size=1).filter(lambda text: text.strip() != ""))
def test_code_holds_any_backticks(text: str) -> None:
    (row,) = tables(table(("a", "b"), [(code(text), "x")]))[0][1:]
    assert row == [" ".join(text.split()), "x"]
    (block,) = MARKDOWN.parse(code_block(text))
    assert block.content == f"{text}\n"


def test_addresses_in_names_are_not_links() -> None:
    text = "http://a.b www.c.d e@f.g"
    assert escaped(text) == r"http:\//a.b www\.c.d e\@f.g", "viewers make links of bare addresses"
    (_, inline, _) = MARKDOWN.parse(escaped(text))
    assert shown(inline) == text
