"""What the scheduler tells the API server: bindings, reasons, nominations, evictions.

``scheduler`` decides and calls; nothing here looks at nodes. Requests, conditions and events are upstream's
(kube-scheduler v1.36 ``pkg/scheduler/schedule_one.go``, ``framework/preemption/preemption.go``).
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from pilothouse.api.core import PODS, Pod
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.env import Env, Log
from pilothouse.machinery.conditions import find_condition
from pilothouse.machinery.times import format_time
from pilothouse.runtime import EventRecorder, object_reference

_NOTE_LIMIT = 1024
"""Longest message of an event (``NoteLengthLimit``)."""


class Writes:
    """The requests of one scheduler. ``recorder`` must run."""

    def __init__(self, client: Client, env: Env, name: str, log: Log) -> None:
        self._client = client
        self._env = env
        self._name = name
        self._log = log
        self.recorder = EventRecorder(client, env, name)

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Give the pod to the node and say so. Raises what the API server answers."""
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

    async def report(self, pod: Pod, reason: str, message: str, *, nominated: str | None) -> None:
        """The event FailedScheduling, the condition PodScheduled where it says something new, and the node that the pod
        waits for: none any more with an empty name, the one it has with None."""
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
            await self._patch_status(pod, {"metadata": {"uid": meta.uid}, "status": status}, "Error updating pod")

    async def clear_nomination(self, pod: Pod) -> None:
        """The pod no longer waits for a node: a more important one will get the room."""
        if pod.status.nominated_node_name:
            patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": None}}
            await self._patch_status(pod, patch, "Cannot clear 'NominatedNodeName' field")

    async def evict(self, victims: Sequence[Pod], preemptor: Pod, node_name: str) -> bool:
        """Push the victims aside. Whether all of them are on their way out now."""
        done = await asyncio.gather(
            *[self._evict_one(pod, preemptor, node_name) for pod in victims if pod.metadata.deletion_timestamp is None]
        )
        return all(done)

    async def _evict_one(self, victim: Pod, preemptor: Pod, node_name: str) -> bool:
        from pilothouse.controllers.shared.disruption import disruption_target, status_patch
        from pilothouse.scheduler.preemption import BY_SCHEDULER

        meta = victim.metadata
        message = f"{preemptor.spec.scheduler_name or self._name}: preempting to accommodate a higher priority pod"
        condition = disruption_target(victim, BY_SCHEDULER, message)
        patch = status_patch(victim, self._env.now(), condition=condition)
        try:
            if patch is not None:
                await self._client.patch(
                    PODS.raw, meta.name, strategic_merge_patch(patch), meta.namespace, subresource="status"
                )
            # With its uid, which upstream leaves out: a successor of the same name has done nothing.
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
        except NotFound:
            return True  # it is gone already
        except (ApiError, OSError) as error:
            self._log.error("Tried to preempt pod", error=error, pod=f"{meta.namespace}/{meta.name}")
            return False
        said = f"Preempted by pod {preemptor.metadata.uid} on node {node_name}"
        self.recorder.event(object_reference(PODS, meta), "Normal", "Preempted", said)
        return True

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
