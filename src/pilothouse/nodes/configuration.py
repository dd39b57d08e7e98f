"""Waits for the ConfigMaps and Secrets of the pods on simulated nodes, as a kubelet does.

Volumes are checked before the sandbox is created, with retries after 0.5 s, doubling to two minutes; the environment of
a container when it is about to start, with retries after a second and then every ten. A pod without references costs
nothing, others one read of each object, as the node. Kubelet v1.36: ``pkg/util/goroutinemap/exponentialbackoff``,
``workerBackOffPeriod`` in ``pkg/kubelet/pod_workers.go``.

Unlike with a kubelet, a container that has run once is restarted whatever has become of the objects.
"""

import itertools
import math
from collections.abc import Iterable, Mapping

from pilothouse.api.core import ObjectReference
from pilothouse.client import Client
from pilothouse.client.errors import Forbidden, NotFound
from pilothouse.machinery.causes import record_decision
from pilothouse.nodes.containers import CONFIG_ERROR, WAITING, ContainerEvent, RuntimePod, next_change, retry_start
from pilothouse.nodes.recording import NodeEventRecorder
from pilothouse.nodes.references import (
    SECRET,
    Configuration,
    Content,
    ObjectId,
    Reference,
    environment_error,
    mount_error,
)
from pilothouse.nodes.views import CONFIG_MAP_CONTENTS, NODE_PODS, SECRET_CONTENTS, NodePod
from pilothouse.runtime import object_reference

_MOUNT_SECONDS = (0.5, 122.0)
"""First and longest pause between two tries to set up a volume."""
_START_SECONDS = (1.0, 10.0)
"""The delay after the first attempt to start a container, and after later ones: the new sandbox makes the kubelet sync
once more (``plegRelistPeriod``)."""


class Configurator:
    """Reads as each node through ``clients``."""

    def __init__(self, clients: Mapping[str, Client], record_event: NodeEventRecorder) -> None:
        self._clients = clients
        self._record_event = record_event

    async def set_up_volumes(self, pod: NodePod, configuration: Configuration, now: float) -> bool:
        """Whether the volumes are set up; if not, they are tried again at ``retry_at``."""
        if not configuration.mounts:
            return True
        if now < configuration.retry_at < math.inf:
            return False
        references = [reference for mount in configuration.mounts for reference in mount.references]
        contents = await self._read(pod, references)
        failed = []
        about: ObjectReference | None = None
        for mount in configuration.mounts:
            error = mount_error(mount, contents)
            if error:
                failed.append(mount)
                message = f'MountVolume.SetUp failed for volume "{mount.volume}" : {error}'
                about = about or object_reference(NODE_PODS, pod.metadata)
                self._record_event(pod.spec.node_name, about, "FailedMount", message, warning=True)
                record_decision(f"{pod.spec.node_name}: {message}")
        configuration.mounts = tuple(failed)
        if not failed:
            configuration.retry_at = math.inf
            return True
        first, longest = _MOUNT_SECONDS
        configuration.mount_pause = min(2 * configuration.mount_pause, longest) if configuration.mount_pause else first
        configuration.retry_at = now + configuration.mount_pause
        return False

    async def resolve_environments(
        self, pod: NodePod, runtime_pod: RuntimePod, configuration: Configuration, now: float
    ) -> None:
        """Determine which containers cannot be started, if one may be about to."""
        if runtime_pod.starts_at == math.inf:
            return
        if runtime_pod.stopping or not configuration.containers:
            configuration.retry_at = math.inf
            return
        if now < configuration.retry_at and next_change(runtime_pod) > now:
            return
        for index in list(configuration.containers):
            container = runtime_pod.containers[index]
            if container.state != WAITING or container.restarts:
                del configuration.containers[index]
        contents = await self._read(pod, itertools.chain.from_iterable(configuration.containers.values()))
        for index, references in configuration.containers.items():
            container = runtime_pod.containers[index]
            container.environment_error = environment_error(references, pod.metadata.namespace, contents)
            if container.reason != CONFIG_ERROR:
                continue
            retry_start(runtime_pod, container, now)
            if container.environment_error:
                container.reason, container.message = CONFIG_ERROR, container.environment_error
                event = ContainerEvent(index, "Failed", f"Error: {container.message}", warning=True)
                runtime_pod.add_event(event)
        waits = any(runtime_pod.containers[index].environment_error for index in configuration.containers)
        first, later = _START_SECONDS
        configuration.retry_at = now + (later if configuration.tried else first) if waits else math.inf
        configuration.tried = waits

    async def _read(self, pod: NodePod, references: Iterable[Reference]) -> dict[ObjectId, Content]:
        by_id: dict[ObjectId, Content] = {}
        client = self._clients[pod.spec.node_name]
        for reference in references:
            if reference.id in by_id:
                continue
            kind = SECRET_CONTENTS if reference.kind == SECRET else CONFIG_MAP_CONTENTS
            try:
                contents = await client.get(kind, reference.name, pod.metadata.namespace)
            except NotFound:
                by_id[reference.id] = Content(error=f'{reference.kind} "{reference.name}" not found')
            except Forbidden as error:
                by_id[reference.id] = Content(error=str(error))
            else:
                by_id[reference.id] = Content(frozenset((*(contents.data or ()), *(contents.binary_data or ()))))
        return by_id
