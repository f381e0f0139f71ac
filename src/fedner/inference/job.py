"""A prediction as a job: it may be killed at any time, and the same command goes on where it was.

Beside the output stands a folder, OUT.partial, until the output is there:

    job.json     the tagger and the inputs, so that nothing is mixed up
    found.jsonl  a line for each note that is done, appended as it is done
    chosen.jsonl those of its lines that are written, where not all are
    finished     the output while it is written
    done.json    all is written: only names are left to be given

A job that is started again reads its inputs from the beginning and compares every note with its
line: what is done is not tagged again, a line that a kill tore is cut off, and inputs that changed
are refused. The output appears when it is whole. One note is in memory at a time, and as many more
as the tagger reads at once.
"""

import csv
import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol

from fedner.corpus.document import Document
from fedner.durable import (
    append_whole,
    owner_folder,
    place_anew,
    sync_folder,
    write_text,
    writing,
)
from fedner.errors import FednerError
from fedner.federated.folder_lock import held_by_this_process
from fedner.inference.found_files import Output, OutputFormat, check_format, found_line, write_found
from fedner.inference.inputs import PredictionInput
from fedner.inference.notes import LeftOut
from fedner.inference.permissions import output_mode
from fedner.inference.reading import Predicted

PARTIAL: Final = ".partial"
SKIPPED: Final = ".skipped.csv"
_JOB, _FOUND, _FINISHED, _DONE = "job.json", "found.jsonl", "finished", "done.json"
_CHOSEN: Final = "chosen.jsonl"
_SYNC_SECONDS: Final = 1.0
_ANEW: Final = "--restart begins anew and throws away what it found so far."


Choose = Callable[[BinaryIO], Iterable[bytes]]
"""Returns those of the lines of `found.jsonl` that are written, in the order of the output."""


class Reads(Protocol):
    """A tagger that reads documents: `Predictor` or `OnnxTagger`."""

    @property
    def labels(self) -> Sequence[str]:
        """The entity types that it finds."""

    @property
    def digest(self) -> str:
        """The name of this very tagger."""

    def predict_documents(self, documents: Iterable[Document]) -> Iterator[Predicted]:
        """Yield each document with its mentions."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job came to.

    Attributes:
        out: Where its output stands.
        documents: How many notes were read.
        mentions: How many mentions were found.
        resumed: How many of the notes were done before this start.
        left_out: What was not read or not written, and why.
        skipped: The file that lists that; None where nothing was left out.
    """

    out: Path
    documents: int
    mentions: int
    resumed: int
    left_out: tuple[LeftOut, ...]
    skipped: Path | None


@dataclass(slots=True)
class _Counts:
    documents: int = 0
    mentions: int = 0
    resumed: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A prediction into files.

    Attributes:
        out: The output: a new file, or for brat a new folder.
        format: Its format.
        settings: What the findings depend on beside tagger and inputs, for `job.json`.
        skipped: Where the list of what was left out goes; None for OUT.skipped.csv.
        choose: Chooses the notes that are written when all are done; None for all of them.
        writer: What writes the output instead of the writer of the format.
        at_home: The folder for what is not finished, on the same disk; None for beside the output.
    """

    out: Path
    format: OutputFormat
    settings: Mapping[str, Any]
    skipped: Path | None = None
    choose: Choose | None = None
    writer: Callable[[BinaryIO, Output], None] | None = None
    at_home: Path | None = None

    @property
    def partial(self) -> Path:
        """The folder of what is not finished."""
        return (self.at_home or self.out.parent) / (self.out.name + PARTIAL)

    @property
    def skipped_file(self) -> Path:
        """Where the list of what was left out goes."""
        return self.skipped or self.out.with_name(self.out.name + SKIPPED)

    def check_target(self, inputs: Iterable[Path] = ()) -> None:
        """Refuse an output that is there, unless it is that of a job which was killed at its end.

        Args:
            inputs: What is read; an output within a folder of it would be read the next time.

        Raises:
            FednerError: Something is in the way.
        """
        if str(self.out) == "-":
            raise FednerError("--out -: standard output is no file", "Name a file.")
        for folder in inputs:
            if folder.is_dir() and self.out.resolve().is_relative_to(folder.resolve()):
                raise FednerError(f"{self.out} is inside {folder}", "Choose a place outside it.")
        if self._is_placed():
            return
        # A list without its output may stand where a job was killed between the two.
        is_begun = (self.partial / _DONE).is_file()
        for path in (self.out,) if is_begun else (self.out, self.skipped_file):
            if os.path.lexists(path):
                raise FednerError(
                    f"{path} is already there", "Choose another --out: nothing is overwritten."
                )
        if not self.out.resolve().parent.is_dir():
            raise FednerError(
                f"cannot write {self.out}: no folder {self.out.resolve().parent}", "Make it first."
            )

    def run(
        self,
        tagger: Reads,
        opened: PredictionInput,
        on_note: Callable[[int], None] = lambda _done: None,
        *,
        restart: bool = False,
    ) -> JobResult:
        """Read all notes and write what was found, going on where a job of this name was killed.

        Args:
            tagger: What reads.
            opened: What is read.
            on_note: Called with the number of notes that are done.
            restart: Whether to throw away what a killed job found.

        Raises:
            FednerError: The output is there, another job is at work on it, a killed job had other
                inputs or another tagger, or the disk is full.
        """
        self.check_target()
        if self.writer is None:
            check_format(self.format, tagger.labels)
        owner_folder(self.partial)
        with held_by_this_process(self.partial):
            counts = _Counts()
            if restart:
                for name in (_DONE, _JOB, _FOUND, _CHOSEN, _FINISHED):
                    _remove(self.partial / name)
            try:
                self._begin(tagger)
                self._read(tagger, opened, counts, on_note)
                return self._finish(tagger, opened, counts)
            except OSError as error:
                self._tidy()
                raise FednerError(
                    f"cannot write {self.out}: {error.strerror or error}",
                    "Make room on the disk, then run the same command: it goes on where it was.",
                ) from error
            except BaseException:
                self._tidy()
                raise

    def _begin(self, tagger: Reads) -> None:
        """Note what the job is, or make sure that it is the one that was killed."""
        record = {"tagger": tagger.digest, "labels": list(tagger.labels), **self.settings}
        path = self.partial / _JOB
        if not path.is_file():
            write_text(path, json.dumps(record, indent=1) + "\n", owner_only=True)
            return
        try:
            before = json.loads(path.read_bytes())
        except ValueError:
            before = {}
        other = sorted(key for key in {*record, *before} if record.get(key) != before.get(key))
        if other:
            raise FednerError(
                f"{self.partial} holds an unfinished job with other {', '.join(other)}",
                f"Run that command again to go on with it; {_ANEW}",
            )

    def _read(
        self,
        tagger: Reads,
        opened: PredictionInput,
        counts: _Counts,
        on_note: Callable[[int], None],
    ) -> None:
        """Append a line for every note that has none yet."""
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        descriptor = os.open(self.partial / _FOUND, flags, 0o600)
        synced = time.monotonic()
        try:
            for predicted in tagger.predict_documents(self._rest(descriptor, opened, counts)):
                append_whole(descriptor, found_line(predicted).encode("utf-8", "surrogatepass"))
                counts.documents += 1
                counts.mentions += len(predicted.mentions)
                on_note(counts.documents)
                if time.monotonic() - synced > _SYNC_SECONDS:
                    os.fsync(descriptor)
                    synced = time.monotonic()
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _rest(
        self, descriptor: int, opened: PredictionInput, counts: _Counts
    ) -> Iterator[Document]:
        """Yield the notes that have no line yet; lines are compared with the notes before."""
        documents = iter(opened.documents)
        with os.fdopen(os.dup(descriptor), "rb") as lines:
            end = 0
            for line in lines:
                record = _record(line)
                if record is None:
                    break
                self._compare(next(documents, None), record)
                end += len(line)
                counts.documents += 1
                counts.resumed += 1
                counts.mentions += len(record["spans"])
            os.ftruncate(descriptor, end)
        yield from documents

    def _compare(self, document: Document | None, record: Mapping[str, Any]) -> None:
        if document is None or (document.id, document.text) != (record["id"], record["text"]):
            raise FednerError(
                f"the inputs have changed since {self.out} was begun, at the note {record['id']!a}",
                f"Restore the inputs, or begin again: {_ANEW}",
            )

    def _finish(self, tagger: Reads, opened: PredictionInput, counts: _Counts) -> JobResult:
        """Write the output and the list of what was left out, and give them their names."""
        finished = self.partial / _FINISHED
        left_out = list(opened.left_out)
        written = self._written()
        if not self._is_placed():
            _remove(finished)
            output = Output(finished, tagger.labels, output_mode(opened.files, self.out), left_out)
            with written.open("rb") as lines:
                if self.writer is None:
                    write_found(self.format, lines, output)
                else:
                    self.writer(lines, output)
            self._note_done(finished)
            if left_out:
                write_skipped(self.skipped_file, left_out, output.mode)
            _place(finished, self.out)
        shutil.rmtree(self.partial)
        skipped = self.skipped_file if left_out else None
        return JobResult(
            self.out, counts.documents, counts.mentions, counts.resumed, tuple(left_out), skipped
        )

    def _written(self) -> Path:
        """Return the file of the lines that are written: all, or those chosen."""
        found, chosen = self.partial / _FOUND, self.partial / _CHOSEN
        if self.choose is None:
            return found
        with found.open("rb") as lines, writing(chosen, owner_only=True) as file:
            for line in self.choose(lines):
                file.write(line)
        return chosen

    def _note_done(self, finished: Path) -> None:
        """Note which file or folder is the output: it keeps its number when it gets its name."""
        record = json.dumps({"inode": finished.stat().st_ino})
        write_text(self.partial / _DONE, record + "\n", owner_only=True)

    def _is_placed(self) -> bool:
        """Whether the output that stands there is that of this job."""
        try:
            record = json.loads((self.partial / _DONE).read_bytes())
            return bool(record["inode"] == self.out.stat().st_ino)
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _tidy(self) -> None:
        """Remove a job that was stopped before any note was done."""
        found = self.partial / _FOUND
        if not found.is_file() or not found.stat().st_size:
            shutil.rmtree(self.partial, ignore_errors=True)


def _record(line: bytes) -> dict[str, Any] | None:
    """Return a line of a killed job; None where the kill, or the loss of power, tore it."""
    try:
        record = json.loads(line.decode("utf-8", "surrogatepass")) if line[-1:] == b"\n" else None
    except ValueError:
        return None
    return record if isinstance(record, dict) and {"id", "text", "spans"} <= record.keys() else None


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _place(finished: Path, out: Path) -> None:
    """Give a finished output its name; nothing is overwritten."""
    if finished.is_dir():
        if os.path.lexists(out):
            raise FednerError(f"{out} is already there", "Choose another --out.")
        finished.rename(out)
    else:
        place_anew(finished, out, out)
    sync_folder(out.resolve().parent)


def write_skipped(path: Path, left_out: Sequence[LeftOut], mode: int) -> None:
    """Write the list of what was left out, and why, as CSV.

    Args:
        path: The file; a list that is there is replaced.
        left_out: What was left out.
        mode: Who may read the list.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(("file", "why", "hint", "refused"))
    for each in left_out:
        writer.writerow((each.path, each.why, each.hint, "yes" if each.is_refused else "no"))
    with writing(path, mode=mode) as file:
        file.write(text.getvalue().encode("utf-8", "surrogateescape"))
