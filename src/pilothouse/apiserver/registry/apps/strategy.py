"""The strategy shared by workload kinds: defaults and warnings of pod templates. After kubernetes'
``pkg/registry/apps`` (v1.36).
"""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.disabled_fields import GATES, drop_disabled_template_fields
from pilothouse.apiserver.registry.generic.object_fields import (
    ensure_object,
    set_default_fields,
    validate_immutable_fields,
)
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.semantics.pod_defaults import default_template

with lazy_imports():
    from pilothouse.apiserver.registry.apps import validation
    from pilothouse.apiserver.registry.core.pods import warnings


def drop_zeros(spec: Object, *fields: str) -> None:
    """Drop fields that upstream does not serialize if they are zero."""
    for field in fields:
        if field in spec and not spec[field]:
            del spec[field]


def default_update_strategy(strategy: Object, rolling_update: Object) -> None:
    """Default the type of an update strategy to RollingUpdate, and the parameters of RollingUpdate to
    ``rolling_update``."""
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        set_default_fields(ensure_object(strategy, "rollingUpdate"), rolling_update)


class WorkloadStrategy(Strategy):
    """The base class of the strategies of Deployments, ReplicaSets, DaemonSets and StatefulSets."""

    disabled_gates = GATES
    zeros: tuple[str, ...] = ("minReadySeconds",)
    has_replicas = True
    warns_about_names = True
    """Whether a new object gets a warning if its name is no DNS label."""

    def set_defaults(self, obj: Object) -> None:
        spec: Object = obj.setdefault("spec", {})
        if self.has_replicas and spec.get("replicas") is None:
            spec["replicas"] = 1
        default_template(spec.setdefault("template", {}))
        drop_zeros(spec, *self.zeros)
        self.default_spec(spec)

    def drop_disabled_fields(self, obj: Object, old: Object | None) -> None:
        old_template = None if old is None else old["spec"]["template"]
        drop_disabled_template_fields(obj["spec"]["template"], old_template, self.disabled_gates)

    def default_spec(self, spec: Object) -> None:
        """Set the defaults of the kind's own fields."""

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        if self.warns_about_names:
            yield from warnings.warnings_for_name(obj["metadata"]["name"])
        yield from warnings.warnings_for_pod_template(obj["spec"]["template"], "spec.template")

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        if self.increments_generation(obj, old):
            yield from warnings.warnings_for_pod_template(obj["spec"]["template"], "spec.template")

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        return [] if obj["spec"] == old["spec"] else self.validate(obj)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validate_immutable_fields(obj["spec"], old["spec"], "spec", {"selector": validation.SELECTOR})
