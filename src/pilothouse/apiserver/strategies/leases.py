"""Leases. After kubernetes' ``pkg/apis/coordination/validation`` (v1.36)."""

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import number_problems
from pilothouse.machinery.names import qualified_name_errors

_COORDINATED = ("strategy", "preferredHolder")
_STRATEGIES = ("OldestEmulationVersion",)


class LeaseStrategy(Strategy):
    """Durations are positive, transitions are counted."""

    def prepare_create(self, obj: Object, now: str) -> None:
        self.prepare_update(obj, {})

    def prepare_update(self, obj: Object, old: Object) -> None:
        # The gate CoordinatedLeaderElection is off (pkg/registry/coordination/lease/strategy.go, v1.36).
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        for field in _COORDINATED:
            if before.get(field) is None:
                spec.pop(field, None)

    def finish(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        problems: list[FieldError] = []
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            problems.append(errors.invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        problems += number_problems(spec, "spec", ("leaseTransitions",))
        strategy = spec.get("strategy")
        if strategy is not None:
            problems += _strategy_problems(strategy)
        if spec.get("preferredHolder") and not strategy:
            problems.append(
                errors.not_allowed("spec.preferredHolder", "may only be specified if `strategy` is defined")
            )
        return problems


def _strategy_problems(strategy: str) -> list[FieldError]:
    """Names without a domain are Kubernetes' own. The field is named twice, as upstream does."""
    path = "spec.strategy.strategy"
    if "/" in strategy:
        return [errors.invalid_value(path, strategy, text) for text in qualified_name_errors(strategy)]
    return [] if strategy in _STRATEGIES else [errors.not_supported(path, strategy, _STRATEGIES)]
