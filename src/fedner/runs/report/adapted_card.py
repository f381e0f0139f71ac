"""The model card of a platform that joined a finished run: its own tagger on the shared module."""

from collections.abc import Mapping
from dataclasses import dataclass

from fedner.runs.records import BothIntervals, PrivacySpent
from fedner.runs.report.card import (
    NOT_DECLARED,
    context_of,
    privacy,
    public_labels,
    spread,
    stated,
    types_found,
    versions,
    words_of,
)
from fedner.runs.report.card_words import (
    INTENDED,
    LIMITS,
    SCORE_WORDS,
    SYNTHETIC_WORDS,
)
from fedner.runs.report.markdown import (
    bullets,
    code,
    code_block,
    document,
    escaped,
    section,
    table,
)
from fedner.settings import PlatformEntry, Settings

KEPT = (
    "The shared module is the run's own, unchanged; the private part was trained on this "
    "platform's texts alone."
)
TUNED = (
    "The whole tagger was trained on this platform's texts, from the run's shared module on: "
    "nothing of it is the federation's any more."
)
OWN_PRIVACY = (
    "What was trained here was trained without noise, on this platform's texts: whoever is given "
    "this tagger is given something that no epsilon covers. The following is what the shared "
    "module had cost the platforms of the run."
)


@dataclass(frozen=True, slots=True)
class Joined:
    """What the card of an adapted tagger is made of.

    Attributes:
        settings: The settings of the run, with the new platform in place of those of the run.
        run: The title of the run that it joined.
        labels: The types of its tagger.
        intervals: Strict and relaxed F1 on its own test part, with their intervals.
        by_label: Strict F1 of every type.
        epochs: How many epochs it trained.
        kept: How many shared numbers are as the federation left them.
        versions: What it was made with.
        privacy: What the run spent; None without differential privacy.
        left_out: What of its mentions the tagger never saw; empty if nothing.
        zeros: Where strict F1 is 0.0; empty if nowhere.
    """

    settings: Settings
    run: str
    labels: tuple[str, ...]
    intervals: BothIntervals
    by_label: Mapping[str, float]
    epochs: int
    kept: int
    versions: Mapping[str, str]
    privacy: PrivacySpent | None = None
    left_out: str = ""
    zeros: str = ""


def adapted_card(joined: Joined) -> str:
    """Return the model card of a platform that joined later."""
    (platform,) = joined.settings.platforms
    is_synthetic = platform.synthetic is not None
    found = types_found(joined.settings)
    return document(
        f"Model card: {escaped(platform.name)}, joined to {escaped(joined.run)}",
        f"> **{escaped(joined.zeros)}**" if joined.zeros and _public(joined, platform) else "",
        f"> **Synthetic data.** {SYNTHETIC_WORDS}" if is_synthetic else "",
        _summary(joined),
        section("Intended use", INTENDED),
        _data(joined, platform),
        _scores(joined, platform),
        _privacy(joined),
        section(
            "What the platform disclosed",
            "Nothing: a platform that joins later reads the shared module and sends no update.",
        ),
        _use(),
        section("Limits", bullets((*([SYNTHETIC_WORDS] * is_synthetic), found, *LIMITS))),
        section("Settings", code_block(stated(joined.settings), "json")),
        versions(joined.versions),
    )


def _summary(joined: Joined) -> str:
    rows = [
        ("recipe", code(joined.settings.model.recipe)),
        ("words", words_of(joined.settings)),
        ("context", context_of(joined.settings)),
        ("epochs on its own texts", f"{joined.epochs:,}"),
        ("shared numbers kept", f"{joined.kept:,}"),
    ]
    lead = (
        f"A named-entity tagger of one platform, on the shared module of the run "
        f"{escaped(joined.run)}. {KEPT if joined.kept else TUNED}"
    )
    return "\n\n".join((lead, table(("what", "how"), rows)))


def _public(joined: Joined, platform: PlatformEntry) -> list[str] | None:
    return public_labels(platform, joined.labels)


def _data(joined: Joined, platform: PlatformEntry) -> str:
    labels = _public(joined, platform)
    is_synthetic = platform.synthetic is not None
    rows = [
        ("data", code(platform.data) if is_synthetic else "its own, never shared"),
        ("types annotated", NOT_DECLARED if labels is None else ", ".join(map(escaped, labels))),
        ("flattening", code(platform.flatten)),
        ("reading", "lenient" if platform.lenient else "strict"),
    ]
    if labels is not None:
        rows.append(("mentions left out", escaped(joined.left_out) or "none"))
    return section("Data, as declared", table(("what", "how"), rows))


def _scores(joined: Joined, platform: PlatformEntry) -> str:
    rows = [("all", spread(joined.intervals.strict), spread(joined.intervals.relaxed))]
    public = [each for each in _public(joined, platform) or () if each in joined.by_label]
    types = [(escaped(each), f"{100 * joined.by_label[each]:.1f}") for each in public]
    return section(
        "Scores",
        SCORE_WORDS,
        table(("types", "strict F1", "relaxed F1"), rows),
        table(("type", "strict F1"), types) if types else "",
    )


def _privacy(joined: Joined) -> str:
    written = privacy(joined.privacy)
    if joined.privacy is None:
        return written
    heading, rest = written.split("\n\n", 1)
    return f"{heading}\n\n{OWN_PRIVACY}\n\n{rest}"


def _use() -> str:
    return section(
        "How to use it",
        "`MODEL` is the folder that this card lies in.",
        code_block("fedner predict MODEL notes.txt", "sh"),
    )
