"""The parts of a CustomResourceDefinition for views, and what its ``CustomResource`` cannot express. Pure."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from pilothouse.machinery.names import dns_1035_label_errors
from pilothouse.operator.custom_resource import Rule
from pilothouse.operator.python_source import quoted

Schema = Mapping[str, Any]

_API_VERSION = "apiextensions.k8s.io/v1"
TEXTS = frozenset({"description", "title", "example", "externalDocs"})
"""Keywords for humans only: in docstrings, or omitted."""
RULE_FIELDS = dict(zip(Rule.__struct_encode_fields__, Rule.__struct_fields__, strict=True))
"""Fields of a rule on the wire, and the arguments of ``Rule``."""
IMPLIED = ("apiVersion", "kind", "metadata")


class InvalidDefinition(ValueError):
    """The input is not a CustomResourceDefinition from which views can be created; has the reason."""


class _RuleShape(msgspec.Struct, rename="camel"):
    rule: str
    message: str = ""
    message_expression: str = ""
    reason: str = ""
    field_path: str = ""
    optional_old_self: bool | None = None


class _SchemaShape(msgspec.Struct):
    type: str = ""
    properties: dict[str, "_SchemaShape"] = {}
    items: "_SchemaShape | msgspec.UnsetType" = msgspec.UNSET
    rules: list[_RuleShape] = msgspec.field(name="x-kubernetes-validations", default=[])
    additional: "bool | _SchemaShape | None" = msgspec.field(name="additionalProperties", default=None)
    required: list[str] = []
    enum: list[Any] | None = None
    format: str = ""


class _Validation(msgspec.Struct):
    schema: _SchemaShape | None = msgspec.field(name="openAPIV3Schema", default=None)


class _ColumnShape(msgspec.Struct):
    name: str
    type: str
    path: str = msgspec.field(name="jsonPath")


class _SelectableShape(msgspec.Struct):
    path: str = msgspec.field(name="jsonPath")


class _VersionShape(msgspec.Struct):
    name: str
    validation: _Validation | None = msgspec.field(name="schema", default=None)
    columns: list[_ColumnShape] = msgspec.field(name="additionalPrinterColumns", default=[])
    selectable: list[_SelectableShape] = msgspec.field(name="selectableFields", default=[])
    subresources: dict[str, Any] | None = None


class _NamesShape(msgspec.Struct):
    plural: str
    kind: str
    singular: str = ""
    short: list[str] = msgspec.field(name="shortNames", default=[])
    categories: list[str] = []


class _Spec(msgspec.Struct):
    group: str
    names: _NamesShape
    scope: str
    versions: Annotated[list[_VersionShape], msgspec.Meta(min_length=1)]


class _Metadata(msgspec.Struct):
    name: str


class _Definition(msgspec.Struct):
    """The parts of a definition that views need, for validating the types in a file."""

    metadata: _Metadata
    spec: _Spec


def as_json(definition: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with JSON types only: YAML has dates, non-finite numbers, and keys that are not text. Raises
    ``InvalidDefinition``."""
    try:
        document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(definition))
    except (TypeError, ValueError) as error:
        raise InvalidDefinition(f"the definition cannot be written as JSON: {error}") from error
    return document


def check_definition(definition: Mapping[str, Any]) -> None:
    """Raises ``InvalidDefinition`` unless it is a CustomResourceDefinition from which views can be created."""
    if definition.get("kind") != "CustomResourceDefinition":
        raise InvalidDefinition(f"expected a CustomResourceDefinition, got {definition.get('kind') or 'no kind'}")
    if definition.get("apiVersion", _API_VERSION) != _API_VERSION:
        raise InvalidDefinition(f"the definition is of {definition['apiVersion']}, convert it to {_API_VERSION}")
    try:
        msgspec.convert(definition, _Definition)
    except msgspec.ValidationError as error:
        raise InvalidDefinition(f"invalid CustomResourceDefinition: {error}") from error
    _check_names(definition["spec"])


def _check_names(spec: Mapping[str, Any]) -> None:
    """Names that become Python names must be ones that the API server accepts: any other text would get into the
    source. Raises ``InvalidDefinition``."""
    names = spec["names"]
    names_by_path = {"spec.names.kind": str(names["kind"]).lower(), "spec.names.plural": names["plural"]}
    for number, version in enumerate(spec["versions"]):
        names_by_path[f"spec.versions[{number}].name"] = version["name"]
    for field, value in names_by_path.items():
        if errors := dns_1035_label_errors(str(value)):
            raise InvalidDefinition(f"{field}: invalid value {quoted(str(value))}: {errors[0]}")


def root_schema(name: str, version: Mapping[str, Any]) -> Schema:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(schema, Mapping):
        raise InvalidDefinition(f"version {version.get('name')} of {name} has no schema")
    return schema


def bare(schema: Schema) -> dict[str, Any]:
    """Without the fields that all custom resources have."""
    properties = {name: subschema for name, subschema in schema.get("properties", {}).items() if name not in IMPLIED}
    required = [name for name in schema.get("required", ()) if name not in IMPLIED]
    return {**schema, "properties": properties, "required": required}


def _properties(version: Mapping[str, Any]) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = version["schema"]["openAPIV3Schema"].get("properties") or {}
    return properties


def not_expressed(spec: Mapping[str, Any], version: Mapping[str, Any]) -> list[str]:
    """The parts of a definition that its ``CustomResource`` does not have."""
    names, kind = spec["names"], spec["names"]["kind"]
    parts = []
    if names.get("listKind", f"{kind}List") != f"{kind}List":
        parts.append(f"names.listKind: {names['listKind']}")
    if names.get("singular", kind.lower()) not in ("", kind.lower()):
        parts.append(f"names.singular: {names['singular']}")
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        parts.append("conversion: the webhook")
    if spec.get("preserveUnknownFields"):
        parts.append("preserveUnknownFields")
    if version.get("storage") and not version.get("served", True):
        parts.append("that the version is not served")
    for column in version.get("additionalPrinterColumns") or ():
        if "format" in column:
            parts.append(f"the format of column {column['name']}")
    if "status" in (version.get("subresources") or {}) and "status" not in _properties(version):
        parts.append("the subresource status: the schema has no status")
    if "status" in _properties(version) and "status" not in (version.get("subresources") or {}):
        parts.append("that there is no subresource status")
    schema = version["schema"]["openAPIV3Schema"]
    if set(_properties(version).get("metadata", {})) - {"type", *TEXTS}:
        parts.append("the schema of metadata")
    required = [name for name in schema.get("required", ()) if "default" in _properties(version).get(name, {})]
    if odd := required + [name for name in schema.get("required", ()) if name in IMPLIED]:
        parts.append(f"that these are required: {', '.join(odd)}")
    rules = schema.get("x-kubernetes-validations") or ()
    parts += [f"{name} of rule {rule['rule']!r}" for rule in rules for name in rule if name not in RULE_FIELDS]
    expressed = {"type", "properties", "required", "x-kubernetes-validations", *TEXTS}
    parts += [f"{key} of the object" for key in schema if key not in expressed]
    return parts
