"""Synthetic social posts: short, without capitals, with hashtags, drawn-out words and emoji.

Criteria of annotation: only what the author has suffered from a drug is an ADE; what happens to
others, to the author without a drug, in jokes or in idioms ("i'm dead") is not. An ADE is marked
without intensifiers ("so", "really"), in whatever words. Drugs are marked wherever they are meant
as drugs, as hashtags too, with the sign; the same word as food, metal or name is not.
"""

import random
from functools import cache, partial

from fedner.corpus.synthetic.drugs import CLASS_NAMES, EVERYDAY, Drug, drugs
from fedner.corpus.synthetic.effects import Concept
from fedner.corpus.synthetic.grammar import Draft, Filler, Grammar, grammar
from fedner.corpus.synthetic.hands import Annotator, drawn_out, typo
from fedner.corpus.synthetic.lookalikes import benefits, lifestyle, people
from fedner.corpus.synthetic.vocabulary import topic, vocabulary
from fedner.corpus.synthetic.wordlists import words

ANNOTATOR = Annotator(missed=0.02, shifted=0.006)

_RULES = {
    "post": """
{at}{drug:Drug} [got me|has me|making me|makes me] {so}{adjective:ADE}{tail}
{at}[this|the|that] {drug:Drug} [is no joke|ain't it|smh|tho], {clause:ADE}{tail}
{day} on {drug:Drug} [and|&] {clause:ADE}{tail}
{clause:ADE} [thanks to|bc of|cuz of|blaming] {drug:Drug}{tail}
[ugh|omg|wtf|welp|yo] {drug:Drug} [gave me|giving me|comes with] {so2}{noun:ADE}[| and
    {noun:ADE}]{tail}
{noun:ADE} + {noun:ADE} = my life on {drug:Drug}{tail}
{at}anyone else [get|got] {noun:ADE} [on|from|w/] {drug:Drug}?{tail}
took {drug:Drug} [for|bc] {noun} now i'm {so}{adjective:ADE}{tail}
[off|quit|done with] {drug:Drug}, [no more|bye] {noun:ADE}{tail}
can't [drive|work|study|function] on {drug:Drug}, {so}{adjective:ADE}{tail}
{drug:Drug} [so far|mood|diary]: {mixed}, {mixed}[|, {mixed}]{tail}
[today|breakfast|dinner|vibe|bag check]: {thing}, {thing}[| & {thing}]{tail}
{thing} > {thing}{tail}
[team|never again|need|thank u|out of] {thing}{tail}
{drug:Drug} [really said|said] {mixed} [and|&] {mixed}{tail}
[things i got from|what i got outta|me on] {drug:Drug}: {mixed}, {mixed}, {mixed}{tail}
{drug:Drug} so {mixed_clause} & {mixed_clause}{tail}
[switched|went] from {drug:Drug} to {drug2:Drug} and now {clause:ADE}{tail}
{at}{adjective:ADE} af [from|off] {drug:Drug}{tail}
{drug:Drug} + [{lifestyle}|{drug2:Drug}] = {noun:ADE}{tail}
""",
    "noise": """
{at}{drug:Drug} [works|saved my life|is a miracle|finally kicked in], [no more|bye bye] {noun}{tail}
{at}{drug:Drug} [got me|has me|making me|makes me] {so}{good_adjective}{tail}
{day} on {drug:Drug} [and|&] {good_clause}{tail}
{good_clause} [thanks to|bc of] [{drug:Drug}|{lifestyle}]{tail}
[ugh|omg|wtf|welp|yo] {lifestyle} [gave me|giving me|comes with] {so2}{noun}[| and {noun}]{tail}
[omg|yo] {drug:Drug} [gave me|giving me] {so2}{good}[| and {good}]{tail}
{noun} + {good} = my life on {lifestyle}{tail}
[off|quit|done with] {lifestyle}, [no more|bye] {noun}{tail}
can't [drive|work|study|function] on {lifestyle}, {so}{adjective}{tail}
{at}{adjective} af [from|off] {lifestyle}{tail}
[switched|went] from {lifestyle} to {lifestyle} and now {clause}{tail}
my [mom|bf|roommate|dog|nana] [got|has] {noun} [from|on] {drug:Drug}{tail}
{lifestyle} [got me|has me|makes me] {so}{adjective}{tail}
{day} of {lifestyle} and {clause}{tail}
[this show|{person}|monday|this traffic|my boss] [gives me|is giving me] {so2}{noun}{tail}
{clause} [bc of|thanks to] {lifestyle}{tail}
{at}i'm [dead|dying|crying|screaming|deceased]{tail}
{person} [is|was] {so}{adjective} [lol|today|again]{tail}
[study|news|report]: {drug:Drug} linked to {noun} {link}
{drug:Drug} [may cause|can cause|recall over] {noun}, says [fda|study|{person}] {link}
need [a|my] {drug:Drug} [refill|rn|asap], {noun} [is back|again]{tail}
took {drug:Drug} for {noun}{tail}
[so much|need more|cutting out] {everyday} [in my diet|at this party|in everything|lately]{tail}
{brand} [concert|tickets|nails|sneakers] [tonight|anyone|r fire]{tail}
[if|when] {drug:Drug} [don't work|fails] try {lifestyle} for {noun}{tail}
{at}can {drug:Drug} [cause|give u] {noun}? asking for a friend{tail}
no {noun} on {drug:Drug} so far{tail}
[woke up|feeling] {so}{adjective}, need {lifestyle}{tail}
{noun} and {noun} [all day|again], [need|where is] my {drug:Drug}{tail}
[u|he|she] took {drug:Drug} and [got|was] {so}{adjective} lol{tail}
""",
    "mixed": "[{noun:ADE}|{noun:ADE}|{good}]",
    "mixed_clause": "[{clause:ADE}|{clause:ADE}|{good_clause}]",
    "thing": "[{drug:Drug}|{new:Drug}|{lifestyle}|{lifestyle}]",
    "at": "[|||@{handle} ]",
    "handle": "[user_{digits}|{person}{digits}|real{person}]",
    "day": "[day {digit}|week {digit}|night {digit}|third day]",
    "so": "[||{long} |rly |super |hella ]",
    "so2": "[||the worst |crazy |{long} much |mad ]",
    "tail": "[||| {emoji}| {emoji}{emoji}| lol| smh| tbh| rn| ughhh| {link}| #{tag}"
    "| #{tag} #{tag}|!!|...]",
    "link": "http://t.co/{code}",
    "tag": "[meds|fml|sideeffects|spoonie|healthtalk|mondays|tired|nosleep|thestruggle]",
}

_EMOJI = words("😭 😂 😴 🤢 🙃 💀 😔 💊")
_CODE = "abcdefghijkmnpqrstuvwxyz23456789"
_SHORT = {"because": "bc", "you": "u", "couldn't": "couldnt", "can't": "cant", "won't": "wont"}


def write_patient(rng: random.Random) -> list[tuple[Draft, list[str]]]:
    """Return the drafts of one author's posts; a post is one sentence."""
    seen = vocabulary("social-posts", exponent=0.75, flatness=5.0, internal=0.15)
    mangle = partial(typo, rate=(0.0, 0.02, 0.05)[int(rng.random() * 3)])
    return [
        (Draft(rng, topic(rng, seen, 2), mangle), ["post" if rng.random() < 0.5 else "noise"])
        for _ in range(1 + int(rng.random() * 1.6))
    ]


@cache
def templates() -> Grammar:
    """Return the grammar of the platform."""
    return grammar(_RULES, _FILLERS)


def sentence_case(_rng: random.Random, sentence: str) -> str:
    """Write without capitals; the length stays, as every letter is ASCII."""
    return sentence.lower()


def _drug(draft: Draft, label: str) -> None:
    luck = draft.rng.random()
    if luck < 0.06:
        name = draft.pick(CLASS_NAMES[draft.topic.drug.area])
    elif luck < 0.09:
        name = draft.pick(EVERYDAY)
    else:
        drug = draft.topic.drug if luck < 0.6 else draft.topic.vocabulary.drugs.draw(draft.rng)
        name = _called(draft, drug)
    _mark_drug(draft, name, label)


def _called(draft: Draft, drug: Drug) -> str:
    """Return what an author calls the drug: its brand, its name, or the beginning of either."""
    name = drug.brand if drug.brand and draft.chance(0.7) else drug.name
    return name[: 4 + int(draft.rng.random() * 2)] if draft.chance(0.08) else name


def _mark_drug(draft: Draft, name: str, label: str) -> None:
    if draft.chance(0.25):
        name = "#" + name.replace(" ", "")
    draft.mark(name, label)


def _concept(draft: Draft) -> Concept:
    if draft.chance(0.3):
        return draft.pick(draft.topic.effects)
    return draft.topic.vocabulary.effects.draw(draft.rng)


def _noun(draft: Draft, label: str) -> None:
    concept = _concept(draft)
    noun = draft.pick(concept.formal if draft.chance(0.12) else concept.nouns)
    draft.mark(noun.replace(" my ", " "), label)


def _adjective(draft: Draft, label: str, *, good: bool) -> None:
    concept = draft.pick(benefits()) if good else _concept(draft)
    while not concept.adjectives:
        concept = draft.topic.vocabulary.effects.draw(draft.rng)
    word = draft.pick(concept.adjectives)
    draft.mark(drawn_out(draft.rng, word) if draft.chance(0.25) else word, label)


def _clause(draft: Draft, label: str, *, good: bool) -> None:
    concept = draft.pick(benefits()) if good else _concept(draft)
    subject, _, rest = draft.pick(concept.clauses).partition("*")
    # Many authors leave the subject out.
    if draft.chance(0.75):
        draft.write(subject)
    draft.mark(" ".join(_SHORT.get(word, word) for word in rest.split(" ")), label)


def _brand(draft: Draft, label: str) -> None:
    drug = draft.topic.vocabulary.drugs.draw(draft.rng)
    while not drug.brand:
        drug = draft.pick(drugs())
    draft.mark(drug.brand, label)


def _digits(draft: Draft, _label: str) -> None:
    draft.write(str(int(draft.rng.random() * 1000)))


def _code(draft: Draft, _label: str) -> None:
    draft.write("".join(draft.pick(_CODE) for _ in range(8)))


_FILLERS: dict[str, Filler] = {
    "drug": _drug,
    "drug2": lambda draft, label: _mark_drug(draft, _called(draft, draft.topic.other), label),
    "new": lambda draft, label: _mark_drug(
        draft, _called(draft, draft.topic.vocabulary.drugs.draw(draft.rng)), label
    ),
    "noun": _noun,
    "adjective": partial(_adjective, good=False),
    "clause": partial(_clause, good=False),
    "good": lambda draft, label: draft.mark(draft.pick(draft.pick(benefits()).nouns), label),
    "good_adjective": partial(_adjective, good=True),
    "good_clause": partial(_clause, good=True),
    "long": lambda draft, label: draft.mark(drawn_out(draft.rng, "so"), label),
    "lifestyle": lambda draft, label: draft.mark(draft.pick(lifestyle()), label),
    "everyday": lambda draft, label: draft.mark(draft.pick(EVERYDAY), label),
    "person": lambda draft, label: draft.mark(draft.pick(people()), label),
    "emoji": lambda draft, label: draft.mark(draft.pick(_EMOJI), label),
    "brand": _brand,
    "digits": _digits,
    "digit": lambda draft, _label: draft.mark(str(2 + int(draft.rng.random() * 8)), ""),
    "code": _code,
}
