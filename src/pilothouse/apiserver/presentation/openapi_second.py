"""From OpenAPI v3 to v2 (Swagger 2.0): what kube-openapi leaves of schemas and operations there.

v2 has no unions, no nullable values, no defaults of structural schemas, and bodies are parameters (apiextensions
``pkg/controller/openapi/v2/conversion.go``, v0.36).
"""

from collections.abc import Mapping
from typing import Any

from pilothouse.apiserver.presentation.openapi_schemas import V2, V3

_UNKNOWN_IN_V2 = frozenset({"oneOf", "anyOf", "not", "nullable", "externalDocs", "x-kubernetes-validations"})
_METHODS = frozenset({"get", "put", "post", "delete", "patch"})
_JSON = "application/json"
_PRODUCED = [_JSON, "application/yaml", "application/vnd.kubernetes.protobuf"]


def as_v2(part: Mapping[str, Any]) -> dict[str, Any]:
    """A schema or a path item of v3 as v2 has it."""
    if _METHODS & part.keys() or isinstance(part.get("parameters"), list):
        return _path_item(part)
    return _schema(part)


def _schema(shown: Mapping[str, Any]) -> dict[str, Any]:
    only = shown.get("allOf")
    if only is not None and len(only) == 1 and "$ref" in only[0] and "type" not in shown:
        # v3 wraps a reference to say more beside it.
        rest = {key: value for key, value in shown.items() if key not in ("allOf", "default")}
        return {**rest, "$ref": only[0]["$ref"].replace(V3, V2)}
    converted = {key: value for key, value in shown.items() if key not in _UNKNOWN_IN_V2}
    if shown.get("nullable") or shown.get("x-kubernetes-int-or-string"):
        # A value that may be of two types has none in v2.
        for key in ("type", "items", "properties"):
            converted.pop(key, None)
    if isinstance(converted.get("items"), Mapping):
        converted["items"] = _schema(converted["items"])
    extra = converted.get("additionalProperties")
    if isinstance(extra, Mapping):
        converted["additionalProperties"] = _schema(extra)
    elif extra is not None:
        del converted["additionalProperties"]
    if "properties" in converted:
        converted["properties"] = {name: _schema(value) for name, value in converted["properties"].items()}
    if "allOf" in converted:
        converted["allOf"] = [_schema(value) for value in converted["allOf"]]
    if "$ref" in converted:
        converted["$ref"] = converted["$ref"].replace(V3, V2)
    return converted


def _path_item(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: [_parameter(parameter) for parameter in value] if key == "parameters" else _operation(value)
        for key, value in item.items()
    }


def _parameter(parameter: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in parameter.items() if key != "schema"}
    return {**rest, **parameter["schema"]}


def _operation(operation: Mapping[str, Any]) -> dict[str, Any]:
    converted = {
        key: value for key, value in operation.items() if key not in ("requestBody", "responses", "parameters")
    }
    parameters = [_parameter(parameter) for parameter in operation["parameters"]]
    consumed = ["*/*"]
    body = operation.get("requestBody")
    if body is not None:
        schema = next(iter(body["content"].values()))["schema"]
        parameters.insert(0, {"name": "body", "in": "body", "required": True, "schema": _schema(schema)})
        consumed = list(body["content"]) if len(body["content"]) > 1 else ["*/*"]
    responses = {}
    for code, response in operation["responses"].items():
        content = response.get("content")
        responses[code] = {"description": response["description"]}
        if content:
            responses[code]["schema"] = _schema(content[_JSON]["schema"])
    return {
        **converted,
        "consumes": consumed,
        "produces": list(_PRODUCED),
        "schemes": ["https"],
        "parameters": parameters,
        "responses": responses,
    }
