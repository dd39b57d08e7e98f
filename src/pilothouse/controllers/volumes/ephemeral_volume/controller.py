"""Syncs a pod when it is added, and when a claim that may be its own is deleted. A pod's volumes never change."""

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS, PersistentVolumeClaim, Pod
from pilothouse.client.errors import AlreadyExists, ApiError
from pilothouse.controllers.shared.pods_by_claim import CLAIM_INDEX, index_by_claim
from pilothouse.controllers.volumes.ephemeral_volume import DESCRIPTOR, EphemeralVolumeOptions
from pilothouse.controllers.volumes.ephemeral_volume.decide import CreateClaim, decide, has_ephemeral_volumes
from pilothouse.machinery.causes import record_decision
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

COMPONENT = "ephemeral_volume"


class EphemeralVolumeError(Exception):
    """A volume of a pod cannot be provided now; an event reports the reason. Retried."""


class EphemeralVolumeController(ManagedController):
    """Keys of the queue are pods."""

    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(EphemeralVolumeOptions)
        pods = context.informer(PODS, indexes={CLAIM_INDEX: index_by_claim})
        claims = context.informer(PERSISTENT_VOLUME_CLAIMS)
        super().__init__(context, DESCRIPTOR.name, workers=options.workers, queue_name="ephemeral_volume")
        self._client = context.client
        self._pods = pods.cache
        self._claims = claims.cache
        self._recorder = EventRecorder(context.client, context.env, COMPONENT)
        self.add_runnable("events", self._recorder.run)
        text = "[ALPHA] Number of PersistenVolumeClaims creation requests"  # upstream's words, for both
        prefix = "ephemeral_volume_controller"
        self._asked = context.metrics.counter(f"{prefix}_create_total", text).labels()
        self._failed = context.metrics.counter(f"{prefix}_create_failures_total", text).labels()
        pods.add_handler(lambda pod, _initial: self._enqueue_pod(pod), self._update_pod, resync_seconds=0.0)
        claims.add_handler(
            on_update=self._update_pvc, on_delete=lambda claim, _unknown: self._on_pvc_delete(claim), resync_seconds=0.0
        )

    def _enqueue_pod(self, pod: Pod) -> None:
        if has_ephemeral_volumes(pod):
            self.queue.add(object_key(pod.metadata))

    def _update_pod(self, old: Pod, new: Pod) -> None:
        # A recreated pod is reported as an update if its deletion was missed.
        if old.metadata.uid != new.metadata.uid:
            self._enqueue_pod(new)

    def _update_pvc(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
        if old.metadata.uid != new.metadata.uid:
            self._on_pvc_delete(old)

    def _on_pvc_delete(self, claim: PersistentVolumeClaim) -> None:
        for pod in self._pods.by_index(CLAIM_INDEX, object_key(claim.metadata)):
            self._enqueue_pod(pod)

    async def reconcile(self, key: str) -> Requeue | None:
        pod = self._pods.get(key)
        if pod is None:
            return None
        namespace = pod.metadata.namespace
        for step in decide(pod, lambda name: self._claims.get(f"{namespace}/{name}")):
            reason = await self._create_claim(step, namespace) if isinstance(step, CreateClaim) else step.reason
            if reason:
                reference, message = object_reference(PODS, pod.metadata), f"ephemeral volume {step.volume}: {reason}"
                self._recorder.event(reference, WARNING, "FailedBinding", message)
                raise EphemeralVolumeError(f"pod {key}, {message}")
        return None

    async def _create_claim(self, step: CreateClaim, namespace: str) -> str:
        """Create the claim. Returns the error, or ""."""
        self._asked.inc()
        record_decision(f"the pod's ephemeral volume {step.volume} has no claim: {step.name} is created")
        try:
            await self._client.create(PERSISTENT_VOLUME_CLAIMS.raw, step.claim, namespace)
        except AlreadyExists as error:
            # It is the controller's own, or another one's: the cache will get it.
            self._failed.inc()
            raise RetryLater(str(error)) from error
        except (ApiError, OSError) as error:
            self._failed.inc()
            return f"create PVC {step.name}: {error}"
        return ""


build = EphemeralVolumeController
