"""Reconciles the desired and the actual state of the world.

Upstream checks everything ten times a second. Here a pair of volume and node is *open* as long as its states differ,
and a round checks the open pairs: when something has changed, or when a backoff, a deadline or a timeout ends; at most
ten times a second. Each round detaches before it attaches, so that a volume that moves is detached first.
"""

import asyncio
import contextlib
import math
from collections.abc import Iterator, Mapping

from pilothouse.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PODS, Node, Pod
from pilothouse.api.storage import (
    CSI_DRIVERS,
    PERSISTENT_VOLUMES,
    VOLUME_ATTACHMENTS,
    AttachmentStatus,
    Driver,
    PersistentVolume,
    VolumeAttachment,
)
from pilothouse.client import strategic_merge_patch
from pilothouse.client.errors import AlreadyExists, ApiError, NotFound
from pilothouse.controllers.shared.handlers import on_any_event
from pilothouse.controllers.shared.pods_by_claim import CLAIM_INDEX, index_by_claim
from pilothouse.controllers.shared.volume_links import decode_object
from pilothouse.controllers.volumes.persistentvolume_attach_detach import DESCRIPTOR, AttachDetachOptions
from pilothouse.controllers.volumes.persistentvolume_attach_detach.actual_state_of_world import (
    ActualStateOfWorld,
    Attachment,
)
from pilothouse.controllers.volumes.persistentvolume_attach_detach.actual_state_populator import ActualStatePopulator
from pilothouse.controllers.volumes.persistentvolume_attach_detach.attaching import (
    DRIVER_SECONDS,
    Done,
    Failed,
    new_attachment,
    timeout_message,
    verify_attachment_status,
    verify_detachment_status,
)
from pilothouse.controllers.volumes.persistentvolume_attach_detach.decide import (
    SILENCE_SECONDS,
    UNMOUNT_SECONDS,
    Detach,
    Observed,
    decide_detach,
    is_healthy,
    is_out_of_service,
    multi_attach_messages,
)
from pilothouse.controllers.volumes.persistentvolume_attach_detach.desired_state_of_world import (
    DesiredStateOfWorld,
    Pair,
)
from pilothouse.controllers.volumes.persistentvolume_attach_detach.metrics import Metrics
from pilothouse.controllers.volumes.persistentvolume_attach_detach.operations import (
    ATTACH,
    DETACH,
    Operation,
    Operations,
)
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.runtime import (
    ControllerContext,
    EventRecorder,
    ManagedController,
    Requeue,
    WorkerPool,
    WorkQueue,
    object_key,
    object_reference,
)
from pilothouse.runtime.events import NORMAL, WARNING
from pilothouse.semantics.attachments import (
    MANAGED,
    Disk,
    attachment_name,
    disk_for,
    driver_and_handle,
    is_attached_by,
)
from pilothouse.semantics.volumes import has_ended

COMPONENT = "attachdetach-controller"
ROUND_SECONDS = 0.1
"""The minimum time between rounds."""
REPORT_RETRY_SECONDS = 1.0
POPULATE_SECONDS = 60.0
"""The period of the check for missed pods, as long as there are any with claims."""
REQUESTS_AT_ONCE = 32
ROUND = "round"


class RequestFailed(Exception):
    """The error of a request, for the events of a volume's pods."""


class AttachDetachController(ManagedController):
    """Keys of the queue are PersistentVolumeClaims."""

    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(AttachDetachOptions)
        pods = context.informer(PODS, indexes={CLAIM_INDEX: index_by_claim})
        nodes = context.informer(NODES)
        claims, volumes = context.informer(PERSISTENT_VOLUME_CLAIMS), context.informer(PERSISTENT_VOLUMES)
        drivers, attachments = context.informer(CSI_DRIVERS), context.informer(VOLUME_ATTACHMENTS)
        super().__init__(context, DESCRIPTOR.name, queue_name="pvcs")
        self._options = options
        self._client = context.client
        self._pods, self._nodes = pods.cache, nodes.cache
        self._claims, self._volumes = claims.cache, volumes.cache
        self._drivers, self._attachments = drivers.cache, attachments.cache
        self._recorder = EventRecorder(context.client, context.env, COMPONENT)
        self.add_runnable("events", self._recorder.run)
        self._open: dict[Pair, None] = {}
        self._desired = DesiredStateOfWorld(self._mark_open)
        self._actual = ActualStateOfWorld(self._mark_open)
        self._operations = Operations(context.env)
        self._pending: dict[str, Operation] = {}
        """Pending operations, by the name of the VolumeAttachment."""
        self._users: dict[str, dict[str, None]] = {}
        """The pods with claims that have not finished, by node."""
        self._populator = ActualStatePopulator(
            context.client, self._nodes, self._volumes, desired=self._desired, actual=self._actual
        )
        self._status_retry_at = math.inf
        self._sync_states_at = math.inf
        self._populate_at = math.inf
        self._metrics = Metrics(
            context.metrics,
            lambda: (volume for volume, _node in self._desired.get_volumes_to_attach()),
            lambda: (attachment.volume for attachment in self._actual.get_attached_volumes()),
            self._volumes_in_use,
        )
        self._rounds: WorkQueue[str] = WorkQueue(context.env, f"{self.name}-rounds")
        self._rounds.add(ROUND)
        self.add_worker_pool(WorkerPool(f"{self.name}-rounds", self._rounds, self._run_round, log=self.log))
        self._requests: WorkQueue[Operation] = WorkQueue(context.env, f"{self.name}-requests")
        self.add_worker_pool(
            WorkerPool(
                f"{self.name}-requests", self._requests, self._run_operation, workers=REQUESTS_AT_ONCE, log=self.log
            )
        )
        nodes.add_handler(
            lambda node, _initial: self._add_node(node),
            lambda _old, node: self._update_node(node),
            lambda node, _unknown: self._delete_node(node),
            resync_seconds=0.0,
        )
        pods.add_handler(
            lambda pod, _initial: self._process_pod(pod),
            self._update_pod,
            lambda pod, _unknown: self._delete_pod(pod),
        )
        claims.add_handler(
            lambda claim, _initial: self.queue.add(object_key(claim.metadata)),
            lambda _old, claim: self.queue.add(object_key(claim.metadata)),
        )
        volumes.add_handler(
            lambda volume, _initial: self._process_volume(volume),
            lambda _old, volume: self._process_volume(volume),
            resync_seconds=0.0,
        )
        on_any_event(drivers, lambda driver: self._process_driver(driver.metadata.name), 0.0)
        on_any_event(attachments, self._process_attachment, 0.0)

    def _mark_open(self, pair: Pair) -> None:
        self._open[pair] = None
        self._rounds.add(ROUND)

    # Desired state

    def _process_pod(self, pod: Pod) -> None:
        node = pod.spec.node_name
        if not node or not pod.spec.volumes:
            return
        if has_ended(pod):
            self._remove_user(pod)
            self._desired.delete_pod(pod.metadata.uid)
            return
        if not index_by_claim(pod):
            return
        self._users.setdefault(node, {})[object_key(pod.metadata)] = None
        self._add_pod_volumes(pod)

    def _update_pod(self, old: Pod, new: Pod) -> None:
        if old.metadata.uid != new.metadata.uid:
            # It was recreated, maybe on another node.
            self._delete_pod(old)
        self._process_pod(new)

    def _delete_pod(self, pod: Pod) -> None:
        self._remove_user(pod)
        self._desired.delete_pod(pod.metadata.uid)

    def _remove_user(self, pod: Pod) -> None:
        users = self._users.get(pod.spec.node_name)
        if users is not None:
            users.pop(object_key(pod.metadata), None)
            if not users:
                del self._users[pod.spec.node_name]

    def _add_pod_volumes(self, pod: Pod) -> None:
        """Volumes that are unknown now are added when the claim or volume changes."""
        if not self._desired.node_exists(pod.spec.node_name):
            return
        for volume in pod.spec.volumes:
            disk = disk_for(pod, volume, self._claims.get, self._volumes.get, self._drivers.get)
            if disk is None:
                continue
            self._desired.add_pod(pod, disk)
            attachment = self._actual.get((disk.name, pod.spec.node_name))
            if attachment is not None and attachment.disk is None:
                attachment.disk = disk

    def _add_volumes_of_claim(self, claim: str) -> None:
        for pod in self._pods.by_index(CLAIM_INDEX, claim):
            if pod.spec.node_name and not has_ended(pod):
                self._add_pod_volumes(pod)

    async def reconcile(self, key: str) -> Requeue | None:
        """Process the pods of a claim, once it is bound."""
        claim = self._claims.get(key)
        if claim is not None and claim.status.phase == "Bound" and claim.spec.volume_name:
            self._add_volumes_of_claim(key)
        return None

    def _process_volume(self, volume: PersistentVolume) -> None:
        self._populator.process_volume(volume)
        reference = volume.spec.claim_ref
        if reference is not None and reference.uid:
            self.queue.add(f"{reference.namespace}/{reference.name}")

    def _process_driver(self, name: str) -> None:
        """The driver's ``attachRequired`` may have changed."""
        needed = is_attached_by(self._drivers.get(name))
        for pair in self._desired.get_volumes_to_attach() if not needed else ():
            desired = self._desired.get(pair)
            if desired is not None and desired.disk.driver == name:
                self._desired.delete_volume(pair)
        if needed:
            self._add_all_pods()

    def _add_all_pods(self) -> None:
        for key in [key for users in self._users.values() for key in users]:
            pod = self._pods.get(key)
            if pod is not None:
                self._process_pod(pod)

    # Nodes

    def _add_node(self, node: Node) -> None:
        self._update_node(node)
        # Its status may have been lost (kubernetes#37586).
        self._actual.set_node_status_update_needed(node.metadata.name)
        self._rounds.add(ROUND)

    def _update_node(self, node: Node) -> None:
        name = node.metadata.name
        if MANAGED in node.metadata.annotations and self._desired.add_node(name):
            for key in list(self._users.get(name, ())):
                pod = self._pods.get(key)
                if pod is not None:
                    self._add_pod_volumes(pod)
        self._actual.set_volumes_in_use(name, node.status.volumes_in_use)
        if self._open:
            self._rounds.add(ROUND)

    def _delete_node(self, node: Node) -> None:
        self._desired.delete_node(node.metadata.name)
        self._actual.set_volumes_in_use(node.metadata.name, node.status.volumes_in_use)
        if self._open:
            self._rounds.add(ROUND)

    # Reconciler

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            self._metrics.stop()

    async def _run_round(self, _key: str) -> Requeue | None:
        """One run of the reconciler; returns when the next is due if nothing changes before."""
        if not self._populator.is_populated:
            await self._populator.populate_actual_state_of_world()
            self._sync_states_at = self._next_sync_states_at()
            self._populate_at = self.env.monotonic() + POPULATE_SECONDS
        await self._reconcile_states()
        if self.env.monotonic() >= self._sync_states_at:
            await self._sync_states()
            self._sync_states_at = self._next_sync_states_at()
        if self.env.monotonic() >= self._populate_at:
            self._populate_desired_state()
            self._populate_at = self.env.monotonic() + POPULATE_SECONDS
        # Later events start their own round.
        await asyncio.sleep(ROUND_SECONDS)
        due = self._next_round_at()
        return None if due == math.inf else Requeue(after=max(0.0, due - self.env.monotonic()))

    def _next_sync_states_at(self) -> float:
        if self._options.disable_sync or self._options.sync_period < 1.0:
            return math.inf
        return self.env.monotonic() + self._options.sync_period

    def _next_round_at(self) -> float:
        due = self._status_retry_at
        if self._actual.has_attachments:
            due = min(due, self._sync_states_at)
        if self._users or self._desired.has_pods:
            due = min(due, self._populate_at)
        for operation in self._pending.values():
            if operation.deadline is not None:
                due = min(due, operation.deadline)
        now = self.env.monotonic()
        for pair in self._open:
            attachment = self._actual.get(pair)
            if attachment is not None and attachment.detach_requested_at is not None:
                unreported = self._actual.is_unreported_by_node(pair)
                for patience in (SILENCE_SECONDS, UNMOUNT_SECONDS) if unreported else (UNMOUNT_SECONDS,):
                    if attachment.detach_requested_at + patience >= now:
                        due = min(due, attachment.detach_requested_at + patience + ROUND_SECONDS)
            backoff = self._operations.backoff_until(pair, exclusive=self._is_exclusive(pair))
            if backoff is not None and backoff > now:
                due = min(due, backoff)
        return due

    def _is_exclusive(self, pair: Pair) -> bool:
        desired, attachment = self._desired.get(pair), self._actual.get(pair)
        disk = desired.disk if desired is not None else attachment.disk if attachment is not None else None
        # Volumes known only by name have no driver.
        return disk is not None and disk.exclusive

    async def _reconcile_states(self) -> None:
        self._time_out_operations()
        await self._detach_undesired_volumes()
        self._attach_desired_volumes()
        self._status_retry_at = math.inf
        for node in self._actual.nodes_with_status_update_needed():
            await self._update_node_status(node)

    def _time_out_operations(self) -> None:
        now = self.env.monotonic()
        for operation in list(self._pending.values()):
            if operation.deadline is not None and now >= operation.deadline:
                driver, handle = _driver_and_handle(operation)
                if operation.kind == ATTACH:
                    self._fail(operation, timeout_message("attach", driver, handle))
                else:
                    # Upstream does not find the driver here, and records that.
                    self._fail(operation, timeout_message("detach", "unknown", handle))

    async def _detach_undesired_volumes(self) -> None:
        to_detach: dict[str, list[tuple[Attachment, Detach]]] = {}
        now = self.env.monotonic()
        for pair in sorted(self._open):
            attachment = self._actual.get(pair)
            if self._desired.get(pair) is not None:
                continue
            if attachment is None or driver_and_handle(attachment.volume) is None:
                # Nothing is left to do, or the volume belongs to another plugin.
                del self._open[pair]
                continue
            if not self._operations.can_start(DETACH, pair, exclusive=self._is_exclusive(pair)):
                continue
            if attachment.detach_requested_at is None:
                attachment.detach_requested_at = now
            node = self._nodes.get(attachment.node)
            observed = Observed(
                mounted=self._actual.is_mounted(pair),
                unreported=self._actual.is_unreported_by_node(pair),
                healthy=is_healthy(node),
                out_of_service=is_out_of_service(node),
                waited=now - attachment.detach_requested_at,
                force=not self._options.disable_force_detach,
            )
            decision = decide_detach(observed)
            if isinstance(decision, Detach):
                to_detach.setdefault(attachment.node, []).append((attachment, decision))
        for node_name in sorted(to_detach):
            await self._detach_from_node(node_name, to_detach[node_name])

    async def _detach_from_node(self, node: str, to_detach: list[tuple[Attachment, Detach]]) -> None:
        """Update the node's status first: from then on no pod mounts the volumes."""
        for attachment, decision in to_detach:
            if decision.forced:
                # The status of an unchecked node may have been written by another manager.
                self._actual.force_removal_from_report((attachment.volume, node))
            else:
                self._actual.remove_volume_from_report_as_attached((attachment.volume, node))
        reported = not self._actual.is_status_update_needed(node) or await self._update_node_status(node)
        for attachment, decision in to_detach:
            pair = (attachment.volume, node)
            if self._actual.get(pair) is not attachment:
                continue
            if not reported or self._desired.get(pair) is not None:
                # The status could not be written, or a pod needs the volume again.
                if attachment.confirmed:
                    self._actual.add_volume_to_report_as_attached(pair)
                continue
            if decision.forced:
                self._metrics.force(decision.forced)
                self.log.info(
                    "Detaching a volume by force", volume=attachment.volume, node=node, reason=decision.forced
                )
            exclusive = self._is_exclusive(pair)
            self._start_operation(
                Operation(DETACH, pair, attachment.disk, exclusive, self.env.monotonic(), verify=not decision.forced)
            )

    def _attach_desired_volumes(self) -> None:
        for pair in sorted(self._open):
            desired = self._desired.get(pair)
            if desired is None:
                continue
            disk = desired.disk
            if self._operations.is_operation_pending(pair, exclusive=disk.exclusive):
                continue
            attachment = self._actual.get(pair)
            if attachment is not None and attachment.confirmed:
                attachment.detach_requested_at = None
                desired.reported = False
                del self._open[pair]
                continue
            volume, node = pair
            if disk.exclusive:
                other_nodes = [
                    node_name for node_name in self._actual.get_nodes_for_attached_volume(volume) if node_name != node
                ]
                if other_nodes:
                    if not desired.reported:
                        users = self._desired.get_volume_pods_on_nodes(other_nodes, volume)
                        for pod, message in multi_attach_messages(disk, desired.pods.values(), users):
                            self._record_event(pod, WARNING, "FailedAttachVolume", message)
                        desired.reported = True
                    continue
            if self._operations.can_start(ATTACH, pair, exclusive=disk.exclusive):
                pods = tuple(desired.pods.values())
                self._start_operation(Operation(ATTACH, pair, disk, disk.exclusive, self.env.monotonic(), pods))

    def _start_operation(self, operation: Operation) -> None:
        self._operations.start(operation)
        self._requests.add(operation)

    # Operations

    async def _run_operation(self, operation: Operation) -> Requeue | None:
        try:
            await (self._request_attach(operation) if operation.kind == ATTACH else self._request_detach(operation))
        except RequestFailed as error:
            self._fail(operation, str(error))
        return None

    async def _request_attach(self, operation: Operation) -> None:
        disk, (_volume, node) = operation.disk, operation.pair
        assert disk is not None, "what is wanted is known"
        name = attachment_name(disk.driver, disk.handle, node)
        pods = ", ".join(object_key(pod.metadata) for pod in operation.pods[:5])
        record_decision(f"volume {disk.name} is attached to node {node} for {len(operation.pods)} pods: {pods}")
        try:
            operation.version = (await self._create_attachment(name, disk, node)).metadata.resource_version
        except (ApiError, OSError) as error:
            raise RequestFailed(f"kubernetes.io/csi: attacher.Attach failed: {error}") from error
        self._wait_for_result(name, operation)

    async def _create_attachment(self, name: str, disk: Disk, node: str) -> VolumeAttachment:
        """Create the VolumeAttachment unless it exists. The cache is not sufficient: it may have one that was deleted
        long ago, with the driver's result."""
        if name in self._attachments:
            with contextlib.suppress(NotFound):
                return await self._client.get(VOLUME_ATTACHMENTS, name)
        try:
            return await self._client.create(VOLUME_ATTACHMENTS, new_attachment(disk, node))
        except AlreadyExists:
            self.log.info("VolumeAttachment already exists", v=4, attachment=name)
            return await self._client.get(VOLUME_ATTACHMENTS, name)

    async def _request_detach(self, operation: Operation) -> None:
        volume, node = operation.pair
        if operation.verify:
            await self._verify_unused(volume, node)
        driver, handle = _driver_and_handle(operation)
        name = attachment_name(driver, handle, node)
        record_decision(f"no pod on node {node} uses volume {volume} any more: detached")
        try:
            result = await self._client.delete(VOLUME_ATTACHMENTS, name)
        except NotFound:
            self._succeed(operation)
            return
        except (ApiError, OSError) as error:
            text = f"detacher.Detach failed to delete VolumeAttachment [{name}]: {error}"
            raise RequestFailed(f"kubernetes.io/csi: {text}") from error
        va = decode_object(bytes(result), VolumeAttachment).object
        if va.metadata.name == name and va.metadata.finalizers:
            # Only a cache that had it can prove that it was deleted.
            operation.version = va.metadata.resource_version
            self._wait_for_result(name, operation)
        else:
            self._succeed(operation)

    async def _verify_unused(self, volume: str, node: str) -> None:
        """Check that the live node neither uses the volume nor reports it in its status: the cache may be old, and an
        earlier manager may have written the status."""
        try:
            node_object = await self._client.get(NODES, node)
        except NotFound:
            return
        except (ApiError, OSError) as error:
            raise RequestFailed(f"failed fetching node from API server: {error}") from error
        if volume in node_object.status.volumes_in_use:
            raise RequestFailed("volume is still in use by node, according to Node status")
        if any(attached.name == volume for attached in node_object.status.volumes_attached):
            self._actual.force_removal_from_report((volume, node))
            raise RequestFailed("node is still told that volume is attached")

    def _wait_for_result(self, name: str, operation: Operation) -> None:
        operation.deadline = self.env.monotonic() + DRIVER_SECONDS
        self._pending[name] = operation
        self._verify_status(name, operation)
        self._rounds.add(ROUND)  # for its deadline

    def _process_attachment(self, va: VolumeAttachment) -> None:
        operation = self._pending.get(va.metadata.name)
        if operation is not None:
            self._verify_status(va.metadata.name, operation)

    def _verify_status(self, name: str, operation: Operation) -> None:
        va = self._attachments.get(name)
        if is_newer(operation.version, self._attachments.resource_version or "0"):
            return
        result = verify_attachment_status(va) if operation.kind == ATTACH else verify_detachment_status(va)
        match result:
            case Done():
                self._succeed(operation)
            case Failed(reason=reason):
                self._fail(operation, reason)

    def _finish(self, operation: Operation, *, failed: bool) -> None:
        volume, node = operation.pair
        driver, handle = _driver_and_handle(operation)
        self._pending.pop(attachment_name(driver, handle, node), None)
        self._operations.end(operation, failed=failed)
        self._metrics.end(volume, operation.kind, self.env.monotonic() - operation.begun, failed=failed)

    def _succeed(self, operation: Operation) -> None:
        self._finish(operation, failed=False)
        if operation.kind == ATTACH:
            assert operation.disk is not None, "what is wanted is known"
            message = f"AttachVolume.Attach succeeded for volume {quote(operation.disk.volume)} "
            for pod in operation.pods:
                self._record_event(pod, NORMAL, "SuccessfulAttachVolume", message)
            self._actual.mark_volume_as_attached(operation.pair, operation.disk)
        else:
            self._actual.mark_volume_as_detached(operation.pair)
        self._mark_open(operation.pair)

    def _fail(self, operation: Operation, reason: str) -> None:
        self._finish(operation, failed=True)
        volume, node = operation.pair
        name = operation.disk.volume if operation.disk is not None else volume
        if operation.kind == ATTACH:
            for pod in operation.pods:
                message = f"AttachVolume.Attach failed for volume {quote(name)} : {reason}"
                self._record_event(pod, WARNING, "FailedAttachVolume", message)
        if operation.kind == ATTACH or self._actual.get(operation.pair) is not None:
            self._actual.mark_volume_as_uncertain(operation.pair, operation.disk)
        self.log.info("Operation failed", operation=operation.kind, volume=name, node=node, err=reason)
        self._mark_open(operation.pair)

    def _record_event(self, pod: Pod, type_: str, reason: str, message: str) -> None:
        self._recorder.event(object_reference(PODS, pod.metadata), type_, reason, message)

    # The nodes' status

    async def _update_node_status(self, name: str) -> bool:
        """Whether the node's status is up to date. A missing node has none."""
        volumes = self._actual.take_volumes_to_report_as_attached(name)
        if self._nodes.get(name) is None:
            return True
        attached = [{"name": volume, "devicePath": ""} for volume in volumes] or None
        patch = strategic_merge_patch({"status": {"volumesAttached": attached}})
        record_decision(f"{len(volumes)} volumes are attached to node {name}: {', '.join(volumes) or 'none'}")
        try:
            await self._client.patch(NODES.raw, name, patch, subresource="status")
        except NotFound:
            return True
        except (ApiError, OSError) as error:
            self.log.info("Could not update node status; re-marking for update", v=2, node=name, err=str(error))
            self._actual.set_node_status_update_needed(name)
            self._status_retry_at = self.env.monotonic() + REPORT_RETRY_SECONDS
            return False
        return True

    # Missed events

    async def _sync_states(self) -> None:
        """Mark volumes that are not attached any more (``VolumesAreAttached``)."""
        for attachment in self._actual.confirmed():
            disk, pair = attachment.disk, (attachment.volume, attachment.node)
            if disk is None or not is_attached_by(self._drivers.get(disk.driver)):
                continue
            va = await self._live_attachment(disk, attachment.node)
            if self._actual.get(pair) is not attachment or not attachment.confirmed:
                continue
            if va is None:
                self.log.info("A volume is not attached any more", volume=attachment.volume, node=attachment.node)
                self._actual.mark_volume_as_detached(pair)
            elif not va.status.attached:
                # An operation is in progress, and must not be dropped.
                self._actual.remove_volume_from_report_as_attached(pair)
                self._actual.mark_volume_as_uncertain(pair, disk)

    async def _live_attachment(self, disk: Disk, node: str) -> VolumeAttachment | None:
        name = attachment_name(disk.driver, disk.handle, node)
        va = self._attachments.get(name)
        if va is not None:
            return va
        try:
            return await self._client.get(VOLUME_ATTACHMENTS, name)
        except NotFound:
            return None
        except (ApiError, OSError) as error:
            self.log.info("Could not verify an attachment", attachment=name, err=str(error))
            return _ATTACHED

    def _populate_desired_state(self) -> None:
        """Correct errors in the handling of events (upstream's populator)."""
        for pod in self._desired.pods():
            cached = self._pods.get(object_key(pod.metadata))
            if cached is None or cached.metadata.uid != pod.metadata.uid:
                self._desired.delete_pod(pod.metadata.uid)
        self._add_all_pods()

    def _volumes_in_use(self) -> Iterator[tuple[str, str]]:
        drivers: Mapping[str, Driver] = {}
        for node, users in self._users.items():
            for key in users:
                pod = self._pods.get(key)
                for volume in pod.spec.volumes if pod is not None else ():
                    assert pod is not None, "it has volumes"
                    disk = disk_for(pod, volume, self._claims.get, self._volumes.get, drivers.get)
                    if disk is not None:
                        yield node, disk.name


_ATTACHED = VolumeAttachment(status=AttachmentStatus(attached=True))
"""The assumed state of an attachment until there is a response."""


def _driver_and_handle(operation: Operation) -> tuple[str, str]:
    """Driver and volume handle of an operation."""
    if operation.disk is not None:
        return operation.disk.driver, operation.disk.handle
    parts = driver_and_handle(operation.pair[0])
    assert parts is not None, "only volumes of CSI drivers are attached and detached"
    return parts


build = AttachDetachController
