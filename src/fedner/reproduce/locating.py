"""Where corpora lie: by the names of `KNOWN` in the folder of --data, or named by --platform.

Folders are named as people name them (CADEC.v2, conll-2003, SMM4H_2019), nested one deeper, or
still packed as they were distributed. What a name suggests counts only where the content agrees.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fedner.corpus import archives
from fedner.corpus.files import COMPRESSED_SUFFIXES, stem
from fedner.corpus.readers import READERS, cadec
from fedner.corpus.readers.standoff import walk
from fedner.errors import FednerError
from fedner.reproduce.reproduction import PlatformInput, Reproduction
from fedner.settings.sections import HUB, PLATFORM_NAME

SYNTHETIC = "synthetic:"
BUILT_IN = ("case-reports", "forum-posts", "social-posts")
WORDS = (
    "glove-6b/glove.6B.300d.txt",
    "glove.6B.300d.txt",
    "glove-6b/glove.6B.100d.txt",
    "glove-6b/glove.6B.50d.subset.txt.xz",
)
CONTEXTS = ("elmo", "minilm", "flair-news-fast/flair-news-fast.npz.xz")
# The FedNER paper calls the type ADE in all three of its corpora; two of them call it ADR.
AS_ADE = {"ADR": "ADE"}
_GLOVE = re.compile(r"glove.*?(\d+)d(\.subset)?\.txt(\.gz|\.xz)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Known:
    """A corpus that fedner knows by name.

    Attributes:
        where: Its places within the folder of corpora, tried in turn.
        source: Where people get it.
        begins: How other names that people give its folder or archive begin, letters and digits
            alone, in lower case.
        format: Its format, where it has one of its own: what is found must look like it.
        train: Names of the file of its training part, where the place is a folder of several.
        test: Those of the file of its own test part.
        options: Those of its format.
        label_map: Types that the paper calls by another name.
    """

    where: tuple[str, ...]
    source: str
    begins: tuple[str, ...] = ()
    format: str | None = None
    train: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    label_map: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_of_parts(self) -> bool:
        """Whether it has a test part of its own."""
        return bool(self.train)


KNOWN: dict[str, Known] = {
    "ade": Known(
        ("ade-corpus-v2", "ade"),
        "ADE Corpus V2, Gurulingappa et al. 2012: DRUG-AE.rel and DRUG-DOSE.rel",
        ("adecorpus",),
        "ade",
    ),
    "cadec": Known(
        ("cadec",),
        "CADEC v2, CSIRO data portal, on request: text/ and original/",
        ("cadec",),
        "cadec",
        label_map=AS_ADE,
    ),
    "smm4h": Known(
        ("smm4h",),
        "SMM4H ADR extraction, on request: task3_training.tsv and task3_validation.tsv",
        ("smm4h", "smmh"),
        "smm4h",
        label_map=AS_ADE,
    ),
    "psytar": Known(("psytar/all.full.txt.xz", "psytar/all.full.txt"), "PsyTAR, CC BY 4.0"),
    "twimed": Known(
        ("twimed/twimed.tar.xz!/gold/pubmed", "twimed/gold/pubmed"), "TwiMed, PubMed part"
    ),
    "conll2003": Known(
        ("conll2003", "conll-2003"),
        "CoNLL 2003 English, Reuters RCV1 licence: eng.train and eng.testb",
        ("conll2003", "conll03", "conllner2003", "conllenglish2003", "connl2003"),
        train=("eng.train", "eng.train.txt", "train.txt"),
        test=("eng.testb", "eng.testb.txt", "test.txt"),
    ),
    "btc": Known(("btc",), "Broad Twitter Corpus, CC BY 4.0"),
    **{
        f"btc-{part}": Known(
            (f"btc/{part}.conll.xz", f"btc/{part}.conll"),
            f"Broad Twitter Corpus, part {part}, CC BY 4.0",
        )
        for part in "abefgh"
    },
    "sec-fin": Known(
        ("sec-fin",),
        "SEC filings, Salinas Alvarado et al. 2015, CC BY 3.0: FIN5.txt, FIN3.txt",
        train=("FIN5.txt",),
        test=("FIN3.txt",),
    ),
    "presidio-synth": Known(
        ("presidio-synth",),
        "microsoft/presidio-research, MIT",
        options={"patient_column": "template_id"},  # texts of one template resemble each other
    ),
    "synthetic-phi-queries": Known(("synthetic-phi-queries",), "synthetic-phi-query-framework"),
}


def located(root: Path | None, name: str) -> PlatformInput | None:
    """Return a known corpus where the folder of corpora has it, else None."""
    known = KNOWN.get(name)
    if known is None or root is None:
        return None
    named = (_taken(name, known, place) for place in _named_alike(root, known))
    found = next((each for each in named if each is not None), None)
    if found is not None or not known.begins:
        return found
    # Under no name that suggests it; nobody unpacks every archive to see.
    folders = (root, *(each for each in _entries(root) if each.is_dir()))
    alike = (_taken(name, known, place, is_named=False) for place in folders)
    return next((each for each in alike if each is not None), None)


def _named_alike(root: Path, known: Known) -> Iterator[Path]:
    """Yield where a corpus may lie by its name: its own places, then names alike."""
    yield from (root / where for where in known.where if (root / where.partition("!")[0]).exists())
    if known.begins:
        entries = _entries(root)
        yield from (each for each in entries if _plain(each.name).startswith(known.begins))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(each for each in folder.iterdir() if not each.name.startswith((".", "__")))
    except OSError:
        return []


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _taken(name: str, known: Known, place: Path, *, is_named: bool = True) -> PlatformInput | None:
    """Return what a place holds if it is the corpus, else None."""
    options, label_map = dict(known.options), dict(known.label_map)
    if known.is_of_parts:
        parts = _parts_in(place, known)
        if parts is None:
            return None
        data, test = map(str, parts)
        return PlatformInput(name, data, test_data=test, options=options, label_map=label_map)
    format_ = "auto"
    if known.format is not None:
        found = _of_format(place, known.format, is_named=is_named)
        if found is None:
            return None
        place, format_ = found, known.format
    return PlatformInput(name, str(place), format_, options=options, label_map=label_map)


def _of_format(place: Path, format_: str, *, is_named: bool) -> Path | None:
    """Return the folder or archive at a place that has a format, else None.

    Only where the name suggests it are archives looked into, and folders one deeper.
    """
    if place.is_file():
        return place if archives.is_archive(place) and _holds(place, format_) else None
    if not place.is_dir():
        return None
    if format_ == cadec.READER.name and (root := cadec.find_root(place)) is not None:
        place = root
    inner = _entries(place) if is_named else []
    folders = [place, *(each for each in inner if each.is_dir())]
    packed = [each for each in inner if each.is_file() and archives.is_archive(each)]
    right = (each for each in folders if READERS[format_].recognise(each) is not None)
    return next(right, None) or next((each for each in packed if _holds(each, format_)), None)


def _holds(archive: Path, format_: str) -> bool:
    """Whether an archive can be unpacked and some folder in it has the format."""
    try:
        held = archives.unpacked(archives.Place(archive, None))
    except FednerError:
        return False
    try:
        folders = {held.folder, *(each.parent for each in walk(held.folder))}
        return any(READERS[format_].recognise(each) is not None for each in sorted(folders))
    finally:
        held.close()


def _parts_in(place: Path, known: Known) -> tuple[Path, Path] | None:
    """Return training and test part at a place, one folder below it, or in an archive; or None."""
    if place.is_dir():
        folders = (place, *(each for each in _entries(place) if each.is_dir()))
        found = (_both(each, known) for each in folders)
        return next((each for each in found if each is not None), None)
    if not (place.is_file() and archives.is_archive(place)):
        return None
    try:
        held = archives.unpacked(archives.Place(place, None))
    except FednerError:
        return None
    try:
        for folder in sorted({each.parent for each in walk(held.folder)}):
            if (both := _both(folder, known)) is not None:
                inner = [each.relative_to(held.folder).as_posix() for each in both]
                train, test = (Path(f"{place}{archives.MARK}/{each}") for each in inner)
                return train, test
    finally:
        held.close()
    return None


def _both(folder: Path, known: Known) -> tuple[Path, Path] | None:
    for train, test in zip(known.train, known.test, strict=True):
        parts = (_plain_or_packed(folder, train), _plain_or_packed(folder, test))
        if parts[0] is not None and parts[1] is not None:
            return parts[0], parts[1]
    return None


def _plain_or_packed(folder: Path, name: str) -> Path | None:
    names = (folder / f"{name}{ending}" for ending in ("", *COMPRESSED_SUFFIXES))
    return next((each for each in names if each.is_file()), None)


def named_platform(text: str, root: Path | None) -> PlatformInput:
    """Return what `--platform` names: NAME of --data, or NAME=PATH[:FORMAT].

    Raises:
        FednerError: It is neither, nothing lies there, or not all parts of a known corpus.
    """
    name, equals, rest = text.partition("=")
    if not equals:
        found = located(root, name)
        if found is not None:
            return found
        raise FednerError(
            f"--platform {text}: {_no_such_corpus(name, root)}",
            f"Give its path (--platform {name}=PATH), or put it into --data under one of these "
            f"names: {', '.join(KNOWN)}.",
        )
    if not re.fullmatch(PLATFORM_NAME, name):
        raise FednerError(
            f'--platform {text}: "{name}" is no name that files and folders can have',
            "Letters, digits, '-', '_', '.' or blanks, at most 64: --platform NAME=PATH[:FORMAT].",
        )
    path, colon, format_ = rest.rpartition(":")
    if not colon or format_ not in READERS:
        path, format_ = rest, "auto"
    place = Path(path).expanduser()
    if not Path(str(place).partition(archives.MARK)[0]).exists():
        raise FednerError(
            f"--platform {text}: {path} is not there", "Write --platform NAME=PATH[:FORMAT]."
        )
    known = KNOWN.get(name)
    if known is None:
        return PlatformInput(name, str(place), format_)
    if known.is_of_parts:
        return _named_parts(text, name, known, place, format_)
    if format_ == "auto":
        found = _taken(name, known, place)
        if found is not None:
            return found
    options = dict(known.options) if format_ == "auto" else {}
    return PlatformInput(name, str(place), format_, None, options, dict(known.label_map))


def _named_parts(text: str, name: str, known: Known, place: Path, format_: str) -> PlatformInput:
    """Return a corpus that has a test part of its own; its training file may be named itself."""
    is_part = place.is_file() and stem(place) in known.train
    parts = _parts_in(place.parent if is_part else place, known)
    if parts is None:
        wanted = " and ".join((known.train[0], known.test[0]))
        raise FednerError(
            f"--platform {text}: {place} has not both parts of {name}",
            f"Name the folder that has {wanted} (plain, .gz or .xz); a corpus without a test part "
            "of its own takes another name.",
        )
    options = dict(known.options)
    return PlatformInput(name, str(parts[0]), format_, str(parts[1]), options)


def _no_such_corpus(name: str, root: Path | None) -> str:
    if root is None:
        return "there is no --data to look in"
    if name in KNOWN and (held := _unlike(root, name)):
        return held
    return f"--data {root} has no corpus of that name"


def platforms_for(
    study: Reproduction, root: Path | None, named: Sequence[str], *, is_built_in: bool
) -> tuple[PlatformInput, ...]:
    """Return the platforms of a study.

    Args:
        study: The study.
        root: --data.
        named: Every --platform.
        is_built_in: Whether the built-in platforms stand in.

    Raises:
        FednerError: Nothing fits; says what to get.
    """
    if is_built_in:
        chosen = BUILT_IN if study.layout != "one corpus" else BUILT_IN[:1]
        return tuple(PlatformInput(name, f"{SYNTHETIC}{name}") for name in chosen)
    if named:
        return _checked(study, tuple(named_platform(each, root) for each in named))
    for names in study.corpora:
        found = [located(root, name) for name in names]
        if all(each is not None for each in found):
            return tuple(each for each in found if each is not None)
    raise FednerError(f"{study.name} has no corpora to run on", what_to_get(study, root))


def _checked(study: Reproduction, found: tuple[PlatformInput, ...]) -> tuple[PlatformInput, ...]:
    """Return named platforms, as many as a study can take.

    Raises:
        FednerError: Two have one name, or there are too few or too many.
    """
    names = [each.name for each in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise FednerError(f"--platform {twice[0]} twice", "Give every platform a name of its own.")
    if study.layout == "one corpus" and len(found) != 1:
        raise FednerError(
            f"{study.name} divides one corpus; found {len(found)}: {', '.join(names)}",
            "Name one --platform.",
        )
    if study.layout == "federation" and len(found) < study.least_platforms:
        raise FednerError(
            f"{study.name} needs at least {study.least_platforms} platforms; found "
            f"{len(found)}: {', '.join(names)}",
            "Name each with a --platform of its own: --platform a=PATH --platform b=PATH.",
        )
    return found


def what_to_get(study: Reproduction, root: Path | None) -> str:
    """Return which corpora a study takes, which of them are there, and where the others come from.

    Every set is a line of its own: one that is whole is enough.
    """
    sets = [_set_words(names, root) for names in study.corpora]
    takes = "\n".join(f"  {'or ' if number else ''}{each}" for number, each in enumerate(sets))
    wanted = f"Put into --data DIR one of these:\n{takes}\n" if sets else ""
    return (
        f"{wanted}Or name your own: --platform NAME=PATH[:FORMAT], several times. "
        "Or look how it runs without data: --built-in."
    )


def _set_words(names: Sequence[str], root: Path | None) -> str:
    held = [name for name in names if located(root, name) is not None]
    missing = [
        f"{name} ({KNOWN[name].source}; as DIR/{KNOWN[name].where[0]})"
        + (f" - {unlike}" if root is not None and (unlike := _unlike(root, name)) else "")
        for name in names
        if name not in held
    ]
    there = f"; there: {', '.join(held)}" if held else ""
    return f"{' + '.join(names)}: missing {', '.join(missing)}{there}"


def _unlike(root: Path, name: str) -> str:
    """Return that something has the name of a corpus and is not like it; else nothing."""
    known = KNOWN[name]
    wanted = known.source.rpartition(": ")[2].replace(" and ", " or ", 1)
    named = (each for each in _named_alike(root, known) if ":" in known.source)
    return next((f"{place} is there, but has no {wanted}" for place in named), "")


def embeddings_for(
    study: Reproduction, root: Path | None, words: str | None, context: str | None
) -> tuple[str, str]:
    """Return word vectors and context encoder: those named, or those found in --data.

    Raises:
        FednerError: The study needs one that is nowhere.
    """
    found_words = words or _first(root, WORDS) or _glove(root)
    found_context = context or _first(root, CONTEXTS)
    missing = [
        option
        for option, path in (("words", found_words), ("context", found_context))
        if path is None and option in study.needs
    ]
    if missing:
        places = {"words": ", ".join(WORDS), "context": ", ".join(CONTEXTS)}
        raise FednerError(
            f"{study.name} needs {' and '.join(f'--{each}' for each in missing)}",
            "; ".join(f"--{each} PATH, or in --data one of {places[each]}" for each in missing),
        )
    for option, path in (("words", found_words), ("context", found_context)):
        require_there(option, path)
    return found_words or "hashed", found_context or "none"


def require_there(option: str, path: str | None) -> None:
    """Raise where word vectors or an encoder are named that are not there."""
    is_file = path is not None and path != "none" and not path.startswith(HUB)
    if is_file and not Path(str(path)).exists():
        raise FednerError(
            f"--{option} {path} is not there", f"Name --{option} by a path that exists."
        )


def _first(root: Path | None, places: Sequence[str]) -> str | None:
    if root is None:
        return None
    return next((str(root / each) for each in places if (root / each).exists()), None)


def _glove(root: Path | None) -> str | None:
    """Return GloVe vectors under another name or in another folder; those of most numbers."""
    if root is None:
        return None
    folders = (root, *(each for each in _entries(root) if _plain(each.name).startswith("glove")))
    found = [
        (int(match[1]), str(file))
        for folder in folders
        if folder.is_dir()
        for file in _entries(folder)
        if (match := _GLOVE.fullmatch(file.name)) and file.is_file()
    ]
    return max(found)[1] if found else None
