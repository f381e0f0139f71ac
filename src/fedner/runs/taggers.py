"""The finished taggers of a run: kept in its folder by method and platform, and read back."""

from pathlib import Path

from fedner.errors import FednerError
from fedner.federated.annotation import union_space
from fedner.federated.checkpoints import owner_folder
from fedner.models.checkpoint import CARD, KIND, VERSION, WEIGHTS, EmbeddingPaths, save_tagger
from fedner.models.features import TagSpace
from fedner.models.tagger import Tagger
from fedner.runs.assembly import Federation, new_tagger
from fedner.runs.folder import FEDERATED, RunFolder
from fedner.runs.outcome import LOCAL_ONLY, METHODS
from fedner.settings import HASHED, NO_CONTEXT
from fedner.tensor_files import read_tensors


def space_of(federation: Federation, name: str, method: str) -> TagSpace:
    """Return the tags of a platform's tagger: its own, or all where it is centralized."""
    if method == FEDERATED:
        return federation.spaces[name]
    scheme = federation.settings.model.tag_scheme
    if method == LOCAL_ONLY:
        return TagSpace.of(federation.data[name].labels, scheme)
    return union_space([data.labels for data in federation.data.values()], scheme)


def keep_tagger(
    federation: Federation,
    folder: RunFolder,
    name: str,
    method: str,
    tagger: Tagger,
) -> None:
    """Keep a platform's finished tagger in the run folder."""
    held = federation.settings.embeddings
    paths = EmbeddingPaths(
        None if held.words == HASHED else Path(held.words),
        None if held.context == NO_CONTEXT else Path(held.context),
    )
    facts = {
        "run": federation.settings.title,
        "platform": name,
        "method": method,
        "labels": list(federation.data[name].labels),
        "synthetic": federation.data[name].is_synthetic,
    }
    save_tagger(
        owner_folder(folder.tagger(name, method)),
        tagger,
        federation.recipe,
        space_of(federation, name, method),
        context=federation.context,
        paths=paths,
        facts=facts,
    )


def check_taggers(federation: Federation, folder: RunFolder) -> None:
    """Refuse a run of which taggers are gone: scores of the rest would take their place.

    Raises:
        FednerError: A platform has no tagger of a method that others have; all are named.
    """
    found = {
        (name, method)
        for name in federation.names
        for method in METHODS
        if (folder.tagger(name, method) / CARD).is_file()
    }
    methods = {FEDERATED, *(method for _, method in found)}
    missing = [
        f"{method}/{name}"
        for method in sorted(methods)
        for name in federation.names
        if (name, method) not in found
    ]
    if missing:
        raise FednerError(
            f"{folder.path} lacks the taggers {', '.join(missing)}",
            f"If the run was stopped, `fedner train {folder.path} --resume` goes on with it; "
            f"else take an unharmed copy.",
        )


def stored_tagger(
    federation: Federation, folder: RunFolder, name: str, method: str
) -> tuple[Tagger, TagSpace]:
    """Return a finished tagger and its tags; the context encoder stays closed."""
    space = space_of(federation, name, method)
    tagger = new_tagger(federation, name, space)
    tensors, _ = read_tensors(folder.tagger(name, method) / WEIGHTS, KIND, VERSION)
    tagger.load_state_dict(tensors)
    return tagger, space
