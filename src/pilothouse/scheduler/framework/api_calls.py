"""The API calls of the scheduler: bindings, pod conditions, nominations, evictions and events.

Requests, conditions and events are those of kube-scheduler v1.36 (``pkg/scheduler/schedule_one.go``,
``framework/preemption/preemption.go``, ``plugins/defaultbinder``).
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from pilothouse.api.core import PODS, Pod
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.env import Env, Log
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.conditions import find_condition
from pilothouse.machinery.times import format_time
from pilothouse.runtime import EventRecorder, object_reference

with lazy_imports():
    from pilothouse.controllers.shared import disruption
    from pilothouse.scheduler.plugins import default_preemption

CONCURRENT_EVENTS = 64
_NOTE_LIMIT = 1024
"""Longest message of an event (``NoteLengthLimit``)."""


class ApiCalls:
    """The API calls of one scheduler. ``recorder`` must run."""

    def __init__(self, client: Client, env: Env, name: str, log: Log) -> None:
        self._client = client
        self._env = env
        self._name = name
        self._log = log
        # Upstream's recorder of the scheduler sends each event in a goroutine of its own (client-go v0.36
        # ``tools/events/event_broadcaster.go``).
        self.recorder = EventRecorder(client, env, name, concurrency=CONCURRENT_EVENTS)

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind the pod to the node and record the event. Raises API errors."""
        meta = pod.metadata
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"kind": "Node", "name": node_name},
        }
        await self._client.create(PODS.raw, binding, meta.namespace, name=meta.name, subresource="binding")
        message = f"Successfully assigned {meta.namespace}/{meta.name} to {node_name}"
        self.recorder.event(object_reference(PODS, meta), "Normal", "Scheduled", message)

    async def update_pod_condition(self, pod: Pod, reason: str, message: str, *, nominated: str | None) -> None:
        """Record FailedScheduling, and write the condition PodScheduled and the nominated node if they are different.

        An empty ``nominated`` clears the nominated node name, None does not change it.
        """
        meta = pod.metadata
        note = message if len(message) <= _NOTE_LIMIT else message[: _NOTE_LIMIT - 4] + " ..."
        self.recorder.event(object_reference(PODS, meta), "Warning", "FailedScheduling", note)
        status: dict[str, Any] = {}
        present = find_condition(pod.status.conditions, "PodScheduled")
        if present is None or (present.status, present.reason, present.message) != ("False", reason, message):
            since = present.last_transition_time if present is not None and present.status == "False" else None
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": reason,
                "message": message,
                "observedGeneration": meta.generation or None,
                "lastProbeTime": None,
                "lastTransitionTime": format_time(since or self._env.now()),
            }
            status["conditions"] = [condition]
        if nominated is not None and nominated != pod.status.nominated_node_name:
            status["nominatedNodeName"] = nominated or None
        if status:
            record_decision(f"{f'nominated for {nominated}, ' if nominated else ''}{reason}: {message}")
            await self._patch_status(pod, {"metadata": {"uid": meta.uid}, "status": status}, "Error updating pod")

    async def nominate(self, pod: Pod, node_name: str) -> None:
        """Write the nominated node of a pod that is about to be bound. A failure does not stop the binding."""
        if pod.status.nominated_node_name != node_name:
            patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node_name}}
            await self._patch_status(pod, patch, "Failed to update the nominated node name in the binding cycle")

    async def clear_nominated_node_name(self, pod: Pod, preemptor: Pod) -> None:
        """Clear the nomination of a pod whose room a pod of higher priority gets."""
        if pod.status.nominated_node_name:
            other = preemptor.metadata
            record_decision(
                f"no longer nominated for {pod.status.nominated_node_name}: {other.namespace}/{other.name} of higher "
                f"priority ({preemptor.spec.priority or 0}) is"
            )
            patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": None}}
            await self._patch_status(pod, patch, "Cannot clear 'NominatedNodeName' field")

    async def preempt_pods(self, victims: Sequence[Pod], preemptor: Pod, node_name: str) -> bool:
        """Evict the victims. Returns whether all are terminating now."""
        done = await asyncio.gather(
            *[
                self._preempt_pod(pod, preemptor, node_name)
                for pod in victims
                if pod.metadata.deletion_timestamp is None
            ]
        )
        return all(done)

    async def _preempt_pod(self, victim: Pod, preemptor: Pod, node_name: str) -> bool:
        meta = victim.metadata
        message = f"{preemptor.spec.scheduler_name or self._name}: preempting to accommodate a higher priority pod"
        condition = disruption.disruption_target(victim, default_preemption.REASON_PREEMPTION_BY_SCHEDULER, message)
        patch = disruption.status_patch(victim, self._env.now(), condition=condition)
        try:
            if patch is not None:
                await self._client.patch(
                    PODS.raw, meta.name, strategic_merge_patch(patch), meta.namespace, subresource="status"
                )
            # Upstream does not send the uid; with it a new pod of the same name is safe.
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
        except NotFound:
            return True  # it was deleted already
        except (ApiError, OSError) as error:
            self._log.error("Tried to preempt pod", error=error, pod=f"{meta.namespace}/{meta.name}")
            return False
        self.record_preempted(victim, preemptor, node_name)
        return True

    def record_preempted(self, victim: Pod, preemptor: Pod, node_name: str, *, in_memory: bool = False) -> None:
        """Record the event of a victim. ``in_memory``: it was not bound yet, and is scheduled again."""
        note = f"Preempted by pod {preemptor.metadata.uid} on node {node_name}"
        if in_memory:
            note += " (in kube-scheduler memory)."
        self.recorder.event(object_reference(PODS, victim.metadata), "Normal", "Preempted", note)

    async def _patch_status(self, pod: Pod, patch: dict[str, Any], failure: str) -> None:
        meta = pod.metadata
        try:
            await self._client.patch(
                PODS.raw, meta.name, strategic_merge_patch(patch), meta.namespace, subresource="status"
            )
        except (NotFound, Conflict):
            return
        except (ApiError, OSError) as error:
            self._log.error(failure, error=error, pod=f"{meta.namespace}/{meta.name}")
