"""Exported taggers: what torch predicts, onnxruntime and NumPy predict, for every recipe."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fedner.cli.app import app
from fedner.corpus.prepare import prepare
from fedner.corpus.sentence import Sentence
from fedner.corpus.synthetic import generate
from fedner.errors import FednerError
from fedner.inference.onnx_export import export_onnx
from fedner.inference.onnx_tagger import OnnxTagger
from fedner.inference.predict import Predictor
from fedner.models.checkpoint import LoadedTagger, load_tagger, save_tagger
from fedner.models.embeddings.origin import EmbeddingOrigin
from fedner.models.embeddings.words import HashedWords, WordEmbedding, WordSource, WordVectors
from fedner.models.features import TagSpace
from fedner.models.types import type_vectors
from fedner.models.zoo import RECIPES, build_tagger, resized

CORPUS = generate("case-reports", 40, seed=3)
POSTS = generate("social-posts", 40, seed=3)
SENTENCES = (
    *prepare(CORPUS.documents).sentences[:30],
    *prepare(POSTS.documents).sentences[:30],
    Sentence.of([]),
    Sentence.of(["🦠", "漢字", "x" * 300, "\u200b", "COVID-19", "@NHS", "\udc00"]),
    Sentence.of(["B12"]),
    Sentence.of(["fever", "McDonald"] * 60),
)
ROOT = Path(__file__).resolve().parents[2]
CONTEXT = 5
CARD = "tagger.json"
EXPORTED = [name for name, recipe in RECIPES.items() if not recipe.trains_encoder]


class LettersInContext:
    """Context features that differ from word to word and depend on the word before."""

    def __init__(self, name: str = "letters") -> None:
        self.origin = EmbeddingOrigin("letters", name, f"{name:0<64}", CONTEXT)
        self.dimension = CONTEXT

    def encode(self, sentences):
        return [
            np.array(
                [
                    [np.sin((place + 1) * sum(map(ord, before + word))) for place in range(CONTEXT)]
                    for before, word in zip(("", *tokens), tokens, strict=False)
                ],
                np.float32,
            ).reshape(-1, CONTEXT)
            for tokens in sentences
        ]


def lively(
    name: str,
    source: WordSource | None = None,
    *,
    trainable: bool = False,
    scheme: str = "BIOES",
    context_layers: int = 1,
    **changes: object,
) -> LoadedTagger:
    """Return a small tagger whose random weights are large enough to find something."""
    torch.set_num_threads(1)
    recipe = resized(RECIPES[name], hidden=7, filters=6, character_filters=5)
    recipe = replace(recipe, **changes)
    words = WordEmbedding(source or HashedWords(300, 8), trainable=trainable)
    space = TagSpace.of(CORPUS.labels, scheme)
    dimension = CONTEXT if recipe.context else 0
    types = None
    if recipe.head == "described":
        encoder = LettersInContext() if recipe.context else None
        types = type_vectors(dict.fromkeys(space.labels, ""), encoder=encoder, words=words.source)
    tagger = build_tagger(
        recipe, words, space, dimension, 4, context_layers=context_layers, types=types
    )
    generator = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for weight in tagger.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.5)
        if trainable:
            words.weight[0] = 0.0  # padding is zero in every word table
    encoder = LettersInContext() if recipe.context else None
    return LoadedTagger(tagger.eval(), recipe, space, encoder)


def exported(model: LoadedTagger, folder: Path) -> OnnxTagger:
    export_onnx(model, folder)
    return OnnxTagger.load(folder, context=model.encoder, num_threads=1)


def same_predictions(model: LoadedTagger, tagger: OnnxTagger) -> None:
    expected = Predictor.of(model).predict_sentences(SENTENCES)
    found = tagger.predict_sentences(SENTENCES)
    assert sum(map(len, expected)) > 50
    for ours, theirs in zip(found, expected, strict=True):
        assert [entity for entity, _ in ours] == [entity for entity, _ in theirs]
        assert [c for _, c in ours] == pytest.approx([c for _, c in theirs], abs=1e-4)


def torch_emissions(model: LoadedTagger) -> list[np.ndarray]:
    from fedner.models.features import collate, encode_corpus

    context = None
    if model.encoder is not None:
        features = model.encoder.encode([each.tokens for each in SENTENCES])
        context = torch.from_numpy(np.concatenate(features)).half()
    corpus = encode_corpus(SENTENCES, model.words, context_TD=context)
    found = []
    for number, length in enumerate(corpus.lengths):
        nothing = np.zeros((0, len(model.space.tags)), np.float32)
        with torch.no_grad():
            alone = model.tagger(collate(corpus, [number]))[0].numpy() if length else nothing
        found.append(alone)
    return found


@pytest.mark.parametrize("name", EXPORTED)
def test_every_recipe_predicts_the_same(name: str, tmp_path: Path) -> None:
    model = lively(name)
    tagger = exported(model, tmp_path / "export")
    same_predictions(model, tagger)
    for ours, theirs in zip(tagger.emissions(SENTENCES), torch_emissions(model), strict=True):
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max(initial=0.0) < 1e-4


@pytest.mark.parametrize("scheme", ["BIO", "IO"])
def test_trained_words_and_other_schemes(scheme: str, tmp_path: Path) -> None:
    model = lively("CNN-CLSTM-CRF", trainable=True, scheme=scheme)
    same_predictions(model, exported(model, tmp_path / "export"))


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize(
    ("name", "scheme"),
    [("LSTM-CRF", "BIO"), ("BI-LSTM-TDDL", "BILOU"), ("CNN-CRF", "IO"), ("ELMoNER", "IOB1")],
)
def test_a_described_head_is_one_linear_layer(
    name: str, scheme: str, residual: bool, tmp_path: Path
) -> None:
    model = lively(name, scheme=scheme, head="described", rank=9, residual=residual)
    tagger = exported(model, tmp_path / "out")
    same_predictions(model, tagger)


@pytest.mark.parametrize("lowercase", ["never", "fallback", "always"])
@pytest.mark.parametrize("unknown", ["zero", "mean", "hash-bucket"])
def test_published_vectors_and_their_policies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lowercase: str, unknown: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("fedner.inference.onnx_export.NUMBERS_AT_A_TIME", 20)
    rng = np.random.default_rng(1)
    words = sorted({token for sentence in SENTENCES[:20] for token in sentence.tokens})[::2]
    lines = [f"{word} {' '.join(f'{x:.3f}' for x in rng.normal(size=6))}" for word in words]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n")
    source = WordVectors.open(
        tmp_path / "vectors.txt", lowercase=lowercase, unknown=unknown, buckets=7
    )
    model = lively("LSTM-CRF", source)
    tagger = exported(model, tmp_path / "export")
    asked = [*words, *(w.upper() for w in words), *(w.title() for w in words), "", "🦠", "\udc00"]
    assert np.array_equal(tagger.words.rows(asked), source.rows(asked))
    same_predictions(model, tagger)


def test_the_graph_is_plain_onnx(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    export_onnx(lively("ELMoNER"), tmp_path / "export")
    onnx.checker.check_model(str(tmp_path / "export" / "model.onnx"), full_check=True)
    graph = onnx.load(tmp_path / "export" / "model.onnx").graph
    assert [node.op_type for node in graph.node].count("LSTM") == 1
    sizes = {
        each.name: [d.dim_param or d.dim_value for d in each.type.tensor_type.shape.dim]
        for each in (*graph.input, *graph.output)
    }
    assert sizes == {
        "rows": ["words"],
        "characters": ["words", "characters"],
        "places": ["sentences", "tokens"],
        "lengths": ["sentences"],
        "context": ["sentences", "tokens", CONTEXT],
        "emissions": ["sentences", "tokens", 13],
    }


def test_what_lies_behind_an_end_is_never_read(tmp_path: Path) -> None:
    tagger = exported(lively("ELMoNER"), tmp_path / "export")
    lengths = np.array([4, 2])
    inputs = {
        "rows": np.array([3, 50, 7]),
        "characters": np.array([[5, 6], [9, 0], [0, 0]]),
        "places": np.array([[0, 1, 2, 1], [1, 0, 0, 0]]),
        "lengths": lengths,
        "context": np.random.default_rng(0).normal(size=(2, 4, CONTEXT)).astype(np.float32),
    }
    before = tagger.session.run(None, inputs)[0]
    inputs["places"][1, 2:] = 2
    inputs["context"][1, 2:] = np.inf
    after = tagger.session.run(None, inputs)[0]
    assert np.array_equal(before[0], after[0])
    assert np.array_equal(before[1, :2], after[1, :2])
    inputs["context"][1, 1] += 1.0
    assert not np.allclose(tagger.session.run(None, inputs)[0][1, :2], before[1, :2])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = lively("CNN-CLSTM-CRF")
    folder = tmp_path_factory.mktemp("saved") / "tagger"
    save_tagger(folder, model.tagger, model.recipe, model.space, facts={"platform": "reports"})
    return folder


WITHOUT_TORCH = """
import json, sys
sys.modules["torch"] = None  # importing it now fails
from fedner.inference.onnx_tagger import OnnxTagger
tagger = OnnxTagger.load(sys.argv[1], num_threads=1)
found = tagger.predict_texts(json.loads(sys.argv[2]))
print(json.dumps([[(m.start, m.end, m.label, m.text) for m in each] for each in found]))
"""
TEXTS = [
    "",
    " \n\t ",
    "He developed a rash after 20mg/day of aspirin. 🦠 No fever!",
    "🦠🦠 naïve 漢字 e.g. azithromycin-induced hepatitis.\n\nSecond paragraph: B12.",
    *(document.text for document in CORPUS.documents[:5]),
]


def test_the_command_exports_and_nothing_needs_torch_then(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    result = CliRunner().invoke(app, ["export", str(saved), "--to", str(folder), "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["context"] is None
    assert set(told["files"]) == {"model.onnx", "words.bin", "tagger.json"}
    assert all(told["files"].values())
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, str(folder), json.dumps(TEXTS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    expected = Predictor.load(saved).predict_texts(TEXTS)
    found = json.loads(done.stdout)
    assert found == [[[m.start, m.end, m.label, m.text] for m in each] for each in expected]
    assert sum(map(len, found)) > 10
    assert OnnxTagger.load(folder).facts == {"platform": "reports"}


def test_the_snippet_of_the_docs_runs_and_stands_in_them(saved: Path, tmp_path: Path) -> None:
    snippet = ROOT / "docs" / "snippets" / "onnx_tagger.py"
    export_onnx(load_tagger(saved), tmp_path / "export")
    text = TEXTS[-1]
    done = subprocess.run(
        [sys.executable, str(snippet), str(tmp_path / "export"), text],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        f"{m.start}-{m.end} {m.label} {m.text} {m.confidence:.2f}"
        for m in Predictor.load(saved).predict(text)
    ]
    assert done.stdout
    body = snippet.read_text().split('"""\n\n', 1)[1]
    assert body in (ROOT / "docs" / "predict.md").read_text()


def test_people_see_what_was_written(saved: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["export", str(saved), "--to", str(tmp_path / "export")])
    assert result.exit_code == 0, result.output
    assert "model.onnx" in result.stdout
    assert "CNN-CLSTM-CRF as onnx" in result.stdout


def test_tokens_and_documents_as_the_predictor_has_them(saved: Path, tmp_path: Path) -> None:
    predictor = Predictor.load(saved)
    tagger = exported(load_tagger(saved), tmp_path / "export")
    tokens = [list(each.tokens) for each in SENTENCES[:10]]
    ours, theirs = tagger.predict_tokens([*tokens, []]), predictor.predict_tokens([*tokens, []])
    assert [[(m.start, m.end, m.label) for m in each] for each in ours] == [
        [(m.start, m.end, m.label) for m in each] for each in theirs
    ]
    for one, other in zip(
        tagger.predict_documents(CORPUS.documents),
        predictor.predict_documents(CORPUS.documents),
        strict=True,
    ):
        assert one.document is other.document
        assert [m.text for m in one.mentions] == [m.text for m in other.mentions]
    assert tagger.predict(TEXTS[2])[0].text == predictor.predict(TEXTS[2])[0].text
    assert tagger.predict_texts([]) == []


@pytest.mark.parametrize("victim", ["model.onnx", "words.bin", "tagger.json"])
def test_altered_exports_are_refused(saved: Path, tmp_path: Path, victim: str) -> None:
    folder = tmp_path / "export"
    export_onnx(load_tagger(saved), folder)
    path = folder / victim
    content = path.read_bytes()
    path.write_bytes(content.replace(b"ADE", b"ADX") if victim == CARD else content[:-4] + b"    ")
    with pytest.raises(FednerError, match="altered"):
        OnnxTagger.load(folder)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(FednerError, match=r"altered|cut short"):
        OnnxTagger.load(folder)
    path.unlink()
    with pytest.raises(FednerError, match=r"cannot be read|holds no exported tagger"):
        OnnxTagger.load(folder)


def test_another_format_is_refused(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "export"
    export_onnx(load_tagger(saved), folder)
    card = json.loads((folder / CARD).read_text())
    (folder / CARD).write_text(json.dumps({**card, "version": 99}))
    with pytest.raises(FednerError, match="has format 99"):
        OnnxTagger.load(folder)
    (folder / CARD).write_text(json.dumps({"kind": "something else"}))
    with pytest.raises(FednerError, match="does not describe"):
        OnnxTagger.load(folder)
    with pytest.raises(FednerError, match="holds no exported tagger"):
        OnnxTagger.load(saved)


def test_nothing_is_overwritten_and_nothing_left_half(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_tagger(saved)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "note.txt").write_text("mine")
    with pytest.raises(FednerError, match="already there"):
        export_onnx(model, tmp_path / "kept")
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["note.txt"]
    (tmp_path / "empty").mkdir()
    export_onnx(model, tmp_path / "empty")
    assert OnnxTagger.load(tmp_path / "empty").labels == CORPUS.labels

    def fail(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedner.inference.onnx_export.write_bytes", fail)
    with pytest.raises(FednerError, match="No space left"):
        export_onnx(model, tmp_path / "full")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "kept"]


def test_context_features_come_from_the_right_encoder(tmp_path: Path) -> None:
    model = lively("DP-BI-LSTM-CRF")
    tagger = exported(model, tmp_path / "export")
    assert tagger.context_dimension == CONTEXT
    with pytest.raises(FednerError, match="reads context features of letters 'letters'"):
        OnnxTagger.load(tmp_path / "export")
    with pytest.raises(FednerError, match="the tagger was trained with letters"):
        OnnxTagger.load(tmp_path / "export", context=LettersInContext("other"))

    class Narrow:
        def encode(self, sentences):
            return [np.zeros((len(tokens), 2), np.float32) for tokens in sentences]

    with pytest.raises(FednerError, match="expected 5 for each"):
        OnnxTagger.load(tmp_path / "export", context=Narrow()).predict("A fever.")
    export_onnx(lively("LSTM-CRF"), tmp_path / "bare")
    with pytest.raises(FednerError, match="reads no context features"):
        OnnxTagger.load(tmp_path / "bare", context=LettersInContext())


def test_layers_are_mixed_as_the_tagger_learnt_to(tmp_path: Path) -> None:
    model = lively("DP-BI-LSTM-CRF", context_layers=CONTEXT)
    assert model.tagger.embeddings.mix is not None
    same_predictions(model, exported(model, tmp_path / "export"))


def test_what_has_no_graph_is_refused_by_name(tmp_path: Path) -> None:
    model = lively("ELMoNER")
    model.tagger.embeddings.context = torch.nn.Linear(CONTEXT, CONTEXT)
    with pytest.raises(FednerError, match=r"embeddings\.context \(Linear\)"):
        export_onnx(model, tmp_path / "export")
    assert not (tmp_path / "export").exists()


def test_a_trained_encoder_is_refused(tiny_bert: Path, tmp_path: Path) -> None:
    from fedner.models.embeddings.trained_encoder import PretrainedEncoder

    encoder, recipe = PretrainedEncoder.open(tiny_bert), RECIPES["transformer"]
    words, space = WordEmbedding(HashedWords(1, 1)), TagSpace.of(CORPUS.labels, "BIO")
    tagger = build_tagger(recipe, words, space, encoder.dimension, encoder=encoder)
    save_tagger(tmp_path / "tagger", tagger, recipe, space, context=encoder.origin)
    command = ["export", str(tmp_path / "tagger"), "--to", str(tmp_path / "export")]
    result = CliRunner().invoke(app, command)
    assert isinstance(result.exception, FednerError)
    assert "embeddings.context (TrainedEncoder)" in result.exception.message
    assert "trained context encoders cannot" in result.exception.hint
    assert not (tmp_path / "export").exists()


@pytest.mark.data
def test_real_vectors_whose_words_share_rows(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = WordVectors.open(data / "spacy-en-vectors-300d", unknown="hash-bucket")
    model = lively("CNN-CLSTM-CRF", source)
    tagger = exported(model, tmp_path / "export")
    asked = sorted({word for sentence in SENTENCES for word in sentence.tokens})
    assert np.array_equal(tagger.words.rows(asked), source.rows(asked))
    same_predictions(model, tagger)


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named(
    package: str, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_tagger(saved)
    if package == "onnxruntime":
        export_onnx(model, tmp_path / "export")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(FednerError, match=f"need the package {package}") as error:
        exported(model, tmp_path / "new") if package == "onnx" else OnnxTagger.load(
            tmp_path / "export"
        )
    assert "fedner[onnx]" in error.value.hint
