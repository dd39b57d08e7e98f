"""Bodies as authors write them: dicts, which may have views in them, or models of the ``kubernetes`` package."""

from collections.abc import Mapping
from typing import Any

import msgspec


def as_json(body: Any) -> dict[str, Any]:
    """The body as JSON data that the caller may change.

    Models of the official client are read by their ``attribute_map``, which names the fields on the wire; None there
    means absent. Raises ``TypeError`` for anything else that is not an object of JSON.
    """
    value = msgspec.to_builtins(body, enc_hook=_model)
    if not isinstance(value, dict):
        raise TypeError(f"a body is a dict, a View or a model of the kubernetes client, got {type(body).__name__}")
    return value


def _model(value: Any) -> Any:
    names: Mapping[str, str] | None = getattr(value, "attribute_map", None)
    if names is None:
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    found = ((shown, getattr(value, name)) for name, shown in names.items())
    return {shown: each for shown, each in found if each is not None}
