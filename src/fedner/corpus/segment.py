"""Sentences with their offsets: as the file gives them, one a line, or split by rule.

The rules look at the text alone, never at its mentions: what steers training must be there when the
tagger meets a text that nobody annotated.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal

from fedner.corpus.document import Document
from fedner.errors import FednerError

SentencePolicy = Literal["as given", "line", "rule"]

SENTENCE_POLICIES: Final[dict[SentencePolicy, str]] = {
    "as given": "the sentences of the file",
    "line": "every line that is not blank",
    "rule": "split at full stops, question and exclamation marks, blank lines and list items",
}


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


# These never end a sentence: something always follows them.
_OPEN: Final = _words("dr drs mr mrs ms prof st vs v e.g i.e cf approx appr ca esp incl viz")
# These do not where a number or a single letter follows: Fig. 3, No. 5, Tab. A.
_NUMBERED: Final = _words(
    "no nos nr fig figs tab ref refs vol ver eq eqs chap sect sec pp p pt art"
)
# These end one only where an upper-case word follows.
_CLOSING: Final = _words(
    "mg mcg g kg ml l dl cc mm cm min max hr hrs h wk wks mo mos yr yrs y tabs cap caps inj susp "
    "sol tbsp tsp al etc inc ltd co corp dept univ jan feb mar apr jun jul aug sep sept oct nov "
    "dec hx dx tx rx sx hosp temp wt ht pos neg bid tid qid qd prn po iv im sc resp pts sp spp "
    "subsp"
)
# After an initial or an abbreviation such as U.S., only one of these makes a new sentence certain.
_STARTERS: Final = _words(
    "the a an this that these those there it its he she they we i his her their our my in on at "
    "after before during when while although however therefore thus no patient patients treatment "
    "one two both all as if for with to by from since"
)

_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|[\r\n])|[^\r\n]+")
_BULLET: Final = re.compile(r"\s*(?:[-*•·‣▪◦–—+>]\s+|\(?\d{1,2}[.)]\s+|\(?[A-Za-z]\)\s+)\S")
_STOP: Final = re.compile(
    # Marks; quotes, brackets and a citation that close with them; blanks, or none before a capital.
    r"""(?<![.!?…])(?P<marks>[.!?…]++)(?P<closing>["'”’»)\]]*+(?:\[\d[\d,–-]*+\])?)"""
    r"""(?P<space>\s++|(?=[A-Z][a-z' ]))|[。！？]++"""
)
_LAST_WORD: Final = re.compile(r"\w(?:[\w.]*\w)?\Z")
_DOTTED: Final = re.compile(r"[^\W\d_]{1,2}(?:\.[^\W\d_]{1,2})+")
_NEXT_WORD: Final = re.compile(r"""["'“‘«(\[]*+(\w++)""")
_AFTER_STOP: Final = re.compile(r"[.!?]\s++(\w)")
_FIRST_LETTER: Final = re.compile(r"[^\W\d_]")
_LIST_NUMBER: Final = re.compile(r"\s*\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,4})")
_LOOK_BACK: Final = 40  # longer than any word that the rules know


def segment(document: Document, policy: SentencePolicy) -> list[tuple[int, int]]:
    """Return the offsets of the sentences, without the white space around them; none is blank.

    Raises:
        FednerError: If the policy is unknown, or is "as given" and the document has no sentences.
    """
    if policy not in SENTENCE_POLICIES:
        known = ", ".join(f'"{name}"' for name in SENTENCE_POLICIES)
        raise FednerError(
            f'sentence policy: found "{policy}"; expected one of {known}', f"Choose one of {known}."
        )
    if policy == "line":
        return _trimmed(document.text, (match.span() for match in _LINE.finditer(document.text)))
    if policy == "rule":
        return _trimmed(document.text, split_by_rule(document.text))
    if document.segments is None:
        raise FednerError(
            f'document "{document.id}": its file marks no sentences, so there are none "as given"',
            'Choose the sentence policy "line" or "rule".',
        )
    return _trimmed(document.text, ((part.start, part.end) for part in document.segments))


def _trimmed(text: str, ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges without the white space at their ends, leaving out blank ones."""
    trimmed = []
    for start, end in ranges:
        piece = text[start:end]
        core = piece.strip()
        if core:
            start += len(piece) - len(piece.lstrip())
            trimmed.append((start, start + len(core)))
    return trimmed


def split_by_rule(text: str) -> Iterator[tuple[int, int]]:
    """Yield the sentences of `text`, white space around them included.

    A blank line and a list item always begin a new sentence; a heading (a line that ends in a colon
    or is all upper case) and a list item end with their line unless the next goes on in lower case.
    Within such a block, full stops, question and exclamation marks end a sentence unless they
    belong to an abbreviation, an initial or a list number, or a lower-case word follows a full
    stop. Where a text begins in lower case and mostly goes on so after full stops, as forum posts
    and tweets do, case is no evidence and the full stop counts.
    """
    caseless = _is_caseless(text)
    for start, end in _blocks(text):
        begin = start
        for stop in _STOP.finditer(text, start, end):
            if _ends_sentence(text, begin, stop, caseless):
                yield begin, stop.end()
                begin = stop.end()
        yield begin, end


def _is_caseless(text: str) -> bool:
    """Whether sentences of the text begin in lower case as a rule."""
    first = _FIRST_LETTER.search(text)
    if first is None or not first[0].islower():
        return False
    following: list[str] = _AFTER_STOP.findall(text)
    return 2 * sum(letter.islower() for letter in following) > len(following)


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the stretches of lines that may hold a sentence running over a line break."""
    start, end, opening, previous = 0, 0, "", ""
    for match in _LINE.finditer(text):
        line = match[0]
        if not line.strip():
            yield start, end
            start = end = match.end()
            continue
        if start < end and not _continues(opening, previous, line):
            yield start, end
            start = end
        if start == end:
            opening = line
        end, previous = match.end(), line
    yield start, end


def _continues(opening: str, previous: str, line: str) -> bool:
    """Whether `line` may go on with the block that `opening` began and `previous` ended."""
    if _BULLET.match(line):
        return False
    if line.lstrip()[0].islower():
        return True
    is_heading = previous.rstrip().endswith(":") or previous.isupper()
    return not is_heading and not _BULLET.match(opening)


def _ends_sentence(text: str, begin: int, stop: re.Match[str], caseless: bool) -> bool:
    """Whether the marks that `stop` found end the sentence that began at `begin`."""
    marks = stop["marks"]
    if marks is None:  # a full-width mark: it has no other use
        return True
    before = text[max(begin, stop.start() - _LOOK_BACK) : stop.start()]
    found = _NEXT_WORD.match(text, stop.end())
    following = found[1] if found else ""
    if not stop["space"]:
        return _is_glued(before, marks)
    goes_on = following[:1].islower()
    if "!" in marks or "?" in marks:
        return not (stop["closing"] and goes_on)
    if marks == "." and (verdict := _abbreviation(before, following)) is not None:
        return verdict
    if marks == "." and _LIST_NUMBER.fullmatch(text, begin, stop.start()):
        return False
    return not goes_on or caseless or (marks == "." and "\n" in stop["space"])


def _is_glued(before: str, marks: str) -> bool:
    """Whether the blank after a sentence is missing, as in "the pain.She was"; no address is."""
    chunk = before.rsplit(maxsplit=1)[-1] if before and not before[-1].isspace() else ""
    if any(sign in chunk for sign in "/@.") or chunk.startswith("www"):
        return False
    return marks != "." or (len(chunk) > 2 and chunk[-2:].islower())


def _abbreviation(before: str, following: str) -> bool | None:
    """Return whether the full stop of an abbreviation ends its sentence; None for other words."""
    last = _LAST_WORD.search(before)
    if last is None:
        return None
    word, lowered = last[0], last[0].lower()
    if lowered in _OPEN and not (word.isupper() and len(word) > 1):  # "Mr." but not "severe MR."
        return False
    if lowered in _NUMBERED and (following[:1].isdigit() or len(following) == 1):
        return False
    capital = following[:1].isupper()
    if len(word) == 1 and word.isupper():
        # "John F. Kennedy" against "hepatitis B. She": the word before the letter tells.
        if len(following) == 1 and following.lower() not in _STARTERS:  # "J. R. Smith"
            return False
        rest = before[: last.start()]
        earlier = rest.rsplit(maxsplit=1)[-1:] or ["X"]
        if earlier[0][0].isupper() and not rest[-1:].strip():
            return capital and following.lower() in _STARTERS
        return None
    if _DOTTED.fullmatch(word):
        return capital and (word.islower() or following.lower() in _STARTERS)
    if lowered in _CLOSING:
        return capital
    return None
