"""Sites of settings, and how they are protected, for tests that look into a run."""

from pathlib import Path

from fedner.federated.algorithms import Algorithm
from fedner.privacy.mechanisms import PlatformPrivacy
from fedner.runs.privacy import platform_privacy
from fedner.runs.schedule import algorithm_for
from fedner.runs.simulation import open_sites
from fedner.runs.site import Site
from fedner.settings import Settings


def opened(settings: Settings, path: Path = Path("unused")) -> dict[str, Site]:
    """Return the sites by name; nothing is written."""
    return {site.name: site for site in open_sites(settings, path)}


def algorithm_in(sites: dict[str, Site]) -> Algorithm:
    return algorithm_for(next(iter(sites.values())).study)


def protected(settings: Settings) -> dict[str, PlatformPrivacy]:
    """Return how each platform's releases are protected."""
    sites = opened(settings)
    algorithm = algorithm_in(sites)
    found = {
        name: platform_privacy(site.blueprint, algorithm, name) for name, site in sites.items()
    }
    return {name: each for name, each in found.items() if each is not None}
