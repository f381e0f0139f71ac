"""The coordinator's side of a secure sum, for one round: it relays, adds up and unmasks the sum."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from fedner.errors import FednerError
from fedner.federated.grid import Words
from fedner.federated.messages import Order, SumMessage
from fedner.federated.secure.bundles import Bundle, commitment_of, parsed
from fedner.federated.secure.keys import derived, pair_key, pair_of
from fedner.federated.secure.masks import Mask, add_masks
from fedner.federated.secure.plan import OF_DROPPED, OF_SURVIVOR, SumPlan
from fedner.federated.secure.platform_side import ANNOUNCE, REVEAL, SHARE, SIGN
from fedner.federated.secure.shares import join_shares
from fedner.federated.secure.wire import Context
from fedner.federated.summation import Relayed, Totals, relayed_entries

_HINT = "Resume the run when more platforms are there."


class ServerSide:
    """The coordinator's side of one round; a `ServerSum`."""

    def __init__(self, plan: SumPlan, order: Order) -> None:
        """Make the side.

        Args:
            plan: What everybody knows of the sum.
            order: The order of the round: names study, run and round.
        """
        self._plan = plan
        self._context: Context = plan.context(order.study, order.run, order.round)
        self._bundles: dict[str, Bundle] = {}
        self._members: list[str] = []

    def relay(self, phase: int, messages: Mapping[str, SumMessage]) -> Relayed:
        """Return what each platform gets of the others in the next order.

        Raises:
            FednerError: If too few are left: the round ends unopened.
        """
        least = self._plan.terms.threshold if phase >= SIGN else self._plan.terms.least_survivors
        if len(messages) < least:
            raise FednerError(
                f"round {self._context.round}: {len(messages)} platforms are left after phase "
                f"{phase} of the secure sum; expected at least {least}, so it was not opened",
                _HINT,
            )
        if phase == ANNOUNCE:
            self._bundles = {name: _bundle(name, each) for name, each in messages.items()}
        if phase == SHARE:
            self._members = sorted(messages)
            return relayed_entries(messages)
        return _told_to_all(messages) if phase in (ANNOUNCE, SIGN) else {}

    def can_open(self, shares: Mapping[str, SumMessage]) -> bool:
        """Whether as many platforms as it takes have given their shares."""
        return len(shares) >= self._plan.terms.threshold

    def total(
        self, values: Mapping[str, SumMessage], after: Mapping[int, Mapping[str, SumMessage]]
    ) -> Totals:
        """Return the sum of the survivors' values.

        Raises:
            FednerError: If the masks cannot be taken away.
        """
        row, shapes = self._added(values)
        shares = after[REVEAL]
        masks = [self._self_mask(name, shares) for name in sorted(values)]
        for name in sorted(set(self._members) - set(values)):
            masks += self._pair_masks(name, sorted(values), shares)
        add_masks(row, masks)
        numbers = self._plan.grid.decode(row) * self._plan.factor
        pieces = torch.from_numpy(numbers).split_with_sizes(
            [shape.numel() for shape in shapes.values()]
        )
        return {
            name: piece.view(shape)
            for (name, shape), piece in zip(shapes.items(), pieces, strict=True)
        }

    def _added(self, values: Mapping[str, SumMessage]) -> tuple[Words, dict[str, torch.Size]]:
        """Return the sum of all masked values in one row, and the shapes in it."""
        first = next(iter(values.values())).tensors
        shapes = {name: first[name].shape for name in sorted(first)}
        dtype = self._plan.grid.dtype
        row = np.zeros(sum(shape.numel() for shape in shapes.values()), dtype)
        for name, message in values.items():
            begin = 0
            for key, shape in shapes.items():
                words = _words(name, message.tensors[key], dtype)
                row[begin : begin + shape.numel()] += words
                begin += shape.numel()
        return row, shapes

    def _self_mask(self, name: str, shares: Mapping[str, SumMessage]) -> Mask:
        seed = self._joined(name, OF_SURVIVOR, shares)
        if commitment_of(seed) != self._bundles[name].commitment:
            raise _unfitting(name)
        return Mask(derived(seed, "self mask", self._context, name), -1)

    def _pair_masks(
        self, name: str, survivors: Sequence[str], shares: Mapping[str, SumMessage]
    ) -> list[Mask]:
        """Return what takes away the masks that survivors added for one who dropped out."""
        own = pair_of(self._joined(name, OF_DROPPED, shares))
        if own.public != self._bundles[name].mask:
            raise _unfitting(name)
        masks = []
        for other in survivors:
            key = pair_key(own, self._bundles[other].mask, self._context, name, other)
            masks.append(Mask(key, -1 if other < name else 1))
        return masks

    def _joined(self, name: str, kind: bytes, shares: Mapping[str, SumMessage]) -> bytes:
        """Return a secret of a platform from the shares that the others gave."""
        points = {each: point for point, each in enumerate(sorted(self._bundles), 1)}
        found = {
            points[giver]: message.entries[name][1:]
            for giver, message in shares.items()
            if message.entries.get(name, b"")[:1] == kind
        }
        try:
            return join_shares(found, self._plan.terms.threshold)
        except FednerError as error:
            raise FednerError(
                f"round {self._context.round}: the mask of {name!r} cannot be removed: "
                f"{error.message}",
                _HINT,
            ) from error


def _bundle(name: str, message: SumMessage) -> Bundle:
    try:
        return parsed(message.entries.get(name, b""))
    except FednerError as error:
        raise FednerError(f"the keys of {name!r} cannot be read: {error.message}") from error


def _told_to_all(messages: Mapping[str, SumMessage]) -> Relayed:
    told = {name: each.entries.get(name, b"") for name, each in messages.items()}
    return dict.fromkeys(messages, told)


def _words(name: str, tensor: Tensor, dtype: "np.dtype[np.generic]") -> Words:
    """Return masked values as words, without a copy."""
    row = tensor.detach().cpu().contiguous().reshape(-1).numpy()
    if row.dtype != np.dtype(f"i{dtype.itemsize}"):
        raise FednerError(f"the masked values of {name!r} are of type {row.dtype}")
    return row.view(dtype)


def _unfitting(name: str) -> FednerError:
    return FednerError(
        f"the shares of {name!r} do not fit what it announced: some platform sent wrong ones",
        "Look at the logs of the platforms, then resume the run.",
    )
