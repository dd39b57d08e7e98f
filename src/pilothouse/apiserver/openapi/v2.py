"""Converts OpenAPI v3 operations to v2 (Swagger 2.0), as kube-openapi. Bodies are parameters in v2."""

from collections.abc import Mapping
from typing import Any

from pilothouse.apiserver.openapi.schemas import V2, V3

_JSON = "application/json"
_PRODUCED = [_JSON, "application/yaml", "application/vnd.kubernetes.protobuf"]


def path_item_as_v2(item: Mapping[str, Any]) -> dict[str, Any]:
    """A path item of v3 in v2."""
    return {
        key: [_parameter(parameter) for parameter in value] if key == "parameters" else _operation(value)
        for key, value in item.items()
    }


def _parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    other_keys = {key: value for key, value in parameter.items() if key != "schema"}
    return {**other_keys, **parameter["schema"]}


def _operation(operation: Mapping[str, Any]) -> dict[str, Any]:
    converted = {
        key: value for key, value in operation.items() if key not in ("requestBody", "responses", "parameters")
    }
    parameters = [_parameter(parameter) for parameter in operation["parameters"]]
    consumed = ["*/*"]
    body = operation.get("requestBody")
    if body is not None:
        schema = next(iter(body["content"].values()))["schema"]
        required = {"required": True} if body.get("required") else {}
        parameters.insert(0, {"name": "body", "in": "body", **required, "schema": _schema(schema)})
        consumed = list(body["content"]) if len(body["content"]) > 1 else ["*/*"]
    responses = {}
    for code, response in operation["responses"].items():
        content = response.get("content")
        responses[code] = {"description": response["description"]}
        if content:
            responses[code]["schema"] = _schema(next(iter(content.values()))["schema"])
    return {
        **converted,
        "consumes": consumed,
        "produces": list(_PRODUCED),
        "schemes": ["https"],
        "parameters": parameters,
        "responses": responses,
    }


def _schema(body_schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a body: any object, or a reference."""
    return {**body_schema, "$ref": body_schema["$ref"].replace(V3, V2)} if "$ref" in body_schema else dict(body_schema)
