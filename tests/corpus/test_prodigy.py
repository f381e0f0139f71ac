"""Prodigy: answers, tokens, and what is malformed."""

import json
from pathlib import Path

import pytest
from format_fixtures import ASPIRIN, NAUSEA, TEXT, prodigy

from fedner.corpus.document import Segment, Span
from fedner.corpus.prepare import prepare
from fedner.corpus.problems import ProblemLog
from fedner.corpus.reading import read, recognise


def test_accepted_tasks_with_their_tokens(tmp_path: Path) -> None:
    log = ProblemLog()
    corpus = read(prodigy(tmp_path), log=log)
    (document,) = corpus
    assert document.id == "annotations.jsonl#1"
    assert document.spans == (Span.of(*NAUSEA, "ADE"), Span.of(*ASPIRIN, "Drug"))
    starts, ends = (0, 3, 5, 12, 18, 25, 27, 30, 35), (2, 4, 11, 17, 25, 26, 29, 34, 40)
    assert document.segments == (Segment(0, len(TEXT), starts, ends),)
    assert log.remarks == {'task with the answer "reject" (left out)': 1}
    sentences = prepare(corpus, sentences="rule").sentences
    assert [sentence.tokens[-1] for sentence in sentences] == [".", "away."]  # Prodigy's tokens


def test_the_least_that_a_task_has(tmp_path: Path) -> None:
    path = tmp_path / "patterns.jsonl"
    path.write_text('{"text": "Rash", "spans": [{"start": 0, "end": 4, "label": "ADE"}]}\n')
    assert recognise(path).format == "prodigy"
    assert read(path).documents[0].spans == (Span.of(0, 4, "ADE"),)


def test_tokens_of_white_space_are_left_out(tmp_path: Path) -> None:
    tokens = [{"start": 0, "end": 1}, {"start": 1, "end": 3}, {"start": 3, "end": 4}]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "a \n b"[:4], "answer": "accept", "tokens": tokens}) + "\n")
    segments = read(path).documents[0].segments
    assert segments == (Segment(0, 4, (0,), (1,)),)


@pytest.mark.parametrize(
    ("change", "kind", "kept"),
    [
        ({"spans": [{"start": 0, "end": 9, "label": "X"}]}, "offset outside the text", False),
        ({"spans": [{"start": 0, "label": "X"}]}, "malformed line", False),
        ({"spans": [{"start": 0, "end": 4, "label": "X", "text": "Rush"}]},
         "offset and quote differ", True),
        ({"spans": [7]}, "malformed line", False),
        ({"tokens": [{"start": 2, "end": 4}, {"start": 0, "end": 2}]}, "malformed line", True),
        ({"tokens": [{"start": 0, "end": 40}]}, "malformed line", True),
        ({"tokens": 5}, "malformed line", True),
        ({"answer": ["accept"], "spans": {}}, "malformed line", False),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_task(tmp_path: Path, change: dict, kind: str, kept: bool) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "Rash", "answer": "accept"} | change) + "\n")
    log = ProblemLog()
    read(path, lenient=True, log=log)
    assert [(problem.kind, problem.kept) for problem in log.problems] == [(kind, kept)]
