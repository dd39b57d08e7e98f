"""The module that ``pilothouse generate models`` prints. Pure: data in, text out."""

import builtins
import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.operator import python_source
from pilothouse.operator.models.definitions import (
    IMPLIED,
    InvalidDefinition,
    Schema,
    as_json,
    bare,
    check_definition,
    not_expressed,
    root_schema,
)
from pilothouse.operator.models.names import IMPORTED, camel, class_names, constant_name, field_name, identifier, pascal
from pilothouse.operator.models.resource_arguments import served, version_arguments
from pilothouse.operator.models.value_types import (
    Typed,
    bounds,
    constrained,
    difference,
    is_foreign_default,
    string_type,
    zero_value,
)
from pilothouse.operator.python_source import (
    Brackets,
    Expression,
    call,
    flat,
    layout,
    literal,
    named,
    quoted,
    subscript,
)
from pilothouse.operator.schema import agree

_UNKNOWN = {"x-kubernetes-preserve-unknown-fields": True}
_LONG = 60
"""Length of a type from which it gets a name when it is used within another one."""
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


def models(definitions: Iterable[Mapping[str, Any]]) -> str:
    """Source of a module with the views of CustomResourceDefinitions (``apiextensions.k8s.io/v1``), and a
    ``CustomResource`` of each version.

    Equal definitions give equal text. Raises ``InvalidDefinition`` if there are none, for other objects, and for
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
    """The module under construction: its text so far, and the used names."""

    def __init__(self) -> None:
        self._blocks: list[str] = []
        self._taken: set[str] = {*IMPORTED, *_CONSTANTS, *dir(builtins)}
        self._known: dict[bytes, str] = {}
        """Names of classes and types, by their schema: the same is there once."""
        self._used: set[str] = set()

    def add(self, definition: Mapping[str, Any]) -> str:
        """Views and resources of a definition. Returns its name."""
        definition = as_json(definition)
        check_definition(definition)
        spec, name = definition["spec"], str(definition["metadata"]["name"])
        versions = sorted(spec["versions"], key=lambda version: not version.get("storage", False))
        schemas = [root_schema(name, entry) for entry in versions]
        views = [
            self._root(identifier(spec["names"]["kind"]) + (pascal(version["name"]) if number else ""), schema)
            for number, (version, schema) in enumerate(zip(versions, schemas, strict=True))
        ]
        alike = [
            number for number, schema in enumerate(schemas) if number == 0 or not agree(bare(schema), bare(schemas[0]))
        ]
        constant = self._free([constant_name(spec["names"]["plural"], spec["names"]["kind"])])
        apart = {
            number: f"{constant}_{constant_name(versions[number]['name'], '')}"
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

    def text(self, docstring: list[str]) -> str:
        """The whole module."""
        body = "\n\n\n".join(self._blocks)
        constants = [line for name in _CONSTANTS if name in self._used for line in _shown_constant(name)]
        standard = ["import datetime"] if re.search(r"\bdatetime\.", body) else []
        everything = "\n".join([*constants, body])
        typing = [name for name in ("Annotated", "Any", "Literal") if re.search(rf"\b{name}\b", everything)]
        standard += [f"from typing import {', '.join(typing)}"] if typing else []
        third = ["import msgspec", ""] if "msgspec." in everything else []
        own_names = [name for name in IMPORTED[3:] if re.search(rf"\b{name}\b", body)]
        imports = [*standard, *([""] if standard else []), *third]
        head = python_source.docstring(
            f"Views of {', '.join(docstring)}: generated by ``pilothouse generate models``, do not edit.\n\n"
            "Descriptions are docstrings here; the definitions that CustomResource makes have their first paragraphs.",
            "",
        )
        parts = "\n".join([*head, "", *imports, f"from pilothouse.operator import {', '.join(own_names)}"])
        if constants:
            parts += "\n\n" + "\n".join(constants)
        return f"{parts}\n\n\n{body}\n"

    # Resources

    def _root(self, kind: str, schema: Schema) -> str:
        """The view of one version."""
        own = {**schema, "properties": {k: v for k, v in schema.get("properties", {}).items() if k not in IMPLIED}}
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
        names, missing = spec["names"], [*not_expressed(spec, version), *differing]
        for other, _view in others:
            missing += [f"version {other['name']}: {text}" for text in not_expressed(spec, other)]
        arguments: dict[str, Expression] = {"kind": quoted(names["kind"]), "plural": quoted(names["plural"])}
        if spec.get("scope") == "Cluster":
            arguments["namespaced"] = "False"
        for argument, field in (("short_names", "shortNames"), ("categories", "categories")):
            if names.get(field):
                arguments[argument] = literal(names[field])
        arguments |= version_arguments(version)
        if others:
            further: list[Expression] = [
                Brackets(
                    "Version(",
                    (quoted(version["name"]), other_view, *named(served(version) | version_arguments(version))),
                    ")",
                )
                for version, other_view in others
            ]
            arguments["versions"] = Brackets("[", tuple(further), "]")
        arguments["zero_defaults"] = "False"  # the definition has those that it has
        positional: tuple[Expression, ...] = (quoted(f"{spec['group']}/{version['name']}"), view)
        lines = [layout(Brackets("CustomResource(", (*positional, *named(arguments)), ")"), before=f"{constant} = ")]
        if missing:
            lines = ["# Not expressed here:", *(python_source.comment(f"* {text}") for text in missing), *lines]
        self._blocks.append("\n".join(lines))

    # Classes

    def _struct(self, name: str, schema: Schema, path: tuple[str, ...], *, root: bool = False) -> None:
        required = schema.get("required", ())
        lines: list[str] = [*python_source.docstring(str(schema.get("description", "")), "    ")]
        if lines:
            lines.append("")
        names_used: set[str] = set()
        if root:
            names_used.add("metadata")
        properties = schema.get("properties", {})
        # msgspec requires fields without defaults first.
        for wire in sorted(properties, key=lambda name: name not in required or "default" in properties[name]):
            below = properties[wire]
            field = field_name(wire, names_used)
            names_used.add(field)
            lines += self._field(field, wire, below, (*path, wire), required=wire in required)
        if root:
            lines.append("    metadata: ObjectMeta = ObjectMeta()")
        self._blocks.append("\n".join([f"class {name}(View, frozen=True):", *(lines or ["    pass"])]))

    def _field(self, field: str, wire: str, schema: Schema, path: tuple[str, ...], *, required: bool) -> list[str]:
        typed = self._type(schema, path)
        extra = difference(schema, typed.schema)
        nullable = bool(schema.get("nullable"))
        default, is_none = None, False
        if "default" in schema:
            value = schema["default"]
            is_own = isinstance(value, bool | int | float | str) and not is_foreign_default(schema)
            default = flat(literal(value)) if is_own else zero_value(schema)
            if not is_own or not value:  # ``schema`` creates no default for a zero value
                extra["default"] = value
            is_none = default is None
        elif not required and len(path) == 2 and schema.get("properties") and "required" not in typed.schema:
            default = f"{flat(typed.expression)}()"  # the status is always there, as authors write it
        elif not required:
            default = zero_value(schema)
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
        if camel(field) != wire:
            named: dict[str, Expression] = {"default": default} if default is not None else {}
            right = call("msgspec.field", **named, name=quoted(wire))
        lines = [_assignment(field, expression, right)]
        return [*lines, *python_source.docstring(str(schema.get("description", "")), "    ")]

    # Types

    def _type(self, schema: Schema, path: tuple[str, ...]) -> Typed:
        """The type of values of a schema; the rest of the schema is left to ``_annotated``."""
        kind, values = schema.get("type"), schema.get("enum")
        if schema.get("x-kubernetes-int-or-string"):
            return Typed("int | str", {"x-kubernetes-int-or-string": True})
        if values and kind == "string" and all(isinstance(value, str) for value in values):
            return Typed(subscript("Literal", map(quoted, values)), {"type": kind, "enum": values})
        if values and kind == "integer" and all(type(value) is int for value in values):
            return Typed(subscript("Literal", map(str, values)), {"type": kind, "enum": values})
        match kind:
            case "string":
                return string_type(schema)
            case "integer" | "number":
                return self._number(schema)
            case "boolean":
                return Typed("bool", {"type": kind})
            case "array":
                item = self._element(schema.get("items", {}), (*path, "[]"))
                limits = bounds(schema, {"minItems": "min_length", "maxItems": "max_length"})
                typed = Typed(subscript("tuple", (item, "...")), {"type": kind, **limits.schema})
                return constrained(typed, limits.expression)
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
        limits = bounds(schema, names)
        for name, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if schema.get(name) and bound in limits.schema:
                limits.schema[name] = True
        if schema["type"] == "number":
            return constrained(Typed("float", {"type": "number", **limits.schema}), limits.expression)
        form = schema.get("format")
        if form in ("int64", "int32", None):
            base = {"int64": "int", "int32": "Int32", None: "Int"}[form]
            self._used.add(base)
            created = {"type": "integer", **({"format": form} if form else {}), **limits.schema}
            return constrained(Typed(base, created), limits.expression)
        return constrained(Typed("int", {"type": "integer", "format": "int64", **limits.schema}), limits.expression)

    def _object(self, schema: Schema, path: tuple[str, ...]) -> Typed:
        properties = schema["properties"]
        required = [name for name in properties if name in schema.get("required", ())]
        without_default = [name for name in required if "default" not in properties[name]]
        own = {name: schema[name] for name in ("properties", "required", "description") if name in schema}
        key = msgspec.json.encode(own, order="deterministic")
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = self._free(class_names(path))
            self._struct(name, own, path)
        created: dict[str, Any] = {"type": "object"}
        if without_default:
            created["required"] = without_default
        return Typed(name, created)

    def _element(self, schema: Schema, path: tuple[str, ...]) -> Expression:
        """The type of elements of lists and maps, short enough for use within another one."""
        typed = self._type(schema, path)
        extra = difference(schema, typed.schema)
        if "default" in schema:
            extra["default"] = schema["default"]
        expression = typed.expression
        if schema.get("nullable"):
            expression = f"{flat(self._short(expression, path))} | None"
        return self._short(self._annotated(expression, extra), path)

    def _short(self, expression: Expression, path: tuple[str, ...]) -> Expression:
        """The expression, or the name of a long one."""
        text = flat(expression)
        if len(text) <= _LONG:
            return text
        key = text.encode()
        name = self._known.get(key)
        if name is None:
            name = self._known[key] = self._free(class_names(path))
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


def _assignment(field: str, annotation: Expression, right: Expression | None) -> str:
    if right is None:
        return layout(annotation, before=f"{field}: ", indent="    ")
    line = f"    {field}: {flat(annotation)} = {flat(right)}"
    if len(line) <= python_source.WIDTH or isinstance(annotation, str):
        return layout(right, before=f"{field}: {flat(annotation)} = ", indent="    ")
    return layout(annotation, before=f"{field}: ", after=f" = {flat(right)}", indent="    ")
