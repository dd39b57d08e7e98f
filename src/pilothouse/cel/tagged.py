"""The form of Kubernetes' own types at run time, and the form in which their functions are declared."""

from collections.abc import Callable
from typing import Any

import msgspec

TAG = "@kubernetes"
"""The key that marks a value of one of Kubernetes' types. No such name passes a schema."""

Does = Callable[..., Any]
Type = str | tuple[str, Any]


class Function(msgspec.Struct, frozen=True):
    """One overload as the checker knows it; the target of a member comes first in ``takes``."""

    name: str
    takes: tuple[Type, ...]
    gives: Type
    does: Does | None
    member: bool = True

    @property
    def overload(self) -> str:
        """A name of its own."""
        types = "_".join(str(kind).translate(_PLAIN) for kind in self.takes)
        return f"kubernetes_{self.name.translate(_PLAIN)}_{types}_{int(self.member)}"


_PLAIN = str.maketrans(dict.fromkeys("(),'.< >=", "_"))


class CallError(ValueError):
    """A function that cannot do what it is asked for; ends the evaluation."""


def tagged(kind: str, text: str, **more: Any) -> dict[str, Any]:
    """A value of one of Kubernetes' types (``Quantity``): equal to another one when the text is."""
    return {TAG: f"kubernetes.{kind}", "text": text, **more}


def text_of(value: dict[str, Any]) -> str:
    text: str = value["text"]
    return text
