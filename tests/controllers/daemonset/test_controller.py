"""DaemonSet syncs, one at a time. Scenarios mirror v1.36 ``pkg/controller/daemon/daemon_controller_test.go``,
``update_test.go`` and ``pkg/controller/history/controller_history_test.go``.

The test writes the statuses of pods, and calls each sync.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.controllers.api_world import NODES, PODS, REVISIONS, Doc
from tests.controllers.daemonset.world import AGENT, World, uncontrolled
from tests.tables import cases

from pilothouse.api.core import Pod
from pilothouse.api.meta import LabelSelector
from pilothouse.client.errors import ApiError
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.workloads.daemonset.controller import PodWriteErrors
from pilothouse.controllers.workloads.daemonset.pod_template import target_node
from pilothouse.env import Env
from pilothouse.machinery.template_hash import template_hash

BLUE = {"color": "blue", "speed": "fast"}

# Updates, one sync at a time. Pods that were never bound are removed as soon as they are deleted, as upstream's fakes.


class Syncs:
    """Runs one sync at a time, and returns its actions."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._seen = (0, 0)

    async def __call__(self) -> tuple[int, int]:
        """(creates, deletes) of one sync."""
        with contextlib.suppress(PodWriteErrors):
            await self.world.controller.reconcile("default/agent")
        await self.world.wait_for_sync(0.1)
        now = len(self.world.sent("create", "pods")), len(self.world.sent("delete", "pods"))
        before, self._seen = self._seen, now
        return now[0] - before[0], now[1] - before[1]

    async def sync_twice(self) -> tuple[int, int]:
        """The actions of two syncs: upstream's fake pods are removed immediately, ours once the event has arrived."""
        first, second = await self(), await self()
        return first[0] + second[0], first[1] + second[1]

    async def image(self, number: int, **rolling: Any) -> None:
        """Change the image of the template and the update strategy."""
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0, **rolling}}
        spec = {"template": {"spec": {"containers": [{"name": "main", "image": f"pause:{number}"}]}}}
        await self.world.merge(AGENT, {"spec": {**spec, "updateStrategy": strategy}})
        await self.world.wait_for_sync(0.1)

    async def ready(
        self, count: int = 1000, *, ready: bool = True, which: Callable[[Doc], bool] = lambda _pod: True
    ) -> None:
        """Set this many pods to ready or not ready."""
        matching = [pod for pod in await self.world.pods() if is_ready(pod) != ready and which(pod)]
        for pod in matching[:count]:
            await self.world.report(pod["metadata"]["name"], ready=ready)
        await self.world.wait_for_sync(0.1)


def is_ready(pod: Doc) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod["status"].get("conditions", ())
    )


def node_of(pod: Doc) -> str:
    return target_node(msgspec.convert(pod, Pod))


async def max_unavailable_is_respected(sync: Syncs) -> None:
    """TestDaemonSetUpdatesPods."""
    await sync.ready()
    await sync.image(2, maxUnavailable=2)
    for expected in [(0, 2), (2, 0)], [(0, 2), (2, 0)], [(0, 1), (1, 0)]:
        assert [await sync(), await sync()] == expected
        await sync.ready()
    assert await sync() == (0, 0)


async def max_surge_is_respected(sync: Syncs) -> None:
    """TestDaemonSetUpdatesPodsWithMaxSurge."""
    await sync.ready()
    await sync.image(2, maxSurge=2)
    for expected in (2, 0), (2, 2), (1, 2), (0, 1):
        assert await sync.sync_twice() == expected
        await sync.ready()


async def surge_with_a_node_that_is_no_longer_tolerated(sync: Syncs) -> None:
    """TestDaemonSetUpdatesPodsNotMatchTainstWithMaxSurge."""
    await sync.world.taint("n0", ("node-role.kubernetes.io/control-plane", "NoSchedule"))
    await sync.ready()
    await sync.image(2, maxSurge=1)
    for expected in (1, 1), (1, 1), (1, 1), (1, 1), (0, 1):
        assert await sync.sync_twice() == expected
        await sync.ready()


async def unready_new_pods_block_the_update(sync: Syncs) -> None:
    """TestDaemonSetUpdatesWhenNewPodIsNotReady."""
    await sync.ready()
    await sync.image(2, maxUnavailable=3)
    assert [await sync(), await sync(), await sync()] == [(0, 3), (3, 0), (0, 0)]


async def unready_pods_are_updated_first(sync: Syncs) -> None:
    """TestDaemonSetUpdatesSomeOldPodsNotReady."""
    await sync.ready()
    for number in (2, 3):
        await sync.image(number, maxUnavailable=2)
        assert [await sync(), await sync(), await sync()] == [(0, 2), (2, 0), (0, 0)]
    assert sum(is_ready(pod) for pod in await sync.world.pods()) == 3


async def ready_pods_are_kept_over_many_updates(sync: Syncs) -> None:
    """TestDaemonSetUpdatesSaveOldHealthyPods, with 5 nodes in place of 20."""
    await sync.ready()
    await sync.image(2, maxUnavailable=2)
    assert [await sync(), await sync(), await sync()] == [(0, 2), (2, 0), (0, 0)]
    kept = {pod["metadata"]["uid"] for pod in await sync.world.pods() if is_ready(pod)}
    for number, bound in enumerate((1, 2, 1, 2, 1), start=3):
        await sync.image(number, maxUnavailable=bound)
        assert [await sync(), await sync(), await sync()] == [(0, 2), (2, 0), (0, 0)]
        assert {pod["metadata"]["uid"] for pod in await sync.world.pods() if is_ready(pod)} == kept
    await sync.image(9, maxUnavailable=3)
    assert [await sync(), await sync(), await sync()] == [(0, 3), (3, 0), (0, 0)]
    assert sum(is_ready(pod) for pod in await sync.world.pods()) == 2


async def all_unready_old_pods_are_deleted(sync: Syncs) -> None:
    """TestDaemonSetUpdatesAllOldPodsNotReady."""
    await sync.image(2, maxUnavailable=3)
    assert [await sync(), await sync(), await sync()] == [(0, 5), (5, 0), (0, 0)]


async def all_unready_old_pods_are_replaced_with_surge(sync: Syncs) -> None:
    """TestDaemonSetUpdatesAllOldPodsNotReadyMaxSurge."""
    world = sync.world
    await sync.image(2, maxSurge=3)
    assert [await sync(), await sync()] == [(5, 0), (0, 5)]
    await sync.ready()
    await world.merge(AGENT, {"spec": {"minReadySeconds": 15}})
    await sync.image(3, maxSurge=3)
    await world.wait_for_sync(100)
    assert await sync() == (3, 0)

    def new(pod: Doc) -> bool:
        return bool(pod["spec"]["containers"][0]["image"] == "pause:3")

    surged = {node_of(pod) for pod in await world.pods() if new(pod)}
    await sync.ready(2, which=new)
    await sync.ready(1, ready=False, which=lambda pod: not new(pod) and node_of(pod) not in surged)
    await world.wait_for_sync(10)
    assert await sync() == (1, 0), "the new ones are ready, but not for long enough"
    await world.wait_for_sync(10)
    assert await sync() == (1, 3)
    await sync.ready(3, which=new)
    await world.wait_for_sync(20)
    assert [await sync(), await sync()] == [(0, 2), (0, 0)]


async def unchanged_template(sync: Syncs) -> None:
    """TestDaemonSetUpdatesNoTemplateChanged."""
    await sync.image(1, maxUnavailable=3)
    assert await sync() == (0, 0)


@pytest.mark.parametrize(
    "scenario",
    [
        max_unavailable_is_respected,
        max_surge_is_respected,
        surge_with_a_node_that_is_no_longer_tolerated,
        unready_new_pods_block_the_update,
        unready_pods_are_updated_first,
        ready_pods_are_kept_over_many_updates,
        all_unready_old_pods_are_deleted,
        all_unready_old_pods_are_replaced_with_surge,
        unchanged_template,
    ],
)
async def test_rolling_update_sync_by_sync(env: Env, scenario: Callable[[Syncs], Awaitable[None]]) -> None:
    async with idle(env, nodes=5) as world:
        await world.create_set(updateStrategy={"type": "OnDelete"})
        await world.wait_for_sync(0.1)
        sync = Syncs(world)
        assert await sync() == (5, 0)
        await scenario(sync)


@contextlib.asynccontextmanager
async def idle(env: Env, *, nodes: int, labels: Doc | None = None) -> AsyncIterator[World]:
    """An environment in which the test calls each sync, and no pods run."""
    async with uncontrolled(env) as world:
        world.kubelets = False
        await world.add_nodes(nodes, labels=labels)
        await world.start(work=False)
        yield world


# One sync


def existing(node: str, number: int, *, matching: bool = True, count: int = 1) -> list[Doc]:
    """Pods on a node that the DaemonSet controls."""
    app = "agent" if matching else "other"
    return [
        {
            "metadata": {"name": f"{node}-{app}-{number}-{item}", "labels": {"app": app}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "pause:1"}]},
        }
        for item in range(count)
    ]


@cases(
    "selector, rolling, pods, expected",
    {
        "TestDealsWithExistingPods": (
            None,
            None,
            [
                *existing("n1", 0),
                *existing("n2", 0, count=2),
                *existing("n3", 0, count=5),
                *existing("n4", 0, matching=False, count=2),
            ],
            (2 + 5, 5),
        ),
        "TestSurgeDealsWithExistingPods": (
            None,
            {"maxSurge": 1, "maxUnavailable": 0},
            [
                *existing("n1", 0),
                *existing("n2", 0, count=2),
                *existing("n3", 0, count=5),
                *existing("n4", 0, matching=False, count=2),
            ],
            (2 + 5, 5),
        ),
        "TestSelectorDaemonDeletesUnselectedPods": (
            BLUE,
            None,
            [
                *existing("n0", 0, matching=False, count=2),
                *existing("n1", 0, count=3),
                *existing("n1", 0, matching=False),
                *existing("n4", 0),
            ],
            (5, 4),
        ),
        "TestSelectorDaemonDealsWithExistingPods": (
            BLUE,
            None,
            [
                *existing("n0", 0),
                *existing("n1", 0, count=3),
                *existing("n1", 0, matching=False, count=2),
                *existing("n2", 0, count=4),
                *existing("n6", 0, count=13),
                *existing("n7", 0, matching=False, count=4),
                *existing("n9", 0),
                *existing("n9", 0, matching=False),
            ],
            (3, 20),
        ),
    },
)
async def test_existing_pods_are_adopted_released_or_deleted(
    env: Env, selector: Doc | None, rolling: Doc | None, pods: list[Doc], expected: Any
) -> None:
    """Missing pods are created, and of several pods on a node the oldest is kept. Pods on nodes that should not run one
    are deleted. Pods that no longer match are released. Ten nodes, of which the last five are blue."""
    async with idle(env, nodes=5) as world:
        await world.add_nodes(5, first=5, labels=BLUE)
        strategy = {"type": "OnDelete"} if rolling is None else {"type": "RollingUpdate", "rollingUpdate": rolling}
        template = {} if selector is None else {"nodeSelector": selector}
        owner = await world.create_set(template=template, updateStrategy=strategy)
        hash_label = {"controller-revision-hash": template_hash(msgspec.json.encode(owner["spec"]["template"]))}
        reference = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": owner["metadata"]["uid"]}
        for item in pods:
            meta = {**item["metadata"], "ownerReferences": [{**reference, "controller": True}]}
            meta["labels"] = {**meta["labels"], **hash_label}
            await world.request("POST", PODS, {**item, "metadata": meta})
        await world.wait_for_sync(0.1)
        assert await Syncs(world)() == expected
        owned = {pod["metadata"]["labels"]["app"] for pod in await world.pods()}
        assert owned == {"agent"}


async def test_pods_have_node_affinity_and_no_node_name(env: Env) -> None:
    async with idle(env, nodes=5) as world:
        await world.create_set()
        await world.wait_for_sync(0.1)
        assert await Syncs(world)() == (5, 0)
        pods = await world.pods()
        assert sorted(node_of(pod) for pod in pods) == ["n0", "n1", "n2", "n3", "n4"]
        assert not any(pod["spec"].get("nodeName") for pod in pods)


async def test_no_pods_without_nodes(env: Env) -> None:
    async with idle(env, nodes=0) as world:
        await world.create_set()
        await world.wait_for_sync(0.1)
        assert await Syncs(world)() == (0, 0)
        assert (await world.status())["desiredNumberScheduled"] == 0


async def test_slow_start_stops_when_the_quota_is_exceeded(env: Env) -> None:
    """Ten of a hundred pods are allowed: batches of 1, 2, 4, and 3 of 8. No expectations remain."""
    async with idle(env, nodes=100) as world:
        allowed = 10
        denied = world.faults.add(
            Rule(fail(403), verb="create", resource="pods", when=lambda _call, _request: len(created_pods()) >= allowed)
        )

        def created_pods() -> list[Any]:
            return world.sent("create", "pods")

        await world.create_set()
        await world.wait_for_sync(0.1)
        assert await Syncs(world)() == (allowed, 0)
        assert denied.hits <= 5
        status = await world.status()
        assert status["desiredNumberScheduled"] == 100
        assert status["currentNumberScheduled"] == status["updatedNumberScheduled"] == allowed
        assert world.controller._expectations.satisfied("default/agent")


@cases(
    "creates, statuses, expected",
    {
        "the create fails": (True, False, PodWriteErrors),
        "the status fails": (False, True, ApiError),
        "both fail: the create error is raised": (True, True, PodWriteErrors),
    },
)
async def test_first_of_two_errors_is_raised(
    env: Env, creates: bool, statuses: bool, expected: type[Exception]
) -> None:
    async with idle(env, nodes=1) as world:
        if creates:
            world.faults.add(Rule(fail(403), verb="create", resource="pods"))
        status = Rule(fail(500), verb="update", resource="daemonsets.apps", subresource="status")
        if statuses:
            world.faults.add(status)
        await world.create_set()
        await world.wait_for_sync(0.1)
        with pytest.raises(expected):
            await world.controller.reconcile("default/agent")
        assert (status.hits, len(world.sent("update", "daemonsets/status"))) == ((2, 0) if statuses else (0, 1))


@cases(
    "updates, gets, sent",
    {
        "first attempt succeeds": (0, 0, (1, 0)),
        "retry succeeds": (1, 0, (2, 1)),
        "both attempts fail": (2, 0, (2, 1)),
        "reading again fails": (1, 1, (1, 1)),
    },
)
async def test_status_update_is_retried_on_the_live_object(
    env: Env, updates: int, gets: int, sent: tuple[int, int]
) -> None:
    async with idle(env, nodes=1) as world:
        await world.create_set()
        await world.wait_for_sync(0.1)
        put = Rule(fail(409), verb="update", resource="daemonsets.apps", subresource="status", times=updates)
        get = Rule(fail(500), verb="get", resource="daemonsets.apps", times=gets)
        for rule, times in (put, updates), (get, gets):
            if times:
                world.faults.add(rule)
        with contextlib.nullcontext() if updates < 2 and not gets else pytest.raises(ApiError):
            await world.controller.reconcile("default/agent")
        puts = put.hits + len(world.sent("update", "daemonsets/status"))
        assert (puts, get.hits + len(world.sent("get", "daemonsets"))) == sent


async def test_node_conditions_resources_and_ports_are_ignored(env: Env) -> None:
    """Only name, labels and taints of a node matter; the rest is checked by the scheduler."""
    async with idle(env, nodes=1) as world:
        conditions = [
            {"type": "Ready", "status": "False"},
            {"type": "NetworkUnavailable", "status": "True"},
            {"type": "MemoryPressure", "status": "True"},
        ]
        await world.merge(f"{NODES}/n0/status", {"status": {"conditions": conditions, "allocatable": {"cpu": "10m"}}})
        container = {
            "name": "main",
            "image": "pause:1",
            "ports": [{"containerPort": 666, "hostPort": 666}],
            "resources": {"requests": {"cpu": "500m", "memory": "200M"}},
        }
        foreign_pod = {"metadata": {"name": "foreign"}, "spec": {"nodeName": "n0", "containers": [container]}}
        await world.request("POST", PODS, foreign_pod)
        await world.create_set(template={"containers": [container]})
        await world.wait_for_sync(0.1)
        sync = Syncs(world)
        assert await sync() == (1, 0)
        assert await sync() == (0, 0), "nor does its own pod on that port matter"


async def test_empty_selector_creates_no_pods(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    """Current API servers reject such a DaemonSet; an older one may have stored it."""
    async with idle(env, nodes=1) as world:
        await world.create_set()
        await world.wait_for_sync(0.1)
        owners = world.controller._owners
        owner = owners.get("default/agent")
        assert owner is not None
        spec_selecting_all = msgspec.structs.replace(owner.spec, selector=LabelSelector())
        raw = owners.raw("default/agent")
        owners.put("default/agent", msgspec.structs.replace(owner, spec=spec_selecting_all), raw)
        recorded: list[str] = []
        monkeypatch.setattr(world.controller._recorder, "event", lambda _obj, *args: recorded.append(args[1]))
        assert await Syncs(world)() == (0, 0)
        assert recorded == ["SelectingAll"]
        assert world.sent("update", "daemonsets/status") == []


async def test_owner_with_a_deletion_timestamp_on_the_server_adopts_nothing(env: Env) -> None:
    async with idle(env, nodes=5) as world:
        await world.create_set()
        spec = {"nodeName": "n0", "containers": [{"name": "main", "image": "pause:1"}]}
        await world.wait_for_sync(0.1)
        with world.faults.hold(resource="daemonsets"):
            await world.request("DELETE", AGENT, {"propagationPolicy": "Foreground"})
            await world.request("POST", PODS, {"metadata": {"name": "mine", "labels": {"app": "agent"}}, "spec": spec})
            await world.wait_for_sync(0.1)
            with pytest.raises(Exception, match="has just been deleted"):
                await world.controller.reconcile("default/agent")
        assert world.sent("create", "pods") == world.sent("patch", "pods") == []


async def test_recreated_set_has_no_expectations_of_its_predecessor(env: Env) -> None:
    async with idle(env, nodes=1) as world:
        await world.create_set()
        await world.wait_for_sync(0.1)
        with world.faults.hold(resource="pods"):
            await world.controller.reconcile("default/agent")
            assert not world.controller._expectations.satisfied("default/agent")
            await world.request("DELETE", AGENT)
            await world.wait_for_sync(0.1)
            assert world.controller._expectations.get("default/agent") is None
            await world.create_set()
            await world.wait_for_sync(0.1)
            await world.controller.reconcile("default/agent")
            assert not world.controller._expectations.satisfied("default/agent")
        assert len(world.sent("create", "pods")) == 2


# Revisions


async def test_controller_revisions_are_claimed_in_their_namespace_only(env: Env) -> None:
    """Matching orphans in the namespace are adopted; a controlled revision that no longer matches is released."""
    async with idle(env, nodes=0) as world:
        owner = await world.create_set()
        await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
        owner_reference = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "agent",
            "uid": owner["metadata"]["uid"],
        }
        other_reference = {**owner_reference, "name": "broom", "uid": "somebody"}

        async def revision(name: str, reference: Doc | None, app: str = "agent", namespace: str = "default") -> None:
            references = [] if reference is None else [{**reference, "controller": True}]
            meta = {"name": name, "labels": {"app": app}, "ownerReferences": references}
            path = REVISIONS.replace("/default/", f"/{namespace}/")
            await world.request("POST", path, {"metadata": meta, "data": {"x": name}, "revision": 1})

        await revision("mine", owner_reference)
        await revision("orphan", None)
        await revision("yours", other_reference)
        await revision("stranger", None, "other")
        await revision("lost", owner_reference, "other")
        await revision("far", None, namespace="elsewhere")
        await world.wait_for_sync(0.1)
        await world.controller.reconcile("default/agent")
        revisions = (await world.request("GET", "/apis/apps/v1/controllerrevisions"))["items"]
        owners = {
            item["metadata"]["name"]: [owner["name"] for owner in item["metadata"].get("ownerReferences", ())]
            for item in revisions
            if item["data"].get("x")
        }
        assert owners == {
            "mine": ["agent"], "orphan": ["agent"], "yours": ["broom"], "stranger": [], "lost": [], "far": []
        }  # fmt: skip


@pytest.mark.parametrize("owned", [True, False], ids=["release", "adoption"])
async def test_revision_deleted_while_being_claimed_is_no_error(env: Env, owned: bool) -> None:
    """The patch returns NotFound, which is ignored."""
    async with idle(env, nodes=0) as world:
        owner = await world.create_set()
        owner_reference = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "agent",
            "uid": owner["metadata"]["uid"],
        }
        references = [{**owner_reference, "controller": True}] if owned else []
        meta = {"name": "r", "labels": {"app": "other" if owned else "agent"}, "ownerReferences": references}
        await world.request("POST", REVISIONS, {"metadata": meta, "data": {"x": 1}, "revision": 1})
        await world.wait_for_sync(0.1)
        with world.faults.hold(resource="controllerrevisions"):
            await world.request("DELETE", f"{REVISIONS}/r")
            await world.controller.reconcile("default/agent")
        assert len(world.sent("patch", "controllerrevisions")) == 1
        assert [number for _hash, number in await world.revisions()] == [1]
