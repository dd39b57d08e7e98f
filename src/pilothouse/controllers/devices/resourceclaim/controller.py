"""The event handlers for pods and claims, and the requests. One queue for both, as upstream."""

from typing import Any

import msgspec

from pilothouse.api.core import PODS, Pod, PodResourceClaim
from pilothouse.api.meta import Object
from pilothouse.api.resource import (
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    ConsumerReference,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from pilothouse.client import apply_patch
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.controllers.devices.resourceclaim import DESCRIPTOR, ResourceClaimOptions, has_claims
from pilothouse.controllers.devices.resourceclaim.created_claims import CreatedClaims, DeletedPods
from pilothouse.controllers.devices.resourceclaim.decide import (
    Reservation,
    Step,
    claim_names,
    claim_statuses_to_apply,
    claims_to_release,
    decide_owner,
    decide_reservation,
    is_done,
    needs_reservation,
    needs_sync,
    new_claim,
    next_step,
    owner_of,
)
from pilothouse.controllers.devices.resourceclaim.metrics import Metrics
from pilothouse.controllers.shared.live_nodes import is_about
from pilothouse.controllers.shared.own_writes import may_have_happened
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.splice import replace_fields, take_field
from pilothouse.runtime import (
    ControllerContext,
    EventRecorder,
    ManagedController,
    Requeue,
    RetryLater,
    object_key,
    object_reference,
)
from pilothouse.runtime.events import WARNING
from pilothouse.semantics.devices import (
    ALLOCATION_FINALIZER,
    POD_CLAIM_NAME,
    ClaimOfEntry,
    NoClaim,
    asks_for_admin_access,
    claim_of,
    is_for_pod,
    no_claim_message,
)

CLAIM_INDEX, TEMPLATE_INDEX, OWNER_INDEX = "device claim", "device claim template", "owning pod"
COMPONENT = "resource_claim"
FIELD_MANAGER = "ResourceClaimController"
RESYNC_SECONDS = 5.0
"""When a pod is synced again whose claim the cache lacked."""

_POD, _CLAIM = "pod:", "claim:"
_POD_META = PODS.read_as(Object)
_json = msgspec.json.Encoder().encode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_claim = msgspec.json.Decoder(ResourceClaim).decode
_spec = msgspec.json.Decoder(ResourceClaimSpec).decode


class ClaimNotCreated(Exception):
    """An entry of a pod has no claim; the text has the reason. Retried with backoff."""


class ClaimNotOwned(Exception):
    """The claim that the pod's status names was created for another pod. Retried with backoff."""


class ResourceClaimController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        pods = context.informer(PODS, indexes={CLAIM_INDEX: _index_by_claim, TEMPLATE_INDEX: _index_by_template})
        claims = context.informer(RESOURCE_CLAIMS, indexes={OWNER_INDEX: _index_by_owner})
        templates = context.informer(RESOURCE_CLAIM_TEMPLATES)
        options = context.options_as(ResourceClaimOptions)
        super().__init__(context, DESCRIPTOR.name, workers=options.workers, queue_name="resource_claim")
        self._prioritized_lists = options.prioritized_lists
        self._client = context.client
        self._pods, self._claims, self._templates = pods.cache, claims.cache, templates.cache
        self._created_claims = CreatedClaims(lambda: claims.read_version)
        self._deleted_pods = DeletedPods()
        self._undecided: dict[str, None] = {}
        """Uids of pods for which a claim may have been created: the response was lost."""
        self._cleared: dict[str, str] = {}
        """By claim: its version once its allocation was cleared here, until its finalizer is removed."""
        self._missing_reservations: dict[str, None] = {}
        """Claims that are reserved for a pod that the last sync did not find in the cache."""
        self._metrics = Metrics(context.metrics, self._claims.list)
        self._recorder = EventRecorder(context.client, context.env, COMPONENT)
        self.add_runnable("events", self._recorder.run)
        pods.add_handler(
            lambda pod, _initial: self._enqueue_pod(pod), self._update_pod, lambda pod, _unknown: self._delete_pod(pod)
        )
        claims.add_handler(
            lambda claim, _initial: self._enqueue_claim(claim),
            lambda _old, claim: self._enqueue_claim(claim),
            self._delete_claim,
        )
        templates.add_handler(
            lambda template, _initial: self._enqueue_pods_of_template(template),
            lambda _old, _new: None,
            lambda _old, _unknown: None,
        )

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            self._metrics.stop()

    # Event handlers

    def _enqueue_pod(self, pod: Pod, *, deleted: bool = False) -> None:
        if not has_claims(pod):
            return
        namespace = pod.metadata.namespace
        if deleted or is_done(pod):
            for name in claims_to_release(pod):
                self.queue.add(f"{_CLAIM}{namespace}/{name}")
            # A claim whose creation was repeated by a restarted manager is in no status. Upstream leaves it until the
            # pod is deleted.
            for claim in self._claims.by_index(OWNER_INDEX, pod.metadata.uid):
                self.queue.add(_CLAIM + object_key(claim.metadata))
        if not deleted and needs_sync(pod, lambda name: self._claims.get(f"{namespace}/{name}")):
            self.queue.add(_POD + object_key(pod.metadata))

    def _update_pod(self, old: Pod, new: Pod) -> None:
        if old.metadata.uid != new.metadata.uid:
            # A recreated pod is reported as an update.
            self._delete_pod(old)
        self._enqueue_pod(new)

    def _delete_pod(self, pod: Pod) -> None:
        if has_claims(pod):
            uid = pod.metadata.uid
            self._deleted_pods.add(uid)
            self._created_claims.forget(uid)
            self._undecided.pop(uid, None)
        self._enqueue_pod(pod, deleted=True)

    def _enqueue_claim(self, claim: ResourceClaim) -> None:
        self._created_claims.remove_if_cached(claim)
        self.queue.add(_CLAIM + object_key(claim.metadata))
        self._enqueue_users(claim)

    def _delete_claim(self, claim: ResourceClaim, _unknown: bool) -> None:
        self._created_claims.remove_if_cached(claim)
        key = object_key(claim.metadata)
        self._cleared.pop(key, None)
        self._missing_reservations.pop(key, None)
        self._enqueue_users(claim)

    def _enqueue_users(self, claim: ResourceClaim) -> None:
        for pod in self._pods.by_index(CLAIM_INDEX, object_key(claim.metadata)):
            self._enqueue_pod(pod)

    def _enqueue_pods_of_template(self, template: ResourceClaimTemplate) -> None:
        # Pods that wait for it are enqueued without backoff.
        for pod in self._pods.by_index(TEMPLATE_INDEX, object_key(template.metadata)):
            self._enqueue_pod(pod)

    async def reconcile(self, key: str) -> Requeue | None:
        """Sync a pod or a claim."""
        if key.startswith(_POD):
            return await self._sync_pod(key.removeprefix(_POD))
        return await self._sync_claim(key.removeprefix(_CLAIM))

    # Pods: create claims, and reserve them

    async def _sync_pod(self, key: str) -> Requeue | None:
        pod = self._pods.get(key)
        if pod is None or pod.metadata.deletion_timestamp is not None or is_done(pod):
            return None
        await self._resolve_undecided(pod)
        created: dict[str, str] = {}
        requeue = False
        for entry in pod.spec.resource_claims:
            try:
                claim = await self._handle_claim(pod, entry)
            except Exception as error:
                reference = object_reference(PODS, pod.metadata)
                message = f"PodResourceClaim {entry.name}: {error}"
                self._recorder.event(reference, WARNING, "FailedResourceClaimCreation", message)
                raise
            if claim is not None:
                created[entry.name] = claim.metadata.name
                requeue |= object_key(claim.metadata) not in self._claims
        claim_names = claim_statuses_to_apply(pod, created)
        if claim_names is not None:
            await self._apply_claim_statuses(pod, claim_names)
        if pod.spec.node_name:
            await self._reserve_for_pod(pod)
        # A claim that was created and deleted between two lists is never reported.
        return Requeue(RESYNC_SECONDS) if requeue else None

    async def _resolve_undecided(self, pod: Pod) -> None:
        """Check whether a claim was created although the response was lost. Upstream creates another one in this
        case."""
        uid = pod.metadata.uid
        if uid in self._undecided:
            for claim in (await self._client.list(RESOURCE_CLAIMS, pod.metadata.namespace)).items:
                if is_for_pod(pod, claim):
                    self._created_claims.put(claim)
            self._undecided.pop(uid, None)

    async def _handle_claim(self, pod: Pod, entry: PodResourceClaim) -> ResourceClaim | None:
        """The claim that was created for the entry; None if none is needed, or if the pod's status has it already."""
        if self._has_claim(pod, entry) or entry.resource_claim_template_name is None:
            return None
        claim_of_entry = claim_of(pod, entry)
        if isinstance(claim_of_entry, ClaimOfEntry):
            # It was created once, and the pod may be running with it: the cache is not sufficient to conclude that it
            # was deleted.
            cached = [
                created
                for created in self._created_claims.of(pod.metadata.uid)
                if created.metadata.name == claim_of_entry.name
            ]
            live = cached[0] if cached else await self._live_claim(pod, claim_of_entry.name)
            if live is not None:
                self._created_claims.put(live)
                return live
        return self._find_pod_resource_claim(pod, entry) or await self._create_claim(
            pod, entry, entry.resource_claim_template_name
        )

    def _find_pod_resource_claim(self, pod: Pod, entry: PodResourceClaim) -> ResourceClaim | None:
        """A claim that was created for the entry and that the pod's status does not name yet: that write failed, or the
        cache is stale."""
        claims = [*self._claims.by_index(OWNER_INDEX, pod.metadata.uid), *self._created_claims.of(pod.metadata.uid)]
        for claim in claims:
            meta = claim.metadata
            if meta.annotations.get(POD_CLAIM_NAME) == entry.name and meta.deletion_timestamp is None:
                return claim
        return None

    def _has_claim(self, pod: Pod, entry: PodResourceClaim) -> bool:
        """Whether no claim has to be created for the entry."""
        claim_or_reason = claim_of(pod, entry)
        if isinstance(claim_or_reason, NoClaim):
            if claim_or_reason is NoClaim.UNKNOWN_SOURCE:
                raise ClaimNotCreated(
                    f"checking for claim before creating it: {no_claim_message(pod, entry, claim_or_reason)}"
                )
            return claim_or_reason is NoClaim.NOT_NEEDED
        if not claim_or_reason.for_pod:
            return True
        claim = self._claims.get(f"{pod.metadata.namespace}/{claim_or_reason.name}")
        return claim is not None and is_for_pod(pod, claim)

    async def _create_claim(self, pod: Pod, entry: PodResourceClaim, template_name: str) -> ResourceClaim:
        namespace = pod.metadata.namespace
        template = self._templates.get(f"{namespace}/{template_name}")
        if template is None:
            missing = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            raise ClaimNotCreated(f'resource claim template "{template_name}": {missing}')
        spec = _spec(template.spec.spec)
        if not self._prioritized_lists and any(request.first_available for request in spec.devices.requests):
            raise ClaimNotCreated("template includes a prioritized list of subrequests, but the feature is disabled")
        admin = asks_for_admin_access(ResourceClaim(spec=spec))
        record_decision(
            f"entry {entry.name} of pod {object_key(pod.metadata)} has no ResourceClaim: created from template "
            f"{template_name}"
        )
        try:
            claim = await self._client.create(RESOURCE_CLAIMS, new_claim(pod, entry, template), namespace)
        except (ApiError, OSError) as error:
            self._metrics.tried(success=False, admin_access=admin)
            if may_have_happened(error) and self._pods.still_has(pod.metadata):
                self._undecided[pod.metadata.uid] = None
            raise ClaimNotCreated(f"create ResourceClaim : {error}") from error
        self._metrics.tried(success=True, admin_access=admin)
        self.log.info("Created ResourceClaim", v=4, claim=object_key(claim.metadata), pod=object_key(pod.metadata))
        self._created_claims.put(claim)
        return claim

    async def _live_claim(self, pod: Pod, name: str) -> ResourceClaim | None:
        try:
            claim = await self._client.get(RESOURCE_CLAIMS, name, pod.metadata.namespace)
        except NotFound as error:
            if not is_about(error, name):
                raise
            return None
        return claim if is_for_pod(pod, claim) else None

    async def _apply_claim_statuses(self, pod: Pod, claim_names: dict[str, str | None]) -> None:
        """Apply the claim names to the pod's status, if the pod is still as it was read: a stale cache could replace
        names that were written since."""
        meta = pod.metadata
        statuses = [
            {"name": entry} if name is None else {"name": entry, "resourceClaimName": name}
            for entry, name in claim_names.items()
        ]
        configuration = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
            "status": {"resourceClaimStatuses": statuses},
        }
        record_decision(
            f"the ResourceClaims of pod {object_key(meta)} by entry: {len(claim_names)} names are written to its status"
        )
        try:
            await self._client.patch(
                _POD_META,
                meta.name,
                apply_patch(configuration),
                meta.namespace,
                subresource="status",
                field_manager=FIELD_MANAGER,
                force=True,
            )
        except (Conflict, NotFound) as error:
            raise RetryLater(str(error)) from error  # the cache will get the newer pod, or its deletion

    async def _reserve_for_pod(self, pod: Pod) -> None:
        """Reserve allocated claims for a pod that was bound without the scheduler, which would otherwise wait
        forever."""
        namespace = pod.metadata.namespace
        for entry in pod.spec.resource_claims:
            claim_of_entry = claim_of(pod, entry)
            if not isinstance(claim_of_entry, ClaimOfEntry):
                if claim_of_entry is NoClaim.NOT_NEEDED:
                    continue
                return  # the status was just written: its event enqueues the pod
            key = f"{namespace}/{claim_of_entry.name}"
            claim, raw = self._claims.get(key), self._claims.raw(key)
            if claim is None:
                return
            if claim_of_entry.for_pod and not is_for_pod(pod, claim):
                owner_text = f"Pod {object_key(pod.metadata)}"
                raise ClaimNotOwned(f"ResourceClaim {key} was not created for {owner_text} (Pod is not owner)")
            if needs_reservation(pod, claim):
                assert raw is not None, "what is written back whole is cached with its JSON"
                user = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
                users = [*_users(raw), msgspec.Raw(_json(user))]
                await self._write_status(claim, raw, {"status.reservedFor": _json(users)})
                self.log.info("Reserved claim for pod", v=5, claim=key, pod=object_key(pod.metadata))

    # Claims: remove reservations, clear allocations, delete claims of pods that are done

    async def _sync_claim(self, key: str) -> Requeue | None:
        claim, raw = self._claims.get(key), self._claims.raw(key)
        if claim is None:
            return None
        assert raw is not None, "what is written back whole is cached with its JSON"
        namespace = claim.metadata.namespace
        self._missing_reservations.pop(key, None)
        keep_flags = [await self._keeps_reservation(key, namespace, user) for user in claim.status.reserved_for]
        remaining = sum(keep_flags)
        cleared = self._cleared.get(key) == claim.metadata.resource_version
        if not cleared:
            self._cleared.pop(key, None)
        match next_step(claim, remaining, cleared=cleared):
            case Step.NOTHING:
                pass
            case Step.RELEASE | Step.DEALLOCATE as step:
                users = [user for user, keep in zip(_users(raw), keep_flags, strict=True) if keep]
                changes: dict[str, bytes | None] = {"status.reservedFor": _json(users) if users else None}
                if step is Step.DEALLOCATE:
                    changes["status.allocation"] = None
                written = await self._write_status(claim, raw, changes)
                if step is Step.DEALLOCATE:
                    newer = _claim(written)
                    if self._claims.still_has(newer.metadata):
                        self._cleared[key] = newer.metadata.resource_version
                    await self._remove_finalizer(key, newer, written)
            case Step.REMOVE_FINALIZER:
                await self._remove_finalizer(key, claim, raw)
        if remaining == 0:
            await self._delete_if_unused(key, claim)
        # There may be no event for a pod that was only read live: it may be deleted before the cache has it.
        return Requeue(RESYNC_SECONDS) if key in self._missing_reservations else None

    async def _keeps_reservation(self, key: str, namespace: str, user: ConsumerReference) -> bool:
        pod = self._pods.get(f"{namespace}/{user.name}")
        match decide_reservation(user, pod, observed_deleted=user.uid in self._deleted_pods):
            case Reservation.KEEP:
                return True
            case Reservation.DROP:
                return False
            case Reservation.READ_LIVE:
                return await self._pod_exists(key, namespace, user.name, user.uid)

    async def _pod_exists(self, key: str, namespace: str, name: str, uid: str) -> bool:
        """Whether the pod exists, by a live read. The scheduler may be binding one that is not in the cache yet."""
        try:
            pod = await self._client.get(_POD_META, name, namespace)
        except NotFound as error:
            if not is_about(error, name):
                raise
            return False
        if pod.metadata.uid != uid:
            return False
        if key in self._claims:
            self._missing_reservations[key] = None
        return True

    async def _write_status(self, claim: ResourceClaim, raw: bytes, changes: dict[str, bytes | None]) -> bytes:
        """PUT the status, not a patch: it must fail if anything has changed."""
        return await self._update(claim, replace_fields(raw, changes), "status")

    async def _remove_finalizer(self, key: str, claim: ResourceClaim, raw: bytes) -> None:
        finalizers = [finalizer for finalizer in claim.metadata.finalizers if finalizer != ALLOCATION_FINALIZER]
        if claim.status.allocation is None and len(finalizers) < len(claim.metadata.finalizers):
            record_decision(f"ResourceClaim {key} is not allocated: its finalizer {ALLOCATION_FINALIZER} is removed")
            changes = {"metadata.finalizers": _json(finalizers) if finalizers else None}
            await self._update(claim, replace_fields(raw, changes), "")
        self._cleared.pop(key, None)

    async def _update(self, claim: ResourceClaim, body: bytes, subresource: str) -> bytes:
        meta = claim.metadata
        try:
            written = await self._client.update(
                RESOURCE_CLAIMS.raw, meta.name, body, meta.namespace, subresource=subresource
            )
        except (Conflict, NotFound) as error:
            # The cache is old. It will get the current claim, or its deletion.
            raise RetryLater(str(error)) from error
        return replace_fields(written, {"metadata.managedFields": None})

    async def _delete_if_unused(self, key: str, claim: ResourceClaim) -> None:
        """Usually the garbage collector deletes it, but a finished pod may exist for long."""
        meta, owner = claim.metadata, owner_of(claim.metadata)
        if owner is None or meta.deletion_timestamp is not None:
            return
        pod = self._pods.get(f"{meta.namespace}/{owner.name}")
        match decide_owner(owner, pod, observed_deleted=owner.uid in self._deleted_pods):
            case Reservation.KEEP:
                return
            case Reservation.READ_LIVE:
                if await self._pod_exists(key, meta.namespace, owner.name, owner.uid):
                    return
            case Reservation.DROP:
                pass
        self.log.info("Deleting unused generated claim", v=5, claim=key, pod=owner.name)
        record_decision(f"generated ResourceClaim {key} is unused: its pod {owner.name} has ended or is gone")
        try:
            await self._client.delete(RESOURCE_CLAIMS, meta.name, meta.namespace, uid=meta.uid)
        except (Conflict, NotFound):
            return  # deleted, or replaced by another claim with its name, whose event has enqueued it


def _users(raw: bytes) -> list[Any]:
    """The reservations as JSON, including unknown fields."""
    reserved_for = take_field(raw, "status.reservedFor")
    return _list(reserved_for) if reserved_for is not None else []


def _index_by_claim(pod: Pod) -> list[str]:
    return [f"{pod.metadata.namespace}/{name}" for name in claim_names(pod)]


def _index_by_template(pod: Pod) -> list[str]:
    templates = (entry.resource_claim_template_name for entry in pod.spec.resource_claims)
    return [f"{pod.metadata.namespace}/{name}" for name in templates if name is not None]


def _index_by_owner(claim: ResourceClaim) -> list[str]:
    owner = owner_of(claim.metadata)
    return [owner.uid] if owner is not None else []


build = ResourceClaimController
