"""Make ``src/pilothouse/apiserver/data/openapi.json``: what OpenAPI documents have beyond the table of types.

    python scripts/make_openapi_facts.py DOCUMENT.json... > src/pilothouse/apiserver/data/openapi.json

The documents are the OpenAPI v3 documents of the followed release: those in ``api/openapi-spec/v3`` of
kubernetes/kubernetes, which have every group version but no enums, and then those that its kube-apiserver serves, which
have enums. Of two definitions with one name, the later counts. What the table of types and ``printed.json`` imply (see
``openapi.schemas``) is left out.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pilothouse.api import schema

_KINDS = "x-kubernetes-group-version-kind"
_LISTED = "\n\nPossible enum values:\n"
_ZEROS = frozenset(("string", "int32", "int64", "bool", "number"))


def main(files: list[str]) -> None:
    """Print the table."""
    documents = [json.loads(Path(file).read_text()) for file in files]
    table: dict[str, Any] = {"enums": [], "values": {}, "defaults": {}, "structs": {}, "required": {}, "unions": {}}
    definitions: dict[str, Any] = {}
    for document in documents:
        definitions |= document.get("components", {}).get("schemas", {})
    for name, described in sorted(definitions.items()):
        if name in schema.load().names:
            _add_definition(table, name, described)
    table["parameters"] = _parameters(documents)
    parts = ",\n".join(
        f'"{key}": '
        + ("[\n" if isinstance(part, list) else "{\n")
        + _lines(part)
        + ("\n]" if isinstance(part, list) else "\n}")
        for key, part in table.items()
    )
    print("{\n" + parts + "\n}")


def _lines(part: Any) -> str:
    if isinstance(part, list):
        return ",\n".join(json.dumps(value) for value in part)
    return ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(part.items()))


def _add_definition(table: dict[str, Any], name: str, described: dict[str, Any]) -> None:
    definition = schema.load().definition(name)
    for field, value in described.get("properties", {}).items():
        inner = value
        while "items" in inner or isinstance(inner.get("additionalProperties"), dict):
            inner = inner.get("items") or inner["additionalProperties"]
        if "enum" in inner:
            _text, mark, listed = value.get("description", "").partition(_LISTED)
            enum = [inner["enum"], mark + listed]
            if enum not in table["enums"]:
                table["enums"].append(enum)
            table["values"].setdefault(name, {})[field] = table["enums"].index(enum)
        if "default" not in value:
            continue
        default, type_name = value["default"], definition.fields[field].type.name
        if default == {}:
            if field != "metadata" and field not in definition.printed:
                table["structs"].setdefault(name, []).append(field)
        elif type_name not in _ZEROS or definition.printed.get(field) != default:
            table["defaults"].setdefault(name, {})[field] = default
    required = described.get("required") or []
    known = [field for field in definition.printed if field in required]
    if required != known + sorted(set(required) - set(known)):
        table["required"][name] = required
    if unions := described.get("x-kubernetes-unions"):
        table["unions"][name] = unions


def _parameters(documents: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Name → type and description of query parameters, with the kind before the name for those of one kind (``connect``
    operations, and the log), and ``patch/`` before ``fieldManager``."""
    found: dict[str, list[str]] = {}
    for document in documents:
        for item in document["paths"].values():
            common = item.get("parameters", [])
            for method, operation in item.items():
                if method == "parameters":
                    continue
                for parameter in common + operation.get("parameters", []):
                    if parameter["in"] == "query":
                        name = _key(parameter["name"], method, operation)
                        found[name] = [parameter["schema"]["type"], parameter["description"]]
    return found


def _key(name: str, method: str, operation: dict[str, Any]) -> str:
    if name == "fieldManager" and method == "patch":
        return f"patch/{name}"
    if operation.get("x-kubernetes-action") == "connect":
        return f"{operation[_KINDS]['kind']}/{name}"
    if operation["operationId"] == "readCoreV1NamespacedPodLog" and name not in ("pretty",):
        return f"PodLogOptions/{name}"
    return name


if __name__ == "__main__":
    main(sys.argv[1:])
