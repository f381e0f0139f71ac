"""The context slot: features of every word in its sentence, computed once and kept on disk.

Any frozen encoder fits in (`ContextEncoder`): the Flair language models, later ELMo and
transformers. What it gives for a corpus is cached in half precision, memory-mapped, under a name
made of the text and the encoder's weights and settings: another text or other weights is another
cache.

The features are as sensitive as the text (the words can be guessed from them), so folder and files
are the owner's alone. The cache appears under its name when it is complete; until then it grows
under another name with a journal, from which a killed computation goes on.

Shapes: T tokens of the corpus, L tokens of a sentence, D features.
"""

import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from fedner.durable import OWNER_ONLY
from fedner.errors import FednerError
from fedner.models.embeddings.mapped import (
    ABOUT,
    CheckedMatrix,
    open_matrix,
    publish,
    seal,
    unseal,
)

KIND = "fedner context features"
VERSION = 1
MATRIX = "features.npy"
OFFSETS = "offsets.npy"
FIX = "Delete the folder; the features are computed again at the next use."
# Large enough to keep a processor busy, small enough for the memory of any machine.
BATCH_CHARACTERS = 1 << 14
JOURNAL_SECONDS = 10.0

Sentences = Sequence[Sequence[str]]
Progress = Callable[[int, int], None]


class ContextEncoder(Protocol):
    """A frozen encoder of words in context."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def dimension(self) -> int:
        """How many features a word gets."""

    @property
    def digest(self) -> str:
        """A hash of everything that decides the features: weights and settings."""

    def encode(self, sentences: Sentences) -> list[NDArray[np.float32]]:
        """Return the features (L, D) of each sentence."""


class ContextFeatures:
    """The cached features of a corpus, sentence by sentence or token by token.

    Attributes:
        folder: Where they are.
    """

    def __init__(self, folder: Path, matrix: CheckedMatrix, offsets: NDArray[np.int64]) -> None:
        self.folder = folder
        self._matrix = matrix
        self._offsets = offsets

    @property
    def dimension(self) -> int:
        """How many features a word has."""
        return self._matrix.dimension

    @property
    def num_tokens(self) -> int:
        """How many words there are in all."""
        return self._matrix.num_rows

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, sentence: int) -> NDArray[np.float16]:
        """Return a view of the features of a sentence (L, D)."""
        if not -len(self) <= sentence < len(self):
            raise IndexError(f"sentence {sentence} of {len(self)}")
        sentence %= len(self)
        rows = self._matrix.between(int(self._offsets[sentence]), int(self._offsets[sentence + 1]))
        return _as_half(rows)

    def take(self, tokens: NDArray[np.int64]) -> NDArray[np.float16]:
        """Return a copy of the features of tokens, counted through the corpus."""
        return _as_half(self._matrix.take(tokens))

    def whole(self) -> NDArray[np.float16]:
        """Return a view of the features of all tokens (T, D)."""
        return _as_half(self._matrix.whole())

    def __deepcopy__(self, memo: dict[int, object]) -> "ContextFeatures":
        return self  # read-only

    def __reduce__(self) -> tuple[Callable[[Path], "ContextFeatures"], tuple[Path]]:
        return open_features, (self.folder,)


def cached_features(
    encoder: ContextEncoder,
    sentences: Sentences,
    folder: Path,
    progress: Progress | None = None,
    *,
    one_by_one: bool = False,
) -> ContextFeatures:
    """Return the features of `sentences`, from the cache in `folder` or computed into it.

    Args:
        encoder: What computes them.
        sentences: The tokens of each sentence.
        folder: Where caches are kept; it should be the platform's own.
        progress: Called with the tokens done and the tokens in all after every batch.
        one_by_one: Encode each sentence by itself: slower, but its features do not depend on the
            other sentences, not even in their last bit. DP wants that: a hostile server can make
            a last bit decide a gradient.

    Raises:
        FednerError: If the cache was altered or cut short, or the encoder breaks its promise.
    """
    key = content_key(encoder, sentences)
    final = folder / (f"{key}-one-by-one" if one_by_one else key)
    if not (final / ABOUT).is_file():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(folder / f".{final.name}.lock"):
            if not (final / ABOUT).is_file():
                characters = 0 if one_by_one else BATCH_CHARACTERS
                _compute(encoder, sentences, final, plan_batches(sentences, characters), progress)
    features = open_features(final)
    expected = (len(sentences), sum(map(len, sentences)), encoder.dimension)
    if (len(features), features.num_tokens, features.dimension) != expected:
        raise FednerError(f"{final} does not hold {expected} sentences, tokens, features", FIX)
    return features


def open_features(folder: Path) -> ContextFeatures:
    """Open a finished cache.

    Raises:
        FednerError: If it is of another version, or a file is missing, cut short or altered.
    """
    _, path = unseal(folder, KIND, VERSION, FIX)
    offsets = np.load(folder / OFFSETS, allow_pickle=False)
    matrix = open_matrix(path, FIX)
    return ContextFeatures(folder, matrix, offsets)


def content_key(encoder: ContextEncoder, sentences: Sentences) -> str:
    """Return the name of the cache: a hash of the tokens and of the encoder."""
    digest = hashlib.sha256(
        json.dumps([KIND, VERSION, encoder.name, encoder.digest, encoder.dimension]).encode()
    )
    for sentence in sentences:
        tokens = [token.encode("utf-8", "surrogatepass") for token in sentence]
        # Lengths first: no other tokens give the same bytes.
        digest.update(f"{len(tokens)};{','.join(str(len(t)) for t in tokens)};".encode())
        digest.update(b"".join(tokens))
    return digest.hexdigest()


def plan_batches(sentences: Sentences, characters: int = BATCH_CHARACTERS) -> list[list[int]]:
    """Group sentences of like length, longest first, into batches of at most `characters` padded.

    A sentence that is longer by itself is a batch of its own; empty ones are in none.
    """
    lengths = [sum(map(len, sentence)) + len(sentence) for sentence in sentences]
    order = sorted((i for i, s in enumerate(sentences) if s), key=lambda i: (-lengths[i], i))
    batches: list[list[int]] = []
    for index in order:
        if batches and lengths[batches[-1][0]] * (len(batches[-1]) + 1) <= characters:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def _compute(
    encoder: ContextEncoder,
    sentences: Sentences,
    final: Path,
    batches: list[list[int]],
    progress: Progress | None,
) -> None:
    """Fill the folder of the cache, going on where a killed computation stopped."""
    partial, journal_path = _in_progress(final)
    lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(sentences))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    plan = hashlib.sha256(json.dumps(batches).encode()).hexdigest()
    shape = (int(offsets[-1]), encoder.dimension)
    num_done = _resume_from(partial, journal_path, plan, shape)
    total = shape[0]
    done = sum(int(lengths[i]) for batch in batches[:num_done] for i in batch)
    noted = time.monotonic()
    with _reopened(partial / MATRIX) as handle, journal_path.open("ab") as journal:
        data_start = _data_start(handle)
        for number, batch in enumerate(batches[num_done:], start=num_done + 1):
            results = encoder.encode([sentences[index] for index in batch])
            for index, features in zip(batch, results, strict=True):
                half = _checked_half(features, (int(lengths[index]), shape[1]), encoder.name)
                handle.seek(data_start + int(offsets[index]) * shape[1] * 2)
                handle.write(half.tobytes())
                done += len(half)
            if number == len(batches) or time.monotonic() - noted >= JOURNAL_SECONDS:
                _note(handle, journal, number)
                noted = time.monotonic()
            if progress is not None:
                progress(done, total)
    np.save(partial / OFFSETS, offsets, allow_pickle=False)
    about = {"encoder": encoder.name, "digest": encoder.digest, "sentences": len(sentences)}
    seal(partial, KIND, VERSION, MATRIX, about, owner_only=True)
    publish(partial, final)
    journal_path.unlink()


def _in_progress(final: Path) -> tuple[Path, Path]:
    """Return the folder and the journal of a cache that is not complete yet."""
    return final.with_name(f".{final.name}.part"), final.with_name(f".{final.name}.journal")


def _resume_from(partial: Path, journal: Path, plan: str, shape: tuple[int, int]) -> int:
    """Return how many batches of `plan` are safely done; make a fresh folder where none are."""
    try:
        lines = journal.read_bytes().split(b"\n")
        # The last piece is empty, or a line that the kill cut off.
        header, noted = lines[0].decode(), [int(line) for line in lines[1:-1]]
        with (partial / MATRIX).open("rb") as handle:
            is_ours = header == f"{plan} {shape[0]} {shape[1]}"
            expected = _data_start(handle) + shape[0] * shape[1] * 2
        if is_ours and (partial / MATRIX).stat().st_size == expected:
            return max(noted, default=0)
    except (OSError, ValueError):
        pass  # nothing there, or nothing to trust: begin anew
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(mode=0o700)
    with _private(partial / MATRIX) as handle:
        header_fields = {"descr": "<f2", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(handle, header_fields)
        handle.truncate(handle.tell() + shape[0] * shape[1] * 2)
    journal.unlink(missing_ok=True)
    with _private(journal) as handle:
        handle.write(f"{plan} {shape[0]} {shape[1]}\n".encode())
    return 0


def _note(handle: BinaryIO, journal: BinaryIO, number: int) -> None:
    """Note in the journal that all batches up to `number` are on the disk."""
    handle.flush()
    os.fsync(handle.fileno())
    journal.write(f"{number}\n".encode())
    journal.flush()
    os.fsync(journal.fileno())


def _data_start(handle: BinaryIO) -> int:
    """Return where the numbers of a .npy file begin."""
    handle.seek(0)
    np.lib.format.read_magic(handle)
    np.lib.format.read_array_header_1_0(handle)
    return handle.tell()


def _checked_half(
    features: NDArray[np.float32], shape: tuple[int, int], name: str
) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):  # reported just below
        half = np.asarray(features).astype("<f2")
    if half.shape != shape or not np.isfinite(half).all():
        raise FednerError(
            f"encoder {name} gave features of shape {half.shape}, finite in half precision: "
            f"{bool(np.isfinite(half).all())}; expected shape {shape}, finite",
            "The fault is in the encoder: check its weights.",
        )
    return half


def _as_half(rows: NDArray[np.generic]) -> NDArray[np.float16]:
    return rows.view(np.float16)


def _private(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY), "wb")


@contextmanager
def _reopened(path: Path) -> Iterator[BinaryIO]:
    with path.open("r+b") as handle:
        yield handle
        handle.flush()
        os.fsync(handle.fileno())


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one process at a time compute a cache; the others wait and then find it there."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(path, os.O_CREAT | os.O_RDWR, OWNER_ONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
