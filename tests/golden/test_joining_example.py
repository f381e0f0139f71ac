"""`examples/joining.toml`: its partners train; CADEC and SMM4H join with the lines that it has.

Both newcomers are licence-bound: tiny files in their layouts, made up here, stand in for them.
"""

import json
import re
import shlex
import tomllib
from pathlib import Path

import pytest
from example_runs import ENCODER, EXAMPLES, encoder, laid_out
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.runs.checks import read_settings
from fedner.runs.simulation import train_run
from fedner.settings import attempt

EXAMPLE = EXAMPLES / "joining.toml"
HEADER = "tweet_id\tbegin\tend\ttype\textraction\tdrug\ttweet\tmeddra_code\tmeddra_term"
SMALL = (
    "embeddings={words='hashed', dimension=8, buckets=64}",
    "model={recipe='CNN-LSTM-CRF', head='described', rank=4, hidden=4, character_filters=4}",
    "training={rounds=2, batch_size=4}",
)
SYNTHETIC = """
[[platforms]]
name = "case-reports"
data = "synthetic:case-reports"
num_sentences = 20
"""


def commands() -> dict[str, list[str]]:
    """Return the `fedner join` lines of the example by the name of the newcomer's folder."""
    lines = [line[1:].strip() for line in EXAMPLE.read_text().splitlines() if line[:1] == "#"]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    found = [shlex.split(each) for each in joined.splitlines() if each.startswith("fedner join")]
    return {Path(each[each.index("--data") + 1]).name: each[1:] for each in found}


def write_cadec(root: Path) -> None:
    """Write posts as CADEC is distributed: text/ and original/."""
    for folder in ("text", "original"):
        (root / folder).mkdir(parents=True)
    for number in range(30):
        text = "I felt a bit drowsy on Lipitor.\nMy gout and the knee pain, mild fever.\n"
        (root / "text" / f"LIPITOR.{number}.txt").write_text(text)
        rows = ("ADR 9 19", "Drug 23 30", "Disease 35 39", "Symptom 48 57", "Finding 59 69")
        marked = [
            f"T{at}\t{row}\t{text[slice(*map(int, row.split()[1:]))]}\n"
            for at, row in enumerate(rows, start=1)
        ]
        (root / "original" / f"LIPITOR.{number}.ann").write_text("".join(marked))


def write_smm4h(root: Path) -> None:
    """Write tweets as SMM4H distributes them: two tables."""
    root.mkdir()
    for first, name in ((1, "task3_training.tsv"), (100, "task3_validation.tsv")):
        rows = [
            f"{first + at}\t13\t19\tADR\tsleepy\tquetiapine\tday {at:02} of so sleepy on quetiapine"
            "\t10041349\tsomnolence"
            for at in range(20)
        ]
        (root / name).write_text("\n".join([HEADER, *rows]) + "\n")


def join(newcomer: str, examples: Path, model: Path, out: Path) -> dict[str, object]:
    """Run the line of the example, with folders of this test and a short training."""
    words = commands()[newcomer]
    words[1] = str(model)
    for option, value in (("--data", examples / "data" / newcomer), ("--out", out)):
        words[words.index(option) + 1] = str(value)
    result = CliRunner().invoke(app, [*words, "--epochs", "1", "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.output)
    return found


def require_joined(examples: Path, model: Path, place: Path) -> None:
    """Let both newcomers join, and check what they trained on and whom they told."""
    descriptions = tomllib.loads(EXAMPLE.read_text())["types"]
    for newcomer, types in (
        ("cadec", ("ADR", "Disease", "Drug", "Finding", "Symptom")),
        ("smm4h", ("ADR", "Drug")),
    ):
        found = join(newcomer, examples, model, place / newcomer)
        assert (found["sent"], tuple(found["types"])) == ("nothing", types)
        assert abs(found["train_sentences"] - 25) <= 1, "as near as whole documents allow"
        for name in types:
            assert found["types"][name] == descriptions.get(name, found["types"][name])
        assert found["types"].get("Finding") != "Finding", "every type is described"


def test_the_example_is_a_federation_whose_types_are_described() -> None:
    settings, problems = attempt(tomllib.loads(EXAMPLE.read_text()))
    assert problems == []
    assert settings is not None
    assert (settings.model.head, settings.partition.shared) == ("described", "everything")
    mapped = {new for each in settings.platforms for new in each.label_map.values() if new}
    assert mapped <= settings.types.keys()
    assert commands().keys() == {"cadec", "smm4h"}


def test_cadec_and_smm4h_join_with_the_lines_of_the_example(tmp_path: Path) -> None:
    write_cadec(tmp_path / "data" / "cadec")
    write_smm4h(tmp_path / "data" / "smm4h")
    path = tmp_path / "small.toml"
    path.write_text(EXAMPLE.read_text().partition("[[platforms]]")[0] + SYNTHETIC)
    train_run(read_settings(path, SMALL), tmp_path / "run")
    require_joined(tmp_path, tmp_path / "run" / "model", tmp_path)


@pytest.mark.data
@pytest.mark.slow
def test_the_partners_train_on_the_real_corpora(data: Path, tmp_path: Path) -> None:
    found = encoder()
    if found is None:
        pytest.skip(f"needs the package {ENCODER}")
    examples = laid_out(data, found, tmp_path / "examples")
    write_cadec(examples / "data" / "cadec")
    write_smm4h(examples / "data" / "smm4h")
    parts = (100, 100, 100, 100, 100, 20)  # MACCROBAT is split by document, and has 200
    shards = (f"platforms.{number}.shard=1/{part}" for number, part in enumerate(parts))
    changes = ("training.rounds=2", "training.batch_size=4", *shards)
    settings = read_settings(examples / EXAMPLE.name, changes)
    train_run(settings, tmp_path / "run")
    require_joined(examples, tmp_path / "run" / "model", tmp_path)
