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

KEPT_IF_EMPTY = (
    "lastState:{}",
    "state:{}",
    "securityContext:{}",
    "emptyDir:{}",
    "restartCount:0",
    "ready:false",
    "started:false",
)
"""Printed even if empty, in any type; every pod and its status have many of these."""


def _kept_with_value(value: str) -> tuple[bytes, ...]:
    fields = [field_text.rpartition(":") for field_text in KEPT_IF_EMPTY]
    return tuple(b'"%s":%s' % (name.encode(), value.encode()) for name, _colon, empty in fields if empty == value)


_EMPTY_PATTERNS = (b"[]", b'""', b'": 0')
_COUNTED_PATTERNS = (
    (b"{}", _kept_with_value("{}")),
    (b'":0', _kept_with_value("0")),
    (b"false", _kept_with_value("false")),
)
"""Byte sequences that may be empty fields, and fields for which they are not."""


def may_have_empty(text: bytes) -> bool:
    """Whether a document may have fields to drop; most have none."""
    for pattern in _EMPTY_PATTERNS:  # twice as fast as ``any``
        if pattern in text:
            return True
    for pattern, kept_fields in _COUNTED_PATTERNS:
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

    __slots__ = ("is_collection", "nested_rules", "omits_empty", "replaces_empty_by_null")

    def __init__(
        self,
        *,
        omits_empty: bool,
        is_collection: bool,
        nested_rules: "_Rules | None",
        replaces_empty_by_null: bool = False,
    ) -> None:
        self.omits_empty = omits_empty
        self.replaces_empty_by_null = replaces_empty_by_null
        """Null replaces an empty value: it is printed, and stored like an unset one."""
        self.is_collection = is_collection
        """A list or map; ``nested_rules`` are those of its elements."""
        self.nested_rules = nested_rules


_STORED_AS_JSON = ("io.k8s.apiextensions-apiserver.", "io.k8s.kube-aggregator.")
"""Definitions and APIServices are stored as JSON, which keeps empty lists; protobuf does not."""
_PLAIN = _Rule(omits_empty=True, is_collection=False, nested_rules=None)


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
            omitted_scalars = _omitted().get(self._definition.name, ())
            replaces_empty_by_null = not self._definition.name.startswith(_STORED_AS_JSON)
            fields = self._fields = {
                name: rule
                for name, field in self._definition.fields.items()
                if (
                    rule := _PLAIN
                    if name in omitted_scalars
                    else _rule_of(
                        field.type, omits_empty=name not in printed, replaces_empty_by_null=replaces_empty_by_null
                    )
                )
                is not None
            }
        return fields


def _rule_of(type_: Type, *, omits_empty: bool, replaces_empty_by_null: bool) -> _Rule | None:
    if type_.name == "object":
        return _Rule(omits_empty=False, is_collection=False, nested_rules=_rules_of(type_.definition))
    if type_.name in ("list", "map"):
        element = type_.element
        nested_rules = _rules_of(element.definition) if element is not None and element.name == "object" else None
        return _Rule(
            omits_empty=omits_empty,
            is_collection=True,
            nested_rules=nested_rules,
            replaces_empty_by_null=replaces_empty_by_null and not omits_empty,
        )
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
            if rule.omits_empty:
                empty = [name] if empty is None else [*empty, name]
            elif rule.replaces_empty_by_null:
                obj[name] = None
        elif rule.nested_rules is None:
            continue
        elif not rule.is_collection:
            if type(value) is dict:
                _drop(value, rule.nested_rules.fields)
        else:
            for item in value.values() if type(value) is dict else value:
                if type(item) is dict:
                    _drop(item, rule.nested_rules.fields)
    if empty is not None:
        for name in empty:
            del obj[name]
