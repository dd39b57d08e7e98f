"""Kinds with nothing in common: flow control and component statuses.

After kubernetes' ``pkg/apis/flowcontrol`` and ``pkg/registry`` (v1.36).
"""

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import child, fill


class FlowSchemaStrategy(Strategy):
    """FlowSchemas: kept, and shown; nobody queues by them here."""

    def default(self, obj: Object) -> None:
        fill(child(obj, "spec"), {"matchingPrecedence": 1000})

    def validate(self, obj: Object) -> list[FieldError]:
        spec, name = obj["spec"], obj["metadata"].get("name")
        problems: list[FieldError] = []
        precedence = spec["matchingPrecedence"]
        if not 1 <= precedence <= 10000:
            problems.append(
                errors.invalid_value("spec.matchingPrecedence", precedence, "must be in the range of [1, 10000]")
            )
        if precedence == 1 and name != "exempt":
            text = "only the schema named 'exempt' may have matchingPrecedence 1"
            problems.append(errors.invalid_value("spec.matchingPrecedence", precedence, text))
        if not (spec.get("priorityLevelConfiguration") or {}).get("name"):
            problems.append(errors.required("spec.priorityLevelConfiguration.name", "must reference a priority level"))
        return problems


class PriorityLevelStrategy(Strategy):
    """PriorityLevelConfigurations: kept, and shown."""

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        limited = spec.get("limited")
        if limited is not None:
            fill(limited, {"nominalConcurrencyShares": 30, "lendablePercent": 0})
            queuing = child(limited, "limitResponse").get("queuing")
            if queuing is not None:
                for field, value in (("queues", 64), ("handSize", 8), ("queueLengthLimit", 50)):
                    queuing[field] = queuing.get(field) or value
        exempt = spec.get("exempt")
        if exempt is not None:
            fill(exempt, {"nominalConcurrencyShares": 0, "lendablePercent": 0})

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        kind = spec.get("type")
        if kind not in ("Exempt", "Limited"):
            return [errors.not_supported("spec.type", kind or "", ("Exempt", "Limited"))]
        if kind == "Limited" and spec.get("limited") is None:
            return [errors.required("spec.limited", "must not be empty when type is Limited")]
        if kind == "Exempt" and spec.get("limited") is not None:
            return [errors.not_allowed("spec.limited", "must be nil if the type is not Limited")]
        return []


class ComponentStrategy(Strategy):
    """ComponentStatuses, of which there are none: nobody probes anything here."""

    notices = ("v1 ComponentStatus is deprecated in v1.19+",)
