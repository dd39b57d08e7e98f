"""An informer on the embedded API server under faults: the cache converges."""

import asyncio

import msgspec
from tests.runtime.cluster import Cluster

from pilothouse.api.core import PODS, Pod
from pilothouse.api.meta import Object
from pilothouse.client import Client, merge_patch
from pilothouse.client.interceptor import (
    Interceptor,
    Rule,
    delay,
    fail,
    gone,
    lose_answer,
    lose_request,
    refuse,
)
from pilothouse.env import Env, TaskGroup
from pilothouse.runtime import InformerFactory, SharedInformer, WorkQueue, object_key

NAMES = [f"pod-{number}" for number in range(12)]


class Mirror:
    """A handler that keeps a copy from its notifications, and checks their order."""

    def __init__(self, informer: "SharedInformer[Pod] | SharedInformer[Object]") -> None:
        self.versions: dict[str, str] = {}
        self.cache = informer.cache
        informer.add_handler(self.add, self.update, self.delete)

    def add(self, obj: Pod | Object, initial: bool) -> None:
        key = object_key(obj.metadata)
        assert key not in self.versions, "add of a known object"
        self.versions[key] = obj.metadata.resource_version

    def update(self, old: Pod | Object, new: Pod | Object) -> None:
        key = object_key(new.metadata)
        assert self.versions[key] == old.metadata.resource_version, "update from another state than the last"
        assert old.metadata.resource_version != new.metadata.resource_version, "nothing changed"
        self.versions[key] = new.metadata.resource_version

    def delete(self, obj: Pod | Object, final_state_unknown: bool) -> None:
        del self.versions[object_key(obj.metadata)]


async def churn(client: Client, env: Env, seconds: float) -> None:
    """Random creates, changes and deletes."""
    rng = env.stream("churn")
    present: set[str] = set()
    until = env.monotonic() + seconds
    while env.monotonic() < until:
        await asyncio.sleep(rng.random() * 3.0)
        name = rng.choice(NAMES)
        if name not in present:
            body = {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }  # fmt: skip
            await client.create(PODS.raw, body, "default")
            present.add(name)
        elif rng.random() < 0.3:
            await client.delete(PODS, name, "default", grace_period_seconds=0)
            present.discard(name)
        else:
            patch = merge_patch({"metadata": {"labels": {"turn": str(env.monotonic())}}})
            await client.patch(PODS.raw, name, patch, "default")


async def test_cache_and_handlers_converge_under_faults(env: Env, seed: int) -> None:
    cluster = Cluster(env)
    faults = Interceptor(cluster, env)
    for action, verb, probability in (
        (fail(500, "InternalError"), "watch", 0.05), (refuse(), "watch", 0.1),
        (lose_request(), "list", 0.1),
        (lose_answer(), "list", 0.1), (fail(429, "TooManyRequests"), "watch", 0.1), (gone(), "watch", 0.1),
        (gone(), "list", 0.2), (fail(422, "Invalid"), "watch", 0.2), (delay(0.0, 5.0), "watch", 0.5),
    ):  # fmt: skip
        faults.add(Rule(action, verb=verb, probability=probability))
    factory = InformerFactory(Client(faults, env), env)
    pods, metadata = factory.informer(PODS, keep_raw=True), factory.informer(PODS.metadata)
    mirrors = [Mirror(pods), Mirror(metadata)]
    rng = env.stream("faults")

    async def break_watches() -> None:
        while True:
            await asyncio.sleep(rng.random() * 40.0)
            fault = rng.choice([None, gone(), lose_request(), fail(500, "InternalError")])
            faults.end_watches(with_=fault)
            if rng.random() < 0.3:
                cluster.store.compact(cluster.store.revision)
            if rng.random() < 0.3:
                mirrors.append(Mirror(pods))

    async with TaskGroup() as group:
        factory.start(group)
        breaking = group.start(break_watches())
        await churn(cluster.admin(), env, 600.0)
        breaking.cancel()
        faults.clear()
        await asyncio.sleep(120.0)
        stored = {
            f"default/{obj['metadata']['name']}": obj["metadata"]["resourceVersion"]
            for obj in cluster.objects("/pods/default/")
        }
        assert stored
        for informer in (pods, metadata):
            cached = {object_key(item.metadata): item.metadata.resource_version for item in informer.cache.list()}
            assert cached == stored
        for mirror in mirrors:
            assert mirror.versions == stored
        assert all(pods.cache.raw(key) is not None for key in stored)
        group.cancel()


async def test_idle_informer_only_renews_its_watch_and_receives_bookmarks(env: Env) -> None:
    cluster = Cluster(env)
    factory = InformerFactory(cluster.client(), env)
    pods = factory.informer(PODS)
    queue: WorkQueue[str] = WorkQueue(env)
    pods.add_handler(on_update=lambda _old, new: queue.add(object_key(new.metadata)))
    async with TaskGroup() as group:
        factory.start(group)
        await factory.wait_synced()
        before = pods.cache.resource_version
        for number in range(5):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"other-{number}"}}
            await cluster.admin().request(
                "POST", "/api/v1/namespaces/default/configmaps", body=msgspec.json.encode(body),
                headers={"content-type": "application/json"},
            )  # fmt: skip
        await asyncio.sleep(3600)
        assert int(pods.cache.resource_version) >= int(before) + 5
        assert 1 + 3600 / 600 <= len(cluster.log) <= 1 + 3600 / 300 + 1
        assert not any("sendInitialEvents" in target for target in cluster.targets[1:])
        assert len(queue) == 0
        group.cancel()
