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

_ONE_RULE = 10_000_000
_ALL_RULES = 100_000_000
_MOST_SHOWN = 4
_MOST = 2**64 - 1
_SHARE = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"


def repeats_below(node: Node, above: int | None) -> int | None:
    """The maximum number of values below a node of which there are up to ``above``; None for no limit."""
    factor: int | None = 1
    if node.get("type") == "object" and node.get("additionalProperties") is not None:
        factor = node.get("maxProperties")
    elif node.get("type") == "array":
        factor = node.get("maxItems")
    if above is None or factor is None:
        return None
    return min(above * max(factor, 0), _MOST)


class RuleCosts:
    """Adds up the costs of the rules of a schema. ``known``: the schema is stored already, and the limit per rule does
    not apply."""

    def __init__(self, *, known: bool = False) -> None:
        self._known = known
        self._total = 0
        self._expensive: list[tuple[int, str]] = []

    def rule(self, cost: int, path: str) -> ErrorList:
        """Add a rule with this cost, all its evaluations included."""
        return self._observe("estimated rule cost", cost, path)

    def message(self, cost: int, path: str) -> ErrorList:
        """Add a ``messageExpression``."""
        return self._observe("estimated messageExpression cost", cost, path)

    def _observe(self, description: str, cost: int, path: str) -> ErrorList:
        cost = min(cost, _MOST)
        self._total = min(self._total + cost, _MOST)
        if cost >= _ALL_RULES // 100:
            self._expensive.append((cost, path))
        if self._known or cost <= _ONE_RULE:
            return []
        return [field_errors.forbidden(path, _exceeds(description, cost, _ONE_RULE))]

    def total(self, path: str) -> ErrorList:
        """The errors of the total."""
        if self._total <= _ALL_RULES:
            return []
        most_expensive = sorted(self._expensive, key=lambda cost_and_path: -cost_and_path[0])[:_MOST_SHOWN]
        description = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [
            *(field_errors.forbidden(rule_path, _SHARE) for _cost, rule_path in most_expensive),
            field_errors.forbidden(path, _exceeds(description, self._total, _ALL_RULES)),
        ]


def _exceeds(description: str, cost: int, limit: int) -> str:
    factor = cost / limit
    times = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return (
        f"{description} exceeds budget by factor of {times} (try simplifying the rule, or adding maxItems, "
        "maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
