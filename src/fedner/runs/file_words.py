"""The hints of readers in the words of a federation file: its keys, not options of a command."""

import re

# What readers call by the option of `fedner data`, and the key of [[platforms]] that does the same.
KEYS = {
    "--lenient": "lenient = true",
    "--format": "format",
    "--option": "options",
    "--sentences": "sentences",
    "--flatten": "flatten",
    "--labels": "labels",
    "--label-map": "label_map",
    "--encoding": "encoding",
    "--patients": "patients.file",
    "--patient-column": "patients.column",
    "--patient-pattern": "patients.pattern",
}
_OPTION = re.compile(r"(--[a-z][a-z-]*)( latin-1)?")


def _key(option: re.Match[str]) -> str:
    name, value = option.groups(default="")
    if name not in KEYS:
        return option[0]
    return f'`{KEYS[name]} = "{value.strip()}"`' if value else f"`{KEYS[name]}`"


def in_file_words(hint: str) -> str:
    """Return a hint with the keys of [[platforms]] in place of options."""
    return _OPTION.sub(_key, hint)
