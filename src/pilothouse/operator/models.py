"""``pilothouse generate models``: typed views of the CustomResourceDefinitions of others, as Python source.

The inverse of ``schema``: the views are as operator authors write them, and the definition that ``CustomResource``
makes of them equals the given one, apart from what the source names as not expressed. Pure: data in, text out.
"""

import builtins
import functools
import itertools
import keyword
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any

import msgspec

from pilothouse.machinery.names import dns_1035_label_errors
from pilothouse.operator import python_source
from pilothouse.operator.python_source import Brackets, Expression, call, flat, layout, literal, quoted, subscript
from pilothouse.operator.schema import agree

Schema = Mapping[str, Any]

_API_VERSION = "apiextensions.k8s.io/v1"
_TEXTS = frozenset({"description", "title", "example", "externalDocs"})
"""What is for people only: it is in docstrings, or left out."""
_BELOW = frozenset({"properties", "items", "additionalProperties", "required", "default", "nullable"})
"""What is compared where the fields and elements are made."""
_IMPLIED = ("apiVersion", "kind", "metadata")
_UNKNOWN = {"x-kubernetes-preserve-unknown-fields": True}
_LONG = 60
"""Characters of a type that is given a name of its own when it is used within another one."""
_LARGEST = 2**63 - 1
_IMPORTED = ("Any", "Annotated", "Literal", "Column", "CustomResource", "ObjectMeta", "Rule", "Version", "View")
_ANNOTATING = frozenset({"bool", "bytes", "datetime", "dict", "float", "int", "msgspec", "str", "tuple", *_IMPORTED})
"""Names in annotations: a field of such a name would be found in their place in the body of its class."""
_ABSENT = "OPTIONAL"
_CONSTANTS = {
    _ABSENT: (
        'msgspec.Meta(extra_json_schema={"nullable": None})',
        "A field that may be absent; null is not allowed.",
    ),
    "Int": (
        'Annotated[int, msgspec.Meta(extra_json_schema={"format": None})]',
        "An integer without a format.",
    ),
    "Int32": (
        'Annotated[int, msgspec.Meta(extra_json_schema={"format": "int32"})]',
        "An integer of 32 bits.",
    ),
    "AnyObject": (
        'Annotated[dict[str, Any], msgspec.Meta(extra_json_schema={"additionalProperties": None})]',
        "An object whose fields the schema does not name.",
    ),
}


class InvalidDefinition(ValueError):
    """What was given is no CustomResourceDefinition that views can be made of; says why."""


class _SchemaShape(msgspec.Struct):
    type: str = ""
    properties: dict[str, "_SchemaShape"] = {}
    items: "_SchemaShape | None" = None
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


class _VersionShape(msgspec.Struct):
    name: str
    validation: _Validation | None = msgspec.field(name="schema", default=None)
    columns: list[_ColumnShape] = msgspec.field(name="additionalPrinterColumns", default=[])
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
    """The parts of a definition that views are made of, to check the types of what a file has."""

    metadata: _Metadata
    spec: _Spec


class Typed(msgspec.Struct):
    """A type, and the schema that ``schema`` makes of it, without the schemas below it."""

    expression: Expression
    made: dict[str, Any]


def models(definitions: Iterable[Mapping[str, Any]]) -> str:
    """Source of a module with the views of CustomResourceDefinitions (``apiextensions.k8s.io/v1``), and a
    ``CustomResource`` of each version.

    The same definitions give the same text. Raises ``InvalidDefinition`` if there are none, for other objects, and for
    versions without a schema.
    """
    module = _Module()
    try:
        shown = [module.add(definition) for definition in definitions]
    except RecursionError as error:
        raise InvalidDefinition("the schema is nested too deeply") from error
    if not shown:
        raise InvalidDefinition("there is no CustomResourceDefinition to make views of")
    return module.text(shown)


class _Module:
    """The module under construction: what stands in it so far, and the names that are taken."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._taken: set[str] = {*_IMPORTED, *_CONSTANTS, *dir(builtins)}
        self._known: dict[bytes, str] = {}
        """Names of classes and types, by their schema: the same is there once."""
        self._used: set[str] = set()

    def add(self, definition: Mapping[str, Any]) -> str:
        """Views and resources of a definition. Returns its name."""
        if definition.get("kind") != "CustomResourceDefinition":
            raise InvalidDefinition(f"expected a CustomResourceDefinition, got {definition.get('kind') or 'no kind'}")
        if definition.get("apiVersion", _API_VERSION) != _API_VERSION:
            raise InvalidDefinition(f"the definition is of {definition['apiVersion']}, convert it to {_API_VERSION}")
        try:
            msgspec.convert(definition, _Definition)
        except msgspec.ValidationError as error:
            raise InvalidDefinition(f"invalid CustomResourceDefinition: {error}") from error
        spec, name = definition["spec"], str(definition["metadata"]["name"])
        _check_names(spec)
        versions = sorted(spec["versions"], key=lambda each: not each.get("storage", False))
        schemas = [_root_schema(name, each) for each in versions]
        views = [
            self._root(_identifier(spec["names"]["kind"]) + (_pascal(version["name"]) if number else ""), schema)
            for number, (version, schema) in enumerate(zip(versions, schemas, strict=True))
        ]
        alike = [
            number
            for number, schema in enumerate(schemas)
            if number == 0 or not agree(_bare(schema), _bare(schemas[0]))
        ]
        constant = self._free([_constant(spec["names"]["plural"], spec["names"]["kind"])])
        apart = {
            number: f"{constant}_{_constant(versions[number]['name'], '')}"
            for number in range(len(versions))
            if number not in alike
        }
        others = [(versions[number], views[number]) for number in alike[1:]]
        differing = [
            f"version {versions[number]['name']}, whose schema differs: {own}" for number, own in apart.items()
        ]
        self._resource(constant, spec, versions[0], views[0], others, differing)
        for number, own in apart.items():
            self._resource(self._free([own]), spec, versions[number], views[number], [], [])
        return name

    def text(self, shown: list[str]) -> str:
        """The whole module."""
        body = "\n\n\n".join(self._blocks)
        constants = [line for name in _CONSTANTS if name in self._used for line in _shown_constant(name)]
        standard = ["import datetime"] if re.search(r"\bdatetime\.", body) else []
        everything = "\n".join([*constants, body])
        typing = [name for name in ("Annotated", "Any", "Literal") if re.search(rf"\b{name}\b", everything)]
        standard += [f"from typing import {', '.join(typing)}"] if typing else []
        third = ["import msgspec", ""] if "msgspec." in everything else []
        ours = [name for name in _IMPORTED[3:] if re.search(rf"\b{name}\b", body)]
        imports = [*standard, *([""] if standard else []), *third]
        head = python_source.docstring(
            f"Views of {', '.join(shown)}: generated by ``pilothouse generate models``, do not edit.\n\n"
            "Descriptions are docstrings here; the definitions that CustomResource makes have those of objects only.",
            "",
        )
        parts = "\n".join([*head, "", *imports, f"from pilothouse.operator import {', '.join(ours)}"])
        if constants:
            parts += "\n\n" + "\n".join(constants)
        return f"{parts}\n\n\n{body}\n"

    # Resources

    def _root(self, kind: str, schema: Schema) -> str:
        """The view of one version."""
        own = {**schema, "properties": {k: v for k, v in schema.get("properties", {}).items() if k not in _IMPLIED}}
        name = self._free([kind, f"{kind}View"])
        self._struct(name, own, (kind,), root=True)
        return name

    def _resource(
        self,
        constant: str,
        spec: Mapping[str, Any],
        version: Mapping[str, Any],
        view: str,
        others: list[tuple[Mapping[str, Any], str]],
        differing: list[str],
    ) -> None:
        names, missing = spec["names"], [*_not_expressed(spec, version), *differing]
        for other, _view in others:
            missing += [f"version {other['name']}: {each}" for each in _not_expressed(spec, other)]
        arguments: dict[str, Expression] = {"kind": quoted(names["kind"]), "plural": quoted(names["plural"])}
        if spec.get("scope") == "Cluster":
            arguments["namespaced"] = "False"
        for argument, field in (("short_names", "shortNames"), ("categories", "categories")):
            if names.get(field):
                arguments[argument] = literal(names[field])
        arguments |= _version_arguments(version)
        if others:
            further: list[Expression] = [
                Brackets(
                    "Version(",
                    (quoted(each["name"]), other_view, *_named(_served(each) | _version_arguments(each))),
                    ")",
                )
                for each, other_view in others
            ]
            arguments["versions"] = Brackets("[", tuple(further), "]")
        given: tuple[Expression, ...] = (quoted(f"{spec['group']}/{version['name']}"), view)
        lines = [layout(Brackets("CustomResource(", (*given, *_named(arguments)), ")"), before=f"{constant} = ")]
        if missing:
            lines = ["# Not expressed here:", *(python_source.comment(f"* {each}") for each in missing), *lines]
        self._blocks.append("\n".join(lines))

    # Classes

    def _struct(self, name: str, schema: Schema, path: tuple[str, ...], *, root: bool = False) -> None:
        required = schema.get("required", ())
        lines: list[str] = [*python_source.docstring(str(schema.get("description", "")), "    ")]
        if lines:
            lines.append("")
        taken: set[str] = set()
        if root:
            taken.add("metadata")
        properties = schema.get("properties", {})
        # msgspec wants fields without defaults first.
        for wire in sorted(properties, key=lambda name: name not in required or "default" in properties[name]):
            below = properties[wire]
            field = _field_name(wire, taken)
            taken.add(field)
            lines += self._field(field, wire, below, (*path, wire), required=wire in required)
        if root:
            lines.append("    metadata: ObjectMeta = ObjectMeta()")
        self._blocks.append("\n".join([f"class {name}(View, frozen=True):", *(lines or ["    pass"])]))

    def _field(self, field: str, wire: str, schema: Schema, path: tuple[str, ...], *, required: bool) -> list[str]:
        typed = self._type(schema, path)
        extra = _difference(schema, typed.made)
        nullable = bool(schema.get("nullable"))
        default, is_none = None, False
        if "default" in schema:
            given = schema["default"]
            is_own = isinstance(given, bool | int | float | str) and not _is_foreign_default(schema)
            default = flat(literal(given)) if is_own else _zero(schema)
            if not is_own or not given:  # of a zero value ``schema`` makes no default
                extra["default"] = given
            is_none = default is None
        elif not required and len(path) == 2 and schema.get("properties") and "required" not in typed.made:
            default = f"{flat(typed.expression)}()"  # the status is always there, as authors write it
        elif not required:
            default = _zero(schema)
            is_none = default is None
        optional = nullable or is_none
        expression = typed.expression
        if optional:
            expression = f"{flat(self._short(expression, path))} | None" if expression != "Any" else expression
            if not nullable and expression != "Any":
                extra["nullable"] = None
            if nullable and expression == "Any":
                extra["nullable"] = True
        if is_none:
            default = "None"
        expression = self._annotated(expression, extra)
        right: Expression | None = default
        if _camel(field) != wire:
            named: dict[str, Expression] = {"default": default} if default is not None else {}
            right = call("msgspec.field", **named, name=quoted(wire))
        lines = [_assignment(field, expression, right)]
        return [*lines, *python_source.docstring(str(schema.get("description", "")), "    ")]

    # Types

    def _type(self, schema: Schema, path: tuple[str, ...]) -> Typed:
        """The type of values of a schema; what it does not express is left to ``_annotated``."""
        kind, values = schema.get("type"), schema.get("enum")
        if schema.get("x-kubernetes-int-or-string"):
            return Typed("int | str", {"x-kubernetes-int-or-string": True})
        if values and kind == "string" and all(isinstance(each, str) for each in values):
            return Typed(subscript("Literal", map(quoted, values)), {"type": kind, "enum": values})
        if values and kind == "integer" and all(type(each) is int for each in values):
            return Typed(subscript("Literal", map(str, values)), {"type": kind, "enum": values})
        match kind:
            case "string":
                return _string(schema)
            case "integer" | "number":
                return self._number(schema)
            case "boolean":
                return Typed("bool", {"type": kind})
            case "array":
                item = self._element(schema.get("items", {}), (*path, "[]"))
                found = _lengths(schema, {"minItems": "min_length", "maxItems": "max_length"})
                typed = Typed(subscript("tuple", (item, "...")), {"type": kind, **found.made})
                return _constrained(typed, found.expression)
            case "object" if schema.get("properties"):
                return self._object(schema, path)
            case "object" if isinstance(schema.get("additionalProperties"), Mapping):
                item = self._element(schema["additionalProperties"], (*path, "{}"))
                return Typed(subscript("dict", ("str", item)), {"type": kind})
            case "object" if schema.get("additionalProperties") is True:
                return Typed("dict[str, Any]", {"type": kind, "additionalProperties": dict(_UNKNOWN)})
            case "object":
                self._used.add("AnyObject")
                return Typed("AnyObject", {"type": kind})
        return Typed("Any", dict(_UNKNOWN))

    def _number(self, schema: Schema) -> Typed:
        names = {"multipleOf": "multiple_of"}
        names["minimum"] = "gt" if schema.get("exclusiveMinimum") else "ge"
        names["maximum"] = "lt" if schema.get("exclusiveMaximum") else "le"
        found = _lengths(schema, names)
        for name, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if schema.get(name) and bound in found.made:
                found.made[name] = True
        if schema["type"] == "number":
            return _constrained(Typed("float", {"type": "number", **found.made}), found.expression)
        form = schema.get("format")
        if form in ("int64", "int32", None):
            base = {"int64": "int", "int32": "Int32", None: "Int"}[form]
            self._used.add(base)
            made = {"type": "integer", **({"format": form} if form else {}), **found.made}
            return _constrained(Typed(base, made), found.expression)
        return _constrained(Typed("int", {"type": "integer", "format": "int64", **found.made}), found.expression)

    def _object(self, schema: Schema, path: tuple[str, ...]) -> Typed:
        properties = schema["properties"]
        required = [name for name in properties if name in schema.get("required", ())]
        without_default = [name for name in required if "default" not in properties[name]]
        own = {name: schema[name] for name in ("properties", "required", "description") if name in schema}
        key = msgspec.json.encode(own, order="deterministic")
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = self._free(_class_names(path))
            self._struct(name, own, path)
        made: dict[str, Any] = {"type": "object"}
        if without_default:
            made["required"] = without_default
        return Typed(name, made)

    def _element(self, schema: Schema, path: tuple[str, ...]) -> Expression:
        """The type of elements of lists and maps, short enough to stand within another one."""
        typed = self._type(schema, path)
        extra = _difference(schema, typed.made)
        if "default" in schema:
            extra["default"] = schema["default"]
        expression = typed.expression
        if schema.get("nullable"):
            expression = f"{flat(self._short(expression, path))} | None"
        return self._short(self._annotated(expression, extra), path)

    def _short(self, expression: Expression, path: tuple[str, ...]) -> Expression:
        """The expression, or the name that is given to one that is long."""
        text = flat(expression)
        if len(text) <= _LONG:
            return text
        key = text.encode()
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = self._free(_class_names(path))
            self._blocks.append(layout(expression, before=f"{name} = "))
        return name

    def _annotated(self, expression: Expression, extra: dict[str, Any]) -> Expression:
        if not extra:
            return expression
        if extra == {"nullable": None}:
            self._used.add(_ABSENT)
            meta: Expression = _ABSENT
        else:
            meta = call("msgspec.Meta", extra_json_schema=literal(extra))
        if isinstance(expression, Brackets) and expression.head == "Annotated[":
            return subscript("Annotated", (*expression.elements, meta))
        return subscript("Annotated", (expression, meta))

    def _free(self, names: Iterable[str]) -> str:
        """The first name that is not taken; it is from now on."""
        last = ""
        for name in names:
            last = name
            if name not in self._taken and not keyword.iskeyword(name):
                self._taken.add(name)
                return name
        number = 2
        while f"{last}{number}" in self._taken:
            number += 1
        self._taken.add(f"{last}{number}")
        return f"{last}{number}"


def _shown_constant(name: str) -> list[str]:
    value, description = _CONSTANTS[name]
    return [f"{name} = {value}", *python_source.docstring(description, "")]


# Schemas


def _check_names(spec: Mapping[str, Any]) -> None:
    """The names that become names in Python have to be such as the API server takes: whatever else they say would
    stand in the source. Raises ``InvalidDefinition``."""
    names = spec["names"]
    found = {"spec.names.kind": str(names["kind"]).lower(), "spec.names.plural": names["plural"]}
    found |= {f"spec.versions[{number}].name": each["name"] for number, each in enumerate(spec["versions"])}
    for field, value in found.items():
        if errors := dns_1035_label_errors(str(value)):
            raise InvalidDefinition(f"{field}: invalid value {python_source.quoted(str(value))}: {errors[0]}")


def _root_schema(name: str, version: Mapping[str, Any]) -> Schema:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(schema, Mapping):
        raise InvalidDefinition(f"version {version.get('name')} of {name} has no schema")
    return schema


def _bare(schema: Schema) -> dict[str, Any]:
    """Without what every custom resource has."""
    properties = {name: each for name, each in schema.get("properties", {}).items() if name not in _IMPLIED}
    required = [each for each in schema.get("required", ()) if each not in _IMPLIED]
    return {**schema, "properties": properties, "required": required}


def _difference(schema: Schema, made: dict[str, Any]) -> dict[str, Any]:
    """What has to be added to a schema that was made of a type; None for what has to go."""
    wanted = {name: value for name, value in schema.items() if name not in _TEXTS | _BELOW}
    if isinstance(schema.get("additionalProperties"), bool):
        wanted["additionalProperties"] = schema["additionalProperties"]
    if "required" in schema or "required" in made:
        wanted["required"] = schema.get("required")
    if "properties" in schema and not schema["properties"]:
        wanted["properties"] = {}
    extra = {name: value for name, value in wanted.items() if not _same(name, made.get(name), value)}
    return extra | {name: None for name in made if name not in wanted}


def _same(name: str, one: Any, other: Any) -> bool:
    if name in ("enum", "required") and one is not None and other is not None:
        return sorted(map(repr, one)) == sorted(map(repr, other))
    return bool(one == other) and type(one) is type(other)


def _string(schema: Schema) -> Typed:
    match schema.get("format"):
        case "date-time":
            return Typed("datetime.datetime", {"type": "string", "format": "date-time"})
        case "byte":
            return Typed("bytes", {"type": "string", "format": "byte"})
    found = _lengths(schema, {"minLength": "min_length", "maxLength": "max_length"})
    arguments = found.expression
    assert isinstance(arguments, Brackets), "constraints are arguments"
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and _is_portable(pattern):
        found.made["pattern"] = pattern
        arguments = Brackets(arguments.head, (*arguments.elements, *_named({"pattern": quoted(pattern)})), ")")
    return _constrained(Typed("str", {"type": "string", **found.made}), arguments)


def _is_portable(pattern: str) -> bool:
    """Whether Python reads the pattern as Go does: what is not plain stays a matter of the API server."""
    if re.search(r"\\[pPzQECdwsDWSbB]|\[\[:|\(\?|\$", pattern.removesuffix("$")):
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _lengths(schema: Schema, names: Mapping[str, str]) -> Typed:
    """The bounds of a schema as arguments of ``msgspec.Meta``, as far as it takes them."""
    found = {name: schema[name] for name in names if type(schema.get(name)) in (int, float)}
    found = {name: value for name, value in found.items() if abs(value) <= _LARGEST and _fits(schema, value)}
    if "multipleOf" in found and found["multipleOf"] <= 0:
        del found["multipleOf"]
    return Typed(call("msgspec.Meta", **{names[name]: repr(value) for name, value in found.items()}), dict(found))


def _fits(schema: Schema, value: float) -> bool:
    return isinstance(value, int) or schema.get("type") == "number"


def _constrained(typed: Typed, arguments: Expression) -> Typed:
    assert isinstance(arguments, Brackets), "constraints are arguments"
    if not arguments.elements:
        return typed
    return Typed(subscript("Annotated", (typed.expression, arguments)), typed.made)


def _is_foreign_default(schema: Schema) -> bool:
    """Whether a default is a value that its type in Python does not have: 1 for a number that is a string."""
    kinds: dict[str, Any] = {"string": str, "integer": int, "boolean": bool, "number": (int, float)}
    kind = kinds.get(schema.get("type", ""))
    if kind is None:
        return not schema.get("x-kubernetes-int-or-string")
    return not isinstance(schema["default"], kind) or schema.get("format") in ("date-time", "byte")


def _zero(schema: Schema) -> str | None:
    """What an absent field is read as; None if it has to be distinguished from every value."""
    if schema.get("enum") or schema.get("x-kubernetes-int-or-string"):
        return None
    match schema.get("type"):
        case "string" if schema.get("format") not in ("date-time", "byte"):
            return '""'
        case "array":
            return "()"
        case "object" if not schema.get("properties"):
            return "{}"
    return None


def _not_expressed(spec: Mapping[str, Any], version: Mapping[str, Any]) -> list[str]:
    """What of a definition its ``CustomResource`` does not have."""
    names, kind = spec["names"], spec["names"]["kind"]
    found = []
    if names.get("listKind", f"{kind}List") != f"{kind}List":
        found.append(f"names.listKind: {names['listKind']}")
    if names.get("singular", kind.lower()) not in ("", kind.lower()):
        found.append(f"names.singular: {names['singular']}")
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        found.append("conversion: the webhook")
    if spec.get("preserveUnknownFields"):
        found.append("preserveUnknownFields")
    if version.get("storage") and not version.get("served", True):
        found.append("that the version is not served")
    if version.get("selectableFields"):
        found.append("selectableFields: " + ", ".join(each["jsonPath"] for each in version["selectableFields"]))
    for column in version.get("additionalPrinterColumns") or ():
        if "format" in column:
            found.append(f"the format of column {column['name']}")
    if "status" in (version.get("subresources") or {}) and "status" not in _properties(version):
        found.append("the subresource status: the schema has no status")
    if "status" in _properties(version) and "status" not in (version.get("subresources") or {}):
        found.append("that there is no subresource status")
    schema = version["schema"]["openAPIV3Schema"]
    if set(_properties(version).get("metadata", {})) - {"type", *_TEXTS}:
        found.append("the schema of metadata")
    required = [each for each in schema.get("required", ()) if "default" in _properties(version).get(each, {})]
    if odd := required + [each for each in schema.get("required", ()) if each in _IMPLIED]:
        found.append(f"that these are required: {', '.join(odd)}")
    rules = schema.get("x-kubernetes-validations") or ()
    found += [
        f"more than rule and message of rule {each['rule']!r}" for each in rules if set(each) - {"rule", "message"}
    ]
    known = {"type", "properties", "required", "x-kubernetes-validations", *_TEXTS}
    found += [f"{each} of the object" for each in schema if each not in known]
    return found


def _properties(version: Mapping[str, Any]) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = version["schema"]["openAPIV3Schema"].get("properties") or {}
    return properties


def _version_arguments(version: Mapping[str, Any]) -> dict[str, Expression]:
    arguments: dict[str, Expression] = {}
    if version.get("deprecated"):
        arguments["deprecated"] = quoted(version["deprecationWarning"]) if version.get("deprecationWarning") else "True"
    columns = [
        Brackets(
            "Column(",
            (quoted(each["name"]), quoted(each["jsonPath"]), quoted(each["type"]), *_named(_column(each))),
            ")",
        )
        for each in version.get("additionalPrinterColumns") or ()
    ]
    rules = [
        Brackets("Rule(", tuple(quoted(each[part]) for part in ("rule", "message") if part in each), ")")
        for each in version["schema"]["openAPIV3Schema"].get("x-kubernetes-validations") or ()
    ]
    for name, elements in (("columns", columns), ("rules", rules)):
        if elements:
            arguments[name] = Brackets("(", tuple(elements), ",)" if len(elements) == 1 else ")")
    scale = (version.get("subresources") or {}).get("scale")
    if scale:
        arguments["scale"] = literal(scale)
    return arguments


def _column(column: Mapping[str, Any]) -> dict[str, Expression]:
    shown: dict[str, Expression] = {}
    if column.get("description"):
        shown["description"] = quoted(column["description"])
    if column.get("priority"):
        shown["priority"] = literal(column["priority"])
    return shown


def _served(version: Mapping[str, Any]) -> dict[str, Expression]:
    return {} if version.get("served", True) else {"served": "False"}


def _named(arguments: Mapping[str, Expression]) -> tuple[python_source.Named, ...]:
    return tuple(python_source.Named(f"{name}=", value) for name, value in arguments.items())


# Names


def _assignment(field: str, annotation: Expression, right: Expression | None) -> str:
    if right is None:
        return layout(annotation, before=f"{field}: ", indent="    ")
    line = f"    {field}: {flat(annotation)} = {flat(right)}"
    if len(line) <= python_source.WIDTH or isinstance(annotation, str):
        return layout(right, before=f"{field}: {flat(annotation)} = ", indent="    ")
    return layout(annotation, before=f"{field}: ", after=f" = {flat(right)}", indent="    ")


def _words(name: str) -> list[str]:
    """``clusterIPs`` is cluster and ips, ``HTTPRoute`` http and route."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", name))
    return [word for word in re.split(r"[^A-Za-z0-9]+", spaced) if word]


def _field_name(wire: str, taken: Collection[str]) -> str:
    name = "_".join(word.lower() for word in _words(wire)) or "field"
    if name[0].isdigit():
        name = f"field_{name}"
    if keyword.iskeyword(name) or name in _ANNOTATING or name in taken:
        name += "_"
    # Numbers from the fields so far, or many names that differ in punctuation only would take their square.
    numbered = (f"{name}{number}" for number in itertools.count(len(taken)))
    return name if name not in taken else next(each for each in numbered if each not in taken)


@functools.cache
def _camel(name: str) -> str:
    """The name on the wire that msgspec gives to a field of a view."""
    return msgspec.defstruct("Renamed", [name], rename="camel").__struct_encode_fields__[0]


def _pascal(name: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in _words(name))


def _identifier(name: str) -> str:
    """Kinds and plurals may have hyphens."""
    return name.replace("-", "_")


def _singular(name: str) -> str:
    if name.endswith("ies") and len(name) > 4:
        return f"{name[:-3]}y"
    if name.endswith(("sses", "xes", "ches", "shes", "iases", "tuses")):
        return name[:-2]
    return name[:-1] if name.endswith("s") and not name.endswith(("ss", "us", "is")) else name


def _class_names(path: tuple[str, ...]) -> Iterable[str]:
    """Names for what is at a path, the shortest first: those of ``Website``, ``spec`` are WebsiteSpec."""
    parts: list[str] = []
    for part in path:
        if part in ("[]", "{}"):
            parts[-1] = _singular(parts[-1])
        else:
            parts.append(_pascal(part) or "Field")
    least = 2 if len(parts) == 2 else 1
    for count in range(least, len(parts) + 1):
        name = "".join(parts[-count:])
        yield name if not name[0].isdigit() else f"_{name}"


def _constant(name: str, kind: str) -> str:
    """``certificaterequests`` of the kind CertificateRequest is CERTIFICATE_REQUESTS."""
    words = _words(kind)
    if words and name.startswith("".join(words).lower()[:-1]):
        rest = name[len("".join(words[:-1])) :]
        return "_".join([*(word.upper() for word in words[:-1]), _identifier(rest.upper())])
    return "_".join(word.upper() for word in _words(name))
