"""The controller on the embedded API server and a simulated cloud, in virtual time.

Cases of ``TestSyncLoadBalancerIfNeeded``, ``TestProcessServiceCreateOrUpdate``, ``TestProcessServiceDeletion`` and
``TestUpdateNodesInExternalLoadBalancer``, k8s.io/cloud-provider v0.36 ``controllers/service/controller_test.go``, in
our own words.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import NODES, Doc, World, wait_for_sync
from tests.controllers.service_lb.clouds import FaultyCloud, times

from pilothouse.client.interceptor import Rule, conflict, fail, gone, lose_answer
from pilothouse.controllers.cloud.service_lb import DESCRIPTOR, ServiceLBOptions
from pilothouse.controllers.shared.cloud import ImplementedElsewhere, TryAgainAfter
from pilothouse.env import Env

SERVICES = "/api/v1/namespaces/default/services"
FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
EXCLUDE = "node.kubernetes.io/exclude-from-external-load-balancers"
NO_NODES = "There are no available nodes for LoadBalancer"


@contextlib.asynccontextmanager
async def balancing(
    env: Env, *, nodes: tuple[str, ...] = ("n1", "n2"), workers: int = 1
) -> AsyncIterator[tuple[World, FaultyCloud]]:
    """A world in which the controller runs."""
    async with node_world.world(env) as world:
        cloud = FaultyCloud(world.env)
        for name in nodes:
            await world.node(name)
        await world.start(DESCRIPTOR, ServiceLBOptions(provider=cloud, workers=workers))
        yield world, cloud


async def service(world: World, name: str = "web", type_: str = "LoadBalancer", **spec: Any) -> Doc:
    ports = [{"name": "http", "port": 80, "protocol": "TCP"}]
    whole = {"type": type_, "selector": {"app": "web"}, "ports": ports, **spec}
    return await world.request("POST", SERVICES, {"metadata": {"name": name}, "spec": whole})


async def address(world: World, name: str = "web") -> list[str]:
    obj = await world.must_get(f"{SERVICES}/{name}")
    return [item["ip"] for item in obj["status"]["loadBalancer"].get("ingress") or []]


async def service_events(world: World, reason: str = "") -> list[str]:
    return [text.removeprefix("Service/web ") for text in await world.events(reason)]


async def delete_without_finalizer(world: World) -> None:
    """Delete the Service, and remove its finalizer."""
    await world.merge(f"{SERVICES}/web", {"metadata": {"finalizers": None}})
    await world.delete(f"{SERVICES}/web")


async def test_load_balancer_is_created_and_deleted(env: Env) -> None:
    async with balancing(env) as (world, cloud):
        await service(world, loadBalancerSourceRanges=["10.0.0.0/8"])
        await wait_for_sync()
        obj = await world.must_get(f"{SERVICES}/web")
        assert obj["metadata"]["finalizers"] == [FINALIZER]
        assert obj["status"]["loadBalancer"] == {"ingress": [{"ip": "198.18.0.1", "ipMode": "VIP"}]}
        (balancer,) = cloud.balancers.values()
        assert balancer.nodes == ("n1", "n2")
        assert balancer.source_ranges == ("10.0.0.0/8",)
        assert balancer.ports == (("TCP", 80, obj["spec"]["ports"][0]["nodePort"]),)
        assert world.requests() == ["patch services/status web", "patch services/status web"]
        assert await service_events(world) == ["Ensuring load balancer", "Ensured load balancer"]
        await wait_for_sync(3600)
        assert len(world.requests()) == 2, "and that is all"
        assert cloud.faulty.requests == ["ensure web"]
        await world.delete(f"{SERVICES}/web")
        await wait_for_sync()
        assert await world.get(f"{SERVICES}/web") is None
        assert cloud.balancers == {}
        assert (await service_events(world))[-2:] == ["Deleting load balancer", "Deleted load balancer"]


async def test_changed_service_type_deletes_the_load_balancer(env: Env) -> None:
    async with balancing(env) as (world, cloud):
        await service(world)
        await wait_for_sync()
        await world.merge(f"{SERVICES}/web", {"spec": {"type": "ClusterIP"}})
        await wait_for_sync()
        obj = await world.must_get(f"{SERVICES}/web")
        assert "finalizers" not in obj["metadata"]
        assert await address(world) == []
        assert cloud.balancers == {}
        await world.merge(f"{SERVICES}/web", {"spec": {"type": "LoadBalancer"}})
        await wait_for_sync()
        assert await address(world) == ["198.18.0.1"]


async def test_other_finalizers_are_kept(env: Env) -> None:
    async with balancing(env) as (world, cloud):
        await service(world)
        await wait_for_sync()
        await world.merge(f"{SERVICES}/web", {"metadata": {"finalizers": [FINALIZER, "example.com/mine"]}})
        await world.delete(f"{SERVICES}/web")
        await wait_for_sync()
        assert (await world.must_get(f"{SERVICES}/web"))["metadata"]["finalizers"] == ["example.com/mine"]
        assert cloud.balancers == {}


async def test_services_of_other_types_and_classes_are_ignored(env: Env) -> None:
    async with balancing(env) as (world, cloud):
        await service(world, "plain", "ClusterIP")
        await service(world, "classy", loadBalancerClass="example.com/other")
        await wait_for_sync(3600)
        await world.delete(f"{SERVICES}/classy")
        await wait_for_sync()
        assert cloud.faulty.requests == []
        assert world.requests() == []


async def test_service_updates_are_sent_to_the_cloud(env: Env) -> None:
    async with balancing(env) as (world, cloud):
        await service(world)
        await wait_for_sync()
        await world.merge(f"{SERVICES}/web", {"spec": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}})
        await wait_for_sync()
        await world.merge(f"{SERVICES}/web", {"spec": {"selector": {"app": "other"}}})
        await wait_for_sync()
        (balancer,) = cloud.balancers.values()
        assert balancer.source_ranges == ("192.0.2.0/24",)
        assert cloud.faulty.requests == ["ensure web"] * 2
        assert await address(world) == ["198.18.0.1"]


async def test_requested_load_balancer_ip_is_used_if_free(env: Env) -> None:
    async with balancing(env) as (world, _cloud):
        await service(world, loadBalancerIP="198.18.0.7")
        await wait_for_sync()
        await service(world, "second", loadBalancerIP="198.18.0.7")
        await wait_for_sync()
        assert await address(world) == ["198.18.0.7"]
        assert await address(world, "second") == []
        failed = (
            "Service/second Error syncing load balancer: failed to ensure load balancer: address 198.18.0.7 is taken"
        )
        assert [text for text in await world.events("SyncLoadBalancerFailed") if text.startswith(failed)]
        await world.delete(f"{SERVICES}/web")
        await wait_for_sync(60)
        assert await address(world, "second") == ["198.18.0.7"]


async def test_cloud_failures_are_retried_with_backoff(env: Env) -> None:
    async with balancing(env) as (world, cloud):
        cloud.faulty.before["ensure"] = times(3, ValueError("no quota"))
        await service(world)
        await wait_for_sync(4)
        assert cloud.faulty.requests == ["ensure web"]
        assert set(await service_events(world, "SyncLoadBalancerFailed")) == {
            "Error syncing load balancer: failed to ensure load balancer: no quota"
        }
        await wait_for_sync(2 + 10 + 20)
        assert cloud.faulty.requests == ["ensure web"] * 4
        assert await address(world) == ["198.18.0.1"]


async def test_retry_after_of_the_cloud_is_used(env: Env) -> None:
    async with balancing(env) as (world, cloud):
        cloud.faulty.before["ensure"] = times(5, TryAgainAfter("being made", 2.0))
        await service(world)
        await wait_for_sync(9)
        assert await address(world) == []
        await wait_for_sync(3)
        assert await address(world) == ["198.18.0.1"]


async def test_load_balancer_implemented_elsewhere_is_ignored(env: Env) -> None:
    async with balancing(env) as (world, cloud):
        cloud.faulty.before["ensure"] = times(99, ImplementedElsewhere("by another"))
        await service(world)
        await wait_for_sync(600)
        assert cloud.faulty.requests == ["ensure web"]
        assert await address(world) == []
        assert (await world.must_get(f"{SERVICES}/web"))["metadata"]["finalizers"] == [FINALIZER]
        assert await world.events("SyncLoadBalancerFailed") == []
        await world.delete(f"{SERVICES}/web")
        await wait_for_sync()
        assert await world.get(f"{SERVICES}/web") is None


async def test_failed_load_balancer_deletion_keeps_the_finalizer(env: Env) -> None:
    async with balancing(env) as (world, cloud):
        await service(world)
        await wait_for_sync()
        cloud.faulty.before["delete"] = times(2, OSError("unreachable"))
        await world.delete(f"{SERVICES}/web")
        await wait_for_sync()
        assert await world.get(f"{SERVICES}/web") is not None
        assert await service_events(world, "SyncLoadBalancerFailed") == [
            "Error syncing load balancer: failed to delete load balancer: unreachable"
        ]
        await wait_for_sync(60)
        assert await world.get(f"{SERVICES}/web") is None
        assert cloud.balancers == {}


async def test_node_changes_update_load_balancers(env: Env) -> None:
    async with balancing(env) as (world, cloud):
        await service(world)
        await wait_for_sync()
        (uid,) = cloud.balancers
        await world.node("n3")
        await wait_for_sync()
        assert cloud.balancers[uid].nodes == ("n1", "n2", "n3")
        await world.merge(f"{NODES}/n1", {"metadata": {"labels": {EXCLUDE: ""}}})
        await wait_for_sync()
        assert cloud.balancers[uid].nodes == ("n2", "n3")
        await world.delete(f"{NODES}/n2")
        await wait_for_sync()
        assert cloud.balancers[uid].nodes == ("n3",)
        await world.report_node("n3", {"Ready": "False"})
        await wait_for_sync(600)
        assert cloud.balancers[uid].nodes == ("n3",), "the load balancer looks at the health of its nodes itself"
        assert set(await service_events(world, "UpdatedLoadBalancer")) == {"Updated load balancer with new hosts"}
        await world.delete(f"{NODES}/n3")
        await wait_for_sync()
        assert await service_events(world, "UnAvailableLoadBalancer") == [NO_NODES]
        assert world.metrics.value("service_controller_loadbalancer_sync_total") == 4
        assert world.metrics.value("service_controller_nodesync_error_total") == 0


@pytest.mark.parametrize("workers", [1, 2, 5])
async def test_node_changes_update_only_load_balancer_services(env: Env, workers: int) -> None:
    """For any protocol and any number of workers."""
    async with balancing(env, workers=workers) as (world, cloud):
        protocols = ("TCP", "UDP", "SCTP", "TCP")
        for number, protocol in enumerate(protocols):
            await service(world, f"s{number}", ports=[{"name": "p", "port": 53, "protocol": protocol}])
        await service(world, "plain", "ClusterIP")
        await service(world, "classy", loadBalancerClass="example.com/other")
        await wait_for_sync()
        assert sorted(value.ports[0][:2] for value in cloud.balancers.values()) == sorted(
            (item, 53) for item in protocols
        )
        cloud.faulty.requests.clear()
        await world.node("n3")
        await wait_for_sync()
        assert sorted(cloud.faulty.requests) == [f"update s{number}" for number in range(4)]
        assert {value.nodes for value in cloud.balancers.values()} == {("n1", "n2", "n3")}


async def test_failed_node_update_emits_an_event_and_is_retried(env: Env) -> None:
    async with balancing(env) as (world, cloud):
        await service(world)
        await wait_for_sync()
        cloud.faulty.before["update"] = times(1, ValueError("no"))
        await world.node("n3")
        await wait_for_sync()
        (uid,) = cloud.balancers
        assert cloud.balancers[uid].nodes == ("n1", "n2", "n3"), "the whole load balancer was looked at again"
        assert await service_events(world, "UpdateLoadBalancerFailed") == [
            "Error updating load balancer with new hosts [n1 n2 n3] [node names limited, total number of nodes: 3], "
            "error: no"
        ]
        assert world.metrics.value("service_controller_nodesync_error_total") == 1


async def test_nodes_added_during_an_update_are_synced(env: Env) -> None:
    async with balancing(env) as (world, cloud):
        cloud.faulty.seconds["ensure"] = 30.0
        await service(world)
        await wait_for_sync()
        await world.node("n3")
        await wait_for_sync(60)
        (balancer,) = cloud.balancers.values()
        assert balancer.nodes == ("n1", "n2", "n3")


async def test_no_available_nodes_emits_a_warning(env: Env) -> None:
    async with balancing(env, nodes=()) as (world, _cloud):
        await service(world)
        await wait_for_sync()
        assert await service_events(world, "UnAvailableLoadBalancer") == [NO_NODES]
        assert await address(world) == ["198.18.0.1"]


@pytest.mark.parametrize("fault", [fail(500), conflict(), lose_answer(), fail(404)], ids=["500", "409", "lost", "404"])
async def test_failed_writes_leave_no_load_balancer(env: Env, fault: Any) -> None:
    async with balancing(env) as (world, cloud):
        world.faults.add(Rule(fault, verb="patch", resource="services", times=2))
        await service(world)
        await wait_for_sync(60)
        assert await address(world) == ["198.18.0.1"]
        world.faults.add(Rule(fault, verb="patch", resource="services", times=2))
        await world.delete(f"{SERVICES}/web")
        await wait_for_sync(120)
        assert await world.get(f"{SERVICES}/web") is None
        assert cloud.balancers == {}


async def test_stale_cache_creates_no_load_balancer_for_a_deleted_service(env: Env) -> None:
    async with balancing(env) as (world, cloud):
        await service(world)
        await wait_for_sync()
        cloud.faulty.before["update"] = times(1, ValueError("it is busy"))
        with world.faults.hold(resource="services"):
            await world.node("n3")  # wakes the Service, as its load balancer could not be updated
            await delete_without_finalizer(world)
            await wait_for_sync(60)
            ensures = [text for text in cloud.faulty.requests if text == "ensure web"]
            assert len(ensures) == 1
        await wait_for_sync(60)
        assert cloud.balancers == {}


async def test_service_with_a_removed_finalizer_is_cleaned_up(env: Env) -> None:
    """Upstream does so only if another event enqueues the Service."""
    async with balancing(env) as (world, cloud):
        await service(world)
        await wait_for_sync()
        with world.faults.hold(resource="services"):
            await delete_without_finalizer(world)
            world.faults.end_watches(resource="services", with_=gone())
        await wait_for_sync(30)
        assert cloud.balancers == {}


async def test_recreated_service_gets_a_new_load_balancer(env: Env) -> None:
    async with balancing(env) as (world, cloud):
        await service(world)
        await wait_for_sync()
        with world.faults.hold(resource="services"):
            await delete_without_finalizer(world)
            created = await service(world)
            world.faults.end_watches(resource="services", with_=gone())
        await wait_for_sync(30)
        assert list(cloud.balancers) == [created["metadata"]["uid"]]


async def test_cloud_without_load_balancer_support(world: World) -> None:
    cloud = FaultyCloud(world.env)
    cloud.load_balancers = None
    await world.start(DESCRIPTOR, ServiceLBOptions(provider=cloud))
    await service(world)
    await wait_for_sync(600)
    assert world.requests() == []
