"""Errors that a user can fix: each names the thing, what was found and what to do."""

from typing import Any

from fedner.visible import visible


class FednerError(Exception):
    """An error that the user can fix.

    >>> import fedner
    >>> try:
    ...     fedner.read("nowhere/")
    ... except fedner.FednerError as error:
    ...     print(error.message)
    nowhere: no such file or folder

    Control characters in it are replaced by visible ones, because errors are shown on terminals.

    Attributes:
        message: What is wrong, naming the thing and the value that was found.
        hint: What to do about it; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = visible(message)
        self.hint = visible(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors travel between the processes of a run; kinds of them have other arguments.
        return _again, (type(self), self.args, dict(self.__dict__))


def _again(
    kind: type[FednerError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> FednerError:
    """Return the error that another process raised."""
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error
