"""The built-in platforms: seeded, prefix-stable, well-formed, and sharing a vocabulary."""

import random
import re
import time
from collections import Counter
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedner.corpus.document import Corpus, Document, Segment, Span, labels_of
from fedner.corpus.synthetic import PLATFORMS, generate, stream
from fedner.corpus.synthetic.drugs import drugs
from fedner.corpus.synthetic.effects import concepts, formal_terms
from fedner.corpus.synthetic.grammar import Draft, grammar
from fedner.corpus.synthetic.hands import Annotator, annotated, drawn_out, typo
from fedner.corpus.synthetic.lookalikes import lifestyle, therapies
from fedner.corpus.synthetic.vocabulary import topic, vocabulary
from fedner.errors import FednerError

NAMES = tuple(PLATFORMS)
SEEDS = st.integers(min_value=0, max_value=2**63)


@pytest.fixture(scope="module")
def corpora() -> dict[str, Corpus]:
    return {name: generate(name, 3000, seed=11) for name in NAMES}


def surfaces(corpus: Corpus, label: str) -> set[str]:
    return {
        span.text_in(document.text).lower().lstrip("#")
        for document in corpus
        for span in document.spans
        if span.label == label
    }


def num_segments(corpus: Corpus) -> int:
    return sum(len(document.segments or ()) for document in corpus)


def test_the_three_platforms_differ_in_labels_and_schemes() -> None:
    assert NAMES == ("case-reports", "forum-posts", "social-posts")
    assert {platform.scheme for platform in PLATFORMS.values()} == {"BIO", "BIOES", "IOB1"}
    assert PLATFORMS["case-reports"].labels == ("ADE", "Dosage", "Drug")
    assert PLATFORMS["forum-posts"].labels == ("ADE", "Disease", "Drug", "Finding", "Symptom")
    assert PLATFORMS["social-posts"].labels == ("ADE", "Drug")
    for name, platform in PLATFORMS.items():
        assert platform.name == name
        assert "synthetic" in platform.description


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_corpus_and_another_seed_another(name: str) -> None:
    assert generate(name, 60, seed=5) == generate(name, 60, seed=5)
    texts = [{document.text for document in generate(name, 60, seed)} for seed in (5, 6)]
    assert not texts[0] & texts[1] or len(texts[0] & texts[1]) < 3


@given(SEEDS, st.sampled_from(NAMES), st.integers(0, 40), st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_a_smaller_corpus_is_a_prefix_of_a_larger_one(
    seed: int, name: str, small: int, more: int
) -> None:
    smaller, larger = generate(name, small, seed), generate(name, small + more, seed)
    assert larger.documents[: len(smaller)] == smaller.documents
    assert tuple(islice(stream(name, seed), len(larger))) == larger.documents


@given(SEEDS, st.sampled_from(NAMES), st.integers(1, 80))
@settings(max_examples=40, deadline=None)
def test_a_corpus_stops_with_the_document_that_reaches_its_size(
    seed: int, name: str, size: int
) -> None:
    corpus = generate(name, size, seed)
    assert num_segments(corpus) >= size
    assert num_segments(Corpus("", (), corpus.documents[:-1])) < size


@given(SEEDS, st.sampled_from(NAMES))
@settings(max_examples=60, deadline=None)
def test_every_document_is_well_formed(seed: int, name: str) -> None:
    for document in islice(stream(name, seed), 12):
        check_document(document, PLATFORMS[name].labels)


def check_document(document: Document, labels: tuple[str, ...]) -> None:
    assert document.id.startswith("synthetic-")
    assert document.patient is not None
    assert document.patient.startswith("synthetic-")
    assert document.source == "synthetic"
    segments = document.segments or ()
    assert segments
    assert (segments[0].start, segments[-1].end) == (0, len(document.text))
    assert all(left.end + 1 == right.start for left, right in pairwise(segments))
    for segment in segments:
        sentence = document.text[segment.start : segment.end]
        assert sentence == sentence.strip() != ""
        assert "  " not in sentence
        assert not set(sentence) & set("{}[]|*\n")
        assert segment.token_starts is None
    for span in document.spans:
        check_span(span, document, labels)
    assert len(set(document.spans)) == len(document.spans)


def check_span(span: Span, document: Document, labels: tuple[str, ...]) -> None:
    assert span.label in labels
    home = [part for part in document.segments or () if part.start <= span.start < part.end]
    assert len(home) == 1
    assert span.end <= home[0].end
    assert all(left[1] < right[0] for left, right in pairwise(span.fragments))
    for start, end in span.fragments:
        words = document.text[start:end]
        assert words == words.strip() != ""
        # A mention begins and ends at the border of a word.
        assert not (start and document.text[start - 1].isalnum() and words[0].isalnum())
        assert not (words[-1].isalnum() and document.text[end : end + 1].isalnum())


@pytest.mark.parametrize("name", NAMES)
def test_names_say_synthetic_and_ids_are_unique(corpora: dict[str, Corpus], name: str) -> None:
    corpus = corpora[name]
    assert corpus.name == f"synthetic {name}"
    assert corpus.labels == PLATFORMS[name].labels == labels_of(corpus)
    ids = [document.id for document in corpus]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", NAMES)
def test_a_patient_can_have_several_documents(corpora: dict[str, Corpus], name: str) -> None:
    counts = Counter(document.patient for document in corpora[name])
    assert 1 < len(corpora[name]) / len(counts) < 4
    assert max(counts.values()) > 1


def test_documents_differ(corpora: dict[str, Corpus]) -> None:
    for corpus in corpora.values():
        texts = [document.text for document in corpus]
        assert len(set(texts)) > 0.97 * len(texts)


def test_social_posts_have_no_capitals_but_hashtags_handles_links_and_emoji(
    corpora: dict[str, Corpus],
) -> None:
    corpus = corpora["social-posts"]
    texts = [document.text for document in corpus]
    assert all(text == text.lower() for text in texts)
    assert all(len(document.segments or ()) == 1 for document in corpus)
    for pattern in (r"#\w", r"@\w", r"http://", r"[\U0001f300-\U0001faff]", r"(\w)\1\1"):
        share = sum(bool(re.search(pattern, text)) for text in texts) / len(texts)
        assert 0.03 < share < 0.6, pattern
    hashtags = sum(
        document.text[span.start] == "#" for document in corpus for span in document.spans
    )
    assert hashtags > 100


def test_case_reports_are_cased_and_forum_posts_mix(corpora: dict[str, Corpus]) -> None:
    formal = [document.text for document in corpora["case-reports"]]
    assert all(text[0].isupper() or text[0].isdigit() for text in formal)
    forum = [document.text for document in corpora["forum-posts"]]
    kinds = Counter((text.islower(), text.isupper()) for text in forum)
    assert min(kinds[True, False], kinds[False, True], kinds[False, False]) > 5


def test_forum_posts_have_discontinuous_and_overlapping_mentions(
    corpora: dict[str, Corpus],
) -> None:
    split = [
        (document, span)
        for document in corpora["forum-posts"]
        for span in document.spans
        if span.is_discontinuous
    ]
    assert len(split) > 30
    overlapping = [
        any(other != span and other.start < span.end and span.start < other.end for other in spans)
        for document, span in split
        for spans in [document.spans]
    ]
    assert sum(overlapping) > 0.8 * len(split)
    for name in ("case-reports", "social-posts"):
        assert not any(span.is_discontinuous for doc in corpora[name] for span in doc.spans)


def test_the_lexicon_is_large_and_without_duplicates() -> None:
    names = [drug.name for drug in drugs()]
    assert len(set(names)) == len(names) >= 2000
    brands = [drug.brand for drug in drugs() if drug.brand]
    assert len(set(brands)) == len(brands) > 200
    assert len(set(formal_terms())) == len(formal_terms()) >= 2000
    lay = {noun for concept in concepts() for noun in concept.nouns + concept.clauses}
    assert len(lay) >= 2000
    assert not set(names) & (set(therapies()) | set(lifestyle()))


def test_a_large_corpus_reaches_thousands_of_drugs_and_effects() -> None:
    large = {name: generate(name, 8000, seed=3) for name in NAMES}
    reached = set().union(*(surfaces(corpus, "Drug") for corpus in large.values()))
    known = {drug.name for drug in drugs()} | {drug.brand.lower() for drug in drugs()}
    assert len(reached & known) >= 2000
    assert len(set().union(*(surfaces(corpus, "ADE") for corpus in large.values()))) >= 2000


def test_platforms_share_part_of_their_vocabulary(corpora: dict[str, Corpus]) -> None:
    for one, other in (
        ("case-reports", "forum-posts"),
        ("forum-posts", "social-posts"),
        ("case-reports", "social-posts"),
    ):
        first, second = surfaces(corpora[one], "Drug"), surfaces(corpora[other], "Drug")
        assert 0.1 < len(first & second) / min(len(first), len(second)) < 0.8
    lay, short = surfaces(corpora["forum-posts"], "ADE"), surfaces(corpora["social-posts"], "ADE")
    assert len(lay & short) > 100


@pytest.mark.parametrize("name", NAMES)
def test_many_mentions_are_new_but_frequencies_fall(corpora: dict[str, Corpus], name: str) -> None:
    train, test = generate(name, 500, seed=1), generate(name, 250, seed=2)
    for label in ("Drug", "ADE"):
        seen, found = surfaces(train, label), surfaces(test, label)
        assert 0.3 < len(found - seen) / len(found) < 0.97
    counts = Counter(
        span.text_in(document.text).lower()
        for document in corpora[name]
        for span in document.spans
        if span.label == "Drug"
    )
    ranked = [count for _, count in counts.most_common()]
    # Zipf: a few drugs make up a good part of the mentions, and most occur once or twice.
    assert ranked[0] >= 10 * ranked[len(ranked) // 2]
    assert ranked[len(ranked) // 2] <= 2


def test_the_same_words_are_marked_here_and_not_there(corpora: dict[str, Corpus]) -> None:
    forum = corpora["forum-posts"]
    assert len(surfaces(forum, "ADE") & surfaces(forum, "Symptom")) > 50
    for name, word in (("forum-posts", "caffeine"), ("case-reports", "potassium")):
        marked = sum(
            word in span.text_in(document.text).lower()
            for document in corpora[name]
            for span in document.spans
        )
        written = sum(document.text.lower().count(word) for document in corpora[name])
        assert 0 < marked < written


def test_severity_is_outside_the_mention_in_case_reports_and_inside_in_forum_posts(
    corpora: dict[str, Corpus],
) -> None:
    def starting(name: str) -> float:
        ades = surfaces(corpora[name], "ADE")
        return sum(ade.startswith(("severe ", "mild ", "massive ")) for ade in ades) / len(ades)

    # Not zero in case reports: annotators err.
    assert starting("case-reports") < 0.01 < 0.03 < starting("forum-posts")


def test_unknown_platforms_and_negative_sizes_are_refused() -> None:
    with pytest.raises(FednerError, match="'case-report'") as caught:
        stream("case-report", 0)
    assert "case-reports, forum-posts, social-posts" in caught.value.hint
    with pytest.raises(FednerError, match="-1 sentences"):
        generate("case-reports", -1, 0)
    assert generate("case-reports", 0, 0).documents == ()


def test_generating_is_fast() -> None:
    for name in NAMES:
        generate(name, 1, 0)
        start = time.process_time()
        generate(name, 5000, 0)
        # The promise is 5,000 sentences a second; a busy machine gets a margin.
        assert time.process_time() - start < 2.0


def draft() -> Draft:
    rng = random.Random(0)
    return Draft(rng, topic(rng, vocabulary("case-reports", 0.8, 6.0, 1.0), 2))


def test_templates_nest_and_mark() -> None:
    rules = {"s": "[a|b [c|]] {x:Drug}{t}", "t": "!\n?\n ...\n    and on"}
    made = grammar(rules, {"x": lambda to, label: to.mark("name", label)})
    seen = set()
    for _ in range(200):
        paper = draft()
        paper.rng.seed(len(seen) * 1000 + _)
        made.expand("s", paper)
        text = "".join(paper.pieces)
        assert len(text) == paper.length
        assert [span.text_in(text) for span in paper.spans] == ["name"]
        seen.add(text)
    starts = ("a", "b c", "b ")
    assert seen == {f"{start} name{end}" for start in starts for end in ("!", "?", " ... and on")}


def test_a_name_cannot_be_both_rule_and_filler() -> None:
    with pytest.raises(ValueError, match="both rule and filler: s"):
        grammar({"s": "a"}, {"s": lambda to, label: to.mark("b", label)})


@pytest.mark.parametrize("template", ["[a|b", "a]b", "{a"])
def test_broken_templates_are_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"template|substring"):
        grammar({"s": template}, {})


def test_unknown_slots_are_refused_even_in_alternatives() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        grammar({"s": "a [b|{nowhere}]"}, {})


@given(st.text(), st.integers(0, 1000))
def test_typos_change_at_most_two_letters(text: str, seed: int) -> None:
    assert typo(random.Random(seed), text, rate=0.0) == text
    mangled = typo(random.Random(seed), text, rate=1.0)
    assert abs(len(mangled) - len(text)) <= 1
    assert bool(mangled) == bool(text)


@given(st.from_regex(r"[a-z]{2,10}", fullmatch=True), st.integers(0, 1000))
def test_drawn_out_words_only_repeat_a_letter(word: str, seed: int) -> None:
    longer = drawn_out(random.Random(seed), word)
    assert len(longer) >= len(word) + 2
    squeezed = re.sub(r"(.)\1+", r"\1", longer)
    assert squeezed == re.sub(r"(.)\1+", r"\1", word)


def test_annotators_miss_and_shift_as_often_as_said() -> None:
    text = "she had very bad headaches again"
    segments = (Segment(0, len(text)),)
    spans = [Span.of(13, 26, "ADE")]
    rng = random.Random(4)
    seen = Counter(
        tuple(
            span.text_in(text)
            for span in annotated(rng, Annotator(0.1, 0.2), text, spans, segments)
        )
        for _ in range(5000)
    )
    assert seen[()] == pytest.approx(500, abs=90)
    assert seen[("bad headaches",)] == pytest.approx(3500, abs=140)
    assert set(seen) == {(), ("bad headaches",), ("headaches",), ("bad",), ("very bad headaches",)}


def test_a_careful_annotator_changes_nothing() -> None:
    text = "no rash but nausea"
    spans = [Span.of(12, 18, "ADE"), Span.of(3, 7, "ADE")]
    segments = (Segment(0, len(text)),)
    marked = annotated(random.Random(0), Annotator(0.0, 0.0), text, spans, segments)
    assert marked == tuple(sorted(spans))
