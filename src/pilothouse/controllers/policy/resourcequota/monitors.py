"""Monitors every namespaced resource that can be created, listed, watched and deleted. While informers are started,
quotas wait.
"""

import asyncio
import datetime
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from pilothouse.api.resource import RESOURCE_CLAIMS
from pilothouse.controllers.policy.resourcequota.counting import Counter
from pilothouse.controllers.policy.resourcequota.replenishment import UPDATE_FILTERS, never
from pilothouse.controllers.shared.monitors import Monitor, ResourceKey, ResourceMonitors, monitored_resources
from pilothouse.machinery.api_resources import Discovery, Resource
from pilothouse.runtime.cache import Cached
from pilothouse.runtime.context import ControllerContext
from pilothouse.runtime.informer import Registration, SharedInformer
from pilothouse.semantics.quota import Evaluator, PodEvaluator, evaluator_for, standing_evaluators

NEEDED_VERBS = ("create", "delete", "list", "watch")
CLAIMS = ("resource.k8s.io", "resourceclaims")

Notify = Callable[[Evaluator, str], None]
"""Called with an evaluator, and the namespace of an object that was added or deleted."""


def quotable_resources(discovery: Discovery) -> dict[ResourceKey, Resource]:
    """The preferred version of every resource that can be limited."""
    return monitored_resources(
        discovery,
        lambda r: r.namespaced and r.supports(*NEEDED_VERBS) and evaluator_for(r.group, r.name) is not None,
    )


class Monitors(ResourceMonitors):
    """The informers, and a counter for each. ``replenish`` is called when usage decreases, ``added`` for objects that
    are added after the first list, ``on_new`` when other resources are counted than before."""

    def __init__(
        self,
        context: ControllerContext,
        *,
        replenish: Notify,
        added: Notify,
        is_limited: Callable[[str], bool],
        on_new: Callable[[], None],
        pod_level_resources: bool = True,
    ):
        super().__init__(
            context.client,
            context.metadata_informers,
            context.informers,
            subject="resource quota controller",
            env=context.env,
            log=context.log,
        )
        self._replenish = replenish
        self._added = added
        self._is_limited = is_limited
        self._on_new = on_new
        self._pods = PodEvaluator(pod_level_resources=pod_level_resources)
        self._counters: dict[tuple[str, str], Counter] = {}
        self._claims: tuple[SharedInformer[Any], Counter] | None = None
        self.started = asyncio.Event()
        """Set when the first resources have been waited for."""
        self.idle = asyncio.Event()
        """Set while no informers are being started."""

    def evaluators(self) -> list[Evaluator]:
        """The evaluators of all resources, watched or not."""
        watched = {counter.evaluator.count for counter in self._counters.values()}
        standalone = [evaluator for evaluator in standing_evaluators() if evaluator.count not in watched]
        return [*standalone, *(counter.evaluator for counter in self._counters.values())]

    def counters(self) -> list[Counter]:
        """One for each resource that is watched."""
        return [
            self._claims[1] if self._claims is not None and key == CLAIMS else counter
            for key, counter in self._counters.items()
        ]

    def measure_claims(self) -> None:
        """Watch whole ResourceClaims, since a quota limits devices."""
        monitor = next((m for key, m in self._monitors.items() if (key.group, key.resource) == CLAIMS), None)
        if monitor is None or self._claims is not None:
            return
        informer = self._whole.informer(replace(RESOURCE_CLAIMS, version=monitor.kind.version))
        evaluator = self._counters[CLAIMS].evaluator
        counter = Counter(self._env, evaluator, informer, is_measured=True)
        self._claims = informer, counter
        self._handle(informer, counter, never)

    async def _wait_synced(self) -> None:
        self.idle.clear()
        try:
            await super()._wait_synced()
        finally:
            self.started.set()
            self.idle.set()
            self._on_new()

    def select_resources(self, discovery: Discovery) -> dict[ResourceKey, Resource]:
        return quotable_resources(discovery)

    def add_handlers(self, key: ResourceKey, resource: Resource, informer: SharedInformer[Any]) -> Registration[Any]:
        is_pods = (key.group, key.resource) == ("", "pods")
        evaluator = self._pods if is_pods else evaluator_for(key.group, key.resource)
        assert evaluator is not None, "only what can be counted is chosen"
        is_relevant_update = UPDATE_FILTERS.get((key.group, key.resource), never)
        counter = Counter(self._env, evaluator, informer, is_measured=is_relevant_update is not never)
        self._counters[key.group, key.resource] = counter
        return self._handle(informer, counter, is_relevant_update)

    def _handle(
        self,
        informer: SharedInformer[Any],
        counter: Counter,
        is_relevant_update: Callable[[Any, Any, datetime.datetime], bool],
    ) -> Registration[Any]:
        evaluator = counter.evaluator

        def on_add(obj: Cached, initial: bool) -> None:
            if not initial:
                self._added(evaluator, obj.metadata.namespace)

        def on_update(old: Cached, new: Cached) -> None:
            namespace = new.metadata.namespace
            replaced = old.metadata.uid != new.metadata.uid
            if replaced:
                counter.forget(old.metadata.uid)
            if not self._is_limited(namespace):
                return
            if replaced or is_relevant_update(old, new, self._env.now()):
                self._replenish(evaluator, namespace)

        def on_delete(obj: Cached, _final_state_unknown: bool) -> None:
            counter.forget(obj.metadata.uid)
            self._replenish(evaluator, obj.metadata.namespace)

        return informer.add_handler(on_add, on_update, on_delete, resync_seconds=0.0)

    def _forget(self, key: ResourceKey) -> Monitor:
        self._counters.pop((key.group, key.resource), None)
        if (key.group, key.resource) == CLAIMS and self._claims is not None:
            self._whole.stop(self._claims[0].kind)
            self._claims = None
        return super()._forget(key)
