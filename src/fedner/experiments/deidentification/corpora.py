"""The two synthetic corpora of the study, split by template or by question, with public types."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedner.corpus.document import Corpus, Document
from fedner.corpus.patients import PatientSource
from fedner.corpus.read_options import ReadOptions
from fedner.corpus.reading import read
from fedner.errors import FednerError
from fedner.seeds import seeded

TRAIN_SHARE = 0.6

TYPES: dict[str, dict[str, str]] = {
    "presidio-synth": {
        "AGE": "age of a person",
        "CREDIT_CARD": "number of a credit card",
        "DATE_TIME": "date, year or time",
        "DOMAIN_NAME": "web address or domain name",
        "EMAIL_ADDRESS": "email address",
        "GPE": "name of a city, country or state",
        "IBAN_CODE": "number of a bank account",
        "IP_ADDRESS": "internet address of a computer",
        "NRP": "nationality, religion or political group",
        "ORGANIZATION": "name of an organisation or company",
        "PERSON": "name of a person",
        "PHONE_NUMBER": "phone number",
        "STREET_ADDRESS": "street address of a person or company",
        "TITLE": "title before a name, as Mr or Dr",
        "US_DRIVER_LICENSE": "number of a driving licence",
        "US_SSN": "social security number",
        "ZIP_CODE": "postal code",
    },
    "synthetic-phi-queries": {
        "ACCOUNT_NUMBER": "number of a bank account",
        "CERTIFICATE_LICENSE_NUMBER": "number of a certificate or driving licence",
        "DATE": "date, year or time",
        "EMAIL_ADDRESS": "email address",
        "FAX_NUMBER": "fax number",
        "GEOGRAPHIC_LOCATION": "name of a hospital, city, country or other place",
        "HEALTH_PLAN_BENEFICIARY_NUMBER": "number of a health insurance",
        "IP_ADDRESS": "internet address of a computer",
        "MEDICAL_RECORD_NUMBER": "medical record number of a patient",
        "NAME": "name of a person",
        "PHONE_NUMBER": "phone number",
        "SOCIAL_SECURITY_NUMBER": "social security number",
        "UNIQUE_IDENTIFIER": "another number that identifies a patient",
    },
}
"""What each corpus annotates, and what that means: one line a type."""

LOOKED_FOR: dict[str, tuple[str, ...]] = {
    "presidio-synth": (
        "CREDIT_CARD", "DATE_TIME", "DOMAIN_NAME", "EMAIL_ADDRESS", "GPE", "IBAN_CODE",
        "IP_ADDRESS", "NRP", "PERSON", "PHONE_NUMBER", "US_DRIVER_LICENSE", "US_SSN",
    ),
    "synthetic-phi-queries": (
        "DATE", "EMAIL_ADDRESS", "FAX_NUMBER", "GEOGRAPHIC_LOCATION", "IP_ADDRESS", "NAME",
        "PHONE_NUMBER", "SOCIAL_SECURITY_NUMBER",
    ),
}  # fmt: skip
"""The types that Presidio's own recognizers look for, whatever they call them."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A corpus in two: what is trained on, and what a threshold is chosen and measured on."""

    train: Corpus
    held_out: Corpus

    def first(self, number: int) -> Corpus:
        """Return the first documents of the training part: a platform with that many."""
        documents = self.train.documents[:number]
        return Corpus(self.train.name, self.train.labels, documents)


def load(data: Path, name: str) -> Corpus:
    """Read one of the corpora from the folder of development corpora.

    The group of a document is the template that it was made from; of questions, the question.

    Raises:
        FednerError: There is no such corpus, or the folder does not hold it.
    """
    if name not in TYPES:
        raise FednerError(f"no corpus {name!r}", f"There are {', '.join(TYPES)}.")
    has_templates = name == "presidio-synth"
    patients = PatientSource(column="template_id") if has_templates else None
    found = read(data / name, lenient=True, options=ReadOptions(patients=patients))
    return Corpus(name, tuple(sorted(TYPES[name])), found.documents)


def parts(corpus: Corpus, seed: int) -> Parts:
    """Return the parts of a corpus by chance; documents of one template stay together."""
    groups = list(dict.fromkeys(map(_group, corpus)))
    order = seeded(seed, "deidentification", corpus.name).permutation(len(groups)).tolist()
    chosen = {groups[at] for at in order[: round(TRAIN_SHARE * len(groups))]}
    train = [document for document in corpus if _group(document) in chosen]
    shuffled = seeded(seed, "deidentification", corpus.name, "order").permutation(len(train))
    held_out = [document for document in corpus if _group(document) not in chosen]
    return Parts(_of(corpus, [train[at] for at in shuffled.tolist()]), _of(corpus, held_out))


def _group(document: Document) -> str:
    return document.patient or document.id


def _of(corpus: Corpus, documents: Sequence[Document]) -> Corpus:
    return Corpus(corpus.name, corpus.labels, tuple(documents))
