"""Converts OpenAPI v3 operations to v2 (Swagger 2.0), as kube-openapi. Bodies are parameters in v2."""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.apiserver.openapi.schemas import V2, V3

_MEDIA_TYPES = (
    "*/*",
    "text/plain",
    "application/json",
    "application/jwk-set+json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
"""In the order in which upstream registers them; v3 sorts them."""
_encode = msgspec.json.Encoder(order="sorted").encode


class SharedParameters:
    """The parameters of a document that do not depend on a kind, which operations refer to (kube-openapi
    ``pkg/builder/parameters.go``, v0.36)."""

    def __init__(self) -> None:
        self.by_name: dict[str, dict[str, Any]] = {}
        self._names: dict[bytes, str] = {}

    def share(self, parameter: dict[str, Any]) -> dict[str, Any]:
        """The reference to a parameter, or the parameter itself if it is not shared."""
        name, location = parameter["name"], parameter["in"]
        # kubectl before 1.27 finds out by fieldValidation and dryRun in an operation whether it supports them.
        if name == "name" or (location == "query" and name in ("fieldValidation", "dryRun")):
            return parameter
        if location == "body" and not parameter["schema"].get("$ref", "").startswith(f"{V2}io.k8s.apimachinery"):
            return parameter
        key = _encode(parameter)
        shared_name = self._names.get(key)
        if shared_name is None:
            shared_name = self._names[key] = f"{name}-{_hash(_as_go(parameter))}"
            self.by_name[shared_name] = parameter
        return {"$ref": f"#/parameters/{shared_name}"}


def _as_go(parameter: Mapping[str, Any]) -> bytes:
    """A parameter as Go encodes it: its shape before the remaining keys."""
    order = ("uniqueItems", "type", "description", "name", "in", "required", "schema")
    text = msgspec.json.encode({key: parameter[key] for key in order if key in parameter})
    return text.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")


def _hash(text: bytes) -> str:
    """``base64Hash``: six bytes of FNV-1."""
    value = 0xCBF29CE484222325
    for byte in text:
        value = (value * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF ^ byte
    return base64.urlsafe_b64encode(value.to_bytes(8, "big")[:6]).decode()


def path_item_as_v2(item: Mapping[str, Any], shared: SharedParameters) -> dict[str, Any]:
    """A path item of v3 in v2."""
    return {
        key: [shared.share(_parameter(parameter)) for parameter in value]
        if key == "parameters"
        else _operation(value, shared)
        for key, value in item.items()
    }


def _parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    other_keys = {key: value for key, value in parameter.items() if key != "schema"}
    return {**other_keys, **parameter["schema"]}


def _operation(operation: Mapping[str, Any], shared: SharedParameters) -> dict[str, Any]:
    converted = {
        key: value for key, value in operation.items() if key not in ("requestBody", "responses", "parameters")
    }
    parameters = [_parameter(parameter) for parameter in operation.get("parameters", ())]
    produced = _in_order(operation["responses"]["200"].get("content", {}))
    # Custom resources are written in JSON and YAML, and are not served as protobuf.
    consumed = ["*/*"] if "application/vnd.kubernetes.protobuf" in produced else produced
    body = operation.get("requestBody")
    if body is not None:
        body_schema = next(iter(body["content"].values()))["schema"]
        required = {"required": True} if body.get("required") else {}
        parameters.insert(0, {"name": "body", "in": "body", **required, "schema": _schema(body_schema)})
        consumed = _in_order(body["content"])
    responses = {}
    for code, response in operation["responses"].items():
        content = response.get("content")
        responses[code] = {"description": response["description"]}
        if content:
            responses[code]["schema"] = _schema(next(iter(content.values()))["schema"])
    converted |= {"produces": produced, "schemes": ["https"], "responses": responses}
    if parameters:
        converted["parameters"] = [shared.share(parameter) for parameter in parameters]
    if "x-kubernetes-action" in operation:
        converted["consumes"] = consumed
    elif "$ref" in responses["200"]["schema"]:  # a discovery document
        converted["consumes"] = produced
    return converted


def _in_order(media_types: Mapping[str, Any]) -> list[str]:
    return sorted(media_types, key=_MEDIA_TYPES.index)


def _schema(body_schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a body: any object, or a reference."""
    return {**body_schema, "$ref": body_schema["$ref"].replace(V3, V2)} if "$ref" in body_schema else dict(body_schema)
