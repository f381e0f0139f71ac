"""word2vec's binary format: both variants, recognition, damage of every kind, fuzzing.

`GENSIM` was written by gensim 4.4.0, `KeyedVectors.save_word2vec_format(path, binary=True)`, whose
documentation (radimrehurek.com/gensim/models/keyedvectors.html) calls it "the same format used by
the original C word2vec-tool"; that tool also writes a line break after each vector.
"""

import base64
import gzip
import lzma
import os
import random
import resource
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.models.embeddings import vectors_binary
from fedner.models.embeddings.vectors_file import convert
from fedner.models.embeddings.vectors_source import recognise_vectors
from fedner.models.embeddings.vectors_store import VectorStore, open_store
from fedner.models.embeddings.words import WordVectors
from traced import traced_peak

GENSIM = base64.b64decode(
    "NCAzCnRoZSAAAAA/AACAvwAAAEBSb21lIAAAgD4AAAA+AAAAv25hw692ZSBvEoM6AADgQAAAAMFuZXdfeW9yayAAAEBA"
    "AAAAQAAAgD8="
)
WORDS = ["the", "Rome", "naïve", "new_york"]
ROWS = np.float32([[0.5, -1, 2], [0.25, 0.125, -0.5], [1e-3, 7, -8], [3, 2, 1]])
TEXT = b"4 3\nthe 0.5 -1 2\nRome 0.25 0.125 -0.5\nna\xc3\xafve 0.001 7 -8\nnew_york 3 2 1\n"
NUM_FUZZED, SAMPLE = 10_000, 150
MAX_SECONDS, MAX_GROWTH_KIB = 5.0, 200 * 1024
PIECES = (
    *(b"\0", b"\xff", b"\n", b" ", b"\t", b"\x00\x00\xc0\x7f", b"\x00\x00\x80\xff", b"x" * 5000),
    *(b"0", b"-1", b"99999999999999999999", b"9" * 5000, b"4 3\n", b"1 1\n", b"4 70000\n"),
)


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of stores are made and thrown away here; none has to survive a power cut."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def binary(
    words: list[bytes], rows: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]", end: bytes = b""
) -> bytes:
    header = f"{len(words)} {rows.shape[1]}\n".encode()
    records = (
        w + b" " + row.astype("<f4").tobytes() + end for w, row in zip(words, rows, strict=True)
    )
    return header + b"".join(records)


def converted(path: Path, folder: Path) -> VectorStore:
    convert(path, folder)
    return open_store(folder)


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("suffix", [".bin", ".bin.gz", ".model", ".xz"])
def test_both_variants_are_read(tmp_path: Path, end: bytes, suffix: str) -> None:
    data = GENSIM if not end else binary([word.encode() for word in WORDS], ROWS, end)
    packers = {".gz": gzip.compress, ".xz": lzma.compress}
    path = tmp_path / f"v{suffix}"
    path.write_bytes(packers.get(path.suffix, bytes)(data))
    assert recognise_vectors(path) == "word2vec binary"
    source = WordVectors.open(path, cache=tmp_path / "cache")
    assert list(source.store.words()) == WORDS
    np.testing.assert_array_equal(source.take(source.rows(WORDS)), ROWS)
    assert source.is_known(["THE", "Rome", "york"]).tolist() == [True, True, False]
    facts = source.store.facts
    assert (facts.num_words, facts.dimension, facts.num_skipped) == (4, 3, 0)


def test_formats_are_told_apart_by_content(tmp_path: Path) -> None:
    for name, data, expected in (
        ("a.vec", TEXT, "text with a header"),
        ("b.txt", TEXT.partition(b"\n")[2], "text"),
        ("c.vec", GENSIM, "word2vec binary"),
    ):
        (tmp_path / name).write_bytes(data)
        assert recognise_vectors(tmp_path / name) == expected
        store = converted(tmp_path / name, tmp_path / f"{name}.store")
        assert list(store.words()) == WORDS
        np.testing.assert_array_equal(store.matrix.whole(), ROWS)
        assert recognise_vectors(tmp_path / f"{name}.store") == "converted store"


def test_a_model_of_fasttext_is_refused_with_the_hint(tmp_path: Path) -> None:
    path = tmp_path / "cc.en.300.bin"
    path.write_bytes(b"\xba\x16\x4f\x2f\x0c\0\0\0" + b"\0" * 100)
    with pytest.raises(FednerError, match="model of fastText") as caught:
        convert(path, tmp_path / "store")
    assert ".vec" in caught.value.hint


def test_words_that_no_text_can_hold_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "v.bin"
    path.write_bytes(binary([b"na\xc3", b"", b"the", b"\n", b"the"], np.ones((5, 2), np.float32)))
    facts = converted(path, tmp_path / "store").facts
    assert (facts.num_words, facts.num_skipped, facts.num_duplicates) == (1, 3, 1)


def test_records_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(1).standard_normal((200, 7)).astype(np.float32)
    words = [f"w{number}".encode() for number in range(200)]
    (tmp_path / "v.bin").write_bytes(binary(words, rows, b"\n"))
    for size in (1, 13, 29, 1000):
        monkeypatch.setattr(vectors_binary, "CHUNK_BYTES", size)
        store = converted(tmp_path / "v.bin", tmp_path / f"store{size}")
        np.testing.assert_array_equal(store.matrix.whole(), rows)
        assert [word.encode() for word in store.words()] == words


@given(
    st.dictionaries(
        st.text(min_size=1)
        .filter(lambda w: " " not in w and not w.startswith("\n"))
        .filter(lambda w: not any("\ud800" <= c <= "\udfff" for c in w)),
        st.lists(
            st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=2, max_size=2
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([b"", b"\n"]),
)
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, held: dict[str, list[float]], end: bytes
) -> None:
    folder = tmp_path_factory.mktemp("v")
    rows = np.array(list(held.values()), dtype=np.float32)
    (folder / "v.bin").write_bytes(binary([word.encode() for word in held], rows, end))
    store = converted(folder / "v.bin", folder / "store")
    assert list(store.words()) == list(held)
    np.testing.assert_array_equal(store.matrix.whole(), rows)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (GENSIM[:-1], r"record 4 of 4 has 11 of 12 bytes"),
        (GENSIM[:24], r"record 2 of 4 has no word"),
        (GENSIM[:4], r"record 1 of 4 has no word"),
        (GENSIM + b"x", r"goes on after record 4"),
        (b"5" + GENSIM[1:], r"record 5 of 5"),
        (b"3" + GENSIM[1:], r"goes on after record 3"),
        (b"0" + GENSIM[1:], r"declares 0 words"),
        (b"4 0" + GENSIM[3:], r"of 0 numbers"),
        (b"4 99999999" + GENSIM[3:], r"99,999,999 numbers"),
        (GENSIM.replace(b"Rome ", b"Rome" + b"x" * 5000 + b" "), r"record 2 has no word"),
        (GENSIM.replace(b"\x00\x00\x80>", b"\x00\x00\xc0\x7f"), r"record 2 \(b'Rome'\)"),
        (GENSIM.replace(b"\x00\x00\x80>", b"\x00\x00\x80\xff"), r"a number that is none"),
    ],
)
def test_damage_is_told_with_file_and_record(tmp_path: Path, data: bytes, told: str) -> None:
    path = tmp_path / "v.bin"
    path.write_bytes(data)
    with pytest.raises(FednerError, match=told) as caught:
        convert(path, tmp_path / "store")
    assert str(path) in caught.value.message
    assert "fetch it again" in caught.value.hint
    assert list(tmp_path.iterdir()) == [path], "nothing half done is left"


def test_memory_is_bounded_by_the_words(tmp_path: Path) -> None:
    num, dimension = 4000, 2000  # 32 MB of vectors
    with (tmp_path / "v.bin").open("wb") as target:
        target.write(f"{num} {dimension}\n".encode())
        row = np.ones(dimension, np.float32).tobytes()
        for number in range(num):
            target.write(f"w{number} ".encode() + row)
    peak = traced_peak(lambda: convert(tmp_path / "v.bin", tmp_path / "store"))
    assert peak < 16 * 2**20, "half of what the file has; the chunks are of one megabyte"


def fuzz(data: bytes, path: Path, num: int, seed: int, source: Path | None = None) -> int:
    """Convert damaged copies; only FednerError may come out. Return how many were read."""
    chance, read, unnamed = random.Random(seed), 0, 0
    stores = path.parent.parent / "stores"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(num):
        path.write_bytes(mutated(data, chance))
        start = time.process_time()
        try:
            store = converted(source or path, stores / str(number))
        except FednerError as error:
            unnamed += (source or path).name not in error.message
        else:
            read += 1
            assert np.isfinite(store.matrix.whole()).all()
            assert len(list(store.words())) == store.facts.num_words > 0
            assert (store.find(list(store.words())) < store.facts.num_rows).all()
            shutil.rmtree(store.folder)
        assert time.process_time() - start < MAX_SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_GROWTH_KIB
    assert not unnamed, "every error names the file"
    return read


def fuzz_table(part: str, folder: Path, num: int, seed: int) -> int:
    """The same for one of the two files of a row-mapped table."""
    np.save(folder / "vectors.npy", ROWS[:3])
    lines = "".join(f"{word}\t{number % 3}\n" for number, word in enumerate(WORDS))
    (folder / "words.tsv").write_text(lines)
    return fuzz((folder / part).read_bytes(), folder / part, num, seed, source=folder)


def mutated(data: bytes, chance: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        place = chance.randrange(len(found) + 1)
        length = chance.choice((1, 1, 2, 8))
        match chance.randrange(5):
            case 0:
                found[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del found[place : place + length]
            case 2:
                found[place : place + chance.choice((0, length))] = chance.choice(PIECES)
            case 3:
                del found[place:]
            case _:
                for index in range(place, min(place + length, len(found))):
                    found[index] ^= 1 << chance.randrange(8)
    return bytes(found)


damaged = pytest.mark.parametrize(
    ("name", "data"),
    [
        ("v.bin", GENSIM),
        ("v.model", GENSIM),
        ("v.vec", TEXT),
        ("vectors.npy", None),
        ("words.tsv", None),
    ],
    ids=["binary", "binary of another name", "text", "matrix", "words of a matrix"],
)


def read_of(num: int, seed: int, tmp_path: Path, name: str, data: bytes | None) -> int:
    folder = tmp_path / "table"
    folder.mkdir()
    if data is None:
        return fuzz_table(name, folder, num, seed)
    return fuzz(data, folder / name, num, seed)


@damaged
def test_only_fedner_errors_come_out_of_damaged_vectors(
    tmp_path: Path, name: str, data: bytes | None
) -> None:
    assert 0 < read_of(SAMPLE, 1, tmp_path, name, data) < SAMPLE


@pytest.mark.slow
@damaged
def test_ten_thousand_damaged_files(tmp_path: Path, name: str, data: bytes | None) -> None:
    assert 0 < read_of(NUM_FUZZED, 2, tmp_path, name, data) < NUM_FUZZED


@pytest.mark.parametrize("descr", ["<f2", "<f4", "<f8", ">f4"])
def test_the_matrix_of_a_table_may_be_of_any_float(tmp_path: Path, descr: str) -> None:
    table = tmp_path / "table"
    table.mkdir()
    np.save(table / "vectors.npy", ROWS.astype(descr))
    (table / "words.tsv").write_text("a\t3\nb\t0\nc\t3\n")
    store = converted(table, tmp_path / "store")
    np.testing.assert_array_equal(store.matrix.whole(), ROWS.astype(descr).astype(np.float32))
    assert store.find(["a", "b", "c", "d"]).tolist() == [3, 0, 3, -1]
    assert recognise_vectors(table) == "row-mapped table"


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (np.asfortranarray(ROWS), "row by row"),
        (ROWS.astype(np.int64), "matrix of floats"),
        (ROWS[0], "words x dimension"),
        (ROWS[:0], "has 0 rows of 3 numbers"),
        (np.full_like(ROWS, np.inf), "row 0 has a number that is not finite"),
        (ROWS.astype(np.float64) * 1e300, "row 0 has a number that is not finite"),
    ],
)
def test_a_matrix_that_is_none_is_refused(
    tmp_path: Path, rows: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]", told: str
) -> None:
    np.save(tmp_path / "vectors.npy", rows)
    (tmp_path / "words.tsv").write_text("a\t0\n")
    with pytest.raises(FednerError, match=told) as caught:
        convert(tmp_path, tmp_path / "store")
    assert "numpy.save" in caught.value.hint


def test_a_matrix_that_claims_more_than_it_has(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", ROWS)
    (tmp_path / "words.tsv").write_text("a\t0\n")
    whole = (tmp_path / "vectors.npy").read_bytes()
    for data, told in (
        (whole.replace(b"(4, 3)", b"(9, 3)"), "4 of 9 rows"),
        (whole.replace(b"(4, 3), }      ", b"(4000000, 3), }"), "4 of 4,000,000 rows"),
        (whole[:-1], "3 of 4 rows"),
        (whole + b"x", "goes on after its 4 rows"),
    ):
        (tmp_path / "vectors.npy").write_bytes(data)
        with pytest.raises(FednerError, match=told):
            convert(tmp_path, tmp_path / "store")
