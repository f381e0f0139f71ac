"""A BERT of random weights small enough for every test, with a tokenizer that splits any word."""

import importlib
import string
from pathlib import Path
from typing import Any

import torch

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
LETTERS = [*string.ascii_lowercase, *string.digits, *string.punctuation]
# Pairs keep words short; single letters and continuations cover the rest.
PAIRS = ["ha", "he", "in", "na", "re", "pa", "ra", "the", "and", "was", "fever", "rash", "nausea"]
VOCABULARY = [*SPECIAL, *LETTERS, *PAIRS, *(f"##{each}" for each in [*LETTERS, *PAIRS])]
LONGEST = 24


def save_tiny_bert(folder: Path, seed: int = 0, half: bool = False, **changes: Any) -> Path:
    """Save it as save_pretrained() does; return the folder."""
    transformers = importlib.import_module("transformers")
    sizes = {
        "vocab_size": len(VOCABULARY),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": LONGEST,
        "initializer_range": 0.3,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = transformers.BertModel(transformers.BertConfig(**{**sizes, **changes}))
    (model.half() if half else model).save_pretrained(folder)
    _tokenizer(transformers).save_pretrained(folder)
    return folder


def _tokenizer(transformers: Any) -> Any:
    tokenizers = importlib.import_module("tokenizers")
    numbers = {piece: number for number, piece in enumerate(VOCABULARY)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=1 << 30,
    )
