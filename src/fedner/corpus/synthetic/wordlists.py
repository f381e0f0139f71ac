"""Compact word lists: many words in one string, split where they are used."""


def words(text: str) -> tuple[str, ...]:
    """Return the words of `text`, which are separated by white space."""
    return tuple(text.split())


def phrases(text: str) -> tuple[str, ...]:
    """Return the phrases of `text`, which are separated by semicolons; line breaks are blanks."""
    return tuple(" ".join(phrase.split()) for phrase in text.split(";"))


def rows(text: str) -> list[list[str]]:
    """Return the lines of `text`, cut at vertical bars; an indented line continues the last one."""
    return [line.split("|") for line in lines(text)]


def lines(text: str) -> list[str]:
    """Return the lines of `text`; an indented line continues the last one after a blank."""
    return text.strip().replace("\n    ", " ").split("\n")
