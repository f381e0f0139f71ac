"""A platform's finished taggers: kept in its own folder by method, and read back."""

from fedner.durable import owner_folder
from fedner.models.checkpoint import (
    CARD,
    KIND,
    VERSION,
    WEIGHTS,
    EmbeddingPaths,
    save_tagger,
    tagger_space,
)
from fedner.models.features import TagSpace
from fedner.models.tagger import Tagger
from fedner.runs.folder import FEDERATED, METHODS
from fedner.runs.public_files import path_of
from fedner.runs.site import Site
from fedner.tensor_files import read_tensors


def keep_tagger(site: Site, method: str, tagger: Tagger, space: TagSpace | None = None) -> None:
    """Keep a finished tagger in the platform's folder.

    Args:
        site: The platform.
        method: How it was trained.
        tagger: The tagger.
        space: Its tags; None takes those that the method has on this platform.
    """
    own = site.own.embeddings
    facts = {
        "run": site.study.title,
        "platform": site.name,
        "method": method,
        "labels": list(site.data.labels),
        "synthetic": site.data.is_synthetic,
    }
    save_tagger(
        owner_folder(site.folder.tagger(method)),
        tagger,
        site.blueprint.recipe,
        (site.space if method == FEDERATED else site.own_space) if space is None else space,
        context=site.blueprint.files.context,
        paths=EmbeddingPaths(path_of(own.words), path_of(own.context)),
        facts=facts,
    )


def finished_methods(site: Site) -> list[str]:
    """Return the methods of which the platform has a finished tagger, in the order of showing."""
    return [each for each in METHODS if (site.folder.tagger(each) / CARD).is_file()]


def stored_tagger(site: Site, method: str) -> tuple[Tagger, TagSpace]:
    """Return a finished tagger and its tags; the context encoder stays closed."""
    folder = site.folder.tagger(method)
    space = tagger_space(folder)
    tagger = site.tagger(space)
    tensors, _ = read_tensors(folder / WEIGHTS, KIND, VERSION)
    tagger.load_state_dict(tensors)
    return tagger, space
