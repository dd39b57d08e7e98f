"""The quota controller and admission together, in virtual time, with faults."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import PODS, Doc, World, fixture_of
from tests.custom_resources import definition
from tests.tables import cases

from pilothouse.apiserver import ServerOptions
from pilothouse.apiserver.admission.names import WITHOUT_CONTROLLERS
from pilothouse.client.errors import Forbidden
from pilothouse.client.interceptor import Rule, delay, fail, gone, lose_answer
from pilothouse.controllers.policy.resourcequota import DESCRIPTOR, ResourceQuotaOptions
from pilothouse.controllers.policy.resourcequota.controller import UNCHARGED_SECONDS
from pilothouse.controllers.policy.resourcequota.counting import CONCURRENCY
from pilothouse.env import Env

BASE = "/api/v1/namespaces/default"
QUOTAS = f"{BASE}/resourcequotas"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@contextlib.asynccontextmanager
async def running(env: Env, **options: Any) -> AsyncIterator[World]:
    async with node_world.world(env) as world:
        await world.start(DESCRIPTOR, ResourceQuotaOptions(**options))
        await asyncio.sleep(1)
        world.seen.clear()
        yield world


world = fixture_of(running)


async def limit(world: World, hard: Doc, name: str = "q", **spec: Any) -> None:
    await world.request("POST", QUOTAS, {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})
    await asyncio.sleep(1)


async def status(world: World, name: str = "q") -> Doc:
    quota: Doc = (await world.must_get(f"{QUOTAS}/{name}"))["status"]
    return quota


async def used(world: World, name: str = "q") -> Doc:
    result: Doc = (await status(world, name)).get("used", {})
    return result


async def pod(world: World, name: str, cpu: str = "100m", **spec: Any) -> None:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    await world.request("POST", PODS, {"metadata": {"name": name}, "spec": {"containers": containers, **spec}})


async def thing(world: World, resource: str, name: str, **body: Any) -> None:
    await world.request("POST", f"{BASE}/{resource}", {"metadata": {"name": name}, **body})


async def test_existing_objects_are_counted_for_a_new_quota(world: World) -> None:
    await pod(world, "one", "100m")
    await pod(world, "two", "200m")
    await world.merge(f"{PODS}/two/status", {"status": {"phase": "Failed"}})
    await thing(world, "configmaps", "m")
    await thing(world, "secrets", "s")
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    await thing(world, "services", "web", spec={"type": "NodePort", "ports": ports})
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    await thing(world, "persistentvolumeclaims", "c", spec={**claim, "resources": {"requests": {"storage": "3Gi"}}})
    hard = {
        "pods": "9",
        "count/pods": "9",
        "requests.cpu": "9",
        "limits.memory": "99Gi",
        "configmaps": "9",
        "count/secrets": "9",
        "services": "9",
        "services.nodeports": "9",
        "services.loadbalancers": "9",
        "requests.storage": "9Gi",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "9",
        "count/deployments.apps": "9",
        "resourcequotas": "9",
    }
    await limit(world, hard)
    assert (await status(world))["hard"] == hard
    assert await used(world) == {
        "pods": "1",
        "count/pods": "2",
        "requests.cpu": "100m",
        "limits.memory": "1Gi",
        "configmaps": "1",
        "count/secrets": "1",
        "services": "2",  # and kubernetes
        "services.nodeports": "2",
        "services.loadbalancers": "0",
        "requests.storage": "3Gi",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "count/deployments.apps": "0",
        "resourcequotas": "1",
    }
    assert world.requests(reads=False) == ["update resourcequotas/status q"]


async def test_deletions_are_released_immediately_and_creations_are_charged_by_admission(world: World) -> None:
    await limit(world, {"pods": "1", "configmaps": "1"})
    await pod(world, "one")
    await thing(world, "configmaps", "m")
    with pytest.raises(Forbidden, match="exceeded quota"):
        await pod(world, "two")
    await asyncio.sleep(1)
    assert await used(world) == {"pods": "1", "configmaps": "1"}
    assert world.requests(reads=False) == ["update resourcequotas/status q"], "admission has charged"
    await world.delete(f"{PODS}/one", grace=0)
    await world.delete(f"{BASE}/configmaps/m")
    await asyncio.sleep(0.1)
    assert await used(world) == {"pods": "0", "configmaps": "0"}
    await pod(world, "two")
    await asyncio.sleep(1)
    assert await used(world) == {"pods": "1", "configmaps": "0"}


async def test_terminated_pod_counts_only_as_an_object(world: World) -> None:
    await limit(world, {"pods": "5", "count/pods": "5", "requests.cpu": "1"})
    await pod(world, "one")
    await world.merge(f"{PODS}/one/status", {"status": {"phase": "Running"}})
    await asyncio.sleep(1)
    assert await used(world) == {"pods": "1", "count/pods": "1", "requests.cpu": "100m"}
    await world.merge(f"{PODS}/one/status", {"status": {"phase": "Succeeded"}})
    await asyncio.sleep(1)
    assert await used(world) == {"pods": "0", "count/pods": "1", "requests.cpu": "0"}


async def test_quota_scopes(world: World) -> None:
    await pod(world, "plain")
    await pod(world, "timed", "200m", activeDeadlineSeconds=60)
    containers = [{"name": "c", "image": "i"}]
    await world.request("POST", PODS, {"metadata": {"name": "modest"}, "spec": {"containers": containers}})
    await thing(world, "configmaps", "m")
    hard = {"pods": "9", "count/configmaps": "9"}
    for scope in ("Terminating", "NotTerminating", "NotBestEffort"):
        await limit(world, {"pods": "9", "requests.cpu": "9"}, scope.lower(), scopes=[scope])
    await limit(world, {"pods": "9"}, "besteffort", scopes=["BestEffort"])
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "DoesNotExist"}]}
    await limit(world, {"pods": "9"}, "unclassed", scopeSelector=selector)
    await limit(world, hard, "all")
    assert await used(world, "terminating") == {"pods": "1", "requests.cpu": "200m"}
    assert await used(world, "notterminating") == {"pods": "2", "requests.cpu": "100m"}
    assert await used(world, "notbesteffort") == {"pods": "2", "requests.cpu": "300m"}
    assert await used(world, "besteffort") == {"pods": "1"}
    assert await used(world, "unclassed") == {"pods": "3"}
    assert await used(world, "all") == {"pods": "3", "count/configmaps": "1"}
    await world.merge(f"{PODS}/plain", {"spec": {"activeDeadlineSeconds": 100}})
    await asyncio.sleep(1)
    assert await used(world, "terminating") == {"pods": "2", "requests.cpu": "300m"}
    assert await used(world, "notterminating") == {"pods": "1", "requests.cpu": "0"}


async def test_changed_hard_limits_apply_immediately(world: World) -> None:
    await limit(world, {"pods": "1"})
    await pod(world, "one")
    await world.merge(f"{QUOTAS}/q", {"spec": {"hard": {"pods": "2", "configmaps": "3"}}})
    await asyncio.sleep(0.1)
    assert await status(world) == {
        "hard": {"pods": "2", "configmaps": "3"},
        "used": {"pods": "1", "configmaps": "0"},
    }
    await world.merge(f"{QUOTAS}/q", {"spec": {"hard": {"configmaps": None}}, "metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(0.1)
    assert await status(world) == {"hard": {"pods": "2"}, "used": {"pods": "1"}}
    assert (await world.must_get(f"{QUOTAS}/q"))["metadata"]["labels"] == {"a": "b"}


async def test_full_resync_corrects_a_changed_usage(env: Env) -> None:
    async with running(env, sync_period=60.0) as world:
        await limit(world, {"pods": "9"})
        await world.merge(f"{QUOTAS}/q/status", {"status": {"used": {"pods": "7"}}})
        await asyncio.sleep(30)
        assert await used(world) == {"pods": "7"}, "a change of the status alone wakes nobody"
        await asyncio.sleep(60)
        assert await used(world) == {"pods": "0"}
        sent = len(world.requests(reads=False))
        await asyncio.sleep(3600)
        assert len(world.requests(reads=False)) == sent, "nothing is written when nothing is different"


@pytest.mark.parametrize("period", [0.0, -1.0])
async def test_resync_period_zero_disables_full_resync(env: Env, period: float) -> None:
    async with running(env, sync_period=period) as world:
        await limit(world, {"pods": "9"})
        await world.merge(f"{QUOTAS}/q/status", {"status": {"used": {"pods": "7"}}})
        await asyncio.sleep(24 * 3600)
        assert await used(world) == {"pods": "7"}
        await world.merge(f"{QUOTAS}/q", {"spec": {"hard": {"pods": "8"}}})
        await asyncio.sleep(1)
        assert await used(world) == {"pods": "0"}, "what changes is looked at as ever"


async def test_custom_resources_are_counted_after_discovery(world: World) -> None:
    await world.request("POST", CRDS, definition("Widget"))
    await limit(world, {"count/widgets.example.com": "2"})
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    await asyncio.sleep(40)
    await world.request("POST", widgets, widget)
    await asyncio.sleep(300)
    assert await used(world) == {"count/widgets.example.com": "1"}
    await world.delete(f"{widgets}/w")
    await asyncio.sleep(1)
    assert await used(world) == {"count/widgets.example.com": "0"}


async def test_implicit_extended_resource_claims_are_counted(world: World) -> None:
    name = "deviceclass.resource.kubernetes.io/dongle"
    resources = {"requests": {name: "2"}, "limits": {name: "2"}}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    for number in range(2):
        body = {"metadata": {"name": f"p{number}"}, "spec": {"containers": containers}}
        await world.request("POST", PODS, body)
    await limit(world, {f"requests.{name}": "9"})
    await asyncio.sleep(5)
    assert await used(world) == {f"requests.{name}": "4"}
    await world.delete(f"{PODS}/p0", grace=0)
    await asyncio.sleep(1)
    assert await used(world) == {f"requests.{name}": "2"}


@pytest.mark.parametrize(("enabled", "cpu"), [(True, "1"), (False, "100m")])
async def test_pod_level_resources_gate(env: Env, enabled: bool, cpu: str) -> None:
    """``PodLevelResources``."""
    async with running(env, pod_level_resources=enabled) as world:
        await pod(world, "one", "100m", resources={"requests": {"cpu": "1"}, "limits": {"cpu": "2"}})
        await limit(world, {"requests.cpu": "5"})
        assert await used(world) == {"requests.cpu": cpu}


async def test_claim_devices_are_counted_by_device_class(world: World) -> None:
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3}
    spec = {"devices": {"requests": [{"name": "a", "exactly": exactly}]}}
    for name in ("one", "two"):
        body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}}
        await world.request("POST", claims, {**body, "spec": spec})
    hard = {"gpu.deviceclass.resource.k8s.io/devices": "9", "count/resourceclaims.resource.k8s.io": "9"}
    await limit(world, hard)
    await asyncio.sleep(5)
    assert await used(world) == dict(zip(hard, ("6", "2"), strict=True))
    await world.delete(f"{claims}/one")
    await asyncio.sleep(1)
    assert await used(world) == dict(zip(hard, ("3", "1"), strict=True))


@cases(
    "fault",
    {
        "a conflict": Rule(fail(409), verb="update", resource="resourcequotas", nth=1),
        "an error of the server": Rule(fail(500), verb="update", resource="resourcequotas", nth=1),
        "a lost answer": Rule(lose_answer(), verb="update", resource="resourcequotas", nth=1),
        "pods are seen late": Rule(delay(3.0), verb="watch", resource="pods"),
        "quotas are seen late": Rule(delay(3.0), verb="watch", resource="resourcequotas"),
    },
)
async def test_usage_converges_under_faults(world: World, fault: Any) -> None:
    world.faults.add(fault)
    await limit(world, {"pods": "5"})
    for name in "abc":
        await pod(world, name)
    await asyncio.sleep(5)
    await world.delete(f"{PODS}/a", grace=0)
    await asyncio.sleep(30)
    assert await used(world) == {"pods": "2"}


async def test_charge_for_an_unobserved_pod_is_not_released(world: World) -> None:
    """A recount for deletions runs between the charge and the observation of a new pod. Upstream corrects this with the
    next full sync, and until then the namespace can exceed its quota by one pod."""
    await limit(world, {"pods": "5"})
    await pod(world, "a")
    await asyncio.sleep(5)
    with world.faults.hold(resource="pods") as hold:
        await world.delete(f"{PODS}/a", grace=0)
        await pod(world, "b")
        await asyncio.sleep(1)  # both charges of the quota are observed
        hold.release(1)
        await asyncio.sleep(1)
        assert await used(world) == {"pods": "0"}, "b is there, but nobody has seen it"
    await asyncio.sleep(5)
    assert await used(world) == {"pods": "1"}


async def test_pods_not_charged_by_admission_with_old_limits_are_counted(env: Env) -> None:
    """As with admission that reads quotas from a stale cache: upstream counts such pods at the next full sync."""
    plugins = tuple(name for name in WITHOUT_CONTROLLERS if name != "ResourceQuota")
    async with node_world.world(env, ServerOptions(admission_plugins=plugins)) as world:
        await world.start(DESCRIPTOR)
        await limit(world, {"pods": "9", "requests.cpu": "9"})
        await pod(world, "a")
        await pod(world, "b")
        await asyncio.sleep(1)
        assert await used(world) == {"pods": "2", "requests.cpu": "200m"}
        await world.merge(f"{QUOTAS}/q", {"spec": {"hard": {"configmaps": "9"}}})
        await asyncio.sleep(1)
        await thing(world, "configmaps", "m")
        await asyncio.sleep(1)
        assert await used(world) == {"pods": "2", "requests.cpu": "200m", "configmaps": "1"}, "a limit that was added"
        await asyncio.sleep(UNCHARGED_SECONDS)
        await pod(world, "c")
        await asyncio.sleep(1)
        assert (await used(world))["pods"] == "2", "the limits are known now: admission's are not checked"


async def test_pod_created_while_hard_limits_are_updated_is_counted(world: World) -> None:
    world.faults.add(Rule(delay(3.0), verb="update", resource="resourcequotas", nth=1))
    await limit(world, {"pods": "5"})
    await pod(world, "a")
    await asyncio.sleep(5)
    assert await used(world) == {"pods": "1"}


async def test_pods_created_during_a_recount_are_counted(world: World) -> None:
    """A recalculation yields after a number of pods."""
    for number in range(5 * CONCURRENCY):
        await pod(world, f"old-{number}")
    await asyncio.sleep(1)
    creating = asyncio.ensure_future(limit(world, {"pods": "5000"}))
    for number in range(40):
        await pod(world, f"new-{number}")
    await creating
    await asyncio.sleep(5)
    assert await used(world) == {"pods": str(5 * CONCURRENCY + 40)}


async def test_recount_does_not_release_charges_of_unobserved_pods(world: World) -> None:
    """Of two charged pods only one is observed."""
    await limit(world, {"pods": "5"})
    with world.faults.hold(resource="pods") as hold:
        await pod(world, "a")
        await pod(world, "b")
        hold.release(1)
        await asyncio.sleep(5)
        assert await used(world) == {"pods": "2"}
    await asyncio.sleep(5)
    assert await used(world) == {"pods": "2"}
    assert world.requests(reads=False) == ["update resourcequotas/status q"]


async def test_no_deletion_is_lost_when_watches_break(world: World) -> None:
    await limit(world, {"pods": "5"})
    for name in "ab":
        await pod(world, name)
    await asyncio.sleep(1)
    world.faults.end_watches(resource="pods", with_=gone())
    await world.delete(f"{PODS}/a", grace=0)
    await asyncio.sleep(30)
    assert await used(world) == {"pods": "1"}


async def test_unreadable_resource_does_not_prevent_counting_others(env: Env) -> None:
    async with node_world.world(env) as world:
        for verb in ("watch", "list"):
            world.faults.add(Rule(fail(403), verb=verb, resource="secrets"))
        starting = asyncio.ensure_future(world.start(DESCRIPTOR))
        await limit(world, {"pods": "5", "secrets": "5"})
        await pod(world, "a")
        await asyncio.sleep(60)
        assert await status(world) == {"hard": {"pods": "5", "secrets": "5"}, "used": {"pods": "1"}}
        world.faults.clear()
        await asyncio.sleep(600)
        assert await used(world) == {"pods": "1", "secrets": "0"}
        await starting


async def test_failed_discovery_keeps_monitors(world: World) -> None:
    await limit(world, {"pods": "5"})
    await pod(world, "a")
    discovery = world.faults.add(Rule(fail(503), verb="get", when=lambda call, _request: call.path == "/apis"))
    await asyncio.sleep(100)
    assert discovery.hits
    await world.delete(f"{PODS}/a", grace=0)
    await asyncio.sleep(1)
    assert await used(world) == {"pods": "0"}


async def test_deleted_quota_is_removed(world: World) -> None:
    await limit(world, {"pods": "5"})
    await pod(world, "a")
    await world.delete(f"{QUOTAS}/q")
    await world.delete(f"{PODS}/a", grace=0)
    await asyncio.sleep(400)
    assert await world.get(f"{QUOTAS}/q") is None
    assert world.requests(reads=False) == ["update resourcequotas/status q"]


async def test_usage_converges_under_churn(world: World, seed: int) -> None:
    """Under delays and conflicts; and admission never exceeds the limit once it is in force."""
    world.faults.add(Rule(delay(0.0, 0.8), verb="watch"))
    world.faults.add(Rule(fail(409), verb="update", resource="resourcequotas", probability=0.2))
    await limit(world, {"pods": "4", "requests.cpu": "1"})
    random = world.env.stream("story")
    alive: list[str] = []
    for number in range(60):
        if alive and random.random() < 0.5:
            await world.delete(f"{PODS}/{alive.pop(random.randrange(len(alive)))}", grace=0)
        else:
            try:
                await pod(world, f"p{number}")
                alive.append(f"p{number}")
            except Forbidden:
                pass
        await asyncio.sleep(random.random())
    # A deletion that is observed before admission's write of the quota finds nothing to correct.
    # As upstream, only changes of the limits enqueue the quota, so the next full recalculation corrects it.
    await asyncio.sleep(320)
    assert await used(world) == {"pods": str(len(alive)), "requests.cpu": f"{len(alive)}00m" if alive else "0"}
