"""Emissions of types that are known by their descriptions: one head for all types of all platforms.

With h the features of a token, e the vector of a type's description (`models.types`) and, for every
kind of tag ("B", "I", ...), two maps P and Q to a common space of R numbers:

    emission(kind-type) = (P h) . (Q e) / sqrt(R)        emission(O) = w . h

P, Q and w know no single type, so platforms of different types can share them, and a new type needs
a description and no new weight. A bilinear score of this form is that of Ma et al. 2016 ("Label
embedding for zero-shot fine-grained named entity typing"). An optional residual, a plain linear
layer that begins at zero, belongs to one platform's own tags; it is never shared.

For given types the head is one linear layer, whose weight is folded from the maps: that is what
training and exports use. Per-unit gradients go by the maps: P h is a linear layer, and with g the
gradient at the emissions of one kind, that of Q is sum_t (P h_t) (sum_types g e)^T / sqrt(R).

Shapes: B sentences, L tokens, T types, K tags, D features, E numbers of a description, R rank.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from fedner.corpus.schemes import Scheme, split_tag, tag_set
from fedner.errors import FednerError
from fedner.models.features import Batch, TagSpace
from fedner.models.layers.forms import LayerForms, Parts, joined, trained_names
from fedner.models.layers.linear import measure_linear, tap_linear
from fedner.models.onnx_writer import GraphWriter
from fedner.models.per_unit.products import batch_product
from fedner.models.per_unit.tap import Measured, Tap, tapped
from fedner.models.per_unit.units import Units
from fedner.models.types import TypeVectors


def entity_kinds(scheme: Scheme) -> tuple[str, ...]:
    """Return the prefixes of a scheme's tags, in the order of a tag space.

    >>> entity_kinds("BIO")
    ('B', 'I')
    """
    return tuple(split_tag(tag)[0] for tag in tag_set(("type",), scheme)[1:])


class DescribedEmissions(nn.Module):
    """From the features of a token to a score for each tag, by the descriptions of the types.

    Attributes:
        kinds: The kinds of tags beside "O".
        rank: The size of the space in which tokens and types meet.
        descriptions: The description of each type; empty where the vectors are not known.
        source: Where the vectors come from; empty where they are not known.
        token: For every kind the map P of tokens, without a bias.
        type: For every kind the map Q of types, without a bias.
        outside: The score of "O", without a bias.
        residual: A linear layer of the tags' own; None without.
        vectors: The vectors of the types (T, E): not trained, and zero where they are not known.
    """

    token: nn.ModuleDict
    vectors: Tensor

    def __init__(
        self,
        dimension: int,
        space: TagSpace,
        types: TypeVectors | int,
        rank: int,
        *,
        residual: bool = False,
    ) -> None:
        """Make a head whose weights wait for their first values.

        Args:
            dimension: Features of a token.
            space: The tags.
            types: The types of the tags; or the size of their vectors alone, where these are not
                known.
            rank: See the attributes.
            residual: Whether there is one.
        """
        super().__init__()
        if rank < 1:
            raise FednerError(f"a described head of rank {rank}", "Give a rank of at least 1.")
        self.kinds = entity_kinds(space.scheme)
        self.rank = rank
        self.descriptions: dict[str, str] = {}
        self.source = ""
        size = types if isinstance(types, int) else types.dimension
        vectors_TE = torch.zeros(len(space.labels), size)
        if isinstance(types, TypeVectors):
            chosen = types.of(space.labels)
            self.descriptions = dict(zip(chosen.labels, chosen.descriptions, strict=True))
            self.source = chosen.source
            vectors_TE = torch.from_numpy(chosen.vectors).clone()
        self.register_buffer("vectors", vectors_TE, persistent=bool(self.source))
        # Not by attribute: torch has a method `type`, which stands in the way.
        self._modules["token"] = _maps(self.kinds, dimension, rank)
        self._modules["type"] = _maps(self.kinds, size, rank)
        self.outside = nn.Linear(dimension, 1, bias=False)
        self.residual: nn.Linear | None = None
        if residual:
            self.residual = nn.Linear(dimension, len(space.tags))
            nn.init.zeros_(self.residual.weight)
            nn.init.zeros_(self.residual.bias)

    @property
    def type(self) -> nn.ModuleDict:
        """The maps of types; torch has a method of this name, which nobody calls."""
        return self._modules["type"]  # type: ignore[return-value]

    def extra_repr(self) -> str:
        """Return what `print` shows."""
        return f"rank={self.rank}, types={len(self.vectors)}, source={self.source!r}"

    @property
    def weight(self) -> Tensor:
        """The one weight that the maps amount to for these types (K, D)."""
        maps = [cast("nn.Linear", self.token[kind]).weight for kind in self.kinds]
        # Folding is cheap: half precision is for the tokens.
        with torch.autocast(self.vectors.device.type, enabled=False):
            kinds = [self.types_of(k) @ map_RD for k, map_RD in zip(self.kinds, maps, strict=True)]
            # Tags stand type by type, and within a type kind by kind.
            entities_KD = torch.stack(kinds, dim=1).flatten(0, 1)
            weight_KD = torch.cat((self.outside.weight, entities_KD))
            return weight_KD if self.residual is None else weight_KD + self.residual.weight

    @property
    def bias(self) -> Tensor | None:
        """The bias of the residual (K,); None without one."""
        return None if self.residual is None else self.residual.bias

    def types_of(self, kind: str) -> Tensor:
        """Return what tokens of a kind are compared with (T, R), the scale included.

        Raises:
            FednerError: The vectors of the types are not known.
        """
        if not self.source:
            raise FednerError(
                "a described head cannot be used without the vectors of its types",
                "Build the tagger with TypeVectors, or save it with `descriptions` and load it.",
            )
        compared_TR: Tensor = self.type[kind](self.vectors)
        return compared_TR / math.sqrt(self.rank)

    def forward(self, x_BLD: Tensor) -> Tensor:
        """Return the emissions (B, L, K)."""
        return nn.functional.linear(x_BLD, self.weight, self.bias)


def _maps(kinds: Sequence[str], size: int, rank: int) -> nn.ModuleDict:
    return nn.ModuleDict({kind: nn.Linear(size, rank, bias=False) for kind in kinds})


def _forward(head: DescribedEmissions, parts: Parts, _batch: Batch) -> Tensor:
    emissions_BLK: Tensor = head(joined(parts))
    return emissions_BLK


def _tap(
    head: DescribedEmissions, prefix: str, parts: Parts, batch: Batch
) -> tuple[Tensor, list[Tap]]:
    """Return the emissions, map by map, and the taps of all that is trained."""
    x_BLD = joined(parts)
    outside_BL1, taps = tap_linear(head.outside, f"{prefix}.outside", [x_BLD], batch)
    kinds = []
    for kind in head.kinds:
        scores_BLT, found = _tap_kind(head, kind, prefix, x_BLD, batch)
        kinds.append(scores_BLT)
        taps += found
    emissions_BLK = torch.cat((outside_BL1, torch.stack(kinds, dim=3).flatten(2)), dim=2)
    if head.residual is not None:
        own_BLK, found = tap_linear(head.residual, f"{prefix}.residual", [x_BLD], batch)
        emissions_BLK = emissions_BLK + own_BLK
        taps += found
    return emissions_BLK, taps


def _tap_kind(
    head: DescribedEmissions, kind: str, prefix: str, x_BLD: Tensor, batch: Batch
) -> tuple[Tensor, list[Tap]]:
    """Return the scores of one kind for all types (B, L, T), with the taps of P and Q."""
    token = cast("nn.Linear", head.token[kind])
    mapped_BLR, taps = tap_linear(token, f"{prefix}.token.{kind}", [x_BLD], batch)
    scores_BLT = batch_product(mapped_BLR, head.types_of(kind).detach().t())
    names = trained_names(head.type[kind], f"{prefix}.type.{kind}")
    if names:
        scaled_BLR = mapped_BLR.detach() / math.sqrt(head.rank)
        measure = partial(_measure_types, scaled_BLR, head.vectors, names)
        taps = [*taps, Tap(tapped(scores_BLT), measure)]
    return scores_BLT, taps


def _measure_types(
    scaled_BLR: Tensor,
    vectors_TE: Tensor,
    names: dict[str, str],
    gradient_BLT: Tensor,
    units: Units,
) -> Measured:
    """Measure Q, whose gradient is that of a linear layer that reads g e and gets P h."""
    return measure_linear(batch_product(gradient_BLT, vectors_TE), names, scaled_BLR, units)


def _onnx(head: DescribedEmissions, graph: GraphWriter, parts: Sequence[str]) -> str:
    return graph.linear(graph.joined(parts), head.weight, head.bias)


FORMS = LayerForms("described", _forward, _tap, _onnx)
