"""The representation of Kubernetes' types at run time, and the declaration of their functions."""

from collections.abc import Callable
from typing import Any

import msgspec

TAG = "@kubernetes"
"""The key that marks a value of Kubernetes' types. Schemas do not allow such names."""

Implementation = Callable[..., Any]
Type = str | tuple[str, Any]


class Function(msgspec.Struct, frozen=True):
    """One overload for the checker; the receiver of a member function is the first of ``argument_types``."""

    name: str
    argument_types: tuple[Type, ...]
    result_type: Type
    implementation: Implementation | None
    member: bool = True

    @property
    def overload(self) -> str:
        """The unique ID of the overload."""
        types = "_".join(str(kind).translate(_PLAIN) for kind in self.argument_types)
        return f"kubernetes_{self.name.translate(_PLAIN)}_{types}_{int(self.member)}"


_PLAIN = str.maketrans(dict.fromkeys("(),'.< >=", "_"))


class CallError(ValueError):
    """The error of a function, which ends the evaluation."""


def tagged(kind: str, text: str, **more: Any) -> dict[str, Any]:
    """A value of one of Kubernetes' types (``Quantity``). Values with the same text are equal."""
    return {TAG: f"kubernetes.{kind}", "text": text, **more}


def text_of(value: dict[str, Any]) -> str:
    text: str = value["text"]
    return text
