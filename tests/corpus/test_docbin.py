"""DocBin: against what spaCy itself reads; bombs and damaged numbers."""

import zlib
from pathlib import Path

import pytest
from format_fixtures import ASPIRIN, NAUSEA, NEEDS_SPACY, TEXT, docbin
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.corpus.document import Span
from fedner.corpus.problems import ProblemLog
from fedner.corpus.readers import docbin as reader
from fedner.corpus.reading import read

spacy = pytest.importorskip("spacy", reason=NEEDS_SPACY)


def test_entities_span_groups_sentences_and_tokens(tmp_path: Path) -> None:
    log = ProblemLog()
    first, second = read(docbin(tmp_path), log=log)
    assert (first.id, first.text) == ("train.spacy#1", TEXT)
    # PERSON is one of spaCy's own symbols, which have numbers instead of hashes.
    spans = (Span.of(*NAUSEA, "ADE"), Span.of(*ASPIRIN, "PERSON"), Span.of(5, 25, "Event"))
    assert first.spans == spans
    assert [TEXT[each.start : each.end] for each in first.segments or ()] == [
        "Ow 😀 nausea after Aspirin.",
        "It went away.",
    ]
    assert second.text == "No rash."
    assert log.remarks[reader.REMARK_UNKNOWN] == 1


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=12), st.data())
@settings(max_examples=60, deadline=None)
def test_as_spacy_reads_it(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], data: st.DataObject
) -> None:
    from spacy.tokens import Doc, DocBin

    vocab = spacy.blank("xx").vocab
    size = len(words)
    spaces = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    marks = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    doc = Doc(vocab, words=words, spaces=spaces, sent_starts=[True, *marks[1:]])
    cuts = sorted(data.draw(st.sets(st.integers(0, size), max_size=6)))
    pairs = list(zip(cuts[::2], cuts[1::2], strict=False))
    labels = st.sampled_from(["ADE", "PERSON", "ü x"])
    doc.ents = [spacy.tokens.Span(doc, a, b, label=data.draw(labels)) for a, b in pairs]
    path = tmp_path_factory.mktemp("docbin") / "a.spacy"
    DocBin(docs=[doc, doc]).to_disk(path)
    for document, same in zip(
        read(path), DocBin().from_disk(path).get_docs(spacy.blank("xx").vocab), strict=True
    ):
        assert document.text == same.text
        expected = [Span.of(e.start_char, e.end_char, e.label_) for e in same.ents]
        assert list(document.spans) == expected


def test_unknown_spaces_are_blanks(tmp_path: Path) -> None:
    from spacy.tokens import Doc, DocBin

    doc = Doc(spacy.blank("en").vocab, words=["a", "b"])
    assert doc.has_unknown_spaces
    DocBin(docs=[doc]).to_disk(tmp_path / "a.spacy")
    assert read(tmp_path).documents[0].text == "a b "


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = docbin(tmp_path)
    monkeypatch.setattr(reader, "MAX_BYTES", 2_000)
    path.write_bytes(zlib.compress(zlib.decompress(path.read_bytes()) + bytes(10_000)))
    log = ProblemLog()
    assert len(read(path, lenient=True, log=log)) == 0
    assert log.counts == {"unreadable file": 1}


def test_a_hash_without_a_string_costs_its_document_only(tmp_path: Path) -> None:
    import srsly

    path = docbin(tmp_path)
    message = srsly.msgpack_loads(zlib.decompress(path.read_bytes()))
    tokens = bytearray(message["tokens"])
    tokens[0] ^= 1  # the hash of the first word
    path.write_bytes(zlib.compress(srsly.msgpack_dumps(message | {"tokens": bytes(tokens)})))
    log = ProblemLog()
    assert [document.text for document in read(path, lenient=True, log=log)] == ["No rash."]
    assert log.counts == {"unreadable file": 1}
