"""fedner in a spaCy pipeline: what `fedner predict` finds, as people use spaCy."""

import pickle
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import spacy
import torch
from spacy.language import Language
from spacy.tokens import Doc, Span
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.corpus.prepare import prepare
from fedner.corpus.synthetic import generate
from fedner.errors import FednerError
from fedner.inference.predict import Predictor
from fedner.models.checkpoint import EmbeddingPaths, save_tagger
from fedner.models.embeddings.opening import open_context_encoder
from fedner.models.embeddings.words import HashedWords, WordEmbedding, WordVectors
from fedner.models.features import TagSpace, encode_corpus
from fedner.models.types import type_vectors
from fedner.models.zoo import RECIPES, build_tagger, resized
from fedner.optimizers import OptimizerSettings
from fedner.runs import spacy_component
from fedner.runs.folder import RunFolder
from fedner.training import TrainingSettings, train

ROOT = Path(__file__).resolve().parents[2]
CORPUS = generate("case-reports", 40, seed=3)
TEXTS = [
    *(document.text for document in CORPUS.documents),
    "",
    " \n\t ",
    "🦠 He developed a rash 🤒🤒 after 20mg/day of aspirin.  No fever!\n\nNausea, too. ",
    "  leading white space, naïve 漢字 and azithromycin-induced hepatitis",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    recipe = resized(RECIPES["LSTM-CRF"], hidden=16, filters=8, character_filters=8)
    space = TagSpace.of(CORPUS.labels, "BIO")
    words = WordEmbedding(HashedWords(1000, 24), trainable=True)
    tagger = build_tagger(recipe, words, space)
    sentences = prepare(CORPUS.documents).sentences
    settings = TrainingSettings(
        epochs=12, batch_size=8, optimizer=OptimizerSettings(learning_rate=2e-2)
    )
    train(tagger, encode_corpus(sentences, words, space=space), settings, seed=1)
    folder = tmp_path_factory.mktemp("model") / "tagger"
    save_tagger(folder, tagger, recipe, space)
    return folder


@pytest.fixture(scope="module")
def predictor(model: Path) -> Predictor:
    return Predictor.load(model)


def pipeline(model: Path, **config: object) -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("fedner", config={"model": str(model), **config})
    return nlp


def places(doc: Doc) -> list[tuple[int, int, str]]:
    return [(span.start_char, span.end_char, span.label_) for span in doc.ents]


def widened(doc: Doc, predictor: Predictor) -> list[tuple[int, int, str]]:
    """What the predictor finds, each border moved out to the next border of a token."""
    found = []
    for mention in predictor.predict(doc.text):
        covered = [t for t in doc if t.idx < mention.end and t.idx + len(t) > mention.start]
        end = covered[-1].idx + len(covered[-1])
        found.append((covered[0].idx, end, mention.label))
    return found


def test_entities_are_exactly_what_fedner_predict_finds(model: Path, predictor: Predictor) -> None:
    nlp = pipeline(model)
    total = 0
    for text in [*TEXTS, *(text.replace(" ", "+") for text in TEXTS)]:
        doc = nlp(text)
        assert doc.text == text
        assert places(doc) == [(m.start, m.end, m.label) for m in predictor.predict(text)]
        total += len(doc.ents)
    assert total > 30


def test_a_described_head_finds_the_same_in_a_pipeline(tmp_path: Path) -> None:
    recipe = resized(RECIPES["LSTM-CRF"], hidden=8, filters=8, character_filters=8)
    recipe = replace(recipe, head="described", rank=8)
    words = WordEmbedding(HashedWords(1000, 24))
    types = type_vectors(dict.fromkeys(CORPUS.labels, ""), encoder=None, words=words.source)
    tagger = build_tagger(recipe, words, TagSpace.of(CORPUS.labels, "BIO"), types=types)
    torch.manual_seed(3)
    for name, weight in tagger.named_parameters():
        if name.startswith("emissions"):
            torch.nn.init.normal_(weight)
    save_tagger(tmp_path / "m", tagger, recipe, TagSpace.of(CORPUS.labels, "BIO"))
    nlp = pipeline(tmp_path / "m")
    nlp.to_disk(tmp_path / "pipeline")
    predictor = Predictor.load(tmp_path / "m")
    again = spacy.load(tmp_path / "pipeline")
    found = 0
    for text in TEXTS[:10]:
        expected = [(each.start, each.end, each.label) for each in predictor.predict(text)]
        assert places(nlp(text)) == places(again(text)) == expected
        found += len(expected)
    assert found


def test_mentions_may_be_widened_to_tokens_instead(model: Path, predictor: Predictor) -> None:
    nlp = pipeline(model, alignment_mode="expand")
    exact = total = 0
    for text in TEXTS:
        doc = nlp(text)
        assert doc.text == text
        assert places(doc) == widened(doc, predictor)
        wanted = [(m.start, m.end, m.label) for m in predictor.predict(text)]
        exact += sum(place in wanted for place in places(doc))
        total += len(wanted)
    assert exact > 0.9 * total > 30
    assert nlp.get_pipe("fedner").labels == CORPUS.labels
    assert nlp.pipe_labels["fedner"] == list(CORPUS.labels)


def test_pipe_gives_what_one_by_one_gives_in_order(model: Path) -> None:
    nlp = pipeline(model)
    expected = [places(nlp(text)) for text in TEXTS]
    for batch_size in (1, 7, 1000):
        docs = list(nlp.pipe(TEXTS, batch_size=batch_size))
        assert [doc.text for doc in docs] == TEXTS
        assert [places(doc) for doc in docs] == expected
    assert any(expected)


def test_the_snippet_of_the_docs_runs_and_stands_in_them(
    model: Path, predictor: Predictor, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    snippet = ROOT / "docs" / "snippets" / "spacy_pipeline.py"
    text = max(CORPUS.documents, key=lambda each: len(each.spans)).text
    monkeypatch.setattr(sys, "argv", [str(snippet), str(model), text])
    runpy.run_path(str(snippet))
    *lines, last = capsys.readouterr().out.splitlines()
    doc = pipeline(model)(text)
    assert lines == [f"{s.start_char}-{s.end_char} {s.label_} {s.text}" for s in doc.ents]
    assert len(lines) > 1
    assert last.count(",") + 1 == len(predictor.predict(text))
    body = snippet.read_text().split('"""\n\n', 1)[1]
    assert body in (ROOT / "docs" / "predict.md").read_text()


def test_pipe_streams(model: Path) -> None:
    taken = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield "He had a fever."

    next(pipeline(model).pipe(endless(), batch_size=5))
    assert taken < 20


def test_entities_that_are_there_stand_unless_told_otherwise(model: Path) -> None:
    text = max(CORPUS.documents, key=lambda each: len(each.spans)).text

    def prepared(nlp: Language) -> Doc:
        doc = nlp.make_doc(text)
        own = places(pipeline(model)(text))
        start, end, _ = own[0]
        mine = doc.char_span(start, end, "MINE", alignment_mode="expand")
        beyond = next(token for token in doc if not any(s <= token.idx < e for s, e, _ in own))
        doc.set_ents([mine, Span(doc, beyond.i, beyond.i + 1, "ELSE")])
        return doc

    kept, overwriting = pipeline(model), pipeline(model, overwrite_ents=True)
    found = places(pipeline(model)(text))
    assert len(found) > 1
    labels = [label for _, _, label in places(kept(prepared(kept)))]
    assert labels.count("MINE") == labels.count("ELSE") == 1
    assert sorted(labels) == sorted([*(label for *_, label in found[1:]), "MINE", "ELSE"])
    labels = [label for _, _, label in places(overwriting(prepared(overwriting)))]
    assert sorted(labels) == sorted([*(label for *_, label in found), "ELSE"])


def test_split_tokens_leave_everything_else_where_it_was(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedner.inference.reading import Mention

    nlp = pipeline(model, spans_key="found")
    words, heads = ["He", "took", "a+b", "and", "more"], [1, 1, 1, 2, 3]
    doc = Doc(nlp.vocab, words=words, heads=heads, deps=["s", "ROOT", "obj", "cc", "conj"])
    doc.set_ents([Span(doc, 4, 5, "OLD")])
    doc.spans["mine"] = [Span(doc, 2, 5, "GROUP")]
    doc.spans["mine"].attrs["note"] = "kept"
    at = doc[2].idx
    both = (Mention(at, at + 1, "ADE", "a", 0.4), Mention(at + 2, at + 3, "Drug", "b", 0.9))
    monkeypatch.setattr(Predictor, "predict", lambda _self, _text: both)
    text = doc.text
    nlp(doc)
    assert doc.text == text
    assert [token.text for token in doc] == ["He", "took", "a", "+", "b", "and", "more"]
    assert [(span.text, span.label_) for span in doc.ents] == [
        ("a", "ADE"),
        ("b", "Drug"),
        ("more", "OLD"),
    ]
    assert [(span.text, span.label_) for span in doc.spans["mine"]] == [("a+b and more", "GROUP")]
    assert doc.spans["mine"].attrs == {"note": "kept"}
    assert [token.head.text for token in doc] == ["took", "took", "took", "a", "a", "a", "and"]


def test_an_unknown_alignment_is_refused(model: Path) -> None:
    with pytest.raises(FednerError, match="alignment_mode"):
        pipeline(model, alignment_mode="contract")


def test_mentions_in_one_token_leave_the_surer_one(
    model: Path, predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedner.inference.reading import Mention

    both = (Mention(0, 1, "ADE", "a", 0.4), Mention(2, 3, "Drug", "b", 0.9))
    nlp = pipeline(model, spans_key="found", alignment_mode="expand")
    monkeypatch.setattr(Predictor, "predict", lambda _self, _text: both)
    doc = nlp(Doc(nlp.vocab, words=["a+b", "c"], spaces=[True, False]))
    assert places(doc) == [(0, 3, "Drug")]
    assert [(span.label_, span.text) for span in doc.spans["found"]] == [
        ("ADE", "a+b"),
        ("Drug", "a+b"),
    ]


def test_confidences_travel_in_a_span_group(model: Path, predictor: Predictor) -> None:
    nlp = pipeline(model, spans_key="fedner")
    for doc in nlp.pipe(TEXTS):
        again = Doc(nlp.vocab).from_bytes(doc.to_bytes())
        group = again.spans["fedner"]
        assert group.attrs["scores"] == pytest.approx(
            [mention.confidence for mention in predictor.predict(doc.text)], abs=1e-5
        )
        assert len(group) == len(group.attrs["scores"])
    assert "fedner" not in pipeline(model)(TEXTS[0]).spans


def test_a_saved_pipeline_stands_alone(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = sorted({t for s in prepare(CORPUS.documents).sentences for t in s.tokens})
    lines = [f"{word} {len(word)}.5 {ord(word[0]) / 64:.2f} 0.25" for word in words]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
    source = WordVectors.open(tmp_path / "vectors.txt")
    space = TagSpace.of(CORPUS.labels, "BIO")
    recipe = resized(RECIPES["CNN-LSTM-CRF"], hidden=6, filters=6, character_filters=6)
    tagger = build_tagger(recipe, WordEmbedding(source), space, seed=3)
    for weight in tagger.parameters():
        torch.nn.init.normal_(weight)
    save_tagger(tmp_path / "tagger", tagger, recipe, space)
    nlp = pipeline(tmp_path / "tagger", spans_key="all")
    expected = [places(doc) for doc in nlp.pipe(TEXTS)]
    assert any(expected)
    nlp.to_disk(tmp_path / "pipeline")
    for each in ("tagger", "cache"):
        shutil.rmtree(tmp_path / each)
    (tmp_path / "vectors.txt").unlink()
    (tmp_path / "pipeline").rename(tmp_path / "elsewhere")
    loaded = spacy.load(tmp_path / "elsewhere")
    assert [places(doc) for doc in loaded.pipe(TEXTS)] == expected
    assert "all" in loaded(TEXTS[0]).spans
    loaded.to_disk(tmp_path / "elsewhere")
    loaded.to_disk(tmp_path / "third")
    assert [places(doc) for doc in spacy.load(tmp_path / "third").pipe(TEXTS)] == expected


def test_a_saved_pipeline_takes_its_context_encoder_along(tiny_bert: Path, tmp_path: Path) -> None:
    weights = shutil.copytree(tiny_bert, tmp_path / "encoder")
    encoder = open_context_encoder(weights)
    recipe = resized(RECIPES["ELMoNER"], hidden=6, filters=6, character_filters=6)
    space = TagSpace.of(CORPUS.labels, "BIO")
    words = WordEmbedding(HashedWords(50, 4))
    tagger = build_tagger(recipe, words, space, encoder.dimension, seed=3)
    for weight in tagger.parameters():
        torch.nn.init.normal_(weight)
    paths = EmbeddingPaths(context=weights)
    save_tagger(tmp_path / "m", tagger, recipe, space, context=encoder.origin, paths=paths)
    nlp = pipeline(tmp_path / "m")
    expected = [places(doc) for doc in nlp.pipe(TEXTS)]
    assert any(expected)
    nlp.to_disk(tmp_path / "pipeline")
    for each in ("m", "encoder"):
        shutil.rmtree(tmp_path / each)
    loaded = spacy.load(tmp_path / "pipeline")
    assert [places(doc) for doc in loaded.pipe(TEXTS)] == expected


def test_a_missing_model_is_told_at_the_first_text(tmp_path: Path) -> None:
    nlp = pipeline(tmp_path / "nowhere")
    with pytest.raises(FednerError, match="is missing") as error:
        nlp("A fever.")
    assert str(tmp_path / "nowhere") in error.value.message
    (tmp_path / "empty").mkdir()
    with pytest.raises(FednerError, match="neither a run nor a saved tagger"):
        pipeline(tmp_path / "empty")


def test_export_with_a_platform_of_a_run(finished: Path, tmp_path: Path) -> None:
    from fedner.inference.onnx_tagger import OnnxTagger

    command = ["export", str(finished), "--platform", "forum-posts", "--to", str(tmp_path / "x")]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    tagger = OnnxTagger.load(tmp_path / "x")
    assert tagger.facts["platform"] == "forum-posts"
    predictor = Predictor.load(RunFolder(finished).tagger("forum-posts"))
    texts = [document.text for document in generate("forum-posts", 30, seed=1).documents]
    assert [[(m.start, m.end, m.label) for m in each] for each in tagger.predict_texts(texts)] == [
        [(m.start, m.end, m.label) for m in each] for each in predictor.predict_texts(texts)
    ]


def test_a_run_and_a_platform(finished: Path) -> None:
    nlp = pipeline(finished, platform="forum-posts")
    predictor = Predictor.load(RunFolder(finished).tagger("forum-posts"))
    texts = [document.text for document in generate("forum-posts", 20, seed=1).documents]
    for doc in nlp.pipe(texts):
        assert places(doc) == widened(doc, predictor)
    with pytest.raises(FednerError, match="taggers of 3 platforms"):
        pipeline(finished)
    with pytest.raises(FednerError, match="no platform 'forum'"):
        pipeline(finished, platform="forum")


SEVERAL_PROCESSES = """
import sys, spacy, torch
import fedner.runs.spacy_component
torch.set_num_threads(2)  # threads that have worked do not survive a fork
nlp = spacy.blank("en")
nlp.add_pipe("fedner", config={"model": sys.argv[1]})
texts = sys.argv[2:] * 4
expected = [[str(span) for span in doc.ents] for doc in nlp.pipe(texts)]
found = [[str(span) for span in doc.ents] for doc in nlp.pipe(texts, n_process=2, batch_size=50)]
assert found == expected
print(sum(map(len, found)))
"""


def test_several_processes(tmp_path: Path) -> None:
    recipe, space = RECIPES["CNN-CLSTM-CRF"], TagSpace.of(CORPUS.labels, "BIO")
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(500, 100)), space)
    torch.nn.init.normal_(tagger.emissions.weight)
    save_tagger(tmp_path / "tagger", tagger, recipe, space)
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL_PROCESSES, str(tmp_path / "tagger"), *TEXTS],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


def test_a_spawned_process_opens_the_same_files(model: Path) -> None:
    component = pipeline(model, spans_key="all").get_pipe("fedner")
    sent = pickle.dumps(component)
    assert len(sent) < 2_000, "the place of the tagger travels, not its weights"
    again = pickle.loads(sent)  # noqa: S301 - our own bytes
    assert (again.place, again.spans_key) == (component.place, "all")
    doc = again(spacy.blank("en")(TEXTS[0]))
    assert places(doc) == places(component(spacy.blank("en")(TEXTS[0])))


def test_making_other_pipelines_costs_nothing() -> None:
    # spaCy imports the file for every pipeline: the tagger's own modules must wait.
    code = (
        "import sys; import fedner.runs.spacy_component; "
        "print([m for m in sys.modules if m.startswith(('fedner.models', 'fedner.training'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_spacy_the_hint_is_named() -> None:
    code = "import sys; sys.modules['spacy'] = None; import fedner.runs.spacy_component"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "spaCy components need the package spacy" in done.stderr
    assert "fedner[spacy]" in done.stderr


def test_the_factory_says_what_it_sets() -> None:
    meta = spacy.blank("en").get_factory_meta("fedner")
    assert set(meta.assigns) == {"doc.ents", "token.ent_iob", "token.ent_type"}
    assert callable(spacy_component.create_component)
