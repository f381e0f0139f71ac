"""Smaller numbers on slow links: bfloat16 or int8, with error feedback at the platform.

Papers: error feedback is that of Seide et al. 2014 ("1-bit stochastic gradient descent") and
Karimireddy et al. 2019 ("Error feedback fixes SignSGD").

Up, update u_t of a round, with the remainder e_t-1 that the platform kept (e_0 = 0):

    x_t = u_t + e_t-1        sent_t = encode(x_t)        e_t = x_t - decode(sent_t)

so that the sum of what was sent is the sum of the updates less the last remainder, which is at most
`largest_error` of what was encoded last. Numbers of int8 are whole multiples, -127 to 127, of a
scale: one for each row of a matrix (`scales_shape`), one for any smaller tensor.

Down, the order of a round brings weights in bfloat16 under both encodings. That is safe: the server
keeps float32, so that no change is lost between rounds, and differences are taken to the weights
that were handed out. It is what training in mixed precision does. int8 would not be: a weight has
no remainder at the server that would be sent later. Orders to score and to finish bring float32:
scores and finished taggers are those of the model that the server keeps.

What does not travel encoded: whole weights as updates (rounded, they would be the model itself) and
updates that a summation hides (codes of different scales cannot be added).

Guarantee: of differential privacy that of the mechanism, at no further cost, where updates are
noised at the platform: `sent_1 .. sent_t` are a function of the noised `u_1 .. u_t` alone,
remainders and scales included. Where the server adds the noise, encoding moves what one unit
contributes: only a mechanism that bounds each decoded update again keeps its proof, and others are
refused (`privacy.mechanisms.encoding_problems`).

Edge cases: numbers beyond the range of bfloat16 become its largest; what is too small for a scale
becomes 0 and stays in the remainder. Numbers that are not finite are refused.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from fedner.errors import FednerError
from fedner.federated.messages import Order, Update, all_finite
from fedner.federated.summation import Summation
from fedner.federated.tensor_bytes import NotFiniteError
from fedner.settings.sections import Encoding
from fedner.tensors import SharedState, State

TYPES_UP: Mapping[Encoding, torch.dtype | None] = {
    "float32": None,  # as it is
    "bfloat16": torch.bfloat16,
    "int8": torch.int8,
}
_LARGEST = float(torch.finfo(torch.bfloat16).max)
_SMALLEST = float(torch.finfo(torch.float32).tiny)
_MOST_CODE = 127
_LEAST_IN_ROW = 16  # with fewer numbers in a row its scale would weigh more than it gains
_ROUNDING = 1 + 2**-14  # float32 rounds quotient and product too


class Encoded(NamedTuple):
    """One tensor as it travels.

    Attributes:
        codes: The numbers, in the type of the encoding.
        scales: What codes of int8 are multiples of; None for other types.
    """

    codes: Tensor
    scales: Tensor | None


class EncodedUpdate(NamedTuple):
    """An update as it travels, and what the platform keeps of it.

    Attributes:
        update: What is transmitted.
        feedback: The remainders, by part and name: they stay at the platform.
    """

    update: Update
    feedback: dict[str, Tensor]


def scales_shape(shape: torch.Size) -> tuple[int]:
    """Return the shape of a tensor's scales: a row each where rows are long, else one."""
    has_rows = len(shape) > 1 and shape[1:].numel() >= _LEAST_IN_ROW
    return (shape[0],) if has_rows else (1,)


def _bounded(tensor: Tensor) -> Tensor:
    """Return numbers in float32 that every encoding can hold.

    Raises:
        NotFiniteError: If a number is not finite.
    """
    if not all_finite({"": tensor}):
        raise NotFiniteError("update refused: it has numbers that are not finite")
    return tensor.clamp(-_LARGEST, _LARGEST).float()


def _rows(tensor: Tensor) -> Tensor:
    """Return a tensor as the rows that have a scale each."""
    (number,) = scales_shape(tensor.shape)
    return tensor.reshape(number, tensor.numel() // max(number, 1))


def _largest(rows: Tensor) -> Tensor:
    return rows.abs().amax(dim=1) if rows.numel() else rows.new_zeros(len(rows))


@torch.no_grad()
def encode(tensor: Tensor, encoding: Encoding) -> Encoded:
    """Return a finite tensor as it travels.

    Raises:
        NotFiniteError: If a number is not finite.
    """
    values = _bounded(tensor)
    if encoding == "float32":
        return Encoded(tensor, None)
    if encoding == "bfloat16":
        return Encoded(values.bfloat16(), None)
    rows = _rows(values)
    scales = _largest(rows) / _MOST_CODE
    scales = torch.where(scales < _SMALLEST, 0.0, scales)
    divisors = torch.where(scales == 0, torch.inf, scales)
    codes = (rows / divisors[:, None]).round().clamp(-_MOST_CODE, _MOST_CODE)
    return Encoded(codes.to(torch.int8).reshape(tensor.shape), scales)


@torch.no_grad()
def decode(encoded: Encoded, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return the numbers of a tensor that travelled."""
    codes, scales = encoded
    if scales is None:
        return codes.to(dtype)
    values = _rows(codes.float()) * scales.to(codes.device)[:, None]
    return values.reshape(codes.shape).to(dtype)


def largest_error(tensor: Tensor, encoding: Encoding) -> Tensor:
    """Return how far each number may lie from what is decoded of it: one quantisation step."""
    if encoding == "float32":
        return torch.zeros_like(tensor)
    if encoding == "bfloat16":
        return tensor.abs() * 2.0**-8 + _SMALLEST
    rows = _rows(tensor.float())
    half = _largest(rows) / _MOST_CODE / 2 * _ROUNDING + _MOST_CODE * _SMALLEST
    return half[:, None].expand_as(rows).reshape(tensor.shape)


@torch.no_grad()
def encode_update(update: Update, encoding: Encoding, feedback: State) -> EncodedUpdate:
    """Return an update as it travels, with the remainders of earlier rounds in it.

    Args:
        update: Its tensors are finite.
        encoding: That of the study; "float32" returns the update itself.
        feedback: What the last rounds left over; without tensors at the beginning.

    Raises:
        NotFiniteError: If a number is not finite; nothing was changed then.
    """
    if encoding == "float32":
        return EncodedUpdate(update, {})
    parts: dict[str, dict[str, Tensor]] = {"tensors": {}, "extra": {}}
    scales, kept = {}, {}
    for part, state in (("tensors", update.tensors), ("extra", update.extra)):
        for name, tensor in state.items():
            key = f"{part}/{name}"
            value = _bounded(tensor.detach())
            value = value + feedback[key] if key in feedback else value
            sent = encode(value, encoding)
            parts[part][name], kept[key] = sent.codes, value - decode(sent)
            if sent.scales is not None:
                scales[key] = sent.scales
    tensors, extra = SharedState(parts["tensors"]), SharedState(parts["extra"])
    sent_update = replace(update, tensors=tensors, extra=extra, scales=SharedState(scales))
    return EncodedUpdate(sent_update, kept)


def decode_update(update: Update, like: SharedState | None = None) -> Update:
    """Return an update with the numbers that its codes stand for; others as they are.

    Args:
        update: Of sound form (`encoding_problem`).
        like: The shared weights, whose types the numbers get; None for float32.
    """
    is_encoded = any(each.dtype in TYPES_UP.values() for each in update.tensors.values())
    if not is_encoded:
        return update

    def decoded(part: str, state: SharedState) -> SharedState:
        made = {}
        for name, codes in state.items():
            dtype = torch.float32 if like is None else like[name].dtype
            made[name] = decode(Encoded(codes, update.scales.get(f"{part}/{name}")), dtype)
        return SharedState(made)

    tensors, extra = decoded("tensors", update.tensors), decoded("extra", update.extra)
    return replace(update, tensors=tensors, extra=extra, scales=SharedState({}))


def encoding_problem(update: Update, encoding: Encoding) -> str | None:
    """Return what is wrong with the scales and codes of an update, or None.

    Names, shapes and types of the tensors themselves are for `screening`.
    """
    codes = {f"tensors/{name}": each for name, each in update.tensors.items()}
    codes |= {f"extra/{name}": each for name, each in update.extra.items()}
    expected = codes if encoding == "int8" else {}
    if set(update.scales) != set(expected):
        return f"scales of {len(update.scales)} tensors; expected {len(expected)} for {encoding}"
    for key, scales in update.scales.items():
        shape = scales_shape(codes[key].shape)
        if scales.dtype != torch.float32 or tuple(scales.shape) != shape:
            return f"scales of {key!r:.60} in another type or shape than float32 {shape}"
        if not all_finite({key: scales}) or bool((scales < 0).any()):
            return f"scales of {key!r:.60} that are not finite numbers from 0 up"
        if bool((codes[key] < -_MOST_CODE).any()):
            return f"codes of {key!r:.60} below -{_MOST_CODE}"
    return None


def type_down(dtype: torch.dtype, encoding: Encoding) -> torch.dtype:
    """Return the type in which the order of a round brings weights of a type."""
    return dtype if encoding == "float32" else torch.bfloat16


@torch.no_grad()
def order_down(order: Order, encoding: Encoding) -> Order:
    """Return the order of a round as it travels; the server keeps its own in float32."""
    if encoding == "float32":
        return order
    shared, extra = _narrowed(order.shared), _narrowed(order.extra)
    return replace(order, shared=shared, extra=extra)


def _narrowed(state: SharedState) -> SharedState:
    return SharedState(
        {
            name: tensor.detach().clamp(-_LARGEST, _LARGEST).bfloat16()
            for name, tensor in state.items()
        }
    )


@torch.no_grad()
def widened(state: SharedState, like: SharedState) -> SharedState:
    """Return weights that came with an order in the types of the model; others as they are."""
    if all(tensor.dtype == like[name].dtype for name, tensor in state.items()):
        return state
    return SharedState({name: tensor.to(like[name].dtype) for name, tensor in state.items()})


def require_encodable(encoding: Encoding, sends: str, summation: Summation | None = None) -> None:
    """Raise if what an algorithm sends, or how it is summed up, cannot be encoded.

    Raises:
        FednerError: Naming what does not fit.
    """
    if encoding == "float32":
        return
    if sends == "weights":
        raise FednerError(
            f"transport.encoding: found {encoding!r} for updates that are whole weights; expected "
            "'float32'",
            'Send differences (algorithm.sends = "delta"): rounded weights would be the model.',
        )
    if summation is not None and summation.hides_updates:
        raise FednerError(
            f"transport.encoding: found {encoding!r} with summation {summation.name!r}; expected "
            "'float32'",
            "A summation that hides updates adds them up before anybody can decode them.",
        )
