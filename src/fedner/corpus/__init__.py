"""Corpora: documents, spans, tag schemes, readers, writers, splits and the built-in platforms."""
