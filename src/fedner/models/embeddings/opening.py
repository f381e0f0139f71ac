"""Any context encoder from where its files lie: the path says which kind it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from fedner.errors import FednerError
from fedner.models.embeddings.elmo import ElmoEncoder
from fedner.models.embeddings.flair import FlairEncoder
from fedner.models.embeddings.transformer import TransformerEncoder
from fedner.models.embeddings.transformer_files import HUB

AnyEncoder = FlairEncoder | TransformerEncoder | ElmoEncoder


def open_context_encoder(
    path: Path,
    device: torch.device | str = "cpu",
    settings: Mapping[str, Any] | None = None,
) -> AnyEncoder:
    """Open the encoder at `path`.

    Args:
        path: A Hugging Face folder (config.json), an ELMo folder (options and hdf5 weights), or
            the archive of Flair weights (.npz, .npz.xz); "hub:NAME" downloads from the hub.
        device: Where to run.
        settings: What the encoder was opened with before, as its origin records it.

    Raises:
        FednerError: If there is nothing of the kind, or it cannot be opened.
    """
    held = dict(settings or {})
    if (path / "config.json").is_file() or str(path).startswith(HUB):
        return TransformerEncoder.load(path, device, **held)
    if path.is_dir() and any(path.glob("*.hdf5")):
        return ElmoEncoder.load(path, device, **held)  # all layers: the tagger learns the mix
    if path.is_file():
        return FlairEncoder.load(path, device, **held)
    raise FednerError(
        f"{path} holds no context encoder that fedner knows",
        "Name a Hugging Face folder with config.json, an ELMo folder with options and weights, or "
        "the .npz archive of Flair weights.",
    )
