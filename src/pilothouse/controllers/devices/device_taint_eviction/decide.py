"""When a pod must be evicted because of its devices, and why. Pure. Upstream: v1.36
``pkg/controller/devicetainteviction/device_taint_eviction.go``."""

import datetime
from collections.abc import Callable, Iterable, Sequence

import msgspec

from pilothouse.api.core import Pod
from pilothouse.api.resource import AllocatedDevice, DeviceTaint, DeviceTaintRule, ResourceClaim
from pilothouse.semantics.devices import (
    NO_EXECUTE,
    ClaimOfEntry,
    claim_of,
    is_for_pod,
    is_reserved_for,
    tolerates,
)
from pilothouse.semantics.pods import is_terminal


class Reason(msgspec.Struct, frozen=True, order=True):
    """A taint of a rule or of a device in a slice. Rules are sorted first."""

    by_slice: bool
    rule: str = ""
    rule_uid: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    index: int = 0
    slice: str = ""

    def __str__(self) -> str:
        if not self.by_slice:
            return f"DeviceTaintRule {self.rule}:{self.rule_uid}"
        return f"ResourceSlice {self.slice} {self.driver}/{self.pool}/{self.device} taint #{self.index}"


Tainted = tuple[Reason, DeviceTaint]


class Eviction(msgspec.Struct, frozen=True):
    """When pods must be evicted, and every reason for it."""

    at: datetime.datetime
    reasons: tuple[Reason, ...]

    def is_by(self, rule_uid: str) -> bool:
        return any(reason.rule_uid == rule_uid for reason in self.reasons if not reason.by_slice)


TaintsOf = Callable[[AllocatedDevice], Iterable[Tainted]]
"""The NoExecute taints of a device."""


def rule_matches(rule: DeviceTaintRule, driver: str, pool: str, device: str) -> bool:
    desired = rule.spec.device_selector
    if desired is None:
        return False
    return desired.driver in (None, driver) and desired.pool in (None, pool) and desired.device in (None, device)


def taints_by_rules(rules: Iterable[DeviceTaintRule], device: AllocatedDevice) -> list[Tainted]:
    return [
        (Reason(by_slice=False, rule=rule.metadata.name, rule_uid=rule.metadata.uid), rule.spec.taint)
        for rule in rules
        if rule.spec.taint.effect == NO_EXECUTE and rule_matches(rule, device.driver, device.pool, device.device)
    ]


def tolerated_until(taint: DeviceTaint, device: AllocatedDevice) -> datetime.datetime | None:
    """The time until which the taint is tolerated, by the shortest matching toleration; None if forever.

    A toleration without an effect matches all effects, as the API documents. Upstream ignores such a toleration here,
    but not in the scheduler, so that pods get devices and are evicted immediately. A taint without ``timeAdded``, which
    no API server stores, is ignored.
    """
    if taint.time_added is None:
        return None
    seconds: int | None = None
    for toleration in device.tolerations:
        if tolerates(toleration, taint):
            if toleration.toleration_seconds is None:
                return None
            limit = max(0, toleration.toleration_seconds)
            seconds = limit if seconds is None else min(seconds, limit)
    try:
        return taint.time_added + datetime.timedelta(seconds=seconds or 0)
    except OverflowError:
        return None


def claim_eviction(claim: ResourceClaim, taints_of: TaintsOf) -> Eviction | None:
    """When the pods that use the claim must be evicted; None if never."""
    if claim.status.allocation is None:
        return None
    reasons: dict[Reason, datetime.datetime] = {}
    for device in claim.status.allocation.devices.results:
        for reason, taint in taints_of(device):
            at = tolerated_until(taint, device)
            if at is not None:
                reasons[reason] = min(at, reasons.get(reason, at))
    return Eviction(min(reasons.values()), tuple(sorted(reasons))) if reasons else None


def pod_eviction(pod: Pod, get_claim: Callable[[str], ResourceClaim | None], taints_of: TaintsOf) -> Eviction | None:
    """When the pod must be evicted; None if it may stay, has terminated, or has no node yet. ``get_claim`` returns a
    claim of its namespace by name."""
    if not pod.spec.node_name or is_terminal(pod):
        return None
    evictions: list[Eviction] = []
    for entry in pod.spec.resource_claims:
        claim_of_entry = claim_of(pod, entry)
        claim = get_claim(claim_of_entry.name) if isinstance(claim_of_entry, ClaimOfEntry) else None
        if (
            claim is None
            or not isinstance(claim_of_entry, ClaimOfEntry)
            or (claim_of_entry.for_pod and not is_for_pod(pod, claim))
        ):
            continue
        # A claim that is not reserved for this pod may be reserved for an earlier pod of the same name.
        eviction = claim_eviction(claim, taints_of) if is_reserved_for(pod, claim) else None
        if eviction is not None:
            evictions.append(eviction)
    return _joined(evictions)


def _joined(evictions: Sequence[Eviction]) -> Eviction | None:
    if len(evictions) < 2:
        return evictions[0] if evictions else None
    reasons = {reason: None for eviction in evictions for reason in eviction.reasons}
    return Eviction(min(eviction.at for eviction in evictions), tuple(sorted(reasons)))
