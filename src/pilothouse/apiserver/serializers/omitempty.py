"""Removes fields that upstream omits when they are empty.

Go omits an empty list or map with ``omitempty``, which nearly all have; an empty object (a struct) is kept, since it
may be significant (``emptyDir: {}``). Empty strings, 0 and false are omitted too, unless Go has a pointer
(``data/omitted.json`` lists these).
"""

from functools import cache
from typing import Any

import msgspec

from pilothouse.api.packaged import packaged
from pilothouse.api.schema import Definition, Type

KEPT = (
    "lastState:{}",
    "state:{}",
    "securityContext:{}",
    "emptyDir:{}",
    "restartCount:0",
    "ready:false",
    "started:false",
)
"""Printed even if empty, in any type; every pod and its status have many of these."""


def _kept(value: str) -> tuple[bytes, ...]:
    fields = [field_text.rpartition(":") for field_text in KEPT]
    return tuple(b'"%s":%s' % (name.encode(), value.encode()) for name, _colon, empty in fields if empty == value)


_SIGNS = (b"[]", b'""', b'": 0')
_COUNTED = ((b"{}", _kept("{}")), (b'":0', _kept("0")), (b"false", _kept("false")))
"""Byte sequences that may be empty fields, and fields for which they are not."""


def may_have_empty(text: bytes) -> bool:
    """Whether a document may have fields to drop; most have none."""
    for pattern in _SIGNS:  # twice as fast as ``any``
        if pattern in text:
            return True
    for pattern, kept_fields in _COUNTED:
        count = text.count(pattern)
        for field in kept_fields:
            if not count:
                break
            count -= text.count(field)
        if count:
            return True
    return False


@cache
def _omitted() -> dict[str, list[str]]:
    data = packaged("api/data/omitted.json")
    return msgspec.json.decode(data, type=dict[str, list[str]])


class _Rule:
    """The rule of one field: drop it when it is empty, or descend."""

    __slots__ = ("below", "drops", "many", "nulls")

    def __init__(self, *, drops: bool, many: bool, below: "_Rules | None", nulls: bool = False) -> None:
        self.drops = drops
        self.nulls = nulls
        """Null replaces an empty value: it is printed, and stored like an unset one."""
        self.many = many
        """A list or map of the type ``below``."""
        self.below = below


_STORED_AS_JSON = ("io.k8s.apiextensions-apiserver.", "io.k8s.kube-aggregator.")
"""Definitions and APIServices are stored as JSON, which keeps empty lists; protobuf does not."""
_PLAIN = _Rule(drops=True, many=False, below=None)


class _Rules:
    """The rules of a type's fields. Types are recursive, so they are loaded when first used."""

    __slots__ = ("_definition", "_fields")

    def __init__(self, definition: Definition) -> None:
        self._definition = definition
        self._fields: dict[str, _Rule] | None = None

    @property
    def fields(self) -> dict[str, _Rule]:
        fields = self._fields
        if fields is None:
            printed = self._definition.printed
            plain = _omitted().get(self._definition.name, ())
            nulls = not self._definition.name.startswith(_STORED_AS_JSON)
            fields = self._fields = {
                name: rule
                for name, field in self._definition.fields.items()
                if (rule := _PLAIN if name in plain else _rule_of(field.type, drops=name not in printed, nulls=nulls))
                is not None
            }
        return fields


def _rule_of(type_: Type, *, drops: bool, nulls: bool) -> _Rule | None:
    if type_.name == "object":
        return _Rule(drops=False, many=False, below=_rules_of(type_.definition))
    if type_.name in ("list", "map"):
        element = type_.element
        below = _rules_of(element.definition) if element is not None and element.name == "object" else None
        return _Rule(drops=drops, many=True, below=below, nulls=nulls and not drops)
    return None


@cache
def _rules_of(definition: Definition) -> _Rules:
    return _Rules(definition)


def drop_empty(obj: dict[str, Any], definition: Definition) -> None:
    """Remove empty fields from an object of that type, in place, recursively."""
    _drop(obj, _rules_of(definition).fields)


def _drop(obj: dict[str, Any], rules: dict[str, _Rule]) -> None:
    empty = None
    # Two thirds of all members are scalars, and have no rule.
    for name, value in obj.items():
        rule = rules.get(name)
        if rule is None:
            continue
        if not value:
            if value is None:
                continue
            if rule.drops:
                empty = [name] if empty is None else [*empty, name]
            elif rule.nulls:
                obj[name] = None
        elif rule.below is None:
            continue
        elif not rule.many:
            if type(value) is dict:
                _drop(value, rule.below.fields)
        else:
            for item in value.values() if type(value) is dict else value:
                if type(item) is dict:
                    _drop(item, rule.below.fields)
    if empty is not None:
        for name in empty:
            del obj[name]
