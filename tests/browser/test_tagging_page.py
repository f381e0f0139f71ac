"""The page in a real browser: what people do with it, and whether everybody can.

Needs Playwright and Debian's Chromium: `make test-browser`. With FEDNER_BROWSER=required, as that
target sets it, a missing browser is a failure and no skip. FEDNER_SCREENSHOTS names a folder for
pictures of every size and colour scheme.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fedner

if os.environ.get("FEDNER_BROWSER") != "required":
    pytest.importorskip("playwright", reason="needs Playwright: make test-browser")
    pytest.importorskip("starlette", reason="needs the extra serve")
    pytest.importorskip("uvicorn", reason="needs the extra serve")

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from fedner.inference.service.catalog import Offer, load_catalog
from fedner.inference.service.settings import Token, WebSettings
from fedner.inference.service.tagger_service import TaggerService
from fedner.inference.service.web import local_server
from fedner.inference.service.workers import Workers

pytestmark = pytest.mark.browser
IS_REQUIRED = os.environ.get("FEDNER_BROWSER") == "required"
CHROMIUM = os.environ.get("FEDNER_CHROMIUM") or shutil.which("chromium")
SECRET = "a-token-of-the-tests"
CORPUS = fedner.synthetic_corpus("social-posts", 60, seed=1)
# Astral signs before and between mentions: JavaScript counts two where Python counts one.
NOTE = "😭 " + " 😭\n".join(each.text for each in CORPUS.documents if len(each.spans) > 1)[:300]
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TaggerService]:
    root = tmp_path_factory.mktemp("models")
    small = {"hidden": 8, "filters": 16, "character_filters": 8, "character_dimension": 8}
    for name, head in (("joined", "described"), ("local-only", "free")):
        model = {**small, "head": head}
        fedner.Tagger.train(CORPUS, epochs=10, batch_size=8, learning_rate=1e-2, model=model).save(
            root / name
        )
    catalog = load_catalog([Offer(name, name, root / name) for name in ("joined", "local-only")])
    workers = Workers(2, 16, 30.0)
    yield TaggerService(catalog, workers, WebSettings(port=0, stop_seconds=1))
    workers.close()


@pytest.fixture(scope="module")
def address(service: TaggerService) -> Iterator[str]:
    with local_server(service.application(), service.settings) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        if IS_REQUIRED:
            pytest.fail("no chromium on the path: apt-get install chromium, or FEDNER_CHROMIUM")
        pytest.skip("needs chromium on the path, or FEDNER_CHROMIUM: make test-browser")
    with sync_playwright() as playwright:
        # As root, in containers, Chromium's sandbox cannot be made; it opens our own page alone.
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context(viewport={"width": 1280, "height": 900})
    yield found
    found.close()


@pytest.fixture
def page(context: BrowserContext, address: str) -> Iterator[Page]:
    found = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    found.on("console", lambda message: said.append(message.text))
    found.on("pageerror", lambda error: said.append(str(error)))
    found.on("request", lambda request: asked.append(request.url))
    found.goto(address)
    found.wait_for_selector("body[data-ready]")
    yield found
    complaints = [each for each in said if not each.startswith("Failed to load resource")]
    assert complaints == [], "the browser refuses nothing that the page does"
    assert all(each.startswith(address) for each in asked), "nothing is asked of others"


def find(page: Page, note: str = NOTE) -> None:
    page.fill("#note", note)
    page.click("#find")
    page.wait_for_selector("#found .text")


def shown_texts(page: Page) -> list[str]:
    """Return the texts that are shown, without the labels of their mentions."""
    return page.eval_on_selector_all(
        "#found .text",
        """all => all.map(one => {
            const bare = one.cloneNode(true);
            bare.querySelectorAll('.tag, .heard').forEach(each => each.remove());
            return bare.textContent;
        })""",
    )


def marked_words(page: Page, place: str = "#found .text") -> list[list[str]]:
    return page.eval_on_selector_all(
        f"{place} mark",
        "all => all.map(one => [one.firstChild.data, one.querySelector('.tag').textContent])",
    )


def test_mentions_are_marked_where_they_are_also_behind_emoji(
    page: Page, service: TaggerService
) -> None:
    find(page)
    expected = service.catalog.models["joined"].tagger.predict(NOTE)
    assert len(expected) > 2
    assert shown_texts(page) == [NOTE]
    assert marked_words(page) == [
        [each.text, f"{each.label} {int(100 * round(each.confidence, 4) + 0.5)}\u00a0%"]
        for each in expected
    ]
    assert page.inner_text("#summary") == f"{len(expected)} entities found."


def test_two_models_are_compared_and_the_table_says_the_same(
    page: Page, service: TaggerService
) -> None:
    page.select_option("#second", "local-only")
    find(page)
    assert shown_texts(page) == [NOTE, NOTE]
    both = [
        {
            (each.start, each.end, each.label)
            for each in service.catalog.models[name].tagger.predict(NOTE)
        }
        for name in ("joined", "local-only")
    ]
    one, other = both
    said = page.inner_text("#summary")
    numbers = [int(each) for each in re.findall(r"\d+", said)]
    assert numbers == [len(one & other), len(one - other), len(other - one)]
    assert page.locator("#found mark.only").count() == len(one ^ other)
    page.click("#table-box summary")
    assert page.locator("#table tbody tr").count() == len(one | other)


def test_a_note_is_redacted_and_copied(page: Page, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.fill("#note", NOTE)
    page.check("input[name=how][value=pseudonym]")
    page.uncheck("#types input[value=ADE]")
    page.click("#redact-button")
    page.wait_for_selector("#redacted:not([hidden])")
    text = page.text_content("#redacted") or ""
    assert "[Drug-1]" in text
    assert "[ADE" not in text
    page.click("#copy-redacted")
    page.wait_for_selector("#redact-status:has-text('clipboard')")
    assert page.evaluate("() => navigator.clipboard.readText()") == text
    find(page)
    page.click("#copy-found")
    page.wait_for_selector("#summary:has-text('Copied')")
    copied = json.loads(page.evaluate("() => navigator.clipboard.readText()"))
    assert all(NOTE[each["start"] : each["end"]] == each["text"] for each in copied)


def test_nothing_ticked_is_refused_with_a_hint(page: Page) -> None:
    page.fill("#note", NOTE)
    for name in ("ADE", "Drug"):
        page.uncheck(f"#types input[value={name}]")
    page.click("#redact-button")
    page.wait_for_selector("#redact-error .notice")
    assert "no type left to remove" in page.inner_text("#redact-error")


def test_a_type_is_added_by_its_description_and_removed_again(page: Page) -> None:
    page.fill("#type-name", "Dosage")
    page.fill("#type-text", "amount of a medicine")
    page.click("#add button")
    assert page.inner_text("#added").startswith("Dosage amount of a medicine")
    with page.expect_request("**/predict") as asked:
        find(page)
    assert asked.value.post_data_json["types"] == {"Dosage": "amount of a medicine"}
    assert "Dosage" in page.inner_text("#legend")
    assert page.locator("#types input[value=Dosage]").count() == 1
    page.fill("#type-name", "Drug")
    page.fill("#type-text", "a medicine")
    page.click("#add button")
    assert page.locator("#added li").count() == 1, "the model has it already"
    page.click("#added button")
    assert page.locator("#types input[value=Dosage]").count() == 0


def test_where_no_type_can_be_added_the_page_says_why(page: Page) -> None:
    assert page.is_visible("#add")
    page.select_option("#model", "local-only")
    assert not page.is_visible("#add")
    assert "free head" in page.inner_text("#added-why")


def test_words_of_a_note_are_never_read_as_html(page: Page) -> None:
    note = "<img src=x onerror=alert(1)> <script>alert(1)</script> &amp; niludopa"
    find(page, note)
    page.click("#redact-button")
    page.wait_for_selector("#redacted:not([hidden])")
    assert shown_texts(page) == [note]
    assert page.locator("#found img, #found script, #redacted img").count() == 0


def test_samples_and_errors(page: Page) -> None:
    page.click("#find")
    assert page.inner_text("#summary") == "The note is empty."
    assert page.evaluate("() => document.activeElement.id") == "note"
    page.click("#samples button >> nth=0")
    assert len(page.input_value("#note")) > 200
    page.route("**/predict", lambda route: route.abort())
    page.click("#find")
    page.wait_for_selector("#found-error .notice")
    assert "Is it still running?" in page.inner_text("#found-error")
    page.unroute("**/predict")
    find(page)
    assert page.inner_text("#found-error") == ""


@pytest.mark.parametrize("how", ["form", "address"])
def test_a_token_opens_the_page_and_is_in_no_address(
    browser: Browser, service: TaggerService, how: str
) -> None:
    settings = WebSettings(port=0, token=Token(SECRET), stop_seconds=1)
    locked = TaggerService(service.catalog, service.workers, settings)
    with local_server(locked.application(), settings) as address:
        context = browser.new_context()
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        if how == "address":
            page.goto(f"{address}#token={SECRET}")
        else:
            page.goto(address)
            page.fill("#sign-in-token", "not-the-right-token")
            page.keyboard.press("Enter")
            page.wait_for_selector("dialog:has-text('token is wrong')")
            page.fill("#sign-in-token", SECRET)
            page.keyboard.press("Enter")
        page.wait_for_selector("body[data-ready]")
        find(page)
        assert SECRET not in page.url
        assert not [each for each in asked if SECRET in each]
        page.reload()
        page.wait_for_selector("body[data-ready]")
        context.close()


CONTROLS = "a[href], button, input, select, textarea, summary, [tabindex='0']"


def names_of_controls(page: Page) -> list[tuple[str, str]]:
    """Return each visible control as Chromium's accessibility tree names it."""
    client = page.context.new_cdp_session(page)
    nodes = client.send("Accessibility.getFullAXTree")["nodes"]
    roles = {
        "button",
        "link",
        "textbox",
        "combobox",
        "checkbox",
        "radio",
        "DisclosureTriangle",
        "dialog",
        "region",
        "spinbutton",
    }
    return [
        (each["role"]["value"], each.get("name", {}).get("value", ""))
        for each in nodes
        if not each.get("ignored") and each.get("role", {}).get("value") in roles
    ]


def with_everything(page: Page) -> None:
    """Show all that the page can show."""
    page.fill("#type-name", "Dosage")
    page.fill("#type-text", "amount of a medicine")
    page.click("#add button")
    page.select_option("#second", "local-only")
    find(page)
    page.click("#table-box summary")
    page.click("#redact-button")
    page.wait_for_selector("#redacted:not([hidden])")


def test_every_control_has_a_name(page: Page) -> None:
    with_everything(page)
    found = names_of_controls(page)
    assert len(found) > 20
    assert [each for each in found if not each[1].strip()] == []


def test_the_tab_key_reaches_every_control_in_the_order_of_the_page(page: Page) -> None:
    with_everything(page)
    page.evaluate("() => { document.activeElement.blur(); window.scrollTo(0, 0); }")
    expected = page.eval_on_selector_all(
        CONTROLS,
        """all => {
            const seen = all.filter(one => one.checkVisibility() && one.tabIndex >= 0);
            seen.forEach((one, number) => { one.dataset.stop = number; });
            // Of a group of radio buttons the tab key stops at the chosen one.
            const stops = seen.filter(one => one.type !== 'radio' || one.checked);
            return stops.map(one => one.dataset.stop);
        }""",
    )
    page.focus(".skip")
    reached = []
    for _ in range(len(expected) + 3):
        reached.append(page.evaluate("() => document.activeElement?.dataset.stop ?? null"))
        page.keyboard.press("Tab")
    assert len(expected) > 20
    assert [each for each in reached if each is not None][: len(expected)] == expected


def test_whoever_tabs_sees_where_they_are(page: Page) -> None:
    with_everything(page)
    page.evaluate("() => { document.activeElement.blur(); window.scrollTo(0, 0); }")
    for _ in range(30):
        page.keyboard.press("Tab")
        style, width = page.evaluate(
            "() => { const s = getComputedStyle(document.activeElement);"
            " return [s.outlineStyle, parseFloat(s.outlineWidth)]; }"
        )
        if page.evaluate("() => document.activeElement !== document.body"):
            assert (style, width >= 2) == ("solid", True)


def test_the_page_works_with_the_keyboard_alone(page: Page) -> None:
    page.focus("#note")
    page.keyboard.insert_text(NOTE)
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#found .text")
    page.focus("#redact-button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#redacted:not([hidden])")
    page.focus("#table-box summary")
    page.keyboard.press("Space")
    assert page.is_visible("#table table")


CONTRASTS = """
() => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = rgba(getComputedStyle(one).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255, 255];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => {
      const s = v / 255;
      return s <= 0.03928 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ratio = (one, other) => {
    const [a, b] = [light(one), light(other)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = new Map();
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    if (element.closest('.heard, .skip, noscript, option, script')) continue;
    const value = ratio(rgba(getComputedStyle(element).color), behind(element));
    const name = `${element.tagName}.${element.className}`;
    found.set(name, Math.min(value, found.get(name) ?? 99));
  }
  for (const element of document.querySelectorAll('input, select, textarea, button')) {
    if (!element.checkVisibility() || ['checkbox', 'radio'].includes(element.type)) continue;
    const style = getComputedStyle(element);
    const name = element.id || element.textContent;
    found.set(`text of ${name}`, ratio(rgba(style.color), behind(element)));
    const edge = ratio(rgba(style.borderTopColor), behind(element.parentElement));
    const face = ratio(behind(element), behind(element.parentElement));
    // An edge or a face needs 3 to 1: stated as half of what text needs.
    found.set(`edge of ${name}`, 1.5 * Math.max(edge, face));
  }
  return [...found];
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrasts_are_those_of_wcag_aa(browser: Browser, address: str, scheme: Any) -> None:
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    with_everything(page)
    page.evaluate(  # every colour of a type, and an error
        """() => {
            const legend = document.getElementById('legend');
            for (let hue = 0; hue < 8; hue += 1) {
                const chip = document.createElement('li');
                chip.className = `chip hue-${hue}`;
                chip.textContent = 'Type';
                legend.append(chip);
                const mark = document.createElement('mark');
                mark.className = `hue-${hue}`;
                mark.innerHTML = 'words<span class="tag">Type</span>';
                document.querySelector('#found .text').append(mark);
            }
            const error = document.getElementById('found-error');
            error.innerHTML = '<div class="notice bad">no<strong>no</strong></div>';
        }"""
    )
    for place in ("", "docs"):
        if place:
            page.goto(address + place)
            page.wait_for_selector("main .card")
        found = dict(page.evaluate(CONTRASTS))
        assert len(found) > 10
        assert {name: value for name, value in found.items() if value < 4.5} == {}
    context.close()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_off_at_any_width(
    browser: Browser, address: str, size: str, scheme: Any, tmp_path: Path
) -> None:
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, has_touch=size == "phone"
    )
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    with_everything(page)
    folder = Path(os.environ.get("FEDNER_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    for place in ("", "docs"):
        page.goto(address + place)
        page.wait_for_selector("main .card")
        if not place:
            page.wait_for_selector("body[data-ready]")
            with_everything(page)
        page.screenshot(path=folder / f"{place or 'page'}-{size}-{scheme}.png", full_page=True)
        wide = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, "no sideways scrolling of the page"
        small = page.eval_on_selector_all(
            "button, select, input, textarea",
            """all => all.filter(one => one.checkVisibility()
                && !['checkbox', 'radio'].includes(one.type)
                && one.getBoundingClientRect().height < 24).map(one => one.id)""",
        )
        assert small == [], "large enough to touch"
    context.close()


def test_the_docs_page_shows_every_operation(context: BrowserContext, address: str) -> None:
    page = context.new_page()
    page.goto(f"{address}docs")
    page.wait_for_selector("main .card")
    titles = page.eval_on_selector_all("main h2 code", "all => all.map(one => one.textContent)")
    assert titles == ["/predict", "/redact", "/models", "/samples", "/healthz"]
    assert [each for each in names_of_controls(page) if not each[1].strip()] == []
