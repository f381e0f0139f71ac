"""A tagger as people use it: trained alone, saved, loaded, the same model everywhere."""

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedner
from fedner.cli.app import app

SMALL = {"hidden": 8, "filters": 8, "character_filters": 8, "character_dimension": 8}
CORPUS = fedner.synthetic_corpus("case-reports", 40, seed=1)
TEXT = max(CORPUS, key=lambda each: len(each.spans)).text


@pytest.fixture(scope="module")
def tagger() -> fedner.Tagger:
    return fedner.Tagger.train(CORPUS, epochs=25, learning_rate=0.01, batch_size=8, model=SMALL)


def test_it_learns_what_the_corpus_annotates(tagger: fedner.Tagger) -> None:
    assert tagger.labels == CORPUS.labels
    assert tagger.score(CORPUS).strict_micro.f1 > 0.4, "the very texts that it learnt from"


def test_a_described_head_learns_alone_too() -> None:
    types = {"ADE": "adverse drug event, an unwanted effect of a medicine"}
    tagger = fedner.Tagger.train(
        CORPUS, epochs=40, learning_rate=0.01, batch_size=8, types=types,
        model={**SMALL, "head": "described", "rank": 8},
    )  # fmt: skip
    assert tagger.labels == CORPUS.labels
    assert tagger.predictor.model.descriptions["ADE"] == types["ADE"]
    assert tagger.predictor.model.descriptions["Drug"] == "Drug", "described by its name"
    assert tagger.score(CORPUS).strict_micro.f1 > 0.3, "the very texts that it learnt from"


def test_mentions_have_offsets_and_confidences(tagger: fedner.Tagger) -> None:
    mentions = tagger.predict(TEXT)
    assert mentions
    for each in mentions:
        assert TEXT[each.start : each.end] == each.text
        assert 0 < each.confidence <= 1


def test_annotating_keeps_texts_and_leaves_gold_mentions_out(tagger: fedner.Tagger) -> None:
    bare = fedner.Corpus("bare", (), tuple(fedner.Document(each.id, each.text) for each in CORPUS))
    found = tagger.annotate(CORPUS)
    assert [each.text for each in found] == [each.text for each in bare]
    assert found.labels == tagger.labels
    first = next(tagger.predict_documents(CORPUS))
    spans = [(each.start, each.end, each.label) for each in first.mentions]
    assert [(each.start, each.end, each.label) for each in found.documents[0].spans] == spans


def test_saved_it_is_the_same_for_python_and_the_command_line(
    tagger: fedner.Tagger, tmp_path: Path
) -> None:
    tagger.save(tmp_path / "model")
    assert stat.S_IMODE((tmp_path / "model").stat().st_mode) == 0o700
    assert fedner.Tagger.load(tmp_path / "model").predict(TEXT) == tagger.predict(TEXT)
    (tmp_path / "note.txt").write_text(TEXT)
    result = CliRunner().invoke(
        app, ["predict", str(tmp_path / "model"), str(tmp_path / "note.txt"), "--json"]
    )
    assert result.exit_code == 0, result.output
    assert result.stdout.count('"label"') == len(tagger.predict(TEXT))


def test_the_same_seed_gives_the_same_tagger_and_another_one_another() -> None:
    one, same, other = (
        fedner.Tagger.train(CORPUS, epochs=1, model=SMALL, seed=seed).predictor.model.tagger
        for seed in (1, 1, 2)
    )
    weights = one.emissions.weight
    assert weights.equal(same.emissions.weight)
    assert not weights.equal(other.emissions.weight)


def test_patience_stops_early_and_every_epoch_is_told() -> None:
    points: list[float | None] = []
    fedner.Tagger.train(
        CORPUS, epochs=9, patience=1, learning_rate=1e-6, model=SMALL,
        on_epoch=lambda point: points.append(point.strict_f1),
    )  # fmt: skip
    assert len(points) == 2, "nothing got better after the first epoch"
    assert None not in points, "scored on the part that is held out"


def test_published_vectors_are_named_and_copied_on_request(tmp_path: Path) -> None:
    words = sorted({word for each in CORPUS for word in each.text.split()})[:50]
    vectors = tmp_path / "vectors.txt"
    rows = (f"{word} {number / 50} {1 - number / 50} 0.5" for number, word in enumerate(words))
    vectors.write_text("".join(f"{row}\n" for row in rows))
    made = fedner.Tagger.train(CORPUS, words=vectors, epochs=2, model=SMALL)
    made.save(tmp_path / "near")
    made.save(tmp_path / "whole", include_embeddings=True)
    loaded = fedner.Tagger.load(tmp_path / "near")
    assert loaded.predict(TEXT) == made.predict(TEXT)
    loaded.save(tmp_path / "again")  # a loaded tagger still knows where its vectors are
    vectors.rename(tmp_path / "moved.txt")
    again = fedner.Tagger.load(tmp_path / "again", words=tmp_path / "moved.txt")
    assert again.predict(TEXT) == made.predict(TEXT)
    assert fedner.Tagger.load(tmp_path / "whole").predict(TEXT) == made.predict(TEXT)


@pytest.mark.parametrize("recipe", ["ELMoNER", "transformer"])
def test_encoders_frozen_or_trained_are_read_saved_and_loaded(recipe: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tiny_bert import save_tiny_bert

    encoder = save_tiny_bert(tmp_path / "bert")
    sizes = {} if recipe == "transformer" else SMALL
    made = fedner.Tagger.train(CORPUS, context=encoder, epochs=1, model={"recipe": recipe, **sizes})
    assert made.recipe == recipe
    made.save(tmp_path / "model")
    loaded = fedner.Tagger.load(tmp_path / "model")
    assert loaded.predict(TEXT) == made.predict(TEXT)
    loaded.save(tmp_path / "again")
    assert fedner.Tagger.load(tmp_path / "again").predict(TEXT) == made.predict(TEXT)


def test_context_alone_chooses_the_recipe_that_reads_it(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from tiny_bert import save_tiny_bert

    encoder = save_tiny_bert(tmp_path / "bert")
    assert fedner.Tagger.train(CORPUS, context=encoder, epochs=1, model=SMALL).recipe == "ELMoNER"


def test_what_is_wrong_is_reported_together() -> None:
    with pytest.raises(fedner.FednerError) as caught:
        fedner.Tagger.train(CORPUS, words="nowhere.txt", epochs=0, model={"recipe": "CNN-CRFX"})
    for key in ("embeddings.words", "training.epochs", "model.recipe"):
        assert key in caught.value.message
    with pytest.raises(fedner.FednerError, match="annotates no type"):
        fedner.Tagger.train(fedner.Corpus("bare", (), CORPUS.documents))
    with pytest.raises(fedner.FednerError, match="no token"):
        fedner.Tagger.train(fedner.Corpus("empty", ("ADE",), ()), model=SMALL)
