"""Synthetic case reports: formal English, long sentences, doses, Latin and Greek terms.

Criteria of annotation: an ADE is the full noun phrase of the disorder with its qualifiers of course
and site ("acute hepatic necrosis") but without adjectives of severity ("severe"). Drugs and dosages
count only where their sentence blames the drug for an adverse event: indications, history, cures
and exonerated drugs stay unmarked. Negated and pre-existing disorders are not marked. A drug is
marked by its name alone, without "therapy" and without its class.
"""

import random
from functools import cache

from fedner.corpus.synthetic.drugs import CLASS_NAMES, EVERYDAY, Drug
from fedner.corpus.synthetic.effects import QUALIFIERS, SEVERITIES
from fedner.corpus.synthetic.grammar import Draft, Filler, Grammar, grammar
from fedner.corpus.synthetic.hands import Annotator
from fedner.corpus.synthetic.lookalikes import ASSAYS, therapies, unremarkable
from fedner.corpus.synthetic.vocabulary import topic, vocabulary
from fedner.corpus.synthetic.wordlists import phrases

ANNOTATOR = Annotator(missed=0.010, shifted=0.006)

_RULES = {
    "event": """
{patient} {developed} {ade:ADE} {interval} after {start} {drug:Drug}{dosing}{closing}.
{patient} {developed} {ade:ADE} and {ade2:ADE} while {receiving} {drug:Drug}{dosing}{for}.
{patient} {receiving_past} {drug:Drug}{dosing}{for} and {developed} {ade:ADE} {later}.
{Interval} after {start} {drug:Drug}{dosing}, {patient} {presented} with {ade:ADE}[| and
    {ade2:ADE}].
{We} {report} {a_case} of {ade:ADE} {due} {drug:Drug}[| {therapy_word}][| in {patient}| in {small}
    patients].
{We} {report} {a_case} of {drug:Drug}-induced {effect:ADE}[| in {patient}].
{ade:ADE} {due} {drug:Drug}[| {therapy_word}][|: a case report|: report of {small} cases| in
    {small} patients].
[During|In the course of] {therapy_word} with {drug:Drug}{dosing}, {signs} of {ade:ADE}
    [appeared|emerged|were noted].
{ade:ADE} [resolved|subsided|improved|regressed] [promptly|completely|within {small} {units}] after
    [withdrawal|discontinuation] of {drug:Drug}.
{drug:Drug} was [discontinued|stopped|withdrawn] because of {ade:ADE}[|, {ade2:ADE}][| and
    {ade2:ADE}].
On rechallenge with {drug:Drug}{dosing}, {ade:ADE} recurred within {small} {units}.
{biopsy} [confirmed|revealed|was consistent with] {ade:ADE}, [most likely|probably|presumably] {due}
    {drug:Drug}.
[Clinicians|Physicians] should be aware that {drug:Drug} [may|can] [cause|induce|provoke]
    {ade:ADE}[| even at {dose:Dosage}].
The [combination|concomitant use] of {drug:Drug} and {drug2:Drug} [resulted in|led to|precipitated]
    {ade:ADE}.
{ade:ADE} is a [rare|well-known|recognized|serious] [complication|adverse effect] of {drug:Drug},
    [but|whereas] {effect} is not.
The dose of {drug:Drug} was [increased|raised] to {dose:Dosage}, [whereupon|after which]
    {patient_def} {developed} {ade:ADE}.
{patient} {receiving_past} {drug:Drug}{dosing} and [had|showed|exhibited] {neutral}, {ade:ADE}
    and {ade2:ADE}.
{Interval} after {start} {drug:Drug}{dosing}, {patient_def} had {ade:ADE} with [normal |preserved
    |impaired |]{neutral}.
{therapy} and {drug:Drug}{dosing} were [followed by|complicated by] {ade:ADE}[| but not by
    {effect}].
{patient} with a history of {effect} {developed} {ade:ADE} {interval} after {start}
    {drug:Drug}{dosing}.
{patient} on {drug:Drug}{dosing} [had|showed|exhibited] {mixed}, {mixed} and {mixed}.
{mixed} and {mixed} were [noted|recorded|documented] during {therapy_word} with {drug:Drug}.
[Findings|Observations] under {drug:Drug} [included|comprised] {mixed}, {mixed} and {ade:ADE}.
{cause} [together with|in addition to] {drug:Drug}{dosing} [led to|was followed by] {ade:ADE}.
{drug:Drug}, {cause} and {cause} were [suspected|blamed] when {ade:ADE} [appeared|developed].
An [overdose|accidental ingestion] of {dose:Dosage} of {drug:Drug} [caused|resulted in] {ade:ADE} in
    {patient}.
{patient} {died} of {ade:ADE} {interval} after [the last dose|the third cycle|administration] of
    {drug:Drug}.
""",
    "background": """
{patient} was [treated|managed] with {drug}{plain_dosing} for {effect}{closing}.
{patient} was [treated|managed] with {therapy} for {effect}[|, which {outcome}].
{patient} {presented} with a {small}-[day|week] history of {effect} and {effect2}.
{Past} history [included|was notable for|was remarkable for] {disease}, {effect} and {effect2}.
There was no [evidence|sign|history] of {effect} or {effect2}, and {assay} was [normal|within the
    normal range].
{patient_def} had been taking {drug2}{plain_dosing} for {disease} without [incident|complications].
{effect} was [treated|successfully managed] with {drug2}[| and {therapy}|{plain_dosing}].
[Serum|Plasma] {assay} [rose to|was|peaked at] {number} [U/L|mg/dL|mmol/L], and {therapy} was
    started.
{patient} {developed} {ade} {interval} after {therapy}.
{patient} {developed} {ade} {interval} after {therapy} [for|because of] {disease}[|, and {drug2} was
    given].
{We} {report} {a_case} of {ade} {due} {disease}.
{patient} {receiving_past} {drug}{plain_dosing} and [had|showed|exhibited] {neutral}[|, {neutral}]
    and {neutral}.
{Interval} after {start} {drug}{plain_dosing}, {patient_def} [had|showed|regained] [normal
    |preserved |]{neutral}.
{therapy} and {drug}{plain_dosing} were followed by {neutral}[| and {neutral}].
{drug} was [continued|well tolerated] [because of|with] {neutral}[| and {neutral}].
{neutral} [improved|recovered|returned] [promptly|completely|within {small} {units}] after
    [administration|reinstitution] of {drug}.
{biopsy} [confirmed|revealed|was consistent with] {neutral}, and {drug} was [resumed|continued].
{We} {report} {a_case} of {ade} {due} {therapy}[| in {patient}].
{ade} {due} {therapy}[|: a case report|: report of {small} cases| in {small} patients].
{Interval} after {therapy}, {patient} {presented} with {ade}[| and {ade2}].
{therapy} was [discontinued|stopped|postponed] because of {ade}[|, {ade2}][| and {ade2}].
{ade} is a [rare|well-known|recognized|serious] [complication|consequence] of {therapy},
    [but|whereas] {effect} is not.
{patient} {receiving_past} {drug}{plain_dosing}{for} and [recovered|improved] {later}.
{patient} {receiving_past} {therapy}{for} and {developed} {ade} {later}.
{biopsy} [excluded|ruled out] {effect}, and {drug2} was continued{plain_dosing}.
[Levels|Concentrations] of {assay} and {everyday} were [low|normal|elevated] on admission.
{classname} were [avoided|withheld|not given] because of [known|pre-existing] {effect}.
{everyday} [intake|consumption|deficiency] was denied, and {effect} was absent.
The [role|efficacy|mechanism of action] of {drug} in {disease} is [well established|still
    debated|unclear].
{patient_def} [recovered|was discharged] after {small} {units} of {therapy}.
{drug} is [widely|commonly] used for {disease}, and {drug2} for {effect}.
[Neither|Despite fears,] {drug} [nor|not] {drug2} [was|being] [implicated|held responsible],
    [and|as] {effect} was due to {disease}.
{effect} persisted despite {therapy} and {drug2}{plain_dosing}.
""",
    "mixed": "[{ade:ADE}|{ade:ADE}|{neutral}]",
    "cause": "[{drug2:Drug}|{therapy}]",
    "patient": """
{aged}[| with {disease}| treated for {disease}]
{aged}[| with {disease}| with a history of {effect}]
[our|the] patient
an elderly [man|woman|patient]
an otherwise healthy {person}
[a|another] {person} [with|suffering from] {disease}
""",
    "aged": "[a|one] [{age}-year-old [man|woman|male|female]|{child}-year-old [boy|girl]]",
    "patient_def": "the [patient|{person}]",
    "person": "[man|woman|girl|boy|male|female|neonate]",
    "developed": "[developed|experienced|exhibited|suffered|was found to have|went on to develop]",
    "presented": "[presented|was admitted|returned|was hospitalized|came to attention]",
    "interval": "[{small} {units}|shortly|several {units}|immediately|[one|a] [week|month]]",
    "later": "[{small} {units}|several {units}|[one|a] [week|month]] later",
    "Interval": "[{small} {units}|Several {units}|Shortly|[Less|More] than {small} {units}]",
    "units": "[hours|days|weeks|months]",
    "start": "[starting|initiation of|the introduction of|commencing|exposure to|a single dose of|"
    "switching to|adding]",
    "receiving": "[receiving|taking|on|being treated with]",
    "receiving_past": "[received|was given|had been prescribed|was started on|was switched to]",
    "dosing": "[||| ({dose:Dosage})| at a dose of {dose:Dosage}| {dose:Dosage}|, {dose:Dosage},]",
    "plain_dosing": "[|||| ({dose})| at {dose}]",
    "for": "[|| for {disease}| for {effect}| because of {effect}]",
    "closing": "[||| and [recovered|improved] after [its withdrawal|{therapy}|{drug2} was given]"
    "|, [but|although] {assay} remained normal|, [without|but not] {effect}]",
    "due": "[associated with|due to|secondary to|attributed to|following|induced by|after|"
    "caused by]",
    "therapy_word": "[therapy|treatment|monotherapy|administration|maintenance therapy|use]",
    "We": "[We|The authors]",
    "report": "[report|describe|present|document|observed]",
    "a_case": "[a case|the first case|{small} cases|an unusual case|an instance]",
    "signs": "[signs|clinical features|symptoms|evidence]",
    "biopsy": "[Biopsy|Histology|Magnetic resonance imaging|Endoscopy|A provocation test|Autopsy]",
    "Past": "[Past|Her|His|Family|Medical]",
    "died": "[died|succumbed to complications|expired]",
    "outcome": "[resolved|persisted|worsened|responded well]",
    "small": "[two|three|four|five|six|ten|12|14|21]",
}

_UNITS = ("mg", "mg", "mg", "g", "mcg", "IU", "mg/kg", "mg/m2", "ml")
_RATES = phrases(
    "daily;twice daily;three times daily;/day;/d;per day;i.v.;orally;every 8 hours;b.i.d.;weekly;"
    "once daily;intramuscularly;at bedtime;p.o. daily;;;"
)
_AMOUNTS = (0.5, 1, 2, 2.5, 5, 10, 15, 20, 25, 40, 50, 75, 100, 150, 200, 250, 400, 500, 850, 1500)


def write_patient(rng: random.Random) -> list[tuple[Draft, list[str]]]:
    """Return the drafts of one patient's reports, each with the rules of its sentences."""
    seen = vocabulary("case-reports", exponent=0.7, flatness=6.0, internal=1.0)
    reports = []
    for _ in range(1 + int(rng.random() * 2.4)):
        draft = Draft(rng, topic(rng, seen, 3))
        plan = ["event" if draft.chance(0.55) else "background" for _ in range(2)]
        plan += [
            "event" if draft.chance(0.55) else "background" for _ in range(int(rng.random() * 4))
        ]
        reports.append((draft, plan))
    return reports


@cache
def templates() -> Grammar:
    """Return the grammar of the platform."""
    return grammar(_RULES, _FILLERS)


def sentence_case(_rng: random.Random, sentence: str) -> str:
    """Begin a sentence with a capital letter; the length stays."""
    return sentence[0].upper() + sentence[1:]


def _drug(draft: Draft, label: str) -> None:
    luck = draft.rng.random()
    if luck < 0.04:
        draft.mark(draft.pick(EVERYDAY), label)
        return
    drug = draft.topic.drug if luck < 0.7 else draft.topic.vocabulary.drugs.draw(draft.rng)
    _write_drug(draft, drug, label)


def _drug2(draft: Draft, label: str) -> None:
    luck = draft.rng.random()
    if luck < 0.06:
        draft.mark(draft.pick(EVERYDAY), label)
        return
    drug = draft.topic.other if luck < 0.5 else draft.topic.vocabulary.drugs.draw(draft.rng)
    _write_drug(draft, drug, label)


def _write_drug(draft: Draft, drug: Drug, label: str) -> None:
    luck = draft.rng.random()
    if drug.brand and luck < 0.2:
        draft.mark(drug.brand, label)
    elif luck > 0.93:
        # An abbreviation in capitals, as trials have them.
        consonants = "".join(letter for letter in drug.name if letter not in "aeiouy")
        draft.mark(consonants[:3].upper(), label)
    else:
        draft.mark(drug.name, label)


def _term(draft: Draft, from_topic: float) -> str:
    if draft.chance(from_topic):
        concept = draft.pick(draft.topic.effects)
    else:
        concept = draft.topic.vocabulary.effects.draw(draft.rng)
    name = draft.pick(concept.formal)
    return f"{draft.pick(QUALIFIERS)} {name}" if draft.chance(0.22) else name


def _effect(draft: Draft, label: str) -> None:
    draft.mark(_term(draft, 0.4), label)


def _ade(draft: Draft, label: str) -> None:
    if draft.chance(0.28):
        draft.write(draft.pick(SEVERITIES) + " ")
    draft.mark(_term(draft, 0.6), label)


def _dose(draft: Draft, label: str) -> None:
    low = draft.pick(_AMOUNTS)
    amount = f"{low:g}" if draft.chance(0.85) else f"{low:g}-{2 * low:g}"
    rate = draft.pick(_RATES)
    gap = "" if rate[:1] in ("/", "") else " "
    draft.mark(f"{amount} {draft.pick(_UNITS)}{gap}{rate}", label)


def _age(draft: Draft, _label: str) -> None:
    # From 19 to 79: 18 and 80 to 89 would need "an".
    draft.write(str(19 + int(draft.rng.random() * 61)))


def _number(draft: Draft, _label: str) -> None:
    draft.write(str(2 + int(draft.rng.random() * 900)))


_FILLERS: dict[str, Filler] = {
    "drug": _drug,
    "drug2": _drug2,
    "effect": _effect,
    "effect2": _effect,
    "ade": _ade,
    "ade2": _ade,
    "dose": _dose,
    "age": _age,
    "child": lambda draft, _label: draft.mark(draft.pick("2345679"), ""),
    "number": _number,
    "disease": lambda draft, label: draft.mark(draft.topic.disease.formal, label),
    "therapy": lambda draft, label: draft.mark(draft.pick(therapies()), label),
    "neutral": lambda draft, label: draft.mark(draft.pick(unremarkable()), label),
    "assay": lambda draft, label: draft.mark(draft.pick(ASSAYS), label),
    "everyday": lambda draft, label: draft.mark(draft.pick(EVERYDAY), label),
    "classname": lambda draft, label: draft.mark(
        draft.pick(CLASS_NAMES[draft.topic.drug.area]), label
    ),
}
