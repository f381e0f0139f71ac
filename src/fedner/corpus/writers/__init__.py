"""One file per format that fedner writes."""

from fedner.corpus.writers.columns import write_columns
from fedner.corpus.writers.jsonl import write_documents, write_jsonl

__all__ = ["write_columns", "write_documents", "write_jsonl"]
