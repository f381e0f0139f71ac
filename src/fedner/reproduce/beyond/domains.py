"""Two other domains: finance, and the removal of what identifies people.

Each platform alone, with FedNER among the platforms of its domain, and joined: it receives what the
others of its domain trained and sends nothing. A domain of one corpus is dealt to equal shards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedner.corpus.document import Corpus
from fedner.corpus.groups import Unit
from fedner.reproduce.bench import Bench, score_measures
from fedner.reproduce.beyond.joining_later import (
    JOINED_WORDS,
    KEPT,
    ROUNDS,
    TRAININGS,
    Newcomer,
    joined_rows,
    partner_tables,
)
from fedner.reproduce.beyond.plans import (
    FEDNER_WORDS,
    LOCAL_WORDS,
    cost_of,
    fedner_tables,
    mean_f1,
    rows_of,
)
from fedner.reproduce.beyond.sharding import equal_shards
from fedner.reproduce.estimates import chosen, paired_gain
from fedner.reproduce.reproduction import (
    Cell,
    Entry,
    Factor,
    Figure,
    Inputs,
    Panel,
    Reproduction,
    Row,
    Rows,
    Series,
    Shown,
    Table,
)
from fedner.settings import Settings

NUM_SHARDS = 3
ALONE, FEDNER, JOINED = "alone", "FedNER", "joined"
ARMS = (ALONE, FEDNER, JOINED)
OTHERS = "others"
DOMAIN_OF = {
    "sec-fin": "finance",
    "presidio-synth": "de-identification",
    "synthetic-phi-queries": "de-identification",
    # A rehearsal has a domain of each kind.
    "case-reports": "one corpus",
    "forum-posts": "two corpora",
    "social-posts": "two corpora",
}
# One line a type, as a platform would write it into [types].
DESCRIPTIONS = {
    "ACCOUNT_NUMBER": "number of a bank or customer account",
    "AGE": "age of a person",
    "CERTIFICATE_LICENSE_NUMBER": "number of a certificate or licence",
    "CREDIT_CARD": "number of a credit card",
    "DATE": "date of an event in a patient's history",
    "DATE_TIME": "date or time",
    "DOMAIN_NAME": "address of a web site",
    "EMAIL_ADDRESS": "e-mail address",
    "FAX_NUMBER": "fax number",
    "GEOGRAPHIC_LOCATION": "name of a place, hospital, city, country or other location",
    "GPE": "name of a city, country or other location",
    "HEALTH_PLAN_BENEFICIARY_NUMBER": "number of a member of a health plan",
    "IBAN_CODE": "international number of a bank account",
    "IP_ADDRESS": "address of a computer in a network",
    "LOC": "name of a place, city, country or other location",
    "MEDICAL_RECORD_NUMBER": "number of a patient's record",
    "MISC": "name of something else than a person, place or organisation",
    "NAME": "name of a person",
    "NRP": "nationality, religion or political group of a person",
    "ORG": "name of an organisation, company, team or institution",
    "ORGANIZATION": "name of an organisation, company, team or institution",
    "PER": "name of a person",
    "PERSON": "name of a person",
    "PHONE_NUMBER": "telephone number",
    "SOCIAL_SECURITY_NUMBER": "social security number of a person",
    "STREET_ADDRESS": "street and number of an address",
    "TITLE": "title of a person, as Mr. or Dr.",
    "UNIQUE_IDENTIFIER": "number or code that identifies a person",
    "US_DRIVER_LICENSE": "number of a driving licence",
    "US_SSN": "social security number of a person",
    "ZIP_CODE": "postal code",
}
DEALT_WORDS = (
    f"A domain of one corpus is dealt to {NUM_SHARDS} equal shards; shard-01 stands for all of "
    "them where a platform is alone or joins. Texts of one template or document stay together."
)
DOMAINS_WORDS = (FEDNER_WORDS, LOCAL_WORDS, JOINED_WORDS, DEALT_WORDS)


@dataclass(frozen=True, slots=True)
class Domain:
    """The platforms of one domain.

    Attributes:
        name: The domain.
        corpora: The inputs that belong to it.
    """

    name: str
    corpora: tuple[str, ...]

    @property
    def is_dealt(self) -> bool:
        """Whether it is one corpus, dealt to platforms that do not exist."""
        return len(self.corpora) == 1

    @property
    def platforms(self) -> tuple[str, ...]:
        """Its platforms."""
        shards = tuple(f"shard-{number + 1:02d}" for number in range(NUM_SHARDS))
        return shards if self.is_dealt else self.corpora

    @property
    def scored(self) -> tuple[str, ...]:
        """The platforms that are looked at; equal shards are alike."""
        return self.platforms[:1] if self.is_dealt else self.platforms

    def column(self, platform: str) -> str:
        """Return what a table calls a platform."""
        return f"{self.corpora[0]}, a third" if self.is_dealt else platform


def domains(inputs: Inputs) -> list[Domain]:
    """Return the domains of the inputs; corpora that nobody knows are one together."""
    found: dict[str, list[str]] = {}
    for name in inputs.names:
        found.setdefault(DOMAIN_OF.get(name, OTHERS), []).append(name)
    return [Domain(name, tuple(held)) for name, held in found.items()]


def cells(inputs: Inputs, _rows: Rows) -> list[Cell]:
    """Return all arms of all domains, whole repeats one after the other."""
    return [
        cell
        for seed in inputs.seeds
        for each in domains(inputs)
        for cell in _of(inputs, each, seed)
    ]


def _of(inputs: Inputs, domain: Domain, seed: int) -> list[Cell]:
    whole = cost_of(inputs, names=domain.corpora)
    own = whole / len(domain.platforms)
    held: dict[str, Factor] = {"domain": domain.name, "repeat": seed}
    where = f"{domain.name}/repeat-{seed}"
    found = [Cell(f"{FEDNER}/{where}", {**held, "arm": FEDNER}, whole)]
    rounds = ROUNDS * 0.032 * (len(domain.platforms) - 1)
    for name in domain.scored:
        alone = {**held, "arm": ALONE, "platform": name}
        found.append(Cell(f"{ALONE}/{name}/{where}", alone, 2 * own))
        joined = {**held, "arm": JOINED, "platform": name}
        found.append(Cell(f"{JOINED}/{name}/{where}", joined, rounds + own / 60 * 15 * TRAININGS))
    return found


@dataclass(frozen=True, slots=True)
class _Ready:
    """The platforms of a domain for one seed."""

    entries: Mapping[str, Mapping[str, Any]]
    corpora: Mapping[str, Corpus] | None

    def settings(self, bench: Bench, seed: int, tables: Any, names: Sequence[str]) -> Settings:
        return bench.settings(seed, tables, [self.entries[name] for name in names])


def _ready(bench: Bench, domain: Domain, seed: int) -> _Ready:
    if domain.is_dealt:
        shards = equal_shards(bench, domain.corpora, NUM_SHARDS, seed)
        return _Ready({each["name"]: each for each in shards.entries}, shards.corpora)
    entries = {
        name: bench.entry(name, split={"by": unit_of(bench.corpus(name))})
        for name in domain.corpora
    }
    return _Ready(entries, None)


def unit_of(corpus: Corpus) -> Unit:
    """Return what a split keeps together: templates or patients, else documents."""
    return "patient" if all(each.patient for each in corpus) else "document"


def run(cell: Cell, bench: Bench) -> Sequence[Row]:
    """Train a federation, a platform by itself, or one that joins the others."""
    seed, arm = int(cell.factors["repeat"]), cell.factors["arm"]
    domain = next(each for each in domains(bench.inputs) if each.name == cell.factors["domain"])
    ready = _ready(bench, domain, seed)
    tables = fedner_tables(bench.inputs)
    settings = ready.settings(bench, seed, tables, domain.platforms)
    if arm == FEDNER:
        return rows_of(bench.federated(cell.key, settings, ready.corpora), cell.factors)
    name = str(cell.factors["platform"])
    if arm == ALONE:
        scores = bench.local_only(settings, name, ready.corpora)
        return [Row(cell.factors, score_measures(scores))]
    types = _described(bench.inputs, domain)
    others = [each for each in domain.platforms if each != name]
    partners = ready.settings(bench, seed, partner_tables(bench.inputs, types), others)
    corpus = None if ready.corpora is None else ready.corpora[name]
    size = sum(bench.inputs.platform(each).num_sentences for each in domain.corpora)
    own = int(0.8 * size / len(domain.platforms))
    newcomer = Newcomer(ready.entries[name], own, corpus, types=_own_types(ready, name))
    return joined_rows(bench, cell.key, cell.factors, partners, newcomer, ready.corpora)


def _described(inputs: Inputs, domain: Domain) -> dict[str, str]:
    labels = {label for name in domain.corpora for label in inputs.platform(name).labels}
    return {label: DESCRIPTIONS.get(label, label) for label in sorted(labels)}


def _own_types(ready: _Ready, name: str) -> dict[str, str]:
    return {label: DESCRIPTIONS.get(label, label) for label in ready.entries[name]["labels"]}


def show(rows: Rows, inputs: Inputs) -> Shown:
    """Return F1 by arm and platform, gains over being alone, and what joining is made of."""
    return Shown((_scores(rows, inputs), _joining(rows, inputs)), (_bars(rows, inputs),))


def _factors(domain: Domain, arm: str, platform: str) -> dict[str, Factor]:
    found: dict[str, Factor] = {"domain": domain.name, "arm": arm, "platform": platform}
    return {**found, "method": KEPT} if arm == JOINED else found


def _places(inputs: Inputs) -> list[tuple[Domain, str]]:
    return [(domain, name) for domain in domains(inputs) for name in domain.scored]


def _scores(rows: Rows, inputs: Inputs) -> Table:
    places = _places(inputs)
    lines: list[tuple[Entry, ...]] = [
        (arm, *(mean_f1(rows, _factors(domain, arm, name)) for domain, name in places))
        for arm in ARMS
    ]
    for arm in ARMS[1:]:
        gains = (
            paired_gain(
                rows, "strict_f1", _factors(domain, ALONE, name), _factors(domain, arm, name)
            )
            for domain, name in places
        )
        lines.append((f"gain of {arm}", *gains))
    return Table(
        "domains",
        "Strict F1 alone, with FedNER and joined",
        ("trained", *(domain.column(name) for domain, name in places)),
        tuple(lines),
        ("Gains are paired by repeat. Joined: what cross-validation keeps.",),
    )


def _joining(rows: Rows, inputs: Inputs) -> Table:
    """Return the methods of those that join: the same model, received or from scratch."""
    held = chosen(rows, arm=JOINED)
    found = dict.fromkeys(row.factors["method"] for row in held if row.factors["method"] != KEPT)
    places = _places(inputs)
    lines = []
    for method in (*found, KEPT):
        entries = (
            mean_f1(rows, {**_factors(domain, JOINED, name), "method": method})
            for domain, name in places
        )
        lines.append((str(method), *entries))
    return Table(
        "domains-joining",
        "Strict F1 of a platform that joins, by method",
        ("method", *(domain.column(name) for domain, name in places)),
        tuple(lines),
        ("A described head on words, word shapes and context; local-only is its own best.",),
    )


def _bars(rows: Rows, inputs: Inputs) -> Figure:
    places = _places(inputs)
    series = tuple(
        Series(arm, tuple(mean_f1(rows, _factors(domain, arm, name)) for domain, name in places))
        for arm in ARMS
    )
    marks = tuple(domain.column(name) for domain, name in places)
    return Figure(
        "domains", "Finance and de-identification", (Panel("", marks, series, ""),), "bars"
    )


DOMAINS = Reproduction(
    name="domains",
    source="beyond both papers",
    title="finance and de-identification: alone, with FedNER, joined",
    layout="federation",
    corpora=(
        ("sec-fin", "presidio-synth", "synthetic-phi-queries"),
        ("presidio-synth", "synthetic-phi-queries"),
        ("sec-fin",),
    ),
    stages=(cells,),
    run=run,
    show=show,
    settings=DOMAINS_WORDS,
    repeats=5,
)
