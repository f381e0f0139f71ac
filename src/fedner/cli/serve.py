"""`fedner serve`: taggers behind a page and a small web service of this machine."""

import logging
import os
import sys
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from fedner.cli.arguments import MovedContext, MovedVectors
from fedner.errors import FednerError

if TYPE_CHECKING:
    from socket import socket

    from fedner.inference.service.catalog import Catalog, Offer
    from fedner.inference.service.settings import WebSettings

WAITING: Final = 64
"""So many requests wait for a thread; more are told to come again."""

ServedModels = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]MODEL...",
        help="Run folders, folders of saved taggers, or of `fedner export`.",
    ),
]
Platforms = Annotated[
    list[str] | None,
    typer.Option(
        "--platform",
        help="Of a run: the platform whose taggers to serve; default: all. Repeatable.",
    ),
]
Host = Annotated[str, typer.Option("--host", help="The address; any but loopback needs a token.")]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65_535, help="The port; 0 takes a free one.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help="A file with the token that requests must carry, readable only by its owner; else the "
        "variable FEDNER_SERVICE_TOKEN.",
    ),
]
HostNames = Annotated[
    list[str] | None,
    typer.Option(
        "--host-name",
        help=(
            "A host name under which the service is reached, for example behind a proxy. "
            "Repeatable."
        ),
    ),
]
MostBytes = Annotated[int, typer.Option("--most-bytes", min=1_000, help="The largest request.")]
Seconds = Annotated[
    float, typer.Option("--seconds", min=0.1, help="The most seconds that a request may take.")
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", min=1, help="How many requests run at a time; default: as many as processors."
    ),
]
Precision = Literal["float32", "bfloat16"]
PrecisionOption = Annotated[
    Precision,
    typer.Option(
        "--precision",
        help="bfloat16: frozen transformers compute in half precision, quicker if the processor "
        "supports it; confidences differ a little.",
    ),
]
AsJsonLine = Annotated[
    bool, typer.Option("--json", help="Print address and models as one line of JSON.")
]


def serve(
    models: ServedModels,
    platform: Platforms = None,
    host: Host = "127.0.0.1",
    port: Port = 8321,
    token_file: TokenFile = None,
    host_name: HostNames = None,
    most_bytes: MostBytes = 1 << 18,
    seconds: Seconds = 30.0,
    threads: Threads = None,
    precision: PrecisionOption = "float32",
    vectors: MovedVectors = None,
    context: MovedContext = None,
    json: AsJsonLine = False,
) -> None:
    """Serve taggers on this machine: a page to try them, and an API. Texts stay here.

    Nothing is stored, and no text is logged. Ctrl-C stops it.
    """
    _require_extra()
    from fedner.inference.service.catalog import load_catalog
    from fedner.inference.service.settings import WebSettings, read_token
    from fedner.inference.service.web import address_of, listen

    settings = WebSettings(
        host=host,
        port=port,
        token=read_token(token_file),
        names=tuple(host_name or ()),
        most_bytes=most_bytes,
        work_seconds=seconds,
    )
    offers = _offers(models, platform or [])
    with listen(settings) as listening:  # a taken port is said before models are loaded
        _log_to_standard_error()
        is_quick = precision == "bfloat16"
        catalog = load_catalog(offers, vectors=vectors, context=context, is_quick=is_quick)
        address = address_of(listening, host)
        _say_json(catalog, address) if json else _say(catalog, address, settings)
        _use_one_thread_each()
        _run(catalog, settings, listening, threads or os.cpu_count() or 1)


def _require_extra() -> None:
    from fedner.corpus.readers.extras import required

    for module in ("starlette", "uvicorn"):
        required(module, "serve", "the page and the web service")


def _offers(models: list[str], platforms: list[str]) -> "list[Offer]":
    """Return the taggers of all models; of several, each has the name of its own."""
    from fedner.runs.served_taggers import offers_of

    found = []
    for each in models:
        name, path = _name_and_path(each)
        if name is None and len(models) > 1:
            name = path.resolve().name
        found += offers_of(path, name, platforms)
    return found


def _name_and_path(stated: str) -> tuple[str | None, Path]:
    """Take NAME=PATH apart; a path that is there may hold any sign."""
    name, sign, path = stated.partition("=")
    if not sign or Path(stated).exists():
        return None, Path(stated)
    if not name or not path:
        raise FednerError(f"{stated}: found no name or no path", "Write NAME=PATH.")
    return name, Path(path)


def _log_to_standard_error() -> None:
    """Show the service's own log: method, path, status and time of each request."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    log = logging.getLogger("fedner.service")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False


def _say_json(catalog: "Catalog", address: str) -> None:
    typer.echo(dumps({"address": address, "models": list(catalog.models)}))


def _say(catalog: "Catalog", address: str, settings: "WebSettings") -> None:
    from fedner.cli.output import console, show_place

    for name, served in catalog.models.items():
        console.print(f"{name}: {', '.join(served.tagger.labels)}", soft_wrap=True)
    show_place("serving at", address, " (Ctrl-C stops)")
    if settings.token is not None:
        console.print("Requests carry the token; the page asks for it.", style="dim")
    if settings.is_open:
        words = "Texts and the token are sent unencrypted: put a proxy with TLS in front of it."
        console.print(words, style="yellow")


def _use_one_thread_each() -> None:
    """Let requests run side by side: with more threads each they fight for the processors."""
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)


def _run(
    catalog: "Catalog", settings: "WebSettings", listening: "socket", num_threads: int
) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    from fedner.inference.service.tagger_service import TaggerService
    from fedner.inference.service.web import run
    from fedner.inference.service.workers import Workers

    workers = Workers(num_threads, WAITING, settings.work_seconds)
    try:
        run(TaggerService(catalog, workers, settings).application(), settings, listening)
    finally:
        workers.close()
    typer.echo("stopped", err=True)
