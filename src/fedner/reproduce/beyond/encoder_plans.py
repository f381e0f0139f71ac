"""A pretrained encoder that platforms train together: whole, or through low-rank adapters.

As examples/medical-transformer.toml has it: the encoder travels once a round, after an epoch at
home; emissions and CRF are private.
"""

import importlib
import os
import shutil
import string
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from fedner.errors import FednerError
from fedner.reproduce.bench import Tables, merged
from fedner.reproduce.beyond.plans import rehearsed
from fedner.reproduce.reproduction import Inputs

WHOLE, ADAPTED = "whole encoder", "adapters"
WAYS = (WHOLE, ADAPTED)
ROUNDS, BATCH_SIZE = 15, 16
HEAD_LEARNING_RATE = 3e-3
# Few and fresh numbers take a higher learning rate than pretrained ones.
LEARNING_RATES = {WHOLE: 1e-4, ADAPTED: 3e-3}
RANK, ALPHA = 8, 16.0
# How much longer a sentence takes than in a tagger on frozen features, about.
COST = 2.0
ENCODER_WORDS = (
    f"A trained encoder: FedAvg, {ROUNDS} rounds of one epoch at home, batches of {BATCH_SIZE}, "
    f"Adam {LEARNING_RATES[WHOLE]:g} for the whole encoder, {LEARNING_RATES[ADAPTED]:g} for "
    f"adapters of rank {RANK} on query and value, {HEAD_LEARNING_RATE:g} for emissions and CRF, "
    "which are private. Learning rates were picked in short runs of one seed."
)

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
_LETTERS = [*string.ascii_lowercase, *string.digits, *string.punctuation]
_LONGEST = 64


def is_trainable(context: str) -> bool:
    """Whether a context encoder is one that can be trained: a Hugging Face folder, or the hub's."""
    return context.startswith("hub:") or (Path(context) / "config.json").is_file()


def encoder_tables(
    inputs: Inputs, way: str, context: str, changes: Tables | None = None
) -> dict[str, Any]:
    """Return the tables of a federation that trains an encoder.

    Args:
        inputs: What the study runs on.
        way: Whole, or adapters.
        context: The encoder.
        changes: What the study sets otherwise.
    """
    rate = LEARNING_RATES[way]
    adam = {"name": "adam", "learning_rate": rate}
    tables: dict[str, Any] = {
        "model": {"recipe": "transformer"},
        "embeddings": {"words": "hashed", "trainable": False, "context": context},
        "partition": {"shared": "encoder"},
        "algorithm": {"name": "fedavg", "local": {"optimizer": adam, "epochs": 1}},
        "local_optimizer": {
            "learning_rate": HEAD_LEARNING_RATE,
            "encoder_learning_rate": rate,
            "schedule": "linear",
        },
        "training": {
            "rounds": ROUNDS,
            "batch_size": BATCH_SIZE,
            "evaluate_every": 0,
            "checkpoint_every": 0,
        },
    }
    if way == ADAPTED:
        tables["model"]["adapter"] = {"rank": RANK, "alpha": ALPHA}
    return rehearsed(merged(tables, changes or {}), inputs)


def rehearsal_encoder(folder: Path) -> str:
    """Write a Hugging Face encoder of random weights, for rehearsals; return its folder.

    Raises:
        FednerError: The library that trained encoders need is not there.
    """
    path = folder / "rehearsal-encoder"
    if not (path / "config.json").is_file():
        unfinished = folder / f"rehearsal-encoder-{os.getpid()}"
        unfinished.mkdir(parents=True, exist_ok=True)
        _save_encoder(unfinished)
        try:
            unfinished.rename(path)
        except OSError:  # another process was first
            shutil.rmtree(unfinished)
    return str(path)


def _save_encoder(folder: Path) -> None:
    try:
        transformers = importlib.import_module("transformers")
        tokenizers = importlib.import_module("tokenizers")
    except ImportError:
        raise FednerError(
            "a study of trained encoders needs transformers", "pip install 'fedner[transformers]'"
        ) from None
    pieces = [*_SPECIAL, *_LETTERS, *(f"##{each}" for each in _LETTERS)]
    sizes = transformers.BertConfig(
        vocab_size=len(pieces),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=_LONGEST,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = transformers.BertModel(sizes)
    sizes.save_pretrained(folder)
    save_file(model.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})
    _save_tokenizer(folder, pieces, transformers, tokenizers)


def _save_tokenizer(folder: Path, pieces: list[str], transformers: Any, tokenizers: Any) -> None:
    """Write a tokenizer that splits every word into known letters."""
    numbers = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(numbers, unk_token=_SPECIAL[1]))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    named = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named).save_pretrained(
        folder
    )
