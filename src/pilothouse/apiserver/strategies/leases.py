"""Leases. After kubernetes' ``pkg/apis/coordination/validation`` (v1.36)."""

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import number_problems


class LeaseStrategy(Strategy):
    """Durations are positive, transitions are counted."""

    def finish(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        problems: list[FieldError] = []
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            problems.append(errors.invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        problems += number_problems(spec, "spec", ("leaseTransitions",))
        if spec.get("preferredHolder") and not spec.get("strategy"):
            problems.append(
                errors.not_allowed("spec.preferredHolder", "may only be specified if `strategy` is defined")
            )
        return problems
