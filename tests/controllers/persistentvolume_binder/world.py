"""An environment with the binder, and builders of claims and volumes."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.controllers import node_world
from tests.controllers.node_world import Doc, World

from pilothouse.client.errors import NotFound
from pilothouse.controllers.volumes.persistentvolume_binder import DESCRIPTOR, BinderOptions
from pilothouse.env import Env

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


@contextlib.asynccontextmanager
async def binding(env: Env, *, options: BinderOptions | None = None) -> AsyncIterator[World]:
    """An environment with the binder running."""
    async with node_world.world(env) as world:
        await world.start(DESCRIPTOR, options)
        yield world


async def create_claim(world: World, name: str = "c", size: str = "1Gi", **parts: Any) -> Doc:
    """A claim. ``parts``: ``annotations``, and anything for the spec."""
    meta = {"name": name, "annotations": parts.pop("annotations", {})}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **parts}
    return await world.request("POST", CLAIMS, {"metadata": meta, "spec": spec})


async def create_volume(world: World, name: str = "v", size: str = "1Gi", **parts: Any) -> Doc:
    """A volume. ``parts``: ``annotations``, ``finalizers``, ``path`` or ``csi``, and anything for the spec."""
    meta = {"name": name, "annotations": parts.pop("annotations", {}), "finalizers": parts.pop("finalizers", [])}
    spec: Doc = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}}
    if not ({"csi", "iscsi", "nfs"} & parts.keys()):
        spec["hostPath"] = {"path": parts.pop("path", f"/data/{name}")}
    return await world.request("POST", VOLUMES, {"metadata": meta, "spec": {**spec, **parts}})


async def create_class(world: World, name: str = "gold", provisioner: str = "vendor.com/x", **parts: Any) -> Doc:
    """Create a storage class, optionally the default one."""
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if parts.pop("default", False) else {}
    body = {"metadata": {"name": name, "annotations": annotations}, "provisioner": provisioner, **parts}
    return await world.request("POST", CLASSES, body)


async def remove(world: World, path: str) -> None:
    """Delete an object with all that holds it."""
    with contextlib.suppress(NotFound):
        await world.merge(path, {"metadata": {"finalizers": None}})
        await world.delete(path)


async def unprotect(world: World, path: str, finalizer: str) -> None:
    """What the controllers do that keep objects which are in use."""
    obj = await world.get(path)
    if obj is not None and "deletionTimestamp" in obj["metadata"]:
        remaining = [item for item in obj["metadata"].get("finalizers", ()) if item != finalizer]
        with contextlib.suppress(NotFound):
            await world.merge(path, {"metadata": {"finalizers": remaining or None}})


async def phases(world: World) -> dict[str, str]:
    """The phase of each claim and volume."""
    obj = (await world.must_get(CLAIMS))["items"] + (await world.must_get(VOLUMES))["items"]
    return {item["metadata"]["name"]: item["status"].get("phase", "") for item in obj}
