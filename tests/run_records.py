"""Records of runs that never were: as small as a test needs them."""

from fedner.runs.records import (
    BothIntervals,
    DescribedTensor,
    Disclosure,
    Gain,
    PlatformScores,
    PlatformSpent,
    PrivacySpent,
    RunDisclosure,
    RunScores,
    Verdict,
)
from fedner.scoring import Counts, Interval, PairedTest, RelaxedCounts, Scores

INTERVAL = Interval(0.5, 0.4, 0.6, 0.95)
METHODS = ("local-only", "federated", "centralized")


def scores_of(*counts: tuple[str, int, int], wrong: int = 0) -> Scores:
    """Return scores in which each type has so many right and missed mentions."""
    return Scores(
        {name: Counts(right, wrong, missed) for name, right, missed in counts},
        {name: RelaxedCounts(1, 1, 1, 1) for name, _, _ in counts},
        {name: RelaxedCounts(1, 1, 1, 1) for name, _, _ in counts},
    )


def gain_of(verdict: Verdict, value: float, low: float = -1.0, high: float = 1.0) -> Gain:
    test = PairedTest(0.5, 0.5 + value, Interval(value, low, high, 0.95), 0.04)
    return Gain("local-only", verdict, test, test)


def platform_of(gain: Gain | None = None, **methods: Scores) -> PlatformScores:
    """Return a platform's scores; an underscore in the name of a method stands for a hyphen."""
    held = {name.replace("_", "-"): each for name, each in methods.items()}
    intervals = {name: BothIntervals(INTERVAL, INTERVAL) for name in held}
    return PlatformScores("sentence", 10, held, intervals, gain)


def run_scores(**platforms: PlatformScores) -> RunScores:
    return RunScores("t", 1, synthetic=True, platforms=platforms)


def platform_spent(pld: float | None = 1.5, rdp: float | None = 2.0) -> PlatformSpent:
    return PlatformSpent(
        rdp=rdp,
        pld=pld,
        delta=1e-5,
        unit="sentence",
        adjacency="add_or_remove_one",
        public_units=(30,),
        steps=123_456,
        simulation=False,
        score_releases=0,
        score_noise_multiplier=(),
        score_max_norm=(),
        in_all=17.123,
        granted=20.0,
        ledger="ledger",
        noise_multiplier=(1.0,),
        max_grad_norm=(1.0,),
        sampling_probability=(0.1,),
        slices=0,
    )


def privacy_spent(**platforms: PlatformSpent) -> PrivacySpent:
    return PrivacySpent(
        mechanism="unit-local",
        noise_by="platform",
        unit="sentence",
        simulation=False,
        delta=1e-5,
        target_epsilon=8.0,
        budget=None,
        private_part="joint",
        tuned_on="public",
        uncharged=(),
        notes=(),
        platforms=platforms,
    )


def run_disclosure(*names: str) -> RunDisclosure:
    sent = (DescribedTensor("word_cnn.weight", (22_713_089,), 22_713_089),)
    more = tuple(DescribedTensor(f"b{number}", (1,), 1) for number in range(127))
    kept = (DescribedTensor("bilstm.weight", (12_345_678,), 12_345_678),)
    one = Disclosure(12_345, 0, 123_456_789_012, 1, (*sent, *more), 0, 0, 30, kept, ("texts",))
    return RunDisclosure.of(dict.fromkeys(names, one))
