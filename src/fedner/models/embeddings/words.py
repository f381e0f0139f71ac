"""Words to vectors: published vectors or a hashed table, frozen by default.

The rows of a table are public: the padding row, rows for unknown words, and the vocabulary of the
published vectors, never words of a platform's text. A frozen table is no parameter and in no state
dict; a checkpoint refers to it by its origin. A trained table tells whoever sees its gradient
which words a batch had (the rows that are not zero), and it is as large as the vocabulary.

Shapes: N rows asked for, V rows of the table, D dimension.
"""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedner.errors import FednerError
from fedner.models.embeddings.lookup import DEFAULT_LOWERCASE, Lowercase, find_rows
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.embeddings.sparse_rows import SparseRowsAdam
from fedner.models.embeddings.vectors_file import open_vectors
from fedner.models.embeddings.vectors_store import VectorStore, as_bytes, hash_words

Unknown = Literal["zero", "mean", "hash-bucket"]

PADDING_ROW = 0
FIRST_ROW = 1
DEFAULT_BUCKETS = 1000  # of unknown words that share vectors


class WordSource(Protocol):
    """Public rows of vectors, and the row of any word. Row 0 is padding and all zero."""

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""

    @property
    def num_rows(self) -> int:
        """How many rows there are, padding and unknown words included."""

    @property
    def origin(self) -> EmbeddingOrigin:
        """Where the vectors come from."""

    def rows(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each word."""

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return a copy of the vectors of `rows`."""

    def on(self, device: torch.device) -> Tensor:
        """Return the whole table on `device`; it is moved there once and shared."""


class WordVectors:
    """Published word vectors, memory-mapped, with explicit policies for case and unknown words.

    Attributes:
        store: The vectors and the index of their words.
        lowercase: "never" looks words up as they stand, "always" in lower case, "fallback" first
            as they stand and then in lower case.
        unknown: What a word gets that the vectors lack: "zero", the "mean" of all vectors, or one
            of `buckets` fixed random vectors by its hash, scaled like the others ("hash-bucket").
        buckets: How many such vectors there are.
    """

    def __init__(
        self,
        store: VectorStore,
        lowercase: Lowercase = DEFAULT_LOWERCASE,
        unknown: Unknown = "mean",
        buckets: int = DEFAULT_BUCKETS,
    ) -> None:
        _check_choice("lowercase", lowercase, ("never", "fallback", "always"))
        _check_choice("unknown", unknown, ("zero", "mean", "hash-bucket"))
        _check_positive("buckets", buckets)
        self.store = store
        self.lowercase: Lowercase = lowercase
        self.unknown: Unknown = unknown
        self.buckets = buckets
        self._special = self._special_rows()
        self._tables: dict[torch.device, Tensor] = {}

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        lowercase: Lowercase = DEFAULT_LOWERCASE,
        unknown: Unknown = "mean",
        buckets: int = DEFAULT_BUCKETS,
        cache: Path | None = None,
    ) -> "WordVectors":
        """Open vectors: text, word2vec binary or spaCy-style folder (converted once), or a store.

        Args:
            path: Where they are.
            lowercase: See the attributes.
            unknown: See the attributes.
            buckets: See the attributes.
            cache: Where converted vectors are kept; the user's cache folder if None.

        Raises:
            FednerError: If there are none, or the file has problems or was altered.
        """
        return cls(open_vectors(Path(path), cache), lowercase, unknown, buckets)

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self.store.facts.dimension

    @property
    def num_rows(self) -> int:
        """How many rows there are: padding, unknown words, vocabulary."""
        return len(self._special) + self.store.facts.num_rows

    @property
    def origin(self) -> EmbeddingOrigin:
        """The source file by name and digest, and the policies."""
        facts = self.store.facts
        settings: dict[str, str | int | float | bool] = {
            "lowercase": self.lowercase,
            "unknown": self.unknown,
        }
        if self.unknown == "hash-bucket":
            settings["buckets"] = self.buckets
        return EmbeddingOrigin(
            "word vectors", facts.source, facts.sha256, facts.dimension, settings
        )

    def rows(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each word; unknown words get a row of their own kind."""
        distinct = {word: index for index, word in enumerate(dict.fromkeys(words))}
        names = list(distinct)
        found = find_rows(self.store, names, self.lowercase)
        rows = found + len(self._special)
        for index in np.flatnonzero(found < 0).tolist():
            rows[index] = self._unknown_row(names[index])
        places = np.fromiter((distinct[w] for w in words), dtype=np.int64, count=len(words))
        return rows[places]

    def is_known(self, words: Sequence[str]) -> NDArray[np.bool_]:
        """Return which words the vectors have under the lower-casing policy."""
        return self.rows(words) >= len(self._special)

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return a copy of the vectors of `rows`, reading no others from the disk."""
        num_special = len(self._special)
        vectors = np.empty((len(rows), self.dimension), dtype=np.float32)
        is_special = rows < num_special
        vectors[is_special] = self._special[rows[is_special]]
        vectors[~is_special] = self.store.matrix.take(rows[~is_special] - num_special)
        return vectors

    def on(self, device: torch.device) -> Tensor:
        """Return the whole table on `device`; it is moved there once and shared."""
        return _table_on(self, self._tables, device)

    def _unknown_row(self, word: str) -> int:
        if self.unknown != "hash-bucket":
            return FIRST_ROW
        text = word if self.lowercase == "never" else word.lower()
        return FIRST_ROW + int(hash_words([as_bytes(text)])[0] % np.uint64(self.buckets))

    def _special_rows(self) -> NDArray[np.float32]:
        mean, deviation = self.store.statistics
        padding = np.zeros((1, self.dimension), np.float32)
        if self.unknown == "zero":
            return np.concatenate([padding, padding])
        if self.unknown == "mean":
            return np.concatenate([padding, mean[None]])
        noise = public_noise("unknown words", self.buckets, self.dimension)
        return np.concatenate([padding, (mean + deviation * noise).astype(np.float32)])

    def __deepcopy__(self, memo: dict[int, object]) -> "WordVectors":
        return self  # read-only: copies of a model share the mapped table

    def __reduce__(self) -> tuple[Callable[..., "WordVectors"], tuple[object, ...]]:
        # Another process maps the same file instead of receiving a copy of it.
        return _reopen, (self.store.folder, self.lowercase, self.unknown, self.buckets)


class HashedWords:
    """A word table of fixed public size for use without vectors: a word's hash names its row.

    Its first values are the same on every machine, so platforms begin alike without exchanging
    anything. Meant to be trained; frozen, it tells words apart and nothing more.

    Attributes:
        buckets: How many rows words fall into; two words may share one.
        lowercase: Whether words are lower-cased first: "always" or "never".
        seed: Names the first values.
    """

    def __init__(
        self,
        buckets: int = 50_000,
        dimension: int = 100,
        lowercase: Literal["never", "always"] = "always",
        seed: int = 0,
    ) -> None:
        _check_choice("lowercase", lowercase, ("never", "always"))
        _check_positive("buckets", buckets)
        _check_positive("dimension", dimension)
        self.buckets = buckets
        self.lowercase: Literal["never", "always"] = lowercase
        self.seed = seed
        self._dimension = dimension
        noise = public_noise(f"hashed words {seed}", buckets, dimension)
        self._table = np.zeros((FIRST_ROW + buckets, dimension), np.float32)
        self._table[FIRST_ROW:] = noise / np.sqrt(dimension)
        self._tables: dict[torch.device, Tensor] = {}

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self._dimension

    @property
    def num_rows(self) -> int:
        """How many rows there are: padding and buckets."""
        return len(self._table)

    @property
    def origin(self) -> EmbeddingOrigin:
        """The size, the lower-casing and the seed say everything."""
        settings: dict[str, str | int | float | bool] = {
            "buckets": self.buckets,
            "lowercase": self.lowercase,
            "seed": self.seed,
        }
        return EmbeddingOrigin("hashed words", "hashed words", "", self._dimension, settings)

    def rows(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each word."""
        texts = [w.lower() for w in words] if self.lowercase == "always" else words
        hashes = hash_words([as_bytes(text) for text in texts])
        return (hashes % np.uint64(self.buckets)).astype(np.int64) + FIRST_ROW

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return a copy of the vectors of `rows`."""
        return self._table[rows]

    def on(self, device: torch.device) -> Tensor:
        """Return the whole table on `device`; it is moved there once and shared."""
        return _table_on(self, self._tables, device)

    def __deepcopy__(self, memo: dict[int, object]) -> "HashedWords":
        return self

    def __reduce__(self) -> tuple[type["HashedWords"], tuple[object, ...]]:
        return HashedWords, (self.buckets, self._dimension, self.lowercase, self.seed)


class WordEmbedding(nn.Module):
    """Rows of a word source to vectors.

    Frozen, it has no parameter: on the CPU only the rows asked for are read from the mapped table,
    on a GPU the table is moved once. Trained, its one parameter is `weight`, all rows of the
    source; the gradient is row-sparse, made for `SparseRowsAdam` or plain `torch.optim.SGD`.

    Attributes:
        source: Where rows and first values come from.
        dimension: How many numbers a vector has.
        trainable: Whether the table is trained.
        row_sparse: Whether its gradient holds only the rows of the batch.
    """

    def __init__(
        self, source: WordSource, *, trainable: bool = False, row_sparse: bool = True
    ) -> None:
        super().__init__()
        self.source = source
        self.dimension = source.dimension
        self.trainable = trainable
        self.row_sparse = row_sparse
        self._optimizer: SparseRowsAdam | None = None
        if trainable:
            table_VD = source.take(np.arange(source.num_rows, dtype=np.int64))
            self.weight = nn.Parameter(torch.from_numpy(table_VD))
            register: Callable[[Callable[..., None]], object] = self.register_state_dict_pre_hook
            register(_flush_before_saving)

    @property
    def origin(self) -> EmbeddingOrigin:
        """Where the vectors come from; for a trained table, where it began."""
        return self.source.origin

    def forward(self, rows_N: Tensor) -> Tensor:
        """Return the vectors of rows of any shape, with D appended to it."""
        if self.trainable:
            return self._trained(rows_N)
        if rows_N.device.type != "cpu":
            return functional.embedding(rows_N, self.source.on(rows_N.device))
        vectors = self.source.take(rows_N.reshape(-1).numpy())
        return torch.from_numpy(vectors).reshape(*rows_N.shape, self.dimension)

    def follow(self, optimizer: SparseRowsAdam) -> None:
        """Let a lazy optimizer bring rows up to date before they are read or saved.

        Raises:
            FednerError: If it steps another parameter than this table.
        """
        if not self.trainable or optimizer.parameter is not self.weight:
            raise FednerError(
                "the optimizer does not step this word table but another parameter",
                "Make it with SparseRowsAdam(embedding.weight) of a trainable embedding.",
            )
        self._optimizer = optimizer

    def _trained(self, rows_N: Tensor) -> Tensor:
        distinct_U, inverse_N = torch.unique(rows_N, return_inverse=True)
        if self._optimizer is not None:
            self._optimizer.catch_up(distinct_U)
        # Distinct rows first: the sparse gradient then has each row once.
        vectors_UD = functional.embedding(
            distinct_U, self.weight, padding_idx=PADDING_ROW, sparse=self.row_sparse
        )
        return functional.embedding(inverse_N, vectors_UD)


def public_noise(label: str, rows: int, dimension: int) -> NDArray[np.float32]:
    """Return numbers of mean 0 and variance 1 that `label` names, the same on every machine.

    They come from a hash and not from a generator whose stream a release of NumPy may change.
    """
    stream = hashlib.shake_256(label.encode()).digest(4 * rows * dimension)
    uniform = (np.frombuffer(stream, dtype="<u4").astype(np.float64) + 0.5) / 2.0**32
    scaled: NDArray[np.float32] = ((2.0 * uniform - 1.0) * 3.0**0.5).astype(np.float32)
    return scaled.reshape(rows, dimension)


def _flush_before_saving(module: nn.Module, prefix: str, keep_vars: bool) -> None:
    del prefix, keep_vars
    optimizer = getattr(module, "_optimizer", None)
    if isinstance(optimizer, SparseRowsAdam):
        optimizer.flush()


def _table_on(
    source: WordSource, tables: dict[torch.device, Tensor], device: torch.device
) -> Tensor:
    if device not in tables:
        rows = np.arange(source.num_rows, dtype=np.int64)
        tables[device] = torch.from_numpy(source.take(rows)).to(device)
    return tables[device]


def _reopen(folder: Path, lowercase: Lowercase, unknown: Unknown, buckets: int) -> WordVectors:
    return WordVectors.open(folder, lowercase=lowercase, unknown=unknown, buckets=buckets)


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise FednerError(f"{name} is {value!r}", f"Choose one of {', '.join(choices)}.")


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise FednerError(f"{name} is {value}", "Give a number of at least 1.")
