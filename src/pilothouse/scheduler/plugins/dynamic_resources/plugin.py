"""The extension points of DynamicResources, and which events may help pods that it has rejected."""

from pilothouse.api.core import Pod
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.api.resource import DeviceClass, ResourceClaim
from pilothouse.cel.limits import GetEvaluator
from pilothouse.client import Client
from pilothouse.env import Env, Log
from pilothouse.runtime import InformerFactory, object_key
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins.dynamic_resources import NAME, pod_claims, selectors
from pilothouse.scheduler.plugins.dynamic_resources.device_class_resolver import DEVICE_CLASS_PREFIX
from pilothouse.scheduler.plugins.dynamic_resources.dra_manager import DRAManager
from pilothouse.scheduler.plugins.dynamic_resources.extended_resources import IN_MEMORY_NAME
from pilothouse.scheduler.plugins.dynamic_resources.structured import allocator, types
from pilothouse.semantics.devices import (
    EXTENDED_RESOURCE_CLAIM,
    ClaimOfEntry,
    NoClaim,
    claim_of,
    is_for_pod,
    no_claim_message,
)

_MAX_SHARED = 100_000
"""Results that are kept for the next pod."""


class ClaimsNotReady(Exception):  # not an error: the pod waits
    """A claim of a pod does not exist yet, or may not be used. The text has the reason."""


class Plugin:
    """The plugin of one scheduler. ``manager`` must have been started."""

    def __init__(
        self, env: Env, client: Client, informers: InformerFactory, log: Log, get_evaluator: GetEvaluator
    ) -> None:
        self._env = env
        self.manager = DRAManager(client, informers, log)
        self._get_evaluator = get_evaluator
        self._selectors: selectors.CompiledSelectors | None = None
        self._shared: allocator.SharedResults | None = None
        self._shared_version = 0

    def involves(self, pod_info: PodInfo) -> bool:
        """Whether the filters depend on claims of the pod, or on one for its extended resources."""
        if not self.manager.enabled or pod_info.too_many_terms is not None:
            return False
        return bool(pod_info.pod.spec.resource_claims) or bool(self.delegated_resources(pod_info))

    def delegated_resources(self, pod_info: PodInfo) -> frozenset[str]:
        """The extended resources of the pod that DeviceClasses back: NodeResourcesFit does not require them of nodes
        that do not have them (``shouldDelegateResourceToDRA``)."""
        classes = self.manager.classes
        if not classes or not pod_info.extended_resources:
            return frozenset()
        return frozenset(name for name in pod_info.extended_resources if classes.device_class(name) is not None)

    # PreEnqueue

    def may_enqueue(self, pod: Pod) -> bool:
        """Whether the claims of a pod exist, so that it can be scheduled."""
        if self.manager.enabled:
            try:
                self._pod_resource_claims(pod)
            except ClaimsNotReady:
                return False
        return True

    def claim_keys(self, pod: Pod) -> list[str]:
        """The claims that the pod refers to, whether they exist or not."""
        entries = (claim_of(pod, entry) for entry in pod.spec.resource_claims)
        return [f"{pod.metadata.namespace}/{one.name}" for one in entries if isinstance(one, ClaimOfEntry)]

    def _pod_resource_claims(self, pod: Pod) -> list[ResourceClaim]:
        """The claims of the pod. Raises ``ClaimsNotReady``."""
        claims: list[ResourceClaim] = []
        for entry in pod.spec.resource_claims:
            of_entry = claim_of(pod, entry)
            if of_entry is NoClaim.NOT_NEEDED:
                continue
            if not isinstance(of_entry, ClaimOfEntry):
                raise ClaimsNotReady(no_claim_message(pod, entry, of_entry))
            claim = self.manager.claim(pod.metadata.namespace, of_entry.name)
            if claim is None:
                raise ClaimsNotReady(f'could not find ResourceClaim "{pod.metadata.namespace}/{of_entry.name}"')
            if claim.metadata.deletion_timestamp is not None:
                raise ClaimsNotReady(f'resourceclaim "{claim.metadata.name}" is being deleted')
            if of_entry.for_pod and not is_for_pod(pod, claim):
                raise ClaimsNotReady(_not_for_pod(pod, claim))
            claims.append(claim)
        return claims

    # PreFilter

    def pre_filter(self, pod_info: PodInfo, earlier: "pod_claims.PodClaims | None" = None) -> "pod_claims.PodClaims":
        """The claims of the pod, as of now. ``earlier`` are those of an earlier version of the pod in the same attempt:
        the limit of the work is for both."""
        pod = pod_info.pod
        rejection, error = None, ""
        claims: list[ResourceClaim] = []
        extended: ResourceClaim | None = None
        try:
            claims = self._pod_resource_claims(pod)
        except ClaimsNotReady as reason:
            rejection = _rejection(str(reason))
        else:
            if self.delegated_resources(pod_info):
                extended = self._extended_claim(pod)
            for claim in (*claims, *((extended,) if extended is not None else ())):
                rejection, error = self._check_claim(claim, is_extended=claim is extended)
                if rejection is not None or error:
                    break
        if rejection is not None or error:
            # As upstream, nothing is known of the claims then: PostFilter deallocates none.
            claims, extended = [], None
        if self._selectors is None:
            self._selectors = selectors.CompiledSelectors(self._get_evaluator)
        pod_selectors, manager = selectors.PodSelectors(self._selectors), self.manager
        if self._shared is None or self._shared_version != manager.slice_version or len(self._shared) > _MAX_SHARED:
            self._shared, self._shared_version = allocator.SharedResults(), manager.slice_version
        search = allocator.Allocator(
            manager,
            manager.allocated,
            manager.device_class,
            pod_selectors,
            self._env.uid,
            earlier.work if earlier is not None else types.Work(pod_claims.MAX_UNITS),
            self._shared,
        )
        return pod_claims.PodClaims(
            pod_info,
            claims,
            extended,
            pod_claims.Context(manager.classes, search, pod_selectors, self._selectors, self._env.now),
            rejection=rejection,
            error=error and f'running PreFilter plugin "{NAME}": {error}',
        )

    def _check_claim(self, claim: ResourceClaim, *, is_extended: bool) -> tuple[Status | None, str]:
        """Why the claim rejects the pod on all nodes, or an error."""
        if claim.status.allocation is not None:
            # As upstream, whether there is room for one more user is checked by the API server (``CanBeReserved``).
            return None, ""
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        if self.manager.is_pending(claim.metadata.uid):
            return _rejection(f"resource claim {name} is in the process of being allocated"), ""
        if is_extended:
            return None, ""
        for request in claim.spec.devices.requests:
            classes = [(request.name, request.exactly.device_class_name)] if request.exactly is not None else []
            classes += [(f"{request.name}/{one.name}", one.device_class_name) for one in request.first_available]
            if not classes:
                return _rejection(f"resource claim {name}, request {request.name}: unknown request type"), ""
            for request_name, device_class in classes:
                if not device_class:
                    return None, f"request {request_name}: unsupported request type"
                if self.manager.device_class(device_class) is None:
                    return _rejection(f"request {request_name}: device class {device_class} does not exist"), ""
        return None, ""

    def _extended_claim(self, pod: Pod) -> ResourceClaim:
        """The claim for extended resources: one of an earlier attempt, or one in memory."""
        for claim in self.manager.claims_of(pod.metadata.uid):
            if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true":
                newest = self.manager.claim(claim.metadata.namespace, claim.metadata.name)
                if newest is not None and newest.metadata.namespace == pod.metadata.namespace:
                    return newest
        meta = pod.metadata
        owner = OwnerReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)
        return ResourceClaim(
            metadata=ObjectMeta(
                name=IN_MEMORY_NAME,
                namespace=meta.namespace,
                uid=self._env.uid(),
                generate_name=f"{meta.name}-extended-resources-",
                owner_references=(owner,),
                annotations={EXTENDED_RESOURCE_CLAIM: "true"},
            )
        )

    # Queueing hints

    def is_schedulable_after_claim_change(self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim) -> bool:
        """Whether a claim of the pod was added or its status changed, or devices became available."""
        if old is not None and old.status.allocation is not None and new.status.allocation is None:
            return self.may_enqueue(pod)
        # What is cheap is checked first: this is called for every waiting pod.
        if old is not None and old.status == new.status:
            return False
        if pod.metadata.namespace != new.metadata.namespace or object_key(new.metadata) not in self.claim_keys(pod):
            return False
        return self.may_enqueue(pod)


def is_fit_after_class_change(pod_info: PodInfo, old: DeviceClass | None, new: DeviceClass) -> bool:
    """Whether a class may back a resource that NodeResourcesFit has rejected (``isSchedulableAfterDeviceClassEvent``
    of that plugin)."""
    name = new.spec.extended_resource_name
    if old is not None and old.spec.extended_resource_name == name:
        return False
    requests = pod_info.requests
    return (old is None and DEVICE_CLASS_PREFIX + new.metadata.name in requests) or (bool(name) and name in requests)


def _rejection(reason: str) -> Status:
    return Status(NAME, (reason,), unresolvable=True)


def _not_for_pod(pod: Pod, claim: ResourceClaim) -> str:
    meta = pod.metadata
    return (
        f"ResourceClaim {claim.metadata.namespace}/{claim.metadata.name} was not created for Pod "
        f"{meta.namespace}/{meta.name} (Pod is not owner)"
    )
