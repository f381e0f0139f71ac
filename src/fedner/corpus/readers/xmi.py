"""UIMA CAS XMI, as INCEpTION and WebAnno export it: NAME.xmi with TypeSystem.xml beside them.

See https://inception-project.github.io/releases/33.0/docs/user-guide.html (UIMA CAS XMI) and the
UIMA reference, "XMI CAS Serialization". Read through `dkpro-cassis`, one document a file; offsets
there are UTF-16 units, which it converts to characters.

Mentions are the annotations of the layer Named entity (its `value` is the label) and of every span
layer of the project itself (`webanno.custom.*`, `custom.*`): its label is what a feature such as
`value` or `label` says, else the name of the layer. Sentences and tokens are the file's. Other
layers (parts of speech, relations, chains) are left out.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from fedner.corpus.document import Document, Segment
from fedner.corpus.files import display_name, files_in, head, opened, stem
from fedner.corpus.problems import Problem, ProblemLog
from fedner.corpus.readers import standoff, xml_files
from fedner.corpus.readers.extras import Fault, attempt, required
from fedner.corpus.readers.options import NoOptions
from fedner.corpus.readers.reader import Reader

REMARK_NO_TYPES = "no type system beside the file (that of DKPro Core is assumed)"
REMARK_NO_VALUE = "mention without a label (named after its layer)"

_NEED = "XMI files"
_SUFFIX = ".xmi"
_MAX_WALK = 20_000
NAMED_ENTITY = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
SENTENCE = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Sentence"
TOKEN = "de.tudarmstadt.ukp.dkpro.core.api.segmentation.type.Token"
_OWN_LAYERS = ("webanno.custom.", "custom.")
_STRING = "uima.cas.String"
# Features that only relations and chains have.
_NOT_A_SPAN = {"Governor", "Dependent", "next", "first"}
_LABEL_FEATURES = ("value", "label", "class", "category", "type_", "kind", "entity")


class _Mark(NamedTuple):
    """An annotation as the file has it: the name of its type, its range and what it says."""

    type: str
    begin: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class _Marks:
    """What one file holds: its text, and its annotations by what they are for."""

    text: str
    mentions: list[_Mark] = field(default_factory=list)
    sentences: list[_Mark] = field(default_factory=list)
    tokens: list[_Mark] = field(default_factory=list)


def recognise(path: Path) -> str | None:
    """Say why a file, or some file under a folder, looks like a CAS in XMI."""
    for file in _files(path, _MAX_WALK):
        if "http://www.omg.org/XMI" in (head(file, 16_384) or ""):
            return f"{file.name} is XML of the XMI namespace"
    return None


def stream(path: Path, log: ProblemLog, _options: NoOptions) -> Iterator[Document]:
    """Read a file, or the .xmi files under a folder; ids are their paths without .xmi."""
    cassis = required("cassis", "formats", _NEED)
    systems: dict[Path | None, Any] = {}
    for file in _files(path, None):
        place = _type_system_of(file, path if path.is_dir() else path.parent)
        if place not in systems:
            systems[place] = _load_types(place, cassis, log)
        name = display_name(file, path)
        identity = name[: -len(_SUFFIX)] if name.lower().endswith(_SUFFIX) else name
        marks = _read(file, systems[place], cassis)
        if isinstance(marks, Fault):
            xml_files.report(log, file, None, marks.found)
        else:
            yield _document(marks, identity, name, file, log)


def _files(path: Path, limit: int | None) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for file in islice(standoff.walk(path), limit):
        if stem(file).lower().endswith(_SUFFIX):
            yield file


def _type_system_of(file: Path, root: Path) -> Path | None:
    """Return the type system beside a file or in a folder above it, up to the root."""
    folder = file.parent
    while True:
        candidates = [
            each for each in files_in(folder) if stem(each).lower().endswith((".xml", ".tsd"))
        ]
        for each in sorted(candidates, key=lambda one: "typesystem" not in one.name.lower()):
            if "typeSystemDescription" in (head(each, 4096) or ""):
                return each
        if folder == root or root not in folder.parents:
            return None
        folder = folder.parent


def _load_types(place: Path | None, cassis: Any, log: ProblemLog) -> Any:
    """Return a type system; that of DKPro Core where there is none or it is broken."""
    if place is None:
        log.remark(REMARK_NO_TYPES)
    else:
        found = attempt(partial(_parse, place, cassis.load_typesystem))
        if not isinstance(found, Fault):
            return found
        xml_files.report(log, place, None, found.found)
    return _core_types(cassis)


@cache
def _core_types(cassis: Any) -> Any:
    found = attempt(cassis.load_dkpro_core_typesystem)
    return cassis.TypeSystem() if isinstance(found, Fault) else found


def _parse(path: Path, parse: Any) -> Any:
    """Return what a parser makes of a file."""
    with ExitStack() as stack:
        stream = cast("BinaryIO", stack.enter_context(opened(path)))
        return parse(xml_files.Checked(stream))


def _read(path: Path, types: Any, cassis: Any) -> _Marks | Fault:
    parse = partial(cassis.load_cas_from_xmi, typesystem=types, lenient=True)
    cas = attempt(partial(_parse, path, parse))
    return cas if isinstance(cas, Fault) else attempt(partial(_marks_of, cas))


def _marks_of(cas: Any) -> _Marks:
    """Return text and annotations of a CAS; whatever is wrong with it shows here."""
    text = cas.sofa_string
    if not isinstance(text, str):
        raise ValueError("no text (sofaString) in the file")
    marks = _Marks(text)
    for each in cas.select("uima.tcas.Annotation"):
        name = each.type.name
        begin, end = int(each.begin), int(each.end)
        if name == SENTENCE:
            marks.sentences.append(_Mark(name, begin, end, ""))
        elif name == TOKEN:
            marks.tokens.append(_Mark(name, begin, end, ""))
        elif _is_mention(each.type):
            marks.mentions.append(_Mark(name, begin, end, _label(each)))
    return marks


def _is_mention(kind: Any) -> bool:
    own = kind.name.startswith(_OWN_LAYERS)
    if own and _NOT_A_SPAN.isdisjoint(feature.name for feature in kind.all_features):
        return True
    while kind is not None:
        if kind.name == NAMED_ENTITY:
            return True
        kind = kind.supertype
    return False


def _label(annotation: Any) -> str:
    """Return what an annotation says of its type of entity, or nothing."""
    names = {
        feature.name.lower(): feature.name
        for feature in annotation.type.all_features
        if feature.rangeType.name == _STRING
    }
    values = (annotation[names[name]] for name in _LABEL_FEATURES if name in names)
    return next((value.strip() for value in values if isinstance(value, str) and value.strip()), "")


def _document(marks: _Marks, identity: str, name: str, path: Path, log: ProblemLog) -> Document:
    spans = []
    for number, mark in enumerate(marks.mentions, 1):
        if not mark.label and mark.type == NAMED_ENTITY:
            log.remark(REMARK_NO_VALUE)
        label = mark.label or mark.type.rpartition(".")[2]
        place = ((mark.begin, mark.end),)
        mention = standoff.TextBound(None, f"annotation {number}", label, place, None)
        if (span := standoff.place(mention, marks.text, path, identity, log)) is not None:
            spans.append(span)
    return Document(identity, marks.text, tuple(spans), _segments(marks, path, log), source=name)


def _segments(marks: _Marks, path: Path, log: ProblemLog) -> tuple[Segment, ...] | None:
    """Return the sentences with the tokens that begin in each; None where they make no sense."""
    length = len(marks.text)
    sentences = sorted((mark.begin, mark.end) for mark in marks.sentences)
    tokens = sorted((mark.begin, mark.end) for mark in marks.tokens if mark.begin != mark.end)
    if not sentences:
        if not tokens:
            return None
        sentences = [(0, length)]
    segments, position = [], 0
    for begin, end in sentences:
        first = position
        while position < len(tokens) and tokens[position][0] < end:
            position += 1
        held = tokens[first:position]
        bounds = [begin, *(bound for token in held for bound in token), end]
        is_orderly = all(left <= right for left, right in pairwise(bounds))
        if not 0 <= begin <= end <= length or not is_orderly:
            problem = Problem(
                "offset outside the text", str(path), None, f"a sentence {begin}-{end}",
                "sentences within the text, and their tokens within them and in order",
                "Export the document again; its lines are taken for sentences.", kept=True,
            )  # fmt: skip
            log.report(problem)
            return None
        starts, ends = tuple(start for start, _ in held), tuple(end for _, end in held)
        segments.append(Segment(begin, end, starts, ends) if tokens else Segment(begin, end))
    return tuple(segments)


READER = Reader(
    name="xmi",
    description="UIMA CAS XMI of INCEpTION and WebAnno: NAME.xmi with TypeSystem.xml",
    recognise=recognise,
    stream=stream,
    sentences="as given",
    options=NoOptions,
    reads_subfolders=True,
)
