"""From sentences to tensors: a corpus is encoded once, batches are gathered from it.

What batches are gathered from (characters, vectors of the corpus's own words, context, tags) stays
on the device; a batch sends one small array of indices there and waits for nothing.

Shapes: T tokens of the corpus, V distinct words of the corpus, U distinct words of a batch, C
characters of a word, B sentences, L tokens of the longest sentence, N tokens of the batch, D
features.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.corpus.schemes import Scheme, Transitions, allowed_transitions, encode, tag_set
from fedner.corpus.sentence import Sentence
from fedner.errors import FednerError
from fedner.models.embeddings.characters import encode_words
from fedner.models.embeddings.context import MATRIX, ContextFeatures
from fedner.models.embeddings.pieces import PieceBatch, Pieces, gather_pieces
from fedner.models.embeddings.words import PADDING_ROW, WordEmbedding

Indices = NDArray[np.int64]
Value = TypeVar("Value")

NO_WORD = ""  # the first distinct word of every corpus: what stands where there is no token


@dataclass(frozen=True, slots=True)
class TagSpace:
    """The tags of one platform: its labels under its scheme, "O" first.

    Attributes:
        labels: The entity types, sorted.
        scheme: The tag scheme.
        tags: Every tag, in the order of the emissions.
    """

    labels: tuple[str, ...]
    scheme: Scheme
    tags: tuple[str, ...]

    @classmethod
    def of(cls, labels: Sequence[str], scheme: Scheme) -> "TagSpace":
        """Return the tag space of `labels` under `scheme`."""
        ordered = tuple(sorted(set(labels)))
        return cls(ordered, scheme, tag_set(ordered, scheme))

    @property
    def transitions(self) -> Transitions:
        """What the scheme lets follow what."""
        return allowed_transitions(self.tags, self.scheme)


@dataclass(frozen=True, slots=True)
class TokenLayout:
    """Where the tokens of a batch of sentences of falling length lie, in three orders.

    Cells are those of the flattened batch: sentence * L + token. Packed, all first tokens come
    first, then all second ones, and so on.

    Attributes:
        cells_N: For each packed token its cell.
        places_BL: For each cell its place among the packed tokens; 0 where there is no token.
        mirrored_BL: For each cell the cell of the token as far from the sentence's end as this one
            is from its beginning; where there is no token, the cell itself.
        sizes_L: How many sentences have a first, second, ... token, on the CPU; None where
            sentences shall not be packed.
    """

    cells_N: Tensor
    places_BL: Tensor
    mirrored_BL: Tensor
    sizes_L: Tensor | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Sentences side by side, longest first, on the device of the model.

    Attributes:
        sentences: The indices of the sentences in their corpus, in the order of the rows.
        lengths_B: Tokens of each sentence, on the CPU, falling, at least 1.
        mask_BL: True where there is a token.
        word_BL: Which distinct word stands where; 0, which is no word, where there is no token.
        rows_U: For each distinct word its row in the word table.
        vectors_UD: For each distinct word its vector, where the word table is frozen; else None.
        characters_UC: For each distinct word its characters.
        context_BLD: Precomputed context features, 0 where there is no token; None without them.
        tags_BL: The gold tags, 0 where there is no token; None where they are not known.
        layout: Where the tokens lie, packed and mirrored.
        pieces: What a trained encoder reads; None without one.
    """

    sentences: Indices
    lengths_B: Tensor
    mask_BL: Tensor
    word_BL: Tensor
    rows_U: Tensor
    vectors_UD: Tensor | None
    characters_UC: Tensor
    context_BLD: Tensor | None
    tags_BL: Tensor | None
    layout: TokenLayout
    pieces: PieceBatch | None = None

    @property
    def num_sentences(self) -> int:
        """How many sentences the batch has."""
        return len(self.sentences)

    @property
    def gold_tags(self) -> Tensor:
        """The gold tags.

        Raises:
            FednerError: The corpus was encoded without a tag space.
        """
        return _given(
            self.tags_BL,
            "the batch has no gold tags",
            "Encode the corpus with the platform's tag space.",
        )

    @property
    def context_features(self) -> Tensor:
        """The precomputed context features.

        Raises:
            FednerError: The corpus was encoded without them.
        """
        return _given(
            self.context_BLD,
            "the tagger reads context features, but the corpus was encoded without them",
            "Compute the features of the corpus and pass them to encode_corpus().",
        )

    @property
    def encoder_pieces(self) -> PieceBatch:
        """What a trained encoder reads.

        Raises:
            FednerError: The corpus was encoded without it.
        """
        return _given(
            self.pieces,
            "the tagger trains its encoder, but the corpus was encoded without pieces",
            "Pass `pieces` of its PretrainedEncoder to encode_corpus().",
        )


def _given(value: Value | None, missing: str, hint: str) -> Value:
    """Return what a batch was made with.

    Raises:
        FednerError: It was made without.
    """
    if value is None:
        raise FednerError(missing, hint)
    return value


@dataclass(frozen=True, slots=True)
class EncodedCorpus:
    """The sentences of one platform as arrays; sentences of no tokens keep their place.

    The distinct words are those of the platform's own text: they never leave it.

    Attributes:
        starts: Where each sentence begins among the tokens.
        lengths: Tokens of each sentence.
        word_T: Which distinct word each token is; `starts` points into it, and not every token of
            it need belong to a sentence.
        num_characters_V: How many characters of each distinct word are encoded.
        rows_V: The row of each distinct word in the public word table, on the device.
        vectors_VD: The vectors of the distinct words on the device, where the table is frozen.
        characters_VC: The characters of each distinct word on the device, padded with 0.
        context_TD: Precomputed features of each token, or None.
        tags_T: The gold tags on the device, or None.
        pieces: The pieces of each token, where an encoder is trained; else None.
    """

    starts: Indices
    lengths: Indices
    word_T: Indices
    num_characters_V: Indices
    rows_V: Tensor
    vectors_VD: Tensor | None
    characters_VC: Tensor
    context_TD: Tensor | None
    tags_T: Tensor | None
    pieces: Pieces | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def num_tokens(self) -> int:
        """How many tokens the sentences have together."""
        return int(self.lengths.sum())

    @property
    def device(self) -> torch.device:
        """Where batches are gathered."""
        return self.rows_V.device


def tag_indices(sentences: Sequence[Sentence], space: TagSpace) -> Indices:
    """Return the gold tags of all tokens, sentence after sentence.

    Raises:
        FednerError: An entity has a label outside the tag space.
    """
    index = {tag: position for position, tag in enumerate(space.tags)}
    tags: list[int] = []
    for sentence in sentences:
        if not sentence.entities:
            tags.extend([0] * len(sentence.tokens))
            continue
        for tag in encode(sentence.entities, len(sentence.tokens), space.scheme):
            if tag not in index:
                raise FednerError(
                    f"document {sentence.document!r}: tag {tag!r} is not among {list(space.tags)}",
                    "Declare its label in the platform's labels, or map it with label_map.",
                )
            tags.append(index[tag])
    return np.asarray(tags, dtype=np.int64)


def encode_corpus(
    sentences: Sequence[Sentence],
    words: WordEmbedding,
    *,
    space: TagSpace | None = None,
    context_TD: Tensor | None = None,
    pieces: Pieces | None = None,
    device: torch.device | str = "cpu",
) -> EncodedCorpus:
    """Encode the sentences of one platform once, for every epoch to come.

    Args:
        sentences: The sentences; those of no tokens are kept, so that indices stay what they are.
        words: The word embedding of the tagger. Of a frozen table only the rows of the corpus's
            own words are taken along.
        space: The tag space; None where there are no gold tags (prediction).
        context_TD: Features of every token, sentence after sentence, in any floating type; they
            stay in that type and are moved to `device`.
        pieces: The pieces of every token, for a tagger that trains its encoder.
        device: Where batches are gathered.

    Raises:
        FednerError: The features belong to another corpus, or an entity to another tag space.
    """
    distinct = {NO_WORD: 0}
    tokens = chain.from_iterable(sentence.tokens for sentence in sentences)
    word_T = np.fromiter((distinct.setdefault(word, len(distinct)) for word in tokens), np.int64)
    lengths = np.fromiter((len(sentence.tokens) for sentence in sentences), np.int64)
    for what, number in (
        ("context features", None if context_TD is None else len(context_TD)),
        ("pieces", None if pieces is None else pieces.num_tokens),
    ):
        if number is not None and number != len(word_T):
            raise FednerError(
                f"{what} for {number:,} tokens, but the corpus has {len(word_T):,}",
                "Compute them again: they belong to another corpus or another tokenisation.",
            )
    names = list(distinct)
    rows_V = words.source.rows(names)
    rows_V[0] = PADDING_ROW
    characters_VC = encode_words(names)
    vectors_VD = None if words.trainable else torch.from_numpy(words.source.take(rows_V))
    tags_T = None if space is None else torch.from_numpy(tag_indices(sentences, space))
    return EncodedCorpus(
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        word_T=word_T,
        num_characters_V=np.count_nonzero(characters_VC, axis=1).astype(np.int64),
        rows_V=torch.from_numpy(rows_V).to(device),
        vectors_VD=_on(vectors_VD, device),
        characters_VC=torch.from_numpy(characters_VC).to(device),
        context_TD=_on(context_TD, device),
        tags_T=_on(tags_T, device),
        pieces=pieces,
    )


def select(corpus: EncodedCorpus, sentences: Sequence[int] | Indices) -> EncodedCorpus:
    """Return a corpus of some sentences, by index; everything else is the same memory."""
    chosen = np.asarray(sentences, dtype=np.int64)
    return replace(corpus, starts=corpus.starts[chosen], lengths=corpus.lengths[chosen])


def context_tensor(features: ContextFeatures, device: torch.device | str = "cpu") -> Tensor:
    """Return cached context features as a tensor of half precision, on the CPU without a copy.

    Copy on write: should anybody change the tensor, the cache on disk stays what it is.
    """
    features.whole()  # checks the file before it is trusted
    mapped = np.load(features.folder / MATRIX, mmap_mode="c", allow_pickle=False)
    return torch.from_numpy(mapped).to(device)


def _on(tensor: Tensor | None, device: torch.device | str) -> Tensor | None:
    return None if tensor is None else tensor.to(device)


def collate(corpus: EncodedCorpus, sentences: Sequence[int] | Indices) -> Batch:
    """Gather sentences (by index, each of at least one token) into a batch, longest first.

    Raises:
        FednerError: There is no sentence, or one has no token.
    """
    chosen = np.asarray(sentences, dtype=np.int64)
    lengths = corpus.lengths[chosen]
    if not len(chosen) or not lengths.min():
        raise FednerError(
            f"cannot make a batch of {len(chosen)} sentences, {np.count_nonzero(lengths == 0)} of "
            "them without a token",
            "Leave empty sentences out of batches.",
        )
    order = np.argsort(-lengths, kind="stable")
    chosen, lengths = chosen[order], lengths[order]
    mask = np.arange(lengths[0]) < lengths[:, None]
    token_BL = np.where(mask, corpus.starts[chosen][:, None] + np.arange(lengths[0]), 0)
    present_U, word_BL = _distinct_words(corpus.word_T, token_BL, mask)
    cells_N, places_BL, mirrored_BL = _layout(lengths, mask)
    longest = max(1, int(corpus.num_characters_V[present_U].max()))
    arrays = [token_BL, present_U, word_BL, cells_N, places_BL, mirrored_BL, mask.astype(np.int64)]
    tokens, present, words, cells, places, mirrored, within = _send(arrays, corpus.device)
    tags_T = corpus.tags_T
    mask_BL = within.bool()
    return Batch(
        sentences=chosen,
        lengths_B=torch.from_numpy(lengths),
        mask_BL=mask_BL,
        word_BL=words,
        rows_U=corpus.rows_V[present],
        vectors_UD=None if corpus.vectors_VD is None else corpus.vectors_VD[present],
        characters_UC=corpus.characters_VC[:, :longest].index_select(0, present),
        context_BLD=_context(corpus.context_TD, tokens, mask_BL),
        tags_BL=None if tags_T is None else tags_T[tokens] * within,
        layout=TokenLayout(cells, places, mirrored, torch.from_numpy(mask.sum(axis=0))),
        pieces=None
        if corpus.pieces is None
        else gather_pieces(corpus.pieces, corpus.starts[chosen], lengths, corpus.device),
    )


def _distinct_words(
    word_T: Indices, token_BL: Indices, mask: NDArray[np.bool_]
) -> tuple[Indices, Indices]:
    """Return the distinct words, no word first, and which of them stands in each cell."""
    words_BL = np.where(mask, word_T[token_BL], 0)
    present_U, inverse = np.unique(np.append(words_BL.reshape(-1), 0), return_inverse=True)
    return present_U, inverse[:-1].reshape(mask.shape)


def _layout(lengths: Indices, mask: NDArray[np.bool_]) -> tuple[Indices, Indices, Indices]:
    """Return the cells, places and mirrored cells of a `TokenLayout`."""
    cell_BL = np.arange(mask.size).reshape(mask.shape)
    cells_N = cell_BL.T[mask.T]
    places_BL = np.zeros(mask.shape, dtype=np.int64)
    places_BL.reshape(-1)[cells_N] = np.arange(len(cells_N))
    token_L = np.arange(mask.shape[1])
    mirrored_BL = cell_BL[:, :1] + np.where(mask, lengths[:, None] - 1 - token_L, token_L)
    return cells_N, places_BL, mirrored_BL


def _send(arrays: Sequence[Indices], device: torch.device) -> list[Tensor]:
    """Move arrays to the device in one copy that the host does not wait for."""
    if device.type == "cpu":
        return [torch.from_numpy(array) for array in arrays]
    flat = torch.from_numpy(np.concatenate([array.reshape(-1) for array in arrays]))
    if device.type == "cuda":
        flat = flat.pin_memory()
    sent = flat.to(device, non_blocking=True)
    parts = torch.split(sent, [array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]


def _context(context_TD: Tensor | None, token_BL: Tensor, mask_BL: Tensor) -> Tensor | None:
    if context_TD is None:
        return None
    gathered = context_TD.index_select(0, token_BL.flatten()).float()
    if gathered.device.type == "cpu":
        # Only the few rows without a token are touched.
        gathered.index_fill_(0, (~mask_BL).flatten().nonzero().squeeze(1), 0.0)
        return gathered.view(*token_BL.shape, -1)
    return gathered.view(*token_BL.shape, -1) * mask_BL.unsqueeze(-1)
