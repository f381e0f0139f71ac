"""Words in context by ELMo (Peters et al. 2018): frozen, from the files that its makers publish.

The layers of a word (its vector below the LSTMs twice, then each LSTM layer with both directions
side by side) are the features; `layers.scalar_mix.ScalarMix` weighs them in the tagger, is trained
with it and shared like the rest of the embeddings.

Every sentence begins with a state of zeros. AllenNLP and bilm-tf carry the state from one batch to
the next, so that features depend on what happened to be read before; and the reference outputs that
both projects publish (three rows of ten sentences) were made that way: the first sentence of every
row begins with zeros, each later one where the one before it ended (a test shows both). Features
that are cached must be a function of their sentence alone, and nothing of one patient's text should
reach the features of another's. `elmo_bilm.BiLanguageModel` can carry the state where that is
wanted.

Shapes: T tokens of the longest sentence with its marks, B sentences, N layers, D features.
"""

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedner.errors import FednerError
from fedner.models.embeddings.context import Sentences, plan_batches
from fedner.models.embeddings.elmo_bilm import BiLanguageModel, encode_characters
from fedner.models.embeddings.elmo_files import digest_of, find_files, read_options, read_weights
from fedner.models.embeddings.origin import EmbeddingOrigin

Precision = Literal["float32", "float16", "bfloat16"]
# All layers side by side, for a ScalarMix; or what an untrained one gives; or the top layer alone.
Features = Literal["layers", "mean", "top"]

FEATURES: tuple[Features, ...] = ("layers", "mean", "top")
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
_BEGIN, _END, _FIRST_WORD = 0, 1, 2  # rows of encode_characters


class ElmoEncoder:
    """A frozen ELMo as a context encoder.

    Attributes:
        device: Where it runs.
        model: The language model.
        features: Which layers a word's features are.
    """

    def __init__(
        self, model: BiLanguageModel, origin: EmbeddingOrigin, device: torch.device
    ) -> None:
        self.device = device
        self.model = model.to(device, _DTYPES[str(origin.settings["precision"])])
        self.features: str = str(origin.settings["features"])
        self._origin = origin

    @classmethod
    def load(
        cls,
        source: Path | str,
        device: torch.device | str = "cpu",
        *,
        weights: Path | str | None = None,
        features: Features = "layers",
        precision: Precision = "float32",
    ) -> "ElmoEncoder":
        """Load the files.

        Args:
            source: The folder of options and weights; or the options, with `weights` given.
            device: Where to run.
            weights: The weights, where `source` is the options file.
            features: All layers side by side, their mean, or the top layer.
            precision: What to compute in; half precision is meant for GPUs.

        Raises:
            FednerError: If a file is missing, damaged, or does not fit the other, or h5py is not
                installed.
        """
        if features not in FEATURES or precision not in _DTYPES:
            raise FednerError(
                f"features {features!r}, precision {precision!r}",
                f"Choose features of {', '.join(FEATURES)}, a precision of {', '.join(_DTYPES)}.",
            )
        paths = find_files(Path(source)) if weights is None else (Path(source), Path(weights))
        options = read_options(paths[0])
        arrays = read_weights(paths[1], options)
        num_side_by_side = options.num_layers + 1 if features == "layers" else 1
        origin = EmbeddingOrigin(
            "elmo",
            paths[1].name.removesuffix(".hdf5"),
            digest_of(options, arrays),
            2 * options.projection * num_side_by_side,
            {"features": features, "precision": precision},
            layers=num_side_by_side,
        )
        with torch.random.fork_rng(devices=[]):  # torch draws what the weights then replace
            model = BiLanguageModel(options, arrays)
        return cls(model, origin, torch.device(device))

    @property
    def name(self) -> str:
        """The name of the weights file."""
        return self._origin.name

    @property
    def dimension(self) -> int:
        """Features of a word: both directions, of every layer that is given."""
        return self._origin.dimension

    @property
    def num_layers(self) -> int:
        """How many layers stand side by side: what `ScalarMix` wants to know."""
        return self.model.options.num_layers + 1 if self.features == "layers" else 1

    @property
    def origin(self) -> EmbeddingOrigin:
        """The weights and options by their digest, and the settings."""
        return self._origin

    @property
    def digest(self) -> str:
        """A hash of weights, options and settings."""
        return self._origin.digest

    def encode(self, sentences: Sentences) -> list[NDArray[np.float32]]:
        """Return the features (L, D) of each sentence; it begins with a state of zeros."""
        features = [np.zeros((len(s), self.dimension), np.float32) for s in sentences]
        for batch in plan_batches(sentences):
            layers_NTBD = self._read([sentences[index] for index in batch])
            chosen_TBD = self._chosen(layers_NTBD.float()).cpu().numpy()
            for column, index in enumerate(batch):
                features[index] = chosen_TBD[1 : len(sentences[index]) + 1, column].copy()
        return features

    def _read(self, batch: Sentences) -> Tensor:
        """Return all layers of a batch, the marks of the sentences' ends included."""
        distinct: dict[str, int] = {}
        for sentence in batch:
            for word in sentence:
                distinct.setdefault(word, len(distinct) + _FIRST_WORD)
        codes_UC = encode_characters(list(distinct), self.model.options.max_characters)
        words_UP = self.model.read_words(torch.from_numpy(codes_UC).to(self.device))
        lengths = [len(sentence) + 2 for sentence in batch]
        rows_TB = np.full((max(lengths), len(batch)), _END, dtype=np.int64)
        rows_TB[0] = _BEGIN
        for column, sentence in enumerate(batch):
            rows_TB[1 : len(sentence) + 1, column] = [distinct[word] for word in sentence]
        tokens_TBP = words_UP[torch.from_numpy(rows_TB).to(self.device)]
        return self.model.read_sentences(tokens_TBP, lengths)[0]

    def _chosen(self, layers_NTBD: Tensor) -> Tensor:
        if self.features == "top":
            return layers_NTBD[-1]
        if self.features == "mean":
            return layers_NTBD.mean(dim=0)
        return torch.cat(layers_NTBD.unbind(), dim=-1)
