"""Validation of structural schemas: structure, defaults, CEL rules.

After apiextensions-apiserver's ``pkg/apiserver/schema/validation.go`` (``Structure``),
``pkg/apis/apiextensions/validation/validation.go`` (``ValidateCustomResourceDefinitionOpenAPISchema``) and
``pkg/apiserver/schema/defaulting/validation.go`` (v0.36).
"""

import copy
from collections.abc import Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pilothouse.apiserver import field_errors
from pilothouse.apiserver.apiextensions import schema as values
from pilothouse.apiserver.apiextensions.field_paths import PathError, resolve
from pilothouse.apiserver.apiextensions.objects import InvalidEmbedded, prune_embedded, validate_embedded
from pilothouse.apiserver.apiextensions.rule_costs import RuleCosts, max_cardinality_below
from pilothouse.apiserver.apiextensions.rules import (
    ABSENT,
    Rule,
    RuleEvaluation,
    UntypedNode,
    compile_rules,
    rule_tree,
)
from pilothouse.apiserver.field_errors import ErrorList, FieldError
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.patterns import PatternError, compiled

if TYPE_CHECKING:
    from pilothouse.cel.sizes import Sized

with lazy_imports():
    from pilothouse.cel import sizes as cel_sizes


Node = Mapping[str, Any]
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_LIST_TYPE, _MAP_TYPE, _KEYS = "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-list-map-keys"
_RULES = "x-kubernetes-validations"
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_META = ("metadata", "kind", "apiVersion")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NULL: tuple[Any, ...] = (None,)
_UNSET_IF_EMPTY = ("id", "patternProperties", "definitions")
_UNSUPPORTED = {
    "id": "id is not supported",
    "patternProperties": "patternProperties is not supported",
    "definitions": "definitions is not supported",
    "dependencies": "dependencies is not supported",
    "$ref": "$ref is not supported",
    "additionalItems": "additionalItems is not supported",
}


def validate_schema(schema: Node, path: str, *, is_stored: bool = False) -> ErrorList:
    """Validate a schema. CEL rules are compiled if structure and defaults are valid, and nothing else is wrong at or
    below their node; the limit per rule does not apply if the schema is stored already (``is_stored``)."""
    errors = []
    if schema.get("nullable"):
        errors.append(field_errors.forbidden(f"{path}.nullable", "nullable cannot be true at the root"))
    compiles_rules = False
    if _is_convertible(schema):
        structure = sorted(
            [*_validate_structure(schema, path, "root"), *_validate_completeness(schema, schema, path, path)],
            key=_error_text,
        )
        structure = structure or list(_validate_defaults(schema, path, root=True))
        errors += structure
        compiles_rules = not structure
    checked = _KeywordValidator()
    checked.visit(schema, path, root=True)
    errors += checked.all_errors
    if not errors and checked.has_schema_keyword:
        # Everything else that upstream's conversion rejects has been reported above.
        errors.append(field_errors.invalid(path, "", "OpenAPIV3Schema 'schema' is not supported"))
    if compiles_rules:
        rules = _RuleValidator(RuleCosts(is_stored=is_stored), checked.invalid_paths)
        rules.visit(schema, path, "", root=True)
        errors += rules.all_errors + rules.costs.total(path)
    return errors


def _is_convertible(node: Any) -> bool:
    """Whether upstream's ``NewStructural`` accepts it. (The rejected fields are reported by ``_KeywordValidator``.)"""
    if not isinstance(node, Mapping):
        return not isinstance(node, list)
    if any(
        node.get(keyword) not in (_UNSET_VALUES if keyword in _UNSET_IF_EMPTY else _NULL) for keyword in _UNSUPPORTED
    ):
        return False
    children = [
        node.get("items"),
        node.get("additionalProperties"),
        node.get("not"),
        *(node.get("properties") or {}).values(),
    ]
    children += [branch for junctor in _JUNCTORS for branch in node.get(junctor) or ()]
    return not node.get("$schema") and node.get(_PRESERVE) is not False and all(map(_is_convertible, children))


def _error_text(error: FieldError) -> str:
    return str(error)


# Structure


def _validate_structure(node: Node, path: str, level: str) -> Iterator[FieldError]:
    if not isinstance(node, Mapping):
        return
    if node.get("type") == "array" and node.get("items") is None:
        yield field_errors.required(f"{path}.items", "must be specified")
    if isinstance(node.get("items"), Mapping):
        yield from _validate_structure(node["items"], f"{path}.items", "item")
    for name, property_schema in (node.get("properties") or {}).items():
        yield from _validate_structure(property_schema, f"{path}.properties[{name}]", "field")
    additional = node.get("additionalProperties")
    if additional is not None:
        if level == "root":
            yield field_errors.forbidden(f"{path}.additionalProperties", "must not be used at the root")
        if isinstance(additional, Mapping):
            yield from _validate_structure(additional, f"{path}.additionalProperties", "field")
    yield from _validate_extensions(node, path)
    yield from _validate_junctors(node, path, outside_branches=True)
    yield from _validate_type(node, path, level)
    if level == "root" or node.get(_EMBEDDED):
        yield from _validate_object_fields(node, path, level)


def _validate_extensions(node: Node, path: str) -> Iterator[FieldError]:
    if node.get(_INT_OR_STRING):
        for keyword in (_PRESERVE, _EMBEDDED):
            if node.get(keyword):
                yield field_errors.invalid(f"{path}.{keyword}", True, f"must be false if {_INT_OR_STRING} is true")


def _validate_type(node: Node, path: str, level: str) -> Iterator[FieldError]:
    kind, type_path = node.get("type") or "", f"{path}.type"
    if node.get(_EMBEDDED) and kind != "object":
        detail = f"must be object if {_EMBEDDED} is true"
        yield field_errors.invalid(type_path, kind, detail) if kind else field_errors.required(type_path, detail)
    elif not kind and not node.get(_INT_OR_STRING) and not node.get(_PRESERVE):
        paths = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}
        yield field_errors.required(type_path, f"must not be empty {paths[level]}")
    if node.get(_EMBEDDED) and node.get("additionalProperties") is not None:
        yield field_errors.forbidden(f"{path}.additionalProperties", f"must not be used if {_EMBEDDED} is set")
    if level == "root" and kind and kind != "object":
        yield field_errors.invalid(type_path, kind, "must be object at the root")


_PATTERN = "must be a valid regular expression, but isn't: "


def _validate_pattern(node: Node, path: str) -> Iterator[FieldError]:
    if node.get("pattern"):
        try:
            compiled(node["pattern"])
        except PatternError as error:
            yield field_errors.invalid(f"{path}.pattern", node["pattern"], f"{_PATTERN}{error}")


def _validate_object_fields(node: Node, path: str, level: str) -> Iterator[FieldError]:
    properties = node.get("properties") or {}
    for name in ("kind", "apiVersion"):
        if name in properties and properties[name].get("type") != "string":
            yield field_errors.invalid(
                f"{path}.properties[{name}].type", properties[name].get("type") or "", "must be string"
            )
    if "metadata" in properties:
        metadata, metadata_path = properties["metadata"], f"{path}.properties[metadata]"
        if metadata.get("type") != "object":
            yield field_errors.invalid(f"{metadata_path}.type", metadata.get("type") or "", "must be object")
        if level == "root":
            allowed = ("type", "properties", "default")
            unexpected = [
                keyword for keyword, value in metadata.items() if keyword not in allowed and value not in _UNSET_VALUES
            ]
            if unexpected or any(name not in ("name", "generateName") for name in metadata.get("properties") or ()):
                yield field_errors.forbidden(
                    metadata_path,
                    "must not specify anything other than name and generateName, but metadata is implicitly specified",
                )
    if node.get(_EMBEDDED) and not node.get(_PRESERVE) and not properties:
        yield field_errors.required(
            f"{path}.properties", f"must not be empty if {_EMBEDDED} is true without {_PRESERVE}"
        )


_UNSET_VALUES: tuple[Any, ...] = (None, False, "", [], {})
_FORBIDDEN_IN_VALUE_VALIDATIONS = (
    ("type", "empty"),
    ("additionalProperties", "undefined"),
    ("default", "undefined"),
    ("title", "empty"),
    ("description", "empty"),
    ("nullable", "false"),
    (_PRESERVE, "false"),
    (_EMBEDDED, "false"),
    (_INT_OR_STRING, "false"),
    (_KEYS, "empty"),
    (_LIST_TYPE, "undefined"),
    (_MAP_TYPE, "undefined"),
)
_INT_OR_STRING_ANY_OF = [{"type": "integer"}, {"type": "string"}]


def _validate_junctors(
    node: Node, path: str, *, outside_branches: bool = False, any_of: bool = True
) -> Iterator[FieldError]:
    """Value validations must not specify structure. Outside of branches (``outside_branches``) the usual forms of
    int-or-string are allowed. ``any_of`` False: the anyOf is part of such a form."""
    for keyword in _JUNCTORS:
        branches = node.get(keyword) or ()
        if keyword == "anyOf" and (not any_of or (outside_branches and branches == _INT_OR_STRING_ANY_OF)):
            continue
        for position, branch in enumerate(branches):
            is_first_all_of = outside_branches and keyword == "allOf" and position == 0
            is_int_or_string_form = is_first_all_of and branch.get("anyOf") == _INT_OR_STRING_ANY_OF
            yield from _validate_value_validations(
                branch, f"{path}.{keyword}[{position}]", any_of=not is_int_or_string_form
            )
    if isinstance(node.get("not"), Mapping):
        yield from _validate_value_validations(node["not"], f"{path}.not")
    yield from _validate_pattern(node, path)


def _validate_value_validations(node: Node, path: str, *, any_of: bool = True) -> Iterator[FieldError]:
    for keyword, detail in _FORBIDDEN_IN_VALUE_VALIDATIONS:
        # Pointers to an empty string are defined.
        if node.get(keyword) not in (_NULL if keyword in (_LIST_TYPE, _MAP_TYPE) else _UNSET_VALUES):
            yield field_errors.forbidden(f"{path}.{keyword}", f"must be {detail} to be structural")
    if node.get(_RULES):
        yield field_errors.forbidden(f"{path}.{_RULES}", "must be empty to be structural")
    for name, property_schema in (node.get("properties") or {}).items():
        property_path = f"{path}.properties[{name}]"
        if name == "metadata":
            yield field_errors.forbidden(property_path, "must not be specified in a nested context")
        yield from _validate_value_validations(property_schema, property_path)
    if isinstance(node.get("items"), Mapping):
        yield from _validate_value_validations(node["items"], f"{path}.items")
    yield from _validate_junctors(node, path, any_of=any_of)


def _validate_completeness(node: Node, checked: Node, path: str, checked_path: str) -> Iterator[FieldError]:
    """Fields that are validated in allOf, anyOf, oneOf or not must be specified outside of them. Upstream checks from
    the root only (``validateStructuralCompleteness``)."""
    for keyword in (*_JUNCTORS, "not"):
        branches = checked.get(keyword) or ()
        for position, branch in enumerate([branches] if keyword == "not" and branches else branches):
            branch_path = f"{checked_path}.{keyword}" if keyword == "not" else f"{checked_path}.{keyword}[{position}]"
            yield from _validate_specified(node, branch, path, branch_path)


def _validate_specified(node: Node, checked: Node, path: str, checked_path: str) -> Iterator[FieldError]:
    for name, validation in (checked.get("properties") or {}).items():
        structure = (node.get("properties") or {}).get(name)
        structure_path, validation_path = f"{path}.properties[{name}]", f"{checked_path}.properties[{name}]"
        if structure is None:
            yield field_errors.required(structure_path, f"because it is defined in {validation_path}")
            continue
        yield from _validate_specified(structure, validation, structure_path, validation_path)
    if isinstance(checked.get("items"), Mapping):
        if not isinstance(node.get("items"), Mapping):
            yield field_errors.required(f"{path}.items", f"because it is defined in {checked_path}.items")
        else:
            yield from _validate_specified(node["items"], checked["items"], f"{path}.items", f"{checked_path}.items")
    yield from _validate_completeness(node, checked, path, checked_path)


# Defaults


def _validate_defaults(node: Node, path: str, *, root: bool = False) -> Iterator[FieldError]:
    """A default must be valid, pass the CEL rules and have no unknown fields. Upstream does not descend into
    additionalProperties."""
    if node.get("default") is not None:
        yield from _validate_default({**node, _EMBEDDED: True} if root else node, f"{path}.default")
    if isinstance(node.get("items"), Mapping):
        yield from _validate_defaults(node["items"], f"{path}.items")
    for name, property_schema in (node.get("properties") or {}).items():
        if not (root and name in _META):
            yield from _validate_defaults(property_schema, f"{path}.properties[{name}]")


def _validate_default(node: Node, path: str) -> Iterator[FieldError]:
    default = node["default"]
    wrapper_schema = {"properties": {"": node}}
    if values.prune(copy.deepcopy(default), node, root=bool(node.get(_EMBEDDED))):
        yield field_errors.invalid(path, default, "must not have unknown fields")
    try:
        prune_embedded({"": copy.deepcopy(default)}, wrapper_schema, "")
    except InvalidEmbedded as invalid:
        yield FieldError(path + invalid.error.field, invalid.error.reason, invalid.error.text)
        return
    embedded = validate_embedded({"": default}, wrapper_schema)
    if embedded:
        for error in embedded:
            yield FieldError(path + error.field, error.reason, error.text)
        return
    invalid_values = values.validate(default, _without_int_or_string(node))
    for error in invalid_values:
        # The message has the path inside of the default. As upstream, there is a dot before an index, too.
        name = "" if error.field == "<nil>" else error.field.removeprefix(".")
        yield FieldError(f"{path}.{name}" if name else path, error.reason, error.text)
    if not invalid_values:
        yield from _validate_default_with_rules(node, path)


def _without_int_or_string(node: Any) -> Any:
    """The schema that upstream validates defaults by: int-or-strings have no type in it (``ToKubeOpenAPI``)."""
    if isinstance(node, Mapping):
        # A property of that name has a schema as its value.
        return {
            key: _without_int_or_string(value)
            for key, value in node.items()
            if key != _INT_OR_STRING or isinstance(value, Mapping)
        }
    return [_without_int_or_string(value) for value in node] if isinstance(node, list) else node


def _validate_default_with_rules(node: Node, path: str) -> ErrorList:
    """The rules accept a default both as an unchanged and as a new value."""
    try:
        tree = rule_tree(node)
    except UntypedNode:
        return []  # reported with the rules
    for old in (node["default"], ABSENT):
        run = RuleEvaluation()
        if tree is not None:
            run.validate(tree, node["default"], old, path)
        if run.all_errors:
            return run.all_errors
    return []


# ``ValidateCustomResourceDefinitionOpenAPISchema``


class _KeywordValidator:
    """The second pass: keywords and their combinations."""

    def __init__(self) -> None:
        self.all_errors: ErrorList = []
        self.has_schema_keyword = False
        self.invalid_paths: set[str] = set()
        """The paths of the nodes with an error in them or below."""

    def visit(self, node: Any, path: str, *, root: bool = False, no_default: str = "", in_meta: bool = False) -> None:
        if not isinstance(node, Mapping):
            return
        add, errors_before = self.all_errors.append, len(self.all_errors)
        self.has_schema_keyword = self.has_schema_keyword or bool(node.get("$schema"))
        if no_default and "default" in node:
            add(field_errors.forbidden(f"{path}.default", f"must not be set {no_default}"))
        for keyword, detail in _UNSUPPORTED.items():
            if node.get(keyword) not in (_UNSET_VALUES if keyword in _UNSET_IF_EMPTY else _NULL):
                add(field_errors.forbidden(f"{path}.{keyword}", detail))
        kind = node.get("type") or ""
        if kind and kind not in _TYPES:
            add(field_errors.not_supported(f"{path}.type", kind, _TYPES, plain=True))
        if kind == "null":
            add(field_errors.forbidden(f"{path}.type", "type cannot be set to null, use nullable as an alternative"))
        if isinstance(node.get("items"), list):
            add(field_errors.forbidden(f"{path}.items", "items must be a schema object and not an array"))
        if in_meta and node.get(_EMBEDDED):
            add(field_errors.forbidden(f"{path}.{_EMBEDDED}", "must not be used inside of resource meta"))
        if node.get("uniqueItems"):
            detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
            add(field_errors.forbidden(f"{path}.uniqueItems", detail))
        self._visit_children(node, path, root=root, no_default=no_default, in_meta=in_meta)
        if node.get(_PRESERVE) is False:
            add(field_errors.invalid(f"{path}.{_PRESERVE}", False, "must be true or undefined"))
        self._validate_list_and_map_types(node, path, kind)
        self._validate_rules(node, path)
        if len(self.all_errors) > errors_before:
            self.invalid_paths.add(path)

    def _visit_children(self, node: Node, path: str, *, root: bool, no_default: str, in_meta: bool) -> None:
        properties, additional = node.get("properties") or {}, node.get("additionalProperties")
        if additional is not None:
            if properties and additional is not True:
                detail = "additionalProperties and properties are mutual exclusive"
                self.all_errors.append(field_errors.forbidden(f"{path}.additionalProperties", detail))
            reason = "inside additionalProperties applying to object metadata" if in_meta else no_default
            self.visit(additional, f"{path}.additionalProperties", no_default=reason, in_meta=in_meta)
        for name, child in properties.items():
            meta = (root or bool(node.get(_EMBEDDED))) and name in _META
            reason = f"in top-level {name}" if meta and root else no_default
            self.visit(child, f"{path}.properties[{name}]", no_default=reason, in_meta=in_meta or meta)
        if node.get("not") is not None:
            self.visit(node["not"], f"{path}.not", no_default=no_default, in_meta=in_meta)
        for keyword in _JUNCTORS:
            for position, child in enumerate(node.get(keyword) or ()):
                self.visit(child, f"{path}.{keyword}[{position}]", no_default=no_default, in_meta=in_meta)
        self.visit(node.get("items"), f"{path}.items", no_default=no_default, in_meta=in_meta)

    def _validate_list_and_map_types(self, node: Node, path: str, kind: str) -> None:
        add = self.all_errors.append
        for keyword, expected, choices in (
            (_MAP_TYPE, "object", ("atomic", "granular")),
            (_LIST_TYPE, "array", ("atomic", "set", "map")),
        ):
            value = node.get(keyword)
            if value is None:
                continue
            if kind != expected:
                detail, error_path = f"must be {expected} if {keyword} is specified", f"{path}.type"
                add(
                    field_errors.invalid(error_path, kind, detail)
                    if kind
                    else field_errors.required(error_path, detail)
                )
            if value not in choices:
                add(field_errors.not_supported(f"{path}.{keyword}", value, choices, plain=True))
        items, list_type, keys = node.get("items"), node.get(_LIST_TYPE), node.get(_KEYS) or []
        if list_type == "set" and kind == "array" and isinstance(items, Mapping):
            detail = f"must be atomic as item of a list with {_LIST_TYPE}=set"
            if items.get("type") == "array" and items.get(_LIST_TYPE) not in (None, "atomic"):
                add(field_errors.invalid(f"{path}.items.{_LIST_TYPE}", items[_LIST_TYPE], detail))
            elif items.get("type") == "object" and items.get(_MAP_TYPE) != "atomic":
                add(field_errors.invalid(f"{path}.items.{_MAP_TYPE}", items.get(_LIST_TYPE), detail))
        if keys and list_type != "map":
            detail, error_path = f"must be map if {_KEYS} is non-empty", f"{path}.{_LIST_TYPE}"
            add(
                field_errors.required(error_path, detail)
                if list_type is None
                else field_errors.invalid(error_path, list_type, detail)
            )
        if list_type == "map":
            self._validate_map_list(items, keys, path)
        if list_type in ("map", "set") and isinstance(items, Mapping):
            if items.get("nullable"):
                detail = f"cannot be nullable when {_LIST_TYPE} is {list_type}"
                add(field_errors.forbidden(f"{path}.items.nullable", detail))
            if list_type == "map":
                self._validate_map_list_keys(items, keys, path)

    def _validate_map_list(self, items: Any, keys: list[str], path: str) -> None:
        add = self.all_errors.append
        if not keys:
            add(field_errors.required(f"{path}.{_KEYS}", f"must not be empty if {_LIST_TYPE} is map"))
        if not items:
            add(field_errors.required(f"{path}.items", f"must have a schema if {_LIST_TYPE} is map"))
            return
        if not isinstance(items, Mapping):
            return
        if items.get("type") != "object":
            detail = f"must be object if parent array's {_LIST_TYPE} is map"
            add(field_errors.invalid(f"{path}.items.type", items.get("type") or "", detail))
            return
        duplicates = field_errors.repeated(keys)
        for position, key in enumerate(keys):
            key_schema = (items.get("properties") or {}).get(key)
            if key_schema is None:
                add(field_errors.invalid(f"{path}.{_KEYS}", keys, "entries must all be names of item properties"))
            elif key_schema.get("type") in ("array", "object"):
                detail = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
                add(field_errors.invalid(f"{path}.items.properties[{key}].type", items["type"], detail))
            if position in duplicates:
                add(field_errors.invalid(f"{path}.{_KEYS}", keys, "must not contain duplicate entries"))

    def _validate_map_list_keys(self, items: Node, keys: list[str], path: str) -> None:
        """Keys of a list map must be required or have a default."""
        add = self.all_errors.append
        for key in keys:
            key_schema = (items.get("properties") or {}).get(key)
            if key_schema is None:
                continue
            if key not in (items.get("required") or ()) and key_schema.get("default") is None:
                detail = f"this property is in {_KEYS}, so it must have a default or be a required property"
                add(field_errors.required(f"{path}.items.properties[{key}].default", detail))
            if key_schema.get("nullable"):
                detail = f"this property is in {_KEYS}, so it cannot be nullable"
                add(field_errors.forbidden(f"{path}.items.properties[{key}].nullable", detail))

    def _validate_rules(self, node: Node, path: str) -> None:
        add = self.all_errors.append
        for position, rule in enumerate(node.get(_RULES) or ()):
            rule_path = f"{path}.{_RULES}[{position}]"
            text, message = (rule.get("rule") or "").strip(), (rule.get("message") or "").strip()
            if not text:
                add(field_errors.required(f"{rule_path}.rule", "rule is not specified"))
            elif rule.get("message") and not message:
                add(field_errors.invalid(f"{rule_path}.message", rule["message"], "must be non-empty if specified"))
            elif _has_breaks(message):
                add(field_errors.invalid(f"{rule_path}.message", rule["message"], "must not contain line breaks"))
            elif _has_breaks(text) and not message:
                add(
                    field_errors.required(
                        f"{rule_path}.message", "message must be specified if rule contains line breaks"
                    )
                )
            if rule.get("messageExpression") and not rule["messageExpression"].strip():
                detail = "messageExpression must be non-empty if specified"
                add(field_errors.required(f"{rule_path}.messageExpression", detail))
            if rule.get("reason") is not None and rule["reason"] not in _REASONS:
                add(field_errors.not_supported(f"{rule_path}.reason", rule["reason"], _REASONS))
            field_path = rule.get("fieldPath") or ""
            if field_path and not field_path.strip():
                add(field_errors.invalid(f"{rule_path}.fieldPath", field_path, "must be non-empty if specified"))
            if _has_breaks(field_path):
                add(field_errors.invalid(f"{rule_path}.fieldPath", field_path, "must not contain line breaks"))
            if field_path:
                try:
                    resolve(field_path, node)
                except PathError:
                    add(field_errors.invalid(f"{rule_path}.fieldPath", field_path, "must be a valid path"))


def _has_breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


# Rules


class _RuleValidator:
    """The third pass: compilation and cost of CEL rules."""

    def __init__(self, costs: RuleCosts, invalid_paths: Container[str]) -> None:
        self.all_errors: ErrorList = []
        self.costs = costs
        self._invalid_paths = invalid_paths

    def visit(
        self, node: Any, path: str, uncorrelated: str, *, root: bool = False, max_cardinality: int | None = 1
    ) -> None:
        """``uncorrelated`` is the path below which old values cannot be correlated, if there is one above;
        ``max_cardinality`` the maximum number of such values in an object, if there is a limit."""
        if not isinstance(node, Mapping):
            return
        cardinality_below = max_cardinality_below(node, max_cardinality)
        self.visit(
            node.get("additionalProperties"),
            f"{path}.additionalProperties",
            uncorrelated,
            max_cardinality=cardinality_below,
        )
        for name, property_schema in (node.get("properties") or {}).items():
            self.visit(property_schema, f"{path}.properties[{name}]", uncorrelated, max_cardinality=cardinality_below)
        child_uncorrelated = uncorrelated or ("" if node.get(_LIST_TYPE) == "map" else path)
        self.visit(node.get("items"), f"{path}.items", child_uncorrelated, max_cardinality=cardinality_below)
        if not node.get(_RULES) or path in self._invalid_paths:
            return
        is_resource = root or bool(node.get(_EMBEDDED))
        try:
            compiled = compile_rules(node, node[_RULES], root=is_resource)
        except UntypedNode:
            detail = "internal error: failed to retrieve type information for x-kubernetes-validations"
            self.all_errors.append(FieldError(f"{path}.{_RULES}", "InternalError", f"Internal error: {detail}"))
            return
        sizes = cel_sizes.sized(node, root=is_resource)
        assert sizes is not None, "a node without a type has no compiled rules"
        for position, rule in enumerate(compiled):
            rule_path = f"{path}.{_RULES}[{position}]"
            self._add_cost(rule, rule_path, sizes, max_cardinality)
            self._report_compiled(rule, rule_path, uncorrelated)

    def _add_cost(self, rule: Rule, path: str, sizes: "Sized", max_cardinality: int | None) -> None:
        if rule.program is not None:
            times = sizes.repeats if max_cardinality is None else max_cardinality
            self.all_errors += self.costs.rule(rule.program.cost(sizes.size) * times, f"{path}.rule")
        if rule.message is not None:
            self.all_errors += self.costs.message(rule.message.cost(sizes.size), f"{path}.messageExpression")

    def _report_compiled(self, rule: Rule, path: str, uncorrelated: str) -> None:
        for field, detail in (("rule", rule.rule_error), ("messageExpression", rule.message_error)):
            if detail:
                value = field_errors.internal_value("apiextensions.ValidationRule", rule.source)
                self.all_errors.append(field_errors.invalid(f"{path}.{field}", value, detail))
        if rule.uses_old_self and not rule.rule_error:
            if uncorrelated:
                detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {uncorrelated}"
                self.all_errors.append(field_errors.invalid(f"{path}.rule", rule.source.get("rule"), detail))
        elif rule.source.get("optionalOldSelf") is not None:
            self.all_errors.append(
                field_errors.invalid(
                    f"{path}.optionalOldSelf",
                    rule.source["optionalOldSelf"],
                    "may not be set if oldSelf is not used in rule",
                )
            )
