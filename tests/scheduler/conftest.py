"""Fixtures and requests of tests that run the whole scheduler against the embedded API server, in virtual time."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.nodes.world import World
from tests.nodes.world import world as run_world

from pilothouse.api.core import PODS
from pilothouse.api.kinds import Kind
from pilothouse.env import Env

PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, dict).raw


@pytest.fixture
async def world(env: Env) -> AsyncIterator[World]:
    """An API server with a scheduler."""
    async with run_world(env, scheduler=True) as running:
        yield running


@pytest.fixture
async def world_without_scheduler(env: Env) -> AsyncIterator[World]:
    """An API server; the test starts the scheduler."""
    async with run_world(env) as running:
        yield running


async def create_priority_class(world: World, name: str, value: int, **fields: Any) -> None:
    """Create a PriorityClass."""
    await world.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value, **fields})


async def create_priority_classes(world: World) -> None:
    """The classes high, middle and polite, which is as high but never preempts."""
    await create_priority_class(world, "high", 1000)
    await create_priority_class(world, "middle", 100)
    await create_priority_class(world, "polite", 1000, preemptionPolicy="Never")


async def assigned_nodes(world: World, prefix: str = "") -> dict[str, str]:
    """The node name of each pod with this name prefix."""
    pods = (await world.client.list(PODS, "default")).items
    return {pod.metadata.name: pod.spec.node_name for pod in pods if pod.metadata.name.startswith(prefix)}
