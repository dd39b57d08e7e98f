"""The environment of replayed scenarios: a cluster in virtual time, its audit log, and kubectl's requests.

kubectl's verbs are those of v1.36; what it reads and waits for beside them is left out, no controller can notice.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import yaml
from tests.plane.running import running
from tests.traces.audit import AuditedServer, Traced

from pilothouse.api import wire
from pilothouse.client.interceptor import Interceptor, Rule, delay
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.env import Env, virtual
from pilothouse.plane import Plane, PlaneOptions
from pilothouse.storage import MemoryStore

Doc = dict[str, Any]
Steps = Callable[["KubectlUser"], Awaitable[None]]

OPTIONS = Options(
    use_service_account_credentials=True, qps=500, burst=1000, leader_election=LeaderElection(enabled=False)
)
"""The flags of the recorded manager, without leader election, which the traces exclude."""

_CREATE = "?fieldManager=kubectl-create&fieldValidation=Strict"
_PLURALS = {
    "Pod": "api/v1/namespaces/{}/pods",
    "ConfigMap": "api/v1/namespaces/{}/configmaps",
    "Service": "api/v1/namespaces/{}/services",
    "Secret": "api/v1/namespaces/{}/secrets",
    "ReplicaSet": "apis/apps/v1/namespaces/{}/replicasets",
    "Job": "apis/batch/v1/namespaces/{}/jobs",
    "CronJob": "apis/batch/v1/namespaces/{}/cronjobs",
    "Deployment": "apis/apps/v1/namespaces/{}/deployments",
    "StatefulSet": "apis/apps/v1/namespaces/{}/statefulsets",
    "PersistentVolumeClaim": "api/v1/namespaces/{}/persistentvolumeclaims",
}


class KubectlUser:
    """One cluster with one namespace, named after the scenario. Steps happen at the recorded times."""

    def __init__(self, env: Env, plane: Plane, server: AuditedServer, namespace: str) -> None:
        self.env = env
        self.plane = plane
        self.server = server
        self.namespace = namespace
        self._client = plane.client(agent="kubectl/v1.36.4")

    async def at(self, t: float) -> None:
        """Wait until this time after the start of the scenario."""
        await asyncio.sleep(self.server.zero + t - self.env.monotonic())

    # kubectl

    async def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Doc:
        """Send a request."""
        encoded = b"" if body is None else msgspec.json.encode(body)
        headers = {"content-type": content_type}
        response = await self._client.request(method, f"/{path}", body=encoded, headers=headers)
        document: Doc = msgspec.json.decode(response.body)
        return document

    def path(self, kind: str, name: str = "", namespace: str = "") -> str:
        """The path of the collection of a kind."""
        return _PLURALS[kind].format(namespace or self.namespace) + (f"/{name}" if name else "")

    async def create(self, manifests: str) -> list[Doc]:
        """``kubectl create -f -``."""
        result = []
        for manifest in yaml.safe_load_all(manifests):
            namespace = manifest["metadata"].get("namespace", "")
            result.append(
                await self.request("POST", self.path(manifest["kind"], namespace=namespace) + _CREATE, manifest)
            )
        return result

    async def create_namespace(self, name: str) -> None:
        """``kubectl create ns``."""
        await self.request("POST", "api/v1/namespaces" + _CREATE, {"kind": "Namespace", "metadata": {"name": name}})

    async def scale(self, name: str, replicas: int) -> None:
        """``kubectl scale rs``."""
        path = self.path("ReplicaSet", name) + "/scale"
        await self.request("PATCH", path, {"spec": {"replicas": replicas}}, "application/merge-patch+json")

    async def label(self, pod: str, **labels: str) -> None:
        """``kubectl label pod --overwrite``."""
        body = {"metadata": {"labels": labels}}
        await self.request("PATCH", self.path("Pod", pod), body, "application/merge-patch+json")

    async def patch(self, kind: str, name: str, body: Any, content_type: str) -> None:
        """``kubectl patch --type=merge`` or ``json``."""
        await self.request("PATCH", self.path(kind, name), body, f"application/{content_type}-patch+json")

    async def delete(self, kind: str, name: str, cascade: str = "Background") -> None:
        """``kubectl delete --cascade=…``."""
        await self.request("DELETE", self.path(kind, name), {"propagationPolicy": cascade})

    async def names(self, kind: str) -> list[str]:
        """Names of the objects of a kind."""
        return [item["metadata"]["name"] for item in (await self.request("GET", self.path(kind)))["items"]]


def replay(
    scenario: str,
    steps: Steps,
    *,
    seed: int = 0,
    latency: tuple[float, float] | None = None,
    before: Steps | None = None,
    options: Options = OPTIONS,
) -> AuditedServer:
    """Replay a scenario; returns the server's records of the controllers' requests from its first step on.

    ``latency`` is how long every request and event of the programs takes at least and at most; None is no time at all.
    ``before`` is played before the first step.
    ``options`` are the manager's.
    """

    async def main(env: Env) -> AuditedServer:
        store = MemoryStore(env)
        server = AuditedServer(env, store)

        def wrap(program: str, transport: wire.Transport) -> wire.Transport:
            if latency is not None:
                slow = Interceptor(transport, env)
                slow.add(Rule(delay(*latency)))
                transport = slow
            return Traced(transport, server) if program == "manager" else transport

        plane = Plane(
            env, store, PlaneOptions(nodes=3, manager=options, resource_metrics=False), server=server, wrap=wrap
        )
        user = KubectlUser(env, plane, server, scenario)
        async with running(plane):
            await user.create_namespace(scenario)
            if before is not None:
                await before(user)
            await asyncio.sleep(60)  # so that every monitor of the garbage collector is up
            server.records.clear()
            server.zero = env.monotonic()
            await steps(user)
        return server

    return virtual.run(main, seed=seed)
