"""Named tensors in a file: safetensors with a sealed record, written whole or not at all.

Reading never executes code. The record (JSON, in the file's own header) says what the file is, in
which version, and holds a digest of names, types, shapes and numbers, so that a file cut short,
altered or taken for another is refused.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fedner.durable import write_bytes
from fedner.errors import FednerError
from fedner.tensors import State

FIELD = "fedner"


def tensors_digest(tensors: State) -> str:
    """Return a SHA-256 over names, types, shapes and numbers."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        head = json.dumps([name, str(tensor.dtype), list(tensor.shape)])
        digest.update(f"{len(head)}:{head}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def write_tensors(
    path: Path,
    tensors: State,
    kind: str,
    version: int,
    facts: Mapping[str, Any] | None = None,
    *,
    owner_only: bool = False,
) -> None:
    """Write named tensors and JSON facts about them to `path`, wholly or not at all.

    Args:
        path: Where the file shall stand.
        tensors: The tensors, on any device.
        kind: What the file is, such as "tagger weights".
        version: The version of that kind.
        facts: What else the reader needs to know.
        owner_only: Whether nobody but the owner may read it.
    """
    from safetensors.torch import save

    # Copies of their own: safetensors refuses tensors that share memory.
    kept = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    record = {
        "kind": kind,
        "version": version,
        "sha256": tensors_digest(kept),
        "facts": dict(facts or {}),
    }
    seal = hashlib.sha256(_canonical(record).encode()).hexdigest()
    metadata = {FIELD: _canonical(record), "seal": seal}
    write_bytes(path, save(kept, metadata), owner_only=owner_only)


def read_tensors(path: Path, kind: str, version: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `write_tensors` wrote.

    Returns:
        The tensors, on the CPU, and the facts.

    Raises:
        FednerError: The file is missing, cut short, altered, of another kind or version.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FednerError(f"no file {path}", f"Name a file of {kind} that fedner wrote.")
    try:
        with safe_open(path, framework="pt") as opened:
            metadata = opened.metadata() or {}
            record = _record(path, metadata, kind, version)
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise FednerError(
            f"{path} is cut short or is not a safetensors file: {error}",
            "Use an undamaged copy of it.",
        ) from error
    if tensors_digest(tensors) != record["sha256"]:
        raise _altered(path)
    return tensors, record["facts"]


def _record(path: Path, metadata: Mapping[str, str], kind: str, version: int) -> dict[str, Any]:
    if FIELD not in metadata:
        raise FednerError(
            f"{path} was not written by fedner: it has no record", f"Name a file of {kind}."
        )
    if hashlib.sha256(metadata[FIELD].encode()).hexdigest() != metadata.get("seal"):
        raise _altered(path)
    record: dict[str, Any] = json.loads(metadata[FIELD])
    found = (record.get("kind"), record.get("version"))
    if found != (kind, version):
        raise FednerError(
            f"{path} holds {found[0]}, version {found[1]}; expected {kind}, version {version}",
            "Use the release of fedner that wrote it, or another file.",
        )
    return record


def _canonical(record: Mapping[str, Any]) -> str:
    return json.dumps(record, sort_keys=True, ensure_ascii=False)


def _altered(path: Path) -> FednerError:
    return FednerError(
        f"{path} was altered since fedner wrote it: its contents do not fit its digest",
        "Use an undamaged copy of it.",
    )
