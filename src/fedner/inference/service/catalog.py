"""The models that a service offers: loaded once, each with what it can do.

A model is a torch tagger (`Predictor`) or an exported one (`OnnxTagger`). Types by description need
a described head of torch: its weights belong to no single type. A tagger of other types shares all
weights but those of its head; the last few are kept.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fedner.errors import FednerError
from fedner.inference.onnx_tagger import OnnxTagger, is_export
from fedner.inference.service.answers import ServiceError

if TYPE_CHECKING:
    from fedner.inference.predict import Predictor
    from fedner.inference.threshold_file import ChosenThreshold

_KEPT_TYPES: Final = 4
_LISTED: Final = 10


@dataclass(frozen=True, slots=True)
class Offer:
    """A model on disk that is to be served.

    Attributes:
        name: What requests call it.
        source: What people know it by: the name of a folder.
        folder: The folder of the tagger, or of the export.
        platform: The platform of a run that it belongs to.
        method: How it was trained, where the run says so.
    """

    name: str
    source: str
    folder: Path
    platform: str | None = None
    method: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """A model in memory.

    Attributes:
        offer: Where it came from.
        tagger: What reads.
        threshold: Its calibrated threshold for redaction; None where it has none.
        why_not: Why it takes no further types; None where it does.
    """

    offer: Offer
    tagger: "Predictor | OnnxTagger"
    threshold: "ChosenThreshold | None" = None
    why_not: str | None = None
    _retyped: "OrderedDict[tuple[tuple[str, str], ...], Predictor]" = field(
        default_factory=OrderedDict, repr=False
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def descriptions(self) -> dict[str, str]:
        """The descriptions of its types, where it knows them."""
        return {} if isinstance(self.tagger, OnnxTagger) else self.tagger.model.descriptions

    def with_types(self, types: Mapping[str, str]) -> "Predictor | OnnxTagger":
        """Return the tagger that finds further types too.

        Raises:
            ServiceError: The model takes none, or has one of them already.
        """
        if not types:
            return self.tagger
        if self.why_not is not None or isinstance(self.tagger, OnnxTagger):
            raise ServiceError(422, "this model takes no types by description", str(self.why_not))
        if taken := sorted(set(types) & set(self.tagger.labels)):
            raise ServiceError(
                422, f"the model has the type {', '.join(taken)} already", "Use another name."
            )
        key = tuple(sorted(types.items()))
        with self._lock:
            if key not in self._retyped:
                self._retyped[key] = _retyped(self.tagger, types)
            self._retyped.move_to_end(key)
            while len(self._retyped) > _KEPT_TYPES:
                self._retyped.popitem(last=False)
            return self._retyped[key]


@dataclass(frozen=True, slots=True)
class Catalog:
    """The models of a service.

    Attributes:
        models: By name; the first is the one that requests mean which name none.
    """

    models: Mapping[str, Served]

    def of(self, name: str | None) -> Served:
        """Return a model.

        Raises:
            ServiceError: There is no such model.
        """
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            names = ", ".join(list(self.models)[:_LISTED])
            raise ServiceError(404, "there is no model of that name", f"There are: {names}.")
        return self.models[name]


def load_catalog(
    offers: Sequence[Offer],
    *,
    vectors: Path | None = None,
    context: Path | None = None,
    is_quick: bool = False,
) -> Catalog:
    """Load the models of some offers.

    Args:
        offers: Where they are.
        vectors: Their word vectors, where they are not found by themselves.
        context: The weights of their context encoder, likewise.
        is_quick: Whether frozen transformers compute in half precision.

    Raises:
        FednerError: One cannot be loaded, or two have one name.
    """
    names = [offer.name for offer in offers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise FednerError(
            f"two models are called {', '.join(twice)}", "Name them: fedner serve a=PATH b=PATH"
        )
    loaded = {offer.name: _load(offer, vectors, context) for offer in offers}
    return Catalog({name: _quick(each) for name, each in loaded.items()} if is_quick else loaded)


def _load(offer: Offer, vectors: Path | None, context: Path | None) -> Served:
    if is_export(offer.folder):
        if vectors or context:
            raise FednerError(
                f"--vectors and --context are not for an exported tagger: {offer.folder}",
                "Leave them out.",
            )
        # A thread each: requests run side by side, and must not fight for the processors.
        tagger = OnnxTagger.load(offer.folder, num_threads=1)
        why = "An exported tagger knows only the types that it was exported with."
        return Served(offer, tagger, why_not=why)
    from fedner.inference.predict import Predictor
    from fedner.inference.threshold_file import NAME, read_threshold

    predictor = Predictor.load(offer.folder, vectors=vectors, context=context)
    path = offer.folder / NAME
    threshold = read_threshold(path, predictor.digest) if path.is_file() else None
    return Served(offer, predictor, threshold, _why_no_types(predictor))


def _quick(served: Served) -> Served:
    """Return a model whose frozen transformer computes in bfloat16; any other as it is."""
    if isinstance(served.tagger, OnnxTagger):
        return served
    from fedner.models.embeddings.transformer import TransformerEncoder

    model = served.tagger.model
    if not isinstance(model.encoder, TransformerEncoder):
        return served
    quick = replace(model, encoder=model.encoder.read_in("bfloat16"))
    return replace(served, tagger=replace(served.tagger, model=quick))


def _why_no_types(predictor: "Predictor") -> str | None:
    """Return why a tagger takes no types by description; None where it does."""
    from fedner.models.averaged import AveragedTagger

    if isinstance(predictor.model.tagger, AveragedTagger):
        return "This model is an average of two taggers, which were trained for their own types."
    if not predictor.model.descriptions:
        return (
            "This model has a free head: its weights belong to the types that it was trained for. "
            'Models trained with head = "described" take others.'
        )
    return None


def _retyped(predictor: "Predictor", types: Mapping[str, str]) -> "Predictor":
    from fedner.inference.predict import Predictor
    from fedner.models.checkpoint import retyped

    try:
        found = retyped(predictor.model, {**predictor.model.descriptions, **types})
    except FednerError as error:
        raise ServiceError(422, error.message, error.hint) from error
    return Predictor.of(found)
