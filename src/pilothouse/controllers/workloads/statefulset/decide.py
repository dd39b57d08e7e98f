"""Which pods one sync creates, updates and deletes. Pure; the plan is carried out in order, up to the first failure.

First the pods of the replicas, in ascending order; then condemned pods and the update, both in descending order. An
ordered StatefulSet stops at the first pod that is not healthy. Upstream: ``updateStatefulSet``,
``processReplica``, ``processCondemned`` and ``updateStatefulSetAfterInvariantEstablished``, v1.36
``pkg/controller/statefulset/stateful_set_control.go``.
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from pilothouse.api.core import PersistentVolumeClaim, Pod
from pilothouse.controllers.workloads.statefulset.identity import identity_matches, ordinal_of, revision_of
from pilothouse.controllers.workloads.statefulset.replicas import (
    ON_DELETE,
    ROLLING_UPDATE,
    Replicas,
    Rules,
    Slot,
    is_running_and_ready,
)
from pilothouse.controllers.workloads.statefulset.retention import (
    ClaimRetention,
    Policy,
    has_stale_owner_ref,
    is_claim_owner_updated_properly,
    pod_holder,
    set_holder,
)
from pilothouse.controllers.workloads.statefulset.volume_claims import ClaimTemplate, has_volumes
from pilothouse.semantics.pods import is_terminal


class CreatePod(msgspec.Struct, frozen=True):
    """Create the pod, after its claims, from the current revision or from the update revision."""

    name: str
    from_current: bool = False


class DeletePod(msgspec.Struct, frozen=True):
    name: str
    revision: str = ""


class CreateMissingClaims(msgspec.Struct, frozen=True):
    """Create the missing claims of a pending pod, and set the owners of all its claims."""

    name: str


class UpdateStatefulPod(msgspec.Struct, frozen=True):
    """Correct the pod's labels and volumes, and the owners of its claims."""

    name: str


class UpdateClaimOwners(msgspec.Struct, frozen=True):
    """Set the owners of the claims of a condemned pod."""

    name: str


Action = CreatePod | DeletePod | CreateMissingClaims | UpdateStatefulPod | UpdateClaimOwners


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    ordered: bool = True
    """One after the other; else those of each group in growing batches."""
    living: tuple[tuple[Action, ...], ...] = ()
    """The actions for each replica, in this order. Replicas without actions are included if they are not ordered, since
    the batches are of replicas, and omitted otherwise."""
    claim_updates: tuple[UpdateClaimOwners | None, ...] = ()
    condemned: tuple[DeletePod | None, ...] = ()
    """For condemned pods; None for those without a request if they are not ordered."""
    waits_for: tuple[str, ...] = ()
    """Claims that must be deleted before a pod can be created."""
    update: tuple[DeletePod, ...] = ()
    """Old pods to replace, one by one. They no longer count as current."""


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """The input of one decision, read at one instant."""

    rules: Rules
    replicas: Replicas
    current: str
    update: str
    """The names of the revisions."""
    current_replicas: int = 0
    """As the status has it."""
    being_deleted: bool = False
    uid: str = ""
    policy: Policy = Policy()
    templates: tuple[ClaimTemplate, ...] = ()
    claims: Mapping[str, PersistentVolumeClaim] = {}
    """The existing claims of its pods, by name."""
    now: datetime.datetime

    def keeping(self, pod: str, uid: str) -> ClaimRetention:
        """The input for the owners of this pod's claims."""
        desired = self.rules.is_desired(ordinal_of(pod))
        return ClaimRetention(self.policy, set_holder(self.rules.name, self.uid), pod_holder(pod, uid), desired)

    def claims_of(self, pod: str) -> list[PersistentVolumeClaim | None]:
        """The claims of a pod, in the order of the templates."""
        return [self.claims.get(template.claim_name(pod)) for template in self.templates]

    def claims_match_retention(self, pod: Pod) -> bool:
        """Whether the existing claims of the pod have the right owners."""
        keeping = self.keeping(pod.metadata.name, pod.metadata.uid)
        return all(
            claim is None or is_claim_owner_updated_properly(claim.metadata.owner_references, keeping)
            for claim in self.claims_of(pod.metadata.name)
        )


def decide(observed: Observed) -> Plan:
    if observed.being_deleted:
        return Plan()
    rules = observed.rules
    living: list[tuple[Action, ...]] = []
    old_claims: list[str] = []
    for slot in observed.replicas.slots:
        old_claims += _old_claims(observed, slot)
        actions, waits = _process_replica(observed, slot)
        if actions or not rules.ordered:
            living.append(actions)
        if waits and rules.ordered:
            return Plan(living=tuple(living), waits_for=tuple(old_claims))
    condemned = observed.replicas.condemned
    to_delete = _process_condemned(observed)
    update = _pods_to_update(observed) if not (rules.ordered and condemned) else ()
    return Plan(
        ordered=rules.ordered,
        living=tuple(living) if any(living) else (),
        claim_updates=_for_batches(
            rules.ordered,
            [
                None if observed.claims_match_retention(pod) else UpdateClaimOwners(pod.metadata.name)
                for pod in condemned
            ],
        ),
        condemned=to_delete,
        waits_for=tuple(old_claims),
        update=update,
    )


def _process_replica(observed: Observed, slot: Slot) -> tuple[tuple[Action, ...], bool]:
    """The actions for a replica, and whether later ones must wait."""
    pod = slot.pod
    if pod is None:
        if _old_claims(observed, slot):
            return (), True
        return (CreatePod(slot.name, _uses_current_revision(observed, slot.ordinal)),), True
    terminating = pod.metadata.deletion_timestamp is not None
    if is_terminal(pod):
        # Also a succeeded one: an evicted pod, or one of a restarted node, may have this phase.
        return (() if terminating else (DeletePod(slot.name, revision_of(pod.metadata)),)), True
    actions: list[Action] = []
    if pod.status.phase == "Pending" and not _has_all_claims(observed, pod):
        actions.append(CreateMissingClaims(slot.name))
    ready = not terminating and is_running_and_ready(pod) and observed.rules.is_available(pod, observed.now)
    if observed.rules.ordered and not ready:
        return tuple(actions), True
    if not (
        identity_matches(pod.metadata)
        and has_volumes(pod, observed.templates)
        and (actions or observed.claims_match_retention(pod))
    ):
        actions.append(UpdateStatefulPod(slot.name))
    return tuple(actions), False


def _old_claims(observed: Observed, slot: Slot) -> list[str]:
    """Claims that are owned by an earlier pod with the name of a missing one. They will be deleted with it, so a new
    pod must not use them (``PodClaimIsStale``)."""
    if slot.pod is not None or observed.policy.retains_when_scaled:
        return []
    missing_pod = pod_holder(slot.name, "")
    return [
        claim.metadata.name
        for claim in observed.claims_of(slot.name)
        if claim is not None and has_stale_owner_ref(claim.metadata.owner_references, missing_pod)
    ]


def _has_all_claims(observed: Observed, pod: Pod) -> bool:
    claims = observed.claims_of(pod.metadata.name)
    if any(claim is None or claim.metadata.deletion_timestamp is not None for claim in claims):
        return False
    return observed.claims_match_retention(pod)


def _uses_current_revision(observed: Observed, ordinal: int) -> bool:
    """Whether a missing pod is created from the current or the update revision (``newVersionedStatefulSetPod``)."""
    rules = observed.rules
    position = ordinal - rules.start
    if rules.partition is None:
        return rules.strategy == ROLLING_UPDATE and position < observed.current_replicas
    return position < rules.partition


_Request = TypeVar("_Request", DeletePod, UpdateClaimOwners)


def _for_batches(ordered: bool, requests: Sequence[_Request | None]) -> tuple[_Request | None, ...]:
    """Pods without a request count in the batches of pods that are not ordered, except if none has one."""
    needed = tuple(request for request in requests if request is not None)
    return needed if ordered or not needed else tuple(requests)


def _process_condemned(observed: Observed) -> tuple[DeletePod | None, ...]:
    to_delete: list[DeletePod | None] = []
    for pod in observed.replicas.condemned:
        meta = pod.metadata
        if meta.deletion_timestamp is not None:
            if observed.rules.ordered:
                break
            to_delete.append(None)
            continue
        healthy = is_running_and_ready(pod) and observed.rules.is_available(pod, observed.now)
        if observed.rules.ordered and not healthy and meta.name != observed.replicas.first_unavailable:
            break  # only the lowest of the unhealthy pods may be deleted
        to_delete.append(DeletePod(meta.name, revision_of(meta)))
        if observed.rules.ordered:
            break
    return _for_batches(observed.rules.ordered, to_delete)


def _pods_to_update(observed: Observed) -> tuple[DeletePod, ...]:
    rules = observed.rules
    if rules.strategy == ON_DELETE:
        return ()
    old: list[DeletePod] = []
    allowed = 1
    if rules.max_unavailable is not None:
        allowed = rules.max_unavailable - unavailable_replicas(observed)
    in_use = 0
    first, highest = rules.start + rules.first_to_update, rules.start + rules.desired - 1
    for position, slot in enumerate(reversed(observed.replicas.slots)):
        if in_use >= allowed or slot.ordinal < first:
            break
        if rules.max_unavailable is None and slot.ordinal != highest - position:
            break  # one above is missing
        pod = slot.pod
        if pod is not None and pod.metadata.deletion_timestamp is None:
            revision = revision_of(pod.metadata)
            if revision != observed.update:
                in_use += 1
                # A finished pod was already deleted in this sync. Upstream deletes it again here and counts it twice
                # against maxUnavailable, because it is unavailable, too.
                if not is_terminal(pod):
                    old.append(DeletePod(slot.name, revision))
                continue
        if rules.max_unavailable is None and (pod is None or rules.is_unavailable(pod, observed.now)):
            break  # wait until the updated one is available
    return tuple(old)


def unavailable_replicas(observed: Observed) -> int:
    """How many replicas are unavailable, whatever the partition."""
    listed = sum(
        1
        for slot in observed.replicas.slots
        if slot.pod is None or observed.rules.is_unavailable(slot.pod, observed.now)
    )
    return listed + observed.replicas.unlisted
