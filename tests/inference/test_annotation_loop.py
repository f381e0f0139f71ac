"""The whole loop: suggest, annotate as a tool would, read back, train on old and new: better."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from played_tools import NAMES, PLAYED, Gold, label_studio
from typer.testing import CliRunner

import fedner
from fedner.cli.app import app
from fedner.cli.conversion import _with_sentences
from fedner.corpus.document import Corpus, Document, Segment, Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.reading import read, read_recognised
from fedner.corpus.synthetic import generate
from fedner.corpus.writers.jsonl import write_jsonl

MODEL = {
    "recipe": "CNN-LSTM-CRF",
    "hidden": 16,
    "character_filters": 16,
    "character_dimension": 8,
    "dropout": 0.1,
}
WORDS = {"dimension": 16, "buckets": 1024}


def trained(corpus: Corpus) -> fedner.Tagger:
    torch.set_num_threads(1)
    return fedner.Tagger.train(
        corpus, epochs=16, batch_size=8, learning_rate=1e-2, model=MODEL, embeddings=WORDS, seed=1
    )


def commanded(*arguments: object) -> dict[str, object]:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def part(corpus: Corpus, documents: tuple[Document, ...]) -> Corpus:
    return replace(corpus, documents=documents)


def gold_of(corpus: Corpus) -> Gold:
    return {each.text: each.spans for each in corpus}


@pytest.mark.parametrize(
    "platform",
    [
        "social-posts",
        pytest.param("case-reports", marks=pytest.mark.slow),
        pytest.param("forum-posts", marks=pytest.mark.slow),
    ],
)
def test_a_round_of_the_loop_makes_the_tagger_better(platform: str, tmp_path: Path) -> None:
    whole = generate(platform, 180, 5)
    documents = tuple({each.text: each for each in whole}.values())
    third, count = len(documents) // 3, len(documents) // 4
    test = part(whole, documents[:third])
    first = part(whole, documents[third : third + 8])
    pool = part(whole, documents[third + 8 :])
    before = trained(first)
    before.save(tmp_path / "model")
    (tmp_path / "corpus").mkdir()
    write_jsonl(tmp_path / "corpus" / "first.jsonl", first)
    notes = tmp_path / "notes"
    notes.mkdir()
    for number, document in enumerate(pool):
        (notes / f"{number}.txt").write_bytes(document.text.encode())
    (notes / "known.txt").write_bytes(first.documents[0].text.encode() + b"\r\n")

    out = tmp_path / "next.json"
    found = commanded(
        "suggest", tmp_path / "model", notes, "--out", out, "--count", count,
        "--not-in", tmp_path / "corpus",
    )  # fmt: skip
    assert (found["format"], found["judged"]) == ("label-studio", len(pool))
    assert found["passed_over"] == {"annotated already": 1}
    label_studio(out, gold_of(pool), tmp_path / "export.json")
    commanded(
        "data", "convert", tmp_path / "export.json", tmp_path / "corpus" / "round-1.jsonl",
        "--to", "jsonl",
    )  # fmt: skip

    both = read(tmp_path / "corpus")
    assert len(both) == len(first) + count
    after = trained(both)
    worse, better = (each.score(test).strict_micro.f1 for each in (before, after))
    assert better > worse + 0.03, (worse, better)
    again = commanded(
        "suggest", tmp_path / "model", notes, "--out", tmp_path / "more.json", "--count", 5,
        "--not-in", tmp_path / "corpus",
    )  # fmt: skip
    assert again["judged"] == len(pool) - count, "the next round begins where this one ended"


TEXTS = (
    "Took aspirin 😀 twice. Then nausea & <rash>.",
    "Fever after ibuprofen,\nthen chills.",
    "He said “no rash” – but 𝛽-blockers helped.",
)
GOLD: Gold = {
    TEXTS[0]: (Span.of(5, 12, "Drug"), Span.of(28, 34, "ADE"), Span.of(38, 42, "ADE")),
    TEXTS[1]: (Span.of(12, 21, "Drug"),),
    TEXTS[2]: (Span.of(12, 16, "ADE"), Span.of(24, 34, "Drug")),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger that finds something everywhere: there is much to correct."""
    corpus = Corpus(
        "clinic", ("ADE", "Drug"), tuple(Document(text, text, GOLD[text]) for text in TEXTS)
    )
    torch.set_num_threads(1)
    tagger = fedner.Tagger.train(corpus, epochs=1, model=MODEL, embeddings=WORDS, seed=2)
    with torch.no_grad():
        for weight in tagger.predictor.model.tagger.parameters():
            weight.mul_(3)
    folder = tmp_path_factory.mktemp("clinic") / "model"
    tagger.save(folder)
    return folder


@pytest.mark.parametrize("tool", PLAYED)
def test_corrected_in_a_tool_every_mention_comes_back_where_it_was_put(
    tool: str, model: Path, tmp_path: Path
) -> None:
    notes = tmp_path / "ward"
    notes.mkdir()
    for number, text in enumerate(TEXTS):
        (notes / f"note-{number}.txt").write_bytes(text.encode())
    out, exported = tmp_path / NAMES[tool], tmp_path / f"exported-{NAMES[tool]}"
    found = commanded("suggest", model, notes, "--out", out, "--to", tool)
    assert sum(each["mentions"] for each in found["suggestions"]) > 0, "nothing to correct"
    PLAYED[tool](out, GOLD, exported)
    recognition, back = read_recognised(exported)
    assert recognition.format == tool
    assert {each.id: each.text for each in back} == {
        f"note-{number}": text for number, text in enumerate(TEXTS)
    }
    assert {each.text: Counter(each.spans) for each in back} == {
        text: Counter(spans) for text, spans in GOLD.items()
    }


def test_what_nobody_opened_in_label_studio_is_not_annotated(model: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes("\n".join(TEXTS).replace(",\n", ", ").encode())
    gold = {each.replace(",\n", ", "): spans for each, spans in GOLD.items()}
    out, exported = tmp_path / "next.json", tmp_path / "exported.json"
    asked = ("suggest", model, tmp_path / "notes.txt", "--format", "lines")
    commanded(*asked, "--out", out)
    label_studio(out, gold, exported, skipped=[1])
    opened = [each["data"]["text"] for each in json.loads(exported.read_text("utf-8"))]
    assert {each.text for each in read(exported, log=ProblemLog())} == {opened[0], opened[2]}
    more = commanded(*asked, "--out", tmp_path / "more.json", "--not-in", exported)
    assert more["passed_over"] == {"annotated already": 2}
    (task,) = json.loads((tmp_path / "more.json").read_text("utf-8"))
    assert task["data"]["text"] == opened[1]


def test_a_converted_export_keeps_the_sentences_that_a_tagger_sees(
    model: Path, tmp_path: Path
) -> None:
    (tmp_path / "note.txt").write_bytes(TEXTS[0].encode())
    out, exported = tmp_path / "next.json", tmp_path / "exported.json"
    commanded("suggest", model, tmp_path / "note.txt", "--out", out)
    label_studio(out, GOLD, exported)
    commanded("data", "convert", exported, tmp_path / "round.jsonl", "--to", "jsonl")
    (back,) = read(tmp_path / "round.jsonl")
    assert [back.text[each.start : each.end].strip() for each in back.segments or ()] == [
        "Took aspirin 😀 twice.",
        "Then nausea & <rash>.",
    ]
    assert back.spans == tuple(GOLD[TEXTS[0]])


def test_sentences_of_the_file_are_kept() -> None:
    given = Document("a", "Sick. Nausea.", (), (Segment(0, 13),))
    (kept,) = _with_sentences(Corpus("n", (), (given,)))
    assert kept is given
