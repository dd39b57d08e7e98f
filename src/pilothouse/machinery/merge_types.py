"""Types for merging objects: atomic values, lists with keys, fields.

Used by ``field_walks`` and ``apply``. They are derived from the schema of the built-in kinds (``api.schema``) or from
the structural schema of a custom resource, and correspond to atoms of structured-merge-diff (``schema/elements.go``,
v6). A type may allow scalars, lists and maps; the value determines which one applies.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pilothouse.api import schema
from pilothouse.api.schema import Definition, Field, Type

Fields = Mapping[str, "MergeType"]


class MapType:
    """Objects and maps. ``element`` is the type of members without a field; None if there may be none."""

    __slots__ = ("_make_fields", "atomic", "element", "fields", "path_elements")

    fields: Fields
    """The fields with types of their own."""
    path_elements: Mapping[str, tuple[str, "MergeType"]]
    """The same, with their path elements."""

    def __init__(
        self, make_fields: Callable[[], Fields] | None, *, element: "MergeType | None" = None, atomic: bool = False
    ) -> None:
        self._make_fields = make_fields
        self.element = element
        self.atomic = atomic

    def __getattr__(self, name: str) -> Any:
        # Types are recursive, so fields are computed at their first use. From then on they are plain attributes.
        if name not in ("fields", "path_elements"):
            raise AttributeError(name)
        self.fields = self._make_fields() if self._make_fields is not None else {}
        self.path_elements = {field: ("f:" + field, type_) for field, type_ in self.fields.items()}
        return getattr(self, name)

    def member(self, name: str) -> "MergeType | None":
        return self.fields.get(name) or self.element


class ListType:
    """Lists. An associative one has items with ``keys``, or is a set if there are no keys."""

    __slots__ = ("associative", "defaults", "element", "elements", "keys")

    def __init__(
        self, element: "MergeType", *, associative: bool = False, keys: tuple[str, ...] = (), defaults: Any = None
    ) -> None:
        self.element = element
        self.associative = associative
        self.keys = keys
        self.defaults: Mapping[str, Any] = defaults or {}
        """The defaults of keys that an item lacks."""
        self.elements: dict[Any, str] = {}
        """Path elements by the values of keys: the same few names are frequent. Filled by ``field_walks``."""


class MergeType:
    """The allowed values. ``scalar`` is "string", "numeric", "boolean", "untyped", or "" for none."""

    __slots__ = ("list", "map", "scalar")

    def __init__(self, scalar: str = "", map_: MapType | None = None, list_: ListType | None = None) -> None:
        self.scalar = scalar
        self.map = map_
        self.list = list_


UNTYPED_ATOMIC = MergeType("untyped")
"""Anything, as an atomic value."""
UNTYPED_ATOMIC.map = MapType(None, element=UNTYPED_ATOMIC, atomic=True)
UNTYPED_ATOMIC.list = ListType(UNTYPED_ATOMIC)

DEDUCED = MergeType("untyped")
"""Anything; objects are granular, lists atomic."""
DEDUCED.map = MapType(None, element=DEDUCED)
DEDUCED.list = ListType(UNTYPED_ATOMIC)

_STRING, _NUMERIC, _BOOLEAN = MergeType("string"), MergeType("numeric"), MergeType("boolean")
_UNTYPED = MergeType("untyped")
_SCALARS = {
    "string": _STRING,
    "bytes": _STRING,
    "int32": _NUMERIC,
    "int64": _NUMERIC,
    "number": _NUMERIC,
    "bool": _BOOLEAN,
    "quantity": _UNTYPED,
    "int-or-string": UNTYPED_ATOMIC,
    "time": _UNTYPED,
    "micro-time": _UNTYPED,
    "any": UNTYPED_ATOMIC,
}


# Built-in kinds -----------------------------------------------------------------------------------------------------


@cache
def of_kind(group: str, version: str, kind: str) -> MergeType | None:
    definition = schema.load().for_kind(group, version, kind)
    return None if definition is None else of_definition(definition)


def of_definition(definition: Definition, map_type: str = "") -> MergeType:
    """The type of an object. ``map_type`` is from the field that contains it, and overrides the object's own."""
    return _of_definition(definition, (map_type or definition.map_type) == "atomic")


@cache
def _of_definition(definition: Definition, atomic: bool) -> MergeType:
    def fields() -> Fields:
        return {name: _of_field(field) for name, field in definition.fields.items()}

    # An object without fields may have any.
    element = None if definition.fields else DEDUCED
    return MergeType(map_=MapType(fields, element=element, atomic=atomic))


_ZEROS = {"string": "", "int32": 0, "int64": 0}
_ODD_KEYS = {
    # LocalObjectReference.name is optional and has a default; ServerStorageVersion.apiServerID is required and has
    # none.
    ("io.k8s.api.core.v1.LocalObjectReference", "name"): "",
    ("io.k8s.api.apiserverinternal.v1alpha1.ServerStorageVersion", "apiServerID"): None,
}


def _key_default(definition: Definition, key: str) -> Any:
    """The default of a list key in items without it; None if it is required.

    A required field has Go's zero value as default in upstream's schemas (kube-openapi ``pkg/generators/openapi.go``,
    ``mustEnforceDefault``; the result is in client-go's ``applyconfigurations/internal/internal.go``, v0.36).
    """
    field = definition.fields[key]
    if (definition.name, key) in _ODD_KEYS:
        return _ODD_KEYS[definition.name, key]
    if field.default is not None or not field.required:
        return field.default
    return _ZEROS.get(field.type.name)


def _of_field(field: Field) -> MergeType:
    if field.type.name == "object":
        return of_definition(field.type.definition, field.map_type)
    if field.type.name == "map":
        return MergeType(map_=MapType(None, element=_of_type(_element(field.type)), atomic=field.map_type == "atomic"))
    if field.type.name == "list":
        element = _element(field.type)
        associative = field.list_type in ("map", "set")
        defaults: dict[str, Any] = {}
        if field.map_keys and element.name == "object":
            key_defaults = {key: _key_default(element.definition, key) for key in field.map_keys}
            defaults = {key: default for key, default in key_defaults.items() if default is not None}
        return MergeType(
            list_=ListType(_of_type(element), associative=associative, keys=field.map_keys, defaults=defaults)
        )
    return _SCALARS[field.type.name]


@cache
def _of_type(type_: Type) -> MergeType:
    """The type of an element of a list or map."""
    if type_.name == "object":
        return of_definition(type_.definition)
    if type_.name == "map":
        return MergeType(map_=MapType(None, element=_of_type(_element(type_))))
    if type_.name == "list":
        return MergeType(list_=ListType(_of_type(_element(type_))))
    return _SCALARS[type_.name]


def _element(type_: Type) -> Type:
    assert type_.element is not None, "lists and maps have elements"
    return type_.element


# Custom resources ---------------------------------------------------------------------------------------------------

_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_STRUCTURAL_SCALARS = {"string": _STRING, "integer": _NUMERIC, "number": _NUMERIC, "boolean": _BOOLEAN}


def of_structural(root: Mapping[str, Any]) -> MergeType:
    """The type of a custom resource with this ``openAPIV3Schema``; without one, types are deduced from values.

    After kube-openapi ``pkg/schemaconv/openapi.go``, applied to what apiextensions publishes of a structural schema
    (v0.36).
    """
    if not root or (root.get("x-kubernetes-preserve-unknown-fields") and not root.get("properties")):
        return _whole_object(DEDUCED, {})
    type_ = _of_structural(root)
    fields = type_.map.fields if type_.map is not None else {}
    return _whole_object(type_, fields)


def _whole_object(type_: MergeType, fields: Fields) -> MergeType:
    """Every object has kind and metadata, whatever its schema specifies."""
    object_fields = {"apiVersion": _STRING, "kind": _STRING, "metadata": _metadata()}
    shape = type_.map
    element = shape.element if shape is not None else None
    return MergeType(map_=MapType(lambda: {**fields, **object_fields}, element=element))


def _metadata() -> MergeType:
    return of_definition(schema.load().definition(_OBJECT_META))


def _of_structural(node: Mapping[str, Any]) -> MergeType:
    if node.get("x-kubernetes-int-or-string"):
        return _UNTYPED
    kind = node.get("type")
    preserves = bool(node.get("x-kubernetes-preserve-unknown-fields"))
    if kind == "array":
        return MergeType(list_=_list_of(node))
    if kind == "object":
        return MergeType(map_=_map_of(node, preserves=preserves))
    if kind in _STRUCTURAL_SCALARS:
        return _STRUCTURAL_SCALARS[kind]
    return DEDUCED if preserves else UNTYPED_ATOMIC


def _map_of(node: Mapping[str, Any], *, preserves: bool) -> MapType:
    properties = node.get("properties") or {}
    additional = node.get("additionalProperties")
    element: MergeType | None = None
    if isinstance(additional, Mapping):
        element = _of_structural(additional)
    elif additional or preserves or (additional is None and not properties):
        element = DEDUCED
    embedded = bool(node.get("x-kubernetes-embedded-resource"))

    def fields() -> Fields:
        members = {name: _of_structural(below) for name, below in properties.items()}
        if embedded:
            members |= {"apiVersion": _STRING, "kind": _STRING, "metadata": _metadata()}
        return members

    return MapType(fields, element=element, atomic=node.get("x-kubernetes-map-type") == "atomic")


def _list_of(node: Mapping[str, Any]) -> ListType:
    items = node.get("items") or {}
    element = _of_structural(items) if items else DEDUCED
    kind = node.get("x-kubernetes-list-type")
    keys = tuple(node.get("x-kubernetes-list-map-keys") or ()) if kind == "map" else ()
    properties = items.get("properties") or {}
    defaults = {key: properties[key]["default"] for key in keys if "default" in (properties.get(key) or {})}
    return ListType(element, associative=kind in ("map", "set"), keys=keys, defaults=defaults)
