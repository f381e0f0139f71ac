"""A training step on a CUDA device as one recorded graph instead of hundreds of launches.

An LSTM launches kernels token by token: on a fast GPU the host, not the device, then sets the pace.
Here a whole step is recorded once for each padded shape and replayed: gathering the batch, forward,
loss, backward. A step then sends one array of indices, replays, and copies one tensor of all
gradients. Batches are padded up to a small number of shapes; padding changes no result.

Dropout: a replay reads seed and offset of torch's CUDA generator as they are when it begins, so
that `torch.manual_seed` before a step means the same as for launched kernels.

Shapes: B sentences, L tokens, U distinct words, C characters, D features.
"""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fedner.models.features import Batch, EncodedCorpus, TokenLayout
from fedner.models.tagger import Tagger

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Each recording holds the activations of its shape in memory that all recordings share.
MOST_GRAPHS = 64
# A recording costs about as much as it saves in eight steps: rare shapes are launched.
FIRST_RECORDED_VISIT = 3
FEW_CHARACTERS = 24
_WARM_UPS = 2

_log = logging.getLogger(__name__)
Compute = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class PaddedShape:
    """The sizes that a batch is padded up to.

    Attributes:
        sentences: Rows; those past the last sentence have no token.
        tokens: Of each row.
        words: Distinct words, the one that is no word included.
        characters: Of each word.
    """

    sentences: int
    tokens: int
    words: int
    characters: int

    @classmethod
    def of(
        cls, corpus: EncodedCorpus, sentences: int, tokens: int, words: int, characters: int
    ) -> "PaddedShape":
        """Return the smallest shape of our choice in which a batch of these sizes has room."""
        tokens = _padded_tokens(tokens)
        # Sentences are half as long as the longest on average, and words come again.
        half = sentences * tokens // 2 + 1
        most = half if words <= half else sentences * tokens + 1
        widest = corpus.characters_VC.shape[1]
        few = min(FEW_CHARACTERS, widest)
        return cls(sentences, tokens, most, few if characters <= few else widest)

    @property
    def parts(self) -> list[int]:
        """The sizes of what is sent: starts, lengths, words of the cells, distinct words."""
        return [self.sentences, self.sentences, self.sentences * self.tokens, self.words]


def _padded_tokens(tokens: int) -> int:
    """Return a length of steps that grow with it: 4 up to 32, 8 up to 64, 16 up to 128, ..."""
    step = 4
    while tokens > 8 * step:
        step *= 2
    return -(-tokens // step) * step


@contextmanager
def _without_known_warnings() -> Iterator[None]:
    """Leave out what torch says about padded steps, and what needs no care."""
    with warnings.catch_warnings():
        # cuDNN wants the weights of both directions as one block; copying them is cheap.
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single")
        # Recording computes on a stream of its own, whatever ran before.
        warnings.filterwarnings("ignore", message="The AccumulateGrad node's stream does not")
        yield


def _record_on_cuda(compute: Compute, indices: Tensor, pool: Any) -> Compute:
    """Record a computation; the indices stay the place that its replays read from."""
    here = torch.cuda.current_stream()
    beside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    graph = torch.cuda.CUDAGraph()
    # The outer block brings the stream back where recording fails: torch does not.
    with _without_known_warnings(), torch.cuda.stream(here):
        beside.wait_stream(here)
        with torch.cuda.stream(beside):
            for _ in range(_WARM_UPS):
                compute(indices)
        here.wait_stream(beside)
        with torch.cuda.graph(graph, pool=pool):
            result = compute(indices)

    def replay(sent: Tensor) -> Tensor:
        indices.copy_(sent, non_blocking=True)
        graph.replay()
        return result.clone()  # the next replay of any recording may overwrite it

    return replay


@dataclass(slots=True)
class RecordedSteps:
    """The steps of one tagger over one corpus, recorded for each shape that comes again.

    Attributes:
        tagger: The tagger; its weights may change in place, but not move.
        corpus: What batches are gathered from.
        mixed_precision: bfloat16 products on a GPU; ignored on the CPU.
        is_recording: Whether steps are recorded; where not, the very same padded steps are launched
            kernel by kernel.
        record: Makes of a computation, and indices to try it with, one that is replayed.
        recordings: The recordings by shape.
        visits: How often each shape came without a recording.
        num_sentences: The largest batch so far; smaller ones, as at the end of an epoch, are padded
            up to it.
    """

    tagger: Tagger
    corpus: EncodedCorpus
    mixed_precision: bool = False
    is_recording: bool = True
    record: Callable[[Compute, Tensor, Any], Compute] = _record_on_cuda
    recordings: dict[PaddedShape, Compute] = field(default_factory=dict)
    visits: dict[PaddedShape, int] = field(default_factory=dict)
    num_sentences: int = 0
    _weights: dict[str, Tensor] = field(default_factory=dict)
    _pool: Any = None  # torch keeps the type of its memory pools to itself

    def __post_init__(self) -> None:
        named = self.tagger.named_parameters()
        self._weights = {name: weight for name, weight in named if weight.requires_grad}

    @staticmethod
    def fits(tagger: Tagger, device: torch.device) -> bool:
        """Whether a tagger can be recorded: on CUDA, with as many rows whatever the words are."""
        embeddings = tagger.embeddings
        is_fixed = embeddings.encoder is None and not embeddings.words.trainable
        dtypes = {weight.dtype for weight in tagger.parameters() if weight.requires_grad}
        return device.type == "cuda" and is_fixed and dtypes == {torch.float32}

    def gradients(
        self, sentences: "NDArray[np.int64]", seed: int
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the mean loss of the sentences and its gradient by name.

        Args:
            sentences: Indices of sentences, each of at least one token.
            seed: Of the step's dropout.
        """
        if not self.tagger.training:
            self.tagger.train()
        shape, indices = self._indices(sentences)
        compute = self._computation(shape, indices)
        torch.manual_seed(seed)  # dropout draws from nothing else
        return self._named(compute(indices))

    def _indices(self, sentences: "NDArray[np.int64]") -> tuple[PaddedShape, Tensor]:
        """Return the shape of a batch, and what is sent of it, still on the host."""
        corpus, lengths_B = self.corpus, self.corpus.lengths[sentences]
        self.num_sentences = max(self.num_sentences, len(sentences))
        order_B = np.argsort(-lengths_B, kind="stable")
        starts_B, lengths_B = corpus.starts[sentences][order_B], lengths_B[order_B]
        token_L = np.arange(lengths_B[0])
        mask_BL = token_L < lengths_B[:, None]
        token_BL = np.where(mask_BL, starts_B[:, None] + token_L, 0)
        words_BL = np.where(mask_BL, corpus.word_T[token_BL], 0)
        present_U, inverse = np.unique(np.append(words_BL.reshape(-1), 0), return_inverse=True)
        longest = int(corpus.num_characters_V[present_U].max())
        shape = PaddedShape.of(
            corpus, self.num_sentences, int(lengths_B[0]), len(present_U), longest
        )
        flat = np.zeros(sum(shape.parts), dtype=np.int64)
        into = np.split(flat, np.cumsum(shape.parts)[:-1])
        into[0][: len(starts_B)] = starts_B
        into[1][: len(lengths_B)] = lengths_B
        cells_BL = into[2].reshape(shape.sentences, shape.tokens)
        cells_BL[: len(words_BL), : len(token_L)] = inverse[:-1].reshape(words_BL.shape)
        into[3][: len(present_U)] = present_U
        indices = torch.from_numpy(flat)
        return shape, indices.pin_memory() if corpus.device.type == "cuda" else indices

    def _computation(self, shape: PaddedShape, indices: Tensor) -> Compute:
        """Return the recording of a shape, made now if it is time, or else the launched step."""
        if shape in self.recordings:
            return self.recordings[shape]

        def launched(indices: Tensor) -> Tensor:
            with _without_known_warnings():
                return self._step(shape, indices.to(self.corpus.device, non_blocking=True))

        if not self.is_recording or len(self.recordings) >= MOST_GRAPHS:
            return launched
        self.visits[shape] = self.visits.get(shape, 0) + 1
        if self.visits[shape] < FIRST_RECORDED_VISIT:
            return launched
        if self._pool is None and self.corpus.device.type == "cuda":
            self._pool = torch.cuda.graph_pool_handle()
        sample = indices.to(self.corpus.device)
        try:
            self.recordings[shape] = self.record(
                lambda indices: self._step(shape, indices), sample, self._pool
            )
        except RuntimeError as error:
            self.is_recording = False
            _log.warning(
                "a step could not be recorded, and is launched instead: %s; should later steps "
                'fail, set engine.recorded_graphs = "off"',
                error,
            )
            return launched
        return self.recordings[shape]

    def _step(self, shape: PaddedShape, indices: Tensor) -> Tensor:
        """Return all gradients in one row, and the loss behind them."""
        batch = self._batch(shape, indices)
        with autocast(indices.device, self.mixed_precision):
            losses_B = self.tagger.losses(batch)
        is_sentence_B = batch.lengths_B > 0
        loss = losses_B.masked_fill(~is_sentence_B, 0.0).sum() / is_sentence_B.sum()
        computed = torch.autograd.grad(loss, list(self._weights.values()))
        return torch.cat([*(each.reshape(-1) for each in computed), loss.detach().reshape(1)])

    def _batch(self, shape: PaddedShape, indices: Tensor) -> Batch:
        """Gather a padded batch on the device; nothing here waits for it."""
        corpus = self.corpus
        starts_B, lengths_B, words, present_U = torch.split(indices, shape.parts)
        word_BL = words.view(shape.sentences, shape.tokens)
        token_L = torch.arange(shape.tokens, device=indices.device)
        first_B1 = torch.arange(shape.sentences, device=indices.device)[:, None] * shape.tokens
        mask_BL = token_L < lengths_B[:, None]
        token_BL = (starts_B[:, None] + token_L) * mask_BL
        mirrored_BL = first_B1 + torch.where(mask_BL, lengths_B[:, None] - 1 - token_L, token_L)
        return Batch(
            sentences=np.zeros(shape.sentences, dtype=np.int64),
            lengths_B=lengths_B,
            mask_BL=mask_BL,
            word_BL=word_BL,
            rows_U=present_U,
            vectors_UD=_rows(corpus.vectors_VD, present_U),
            characters_UC=corpus.characters_VC[:, : shape.characters].index_select(0, present_U),
            context_BLD=_context(corpus.context_TD, token_BL, mask_BL),
            tags_BL=None if corpus.tags_T is None else corpus.tags_T[token_BL] * mask_BL,
            layout=TokenLayout(word_BL, word_BL, mirrored_BL, None),
        )

    def _named(self, flat: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        sizes = [weight.numel() for weight in self._weights.values()]
        *parts, loss = torch.split(flat, [*sizes, 1])
        return loss[0], {
            name: part.view(weight.shape)
            for (name, weight), part in zip(self._weights.items(), parts, strict=True)
        }


def _rows(values_VD: Tensor | None, present_U: Tensor) -> Tensor | None:
    return None if values_VD is None else values_VD.index_select(0, present_U)


def _context(context_TD: Tensor | None, token_BL: Tensor, mask_BL: Tensor) -> Tensor | None:
    if context_TD is None:
        return None
    gathered = context_TD.index_select(0, token_BL.flatten()).float()
    return gathered.view(*token_BL.shape, -1) * mask_BL.unsqueeze(-1)


def autocast(device: torch.device, wanted: bool) -> AbstractContextManager[object]:
    """Return the context of bfloat16 products, where they are wanted and the device is a GPU."""
    if wanted and device.type == "cuda":
        # Weights are cast each time: recordings may not refer to casts that are gone.
        return torch.autocast("cuda", torch.bfloat16, cache_enabled=False)
    return nullcontext()


def recorded_steps(
    tagger: Tagger, corpus: EncodedCorpus, mode: str, *, mixed_precision: bool = False
) -> RecordedSteps | None:
    """Return the recorded steps of a tagger, or None where it cannot be recorded.

    Args:
        tagger: The tagger, on its device.
        corpus: What batches are gathered from.
        mode: "auto", or "off" to launch the same padded steps kernel by kernel.
        mixed_precision: bfloat16 products.
    """
    if not RecordedSteps.fits(tagger, corpus.device):
        return None
    return RecordedSteps(tagger, corpus, mixed_precision, is_recording=mode == "auto")
