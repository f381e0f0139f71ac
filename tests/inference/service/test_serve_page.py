"""docs/serve.md: its examples run, its options and statuses are those of the program."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.main import get_command

import fedner
from fedner.cli.app import app

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("uvicorn", reason="needs the extra serve")

from fedner.inference.service.catalog import Offer, load_catalog
from fedner.inference.service.operations import OPERATIONS, openapi
from fedner.inference.service.settings import WebSettings
from fedner.inference.service.tagger_service import TaggerService
from fedner.inference.service.web import local_server
from fedner.inference.service.workers import Workers

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(
    r"```sh\ncurl http://127\.0\.0\.1:8321(/\w+) .*?-d '(.*?)'\n```\n\n```json\n(.*?)```", re.S
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("page") / "joined"
    small = {"hidden": 8, "filters": 8, "character_filters": 8, "head": "described"}
    corpus = fedner.synthetic_corpus("social-posts", 20, seed=1)
    fedner.Tagger.train(corpus, epochs=1, model=small).save(folder)
    workers = Workers(1, 4, 30.0)
    settings = WebSettings(port=0, stop_seconds=1)
    catalog = load_catalog([Offer("joined", "joined", folder)])
    with local_server(TaggerService(catalog, workers, settings).application(), settings) as found:
        yield found.rstrip("/")
    workers.close()


def keys_of(value: Any) -> Any:
    """Return the keys of a record and of those within it; of a list those of its first."""
    if isinstance(value, dict):
        return {key: keys_of(inner) for key, inner in value.items()}
    return "list" if isinstance(value, list) else None


def test_every_example_is_answered_as_the_page_shows(address: str) -> None:
    examples = EXAMPLE.findall(PAGE)
    assert len(examples) == 3
    schemas = openapi()["components"]["schemas"]
    for path, body, answer in examples:
        found = httpx.post(address + path, json=json.loads(body), verify=False)  # noqa: S501
        assert found.status_code == 200, body
        shown = json.loads(answer)
        assert keys_of(shown) == keys_of(found.json())
        text = json.loads(body)["text"]
        for each in shown.get("mentions", ()):
            assert text[each["start"] : each["end"]] == each["text"]
            assert set(each) == set(schemas["FoundMention"]["properties"])
        for each in shown.get("replacements", ()):
            assert set(each) == set(schemas["Replacement"]["properties"])
            assert shown["text"][each["new_start"] : each["new_end"]].startswith("[")


def test_the_page_names_every_option_path_and_status() -> None:
    command = get_command(app).commands["serve"]  # type: ignore[attr-defined]
    options = {name for each in command.params for name in each.opts if name.startswith("--")}
    options -= {"--help"}
    assert {each for each in options if f"`{each}" not in PAGE and f" {each} " not in PAGE} == set()
    for each in OPERATIONS:
        assert f"| `{each.method} {each.path}` |" in PAGE
    codes = {
        code
        for path in openapi()["paths"].values()
        for one in path.values()
        for code in one["responses"]
    }
    table = PAGE.split("| status |")[1].split("\n\n")[0]
    assert {code for code in codes if code not in table} == {"200"}
