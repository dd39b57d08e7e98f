"""Prints values as upstream's internal Go types appear in errors of fields.

kube-apiserver validates objects in types of its own (``pkg/apis/GROUP/types.go``), most of which have no names for
JSON: where an error shows a struct, ``encoding/json`` prints Go's field names, and everything that is empty. The
objects here are those of the served version; ``data/internal_types.json`` (made by ``scripts/make_internal_types.py``)
says how the fields are called there and what is printed of them, in Go's order.

Loaded with the first error that shows such a value. Types are named as in the table: ``core.PodSpec``, ``[]string``,
``{}string`` (a map), ``*int`` (a pointer), ``meta.LabelSelector``.
"""

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from functools import cache
from typing import Any

import msgspec

from pilothouse.api.packaged import packaged
from pilothouse.machinery.go_text import Shown, compact_json, html_escaped, quote
from pilothouse.machinery.quantities import canonical

Json = Any

_ZEROS: dict[str, Json] = {
    "string": "",
    "named": "",
    "bool": False,
    "int": 0,
    "float": 0,
    "intstr": 0,
    "quantity": "0",
}
"""What is printed for a value that is not there; ``null`` for all other scalars."""
SCALARS = frozenset({*_ZEROS, "bytes", "time", "microtime", "raw", "any"})
_CONTEXT = 3
_MOST_LINES = 20_000
"""How many fields and items a value may have that is shown: some 40 ms. Upstream has no limit. A pod of a hundred
containers with twenty variables each has fewer."""
_MOST_STEPS = 500_000
"""How much work a diff may be: some 50 ms. Upstream has no limit, and the time grows with the square of what is
compared where lines repeat. A pod of twenty containers with twenty variables each, all of them changed, is shown."""


class Field(msgspec.Struct, frozen=True):
    """One field of a struct."""

    printed: str
    """"" for an embedded struct."""
    source: str
    """"" for the parent itself."""
    type: str
    omitted: bool
    """Whether it is left out when it is empty."""


def internal_value(type_: str, value: Json) -> Shown:
    """A value of the served version as an error about a field shows it.

    Plain strings are quoted as by ``%q``. Those of a type of their own (``named``), or behind a pointer, are JSON.
    """
    if type_ == "string":
        return Shown(quote(value or ""))
    try:
        return Shown(compact_json(_Printer().value(type_, value)))
    except _TooMuchWork:
        return Shown("(too large to be shown)")


def internal_diff(type_: str, before: Json, after: Json) -> str:
    """What has changed, as ``diff.Diff`` of apimachinery (``pkg/util/diff``, v0.36) prints it: a unified diff of both
    values as indented JSON."""
    try:
        return _unified_diff(_lines(type_, before), _lines(type_, after))
    except _TooMuchWork:
        return "(what differs is too much to be shown)\n"


# Values --------------------------------------------------------------------------------------------------------------


@cache
def table() -> dict[str, str]:
    """Every struct, with its fields as one text."""
    return msgspec.json.decode(packaged("apiserver/data/internal_types.json"), type=dict[str, str])


@cache
def fields(struct: str) -> tuple[Field, ...]:
    """The fields of a struct, in order."""
    return tuple(_field(text) for text in table()[struct].split())


def _field(text: str) -> Field:
    name, _colon, type_ = text.partition(":")
    if name.startswith("+"):
        return Field("", name[1:], type_, omitted=False)
    omitted = name.endswith("?")
    printed, renamed, source = name.removesuffix("?").partition("=")
    return Field(printed, source if renamed else printed[0].lower() + printed[1:], type_ or "string", omitted)


class _TooMuchWork(Exception):
    """A value that is too large, or a diff of texts that repeat themselves in too many ways."""


class _Printer:
    """Makes of one value what ``encoding/json`` would be given: printed names and values, in order."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MOST_LINES

    def value(self, type_: str, value: Json) -> Json:
        """The value of a field or item."""
        if "." in type_ and type_[0] not in "*[{":
            return self._struct(type_, {} if value is None else value)
        if value is None:
            return _ZEROS.get(type_)
        if type_[0] == "*":
            return self.value(type_[1:], value)
        if type_.startswith("[]"):
            self._count(len(value))
            return [self.value(type_[2:], item) for item in value]
        if type_.startswith("{}"):
            self._count(len(value))
            return {key: self.value(type_[2:], value[key]) for key in sorted(value)}
        if type_ == "quantity":
            return canonical(str(value))
        return _decoded(value) if type_ in ("any", "float") else value

    def _struct(self, type_: str, value: Json) -> dict[str, Json]:
        known = fields(type_)
        self._count(len(known))
        convert = _CONVERSIONS.get(type_)
        if convert is not None:
            value = convert(value)
        found: dict[str, Json] = {}
        for field in known:
            given = value.get(field.source) if field.source else value
            if not field.printed:
                found |= self._struct(field.type, given or {})
            elif not field.omitted or (given is not None if field.type[0] == "*" else given):
                found[field.printed] = self.value(field.type, given)
        return found

    def _count(self, lines: int) -> None:
        self._left -= lines
        if self._left < 0:
            raise _TooMuchWork


def _decoded(value: Json) -> Json:
    """JSON that Go has decoded: its maps are printed in order, and a float that is a whole number as that."""
    if isinstance(value, dict):
        return {key: _decoded(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# What the conversion to an internal type changes but names (``pkg/apis/*/v1/conversion.go``, v1.36)


def _pod_spec(spec: Json) -> Json:
    moved = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
    context = {**(spec.get("securityContext") or {}), **{name: spec.get(name) for name in moved}}
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    return {**spec, "securityContext": context, "serviceAccountName": account}


def _conversion_of_definition(conversion: Json) -> Json:
    webhook = conversion.get("webhook") or {}
    versions = webhook.get("conversionReviewVersions")
    return {**conversion, "webhookClientConfig": webhook.get("clientConfig"), "conversionReviewVersions": versions}


def _schema_or_array(value: Json) -> Json:
    return {"jSONSchemas": value} if isinstance(value, list) else {"schema": value}


def _schema_or_bool(value: Json) -> Json:
    return {"allows": value} if isinstance(value, bool) else {"allows": True, "schema": value}


def _schema_or_names(value: Json) -> Json:
    return {"property": value} if isinstance(value, list) else {"schema": value}


_CONVERSIONS: dict[str, Callable[[Json], Json]] = {
    "core.PodSpec": _pod_spec,
    "apiextensions.CustomResourceConversion": _conversion_of_definition,
    "apiextensions.JSONSchemaPropsOrArray": _schema_or_array,
    "apiextensions.JSONSchemaPropsOrBool": _schema_or_bool,
    "apiextensions.JSONSchemaPropsOrStringArray": _schema_or_names,
}


# Diffs ---------------------------------------------------------------------------------------------------------------


def _lines(type_: str, value: Json) -> list[str]:
    text = msgspec.json.format(msgspec.json.encode(_Printer().value(type_, value)), indent=1).decode()
    return html_escaped(text).split("\n")


class _Matcher(SequenceMatcher[str]):
    """Go's difflib is Python's: this one only counts what it does."""

    def __init__(self, before: list[str], after: list[str]) -> None:
        super().__init__(None, before, after)
        self._steps = [0]
        paths: dict[str, list[int]] = self.b2j  # type: ignore[attr-defined]  # documented, but not in typeshed
        for line in before:
            self._steps.append(self._steps[-1] + 1 + len(paths.get(line, ())))
        self._left = _MOST_STEPS

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None) -> Any:
        assert ahi is not None
        self._left -= self._steps[ahi] - self._steps[alo]
        if self._left < 0:
            raise _TooMuchWork
        return super().find_longest_match(alo, ahi, blo, bhi)


def _unified_diff(before: list[str], after: list[str]) -> str:
    groups = _Matcher(before, after).get_grouped_opcodes(_CONTEXT)
    lines = []
    for group in groups:
        first, last = group[0], group[-1]
        lines.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@")
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                lines += _prefixed(" ", before[start:end])
                continue
            lines += _prefixed("-", before[start:end]) + _prefixed("+", after[new_start:new_end])
    return "".join(f"{line}\n" for line in lines)


def _prefixed(sign: str, lines: Sequence[str]) -> list[str]:
    return [sign + line for line in lines]


def _range(start: int, end: int) -> str:
    if end - start == 1:
        return str(start + 1)
    # What is empty begins at the line before it.
    return f"{start + (end > start)},{end - start}"
