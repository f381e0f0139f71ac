"""The coordinator's own report: what score reports and the record of the rounds allow, no more.

It is made from the public study and from messages, wherever the platforms are. What a platform
kept is shown as not reported.
"""

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from fedner.durable import write_text
from fedner.federated.messages import ScoreReport
from fedner.federated.record import RoundRecord
from fedner.federated.run import RunRecord
from fedner.privacy.scores import NoisedScores
from fedner.runs.folder import write_record
from fedner.runs.records import Incident, InitialFacts, ReportedPlatform, ScoreReports
from fedner.runs.records.score_reports import State
from fedner.runs.report.html_table import html_table
from fedner.runs.report.page import beginning, html_page
from fedner.runs.report.rows import size
from fedner.scoring import Scores
from fedner.settings import Study

SCORE_REPORTS = "score_reports.json"
COORDINATOR_REPORT = "coordinator.html"
NOT_REPORTED = "not reported"
_MOST_SHOWN = 200
# What is asked for before the first round; all else that is missing outside rounds is at the end.
_BEGINNING = ("begin", "load")


def write_coordinator_report(
    folder: Path, study: Study, done: RunRecord, initial: InitialFacts | None = None
) -> ScoreReports:
    """Write what the coordinator knows of a finished run into its folder, for machines and people.

    Guarantee:
        Names of types that the study does not declare are not written; of a study under deployed
        differential privacy nothing but noised scores is.
    """
    known = score_reports(study, done, initial)
    write_record(folder, SCORE_REPORTS, known.as_dict())
    write_text(folder / COORDINATOR_REPORT, coordinator_page(known), owner_only=True)
    return known


def score_reports(
    study: Study, done: RunRecord, initial: InitialFacts | None = None
) -> ScoreReports:
    """Return what the coordinator knows of a finished run."""
    return ScoreReports(
        title=study.title,
        study=study.digest,
        rounds=len(done.rounds),
        resumed_from=done.resumed_from,
        seconds=sum(each.seconds for each in done.rounds),
        platforms={name: _reported(study, done, name) for name in study.names},
        incidents=tuple(_incidents(done)),
        initial=initial,
    )


def _reported(study: Study, done: RunRecord, name: str) -> ReportedPlatform:
    report = done.reports.get(name)
    scores = {} if report is None else _allowed(study, name, report)
    noised_in, noised = _newest_noised(done, name)
    is_known = bool(scores) or noised is not None
    state: State = "reported" if is_known else "not reported"
    sent = [each.bytes_up[name] for each in done.rounds if name in each.bytes_up]
    return ReportedPlatform(
        state="missing" if report is None else state,
        scores=scores,
        noised=noised,
        noised_in=noised_in,
        rounds=len(sent),
        bytes_up=sum(sent),
        bytes_down=sum(each.bytes_down.get(name, 0) for each in done.rounds),
    )


def _allowed(study: Study, name: str, report: ScoreReport) -> dict[str, Scores]:
    """Return the scores of a report, as far as the study allows that they are kept."""
    if study.is_deployed:
        return {}
    is_declared = study.platform(name).labels is not None
    return {
        method: scores if is_declared else scores.without_names()
        for method, scores in report.scores.items()
    }


def _newest_noised(done: RunRecord, name: str) -> tuple[int | None, NoisedScores | None]:
    report = done.reports.get(name)
    if report is not None and report.noised is not None:
        return report.round, report.noised
    for record in reversed(done.rounds):
        scores = record.scores.get(name)
        if isinstance(scores, NoisedScores):
            return record.round, scores
    return None, None


def _incidents(done: RunRecord) -> Iterator[Incident]:
    outside = [each for each in done.missing if each.verb in _BEGINNING]
    for each in outside:
        yield Incident(0, each.platform, each.verb, "no answer", each.message)
    for record in done.rounds:
        yield from _incidents_of(record)
    for each in done.missing:
        if each not in outside:
            yield Incident(None, each.platform, each.verb, "no answer", each.message)


def _incidents_of(record: RoundRecord) -> Iterator[Incident]:
    for refused in record.refusals:
        yield Incident(record.round, refused.platform, "round", "refused", refused.message)
    for failed in record.failures:
        yield Incident(record.round, failed.platform, failed.verb, "no answer", failed.message)


def coordinator_page(known: ScoreReports) -> str:
    """Return the report as one HTML page that loads nothing."""
    parts = (_head(known), _scores(known), _noised(known), _traffic(known), _told(known.incidents))
    return html_page(f"{known.title} (coordinator)", parts)


def _head(known: ScoreReports) -> str:
    missing = ""
    if known.missing:
        names = escape(", ".join(known.missing))
        missing = f'<p class="note alarm"><strong>Missing at the end: {names}.</strong></p>'
    resumed = f", resumed after round {known.resumed_from:,}" if known.resumed_from else ""
    return (
        f"<h1>{escape(known.title)}: the coordinator's report</h1>{missing}"
        "<p>This is all that the coordinator received. What a platform kept to itself is in "
        "its own report, on the platform.</p>"
        f'<p class="soft">{len(known.platforms)} platforms, {known.rounds:,} rounds in '
        f"{known.seconds:,.1f} s{resumed}, study {escape(known.study)}</p>"
        f"{beginning(known.initial)}"
    )


def _scores(known: ScoreReports) -> str:
    rows = [
        [escape(name), *(_cell(platform, method) for method in known.methods)]
        if known.methods
        else [escape(name), _unknown(platform)]
        for name, platform in known.platforms.items()
    ]
    lead = "Strict F1 in percent on each platform's own test part, as it reported it at the end."
    columns = ["platform", *(known.methods or ["scores"])]
    return f"<h2>Scores</h2><p>{lead}</p>{html_table(columns, rows)}"


def _cell(platform: ReportedPlatform, method: str) -> str:
    scores = platform.scores.get(method)
    if scores is None:
        return _unknown(platform)
    strict, relaxed = 100 * scores.strict_micro.f1, 100 * scores.relaxed_micro.f1
    return f"{strict:.1f}<small>relaxed {relaxed:.1f}</small>"


def _unknown(platform: ReportedPlatform) -> str:
    return "missing" if platform.state == "missing" else NOT_REPORTED


def _noised(known: ScoreReports) -> str:
    rows = [
        [escape(name), f"{each.noised_in:,}", f"{100 * each.noised.f1:.1f}"]
        for name, each in known.platforms.items()
        if each.noised is not None
    ]
    if not rows:
        return ""
    lead = (
        "From counts that the platforms released clipped and with noise: part of epsilon, and "
        "rough where a test part is small."
    )
    columns = ["platform", "round", "noised strict F1"]
    return f"<h2>Noised scores</h2><p>{lead}</p>{html_table(columns, rows)}"


def _traffic(known: ScoreReports) -> str:
    rows = [
        [escape(name), f"{each.rounds:,}", size(each.bytes_up), size(each.bytes_down)]
        for name, each in known.platforms.items()
    ]
    columns = ["platform", "updates transmitted", "bytes up", "bytes down"]
    return f"<h2>What was transmitted</h2>{html_table(columns, rows)}"


def _told(incidents: Iterable[Incident]) -> str:
    rows = [
        [
            "end" if each.round is None else f"{each.round:,}" if each.round else "beginning",
            escape(each.platform),
            escape(each.asked),
            each.kind,
            escape(each.why),
        ]
        for each in incidents
    ]
    if not rows:
        return "<h2>Incidents</h2><p>None: every platform that was asked answered.</p>"
    more = len(rows) - _MOST_SHOWN
    note = f"<p>And {more:,} more, in {SCORE_REPORTS}.</p>" if more > 0 else ""
    table = html_table(["round", "platform", "asked for", "what", "why"], rows[:_MOST_SHOWN])
    return f"<h2>Incidents</h2>{table}{note}"
