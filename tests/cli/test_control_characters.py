"""Control characters of corpora never reach a terminal: labels, ids, file names, texts, errors."""

import io
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.live import Live
from rich.text import Text
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.cli.output import SafeConsole, highlighted, table
from fedner.errors import FednerError
from fedner.visible import visible, visible_json

ESCAPE = "\x1b[2J\x1b]0;owned\x07"
EVIL = [ESCAPE, "\x9b31m", "a\rb", "\u202edesrever\u202c", "\u2066x", "del\x7f", "\x00", "\ud800"]
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize("evil", EVIL)
def test_one_visible_character_for_each(evil: str) -> None:
    assert len(visible(evil)) == len(evil)
    assert UNSAFE.search(evil)
    assert not UNSAFE.search(visible(evil))
    raw = json.dumps({evil: evil}, ensure_ascii=False)
    assert not UNSAFE.search(visible_json(raw))
    assert json.loads(visible_json(raw)) == {evil: evil}
    error = FednerError(f"label {evil}", f"not {evil}")
    assert not UNSAFE.search(str(error))
    assert not UNSAFE.search(repr(error))


@given(st.text())
def test_other_text_is_left_alone(text: str) -> None:
    shown = visible(text)
    assert [b for a, b in zip(text, shown, strict=True) if not UNSAFE.search(a)] == [
        a for a in text if not UNSAFE.search(a)
    ]


@pytest.mark.parametrize("evil", EVIL)
def test_tables_texts_and_live_displays(evil: str) -> None:
    buffer = io.StringIO()
    console = SafeConsole(file=buffer, force_terminal=True, width=60, no_color=True)
    rows = [(evil, 1), (Text(evil, style="bold"), 2)]
    console.print(table(f"title {evil}", ("label", evil), rows))
    console.print(highlighted(f"so {evil} it is", [(0, 2, evil)], [evil]))
    console.print(evil, soft_wrap=True)
    with Live(Text(evil), console=console, refresh_per_second=1):
        console.print(evil)
    sent = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", buffer.getvalue().replace(visible(evil), ""))
    assert not UNSAFE.search(sent), "only what rich itself sends"
    assert evil not in buffer.getvalue() or evil == "a\rb"


def test_a_corpus_with_escapes_in_every_place(tmp_path: Path) -> None:
    label = f"Drug{ESCAPE}"
    path = tmp_path / f"no{ESCAPE.replace('/', '')}te.jsonl"
    head = {"fedner": "corpus", "version": 1, "name": ESCAPE, "labels": [label]}
    good = {"id": f"1{ESCAPE}", "text": f"Aspirin {ESCAPE} helped.", "source": f"{ESCAPE}.txt",
            "patient": ESCAPE, "spans": [{"start": 0, "end": 7, "label": label}]}  # fmt: skip
    bad = {"id": "2", "text": "x", "spans": [{"start": 0, "end": 70, "label": label}]}
    other = {"id": "3", "text": "x", "spans": [{"start": 0, "end": 1, "label": f"Other{ESCAPE}"}]}
    path.write_text("\n".join(map(json.dumps, (head, good, bad, other))))
    for options in ([], ["--json"]):
        result = CliRunner().invoke(app, ["data", "inspect", str(path), *options])
        assert result.exit_code == 0
        assert not UNSAFE.search(result.stdout)
        assert "owned" in result.stdout, "it is shown, not hidden"
    result = CliRunner().invoke(app, ["data", "convert", str(path), "x", "--to", "jsonl"])
    assert isinstance(result.exception, FednerError)
    assert not UNSAFE.search(str(result.exception))
    assert "owned" in str(result.exception)
