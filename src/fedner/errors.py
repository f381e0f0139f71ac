"""Errors that a user can mend: each names the thing, what was found and what to do."""


class FednerError(Exception):
    """Something that the user can put right.

    Attributes:
        message: What is wrong, naming the thing and the value that was found.
        hint: What to do about it; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message
