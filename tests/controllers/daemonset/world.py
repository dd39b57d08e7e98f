"""The embedded API server in virtual time with a DaemonSet controller on it, nodes, and somebody who runs their pods.

The controller's transport is an ``Interceptor``, so that faults can be put between it and the server; what the test
does goes past it. ``Kubelets`` bind pods to the node they are pinned to and run them; a test can do without.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec

from pilothouse.apiserver.server import ApiServer
from pilothouse.client import Client
from pilothouse.client.errors import NotFound
from pilothouse.client.interceptor import Interceptor, Observation, Sent
from pilothouse.controllers.workloads.daemonset import DESCRIPTOR, DaemonSetOptions
from pilothouse.controllers.workloads.daemonset.controller import DaemonSetController
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.machinery.times import format_time
from pilothouse.runtime import ControllerContext, InformerFactory, Registry
from pilothouse.storage import MemoryStore

Doc = dict[str, Any]

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
SETS = "/apis/apps/v1/namespaces/default/daemonsets"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
AGENT = f"{SETS}/agent"


class World:
    """A cluster of one API server and one controller."""

    def __init__(self, env: Env, group: TaskGroup) -> None:
        self.env = env
        self.store = MemoryStore(env)
        self.server = ApiServer(env, self.store)
        self.admin = Client(self.server.transport("admin", ["system:masters"]), env)
        self.requests: list[Sent] = []
        self.faults = Interceptor(
            self.server.transport("system:serviceaccount:kube-system:daemon-set-controller", ["system:masters"]),
            env,
            observer=self._observe,
        )
        self.metrics = Registry()
        self.controller: DaemonSetController
        """The one that was started last."""
        self.kubelets = True
        self.ready = True
        """Whether pods that start become ready."""
        self.checks: list[Callable[[list[Doc]], None]] = []
        """Called with all pods after every step of the kubelets."""
        self._group = group
        group.start(self._run_kubelets(), name="kubelets")

    def _observe(self, seen: Observation) -> None:
        if isinstance(seen, Sent) and seen.call.verb != "watch":
            self.requests.append(seen)

    async def start(self, options: DaemonSetOptions | None = None, *, work: bool = True) -> asyncio.Task[None]:
        """Start a controller with informers of its own. Cancel the task to stop it. Without ``work`` it hears all
        events, and looks when the test calls its ``reconcile``."""
        client = Client(self.faults, self.env)
        informers = InformerFactory(client, self.env)
        context = ControllerContext(
            env=self.env,
            client=client,
            informers=informers,
            metadata_informers=informers,
            metrics=self.metrics,
            options=options,
        )
        controller = DESCRIPTOR.build(context)
        assert isinstance(controller, DaemonSetController)
        self.controller = controller

        async def live() -> None:
            async with TaskGroup("informers") as running:
                informers.start(running)
                try:
                    await (controller.run() if work else asyncio.get_running_loop().create_future())
                finally:
                    running.cancel()

        task = self._group.start(live(), name="daemonset")
        await informers.wait_synced()
        await asyncio.sleep(0.1)
        return task

    # Kubelets and scheduler

    async def _run_kubelets(self) -> None:
        while True:
            await asyncio.sleep(0.1)
            if self.kubelets:
                await self._step()

    async def _step(self) -> None:
        nodes = {node["metadata"]["name"] for node in (await self.request("GET", NODES))["items"]}
        for pod in (await self.request("GET", PODS))["items"]:
            await self._run_pod(pod, nodes)
        if self.checks:
            pods = (await self.request("GET", PODS))["items"]
            for check in self.checks:
                check(pods)

    async def _run_pod(self, pod: Doc, nodes: set[str]) -> None:
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            if pod["spec"].get("nodeName") in nodes:
                await self.remove(name)
            return
        if not pod["spec"].get("nodeName"):
            affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
            terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
            target = terms[0]["matchFields"][0]["values"][0] if terms else ""
            if target in nodes:
                await self.bind(name, target)
        elif pod["status"].get("phase") == "Pending" and self.ready:
            await self.report(name)

    async def bind(self, pod: str, node: str) -> None:
        """What the scheduler does."""
        body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
        await self.request("POST", f"{PODS}/{pod}/binding", body)

    async def report(self, name: str, *, phase: str = "Running", ready: bool = True) -> None:
        """What a kubelet would say of the pod."""
        condition = {
            "type": "Ready",
            "status": "True" if ready else "False",
            "lastTransitionTime": format_time(self.env.now()),
        }
        await self.merge(f"{PODS}/{name}/status", {"status": {"phase": phase, "conditions": [condition]}})

    async def remove(self, name: str) -> None:
        """What a kubelet does when the containers of a deleted pod have ended."""
        with contextlib.suppress(NotFound):
            await self.request("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    # What the test does

    async def request(
        self, method: str, path: str, body: Doc | None = None, content_type: str = "application/json"
    ) -> Doc:
        """Any request of an administrator."""
        encoded = b"" if body is None else msgspec.json.encode(body)
        response = await self.admin.request(method, path, body=encoded, headers={"content-type": content_type})
        found: Doc = msgspec.json.decode(response.body)
        return found

    async def add_nodes(self, count: int, *, first: int = 0, labels: Doc | None = None) -> None:
        """Nodes ``n<first>`` and on."""
        for number in range(first, first + count):
            await self.request("POST", NODES, {"metadata": {"name": f"n{number}", "labels": labels or {}}})
            # A new node is not ready until its kubelet says so, and tainted: nobody here takes that taint away.
            await self.taint(f"n{number}")

    async def taint(self, node: str, *taints: tuple[str, str]) -> None:
        """Give the node these taints, (key, effect), and no others."""
        found = [{"key": key, "effect": effect} for key, effect in taints]
        await self.merge(f"{NODES}/{node}", {"spec": {"taints": found or None}})

    async def create_set(self, name: str = "agent", *, template: Doc | None = None, **spec: Any) -> Doc:
        """A DaemonSet; ``template`` are fields of the pods' spec."""
        pods = {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "pause:1"}], **(template or {})},
        }
        whole = {"selector": {"matchLabels": {"app": name}}, "template": pods, **spec}
        return await self.request("POST", SETS, {"metadata": {"name": name}, "spec": whole})

    async def merge(self, path: str, changes: Doc) -> Doc:
        """JSON merge patch."""
        return await self.request("PATCH", path, changes, "application/merge-patch+json")

    async def set_image(self, image: str, path: str = AGENT) -> None:
        """Another template."""
        containers = [{"name": "main", "image": image}]
        await self.merge(path, {"spec": {"template": {"spec": {"containers": containers}}}})

    # What the test sees

    async def get(self, path: str) -> Doc | None:
        """An object, or None."""
        try:
            return await self.request("GET", path)
        except NotFound:
            return None

    async def pods(self, name: str = "agent") -> list[Doc]:
        """Pods of one DaemonSet that are not being deleted, by name."""
        items: list[Doc] = (await self.request("GET", PODS))["items"]
        return [
            item
            for item in items
            if "deletionTimestamp" not in item["metadata"]
            and [ref["name"] for ref in item["metadata"].get("ownerReferences", ()) if ref.get("controller")] == [name]
        ]

    async def places(self, name: str = "agent") -> list[str]:
        """The nodes of these pods, sorted."""
        return sorted(pod["spec"].get("nodeName", "") for pod in await self.pods(name))

    async def images(self) -> list[str]:
        """The images of the pods, sorted."""
        return sorted(pod["spec"]["containers"][0]["image"] for pod in await self.pods())

    async def revisions(self) -> list[tuple[str, int]]:
        """(hash label, number) of all revisions, by number."""
        items = (await self.request("GET", REVISIONS))["items"]
        found = [(item["metadata"]["labels"].get("controller-revision-hash", ""), item["revision"]) for item in items]
        return sorted(found, key=lambda each: each[1])

    async def status(self, path: str = AGENT) -> Doc:
        """The status of a DaemonSet."""
        found: Doc = (await self.request("GET", path))["status"]
        return found

    async def events(self) -> list[tuple[str, str, str]]:
        """(type, reason, message) of all events, oldest first, repeated as often as they count."""
        items = (await self.request("GET", "/api/v1/namespaces/default/events"))["items"]
        items.sort(key=lambda item: int(item["metadata"]["resourceVersion"]))
        return [(item["type"], item["reason"], item["message"]) for item in items for _ in range(item["count"])]

    def sent(self, verb: str, resource: str) -> list[Sent]:
        """What the controller sent: ``sent("update", "daemonsets/status")``."""
        kind, _slash, subresource = resource.partition("/")
        return [
            seen
            for seen in self.requests
            if (seen.call.verb, seen.call.resource, seen.call.subresource) == (verb, kind, subresource)
        ]

    async def settle(self, seconds: float = 3.0) -> None:
        """Give everything that is under way the time to end."""
        await asyncio.sleep(seconds)


@contextlib.asynccontextmanager
async def world(env: Env) -> AsyncIterator[World]:
    """A world without a controller yet; everything in it ends with the block."""
    async with TaskGroup("world") as group:
        made = World(env, group)
        if await made.get("/api/v1/namespaces/default") is None:
            await made.request("POST", "/api/v1/namespaces", {"metadata": {"name": "default"}})
        try:
            yield made
        finally:
            group.cancel()


def story(
    tell: Callable[[World], Coroutine[Any, Any, None]],
    options: DaemonSetOptions | None = None,
    *,
    nodes: int = 3,
    seed: int = 0,
) -> None:
    """Run a story in virtual time, with nodes and the controller started."""

    async def main(env: Env) -> None:
        async with world(env) as made:
            await made.add_nodes(nodes)
            await made.start(options)
            await tell(made)

    virtual.run(main, seed=seed)
