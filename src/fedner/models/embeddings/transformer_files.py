"""The folder of a Hugging Face encoder: found, checked, hashed; what can carry code is refused."""

import hashlib
import importlib
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from fedner.errors import FednerError

# What stands before a name that the user wants from the hub, as federation files write it.
HUB = "hub:"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
# All that an encoder reads from its folder beside the weights.
TEXT_FILES = (
    "config.json",
    "tokenizer*",
    "*_map.json",
    "added_tokens.json",
    "vocab*",
    "merges.txt",
    "*.model",
)


def library(name: str) -> ModuleType:
    """Import an optional library; whatever it defines is untyped here.

    Raises:
        FednerError: If it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise FednerError(
            f"transformer encoders need the library {name}: {error}",
            "Install it: pip install 'fedner[transformers]'",
        ) from error


def folder_of(source: Path | str, *, online: bool) -> Path:
    """Return the local folder of an encoder, downloading it only where asked to.

    Args:
        source: A folder; or a name on the hub, looked up among the downloads of this machine.
        online: Whether the name may be downloaded. "hub:" before the name says so too.

    Raises:
        FednerError: If there is none.
    """
    if Path(source).is_dir():
        return Path(source)
    name = plain_name(source)
    online = online or name != str(source)
    hub = library("huggingface_hub")
    try:
        patterns = [*TEXT_FILES, "*.safetensors", INDEX]
        found: str = hub.snapshot_download(
            name,
            local_files_only=not online,
            allow_patterns=patterns,
            ignore_patterns=["*/*"],
        )
    except Exception as error:
        raise FednerError(
            f"no folder {name}, and no encoder of that name "
            + ("on the hub" if online else "among the downloads of this machine")
            + f": {type(error).__name__}",
            "Give the folder of an encoder (config.json, tokenizer.json, model.safetensors)"
            + ("." if online else ", or allow the download with online=True."),
        ) from error
    return Path(found)


def plain_name(source: Path | str) -> str:
    """Return what an encoder is called: a folder by its last part, a name on the hub by itself."""
    if Path(source).is_dir():
        return Path(source).resolve().name
    return str(source).removeprefix(HUB)


def checked_files(folder: Path) -> list[Path]:
    """Return the files that decide the features, in a fixed order.

    Raises:
        FednerError: If one is missing, or the weights are of a kind that can carry code.
    """
    return text_files(folder) + _weight_files(folder)


def text_files(folder: Path) -> list[Path]:
    """Return all that an encoder is beside its weights: configuration and tokenizer, by name.

    Raises:
        FednerError: If the folder is not that of an encoder.
    """
    if not (folder / "config.json").is_file():
        raise FednerError(
            f"{folder} has no config.json: it is not the folder of a Hugging Face encoder",
            "Give the folder that save_pretrained() or a download of the encoder made.",
        )
    if (folder / "adapter_config.json").exists():
        raise FednerError(
            f"{folder} holds an adapter, not an encoder",
            "Merge the adapter into its encoder and save that with save_pretrained().",
        )
    texts = {path for pattern in TEXT_FILES for path in folder.glob(pattern) if path.is_file()}
    return sorted(texts, key=lambda path: path.name)


def _weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        try:
            names = sorted(set(json.loads((folder / INDEX).read_bytes())["weight_map"].values()))
            missing = [name for name in names if not (folder / name).is_file()]
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise FednerError(
                f"{folder / INDEX} is damaged: {error}", "Copy the folder again."
            ) from error
        if missing:
            raise FednerError(f"{folder} lacks the weights {missing}", "Copy the folder again.")
        return [folder / INDEX, *(folder / name for name in names)]
    pickled = sorted(path.name for path in folder.glob("*") if path.suffix in {".bin", ".pt"})
    if pickled:
        raise FednerError(
            f"{folder} has weights only as {', '.join(pickled)}, which can carry code",
            "If you trust them, convert them: load the model with transformers and "
            "save_pretrained(folder) it, which writes model.safetensors.",
        )
    raise FednerError(
        f"{folder} has no {WEIGHTS}", "Copy the whole folder of the encoder, weights included."
    )


def digest_of(files: Sequence[Path]) -> str:
    """Hash names and contents of files."""
    digest = hashlib.sha256()
    for path in files:
        with path.open("rb") as handle:
            content = hashlib.file_digest(handle, "sha256").hexdigest()
        digest.update(f"{path.name}\0{content}\n".encode())
    return digest.hexdigest()
