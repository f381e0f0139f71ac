"""Notebooks as Markdown: their text, their code, and the output that was committed with them."""

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any

Pictures = dict[str, bytes]


def notebook_page(text: str, name: str) -> tuple[str, Pictures]:
    """Return a notebook as a page, and its pictures by file name.

    Args:
        text: The notebook (`.ipynb`).
        name: What the pictures' names begin with.
    """
    pictures: Pictures = {}
    parts: list[str] = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source.strip():
            parts.append(f"```python\n{source.rstrip()}\n```")
            parts += _outputs(cell["outputs"], name, pictures)
    return "\n\n".join(parts) + "\n", pictures


def _outputs(outputs: list[Mapping[str, Any]], name: str, pictures: Pictures) -> Iterator[str]:
    for output in outputs:
        if output["output_type"] == "stream":
            yield _text("".join(output["text"]))
            continue
        data = output.get("data", {})
        if "image/png" in data:
            file = f"{name}-{len(pictures) + 1}.png"
            pictures[file] = base64.b64decode("".join(data["image/png"]))
            yield f"![What the cell draws]({file})"
        elif "text/markdown" in data:
            yield "".join(data["text/markdown"])
        elif "text/plain" in data:
            yield _text("".join(data["text/plain"]))


def _text(said: str) -> str:
    return f"```text\n{said.rstrip()}\n```"
