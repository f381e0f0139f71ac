"""Small stand-ins for the corpora that users bring: the originals' layouts, and their faults.

CADEC v2, ADE Corpus V2, the two tables of SMM4H task 3 and CoNLL 2003 are licence-bound. These have
their folders, columns, tag scheme and every fault that the originals are known for; their sentences
are made of a few words of our own.
"""

import lzma
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

SENTENCES = 60
DRUGS = ("Lipitor", "aspirin", "Arthrotec", "Voltaren", "metformin")
EFFECTS = ("bit drowsy", "muscle pain", "nausea", "blurred vision", "rash")
PEOPLE = ("Ann Lee", "Omar Haddad", "Ruth Stein", "Li Wei")
PLACES = ("Paris", "New Delhi", "Kenya", "Oslo")
FIRMS = ("Acme Corp", "Globex", "United Mills")


def _drawn(seed: int, number: int) -> Iterator[tuple[str, str, int]]:
    draw = np.random.default_rng(seed)
    for at in range(number):
        yield DRUGS[draw.integers(len(DRUGS))], EFFECTS[draw.integers(len(EFFECTS))], at


def cadec(folder: Path, number: int = SENTENCES) -> Path:
    """CADEC v2: `text/` and `original/`, beside them the normalisations that nobody needs.

    Faults: 1 empty post with its empty annotation, 1 discontinuous mention, 1 that lies within
    another, 1 offset that does not give its quote (kept), 1 outside the text (skipped), notes.
    """
    for part in ("text", "original", "sct", "meddra"):
        (folder / part).mkdir(parents=True)
    for drug, effect, at in _drawn(1, number // 2):
        first, second = f"I took {drug} and had a {effect} .", f"Day {at} went well ."
        start = first.index(effect)
        lines = [
            f"T1\tDrug 7 {7 + len(drug)}\t{drug}",
            f"T2\tADR {start} {start + len(effect)}\t{effect}",
            "#1\tAnnotatorNotes T2\tsure",
        ]
        _post(folder, f"{drug.upper()}.{at}", f"{first}\n\n{second}\n", lines)
    faulty = "My legs were weak and very painful at night ."
    _post(
        folder,
        "LIPITOR.900",
        f"{faulty}\n",
        [
            "T1\tADR 3 7;13 17\tlegs weak",
            "T2\tADR 22 34\tvery painful",
            "T3\tSymptom 27 34\tpainful",
            "T4\tFinding 38 43\tdaytime",
            "T5\tDrug 900 907\tLipitor",
        ],
    )
    _post(folder, "LIPITOR.901", "", [])
    return folder


def _post(folder: Path, name: str, text: str, lines: Sequence[str]) -> None:
    (folder / "text" / f"{name}.txt").write_text(text)
    (folder / "original" / f"{name}.ann").write_text("".join(f"{line}\n" for line in lines))
    (folder / "meddra" / f"{name}.ann").write_text("TT1\t10028596 9 19\tbit drowsy\n")
    (folder / "sct" / f"{name}.ann").write_text("TT1\t271782001 | Drowsy | 9 19\tbit drowsy\n")


def zipped(folder: Path, archive: Path) -> Path:
    """Pack a folder as distributions do, with what macOS adds."""
    with zipfile.ZipFile(archive, "w") as packed:
        for file in sorted(each for each in folder.rglob("*") if each.is_file()):
            name = file.relative_to(folder.parent).as_posix()
            packed.write(file, name)
            packed.writestr(f"__MACOSX/{name}", "resource")
    return archive


def ade(folder: Path, number: int = SENTENCES, *, packed: bool = False) -> Path:
    """ADE Corpus V2: DRUG-AE.rel, DRUG-DOSE.rel, ADE-NEG.txt; relations repeat their sentences."""
    folder.mkdir(parents=True)
    effects, doses, none = [], [], []
    for drug, effect, at in _drawn(2, number):
        dose = f"{at + 5} mg"
        text = f"Case {at} : {effect} after {dose} of {drug} ."
        spans = [(each, text.index(each) + 100 * at) for each in (effect, drug, dose)]
        (e, d, m) = [f"{each}|{start}|{start + len(each)}" for each, start in spans]
        effects += [f"{100 + at}|{text}|{e}|{d}"] * (2 if at % 5 == 0 else 1)
        if at % 4 == 0:
            doses.append(f"{100 + at}|{text}|{m}|{d}")
        none.append(f"{100 + at} NEG Case {at} went home .")
    held = {"DRUG-AE.rel": effects, "DRUG-DOSE.rel": doses, "ADE-NEG.txt": none}
    for name, lines in held.items():
        _written(folder / name, "".join(f"{line}\n" for line in lines), packed)
    return folder


def _written(path: Path, text: str, packed: bool) -> None:
    if packed:
        path.with_name(f"{path.name}.xz").write_bytes(lzma.compress(text.encode()))
    else:
        path.write_text(text)


HEADER = (
    "tweet_id", "begin", "end", "type", "extraction", "drug", "tweet", "meddra_code", "meddra_term"
)  # fmt: skip


def smm4h(folder: Path, number: int = SENTENCES) -> Path:
    r"""SMM4H task 3: two tables, the first with dozens of empty columns after the ninth.

    Faults: literal quotes; 1 tweet in both tables; every tenth extraction in another case; 1 that
    is not what stands there (kept); 1 offset outside its tweet (skipped); tweets without mention.
    """
    folder.mkdir(parents=True)
    rows: list[list[str]] = []
    for drug, effect, at in _drawn(3, number):
        tweet = f'"{drug}" gave me {effect} again #{drug} day {at}'
        start = tweet.index(effect)
        quote = effect.upper() if at % 10 == 0 else effect
        place = [str(start), str(start + len(effect)), "ADR", quote]
        if at % 3 == 2:
            tweet, place = f"no {drug} today {at}", [""] * 4
        rows.append([str(700 + at), *place, drug.lower(), tweet, "10028596", effect])
    rows.append(["1500", "0", "4", "ADR", "wobbly", "aspirin", "ugh, aspirin and me", "", ""])
    rows.append(["1501", "90", "95", "ADR", "dizzy", "aspirin", "aspirin and dizzy", "", ""])
    middle = len(rows) - number // 4
    _table(folder / "task3_training.tsv", rows[:middle], 40)
    _table(folder / "task3_validation.tsv", [rows[0], *rows[middle:]], 0)
    return folder


def _table(path: Path, rows: Sequence[Sequence[str]], surplus: int) -> None:
    lines = [[*row, *([""] * surplus)] for row in (HEADER, *rows)]
    path.write_text("".join("\t".join(line) + "\n" for line in lines))


def conll2003(folder: Path, number: int = 4 * SENTENCES, *, packed: bool = False) -> Path:
    """CoNLL 2003: eng.train, eng.testa, eng.testb; -DOCSTART- lines, IOB1.

    B- stands only between two entities of one type that touch.
    """
    folder.mkdir(parents=True)
    sizes = {"eng.train": number, "eng.testa": number // 4, "eng.testb": number // 4}
    for seed, (name, size) in enumerate(sizes.items(), 4):
        _written(folder / name, _columns(seed, size), packed)
    return folder


def _columns(seed: int, number: int) -> str:
    draw = np.random.default_rng(seed)
    lines: list[str] = []
    for at in range(number):
        if at % 10 == 0:
            lines += ["-DOCSTART- -X- -X- O", ""]
        person, place, firm = (held[draw.integers(len(held))] for held in (PEOPLE, PLACES, FIRMS))
        parts = [(person, "I-PER"), ("of", "O"), (firm, "I-ORG"), ("flew to", "O")]
        parts += [(place, "I-LOC"), (PLACES[at % 4], "B-LOC"), (f"on day {at} .", "O")]
        for words, tag in parts:
            for place_in, word in enumerate(words.split()):
                inner = tag if place_in == 0 else tag.replace("B-", "I-")
                lines.append(f"{word} NNP I-NP {inner}")
        lines.append("")
    return "\n".join([*lines, ""])


def all_of(folder: Path, number: int = SENTENCES) -> Path:
    """Put all four under their usual names into a folder of corpora."""
    cadec(folder / "cadec", number)
    ade(folder / "ade-corpus-v2", number)
    smm4h(folder / "smm4h", number)
    conll2003(folder / "conll2003", 4 * number)
    return folder


if __name__ == "__main__":
    import sys

    print(all_of(Path(sys.argv[1])))
