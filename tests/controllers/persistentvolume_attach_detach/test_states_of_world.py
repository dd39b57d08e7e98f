"""The desired and actual state of the world, and pending operations.

After v1.36 ``pkg/controller/volume/attachdetach/cache/{actual,desired}_state_of_world_test.go`` and
``pkg/volume/util/nestedpendingoperations/nestedpendingoperations_test.go``, in their words.
"""

import msgspec
import pytest

from pilothouse.api.core import Pod
from pilothouse.controllers.volumes.persistentvolume_attach_detach.actual_state_of_world import ActualStateOfWorld
from pilothouse.controllers.volumes.persistentvolume_attach_detach.desired_state_of_world import (
    DesiredStateOfWorld,
    Pair,
)
from pilothouse.controllers.volumes.persistentvolume_attach_detach.operations import (
    ATTACH,
    DETACH,
    Operation,
    Operations,
)
from pilothouse.env import Env
from pilothouse.semantics.attachments import Disk

DISK, OTHER = Disk("v1", "pv1", "d", "h1", True), Disk("v2", "pv2", "d", "h2", False)
HERE, THERE = ("v1", "n1"), ("v1", "n2")


def pod(uid: str, node: str = "n1") -> Pod:
    return msgspec.convert({"metadata": {"name": uid, "uid": uid}, "spec": {"nodeName": node}}, Pod)


class RecordedPairs(list[Pair]):
    """The pairs that were touched, in order."""

    def take(self) -> list[Pair]:
        result = list(self)
        self.clear()
        return result


# Desired


def test_desired_volume_exists_while_a_pod_uses_it() -> None:
    touched = RecordedPairs()
    desired = DesiredStateOfWorld(touched.append)
    assert desired.add_node("n1")
    assert not desired.add_node("n1")
    desired.add_pod(pod("a"), DISK)
    desired.add_pod(pod("a"), DISK)
    desired.add_pod(pod("b"), DISK)
    assert touched.take() == [HERE]
    desired.delete_pod("a")
    assert (desired.get_volumes_to_attach(), touched.take()) == ([HERE], [])
    desired.delete_pod("b")
    desired.delete_pod("b")
    assert (desired.get_volumes_to_attach(), touched.take()) == ([], [HERE])
    assert not desired.has_pods


def test_deleted_pod_removes_all_its_volumes() -> None:
    desired = DesiredStateOfWorld(lambda _pair: None)
    desired.add_node("n1")
    desired.add_pod(pod("a"), DISK)
    desired.add_pod(pod("a"), OTHER)
    desired.delete_pod("a")
    assert desired.get_volumes_to_attach() == []


def test_node_with_volumes_to_attach_is_not_removed() -> None:
    desired = DesiredStateOfWorld(lambda _pair: None)
    desired.add_node("n1")
    desired.add_pod(pod("a"), DISK)
    desired.delete_node("n1")
    assert desired.node_exists("n1")
    desired.delete_pod("a")
    desired.delete_node("n1")
    assert not desired.node_exists("n1")
    desired.delete_node("n1")


def test_volume_that_is_no_longer_attachable() -> None:
    touched = RecordedPairs()
    desired = DesiredStateOfWorld(touched.append)
    desired.add_node("n1")
    for uid in ("a", "b"):
        desired.add_pod(pod(uid), DISK)
        desired.add_pod(pod(uid), OTHER)
    touched.take()
    desired.delete_volume(HERE)
    assert (desired.get_volumes_to_attach(), touched.take()) == ([("v2", "n1")], [HERE])
    assert [item.metadata.uid for item in desired.pods()] == ["a", "b"]
    desired.delete_volume(HERE)


def test_pods_on_other_nodes_using_a_volume() -> None:
    desired = DesiredStateOfWorld(lambda _pair: None)
    for node in ("n1", "n2", "n3"):
        desired.add_node(node)
    desired.add_pod(pod("a"), DISK)
    desired.add_pod(pod("b", "n2"), DISK)
    desired.add_pod(pod("c", "n2"), OTHER)
    assert [item.metadata.uid for item in desired.get_volume_pods_on_nodes(["n2", "n3", "n9"], "v1")] == ["b"]


# Actual


def test_attached_volumes_are_reported_and_uncertain_ones_are_not() -> None:
    touched = RecordedPairs()
    actual = ActualStateOfWorld(touched.append)
    actual.mark_volume_as_uncertain(HERE, DISK)
    assert (actual.nodes_with_status_update_needed(), actual.confirmed()) == ([], [])
    actual.mark_volume_as_attached(HERE, DISK)
    assert actual.nodes_with_status_update_needed() == ["n1"]
    assert actual.take_volumes_to_report_as_attached("n1") == ["v1"]
    assert actual.nodes_with_status_update_needed() == []
    assert touched.take() == [HERE, HERE]
    obj = actual.get(HERE)
    assert obj is not None
    assert obj.confirmed


def test_detached_volume_is_removed_from_the_report() -> None:
    actual = ActualStateOfWorld(lambda _pair: None)
    actual.mark_volume_as_attached(HERE, DISK)
    actual.mark_volume_as_attached(("v2", "n1"), OTHER)
    actual.take_volumes_to_report_as_attached("n1")
    actual.remove_volume_from_report_as_attached(HERE)
    assert actual.is_status_update_needed("n1")
    assert actual.take_volumes_to_report_as_attached("n1") == ["v2"]
    actual.mark_volume_as_detached(HERE)
    assert actual.nodes_with_status_update_needed() == [], "it has been told already"
    assert actual.get(HERE) is None
    actual.mark_volume_as_detached(HERE)


def test_volume_is_mounted_by_node_by_default() -> None:
    actual = ActualStateOfWorld(lambda _pair: None)
    actual.set_volumes_in_use("n1", ["v9"])
    actual.mark_volume_as_attached(HERE, DISK)
    assert actual.is_mounted(HERE)
    actual.set_volumes_in_use("n1", [])
    assert not actual.is_mounted(HERE)
    actual.mark_volume_as_attached(HERE, DISK)
    assert not actual.is_mounted(HERE), "it was known before"


def test_node_has_no_report_until_its_first_status() -> None:
    actual = ActualStateOfWorld(lambda _pair: None)
    actual.set_volumes_in_use("n1", [])
    actual.mark_volume_as_uncertain(HERE, DISK)
    assert (actual.is_mounted(HERE), actual.is_unreported_by_node(HERE)) == (True, True)
    actual.set_volumes_in_use("n1", ["v1"])
    assert (actual.is_mounted(HERE), actual.is_unreported_by_node(HERE)) == (True, False)
    actual.mark_volume_as_detached(HERE)
    actual.mark_volume_as_uncertain(HERE, DISK)
    assert not actual.is_unreported_by_node(HERE), "it has said so before"
    actual.set_volumes_in_use("n1", [])
    assert (actual.is_mounted(HERE), actual.is_unreported_by_node(HERE)) == (False, False)


def test_volumes_attached_written_by_others_is_corrected() -> None:
    actual = ActualStateOfWorld(lambda _pair: None)
    actual.mark_volume_as_attached(("v2", "n1"), OTHER)
    actual.take_volumes_to_report_as_attached("n1")
    actual.force_removal_from_report(HERE)
    assert actual.nodes_with_status_update_needed() == ["n1"]
    assert actual.take_volumes_to_report_as_attached("n1") == ["v2"]


def test_later_volume_details_are_kept() -> None:
    actual = ActualStateOfWorld(lambda _pair: None)
    actual.mark_volume_as_attached(HERE, None)
    actual.mark_volume_as_uncertain(HERE, DISK)
    actual.mark_volume_as_attached(HERE, None)
    obj = actual.get(HERE)
    assert obj is not None
    assert (obj.disk, obj.confirmed) == (DISK, True)
    actual.mark_volume_as_attached(THERE, DISK)
    assert actual.get_nodes_for_attached_volume("v1") == ["n1", "n2"]


def test_node_is_updated_again_only_for_reported_volumes() -> None:
    actual = ActualStateOfWorld(lambda _pair: None)
    actual.set_node_status_update_needed("n1")
    assert actual.nodes_with_status_update_needed() == []
    actual.mark_volume_as_attached(HERE, DISK)
    actual.take_volumes_to_report_as_attached("n1")
    actual.mark_volume_as_detached(HERE)
    actual.take_volumes_to_report_as_attached("n1")
    actual.set_node_status_update_needed("n1")
    assert actual.take_volumes_to_report_as_attached("n1") == []


# Operations


def operation(kind: str = ATTACH, pair: Pair = HERE, *, exclusive: bool = True) -> Operation:
    return Operation(kind, pair, DISK, exclusive, 0.0)


async def test_one_pending_operation_per_single_attach_volume(env: Env) -> None:
    operations = Operations(env)
    begun = operation()
    operations.start(begun)
    assert not operations.can_start(ATTACH, THERE, exclusive=True)
    assert not operations.can_start(DETACH, HERE, exclusive=True)
    assert operations.can_start(ATTACH, ("v2", "n1"), exclusive=True)
    operations.end(begun, failed=False)
    assert operations.can_start(ATTACH, THERE, exclusive=True)


async def test_one_pending_operation_per_node_for_multi_attach_volumes(env: Env) -> None:
    operations = Operations(env)
    operations.start(operation(exclusive=False))
    assert not operations.can_start(DETACH, HERE, exclusive=False)
    assert operations.can_start(ATTACH, THERE, exclusive=False)
    assert not operations.can_start(ATTACH, THERE, exclusive=True), "more is known of it by now"


@pytest.mark.parametrize("exclusive", [True, False])
async def test_failed_operation_has_exponential_backoff(env: Env, exclusive: bool) -> None:
    import asyncio

    operations = Operations(env)
    rests = []
    for _ in range(10):
        begun = operation(exclusive=exclusive)
        operations.start(begun)
        operations.end(begun, failed=True)
        until = operations.backoff_until(HERE, exclusive=exclusive)
        assert until is not None
        rests.append(until - env.monotonic())
        assert not operations.can_start(ATTACH, HERE, exclusive=exclusive)
        assert operations.can_start(DETACH, HERE, exclusive=exclusive), "another thing may begin"
        await asyncio.sleep(rests[-1])
        assert operations.can_start(ATTACH, HERE, exclusive=exclusive)
    assert rests == pytest.approx([0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122])
    other = operation(DETACH, exclusive=exclusive)
    operations.start(other)
    operations.end(other, failed=True)
    until = operations.backoff_until(HERE, exclusive=exclusive)
    assert until is not None
    assert until - env.monotonic() == pytest.approx(0.5), "and begins anew"
    operations.start(other)
    operations.end(other, failed=False)
    assert operations.backoff_until(HERE, exclusive=exclusive) is None
