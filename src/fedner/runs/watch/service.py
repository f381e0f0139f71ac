"""The page of a watched run: plain files, and the newest state as JSON."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from fedner.inference.service.settings import WebSettings
from fedner.inference.service.web import application, page_routes
from fedner.runs.watch.watcher import Watcher

_PAGE = "fedner.runs.watch.page"
_SHARED = "fedner.inference.service.pages.shared"
_STATE = "/state"


def watch_routes(watcher: Watcher) -> Sequence[BaseRoute]:
    """Return the page and its data, for a server of its own or beside other pages."""

    async def state(request: Request) -> Response:
        """Answer with the newest state, or with its name alone where the page has it."""
        newest = watcher.state
        if request.query_params.get("since") == newest.tag:
            return Response(b'{"tag":null}', media_type="application/json")
        data = b'{"tag":"%b","state":%b}' % (newest.tag.encode(), newest.data)
        return Response(data, media_type="application/json")

    return [
        *page_routes(_SHARED),
        *page_routes(_PAGE),
        Route(_STATE, state, methods=["GET"]),
    ]


def watch_application(watcher: Watcher, settings: WebSettings) -> ASGIApp:
    """Return the page and its data behind the guard; the files hold nothing of the run."""
    routes = watch_routes(watcher)
    open_paths = [each.path for each in routes if isinstance(each, Route) and each.path != _STATE]
    return application(routes, settings, open_paths)
