"""HorizontalPodAutoscalers: ``autoscaling/v1`` and ``v2`` are one kind of object, stored as v2.

After kubernetes' ``pkg/apis/autoscaling/{v1,v2}`` (v1.36). v1 knows one metric, the use of CPU; everything else is in
annotations of the v1 form (``autoscaler_forms``).
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object, decode, encode_object
from pilothouse.apiserver.resources import ResourceInfo, built_in
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import child, fill, number_problems
from pilothouse.env.later import later

if TYPE_CHECKING:
    from pilothouse.apiserver.strategies import autoscaler_forms as forms
else:
    forms = later("pilothouse.apiserver.strategies.autoscaler_forms")


@lru_cache(maxsize=1)
def _stored() -> ResourceInfo:
    return next(info for info in built_in() if info.resource == "horizontalpodautoscalers" and info.version == "v2")


def _is_v1(obj: Object) -> bool:
    return obj.get("apiVersion") == "autoscaling/v1"


def _problems(obj: Object, old: Object | None) -> list[FieldError]:
    from pilothouse.apiserver.strategies.autoscaler_rules import autoscaler_problems  # which no start needs

    return autoscaler_problems(_judged(obj)["spec"], None if old is None else _judged(old)["spec"])


def _judged(obj: Object) -> Object:
    """The older form is judged as what it is stored as."""
    return forms.to_v2(obj) if _is_v1(obj) else obj


def _keep(obj: Object, old: Object, names: Sequence[str]) -> None:
    """Let these annotations of a v1 object be the stored ones: the write is not about what they stand for."""
    meta = obj["metadata"]
    stored = (old.get("metadata") or {}).get("annotations") or {}
    given = meta.get("annotations") or {}
    if any(name in stored or name in given for name in names):
        others = {name: value for name, value in given.items() if name not in names}
        meta["annotations"] = others | {name: stored[name] for name in names if name in stored}


def _v2_status(status: Object) -> Object:
    shown = {"desiredReplicas": 0, "currentMetrics": None, **status}
    if not shown.get("currentReplicas"):
        shown.pop("currentReplicas", None)
    return shown


def _default_behavior(behavior: Object) -> None:
    """Both directions, as ``GenerateHPAScaleUpRules`` and ``GenerateHPAScaleDownRules`` fill them in."""
    up, down = child(behavior, "scaleUp"), child(behavior, "scaleDown")
    percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    fill(up, {"stabilizationWindowSeconds": 0})
    for rules, policies in ((up, [{"type": "Pods", "value": 4, "periodSeconds": 15}, percent]), (down, [percent])):
        fill(rules, {"selectPolicy": "Max"})
        if not rules.get("policies"):
            rules["policies"] = [dict(policy) for policy in policies]


class AutoscalerStrategy(Strategy):
    """One strategy for both versions: an object says itself which form it has."""

    def default(self, obj: Object) -> None:
        spec: Object = obj.setdefault("spec", {})
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        meta: Object = obj["metadata"]
        if _is_v1(obj):
            if spec.get("targetCPUUtilizationPercentage") is None and not forms.carried_metrics(meta):
                spec["targetCPUUtilizationPercentage"] = forms.DEFAULT_UTILIZATION
            return
        # In v2 they would stand for what has fields.
        if meta.get("annotations"):
            meta["annotations"] = forms.without_carried(meta)["annotations"]
        if not spec.get("metrics"):
            spec["metrics"] = [forms.cpu_metric(forms.DEFAULT_UTILIZATION, "target")]
        if spec.get("behavior") is not None:
            _default_behavior(spec["behavior"])

    def prepare_create(self, obj: Object, now: str) -> None:
        if _is_v1(obj):
            _keep(obj, {}, forms.OF_STATUS)

    def prepare_update(self, obj: Object, old: Object) -> None:
        if _is_v1(obj):
            _keep(obj, old, forms.OF_STATUS)

    def prepare_status(self, obj: Object, old: Object, now: str) -> None:
        if _is_v1(obj):
            _keep(obj, old, forms.OF_SPEC)

    def validate(self, obj: Object) -> list[FieldError]:
        return _problems(obj, None)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return _problems(obj, old)

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        return number_problems(obj.get("status") or {}, "status", ("currentReplicas", "desiredReplicas"))

    def finish(self, obj: Object) -> None:
        # v1 prints both counts; v2 leaves out a current count of zero and prints metrics that are unset.
        status: Object = obj.get("status") or {}
        if _is_v1(obj):
            obj["status"] = {"currentReplicas": 0, "desiredReplicas": 0, **status}
        else:
            obj["status"] = _v2_status(status)

    def stored_as(self, info: ResourceInfo) -> ResourceInfo:
        return _stored()

    def to_storage(self, info: ResourceInfo, obj: Object) -> Object:
        if info.version != "v1":
            return obj
        stored = forms.to_v2(obj)
        return {**stored, "status": _v2_status(stored["status"])}

    def from_storage(self, info: ResourceInfo, value: bytes) -> bytes:
        shown = forms.to_v1(decode(value))
        return encode_object(info, {**shown, "status": {"currentReplicas": 0, **shown["status"]}})
