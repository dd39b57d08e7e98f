"""Validation of custom objects beyond the schema: embedded resources and the scale subresource.

After apiextensions-apiserver's ``pkg/apiserver/schema/objectmeta`` and ``pkg/registry/customresource/validator.go``
(v0.36).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pilothouse.api import schema as api_schema
from pilothouse.apiserver import field_errors
from pilothouse.apiserver.field_errors import ErrorList, FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic import object_meta
from pilothouse.machinery.bodies import DecodeError, decode_body
from pilothouse.machinery.names import dns_1035_label_errors, path_segment_errors

Node = Mapping[str, Any]
EMBEDDED = "x-kubernetes-embedded-resource"
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_MAX_INT32 = (1 << 31) - 1


class ScalePaths(msgspec.Struct, frozen=True):
    """The JSON paths of the scale subresource (``.spec.replicas``)."""

    spec_replicas: str
    status_replicas: str
    label_selector: str = ""


def children(value: Any, node: Node, path: str) -> Iterator[tuple[str, Node, Any]]:
    """Path, schema and value of each direct child of a value."""
    if isinstance(value, dict):
        properties, additional = node.get("properties") or {}, node.get("additionalProperties")
        for name, member in value.items():
            property_schema = properties.get(name)
            if property_schema is not None:
                yield (f"{path}.{name}" if path else name), property_schema, member
            elif isinstance(additional, dict):
                yield f"{path}[{name}]", additional, member
    elif isinstance(value, list) and node.get("items"):
        for position, item in enumerate(value):
            yield f"{path}[{position}]", node["items"], item


class InvalidEmbedded(DecodeError):
    """The metadata, apiVersion or kind of an embedded resource cannot be decoded; ``error`` is that of the field."""

    def __init__(self, error: FieldError) -> None:
        super().__init__(str(error))
        self.error = error


def check_metadata(obj: Object) -> list[str]:
    """Decode metadata strictly as ObjectMeta, whatever the schema specifies; returns the removed fields as errors.
    Raises ``DecodeError``."""
    meta = obj.get("metadata")
    if meta is None:
        obj["metadata"] = {}
        return []
    decoded = decode_body(msgspec.json.encode(meta), api_schema.load().definition(_OBJECT_META))
    obj["metadata"] = decoded.document
    return [f'unknown field "metadata.{name}"' for name in decoded.unknown]


def prune_embedded(value: Any, node: Node, path: str) -> list[str]:
    """``check_metadata`` for embedded resources. Raises ``InvalidEmbedded``."""
    removed: list[str] = []
    for member_path, member_schema, member in children(value, node, path):
        if member_schema.get(EMBEDDED) and isinstance(member, dict):
            for field in ("apiVersion", "kind"):
                if not isinstance(member.get(field, ""), str):
                    raise InvalidEmbedded(
                        field_errors.invalid(f"{member_path}.{field}", member[field], "must be a string")
                    )
            removed += _prune_metadata(member, member_path)
        removed += prune_embedded(member, member_schema, member_path)
    return removed


def _prune_metadata(member: Object, path: str) -> list[str]:
    if member.get("metadata") is None:
        return []
    try:
        return [text.replace('"metadata.', f'"{path}.metadata.') for text in check_metadata(member)]
    except DecodeError as error:
        raise InvalidEmbedded(field_errors.invalid(f"{path}.metadata", member["metadata"], str(error))) from None


def validate_embedded(value: Any, node: Node, path: str = "") -> ErrorList:
    """Validate kind and metadata of embedded resources (``x-kubernetes-embedded-resource``)."""
    errors: ErrorList = []
    for member_path, member_schema, member in children(value, node, path):
        if member_schema.get(EMBEDDED) and isinstance(member, dict):
            errors += _validate_resource(member, member_path)
        errors += validate_embedded(member, member_schema, member_path)
    return errors


def _validate_resource(obj: Object, path: str) -> ErrorList:
    errors = [field_errors.required(f"{path}.{field}") for field in ("apiVersion", "kind") if field not in obj]
    if "apiVersion" in obj:
        detail = api_version_error(obj["apiVersion"])
        errors += [field_errors.invalid(f"{path}.apiVersion", obj["apiVersion"], detail)] if detail else []
    if "kind" in obj:
        detail = kind_error(obj["kind"])
        errors += [field_errors.invalid(f"{path}.kind", obj["kind"], detail)] if detail else []
    if obj.get("metadata"):
        # Metadata is decoded already, and the name is optional.
        meta = {**obj["metadata"], "name": obj["metadata"].get("name") or "fakename"}
        for error in object_meta.validate_object_meta(meta, path_segment_errors, kube_finalizers=False):
            errors.append(FieldError(f"{path}.{error.field}", error.reason, error.text))
    return errors


def api_version_error(value: Any) -> str:
    """Why the value is not a valid apiVersion, or ""."""
    if not isinstance(value, str):
        return "must be a string"
    if not value:
        return "must not be empty"
    return f"unexpected GroupVersion string: {value}" if value.count("/") > 1 else ""


def kind_error(value: Any) -> str:
    """Why the value is not a valid kind, or ""."""
    if not isinstance(value, str):
        return "must be a string"
    if not value:
        return "must not be empty"
    messages = dns_1035_label_errors(value.lower())
    return "may have mixed case, but should otherwise match: " + ",".join(messages) if messages else ""


def validate_scale(obj: Object, paths: ScalePaths | None) -> ErrorList:
    """Validate the fields that the scale subresource reads."""
    if paths is None:
        return []
    errors: ErrorList = []
    for path in (paths.spec_replicas, paths.status_replicas):
        value, detail = _nested_field(obj, path)
        if not detail and value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            detail = _accessor_error(path, value, "int64")
        if detail:
            errors.append(field_errors.invalid(path, 0, detail))
        elif value is not None and value < 0:
            errors.append(field_errors.invalid(path, value, "should be a non-negative integer"))
        elif value is not None and value > _MAX_INT32:
            errors.append(field_errors.invalid(path, value, f"should be less than or equal to {_MAX_INT32}"))
    if paths.label_selector:
        value, detail = _nested_field(obj, paths.label_selector)
        if not detail and value is not None and not isinstance(value, str):
            detail = _accessor_error(paths.label_selector, value, "string")
        if detail:
            errors.append(field_errors.invalid(paths.label_selector, "", detail))
    return errors


def _nested_field(obj: Any, path: str) -> tuple[Any, str]:
    """The value at a path, and the error of the accessor if there is one."""
    node, prefix = obj, ""
    for segment in path.removeprefix(".").split("."):
        if not isinstance(node, dict):
            if node is None:
                return None, ""
            return None, _accessor_error(f"{prefix}.{segment}", node, "map[string]interface{}")
        node, prefix = node.get(segment), f"{prefix}.{segment}"
    return node, ""


def _accessor_error(path: str, value: Any, expected: str) -> str:
    return f"{path} accessor error: {_format_value(value)} is of the type {_go_type_name(value)}, expected {expected}"


def _format_value(value: Any) -> str:
    """A value as Go's ``%v`` formats it, for the types that occur."""
    if value is True or value is False:
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, list):
        return f"[{' '.join(map(_format_value, value))}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{_format_value(value[name])}' for name in sorted(value))}]"
    return str(value)


def _go_type_name(value: Any) -> str:
    for type_, name in ((bool, "bool"), (int, "int64"), (float, "float64"), (str, "string"), (list, "[]interface {}")):
        if isinstance(value, type_):
            return name
    return "map[string]interface {}"
