"""Recovery after a restart: attached volumes, and nodes without a status report."""

import asyncio

import pytest
from tests.controllers.node_world import NODES, World
from tests.controllers.persistentvolume_attach_detach.builders import (
    ATTACHMENTS,
    DRIVER,
    OUT_OF_SERVICE,
    Attacher,
    attached,
    delete_pod_now,
    disk,
    name_of,
    reported,
    use,
    user,
    wait_for_sync,
)

from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.volumes.persistentvolume_attach_detach import DESCRIPTOR
from pilothouse.controllers.volumes.persistentvolume_attach_detach.attaching import new_attachment
from pilothouse.semantics.attachments import Disk


async def test_attached_volumes_are_restored_at_startup(world: World, driver: Attacher) -> None:
    """Test_AttachDetachControllerRecovery, Test_ADC_VolumeAttachmentRecovery: a desired volume, an undesired one, and
    one that only has a VolumeAttachment."""
    for name in ("old", "lost"):
        await disk(world, name)
    await user(world, "p", "a")
    first = await world.start(DESCRIPTOR)
    await user(world, "q", "a", "old")
    await user(world, "r", "b", "lost")
    await wait_for_sync()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    for node in ("a", "b"):
        await use(world, node)
    await delete_pod_now(world, "q")
    await delete_pod_now(world, "r")
    await world.merge(f"{NODES}/b/status", {"status": {"volumesAttached": None}})
    assert await attached(world) == ["data@a", "lost@b", "old@a"]
    world.seen.clear()
    await world.start(DESCRIPTOR)
    await wait_for_sync(5)
    assert await attached(world) == ["data@a", "lost@b"]
    await world.report_node("b", {"Ready": "True"})  # which reports no volumes in use
    await wait_for_sync(5)
    assert await attached(world) == ["data@a"]
    assert (await reported(world, "a"), await reported(world, "b")) == (["data"], [])
    assert not [line for line in world.requests() if line.startswith("create")]


async def leave_behind(world: World) -> None:
    """A volume attached to ``a`` that no pod uses any more, after a crash of the manager: only the VolumeAttachment is
    left."""
    await user(world, "p", "a")
    first = await world.start(DESCRIPTOR)
    await wait_for_sync()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await delete_pod_now(world, "p")
    await use(world, "a")
    await world.merge(f"{NODES}/a/status", {"status": {"volumesAttached": None}})
    assert await attached(world) == ["data@a"]
    world.seen.clear()


async def test_node_without_a_status_report_is_read_after_ten_seconds(world: World, driver: Attacher) -> None:
    """Upstream waits for the node's next status update, up to five minutes."""
    await leave_behind(world)
    await world.start(DESCRIPTOR)
    await wait_for_sync(9)
    assert await attached(world) == ["data@a"]
    await wait_for_sync(3)
    assert await attached(world) == []
    assert [line.split()[0] for line in world.requests()] == ["get", "delete"]


async def test_volume_of_a_node_without_a_status_report_counts_as_in_use(world: World, driver: Attacher) -> None:
    await leave_behind(world)
    await world.start(DESCRIPTOR)
    with world.faults.hold(resource="nodes"):
        await use(world, "a", "data")
        await wait_for_sync(60)
        assert "get nodes a" in world.requests()
        assert await attached(world) == ["data@a"]
    await wait_for_sync(300)
    assert await attached(world) == ["data@a"]
    await use(world, "a")
    await wait_for_sync(130)
    assert await attached(world) == []


async def test_volumes_attached_reported_by_a_previous_manager_is_removed_before_detach(
    world: World, driver: Attacher
) -> None:
    """The last update of the previous manager is not in the cache yet."""
    await leave_behind(world)
    await world.start(DESCRIPTOR)
    with world.faults.hold(resource="nodes"):
        listed = [{"name": name_of(), "devicePath": ""}]
        await world.merge(f"{NODES}/a/status", {"status": {"volumesAttached": listed}})
        await wait_for_sync(15)
    assert await attached(world) == []
    assert await reported(world, "a") == []
    assert [line.split()[0] for line in world.requests()] == ["get", "patch", "get", "delete"]


async def test_out_of_service_node_is_updated_without_a_read(world: World, driver: Attacher) -> None:
    await leave_behind(world)
    await world.start(DESCRIPTOR)
    with world.faults.hold(resource="nodes"):
        await world.taint("a", OUT_OF_SERVICE)
        listed = [{"name": name_of(), "devicePath": ""}]
        await world.merge(f"{NODES}/a/status", {"status": {"volumesAttached": listed}})
    await wait_for_sync(5)
    assert await attached(world) == []
    assert await reported(world, "a") == []
    assert [line.split()[0] for line in world.requests()] == ["patch", "delete"]


async def test_no_operations_before_the_attached_volumes_are_listed(world: World, driver: Attacher) -> None:
    rule = Rule(fail(500), verb="list", resource="volumeattachments.storage.k8s.io")
    await user(world, "p", "a")
    world.faults.add(rule)
    await world.start(DESCRIPTOR)
    await wait_for_sync(5)
    assert await attached(world) == []
    world.faults.remove(rule)
    await wait_for_sync(10)
    assert await attached(world) == ["data@a"]


async def test_volume_attachment_with_a_late_persistent_volume(world: World, driver: Attacher) -> None:
    """Its PersistentVolume is cached after the VolumeAttachment was read."""
    body = new_attachment(Disk(name_of("late"), "pv-late", DRIVER, "h-late", True), "a")
    await world.request("POST", ATTACHMENTS, body)
    await world.start(DESCRIPTOR)
    await wait_for_sync(60)
    assert await attached(world) == ["late@a"]
    await disk(world, "late")
    await wait_for_sync(15)
    assert await attached(world) == []


@pytest.mark.parametrize("listed", ["nothing is attached", "another one is on its way"])
async def test_stale_volumes_attached_of_a_node_is_corrected(world: World, driver: Attacher, listed: str) -> None:
    """The previous manager was killed after the detach, and the cached node is older."""
    attached = [{"name": name_of(), "devicePath": ""}]
    await world.merge(f"{NODES}/a/status", {"status": {"volumesAttached": attached}})
    if listed != "nothing is attached":
        driver.idle = True
        disk = Disk(name_of(), "pv-data", DRIVER, "h-data", True)
        await world.request("POST", ATTACHMENTS, new_attachment(disk, "a"))
    await world.start(DESCRIPTOR)
    await wait_for_sync(1)
    assert await reported(world, "a") == []


async def test_volumes_of_unknown_plugins_stay_in_volumes_attached(world: World, driver: Attacher) -> None:
    """Another controller attached them, and kubelets wait for the report."""
    foreign = "kubernetes.io/iscsi/10.0.0.1:iqn:0"
    listed = [{"name": foreign, "devicePath": ""}]
    await world.merge(f"{NODES}/a/status", {"status": {"volumesAttached": listed}})
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    listed = (await world.must_get(f"{NODES}/a"))["status"]["volumesAttached"]
    assert sorted(item["name"] for item in listed) == sorted([foreign, name_of()])
    assert "get nodes a" not in world.requests()
