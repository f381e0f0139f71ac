"""Examples in docstrings as fenced code: griffe would take `>>>` for quotations."""

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"^(?P<room> *)>>> .*(?:\n(?! *$).*)*", re.M)


def fenced(docstring: str) -> str:
    """Return a docstring whose examples stand in fences."""

    def in_fence(match: re.Match[str]) -> str:
        return f"{match['room']}```pycon\n{match[0]}\n{match['room']}```"

    return _EXAMPLE.sub(in_fence, docstring)


class Doctests(Extension):
    """Fences the examples of everything that is documented."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Fence the examples of one object."""
        if obj.docstring and ">>> " in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)
