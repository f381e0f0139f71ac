"""The operations of the tagger's service: one table, from which routes and OpenAPI are made."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from fedner.inference.service.answers import ErrorAnswer
from fedner.inference.service.messages import (
    HealthAnswer,
    ModelsAnswer,
    PredictAnswer,
    PredictRequest,
    RedactAnswer,
    RedactRequest,
    SamplesAnswer,
)
from fedner.version import __version__

_STATUS: Final = {
    400: "The body is not JSON or not UTF-8.",
    401: "The token is missing or wrong.",
    403: "Another site sent the request.",
    404: "There is no such path or model.",
    405: "The path does not take this method.",
    408: "The request did not arrive in time.",
    413: "The body is too large.",
    415: "The content type is not application/json.",
    421: "The host name is not one of this service.",
    422: "The body is empty, or a field is missing, unknown or wrong.",
    500: "Something is wrong in fedner itself.",
    503: "Too many requests at a time: the header Retry-After says when to try again.",
}
_OF_ALL: Final = (401, 403, 408, 421, 503)
_OF_BODIES: Final = (400, 404, 413, 415, 422, 500)


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that the service does.

    Attributes:
        path: Where.
        summary: What, in one line.
        answer: The record that it answers with.
        request: The record that it takes; None for GET.
        is_open: Whether it needs no token.
    """

    path: str
    summary: str
    answer: type[BaseModel]
    request: type[BaseModel] | None = None
    is_open: bool = False

    @property
    def method(self) -> str:
        """The HTTP method."""
        return "GET" if self.request is None else "POST"


OPERATIONS: Final = (
    Operation("/predict", "Find the mentions of a note", PredictAnswer, PredictRequest),
    Operation("/redact", "Replace what is found in a note", RedactAnswer, RedactRequest),
    Operation("/models", "List the models that are served", ModelsAnswer),
    Operation("/samples", "Give synthetic texts to try", SamplesAnswer),
    Operation("/healthz", "Say that the service is up", HealthAnswer, is_open=True),
)


def openapi() -> dict[str, Any]:
    """Return the OpenAPI document of the service."""
    records: list[tuple[type[BaseModel], JsonSchemaMode]] = [(ErrorAnswer, "serialization")]
    for each in OPERATIONS:
        records.append((each.answer, "serialization"))
        if each.request is not None:
            records.append((each.request, "validation"))
    template = "#/components/schemas/{model}"
    places, schemas = models_json_schema(records, ref_template=template)
    by_record: dict[Any, Any] = {record: schema for (record, _), schema in places.items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fedner",
            "version": __version__,
            "description": "Named-entity recognition with the models of this service. Offsets "
            "count Unicode code points of the whole text, half-open. Every error is "
            "answered with an error and a hint.",
        },
        "paths": {
            each.path: {each.method.lower(): _described(each, by_record)} for each in OPERATIONS
        },
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(operation: Operation, places: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what OpenAPI says of an operation."""
    codes = sorted({*_OF_ALL, *(_OF_BODIES if operation.request is not None else ())})
    if operation.is_open:
        codes.remove(401)
    answers = {"200": _content("What was found.", places[operation.answer])}
    answers |= {str(code): _content(_STATUS[code], places[ErrorAnswer]) for code in codes}
    found: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": operation.path.strip("/"),
        "security": [] if operation.is_open else [{}, {"token": []}],
        "responses": answers,
    }
    if operation.request is not None:
        found["requestBody"] = {"required": True, **_content(None, places[operation.request])}
    return found


def _content(description: str | None, schema: Any) -> dict[str, Any]:
    told = {} if description is None else {"description": description}
    return {**told, "content": {"application/json": {"schema": schema}}}
