"""Synthetic forum posts: patients about their drugs, with misspellings, slang and run-on sentences.

Criteria of annotation: an ADE is marked with its modifiers ("really bad headache"), a clause
without its subject ("*fell out*" with "hair", not with "my"). The very same words are a Symptom
where they are the reason for taking the drug, and nothing where they are denied or belong to
somebody else's warning. A Disease is a named diagnosis, a Finding a measured or examined result.
Drugs are always marked, classes of drugs included. What two mentions share is marked for both:
"pain in my knees and hips" has a mention in two pieces.
"""

import random
from functools import cache, partial

from fedner.corpus.document import Span
from fedner.corpus.synthetic.drugs import CLASS_NAMES, EVERYDAY, Drug, drugs
from fedner.corpus.synthetic.effects import Concept, blood_values, diseases, sites
from fedner.corpus.synthetic.grammar import Draft, Filler, Grammar, grammar
from fedner.corpus.synthetic.hands import Annotator, typo
from fedner.corpus.synthetic.lookalikes import benefits, lifestyle, people
from fedner.corpus.synthetic.vocabulary import topic, vocabulary
from fedner.corpus.synthetic.wordlists import phrases

ANNOTATOR = Annotator(missed=0.015, shifted=0.012)

_RULES = {
    "story": """
I {took} {drug:Drug} for {reason} and {it} gave me {ade:ADE}[| and {ade:ADE}][|, {ade:ADE}]{end}
been on {drug:Drug} {time} [for|because of] my {disease:Disease}[|, {clause:ADE}]{end}
[started|began] {drug:Drug} {time} ago, [then|and then|next thing] {clause:ADE}[| and
    {clause:ADE}]{end}
{drug:Drug} made me {feel}{adjective:ADE}[| and {adjective:ADE}], {and_so} I {quit}{end}
[my doc|my doctor|the {specialist}|Dr. {person}] {put_me_on} {drug:Drug} for {reason}{end}
[side effects|Side effects so far|what I got from {drug:Drug}]: {ade:ADE}, {mixed}, {mixed}[| and
    {mixed}]{end}
[so far on {drug:Drug}|the good and the bad|week one]: {mixed}, {mixed}, {mixed}{end}
{took} {thing}, {thing} and {thing} for {reason}, {rant}
[only|just] {thing} and {thing} [today|this morning], {rant}
[currently using|my cabinet has|I swear by|tried] {thing}, {thing} and {thing}{end}
{thing} [did nothing|was useless], {thing} [fixed|helped] my {symptom:Symptom}{end}
[week 2|month 3|update]: {mixed}[|, {mixed}] and {mixed} [from|on|thanks to] {drug:Drug}{end}
{drug:Drug} [pros and cons|did this to me|in short]: {mixed}, {mixed}, {mixed}{end}
{drug:Drug} and {mixed_clause}[|, {mixed_clause}], {rant}
after {time} on {drug:Drug} [I had|I got|came] {ade:ADE} [but|and] [no|not a sign of] {symptom}{end}
{took} {drug:Drug} [to help with|to get rid of|to treat] {reason} but {clause:ADE} [instead|all
    week]{end}
I have {disease:Disease} and [get|suffer from] {symptom:Symptom}[|, {symptom:Symptom}] [without|off]
    {drug:Drug}{end}
[had|got] {split:ADE} [since|ever since|from the day] I {took} {drug:Drug}{end}
[anyone else|does anyone] [get|have] {ade:ADE} [on|from|with] {drug:Drug}? {rant}
{drug:Drug} [helped|worked for|took care of|stopped] my {symptom:Symptom} but now I [have|get|deal
    with] {ade:ADE}{end}
{went_off} {drug:Drug} and the {ade:ADE} [went away|stopped|is gone] [in a week|overnight|but my
    {symptom:Symptom} came back]{end}
the {ade:ADE} [got|felt|seems] worse than [the|my] {symptom:Symptom}{end}
{clause:ADE}, {clause:ADE}, {rant}
{drug:Drug} and {drug2:Drug} together [gave me|caused] {ade:ADE}, {drug:Drug} alone [didn't|never
    did]{end}
""",
    "other": """
[blood work|labs|my last test|the doctor] [showed|came back with|found] {finding:Finding}[| and
    {finding:Finding}]{end}
{finding:Finding} [at|on] my [checkup|last visit], so [they|my doc] {put_me_on} {drug:Drug}{end}
I was [diagnosed with|told I have] {disease:Disease} {time} ago[|, runs in the family]{end}
no {symptom}, no {symptom}, [nothing|zero problems|all good] on {drug:Drug}{end}
[the leaflet|the box|the pharmacist|my sister|google] says {symptom} [may happen|can occur]
    with {drug:Drug}{end}
{lifestyle} [helped my {symptom:Symptom} way more|did more for my {symptom:Symptom}]
    than {drug:Drug}{end}
I [cut out|gave up|tried] {lifestyle} and {lifestyle} [for|because of] my {symptom:Symptom}, {rant}
{lifestyle} gave me {plain}, [nothing to do with|not] {drug:Drug}{end}
[tried|started|switched to] {lifestyle} {time} ago, {rant}
my [mom|husband|sister|friend|coworker] {took} {drug:Drug} for {disease:Disease} [with no|and never
    had] {symptom}{end}
[suffered from|dealing with|had] {symptom:Symptom} {time} before [anyone|a doctor|Dr. {person}]
    {put_me_on} {drug:Drug}{end}
I [drink|skip|watch] my {everyday} [now|too], {rant}
[added|take|on] {everyday:Drug} [pills|tablets|supplements] [for|because of] {finding:Finding}{end}
{brand} [candles are|tea is|the band is|shampoo is] the only thing that [relaxes|helps] me{end}
[the doctor|she|he] noted {split:Finding} on [exam|palpation], {rant}
[got|have] {symptom:Symptom} from my {disease:Disease}, not from {drug:Drug}{end}
I {took} {drug:Drug} for {reason} and {it} gave me {good}[| and {good}]{end}
[started|began] {drug:Drug} {time} ago, [then|and then|next thing] {good_clause}[| and
    {good_clause}]{end}
{drug:Drug} made me {feel}{good_adjective}[| and {good_adjective}], {and_so} I [kept going|stayed on
    it|told my doc]{end}
after {time} on {drug:Drug} [I had|I got|came] {good} [but|and] {ade:ADE}{end}
{lifestyle} made me {feel}{plain_adjective}[| and {good_adjective}], {rant}
after {time} on {lifestyle} [I had|I got|came] {plain} [but|and] {good}{end}
{good_clause}, {clause:ADE}, {rant}
{person} [at|from] the [clinic|pharmacy] [is|was] [great|useless], {rant}
{rant}
was {put_on} {drug:Drug} for {reason} then {drug2:Drug} for {reason}{end}
""",
    "reason": "[{symptom:Symptom}|{symptom:Symptom}|my {disease:Disease}|{disease:Disease}|"
    "{symptom:Symptom} and {symptom:Symptom}|{split:Symptom}]",
    "mixed": "[{ade:ADE}|{ade:ADE}|{good}]",
    "mixed_clause": "[{clause:ADE}|{clause:ADE}|{good_clause}]",
    "thing": "[{drug:Drug}|{new:Drug}|{lifestyle}|{lifestyle}]",
    "it": "[it|this stuff|that crap|this pill|it just]",
    "took": "[took|tried|started|used|was taking|popped]",
    "feel": "[feel |feel ||act |look ]",
    "and_so": "[so|and|which is why|finally]",
    "quit": "[quit|stopped taking it|threw it away|tapered off|went back to {drug2:Drug}]",
    "put_me_on": "[put me on|switched me to|prescribed|gave me|suggested]",
    "put_on": "[put on|given|prescribed|switched to]",
    "went_off": "[went off|stopped|came off|quit|dropped]",
    "specialist": "[neuro|rheumatologist|shrink|cardiologist|nurse|gp]",
    "time": "[2 weeks|about a month|3 yrs|5 days|years|a couple days|6 months|almost a year]",
    "end": "[.|.|.|!|!!!|...| lol.| ugh.|, {rant}]",
    "rant": "[never again!|good luck everyone.|not worth it.|hang in there.|I hate this.|"
    "it's a nightmare.|so glad I found this board.|your mileage may vary.|ask your doctor first.|"
    "hope this helps somebody.|thanks for reading.|I'm done.|what a pain in the neck.|"
    "insurance is a headache.|I'm sick of waiting rooms.|still better than nothing.|"
    "would not wish this on anyone.|the price makes me dizzy.]",
}

_MODIFIERS = phrases(
    "really bad;terrible;horrible;awful;constant;mild;slight;extreme;a little;crazy;the worst;"
    "non stop;severe;intense;on and off;some;bad;massive;serious"
)
_ADVERBS = phrases("so;really;super;very;extremely;a bit;kinda;totally;way too;incredibly")
_LEVELS = phrases(
    "high {};low {};elevated {};{} was too high;{} levels of 240;borderline {};{} off the charts"
)
_EXAMS = phrases(
    """abnormal ekg;normal mri;positive ana;enlarged heart;spots on my liver;fatty liver;
low bone density;high liver enzymes;elevated cpk;abnormal ct scan;protein in urine;high psa;
low platelets;kidney stones;thickened arteries;a shadow on the xray;irregular ekg;high bp;
low heart rate"""
)


def write_patient(rng: random.Random) -> list[tuple[Draft, list[str]]]:
    """Return the drafts of one user's posts, each with the rules of its sentences."""
    seen = vocabulary("forum-posts", exponent=0.75, flatness=5.0, internal=0.25)
    mangle = partial(typo, rate=(0.0, 0.03, 0.06, 0.15)[int(rng.random() * 4)])
    posts = []
    for _ in range(1 + int(rng.random() * 3.2)):
        draft = Draft(rng, topic(rng, seen, 4), mangle)
        length = 1 + int(rng.random() * 5)
        plan = ["story" if draft.chance(0.5) else "other" for _ in range(length)]
        posts.append((draft, plan))
    return posts


@cache
def templates() -> Grammar:
    """Return the grammar of the platform."""
    return grammar(_RULES, _FILLERS)


def sentence_case(rng: random.Random, sentence: str) -> str:
    """Write a sentence as forum users do: with capitals, without, or all in capitals."""
    luck = rng.random()
    if luck < 0.45:
        return sentence[0].upper() + sentence[1:]
    return sentence.upper() if luck > 0.96 else sentence.lower()


def _drug(draft: Draft, label: str) -> None:
    luck = draft.rng.random()
    if luck < 0.07:
        draft.mark(draft.pick(CLASS_NAMES[draft.topic.drug.area]), label)
    elif luck < 0.10:
        draft.mark(draft.pick(EVERYDAY), label)
    elif luck < 0.65:
        draft.mark(_called(draft, draft.topic.drug), label)
    else:
        draft.mark(_called(draft, draft.topic.vocabulary.drugs.draw(draft.rng)), label)


def _called(draft: Draft, drug: Drug) -> str:
    """Return what a patient calls the drug: its brand, its name, or a nickname."""
    luck = draft.rng.random()
    if drug.brand and luck < 0.7:
        return drug.brand
    if luck < 0.78:
        return drug.name
    if luck < 0.88:
        return drug.name.capitalize()
    return drug.name[: 4 + int(draft.rng.random() * 3)]


def _concept(draft: Draft) -> Concept:
    if draft.chance(0.4):
        return draft.pick(draft.topic.effects)
    return draft.topic.vocabulary.effects.draw(draft.rng)


def _noun(draft: Draft, concept: Concept) -> str:
    # Some patients have read the leaflet and use its words.
    return draft.pick(concept.formal if draft.chance(0.2) else concept.nouns)


def _ade(draft: Draft, label: str) -> None:
    modifier = draft.pick(_MODIFIERS) + " " if draft.chance(0.4) else ""
    draft.mark(modifier + _noun(draft, _concept(draft)), label)


def _adjective(draft: Draft, label: str, *, good: bool) -> None:
    concept = draft.pick(benefits()) if good else _concept(draft)
    while not concept.adjectives:
        concept = draft.topic.vocabulary.effects.draw(draft.rng)
    adverb = draft.pick(_ADVERBS) + " " if draft.chance(0.5) else ""
    draft.mark(adverb + draft.pick(concept.adjectives), label)


def _clause(draft: Draft, label: str, *, good: bool) -> None:
    concept = draft.pick(benefits()) if good else _concept(draft)
    subject, _, rest = draft.pick(concept.clauses).partition("*")
    draft.write(subject)
    draft.mark(rest, label)


def _split(draft: Draft, label: str) -> None:
    """Write two mentions that share a word, as patients do."""
    (one, many), (one_too, many_too) = draft.pick(sites()), draft.pick(sites())
    if draft.chance(0.5):
        word = draft.pick(("pain", "stiffness", "weakness", "swelling", "cramps", "tingling"))
        shared, first = draft.write(f"{word} in my "), draft.write(many)
        draft.write(draft.pick((" and ", " and also my ", "/")))
        second = draft.write(many_too)
        head = (shared[0], shared[1] - 1)
        draft.spans.append(Span(((shared[0], first[1]),), label))
        draft.spans.append(Span((head, second), label))
        return
    first = draft.write(one)
    draft.write(draft.pick((" and ", " & ", " or ")))
    second = draft.write(one_too)
    draft.write(" ")
    shared = draft.write(draft.pick(("pain", "aches", "stiffness", "cramps", "soreness")))
    draft.spans.append(Span((first, shared), label))
    draft.spans.append(Span(((second[0], shared[1]),), label))


def _finding(draft: Draft, label: str) -> None:
    if draft.chance(0.5):
        draft.mark(draft.pick(_EXAMS), label)
    else:
        draft.mark(draft.pick(_LEVELS).format(draft.pick(blood_values())), label)


def _disease(draft: Draft, label: str) -> None:
    disease = draft.topic.disease
    if draft.chance(0.3):
        disease = draft.pick(draft.pick(tuple(diseases().values())))
    draft.mark(disease.lay if draft.chance(0.8) else disease.formal, label)


def _brand(draft: Draft, label: str) -> None:
    drug = draft.topic.vocabulary.drugs.draw(draft.rng)
    while not drug.brand:
        drug = draft.pick(drugs())
    draft.mark(drug.brand, label)


_FILLERS: dict[str, Filler] = {
    "drug": _drug,
    "drug2": lambda draft, label: draft.mark(_called(draft, draft.topic.other), label),
    "new": lambda draft, label: draft.mark(
        _called(draft, draft.topic.vocabulary.drugs.draw(draft.rng)), label
    ),
    "ade": _ade,
    "plain": lambda draft, label: draft.mark(_noun(draft, _concept(draft)), label),
    "symptom": lambda draft, label: draft.mark(_noun(draft, _concept(draft)), label),
    "adjective": partial(_adjective, good=False),
    "plain_adjective": partial(_adjective, good=False),
    "good": lambda draft, label: draft.mark(draft.pick(draft.pick(benefits()).nouns), label),
    "good_adjective": partial(_adjective, good=True),
    "clause": partial(_clause, good=False),
    "good_clause": partial(_clause, good=True),
    "split": _split,
    "finding": _finding,
    "disease": _disease,
    "lifestyle": lambda draft, label: draft.mark(draft.pick(lifestyle()), label),
    "everyday": lambda draft, label: draft.mark(draft.pick(EVERYDAY), label),
    "person": lambda draft, label: draft.mark(draft.pick(people()), label),
    "brand": _brand,
}
