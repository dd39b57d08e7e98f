"""Bugs that upstream had or has, each with and without the guard against it.

The variant without the guard is made here, by patching it away; there the invariant must be broken, or the test would
show nothing.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.scenarios.test_garbage import KINDS
from tests.scenarios.test_garbage import OPTIONS as GARBAGE_OPTIONS
from tests.scenarios.users import NAMESPACE, SETS, User, replica_set
from tests.scenarios.variants import broken_without

from pilothouse.api.meta import Object
from pilothouse.client.interceptor import Rule, time_out
from pilothouse.controllers.cleanup.garbage_collector import graph
from pilothouse.controllers.cleanup.garbage_collector.attempts import AbsentOwners
from pilothouse.controllers.shared.own_writes import OwnWrites
from pilothouse.controllers.workloads.replicaset import ReplicaSetOptions
from pilothouse.runtime import PodControl, UidTrackingExpectations
from pilothouse.sim import Invariant, Simulation, SimulationOptions, Violation
from pilothouse.sim.invariants.garbage import Garbage
from pilothouse.sim.invariants.replicasets import ReplicaSets

WEB = f"{SETS}/web"


def options(*, consistency: bool = True) -> SimulationOptions:
    chosen = ReplicaSetOptions(burst=5, wait_for_own_writes=consistency)
    return SimulationOptions(controllers=("replicaset",), controller_options={"replicaset-controller": chosen})


def replica_sets() -> Sequence[Invariant]:
    return (ReplicaSets(burst=5),)


pytestmark = pytest.mark.simulation(options=options(), invariants=replica_sets)


def garbage() -> Sequence[Invariant]:
    return (Garbage(KINDS),)


async def make(user: User, replicas: int) -> None:
    await user.ask("POST", SETS, replica_set("web", replicas, {"app": "web"}))


async def wake(user: User, how: str) -> None:
    await user.merge(WEB, {"metadata": {"annotations": {"wake": how}}})


@broken_without(fails="active pod number 4", instead=options(consistency=False), options=options(consistency=True))
async def test_129795_a_cache_that_stays_old_for_more_than_five_minutes(simulation: Simulation) -> None:
    """kubernetes#129795: expectations expire while the pods' watch lags, and the pods are made a second time."""
    user = User(simulation.user)
    with simulation.held_watches("pods"):
        await make(user, 3)
        await asyncio.sleep(310.0)
        await wake(user, "after the expectation has expired")
        await asyncio.sleep(60.0)
    await simulation.settle()


@broken_without((OwnWrites, "_lower_passed_creations", lambda _self, _key: None), fails="there are 0 pods of 3")
async def test_129795_pods_that_came_and_went_between_two_lists(simulation: Simulation) -> None:
    """kubernetes#129795: the watch drops, the pods are deleted before the next list, and there is no event of them."""
    user = User(simulation.user)
    with simulation.held_watches("pods"):
        await make(user, 3)
        await asyncio.sleep(1.0)
        for pod in await user.items(f"{NAMESPACE}/pods"):
            await user.ask("DELETE", f"{NAMESPACE}/pods/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
        simulation.end_watches("pods", "gone")
    await asyncio.sleep(30.0)
    await wake(user, "once the cache is filled anew")
    await asyncio.sleep(30.0)
    found = len(await user.items(f"{NAMESPACE}/pods"))
    if found != 3:
        raise Violation(f"a minute later there are {found} pods of 3")


create_pod = PodControl.create_pod


async def swallow(self: PodControl, *args: Any, **kwargs: Any) -> Object:
    try:
        return await create_pod(self, *args, **kwargs)
    except TimeoutError:
        return Object()


@broken_without((PodControl, "create_pod", swallow), fails="there are 0 pods of 1")
async def test_67662_a_create_that_timed_out(simulation: Simulation) -> None:
    """kubernetes#67662: the timeout was taken for a success that an event would follow; the replica was never made."""
    simulation.add_rule(Rule(time_out(sent=False), verb="create", resource="pods", nth=1))
    user = User(simulation.user)
    await make(user, 1)
    await asyncio.sleep(60.0)
    found = len(await user.items(f"{NAMESPACE}/pods"))
    if found != 1:
        raise Violation(f"a minute later there are {found} pods of 1")
    await simulation.settle()


@broken_without(
    (UidTrackingExpectations, "satisfied", lambda _self, _key: True),
    fails="active pod number 2",
    options=options(consistency=False),
)
async def test_41675_a_slow_pod_cache(simulation: Simulation) -> None:
    """kubernetes#41675: woken before its cache showed the pod it had made, the controller made one too many."""
    user = User(simulation.user)
    with simulation.held_watches("pods"):
        await make(user, 1)
        await asyncio.sleep(1.0)
        await wake(user, "too early")
        await asyncio.sleep(1.0)
    await simulation.settle()


ABSENT: dict[str, None] = {}
"""What the variant of 65200 takes for absent, by uid."""


@broken_without(
    (graph, "partition", lambda dependents, _owner: (list(dependents), [])),
    (AbsentOwners, "add", lambda _self, owner: ABSENT.update({owner.uid: None})),
    (AbsentOwners, "__contains__", lambda _self, owner: owner.uid in ABSENT),
    fails="configmaps/kube-public/good is deleted by the garbage collector; its living owners",
    options=GARBAGE_OPTIONS,
    invariants=garbage,
)
async def test_65200_an_owner_in_another_namespace(simulation: Simulation) -> None:
    """kubernetes#65200: a child with a wrong reference is seen first, its owner is looked for in the wrong namespace
    and taken for absent, by uid; the living owner's good children went with it."""
    user = User(simulation.user)
    simulation.kill(down=5.0)
    here, there = "/api/v1/namespaces/default", "/api/v1/namespaces/kube-public"
    owner = await user.ask("POST", f"{there}/secrets", {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": owner["metadata"]["uid"]}
    meta = {"name": "bad", "ownerReferences": [reference]}
    await user.ask("POST", f"{here}/configmaps", {"metadata": meta})
    await user.ask("POST", f"{there}/configmaps", {"metadata": {**meta, "name": "good"}})
    with simulation.held_watches("secrets"):
        await asyncio.sleep(60.0)
    await simulation.settle()
    assert await user.get(f"{here}/configmaps/bad") is None
    assert await user.get(f"{there}/configmaps/good") is not None
