"""The controller on the embedded API server, in virtual time: attach, detach, and events."""

from typing import Any

import pytest
from tests.controllers.node_world import NODES, PODS, World
from tests.controllers.persistentvolume_attach_detach.builders import (
    ATTACHMENTS,
    CLAIMS,
    DRIVER,
    OUT_OF_SERVICE,
    RWX,
    Attacher,
    attached,
    attachment,
    delete_pod_now,
    machine,
    reported,
    use,
    user,
    wait_for_sync,
)
from tests.tables import cases

from pilothouse.client.interceptor import Rule, fail, lose_answer
from pilothouse.controllers.volumes.persistentvolume_attach_detach import DESCRIPTOR, AttachDetachOptions

UNHEALTHY = {"Ready": "Unknown"}


async def test_nothing_to_attach_or_detach(world: World, driver: Attacher) -> None:
    """Test_Run_Positive_DoNothing."""
    await world.start(DESCRIPTOR)
    await user(world, "p", "")
    await wait_for_sync(7200)
    assert world.requests() == []


@pytest.mark.parametrize("early", [True, False], ids=["existing pod", "new pod"])
async def test_volume_is_attached_to_the_node_of_its_pod(world: World, driver: Attacher, early: bool) -> None:
    """Test_Run_Positive_OneDesiredVolumeAttach."""
    if early:
        await user(world, "p", "a")
    await world.start(DESCRIPTOR)
    if not early:
        await user(world, "p", "a")
    await wait_for_sync()
    obj = await world.must_get(attachment("a"))
    assert obj["spec"] == {"attacher": DRIVER, "nodeName": "a", "source": {"persistentVolumeName": "pv-data"}}
    assert await reported(world, "a") == ["data"]
    assert await world.events("SuccessfulAttachVolume") == ['Pod/p AttachVolume.Attach succeeded for volume "pv-data" ']
    await wait_for_sync(3600)
    assert world.requests() == ["create volumeattachments ", "patch nodes/status a"]


async def test_volume_is_reported_in_volumes_attached_after_the_attach(world: World, driver: Attacher) -> None:
    await world.start(DESCRIPTOR)
    driver.idle = True
    await user(world, "p", "a")
    await wait_for_sync(60)
    assert await reported(world, "a") == []
    driver.idle = False
    await wait_for_sync()
    assert await reported(world, "a") == ["data"]


async def test_volume_is_detached_when_it_is_no_longer_in_use(world: World, driver: Attacher) -> None:
    """Test_Run_Positive_OneDesiredVolumeAttachThenDetachWithUnmountedVolume."""
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a", "data")
    await delete_pod_now(world, "p")
    await wait_for_sync(3600)
    assert await attached(world) == ["data@a"], "the node is well, and has it mounted"
    assert await reported(world, "a") == ["data"]
    world.seen.clear()
    await use(world, "a")
    await wait_for_sync()
    assert await attached(world) == []
    assert await reported(world, "a") == []
    kinds = [line.split()[:2] for line in world.requests()]
    assert kinds == [["patch", "nodes/status"], ["delete", "volumeattachments"]], "it is taken off the report first"


async def test_volumes_in_use_is_read_live_before_a_detach(world: World, driver: Attacher) -> None:
    """The cache does not show yet that the kubelet uses the volume again."""
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a")
    await wait_for_sync()
    with world.faults.hold(resource="nodes"):
        await use(world, "a", "data")
        await delete_pod_now(world, "p")
        await wait_for_sync(30)
        assert await attached(world) == ["data@a"]
        assert "get nodes a" in world.requests()
    await use(world, "a")
    await wait_for_sync(60)
    assert await attached(world) == []


@pytest.mark.parametrize("ended", ["Succeeded", "Failed"])
async def test_volume_of_a_terminated_pod_is_detached(world: World, driver: Attacher, ended: str) -> None:
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a")
    await world.merge(f"{PODS}/p/status", {"status": {"phase": ended}})
    await wait_for_sync()
    assert await attached(world) == []


async def test_read_write_once_volume_is_detached_before_the_next_attach(world: World, driver: Attacher) -> None:
    """Test_Run_OneVolumeAttachAndDetachMultipleNodesWithReadWriteOnce."""
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a", "data")
    await user(world, "q", "b")
    await wait_for_sync(60)
    assert await attached(world) == ["data@a"]
    prefix = 'Pod/q Multi-Attach error for volume "pv-data" '
    assert await world.events("FailedAttachVolume") == [f"{prefix}Volume is already used by pod(s) p"]
    await delete_pod_now(world, "p")
    await wait_for_sync(60)
    assert await attached(world) == ["data@a"]
    await use(world, "a")
    await wait_for_sync()
    assert await attached(world) == ["data@b"]
    assert (await reported(world, "a"), await reported(world, "b")) == ([], ["data"])
    assert len(await world.events("FailedAttachVolume")) == 1, "that is said once"


async def test_multi_attach_event_without_a_pod_does_not_name_the_node(world: World, driver: Attacher) -> None:
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a", "data")
    await delete_pod_now(world, "p")
    await user(world, "q", "b")
    await wait_for_sync()
    text = "Volume is already exclusively attached to one node and can't be attached to another"
    assert await world.events("FailedAttachVolume") == [f'Pod/q Multi-Attach error for volume "pv-data" {text}']


@pytest.mark.parametrize("modes", [RWX])
async def test_read_write_many_volume_is_attached_to_several_nodes(world: World, driver: Attacher) -> None:
    """Test_Run_OneVolumeAttachAndDetachMultipleNodesWithReadWriteMany."""
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await user(world, "q", "b")
    await wait_for_sync()
    assert await attached(world) == ["data@a", "data@b"]
    for node in ("a", "b"):
        await use(world, node)
    await delete_pod_now(world, "p")
    await wait_for_sync()
    assert await attached(world) == ["data@b"]
    assert await world.events("FailedAttachVolume") == []


async def test_pods_on_one_node_share_an_attachment(world: World, driver: Attacher) -> None:
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await user(world, "q", "a")
    await wait_for_sync()
    await use(world, "a", "data")
    await delete_pod_now(world, "p")
    await use(world, "a")
    await wait_for_sync(60)
    assert await attached(world) == ["data@a"]


@cases(
    "conditions, taints, options, after",
    {
        "an unhealthy node: after six minutes": (UNHEALTHY, (), {}, 361.0),
        "force detach disabled": (UNHEALTHY, (), {"disable_force_detach": True}, None),
        "healthy node: never": ({"Ready": "True"}, (), {}, None),
        "out of service: at once": ({"Ready": "True"}, (OUT_OF_SERVICE,), {}, 0.0),
        "out of service: in any case": (UNHEALTHY, (OUT_OF_SERVICE,), {"disable_force_detach": True}, 0.0),
    },
)
async def test_force_detach_of_a_volume_in_use(
    world: World,
    driver: Attacher,
    conditions: dict[str, str],
    taints: tuple[Any, ...],
    options: dict[str, bool],
    after: float | None,
) -> None:
    """Test_Run_OneVolumeDetachOnUnhealthyNode, …WithForceDetachOnUnmountDisabled, …OnOutOfServiceTaintedNode,
    …OnNoOutOfServiceTaintedNode, Test_Run_OneVolumeAttachAndDetachTimeoutNodesWithReadWriteOnce."""
    await world.start(DESCRIPTOR, AttachDetachOptions(**options))
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a", "data")
    await world.report_node("a", conditions)
    await delete_pod_now(world, "p")
    await wait_for_sync(1)
    await world.taint("a", *taints)
    await user(world, "q", "b")
    if after:
        await wait_for_sync(after - 5)
        assert await attached(world) == ["data@a"]
        await wait_for_sync(10)
    await wait_for_sync(3600 if after is None else 5)
    assert await attached(world) == (["data@a"] if after is None else ["data@b"])
    if after is not None:
        reason = "timeout" if after else "out-of-service"
        forced = "attach_detach_controller_attachdetach_controller_forced_detaches"
        assert world.metrics.value(forced, reason) == 1
        assert "get nodes a" not in world.requests(), "it is not asked"


async def test_detach_timeout_restarts_when_a_pod_uses_the_volume_again(world: World, driver: Attacher) -> None:
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a", "data")
    await world.report_node("a", UNHEALTHY)
    await delete_pod_now(world, "p")
    await wait_for_sync(300)
    await user(world, "q", "a")
    await wait_for_sync(1)
    await delete_pod_now(world, "q")
    await wait_for_sync(300)
    assert await attached(world) == ["data@a"]
    await wait_for_sync(70)
    assert await attached(world) == []


async def test_volumes_of_a_deleted_node_are_detached_after_six_minutes(world: World, driver: Attacher) -> None:
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a", "data")
    await world.delete(f"{NODES}/a")
    await delete_pod_now(world, "p")
    await wait_for_sync(350)
    assert await attached(world) == ["data@a"]
    await wait_for_sync(20)
    assert await attached(world) == []


async def test_failed_node_status_update_prevents_the_detach(world: World, driver: Attacher) -> None:
    """Test_Run_Negative_OneDesiredVolumeAttachThenDetachWithUnmountedVolumeUpdateStatusFail…"""
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a")
    rule = Rule(fail(500), verb="patch", resource="nodes", name="a")
    world.faults.add(rule)
    await delete_pod_now(world, "p")
    await wait_for_sync(30)
    assert await attached(world) == ["data@a"]
    world.faults.remove(rule)
    await wait_for_sync(5)
    assert await attached(world) == []
    assert await reported(world, "a") == []


async def test_failed_attach_is_retried_and_emits_an_event(world: World, driver: Attacher) -> None:
    await world.start(DESCRIPTOR)
    driver.errors["a"] = "no room in the rack"
    await user(world, "p", "a")
    await wait_for_sync(60)
    lines = await world.events("FailedAttachVolume")
    assert lines == ['Pod/p AttachVolume.Attach failed for volume "pv-data" : no room in the rack']
    assert await reported(world, "a") == []
    del driver.errors["a"]
    await wait_for_sync(130)
    assert await reported(world, "a") == ["data"]


async def test_attach_times_out_after_two_minutes(world: World, driver: Attacher) -> None:
    await world.start(DESCRIPTOR)
    driver.idle = True
    await user(world, "p", "a")
    await wait_for_sync(119)
    assert await world.events("FailedAttachVolume") == []
    await wait_for_sync(5)
    reason = f"timed out waiting for external-attacher of {DRIVER} CSI driver to attach volume h-data"
    assert await world.events("FailedAttachVolume") == [
        f'Pod/p AttachVolume.Attach failed for volume "pv-data" : {reason}'
    ]
    driver.idle = False
    await wait_for_sync(5)
    assert await reported(world, "a") == ["data"]


async def test_uncertain_attachment_is_detached_when_unused(world: World, driver: Attacher) -> None:
    """Test_Run_OneVolumeAttachAndDetachUncertainNodesWithReadWriteOnce. Upstream would attach it to the other node
    immediately; here it must be detached everywhere else first."""
    await world.start(DESCRIPTOR)
    driver.errors["a"] = "perhaps"
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a", "data")
    await use(world, "a")
    await user(world, "q", "b")
    await wait_for_sync(10)
    assert await attached(world) == []
    await delete_pod_now(world, "p")
    await wait_for_sync(10)
    assert await world.get(attachment("a")) is None
    assert await attached(world) == ["data@b"]


async def test_failed_detach_prevents_attaching_elsewhere(world: World, driver: Attacher) -> None:
    """Test_Run_OneVolumeDetachFailNodeWithReadWriteOnce."""
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a")
    driver.stuck["a"] = "the rack is locked"
    await delete_pod_now(world, "p")
    await user(world, "q", "b")
    await wait_for_sync(60)
    assert await attached(world) == ["data@a"]
    assert (await reported(world, "a"), await reported(world, "b")) == ([], [])
    driver.stuck.clear()
    await wait_for_sync(130)
    assert await attached(world) == ["data@b"]


@pytest.mark.parametrize("verb", ["create", "delete"])
@pytest.mark.parametrize("fault", [fail(403, "Forbidden"), fail(500), lose_answer()], ids=["403", "500", "lost"])
async def test_failed_request_is_retried(world: World, driver: Attacher, verb: str, fault: Any) -> None:
    await world.start(DESCRIPTOR)
    world.faults.add(Rule(fault, verb=verb, resource="volumeattachments.storage.k8s.io", times=2))
    await user(world, "p", "a")
    await wait_for_sync(10)
    assert await attached(world) == ["data@a"]
    await use(world, "a")
    await delete_pod_now(world, "p")
    await wait_for_sync(10)
    assert await attached(world) == []
    assert await reported(world, "a") == []


async def test_attachment_missing_in_the_cache_is_not_detached(world: World, driver: Attacher) -> None:
    """The attachment is deleted before it is cached: that does not mean that it is detached."""
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a")
    driver.stuck["a"] = "it takes its time"
    with world.faults.hold(resource="volumeattachments.storage.k8s.io"):
        await delete_pod_now(world, "p")
        await user(world, "q", "b")
        await wait_for_sync(30)
        driver.stuck.clear()
        assert await attached(world) == ["data@a"]
    await wait_for_sync(130)
    assert await attached(world) == ["data@b"]


async def test_stale_attachment_in_the_cache_is_not_attached(world: World, driver: Attacher) -> None:
    """The cache has a former attachment that was attached and has been deleted."""
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a")
    await wait_for_sync()
    with world.faults.hold(resource="volumeattachments.storage.k8s.io"):
        world.faults.add(Rule(lose_answer(), verb="delete", resource="volumeattachments.storage.k8s.io", times=1))
        await delete_pod_now(world, "p")
        await wait_for_sync(10)
        assert await world.get(attachment("a")) is None
        driver.idle = True
        await user(world, "q", "a")
        await wait_for_sync(10)
        assert await reported(world, "a") == []
    await wait_for_sync()
    assert await reported(world, "a") == []
    driver.idle = False
    await wait_for_sync(5)
    assert await reported(world, "a") == ["data"]


async def test_recreated_node_gets_volumes_attached_again(world: World, driver: Attacher) -> None:
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    await world.delete(f"{NODES}/a")
    await wait_for_sync()
    await machine(world, "a")
    await wait_for_sync()
    assert await reported(world, "a") == ["data"]


async def test_nodes_without_the_controller_managed_annotation_are_ignored(world: World, driver: Attacher) -> None:
    await world.start(DESCRIPTOR)
    await world.node("c")
    await user(world, "p", "c")
    await wait_for_sync(300)
    assert world.requests() == []
    annotations = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    await world.merge(f"{NODES}/c", {"metadata": {"annotations": annotations}})
    await wait_for_sync()
    assert await attached(world) == ["data@c"]


async def test_volume_is_attached_after_its_claim_is_bound(world: World, driver: Attacher) -> None:
    await world.start(DESCRIPTOR)
    await world.merge(f"{CLAIMS}/data/status", {"status": {"phase": "Pending"}})
    await user(world, "p", "a")
    await wait_for_sync(300)
    assert await attached(world) == []
    await world.merge(f"{CLAIMS}/data/status", {"status": {"phase": "Bound"}})
    await wait_for_sync()
    assert await attached(world) == ["data@a"]


async def test_driver_without_attach_required(world: World, driver: Attacher) -> None:
    path = "/apis/storage.k8s.io/v1/csidrivers"
    await world.request("POST", path, {"metadata": {"name": DRIVER}, "spec": {"attachRequired": False}})
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync(300)
    assert world.requests() == []
    await world.delete(f"{path}/{DRIVER}")
    await wait_for_sync()
    assert await attached(world) == ["data@a"], "of one of which nothing is known, it does"
    await use(world, "a")
    await world.request("POST", path, {"metadata": {"name": DRIVER}, "spec": {"attachRequired": False}})
    await wait_for_sync()
    assert await attached(world) == []


@pytest.mark.parametrize("disabled", [False, True])
async def test_deleted_volume_attachment_is_recreated(world: World, driver: Attacher, disabled: bool) -> None:
    """By the check of all attachments once a minute."""
    await world.start(DESCRIPTOR, AttachDetachOptions(disable_sync=disabled))
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a", "data")
    await world.delete(attachment("a"))
    await wait_for_sync(1)
    assert await attached(world) == []
    await wait_for_sync(63)
    assert await attached(world) == ([] if disabled else ["data@a"])
    assert await reported(world, "a") == ["data"]


async def test_metrics(world: World, driver: Attacher) -> None:
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    world.metrics.exposition()
    plugin = f"kubernetes.io/csi:{DRIVER}"
    for state in ("desired_state_of_world", "actual_state_of_world"):
        assert world.metrics.value("attachdetach_controller_total_volumes", plugin, state) == 1
    assert world.metrics.value("storage_count_attachable_volumes_in_use", "a", plugin) == 1
    exposition = world.metrics.exposition()
    assert 'storage_operation_duration_seconds_count{volume_plugin="kubernetes.io/csi:d.example.com"' in exposition
    assert 'operation_name="volume_attach",status="success",migrated="false"} 1' in exposition


async def test_no_work_without_changes(world: World, driver: Attacher) -> None:
    """Upstream's loop runs ten times a second; here an idle day causes no work."""
    await world.start(DESCRIPTOR)
    await user(world, "p", "a")
    await wait_for_sync()
    await use(world, "a", "data")
    await wait_for_sync()
    world.seen.clear()
    await wait_for_sync(24 * 3600)
    assert world.requests() == []
    assert len((await world.must_get(ATTACHMENTS))["items"]) == 1
