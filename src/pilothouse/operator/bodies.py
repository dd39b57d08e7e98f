"""Bodies as authors write them: dicts, which may have views in them, or models of the ``kubernetes`` package."""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec


def as_json(body: Any) -> dict[str, Any]:
    """The body as JSON data that the caller may change.

    Models of the official client are converted by their ``attribute_map``, which has the JSON names; None counts as
    missing. Raises ``TypeError`` for anything else that is not a JSON object.
    """
    value = msgspec.to_builtins(body, enc_hook=_model)
    if not isinstance(value, dict):
        raise TypeError(f"a body is a dict, a View or a model of the kubernetes client, got {type(body).__name__}")
    return value


def with_secret_data(body: dict[str, Any]) -> dict[str, Any]:
    """The body; that of a Secret with ``stringData`` in its ``data``, as the API server stores it.

    ``stringData`` cannot be read back: an apply with it does not detect changes of ``data``. It takes precedence over
    ``data`` (``Convert_v1_Secret_To_core_Secret`` in ``pkg/apis/core/v1/conversion.go``, v1.36). Values that are not
    strings are left to the API server to reject.
    """
    plain = body.get("stringData")
    if (body.get("apiVersion"), body.get("kind")) != ("v1", "Secret") or not isinstance(plain, dict):
        return body
    if not all(isinstance(value, str) for value in plain.values()) or not isinstance(body.get("data") or {}, dict):
        return body
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
    rest = {name: value for name, value in body.items() if name != "stringData"}
    return {**rest, "data": {**(body.get("data") or {}), **encoded}}


def _model(value: Any) -> Any:
    names: Mapping[str, str] | None = getattr(value, "attribute_map", None)
    if names is None:
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    fields = ((wire_name, getattr(value, name)) for name, wire_name in names.items())
    return {wire_name: value for wire_name, value in fields if value is not None}
