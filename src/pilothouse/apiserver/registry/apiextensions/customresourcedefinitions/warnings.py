"""Warnings about unrecognized formats in schemas.

After ``getUnrecognizedFormatsInCRD`` in apiextensions-apiserver's ``pkg/registry/customresourcedefinition/strategy.go``
and ``GetUnrecognizedFormats`` in ``pkg/apiserver/validation/formats.go`` (v0.36).
"""

from collections.abc import Iterator

from pilothouse.apiserver.objects import Object
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.string_formats import FORMATS

_STRING_FORMATS = frozenset(name.replace("-", "") for name in (*FORMATS, "password"))
_NUMBER_FORMATS = {"integer": ("int32", "int64"), "number": ("float", "double")}
_LISTS = ("allOf", "anyOf", "oneOf")
_MAPS = ("properties", "patternProperties", "definitions", "dependencies")


def warnings_for_formats(obj: Object, old: Object | None = None) -> Iterator[str]:
    """Warnings about the formats that are new."""
    known = set() if old is None else set(_unrecognized_formats(old))
    for name in _unrecognized_formats(obj):
        if name not in known:
            yield f"unrecognized format {quote(name)}"


def _unrecognized_formats(obj: Object) -> Iterator[str]:
    for version in obj["spec"].get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        for node in _nodes(schema or {}):
            if node.get("format") and not _is_recognized(node["format"], node.get("type") or ""):
                yield node["format"]


def _is_recognized(name: str, kind: str) -> bool:
    if kind in ("", "string"):
        return name.replace("-", "") in _STRING_FORMATS
    return name in _NUMBER_FORMATS.get(kind, ())


def _nodes(schema: Object) -> Iterator[Object]:
    """The schema and those in it, in the order of ``SchemaHas``; maps by key."""
    stack = [schema]
    while stack:
        node = stack.pop()
        if not isinstance(node, dict):
            continue  # additionalProperties: true
        yield node
        items = node.get("items")
        children = [items] if isinstance(items, dict) else list(items or ())
        for field in _LISTS:
            children += node.get(field) or ()
        children += [node[field] for field in ("not", "additionalProperties", "additionalItems") if node.get(field)]
        for field in _MAPS:
            children += [node[field][key] for key in sorted(node.get(field) or ())]
        stack += reversed(children)
