"""Estimated costs of a schema's CEL rules, and upstream's errors if they exceed the limits.

After apiextensions-apiserver's ``pkg/apis/apiextensions/validation/{validation,cel_validation}.go`` (v0.36). A rule
inside of lists and maps runs once for each item, so its cost is multiplied by their maximum sizes, or, without a
maximum, by the number of items that fit into a request.
"""

from collections.abc import Mapping
from typing import Any

from pilothouse.apiserver import field_errors
from pilothouse.apiserver.field_errors import ErrorList

Node = Mapping[str, Any]

_STATIC_ESTIMATED_COST_LIMIT = 10_000_000
_STATIC_ESTIMATED_CRD_COST_LIMIT = 100_000_000
_MAX_REPORTED_RULES = 4
_MAX_COST = 2**64 - 1
_CONTRIBUTED_TO_TOTAL = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"


def max_cardinality_below(node: Node, above: int | None) -> int | None:
    """The maximum number of values of a node's items or additional properties, if an object has up to ``above`` values
    of the node; None for no limit."""
    factor: int | None = 1
    if node.get("type") == "object" and node.get("additionalProperties") is not None:
        factor = node.get("maxProperties")
    elif node.get("type") == "array":
        factor = node.get("maxItems")
    if above is None or factor is None:
        return None
    return min(above * max(factor, 0), _MAX_COST)


class RuleCosts:
    """Adds up the costs of the rules of a schema. ``is_stored``: the schema is stored already, and the limit per rule
    does not apply."""

    def __init__(self, *, is_stored: bool = False) -> None:
        self._is_stored = is_stored
        self._total = 0
        self._expensive: list[tuple[int, str]] = []

    def rule(self, cost: int, path: str) -> ErrorList:
        """Add a rule with this cost, all its evaluations included."""
        return self._observe("estimated rule cost", cost, path)

    def message(self, cost: int, path: str) -> ErrorList:
        """Add a ``messageExpression``."""
        return self._observe("estimated messageExpression cost", cost, path)

    def _observe(self, description: str, cost: int, path: str) -> ErrorList:
        cost = min(cost, _MAX_COST)
        self._total = min(self._total + cost, _MAX_COST)
        if cost >= _STATIC_ESTIMATED_CRD_COST_LIMIT // 100:
            self._expensive.append((cost, path))
        if self._is_stored or cost <= _STATIC_ESTIMATED_COST_LIMIT:
            return []
        return [field_errors.forbidden(path, _exceeded_message(description, cost, _STATIC_ESTIMATED_COST_LIMIT))]

    def total(self, path: str) -> ErrorList:
        """The errors of the total."""
        if self._total <= _STATIC_ESTIMATED_CRD_COST_LIMIT:
            return []
        most_expensive = sorted(self._expensive, key=lambda cost_and_path: -cost_and_path[0])[:_MAX_REPORTED_RULES]
        description = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [
            *(field_errors.forbidden(rule_path, _CONTRIBUTED_TO_TOTAL) for _cost, rule_path in most_expensive),
            field_errors.forbidden(path, _exceeded_message(description, self._total, _STATIC_ESTIMATED_CRD_COST_LIMIT)),
        ]


def _exceeded_message(description: str, cost: int, limit: int) -> str:
    factor = cost / limit
    times = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{description} exceeds budget by factor of {times} (try simplifying the rule, or adding maxItems, "
        "maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
