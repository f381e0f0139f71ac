"""The corpora that users bring, as they lie on people's disks: found, read, losses shown."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import stand_ins
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.corpus.prepare import prepare
from fedner.corpus.reading import read
from fedner.errors import FednerError
from fedner.reproduce.catalogue import CATALOGUE
from fedner.reproduce.inputs import LOST, REHEARSED_SENTENCES, losses, stored
from fedner.reproduce.locating import embeddings_for, located, named_platform, platforms_for
from fedner.reproduce.opening import Options, open_study
from fedner.reproduce.reproduction import Inputs, PlatformInput

OWN = ("cadec", "ade", "smm4h", "conll2003")
TABLE1, TAGGING = CATALOGUE["fedner-table1"], CATALOGUE["tagging-table1"]
FEW = 12


def usual(root: Path) -> None:
    stand_ins.all_of(root, FEW)


def other_names(root: Path) -> None:
    stand_ins.cadec(root / "CADEC.v2" / "cadec", FEW)
    stand_ins.ade(root / "ADE-Corpus-V2", FEW, packed=True)
    stand_ins.smm4h(root / "SMM4H_2019", FEW)
    stand_ins.conll2003(root / "CoNLL-2003-en" / "data", 4 * FEW, packed=True)


def one_folder(root: Path) -> None:
    made = [
        stand_ins.ade(root / "a", FEW),
        stand_ins.smm4h(root / "b", FEW),
        stand_ins.conll2003(root / "c", 4 * FEW),
    ]
    for folder in made:
        for file in sorted(folder.iterdir()):
            shutil.move(file, root / file.name)
        folder.rmdir()
    stand_ins.cadec(root / "posts", FEW)


def as_distributed(root: Path) -> None:
    makers = {
        "CADEC.v2": stand_ins.cadec,
        "ADE-Corpus-V2": stand_ins.ade,
        "smm4h": stand_ins.smm4h,
        "conll2003": stand_ins.conll2003,
    }
    for name, make in makers.items():
        number = 4 * FEW if name == "conll2003" else FEW
        folder = make(root / "unpacked" / name, number)
        stand_ins.zipped(folder, root / f"{name}.zip")
    shutil.rmtree(root / "unpacked")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stand_ins.all_of(tmp_path_factory.mktemp("plain"), FEW)


def opened(root: Path, out: Path, *names: str) -> Inputs:
    found = [located(root, name) for name in names]
    assert None not in found
    platforms = tuple(each for each in found if each is not None)
    return stored(Inputs(platforms, "hashed", "none", out))


@pytest.mark.parametrize("made", [usual, other_names, one_folder, as_distributed])
def test_corpora_are_found_under_any_name_and_read_the_same(
    made: Callable[[Path], None], plain: Path, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    made(tmp_path / "d")
    wanted = opened(plain, tmp_path / "wanted", *OWN)
    found = opened(tmp_path / "d", tmp_path / "found", *OWN)
    for one, other in zip(wanted.platforms, found.platforms, strict=True):
        assert (one.name, one.labels, one.counts) == (other.name, other.labels, other.counts)
        assert losses(one) == losses(other)
    # Documents of an archive have longer names; their sentences are the same.
    for one, other in zip(wanted.platforms, found.platforms, strict=True):
        texts = [
            sorted(s.tokens for s in prepare(read(each.data)).sentences) for each in (one, other)
        ]
        assert texts[0] == texts[1]


def test_the_corpus_itself_is_named_not_a_folder_above_it(tmp_path: Path) -> None:
    for folder in ("posts", "CADEC.v2/data"):
        stand_ins.cadec(tmp_path / "one" / folder, 4)
        found = located(tmp_path / "one", "cadec")
        assert found is not None
        assert found.data == str(tmp_path / "one" / folder)


def test_the_paper_s_types_have_the_paper_s_names(plain: Path, tmp_path: Path) -> None:
    held = opened(plain, tmp_path, *OWN)
    assert held.platform("cadec").labels == ("ADE", "Disease", "Drug", "Finding", "Symptom")
    assert held.platform("ade").labels == ("ADE", "Dosage", "Drug")
    assert held.platform("smm4h").labels == ("ADE", "Drug")
    assert held.platform("conll2003").labels == ("LOC", "ORG", "PER")
    for name in ("cadec", "smm4h"):
        found = {
            e.label for s in prepare(read(held.platform(name).data)).sentences for e in s.entities
        }
        assert "ADE" in found
        assert "ADR" not in found


def test_what_reading_loses_is_counted_and_told(plain: Path, tmp_path: Path) -> None:
    held = opened(plain, tmp_path, *OWN)
    cadec, smm4h, conll = (held.platform(name) for name in ("cadec", "smm4h", "conll2003"))
    assert cadec.reading["problem: offset and quote differ"] == 1
    assert cadec.reading["problem: offset outside the text"] == 1
    assert cadec.reading[LOST] == 1
    assert cadec.reading["discontinuous mentions widened to their hull"] == 1
    assert cadec.reading["overlapping mentions dropped in favour of a longer one"] == 1
    mentions = 2 * (FEW // 2) + 5
    assert losses(cadec) == {
        "sentences": FEW + 1,
        "mentions": mentions,
        "skipped": 1,
        "lost to flattening": 1,
        "problems": 3,
    }
    assert cadec.counts["kept_mentions"] == mentions - 2
    assert smm4h.reading[LOST] == 1
    # Tweets 0 and 10; tweet 0 stands in both tables.
    assert smm4h.reading["extraction that agrees with its offsets only if case is ignored"] == 3
    assert smm4h.counts["documents"] == FEW + 2
    assert conll.reading["-DOCSTART- lines (counted as sentences by some)"] == 5 + 2
    assert losses(conll)["problems"] == 0


def test_iob1_keeps_touching_entities_apart(plain: Path, tmp_path: Path) -> None:
    held = opened(plain, tmp_path, "conll2003").platforms[0]
    assert held.counts["mentions"] == 4 * (4 * FEW + FEW)
    first = prepare(read(Path(held.data), "jsonl")).sentences[0]
    places = [each for each in first.entities if each.label == "LOC"]
    assert len(places) == 2
    assert places[0].end == places[1].start


def test_a_folder_of_the_name_with_something_else_is_no_corpus(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "cadec").mkdir()
    (tmp_path / "cadec" / "notes.txt").write_text("nothing\n")
    assert located(tmp_path, "cadec") is None
    shutil.copytree(plain / "ade-corpus-v2", tmp_path / "ade-corpus-v2")
    with pytest.raises(FednerError, match="fedner-table1 has no corpora to run on") as raised:
        platforms_for(TABLE1, tmp_path, (), is_built_in=False)
    hint = str(raised.value.hint)
    assert f"{tmp_path / 'cadec'} is there, but has no text/ or original/" in hint
    assert "smm4h (SMM4H ADR extraction" in hint
    assert "there: ade" in hint
    with pytest.raises(FednerError, match=r"--platform cadec: .*has no text/ or original/"):
        named_platform("cadec", tmp_path)


def test_a_wrong_archive_is_no_corpus(tmp_path: Path) -> None:
    stand_ins.zipped(stand_ins.smm4h(tmp_path / "x", FEW), tmp_path / "cadec.zip")
    (tmp_path / "smm4h.zip").write_bytes(b"PK\x03\x04 cut off")
    assert located(tmp_path, "cadec") is None
    shutil.rmtree(tmp_path / "x")
    assert located(tmp_path, "smm4h") is None


def test_conll_needs_both_parts(plain: Path, tmp_path: Path) -> None:
    folder = plain / "conll2003"
    for path in (folder, folder / "eng.train"):
        found = named_platform(f"conll2003={path}", None)
        assert (found.data, found.test_data) == (
            str(folder / "eng.train"),
            str(folder / "eng.testb"),
        )
    (tmp_path / "half").mkdir()
    shutil.copy(folder / "eng.train", tmp_path / "half")
    for path in (tmp_path / "half", tmp_path / "half" / "eng.train"):
        with pytest.raises(FednerError, match="has not both parts of conll2003"):
            named_platform(f"conll2003={path}", None)
    assert named_platform(f"mine={tmp_path / 'half'}", None).test_data is None


def test_options_are_those_of_the_corpus_own_format(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text("{}\n")
    assert named_platform(f"presidio-synth={path}", None).options
    assert not named_platform(f"presidio-synth={path}:jsonl", None).options


def test_a_corpus_without_mentions_is_refused_with_what_is_wrong(tmp_path: Path) -> None:
    for part in ("text", "original"):
        (tmp_path / "posts" / part).mkdir(parents=True)
    (tmp_path / "posts" / "text" / "A.1.txt").write_text("I am well .\n")
    inputs = Inputs(
        (PlatformInput("posts", str(tmp_path / "posts"), "cadec"),),
        "hashed",
        "none",
        tmp_path / "o",
    )
    with pytest.raises(FednerError, match=r"posts.*no mention") as raised:
        stored(inputs)
    assert "A.1.ann" in str(raised.value.hint)


def test_too_few_too_many_and_equal_platforms_are_refused(plain: Path) -> None:
    one, two = f"a={plain / 'cadec'}", f"b={plain / 'smm4h'}"
    with pytest.raises(FednerError, match="needs at least 2 platforms; found 1: a"):
        platforms_for(TABLE1, None, (one,), is_built_in=False)
    with pytest.raises(FednerError, match="divides one corpus; found 2: a, b"):
        platforms_for(TAGGING, None, (one, two), is_built_in=False)
    with pytest.raises(FednerError, match="--platform a twice"):
        platforms_for(TABLE1, None, (one, one), is_built_in=False)


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    folder = stand_ins.smm4h(tmp_path / "smm4h", FEW)
    before = opened(tmp_path, tmp_path / "out", "smm4h").platforms[0]
    with (folder / "task3_training.tsv").open("a") as table:
        table.write("9000\t0\t4\tADR\trash\taspirin\trash again\t\t\n")
    after = opened(tmp_path, tmp_path / "out", "smm4h").platforms[0]
    assert after.counts["documents"] == before.counts["documents"] + 1
    assert after.digest != before.digest


def test_a_rehearsal_takes_few_sentences_of_each_and_counts_all(tmp_path: Path) -> None:
    number = REHEARSED_SENTENCES + 20
    stand_ins.smm4h(tmp_path / "smm4h", number)
    (found,) = (located(tmp_path, "smm4h"),)
    assert found is not None
    small = Inputs((found,), "hashed", "none", tmp_path / "out", is_rehearsal=True)
    few = stored(small).platforms[0]
    assert few.num_sentences == REHEARSED_SENTENCES
    assert few.counts["sentences"] == number + 2
    sentences = prepare(read(Path(few.data), "jsonl")).sentences
    assert all(each.entities for each in sentences)
    whole = stored(replace(small, is_rehearsal=False)).platforms[0]  # never the rehearsal's few
    assert whole.num_sentences == number + 2


def test_a_plan_begins_no_study(plain: Path, tmp_path: Path) -> None:
    options = Options(tmp_path / "out", data=plain, device="cpu")
    open_study(TABLE1, options, [], only_plan=True)
    assert not (tmp_path / "out" / "study.json").exists()
    open_study(TABLE1, options, [])
    open_study(TABLE1, options, [], only_plan=True)
    other = replace(options, first_seed=5)
    with pytest.raises(FednerError, match="first_seed: 1, now 5"):
        open_study(TABLE1, other, [], only_plan=True)


def test_built_in_platforms_and_own_ones_exclude_each_other(plain: Path, tmp_path: Path) -> None:
    for more in (Options(tmp_path, platforms=("ade",)), Options(tmp_path, rehearse=True)):
        with pytest.raises(FednerError, match="--built-in does not take your own corpora"):
            open_study(TABLE1, replace(more, built_in=True, data=plain), [])


def test_glove_is_found_under_its_usual_names(tmp_path: Path) -> None:
    study = CATALOGUE["tagging-table1"]
    (tmp_path / "GloVe").mkdir()
    (tmp_path / "glove.6B.50d.txt").write_text("the 1 2\n")
    for name in ("glove.6B.50d.txt", "glove.6B.300d.txt.xz", "glove.6B.zip", "glove-notes.txt"):
        (tmp_path / "GloVe" / name).write_text("the 1 2\n")
    assert embeddings_for(study, tmp_path, None, None)[0].endswith("GloVe/glove.6B.300d.txt.xz")
    (tmp_path / "glove.840B.300d.txt").write_text("the 1 2\n")
    assert "300d" in embeddings_for(study, tmp_path, None, None)[0]


def test_an_encoder_from_the_hub_is_no_path(plain: Path, tmp_path: Path) -> None:
    options = Options(tmp_path / "out", data=plain, contexts=("hub:a/b", "hub:c"), device="cpu")
    found = open_study(TABLE1, options, [], only_plan=True).inputs
    assert (found.context, found.more_contexts) == ("hub:a/b", ("hub:c",))


def test_the_command_tells_what_was_read(plain: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--data", str(plain), "--out", str(out), "--jobs", "1"]
    command = ["reproduce", "fedner-table1", *options]
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0, told.output
    for word in (str(plain / "cadec"), "skipped", "lost to flattening"):
        assert word in told.output.replace("\n", "")
    page = (out / "results.md").read_text()
    assert "cadec as it was read" in page
    assert f"{LOST}: 1" in page
    facts = json.loads((out / "study.json").read_text())["inputs"]["platforms"]
    assert facts[0]["reading"][LOST] == 1
    assert "(paper 7597)" in page
    drawn = CliRunner().invoke(app, [*command[:2], "--out", str(out), "--redraw", "--json"])
    assert drawn.exit_code == 0, drawn.output
    assert json.loads(drawn.stdout)["corpora"]["cadec"]["reading"][LOST] == 1
    assert (out / "results.md").read_text() == page


TAKEN = {"federation": ("cadec", "ade", "smm4h"), "one corpus": ("conll2003",)}


@pytest.mark.slow
@pytest.mark.parametrize("name", [each.name for each in CATALOGUE.values() if each.layout in TAKEN])
def test_every_study_is_rehearsed_on_own_data(name: str, tmp_path: Path) -> None:
    root = stand_ins.all_of(tmp_path / "data")
    platforms = [f"--platform={each}" for each in TAKEN[CATALOGUE[name].layout]]
    command = ["reproduce", name, "--rehearse", "--data", str(root), *platforms]
    told = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "out"), "--json"])
    assert told.exit_code == 0, told.output
    found = json.loads(told.stdout)
    assert found["rehearsal"]
    assert [each["name"] for each in found["tables"]]
    for table in found["tables"]:
        assert not [row for row in table["rows"] if None in row], table["name"]


@pytest.mark.parametrize("name", ["joining", "privacy-utility"])
def test_a_study_of_the_open_corpora_says_which_are_missing(
    name: str, plain: Path, tmp_path: Path
) -> None:
    options = ["--data", str(plain), "--rehearse", "--out", str(tmp_path / "out")]
    told = CliRunner().invoke(app, ["reproduce", name, *options])
    assert told.exit_code != 0
    assert isinstance(told.exception, FednerError | SystemExit)
