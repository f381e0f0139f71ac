"""The effects of the synthetic platforms: concepts with a formal name and what patients call them.

A concept is written "alopecia" by a physician and "hair falling out" by a patient. Most concepts
are composed: a body site (lay word, Latin adjective, Greek root) meets a process. The rest, the
frequent ones, are written out below. The same for every seed.
"""

from functools import cache
from typing import NamedTuple

from fedner.corpus.synthetic.wordlists import phrases, rows, words

# Qualifiers that belong to the name of a disorder (severity does not, see the criteria).
QUALIFIERS = words(
    "acute chronic bilateral diffuse focal toxic recurrent subacute transient idiosyncratic"
)
SEVERITIES = words(
    "severe marked mild profound moderate life-threatening pronounced intractable massive "
    "slight considerable debilitating"
)


class Concept(NamedTuple):
    """An effect: formal names, lay noun phrases, lay adjectives and lay clauses.

    In a clause, the mention begins after the asterisk: "my *hair fell out". What is internal shows
    in an examination alone, so that patients seldom write of it.
    """

    formal: tuple[str, ...]
    nouns: tuple[str, ...]
    adjectives: tuple[str, ...]
    clauses: tuple[str, ...]
    is_internal: bool = False


# formal names | lay noun phrases | lay adjectives | lay clauses
_WRITTEN = """
alopecia|hair loss,thinning hair||my *hair fell out,my *hair is falling out
nausea|nausea,queasiness|nauseous,queasy,sick to my stomach|I *felt sick
vomiting,emesis|vomiting,throwing up|pukey|I *couldn't keep food down,I *kept throwing up
diarrhea|diarrhea,the runs||I *was stuck on the toilet
constipation|constipation|constipated,backed up|I *couldn't go for days
headache,cephalalgia|headache,headaches,migraine||my *head was pounding,my *head is killing me
vertigo,dizziness|dizziness,dizzy spells|dizzy,lightheaded,woozy|the room *kept spinning
insomnia|insomnia,sleepless nights|wide awake|I *couldn't sleep,I *can't sleep
somnolence,sedation|sleepiness,drowsiness|sleepy,drowsy,knocked out|I *slept all day
fatigue,asthenia|fatigue,tiredness,exhaustion|tired,exhausted,wiped out|I *had no energy
weight gain|weight gain,extra pounds|fat,bloated|I *gained 20 pounds,I *put on weight
weight loss,cachexia|weight loss||I *lost a ton of weight
anorexia|loss of appetite,no appetite||I *couldn't eat anything
hyperphagia|food cravings,constant hunger|hungry,starving|I *ate everything in sight
tremor|tremors,shaky hands,the shakes|shaky,jittery|my *hands wouldn't stop shaking
anxiety|anxiety,panic attacks|anxious,on edge,panicky|I *was freaking out
depression,depressive disorder|depression,low mood|depressed,down,hopeless|I *cried all day
agitation|agitation,restlessness|restless,wired,agitated|I *couldn't sit still
irritability|mood swings,irritability|moody,irritable,cranky|I *snapped at everyone
amnesia|memory loss,brain fog|foggy,spaced out|I *couldn't remember anything
confusion,delirium|confusion|confused,disoriented,out of it|I *didn't know where I was
hallucinosis,visual hallucinations|hallucinations||I *saw things that weren't there
nightmares|nightmares,vivid dreams,crazy dreams||I *woke up screaming
seizure,generalized tonic-clonic seizures|seizures,fits||I *had a fit
syncope|fainting spells,blackouts|faint|I *passed out,I *blacked out
tachycardia|racing heart,rapid heartbeat||my *heart was racing,my *heart won't slow down
bradycardia|slow heartbeat||my *heart slowed way down
palpitations|palpitations,heart flutters||my *heart skipped beats
hypotension|low blood pressure||my *blood pressure dropped
arrhythmia,torsades de pointes|irregular heartbeat||my *heart went out of rhythm
dyspnea|shortness of breath,trouble breathing|breathless,winded|I *couldn't catch my breath
bronchospasm|wheezing,tight chest|wheezy|my *chest tightened up
cough|dry cough,cough,nagging cough||I *couldn't stop coughing
epistaxis|nosebleeds,bloody nose||my *nose kept bleeding
xerostomia|dry mouth,cotton mouth|parched|my *mouth was like cotton
dysgeusia|metallic taste,weird taste||everything *tastes like metal
rash,maculopapular eruption|rash,skin rash,red bumps|blotchy|I *broke out everywhere
urticaria|hives,welts||I *broke out in hives
pruritus|itching,itchiness|itchy|I *itched all over
photosensitivity|sun sensitivity||I *burned in the sun
hyperhidrosis,diaphoresis|night sweats,sweating|sweaty,clammy|I *woke up drenched
pyrexia,hyperthermia|fever,chills|feverish|I *was burning up
flushing|hot flashes,flushing|flushed|my *face turned red
anaphylaxis|allergic reaction||my *throat closed up
angioedema|swollen face,swollen lips|puffy|my *face blew up
edema,peripheral edema|swelling,water retention|swollen|my *ankles swelled up
paresthesia|pins and needles,tingling,numbness|numb,tingly|my *fingers went numb
akathisia|restless legs||I *couldn't stop moving my legs
dyskinesia,tardive dyskinesia|jerky movements,twitching|twitchy|my *face kept twitching
dystonia,torticollis|stiff neck||my *neck locked up
rhabdomyolysis|muscle breakdown||my *muscles gave out
myopathy,myositis|muscle weakness|weak|my *legs gave out
ataxia|loss of balance,clumsiness|clumsy,unsteady|I *kept falling over
dysarthria|slurred speech||I *couldn't get my words out
tinnitus|ringing in my ears,ringing ears||my *ears won't stop ringing
deafness,ototoxicity|hearing loss|deaf|I *couldn't hear
blurred vision,amblyopia|blurry vision,blurred vision||I *couldn't see straight
diplopia|double vision||I *saw double
glaucoma|eye pressure||my *eyes felt like bursting
priapism|painful erections||it *would not go down
erectile dysfunction,impotence|loss of libido,no sex drive|impotent|I *had zero sex drive
gynecomastia|man boobs||my *chest grew
amenorrhea|missed periods||my *period stopped
menorrhagia|heavy periods||I *bled for weeks
galactorrhea|leaking breasts||my *breasts leaked milk
polyuria|frequent urination||I *peed every hour
urinary retention|trouble peeing||I *couldn't pee
enuresis,incontinence|bladder leaks|incontinent|I *wet the bed
hematuria|blood in my urine||I *peed blood
jaundice|yellow skin,yellow eyes|yellow|my *skin turned yellow
dyspepsia|heartburn,indigestion,upset stomach|gassy|my *stomach was burning
flatulence|gas,bloating|gassy,bloated|my *belly blew up
dysphagia|trouble swallowing||I *couldn't swallow
agranulocytosis,neutropenia|low white count||my *white cells crashed
pancytopenia,aplastic anemia|low blood counts|anemic|my *counts crashed
thrombocytopenia,purpura|easy bruising,bruises|bruised|I *bruised like a peach
anemia,hemolytic anemia|anemia|pale|I *looked like a ghost
serotonin syndrome|serotonin overload||my *brain was on fire
neuroleptic malignant syndrome|stiffness and fever||my *whole body locked
Stevens-Johnson syndrome,toxic epidermal necrolysis|peeling skin||my *skin peeled off
suicidal ideation|suicidal thoughts|suicidal|I *wanted to die
mania,hypomania|mania,manic episode|manic|I *was up for three days
psychosis|psychosis,paranoia|paranoid,psychotic|I *thought people were watching me
apathy|emotional numbness|like a zombie,emotionless,zombified|I *felt nothing
withdrawal syndrome|brain zaps,withdrawal||I *got zaps in my head
lactic acidosis|acid in my blood||my *lactate shot up
hypoglycemia|low blood sugar,sugar crash||my *sugar crashed
hyperglycemia|high blood sugar||my *sugar went through the roof
lupus-like syndrome|butterfly rash||my *joints and face flared
gingival hyperplasia|swollen gums||my *gums grew over my teeth
osteonecrosis|crumbling bones||my *hip bone died
acne,acneiform eruption|acne,pimples,zits|spotty|my *face broke out
hirsutism|facial hair||I *grew a beard
onychopathy|brittle nails||my *nails fell off
"""

# lay singular/plural | Latin adjective | Greek root | groups of processes that it takes part in:
# o organ, e enlarges, f fails, t clots, p aches, c cramps, m moves, s surface, d dries and itches
_SITES = """
liver/liver|hepatic|hepat|oef
kidney/kidneys|renal|nephr|oftp
heart/heart|cardiac|cardi|oef
lung/lungs|pulmonary|pneumon|oft
stomach/stomach|gastric|gastr|opc
bowel/bowels|intestinal|enter|opc
colon/colon|colonic|col|oc
pancreas/pancreas|pancreatic|pancreat|of
bladder/bladder|vesical|cyst|opc
brain/brain|cerebral|encephal|ot
nerve/nerves|neural|neur|op
spine/spine|spinal|spondyl|pc
eye/eyes|ocular|ophthalm|psd
ear/ears|otic|ot|psd
nose/nose|nasal|rhin|psd
throat/throat|pharyngeal|pharyng|psd
mouth/mouth|oral|stomat|psd
tongue/tongue|lingual|gloss|ps
gum/gums|gingival|gingiv|ps
skin/skin|cutaneous|dermat|psd
lip/lips|labial|cheil|psd
eyelid/eyelids|palpebral|blephar|psd
retina/retinas|retinal|retin|ot
cornea/corneas|corneal|kerat|o
muscle/muscles|muscular|my|pmc
joint/joints|articular|arthr|pm
knee/knees|patellar|gon|pms
hip/hips|coxal|cox|pm
back/back|lumbar|lumb|pmc
neck/neck|cervical||pmsc
shoulder/shoulders|scapular|om|pm
hand/hands|palmar|cheir|pmsdc
foot/feet|plantar|pod|pmsdc
leg/legs|crural||pmsct
arm/arms|brachial|brachi|pms
ankle/ankles|malleolar||pms
finger/fingers|digital|dactyl|pms
toe/toes|acral||pmsc
jaw/jaw|mandibular|gnath|pm
chest/chest|thoracic|thorac|psc
breast/breasts|mammary|mast|ps
prostate/prostate|prostatic|prostat|oe
vein/veins|venous|phleb|ot
artery/arteries|arterial|arter|ot
bone/bones|osseous|oste|op
tendon/tendons|tendinous|tendin|pm
spleen/spleen|splenic|splen|oe
thyroid/thyroid|thyroidal|thyroid|oe
bile duct/bile ducts|biliary|cholang|o
gullet/gullet|esophageal|esophag|opc
nail/nails|ungual|onych|pd
scalp/scalp|cranial|crani|psd
calf/calves|sural||pmc
elbow/elbows|cubital||pms
wrist/wrists|carpal|carp|pms
face/face|facial|prosop|psd
belly/belly|abdominal|lapar|pc
"""

# The groups of processes that can be felt or seen from outside.
_FELT = "pcmsd"

# Greek ending | formal nouns | lay nouns ({1} one, {n} all) | lay clauses | groups
_PROCESSES = """
itis|inflammation|{1} inflammation,inflamed {n}|my *{n} got inflamed|opsm
algia|pain,discomfort|{1} pain,pain in my {n},sore {n},achy {n}|my *{n} hurt,my *{n} ached|psm
opathy|dysfunction,disorder|{1} problems,{1} trouble|my *{n} acted up|o
osis|degeneration,necrosis|{1} damage|my *{n} took a hit|o
omegaly|enlargement|enlarged {1}|my *{n} got too big|e
|failure,insufficiency|{1} failure|my *{n} shut down|f
|infarction,ischemia|poor blood flow to my {1}|my *{n} got no blood|t
|hemorrhage,bleeding|{1} bleed,bleeding in my {n}|my *{n} bled|o
|edema,swelling|swollen {n},{1} swelling,puffy {n}|my *{n} swelled up,my *{n} blew up like a
    balloon|sm
|fibrosis,atrophy|scarred {n},scarring in my {n}|my *{n} scarred up|o
|spasm,cramps|{1} cramps,{1} spasms|my *{n} cramped up,my *{n} seized up|c
|hypoesthesia,paresthesia|numb {n},tingling in my {n},tingly {n}|my *{n} went numb,my *{n} fell
    asleep|sm
|rigidity,stiffness|stiff {n},{1} stiffness|my *{n} stiffened up,my *{n} locked up|m
|weakness,paresis|weak {n},{1} weakness|my *{n} gave out,my *{n} felt like jelly|m
|erythema,eruption|red {n},{1} redness,blotchy {n}|my *{n} turned red|s
|pruritus|itchy {n},itching on my {n}|my *{n} itched like crazy|d
|ulceration,erosion|{1} sores,sores on my {n}|my *{n} got covered in sores|s
|burning sensation|burning {n},burning in my {n}|my *{n} burned,my *{n} felt on fire|ps
|stenosis,stricture|narrowing of my {1},{1} narrowing|my *{n} narrowed|o
|perforation,rupture|hole in my {1}|my *{n} burst|o
|granuloma,nodules|lumps in my {n},{1} lumps|my *{n} got lumpy|o
|abscess,empyema|{1} infection,infected {n}|my *{n} got infected|os
|calcification,sclerosis|hardened {n}|my *{n} hardened|o
|congestion,effusion|fluid in my {n},{1} fluid|my *{n} filled up|o
|contracture,ankylosis|frozen {n},{1} lock|my *{n} froze|m
|tremor,myoclonus|shaky {n},twitchy {n},{1} twitches|my *{n} kept jerking,my *{n} shook|m
|pallor,cyanosis|blue {n},pale {n}|my *{n} turned blue|s
|ecchymosis,petechiae|bruised {n},{1} bruises|my *{n} bruised|sm
|hyperpigmentation,lichenification|dark {n},{1} spots|my *{n} went dark|s
|bullae,blisters|blisters on my {n},blistered {n}|my *{n} blistered|s
|tenderness,hyperalgesia|tender {n},throbbing {n},{1} soreness|my *{n} throbbed,my *{n} were killing
    me|pm
|hypertrophy,hyperplasia|overgrown {n}|my *{n} kept growing|e
|thrombosis,occlusion|blood clot in my {1},{1} clot|my *{n} got a clot|t
|dryness,desquamation|dry {n},cracked {n},peeling {n}|my *{n} dried out,my *{n} peeled|d
"""

# Blood values; "hyper-" and "hypo-" make effects of them, "high" and "low" findings.
_BLOOD = """kal|potassium;natr|sodium;calc|calcium;magnes|magnesium;phosphat|phosphate;
uric|uric acid;lipid|triglycerides;cholesterol|cholesterol;ammon|ammonia;bilirubin|bilirubin;
ferr|ferritin;prolactin|prolactin;insulin|insulin;thyroxin|tsh"""

_DISEASES = """hypertension|high blood pressure|heart;coronary artery disease|heart disease|heart;
atrial fibrillation|afib|heart;hypercholesterolemia|high cholesterol|heart;
major depressive disorder|depression|mind;bipolar disorder|bipolar|mind;
schizophrenia|schizophrenia|mind;generalized anxiety disorder|anxiety disorder|mind;
attention deficit disorder|adhd|mind;osteoarthritis|arthritis|pain;migraine|migraines|pain;
fibromyalgia|fibro|pain;lumbar disc herniation|slipped disc|pain;
pulmonary tuberculosis|tb|infection;urinary tract infection|uti|infection;
pneumonia|pneumonia|infection;chronic hepatitis C|hep c|infection;sinusitis|sinus
    infection|infection;
acute lymphoblastic leukemia|leukemia|cancer;metastatic breast cancer|breast cancer|cancer;
ovarian carcinoma|ovarian cancer|cancer;Hodgkin lymphoma|lymphoma|cancer;
type 2 diabetes mellitus|type 2 diabetes|metabolism;hypothyroidism|underactive thyroid|metabolism;
gout|gout|metabolism;osteoporosis|osteoporosis|metabolism;obesity|obesity|metabolism;
bronchial asthma|asthma|lung;chronic obstructive pulmonary disease|copd|lung;
allergic rhinitis|hay fever|lung;peptic ulcer disease|ulcers|gut;
gastroesophageal reflux disease|acid reflux|gut;irritable bowel syndrome|ibs|gut;
epilepsy|epilepsy|nerve;trigeminal neuralgia|nerve pain|nerve;Parkinson disease|parkinsons|nerve;
restless legs syndrome|rls|nerve;rheumatoid arthritis|ra|immune;ulcerative colitis|colitis|immune;
multiple sclerosis|ms|immune;psoriasis|psoriasis|immune;systemic lupus erythematosus|lupus|immune;
Crohn disease|crohns|immune;polymyalgia rheumatica|pmr|immune"""


class Disease(NamedTuple):
    """A diagnosis for which drugs are taken."""

    formal: str
    lay: str
    area: str


@cache
def concepts() -> tuple[Concept, ...]:
    """Return every effect, the written ones (frequent on every platform) first."""
    written = [
        Concept(_cells(formal), _cells(nouns), _cells(adjectives), _cells(clauses))
        for formal, nouns, adjectives, clauses in rows(_WRITTEN)
    ]
    return (*written, *_blood_concepts(), *_composed())


@cache
def formal_terms() -> tuple[str, ...]:
    """Return every formal name with and without its qualifiers."""
    bare = sorted({name for concept in concepts() for name in concept.formal})
    return (*bare, *(f"{qualifier} {name}" for name in bare for qualifier in QUALIFIERS))


@cache
def sites() -> tuple[tuple[str, str], ...]:
    """Return the sites that ache: one and many ("knee", "knees")."""
    pairs = [row[0].split("/") for row in rows(_SITES) if "m" in row[3]]
    return tuple((one, many) for one, many in pairs)


@cache
def adjectives() -> tuple[str, ...]:
    """Return the Latin adjectives of the sites."""
    return tuple(row[1] for row in rows(_SITES))


@cache
def roots() -> tuple[str, ...]:
    """Return the Greek and Latin roots of the sites."""
    return tuple(row[2] for row in rows(_SITES) if row[2])


@cache
def blood_values() -> tuple[str, ...]:
    """Return what laboratories measure, in lay words."""
    return tuple(row.split("|")[1] for row in phrases(_BLOOD))


@cache
def diseases() -> dict[str, tuple[Disease, ...]]:
    """Return the diagnoses by the class of drugs that treats them."""
    table: dict[str, list[Disease]] = {}
    for row in phrases(_DISEASES):
        formal, lay, area = row.split("|")
        table.setdefault(area, []).append(Disease(formal, lay, area))
    return {area: tuple(rows) for area, rows in table.items()}


def _cells(cell: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in cell.split(",") if part)


def _blood_concepts() -> list[Concept]:
    made = []
    for row in phrases(_BLOOD):
        root, lay = row.split("|")
        for greek, high, verb in (("hyper", "high", "shot up"), ("hypo", "low", "tanked")):
            nouns = (f"{high} {lay}", f"{high} {lay} levels")
            clauses = (f"my *{lay} {verb}",)
            made.append(Concept((f"{greek}{root}emia",), nouns, (), clauses, is_internal=True))
    return made


def _composed() -> list[Concept]:
    made = []
    for lay, adjective, root, groups in rows(_SITES):
        one, many = lay.split("/")
        for ending, nouns, lay_nouns, clauses, where in rows(_PROCESSES):
            if not set(groups) & set(where):
                continue
            greek = (_joined(root, ending),) if root and ending else ()
            formal = (*greek, *(f"{adjective} {noun}" for noun in _cells(nouns)))
            fill = {"1": one, "n": many}
            made.append(
                Concept(
                    formal,
                    tuple(_filled(noun, fill) for noun in _cells(lay_nouns)),
                    (),
                    tuple(_filled(clause, fill) for clause in _cells(clauses)),
                    is_internal=not set(where) & set(_FELT),
                )
            )
    return made


def _filled(pattern: str, values: dict[str, str]) -> str:
    return pattern.replace("{1}", values["1"]).replace("{n}", values["n"])


def _joined(root: str, ending: str) -> str:
    """Join a Greek root and an ending without doubling their vowel."""
    return root[:-1] + ending if root[-1] == ending[0] else root + ending
