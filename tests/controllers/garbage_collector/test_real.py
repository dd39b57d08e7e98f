"""The garbage collector and the namespace controller on a real API server, with the rights of upstream's roles."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.real_cluster import RealCluster, RequestFailed

from pilothouse.client import Client
from pilothouse.client.connect import connect
from pilothouse.controllers.cleanup import garbage_collector, namespace
from pilothouse.controllers.shared.monitors import SYNC_SECONDS
from pilothouse.env import Env, TaskGroup, loops
from pilothouse.runtime.context import ControllerContext
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.informer import InformerFactory


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + seconds
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.05)


def run(cluster: RealCluster, descriptor: Descriptor, role: str, story: Callable[[], Awaitable[None]]) -> None:
    """Run a story while the controller works, as a user who may do what upstream's roles allow."""
    roles = ["system:kube-controller-manager", f"system:controller:{role}"]
    kubeconfig = str(cluster.user(f"{descriptor.client_name}-{os.getpid()}", cluster_roles=roles))

    async def main() -> None:
        env = Env()
        client = Client(connect(env, kubeconfig=kubeconfig), env)
        context = ControllerContext(
            env=env,
            client=client,
            informers=InformerFactory(client, env),
            metadata_informers=InformerFactory(client, env),
        )
        async with TaskGroup("real") as group:
            context.informers.start(group)
            context.metadata_informers.start(group)
            group.start(descriptor.build(context).run())
            await story()
            group.cancel()
        await client.close()

    loops.run(main())


def owned(name: str, *owners: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for owner in owners
    ]
    return {"metadata": {"name": name, "ownerReferences": references, **metadata}}


def test_the_three_ways_to_delete_an_owner(real_cluster: RealCluster) -> None:
    path = f"/api/v1/namespaces/{real_cluster.namespace('gc')}/configmaps"

    def make(name: str, *owners: dict[str, Any], **metadata: Any) -> dict[str, Any]:
        created: dict[str, Any] = real_cluster.request("POST", path, owned(name, *owners, **metadata))
        return {"apiVersion": "v1", "kind": "ConfigMap", **created}

    def names() -> list[str]:
        return sorted(
            item["metadata"]["name"]
            for item in real_cluster.request("GET", path)["items"]
            if item["metadata"]["name"] != "kube-root-ca.crt"
        )

    def delete(name: str, policy: str) -> None:
        real_cluster.request("DELETE", f"{path}/{name}", {"propagationPolicy": policy})

    async def story() -> None:
        background, foreground, orphan = make("background"), make("foreground"), make("orphan")
        make("child-b", background)
        middle = make("middle", foreground)
        make("leaf", middle, finalizers=["example.com/hold"])
        make("child-o", orphan)
        make("both", background, orphan)
        await asyncio.sleep(1)
        delete("background", "Background")
        delete("foreground", "Foreground")
        await until(lambda: names() == ["both", "child-o", "foreground", "leaf", "middle", "orphan"])
        real_cluster.request(
            "PATCH",
            f"{path}/leaf",
            {"metadata": {"finalizers": None}},
            content_type="application/merge-patch+json",
        )
        await until(lambda: names() == ["both", "child-o", "orphan"])
        delete("orphan", "Orphan")
        await until(lambda: names() == ["both", "child-o"])
        left = real_cluster.request("GET", path)["items"]
        assert not any(item["metadata"].get("ownerReferences") for item in left)

    run(real_cluster, garbage_collector.DESCRIPTOR, "generic-garbage-collector", story)


def test_custom_resources_get_a_json_merge_patch(real_cluster: RealCluster) -> None:
    """A strategic one is refused with 415."""
    crds, group = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", f"g{os.getpid()}.example.com"
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    }
    real_cluster.request("POST", crds, {"metadata": {"name": f"things.{group}"}, "spec": spec})
    namespace_name = real_cluster.namespace("gc")
    maps, things = (
        f"/api/v1/namespaces/{namespace_name}/configmaps",
        f"/apis/{group}/v1/namespaces/{namespace_name}/things",
    )

    def served() -> bool:
        try:
            real_cluster.request("GET", things)
        except RequestFailed:
            return False
        return True

    def make(name: str) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ConfigMap", **real_cluster.request("POST", maps, owned(name))}

    def owners() -> list[str]:
        [found] = real_cluster.request("GET", things)["items"]
        return [ref["name"] for ref in found["metadata"].get("ownerReferences", [])]

    async def story() -> None:
        first, second = make("first"), make("second")
        thing = {"apiVersion": f"{group}/v1", "kind": "Thing", **owned("t", first, second)}
        real_cluster.request("POST", things, thing)
        await asyncio.sleep(1)
        real_cluster.request("DELETE", f"{maps}/first")
        await until(lambda: owners() == ["second"])
        real_cluster.request("DELETE", f"{maps}/second", {"propagationPolicy": "Orphan"})
        await until(lambda: owners() == [])

    try:
        asyncio.run(until(served))
        run(real_cluster, garbage_collector.DESCRIPTOR, "generic-garbage-collector", story)
    finally:
        real_cluster.request("DELETE", f"{crds}/things.{group}")


def test_what_a_fresh_definition_owns_does_not_wait_for_the_next_sync(real_cluster: RealCluster) -> None:
    """The definition comes while the controller works, and its discovery later than its events."""
    crds, group = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", f"fresh{os.getpid()}.example.com"
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "singular": "thing", "listKind": "ThingList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    }
    space = real_cluster.namespace("gc")
    maps, things = f"/api/v1/namespaces/{space}/configmaps", f"/apis/{group}/v1/namespaces/{space}/things"

    def made() -> bool:
        try:
            real_cluster.request("POST", things, {"apiVersion": f"{group}/v1", "kind": "Thing", **owned("t")})
        except RequestFailed:
            return False
        return True

    def names() -> list[str]:
        found = [item["metadata"]["name"] for item in real_cluster.request("GET", maps)["items"]]
        return [name for name in found if name != "kube-root-ca.crt"]

    async def story() -> None:
        await asyncio.sleep(2)
        real_cluster.request("POST", crds, {"metadata": {"name": f"things.{group}"}, "spec": spec})
        await until(made)
        thing = {"apiVersion": f"{group}/v1", "kind": "Thing", **real_cluster.request("GET", f"{things}/t")}
        real_cluster.request("POST", maps, owned("child", thing))
        real_cluster.request("DELETE", f"{things}/t")
        began = time.monotonic()
        await until(lambda: names() == [])
        assert time.monotonic() - began < SYNC_SECONDS / 2

    try:
        run(real_cluster, garbage_collector.DESCRIPTOR, "generic-garbage-collector", story)
    finally:
        real_cluster.request("DELETE", f"{crds}/things.{group}")


def test_a_namespace_goes_with_what_is_in_it(real_cluster: RealCluster) -> None:
    name = real_cluster.namespace("going")
    path = f"/api/v1/namespaces/{name}"

    def gone() -> bool:
        try:
            real_cluster.request("GET", path)
        except RequestFailed as error:
            return error.status == 404
        return False

    def told() -> bool:
        conditions = real_cluster.request("GET", path)["status"].get("conditions", [])
        return any(c["type"] == "NamespaceFinalizersRemaining" and c["status"] == "True" for c in conditions)

    async def story() -> None:
        real_cluster.request("POST", f"{path}/secrets", {"metadata": {"name": "s"}})
        held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
        real_cluster.request("POST", f"{path}/configmaps", held)
        real_cluster.request("DELETE", path)
        await until(told)
        assert real_cluster.request("GET", f"{path}/secrets")["items"] == []
        real_cluster.request(
            "PATCH",
            f"{path}/configmaps/held",
            {"metadata": {"finalizers": None}},
            content_type="application/merge-patch+json",
        )
        await until(gone)

    run(real_cluster, namespace.DESCRIPTOR, "namespace-controller", story)
