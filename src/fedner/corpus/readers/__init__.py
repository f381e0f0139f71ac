"""One file per annotation format, and the one table of them."""

from fedner.corpus.readers import (
    ade,
    bioc,
    brat,
    cadec,
    columns,
    docbin,
    doccano,
    hf_tokens,
    jsonl,
    label_studio,
    prodigy,
    pubtator,
    smm4h,
    xmi,
)
from fedner.corpus.readers.reader import Declared, Reader, ReadOptions

READERS: dict[str, Reader] = {
    "cadec": cadec.READER,
    "ade": ade.READER,
    "smm4h": smm4h.READER,
    "brat": brat.READER,
    "xmi": xmi.READER,
    "bioc": bioc.READER,
    "pubtator": pubtator.READER,
    "docbin": docbin.READER,
    "hf-tokens": hf_tokens.READER,
    "label-studio": label_studio.READER,
    "prodigy": prodigy.READER,
    "doccano": doccano.READER,
    "jsonl": jsonl.READER,
    "columns": columns.READER,
}
"""Every format by name, in the order of recognition: the most specific first."""

__all__ = ["READERS", "Declared", "ReadOptions", "Reader"]
