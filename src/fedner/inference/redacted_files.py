"""Whole files and folders, redacted into another place: whole or not at all, and after kill -9 too.

Everything but the mentions stays byte for byte: byte-order mark, line ends, blanks, sub-folders and
who may read what. With a key, names of files and folders are pseudonyms as well.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedner.corpus.document import Document
from fedner.corpus.patients import with_patients
from fedner.corpus.problems import InputProblemsError, ProblemLog
from fedner.durable import write_bytes
from fedner.errors import FednerError
from fedner.inference.home_key import PatientPseudonyms
from fedner.inference.notes import SUFFIXES, Notes, find_notes, summary
from fedner.inference.permissions import make_folders, output_mode
from fedner.inference.predict import Predictor
from fedner.inference.reading import Finder, Mention, read_documents
from fedner.inference.redact import Redacted, Replacement, redact
from fedner.inference.redaction_audit import AuditRecord, open_audit, refuse_existing
from fedner.inference.redaction_rules import Rules
from fedner.inference.text_files import TextFile


@dataclass(frozen=True, slots=True)
class RedactedFile:
    """What became of a file.

    Attributes:
        source: The file.
        target: Where its redacted text went.
        replacements: What was replaced, in order of the text.
        is_from_before: Whether an earlier start of the same redaction had done it.
    """

    source: Path
    target: Path
    replacements: tuple[Replacement, ...]
    is_from_before: bool = False

    @property
    def replaced(self) -> dict[str, int]:
        """How many mentions were replaced, by type."""
        return dict(sorted(Counter(each.label for each in self.replacements).items()))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is read and where it goes.

    Attributes:
        notes: The notes.
        target: The file or folder to write.
        pairs: Where the redacted text of each note goes.
        rules: How texts are redacted.
        patients: Whose text each note is.
        audit: Where the list of replacements goes, which stays at home; None for no list.
    """

    notes: Notes
    target: Path
    pairs: Mapping[Path, Path]
    rules: Rules
    patients: Mapping[Path, str]
    audit: Path | None

    @property
    def root(self) -> Path:
        """The folder that names of targets are below."""
        return self.target if self.notes.root.is_dir() else next(iter(self.pairs.values())).parent

    def settings(self, predictor: Predictor) -> dict[str, Any]:
        """Return how texts are redacted, for the head of the audit list."""
        return {
            "source": str(self.notes.root.resolve()),
            "target": str(self.root.resolve()),
            "model": predictor.model.digest,
            "encoding": self.notes.encoding,
            **self.rules.as_dict(),
        }


def plan_redaction(
    source: Path | Notes,
    target: Path,
    rules: Rules | None = None,
    *,
    encoding: str | None = None,
    audit: Path | None = None,
) -> Plan:
    """Say what will be written where, before anything is read by a tagger.

    Args:
        source: A file or a folder; or what `find_notes` found in one, by a caller who says what
            was left out.
        target: The file or folder to write; never the input itself.
        rules: How texts are redacted.
        encoding: How the files are encoded; None for UTF-8.
        audit: Where the list of replacements goes; None for beside the output of a folder, and
            for no list of a single file. Without a list nothing can go on after a stop.

    Raises:
        FednerError: There is nothing to read, a file is not text, something would be overwritten,
            or what has to stay at home would stand in the output.
    """
    given = Rules() if rules is None else rules
    notes = source if isinstance(source, Notes) else _all_readable(find_notes(source, encoding))
    pairs = _targets(notes, target, given)
    is_folder = notes.root.is_dir()
    if audit is None and is_folder:
        audit = target.with_name(f"{target.name}.audit.jsonl")
    if audit is not None and is_folder and audit.resolve().is_relative_to(target.resolve()):
        raise FednerError(
            f"{audit} is inside {target}: the audit list must not be given away",
            "Choose a place for --audit that is not given away.",
        )
    if audit is None or not audit.exists():
        refuse_existing(list(pairs.values()))
    return Plan(notes, target, pairs, given, _patients(notes, given), audit)


def redact_files(predictor: Predictor, plan: Plan) -> Iterator[RedactedFile]:
    """Redact the notes of a plan, one after the other, and say what became of each.

    Files that an earlier start of the same redaction wrote are not read again by the tagger.

    Raises:
        FednerError: An earlier start was another redaction, a note has changed since, or something
            would be overwritten.
    """
    if plan.audit is not None:
        make_folders(plan.audit.parent, plan.notes.root.resolve().parent)
    targets = list(plan.pairs.values())
    with open_audit(plan.audit, plan.settings(predictor), targets) as audit:
        yield from _from_before(plan, audit.done)
        waiting: deque[TextFile] = deque()
        documents = _documents(plan, audit.done, waiting)
        for found in read_documents(plan.rules.finder(predictor), documents):
            file = waiting.popleft()
            result = redact(file.text, found.mentions, plan.rules.how, _names(plan, file.path))
            audit.add(_audited(plan, file, result))
            yield _write(plan, file, result)


def _documents(
    plan: Plan, before: Mapping[str, AuditRecord], waiting: deque[TextFile]
) -> Iterator[Document]:
    """Yield the notes that are yet to be redacted; their files wait until they have been read."""
    for file in plan.notes.texts():
        record = before.get(_name(plan, file.path))
        if record is None:
            waiting.append(file)
            yield Document(str(file.path), file.text)
        else:
            _check_unchanged(plan, file, record)


def _from_before(plan: Plan, before: Mapping[str, AuditRecord]) -> Iterator[RedactedFile]:
    for path in plan.notes.files:
        record = before.get(_name(plan, path))
        if record is not None:
            yield RedactedFile(path, plan.pairs[path], record.replacements, is_from_before=True)


def _write(plan: Plan, file: TextFile, result: Redacted) -> RedactedFile:
    target = plan.pairs[file.path]
    _make_folders(plan.notes, file.path, target)
    mode = output_mode([file.path], target)
    write_bytes(target, file.encoded(result.text), mode=mode, overwrite=False)
    return RedactedFile(file.path, target, result.replacements)


def _audited(plan: Plan, file: TextFile, result: Redacted) -> AuditRecord:
    target = plan.pairs[file.path].relative_to(plan.root)
    file.encoded(result.text)  # what cannot be written is said before it is listed
    return AuditRecord(
        _name(plan, file.path), target.as_posix(), _digest(file), result.replacements
    )


def _digest(file: TextFile) -> str:
    return hashlib.sha256(file.encoded(file.text)).hexdigest()


def _check_unchanged(plan: Plan, file: TextFile, record: AuditRecord) -> None:
    if _digest(file) != record.digest:
        raise FednerError(
            f"{file.path} has changed since it was redacted",
            f"Remove {plan.pairs[file.path]} to have it redacted again.",
        )


def _names(plan: Plan, path: Path) -> PatientPseudonyms | None:
    return names_of_patient(plan.rules, plan.patients[path])


def names_of_patient(rules: Rules, patient: str) -> PatientPseudonyms | None:
    """Return the pseudonyms of a patient; None without a key."""
    return None if rules.key is None else PatientPseudonyms(rules.key, patient, rules.dates)


def read_mentions(finder: Finder, text: str) -> tuple[Mention, ...]:
    """Return what has to go in one text."""
    (found,) = read_documents(finder, [Document("-", text)])
    return found.mentions


def _name(plan: Plan, path: Path) -> str:
    return path.name if path == plan.notes.root else _below(plan.notes, path)


def _patients(notes: Notes, rules: Rules) -> dict[Path, str]:
    """Return whose text each note is.

    Raises:
        InputProblemsError: That is asked for, and not said of every note.
    """
    ids = notes.ids()
    if rules.patients is None:
        return ids
    log = ProblemLog()
    names = {path: path.name if path == notes.root else _below(notes, path) for path in ids}
    bare = (Document(ids[path], "", source=names[path]) for path in ids)
    found = [each.patient for each in with_patients(bare, rules.patients, log)]
    if log.total:
        raise InputProblemsError(str(notes.root), log, "Say of every note whose text it is.")
    unknown = [names[path] for path, patient in zip(ids, found, strict=True) if not patient]
    if unknown:
        raise FednerError(
            f"{len(unknown):,} of {len(ids):,} notes have no patient: {', '.join(unknown[:5])}",
            "Name the patient of every note, or leave the option out: every note then counts as "
            "a separate patient.",
        )
    return {path: patient or "" for path, patient in zip(ids, found, strict=True)}


def _below(notes: Notes, path: Path) -> str:
    return path.relative_to(notes.root).as_posix()


def _targets(notes: Notes, target: Path, rules: Rules) -> dict[Path, Path]:
    """Return where the redacted text of each note goes.

    Raises:
        FednerError: The target lies within the input.
    """
    source = notes.root
    if not source.is_dir():
        return {source: target / _renamed(Path(source.name), rules) if target.is_dir() else target}
    for each in notes.named:
        if target.resolve().is_relative_to(each.resolve()):
            raise FednerError(f"{target} is inside {each}", "Choose a folder outside it.")
    return {path: target / _renamed(path.relative_to(source), rules) for path in notes.files}


def _renamed(path: Path, rules: Rules) -> Path:
    """Return the path of a note below the output; each folder keeps its files together."""
    if rules.keeps_names or rules.key is None:
        return path
    key, above = rules.key, path.parents
    folders = [key.file_name(each.as_posix()) for each in reversed(above) if each != Path()]
    suffix = path.suffix if path.suffix.lower() in SUFFIXES else ".txt"
    return Path(*folders, f"{key.file_name(path.as_posix())}{suffix}")


def _all_readable(notes: Notes) -> Notes:
    """Refuse a folder of which a part cannot be redacted."""
    if notes.refused:
        raise FednerError(
            f"{notes.root} has files that cannot be redacted: {'; '.join(summary(notes.refused))}",
            notes.refused[0].hint,
        )
    return notes


def _make_folders(notes: Notes, source: Path, target: Path) -> None:
    """Make the folders of a target, each as open as its counterpart in the input at most."""
    if notes.root.is_dir():
        depth = len(source.relative_to(notes.root).parents)
        for above in reversed(range(depth)):
            make_folders(target.parents[above], source.parents[above])
    else:
        make_folders(target.parent, source.resolve().parent)
