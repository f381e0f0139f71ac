"""What answers for a platform: orders in, replies out, and every reply in the platform's record."""

from functools import partial

from fedner.errors import FednerError
from fedner.federated.algorithms import Algorithm
from fedner.federated.answering import PATIENCE, Answering
from fedner.federated.encoding import require_encodable
from fedner.federated.encrypted_sum import KEYS
from fedner.federated.messages import Order, Reply, ScoreReport
from fedner.federated.platform import Platform
from fedner.federated.secure.opened import FILE as OPENED
from fedner.federated.summation import Summation
from fedner.runs.folder import FEDERATED, LOCAL_ONLY
from fedner.runs.local_training import finetune, train_baseline, train_private_part
from fedner.runs.own_progress import OWN_PROGRESS, OwnProgress
from fedner.runs.parts import require_hidden
from fedner.runs.reply_log import REPLIES, ReplyLog, sent_of
from fedner.runs.schedule import algorithm_for, num_rounds
from fedner.runs.shared_model import model_facts, write_shared_model
from fedner.runs.site import Site
from fedner.runs.site_platform import build_platform
from fedner.runs.site_results import score_report, write_results
from fedner.runs.site_taggers import finished_methods, keep_tagger
from fedner.runs.sums import OwnPart, is_signed, simulated_identities, summation_of
from fedner.training import load


class SiteAnswer:
    """One platform of a run, as an engine sees it: an `Answer`.

    >>> import fedner
    >>> corpus = fedner.synthetic_corpus("case-reports", 40, seed=1)
    >>> study = fedner.study_for({"clinic": corpus}, training={"rounds": 1})
    >>> own = fedner.PlatformSettings(name="clinic", data="notes/")
    >>> answer = fedner.SiteAnswer(fedner.open_site(study, own, "clinic", corpus=corpus))
    >>> answer.close()
    """

    def __init__(
        self,
        site: Site,
        algorithm: Algorithm | None = None,
        summation: Summation | None = None,
        *,
        patience: float = PATIENCE,
    ) -> None:
        """Make the answer; nothing is built before the first order.

        Args:
            site: The platform.
            algorithm: The federation's; None takes the one that the study names.
            summation: How replies become one sum; None takes what the study says (for a secure or
                encrypted sum, with the keys of a simulation).
            patience: How many seconds it waits for another process that uses its folder.

        Raises:
            FednerError: The study's encoding or mechanism does not fit algorithm or summation.
        """
        algorithm = algorithm_for(site.study) if algorithm is None else algorithm
        sums = simulated_sum(site, algorithm) if summation is None else summation
        require_encodable(site.study.transport.encoding, algorithm.sends, sums)
        require_hidden(site.study, site.blueprint.mechanism, sums)
        self._site = site
        self._progress = OwnProgress(site.folder.path / OWN_PROGRESS)
        self._answering = Answering(
            site.name,
            partial(_built, site, algorithm, self._progress),
            algorithm,
            site.folder.path,
            study=site.study.digest,
            rounds=num_rounds(site.study, algorithm),
            reports_scores=site.own.policy.sends_scores,
            summation=sums,
            finish=partial(finish, site, algorithm),
            patience=patience,
        )
        self._log = ReplyLog(site.folder.path / REPLIES)

    def __call__(self, order: Order) -> Reply:
        """Do what an order says, as far as the platform's policy allows."""
        reply = self._answering(order)
        self._log.append(sent_of(order, reply))
        return reply

    def rest(self) -> None:
        """Free the memory that is not needed until the next order."""
        self._answering.rest()

    def close(self) -> None:
        """Release the platform, its ledger, its folder and its record."""
        self._answering.close()
        self._progress.close()
        self._log.close()


def simulated_sum(site: Site, algorithm: Algorithm) -> Summation:
    """Return how replies become one sum, with the keys of a simulation where they are signed.

    Raises:
        FednerError: The study is deployed: its platforms sign with keys of their own.
    """
    study = site.study
    if not is_signed(study):
        return summation_of(study, algorithm)
    if study.is_deployed:
        raise FednerError(
            f"{site.name}: a secure or encrypted sum of a deployed study needs the "
            "platform's own key",
            "Take part with `fedner platform start`, or give a summation with identities.",
        )
    place = site.folder.path
    own = OwnPart(simulated_identities(study), place / OPENED, place / KEYS)
    return summation_of(study, algorithm, own)


def _write_shared_model(site: Site, order: Order) -> None:
    """Write the model that the run releases: of an encrypted run only platforms have the weights.

    Under differential privacy, and where the run began with another model, a platform does not know
    all that the model must say of itself: it writes none.
    """
    study = site.study
    if study.privacy.enabled or study.model.initial is not None:
        return
    facts = {**model_facts(study, None, ()), "rounds": order.round}
    write_shared_model(site.folder.path, site.blueprint, order.shared, facts)


def _built(site: Site, algorithm: Algorithm, progress: OwnProgress, _: str) -> Platform:
    platform = build_platform(site, algorithm)
    platform.progress = progress
    return platform


def finish(site: Site, algorithm: Algorithm, order: Order, platform: Platform) -> ScoreReport:
    """Finish at home after the last round: train what is left, keep the tagger, score, report.

    Args:
        site: The platform.
        algorithm: The federation's.
        order: Brings the final shared weights, checked.
        platform: Holds the private weights.

    Returns:
        What the coordinator may know of the scores.
    """
    study = site.study
    tagger = site.tagger()
    load(tagger, order.shared)
    load(tagger, platform.ema or platform.private())
    if study.privacy.enabled and study.privacy.private_part == "frozen":
        train_private_part(site, tagger, study.privacy.private_epochs)
    if study.training.finetune_epochs:
        finetune(site, tagger)
    keep_tagger(site, FEDERATED, tagger)
    if study.transport.encryption is not None:
        _write_shared_model(site, order)
    wants_baseline = LOCAL_ONLY in study.training.baselines
    if wants_baseline and LOCAL_ONLY not in finished_methods(site):
        train_baseline(site, algorithm, lambda _: None)
    outcomes = write_results(site, algorithm, order=order)
    return score_report(site, order.round, outcomes)
