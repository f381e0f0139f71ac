"""`tagging-table1` to `tagging-table6`: what each varies, what the paper found, what is ours."""

from collections.abc import Mapping

from fedner.reproduce.bench import Tables
from fedner.reproduce.reproduction import Factor, Reproduction
from fedner.reproduce.tagging_2021 import published
from fedner.reproduce.tagging_2021.claims import Claim
from fedner.reproduce.tagging_2021.designs import Axis, Design, Way
from fedner.reproduce.tagging_2021.plans import (
    CRF,
    EPOCHS,
    NO_DP,
    SETTINGS_2021,
    SETTINGS_CLIPPED,
    SETTINGS_FIX,
    SHARES,
    TDDL,
    Plan,
    adam,
    as_in_2021,
    fixed,
    in_micro_batches,
    in_slices,
    local_epochs,
    noise_multiplier,
    recipe,
)
from fedner.reproduce.tagging_2021.showing import Layout

Factors = Mapping[str, Factor]
SLICED_PLATFORMS = 5
CORPORA = (("conll2003",), ("btc",))
REPEATS = 5
ADAM_RATE = 0.001

NOISE = Axis("noise_multiplier", "noise multiplier", published.NOISES, "noise {:g}")
NUMBER = Axis("n", "platforms", published.NUMBERS, "n = {}")
SHARE = Axis("share", "training data, %", SHARES, "{} %")
ONE_PASS, TEN_PASSES = f"{TDDL}, one pass a slice", f"{TDDL}, 10 passes a slice"
CRF_PASSES = f"{CRF}, 10 passes a slice"
AVERAGED, CRF_AVERAGED = f"{TDDL}, averaged often", f"{CRF}, averaged often"
WHOLE_BATCHES = "one pass, whole batches clipped"
FIX = "fix at the epsilon of TDDL"
FIX_ARRIVED = "fix on all data so far"
OFTEN_NOTE = "averaged often: ten rounds of one epoch in place of one round of ten."
SLICES_NOTE = (
    "Slices of 10 %, one a round. How many passes a slice has is not stated in the paper: both "
    "readings are shown, and its numbers stand beside both."
)
ARRIVED_NOTE = (
    "fix on all data so far: trained once, when that share has arrived, at the epsilon of 10 "
    "passes a slice; to train it at every share would add up."
)
FIX_NOTE = "In every repeat fix has the epsilon that the settings of 2021 spent."
EVERY_EPOCH: Tables = {"training": {"rounds": EPOCHS}, **local_epochs(1)}


def _alone(model: str, *changes: Tables) -> Way:
    def plan(_: Factors) -> Plan:
        return as_in_2021(1, recipe(model), NO_DP, *changes)

    return Way(f"{model}, Adam" if changes else model, plan, None if changes else model)


def _noised(model: str) -> Way:
    def plan(factors: Factors) -> Plan:
        return as_in_2021(1, recipe(model), noise_multiplier(float(factors["noise_multiplier"])))

    return Way(model, plan, model)


def _divided(label: str, model: str, *changes: Tables) -> Way:
    """Return a way for n platforms."""

    def plan(factors: Factors) -> Plan:
        return as_in_2021(int(factors["n"]), recipe(model), *changes)

    return Way(label, plan, TDDL if label == TDDL else None)


def _sliced(label: str, model: str, passes: int, *changes: Tables, batch: int = 1) -> Way:
    """Return a way in slices; `batch` sentences are averaged before they are clipped."""
    plan = as_in_2021(SLICED_PLATFORMS, recipe(model), in_slices(passes), *changes)
    whole = plan if batch == 1 else in_micro_batches(plan, batch)
    theirs = TDDL if label in (ONE_PASS, TEN_PASSES) else None
    return Way(label, lambda _: whole, theirs, is_sliced=True)


def _at_epsilon(factors: Factors) -> Plan:
    # Only the number of platforms is known before the first stage has run.
    return fixed(int(factors.get("n", 1)), float(factors.get("target_epsilon", 1.0)))


def _on_arrived(factors: Factors) -> Plan:
    keep = int(factors["share"]) / 100
    return fixed(SLICED_PLATFORMS, float(factors.get("target_epsilon", 1.0)), keep)


def _at(way: str, **place: Factor) -> Factors:
    return {"way": way, **place}


TABLE_1 = Layout(
    "tagging-table1",
    "Taggers on one platform without DP (table 1)",
    Design((_alone(TDDL), _alone(CRF), _alone(CRF, adam(ADAM_RATE)))),
    published.TABLE_1,
    (Claim("the CRF is worse than a softmax.", _at(TDDL), _at(CRF), "falls"),),
    has_figure=False,
)
TABLE_2 = Layout(
    "tagging-table2",
    "Taggers on one platform under DP by noise (table 2)",
    Design((_noised(TDDL), _noised(CRF), Way(FIX, _at_epsilon, epsilon_of=TDDL)), NOISE),
    published.TABLE_2,
    (
        Claim(
            "the softmax tagger is stable as noise grows from 0.5 to 50.",
            _at(TDDL, noise_multiplier=0.5),
            _at(TDDL, noise_multiplier=50.0),
            "stays",
        ),
        Claim(
            "under DP (noise 1) the CRF is worse than a softmax.",
            _at(TDDL, noise_multiplier=1.0),
            _at(CRF, noise_multiplier=1.0),
            "falls",
        ),
        Claim(
            "at the epsilon of noise 1 the fixed recipe is better.",
            _at(TDDL, noise_multiplier=1.0),
            _at(FIX, noise_multiplier=1.0),
            "rises",
            True,
        ),
    ),
    has_dp=True,
)
TABLE_3 = Layout(
    "tagging-table3",
    "n platforms without DP, averaged once (table 3)",
    Design(
        (
            _divided(TDDL, TDDL, NO_DP),
            _divided(AVERAGED, TDDL, NO_DP, EVERY_EPOCH),
            _divided(CRF_AVERAGED, CRF, NO_DP, EVERY_EPOCH),
        ),
        NUMBER,
    ),
    published.TABLE_3,
    (
        Claim("F falls with n.", _at(TDDL, n=2), _at(TDDL, n=20), "falls"),
        Claim(
            "averaging after every epoch instead of once gains at n = 20.",
            _at(TDDL, n=20),
            _at(AVERAGED, n=20),
            "rises",
            True,
        ),
    ),
)
TABLE_4 = Layout(
    "tagging-table4",
    "Incremental training in slices without DP, n = 5 (table 4)",
    Design(
        (
            _sliced(ONE_PASS, TDDL, 1, NO_DP),
            _sliced(TEN_PASSES, TDDL, EPOCHS, NO_DP),
            _sliced(CRF_PASSES, CRF, EPOCHS, NO_DP),
        ),
        SHARE,
    ),
    published.TABLE_4,
    (
        Claim(
            "F grows with every slice.",
            _at(TEN_PASSES, share=20),
            _at(TEN_PASSES, share=100),
            "rises",
        ),
    ),
)
TABLE_5 = Layout(
    "tagging-table5",
    "n platforms under DP, noise multiplier 1, averaged once (table 5)",
    Design(
        (_divided(TDDL, TDDL), _divided(CRF, CRF), Way(FIX, _at_epsilon, epsilon_of=TDDL)), NUMBER
    ),
    published.TABLE_5,
    (
        Claim("F falls with n.", _at(TDDL, n=2), _at(TDDL, n=20), "falls"),
        Claim(
            "at the same true epsilon the fixed recipe is better at n = 5.",
            _at(TDDL, n=5),
            _at(FIX, n=5),
            "rises",
            True,
        ),
        Claim(
            "at the same true epsilon the fixed recipe is better at n = 20.",
            _at(TDDL, n=20),
            _at(FIX, n=20),
            "rises",
            True,
        ),
    ),
    has_dp=True,
)
TABLE_6 = Layout(
    "tagging-table6",
    "Incremental training in slices under DP, n = 5, noise multiplier 1 (table 6)",
    Design(
        (
            _sliced(ONE_PASS, TDDL, 1),
            _sliced(TEN_PASSES, TDDL, EPOCHS),
            _sliced(CRF_PASSES, CRF, EPOCHS),
            _sliced(WHOLE_BATCHES, TDDL, 1, batch=32),
            Way(FIX_ARRIVED, _on_arrived, epsilon_of=TEN_PASSES),
        ),
        SHARE,
    ),
    published.TABLE_6,
    (
        Claim(
            "F collapses after 60 % of the data.",
            _at(TEN_PASSES, share=40),
            _at(TEN_PASSES, share=100),
            "falls",
        ),
        Claim(
            "clipped sentence by sentence, F grows with every slice.",
            _at(TEN_PASSES, share=20),
            _at(TEN_PASSES, share=100),
            "rises",
            True,
        ),
        Claim(
            "at the same epsilon the fixed recipe on all data is better.",
            _at(TEN_PASSES, share=100),
            _at(FIX_ARRIVED, share=100),
            "rises",
            True,
        ),
    ),
    has_dp=True,
)
LAYOUTS = (TABLE_1, TABLE_2, TABLE_3, TABLE_4, TABLE_5, TABLE_6)


def study(layout: Layout, *settings: str) -> Reproduction:
    """Return a layout as a study that can be run by its name."""
    has_fix = any(way.epsilon_of is not None for way in layout.design.ways)
    design = layout.design
    return Reproduction(
        layout.name,
        "Jana & Biemann 2021",
        layout.title,
        "one corpus",
        CORPORA,
        (design.first, design.second) if has_fix else (design.first,),
        design.run,
        layout.show,
        frozenset({"words"}),
        (*SETTINGS_2021, *((SETTINGS_FIX, FIX_NOTE) if has_fix else ()), *settings),
        REPEATS,
    )


STUDIES = (
    study(TABLE_1),
    study(TABLE_2),
    study(TABLE_3, OFTEN_NOTE),
    study(TABLE_4, SLICES_NOTE),
    study(TABLE_5),
    study(TABLE_6, SLICES_NOTE, SETTINGS_CLIPPED, ARRIVED_NOTE),
)
