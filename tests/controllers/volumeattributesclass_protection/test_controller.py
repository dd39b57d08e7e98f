"""The controller against the embedded API server, in virtual time.

Cases of ``TestVACProtectionController``, ``pkg/controller/volume/vacprotection/vac_protection_controller_test.go``
(read in a public copy of v1.34), have its words in their ids.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.controllers import node_world
from tests.controllers.node_world import Doc, World, wait_for_sync
from tests.tables import cases

from pilothouse.api.core import PersistentVolumeClaim
from pilothouse.api.storage import PersistentVolume
from pilothouse.client.interceptor import Rule, conflict, fail, gone
from pilothouse.controllers.volumes.volumeattributesclass_protection import DESCRIPTOR
from pilothouse.controllers.volumes.volumeattributesclass_protection.controller import (
    FINALIZER,
    classes_of_claim,
    classes_of_volume,
    stopped_using,
)
from pilothouse.env import Env

WANTS, HAS = {"volumeAttributesClassName": "wanted"}, {"currentVolumeAttributesClassName": "has"}
GETS = {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "gets"}}


@cases(
    "spec, status, names",
    {
        "no class": ({}, {}, ()),
        "empty class": ({"volumeAttributesClassName": ""}, {}, ()),
        "spec.volumeAttributesClassName": (WANTS, {}, ("wanted",)),
        "status.currentVolumeAttributesClassName": ({}, HAS, ("has",)),
        "status.modifyVolumeStatus": ({}, GETS, ("gets",)),
        "three classes": (WANTS, HAS | GETS, ("wanted", "has", "gets")),
        "duplicates": (WANTS, {"currentVolumeAttributesClassName": "wanted"}, ("wanted",)),
    },
)
def test_classes_of_a_claim(spec: dict[str, Any], status: dict[str, Any], names: tuple[str, ...]) -> None:
    assert classes_of_claim(msgspec.convert({"spec": spec, "status": status}, PersistentVolumeClaim)) == names


@pytest.mark.parametrize(("spec", "names"), [({}, ()), ({"volumeAttributesClassName": ""}, ()), (WANTS, ("wanted",))])
def test_class_of_a_volume(spec: dict[str, Any], names: tuple[str, ...]) -> None:
    assert classes_of_volume(msgspec.convert({"spec": spec}, PersistentVolume)) == names


def test_dereferenced_classes() -> None:
    assert stopped_using(("a", "b"), ("b", "c")) == ["a"]
    assert stopped_using(("a",), ()) == ["a"]
    assert stopped_using((), ("a",)) == []


CLASSES = "/apis/storage.k8s.io/v1/volumeattributesclasses"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
WRITE = ["update volumeattributesclasses vac1"]
NOTHING: list[str] = []
NO_FINALIZERS: Doc = {"metadata": {"finalizers": None}}

Step = Callable[[World], Awaitable[None]]


async def attributes_class(world: World, *, protected: bool = True, deleted: bool = False) -> None:
    body = {"metadata": {"name": "vac1"}, "driverName": "d.example.com", "parameters": {"iops": "1"}}
    await world.request("POST", CLASSES, body)
    if not protected:
        await world.merge(f"{CLASSES}/vac1", NO_FINALIZERS)
    if deleted:
        await world.delete(f"{CLASSES}/vac1")


async def volume(world: World, name: str, class_name: str = "vac1") -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "d.example.com", "volumeHandle": name},
        "volumeAttributesClassName": class_name,
    }
    await world.request("POST", VOLUMES, {"metadata": {"name": name}, "spec": spec})


async def claim(world: World, name: str, class_name: str = "vac1", **status: Any) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeAttributesClassName": class_name,
    }
    await world.request("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})
    await world.merge(f"{CLAIMS}/{name}/status", {"status": {"phase": "Bound", **status}})


async def delete_now(world: World, path: str) -> None:
    """Delete what others protect."""
    await world.merge(path, NO_FINALIZERS)
    await world.delete(path)


async def another(world: World, path: str) -> None:
    await world.merge(path, {"spec": {"volumeAttributesClassName": "vac2"}})


@contextlib.asynccontextmanager
async def playing(env: Env, *, before: Step) -> AsyncIterator[World]:
    async with node_world.world(env) as world:
        await before(world)
        await world.start(DESCRIPTOR)
        await wait_for_sync()
        yield world


@cases(
    "protected, deleted, expected",
    {
        "VAC without finalizer -> finalizer is added": (False, False, WRITE),
        "VAC with finalizer -> no action": (True, False, NOTHING),
        "deleted VAC with finalizer -> finalizer is removed": (True, True, WRITE),
    },
)
async def test_unused_class(env: Env, protected: bool, deleted: bool, expected: list[str]) -> None:
    async with playing(
        env, before=lambda world: attributes_class(world, protected=protected, deleted=deleted)
    ) as world:
        await wait_for_sync(3600)
        assert world.requests() == expected
        obj = await world.get(f"{CLASSES}/vac1")
        if deleted:
            assert obj is None
        else:
            assert obj is not None
            assert obj["metadata"]["finalizers"] == [FINALIZER]
            assert obj["parameters"] == {"iops": "1"}


@pytest.mark.parametrize("fault", [fail(403, "Forbidden"), fail(500), conflict()], ids=["403", "500", "409"])
@pytest.mark.parametrize("deleted", [False, True], ids=["saving VAC finalizer fails", "finalizer removal fails"])
async def test_failed_update_is_retried(env: Env, deleted: bool, fault: Any) -> None:
    async def before(world: World) -> None:
        await attributes_class(world, protected=deleted, deleted=deleted)
        world.faults.add(Rule(fault, verb="update", resource="volumeattributesclasses.storage.k8s.io", times=2))

    async with playing(env, before=before) as world:
        await wait_for_sync(30)
        assert world.requests() == WRITE * 3


async def referenced_by_volume(world: World) -> None:
    await volume(world, "pv1")


async def referenced_by_claim(world: World) -> None:
    await claim(world, "pvc1")


async def referenced_as_current(world: World) -> None:
    await claim(world, "pvc1", "vac2", currentVolumeAttributesClassName="vac1")


async def referenced_as_target(world: World) -> None:
    status = {"status": "InProgress", "targetVolumeAttributesClassName": "vac1"}
    await claim(world, "pvc1", "vac2", modifyVolumeStatus=status)


async def referenced_by_two_volumes(world: World) -> None:
    await volume(world, "pv1")
    await volume(world, "pv2")


async def referenced_by_two_claims(world: World) -> None:
    await claim(world, "pvc1")
    await claim(world, "pvc2")


async def referenced_by_both(world: World) -> None:
    await volume(world, "pv1")
    await claim(world, "pvc1")


PV, PVC = f"{VOLUMES}/pv1", f"{CLAIMS}/pvc1"


@cases(
    "users, act, goes",
    {
        "referenced by a PV -> finalizer is not removed": (referenced_by_volume, None, False),
        "referenced by a PVC -> finalizer is not removed": (referenced_by_claim, None, False),
        "pv changes vac -> finalizer is removed": (referenced_by_volume, lambda world: another(world, PV), True),
        "pv is deleted -> finalizer is removed": (referenced_by_volume, lambda world: delete_now(world, PV), True),
        "pv is deleted but other pv holds it": (referenced_by_two_volumes, lambda world: delete_now(world, PV), False),
        "pv is deleted but pvc holds it": (referenced_by_both, lambda world: delete_now(world, PV), False),
        "pvc changes vac -> finalizer is removed": (referenced_by_claim, lambda world: another(world, PVC), True),
        "pvc is deleted -> finalizer is removed": (referenced_by_claim, lambda world: delete_now(world, PVC), True),
        "pvc changes vac but its status still holds it": (referenced_as_current, None, False),
        "pvc changes vac but its target status still holds it": (referenced_as_target, None, False),
        "pvc is deleted but other pvc holds it": (
            referenced_by_two_claims,
            lambda world: delete_now(world, PVC),
            False,
        ),
        "pvc is deleted but pv holds it": (referenced_by_both, lambda world: delete_now(world, PVC), False),
        "class change completes": (
            referenced_as_current,
            lambda world: world.merge(f"{PVC}/status", {"status": {"currentVolumeAttributesClassName": "vac2"}}),
            True,
        ),
    },
)
async def test_class_is_deleted_with_its_last_reference(
    env: Env, users: Step, act: Callable[[World], Awaitable[Any]] | None, goes: bool
) -> None:
    async def before(world: World) -> None:
        await users(world)
        await attributes_class(world, deleted=True)

    async with playing(env, before=before) as world:
        assert world.requests() == []
        if act is not None:
            await act(world)
        await wait_for_sync(3600)
        assert world.requests() == (WRITE if goes else [])
        assert (await world.get(f"{CLASSES}/vac1") is None) == goes


async def test_volume_deletion_missed_by_the_watch_releases_the_class(env: Env) -> None:
    async def before(world: World) -> None:
        await referenced_by_volume(world)
        await attributes_class(world, deleted=True)

    async with playing(env, before=before) as world:
        with world.faults.hold(resource="persistentvolumes"):
            await delete_now(world, PV)
            world.faults.end_watches(resource="persistentvolumes", with_=gone())
            await wait_for_sync(5)
        await wait_for_sync(5)
        assert await world.get(f"{CLASSES}/vac1") is None
