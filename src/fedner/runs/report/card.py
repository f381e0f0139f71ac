"""The model card of a run: what may be handed on with its taggers, in Markdown.

It is made for other eyes than the report: of each platform's data it tells what the federation file
declares and nothing that was counted in them, and it names no path. It holds no date and no
duration, so that a run that was stopped and resumed has the same card.
"""

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from fedner.models.partition import shares_tags
from fedner.models.zoo import recipe_named
from fedner.runs.annotated_types import left_out_words
from fedner.runs.initial_facts import COVERS, began_with
from fedner.runs.records import (
    Gain,
    InitialFacts,
    PlatformFacts,
    PlatformScores,
    PrivacySpent,
)
from fedner.runs.report.audit_words import audit_section
from fedner.runs.report.card_words import (
    ALL_TYPES,
    GAIN_WORDS,
    INTENDED,
    KEPT_SCORES,
    LIMITS,
    METHOD_WORDS,
    NO_BASELINES,
    NO_PRIVACY,
    NOISED_WORDS,
    OWN_TYPES,
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
from fedner.runs.report.page import Findings, strict_f1
from fedner.runs.report.rows import GUARANTEE, SENT, guarantee_cells, over_all_runs, sent_cells
from fedner.runs.type_descriptions import head_of
from fedner.runs.verdict import privacy_sentence, verdict_sentence, zero_sentence
from fedner.scoring import Interval, Scores
from fedner.settings import (
    HASHED,
    NO_CONTEXT,
    PlatformEntry,
    Settings,
    SplitSettings,
    StudyPlatform,
)

NOT_DECLARED = "not declared"
LOCAL = "(on the platform)"


def card(found: Findings, tagger: PurePath) -> str:
    """Return the whole model card of a finished run.

    Args:
        found: What the run came to.
        tagger: A finished tagger, seen from the folder of the card.
    """
    return document(
        f"Model card: {escaped(found.scores.title)}",
        _summary(found),
        section("Intended use", INTENDED),
        _data(found),
        _scores(found),
        _types(found),
        privacy(found.privacy),
        audit_section(found.audits, is_deployed=found.is_deployed),
        _beginning(found),
        _left(found),
        use(tagger),
        section("Limits", bullets(_limits(found))),
        section("Settings", code_block(stated(found.settings, found.facts.initial), "json")),
        versions(found.facts.versions),
    )


def _summary(found: Findings) -> str:
    settings, names = found.settings, list(found.scores.platforms)
    shared = settings.partition.shared
    preset = shared if isinstance(shared, str) else ", ".join(shared)
    rows = [
        ("recipe", code(settings.model.recipe)),
        ("words", words_of(settings)),
        ("context", context_of(settings)),
        ("head", code(head_of(settings.model))),
        ("algorithm", code(settings.algorithm.name)),
        ("what is shared", code(preset)),
        ("rounds", f"{len(found.rounds):,}"),
        ("seed", str(settings.seed)),
    ]
    warning = f"> **Synthetic data.** {SYNTHETIC_WORDS}" if found.facts.synthetic else ""
    parts = (*_verdict(found), warning, _lead(names), table(("what", "how"), rows))
    return "\n\n".join(part for part in parts if part)


def _lead(names: Sequence[str]) -> str:
    """Return what the taggers are, in a sentence."""
    if len(names) == 1:
        return (
            f"The named-entity tagger of the platform {escaped(names[0])}, trained in a federation "
            "in which every text stayed at its platform. It is made of shared and private modules."
        )
    return (
        f"Named-entity taggers of {len(names)} platforms ({', '.join(map(escaped, names))}), "
        "trained together while every text stayed at its platform. Each platform has its own "
        "tagger, made of shared and private modules."
    )


def _verdict(found: Findings) -> Iterable[str]:
    """Yield what stands on top: where F1 is 0.0, whether joining helped, which privacy it had."""
    if not found.is_deployed:
        zeros = zero_sentence(found.scores.by_platform, _public_types(found))
        if zeros:
            yield f"> **{escaped(zeros)}**"
        yield f"**{escaped(verdict_sentence(found.scores))}**"
    yield f"**{escaped(privacy_sentence(found.privacy))}**"


def _public_types(found: Findings) -> dict[str, list[str]]:
    """Return the types of each platform that may be named."""
    facts = found.facts.platforms
    return {
        each.name: public_labels(each, facts[each.name].labels) or []
        for each in found.settings.platforms
    }


def words_of(settings: Settings) -> str:
    """Return in words what a word becomes."""
    embeddings = settings.embeddings
    if not recipe_named(settings.model.recipe).words:
        return "none"
    trained = "trained" if embeddings.trainable else "frozen"
    if embeddings.words == HASHED:
        return f"{embeddings.buckets:,} hashed buckets of {embeddings.dimension}, {trained}"
    return f"vectors {code(PurePath(embeddings.words).name)}, {trained}"


def context_of(settings: Settings) -> str:
    """Return in words where context comes from, and whether it is trained."""
    held, adapter = settings.embeddings.context, settings.model.adapter
    if held == NO_CONTEXT:
        return "none"
    how = "trained whole" if recipe_named(settings.model.recipe).trains_encoder else "frozen"
    if adapter is not None:
        how = f"frozen, with trained adapters of rank {adapter.rank}"
    return f"{code(PurePath(held).name)}, {how}"


def _data(found: Findings) -> str:
    facts = found.facts.platforms
    rows = [_declared(each, facts[each.name]) for each in found.settings.platforms]
    columns = ("platform", "data", "types annotated", "public size", "tested on")
    return section(
        "Data, as declared",
        "What the settings declare. Nothing in this table was counted in the texts.",
        table(columns, rows),
        *_left_out(found),
    )


def _left_out(found: Findings) -> Iterable[str]:
    """Yield how mentions were chosen, and how many the taggers never saw.

    Of protected platforms, and of types that are not public, nothing is counted.
    """
    rows = []
    for each in found.settings.platforms:
        facts = found.facts.platforms[each.name]
        lost = left_out_words(facts.types) or "nothing"
        if found.is_deployed:
            lost = "not disclosed: the platform is protected"
        elif public_labels(each, facts.labels) is None:
            total = sum(row.mentions - row.kept for row in facts.types)
            lost = f"{total:,} of {sum(row.mentions for row in facts.types):,} mentions"
        reading = "lenient" if each.lenient else "strict"
        rows.append([escaped(each.name), code(each.flatten), reading, escaped(lost)])
    yield "What `labels`, `label_map`, flattening and lenient reading left out of all parts:"
    yield table(("platform", "flattening", "reading", "mentions left out"), rows)


def _declared(platform: PlatformEntry, facts: PlatformFacts) -> list[str]:
    labels = public_labels(platform, facts.labels)
    data = "its own, never shared"
    if platform.synthetic is not None:
        num = f"{platform.num_sentences:,} sentences"
        data = f"built-in synthetic text {code(platform.data)}, {num}"
    declared = platform.public_size
    return [
        escaped(platform.name),
        data,
        NOT_DECLARED if labels is None else ", ".join(map(escaped, labels)),
        NOT_DECLARED if declared is None else f"{declared:,}",
        _test_part(platform.split),
    ]


def public_labels(platform: PlatformEntry, labels: Iterable[str]) -> list[str] | None:
    """Return the types of a platform that are public: declared, or those of built-in text.

    Args:
        platform: What its settings declare.
        labels: All types of its tagger.
    """
    if platform.labels is not None:
        return sorted(set(platform.labels))
    return None if platform.synthetic is None else list(labels)


def _test_part(split: SplitSettings) -> str:
    if split.test_data is not None:
        return "a separate file"
    share = "a fifth" if split.test is None else f"{100 * split.test:g} %"
    return f"{share}, by {split.by}"


def _scores(found: Findings) -> str:
    return _noised_scores(found) if found.is_deployed else _all_scores(found)


def _noised_scores(found: Findings) -> str:
    """Return the disclosed scores of protected platforms: the last noised ones, if any."""
    disclosed = found.rounds[-1].scores if found.rounds else {}
    rows = [
        (escaped(name), f"{100 * strict_f1(each):.1f}") for name, each in sorted(disclosed.items())
    ]
    noised = table(("platform", "noised strict F1"), rows) if rows else ""
    return section("Scores", KEPT_SCORES, NOISED_WORDS if rows else "", noised)


def _all_scores(found: Findings) -> str:
    has_gains = bool(found.scores.gains)
    columns = [
        "platform",
        *found.methods,
        *(["gain over local-only", "did joining help?"] * has_gains),
    ]
    rows = []
    for name, platform in found.scores.platforms.items():
        cells = [escaped(name), *(_score(platform, method) for method in found.methods)]
        rows.append([*cells, *(_gain(platform.gain) if has_gains else ())])
    if len(rows) > 1:
        means = [f"{100 * found.scores.mean[each].strict:.1f}" for each in found.methods]
        rows.append(["mean", *means, *([""] * (2 * has_gains))])
    meaning = bullets(f"**{each}**: {METHOD_WORDS[each]}" for each in found.methods)
    note = GAIN_WORDS if has_gains else NO_BASELINES
    return section("Scores", SCORE_WORDS, table(columns, rows), meaning, note)


def _score(platform: PlatformScores, method: str) -> str:
    if method not in platform.methods:
        return "-"
    held = platform.intervals[method]
    return f"{spread(held.strict)}; relaxed {100 * held.relaxed.value:.1f}"


def spread(interval: Interval, sign: str = "") -> str:
    """Return a score or a difference in points, with its interval."""
    # Adding zero takes the sign from a zero that came from below.
    points = (round(point, 1) + 0.0 for point in interval.points)
    value, low, high = (f"{point:{sign}.1f}" for point in points)
    return f"{value} ({low} to {high})"


def _gain(gain: Gain | None) -> tuple[str, str]:
    if gain is None:
        return "-", "-"
    return spread(gain.strict.difference, "+"), gain.verdict


def _types(found: Findings) -> str:
    """Return scores by type, of the platforms whose types are public."""
    if found.is_deployed:
        return ""
    rows = []
    for each in found.settings.platforms:
        methods = found.scores.platforms[each.name].methods
        held = [methods.get(one, Scores()).strict for one in found.methods]
        for label in public_labels(each, found.facts.platforms[each.name].labels) or ():
            numbers = [f"{100 * one[label].f1:.1f}" if label in one else "-" for one in held]
            rows.append([escaped(each.name), escaped(label), *numbers])
    if not rows:
        return ""
    lead = "Strict F1 in percent, of the platforms whose types are public."
    return section("Scores by type", lead, table(("platform", "type", *found.methods), rows))


def privacy(spent: PrivacySpent | None) -> str:
    """Return the section on differential privacy."""
    if spent is None:
        return section("Privacy", NO_PRIVACY)
    rows = [
        [
            escaped(name),
            *guarantee_cells(one),
            f"{one.steps:,}",
            ", ".join(f"{value:.4g}" for value in one.noise_multiplier) or "-",
            over_all_runs(one),
        ]
        for name, one in spent.platforms.items()
    ]
    columns = (
        "platform", *GUARANTEE, "noised steps", "noise multiplier", "spent over all runs",
    )  # fmt: skip
    word = "**Simulation of differential privacy.**" if spent.simulation else ""
    declared = bullets(escaped(each) for each in spent.uncharged)
    lead = "Declared uses of protected data that epsilon does not cover:"
    none = "No use of protected data beyond these steps was declared."
    return section(
        "Privacy spent",
        word,
        bullets(escaped(note) for note in spent.notes),
        table(columns, rows),
        lead if declared else none,
        declared,
    )


def _beginning(found: Findings) -> str:
    """Return the section on the model that the run began with; empty for a run from scratch."""
    first = found.facts.initial
    if first is None:
        return ""
    covers = "" if found.privacy is None else COVERS
    warnings = bullets(escaped(each) for each in first.warnings)
    return section("Initial model", escaped(began_with(first)), covers, warnings)


def _left(found: Findings) -> str:
    disclosed = found.disclosure.platforms
    rows = [[escaped(name), *sent_cells(one)] for name, one in disclosed.items()]
    first = next(iter(disclosed.values()))
    tensors = [
        [code(each.name), " x ".join(map(str, each.shape)), f"{each.numbers:,}"]
        for each in first.tensors
    ]
    kept = ", ".join(code(each.name) for each in first.kept) or "nothing"
    return section(
        "What each platform disclosed",
        "The complete list, apart from the platform's name and its public size. Never disclosed: "
        f"{escaped(', '.join(found.disclosure.never))}.",
        table(("platform", *SENT), rows),
        bullets([*map(escaped, found.disclosure.notes), *_incidents(found)]),
        "The tensors of an update:",
        table(("tensor", "shape", "numbers"), tensors),
        f"Trained, and never transmitted: {kept}.",
    )


def _incidents(found: Findings) -> list[str]:
    refused = sum(len(each.refusals) for each in found.rounds)
    silent = sum(len(each.failures) for each in found.rounds)
    incidents = []
    if refused:
        incidents.append(f"{refused:,} updates were refused.")
    if silent:
        incidents.append(f"{silent:,} times a platform that was asked gave no answer.")
    return incidents


def use(tagger: PurePath) -> str:
    """Return the section on how to use a tagger, seen from the folder of the card."""
    shell = f"fedner predict {shlex.quote(tagger.as_posix())} notes.txt"
    python = (
        "from fedner.inference.predict import Predictor\n\n"
        f"predictor = Predictor.load({tagger.as_posix()!r})\n"
        'for mention in predictor.predict("..."):\n'
        "    print(mention.start, mention.end, mention.label, mention.confidence)"
    )
    return section(
        "How to use it",
        "In the folder of this card, on the command line:",
        code_block(shell, "sh"),
        "In Python:",
        code_block(python, "python"),
    )


def _limits(found: Findings) -> Iterable[str]:
    if found.facts.synthetic:
        yield SYNTHETIC_WORDS
    yield types_found(found.settings)
    yield from LIMITS


def types_found(settings: Settings) -> str:
    """Return in words which types a tagger can find."""
    shares = shares_tags(settings.partition.shared, head_of(settings.model))
    return ALL_TYPES if shares else OWN_TYPES


def stated(settings: Settings, initial: InitialFacts | None = None) -> str:
    """Return the settings as JSON: of platforms what everyone knows, of files their names.

    Args:
        settings: The settings.
        initial: What the run began with: its name and digest stand in place of the folder.
    """
    shown = settings.model_dump(mode="json")
    named = None if initial is None else {"name": initial.name, "digest": initial.digest}
    shown["model"]["initial"] = named
    shown["platforms"] = [_public(platform) for platform in settings.platforms]
    held = shown["embeddings"]
    held["words"], held["context"] = (PurePath(held[key]).name for key in ("words", "context"))
    held["cache"] = None if held["cache"] is None else LOCAL
    return json.dumps(_given(shown), indent=2, ensure_ascii=False)


def _public(platform: PlatformEntry) -> dict[str, Any]:
    """Return what may be disclosed of a platform; of a built-in one also which it is."""
    built_in = ("data", "num_sentences") if platform.synthetic is not None else ()
    stated = platform.model_dump(mode="json")
    return {key: stated[key] for key in (*StudyPlatform.model_fields, *built_in)}


def _given(value: Any) -> Any:
    """Return settings without the keys that were left open."""
    if isinstance(value, dict):
        return {key: _given(held) for key, held in value.items() if held is not None}
    return [_given(each) for each in value] if isinstance(value, list) else value


def versions(held: Mapping[str, str]) -> str:
    """Return the section on what it was made with."""
    return section("Versions", bullets(f"{escaped(k)} {escaped(v)}" for k, v in held.items()))
