"""A controller gets exactly the informers that its descriptor declares."""

import asyncio
from collections.abc import Callable

import pytest
from tests.runtime.cluster import Cluster
from tests.tables import cases

from pilothouse.api.core import CONFIG_MAPS, NODES, PODS, SECRETS, ConfigMap
from pilothouse.env import Env, TaskGroup
from pilothouse.runtime import (
    ControllerContext,
    Descriptor,
    InformerFactory,
    ManagedController,
    RunnableController,
    UndeclaredWatch,
    Watch,
)

FIELDS = "metadata.name=kube-root-ca.crt"


def by_name(config_map: ConfigMap) -> tuple[str, ...]:
    return (config_map.metadata.name,)


def context_of(env: Env, *watches: Watch) -> ControllerContext:
    client = Cluster(env).client()
    informers = InformerFactory(client, env)
    return ControllerContext(
        env=env, client=client, informers=informers, metadata_informers=informers, name="sleeper", watches=watches
    )


async def test_undeclared_informer_is_rejected_with_a_hint(env: Env) -> None:
    context = context_of(env, Watch(kind=NODES), Watch(kind=PODS))
    with pytest.raises(UndeclaredWatch) as refused:
        context.informer(SECRETS)
    assert str(refused.value) == (
        "sleeper requests an informer of secrets (view Secret), and its descriptor declares nodes (view Node), "
        "pods (view Pod): add Watch(kind=...) to the descriptor's watches"
    )
    with pytest.raises(UndeclaredWatch) as refused:
        context.informer(PODS.metadata)
    assert str(refused.value) == (
        "sleeper requests an informer of pods (metadata only), and its descriptor declares nodes (view Node), "
        "pods (view Pod): the Watch and the call must have the same kind, such as PODS or PODS.metadata"
    )
    assert context.informers.informers == []


async def test_informer_has_the_declared_selectors_raw_objects_and_indexes(env: Env) -> None:
    context = context_of(env, Watch(kind=CONFIG_MAPS, namespace="default", field_selector=FIELDS, keep_raw=True))
    informer = context.informer(CONFIG_MAPS, indexes={"name": by_name})
    same = context.informers.informer(CONFIG_MAPS, namespace="default", field_selector=FIELDS)
    assert informer is same
    assert informer.cache.keep_raw
    assert informer.cache.by_index("name", "any") == []


async def test_watch_can_be_restricted_to_a_namespace(env: Env) -> None:
    context = context_of(env, Watch(kind=PODS, awaited=False))
    assert context.informer(PODS, namespace="a") is not context.informer(PODS, namespace="b")
    assert context.awaited == []


class Sleeper(ManagedController):
    """Waits for a cache that it requests after its base exists."""

    def __init__(self, context: ControllerContext) -> None:
        context.informer(NODES)
        super().__init__(context, "sleeper")
        context.informer(PODS)
        self.reconciled_at: float | None = None
        self.queue.add("key")

    async def reconcile(self, key: str) -> None:
        self.reconciled_at = self.env.monotonic()


class OfSleeper(Descriptor, frozen=True):
    """A descriptor whose controller is in this module."""

    def factory(self) -> Callable[[ControllerContext], RunnableController]:
        return Sleeper


@cases("awaited, at", {"awaited": (True, None), "not awaited": (False, 0.0)})
async def test_controller_waits_for_its_caches_unless_declared_otherwise(
    awaited: bool, at: float | None, env: Env
) -> None:
    controller = Sleeper(context_of(env, Watch(kind=NODES, awaited=False), Watch(kind=PODS, awaited=awaited)))
    async with TaskGroup("test") as group:
        group.start(controller.run())  # and the informers are not started
        await asyncio.sleep(5)
        group.cancel()
    assert controller.reconciled_at == at


async def test_controllers_wait_for_their_own_caches_only(env: Env) -> None:
    context = context_of(env)
    watches = (Watch(kind=NODES), Watch(kind=PODS))
    descriptor = OfSleeper(name="sleeper", client_name="sleeper", watches=watches, package=__name__)
    first, second = descriptor.build(context), descriptor.build(context)
    assert isinstance(first, Sleeper)
    assert isinstance(second, Sleeper)
    assert len(first._waits_for) == len(second._waits_for) == 2
    assert context.awaited == []
