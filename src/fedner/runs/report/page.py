"""The page itself: from what a run folder holds to one HTML text."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files

from fedner.federated.record import RoundRecord
from fedner.privacy.scores import NoisedScores
from fedner.runs.initial_facts import began_with
from fedner.runs.records import (
    Gain,
    InitialFacts,
    PlatformScores,
    PrivacySpent,
    RunDisclosure,
    RunFacts,
    RunScores,
)
from fedner.runs.records.audit import AuditRecord
from fedner.runs.report.audit_picture import audit_svg
from fedner.runs.report.charts import METHOD_ORDER, GainBar, Point, gains, learning_curve, type_bars
from fedner.runs.report.data import data_section
from fedner.runs.report.html_table import html_table
from fedner.runs.report.mistakes import mistakes_section
from fedner.runs.report.privacy import privacy_section
from fedner.runs.report.rows import SENT, sent_cells
from fedner.runs.verdict import privacy_sentence, verdict_sentence, zero_sentence
from fedner.scoring import Scores
from fedner.settings import Settings

VERDICTS = {"yes": ("yes", "yes"), "no": ("no", "no"), "not clear": ("unclear", "not clear")}
MEANINGS = {
    "local-only": "local-only: the platform trains by itself",
    "federated": "federated: shared modules are trained together, texts stay on their platforms",
    "centralized": "centralized: all texts in one place, which privacy forbids",
}
MEASURES = {"precision": "precision", "recall": "recall", "f1": "F1"}


@dataclass(frozen=True, slots=True)
class Findings:
    """What a run folder holds.

    Attributes:
        settings: The resolved settings.
        facts: What is known of the federation and its data.
        scores: The scores, intervals and gains.
        disclosure: What each platform disclosed.
        rounds: The record of every round.
        privacy: What was spent on every platform; None without differential privacy.
        whose: Of whom it tells, where it is one platform's own report.
        audits: What attacks on platforms found, of those that were audited.
    """

    settings: Settings
    facts: RunFacts
    scores: RunScores
    disclosure: RunDisclosure
    rounds: Sequence[RoundRecord]
    privacy: PrivacySpent | None = None
    whose: str = ""
    audits: Mapping[str, AuditRecord] = field(default_factory=dict)

    @property
    def methods(self) -> list[str]:
        """The methods that were scored, in the order of telling."""
        held = self.scores.methods
        return [name for name in METHOD_ORDER if name in held]

    @property
    def is_deployed(self) -> bool:
        """Whether scores are not disclosed: the run protects its platforms."""
        return self.privacy is not None and not self.privacy.simulation


def page(found: Findings) -> str:
    """Return the whole report."""
    parts = (
        _head(found),
        _results(found),
        _curves(found),
        _types(found),
        mistakes_section(found.scores),
        data_section(found.settings, found.facts),
        privacy_section(found.privacy),
        _audits(found),
        _left(found),
        incidents(found.rounds),
        _setup(found),
    )
    return html_page(found.scores.title, parts)


def _audits(found: Findings) -> str:
    """Return the pictures of audits; of protected platforms nothing is told."""
    if not found.audits or found.is_deployed:
        return ""
    pictures = "".join(audit_svg(each) for _, each in sorted(found.audits.items()))
    return f"<h2>Privacy audit</h2>{pictures}"


def html_page(title: str, parts: Iterable[str]) -> str:
    """Return a page that is whole in itself: the style within, nothing to load.

    Args:
        title: As text.
        parts: Sections, as HTML; empty ones are left out.
    """
    style = files("fedner.runs.report").joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} - fedner</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join(part for part in parts if part)
        + "\n</body>\n</html>\n"
    )


def _head(found: Findings) -> str:
    settings, facts = found.settings, found.facts
    shared = settings.partition.shared
    named = shared if isinstance(shared, str) else ", ".join(shared)
    note = ""
    if facts.synthetic:
        note = (
            '<p class="note"><strong>Synthetic data.</strong> The texts of these platforms were '
            "made by a program. The numbers show how fedner works, not how well it does on real "
            "text.</p>"
        )
    zeros = zero_sentence(found.scores.by_platform)
    lead = f'<p class="verdict">{escape(verdict_sentence(found.scores))}</p>'
    alarm = f'<p class="note alarm"><strong>{escape(zeros)}</strong></p>' if zeros else ""
    private = f"<p><strong>{escape(privacy_sentence(found.privacy))}</strong></p>"
    return (
        f"<h1>{escape(found.scores.title)}</h1>{alarm}{lead}{private}"
        f'<p class="soft">{escape(found.whose or _num_platforms(found))}, algorithm '
        f"{escape(settings.algorithm.name)}, "
        f"shared {escape(named)}, recipe {escape(settings.model.recipe)}, "
        f"{len(found.rounds):,} rounds of {settings.training.batch_size} sentences, seed "
        f"{settings.seed}</p>{beginning(facts.initial)}{note}"
    )


def _num_platforms(found: Findings) -> str:
    num = len(found.facts.platforms)
    return f"{num} platform" if num == 1 else f"{num} platforms"


def beginning(initial: InitialFacts | None) -> str:
    """Return what a run began with, as HTML; empty for a run from scratch."""
    if initial is None:
        return ""
    warnings = "".join(
        f'<p class="note alarm"><strong>{escape(each)}</strong></p>' for each in initial.warnings
    )
    return f"<p>{escape(began_with(initial))}</p>{warnings}"


def _results(found: Findings) -> str:
    columns = ["platform", "training / test sentences", *found.methods]
    rows = []
    has_gains = bool(found.scores.gains)
    if has_gains:
        columns += ["gain over local-only", "did joining help me?"]
    for name, platform in found.scores.platforms.items():
        facts = found.facts.platforms[name]
        cells = [escape(name), f"{facts.train:,} / {facts.test:,}"]
        cells += [_score_cell(platform, method) for method in found.methods]
        if has_gains:
            cells += _gain_cells(platform.gain)
        rows.append(cells)
    if len(rows) > 1:
        mean = found.scores.mean
        means = [f"{100 * mean[method].strict:.1f}" for method in found.methods]
        rows.append(["mean", "", *means, *([""] * (2 if has_gains else 0))])
    lead = (
        "Strict F1 in percent on each platform's own test part, with 95 % bootstrap intervals; "
        "relaxed F1 below. "
    )
    if has_gains:
        lead += (
            "A gain is a paired difference on the same texts. The answer is yes or no only if "
            "its whole interval is on one side of zero."
        )
    parts = [f"<h2>{'Did joining help?' if has_gains else 'Scores'}</h2><p>{lead}</p>"]
    parts.append(html_table(columns, rows))
    parts.append(_precision_and_recall(found))
    if has_gains:
        parts.append(f'<div class="panel narrow">{_gain_chart(found.scores.gains)}</div>')
    return "".join(parts)


def _precision_and_recall(found: Findings) -> str:
    """Return precision, recall and F1 of every method on every platform."""
    rows = []
    for name, platform in found.scores.platforms.items():
        for method in found.methods:
            held = platform.methods.get(method)
            if held is not None:
                micro = (held.strict_micro.measures, held.relaxed_micro.measures)
                numbers = [f"{100 * getattr(one, each):.1f}" for one in micro for each in MEASURES]
                rows.append([escape(name), method, *numbers])
    columns = [
        "platform",
        "method",
        *MEASURES.values(),
        *(f"relaxed {each}" for each in MEASURES.values()),
    ]
    lead = "In percent; strict: borders and type exactly right; relaxed: borders need only overlap."
    return f"<h3>Precision and recall</h3><p>{lead}</p>{html_table(columns, rows)}"


def _score_cell(platform: PlatformScores, method: str) -> str:
    if method not in platform.methods:
        return "-"
    interval = platform.intervals[method].strict
    relaxed = platform.methods[method].relaxed_micro.f1
    low, high = 100 * interval.low, 100 * interval.high
    return (
        f"{100 * interval.value:.1f}<small>{low:.1f} to {high:.1f}</small>"
        f"<small>relaxed {100 * relaxed:.1f}</small>"
    )


def _gain_cells(gain: Gain | None) -> list[str]:
    if gain is None:
        return ["-", "-"]
    relaxed = gain.relaxed.difference.value
    style, word = VERDICTS[gain.verdict]
    value, low, high = gain.strict.difference.points
    below = f"<small>{low:+.1f} to {high:+.1f}</small><small>relaxed {100 * relaxed:+.1f}</small>"
    return [
        f"{value:+.1f}{below}",
        f'<span class="{style}">{word}</span><small>{_p(gain.strict.p_value)}</small>',
    ]


def _p(value: float) -> str:
    return "p &lt; 0.001" if value < 0.001 else f"p = {value:.3f}"


def _gain_chart(found: Mapping[str, Gain]) -> str:
    rows = [GainBar(name, *each.strict.difference.points) for name, each in found.items()]
    return f"<h3>Gain of joining, points of strict F1</h3>{gains(rows)}"


def _curves(found: Findings) -> str:
    evaluated = [each for each in found.rounds if each.scores]
    if not evaluated:
        return ""
    panels = []
    for name, platform in found.scores.platforms.items():
        points = [
            Point(each.round, 100 * strict_f1(each.scores[name]))
            for each in evaluated
            if name in each.scores
        ]
        references = {
            method: 100 * platform.methods[method].strict_micro.f1
            for method in found.methods
            if method != "federated" and method in platform.methods
        }
        chart = learning_curve(name, points, references)
        panels.append(f'<div class="panel"><h3>{escape(name)}</h3>{chart}</div>')
    disclosed = (scores for each in evaluated for scores in each.scores.values())
    is_noised = any(isinstance(scores, NoisedScores) for scores in disclosed)
    noised = " These scores were disclosed with noise." if is_noised else ""
    return (
        "<h2>Learning curves</h2><p>Strict F1 on the test part after so many rounds; broken lines "
        "are the baselines at their end. The run did not use them to choose "
        f'anything.{noised}</p>{_legend(found.methods)}<div class="panels">{"".join(panels)}</div>'
    )


def strict_f1(scores: Scores | NoisedScores) -> float:
    """Return the strict F1 of what a platform reported, noised or not."""
    return scores.f1 if isinstance(scores, NoisedScores) else scores.strict_micro.f1


def _legend(methods: Iterable[str]) -> str:
    items = (f'<span class="{each}">{escape(MEANINGS[each])}</span>' for each in methods)
    return f'<div class="legend">{"".join(items)}</div>'


def _types(found: Findings) -> str:
    panels, rows = [], []
    for name, platform in found.scores.platforms.items():
        by_label = _by_label(platform, found.methods)
        chart = type_bars(name, by_label)
        panels.append(f'<div class="panel"><h3>{escape(name)}</h3>{chart}</div>')
        for label, values in by_label.items():
            mentions = found.facts.platforms[name].mentions.get(label, 0)
            numbers = [f"{values[each]:.1f}" if each in values else "-" for each in found.methods]
            rows.append([escape(name), escape(label), f"{mentions:,}", *numbers])
    columns = ["platform", "type", "mentions in all", *found.methods]
    return (
        f"<h2>By type</h2><p>Strict F1 of every entity type.</p>{_legend(found.methods)}"
        f'<div class="panels">{"".join(panels)}</div>'
        f"<details><summary>As a table</summary>{html_table(columns, rows)}</details>"
    )


def _by_label(platform: PlatformScores, methods: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return strict F1 in percent by type and method."""
    found: dict[str, dict[str, float]] = {}
    for method in methods:
        for label, counts in platform.methods.get(method, Scores()).strict.items():
            found.setdefault(label, {})[method] = 100 * counts.f1
    return found


def _left(found: Findings) -> str:
    rows = [
        [escape(name), *sent_cells(one), f"{one.numbers_kept:,}"]
        for name, one in found.disclosure.platforms.items()
    ]
    columns = ["platform", *SENT, "private numbers kept"]
    notes = "".join(f"<p>{escape(note)}</p>" for note in found.disclosure.notes)
    first = next(iter(found.disclosure.platforms.values()))
    names = [
        [escape(each.name), " x ".join(map(str, each.shape)), f"{each.numbers:,}", word]
        for word, part in (("transmitted", first.tensors), ("kept", first.kept))
        for each in part
    ]
    never = escape(", ".join(found.disclosure.never))
    of_whom = " (of the first platform)" if len(rows) > 1 else ""
    tensors = html_table(["tensor", "shape", "numbers", "transmitted or kept"], names)
    return (
        "<h2>What each platform disclosed</h2><p>This is the complete list, apart from the "
        "platform's name and public size. Never disclosed: "
        f"{never}.</p>{notes}{html_table(columns, rows)}<details><summary>Tensor by "
        f"tensor{of_whom}</summary>{tensors}</details>"
    )


def incidents(rounds: Iterable[RoundRecord]) -> str:
    """Return the section on refused updates and silent platforms; empty where there are none."""
    rows = []
    for each in rounds:
        cases = [(one.platform, "refused", one.message) for one in each.refusals]
        cases += [(one.platform, "no answer", one.message) for one in each.failures]
        rows += [[f"{each.round:,}", escape(name), kind, escape(why)] for name, kind, why in cases]
    if not rows:
        return ""
    columns = ["round", "platform", "what", "why"]
    return f"<h2>Refused updates and silent platforms</h2>{html_table(columns, rows[:200])}"


def _setup(found: Findings) -> str:
    seconds = sum(each.seconds for each in found.rounds)
    # A platform's own report has none: it does not know how long the others took.
    took = f" in {seconds:,.1f} s" if seconds else ""
    versions = ", ".join(f"{name} {value}" for name, value in found.facts.versions.items())
    stated = found.settings.model_dump(mode="json")
    settings = escape(json.dumps(stated, indent=2, ensure_ascii=False))
    return (
        f"<h2>How it was made</h2><p>{len(found.rounds):,} rounds{took}, "
        f"{escape(versions)}.</p><details><summary>All settings</summary><pre>{settings}</pre>"
        "</details>"
    )
