"""Schemas below ``items`` and ``additionalProperties``, which Go decodes on its own: they may be a schema or a list of
schemas, or a schema or a boolean (apiextensions ``pkg/apis/apiextensions/v1/marshal.go``, v0.36).

Unknown fields in them are dropped without a warning, as upstream.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from pilothouse.api import schema
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.serializers.omitempty import drop_empty
from pilothouse.machinery.bodies import DecodeError, decode_body

_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_UNIONS = ("items", "additionalItems", "additionalProperties")
_MAPS = ("properties", "patternProperties", "definitions")
_LISTS = ("allOf", "anyOf", "oneOf")


def decode_unions(definition: Object) -> None:
    """Decode these fields of a definition, in place. Raises ``DecodeError`` for values of a wrong type."""
    for version in (definition.get("spec") or {}).get("versions") or ():
        _decode_below((version.get("schema") or {}).get("openAPIV3Schema"), "spec.versions.schema.openAPIV3Schema")


def _decode_below(node: Any, path: str) -> None:
    for member, member_path in _nodes(node, path):
        for name in _UNIONS:
            value = member.pop(name, None)
            decoded = None if value is None else _decode_union(name, value, f"{member_path}.{name}")
            if decoded is not None:
                member[name] = decoded


def _nodes(node: Any, path: str) -> Iterator[tuple[dict[str, Any], str]]:
    """A schema and those below it that are not in such a field, with the path of Go's errors."""
    remaining = [(node, path)]
    while remaining:
        member, member_path = remaining.pop()
        if not isinstance(member, dict):
            continue
        yield member, member_path
        for name in _MAPS:
            if isinstance(member.get(name), dict):
                remaining += [(child, f"{member_path}.{name}") for child in member[name].values()]
        for name in _LISTS:
            if isinstance(member.get(name), list):
                remaining += [(child, f"{member_path}.{name}") for child in member[name]]
        remaining.append((member.get("not"), f"{member_path}.not"))


def _decode_union(name: str, value: Any, path: str) -> Any:
    if isinstance(value, dict):
        return _decode_schema(value, path)
    if name == "items":
        # Anything else than a schema and a list of schemas means that there is none.
        return [_decode_schema(item, path) for item in value] or None if isinstance(value, list) else None
    if not isinstance(value, bool):
        raise DecodeError("boolean or JSON schema expected")
    return value


def _decode_schema(value: Any, path: str) -> Any:
    """One schema. Those in it that Go decodes on its own are put aside, so that each is decoded once."""
    aside: list[Any] = []
    for member, _path in _nodes(value, ""):
        for name in _UNIONS:
            if member.get(name) is not None:
                aside.append(member[name])
                member[name] = len(aside)
    definition = schema.load().definition(_SCHEMA)
    try:
        document = decode_body(msgspec.json.encode(value), definition).document
    except DecodeError as error:
        raise DecodeError(str(error).replace("JSONSchemaProps.", f"JSONSchemaProps.{path}.", 1)) from None
    drop_empty(document, definition)
    for member, _path in _nodes(document, ""):
        for name in _UNIONS:
            if name in member:
                member[name] = aside[member[name] - 1]
    _decode_below(document, path)
    return document
