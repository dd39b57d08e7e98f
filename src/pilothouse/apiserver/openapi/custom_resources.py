"""OpenAPI schemas of custom resources, in both versions.

The schema of the definition, with the fields that every object has. v2 leaves out what kubectl does not support there
(apiextensions ``pkg/controller/openapi/builder`` and ``pkg/controller/openapi/v2/conversion.go``, v0.36).
"""

from collections.abc import Mapping
from typing import Any

from pilothouse.api import schema
from pilothouse.apiserver.openapi.schemas import V2, V3, SchemaCollector
from pilothouse.apiserver.resources import ResourceInfo

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_NOT_IN_V2 = ("allOf", "oneOf", "anyOf", "not", "nullable", "default")


def schema_inputs(info: ResourceInfo) -> list[str]:
    """What the schema of a custom kind depends on, for its hash."""
    return [repr(_definition_schema(info)), repr(_selectable(info))]


def add_custom(collector: SchemaCollector, info: ResourceInfo, version: str) -> str:
    """Add the schemas of a custom kind and of its list; returns the name of the first. ``version``: ``V2``, ``V3``."""
    reverse = ".".join(reversed(info.group.split(".")))
    name = f"{reverse}.{info.version}.{info.kind}"
    kind = {"group": info.group, "kind": info.kind, "version": info.version}
    extensions: dict[str, Any] = {"x-kubernetes-group-version-kind": [kind]}
    if fields := _selectable(info):
        extensions["x-kubernetes-selectable-fields"] = [{"fieldPath": field} for field in fields]
    metadata = _reference(version, _add_meta(collector, "Namespace"))
    collector.schemas[name] = {**_schema(_definition_schema(info), version, metadata), **extensions}
    extensions["x-kubernetes-group-version-kind"] = [{**kind, "kind": info.list_kind}]
    item = {"$ref": (V2 if version == V2 else V3) + name}
    items = {"type": "array", "items": item, "description": _ITEMS.format(info.resource)}
    list_metadata = _reference(version, _add_meta(collector, "NamespaceList"))
    collector.schemas[f"{name}List"] = {
        "description": f"{info.list_kind} is a list of {info.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": _API_VERSION},
            "kind": {"type": "string", "description": _KIND},
            "metadata": {**list_metadata, "description": _LIST_METADATA},
            "items": items,
        },
        **extensions,
    }
    return name


def _definition_schema(info: ResourceInfo) -> Mapping[str, Any]:
    openapi: Mapping[str, Any] = getattr(info.custom, "openapi", None) or {}
    return openapi


def _selectable(info: ResourceInfo) -> list[str]:
    strategy = getattr(info.custom, "strategy", None)
    return list(strategy.selectable) if strategy is not None else []


def _add_meta(collector: SchemaCollector, kind: str) -> str:
    """The name of the type of ``metadata``, taken from a built-in kind."""
    definition = schema.load().for_kind("", "v1", kind)
    assert definition is not None, "namespaces are built in"
    meta_definition = definition.fields["metadata"].type.definition
    collector.add(meta_definition)
    return meta_definition.name


def _reference(version: str, name: str) -> dict[str, Any]:
    return {"$ref": V2 + name} if version == V2 else {"allOf": [{"$ref": V3 + name}]}


def _schema(structural: Mapping[str, Any], version: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    if version == V2:
        if structural.get(_PRESERVE):
            # With arbitrary properties kubectl would reject all others.
            return {"type": "object"}
        structural = structural_as_v2(structural)
    result = _with_embedded(structural, version, metadata)
    result["type"] = "object"
    result["properties"] = {**(result.get("properties") or {}), **_type_meta(metadata)}
    return result


def _type_meta(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        "metadata": {**metadata, "description": _METADATA},
    }


def _embedded_type_meta(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": {"type": "string", "description": _EMBEDDED_API_VERSION},
        "kind": {"type": "string", "description": _EMBEDDED_KIND},
        "metadata": {**metadata, "description": _METADATA},
    }


def _with_embedded(structural: Mapping[str, Any], version: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The schema, with the fields of an object in every embedded resource (``addEmbeddedProperties``)."""
    result = dict(structural)
    if version == V3 and structural.get("x-kubernetes-int-or-string"):
        result |= _with_types(structural)
    if structural.get("properties"):
        result["properties"] = {
            name: _with_embedded(value, version, metadata) for name, value in structural["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(structural.get(key), Mapping):
            result[key] = _with_embedded(structural[key], version, metadata)
    if structural.get("x-kubernetes-embedded-resource") and not (version == V2 and structural.get(_PRESERVE)):
        result["properties"] = {**(result.get("properties") or {}), **_embedded_type_meta(metadata)}
        required = list(structural.get("required") or ())
        result["required"] = required + [name for name in ("kind", "apiVersion") if name not in required]
    return result


def _with_types(structural: Mapping[str, Any]) -> dict[str, Any]:
    """The unions of an int-or-string, with its types unless it names them already (``Unfold``)."""
    unions, conjunction = structural.get("anyOf"), structural.get("allOf") or ()
    if unions == _INT_OR_STRING or (conjunction and conjunction[0].get("anyOf") == _INT_OR_STRING):
        return {}
    return {"allOf": [{"anyOf": _INT_OR_STRING}, *conjunction]} if unions else {"anyOf": _INT_OR_STRING}


def structural_as_v2(structural: Mapping[str, Any]) -> dict[str, Any]:
    """A structural schema in v2: without unions, nullable values and defaults (``ToStructuralOpenAPIV2``)."""
    result = {key: value for key, value in structural.items() if key not in _NOT_IN_V2}
    preserves = bool(structural.get(_PRESERVE))
    if structural.get("nullable") or preserves:
        for key in ("items", "properties"):
            result.pop(key, None)
    if structural.get("nullable") or (preserves and structural.get("type") == "object"):
        result.pop("type", None)
    if result.get("type") == "array" and "items" not in result:
        del result["type"]
    properties, additional = result.get("properties") or {}, result.get("additionalProperties")
    required = [name for name in structural.get("required") or () if not (properties.get(name) or {}).get("nullable")]
    if isinstance(additional, Mapping) and additional.get("nullable"):
        required = []
    if required:
        result["required"] = required
    else:
        result.pop("required", None)
    if properties:
        result["properties"] = {name: structural_as_v2(value) for name, value in properties.items()}
    if isinstance(result.get("items"), Mapping):
        result["items"] = structural_as_v2(result["items"])
    if isinstance(additional, Mapping):
        result["additionalProperties"] = structural_as_v2(additional)
    return result


_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_API_VERSION = (
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized "
    "schemas to the latest internal value, and may reject unrecognized values. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
)
_KIND = (
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the "
    "endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
)
_EMBEDDED_API_VERSION = (
    "apiVersion defines the versioned schema of this representation of an object. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources"
)
_EMBEDDED_KIND = (
    "kind is a string value representing the type of this object. In CamelCase. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
)
_METADATA = (
    "Standard object's metadata. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)
_LIST_METADATA = (
    "Standard list metadata. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds"
)
_ITEMS = "List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
