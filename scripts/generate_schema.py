"""Writes ``src/pilothouse/api/data/schema.json``: what ``pilothouse.api.schema`` loads.

Source is the package kubernetes-validate (a development dependency), which carries the JSON schema of every built-in
type. Run it after the followed Kubernetes release changes, and review the difference: one definition per line.

    python scripts/generate_schema.py
"""

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import kubernetes_validate

VERSION = "1.36.0"
TARGET = Path(__file__).parent.parent / "src/pilothouse/api/data/schema.json"

# Definitions that are one value on the wire, whatever they are in Go.
SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "micro-time",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresourceStatus": "any",
}
FORMATS = {
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
    ("number", "double"): "number",
    ("string", "byte"): "bytes",
    ("string", None): "string",
    ("boolean", None): "bool",
}
# The package leaves out the defaults. Of all defaults only those of list map keys take part in a rule that is driven by
# the schema: server-side apply fills in a missing key (kubernetes v1.36, api/core/v1/types.go, +default="TCP").
KEY_DEFAULTS = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
}


def plain_type(schema: dict[str, Any]) -> str | None:
    found = schema.get("type")
    if isinstance(found, list):
        (found,) = [name for name in found if name != "null"]
    return found


def wire_type(schema: dict[str, Any]) -> str:
    """``string``, ``[string`` (list of), ``{string`` (map of), ``#name`` (another definition), ..."""
    if reference := schema.get("$ref"):
        name = reference.removeprefix("#/$defs/")
        return SCALARS.get(name) or "#" + name
    match plain_type(schema):
        case "array":
            return "[" + wire_type(schema["items"])
        case "object":
            return "{" + wire_type(schema["additionalProperties"])
        case plain:
            return FORMATS[str(plain), schema.get("format")]


def field(definition: str, name: str, schema: dict[str, Any], required: bool) -> str | list[Any]:
    more: dict[str, Any] = {}
    if required:
        more["required"] = True
    for key, target in (
        ("x-kubernetes-list-type", "list_type"),
        ("x-kubernetes-list-map-keys", "map_keys"),
        ("x-kubernetes-map-type", "map_type"),
        ("x-kubernetes-patch-merge-key", "merge_key"),
    ):
        if key in schema:
            more[target] = schema[key]
    if strategies := schema.get("x-kubernetes-patch-strategy"):
        more["patch_strategies"] = strategies.split(",")
    if (definition, name) in KEY_DEFAULTS:
        more["default"] = KEY_DEFAULTS[definition, name]
    wire = wire_type(schema)
    return [wire, more] if more else wire


def main() -> None:
    base = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    source = json.loads((base / f"v{VERSION}-local" / "_definitions.json").read_text())["$defs"]
    strict = json.loads((base / f"v{VERSION}-local-strict" / "_definitions.json").read_text())["$defs"]
    assert source.keys() == strict.keys(), "both variants describe the same types"

    lines = []
    kinds: dict[str, str] = {}
    for name, schema in sorted(source.items()):
        if name in SCALARS:
            continue
        required = set(schema.get("required", ()))
        entry: dict[str, Any] = {
            "fields": {
                key: field(name, key, value, key in required) for key, value in schema.get("properties", {}).items()
            }
        }
        if map_type := schema.get("x-kubernetes-map-type"):
            entry["map_type"] = map_type
        if found := schema.get("x-kubernetes-group-version-kind"):
            entry["kinds"] = [f"{gvk['group']}/{gvk['version']}/{gvk['kind']}" for gvk in found]
            for key in entry["kinds"]:
                assert key not in kinds, f"{key} is both {kinds[key]} and {name}"
                kinds[key] = name
        lines.append(f"{json.dumps(name)}:{json.dumps(entry, separators=(',', ':'))}")

    package = metadata.version("kubernetes-validate")
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(
        f'{{"kubernetes":"{VERSION}","source":"kubernetes-validate {package}",\n'
        + f'"kinds":{json.dumps(dict(sorted(kinds.items())), separators=(",", ":"))},\n'
        + '"definitions":{\n'
        + ",\n".join(lines)
        + "\n}}\n"
    )
    print(f"{TARGET}: {len(lines)} definitions, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
