"""Redacting: what was found is gone, everything else is there byte for byte."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedner.errors import FednerError
from fedner.inference.predict import Mention, Predictor
from fedner.inference.redact import MASK, Pseudonyms, redact
from fedner.inference.redacted_files import RedactedFile, Rules, plan_redaction, redact_files
from fedner.models.checkpoint import LoadedTagger
from fedner.models.embeddings.words import HashedWords, WordEmbedding
from fedner.models.features import TagSpace
from fedner.models.zoo import build_tagger, recipe_named, resized

LABELS = ("ADE", "Drug")
WAYS = ("type", "pseudonym", "mask")


@st.composite
def texts_with_mentions(draw: st.DrawFn) -> tuple[str, list[Mention]]:
    text = draw(st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=60))
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=8)))
    mentions = []
    for start, end in zip(cuts[::2], cuts[1::2], strict=False):
        label = draw(st.sampled_from(LABELS))
        mentions.append(Mention(start, end, label, text[start:end], 1.0))
    return text, mentions


@given(texts_with_mentions(), st.sampled_from(WAYS))
def test_without_the_replacements_the_rest_is_what_it_was(
    drawn: tuple[str, list[Mention]], how: str
) -> None:
    text, mentions = drawn
    result = redact(text, mentions, how)  # type: ignore[arg-type]
    kept, kept_before, at, at_before = "", "", 0, 0
    for each in result.replacements:
        kept += result.text[at : each.new_start]
        kept_before += text[at_before : each.start]
        at, at_before = each.new_end, each.end
    kept += result.text[at:]
    kept_before += text[at_before:]
    assert kept == kept_before
    restored, at = "", 0
    for each in result.replacements:
        restored += result.text[at : each.new_start] + text[each.start : each.end]
        at = each.new_end
    assert restored + result.text[at:] == text
    assert len(result.replacements) == len(mentions)


@given(texts_with_mentions())
def test_a_mask_has_the_same_length_and_keeps_line_breaks(drawn: tuple[str, list[Mention]]) -> None:
    text, mentions = drawn
    result = redact(text, mentions, "mask")
    assert len(result.text) == len(text)
    for mention in mentions:
        masked = result.text[mention.start : mention.end]
        assert set(masked) <= {MASK, "\r", "\n"}


def test_the_three_ways() -> None:
    text = "Took Aspirin,\r\nthen aspirin and  ibuprofen."
    spans = [(5, 12, "Drug"), (20, 27, "Drug"), (33, 42, "Drug")]
    mentions = [Mention(a, b, label, text[a:b], 1.0) for a, b, label in spans]
    assert redact(text, mentions).text == "Took [Drug],\r\nthen [Drug] and  [Drug]."
    named = redact(text, mentions, "pseudonym").text
    assert named == "Took [Drug-1],\r\nthen [Drug-1] and  [Drug-2]."
    assert redact(text, mentions, "mask").text == "Took *******,\r\nthen ******* and  *********."


def test_pseudonyms_go_through_all_texts_and_tell_types_apart() -> None:
    names = Pseudonyms()
    one = redact("rash", [Mention(0, 4, "ADE", "rash", 1.0)], "pseudonym", names)
    other = redact("a  Rash", [Mention(3, 7, "ADE", "Rash", 1.0)], "pseudonym", names)
    typed = redact("rash", [Mention(0, 4, "Drug", "rash", 1.0)], "pseudonym", names)
    assert (one.text, other.text, typed.text) == ("[ADE-1]", "a  [ADE-1]", "[Drug-1]")


@pytest.mark.parametrize("spans", [[(0, 3), (2, 4)], [(3, 3)], [(2, 9)], [(-1, 2)]])
def test_mentions_that_overlap_or_lie_outside_are_refused(spans: list[tuple[int, int]]) -> None:
    mentions = [Mention(start, end, "X", "", 1.0) for start, end in spans]
    with pytest.raises(FednerError):
        redact("abcdef", mentions)


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    """A tagger without training that finds something in nearly every text."""
    torch.manual_seed(0)
    recipe = resized(recipe_named("CNN-CRF"), hidden=4, filters=8, character_filters=4)
    space = TagSpace.of(LABELS, "BIO")
    tagger = build_tagger(recipe, WordEmbedding(HashedWords(64, 8)), space, seed=3)
    with torch.no_grad():
        tagger.emissions.bias[0] = -0.3
    return Predictor.of(LoadedTagger(tagger, recipe, space))


def redacted(
    predictor: Predictor, source: Path, target: Path, **options: object
) -> list[RedactedFile]:
    encoding = options.pop("encoding", None)
    rules = Rules(**options)  # type: ignore[arg-type]
    plan = plan_redaction(source, target, rules, encoding=encoding)  # type: ignore[arg-type]
    return list(redact_files(predictor, plan))


def test_files_keep_every_other_byte(predictor: Predictor, tmp_path: Path) -> None:
    source = tmp_path / "in"
    (source / "deep").mkdir(parents=True)
    odd = b"\xef\xbb\xbfTook aspirin \x0c 20 mg.\r\nNo  rash\r\n\tafter \xe2\x82\xac5.\n"
    (source / "a.txt").write_bytes(odd)
    (source / "deep" / "b.txt").write_bytes(b"Plain text with words.\n")
    (source / "notes.md").write_text("not a text file")
    done = redacted(predictor, source, tmp_path / "out", how="mask")
    assert [each.source.name for each in done] == ["a.txt", "b.txt"]
    assert not (tmp_path / "out" / "notes.md").exists()
    assert (source / "a.txt").read_bytes() == odd
    written = (tmp_path / "out" / "a.txt").read_bytes().decode("utf-8", "surrogateescape")
    before = odd.decode("utf-8", "surrogateescape")
    assert len(written) == len(before)
    assert all(new in (old, MASK) for old, new in zip(before, written, strict=True))
    assert MASK in written
    assert sum(done[0].replaced.values()) > 0


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-32"])
def test_other_encodings_are_written_as_they_were_read(
    predictor: Predictor, tmp_path: Path, encoding: str
) -> None:
    text = "Après aspirine 20 mg.\r\nPas de fièvre.\n"
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_bytes(text.encode(encoding))
    with pytest.raises(FednerError) as caught:
        redacted(predictor, source, target)
    assert "--encoding" in caught.value.hint
    done = redacted(predictor, source, target, how="mask", encoding=encoding)
    written = target.read_bytes().decode(encoding)
    assert len(written) == len(text)
    assert sum(done[0].replaced.values()) == len(done[0].replacements) > 0
    assert len(target.read_bytes()) == len(source.read_bytes()), "its mark included"
    assert all(new in (old, MASK) for old, new in zip(text, written, strict=True))


def test_nothing_is_ever_overwritten(predictor: Predictor, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Took aspirin.")
    for target in (path, tmp_path):
        with pytest.raises(FednerError, match="already there"):
            redacted(predictor, path, target)
    with pytest.raises(FednerError, match="is inside"):
        redacted(predictor, tmp_path, tmp_path / "out")
    with pytest.raises(FednerError, match="no such file"):
        redacted(predictor, tmp_path / "b.txt", tmp_path / "c.txt")
    assert path.read_text() == "Took aspirin."
