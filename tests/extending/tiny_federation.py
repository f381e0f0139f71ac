"""Two tiny platforms of made-up texts, for whatever comes from outside the package."""

from pathlib import Path

from fedner.runs.checks import checked
from fedner.settings import Settings, override

SIZE, BATCH = 28, 12
NAMES = ("case-reports", "forum-posts")
TABLES = {
    "title": "outside",
    "model": {"hidden": 6, "filters": 8, "character_filters": 6, "character_dimension": 6},
    "embeddings": {"dimension": 8, "buckets": 64},
    "training": {"rounds": 2, "batch_size": BATCH, "evaluate_every": 0},
    "platforms": [
        {"name": name, "data": f"synthetic:{name}", "num_sentences": 40, "split": {"test": 0.3},
         "public_size": SIZE}
        for name in NAMES
    ],
}  # fmt: skip
WORKERS = "engine.workers=2"
BYTES = "engine.as_bytes=true"


def settings(*assignments: str) -> Settings:
    """Return the settings of the federation, with assignments over them."""
    return checked(override(TABLES, assignments), Path.cwd())
