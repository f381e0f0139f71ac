"""Three tiny platforms of made-up texts: what most tests of runs begin with."""

from typing import Any

TABLES: dict[str, Any] = {
    "title": "tiny",
    "model": {"hidden": 6, "filters": 8, "character_filters": 6, "character_dimension": 6},
    "embeddings": {"dimension": 8, "buckets": 64},
    "algorithm": {"name": "fedner", "server_optimizer": {"learning_rate": 0.02}},
    "local_optimizer": {"learning_rate": 0.02},
    "training": {"rounds": 6, "batch_size": 12, "evaluate_every": 3, "checkpoint_every": 2},
    "platforms": [
        {"name": name, "data": f"synthetic:{name}", "num_sentences": 40, "split": {"test": 0.3}}
        for name in ("case-reports", "forum-posts", "social-posts")
    ],
}
