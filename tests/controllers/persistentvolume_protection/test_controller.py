"""The controller against the embedded API server, in virtual time.

Ids of cases from ``TestPVProtectionController``
(``pkg/controller/volume/pvprotection/pv_protection_controller_test.go``) are upstream's names.
"""

import asyncio
from typing import Any

import pytest
from tests.controllers.node_world import World
from tests.tables import cases

from pilothouse.client.interceptor import Rule, conflict, fail
from pilothouse.controllers.volumes.persistentvolume_protection import DESCRIPTOR
from pilothouse.controllers.volumes.persistentvolume_protection.controller import FINALIZER

VOLUMES = "/api/v1/persistentvolumes"
WRITE = ["update persistentvolumes pv"]
NOTHING: list[str] = []


async def prepare(world: World, *, phase: str, protected: bool, deleted: bool) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}
    await world.request("POST", VOLUMES, {"metadata": {"name": "pv"}, "spec": spec})
    await world.merge(f"{VOLUMES}/pv/status", {"status": {"phase": phase}})
    if not protected:
        await world.merge(f"{VOLUMES}/pv", {"metadata": {"finalizers": None}})
    if deleted:
        await world.delete(f"{VOLUMES}/pv")


@cases(
    "phase, protected, deleted, expected",
    {
        "PV without finalizer -> finalizer is added": ("Available", False, False, WRITE),
        "PVC with finalizer -> no action": ("Available", True, False, NOTHING),
        "deleted PV with finalizer -> finalizer is removed": ("Available", True, True, WRITE),
        "deleted PVC with finalizer + PV is bound -> it is not removed": ("Bound", True, True, NOTHING),
        "bound PV without finalizer -> finalizer is added": ("Bound", False, False, WRITE),
        "Released": ("Released", True, True, WRITE),
        "failed": ("Failed", True, True, WRITE),
        "Pending": ("Pending", True, True, WRITE),
    },
)
async def test_pv_protection_controller(
    world: World, phase: str, protected: bool, deleted: bool, expected: list[str]
) -> None:
    await prepare(world, phase=phase, protected=protected, deleted=deleted)
    await world.start(DESCRIPTOR)
    await asyncio.sleep(3600)
    assert world.requests() == expected
    volume = await world.get(f"{VOLUMES}/pv")
    if deleted and expected:
        assert volume is None
    else:
        assert volume is not None
        assert volume["metadata"]["finalizers"] == [FINALIZER]
        assert (volume["status"]["phase"], volume["spec"]["hostPath"]["path"]) == (phase, "/data")


@pytest.mark.parametrize("fault", [fail(403, "Forbidden"), fail(500), conflict()], ids=["403", "500", "409"])
@pytest.mark.parametrize("deleted", [False, True], ids=["saving PVC finalizer fails", "finalizer removal fails"])
async def test_failed_update_is_retried(world: World, deleted: bool, fault: Any) -> None:
    await prepare(world, phase="Available", protected=deleted, deleted=deleted)
    world.faults.add(Rule(fault, verb="update", resource="persistentvolumes", times=2))
    await world.start(DESCRIPTOR)
    await asyncio.sleep(30)
    assert world.requests() == WRITE * 3
    volume = await world.get(f"{VOLUMES}/pv")
    assert volume is None if deleted else volume is not None and volume["metadata"]["finalizers"] == [FINALIZER]


async def test_terminating_volume_is_deleted_after_unbinding(world: World) -> None:
    await prepare(world, phase="Bound", protected=True, deleted=False)
    await world.start(DESCRIPTOR)
    await world.delete(f"{VOLUMES}/pv")
    await asyncio.sleep(60)
    assert world.requests() == []
    await world.merge(f"{VOLUMES}/pv/status", {"status": {"phase": "Released"}})
    await asyncio.sleep(1)
    assert await world.get(f"{VOLUMES}/pv") is None


async def test_volume_bound_on_the_server_keeps_its_finalizer(world: World) -> None:
    """The binder has updated it, so our update is a conflict."""
    await prepare(world, phase="Available", protected=True, deleted=False)
    await world.start(DESCRIPTOR)
    with world.faults.hold(resource="persistentvolumes") as hold:
        await world.delete(f"{VOLUMES}/pv")
        await world.merge(f"{VOLUMES}/pv/status", {"status": {"phase": "Bound"}})
        hold.release(1)
        await asyncio.sleep(5)
        assert set(world.requests()) == set(WRITE)
    await asyncio.sleep(60)
    assert (await world.must_get(f"{VOLUMES}/pv"))["metadata"]["finalizers"] == [FINALIZER]
