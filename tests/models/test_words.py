"""Word vectors, hashed words and the word embedding, frozen and trained."""

import copy
import gzip
import json
import lzma
import pickle
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.models.embeddings import vectors_store
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.embeddings.vectors_file import convert
from fedner.models.embeddings.vectors_store import open_store
from fedner.models.embeddings.words import HashedWords, WordVectors

LINES = ["the 0.1 0.2 -0.3", "Rome 1 2 3", ". . . 4 5 6e-1", "é 7 8 9", "the 9 9 9"]


def write(path: Path, lines: list[str], end: str = "\n") -> Path:
    data = "".join(line + end for line in lines).encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".xz":
        data = lzma.compress(data)
    path.write_bytes(data)
    return path


@pytest.fixture
def vectors(tmp_path: Path) -> WordVectors:
    return WordVectors.open(write(tmp_path / "v.txt", LINES), cache=tmp_path / "cache")


def vector(source: WordVectors, word: str) -> list[float]:
    return source.take(source.rows([word]))[0].tolist()


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
@pytest.mark.parametrize("header", [[], ["5 3"]])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
def test_text_files_are_read_as_published(
    tmp_path: Path, suffix: str, header: list[str], end: str
) -> None:
    path = write(tmp_path / f"v.vec{suffix}", header + LINES, end)
    source = WordVectors.open(path, cache=tmp_path / "cache")
    facts = source.store.facts
    assert (facts.num_words, facts.num_rows, facts.dimension) == (4, 4, 3)
    assert facts.num_duplicates == 1
    assert not facts.is_lowercased
    assert list(source.store.words()) == ["the", "Rome", ". . .", "é"]
    np.testing.assert_array_equal(vector(source, "the"), np.float32([0.1, 0.2, -0.3]))
    np.testing.assert_array_equal(vector(source, ". . ."), np.float32([4, 5, 0.6]))
    assert vector(source, "é") == [7, 8, 9]


def test_a_file_of_one_dimension_has_no_header(tmp_path: Path) -> None:
    source = WordVectors.open(write(tmp_path / "v.txt", ["12 7", "b 2", "c 3"]), cache=tmp_path)
    assert source.dimension == 1
    assert vector(source, "12") == [7]


def test_every_wrong_line_is_reported_with_its_number(tmp_path: Path) -> None:
    lines = ["9 3", *LINES[:3], "short 1 2", "word x 2 3", "nan nan 2 3", "", "blank 1  2"]
    with pytest.raises(FednerError) as caught:
        WordVectors.open(write(tmp_path / "v.txt", lines), cache=tmp_path / "cache")
    message = str(caught.value)
    for number in (5, 6, 7, 8, 9):
        assert f"v.txt:{number}:" in message
    for number in (2, 3, 4):
        assert f"v.txt:{number}:" not in message
    assert "9 words, as line 1 declares" in message
    assert not list((tmp_path / "cache").glob("*.v1"))
    assert not list((tmp_path / "cache").glob(".*"))


def test_a_word_that_is_not_utf8_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_bytes(b"a 1 2\nb\xff 1 2\nc 1 2\n")
    with pytest.raises(FednerError, match=r"v\.txt:2: .*not UTF-8"):
        WordVectors.open(path, cache=tmp_path / "cache")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n",
        b"only words\nno numbers\n",
        b"x\ny\n",
        b"5 3\n",
        b"2 99999999999\na 1 2\nb 1 2\n",
    ],
)
def test_a_file_without_vectors_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "v.txt"
    path.write_bytes(content)
    with pytest.raises(FednerError, match=r"v\.txt"):
        WordVectors.open(path, cache=tmp_path / "cache")


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_a_compressed_file_cut_short_is_refused(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"v.txt{suffix}", [f"w{i} {i} {i * 3}" for i in range(5000)])
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FednerError, match="damaged or cut short"):
        WordVectors.open(path, cache=tmp_path / "cache")


def test_nothing_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(FednerError, match="no word vectors at"):
        WordVectors.open(tmp_path / "absent.txt", cache=tmp_path)
    with pytest.raises(FednerError, match="holds no word vectors"):
        WordVectors.open(tmp_path, cache=tmp_path)


@pytest.mark.parametrize(
    ("lowercase", "words", "known"),
    [
        ("never", ["the", "The", "Rome", "rome"], [True, False, True, False]),
        ("fallback", ["the", "The", "Rome", "rome"], [True, True, True, False]),
        ("always", ["the", "The", "Rome", "rome"], [True, True, False, False]),
    ],
)
def test_lowercasing_policy(
    vectors: WordVectors, lowercase: str, words: list[str], known: list[bool]
) -> None:
    source = WordVectors(vectors.store, lowercase)  # type: ignore[arg-type]
    assert source.is_known(words).tolist() == known
    assert source.origin.settings["lowercase"] == lowercase


def test_unknown_word_policies(vectors: WordVectors) -> None:
    table = np.float32([[0.1, 0.2, -0.3], [1, 2, 3], [4, 5, 0.6], [7, 8, 9]])
    assert vector(WordVectors(vectors.store, unknown="zero"), "xyz") == [0, 0, 0]
    mean = vector(WordVectors(vectors.store, unknown="mean"), "xyz")
    np.testing.assert_allclose(mean, table.mean(axis=0), rtol=1e-6)
    buckets = WordVectors(vectors.store, unknown="hash-bucket", buckets=50)
    rows = buckets.rows([f"unknown{i}" for i in range(500)])
    assert rows.min() >= 1
    assert rows.max() <= 50
    assert len(set(rows.tolist())) > 40
    spread = buckets.take(np.arange(1, 51))
    np.testing.assert_allclose(spread.mean(axis=0), table.mean(axis=0), atol=2.0)
    assert buckets.rows(["the"])[0] == 51
    assert buckets.take(np.int64([0])).tolist() == [[0, 0, 0]]
    with pytest.raises(FednerError, match="unknown is 'nonsense'"):
        WordVectors(vectors.store, unknown="nonsense")  # type: ignore[arg-type]


def test_conversion_happens_once_and_follows_the_source(tmp_path: Path) -> None:
    path, cache = write(tmp_path / "v.txt", LINES), tmp_path / "cache"
    first = WordVectors.open(path, cache=cache)
    stamp = (first.store.folder / "about.json").stat().st_mtime_ns
    again = WordVectors.open(path, cache=cache)
    assert (again.store.folder / "about.json").stat().st_mtime_ns == stamp
    write(path, ["other 1 2 3", *LINES])
    changed = WordVectors.open(path, cache=cache)
    assert changed.store.folder != first.store.folder
    assert changed.is_known(["other"]).tolist() == [True]
    straight = WordVectors.open(changed.store.folder)
    assert straight.origin == changed.origin


def test_the_user_cache_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    source = WordVectors.open(write(tmp_path / "v.txt", LINES))
    assert source.store.folder.parent == tmp_path / "xdg" / "fedner" / "vectors"


@pytest.mark.parametrize(
    "name", ["words.utf8", "offsets.npy", "hashes.npy", "entries.npy", "rows.npy", "blocks.npy"]
)
@pytest.mark.parametrize("damage", ["cut", "alter", "remove"])
def test_a_damaged_store_is_refused(tmp_path: Path, name: str, damage: str) -> None:
    store = tmp_path / "store"
    convert(write(tmp_path / "v.txt", LINES), store)
    data = bytearray((store / name).read_bytes())
    if damage == "remove":
        (store / name).unlink()
    else:
        data[-1] ^= 1
        (store / name).write_bytes(data[:-1] if damage == "cut" else data)
    with pytest.raises(FednerError, match=name):
        open_store(store)


def test_a_damaged_record_or_another_version_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store"
    convert(write(tmp_path / "v.txt", LINES), store)
    about = json.loads((store / "about.json").read_bytes())
    for change in ({"version": 99}, {"files": {}}):
        (store / "about.json").write_text(json.dumps({**about, **change}))
        with pytest.raises(FednerError, match="does not fit its seal"):
            open_store(store)
    (store / "about.json").write_text('{"cut')
    with pytest.raises(FednerError, match="not readable"):
        open_store(store)


def test_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "store"
    convert(write(tmp_path / "v.txt", LINES), store)
    monkeypatch.setattr(vectors_store, "VERSION", 2)
    with pytest.raises(FednerError, match=r"version 1; expected .* version 2"):
        open_store(store)


def test_an_altered_vector_is_refused_when_it_is_used(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = [f"w{i} " + " ".join(f"{x:.4f}" for x in rng.normal(size=50)) for i in range(3000)]
    store = tmp_path / "store"
    convert(write(tmp_path / "v.txt", lines), store)
    path = store / "vectors.npy"
    data = bytearray(path.read_bytes())
    data[128 + 2000 * 200 + 3] ^= 64
    path.write_bytes(data)
    source = WordVectors.open(store)
    assert np.isfinite(source.take(source.rows(["w1"]))).all()
    with pytest.raises(FednerError, match="not what was written"):
        source.take(source.rows(["w2000"]))
    with pytest.raises(FednerError, match="not what was written"):
        source.on(torch.device("cpu"))


def test_words_that_share_a_hash_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        vectors_store, "hash_words", lambda words: np.full(len(words), 7, dtype=np.uint64)
    )
    store = tmp_path / "store"
    convert(write(tmp_path / "v.txt", LINES), store)
    source = open_store(store)
    assert source.find(["é", "the", "absent", "Rome"]).tolist() == [3, 0, -1, 1]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([*LINES, "3 3", "0 0", "1 1", "x", "", "a 1 2 3 4", "b 1e99 0 0"])),
    st.sampled_from([b"\n", b"\r\n", b"\n\n", b"\0", b"\t"]),
    st.binary(max_size=6),
    st.integers(0, 60),
)
def test_any_bytes_give_vectors_or_a_fedner_error(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    end: bytes,
    noise: bytes,
    at: int,
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    data = b"".join(line.encode() + end for line in lines)
    (folder / "v.txt").write_bytes(data[:at] + noise + data[at:])
    try:
        source = WordVectors.open(folder / "v.txt", cache=folder / "cache")
    except FednerError:
        return
    words = list(source.store.words())
    assert source.is_known(words).all()
    assert np.isfinite(source.take(source.rows(words))).all()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"]), min_size=1),
        min_size=2,
        max_size=40,
    )
)
def test_lookup_equals_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, words: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("lookup")
    path = write(folder / "v.txt", [f"{word} {i} {i} 0.5" for i, word in enumerate(words)])
    source = WordVectors.open(path, cache=folder, lowercase="never")
    reference = {}
    for i, word in enumerate(words):
        reference.setdefault(word, [float(i), float(i), 0.5])
    queries = [*words, "surely absent", "\ud800"]
    found = source.take(source.rows(queries))
    for query, row in zip(queries, found.tolist(), strict=True):
        if query in reference:
            assert row == reference[query]
        else:
            assert row == source.take(np.int64([1]))[0].tolist()


def test_copies_share_the_table_and_other_processes_map_it(vectors: WordVectors) -> None:
    assert copy.deepcopy(vectors) is vectors
    reopened = pickle.loads(pickle.dumps(vectors))  # noqa: S301  # our own object, as workers get it
    assert reopened.origin == vectors.origin
    assert len(pickle.dumps(vectors)) < 1000


def test_origins_survive_json(vectors: WordVectors) -> None:
    for source in (vectors, HashedWords(10, 4)):
        origin = source.origin
        assert EmbeddingOrigin.from_json(json.loads(json.dumps(origin.to_json()))) == origin
    with pytest.raises(FednerError, match="sha256"):
        EmbeddingOrigin.from_json({"kind": "x", "name": "y", "dimension": 3, "settings": {}})


def test_hashed_words_are_the_same_everywhere() -> None:
    source = HashedWords(1000, 8)
    # Literals: a change of hash or of the first values would break every checkpoint.
    assert source.rows(["Aspirin", "aspirin", "", "10mg"]).tolist() == HASHED_ROWS
    np.testing.assert_allclose(source.take(np.int64([1]))[0, :2], HASHED_VALUES, rtol=1e-6)
    assert source.take(np.int64([0])).any() == np.False_
    assert HashedWords(1000, 8, "never").rows(["Aspirin"]) != source.rows(["Aspirin"])
    table = source.take(np.arange(1, 1001))
    assert abs(table.mean()) < 0.01
    assert table.std() == pytest.approx(8**-0.5, rel=0.02)


HASHED_ROWS = [498, 498, 757, 72]
HASHED_VALUES = [-0.09734776, -0.593724]


@pytest.mark.data
def test_real_vectors(data: Path, tmp_path: Path) -> None:
    source = WordVectors.open(data / "spacy-en-vectors-300d", cache=tmp_path)
    facts = source.store.facts
    assert (facts.num_words, facts.num_rows, facts.dimension) == (514_092, 20_000, 300)
    rows = source.rows(["aspirin", "ibuprofen", "the"])
    assert rows[0] == rows[1] != rows[2]
    begin = time.process_time()
    again = WordVectors.open(data / "spacy-en-vectors-300d", cache=tmp_path)
    again.take(again.rows(["the"]))
    assert time.process_time() - begin < 0.5


@pytest.mark.data
@pytest.mark.slow
def test_real_glove(data: Path, tmp_path: Path) -> None:
    path = data / "glove-6b" / "glove.6B.50d.subset.txt.xz"
    source = WordVectors.open(path, cache=tmp_path)
    assert source.store.facts.num_words == 69_856
    assert source.store.facts.is_lowercased
    np.testing.assert_array_equal(vector(source, "The")[:3], np.float32([0.418, 0.24968, -0.41242]))


def test_a_number_too_large_beside_bytes_that_are_no_ascii_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_bytes(b"the 1 2 3\nb 1e99 0 0\nc 1 \x80 3\n")
    with pytest.raises(FednerError) as found:
        WordVectors.open(path, cache=tmp_path / "cache")
    assert "v.txt:2" in str(found.value)
    assert "v.txt:3" in str(found.value)
