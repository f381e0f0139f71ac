"""One file per annotation format, and the one table of them."""

from fedner.corpus.readers.reader import Reader, ReadOptions

READERS: dict[str, Reader] = {}
"""Every format by name, in the order of recognition: the most specific first."""

__all__ = ["READERS", "ReadOptions", "Reader"]
