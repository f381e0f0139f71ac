"""`domains`: who is in which domain, who joins whom, and the tables."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from beyond_rehearsal import Rehearsed, assert_whole, mean_of, rehearse, table_named

from fedner.corpus.document import Corpus, Document
from fedner.corpus.sentence import Sentence
from fedner.reproduce.bench import Bench
from fedner.reproduce.beyond import domains as module
from fedner.reproduce.beyond.domains import ALONE, DOMAINS, FEDNER, JOINED, domains, unit_of
from fedner.reproduce.beyond.joining_later import grid_for
from fedner.reproduce.inputs import as_documents
from fedner.reproduce.locating import KNOWN, located
from fedner.reproduce.reproduction import PlatformInput, Row


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Rehearsed:
    return rehearse(DOMAINS, tmp_path_factory.mktemp("domains"))


def test_a_rehearsal_has_every_arm_of_every_platform(rehearsed: Rehearsed) -> None:
    assert_whole(rehearsed.shown)
    table = table_named(rehearsed.shown, "domains")
    assert [row[0] for row in table.rows] == [
        ALONE, FEDNER, JOINED, "gain of FedNER", "gain of joined",
    ]  # fmt: skip
    assert table.columns[1:] == ("case-reports, a third", "forum-posts", "social-posts")
    methods = [row[0] for row in table_named(rehearsed.shown, "domains-joining").rows]
    assert methods == ["as received", "joined", "local-only", "average", "kept"]


def test_corpora_are_put_into_their_domains(rehearsed: Rehearsed) -> None:
    names = ("sec-fin", "presidio-synth", "synthetic-phi-queries", "mine")
    inputs = replace(rehearsed.inputs, platforms=tuple(PlatformInput(each, each) for each in names))
    found = {each.name: each for each in domains(inputs)}
    assert found["finance"].platforms == ("shard-01", "shard-02", "shard-03")
    assert found["finance"].scored == ("shard-01",)
    assert found["de-identification"].scored == names[1:3]
    assert found["others"].corpora == ("mine",)


def test_a_newcomer_is_not_among_its_partners(
    rehearsed: Rehearsed, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    def joined(*given: Any) -> list[Row]:
        _, key, _, partners, who, _ = given
        seen[key] = (who.entry["name"], [each.name for each in partners.platforms])
        return []

    monkeypatch.setattr(module, "joined_rows", joined)
    for cell in rehearsed.cells:
        if cell.factors["arm"] == JOINED:
            DOMAINS.run(cell, Bench(rehearsed.inputs))
    assert sorted(seen.values()) == [
        ("forum-posts", ["social-posts"]),
        ("shard-01", ["shard-02", "shard-03"]),
        ("social-posts", ["forum-posts"]),
    ]


def test_gains_are_those_over_being_alone(rehearsed: Rehearsed) -> None:
    def row(arm: str, repeat: int, f1: float, method: str = "") -> Row:
        factors = {"domain": "two corpora", "arm": arm, "platform": "forum-posts"}
        more = {"method": method} if method else {}
        return Row({**factors, "repeat": repeat, **more}, {"strict_f1": f1})

    rows = [row(ALONE, 1, 40.0), row(ALONE, 2, 50.0), row(JOINED, 1, 44.0, "kept")]
    rows += [row(JOINED, 2, 56.0, "kept"), row(JOINED, 2, 99.0, "joined")]
    table = table_named(DOMAINS.show(rows, rehearsed.inputs), "domains")
    assert mean_of(table.rows[2][2]) == 50.0, "what is kept, not any method"
    assert mean_of(table.rows[4][2]) == 5.0
    assert table.rows[1][2] is None


def test_texts_of_one_template_stay_together() -> None:
    texts = [Document(str(number), "a text", patient="one") for number in range(2)]
    assert unit_of(Corpus("mine", ("X",), tuple(texts))) == "patient"
    assert unit_of(Corpus("mine", ("X",), (*texts, Document("2", "a text")))) == "document"
    assert KNOWN["presidio-synth"].options == {"patient_column": "template_id"}
    sentence = Sentence("d", 0, ("a",), (0,), (1,), (), "template 7")
    assert as_documents([sentence])[0].patient == "template 7"


def test_filings_have_a_test_part_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "sec-fin").mkdir()
    for name in ("FIN5.txt.xz", "FIN3.txt.xz"):
        (tmp_path / "sec-fin" / name).touch()
    found = located(tmp_path, "sec-fin")
    assert found is not None
    assert (found.data, found.test_data) == (
        str(tmp_path / "sec-fin" / "FIN5.txt.xz"),
        str(tmp_path / "sec-fin" / "FIN3.txt.xz"),
    )


def test_settings_are_some_of_those_that_join_tries() -> None:
    from fedner.runs.joining.candidates import grid

    usual = grid(1200, has_head=True)
    for arm, held in grid_for(1200, is_rehearsal=False).items():
        assert set(held) <= set(usual[arm])
