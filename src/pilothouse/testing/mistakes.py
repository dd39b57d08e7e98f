"""Mistakes in a test: errors that are shown without a traceback of pilothouse, because only the test can correct
them."""

import re
from typing import Self

_VERSION = re.compile(r"(?:[a-z0-9.-]+/)?v\d+(?:(?:alpha|beta)\d+)?")
_BUILT_IN_GROUP = re.compile(r"[^.]*|.*\.k8s\.io")


class Mistake(Exception):
    """A mistake in a test. Each is also one of Python's exceptions."""


class InvalidValue(Mistake, ValueError):
    """An argument has a value that it can't have."""


class InvalidType(Mistake, TypeError):
    """An argument has a value of a type that it can't have."""


class UnknownKind(Mistake, LookupError):
    """A kind that the API server does not have."""

    @classmethod
    def of(cls, api_version: str, kind: str, hint: str) -> Self:
        """``hint`` is that of discovery, empty if it has nothing similar."""
        if not hint and _VERSION.fullmatch(kind) and not _VERSION.fullmatch(api_version):
            hint = " (the apiVersion comes first, then the kind)"
        elif not hint and not _BUILT_IN_GROUP.fullmatch(api_version.rpartition("/")[0]):
            hint = " (its CustomResourceDefinition is applied by running(app), apply or crds=)"
        return cls(f"the API server has no kind {kind!r} in {api_version}{hint}")


class NoMovableClock(Mistake, RuntimeError):
    """The time of a plane whose clock can't be moved was to be advanced."""

    def __init__(self) -> None:
        super().__init__("this plane's clock can't be moved: start it with movable_clock=True")


class InCallback(Mistake, RuntimeError):
    """A method of a cluster was called where the plane waits for the caller."""

    def __init__(self) -> None:
        super().__init__(
            "methods of a Cluster can't be called in a condition of wait_for, an operator or elsewhere in the plane's "
            "thread: a condition depends on its argument only, and an operator has its own client"
        )


class MissingFile(Mistake, FileNotFoundError):
    """A file that does not exist."""
