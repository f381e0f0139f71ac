"""A platform behind its policy, and the orders of a coordinator that means well."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from opened_sites import opened

from fedner.federated.messages import Failure, Order, Reply
from fedner.federated.sizes import planned_batches
from fedner.runs.disclosure_record import RECORD, DisclosureRecord
from fedner.runs.policy import GuardedAnswer
from fedner.runs.schedule import algorithm_for
from fedner.runs.site import Site
from fedner.runs.site_answer import SiteAnswer
from fedner.settings import PolicySettings, Settings

NAME = "case-reports"


def with_policy(site: Site, **policy: Any) -> Site:
    own = site.own.model_copy(update={"policy": PolicySettings(**policy)})
    return replace(site, own=own)


def site_of(settings: Settings, folder: Path, name: str = NAME) -> Site:
    return opened(settings, folder)[name]


def guarded(site: Site, home: Path, asked_by: str = "server") -> GuardedAnswer:
    record = DisclosureRecord(home / RECORD)
    return GuardedAnswer(SiteAnswer(site), site, record, asked_by=asked_by)


def order_of(site: Site, names: Sequence[str] | None = None, **changes: Any) -> Order:
    """Return the order of round 1 that an honest coordinator sends."""
    study = site.study
    sizes = {each: study.public_sizes[each] for each in names or study.names}
    batches = planned_batches(
        sizes, study.training.batch_size, algorithm_for(study).batching
    )  # fmt: skip
    shared = site.blueprint.initial_shared()
    honest = Order("run", 1, shared, batches=batches, study=study.digest)
    return replace(honest, **changes)


def code(reply: Reply) -> str:
    return reply.code if isinstance(reply, Failure) else ""
