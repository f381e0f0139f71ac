"""PubTator: title and abstract as one text, relations, and lines that are malformed."""

from pathlib import Path

import pytest
from format_fixtures import NEEDS_FORMATS, pubtator

from fedner.corpus.document import Corpus, Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.reading import read

pytest.importorskip("bioc", reason=NEEDS_FORMATS)


def read_lines(folder: Path, *lines: str) -> tuple[Corpus, ProblemLog]:
    path = folder / "a.txt"
    path.write_text("".join(f"{line}\n" for line in lines))
    log = ProblemLog()
    return read(path, lenient=True, log=log), log


def test_title_and_abstract_are_one_text(tmp_path: Path) -> None:
    first, second = read(pubtator(tmp_path))
    assert first.text == "Tricuspid 😀 regurgitation and lithium.\nA case report."
    assert first.spans == (Span.of(10, 25, "Disease"), Span.of(30, 37, "Chemical"))
    assert (second.id, second.text, second.spans) == ("8", "Rash", (Span.of(0, 4, "Disease"),))


def test_trailing_blanks_of_the_title_count(tmp_path: Path) -> None:
    corpus, log = read_lines(
        tmp_path, "1|t|Rash  ", "1|a|after aspirin", "1\t13\t20\taspirin\tDrug\tx"
    )
    (document,) = corpus
    assert log.total == 0
    assert document.spans[0].text_in(document.text) == "aspirin"


def test_separators_of_other_lines_are_characters(tmp_path: Path) -> None:
    corpus, log = read_lines(tmp_path, "1|t|a\u2028b", "1|a|c", "1\t4\t5\tc\tX\ty")
    assert log.total == 0
    assert corpus.documents[0].spans == (Span.of(4, 5, "X"),)


def test_articles_without_a_blank_line_between_them(tmp_path: Path) -> None:
    corpus, log = read_lines(tmp_path, "1|t|a", "1|a|b", "2|t|c", "2\t0\t1\tc\tX\ty\tscore 0.9")
    assert [(each.id, each.text) for each in corpus] == [("1", "a\nb"), ("2", "c")]
    assert log.total == 0
    assert corpus.documents[1].spans == (Span.of(0, 1, "X"),)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("1\t0\t99\ta\tX\ty", "offset outside the text"),
        ("1\t1\t1\ta\tX\ty", "zero-length span"),
        ("1\t0\t1\tq\tX\ty", "offset and quote differ"),
        ("2\t0\t1\ta\tX\ty", "malformed line"),
        ("1\tzero\tone\ta\tX\ty", "malformed line"),
        ("nonsense", "malformed line"),
        (f"1\t{'9' * 5000}\t1\ta\tX\ty", "malformed line"),
    ],
)
def test_what_is_wrong_with_a_line(tmp_path: Path, line: str, kind: str) -> None:
    corpus, log = read_lines(tmp_path, "1|t|abc", line)
    (problem,) = log.problems
    assert (problem.kind, problem.line) == (kind, 2)
    assert len(corpus.documents[0].spans) == problem.kept


def test_an_annotation_before_any_article(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("1|t|abc\n\n1\t0\t1\ta\tX\ty\n")
    log = ProblemLog()
    assert len(read(path, lenient=True, log=log)) == 1
    assert log.counts == {"malformed line": 1}
