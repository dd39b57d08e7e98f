"""The event handlers, and the requests of a sync of a pod or a rule. One queue for both, as upstream."""

import msgspec

from pilothouse.api.core import PODS, ObjectReference, Pod, PodCondition
from pilothouse.api.meta import Condition, Object
from pilothouse.api.resource import (
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    AllocatedDevice,
    DeviceTaint,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from pilothouse.client import apply_patch, strategic_merge_patch
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.controllers.devices.device_taint_eviction import DESCRIPTOR, DeviceTaintEvictionOptions
from pilothouse.controllers.devices.device_taint_eviction.decide import (
    Eviction,
    Tainted,
    TaintsOf,
    pod_eviction,
    rule_matches,
    taints_by_rules,
)
from pilothouse.controllers.devices.device_taint_eviction.pools import DeviceId, Pools
from pilothouse.controllers.devices.device_taint_eviction.rule_status import (
    PERIOD_SECONDS,
    Counts,
    new_condition,
    wait_seconds,
)
from pilothouse.controllers.shared.disruption import DISRUPTION_TARGET, status_patch
from pilothouse.controllers.shared.live_nodes import is_about
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.times import format_time
from pilothouse.runtime import (
    Cache,
    ControllerContext,
    EventRecorder,
    ManagedController,
    Requeue,
    RetryLater,
    object_key,
    split_key,
)
from pilothouse.runtime.events import NORMAL
from pilothouse.semantics.devices import NO_EXECUTE

DEVICE_INDEX = "allocated device"
REASON = "DeviceTaintManagerEviction"
MESSAGE = "Device Taint manager: deleting due to NoExecute taint"
_POD, _RULE = "pod:", "rule:"
_POD_META = PODS.read_as(Object)
_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0)


class DeviceTaintEvictionController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(DeviceTaintEvictionOptions)
        pods = context.informer(PODS)
        claims = context.informer(RESOURCE_CLAIMS, indexes={DEVICE_INDEX: _index_by_device})
        slices = context.informer(RESOURCE_SLICES)
        rules = context.informer(DEVICE_TAINT_RULES) if options.rules else None
        super().__init__(context, DESCRIPTOR.name, workers=options.workers)
        self._client = context.client
        self._pods, self._claims = pods.cache, claims.cache
        self._rules: Cache[DeviceTaintRule] = rules.cache if rules is not None else Cache("no rules")
        self._pools = Pools()
        self._due: dict[str, tuple[str, Eviction]] = {}
        """Pods to evict, now or later, with their uids, until that is done or cancelled."""
        self._evicted: dict[str, str] = {}
        """Pods that this process deleted, with their uids, until they are gone."""
        self._evicted_by: dict[str, int] = {}
        """How many pods a rule has evicted, by uid."""
        self._recorder = EventRecorder(context.client, context.env, self.name)
        self.add_runnable("events", self._recorder.run)
        metrics = context.metrics
        self._deletions = metrics.counter(
            "device_taint_eviction_controller_pod_deletions_total",
            "[ALPHA] Total number of Pods deleted by DeviceTaintEvictionController since its start.",
        ).labels()
        self._latency = metrics.histogram(
            "device_taint_eviction_controller_pod_deletion_duration_seconds",
            "[ALPHA] Latency, in seconds, between the time when a device taint effect has been activated and a Pod's "
            "deletion via DeviceTaintEvictionController.",
            buckets=_BUCKETS,
        ).labels()
        if rules is not None:
            rules.add_handler(
                lambda rule, _initial: self._update_rule(None, rule),
                self._update_rule,
                lambda rule, _unknown: self._update_rule(rule, None),
            )
        slices.add_handler(
            lambda resource_slice, _initial: self._update_slice(None, resource_slice),
            self._update_slice,
            lambda resource_slice, _unknown: self._update_slice(resource_slice, None),
        )
        claims.add_handler(
            lambda claim, _initial: self._enqueue_users(claim),
            self._update_claim,
            lambda claim, _unknown: self._enqueue_users(claim),
        )
        pods.add_handler(
            lambda pod, _initial: self._enqueue_pod(pod),
            self._update_pod,
            lambda pod, _unknown: self._enqueue_pod(pod),
        )

    # Event handlers

    def _enqueue_pod(self, pod: Pod) -> None:
        if pod.spec.resource_claims:
            self.queue.add(_POD + object_key(pod.metadata))

    def _update_pod(self, old: Pod, new: Pod) -> None:
        # Pods change often. The condition that is written before the deletion must not enqueue them again, either.
        if (
            old.metadata.uid != new.metadata.uid
            or old.spec.node_name != new.spec.node_name
            or old.status.resource_claim_statuses != new.status.resource_claim_statuses
        ):
            self._enqueue_pod(new)

    def _update_claim(self, old: ResourceClaim, new: ResourceClaim) -> None:
        if old.status.reserved_for != new.status.reserved_for:
            self._enqueue_users(old)
        self._enqueue_users(new)

    def _enqueue_users(self, claim: ResourceClaim) -> None:
        for user in claim.status.reserved_for:
            pod = self._pods.get(f"{claim.metadata.namespace}/{user.name}")
            if pod is not None and pod.metadata.uid == user.uid:
                self._enqueue_pod(pod)

    def _update_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for device in self._pools.update(old, new):
            for claim in self._claims.by_index(DEVICE_INDEX, "/".join(device)):
                self._enqueue_users(claim)

    def _update_rule(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        if old is not None and new is not None and old.metadata.uid == new.metadata.uid and old.spec == new.spec:
            return
        if new is not None:
            # The rule's status must show the eviction before it happens.
            self.queue.add(_RULE + new.metadata.name)
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._evicted_by.pop(old.metadata.uid, None)
        # Rules are few and change seldom: all claims are checked.
        evicting = [
            candidate for candidate in (old, new) if candidate is not None and candidate.spec.taint.effect == NO_EXECUTE
        ]
        for claim in self._claims.list() if evicting else ():
            if any(rule_matches(rule, *device) for device in _devices(claim) for rule in evicting):
                self._enqueue_users(claim)

    async def reconcile(self, key: str) -> Requeue | None:
        """Sync a pod or a rule."""
        if key.startswith(_POD):
            return await self._sync_pod(key.removeprefix(_POD))
        return await self._sync_rule(key.removeprefix(_RULE))

    # Pods

    def _taints_of(self, device: AllocatedDevice) -> list[Tainted]:
        return [*self._pools.taints_of(device), *taints_by_rules(self._rules.list(), device)]

    def _eviction_of(self, pod: Pod, taints_of: TaintsOf) -> Eviction | None:
        namespace = pod.metadata.namespace
        return pod_eviction(pod, lambda name: self._claims.get(f"{namespace}/{name}"), taints_of)

    async def _sync_pod(self, key: str) -> Requeue | None:
        pod = self._pods.get(key)
        uid = pod.metadata.uid if pod is not None else ""
        due = self._due.get(key)
        if due is not None and due[0] != uid:
            del self._due[key]
            due = None
        if key in self._evicted and self._evicted[key] != uid:
            del self._evicted[key]
        if pod is None or key in self._evicted:
            self._due.pop(key, None)
            return None
        eviction = self._eviction_of(pod, self._taints_of)
        if eviction is None:
            if due is not None:
                del self._due[key]
                self._record_event(key, uid, "Cancelling deletion")
                self.log.info("Canceled pod eviction", v=3, pod=key)
            return None
        if due is None or due[1] != eviction:
            self._due[key] = (uid, eviction)
            # More evictions may follow immediately: update the status of rules a little later.
            self._enqueue_rules(eviction)
        wait = (eviction.at - self.env.now()).total_seconds()
        if wait > 0:
            return Requeue(wait)
        await self._evict_pod(key, uid, eviction)
        return None

    async def _evict_pod(self, key: str, uid: str, eviction: Eviction) -> None:
        reasons = ", ".join(str(reason) for reason in eviction.reasons)
        record_decision(f"pod {key} uses devices with taints that it does not tolerate (any more): {reasons}")
        try:
            deleted = await self._delete_pod(key, uid)
        except NotFound as error:
            if not is_about(error, split_key(key)[1]):
                raise
            deleted = False
        except Conflict as error:
            raise RetryLater(str(error)) from error  # another pod of its name: the next sync will find it
        self._due.pop(key, None)
        self._evicted[key] = uid
        if not deleted:
            return
        late = max(0.0, (self.env.now() - eviction.at).total_seconds())
        self.log.info("Evicted pod by deleting it", v=2, pod=key, latency=late, reason=reasons)
        self._deletions.inc()
        self._latency.observe(late)
        for reason in eviction.reasons:
            rule = self._rules.get(reason.rule) if reason.rule_uid else None
            if rule is not None and rule.metadata.uid == reason.rule_uid:
                self._evicted_by[reason.rule_uid] = self._evicted_by.get(reason.rule_uid, 0) + 1
        self._enqueue_rules(eviction)

    async def _delete_pod(self, key: str, uid: str) -> bool:
        """Delete the pod (``addConditionAndDeletePod``). False: it is not deleted."""
        namespace, name = split_key(key)
        pod = await self._client.get(PODS, name, namespace)
        if pod.metadata.uid != uid:
            return False
        if pod.metadata.deletion_timestamp is not None:
            return True
        self._record_event(key, uid, "Marking for deletion")
        # Upstream's has no observedGeneration, unlike those of the other evictions.
        condition = PodCondition(
            type=DISRUPTION_TARGET, status="True", reason="DeletionByDeviceTaintManager", message=MESSAGE
        )
        body = status_patch(pod, self.env.now(), condition=condition)
        if body is not None:
            patch = strategic_merge_patch(body)
            await self._client.patch(_POD_META, name, patch, namespace, subresource="status")
        await self._client.delete(PODS, name, namespace, uid=uid)
        return True

    def _record_event(self, key: str, uid: str, message: str) -> None:
        namespace, name = split_key(key)
        reference = ObjectReference(api_version="v1", kind="Pod", namespace=namespace, name=name, uid=uid)
        self._recorder.event(reference, NORMAL, REASON, message)

    # Rules

    def _enqueue_rules(self, eviction: Eviction) -> None:
        for reason in eviction.reasons:
            if reason.rule:
                self.queue.add_after(_RULE + reason.rule, PERIOD_SECONDS)

    async def _sync_rule(self, name: str) -> Requeue | None:
        """Update a rule's status, at most every ten seconds."""
        rule = self._rules.get(name)
        if rule is None:
            return None
        wait = wait_seconds(rule, self.env.now())
        if wait > 0:
            return Requeue(wait)
        condition = new_condition(rule, self._count_pods(rule))
        if condition is None:
            return None
        record_decision(f"status of DeviceTaintRule {name}: {condition.reason}: {condition.message}")
        try:
            await self._apply_condition(rule, condition)
        except NotFound:
            return None
        except Conflict as error:
            raise RetryLater(str(error)) from error  # another rule of its name by now
        return None

    def _count_pods(self, rule: DeviceTaintRule) -> Counts:
        evicted = self._evicted_by.get(rule.metadata.uid, 0)
        match rule.spec.taint.effect:
            case effect if effect == NO_EXECUTE:
                pending = self._pending(rule, self._taints_of)
                return Counts(pending=len(pending), namespaces=len(set(pending)), evicted=evicted)
            case "None":
                taint = msgspec.structs.replace(rule.spec.taint, effect=NO_EXECUTE)
                pending = self._pending(rule, lambda device: _as_no_execute(rule, taint, device))
                return Counts(
                    pending=len(pending),
                    namespaces=len(set(pending)),
                    evicted=evicted,
                    published=sum(rule_matches(rule, *device) for device in self._pools.devices()),
                    allocated=sum(rule_matches(rule, *d) for claim in self._claims.list() for d in _devices(claim)),
                )
            case _:
                return Counts(evicted=evicted)

    def _pending(self, rule: DeviceTaintRule, taints_of: TaintsOf) -> list[str]:
        """The namespaces of the pods that must be evicted because of the rule, one for each pod."""
        namespaces = []
        for pod in self._pods.list():
            if pod.spec.resource_claims and pod.metadata.deletion_timestamp is None:
                eviction = self._eviction_of(pod, taints_of)
                if eviction is not None and eviction.is_by(rule.metadata.uid):
                    namespaces.append(pod.metadata.namespace)
        return namespaces

    async def _apply_condition(self, rule: DeviceTaintRule, condition: Condition) -> None:
        published = {
            "type": condition.type,
            "status": condition.status,
            "observedGeneration": condition.observed_generation,
            "lastTransitionTime": format_time(self.env.now()),
            "reason": condition.reason,
            "message": condition.message,
        }
        configuration = {
            "apiVersion": DEVICE_TAINT_RULES.api_version,
            "kind": DEVICE_TAINT_RULES.kind,
            "metadata": {"name": rule.metadata.name, "uid": rule.metadata.uid},
            "status": {"conditions": [published]},
        }
        kind = DEVICE_TAINT_RULES.read_as(Object)
        patch = apply_patch(configuration)
        await self._client.patch(
            kind, rule.metadata.name, patch, subresource="status", field_manager=self.name, force=True
        )


def _as_no_execute(rule: DeviceTaintRule, taint: DeviceTaint, device: AllocatedDevice) -> list[Tainted]:
    """The taint that the rule would put on the device."""
    spec = msgspec.structs.replace(rule.spec, taint=taint)
    return taints_by_rules([msgspec.structs.replace(rule, spec=spec)], device)


def _devices(claim: ResourceClaim) -> list[DeviceId]:
    allocation = claim.status.allocation
    return [(result.driver, result.pool, result.device) for result in allocation.devices.results] if allocation else []


def _index_by_device(claim: ResourceClaim) -> list[str]:
    return ["/".join(device) for device in _devices(claim)]


build = DeviceTaintEvictionController
