"""Limits, quotas, budgets, priorities and runtimes: small kinds that restrict pods.

After kubernetes' ``pkg/apis/{core,policy,scheduling,node}/{v1/defaults.go,validation}`` (v1.36).
"""

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.amounts import (
    amount_problems,
    container_resource_texts,
    may_be_overcommitted,
    requirement_problems,
)
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.conditions import condition_problems
from pilothouse.apiserver.strategies.filling import (
    IMMUTABLE,
    child,
    fill,
    fixed,
    number_problems,
)
from pilothouse.apiserver.strategies.rollouts import count_problems
from pilothouse.apiserver.strategies.selectors import label_problems_in, selector_problems
from pilothouse.apiserver.strategies.tolerations import toleration_problems
from pilothouse.machinery.names import dns_label_errors, qualified_name_errors
from pilothouse.machinery.quantities import canonicalize, parse_quantity

_AMOUNTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_HIGHEST_USER_PRIORITY = 1_000_000_000
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPTION = ("PreemptLowerPriority", "Never")
_LIMITED = ("Container", "PersistentVolumeClaim", "Pod")
_SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)
_EVICTION = ("AlwaysAllow", "IfHealthyBudget")


class LimitRangeStrategy(Strategy):
    """For containers, a maximum is also the default, and a default limit the default request."""

    def default(self, obj: Object) -> None:
        for item in child(obj, "spec").get("limits") or ():
            for field in _AMOUNTS:
                canonicalize(item.get(field))
            if item.get("type") != "Container":
                continue
            default = {**(item.get("max") or {}), **(item.get("default") or {})}
            request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
            for field, amounts in (("default", default), ("defaultRequest", request)):
                if amounts:
                    item[field] = {name: amounts[name] for name in sorted(amounts)}

    def finish(self, obj: Object) -> None:
        obj["spec"].setdefault("limits", None)  # printed even when there are none

    def prepare_create(self, obj: Object, now: str) -> None:
        meta = obj["metadata"]
        if not meta.get("name"):
            # Upstream makes a uid for a name, too (pkg/registry/core/limitrange/strategy.go, v1.36).
            meta["name"] = meta["uid"]

    def validate(self, obj: Object) -> list[FieldError]:
        problems: list[FieldError] = []
        kinds: list[str] = []
        for position, item in enumerate(obj["spec"].get("limits") or ()):
            path, kind = f"spec.limits[{position}]", item.get("type") or ""
            if kind in kinds:
                problems.append(errors.duplicate(f"{path}.type", kind))
            kinds.append(kind)
            told = qualified_name_errors(kind)
            if not told and "/" not in kind and kind not in _LIMITED:
                told = ["must be a standard limit type or fully qualified"]
            problems += [errors.invalid_value(f"{path}.type", kind, text) for text in told]
            for name, ratio in (item.get("maxLimitRequestRatio") or {}).items():
                if parse_quantity(ratio) < parse_quantity("1"):
                    where = f"{path}.maxLimitRequestRatio[{name}]"
                    problems.append(errors.invalid_value(where, ratio, f"ratio {ratio} is less than 1"))
            problems += _limit_problems(item, kind, path)
        return problems


def _limit_problems(item: Object, kind: str, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    low, high = item.get("min") or {}, item.get("max") or {}
    request, default = item.get("defaultRequest") or {}, item.get("default") or {}
    if kind == "Pod":
        problems += [
            errors.not_allowed(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
            for field in ("default", "defaultRequest")
            if item.get(field)
        ]
    if kind == "PersistentVolumeClaim" and "storage" not in low and "storage" not in high:
        text = "either minimum or maximum storage value is required, but neither was provided"
        problems.append(errors.required(f"{path}.limits", text))
    for field in _AMOUNTS:
        if kind == "Pod" and field in ("default", "defaultRequest"):
            continue  # which is all that is said of them
        for name in sorted(item.get(field) or {}):
            problems += _limit_name_problems(name, kind, f"{path}.{field}[{name}]")
    for name in sorted({**low, **high, **request, **default}):
        for field, lower, upper, text in (
            ("min", low, high, "min value {} is greater than max value {}"),
            ("defaultRequest", low, request, "min value {} is greater than default request value {}"),
            ("defaultRequest", request, high, "default request value {} is greater than max value {}"),
            ("defaultRequest", request, default, "default request value {} is greater than default limit value {}"),
            ("default", low, default, "min value {} is greater than default value {}"),
            ("default", default, high, "default value {} is greater than max value {}"),
        ):
            if name in lower and name in upper and parse_quantity(lower[name]) > parse_quantity(upper[name]):
                shown = request if field == "defaultRequest" else low if field == "min" else default
                where = f"{path}.{field}[{name}]"
                value = shown.get(name, lower[name])
                problems.append(errors.invalid_value(where, value, text.format(lower[name], upper[name])))
        asked, given = request.get(name), default.get(name)
        if asked is None or given is None or may_be_overcommitted(name):
            continue
        if parse_quantity(asked) != parse_quantity(given):
            told = f"default value {given} must equal to defaultRequest value {asked} in {name}"
            problems.append(errors.invalid_value(f"{path}.defaultRequest[{name}]", asked, told))
    return problems


_AMOUNTS_LIMITED = ("cpu", "memory", "ephemeral-storage", "storage", "pods")


def _limit_name_problems(name: str, kind: str, path: str) -> list[FieldError]:
    """Names without a domain are those of resources that every server knows (``validateLimitRangeResourceName``)."""
    if kind in ("Container", "Pod"):
        return [errors.invalid_value(path, name, text) for text in container_resource_texts(name)]
    problems = [errors.invalid_value(path, name, text) for text in qualified_name_errors(name)]
    if problems or "/" in name or name in _AMOUNTS_LIMITED or name.startswith("hugepages-"):
        return problems
    return [errors.invalid_value(path, name, "must be a standard resource type or fully qualified")]


class QuotaStrategy(Strategy):
    """Scopes never change; amounts are not negative."""

    def default(self, obj: Object) -> None:
        canonicalize(child(obj, "spec").get("hard"))

    def validate(self, obj: Object) -> list[FieldError]:
        problems = _quota_problems(obj["spec"].get("hard"), "spec.hard")
        scopes = obj["spec"].get("scopes") or []
        problems += _scope_problems(obj["spec"], scopes)
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        spec, before = obj["spec"], old["spec"]
        problems = self.validate_again(obj)
        if sorted(spec.get("scopes") or ()) != sorted(before.get("scopes") or ()):
            problems.append(errors.invalid_value("spec.scopes", spec.get("scopes"), IMMUTABLE))
        return problems

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        status = obj.get("status") or {}
        return [one for field in ("hard", "used") for one in _quota_problems(status.get(field), f"status.{field}")]


def _quota_problems(amounts: Object | None, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    for name, amount in (amounts or {}).items():
        problems += _quota_name_problems(name, f"{path}[{name}]") + amount_problems(name, amount, f"{path}[{name}]")
    return problems


_FITTING = {"BestEffort": ("pods",), "VolumeAttributesClass": ("persistentvolumeclaims", "requests.storage")}
_OF_PODS = ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")


def _scope_problems(spec: Object, scopes: list[str]) -> list[FieldError]:
    """What is wrong with listed and selected scopes (``validateResourceQuotaScopes``, ``validateScopeSelector``)."""
    problems: list[FieldError] = []
    for scope in scopes:
        if scope not in _SCOPES:
            problems.append(errors.invalid_value("spec.scopes", scopes, "unsupported scope"))
        problems += _misapplied(spec, scope, "spec.scopes", scopes)
    problems += _conflicts(scopes, "spec.scopes", scopes)
    selector: Object = spec.get("scopeSelector") or {}
    path = "spec.scopeSelector.matchExpressions"
    selected = []
    for term in selector.get("matchExpressions") or ():
        scope, operator, values = term.get("scopeName") or "", term.get("operator") or "", term.get("values") or []
        if scope not in _SCOPES:
            problems.append(errors.invalid_value(f"{path}.scopeName", scope, "unsupported scope"))
        problems += _misapplied(spec, scope, path, selector)
        if scope in _EXIST_ONLY and operator != "Exists":
            problems.append(errors.invalid_value(f"{path}.operator", operator, _ONLY_EXISTS))
        if operator in ("In", "NotIn"):
            if not values:
                problems.append(errors.required(f"{path}.values", _SOME_VALUES))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                problems.append(errors.invalid_value(f"{path}.values", values, _NO_VALUES))
        else:
            problems.append(errors.invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
        selected.append(scope)
    # Upstream shows the listed scopes here, too.
    return problems + _conflicts(selected, path, spec.get("scopes"))


_EXIST_ONLY = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_ONLY_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_SOME_VALUES = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
_NO_VALUES = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"


def _misapplied(spec: Object, scope: str, path: str, shown: object) -> list[FieldError]:
    """Scopes are about pods, one of them about claims; each amount of something else is told of."""
    fitting = _FITTING.get(scope, ("pods", *_OF_PODS))
    return [
        errors.invalid_value(path, shown, "unsupported scope applied to resource")
        for name in sorted(spec.get("hard") or {})
        if name in _QUOTA_NAMES and name not in fitting and scope in _SCOPES
    ]


def _conflicts(scopes: list[str], path: str, shown: object) -> list[FieldError]:
    return [
        errors.invalid_value(path, shown, "conflicting scopes")
        for pair in (("BestEffort", "NotBestEffort"), ("NotTerminating", "Terminating"))
        if all(scope in scopes for scope in pair)
    ]


_QUOTA_NAMES = frozenset(
    (
        *("cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage"),
        *("requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods"),
        *("resourcequotas", "services", "replicationcontrollers", "secrets", "persistentvolumeclaims", "configmaps"),
        *("services.nodeports", "services.loadbalancers"),
    )
)


def _quota_name_problems(name: str, path: str) -> list[FieldError]:
    """Names without a domain are those that every server knows (``ValidateResourceQuotaResourceName``)."""
    problems = [errors.invalid_value(path, name, text) for text in qualified_name_errors(name)]
    if not problems and "/" not in name and name not in _QUOTA_NAMES and not name.startswith("requests.hugepages-"):
        problems.append(errors.invalid_value(path, name, "must be a standard resource type or fully qualified"))
        problems.append(errors.invalid_value(path, name, "must be a standard resource for quota"))
    return problems


class BudgetStrategy(Strategy):
    """PodDisruptionBudgets."""

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        problems: list[FieldError] = []
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            shown = {
                "MinAvailable": spec["minAvailable"],
                "Selector": spec.get("selector"),
                "MaxUnavailable": spec["maxUnavailable"],
                "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
            }
            problems.append(errors.invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
        for field in ("minAvailable", "maxUnavailable"):
            problems += count_problems(spec.get(field), f"spec.{field}")
        if spec.get("selector") is not None:
            problems += selector_problems(spec["selector"], "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _EVICTION:
            problems.append(errors.not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION))
        return problems

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        status: Object = obj.get("status") or {}
        counts = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        return condition_problems(status.get("conditions") or (), "status.conditions") + number_problems(
            status, "status", counts
        )


class PriorityClassStrategy(Strategy):
    """The value never changes; names of the system are the system's."""

    def default(self, obj: Object) -> None:
        fill(obj, {"value": 0, "preemptionPolicy": "PreemptLowerPriority"})
        obj["metadata"]["generation"] = 1
        if obj.get("globalDefault") is False:
            del obj["globalDefault"]

    def validate(self, obj: Object) -> list[FieldError]:
        name, value = obj["metadata"].get("name") or "", obj["value"]
        problems: list[FieldError] = []
        if name.startswith("system-"):
            told = _foreign(name, value, obj.get("globalDefault") or False)
            if told:
                reserved = "priority class names with 'system-' prefix are reserved for system use only. error: "
                problems.append(errors.not_allowed("metadata.name", reserved + told))
        elif value > _HIGHEST_USER_PRIORITY:
            text = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
            problems.append(errors.not_allowed("value", text))
        policy = obj["preemptionPolicy"]
        if policy not in _PREEMPTION:
            problems.append(errors.not_supported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never")))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        problems: list[FieldError] = []
        if obj["value"] != old.get("value", 0):
            problems.append(errors.not_allowed("value", "may not be changed in an update."))
        return problems + fixed(obj, old, "", ("preemptionPolicy",))


def _foreign(name: str, value: int, is_default: bool) -> str:
    """Why it is none of the system's classes (``IsKnownSystemPriorityClass``)."""
    known = _SYSTEM_PRIORITIES.get(name)
    if known is None:
        return f"{name} is not a known system priority class"
    if value != known:
        return f"value of {name} PriorityClass must be {known}"
    return f"globalDefault of {name} PriorityClass must be false" if is_default else ""


class RuntimeClassStrategy(Strategy):
    """The handler never changes."""

    def default(self, obj: Object) -> None:
        canonicalize((obj.get("overhead") or {}).get("podFixed"))

    def validate(self, obj: Object) -> list[FieldError]:
        handler = obj.get("handler") or ""
        problems = [errors.invalid_value("handler", handler, text) for text in dns_label_errors(handler)]
        overhead = (obj.get("overhead") or {}).get("podFixed")
        problems += requirement_problems({"limits": overhead}, "overhead")
        scheduling = obj.get("scheduling") or {}
        problems += label_problems_in(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
        tolerations = scheduling.get("tolerations") or []
        problems += toleration_problems(tolerations, "scheduling.tolerations.tolerations")
        return problems + [
            errors.duplicate(f"scheduling.tolerations[{position}]", toleration)
            for position, toleration in enumerate(tolerations)
            if toleration in tolerations[:position]
        ]

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return self.validate_again(obj) + fixed(obj, old, "", ("handler",))


class RevisionStrategy(Strategy):
    """ControllerRevisions: what was written down stays."""

    def default(self, obj: Object) -> None:
        fill(obj, {"revision": 0})

    def validate(self, obj: Object) -> list[FieldError]:
        problems = number_problems(obj, "", ("revision",))
        data = obj.get("data")
        if data is None:
            problems.append(errors.required("data", "data is mandatory"))
        elif not isinstance(data, dict):
            problems.append(errors.required("data", "data must be a valid JSON object"))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return number_problems(obj, "", ("revision",)) + fixed(obj, old, "", ("data",))
