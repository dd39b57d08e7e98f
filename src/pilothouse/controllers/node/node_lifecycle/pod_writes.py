"""Marks the pods of a silent node as not ready. Upstream: v1.36 ``pkg/controller/util/node/controller_utils.go``,
``MarkPodsNotReady``."""

from collections.abc import Iterable

import msgspec

from pilothouse.api.core import PODS, Pod
from pilothouse.api.meta import Object
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, NotFound
from pilothouse.env import Env, Log
from pilothouse.machinery.splice import replace_fields, take_field
from pilothouse.machinery.times import format_time
from pilothouse.runtime import EventRecorder, object_key, object_reference
from pilothouse.runtime.events import WARNING
from pilothouse.semantics.pods import ready_condition

_POD_META = PODS.read_as(Object)
_raw_list = msgspec.json.Decoder(list[msgspec.Raw])


class PodWrites:
    def __init__(self, client: Client, env: Env, recorder: EventRecorder, log: Log) -> None:
        self._client = client
        self._env = env
        self._recorder = recorder
        self._log = log

    async def mark_pods_not_ready(self, pods: Iterable[Pod]) -> bool:
        """Set Ready to False on each pod that has the condition with another status. Whether all writes succeeded."""
        succeeded = True
        for pod in pods:
            if not has_ready_condition_to_update(pod):
                continue
            reference = object_reference(PODS, pod.metadata)
            try:
                await self._mark_pod_not_ready(pod)
            except NotFound:
                continue
            except (ApiError, OSError) as error:
                self._log.error("Failed to mark a pod NotReady", error=error, pod=object_key(pod.metadata))
                succeeded = False
            self._recorder.event(reference, WARNING, "NodeNotReady", "Node is not ready")
        return succeeded

    async def _mark_pod_not_ready(self, pod: Pod) -> None:
        """Change the live pod. Reason and message are kept, as upstream."""
        meta = pod.metadata
        raw = await self._client.get(PODS.raw, meta.name, meta.namespace)
        live = msgspec.json.decode(raw, type=Pod)
        if live.metadata.uid != meta.uid or not has_ready_condition_to_update(live):
            return
        conditions = _raw_list.decode(take_field(raw, "status.conditions") or b"[]")
        now = format_time(self._env.now()).encode()
        for index, condition in enumerate(live.status.conditions):
            if condition.type == "Ready":
                changes = {"status": b'"False"', "lastTransitionTime": b'"' + now + b'"'}
                conditions[index] = msgspec.Raw(replace_fields(conditions[index], changes))
        body = replace_fields(
            raw, {"status.conditions": msgspec.json.encode(conditions), "metadata.managedFields": None}
        )
        await self._client.update(_POD_META, meta.name, body, meta.namespace, subresource="status")


def has_ready_condition_to_update(pod: Pod) -> bool:
    condition = ready_condition(pod)
    return condition is not None and condition.status != "False"
