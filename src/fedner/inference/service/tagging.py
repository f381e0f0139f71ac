"""What the service does with a note: find mentions, or redact it. Pure work, run in its threads."""

from typing import TYPE_CHECKING, Final

from fedner.corpus.document import Document
from fedner.errors import FednerError
from fedner.inference.onnx_tagger import OnnxTagger
from fedner.inference.reading import Mention, read_texts
from fedner.inference.redact import redact, removed_types
from fedner.inference.service.answers import ServiceError
from fedner.inference.service.catalog import Catalog, Served
from fedner.inference.service.messages import (
    FoundMention,
    OfferedModel,
    OfferedType,
    OwnThreshold,
    PredictAnswer,
    PredictRequest,
    RedactAnswer,
    RedactRequest,
    Replacement,
)

if TYPE_CHECKING:
    from fedner.inference.predict import Predictor
    from fedner.inference.threshold_file import ChosenThreshold

MISSES: Final = (
    "Redaction finds what its tagger finds, and no tagger finds everything: what it leaves may "
    "still identify people."
)
_NO_THRESHOLD: Final = "Ask for a threshold of none, or serve the tagger itself."


def find(catalog: Catalog, asked: PredictRequest) -> PredictAnswer:
    """Return the mentions of a note.

    Raises:
        ServiceError: There is no such model, or it takes no further types.
    """
    served = catalog.of(asked.model)
    tagger = served.with_types(asked.types)
    (predicted,) = tagger.predict_documents([Document("note", asked.text)])
    mentions = [
        FoundMention(
            start=each.start,
            end=each.end,
            type=each.label,
            text=each.text,
            confidence=round(each.confidence, 4),
        )
        for each in sorted(predicted.mentions)
    ]
    return PredictAnswer(model=served.offer.name, mentions=mentions)


def remove(catalog: Catalog, asked: RedactRequest) -> RedactAnswer:
    """Return a note without what was found in it.

    Raises:
        ServiceError: There is no such model, or the request asks for what it cannot do.
    """
    served = catalog.of(asked.model)
    tagger = served.with_types(asked.types)
    try:
        types = removed_types(tagger.labels, asked.remove, asked.keep)
        chosen = _own_threshold(served, asked, types)
        threshold = asked.threshold if isinstance(asked.threshold, float) else None
        if chosen is not None:
            threshold, types = chosen.calibration.threshold, chosen.types
        mentions = _found(tagger, asked.text, types, threshold)
        done = redact(asked.text, mentions, asked.how)
    except FednerError as error:
        raise ServiceError(422, error.message, error.hint) from error
    return RedactAnswer(
        model=served.offer.name,
        text=done.text,
        replacements=[
            Replacement(
                start=each.start,
                end=each.end,
                type=each.label,
                new_start=each.new_start,
                new_end=each.new_end,
            )
            for each in done.replacements
        ],
        removed=list(types),
        threshold=threshold,
        remains=MISSES if chosen is None else f"{_remains(chosen)} {MISSES}",
    )


def _own_threshold(
    served: Served, asked: RedactRequest, types: tuple[str, ...]
) -> "ChosenThreshold | None":
    """Return the calibration in force, which holds for its own types alone."""
    chosen = served.threshold if asked.threshold == "own" else None
    if chosen is None:
        return None
    names_some = bool(asked.remove or asked.keep or asked.types)
    if names_some and types != chosen.types:
        raise ServiceError(
            422,
            f"the model's threshold was chosen to remove {', '.join(chosen.types)}; asked for "
            f"{', '.join(types)}",
            'Ask for a threshold of "none", or for a number.',
        )
    return chosen


def _found(
    tagger: "Predictor | OnnxTagger", text: str, types: tuple[str, ...], threshold: float | None
) -> list[Mention]:
    """Return what has to go, by threshold or as `fedner predict` finds it."""
    if threshold is None:
        (predicted,) = tagger.predict_documents([Document("note", text)])
        return [each for each in predicted.mentions if each.label in types]
    if isinstance(tagger, OnnxTagger):
        raise ServiceError(422, "an exported tagger takes no threshold", _NO_THRESHOLD)
    if not 0 < threshold < 1:
        raise ServiceError(422, "threshold: expected a number between 0 and 1", _NO_THRESHOLD)
    from fedner.inference.removal import threshold_finder

    return list(read_texts(threshold_finder(tagger, types, threshold), [text])[0])


def _remains(chosen: "ChosenThreshold") -> str:
    from fedner.inference.calibration import remain_words

    return f"On held-out documents: {remain_words('mentions', chosen.calibration.measured)}."


def offered(served: Served) -> OfferedModel:
    """Return what people and pages need to know of a model."""
    descriptions, chosen = served.descriptions, served.threshold
    own = None
    if chosen is not None:
        own = OwnThreshold(
            threshold=chosen.calibration.threshold,
            types=list(chosen.types),
            remains=_remains(chosen),
        )
    return OfferedModel(
        name=served.offer.name,
        source=served.offer.source,
        platform=served.offer.platform,
        method=served.offer.method,
        types=[
            OfferedType(name=label, description=descriptions.get(label))
            for label in served.tagger.labels
        ],
        can_add_types=served.why_not is None,
        why_not=served.why_not,
        takes_threshold=not isinstance(served.tagger, OnnxTagger),
        redaction=own,
    )
