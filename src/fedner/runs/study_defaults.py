"""What a study means where it leaves a key out, and where that depends on other keys.

Both halves of a federation work with settings that these were written into, so that the digest of a
study and its files show what is in force.
"""

from dataclasses import fields
from typing import TypeVar

from fedner.federated.algorithms import ALGORITHMS
from fedner.federated.sizes import Weighting
from fedner.models.partition import shares_head
from fedner.models.zoo import RECIPES
from fedner.privacy.mechanisms import MECHANISMS
from fedner.runs.type_descriptions import has_described_head
from fedner.settings import Settings, Study
from fedner.settings.sections import RECIPES_OWN, AlgorithmSettings

# Both have the sections that everyone knows.
Public = TypeVar("Public", Settings, Study)
_WEIGHTING = "weighting"
_NORM_FACTOR = 100.0
_COLLUDING = 1


def with_defaults(settings: Public) -> Public:
    """Return the settings with what is in force where the file leaves it out.

    That is the recipe's own partition, the weighting where it is not "size", when a norm is absurd
    and how many platforms may collude.
    """
    whole = _with_own_partition(settings)
    norms = {"norm_factor": norm_factor_in_force(whole)}
    chosen = {
        "algorithm": algorithm_in_force(whole),
        "participation": whole.participation.model_copy(update=norms),
    }
    if whole.transport.secure_sum:
        terms = {"colluding": colluding_in_force(whole)}
        chosen["transport"] = whole.transport.model_copy(update=terms)
    return whole.model_copy(update=chosen)


def _with_own_partition(settings: Public) -> Public:
    recipe = settings.model.recipe.lower()
    own = {each.name.lower(): each.split for each in RECIPES.values()}
    if settings.partition.shared != RECIPES_OWN or recipe not in own:
        return settings
    chosen = settings.partition.model_copy(update={"shared": own[recipe]})
    return settings.model_copy(update={"partition": chosen})


def norm_factor_in_force(settings: Settings | Study) -> float | None:
    """Return how many times the median makes a norm absurd; None where no norm is compared."""
    given = settings.participation.norm_factor
    transport = settings.transport
    is_hidden = transport.secure_sum or transport.encryption is not None
    is_seen = not is_hidden and not releases_sum(settings)
    return _NORM_FACTOR if given is None and is_seen else given


def colluding_in_force(settings: Settings | Study) -> int:
    """Return how many platforms may collude with the server of a secure sum."""
    given = settings.transport.colluding
    return _COLLUDING if given is None else given


def releases_sum(settings: Settings | Study) -> bool:
    """Return whether only the sum of updates has its whole noise."""
    mechanism = MECHANISMS.get(settings.privacy.mechanism) if settings.privacy.enabled else None
    return mechanism is not None and mechanism.releases_sum


def algorithm_in_force(settings: Settings | Study) -> AlgorithmSettings:
    """Return the algorithm's table with the weighting in force where the file leaves it out."""
    algorithm, chosen = settings.algorithm, default_weighting(settings)
    is_given = _WEIGHTING in algorithm.parameters
    if is_given or chosen == "size" or not _takes_weighting(algorithm.name):
        return algorithm
    return AlgorithmSettings.model_validate({**algorithm.model_dump(), _WEIGHTING: chosen})


def _takes_weighting(name: str) -> bool:
    row = ALGORITHMS.get(name)
    return row is not None and _WEIGHTING in {each.name for each in fields(row.settings)}


def default_weighting(settings: Settings | Study) -> Weighting:
    """Return how much platforms count where the file does not say.

    By the square root of their size where they share a described head: measured, newcomers gain
    more from it (docs/federation.md). By their size (Ge et al. 2020, eq. 2) elsewhere, and wherever
    a noised sum is released: there another weighting would be refused, or proved otherwise.
    """
    if releases_sum(settings):
        return "size"
    is_shared = has_described_head(settings) and shares_head(settings.partition.shared)
    return "sqrt-size" if is_shared else "size"
