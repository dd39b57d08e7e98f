"""Mistakes in a test: errors that are shown without a traceback of pilothouse, because only the test can correct
them."""


class Mistake(Exception):
    """A mistake in a test. Each is also one of Python's exceptions."""


class InvalidValue(Mistake, ValueError):
    """An argument has a value that it can't have."""


class InvalidType(Mistake, TypeError):
    """An argument has a value of a type that it can't have."""


class UnknownKind(Mistake, LookupError):
    """A kind that the API server does not have."""


class MissingFile(Mistake, FileNotFoundError):
    """A file that does not exist."""
