"""Rewrites ``Object.spec{replicas: 1}`` and ``JSONPatch{op: "add"}`` to maps.

Mutating policies construct objects of undeclared types: any field of ``Object`` is an ``Object.field``. The library
only knows declared types, so the type name is replaced before compiling by an entry with its number, which is not
longer and keeps columns, and field names by strings.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r"""(?P<string>[rRbB]{0,2}(?:\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))"""
    r"""|(?P<comment>//[^\n]*)|(?P<name>[A-Za-z_]\w*)|(?P<space>\s+)|(?P<other>.)""",
    re.DOTALL,
)
_UNESCAPED = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}
_ESCAPE = re.compile(r"__(underscores|dot|dash|slash)__")
_WHOLE = re.compile(r"__([a-z]+)__")


def unescape(name: str) -> str:
    """The property for an escaped name: ``my__dash__name`` → ``my-name``."""
    name_text = _WHOLE.fullmatch(name)
    if name_text is not None and name_text[1] not in _UNESCAPED:
        return name_text[1]
    return _ESCAPE.sub(lambda found: _UNESCAPED[found[1]], name)


class Maps(NamedTuple):
    """An expression with maps in place of initializers, and the names of the types of objects: the entry ``TYPE`` of a
    map has the position of its name."""

    text: str
    types: tuple[str, ...] = ()


TYPE = "@"
"""The key of the entry with the type. No field has this name."""


def initializers_as_maps(source: str) -> Maps:
    """Replace initializers of objects and patches by maps."""
    types: dict[str, int] = {"Object": 0}
    tokens = [(token.lastgroup or "", token[0]) for token in _TOKEN.finditer(source)]
    result: list[str] = []
    braces: list[bool] = []
    """For each open bracket, whether it is the brace of an initializer."""
    key_next = False
    at = 0
    while at < len(tokens):
        kind, text = tokens[at]
        after = _type_end(tokens, at) if kind == "name" and text in ("Object", "JSONPatch") else 0
        if after and (at == 0 or tokens[at - 1][1] != "."):
            name = "".join(skipped for kind, skipped in tokens[at:after] if kind not in ("space", "comment"))
            entry = "" if text == "JSONPatch" else f'"{TYPE}":{types.setdefault(name, len(types))},'
            length = sum(len(skipped) for _kind, skipped in tokens[at:after])
            result.append(" " * (length - len(entry)))
            result.append("{" + entry)
            braces.append(True)
            key_next, at = True, after + 1
            continue
        if kind == "name" and key_next and braces and braces[-1]:
            result.append(f'"{unescape(text)}"')
            key_next = False
        else:
            result.append(text)
            if text in ("{", "[", "(") and kind == "other":
                braces.append(False)
            elif text in ("}", "]", ")") and kind == "other" and braces:
                braces.pop()
            if kind not in ("space", "comment") and text != "?":
                key_next = kind == "other" and text == "," and bool(braces) and braces[-1]
        at += 1
    return Maps("".join(result), tuple(types))


def is_object(value: Any) -> bool:
    """Whether a value is of an initializer of an object."""
    return isinstance(value, dict) and type(value.get(TYPE)) is int


def without_types(value: Any) -> Any:
    """The value without the entries of the types."""
    if isinstance(value, dict):
        tagged = is_object(value)
        return {key: without_types(member) for key, member in value.items() if not (tagged and key == TYPE)}
    return [without_types(item) for item in value] if isinstance(value, list) else value


def type_errors(value: Any, types: tuple[str, ...], path: str = "") -> Iterator[str]:
    """The objects whose type is not named after the path of their field (``CheckTypeNamesMatchFieldPathNames``), in the
    order of their fields; upstream has that of a Go map."""
    if isinstance(value, list):
        for item in value:
            yield from type_errors(item, types, path)
    elif is_object(value):
        name = types[value[TYPE]]
        path = path or name
        if ".".join(map(unescape, name.split("."))) != path:
            yield (
                f'unexpected type name "{name}", expected "{path}", which matches field name path from root Object type'
            )
        for key, member in sorted(value.items()):
            yield from type_errors(member, types, f"{path}.{key}")
    elif isinstance(value, dict):
        for member in (value[key] for key in sorted(value)):
            yield from type_errors(member, types, path)


def _type_end(tokens: list[tuple[str, str]], at: int) -> int:
    """The index of the brace of an initializer that begins here; 0 if there is none."""
    position, name_next = at + 1, False
    while position < len(tokens):
        kind, text = tokens[position]
        if kind in ("space", "comment"):
            pass
        elif text == "." and not name_next:
            name_next = True
        elif kind == "name" and name_next:
            name_next = False
        else:
            return position if text == "{" and not name_next else 0
        position += 1
    return 0
