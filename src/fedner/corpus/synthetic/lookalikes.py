"""What stands where a drug or an effect could stand, but is none: procedures, food, products.

They are made by rule as well, so that a tagger cannot learn them by heart: what tells "nephrectomy"
from "nephritis" and "mango smoothies" from a drug is the make of the word.
"""

from functools import cache

from fedner.corpus.synthetic.drugs import products
from fedner.corpus.synthetic.effects import Concept, adjectives, roots, sites
from fedner.corpus.synthetic.wordlists import phrases, words

_PROCEDURE_ENDS = words("oscopy ectomy oplasty ostomy ography otomy opexy ocentesis")
_THERAPIES = """plasmapheresis;hemodialysis;radiotherapy;phototherapy;physiotherapy;gastric lavage;
electroconvulsive therapy;mechanical ventilation;parenteral nutrition;blood transfusion;
skin grafting;compression stockings;hyperbaric oxygenation;bed rest;intravenous fluids;
supportive care;cardioversion;laser coagulation;cognitive therapy;hemofiltration;tube feeding;
endoscopic dilatation;wound care;apheresis;traction;balneotherapy;dietary restriction"""
ASSAYS = words(
    """troponin bilirubin creatinine albumin ferritin amylase lipase transaminase hemoglobin
prolactin myoglobin haptoglobin fibrinogen cortisol thyrotropin calcitonin transferrin prothrombin
aldolase ceruloplasmin homocysteine urea lactate ammonia osmolality"""
)

_LIFESTYLE = """yoga;keto;the gym;coffee;acupuncture;meditation;a heating pad;vacation;netflix;
night shift;a new mattress;ice packs;massages;kombucha;bone broth;gluten;red wine;energy drinks;
therapy;long walks;counseling;a detox;intermittent fasting;epsom salt baths;my chiropractor;
bubble baths;podcasts;school;overtime;this weather;jet lag;the heat;cardio;leg day"""
_TASTES = words(
    """mango spicy frozen oat vanilla salted garlic ginger peanut lemon pumpkin coconut cherry
almond chili maple honey peppermint matcha banana"""
)
_DISHES = words(
    """smoothies tea muffins latte noodles pizza soup ice-cream tacos yogurt candy milk
cookies ramen burritos cereal"""
)
_NAME_STARTS = "Hal Bren Lind Mor Fel Ost Kar Ver Dun Wex Tor Pel Ash Gar Nor Sel Val Cor Mel Zan"
_NAME_ENDS = "vorsen ton berg ova ini aris well strom man elli etti ara ano ek ham ine olin ane"

# What an examination notes beside a disorder; with an adjective of site it looks like one.
_UNREMARKABLE = words(
    """function perfusion motility turgor output emptying enzymes circulation anatomy
sensation reflexes clearance tone architecture vasculature secretion innervation absorption
filtration contractility conduction elasticity flora histology drainage pulses patency regeneration
vascularity repair mobility hygiene prosthesis graft biopsy imaging"""
)
_NEUTRAL = """sinus rhythm;good appetite;a productive life;normal vision;stable weight;tolerance;
immunity;seroconversion;full recovery;complete remission;antibodies;normal mentation;compliance;
neutralizing antibodies;a sustained response;adequate hydration;a stable course;
spontaneous respiration"""

# What drugs do for the better: nobody marks it.
_GOOD_NOUNS = """energy;better sleep;my life back;a clear head;more focus;peace of mind;a laugh;
hope;steady nerves;a normal appetite;sweet dreams;a boost;confidence;motivation;butterflies;
goosebumps;a reason to smile;fewer bad days;a second chance;a free sample;a refill;a discount"""
_GOOD_ADJECTIVES = words(
    """calm happy focused normal rested alive chatty hopeful relaxed awake productive
chill cheerful balanced energetic comfy human ready smiley upbeat proud lucky grateful
clear-headed"""
)
_GOOD_CLAUSES = """I *slept like a baby;I *can think again;I *got my energy back;I *feel human;
I *went for a run;I *laughed all day;my *mood is great;I *cleaned the whole house;
I *finally got some rest;I *can breathe again;my *hair grew back;I *went back to work;
I *stopped worrying;my *numbers look good;I *ate a real meal;I *got a raise"""
_GOOD_SITES = """stronger {n};steady {n};loose {n};happy {n};calmer {n};healthy {n};softer {n};
warm {n};limber {n};relaxed {n};flexible {n};smooth {n};clear {n};rested {n};nimble {n};toned {n};
glowing {n};pain-free {n};quiet {n};supple {n};fresh {n};bouncy {n};comfy {n};relief in my {n}"""
_GOOD_VERBS = """loosened up;calmed down;healed;felt normal;got stronger;settled down;looked better;
eased up;relaxed;bounced back;stopped hurting;came back to life;cleared up;felt brand new;perked up;
worked again;woke up;thanked me"""


@cache
def therapies() -> tuple[str, ...]:
    """Return treatments that are no drugs."""
    procedures = tuple(
        root + end for root in roots() for end in _PROCEDURE_ENDS if not root.endswith(end[0])
    )
    # The common ones come up as often as all the others together.
    common = phrases(_THERAPIES)
    return procedures + common * (len(procedures) // len(common))


@cache
def unremarkable() -> tuple[str, ...]:
    """Return what patients have or develop without it being a disorder, in formal words."""
    made = tuple(f"{site} {noun}" for site in adjectives() for noun in _UNREMARKABLE)
    common = phrases(_NEUTRAL)
    return made + common * (len(made) // (2 * len(common)))


@cache
def lifestyle() -> tuple[str, ...]:
    """Return what people do, eat and use beside their drugs."""
    food = tuple(f"{taste} {dish}" for taste in _TASTES for dish in _DISHES)
    common = phrases(_LIFESTYLE)
    return food + products() + common * (len(food) // len(common))


@cache
def people() -> tuple[str, ...]:
    """Return invented surnames."""
    return tuple(start + end for start in words(_NAME_STARTS) for end in words(_NAME_ENDS))


@cache
def benefits() -> tuple[Concept, ...]:
    """Return what patients gain, in the forms of an effect; formal names there are none."""
    nouns = phrases(_GOOD_NOUNS)
    clauses = phrases(_GOOD_CLAUSES)
    moods = _GOOD_ADJECTIVES
    made = [Concept((), (noun,), moods, clauses) for noun in nouns]
    for _, many in sites():
        good = tuple(pattern.replace("{n}", many) for pattern in phrases(_GOOD_SITES))
        healed = tuple(f"my *{many} {verb}" for verb in phrases(_GOOD_VERBS))
        made.append(Concept((), good, moods, healed))
    return tuple(made)
