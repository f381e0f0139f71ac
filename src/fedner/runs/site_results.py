"""A platform's own results: scores of its taggers, counts, disclosure, privacy spent, report.

They are made where the data are and stay in the platform's folder. What the coordinator gets is a
`ScoreReport` that the study and the platform's policy allow.
"""

import platform as machine
from collections.abc import Callable, Mapping

import torch

from fedner.federated.algorithms import Algorithm
from fedner.federated.answering import one_thread
from fedner.federated.messages import Method, Order, ScoreReport
from fedner.federated.record import RoundRecord
from fedner.runs.disclosure import describe_disclosure
from fedner.runs.folder import COUNTS, DISCLOSURE, FACTS, PRIVACY, SCORES
from fedner.runs.outcome import Outcome, outcome_of, platform_scores, unit_counts
from fedner.runs.privacy_record import site_spent
from fedner.runs.records import (
    Disclosure,
    InitialFacts,
    PlatformScores,
    PrivacySpent,
    RunDisclosure,
    RunFacts,
    RunScores,
    SiteFacts,
)
from fedner.runs.reply_log import REPLIES, read_replies, sent_of, updates_in
from fedner.runs.report import Findings, write_site_report
from fedner.runs.schedule import num_rounds
from fedner.runs.site import Site
from fedner.runs.site_taggers import finished_methods, stored_tagger
from fedner.scoring import Scores
from fedner.settings import federation_of
from fedner.version import __version__

REPORTED: tuple[Method, ...] = ("local-only", "federated")
OnMethod = Callable[[str, str, Scores], None]


def _nothing(*_: object) -> None:
    return None


def score_method(site: Site, method: str) -> Outcome:
    """Score a finished tagger on the platform's test part, over the types that it annotates."""
    tagger, space = stored_tagger(site, method)
    part = site.evaluation_part(space=space)
    with one_thread():
        return outcome_of(site.data, part.predictions(tagger), site.own.split.by)


def write_results(
    site: Site, algorithm: Algorithm, on_method: OnMethod = _nothing, order: Order | None = None
) -> dict[str, Outcome]:
    """Score every finished tagger of a platform and write its records, report and model card.

    Args:
        site: The platform.
        algorithm: The federation's.
        on_method: Called with the scores of each tagger.
        order: What is being answered: its reply counts as disclosed, although it left later.
    """
    outcomes = {}
    for method in finished_methods(site):
        outcomes[method] = score_method(site, method)
        on_method(method, site.name, outcomes[method].scores)
    folder, unit = site.folder, site.own.split.by
    facts = site_facts(site, num_rounds(site.study, algorithm))
    scores = platform_scores(outcomes, unit, site.study.seed)
    coming = None if order is None else sent_of(order, score_report(site, order.round, outcomes))
    disclosed, spent = describe_disclosure(site, coming=coming), site_spent(site)
    folder.write(FACTS, facts.as_dict())
    folder.write(COUNTS, unit_counts(site.data, unit, outcomes).as_dict())
    folder.write(SCORES, scores.as_dict())
    folder.write(DISCLOSURE, disclosed.as_dict())
    if spent is not None:
        folder.write(PRIVACY, spent.as_dict())
    write_site_report(folder, _findings(site, facts, scores, disclosed, spent))
    return outcomes


def show_results(site: Site, on_method: OnMethod) -> None:
    """Pass on the scores that a platform has written when it finished."""
    for method, scores in site.folder.read_as(PlatformScores, SCORES).methods.items():
        on_method(method, site.name, scores)


def site_facts(site: Site, rounds: int) -> SiteFacts:
    """Return what a platform's folder keeps of the run beside its results."""
    partition, first = site.blueprint.partition, site.study.model.initial
    return SiteFacts(
        title=site.study.title,
        rounds=rounds,
        public_size=site.study.platform(site.name).public_size,
        shared=tuple(partition.shared),
        private=tuple(partition.private),
        data=site.data.facts(),
        initial=None if first is None else InitialFacts(first.name, first.digest),
        versions={
            "fedner": __version__,
            "torch": str(torch.__version__),
            "python": machine.python_version(),
        },
    )


def _findings(
    site: Site,
    facts: SiteFacts,
    scores: PlatformScores,
    disclosed: Disclosure,
    spent: PrivacySpent | None,
) -> Findings:
    """Return what the platform's own report shows: itself and nobody else."""
    study = site.study
    alone = study.model_copy(update={"platforms": (study.platform(site.name),)})
    platforms = {site.name: scores}
    return Findings(
        settings=federation_of(alone, [site.own]),
        facts=RunFacts.of({site.name: facts}),
        scores=RunScores(study.title, study.seed, site.data.is_synthetic, platforms),
        disclosure=RunDisclosure.of({site.name: disclosed}),
        rounds=_answered_rounds(site),
        privacy=spent,
        whose=f"platform {site.name}, one of {len(study.platforms)}; study {study.digest}",
    )


def _answered_rounds(site: Site) -> list[RoundRecord]:
    """Return the rounds that the platform took part in, as far as it knows them itself."""
    sent = updates_in(read_replies(site.folder.path / REPLIES))
    answered = sorted({each.round for each in sent})
    return [RoundRecord(number, 0.0, None, {}, {}, {}, {}) for number in answered]


def score_report(site: Site, round_: int, outcomes: Mapping[str, Outcome]) -> ScoreReport:
    """Return what the coordinator may know of a platform's final scores.

    Guarantee:
        Under differential privacy nothing: final scores are neither noised nor charged. Types that
        the study does not declare are in no report.
    """
    if site.study.is_deployed or not site.own.policy.sends_scores:
        return ScoreReport(site.name, round_)
    scores: dict[Method, Scores] = {}
    for method in REPORTED:
        if method in outcomes:
            found = outcomes[method].scores
            scores[method] = found if site.declares_types else found.without_names()
    return ScoreReport(site.name, round_, scores)
