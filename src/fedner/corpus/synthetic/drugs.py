"""The drugs of the synthetic platforms: invented by rule, a few well-known ones.

Invented generic names end like real ones of their class (`-olol`, `-tinib`), so that the end of an
unseen name tells that it is a drug; invented brand names tell much less. The lexicon is the same
for every seed: platforms differ in which part of it they see and how often.
"""

from functools import cache
from typing import NamedTuple

from fedner.corpus.synthetic.wordlists import words
from fedner.seeds import seeded_scalars

NUM_GENERICS = 2400
NUM_BRANDS = 850

# Class of drug -> the ends of its invented names.
_ENDS = {
    "heart": "pril sartan olol dipine statin darone xaban grel azosin parin dralazine thiazide "
    "semide drone lafil",
    "mind": "oxetine azepam traline peridone iprazole apine zodone barbital triptyline phenidate "
    "perazine pidem clone",
    "pain": "profen coxib triptan codone caine fentanil morphan fenac oxicam nadol",
    "infection": "cillin mycin floxacin cycline conazole vudine navir cef oxanide quine bendazole "
    "penem sulfone fungin tegravir butol",
    "cancer": "tinib tuzumab rubicin platin taxel citabine tecan zomib mustine blastine lutamide "
    "ciclib lidomide mestane",
    "metabolism": "gliptin gliflozin glitazone formin glutide roxine dronate uricase glinide "
    "fibrate",
    "lung": "terol lukast phylline tropium sonide astine cromil",
    "gut": "prazole setron tidine pramide salazine peride",
    "nerve": "gabalin racetam toin bamate giline dopa stigmine curium",
    "immune": "limus cept trexate fonamide metasone predone kinumab solone xizumab",
}
_STARTS = """al am ar be bel bri ca car ce cor da dar del do el er fa fen flu ga gal go ha il im ja
ka lam le lev lo lu mar me mi mon na nel ni no ol om pa per pi por ra re ri ros sa sel si sol ta tel
ti tor ul va vel vi vor xa xe yo za zel zi"""
_MIDDLES = """ba be bi bo ca da de di do fa fe ga la le li lo lu ma me mi mo na ne ni no pa ra re ri
ro sa se si ta te ti to va ve vi xa zi zo"""

_COINED_STARTS = """Calm Seren Vital Nov Zolv Lumor Ald Venz Corv Flex Dorm Pax Neur Tranq Gast
Osten Derm Resp Ment Equi Sanv Juv Kardi Lipr Migr Opt Prem Quet Relv Stab Tens Ulc Verid Wellis Xyl
Ybr Zest Brev Clar Enth Fort Glyc Snap Glow Fit Pix Trend Vib Ride Swift Nim Loft Crav Hyp Dash Urb
Peak Jolt"""
_COINED_ENDS = "ara ix ium eva ora ane ivo etta yn ela ona ista exa al uro ent ify ana ella izo us"

# Names that everybody knows, with their class.
_KNOWN = {
    "heart": "aspirin lisinopril warfarin atorvastatin simvastatin amiodarone digoxin metoprolol "
    "furosemide clopidogrel heparin",
    "mind": "sertraline fluoxetine lithium clozapine olanzapine haloperidol diazepam trazodone "
    "venlafaxine citalopram",
    "pain": "ibuprofen paracetamol naproxen diclofenac morphine tramadol codeine lidocaine",
    "infection": "penicillin amoxicillin vancomycin ciprofloxacin doxycycline isoniazid rifampicin "
    "fluconazole acyclovir",
    "cancer": "cisplatin doxorubicin methotrexate tamoxifen imatinib paclitaxel bleomycin",
    "metabolism": "metformin insulin levothyroxine allopurinol glipizide",
    "lung": "albuterol montelukast theophylline budesonide",
    "gut": "omeprazole ranitidine metoclopramide ondansetron",
    "nerve": "gabapentin phenytoin carbamazepine topiramate levodopa valproate",
    "immune": "prednisone cyclosporine tacrolimus infliximab interferon",
}

# Drugs in one sentence, everyday words in another.
EVERYDAY = words(
    "iron caffeine zinc gold alcohol nicotine magnesium potassium oxygen melatonin cannabis "
    "estrogen"
)

CLASS_NAMES = {
    "heart": ("statins", "beta blockers", "blood thinners", "blood pressure meds"),
    "mind": ("antidepressants", "ssris", "benzos", "antipsychotics"),
    "pain": ("painkillers", "opioids", "nsaids"),
    "infection": ("antibiotics", "antivirals"),
    "cancer": ("chemo drugs", "hormone blockers"),
    "metabolism": ("thyroid meds", "diabetes pills"),
    "lung": ("inhaled steroids", "antihistamines"),
    "gut": ("antacids", "laxatives"),
    "nerve": ("anticonvulsants", "muscle relaxers"),
    "immune": ("steroids", "biologics"),
}


class Drug(NamedTuple):
    """A drug: its generic name, its brand name where it has one, and what it is used for."""

    name: str
    brand: str
    area: str


@cache
def drugs() -> tuple[Drug, ...]:
    """Return every drug, the well-known ones first."""
    rng = seeded_scalars(0, "synthetic", "lexicon", "drugs")
    brands = _coined()[:NUM_BRANDS]
    starts, middles = _STARTS.split(), _MIDDLES.split()
    areas = sorted(_ENDS)
    ends = {area: _ENDS[area].split() for area in areas}
    found = {name: area for area, names in _KNOWN.items() for name in names.split()}
    goal = len(found) + NUM_GENERICS
    while len(found) < goal:
        area = areas[int(rng.random() * len(areas))]
        stem = starts[int(rng.random() * len(starts))] + middles[int(rng.random() * len(middles))]
        if rng.random() < 0.35:
            stem += middles[int(rng.random() * len(middles))]
        end = ends[area][int(rng.random() * len(ends[area]))]
        # Two vowels of the same kind never meet: "loxa" + "azepam" is written "loxazepam".
        joined = stem[:-1] + end if end[0] in "aeiou" else stem + end
        found.setdefault(joined, area)
    every = len(found) // len(brands) + 1
    return tuple(
        Drug(name, brands[index // every] if index % every == 0 else "", area)
        for index, (name, area) in enumerate(found.items())
    )


@cache
def products() -> tuple[str, ...]:
    """Return the coined names that are no drugs: apps, shops, drinks."""
    return _coined()[NUM_BRANDS:]


@cache
def _coined() -> tuple[str, ...]:
    """Return the coined names in a random order.

    Brands of drugs come first, names of products after them. The make of a name does not tell the
    two apart: that must be learnt by name, which is easier for several platforms together.
    """
    rng = seeded_scalars(0, "synthetic", "lexicon", "brands")
    ends = sorted(set(_COINED_ENDS.split()))
    keyed = sorted((rng.random(), start + end) for start in _COINED_STARTS.split() for end in ends)
    return tuple(name for _, name in keyed)
