"""Many lines of token columns at once: cut into sentences with offsets by whole-array operations.

A block of regular lines (every line blank or with the right number of non-empty columns) is turned
into an array of characters; where the separators stand gives every token, offset and tag without
making a string per token. An irregular block is refused whole: the caller reads it line by line.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from fedner.corpus.readers.column_layout import Layout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Indices = NDArray[np.int64]

Run = tuple[int, tuple[str, ...]]

_OUTSIDE = ord("O")


class TokenLines(NamedTuple):
    """The lines of one sentence.

    Attributes:
        line: The number of its first line.
        text: Its tokens joined by blanks.
        starts: Where each token begins in the text.
        ends: Where each token ends.
        runs: The tags other than "O", by runs of neighbouring tokens: the index of the first token
            and the tags. What a tag means depends on its run alone.
        numbers: The line of each token, or None if they stand on consecutive lines.
        marker: The line that marks the beginning of a document; it has no tokens.
    """

    line: int
    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    runs: tuple[Run, ...]
    numbers: tuple[int, ...] | None = None
    marker: str = ""

    def number(self, index: int) -> int:
        """Return the line of a token."""
        return self.line + index if self.numbers is None else self.numbers[index]


def of_tokens(tokens: list[str], tags: list[str], numbers: list[int]) -> TokenLines:
    """Return the sentence of tokens and tags that were read one by one."""
    lengths = list(map(len, tokens))
    bounds = tuple(accumulate((length + 1 for length in lengths), initial=0))
    ends = tuple(start + length for start, length in zip(bounds, lengths, strict=False))
    runs: list[tuple[int, list[str]]] = []
    for index, tag in enumerate(tags):
        if tag == "O":
            continue
        if runs and runs[-1][0] + len(runs[-1][1]) == index:
            runs[-1][1].append(tag)
        else:
            runs.append((index, [tag]))
    frozen = tuple((first, tuple(run)) for first, run in runs)
    return TokenLines(numbers[0], " ".join(tokens), bounds[:-1], ends, frozen, tuple(numbers))


def cut_block(text: str, line: int, layout: Layout) -> list[TokenLines] | None:
    """Return the sentences of whole lines, or None if some line is irregular.

    Args:
        text: Lines, each with its line end; blank lines separate sentences.
        line: The number of the first line.
        layout: How the lines are made.
    """
    if not text.endswith("\n"):
        return None
    codes = _codes(text)
    cells = _find_cells(codes, layout)
    if cells is None:
        return None
    if not len(cells.rows):
        return []
    return list(_sentences(text, codes, cells, line, layout))


@dataclass(frozen=True, slots=True)
class _Cells:
    """Where things stand in a block; R non-blank lines.

    Attributes:
        rows: The index of each non-blank line. Shape [R].
        bounds: The positions around each column: the character before the line, the separators,
            the line end. Shape [R, columns + 1].
    """

    rows: "Indices"
    bounds: "Indices"


def _codes(text: str) -> "NDArray[Any]":
    """Return the characters as numbers, in the narrowest type that is sure to hold them."""
    import numpy as np

    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    return np.frombuffer(text.encode("utf-32-le"), np.dtype("<u4"))


def _text(codes: "NDArray[Any]") -> str:
    return codes.tobytes().decode("ascii" if codes.itemsize == 1 else "utf-32-le")


def _find_cells(codes: "NDArray[Any]", layout: Layout) -> _Cells | None:
    """Return where the columns stand, or None if some line is irregular.

    The check is exact: there are as many separators as the lines need, and dealt out in order they
    stand within their lines with something between each two.
    """
    import numpy as np

    line_ends = np.flatnonzero(codes == ord("\n"))
    separators = np.flatnonzero(codes == ord(layout.separator))
    before = np.empty_like(line_ends)  # the character before each line
    before[0] = -1
    before[1:] = line_ends[:-1]
    rows = np.flatnonzero(line_ends - before > 1)
    num_inner = layout.num_columns - 1
    if len(separators) != len(rows) * num_inner:
        return None
    bounds = np.empty((len(rows), num_inner + 2), dtype=np.int64)
    bounds[:, 0] = before[rows]
    bounds[:, 1:-1] = separators.reshape(len(rows), num_inner)
    bounds[:, -1] = line_ends[rows]
    if (np.diff(bounds, axis=1) < 2).any():
        return None
    return _Cells(rows, bounds)


def _sentences(
    text: str, codes: "NDArray[Any]", cells: _Cells, line: int, layout: Layout
) -> Iterator[TokenLines]:
    import numpy as np

    begins, ends = cells.bounds[:, layout.token] + 1, cells.bounds[:, layout.token + 1]
    sizes = ends - begins + 1  # with the blank that follows
    totals = np.cumsum(sizes)
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(cells.rows) > 1) + 1))
    counts = np.diff(firsts, append=len(sizes))
    bases = (totals - sizes)[firsts]
    starts = totals - sizes - np.repeat(bases, counts)
    joined = _joined_tokens(codes, begins, ends, totals)
    runs = _runs(text, codes, cells, layout, firsts, counts)
    token_starts, token_ends = starts.tolist(), (starts + sizes - 1).tolist()
    numbers = (cells.rows[firsts] + line).tolist()
    for index, (first, count, base, number) in enumerate(
        zip(firsts.tolist(), counts.tolist(), bases.tolist(), numbers, strict=True)
    ):
        stop = first + count
        ends_here = tuple(token_ends[first:stop])
        yield TokenLines(
            number,
            joined[base : base + ends_here[-1]],
            tuple(token_starts[first:stop]),
            ends_here,
            tuple(runs.get(index, ())),
        )


def _joined_tokens(
    codes: "NDArray[Any]", begins: "Indices", ends: "Indices", totals: "Indices"
) -> str:
    """Return all tokens of a block, a blank after each."""
    import numpy as np

    edges = np.zeros(len(codes) + 1, dtype=np.int8)
    edges[begins] = 1
    edges[ends + 1] = -1  # what follows the token is kept too, and overwritten by the blank
    kept = codes[np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)]
    kept[totals - 1] = ord(" ")
    return _text(kept)


def _runs(
    text: str,
    codes: "NDArray[Any]",
    cells: _Cells,
    layout: Layout,
    firsts: "Indices",
    counts: "Indices",
) -> dict[int, list[Run]]:
    """Return the runs of tags other than "O" by the index of their sentence."""
    import numpy as np

    begins, ends = cells.bounds[:, layout.tag] + 1, cells.bounds[:, layout.tag + 1]
    tagged = np.flatnonzero((ends - begins != 1) | (codes[begins] != _OUTSIDE))
    if not len(tagged):
        return {}
    tags = [
        text[begin:end]
        for begin, end in zip(begins[tagged].tolist(), ends[tagged].tolist(), strict=True)
    ]
    sentence_of = np.repeat(np.arange(len(firsts)), counts)[tagged]
    cuts = np.flatnonzero((np.diff(tagged) > 1) | (np.diff(sentence_of) > 0)) + 1
    edges = [0, *cuts.tolist(), len(tags)]
    run_firsts = np.array(edges[:-1])
    owners = sentence_of[run_firsts]
    offsets = (tagged[run_firsts] - firsts[owners]).tolist()
    found: dict[int, list[Run]] = {}
    for index, owner in enumerate(owners.tolist()):
        run = tuple(tags[edges[index] : edges[index + 1]])
        found.setdefault(owner, []).append((offsets[index], run))
    return found
