"""The study of what a removal leaves: its parts, its peer, and all arms on tiny corpora."""

import json
import sys
from pathlib import Path

import pytest

from fedner.errors import FednerError
from fedner.experiments.deidentification import study
from fedner.experiments.deidentification.arms import Size, by_presidio
from fedner.experiments.deidentification.corpora import LOOKED_FOR, TYPES, load, parts
from fedner.inference.calibration import Wish
from fedner.inference.removal_scores import scores_at

FIRST, LAST = ("Anna", "Bob", "Carl", "Dora"), ("Lee", "Smith", "Jones", "Brown")


def people(number: int) -> str:
    return f"{FIRST[number % 4]} {LAST[number // 4 % 4]}"


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both corpora and word vectors, tiny and our own."""
    data = tmp_path_factory.mktemp("data")
    records = []
    for number in range(80):
        name = people(number)
        text = f"Please call {name} about order {number % 10}."
        span = {"entity_type": "PERSON", "entity_value": name, "start_position": 12}
        spans = [span | {"end_position": 12 + len(name)}]
        records.append({"full_text": text, "spans": spans, "template_id": number % 10})
    (data / "presidio-synth").mkdir()
    (data / "presidio-synth" / "synth.json").write_text(json.dumps(records))
    queries = (
        f"===QUERY===\nIs {people(number)} (case {number}) better?\n===PHI_TAGS===\n"
        + json.dumps({"identifier_type": "NAME", "value": people(number)})
        + "\n\n"
        for number in range(80)
    )
    (data / "synthetic-phi-queries").mkdir()
    (data / "synthetic-phi-queries" / "queries.txt").write_text("".join(queries))
    words = sorted({*FIRST, *LAST, "please", "call", "about", "order", "is", "case", "better"})
    (data / "glove-6b").mkdir()
    import lzma

    vectors = "".join(
        f"{word.lower()} {' '.join(f'{(at * k) % 7 - 3}.0' for k in range(1, 51))}\n"
        for at, word in enumerate(words, 1)
    )
    with lzma.open(data / "glove-6b" / "glove.6B.50d.subset.txt.xz", "wt") as file:
        file.write(vectors)
    return data


def test_templates_stay_together_and_parts_are_of_the_seed(corpora: Path) -> None:
    corpus = load(corpora, "presidio-synth")
    own = parts(corpus, 1)
    groups = [{each.patient for each in part} for part in (own.train, own.held_out)]
    assert [len(each) for each in groups] == [6, 4]
    assert not groups[0] & groups[1]
    assert parts(corpus, 1) == own != parts(corpus, 2)
    assert own.first(5).documents == own.train.documents[:5]
    assert set(LOOKED_FOR[corpus.name]) < set(TYPES[corpus.name]) == set(corpus.labels)
    with pytest.raises(FednerError, match="no corpus"):
        load(corpora, "i2b2")


def test_the_types_are_those_of_the_corpora(data: Path) -> None:
    for name, types in TYPES.items():
        found = {span.label for document in load(data, name) for span in document.spans}
        assert found == set(types)


def test_presidio_is_scored_by_the_letters_that_it_removes(corpora: Path, tmp_path: Path) -> None:
    held_out = parts(load(corpora, "presidio-synth"), 1).held_out
    lines = []
    for number, document in enumerate(held_out):
        (span,) = document.spans
        end = span.end if number % 4 else span.end - 1  # every fourth keeps a letter
        found = {"id": document.id, "found": [[span.start, end, 0.85]]}
        lines.append(json.dumps(found))
    (tmp_path / "presidio.jsonl").write_text("\n".join(lines))
    scored = by_presidio(Path("never-run"), tmp_path, held_out, held_out.labels)
    found = scores_at(scored, study.ANY)
    assert (found.overall.mentions, found.overall.missed) == (32, 8)
    assert found.lost.value == 0


def test_a_python_without_presidio_is_refused(corpora: Path, tmp_path: Path) -> None:
    held_out = parts(load(corpora, "presidio-synth"), 1).held_out
    with pytest.raises(FednerError, match="Presidio's analyzer failed") as caught:
        by_presidio(Path(sys.executable), tmp_path, held_out, held_out.labels)
    assert "presidio-analyzer" in caught.value.hint
    assert not (tmp_path / "presidio.jsonl").exists()


@pytest.mark.slow
def test_all_arms_run_and_nothing_runs_twice(
    corpora: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wish = Wish(0.8, most_lost=1.0)
    job = study.StudyJob(corpora, tmp_path, wish=wish, size=Size(2, 1), few=12)
    results = study.run(job)
    names = [f"{arm}, {way}" for arm in study.ARMS for way in ("best path", "threshold")]
    assert [each.arm for each in results] == names * 2
    for best, threshold in zip(results[::2], results[1::2], strict=True):
        assert best.threshold is None
        assert threshold.threshold is not None
        assert best.mentions == threshold.mentions > 10
    assert len(study.table(results).splitlines()) == 2 + len(results)
    monkeypatch.setattr(study, "ARMS", dict.fromkeys(study.ARMS))
    assert study.run(job) == results
