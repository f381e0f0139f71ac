"""The service of taggers: its routes, from a request to the threads and back."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from fedner.corpus.document import Document
from fedner.corpus.synthetic import PLATFORMS, stream
from fedner.inference.service.answers import model_answer, read_body
from fedner.inference.service.catalog import Catalog
from fedner.inference.service.messages import (
    HealthAnswer,
    ModelsAnswer,
    PredictRequest,
    RedactRequest,
    Sample,
    SamplesAnswer,
)
from fedner.inference.service.operations import OPERATIONS, openapi
from fedner.inference.service.settings import WebSettings
from fedner.inference.service.tagging import find, offered, remove
from fedner.inference.service.web import application, page_routes
from fedner.inference.service.workers import Workers

_SHARED: Final = "fedner.inference.service.pages.shared"
_PAGES: Final = "fedner.inference.service.pages.tagger"
_SAMPLE_SEED: Final = 20
_SAMPLE_LENGTH: Final = 420


@dataclass(frozen=True, slots=True)
class TaggerService:
    """The models of a service and the threads in which they work.

    Attributes:
        catalog: The models.
        workers: The threads.
        settings: Whom the service is for, and how much it takes.
    """

    catalog: Catalog
    workers: Workers
    settings: WebSettings

    def application(self) -> ASGIApp:
        """Return the whole service: pages, data, and the guard before them."""
        pages = [*page_routes(_SHARED), *page_routes(_PAGES)]
        is_open = [route.path for route in pages]
        is_open += [each.path for each in OPERATIONS if each.is_open] + ["/openapi.json"]
        return application([*pages, *self.routes()], self.settings, is_open)

    def routes(self) -> list[Route]:
        """Return the routes of all operations."""
        served = {
            "/predict": self._predict,
            "/redact": self._redact,
            "/models": _always(self._models()),
            "/samples": _always(SamplesAnswer(samples=samples())),
            "/healthz": _always(HealthAnswer()),
        }
        description = openapi()

        async def describe(_: Request) -> Response:
            return JSONResponse(description)

        routes = [Route(each.path, served[each.path], methods=[each.method]) for each in OPERATIONS]
        return [*routes, Route("/openapi.json", describe, methods=["GET"])]

    async def _predict(self, request: Request) -> Response:
        asked = await read_body(request, PredictRequest)
        return model_answer(await self.workers.run(partial(find, self.catalog, asked)))

    async def _redact(self, request: Request) -> Response:
        asked = await read_body(request, RedactRequest)
        return model_answer(await self.workers.run(partial(remove, self.catalog, asked)))

    def _models(self) -> ModelsAnswer:
        models = [offered(each) for each in self.catalog.models.values()]
        return ModelsAnswer(models=models, most_bytes=self.settings.most_bytes)


def _always(record: BaseModel) -> Callable[[Request], object]:
    """Return what answers with one record."""

    async def answer(_: Request) -> Response:
        return model_answer(record)

    return answer


def samples() -> list[Sample]:
    """Return a text of each built-in synthetic platform."""
    return [
        Sample(platform=name, description=each.description, text=_sample_text(name))
        for name, each in PLATFORMS.items()
    ]


def _sample_text(platform: str) -> str:
    """Return a note of about a paragraph: documents of a platform, one after the other."""
    texts: list[str] = []
    documents = stream(platform, _SAMPLE_SEED)
    while sum(map(len, texts)) < _SAMPLE_LENGTH:
        document: Document = next(documents)
        if document.spans:
            texts.append(document.text)
    return "\n".join(texts)
