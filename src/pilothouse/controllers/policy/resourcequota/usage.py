"""The status of a quota. Pure. Upstream: v1.36 ``pkg/controller/resourcequota/resource_quota_controller.go``
and apiserver's ``pkg/quota/v1/resources.go`` (``CalculateUsage``)."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pilothouse.api.core import ResourceQuota
from pilothouse.machinery.quantities import Quantity
from pilothouse.semantics.pod_amounts import Amounts, amounts
from pilothouse.semantics.quota import Evaluator, ScopeRequirement


class NewStatus(msgspec.Struct, frozen=True):
    hard: dict[str, str]
    used: dict[str, str]


def scopes_of(quota: ResourceQuota) -> tuple[ScopeRequirement, ...]:
    """The scopes that an object must be in to be counted."""
    selector = quota.spec.scope_selector
    return (
        *(ScopeRequirement(scope_name=scope, operator="Exists") for scope in quota.spec.scopes),
        *(
            ScopeRequirement(scope_name=expression.scope_name, operator=expression.operator, values=expression.values)
            for expression in (selector.match_expressions if selector is not None else ())
        ),
    )


def new_status(quota: ResourceQuota, counted: Mapping[str, Quantity]) -> NewStatus | None:
    """The status to write; ``None`` if nothing changed. Resources that were not computed keep their usage; those that
    are no longer limited are removed."""
    used = amounts(quota.status.used) | dict(counted)
    used = {name: used[name] for name in sorted(used) if name in quota.spec.hard}
    same_limits = amounts(quota.spec.hard) == amounts(quota.status.hard)
    if same_limits and used == amounts(quota.status.used):
        return None
    return NewStatus(hard=quota.spec.hard, used={name: str(amount) for name, amount in used.items()})


def may_miss_objects(quota: ResourceQuota, counted: Mapping[str, Quantity]) -> bool:
    """Whether this usage may miss objects that are being created: a limit is new, and admission has not observed it
    yet; or some usage has decreased, so that the charge of objects that are not in the cache would be released."""
    hard, used = quota.status.hard, amounts(quota.status.used)
    return any(name not in hard or (name in used and amount < used[name]) for name, amount in counted.items())


def raised(quota: ResourceQuota, counted: Mapping[str, Quantity]) -> Amounts:
    """The usage as counted, where that is more than the quota has."""
    used = amounts(quota.status.used)
    return {name: max(amount, used.get(name, amount)) for name, amount in counted.items()}


def is_urgent(quota: ResourceQuota, evaluators: Iterable[Evaluator]) -> bool:
    """Whether limits are not in force yet: the status lacks them, or lacks the usage of something that can be
    counted."""
    hard = amounts(quota.status.hard)
    if amounts(quota.spec.hard) != hard:
        return True
    unknown = [name for name in hard if name not in quota.status.used]
    return bool(unknown) and any(evaluator.matching(unknown) for evaluator in evaluators)


def zero(names: Sequence[str]) -> Amounts:
    return dict.fromkeys(names, Quantity(0))


def describe(quota: ResourceQuota, status: NewStatus) -> str:
    """Why the status is written, in a sentence: the usage that has changed, against its limits."""
    old = quota.status.used
    changed = [
        f"{name} {old.get(name, 'none')} -> {used} of {status.hard.get(name, 'no limit')}"
        for name, used in status.used.items()
        if old.get(name) != used
    ]
    return f"usage was counted: {', '.join(changed) or 'as before, the limits have changed'}"
