"""Text of others, made safe to show: control characters of a corpus never reach a terminal.

An escape sequence in a label or a file name could recolour, overwrite or rename what a terminal
shows, and a bidirectional override could make a text read as another. Every such character becomes
one visible character, so that offsets still hold.
"""

import re
from typing import Final

# All control characters but tab and line feed, overrides and isolates of the writing direction,
# Unicode's line separators, and halves of surrogate pairs, which no terminal can be sent.
_UNSAFE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_PICTURES: Final = 0x2400
_DELETE: Final = "\x7f"
_PICTURE_OF_DELETE: Final = "\u2421"
_REPLACEMENT: Final = "\ufffd"


def visible(text: str) -> str:
    """Return `text` with each unsafe character replaced by one that shows."""
    return _UNSAFE.sub(_picture, text) if _UNSAFE.search(text) else text


def visible_json(text: str) -> str:
    """Return JSON that means the same, with unsafe characters as its own escapes."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _picture(match: "re.Match[str]") -> str:
    """Return the picture that Unicode has for a control character."""
    character = match[0]
    if character == _DELETE:
        return _PICTURE_OF_DELETE
    return chr(_PICTURES + ord(character)) if character < " " else _REPLACEMENT
