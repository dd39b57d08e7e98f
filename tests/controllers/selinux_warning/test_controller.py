"""The controller on the embedded API server, in virtual time: events that enqueue, emitted events, metrics."""

import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.controllers import node_world
from tests.controllers.node_world import PODS, Doc, World, fixture_of, wait_for_sync

from pilothouse.controllers.volumes.selinux_warning import DESCRIPTOR
from pilothouse.env import Env

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
DRIVER = "d.example.com"
ONE, OTHER = "s0:c1,c2", "s0:c98,c99"
METRIC = "selinux_warning_controller_selinux_volume_conflict"
SAME = "uses the same volume as this pod with"
END = "If both pods land on the same node, only one of them may access the volume."


def text(about: str, value: str, other: str, other_value: str) -> str:
    return f'{about} "{value}" conflicts with pod {other} that {SAME} {about} "{other_value}". {END}'


BOTH = [
    "Pod/a " + text("SELinuxLabel", f":::{ONE}", "b", f":::{OTHER}"),
    "Pod/b " + text("SELinuxLabel", f":::{OTHER}", "a", f":::{ONE}"),
]


async def driver(world: World, mount: bool = True) -> None:
    await world.request("POST", DRIVERS, {"metadata": {"name": DRIVER}, "spec": {"seLinuxMount": mount}})


async def claim(world: World, name: str = "data", namespace: str = "default") -> Doc:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    path = CLAIMS.replace("default", namespace)
    return await world.request("POST", path, {"metadata": {"name": name}, "spec": spec})


def volume_name(owner: Doc) -> str:
    return f"pv-{owner['metadata']['namespace']}-{owner['metadata']['name']}"


async def volume(world: World, owner: Doc, handle: str = "h", *, volume_source: bool = True) -> None:
    source = {"driver": DRIVER, "volumeHandle": handle}
    spec = {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}, "csi": source}
    await world.request("POST", VOLUMES, {"metadata": {"name": volume_name(owner)}, "spec": spec})
    if volume_source:
        await give(world, owner)


async def give(world: World, owner: Doc) -> None:
    """The volume is the claim's."""
    reference = {field: owner["metadata"][field] for field in ("namespace", "name", "uid")}
    await world.merge(f"{VOLUMES}/{volume_name(owner)}", {"spec": {"claimRef": reference}})


async def bind(world: World, owner: Doc) -> None:
    meta = owner["metadata"]
    path = f"{CLAIMS.replace('default', meta['namespace'])}/{meta['name']}"
    await world.merge(path, {"spec": {"volumeName": volume_name(owner)}})
    await world.merge(f"{path}/status", {"status": {"phase": "Bound"}})


async def disk(world: World, namespace: str = "default") -> None:
    """A claim and its volume."""
    owner = await claim(world, namespace=namespace)
    await volume(world, owner)
    await bind(world, owner)


async def pod(
    world: World, name: str, level: str = ONE, policy: str | None = None, namespace: str = "default", **container: Any
) -> None:
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    context: Doc = {"seLinuxOptions": {"level": level}}
    if policy is not None:
        context["seLinuxChangePolicy"] = policy
    spec = {
        "securityContext": context,
        "containers": [{"name": "main", "image": "pause", **mounts, **container}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    await world.request("POST", PODS.replace("default", namespace), {"metadata": {"name": name}, "spec": spec})


async def two(world: World) -> None:
    await pod(world, "a")
    await pod(world, "b", OTHER)


async def everything(world: World) -> None:
    await driver(world)
    await disk(world)
    await two(world)


def pairs(world: World) -> list[str]:
    """``property pod1 pod2`` of the metric."""
    labels = [
        dict(re.findall(r'(\w+)="([^"]*)"', line))
        for line in world.metrics.exposition().splitlines()
        if line.startswith(f"{METRIC}{{")
    ]
    return sorted(f"{label['property']} {label['pod1_name']} {label['pod2_name']}" for label in labels)


@contextlib.asynccontextmanager
async def controlled(env: Env, *, before: Callable[[World], Awaitable[Any]] | None = None) -> AsyncIterator[World]:
    async with node_world.world(env) as world:
        if before is not None:
            await before(world)
        await world.start(DESCRIPTOR)
        yield world


world = fixture_of(controlled)


@pytest.mark.parametrize("early", [True, False], ids=["existing pods", "new pods"])
async def test_conflict_emits_one_event_on_each_pod(env: Env, early: bool) -> None:
    async with controlled(env, before=everything if early else None) as world:
        if not early:
            await everything(world)
        await wait_for_sync()
        assert sorted(await world.events()) == BOTH
        await world.merge(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}})
        await world.merge(f"{PODS}/a/status", {"status": {"phase": "Running"}})
        await wait_for_sync(7200)
        assert sorted(await world.events()) in (BOTH, []), "they are not repeated; after an hour they are forgotten"
        assert world.requests() == [], "it only tells"
        assert pairs(world) == ["SELinuxLabel a b", "SELinuxLabel b a"]
        values = ("default", "a", f":::{ONE}", "default", "b", f":::{OTHER}")
        assert world.metrics.value(METRIC, "SELinuxLabel", *values) == 1.0


async def test_event_source_and_type(env: Env) -> None:
    async with controlled(env, before=everything) as world:
        await wait_for_sync()
        for item in (await world.must_get("/api/v1/events"))["items"]:
            assert (item["type"], item["reason"]) == ("Normal", "SELinuxLabelConflict")
            assert item["source"]["component"] == item["reportingComponent"] == "selinux_warning"


async def test_conflicting_change_policies_emit_both_events(env: Env) -> None:

    async def before(world: World) -> None:
        await driver(world)
        await disk(world)

    async with controlled(env, before=before) as world:
        await pod(world, "a")
        await pod(world, "b", ONE, "Recursive")
        await wait_for_sync()
        assert await world.events("SELinuxChangePolicyConflict") == [
            "Pod/b " + text("SELinuxChangePolicy", "Recursive", "a", "MountOption"),
            "Pod/a " + text("SELinuxChangePolicy", "MountOption", "b", "Recursive"),
        ]
        assert await world.events("SELinuxLabelConflict") == [
            "Pod/b " + text("SELinuxLabel", "", "a", f":::{ONE}"),
            "Pod/a " + text("SELinuxLabel", f":::{ONE}", "b", ""),
        ]


@pytest.mark.parametrize("level", [ONE, OTHER])
async def test_recursive_change_policy_has_no_conflict(world: World, level: str) -> None:
    await driver(world)
    await disk(world)
    await pod(world, "a", ONE, "Recursive")
    await pod(world, "b", level, "Recursive")
    await wait_for_sync()
    assert (await world.events(), pairs(world)) == ([], [])


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "deleted"])
async def test_terminated_pod_has_no_conflicts(env: Env, phase: str) -> None:
    async with controlled(env, before=everything) as world:
        await wait_for_sync()
        assert len(pairs(world)) == 2
        if phase == "deleted":
            await world.delete(f"{PODS}/a", grace=0)
        else:
            await world.merge(f"{PODS}/a/status", {"status": {"phase": phase}})
        await wait_for_sync()
        assert pairs(world) == []
        await pod(world, "c", OTHER)
        await wait_for_sync()
        assert sorted(await world.events()) == BOTH, "nobody has anything against the third one"


async def test_event_is_emitted_only_for_existing_pods(env: Env) -> None:
    """The other one was just deleted, which the volume cache does not have yet."""

    async def before(world: World) -> None:
        await driver(world)
        await disk(world)
        await pod(world, "a")

    async with controlled(env, before=before) as world:
        await wait_for_sync()
        with world.faults.hold(resource="pods"):
            await pod(world, "aa", OTHER)
            await world.delete(f"{PODS}/a", grace=0)
        await wait_for_sync()
        assert await world.events() == ["Pod/aa " + text("SELinuxLabel", f":::{OTHER}", "a", f":::{ONE}")]
        assert pairs(world) == []


async def test_recreated_pod_gets_no_event_for_its_predecessors_label(env: Env) -> None:
    """The volume cache has its predecessor until its key is synced."""

    async def before(world: World) -> None:
        await driver(world)
        await disk(world)
        await pod(world, "a")

    async with controlled(env, before=before) as world:
        await wait_for_sync()
        with world.faults.hold(resource="pods"):
            await pod(world, "aa", OTHER)
            await world.delete(f"{PODS}/a", grace=0)
            await pod(world, "a", OTHER)
        await wait_for_sync()
        events = [line for line in await world.events() if line.startswith("Pod/a ")]
        assert (events, pairs(world)) == ([], [])


async def test_event_does_not_name_pods_of_other_namespaces(env: Env) -> None:
    async def before(world: World) -> None:
        await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": "secret"}})
        await driver(world)
        await disk(world)
        await disk(world, "secret")
        await pod(world, "a")

    async with controlled(env, before=before) as world:
        await pod(world, "hidden", OTHER, namespace="secret")
        await wait_for_sync()
        rest = f"conflicts with another pod that {SAME} a different SELinuxLabel. {END}"
        assert await world.events() == [
            f'Pod/hidden SELinuxLabel":::{OTHER}" {rest}',
            f'Pod/a SELinuxLabel":::{ONE}" {rest}',
        ]


@pytest.mark.parametrize("last", ["volume", "reference", "binding", "phase", "pods"])
async def test_conflict_is_reported_in_any_order_of_events(world: World, last: str) -> None:
    await driver(world)
    owner = await claim(world)
    name = f"{CLAIMS}/data"
    steps: dict[str, Callable[[], Awaitable[Any]]] = {
        "pods": lambda: two(world),
        "volume": lambda: volume(world, owner, volume_source=last == "volume"),
        "reference": lambda: give(world, owner),
        "binding": lambda: world.merge(name, {"spec": {"volumeName": "pv-default-data"}}),
        "phase": lambda: world.merge(f"{name}/status", {"status": {"phase": "Bound"}}),
    }
    for step in [*(item for item in steps if item != last and (item, last) != ("reference", "volume")), last]:
        await wait_for_sync()
        assert await world.events() == []
        await steps[step]()
    await wait_for_sync()
    assert sorted(await world.events()) == BOTH


async def test_changed_selinux_mount_of_a_csi_driver(world: World) -> None:
    await disk(world)
    await two(world)
    await wait_for_sync()
    assert pairs(world) == [], "nobody knows the driver"
    await driver(world, mount=False)
    await wait_for_sync()
    assert pairs(world) == []
    await world.merge(f"{DRIVERS}/{DRIVER}", {"spec": {"seLinuxMount": True}})
    await wait_for_sync()
    result = pairs(world)
    assert result == ["SELinuxLabel a b", "SELinuxLabel b a"]
    assert sorted(await world.events()) == BOTH
    await world.merge(f"{DRIVERS}/{DRIVER}", {"spec": {"seLinuxMount": False}})
    await wait_for_sync()
    assert pairs(world) == []
    await world.merge(f"{DRIVERS}/{DRIVER}", {"spec": {"seLinuxMount": True}})
    await wait_for_sync()
    assert pairs(world) == result
    await world.delete(f"{DRIVERS}/{DRIVER}")
    await wait_for_sync()
    assert pairs(world) == []


async def test_driver_change_emits_no_events_without_conflicts(world: World) -> None:
    """Upstream updates one pod after the other, and each conflicts with those not yet updated."""
    await driver(world, mount=False)
    await disk(world)
    for name in "abc":
        await pod(world, name)
    await wait_for_sync()
    for mount in (True, False, True):
        await world.merge(f"{DRIVERS}/{DRIVER}", {"spec": {"seLinuxMount": mount}})
        await wait_for_sync()
    assert (await world.events(), pairs(world)) == ([], [])


async def test_ephemeral_container_with_another_label(env: Env) -> None:
    async with controlled(env, before=everything) as world:
        await wait_for_sync()
        extra = {
            "name": "debug",
            "image": "busybox",
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
            "securityContext": {"seLinuxOptions": {"level": OTHER}},
        }
        await world.request(
            "PATCH",
            f"{PODS}/a/ephemeralcontainers",
            {"spec": {"ephemeralContainers": [extra]}},
            "application/strategic-merge-patch+json",
        )
        await wait_for_sync()
        assert await world.events("MultipleSELinuxLabels") == [
            'Pod/a Volume "v" is mounted twice with different SELinux labels inside this pod'
        ]
        assert pairs(world) == [], "which label it has cannot be told"


async def test_recreated_pod_seen_as_an_update_uses_its_own_label(env: Env) -> None:
    async with controlled(env, before=everything) as world:
        await wait_for_sync()
        with world.faults.hold(resource="pods"):
            await world.delete(f"{PODS}/a", grace=0)
            await pod(world, "a", OTHER)
            await wait_for_sync()
        await wait_for_sync()
        assert pairs(world) == []


async def test_conflict_over_two_volumes_is_one_metric_sample(world: World) -> None:
    """Duplicate samples would make the whole exposition invalid."""
    await driver(world)
    for name, handle in (("data", "h"), ("more", "h2")):
        owner = await claim(world, name)
        await volume(world, owner, handle)
        await bind(world, owner)
    for name, level in (("a", ONE), ("b", OTHER)):
        volumes = [{"name": item, "persistentVolumeClaim": {"claimName": item}} for item in ("data", "more")]
        mounts = [{"name": item, "mountPath": f"/{item}"} for item in ("data", "more")]
        spec = {
            "securityContext": {"seLinuxOptions": {"level": level}},
            "containers": [{"name": "main", "image": "pause", "volumeMounts": mounts}],
            "volumes": volumes,
        }
        await world.request("POST", PODS, {"metadata": {"name": name}, "spec": spec})
    await wait_for_sync()
    assert pairs(world) == ["SELinuxLabel a b", "SELinuxLabel b a"]


async def test_stopped_controller_exposes_no_conflicts(env: Env) -> None:
    async with node_world.world(env) as world:
        await everything(world)
        task = await world.start(DESCRIPTOR)
        await wait_for_sync()
        assert len(pairs(world)) == 2
        task.cancel()
        await wait_for_sync()
        assert pairs(world) == []
        assert METRIC not in world.metrics.exposition()
