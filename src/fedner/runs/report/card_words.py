"""The standing sentences of model cards: what scores mean, intended use, limits."""

from fedner.runs.trust import NOTHING

SYNTHETIC_WORDS = (
    "The texts of these platforms were made by a program. The numbers show how fedner works, not "
    "how well a tagger does on real text."
)
INTENDED = (
    "To find mentions of the types that a platform annotates, in texts like that platform's own: "
    "same language, same kind of text, same annotation guideline. The taggers are research "
    "software: they are no medical device, and no decision about a person should rest on them "
    "without somebody who reads the text."
)
SCORE_WORDS = (
    "Strict F1 in percent on each platform's own test part (a mention counts if borders and type "
    "are exactly right), with its 95 % bootstrap interval, then relaxed F1 (borders need only "
    "overlap). The test parts are private: leave this section out where scores must not be known."
)
KEPT_SCORES = (
    "Scores on the platforms' test parts are not covered by epsilon and are not shown here. "
    "They are in the report, which is only for the platforms themselves."
)
NOISED_WORDS = (
    "Strict F1 in percent after the last round, from counts that the platforms disclosed clipped "
    "and with noise: part of epsilon, and rough where a test part is small."
)
METHOD_WORDS = {
    "local-only": "the platform trained alone, on its own texts.",
    "federated": "the tagger that this card is about.",
    "centralized": "all texts in one place, which privacy forbids; an upper bound.",
}
GAIN_WORDS = (
    "A gain is a paired difference on the same texts, in points of strict F1. The answer is yes "
    "or no only if its whole interval is on one side of zero."
)
NO_BASELINES = (
    "No platform was also trained alone in this run, so it cannot say whether joining helped "
    "(set `training.baselines`)."
)
NO_PRIVACY = (
    f"**No differential privacy.** Updates were transmitted without noise. {NOTHING} Trained "
    "weights can remember "
    "rare words and mentions: hand them only to those who might see the texts, or train with "
    "a `[privacy]` table."
)
OTHER_TEXTS = (
    "Other languages, kinds of text and ways of tokenising, and words of later years, lower the "
    "scores by an unknown amount. Score on your own annotated sample first (`fedner score`)."
)
WHAT_INTERVALS_COVER = (
    "Intervals show how much scores depend on the choice of test texts. They cover neither the "
    "luck of the seed nor annotation errors."
)
OWN_TYPES = "A type that a platform does not annotate is never found by its tagger."
ALL_TYPES = (
    "The tags are shared, so every tagger may find the types of all platforms. On a platform "
    "that does not annotate a type, nobody has tested how well it is found: the scores leave it "
    "out."
)
LIMITS = (
    OTHER_TEXTS,
    WHAT_INTERVALS_COVER,
    "Mentions are flat and contiguous: nested and discontinuous ones were flattened first.",
    "Redaction with these taggers misses mentions; it does not prove anonymity.",
    "Scores were not broken down by groups of people.",
)
