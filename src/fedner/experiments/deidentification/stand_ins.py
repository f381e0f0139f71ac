"""Small built-in stand-ins for the two corpora: a rehearsal needs no data.

Texts of our own, with three of the types of each corpus and ten templates, taken in turn.
"""

from collections.abc import Sequence

from fedner.corpus.document import Corpus, Document, Span
from fedner.errors import FednerError
from fedner.experiments.deidentification.corpora import TYPES

DOCUMENTS = 40
_FIRST = ("Anna", "Bob", "Carl", "Dora", "Emil")
_LAST = ("Lee", "Smith", "Jones", "Brown", "Novak", "Silva", "Weber")
_TITLES = ("Mr", "Mrs", "Dr")

# {LABEL} becomes a mention.
_TEMPLATES: dict[str, tuple[str, ...]] = {
    "presidio-synth": (
        "Please call {TITLE} {PERSON} on {PHONE_NUMBER} about the order .",
        "Hello , I am {PERSON} . My number is {PHONE_NUMBER} .",
        "{TITLE} {PERSON} moved , so send the box later .",
        "The parcel of {TITLE} {PERSON} came back ; ring {PHONE_NUMBER} .",
        "Is {PHONE_NUMBER} still the number of {TITLE} {PERSON} ?",
        "A letter for {TITLE} {PERSON} waits at the desk .",
        "Ask {PERSON} for the key , or try {PHONE_NUMBER} .",
        "We met {TITLE} {PERSON} at the fair .",
        "Dear {TITLE} {PERSON} , thank you for calling {PHONE_NUMBER} .",
        "Cancel the table of {TITLE} {PERSON} , {PHONE_NUMBER} .",
    ),
    "synthetic-phi-queries": (
        "Is {NAME} , record {MEDICAL_RECORD_NUMBER} , better today ?",
        "Which drugs does {NAME} take ? Reach her on {PHONE_NUMBER} .",
        "Show the last visit of record {MEDICAL_RECORD_NUMBER} .",
        "Did {NAME} ( {MEDICAL_RECORD_NUMBER} ) call from {PHONE_NUMBER} ?",
        "Send the results of {NAME} to {PHONE_NUMBER} .",
        "What did the doctor of {NAME} write in {MEDICAL_RECORD_NUMBER} ?",
        "{NAME} asks for a new date , phone {PHONE_NUMBER} .",
        "Compare {MEDICAL_RECORD_NUMBER} with the record of {NAME} .",
        "Call {PHONE_NUMBER} and tell {NAME} that all is well .",
        "Has {NAME} , {MEDICAL_RECORD_NUMBER} , an allergy ?",
    ),
}  # fmt: skip


def stand_in(name: str, documents: int = DOCUMENTS) -> Corpus:
    """Return a stand-in for one of the corpora; texts of one template are one group.

    >>> corpus = stand_in("presidio-synth", 3)
    >>> [[span.label for span in document.spans] for document in corpus][1:]
    [['PERSON', 'PHONE_NUMBER'], ['TITLE', 'PERSON']]

    Raises:
        FednerError: There is no such corpus.
    """
    if name not in _TEMPLATES:
        raise FednerError(f"no corpus {name!r}", f"There are {', '.join(_TEMPLATES)}.")
    templates = _TEMPLATES[name]
    made = [_document(templates, number) for number in range(documents)]
    return Corpus(name, tuple(sorted(TYPES[name])), tuple(made))


def _document(templates: Sequence[str], number: int) -> Document:
    template = number % len(templates)
    text, spans = "", []
    for part in templates[template].split():
        if text:
            text += " "
        label = part.strip("{}")
        words = part if part == label else _mention(label, number)
        if part != label:
            spans.append(Span.of(len(text), len(text) + len(words), label))
        text += words
    return Document(f"text-{number}", text, tuple(spans), patient=f"template-{template}")


def _mention(label: str, number: int) -> str:
    if label in ("PERSON", "NAME"):
        return f"{_FIRST[number % len(_FIRST)]} {_LAST[number % len(_LAST)]}"
    if label == "TITLE":
        return _TITLES[number % len(_TITLES)]
    if label == "PHONE_NUMBER":
        return f"555-{1000 + 37 * number}"
    return f"{70000 + 113 * number}"
