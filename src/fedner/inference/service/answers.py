"""What the service answers: JSON, and for whatever goes wrong an error with a hint.

Nothing of a request is repeated in an error: who reads a log or a screenshot learns no text.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

_JSON = "application/json"
_MOST_PROBLEMS = 5
Body = TypeVar("Body", bound=BaseModel)


class ServiceError(Exception):
    """Something that the caller of the service can put right.

    Attributes:
        status: The HTTP status.
        error: What is wrong.
        hint: What to do about it.
        headers: Headers of the answer.
    """

    def __init__(
        self, status: int, error: str, hint: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.hint = hint
        self.headers = dict(headers or {})


class ErrorAnswer(BaseModel, frozen=True, extra="forbid"):
    """The body of every answer that is no success: what is wrong, and what to do."""

    error: str
    hint: str


def error_answer(problem: ServiceError) -> Response:
    """Return a problem as an answer."""
    body = ErrorAnswer(error=problem.error, hint=problem.hint)
    return JSONResponse(body.model_dump(), problem.status, problem.headers)


def model_answer(model: BaseModel) -> Response:
    """Return a record as an answer."""
    return Response(model.model_dump_json(), media_type=_JSON)


async def read_body(request: Request, kind: type[Body]) -> Body:
    """Return the record that the body of a request holds.

    Raises:
        ServiceError: It is no JSON, no UTF-8, or holds another record.
    """
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if stated != _JSON:
        raise ServiceError(
            415,
            f"the body has {'no content type' if not stated else 'another content type'}; "
            f"expected {_JSON}",
            f"Send JSON with the header Content-Type: {_JSON}",
        )
    return parse_body(await request.body(), kind)


def parse_body(data: bytes, kind: type[Body]) -> Body:
    """Return the record that some bytes hold.

    Raises:
        ServiceError: They are no JSON, no UTF-8, or hold another record.
    """
    fields = ", ".join(kind.model_fields)
    if not data.strip():
        raise ServiceError(422, "the body is empty", f"Send a JSON object with: {fields}.")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ServiceError(
            400, f"the body is not UTF-8 from byte {error.start} on", "Send JSON in UTF-8."
        ) from None
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
    if any(each["type"] == "json_invalid" for each in problems):
        raise ServiceError(400, "the body is no JSON", f"Send a JSON object with: {fields}.")
    raise ServiceError(422, "; ".join(_told(problems, kind)), f"Send a JSON object with: {fields}.")


def _told(problems: list[Any], kind: type[BaseModel]) -> list[str]:
    """Return what is wrong with each field; names that are not ours are not repeated."""
    said = []
    for problem in problems[:_MOST_PROBLEMS]:
        location = problem["loc"]
        known = location and location[0] in kind.model_fields
        name = str(location[0]) if known else ("an unknown key" if location else "the body")
        said.append(f"{name}: {problem['msg']}")
    return said
