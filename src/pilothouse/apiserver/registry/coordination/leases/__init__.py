"""Leases. After kubernetes' ``pkg/apis/coordination/validation`` (v1.36)."""

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid, not_supported
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import validate_nonnegative_fields
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Printer, columns, fields_of
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.machinery.names import qualified_name_errors

_COORDINATED_FIELDS = ("strategy", "preferredHolder")
_STRATEGIES = ("OldestEmulationVersion",)


class LeaseStrategy(Strategy):
    """``coordination.k8s.io`` Leases."""

    allow_unconditional_update = False
    allow_create_on_update = True
    kube_finalizers = False
    has_renewal_path = True

    def prepare_for_create(self, obj: Object, now: str) -> None:
        self.prepare_for_update(obj, {})

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        # The gate CoordinatedLeaderElection is off (pkg/registry/coordination/lease/strategy.go, v1.36).
        spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
        for field in _COORDINATED_FIELDS:
            if old_spec.get(field) is None:
                spec.pop(field, None)

    def canonicalize(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def validate(self, obj: Object) -> ErrorList:
        spec = obj.get("spec") or {}
        errors: ErrorList = []
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        errors += validate_nonnegative_fields(spec, "spec", ("leaseTransitions",))
        strategy = spec.get("strategy")
        if strategy is not None:
            errors += _validate_strategy(strategy)
        if spec.get("preferredHolder") and not strategy:
            errors.append(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
        return errors


def _validate_strategy(strategy: str) -> ErrorList:
    """A strategy without a domain must be one of Kubernetes'. The path repeats the field, as upstream."""
    path = "spec.strategy.strategy"
    if "/" in strategy:
        return [invalid(path, strategy, msg) for msg in qualified_name_errors(strategy)]
    return [] if strategy in _STRATEGIES else [not_supported(path, strategy, _STRATEGIES)]


REGISTRATION = Registration(
    LeaseStrategy(),
    printer=lambda: Printer((NAME, *columns("Holder"), AGE), fields_of("spec.holderIdentity")),
)
