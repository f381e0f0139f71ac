"""Corpora: documents, spans, tag schemes, readers, writers, splits and the built-in platforms."""

from fedner.corpus.document import Corpus, Document, Segment, Span
from fedner.corpus.inspection import Inspection, inspect
from fedner.corpus.prepare import Changes, Prepared, iterate_prepared, prepare
from fedner.corpus.problems import InputProblemsError, Problem, ProblemLog
from fedner.corpus.read_options import ReadOptions
from fedner.corpus.readers import NoOptions, Reader, option, register_reader
from fedner.corpus.reading import Recognition, open_corpus, read, recognise
from fedner.corpus.sentence import Entity, Sentence
from fedner.corpus.tokenise import tokenise

__all__ = [
    "Changes",
    "Corpus",
    "Document",
    "Entity",
    "InputProblemsError",
    "Inspection",
    "NoOptions",
    "Prepared",
    "Problem",
    "ProblemLog",
    "ReadOptions",
    "Reader",
    "Recognition",
    "Segment",
    "Sentence",
    "Span",
    "inspect",
    "iterate_prepared",
    "open_corpus",
    "option",
    "prepare",
    "read",
    "recognise",
    "register_reader",
    "tokenise",
]
