"""One platform's data, read as its settings say: sentences, labels, and what is tested on."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from fedner.corpus.assignment import is_numbered, keyed_sample, keyed_split
from fedner.corpus.document import Corpus
from fedner.corpus.groups import Grouping, Unit, take
from fedner.corpus.patients import PatientSource
from fedner.corpus.platforms import divide
from fedner.corpus.prepare import Changes, SentenceChoice, prepare
from fedner.corpus.problems import InputProblemsError, Problem, ProblemLog
from fedner.corpus.read_options import ReadOptions
from fedner.corpus.readers.reader import SentencePolicy
from fedner.corpus.reading import read_recognised
from fedner.corpus.sentence import Sentence
from fedner.corpus.splits import on_both, subsample
from fedner.corpus.splits import split as split_sentences
from fedner.corpus.synthetic import generate
from fedner.errors import FednerError
from fedner.privacy.ledger_owner import unit_key
from fedner.privacy.mechanisms import Mechanism
from fedner.runs.annotated_types import (
    IN_FILE,
    AnnotatedTypes,
    Wording,
    label_problems,
    without_mentions,
)
from fedner.runs.file_words import in_file_words
from fedner.runs.privacy_checks import mechanism_of
from fedner.runs.records.facts import PlatformFacts
from fedner.runs.site_ledger import ledger_of
from fedner.settings import (
    PlatformEntry,
    PlatformSettings,
    SettingProblem,
    Settings,
    SettingsError,
    SplitSettings,
    Study,
    platform_entry,
)
from fedner.settings.sections import PrivacySettings

DEFAULT_TEST = 0.2
_POLICIES: dict[str, SentencePolicy] = {"given": "as given", "line": "line", "rule": "rule"}


@dataclass(frozen=True, slots=True)
class PlatformData:
    """What a platform trains and tests on.

    Attributes:
        name: The platform.
        labels: The types that it annotates, sorted.
        sentences: All its sentences.
        train: Which of them are trained on.
        test: Which of them are tested on.
        is_synthetic: Whether they are built-in, synthetic ones.
        changes: What preparation changed.
        remarks: What reading said on the way.
        types: The mentions of every type, from the files to the tagger.
        warnings: What its owner should know before training; it is never disclosed.
        unknown_rows: Rows of a table of patients whose documents these data do not have, where a
            test file may have them.
    """

    name: str
    labels: tuple[str, ...]
    sentences: tuple[Sentence, ...]
    train: tuple[int, ...]
    test: tuple[int, ...]
    is_synthetic: bool = False
    changes: Changes = field(default_factory=Changes)
    remarks: Mapping[str, int] = field(default_factory=dict)
    types: AnnotatedTypes = field(default_factory=AnnotatedTypes)
    warnings: tuple[str, ...] = ()
    unknown_rows: tuple[Problem, ...] = ()

    def __repr__(self) -> str:
        return f"PlatformData({self.name!r}, train={len(self.train)}, test={len(self.test)})"

    @property
    def train_sentences(self) -> list[Sentence]:
        """The sentences that are trained on."""
        return [self.sentences[number] for number in self.train]

    @property
    def test_sentences(self) -> list[Sentence]:
        """The sentences that are tested on."""
        return [self.sentences[number] for number in self.test]

    @property
    def test_digest(self) -> str:
        """A hash of the test part, gold entities included: scores are compared on equal ones."""
        digest = hashlib.sha256()
        for sentence in self.test_sentences:
            parts = (*sentence.tokens, "", *(f"{a}:{b}:{c}" for a, b, c in sentence.entities), "")
            digest.update("\0".join(parts).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def facts(self) -> PlatformFacts:
        """Return what the run folder keeps of it."""
        chosen = (*self.train_sentences, *self.test_sentences)
        mentions = Counter(entity.label for each in chosen for entity in each.entities)
        return PlatformFacts(
            labels=self.labels,
            train=len(self.train),
            test=len(self.test),
            mentions={label: mentions[label] for label in self.labels},
            test_digest=self.test_digest,
            synthetic=self.is_synthetic,
            changes=dict(self.changes.rows()),
            remarks=dict(self.remarks),
            types=tuple(self.types.rows(self.labels)),
            warnings=self.warnings,
        )


def load_platforms(
    settings: Settings,
    wording: Wording = IN_FILE,
    corpora: Mapping[str, Corpus] = MappingProxyType({}),
    mechanism: Mechanism | None = None,
    test_corpora: Mapping[str, Corpus] = MappingProxyType({}),
) -> dict[str, PlatformData]:
    """Read the data of every platform.

    Under deployed differential privacy types that do not fit are warnings, not errors: whether a
    run begins is seen by others, and must not depend on protected texts.

    Args:
        settings: Checked settings.
        wording: How the user spells them: in a file, or as options of a command.
        corpora: The texts of platforms that are in memory already.
        mechanism: A mechanism of one's own in place of the one that the file names.
        test_corpora: Test parts of their own, of platforms whose texts are in memory.

    Raises:
        SettingsError: Data that do not fit their settings; the problems of all platforms at once.
    """
    # A command with options is one platform's own: nobody else sees whether it begins.
    may_refuse = wording.is_options or not settings.is_deployed
    loaded: dict[str, PlatformData] = {}
    problems = []
    for number, platform in enumerate(settings.platforms):
        try:
            own, test = corpora.get(platform.name), test_corpora.get(platform.name)
            data = _load_for(settings, platform, own, mechanism, test)
        except FednerError as error:
            key = f"platforms[{number}] ({platform.name})"
            said = error if wording.is_options else _in_file(error)
            problems.append(SettingProblem(key, said.message, "", said.hint))
            continue
        misfits = list(label_problems(platform, data.types, wording))
        loaded[platform.name] = _with_warnings(data, [] if may_refuse else misfits)
        if may_refuse:
            problems += [_placed(each, number, platform.name, wording) for each in misfits]
    if problems:
        raise SettingsError("the platforms' data", problems)
    return loaded


def _in_file(error: FednerError) -> FednerError:
    """Return an error with its hints in the words of a federation file."""
    message = error.message
    if isinstance(error, InputProblemsError):
        told = [replace(each, hint=in_file_words(each.hint)) for each in error.log.problems]
        message = InputProblemsError(error.source, replace(error.log, problems=told)).message
    return FednerError(message, in_file_words(error.hint))


def _with_warnings(data: PlatformData, misfits: Sequence[SettingProblem]) -> PlatformData:
    """Return the data with what their owner should know before training."""
    trained = Counter(entity.label for each in data.train_sentences for entity in each.entities)
    unseen = without_mentions(data.labels, trained)
    warnings = [str(each) for each in misfits]
    if unseen:
        warnings.append(
            f"no training sentence mentions {', '.join(unseen)}: the tagger cannot learn it"
        )
    return replace(data, warnings=tuple(warnings))


def _placed(problem: SettingProblem, number: int, name: str, wording: Wording) -> SettingProblem:
    """Return a problem of a platform's types under its whole key."""
    if wording.is_options:
        return problem
    return replace(problem, key=f"platforms[{number}].{problem.key} ({name})")


def load_platform_of(settings: Settings, name: str) -> PlatformData:
    """Read and split the data of one platform of a federation file.

    Raises:
        FednerError: The data cannot be read, do not fit, or the key of the ledger is gone.
    """
    return _load_for(settings, settings.platform(name))


def load_site_data(
    study: Study,
    own: PlatformSettings,
    corpus: Corpus | None = None,
    mechanism: Mechanism | None = None,
) -> PlatformData:
    """Read and split a platform's data as its own settings and the study say.

    Args:
        study: The study.
        own: The platform's own settings.
        corpus: Its texts where they are in memory.
        mechanism: A mechanism of one's own in place of the one that the study names.

    Raises:
        FednerError: The data cannot be read, do not fit, or the key of the ledger is gone.
    """
    entry = platform_entry(study.platform(own.name), own)
    data = _load_for(study, entry, corpus, mechanism)
    misfits = list(label_problems(entry, data.types, IN_FILE))
    unnamed = unit_problem(data, study.privacy, mechanism)
    problems = [*([] if study.is_deployed else misfits), *([] if unnamed is None else [unnamed])]
    if problems:
        raise SettingsError(f"the data of {own.name}", problems)
    return _with_warnings(data, misfits)


def _load_for(
    settings: Settings | Study,
    platform: PlatformEntry,
    corpus: Corpus | None = None,
    mechanism: Mechanism | None = None,
    test_corpus: Corpus | None = None,
) -> PlatformData:
    if not settings.is_deployed:
        return load_platform(platform, settings.seed, None, corpus, test_corpus)
    key = unit_key(ledger_of(platform))
    data = load_platform(platform, settings.seed, key, corpus, test_corpus)
    protected = mechanism_of(settings.privacy, mechanism).unit(settings.privacy.unit)
    is_torn = platform.split.by == "document" and protected == "sentence"
    return _with_named_documents(data) if is_torn else data


def counts_units(privacy: PrivacySettings, mechanism: Mechanism | None) -> bool:
    """Whether units of documents or patients are protected, and not whole platforms."""
    return privacy.enabled and mechanism_of(privacy, mechanism).samples_units


def unit_problem(
    data: PlatformData, privacy: PrivacySettings, mechanism: Mechanism | None = None
) -> SettingProblem | None:
    """Return how many sentences do not say to which protected unit they belong."""
    unit = privacy.unit
    if not counts_units(privacy, mechanism) or unit == "sentence":
        return None
    sentences = list(data.train_sentences)
    if privacy.scores is not None:
        sentences += data.test_sentences
    lost = sum(not getattr(each, unit) for each in sentences)
    if not lost:
        return None
    return SettingProblem(
        "privacy.unit",
        f"{lost:,} of {len(sentences):,} sentences without a {unit} id",
        f"the {unit} of every sentence",
        f"Add them to the data, or protect another unit than the {unit}.",
    )


def load_platform(
    settings: PlatformEntry,
    seed: int,
    key: bytes | None = None,
    corpus: Corpus | None = None,
    test_corpus: Corpus | None = None,
) -> PlatformData:
    """Read and split the data of one platform.

    Args:
        settings: Where the data are and how they are read.
        seed: Of the split, where the settings name none.
        key: The key of a deployed platform's ledger: it splits instead of the seed, so that one
            unit more or less moves no other.
        corpus: Its texts where they are in memory; None reads them.
        test_corpus: Its test part where that is in memory; None reads it, or takes a share.

    Raises:
        FednerError: The data cannot be read, or do not fit the settings.
    """
    seed = seed if settings.split.seed is None else settings.split.seed
    if corpus is not None:
        whole = _prepared(settings, corpus, "auto", {}, {})
    elif settings.synthetic is not None:
        corpus = generate(settings.synthetic, settings.num_sentences, seed)
        whole = _prepared(settings, corpus, "as given", {}, {})
    else:
        whole = _read(settings, Path(settings.data))
    if settings.shard is not None:
        whole = _one_of_equal_shards(whole, settings.shard, settings.split.by, seed)
    parted = _parted(settings, whole, seed, key, test_corpus)
    return _with_leakage(_with_less(parted, settings.split, seed, key))


def _with_leakage(data: PlatformData) -> PlatformData:
    """Return the data with remarks on the documents and patients that are in both parts."""
    parts = data.train_sentences, data.test_sentences
    both = {"documents": on_both(*parts, "document"), "patients": on_both(*parts, "patient")}
    remarks = {
        f"{what} with sentences in the training and in the test part": len(owners)
        for what, owners in both.items()
        if owners
    }
    return replace(data, remarks={**data.remarks, **remarks})


def _with_named_documents(data: PlatformData) -> PlatformData:
    """Return the data if no document is known by its place or, without a name, by its words.

    Where sentences are protected and whole documents are split, a sentence less must not move the
    rest of its document, so its words cannot stand for it.
    """
    numbered = sum(is_numbered(sentence.document) for sentence in data.sentences)
    if numbered:
        raise FednerError(
            f"{numbered:,} of {len(data.sentences):,} sentences are in documents without a name; "
            "split.by is 'document' and privacy.unit 'sentence'",
            "Split by sentence, protect documents, or give the documents names.",
        )
    return data


def _one_of_equal_shards(whole: PlatformData, shard: str, by: Unit, seed: int) -> PlatformData:
    number, into = map(int, shard.split("/"))
    own = divide(whole.sentences, into=into, how="equal", seed=seed, by=by)[number - 1]
    return replace(whole, sentences=take(whole.sentences, own))


def _parted(
    settings: PlatformEntry,
    whole: PlatformData,
    seed: int,
    key: bytes | None,
    test_corpus: Corpus | None,
) -> PlatformData:
    if test_corpus is not None:
        return _with_own_test(whole, _prepared(settings, test_corpus, "auto", {}, {}))
    if settings.split.test_data is not None:
        test_file = _read(settings, Path(settings.split.test_data))
        return _checked_rows(_with_own_test(whole, test_file), settings)
    test = DEFAULT_TEST if settings.split.test is None else settings.split.test
    by = settings.split.by
    if key is None:
        parts = split_sentences(Grouping.of(whole.sentences, by), test=test, seed=seed)
    else:
        parts = keyed_split(whole.sentences, by=by, test=test, key=key)
    return replace(whole, train=parts.train, test=parts.test)


def _patient_source(settings: PlatformEntry) -> PatientSource | None:
    given = settings.patients
    if given is None:
        return None
    # A table that serves the training and the test file names documents of both.
    return PatientSource(
        None if given.file is None else Path(given.file),
        None if given.column is None else str(given.column),
        given.pattern,
        is_shared=settings.split.test_data is not None,
    )


def _read(settings: PlatformEntry, path: Path) -> PlatformData:
    options = ReadOptions(
        own=settings.options,
        encoding=settings.encoding,
        patients=_patient_source(settings),
    )
    log = ProblemLog()
    recognition, corpus = read_recognised(
        path, settings.format, lenient=settings.lenient, options=options, log=log
    )
    problems = {f"problem: {kind}": count for kind, count in log.counts.items()}
    remarks = {**log.changes, **log.remarks, **problems}
    skipped = Counter(label for _, label, _ in log.skipped_mentions)
    found = _prepared(settings, corpus, recognition.sentence_choice, remarks, skipped)
    return replace(found, unknown_rows=tuple(log.unknown_rows))


def _checked_rows(data: PlatformData, settings: PlatformEntry) -> PlatformData:
    """Return the data; refuse a table of patients with documents that neither file has."""
    if not data.unknown_rows or settings.patients is None:
        return data
    log = ProblemLog()
    for problem in data.unknown_rows:
        log.report(problem)
    if not settings.lenient:
        log.raise_if_any(str(settings.patients.file))
    problems = {f"problem: {kind}": count for kind, count in log.counts.items()}
    return replace(data, remarks={**data.remarks, **problems})


def _prepared(
    settings: PlatformEntry,
    corpus: Corpus,
    policy: SentenceChoice,
    remarks: Mapping[str, int],
    skipped: Mapping[str, int],
) -> PlatformData:
    chosen = policy if settings.sentences is None else _POLICIES[settings.sentences]
    label_map = {old: new or None for old, new in settings.label_map.items()}
    labels = _labels(settings, corpus, label_map)
    prepared = prepare(
        corpus,
        sentences=chosen,
        flatten=settings.flatten,
        labels=labels,
        label_map=label_map,
        max_tokens=settings.max_tokens,
    )
    kept = Counter(entity.label for each in prepared.sentences for entity in each.entities)
    found = dict.fromkeys(corpus.labels, 0)
    found |= Counter(span.label for document in corpus for span in document.spans)
    return PlatformData(
        settings.name,
        labels,
        prepared.sentences,
        (),
        (),
        settings.synthetic is not None,
        prepared.changes,
        remarks,
        AnnotatedTypes(found, skipped, kept, settings.label_map),
    )


def _labels(
    settings: PlatformEntry, corpus: Corpus, label_map: Mapping[str, str | None]
) -> tuple[str, ...]:
    """Return the types that the platform annotates, under their new names."""
    renamed = {label_map.get(label, label) for label in corpus.labels}
    occurring = {label for label in renamed if label is not None}
    if settings.labels is not None:
        return tuple(sorted(set(settings.labels)))
    if not occurring:
        raise FednerError(
            f"{corpus.name} annotates no type", "Name the types in labels, or check label_map."
        )
    return tuple(sorted(occurring))


def _with_less(
    data: PlatformData, split: SplitSettings, seed: int, key: bytes | None
) -> PlatformData:
    """Return the data with the share of the training part that is kept, a nested sample."""
    if split.keep == 1.0:
        return data
    training = data.train_sentences
    if key is None:
        kept = subsample(Grouping.of(training, split.by), split.keep, seed)
    else:
        kept = keyed_sample(training, split.keep, split.by, key)
    return replace(data, train=tuple(data.train[place] for place in kept))


def _with_own_test(training: PlatformData, test: PlatformData) -> PlatformData:
    """Return the data of a platform whose test part is a file or a corpus of its own."""
    border = len(training.sentences)
    total = border + len(test.sentences)
    if not border or border == total:
        raise FednerError(
            f"{border:,} sentences to train on and {total - border:,} to test on",
            "Both parts need at least one.",
        )
    return replace(
        training,
        labels=tuple(sorted({*training.labels, *test.labels})),
        sentences=(*training.sentences, *test.sentences),
        train=tuple(range(border)),
        test=tuple(range(border, total)),
        changes=training.changes + test.changes,
        remarks=Counter(training.remarks) + Counter(test.remarks),
        types=training.types + test.types,
        unknown_rows=tuple(row for row in training.unknown_rows if row in test.unknown_rows),
    )
