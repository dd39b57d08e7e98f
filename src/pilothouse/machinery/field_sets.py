"""Sets of fields, as in managedFields, and operations on them.

A set is kept in its serialized form (FieldsV1): a dict from path elements to the sets below them. ``f:name`` is a
field, ``k:{"name":"x"}`` an item of a list with keys, ``v:"x"`` a member of a list that is a set, ``i:0`` an index of
any other list. An element with nothing below it is a member of the set; one with something below it is a member itself
only if it has a ``"."``. So ``{"f:a": {}, "f:b": {"f:c": {}}, "f:d": {".": {}, "f:e": {}}}`` has a, b.c, d and d.e.

Sets are shared and immutable. ``field_walks`` creates them from objects, ``apply`` and ``managed_fields`` use them.
After structured-merge-diff ``fieldpath/set.go`` and ``serialize*.go`` (v6).
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

FieldSet = dict[str, Any]
"""A dict of dicts of dicts; the type would be recursive."""

LEAF: FieldSet = {}
"""The children of an element without any. Immutable, as every set."""

NOTHING: FieldSet = {}
"""The empty set."""

Path = tuple[str, ...]


class FieldsError(ValueError):
    """Invalid FieldsV1."""


# Members ------------------------------------------------------------------------------------------------------------


def _is_member(node: FieldSet) -> bool:
    return not node or "." in node


def has(fields: FieldSet, path: Sequence[str]) -> bool:
    node = fields
    for element in path:
        child = node.get(element)
        if child is None:
            return False
        node = child
    return bool(path) and _is_member(node)


def below(fields: FieldSet, element: str) -> FieldSet:
    """The children of an element, as a set."""
    children: FieldSet = fields.get(element, NOTHING)
    return children


def has_element(fields: FieldSet, element: str) -> bool:
    """Whether a top-level element itself is in the set."""
    node = fields.get(element)
    return node is not None and _is_member(node)


def is_empty_below(node: FieldSet) -> bool:
    """Whether an element has no children; itself does not count."""
    return not node or (len(node) == 1 and "." in node)


def paths(fields: FieldSet) -> Iterator[Path]:
    """All members of the set: parents before their children, in order."""
    yield from _paths(fields, ())


def _paths(node: FieldSet, prefix: Path) -> Iterator[Path]:
    elements = sorted((element for element in node if element != "."), key=element_order)
    for element in elements:
        if _is_member(node[element]):
            yield (*prefix, element)
    for element in elements:
        yield from _paths(node[element], (*prefix, element))


def of_paths(*members: Sequence[str]) -> FieldSet:
    result: FieldSet = NOTHING
    for path in members:
        node: FieldSet = LEAF
        for element in reversed(path):
            node = {element: node}
        result = union(result, node)
    return result


# Operations on two sets ----------------------------------------------------------------------------------------------


def union(lhs: FieldSet, rhs: FieldSet) -> FieldSet:
    if not lhs:
        return rhs
    if not rhs:
        return lhs
    result = dict(lhs)
    for element, node in rhs.items():
        lhs_node = result.get(element)
        if lhs_node is None:
            result[element] = node
        elif lhs_node is not node and element != ".":
            result[element] = _union_nodes(lhs_node, node)
    return result


def _union_nodes(lhs: FieldSet, rhs: FieldSet) -> FieldSet:
    if not lhs:
        return rhs if not rhs or "." in rhs else {".": LEAF, **rhs}
    if not rhs:
        return lhs if "." in lhs else {".": LEAF, **lhs}
    return union(lhs, rhs)


def difference(lhs: FieldSet, rhs: FieldSet) -> FieldSet:
    """The members of ``lhs`` that are not in ``rhs``. Children of removed members are kept."""
    if not lhs or not rhs:
        return lhs
    result: FieldSet = {}
    for element, node in lhs.items():
        rhs_node = rhs.get(element)
        if rhs_node is None or element == ".":
            result[element] = node
            continue
        _insert(
            result,
            element,
            member=_is_member(node) and not _is_member(rhs_node),
            children=difference(_children(node), rhs_node),
        )
    return result


def recursive_difference(lhs: FieldSet, rhs: FieldSet) -> FieldSet:
    """The members of ``lhs`` that are neither in ``rhs`` nor below one of its members."""
    if not lhs or not rhs:
        return lhs
    result: FieldSet = {}
    for element, node in lhs.items():
        rhs_node = rhs.get(element)
        if rhs_node is None:
            result[element] = node
        elif not _is_member(rhs_node):
            _insert(result, element, member=_is_member(node), children=recursive_difference(_children(node), rhs_node))
    return result


def intersection(lhs: FieldSet, rhs: FieldSet) -> FieldSet:
    if lhs is rhs:
        return lhs
    result: FieldSet = {}
    for element, node in lhs.items():
        rhs_node = rhs.get(element)
        if rhs_node is None or element == ".":
            continue
        children = intersection(node, rhs_node) if node and rhs_node else NOTHING
        _insert(result, element, member=_is_member(node) and _is_member(rhs_node), children=children)
    return result


def covers(lhs: FieldSet, rhs: FieldSet) -> bool:
    for element, node in rhs.items():
        lhs_node = lhs.get(element)
        if lhs_node is None:
            return False
        if lhs_node is node or element == ".":
            continue
        if not lhs_node:
            if not is_empty_below(node):
                return False
        elif not node:
            if "." not in lhs_node:
                return False
        elif not covers(lhs_node, node):
            return False
    return True


def _children(node: FieldSet) -> FieldSet:
    if "." not in node:
        return node
    return {element: child for element, child in node.items() if element != "."}


def _insert(result: FieldSet, element: str, *, member: bool, children: FieldSet) -> None:
    """Add an element that may be a member, may have children, or neither."""
    if not children:
        if member:
            result[element] = LEAF
    elif member and "." not in children:
        result[element] = {".": LEAF, **children}
    else:
        result[element] = children


# Path elements ------------------------------------------------------------------------------------------------------

_HTML = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_UNSAFE = "[<>&\u2028\u2029]"
_PLAIN = re.compile(r"[A-Za-z0-9_./:@-]*").fullmatch
_encode = msgspec.json.Encoder().encode


def json_text(value: Any) -> str:
    """A value as Go encodes it in a path element: compact, HTML-escaped."""
    if type(value) is str:
        if _PLAIN(value):
            return f'"{value}"'
        text = _encode(value).decode()
        return re.sub(_UNSAFE, lambda match: _HTML[match[0]], text)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(name)}:{json_text(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return _encode(value).decode()


def field(name: str) -> str:
    return "f:" + name


def key(values: dict[str, Any]) -> str:
    """The element for the list item with these keys."""
    if len(values) == 1:
        ((name, value),) = values.items()
        return f'k:{{"{name}":{json_text(value)}}}'
    return "k:{" + ",".join(f'"{name}":{json_text(values[name])}' for name in sorted(values)) + "}"


def member(value: Any) -> str:
    return "v:" + json_text(value)


def element_order(element: str) -> tuple[Any, ...]:
    """The sort key of elements, as upstream: fields, keys, values, indexes; numbers by size, strings by bytes."""
    kind, text = element[:1], element[2:]
    if kind == "f":
        return (0, text)
    if kind == "k":
        return (1, tuple((name, _value_order(value)) for name, value in sorted(_parse_json(text).items())))
    if kind == "v":
        return (2, _value_order(_parse_json(text)))
    return (3, int(text)) if kind == "i" else (-1, text)


def _value_order(value: Any) -> tuple[Any, ...]:
    # value.Compare: numbers, then strings, then booleans, lists, maps, null.
    match value:
        case bool():
            return (2, value)
        case int() | float():
            return (0, value)
        case str():
            return (1, value)
        case None:
            return (5,)
        case _:
            return (4, json_text(value))


def _parse_json(text: str) -> Any:
    return json.loads(text)


def path_text(path: Sequence[str]) -> str:
    """A path as in messages: ``.spec.containers[name="x"].image``."""
    return "".join(map(element_text, path))


def element_text(element: str) -> str:
    """One element of such a path."""
    kind, text = element[:1], element[2:]
    if kind == "f":
        return "." + text
    if kind == "k":
        return "[" + ",".join(f"{name}={_value_text(value)}" for name, value in sorted(_parse_json(text).items())) + "]"
    if kind == "v":
        return f"[={_value_text(_parse_json(text))}]"
    return f"[{text}]"


def _value_text(value: Any) -> str:
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bool():
            return "true" if value else "false"
        case list():
            return "[" + ",".join(map(_value_text, value)) + "]"
        case dict():
            return "".join(f"{name}={_value_text(item)}" for name, item in value.items())
        case None:
            return "null"
        case _:
            return json_text(value)


# Reading and writing ------------------------------------------------------------------------------------------------

_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_NUMBERS = re.compile(rb'\\":[-0-9]').findall
_SET_NUMBERS = re.compile(rb'"v:[-0-9]').findall


def encode_fields(fields: FieldSet) -> bytes:
    """FieldsV1, elements in order."""
    text = _encode_sorted(fields)
    if (b'"k:' in text and len(_NUMBERS(text)) > 1) or (b'"v:' in text and len(_SET_NUMBERS(text)) > 1):
        # Sorted as text, 443 would precede 80.
        return _encode(_ordered(fields))
    return text


def _ordered(fields: FieldSet) -> FieldSet:
    elements = sorted(fields)
    if len(elements) > 1 and elements[-1][0] in "kv":
        elements.sort(key=element_order)
    return {element: _ordered(node) if (node := fields[element]) else LEAF for element in elements}


def decode_fields(text: bytes | msgspec.Raw) -> FieldSet:
    return _decode(text)


def read_fields(document: Any) -> FieldSet:
    """Read a set from a client, to our form. Elements of unknown kinds are dropped.

    Raises ``FieldsError`` for invalid ones.
    """
    if document is None:
        return NOTHING
    if not isinstance(document, dict):
        raise FieldsError(f"expected an object of path elements, found {json.dumps(document)[:40]}")
    result: FieldSet = {}
    for element, inner in document.items():
        if element == ".":
            continue
        path_element = _read_element(element)
        if path_element is None:
            continue
        node = read_fields(inner)
        # An element without children is a member, with or without ".".
        _insert(result, path_element, member=not node or "." in inner, children=node)
    return result


def _read_element(element: str) -> str | None:
    if len(element) < 2:
        raise FieldsError("key must be 2 characters long:")
    if element[1] != ":":
        raise FieldsError(f"missing colon: {element}")
    kind, text = element[0], element[2:]
    if kind == "f":
        return element
    try:
        if kind == "k":
            values = json.loads(text)
            if not isinstance(values, dict):
                raise FieldsError(f"no keys: {element}")
            return key(values)
        if kind == "v":
            return member(json.loads(text))
        if kind == "i":
            return f"i:{int(text)}"
    except ValueError as error:
        raise FieldsError(f"{element}: {error}") from None
    return None
