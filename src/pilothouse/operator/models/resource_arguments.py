"""The arguments of a ``CustomResource`` or ``Version`` that come from a version of a definition. Pure."""

from collections.abc import Mapping
from typing import Any

from pilothouse.operator.models.definitions import RULE_FIELDS
from pilothouse.operator.python_source import Brackets, Expression, literal, named, quoted


def version_arguments(version: Mapping[str, Any]) -> dict[str, Expression]:
    arguments: dict[str, Expression] = {}
    if version.get("deprecated"):
        arguments["deprecated"] = quoted(version["deprecationWarning"]) if version.get("deprecationWarning") else "True"
    columns = [
        Brackets(
            "Column(",
            (quoted(column["name"]), quoted(column["jsonPath"]), quoted(column["type"]), *named(_column(column))),
            ")",
        )
        for column in version.get("additionalPrinterColumns") or ()
    ]
    rules = [_rule(rule) for rule in version["schema"]["openAPIV3Schema"].get("x-kubernetes-validations") or ()]
    selectable: list[Expression] = [quoted(field["jsonPath"]) for field in version.get("selectableFields") or ()]
    for name, elements in (("columns", columns), ("rules", rules), ("selectable_fields", selectable)):
        if elements:
            arguments[name] = Brackets("(", tuple(elements), ",)" if len(elements) == 1 else ")")
    scale = (version.get("subresources") or {}).get("scale")
    if scale:
        arguments["scale"] = literal(scale)
    return arguments


def _rule(rule: Mapping[str, Any]) -> Expression:
    positional = tuple(quoted(rule[part]) for part in ("rule", "message") if part in rule)
    further = {
        argument: literal(rule[field])
        for field, argument in RULE_FIELDS.items()
        if field in rule and field not in ("rule", "message")
    }
    return Brackets("Rule(", (*positional, *named(further)), ")")


def _column(column: Mapping[str, Any]) -> dict[str, Expression]:
    column_entry: dict[str, Expression] = {}
    if column.get("description"):
        column_entry["description"] = quoted(column["description"])
    if column.get("priority"):
        column_entry["priority"] = literal(column["priority"])
    return column_entry


def served(version: Mapping[str, Any]) -> dict[str, Expression]:
    return {} if version.get("served", True) else {"served": "False"}
