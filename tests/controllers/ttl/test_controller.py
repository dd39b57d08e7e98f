"""TTL by cluster size, and the annotation. Rows mirror ``pkg/controller/ttl/ttl_controller_test.go`` of v1.36."""

import asyncio

from tests.controllers.node_world import NODES, World, started
from tests.tables import cases

from pilothouse.client.interceptor import Rule, delay, fail
from pilothouse.controllers.node.ttl import DESCRIPTOR
from pilothouse.controllers.node.ttl.controller import (
    ANNOTATION,
    STEPS,
    is_up_to_date,
    step_after_add,
    step_after_delete,
)


@cases(
    "step, nodes, after",
    {
        "the first node": (0, 1, 0),
        "100 are the most of step 0": (0, 100, 0),
        "101 nodes: step 1": (0, 101, 1),
        "one step per node change": (0, 5000, 1),
        "92 nodes stay on step 1": (1, 92, 1),
        "500 are the most of step 1": (1, 500, 1),
        "501 nodes: step 2": (1, 501, 2),
        "1001: step 3": (2, 1001, 3),
        "2001: step 4": (3, 2001, 4),
        "highest step": (4, 100_000, 4),
    },
)
def test_desired_ttl_of_a_growing_cluster(step: int, nodes: int, after: int) -> None:
    """TestDesiredTTL, the rows that add a node."""
    assert step_after_add(step, nodes) == after


@cases(
    "step, nodes, after",
    {
        "no nodes: step 0": (0, 0, 0),
        "100 nodes stay on step 1": (1, 100, 1),
        "90 nodes stay on step 1": (1, 90, 1),
        "89 may not": (1, 89, 0),
        "449: step 1": (2, 449, 1),
        "900 nodes stay on step 3": (3, 900, 3),
        "1799: step 3": (4, 1799, 3),
        "one step down per node change": (4, 0, 3),
    },
)
def test_desired_ttl_of_a_shrinking_cluster(step: int, nodes: int, after: int) -> None:
    """TestDesiredTTL, the rows that delete a node."""
    assert step_after_delete(step, nodes) == after


def test_ttl_boundaries() -> None:
    assert [step.seconds for step in STEPS] == [0, 15, 30, 60, 300]


@cases(
    "annotations, seconds, expected",
    {
        "missing, TTL 0 (TestPatchNode)": ({}, 0, False),
        "missing": ({}, 15, False),
        "missing, step 2": ({}, 30, False),
        "different, with other annotations": ({"a": "b", ANNOTATION: "0"}, 10, False),
        "equal, with other annotations": ({"a": "b", ANNOTATION: "10"}, 10, True),
        "the number of a smaller cluster": ({ANNOTATION: "0"}, 60, False),
        "equal": ({ANNOTATION: "60"}, 60, True),
        "the number of a larger cluster": ({ANNOTATION: "60"}, 30, False),
        "equal number in another notation": ({ANNOTATION: "+015"}, 15, True),
        "invalid number": ({ANNOTATION: "soon"}, 15, False),
        "underscore in the number": ({ANNOTATION: "1_5"}, 15, False),
        "empty": ({ANNOTATION: ""}, 0, False),
    },
)
def test_update_node_if_needed(annotations: dict[str, str], seconds: int, expected: bool) -> None:
    """TestUpdateNodeIfNeeded."""
    assert is_up_to_date(annotations, seconds) is expected


world = started(DESCRIPTOR)


async def ttl(world: World, name: str) -> str | None:
    node: str | None = (await world.must_get(f"{NODES}/{name}"))["metadata"].get("annotations", {}).get(ANNOTATION)
    return node


async def test_node_of_a_small_cluster_gets_ttl_zero_in_one_patch(world: World) -> None:
    """Traces 13: PATCH with the annotation alone."""
    await world.node("n1", annotations={"mine": "kept"})
    await asyncio.sleep(1)
    assert (await world.must_get(f"{NODES}/n1"))["metadata"]["annotations"] == {"mine": "kept", ANNOTATION: "0"}
    assert world.requests() == ["patch nodes n1"]
    assert world.bodies("patch", "nodes") == [{"metadata": {"annotations": {ANNOTATION: "0"}}}]
    await world.merge(f"{NODES}/n1", {"metadata": {"annotations": {ANNOTATION: "77"}}})
    await asyncio.sleep(1)
    assert await ttl(world, "n1") == "0", "what others write is put right"


async def test_node_101_changes_the_ttl_of_new_and_updated_nodes(world: World) -> None:
    for number in range(101):
        await world.node(f"n{number:03}")
    await asyncio.sleep(20)
    assert await ttl(world, "n100") == "15"
    assert await ttl(world, "n000") == "0"
    await world.merge(f"{NODES}/n000", {"metadata": {"labels": {"a": "b"}}})
    for number in range(100, 89, -1):
        await world.delete(f"{NODES}/n{number:03}")
    await asyncio.sleep(5)
    assert await ttl(world, "n000") == "15", "90 nodes may stay on the step"
    await world.delete(f"{NODES}/n089")
    await world.merge(f"{NODES}/n000", {"metadata": {"labels": {"a": "c"}}})
    await asyncio.sleep(5)
    assert await ttl(world, "n000") == "0"


async def test_failed_patch_is_retried(world: World) -> None:
    world.faults.add(Rule(fail(500), verb="patch", resource="nodes", nth=1))
    await world.node("n1")
    await asyncio.sleep(5)
    assert await ttl(world, "n1") == "0"


async def test_cache_behind_the_own_write_is_awaited(world: World) -> None:
    """Upstream writes once more."""
    world.faults.add(Rule(delay(3.0), verb="watch", resource="nodes"))
    await world.request("POST", NODES, {"metadata": {"name": "n1"}})
    await asyncio.sleep(1)
    await world.merge(f"{NODES}/n1", {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(20)
    assert world.requests() == ["patch nodes n1"]
    await world.merge(f"{NODES}/n1", {"metadata": {"annotations": {ANNOTATION: None}}})
    await asyncio.sleep(20)
    assert await ttl(world, "n1") == "0"
    await world.delete(f"{NODES}/n1")
    await world.request("POST", NODES, {"metadata": {"name": "n1"}})
    await asyncio.sleep(20)
    assert await ttl(world, "n1") == "0"
