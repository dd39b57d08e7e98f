"""The status of a budget. Pure.

Upstream: ``updatePdbStatus`` and ``failSafe`` of v1.36 ``pkg/controller/disruption/disruption.go``, and
``component-helpers/apps/poddisruptionbudget/helpers.go``.
"""

import datetime
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from pilothouse.api.meta import Condition
from pilothouse.api.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from pilothouse.controllers.policy.disruption.decide import Counts
from pilothouse.machinery.conditions import find_condition, with_condition
from pilothouse.machinery.splice import replace_fields
from pilothouse.machinery.times import format_time

DISRUPTION_ALLOWED = "DisruptionAllowed"
SUFFICIENT = "SufficientPods"
INSUFFICIENT = "InsufficientPods"
SYNC_FAILED = "SyncFailed"


def new_status(
    budget: PodDisruptionBudget,
    counts: Counts,
    healthy: int,
    awaited: Mapping[str, datetime.datetime],
    now: datetime.datetime,
) -> PodDisruptionBudgetStatus | None:
    """The new status; ``None`` if nothing changed. A budget without expected pods allows no evictions, because its
    first pods may be created before this controller observes them."""
    allowed = max(0, healthy - counts.desired) if counts.expected > 0 else 0
    generation = budget.metadata.generation
    old = budget.status
    status, reason = ("True", SUFFICIENT) if allowed > 0 else ("False", INSUFFICIENT)
    previous = find_condition(old.conditions, DISRUPTION_ALLOWED)
    new = replace(
        old,
        observed_generation=generation,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=counts.desired,
        expected_pods=counts.expected,
        disrupted_pods=dict(awaited),
    )
    # Neither the condition's message nor its generation counts, as upstream.
    if new == old and previous is not None and (previous.status, previous.reason) == (status, reason):
        return None
    condition = Condition(
        type=DISRUPTION_ALLOWED,
        status=status,
        reason=reason,
        observed_generation=generation,
        last_transition_time=now,
    )
    return replace(new, conditions=with_condition(old.conditions, condition))


def describe(budget: PodDisruptionBudget, counts: Counts, status: PodDisruptionBudgetStatus) -> str:
    """The arithmetic in a sentence."""
    spec = budget.spec
    if spec.max_unavailable is not None:
        bound = f"maxUnavailable {spec.max_unavailable}"
    else:
        bound = f"minAvailable {spec.min_available}"
    evicted = f", {len(status.disrupted_pods)} evicted pods are still there" if status.disrupted_pods else ""
    return (
        f"{counts.expected} pods are expected, {bound}: {counts.desired} must be healthy and "
        f"{status.current_healthy} are{evicted}, so {status.disruptions_allowed} disruptions are allowed"
    )


def fail_safe_status(budget: PodDisruptionBudget, reason: str, now: datetime.datetime) -> PodDisruptionBudgetStatus:
    """The status after an error: no evictions are allowed, all else stays, also ``observedGeneration``."""
    old = budget.status
    condition = Condition(
        type=DISRUPTION_ALLOWED,
        status="False",
        reason=SYNC_FAILED,
        message=reason,
        observed_generation=old.observed_generation,
        last_transition_time=now,
    )
    return replace(old, disruptions_allowed=0, conditions=with_condition(old.conditions, condition))


def status_body(raw: bytes, status: PodDisruptionBudgetStatus) -> bytes:
    """``raw`` with this status. Unknown fields stay."""
    disrupted = {name: format_time(at) for name, at in sorted(status.disrupted_pods.items())}
    encode = msgspec.json.encode
    return replace_fields(
        raw,
        {
            "status.observedGeneration": encode(status.observed_generation) if status.observed_generation else None,
            "status.disruptedPods": encode(disrupted) if disrupted else None,
            "status.disruptionsAllowed": encode(status.disruptions_allowed),
            "status.currentHealthy": encode(status.current_healthy),
            "status.desiredHealthy": encode(status.desired_healthy),
            "status.expectedPods": encode(status.expected_pods),
            "status.conditions": encode([_condition(condition) for condition in status.conditions]),
        },
    )


def _condition(condition: Condition) -> dict[str, object]:
    """Reason and message are required, also if they are empty."""
    at = condition.last_transition_time
    document: dict[str, object] = {"type": condition.type, "status": condition.status}
    if condition.observed_generation:
        document["observedGeneration"] = condition.observed_generation
    document["lastTransitionTime"] = format_time(at) if at is not None else None
    return {**document, "reason": condition.reason, "message": condition.message}
