"""OpenAPI schemas of built-in types, from the table in ``api.schema`` and that of ``facts``.

Descriptions are not in that table. They are added if the optional package ``kubernetes-validate`` is installed (``pip
install pilothouse[explain]``), for ``kubectl explain``; without it only fields and types are available.
"""

import importlib.util
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from pilothouse import KUBERNETES_VERSION
from pilothouse.api import schema
from pilothouse.api.schema import Definition, Field, Type
from pilothouse.apiserver.openapi import facts

V3 = "#/components/schemas/"
V2 = "#/definitions/"

PATCH = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
_MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"

_SIMPLE: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bool": {"type": "boolean"},
    "number": {"type": "number", "format": "double"},
    "bytes": {"type": "string", "format": "byte"},
}
_NAMED: dict[str, tuple[str, dict[str, Any]]] = {
    "quantity": (_QUANTITY, {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "int-or-string": (_INT_OR_STRING, {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
    "time": (_TIME, {"type": "string", "format": "date-time"}),
    "micro-time": (_MICRO_TIME, {"type": "string", "format": "date-time"}),
}


_NOT_IN_CLIENT_GO = frozenset(
    ("admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io")
)
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_UNTYPED = {
    ("ManagedFieldsEntry", "fieldsV1"): "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    ("CustomResourceSubresources", "status"): f"{_EXTENSIONS}CustomResourceSubresourceStatus",
    ("JSONSchemaProps", "additionalItems"): f"{_EXTENSIONS}JSONSchemaPropsOrBool",
    ("JSONSchemaProps", "additionalProperties"): f"{_EXTENSIONS}JSONSchemaPropsOrBool",
    ("JSONSchemaProps", "default"): f"{_EXTENSIONS}JSON",
    ("JSONSchemaProps", "dependencies"): f"{_EXTENSIONS}JSONSchemaPropsOrStringArray",
    ("JSONSchemaProps", "enum"): f"{_EXTENSIONS}JSON",
    ("JSONSchemaProps", "example"): f"{_EXTENSIONS}JSON",
    ("JSONSchemaProps", "items"): f"{_EXTENSIONS}JSONSchemaPropsOrArray",
}
"""Type and field → the name of its schema, for fields of any type; others are a RawExtension. ``kubectl explain
--recursive`` fails on a schema without name and type."""
_OBJECTS = frozenset((_RAW_EXTENSION, *(name for name in _UNTYPED.values() if "JSON" not in name)))


@cache
def _descriptions_file() -> Path | None:
    """The file with the descriptions, if the optional package is installed and has this release."""
    spec = importlib.util.find_spec("kubernetes_validate")
    if spec is None or spec.origin is None:
        return None
    major, minor, _patch = KUBERNETES_VERSION.removeprefix("v").split(".")
    folder = Path(spec.origin).parent / "kubernetes-json-schema" / f"v{major}.{minor}.0-local"
    path = folder / "_definitions.json"
    return path if path.exists() else None


def is_described() -> bool:
    """Whether descriptions are available, without reading them."""
    return _descriptions_file() is not None


@cache
def descriptions() -> Mapping[str, Mapping[str, Any]]:
    """Definition → its JSON schema with descriptions, from the optional package; empty without it."""
    path = _descriptions_file()
    if path is None:
        return {}
    definitions: Mapping[str, Mapping[str, Any]] = msgspec.json.decode(path.read_bytes())["$defs"]
    return definitions


def _description(name: str) -> dict[str, Any]:
    text = descriptions().get(name, {}).get("description")
    return {"description": text} if text else {}


def _name_if_any(definition: Definition, field: str) -> str:
    return _UNTYPED.get((definition.name.rpartition(".")[2], field), _RAW_EXTENSION)


class SchemaCollector:
    """Collects definitions and everything they refer to, under ``#/components/schemas/`` or ``#/definitions/``.

    ``group_version`` is that of a document of v3 of built-in resources.
    """

    def __init__(self, prefix: str = V3, group_version: tuple[str, str] | None = None) -> None:
        self._prefix = prefix
        self._group_version = group_version
        self.schemas: dict[str, dict[str, Any]] = {}

    def add_kind(self, group: str, version: str, kind: str) -> str | None:
        """Add a built-in kind; returns the name of its definition, or None if it is unknown."""
        definition = schema.load().for_kind(group, version, kind)
        if definition is None:
            return None
        self.add(definition)
        return definition.name

    def add(self, definition: Definition) -> None:
        """Add a definition and its references."""
        if definition.name in self.schemas:
            return
        result: dict[str, Any] = {"type": "object"}
        self.schemas[definition.name] = result
        described = descriptions().get(definition.name, {})
        if text := described.get("description"):
            result["description"] = text
        fields = described.get("properties") or {}
        if required := facts.required_fields(definition):
            result["required"] = required
        if definition.fields:
            result["properties"] = {
                name: self._field(definition, field, (fields.get(name) or {}).get("description", ""))
                for name, field in sorted(definition.fields.items())
            }
        if definition.map_type:
            result["x-kubernetes-map-type"] = definition.map_type
        if definition.kinds:
            result["x-kubernetes-group-version-kind"] = [
                {"group": group, "kind": kind, "version": version} for group, version, kind in self._kinds(definition)
            ]
        if unions := facts.facts().unions.get(definition.name):
            result["x-kubernetes-unions"] = unions

    def _kinds(self, definition: Definition) -> Iterable[tuple[str, str, str]]:
        """The kinds of a definition. DeleteOptions and WatchEvent are kinds of every group; the document of one group
        version has only its own, and that of custom resources those of client-go."""
        kinds = definition.kinds
        if self._prefix == V2 or len(kinds) == 1:
            return kinds
        if self._group_version is None:
            return [kind for kind in kinds if kind[0] not in _NOT_IN_CLIENT_GO]
        return [kind for kind in kinds if kind[:2] in (("", "v1"), self._group_version)]

    def add_named(self, name: str) -> None:
        """Add a schema by its name, which may be one without fields: ``Patch``."""
        if name == PATCH:
            self.schemas[name] = {"type": "object", **_description(name)}
        elif name not in self.schemas:
            self.add(schema.load().definition(name))

    def _field(self, definition: Definition, field: Field, description: str) -> dict[str, Any]:
        result = self._type(field.type, _name_if_any(definition, field.name))
        if (enum := facts.enum_of(definition, field.name)) is not None:
            _innermost(result)["enum"] = list(enum.values)
            description = description and f"{description}{enum.description}"
        reference = result.pop("$ref", None)
        if self._prefix == V3 and (default := facts.default_of(definition, field.name)) is not None:
            result["default"] = default
        if description:
            result["description"] = description
        if field.list_type:
            result["x-kubernetes-list-type"] = field.list_type
        if field.map_keys:
            result["x-kubernetes-list-map-keys"] = list(field.map_keys)
        if field.map_type:
            result["x-kubernetes-map-type"] = field.map_type
        if field.patch_strategies:
            result["x-kubernetes-patch-strategy"] = ",".join(field.patch_strategies)
        if field.merge_key:
            result["x-kubernetes-patch-merge-key"] = field.merge_key
        if reference is None:
            return result
        # In v3 nothing may stand beside a reference.
        return (
            {**result, "allOf": [{"$ref": reference}]}
            if result and self._prefix == V3
            else {"$ref": reference, **result}
        )

    def _type(self, value: Type, name_if_any: str) -> dict[str, Any]:
        """The schema of a type; ``name_if_any`` is that of its values if they have any type."""
        if value.name == "any":
            shape = {"type": "object"} if name_if_any in _OBJECTS else {}
            self.schemas.setdefault(name_if_any, {**shape, **_description(name_if_any)})
            return self._reference(name_if_any)
        simple = _SIMPLE.get(value.name)
        if simple is not None:
            return dict(simple)
        named_type = _NAMED.get(value.name)
        if named_type is not None:
            name, type_schema = named_type
            self.schemas.setdefault(name, self._named_schema(name, type_schema))
            return self._reference(name)
        if value.name == "object":
            self.add(value.definition)
            return self._reference(value.definition.name)
        assert value.element is not None, f"a {value.name} has elements"
        if value.name == "list":
            return {"type": "array", "items": self._type(value.element, name_if_any)}
        return {"type": "object", "additionalProperties": self._type(value.element, name_if_any)}

    def _named_schema(self, name: str, type_schema: dict[str, Any]) -> dict[str, Any]:
        if self._prefix == V2:
            # Swagger 2 has no unions; upstream uses strings for both.
            type_schema = {"type": "string", **({"format": type_schema["format"]} if "format" in type_schema else {})}
        return {**type_schema, **_description(name)}

    def _reference(self, name: str) -> dict[str, Any]:
        return {"$ref": self._prefix + name}


def _innermost(value: dict[str, Any]) -> dict[str, Any]:
    """The schema of the elements of lists and maps, or of the value itself."""
    while inner := value.get("items") or value.get("additionalProperties"):
        value = inner
    return value
