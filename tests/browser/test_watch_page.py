"""The page of a watched run in a real browser: curves, live updates, a resumed run, keys, phone."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

if os.environ.get("FEDNER_BROWSER") != "required":
    pytest.importorskip("playwright", reason="needs Playwright: make test-browser")
    pytest.importorskip("uvicorn", reason="needs the extra serve")

from playwright.sync_api import Browser, Page, expect, sync_playwright

from fedner.inference.service.settings import Token, WebSettings
from fedner.inference.service.web import local_server
from fedner.runs.watch.opening import open_source
from fedner.runs.watch.service import watch_application
from fedner.runs.watch.tallies import strict_f1
from fedner.runs.watch.watcher import Watcher
from watched_runs import (
    append,
    begin_run,
    end_job,
    missing_in,
    record_of,
    refused_in,
    resume_after,
    study_of,
)

pytestmark = pytest.mark.browser
IS_REQUIRED = os.environ.get("FEDNER_BROWSER") == "required"
SECRET = "0123456789abcdef0123"
_SECONDS = 20_000  # milliseconds that anything may take on a busy machine
expect.set_options(timeout=_SECONDS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = os.environ.get("FEDNER_CHROMIUM") or shutil.which("chromium")
    if path is None:
        if IS_REQUIRED:
            pytest.fail("no chromium on the path: apt-get install chromium, or FEDNER_CHROMIUM")
        pytest.skip("needs chromium on the path, or FEDNER_CHROMIUM: make test-browser")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = begin_run(tmp_path / "run", study_of(rounds=40), is_local=False)
    records = [record_of(number) for number in range(1, 11)]
    records[3] = missing_in(records[3], "social-posts")
    records[6] = refused_in(records[6], "forum-posts")
    append(folder, *records)
    return folder


@contextmanager
def opened(
    browser: Browser, folder: Path, token: str | None = None, **options: Any
) -> Iterator[Page]:
    """The page of a run; what its console said wrong, and what it asked elsewhere, is a failure."""
    settings = WebSettings(port=0, token=None if token is None else Token(token), stop_seconds=1)
    with (
        Watcher(open_source(folder)) as watcher,
        local_server(watch_application(watcher, settings), settings) as address,
    ):
        context = browser.new_context(**options)
        page = context.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(address) else wrong.append(asked.url),
        )
        page.goto(address + ("" if token is None else f"#token={token}"))
        yield page
        context.close()
    assert wrong == []


@pytest.fixture
def page(browser: Browser, folder: Path) -> Iterator[Page]:
    with opened(browser, folder) as page:
        expect(page.locator("#facts")).to_contain_text("10 of 40")
        yield page


def chart(page: Page, name: str) -> Any:
    return page.locator(f"#chart-{name}")


def percents(round_: int) -> str:
    """Return the strict F1 of all platforms in a round, as the page writes it."""
    held = record_of(round_).scores.items()
    return ", ".join(f"{name} {100 * strict_f1(scores):.1f}" for name, scores in held)


def test_every_platform_has_its_line_in_every_chart(page: Page) -> None:
    expect(page.locator("h1")).to_have_text("watched")
    expect(page.locator("#badge")).to_have_text("Interrupted")
    expect(chart(page, "loss").locator("g.series")).to_have_count(4)
    expect(chart(page, "f1").locator("g.series")).to_have_count(3)
    expect(chart(page, "traffic").locator("g.series")).to_have_count(2)
    expect(chart(page, "epsilon")).to_contain_text("Without differential privacy")
    classes = {
        name: chart(page, name).locator(".key:has-text('forum-posts') svg").get_attribute("class")
        for name in ("loss", "f1")
    }
    assert set(classes.values()) == {"swatch s1"}
    expect(chart(page, "marks").locator("path.lane.missing title")).to_contain_text("round 4")
    expect(chart(page, "marks").locator("polygon.lane.refused title")).to_contain_text("round 7")
    expect(page.locator("#incidents")).to_contain_text("social-posts no answer")
    image = chart(page, "loss").locator("svg[role=img]")
    expect(chart(page, "loss").locator("svg[role=img]")).to_be_visible()
    last = record_of(10)
    losses = {"mean of all": last.loss} | dict(last.losses)
    told = ", ".join(f"{name} {loss:.4g}" for name, loss in losses.items())
    expect(image).to_have_attribute("aria-label", f"Training loss, at round 10: {told}")


def test_no_number_of_an_axis_is_cut_off(browser: Browser, tmp_path: Path) -> None:
    folder = begin_run(tmp_path / "run", study_of(rounds=1_000), is_local=False)
    append(folder, *(record_of(number) for number in range(1, 1_001)))
    with opened(browser, folder) as page:
        expect(page.locator("#facts")).to_contain_text("1,000 of 1,000")
        svg = chart(page, "loss").locator("svg[role=img]")
        expect(svg.locator("text.tick", has_text="1,000")).to_be_visible()
        frame = svg.bounding_box()
        assert frame is not None
        for tick in svg.locator("text.tick").all():
            box = tick.bounding_box()
            assert box is not None
            assert frame["x"] <= box["x"], tick.text_content()
            assert box["x"] + box["width"] <= frame["x"] + frame["width"] + 0.5, tick.text_content()


def test_rounds_appear_as_they_are_written_and_go_as_the_run_is_resumed(
    page: Page, folder: Path
) -> None:
    before = chart(page, "loss").locator("g.series.s-all polyline").get_attribute("points")
    append(folder, *(record_of(number) for number in range(11, 21)))
    expect(page.locator("#facts")).to_contain_text("20 of 40")
    line = chart(page, "loss").locator("g.series.s-all polyline")
    expect(line).not_to_have_attribute("points", before or "")
    assert len((line.get_attribute("points") or "").split()) == 20
    resume_after(folder, 15)
    expect(page.locator("#facts")).to_contain_text("15 of 40")
    assert len((line.get_attribute("points") or "").split()) == 15
    append(folder, record_of(16))
    expect(page.locator("#facts")).to_contain_text("16 of 40")
    expect(page).to_have_title("Interrupted 16/40 - watched")


def test_who_is_waited_for_is_said_and_heard(page: Page, folder: Path) -> None:
    end_job(folder, "fault", missing={"social-posts": "platform-gone"})
    expect(page.locator("#words")).to_contain_text("waiting for social-posts")
    expect(page.locator("#heard")).to_contain_text("Waiting. waiting for social-posts")
    row = page.locator("#platforms tr", has_text="social-posts")
    expect(row).to_contain_text("waited for")
    end_job(folder, "stopped", time=3.0)
    expect(page.locator("#badge")).to_have_text("Stopped")


def test_keys_read_values_and_a_table_has_them_all(page: Page) -> None:
    plot = chart(page, "f1").locator(".plot")
    plot.focus()
    said = chart(page, "f1").locator(".said")
    page.keyboard.press("ArrowLeft")
    expect(said).to_have_text(f"Round 10: {percents(10)}")
    page.keyboard.press("ArrowLeft")
    expect(said).to_have_text(f"Round 5: {percents(5)}")
    page.keyboard.press("Escape")
    expect(said).to_have_text("")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(":focus")).to_have_attribute("aria-pressed", "true")
    expect(chart(page, "f1").locator("g.series.faded")).to_have_count(2)
    chart(page, "loss").locator("summary").click()
    rows = chart(page, "loss").locator("tbody tr")
    expect(rows).to_have_count(10)
    expect(rows.first).to_contain_text(f"{record_of(10).loss:.4g}")


def test_a_phone_shows_all_without_a_sideways_scroll(browser: Browser, folder: Path) -> None:
    size = {"width": 360, "height": 740}
    with opened(browser, folder, viewport=size, color_scheme="dark") as page:
        expect(chart(page, "loss").locator("g.series")).to_have_count(4)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        backgrounds = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert max(int(each) for each in backgrounds[4:-1].split(",")) < 60


def test_a_token_in_the_address_opens_the_run_and_leaves_it(browser: Browser, folder: Path) -> None:
    with opened(browser, folder, token=SECRET) as page:
        expect(page.locator("#facts")).to_contain_text("10 of 40")
        assert SECRET not in page.url
