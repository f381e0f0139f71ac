"""The file that `fedner init` writes: every key that it only mentions is a key that there is.

The demo's file has no problem either.
"""

import re
import tomllib
from importlib.resources import files

from fedner.settings import PlatformEntry, Settings, attempt

EXAMPLE = files("fedner.runs").joinpath("example.toml").read_text(encoding="utf-8")


def uncommented(text: str) -> tuple[str, set[str]]:
    """Return the file with its commented keys at work, and the names of those."""
    lines, held, woken = [], set(), set()
    for line in text.splitlines():
        bare = re.sub(r"^# (?=\w+ = |\[)", "", line)
        if bare.startswith("["):
            held = set()
        key = re.match(r"\w+(?= = )", bare)
        if key and key[0] in held:
            continue  # another way to write a key that is there
        if key:
            held.add(key[0])
        if key and bare != line:
            woken.add(key[0])
        lines.append(bare)
    return "\n".join(lines), woken


def test_the_example_has_no_problem() -> None:
    assert attempt(tomllib.loads(EXAMPLE))[1] == []


def test_commented_keys_are_keys_with_fitting_values() -> None:
    text, woken = uncommented(EXAMPLE)
    settings, problems = attempt(tomllib.loads(text))
    assert problems == []
    assert settings is not None
    assert {"policy", "newcomers", "epsilon", "quorum", "label_map", "cache"} <= woken


def test_the_example_mentions_every_section_and_what_all_may_know_of_a_platform() -> None:
    for key in Settings.model_fields:
        assert re.search(rf"^(# )?(\[+{key}\]|{key} = )", EXAMPLE, re.MULTILINE), key
    for key in ("labels", "public_size", "tag_scheme", "ledger", "policy"):
        assert key in PlatformEntry.model_fields
        assert re.search(rf"^# {key} = ", EXAMPLE, re.MULTILINE), key


def test_the_demo_shares_a_described_head_and_everything() -> None:
    text = files("fedner.runs").joinpath("demo.toml").read_text(encoding="utf-8")
    settings, problems = attempt(tomllib.loads(text))
    assert problems == []
    assert settings is not None
    assert (settings.model.head, settings.partition.shared) == ("described", "everything")
    assert settings.embeddings.words == "hashed", "nothing is downloaded"
    assert all(platform.synthetic for platform in settings.platforms)
