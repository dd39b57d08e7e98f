"""FlowSchemas and PriorityLevelConfigurations: kept, and shown; nobody queues by them here.

After kubernetes' ``pkg/apis/flowcontrol/{v1/defaults.go,validation}`` (v1.36). Two of each are mandatory: what they say
is fixed, except for the shares of the exempt level.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import child, fill, go_named
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors

_LAST = 10000
_MOST_QUEUES = 10_000_000
_MOST_BITS = 60
_METHODS = ("ByNamespace", "ByUser")
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_LEVELS = ("Exempt", "Limited")
_RESPONSES = ("Queue", "Reject")
_PERCENT = "must be between 0 and 100, inclusive"
_NATURAL = "must be a non-negative integer"
_ZERO_SHARES = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"


@lru_cache(maxsize=1)
def _mandatory() -> dict[str, Object]:
    """The specs that are fixed, by kind and name."""
    # Start objects know what else there is, strategies too.
    from pilothouse.apiserver.start_objects import flow_control

    found = {(resource, obj["metadata"]["name"]): obj["spec"] for _group, resource, obj in flow_control("")}
    return {f"{resource}/{name}": found[resource, name] for resource, name in found if name in ("catch-all", "exempt")}


class FlowSchemaStrategy(Strategy):
    """Which requests belong to which level."""

    def default(self, obj: Object) -> None:
        fill(child(obj, "spec"), {"matchingPrecedence": 1000})

    def validate(self, obj: Object) -> list[FieldError]:
        spec, name = obj["spec"], obj["metadata"].get("name") or ""
        problems = _precedence_problems(spec["matchingPrecedence"], name)
        method, level = spec.get("distinguisherMethod"), (spec.get("priorityLevelConfiguration") or {}).get("name")
        if method is not None and method.get("type") not in _METHODS:
            shown = {"Type": method.get("type") or ""}
            problems.append(errors.not_supported("spec.distinguisherMethod.type", shown, _METHODS))
        where = "spec.priorityLevelConfiguration.name"
        if not level:
            problems.append(errors.required(where, "must reference a priority level"))
        else:
            problems += [errors.invalid_value(where, level, text) for text in dns_subdomain_errors(level)]
        for position, rule in enumerate(spec.get("rules") or ()):
            problems += _rule_problems(rule, f"spec.rules[{position}]")
        fixed = _mandatory().get(f"flowschemas/{name}")
        if fixed is not None and spec != fixed:
            told = f"spec of '{name}' must equal the fixed value"
            problems.append(errors.invalid_value("spec", go_named(spec), told))
        return problems

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        return _status_problems(obj)


class PriorityLevelStrategy(Strategy):
    """How many requests of a level are served at a time."""

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
        spec, name = obj["spec"], obj["metadata"].get("name") or ""
        problems: list[FieldError] = []
        if _ZERO_SHARES in (obj["metadata"].get("annotations") or {}):
            problems.append(errors.not_allowed("metadata.annotations", f"annotation '{_ZERO_SHARES}' is forbidden"))
        problems += _level_problems(spec, name)
        fixed = _mandatory().get(f"prioritylevelconfigurations/{name}")
        if fixed is None:
            return problems
        if name == "exempt":
            if {**spec, "exempt": fixed["exempt"]} != fixed:
                told = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
                problems.append(errors.invalid_value("spec", go_named(spec), told))
        elif spec != fixed:
            told = f"spec of '{name}' must equal the fixed value"
            problems.append(errors.invalid_value("spec", go_named(spec), told))
        return problems

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        return _status_problems(obj)


def _status_problems(obj: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    seen = set[str]()
    for position, condition in enumerate((obj.get("status") or {}).get("conditions") or ()):
        where, kind = f"status.conditions[{position}].type", condition.get("type") or ""
        if kind in seen:
            problems.append(errors.duplicate(where, kind))
        seen.add(kind)
        if not kind:
            problems.append(errors.required(where))
    return problems


# FlowSchemas ---------------------------------------------------------------------------------------------------------


def _precedence_problems(precedence: int, name: str) -> list[FieldError]:
    texts = {
        "must be a positive value": precedence <= 0,
        f"must not be greater than {_LAST}": precedence > _LAST,
        "only the schema named 'exempt' may have matchingPrecedence 1": precedence == 1 and name != "exempt",
    }
    return [errors.invalid_value("spec.matchingPrecedence", precedence, text) for text, wrong in texts.items() if wrong]


def _rule_problems(rule: Object, path: str) -> list[FieldError]:
    subjects, resources, urls = (rule.get(field) or () for field in ("subjects", "resourceRules", "nonResourceRules"))
    problems: list[FieldError] = []
    for position, subject in enumerate(subjects):
        problems += _subject_problems(subject, f"{path}.subjects[{position}]")
    if not subjects:
        problems.append(errors.required(f"{path}.subjects", "subjects must contain at least one value"))
    if not resources and not urls:
        text = "at least one of resourceRules and nonResourceRules has to be non-empty"
        problems.append(errors.required(path, text))
    for position, one in enumerate(resources):
        problems += _resource_problems(one, f"{path}.resourceRules[{position}]")
    for position, one in enumerate(urls):
        problems += _url_rule_problems(one, f"{path}.nonResourceRules[{position}]")
    return problems


def _subject_problems(subject: Object, path: str) -> list[FieldError]:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECTS:
        return [errors.not_supported(f"{path}.kind", kind, sorted(_SUBJECTS))]
    field = _SUBJECTS[kind]
    where, given = f"{path}.{field}", subject.get(field)
    problems: list[FieldError] = []
    if given is None:
        problems.append(errors.required(where, f"{field} is required when subject kind is '{kind}'"))
    elif not given.get("name"):
        problems.append(errors.required(f"{where}.name"))
    if given is not None and kind == "ServiceAccount":
        problems += _account_problems(given, where)
    for other in ("serviceAccount", "user", "group"):
        if other != field and subject.get(other) is not None:
            owner = next(name for name, its in _SUBJECTS.items() if its == other)
            text = f"{other} is forbidden when subject kind is not '{owner}'"
            problems.append(errors.not_allowed(f"{path}.{other}", text))
    return problems


def _account_problems(account: Object, path: str) -> list[FieldError]:
    name, namespace = account.get("name") or "", account.get("namespace") or ""
    problems: list[FieldError] = []
    if name not in ("", "*"):
        problems += [errors.invalid_value(f"{path}.name", name, text) for text in dns_subdomain_errors(name)]
    where = f"{path}.namespace"
    if not namespace:
        return [*problems, errors.required(where, "must specify namespace for service account")]
    return problems + [errors.invalid_value(where, namespace, text) for text in dns_label_errors(namespace)]


def _alone(values: Sequence[str], path: str, called: str) -> list[FieldError]:
    if "*" not in values or len(values) < 2:
        return []
    return [errors.invalid_value(path, list(values), f"if '*' is present, must not specify other {called}")]


def _verb_problems(verbs: Sequence[str], path: str) -> list[FieldError]:
    if not verbs:
        return [errors.required(path, "verbs must contain at least one value")]
    if "*" in verbs:
        return _alone(verbs, path, "verbs")
    return [] if set(verbs) <= set(_VERBS) else [errors.not_supported(path, list(verbs), _VERBS)]


def _resource_problems(rule: Object, path: str) -> list[FieldError]:
    problems = _verb_problems(rule.get("verbs") or (), f"{path}.verbs")
    for field, called, one in (
        ("apiGroups", "api groups", "api group"),
        ("resources", "resources", "resource"),
    ):
        values, where = rule.get(field) or (), f"{path}.{field}"
        if not values:
            problems.append(errors.required(where, f"resource rules must supply at least one {one}"))
        problems += _alone(values, where, called)
    namespaces, where = rule.get("namespaces") or (), f"{path}.namespaces"
    if not namespaces and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        problems.append(errors.required(where, text))
    elif "*" in namespaces:
        problems += _alone(namespaces, where, "namespaces")
    else:
        begin = "each member of this list must be '*' or a DNS-1123 label; "
        problems += [
            errors.invalid_value(f"{where}[{position}]", namespace, begin + text)
            for position, namespace in enumerate(namespaces)
            for text in dns_label_errors(namespace)
        ]
    return problems


def _url_rule_problems(rule: Object, path: str) -> list[FieldError]:
    problems = _verb_problems(rule.get("verbs") or (), f"{path}.verbs")
    urls, where = rule.get("nonResourceURLs") or (), f"{path}.nonResourceURLs"
    if not urls:
        problems.append(errors.required(where, "nonResourceURLs must contain at least one value"))
    elif "*" in urls:
        problems += _alone(urls, where, "non-resource URLs")
    else:
        for position, url in enumerate(urls):
            fault = _url_fault(url)
            problems += [errors.invalid_value(f"{where}[{position}]", url, fault)] if fault else []
    return problems


def _url_fault(url: str) -> str:
    stars = url.count("*")
    faults = (
        (not url, "must not be empty"),
        (not url.startswith("/"), "must start with slash"),
        (" " in url, "must not contain white-space"),
        ("//" in url, "must not contain double slash"),
        (stars > 1 or (stars == 1 and not url.endswith("/*")), "wildcard can only do suffix matching"),
    )
    return next((text for wrong, text in faults if wrong), "")


# PriorityLevelConfigurations -----------------------------------------------------------------------------------------


def _level_problems(spec: Object, name: str) -> list[FieldError]:
    kind, limited, exempt = spec.get("type") or "", spec.get("limited"), spec.get("exempt")
    problems: list[FieldError] = []
    if (name == "exempt") != (kind == "Exempt"):
        text = "must be 'Exempt' if and only if `name` is 'exempt'"
        problems.append(errors.invalid_value("spec.type", kind, text))
    if kind == "Exempt":
        if limited is not None:
            problems.append(errors.not_allowed("spec.limited", "must be nil if the type is not Limited"))
        if exempt is not None:
            problems += _share_problems(exempt, "spec.exempt") + _percent_problems(exempt, "spec.exempt")
        return problems
    if kind != "Limited":
        found = errors.not_supported("spec.type", kind, _LEVELS) if kind else errors.required("spec.type")
        return [*problems, found]
    if exempt is not None:
        problems.append(errors.not_allowed("spec.exempt", "must be nil if the type is Limited"))
    if limited is None:
        return [*problems, errors.required("spec.limited", "must not be empty when type is Limited")]
    problems += _share_problems(limited, "spec.limited")
    problems += _response_problems(limited.get("limitResponse") or {}, "spec.limited.limitResponse")
    problems += _percent_problems(limited, "spec.limited")
    borrowed = limited.get("borrowingLimitPercent")
    if borrowed is not None and borrowed < 0:
        where, text = "spec.limited.borrowingLimitPercent", f"if specified, {_NATURAL}"
        problems.append(errors.invalid_value(where, borrowed, text))
    return problems


def _share_problems(holder: Object, path: str) -> list[FieldError]:
    shares = holder.get("nominalConcurrencyShares") or 0
    return [errors.invalid_value(f"{path}.nominalConcurrencyShares", shares, _NATURAL)] if shares < 0 else []


def _percent_problems(holder: Object, path: str) -> list[FieldError]:
    percent = holder.get("lendablePercent") or 0
    return [] if 0 <= percent <= 100 else [errors.invalid_value(f"{path}.lendablePercent", percent, _PERCENT)]


def _response_problems(response: Object, path: str) -> list[FieldError]:
    """What becomes of a request that cannot be served at once."""
    kind, queuing, where = response.get("type") or "", response.get("queuing"), f"{path}.queuing"
    if kind == "Reject":
        text = "must be nil if limited.limitResponse.type is not Limited"
        return [] if queuing is None else [errors.not_allowed(where, text)]
    if kind != "Queue":
        return [errors.not_supported(f"{path}.type", kind, _RESPONSES) if kind else errors.required(f"{path}.type")]
    if queuing is None:
        return [errors.required(where, "must not be empty if limited.limitResponse.type is Limited")]
    return _queue_problems(queuing, where)


def _queue_problems(queuing: Object, path: str) -> list[FieldError]:
    queues, hand, length = (queuing[field] for field in ("queues", "handSize", "queueLengthLimit"))
    problems: list[FieldError] = []

    def tell(field: str, value: int, text: str) -> None:
        problems.append(errors.invalid_value(f"{path}.{field}", value, text))

    if length <= 0:
        tell("queueLengthLimit", length, "must be positive")
    if queues <= 0:
        tell("queues", queues, "must be positive")
    elif queues > _MOST_QUEUES:
        tell("queues", queues, f"must not be greater than {_MOST_QUEUES}")
    if hand <= 0:
        tell("handSize", hand, "must be positive")
    elif hand > queues:
        tell("handSize", hand, f"should not be greater than queues ({queues})")
    elif math.ceil(math.log2(queues) * hand) > _MOST_BITS:
        text = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_MOST_BITS}"
        tell("handSize", hand, text)
    return problems
