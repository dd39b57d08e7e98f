"""Helpers for CSI volumes, node statuses as written by kubelets, and a simulated external-attacher."""

import asyncio
from typing import Any

from tests.controllers.node_world import NODES, PODS, Doc, World

from pilothouse.api.storage import VOLUME_ATTACHMENTS
from pilothouse.env import TaskGroup
from pilothouse.runtime import InformerFactory
from pilothouse.semantics.attachments import MANAGED, attachment_name, unique_name

DRIVER = "d.example.com"
FINALIZER = "external-attacher/d-example-com"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
RWO, RWX = ("ReadWriteOnce",), ("ReadWriteMany",)
SOON = 0.02
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


def name_of(volume: str = "data") -> str:
    """The unique name of a volume."""
    return unique_name(DRIVER, f"h-{volume}")


def attachment(node: str, volume: str = "data") -> str:
    """The path of a VolumeAttachment."""
    return f"{ATTACHMENTS}/{attachment_name(DRIVER, f'h-{volume}', node)}"


class Attacher:
    """A simulated external-attacher. ``errors`` has attach errors by node; with ``idle`` it does nothing."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.idle = False
        self.errors: dict[str, str] = {}
        self.stuck: dict[str, str] = {}
        """Detach errors by node."""

    async def run(self) -> None:
        """Run until cancelled. Failed operations are retried after half a second."""
        informers = InformerFactory(self._world.admin, self._world.env)
        bell = asyncio.Event()
        informers.informer(VOLUME_ATTACHMENTS).add_handler(
            lambda _found, _initial: bell.set(), lambda _old, _new: bell.set()
        )
        async with TaskGroup("attacher") as group:
            informers.start(group)
            while True:
                await bell.wait()
                bell.clear()
                await asyncio.sleep(SOON)
                items = (await self._world.must_get(ATTACHMENTS))["items"]
                for item in items if not self.idle else ():
                    await self._tend(item)
                if any(
                    "deletionTimestamp" in queued["metadata"] or not queued["status"]["attached"] for queued in items
                ):
                    await asyncio.sleep(0.5)
                    bell.set()

    async def _tend(self, volume_object: Doc) -> None:
        meta, node = volume_object["metadata"], volume_object["spec"]["nodeName"]
        path = f"{ATTACHMENTS}/{meta['name']}"
        if "deletionTimestamp" in meta:
            if node in self.stuck:
                await self._say(path, {"detachError": {"message": self.stuck[node]}})
            else:
                await self._world.merge(path, {"metadata": {"finalizers": None}})
            return
        if FINALIZER not in meta.get("finalizers", ()):
            await self._world.merge(path, {"metadata": {"finalizers": [FINALIZER]}})
        if node in self.errors:
            await self._say(path, {"attachError": {"message": self.errors[node]}})
        elif not volume_object["status"]["attached"]:
            await self._say(path, {"attached": True, "attachError": None})

    async def _say(self, path: str, status: Doc) -> None:
        await self._world.merge(f"{path}/status", {"status": status})


async def disk(world: World, volume: str = "data", modes: tuple[str, ...] = RWO) -> None:
    """A claim, and its volume ``pv-…`` with the handle ``h-…``."""
    claim_spec: Doc = {
        "accessModes": list(modes),
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": f"pv-{volume}",
    }
    claim = await world.request("POST", CLAIMS, {"metadata": {"name": volume}, "spec": claim_spec})
    await world.merge(f"{CLAIMS}/{volume}/status", {"status": {"phase": "Bound"}})
    spec = {
        "accessModes": list(modes),
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": DRIVER, "volumeHandle": f"h-{volume}"},
        "claimRef": {"namespace": "default", "name": volume, "uid": claim["metadata"]["uid"]},
    }
    await world.request("POST", VOLUMES, {"metadata": {"name": f"pv-{volume}"}, "spec": spec})


async def machine(world: World, name: str, **more: Any) -> None:
    """A node on which the controller attaches."""
    await world.node(name, annotations={MANAGED: "true"}, **more)


async def use(world: World, node: str, *volumes: str) -> None:
    """Set the node's ``volumesInUse``, as its kubelet."""
    await world.merge(
        f"{NODES}/{node}/status", {"status": {"volumesInUse": [name_of(volume) for volume in volumes] or None}}
    )


async def user(world: World, name: str, node: str, *volumes: str) -> Doc:
    """A pod of these claims."""
    spec: Doc = {
        "containers": [{"name": "main", "image": "pause"}],
        "volumes": [{"name": item, "persistentVolumeClaim": {"claimName": item}} for item in volumes or ("data",)],
    }
    if node:
        spec["nodeName"] = node
    created = await world.request("POST", PODS, {"metadata": {"name": name}, "spec": spec})
    await world.merge(f"{PODS}/{name}/status", {"status": {"phase": "Running"}})
    return created


async def delete_pod_now(world: World, name: str) -> None:
    """Delete the pod."""
    await world.delete(f"{PODS}/{name}", grace=0)


async def attached(world: World) -> list[str]:
    """``volume@node`` of attached VolumeAttachments."""
    items = (await world.must_get(ATTACHMENTS))["items"]
    return sorted(
        f"{item['spec']['source']['persistentVolumeName'].removeprefix('pv-')}@{item['spec']['nodeName']}"
        for item in items
        if item["status"]["attached"]
    )


async def reported(world: World, node: str) -> list[str]:
    """The volume names in the node's ``volumesAttached``."""
    listed = (await world.must_get(f"{NODES}/{node}"))["status"].get("volumesAttached") or []
    assert all(item["devicePath"] == "" for item in listed)
    return [item["name"].rpartition("h-")[2] for item in listed]


async def wait_for_sync(seconds: float = 2.0) -> None:
    """Wait until pending work is done."""
    await asyncio.sleep(seconds)
