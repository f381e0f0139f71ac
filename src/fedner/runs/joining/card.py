"""The model card of a joined tagger: what was received, tried, kept and measured."""

import platform as machine
from collections.abc import Mapping

import torch

from fedner.models.checkpoint import LoadedTagger
from fedner.runs.joining.choice import METHODS
from fedner.runs.joining.record import RECEIVED, Joined, MethodResult
from fedner.runs.report.card import spread, versions
from fedner.runs.report.card_words import INTENDED, LIMITS, SYNTHETIC_WORDS
from fedner.runs.report.markdown import (
    bullets,
    code,
    code_block,
    document,
    escaped,
    section,
    table,
)
from fedner.version import __version__

KEPT_WORDS = {
    "joined": "The received weights, fine-tuned on this platform's own texts.",
    "local-only": "A tagger that was trained only on this platform's own texts: "
    "cross-validation found it better than the received weights, so it contains "
    "none of them.",
    "average": "The mean of two taggers: the received weights, fine-tuned on this platform's "
    "own texts, and one that was trained only on these texts.",
}
OWN_PRIVACY = (
    "The tagger was trained without noise on this platform's own texts: no epsilon covers it. "
    "Do not give it away. Its makers say of the received model:"
)
SELECTION_WORDS = (
    "Strict F1 in percent over three folds of the training sentences. **These scores chose what "
    "is kept. They are the best of many and not a result**: for that see the section Result."
)
PULL_WORDS = (
    "*Pull*: how strongly training kept weights close to the initial ones; for joined, these "
    "are the received ones."
)
RESULT_WORDS = (
    "Strict F1 in percent on this platform's own test part, which played no part in any choice (a "
    "mention counts if borders and type are exactly right), with its 95 % bootstrap interval, then "
    "relaxed F1 (borders need only overlap). The test part is private: leave this section out "
    "where scores must not be known."
)
NO_RESULT = (
    "None: all sentences were used for training (`--test 0`). Nobody knows how good the tagger "
    "is; score it on texts that it has not seen (`fedner score`)."
)
WORTH_WORDS = (
    "Both were trained on growing parts of the own training sentences. *Worth*: with how many "
    "sentences of its own local-only reaches what joined has there, with a 95 % bootstrap interval."
)


def joined_card(joined: Joined, kept: LoadedTagger) -> str:
    """Return the model card of a platform that joined."""
    return document(
        f"Model card: {escaped(joined.name)}, joined to {escaped(joined.received['title'])}",
        f"> **{escaped(joined.zeros)}**" if joined.zeros else "",
        f"> **Synthetic data.** {SYNTHETIC_WORDS}" if joined.is_synthetic else "",
        _summary(joined, kept),
        section("Intended use", INTENDED),
        _received(joined.received),
        section("What the platform disclosed", "Nothing. Joining only receives."),
        _data(joined),
        _selection(joined),
        _result(joined),
        _worth(joined),
        section("Privacy", OWN_PRIVACY, f"> {escaped(joined.received['privacy'])}"),
        section(
            "How to use it",
            "`MODEL` is the folder of this card.",
            code_block("fedner predict MODEL notes.txt", "sh"),
        ),
        section("Limits", bullets(LIMITS)),
        versions(_versions()),
    )


def _versions() -> dict[str, str]:
    return {
        "fedner": __version__,
        "torch": str(torch.__version__),
        "python": machine.python_version(),
    }


def _summary(joined: Joined, kept: LoadedTagger) -> str:
    words, context = kept.words.origin, kept.context
    rows = [
        ("kept", joined.kept),
        ("recipe", code(kept.recipe.name)),
        ("words", escaped(words.name)),
        ("context", "none" if context is None else escaped(context.name)),
    ]
    rows += [(f"trained: {each.arm}", each.setting.words()) for each in joined.choice.members]
    lead = f"A named-entity tagger of one platform. {KEPT_WORDS[joined.kept]}"
    return "\n\n".join((lead, table(("what", "how"), rows)))


def _received(received: Mapping[str, object]) -> str:
    rows = [
        ("model", escaped(str(received["title"]))),
        ("digest", code(str(received["digest"]))),
        ("recipe", code(str(received["recipe"]))),
        ("head", escaped(str(received["head"]))),
        ("numbers", f"{received['numbers']:,}"),
        ("privacy", escaped(str(received["privacy"]))),
    ]
    return section("What was received", table(("what", "which"), rows))


def _data(joined: Joined) -> str:
    rows = [
        ("data", "its own, never shared"),
        ("training sentences", f"{joined.num_train:,}"),
        ("test sentences", f"{joined.num_test:,}"),
        ("kept together", joined.unit),
        ("mentions left out", escaped(joined.left_out) or "none"),
    ]
    types = [(escaped(name), escaped(text)) for name, text in joined.types.items()]
    return section("Data", table(("what", "how"), rows), table(("type", "described as"), types))


def _selection(joined: Joined) -> str:
    choice = joined.choice
    methods = [
        (f"**{name}** (kept)" if name == joined.kept else name, _percent(choice.selection_f1[name]))
        for name in METHODS
    ]
    rows = [
        (each.arm, f"{each.setting.learning_rate:g}", f"{each.setting.pull:g}",
         f"{each.setting.epochs}", _percent(each.selection_f1))
        for each in choice.candidates
    ]  # fmt: skip
    return section(
        "Selection",
        SELECTION_WORDS,
        table(("method", "selection score"), methods),
        PULL_WORDS,
        table(("candidate", "learning rate", "pull", "epochs", "selection score"), rows),
    )


def _result(joined: Joined) -> str:
    result = joined.result
    if result is None:
        return section("Result", NO_RESULT)
    rows = [_row(f"**{joined.kept}** (kept)", result)]
    rows += [_row(name, each) for name, each in joined.results.items() if name != joined.kept]
    gain = joined.gain
    said = ""
    if gain is not None:
        said = f"Against local-only: {spread(gain.difference, '+')} points of strict F1."
    by_label = result.outcome.scores.strict
    types = [(escaped(label), _percent(counts.f1)) for label, counts in by_label.items()]
    note = f"*{RECEIVED}*: before any training here." if RECEIVED in joined.results else ""
    return section(
        "Result",
        RESULT_WORDS,
        table(("method", "strict F1", "relaxed F1"), rows),
        note,
        said,
        table(("type", "strict F1"), types),
    )


def _row(name: str, result: MethodResult) -> tuple[str, str, str]:
    return name, spread(result.intervals.strict), spread(result.intervals.relaxed)


def _worth(joined: Joined) -> str:
    if not joined.worth:
        return ""
    rows = [
        (f"{each.sentences:,}", _percent(each.local_f1), _percent(each.joined_f1), each.words())
        for each in joined.worth
    ]
    return section(
        "What joining is worth in own sentences",
        WORTH_WORDS,
        joined.worth_words(),
        table(("own sentences", "local-only", "joined", "worth"), rows),
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"
