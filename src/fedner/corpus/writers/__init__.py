"""One file per format that fedner writes, and the one table of them."""

from fedner.corpus.writers import annotation_tools, bioc, brat, columns, jsonl, xmi
from fedner.corpus.writers.bioc import write_bioc, write_bioc_json
from fedner.corpus.writers.brat import write_brat
from fedner.corpus.writers.columns import write_columns
from fedner.corpus.writers.jsonl import write_documents, write_jsonl
from fedner.corpus.writers.writer import Losses, WriteOptions, Writer, Written

WRITERS: dict[str, Writer] = {
    "jsonl": jsonl.WRITER,
    "columns": columns.WRITER,
    "brat": brat.WRITER,
    "bioc": bioc.XML_WRITER,
    "bioc-json": bioc.JSON_WRITER,
    "label-studio": annotation_tools.LABEL_STUDIO,
    "doccano": annotation_tools.DOCCANO,
    "xmi": xmi.WRITER,
}
"""Every format that can be written, by name."""

__all__ = [
    "WRITERS",
    "Losses",
    "WriteOptions",
    "Writer",
    "Written",
    "write_bioc",
    "write_bioc_json",
    "write_brat",
    "write_columns",
    "write_documents",
    "write_jsonl",
]
