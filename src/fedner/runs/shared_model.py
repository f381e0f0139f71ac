"""The model that a run releases: a described head whose weights are all shared, over public types.

The coordinator makes it of the shared weights and the public study. Nothing of a single platform is
in it: neither a type that the study does not name, nor a residual, nor a size. Whoever receives it
tags the study's types with it, or joins with types of its own (`fedner join`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedner.durable import owner_folder, write_text
from fedner.federated.record import RoundRecord
from fedner.models.checkpoint import save_tagger
from fedner.models.features import TagSpace
from fedner.models.partition import ALWAYS_PRIVATE, Partition, lies_under
from fedner.models.zoo import Recipe
from fedner.privacy.mechanisms import Mechanism
from fedner.runs.blueprint import Blueprint
from fedner.runs.folder import MODEL_CARD
from fedner.runs.initial_facts import NO_PRIVACY
from fedner.runs.records.facts import InitialFacts
from fedner.runs.release_costs import merged, recorded_events, spent_on
from fedner.runs.report.shared_card import shared_card
from fedner.runs.trust import trust_note
from fedner.runs.type_descriptions import DESCRIBED, public_descriptions
from fedner.settings import Study
from fedner.tensors import State
from fedner.training import load

SHARED_MODEL = "model"


def releases_model(recipe: Recipe, partition: Partition) -> bool:
    """Whether the shared weights of a run are a whole tagger, whatever the types."""
    kept = [name for name in partition.private if not lies_under(name, ALWAYS_PRIVATE)]
    return recipe.head == DESCRIBED and not kept


def write_shared_model(
    folder: Path, plan: Blueprint, shared: State, facts: Mapping[str, Any]
) -> Path | None:
    """Write the shared model of a finished run into its folder, where it has one.

    Args:
        folder: The coordinator's folder; in an encrypted run that of a platform.
        plan: Its blueprint; its files may be declared only.
        shared: The shared weights; without tensors where this is the coordinator of an encrypted
            run.
        facts: What the model says of itself (`model_facts`).

    Returns:
        Where the model stands; None where the run shares no whole tagger, or has no public type.

    Guarantee:
        It is made of the shared weights, as every platform received them, and of the study.
    """
    descriptions = public_descriptions(plan.study)
    if not releases_model(plan.recipe, plan.partition) or not descriptions or not shared:
        return None
    recipe = replace(plan.recipe, residual=False)
    model = replace(plan, recipe=recipe)
    if plan.files.can_describe:
        model = model.describing(descriptions)
    space = TagSpace.of(tuple(descriptions), plan.study.model.tag_scheme)
    tagger = model.tagger(space)
    load(tagger, shared)
    place = owner_folder(folder / SHARED_MODEL)
    save_tagger(
        place,
        tagger,
        recipe,
        space,
        context=plan.files.context,
        paths=plan.files.paths,
        facts=dict(facts),
        descriptions=descriptions,
    )
    context = plan.files.context
    card = shared_card(
        dict(facts),
        f"{recipe.name}: {recipe.composition}",
        plan.files.words.origin.name,
        None if context is None else context.name,
    )
    write_text(place / MODEL_CARD, card, owner_only=True)
    return place


def model_facts(
    study: Study,
    mechanism: Mechanism | None,
    rounds: Iterable[RoundRecord],
    initial: InitialFacts | None = None,
) -> dict[str, Any]:
    """Return what the released model says of itself; no platform is named."""
    every = list(rounds)
    return {
        "run": study.title,
        "method": "shared",
        "study": study.digest,
        "seed": study.seed,
        "rounds": len(every),
        "platforms": len(study.platforms),
        "types": public_descriptions(study),
        "privacy": privacy_facts(study, mechanism, every),
        "initial": None if initial is None else initial.carried(),
    }


def privacy_facts(
    study: Study, mechanism: Mechanism | None, rounds: list[RoundRecord]
) -> dict[str, Any] | str:
    """Return the largest epsilon of a platform by the coordinator's record, and what it means.

    Guarantee:
        A unit lies on one platform: what was released tells at most this epsilon of it. An epsilon
        of None is infinite. Simulated noise is named so.
    """
    if mechanism is None:
        return NO_PRIVACY
    delta = study.privacy.delta
    # Platforms of one size released alike: each list of releases is counted once.
    released = {tuple(merged(recorded_events(rounds, name))) for name in study.names}
    costs = [spent_on(events, delta) for events in released if events]
    found = [each.pld if study.privacy.accountant == "pld" else each.rdp for each in costs]
    known = [each for each in found if each is not None]
    return {
        "mechanism": mechanism.name,
        "unit": mechanism.unit(study.privacy.unit),
        "epsilon": max(known, default=0.0) if len(known) == len(found) else None,
        "delta": delta,
        "accountant": study.privacy.accountant,
        "simulation": study.privacy.simulation,
        "trust": trust_note(study, mechanism.facts),
    }
