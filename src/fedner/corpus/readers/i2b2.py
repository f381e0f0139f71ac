"""De-identification of i2b2 2014 and n2c2/CEGS N-GRID 2016: one XML file for each record.

    <?xml version="1.0" encoding="UTF-8" ?>
    <deIdi2b2>
    <TEXT><![CDATA[Record date: 2067-05-03 ...]]></TEXT>
    <TAGS>
    <DATE id="P0" start="14" end="24" text="2067-05-03" TYPE="DATE" comment="" />
    </TAGS>
    </deIdi2b2>

Stubbs and Uzuner, "Annotating longitudinal clinical narratives for de-identification" (2015).
Offsets count characters of the text, half-open. The label is the name of the tag (NAME, DATE,
LOCATION, ...), or its TYPE (PATIENT, DOCTOR, ...) with `types = "fine"`. Files are called
PATIENT-RECORD.xml, and so they say whose text it is. Other tags (those of the tracks on risk
factors) have no offsets and are left out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from fedner.corpus.document import Document
from fedner.corpus.files import display_name, head, opened, stem
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.readers import standoff, xml_files
from fedner.corpus.readers.extras import Fault, attempt, required
from fedner.corpus.readers.options import option
from fedner.corpus.readers.reader import Reader

REMARK_OTHER = "tag without offsets (left out)"
REMARK_NO_PATIENT = "file whose name does not say whose record it is (expected 110-01.xml)"

_ROOT, _SUFFIX, _MAX_WALK = "deIdi2b2", ".xml", 20_000
_PATIENT = re.compile(r"(?P<patient>[0-9]+)-[0-9]+")


@dataclass(frozen=True, slots=True)
class I2b2Options:
    """The options of the format.

    Attributes:
        types: Whether labels are the seven categories or their sub-types.
    """

    types: Literal["coarse", "fine"] = option(
        "coarse", "coarse: NAME, DATE, LOCATION, ...; fine: PATIENT, DOCTOR, HOSPITAL, ..."
    )


def recognise(path: Path) -> str | None:
    """Say why a file, or some file under a folder, looks like a record of i2b2."""
    for file in islice(_files(path), _MAX_WALK):
        if f"<{_ROOT}>" in (head(file, 4096) or ""):
            return f"{file.name} is XML of i2b2's de-identification ({_ROOT})"
    return None


def stream(path: Path, log: ProblemLog, options: I2b2Options) -> Iterator[Document]:
    """Read a file, or the .xml files under a folder; ids are their paths without .xml."""
    etree = required("lxml.etree", "formats", "i2b2's XML files")
    for file in _files(path):
        name = display_name(file, path)
        root = attempt(partial(_parsed, file, etree))
        if isinstance(root, Fault):
            xml_files.report(log, file, None, root.found)
        elif root.tag != _ROOT or root.find("TEXT") is None:
            log.report(
                Problem(
                    "not a corpus", str(file), None, f"<{str(root.tag)[:60]}>",
                    f"<{_ROOT}> with <TEXT> and <TAGS>", "Remove the file, or name another format.",
                )
            )  # fmt: skip
        else:
            yield _document(root, name, file, log, options)


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    yield from (each for each in standoff.walk(path) if stem(each).lower().endswith(_SUFFIX))


def _parsed(path: Path, etree: Any) -> Any:
    with opened(path) as handle:
        source = xml_files.Checked(cast("BinaryIO", handle))
        parser = etree.XMLParser(resolve_entities=False, no_network=True, strip_cdata=False)
        return etree.parse(source, parser).getroot()


def _document(root: Any, name: str, path: Path, log: ProblemLog, options: I2b2Options) -> Document:
    identity = name[: -len(_SUFFIX)] if name.lower().endswith(_SUFFIX) else name
    text = root.findtext("TEXT") or ""
    found = _PATIENT.fullmatch(Path(identity).name)
    if found is None:
        log.remark(REMARK_NO_PATIENT)
    spans = []
    for tag in root.iterfind("TAGS/*"):
        mention = _mention(tag, path, identity, log, options)
        span = None if mention is None else standoff.place(mention, text, path, identity, log)
        if span is not None:
            spans.append(span)
    patient = None if found is None else found["patient"]
    return Document(identity, text, tuple(sorted(spans)), patient=patient, source=name)


def _mention(
    tag: Any, path: Path, document: str, log: ProblemLog, options: I2b2Options
) -> standoff.TextBound | None:
    if not isinstance(tag.tag, str):  # a comment
        return None
    start, end = tag.get("start"), tag.get("end")
    if start is None and end is None:
        log.remark(REMARK_OTHER)
        return None
    label = tag.tag if options.types == "coarse" else tag.get("TYPE") or tag.tag
    identity = tag.get("id") or tag.tag
    if not all(re.fullmatch(r"-?[0-9]{1,12}", each or "") for each in (start, end)):
        problem = Problem(
            "malformed line", str(path), tag.sourceline, f"{identity} from {start} to {end}",
            "whole numbers as start and end", "Fix the tag; it is skipped.",
        )  # fmt: skip
        log.skip_mention(problem, document, label)
        return None
    fragments = ((int(start), int(end)),)
    return standoff.TextBound(tag.sourceline, identity, label, fragments, tag.get("text"))


READER = Reader(
    name="i2b2",
    description="i2b2/n2c2 de-identification XML: <deIdi2b2> with TEXT and TAGS, a file a record",
    recognise=recognise,
    stream=stream,
    sentences="rule",
    options=I2b2Options,
    reads_subfolders=True,
)
