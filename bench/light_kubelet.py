"""Nodes for comparisons with the Go programs: a process that simulates nodes and pods with few requests.

``python -m bench.light_kubelet --kubeconfig FILE --nodes N`` runs in its own process, for both managers alike. It
creates the Nodes, binds every daemon pod to the node that its affinity names and all other pods to the nodes in turn,
reports each pod as ready in one write, and removes it as soon as it is marked for deletion: the work of a scheduler and
N kubelets with three requests per pod. Without Leases and heartbeats, idle nodes cost the manager nothing.
"""

import argparse
import asyncio
import itertools

from pilothouse.api.core import NODES, PODS, Pod
from pilothouse.client import Client, merge_patch
from pilothouse.client.connect import connect
from pilothouse.client.errors import AlreadyExists, Conflict, NotFound
from pilothouse.env import Env, TaskGroup, loops
from pilothouse.machinery.times import format_time
from pilothouse.runtime import SharedInformer

READY = "light kubelet is ready"
_CONCURRENCY = 32
_SIZE = {"cpu": "32", "memory": "256Gi", "pods": "110"}


class LightKubelet:
    """See the module."""

    def __init__(self, client: Client, env: Env, nodes: int) -> None:
        self._client = client
        self._env = env
        self._names = [f"node-{number}" for number in range(nodes)]
        self._turns = itertools.cycle(self._names)
        self._todo: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._ending: dict[str, None] = {}  # uids of pods that were told to end: the final delete is an event too
        self._pods = SharedInformer(client, env, PODS, stream_first=False)
        self._pods.add_handler(
            on_add=lambda pod, _initial: self._see(pod),
            on_update=lambda _old, pod: self._see(pod),
            on_delete=lambda pod, _unknown: self._ending.pop(pod.metadata.uid, None),
        )

    async def run(self) -> None:
        """Register and serve until cancelled."""
        for first in range(0, len(self._names), _CONCURRENCY):
            await asyncio.gather(*(self._register(name) for name in self._names[first : first + _CONCURRENCY]))
        async with TaskGroup("light kubelet") as group:
            self._pods.start(group)
            await self._pods.wait_synced()
            for number in range(_CONCURRENCY):
                group.start(self._work(), name=f"worker {number}")
            print(READY, flush=True)

    async def _register(self, name: str) -> None:
        now = format_time(self._env.now())
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready"}
        node = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {
                "capacity": _SIZE,
                "allocatable": _SIZE,
                "conditions": [{**ready, "lastHeartbeatTime": now, "lastTransitionTime": now}],
            },
        }
        try:
            await self._client.create(NODES.raw, node)
        except AlreadyExists:
            return

    def _see(self, pod: Pod) -> None:
        meta = pod.metadata
        if meta.deletion_timestamp is not None:
            if meta.uid in self._ending:
                return
            self._ending[meta.uid] = None
        elif pod.spec.node_name:
            return
        self._todo.put_nowait((meta.namespace, meta.name))

    async def _work(self) -> None:
        while True:
            namespace, name = await self._todo.get()
            pod = self._pods.cache.get(f"{namespace}/{name}")
            if pod is None:
                continue
            try:
                await self._serve(pod)
            except (NotFound, Conflict):
                continue  # deleted meanwhile; the watch has more to say if there is more to do

    async def _serve(self, pod: Pod) -> None:
        meta = pod.metadata
        if meta.deletion_timestamp is not None:
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid, grace_period_seconds=0)
            return
        if pod.spec.node_name:
            return
        node = _target(pod) or next(self._turns)
        binding = {"metadata": {"name": meta.name, "uid": meta.uid}, "target": {"kind": "Node", "name": node}}
        await self._client.create(PODS.raw, binding, meta.namespace, subresource="binding", name=meta.name)
        now = format_time(self._env.now())
        conditions = [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
            for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ]
        status = {"phase": "Running", "startTime": now, "podIP": "10.0.0.1", "conditions": conditions}
        await self._client.patch(
            PODS.raw, meta.name, merge_patch({"status": status}), meta.namespace, subresource="status"
        )


def _target(pod: Pod) -> str:
    """The node that the affinity of a daemon pod names."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    for term in required.node_selector_terms if required is not None else ():
        for requirement in term.match_fields:
            if requirement.key == "metadata.name":
                return requirement.values[0]
    return ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    arguments = parser.parse_args()

    async def serve() -> None:
        env = Env()
        client = Client(connect(env, kubeconfig=arguments.kubeconfig), env)
        await LightKubelet(client, env, arguments.nodes).run()

    loops.run(serve())


if __name__ == "__main__":
    main()
