"""What a platform must keep between rounds, and its form in bytes: it is never transmitted."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

_LENGTH = 8


@dataclass(frozen=True, slots=True)
class PlatformState:
    """All that a platform must keep between rounds: it is never transmitted.

    Attributes:
        tensors: Private weights, optimizer and algorithm's memory, by prefixed name.
        facts: The cursor and the last round, as JSON can carry them.
    """

    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]


def state_to_bytes(state: PlatformState) -> bytes:
    """Return a platform's state as the bytes that its ledger keeps beside a release."""
    facts = json.dumps(dict(state.facts)).encode()
    return len(facts).to_bytes(_LENGTH, "little") + facts + save_safetensors(dict(state.tensors))


def state_from_bytes(data: bytes) -> PlatformState:
    """Return the state that `state_to_bytes` wrote."""
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    facts: dict[str, Any] = json.loads(data[_LENGTH:end])
    return PlatformState(load_safetensors(data[end:]), facts)
