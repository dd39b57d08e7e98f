"""Thousands of objects for comparisons: create them, count those in the desired state, count the writes.

They are counted with a watch: a list of thousands every fifth of a second would cost the API server more than what is
measured. Used by ``bench.claims`` and ``bench.namespaces``.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Generic, TypeVar

from tests.real_cluster import RealCluster, running

from bench.rollouts import requests_answered
from pilothouse.api.kinds import Kind
from pilothouse.client import Client
from pilothouse.client.connect import connect
from pilothouse.env import Env, TaskGroup
from pilothouse.runtime import SharedInformer, object_key
from pilothouse.runtime.cache import Cached

T = TypeVar("T", bound=Cached)

CONCURRENCY = 16
_PATIENCE_SECONDS = 600.0


class Tally(Generic[T]):
    """How many objects of a kind are, or have been, as somebody waits for them to be."""

    def __init__(
        self, client: Client, env: Env, kind: Kind[T], is_done: Callable[[T], bool], *, field_selector: str = ""
    ) -> None:
        self._what = kind.group_resource
        self._is_done = is_done
        self._done: set[str] = set()
        self._goal = 0
        self._reached = asyncio.Event()
        self._informer = SharedInformer(client, env, kind, field_selector=field_selector, stream_first=False)
        self._informer.add_handler(
            on_add=lambda found, _initial: self._see(found), on_update=lambda _old, found: self._see(found)
        )

    async def start(self, group: TaskGroup) -> None:
        """Begin to count. Returns when it is known what is there already."""
        self._informer.start(group)
        await self._informer.wait_synced()

    async def reach(self, goal: int) -> None:
        """Wait until so many are."""
        self._goal = goal
        self._reached.clear()
        if len(self._done) >= goal:
            return
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._reached.wait()
        except TimeoutError:
            text = f"after {_PATIENCE_SECONDS:.0f} s {len(self._done)} of {goal} {self._what} are as they should be"
            raise AssertionError(text) from None

    def _see(self, found: T) -> None:
        if self._is_done(found):
            self._done.add(object_key(found.metadata))
        if len(self._done) >= self._goal:
            self._reached.set()


@contextlib.asynccontextmanager
async def connected(cluster: RealCluster) -> AsyncIterator[tuple[Client, Env, TaskGroup]]:
    """A client of the administrator's without throttling, and a group for what runs as long as the block."""
    env = Env()
    client = Client(connect(env, kubeconfig=str(cluster.kubeconfig)), env)
    try:
        async with TaskGroup("bench") as group:
            yield client, env, group
            group.cancel()
    finally:
        await client.close()


async def create_all(client: Client, kind: Kind[T], bodies: Sequence[dict[str, Any]], namespace: str = "") -> None:
    """Make them, a few at once, so that a manager has something to keep up with."""
    for first in range(0, len(bodies), CONCURRENCY):
        some = bodies[first : first + CONCURRENCY]
        await asyncio.gather(*(client.create(kind.raw, body, namespace) for body in some))


def written(cluster: RealCluster, verb: str, *resources: str) -> int:
    """How many requests with this verb for these resources, or for parts of them, the API server has answered."""
    total = 0
    for sort, count in requests_answered(cluster).items():
        asked, resource, _code = sort.split()
        if asked == verb and resource.partition("/")[0] in resources:
            total += count
    return total


def each_on_its_own(
    measure: Callable[[RealCluster, str, str], dict[str, float]],
) -> Callable[[str, str], dict[str, float]]:
    """``measure(cluster, who, name)``, each time on a new API server: no run has to clear up."""

    def run(who: str, name: str) -> dict[str, float]:
        with running() as cluster:
            return measure(cluster, who, name)

    return run
