"""The requests of one sync, and the events that report them. ``decide`` determines the requests, ``controller`` their
order.

Upstream: v1.36 ``pkg/controller/statefulset/stateful_pod_control.go``.
"""

from collections.abc import Callable

import msgspec

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS, ObjectReference, PersistentVolumeClaim, Pod
from pilothouse.api.meta import Object, ObjectMeta
from pilothouse.client import Client
from pilothouse.client.errors import AlreadyExists, ApiError, NotFound
from pilothouse.controllers.shared.conflicts import BACKOFF, retry_on_conflict
from pilothouse.controllers.workloads.statefulset.pod_template import repaired
from pilothouse.controllers.workloads.statefulset.retention import (
    ClaimRetention,
    has_unexpected_controller,
    is_claim_owner_updated_properly,
    updated_owner_refs,
)
from pilothouse.controllers.workloads.statefulset.volume_claims import ClaimTemplate
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import Cache, EventRecorder
from pilothouse.runtime.events import NORMAL, WARNING

_POD_META = PODS.read_as(Object)
_CLAIM_META = PERSISTENT_VOLUME_CLAIMS.read_as(Object)
_pod = msgspec.json.Decoder(Pod)

KeepingOf = Callable[[str, str], ClaimRetention]
"""By a pod's name and uid, the input for the owners of its claims."""


class ClaimsNotReady(Exception):
    """Claims of a pod could not be created, or one is being deleted."""

    def __init__(self, errors: list[str]) -> None:
        # apimachinery's Aggregate prints one error as itself and several in brackets, each text once.
        texts = list(dict.fromkeys(errors))
        super().__init__(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


class ClaimUpdateFailed(Exception):
    """The owners of a claim could not be written."""


STEP_ERRORS = (ApiError, OSError, ClaimsNotReady, ClaimUpdateFailed)
"""The errors of a step."""


class Writes(msgspec.Struct, frozen=True, kw_only=True):
    """The writes for one StatefulSet. ``on_write`` is called with the group-resource and version of each write."""

    client: Client
    recorder: EventRecorder
    claims: Cache[PersistentVolumeClaim]
    owner: ObjectMeta
    about: ObjectReference
    templates: tuple[ClaimTemplate, ...]
    keeping: KeepingOf
    on_write: Callable[[str, str], None]

    # Pods

    async def create_pod(self, name: str, body: bytes) -> None:
        """Create a pod after its claims. There is no event for one that exists already: the cache will show it soon."""
        try:
            await self._make_claims(name)
        except ClaimsNotReady as error:
            self._record_pod_event("create", name, error)
            raise
        failure: ApiError | OSError | None = None
        try:
            pod = await self.client.create(_POD_META, body, self.owner.namespace)
            self.on_write(PODS.group_resource, pod.metadata.resource_version)
        except AlreadyExists:
            raise
        except (ApiError, OSError) as error:
            failure = error
        # Claims that were just created are probably not in the cache yet: update the owners of the others.
        await self._update_claims_or_record_event(name, "")
        self._record_pod_event("create", name, failure)
        if failure is not None:
            raise failure

    async def delete_pod(self, name: str) -> None:
        """Delete a pod with its own grace period. A pod that does not exist is not an error. The next sync waits until
        the cache has the deletion."""
        try:
            response = await self.client.delete(PODS, name, self.owner.namespace)
            terminating = msgspec.json.decode(response, type=Object)
            # Else a Status: it was deleted immediately.
            if terminating.metadata.name == name and terminating.metadata.resource_version:
                self.on_write(PODS.group_resource, terminating.metadata.resource_version)
        except NotFound:
            pass
        except (ApiError, OSError) as error:
            self._record_pod_event("delete", name, error)
            raise
        self._record_pod_event("delete", name, None)

    async def repair_pod(self, name: str) -> None:
        """Correct the labels and volumes of the live pod, and the owners of its claims."""
        attempted = False

        async def write(_attempt: int) -> None:
            nonlocal attempted
            raw = await self.client.get(PODS.raw, name, self.owner.namespace)
            pod = _pod.decode(raw)
            repaired_pod = repaired(raw, pod, self.templates)
            if repaired_pod is not None:
                attempted = True
                await self._make_claims(name)
            if await self._update_pod_claim_for_retention_policy(name, pod.metadata.uid):
                attempted = True
            if repaired_pod is not None:
                response = await self.client.update(_POD_META, name, repaired_pod, self.owner.namespace)
                self.on_write(PODS.group_resource, response.metadata.resource_version)

        try:
            await retry_on_conflict(write, BACKOFF)
        except NotFound:
            return  # it was deleted in the meantime; the event enqueues the key
        except STEP_ERRORS as error:
            self._record_pod_event("update", name, error)
            raise
        if attempted:
            self._record_pod_event("update", name, None)

    # Claims

    async def fill_claims(self, name: str, uid: str) -> None:
        await self._make_claims(name)
        await self._update_claims_or_record_event(name, uid)

    async def update_pod_claim_for_retention_policy(self, name: str, uid: str) -> None:
        await self._update_pod_claim_for_retention_policy(name, uid)

    async def _make_claims(self, pod: str) -> None:
        errors: list[str] = []
        for template in self.templates:
            name = template.claim_name(pod)
            cached = self.claims.get(f"{self.owner.namespace}/{name}")
            if cached is not None:
                if cached.metadata.deletion_timestamp is not None:
                    errors.append(f"pvc {name} is being deleted")
                continue
            failure: Exception | None = None
            try:
                claim = await self.client.create(
                    _CLAIM_META, template.claim(pod, self.owner.namespace), self.owner.namespace
                )
                self.on_write(PERSISTENT_VOLUME_CLAIMS.group_resource, claim.metadata.resource_version)
            except (ApiError, OSError) as error:
                failure = error
                errors.append(f"failed to create PVC {name}: {error}")
            if not isinstance(failure, AlreadyExists):
                self._record_claim_event(name, pod, failure)
        if errors:
            raise ClaimsNotReady(errors)

    async def _update_claims_or_record_event(self, pod: str, uid: str) -> None:
        try:
            await self._update_pod_claim_for_retention_policy(pod, uid)
        except ClaimUpdateFailed as error:
            self._record_pod_event("update", pod, error)
            raise

    async def _update_pod_claim_for_retention_policy(self, pod: str, uid: str) -> bool:
        """``UpdatePodClaimForRetentionPolicy``. Returns whether a claim has changed; missing ones are left to the next
        sync."""
        keeping = self.keeping(pod, uid)
        changed = False
        for template in self.templates:
            name = template.claim_name(pod)
            key = f"{self.owner.namespace}/{name}"
            claim, raw = self.claims.get(key), self.claims.raw(key)
            if claim is None:
                continue
            assert raw is not None, "what is written back whole is cached with its JSON"
            owners = claim.metadata.owner_references
            if has_unexpected_controller(owners, keeping):
                self.recorder.event(
                    self.about,
                    WARNING,
                    "ConflictingController",
                    f"PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, "
                    "the retention policy is ignored for this claim",
                )
            if is_claim_owner_updated_properly(owners, keeping):
                continue
            changed = True
            after = updated_owner_refs(owners, keeping)
            changes = {
                "metadata.ownerReferences": msgspec.json.encode(after) if after else None,
                "metadata.managedFields": None,
            }
            try:
                response = await self.client.update(
                    _CLAIM_META, name, replace_fields(raw, changes), self.owner.namespace
                )
            except (ApiError, OSError) as error:
                raise ClaimUpdateFailed(
                    f"could not update claim {name} for delete policy ownerRefs: {error}"
                ) from error
            self.on_write(PERSISTENT_VOLUME_CLAIMS.group_resource, response.metadata.resource_version)
        return changed

    # Events

    def _record_pod_event(self, verb: str, pod: str, failure: Exception | None) -> None:
        title = verb.title()
        message = f"{title} Pod {pod} in StatefulSet {self.owner.name}"
        if failure is None:
            self.recorder.event(self.about, NORMAL, f"Successful{title}", f"{message} successful")
        else:
            self.recorder.event(self.about, WARNING, f"Failed{title}", f"{message} failed error: {failure}")

    def _record_claim_event(self, claim: str, pod: str, failure: Exception | None) -> None:
        if failure is None:
            message = f"Create Claim {claim} Pod {pod} in StatefulSet {self.owner.name} success"
            self.recorder.event(self.about, NORMAL, "SuccessfulCreate", message)
        else:
            message = f"Create Claim {claim} for Pod {pod} in StatefulSet {self.owner.name} failed error: {failure}"
            self.recorder.event(self.about, WARNING, "FailedCreate", message)
