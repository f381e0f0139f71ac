"""One file per annotation format, and the one table of them."""

from fedner.corpus.readers import ade, brat, cadec, columns, jsonl, smm4h
from fedner.corpus.readers.reader import Declared, Reader, ReadOptions

READERS: dict[str, Reader] = {
    "cadec": cadec.READER,
    "ade": ade.READER,
    "smm4h": smm4h.READER,
    "brat": brat.READER,
    "jsonl": jsonl.READER,
    "columns": columns.READER,
}
"""Every format by name, in the order of recognition: the most specific first."""

__all__ = ["READERS", "Declared", "ReadOptions", "Reader"]
