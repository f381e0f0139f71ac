"""What a run asks and what the owner of a ledger granted: budget, delta, tuning, keyed splits."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from joining_options import joined
from opened_sites import algorithm_in, opened, protected

from fedner.corpus.document import Corpus
from fedner.corpus.synthetic import generate
from fedner.corpus.writers.jsonl import write_jsonl
from fedner.errors import FednerError
from fedner.federated.dp_steps import sliced_units
from fedner.privacy.accountant import pld_epsilon
from fedner.privacy.budget import Budget
from fedner.privacy.ledger_owner import change_budget, open_ledger, unit_key
from fedner.runs.folder import PRIVACY, RunFolder
from fedner.runs.ledgers import require_room
from fedner.runs.mistakes import find_mistakes
from fedner.runs.platform_data import PlatformData, load_platform_of
from fedner.runs.privacy import planned_releases
from fedner.runs.simulation import Progress, train_run
from fedner.settings import Settings, SettingsError

Make = Callable[..., Settings]
Opened = Callable[..., tuple[str, ...]]


def refused(settings: Settings, folder: Path) -> str:
    with pytest.raises(SettingsError) as caught:
        train_run(settings, folder)
    assert not folder.exists(), "refused before anything was written"
    return str(caught.value)


def test_a_file_cannot_set_its_own_delta_or_unit(
    tiny: Make, tmp_path: Path, ledgers: Opened
) -> None:
    """The attack: a refused run got through with --set privacy.delta=0.4."""
    asked = ("privacy.noise_multiplier=1.0", *ledgers(9))
    told = refused(tiny(*asked, "privacy.delta=1e-4"), tmp_path / "run")
    assert "privacy.delta 0.0001; expected 1e-05, which the ledger grants" in told
    assert f"fedner privacy budget {tmp_path / '0'} --delta 0.0001" in told
    told = refused(tiny(*asked, "privacy.unit=document"), tmp_path / "run")
    assert "of unit 'document' (add_or_remove_one); expected 'sentence'" in told


def test_a_delta_above_one_over_the_public_size_is_refused(tiny: Make, ledgers: Opened) -> None:
    asked = ("privacy.noise_multiplier=1.0", *ledgers(9))
    with pytest.raises(SettingsError) as caught:
        tiny(*asked, "privacy.delta=0.4")
    assert len(caught.value.problems) == 3
    assert "more than one over the public size of 30 units" in str(caught.value)


def test_a_simulation_of_few_units_needs_a_small_delta_too(tiny: Make, tmp_path: Path) -> None:
    on = ("privacy.mechanism=unit-local", "privacy.simulation=true", "privacy.noise_multiplier=1.0")
    with pytest.raises(SettingsError, match="more than one over the public size of 28 units"):
        protected(tiny(*on, "privacy.delta=0.04"))
    said: list[str] = []
    settings = tiny(*on, "privacy.delta=0.01", "training.rounds=1")
    train_run(settings, tmp_path / "run", progress=Progress(say=said.append))
    warned = "more than a tenth of one over the public size of 28 units"
    assert sum(warned in line for line in said) == 3
    notes = RunFolder(tmp_path / "run").read(PRIVACY)["notes"]
    assert sum(warned in note for note in notes) == 3
    assert warned in (tmp_path / "run" / "report.html").read_text()
    whole = ("privacy.mechanism=platform", "privacy.delta=0.5")
    with pytest.raises(SettingsError, match="public size of 3 units"):
        tiny(*on, *whole)


def test_a_run_without_an_opened_ledger_is_told_the_command(tiny: Make, tmp_path: Path) -> None:
    names = tuple(f'platforms.{number}.ledger="{tmp_path / str(number)}"' for number in range(3))
    sizes = tuple(f"platforms.{number}.public_size=30" for number in range(3))
    on = ("privacy.mechanism=unit-local", "privacy.noise_multiplier=1.0", "privacy.tuned_on=public")
    settings = tiny(*on, *names, *sizes, "training.evaluate_every=0")
    told = refused(settings, tmp_path / "run")
    assert told.count("nobody granted a budget") == 3
    assert f"fedner privacy open {tmp_path / '1'} --epsilon" in told
    assert not (tmp_path / "0").exists()


def test_what_a_run_needs_is_what_it_spends_and_the_owner_may_grant_more(
    tiny: Make, tmp_path: Path, ledgers: Opened
) -> None:
    asked = tiny("privacy.noise_multiplier=1.0", *ledgers(0.5), "training.rounds=2")
    told = refused(asked, tmp_path / "run")
    assert "this run needs epsilon" in told
    assert "at most 0.5, which the ledger grants at delta 1e-05" in told
    for number in range(3):
        change_budget(tmp_path / str(number), epsilon=9.0)
    train_run(asked, tmp_path / "run")
    spent = RunFolder(tmp_path / "run").read(PRIVACY)
    sites, privacy = opened(asked), protected(asked)
    for name, platform in spent["platforms"].items():
        assert platform["granted"] == 9.0
        study, algorithm = sites[name].study, algorithm_in(sites)
        [planned] = planned_releases(study, algorithm, name, privacy[name])
        assert planned.steps == platform["steps"] == 2
        assert [planned.sampling_probability] == platform["sampling_probability"]


def test_a_resumed_run_does_not_pay_twice_for_what_it_released(
    tiny: Make, tmp_path: Path, ledgers: Opened
) -> None:
    exactly = pld_epsilon({(1.0, 4 / 30): 6}, 1e-5)
    settings = tiny("privacy.noise_multiplier=1.0", *ledgers(exactly))

    def stop(record: object) -> None:
        if record.round == 4:  # type: ignore[attr-defined]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_run(settings, tmp_path / "run", progress=Progress(round=stop))
    with pytest.raises(SettingsError, match="in all; expected at most"):
        train_run(settings, tmp_path / "another")
    train_run(settings, tmp_path / "run", resume=True)
    spent = RunFolder(tmp_path / "run").read(PRIVACY)["platforms"]
    assert {platform["in_all"] for platform in spent.values()} == {exactly}


def test_slices_and_scores_are_planned_for(tiny: Make, ledgers: Opened) -> None:
    slices = ("training.slice=0.34", "training.rounds_per_slice=3", "training.rounds=7")
    scores = "privacy.scores={every=2, noise_multiplier=30.0, max_norm=4.0}"
    settings = tiny("privacy.noise_multiplier=1.0", *ledgers(9), *slices, scores)
    sites, name = opened(settings), "forum-posts"
    algorithm = algorithm_in(sites)
    planned = planned_releases(sites[name].study, algorithm, name, protected(settings)[name])
    assert [each.steps for each in planned] == [3, 4, 4]
    assert [each.slice.name for each in planned[:2] if each.slice] == ["0", "1"]
    assert planned[-1].purpose == "statistics"
    require_room(list(sites.values()), algorithm, "a run")


@pytest.mark.parametrize("chosen", ["charged", "protected"])
def test_tuning_on_protected_data_is_charged_or_declared(
    tiny: Make, tmp_path: Path, ledgers: Opened, chosen: str
) -> None:
    asked = ("privacy.noise_multiplier=1.0", *ledgers(50), "training.rounds=1")
    if chosen == "protected":
        with pytest.raises(SettingsError, match=r"privacy\.uncharged"):
            tiny(*asked, "privacy.tuned_on=protected")
        declared = 'privacy.uncharged=["rate chosen by scores on the wards"]'
        train_run(tiny(*asked, "privacy.tuned_on=protected", declared), tmp_path / "run")
    else:
        settings = tiny(*asked, "privacy.tuned_on=charged")
        assert "no release of an earlier run" in refused(settings, tmp_path / "run")
        train_run(tiny(*asked, "privacy.tuned_on=public", "title=trial"), tmp_path / "trial")
        train_run(settings, tmp_path / "run")
    spent = RunFolder(tmp_path / "run").read(PRIVACY)
    assert spent["tuned_on"] == chosen
    for file in ("MODEL_CARD.md", "report.html"):
        text = (tmp_path / "run" / file).read_text()
        assert "The settings were chosen on the protected data" in text
        assert ("rate chosen by scores" in text) is (chosen == "protected")


# Splits by the key.


def ward(folder: Path, corpus: Corpus) -> Path:
    folder.mkdir(exist_ok=True)
    write_jsonl(folder / "ward.jsonl", corpus)
    return folder / "ward.jsonl"


def sides(data: PlatformData) -> dict[tuple[str, ...], str]:
    found = {each.tokens: "test" for each in data.test_sentences}
    found.update({each.tokens: "train" for each in data.train_sentences})
    return {each.tokens: found.get(each.tokens, "dropped") for each in data.sentences}


@pytest.mark.parametrize("unit", ["sentence", "document"])
def test_one_document_less_moves_nobody_in_a_deployed_run(
    tiny: Make, tmp_path: Path, ledgers: Opened, unit: str
) -> None:
    corpus = generate("case-reports", 200, 1)
    fewer = Corpus(corpus.name, corpus.labels, tuple(reversed(corpus.documents[1:])))
    asked = (
        "privacy.noise_multiplier=1.0",
        *ledgers(9, unit),
        'platforms.0.labels=["ADE", "Drug"]',
        "platforms.0.format=jsonl",
        f"platforms.0.split={{by='{unit}', test=0.3, keep=0.6}}",
    )
    found = []
    for name, each in (("whole", corpus), ("fewer", fewer)):
        data = ward(tmp_path / name, each)
        found.append(load_platform_of(tiny(*asked, f"platforms.0.data={data}"), "case-reports"))
    before, after = map(sides, found)
    assert {"test", "train", "dropped"} == set(after.values())
    assert after.items() <= before.items()
    # The seed of the file decides nothing: whoever writes it cannot draw again.
    again = tiny(*asked, f"platforms.0.data={tmp_path / 'whole' / 'ward.jsonl'}", "seed=2")
    assert sides(load_platform_of(again, "case-reports")) == before


def test_a_protected_sentence_in_a_document_without_a_name(
    tiny: Make, tmp_path: Path, ledgers: Opened
) -> None:
    lines = "".join(f"fever{number}\tB-ADE\n\n" for number in range(100))
    (tmp_path / "ward.tsv").write_text(lines)
    asked = (
        "privacy.noise_multiplier=1.0",
        *ledgers(9),
        f"platforms.0.data={tmp_path / 'ward.tsv'}",
        "platforms.0.format=columns",
        "platforms.0.options.scheme=BIO",
        'platforms.0.labels=["ADE"]',
        "platforms.0.split.by=document",
    )
    with pytest.raises(FednerError, match="documents without a name"):
        load_platform_of(tiny(*asked), "case-reports")
    # Where the whole platform is the unit no sentence is protected by itself.
    assert load_platform_of(tiny(*asked, "privacy.mechanism=platform"), "case-reports").train


def test_the_ledgers_key_cuts_the_slices(tiny: Make, tmp_path: Path, ledgers: Opened) -> None:
    settings = tiny("privacy.noise_multiplier=1.0", *ledgers(9), "training.slice=0.25")
    privacy = protected(settings)["forum-posts"]
    sentences = opened(settings)["forum-posts"].data.train_sentences
    keyed = sliced_units(sentences, "sentence", privacy, unit_key(tmp_path / "1"))
    assert keyed != sliced_units(sentences, "sentence", privacy, unit_key(tmp_path / "2"))
    assert "keyed" in privacy.slicing, "slices without a key are another way of cutting"
    with pytest.raises(FednerError, match="without its key"):
        sliced_units(sentences, "sentence", privacy)


def test_the_key_is_in_nothing_that_a_run_writes(
    tiny: Make, tmp_path: Path, ledgers: Opened
) -> None:
    settings = tiny(
        "privacy.noise_multiplier=1.0", *ledgers(50), "training.rounds=2", "training.slice=0.5"
    )
    train_run(settings, tmp_path / "run")
    keys = [unit_key(tmp_path / str(number)) for number in range(3)]
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.name != "unit.key":
            data = file.read_bytes()
            assert not any(key in data or key.hex().encode() in data for key in keys), file
    mistakes = find_mistakes(RunFolder(tmp_path / "run"), "forum-posts")
    tested = opened(settings)["forum-posts"].data.test_sentences
    assert {each.sentence.tokens for each in mistakes} <= {each.tokens for each in tested}


def test_a_platform_that_joins_a_protected_run_later_needs_no_ledger(
    tiny: Make, tmp_path: Path, ledgers: Opened
) -> None:
    train_run(
        tiny("privacy.noise_multiplier=1.0", *ledgers(50), "training.rounds=1"), tmp_path / "run"
    )
    joined(tmp_path / "run", tmp_path / "out")
    card = (tmp_path / "out" / "MODEL_CARD.md").read_text()
    assert "Differential privacy: at most epsilon" in card
    assert "no epsilon covers" in card


def test_a_simulation_makes_its_own_ledger_and_says_so(tiny: Make, tmp_path: Path) -> None:
    on = ("privacy.mechanism=unit-local", "privacy.simulation=true", "privacy.noise_multiplier=1.0")
    train_run(tiny(*on, "privacy.budget=60", "training.rounds=1"), tmp_path / "run")
    lines = (tmp_path / "run/platforms/forum-posts/ledger/ledger.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["is_simulation"] is True
    open_ledger(tmp_path / "owned", Budget(60.0, 1e-5, "sentence"), 30)
    owned = f'platforms.0.ledger="{tmp_path / "owned"}"'
    with pytest.raises(FednerError, match="deployed platform"):
        train_run(tiny(*on, "privacy.budget=60", owned), tmp_path / "other")
