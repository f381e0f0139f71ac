"""One file per annotation format, and the one table of them."""

from typing import Any

from fedner.corpus.readers import (
    ade,
    bioc,
    brat,
    cadec,
    columns,
    docbin,
    doccano,
    hf_tokens,
    i2b2,
    jsonl,
    label_studio,
    phi_queries,
    presidio,
    prodigy,
    pubtator,
    smm4h,
    xmi,
)
from fedner.corpus.readers.options import NoOptions, option
from fedner.corpus.readers.reader import Declared, Reader
from fedner.errors import FednerError

READERS: dict[str, Reader[Any]] = {
    "cadec": cadec.READER,
    "ade": ade.READER,
    "smm4h": smm4h.READER,
    "brat": brat.READER,
    "xmi": xmi.READER,
    "i2b2": i2b2.READER,
    "bioc": bioc.READER,
    "pubtator": pubtator.READER,
    "docbin": docbin.READER,
    "hf-tokens": hf_tokens.READER,
    "label-studio": label_studio.READER,
    "presidio": presidio.READER,
    "phi-queries": phi_queries.READER,
    "prodigy": prodigy.READER,
    "doccano": doccano.READER,
    "jsonl": jsonl.READER,
    "columns": columns.READER,
}
"""Every format by name, in the order of recognition: the most specific first."""


def register_reader(reader: Reader[Any]) -> None:
    """Add a reader of your own to the table, before the built-in ones.

    From then on settings, `read` and `inspect` of this process know its format by name and
    recognise it by content; its options are checked like those of every other format. Other
    processes (a worker, say) must register it too.

    >>> import fedner, pathlib
    >>> from fedner.corpus import NoOptions
    >>> def stream(path, log, options):
    ...     yield fedner.Document(path.stem, path.read_text())
    >>> reader = fedner.Reader(
    ...     "note", "a note without mentions", lambda path: None, stream, "line", NoOptions
    ... )
    >>> fedner.register_reader(reader)
    >>> _ = pathlib.Path("1.note").write_text("Nausea after aspirin.")
    >>> fedner.read("1.note", "note")
    Corpus(documents=1, types=0)

    Raises:
        FednerError: The table already has another reader of that name.
    """
    if READERS.get(reader.name, reader) is not reader:
        raise FednerError(
            f'reader "{reader.name}": found another reader of that name; expected a new name',
            f"Choose another name; taken are {', '.join(READERS)}.",
        )
    others = {name: each for name, each in READERS.items() if name != reader.name}
    READERS.clear()
    READERS.update({reader.name: reader, **others})


__all__ = ["READERS", "Declared", "NoOptions", "Reader", "option", "register_reader"]
