"""The informers of every resource that can be listed, watched and deleted; their events go to the graph."""

from collections.abc import Callable, Sequence
from typing import Any

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object, ObjectMeta
from pilothouse.client import Client
from pilothouse.controllers.cleanup.garbage_collector.graph import Graph, Identity, Instructions
from pilothouse.controllers.shared.monitors import SYNC_SECONDS, Monitor, ResourceKey, ResourceMonitors
from pilothouse.controllers.shared.monitors import monitored_resources as resources_where
from pilothouse.env import Env, Log
from pilothouse.machinery.api_resources import Discovery, Resource
from pilothouse.machinery.metrics import Registry
from pilothouse.machinery.names import object_key
from pilothouse.runtime.cache import Cached
from pilothouse.runtime.informer import InformerFactory, Registration, SharedInformer

__all__ = ["NEEDED_VERBS", "SYNC_SECONDS", "Monitors", "monitored_resources"]

NEEDED_VERBS = ("delete", "list", "watch")


def monitored_resources(discovery: Discovery, ignored: Sequence[str]) -> dict[ResourceKey, Resource]:
    """The preferred version of every resource that the garbage collector works with: pure."""
    return resources_where(discovery, lambda r: r.supports(*NEEDED_VERBS) and r.group_resource not in ignored)


class Monitors(ResourceMonitors):
    """The informers that feed the graph.

    ``apply`` is called with the instructions of the graph, ``on_discovery`` after each discovery. Nodes of a resource
    that is no longer served stay in the graph, because the objects were not deleted.
    """

    def __init__(
        self,
        client: Client,
        factory: InformerFactory,
        object_informers: InformerFactory,
        graph: Graph,
        *,
        apply: Callable[[Instructions], None],
        ignored: Sequence[str],
        on_discovery: Callable[[], None],
        metrics: Registry,
        env: Env,
        log: Log,
    ) -> None:
        errors = metrics.counter(
            "garbagecollector_controller_resources_sync_error_total",
            "[ALPHA] Number of garbage collector resources sync errors",
        ).labels()
        super().__init__(
            client,
            factory,
            object_informers,
            subject="garbage collector",
            env=env,
            log=log,
            count_failure=errors.inc,
            on_discovery=on_discovery,
            on_replaced=self._verify_unlisted,
        )
        self._graph = graph
        self._apply = apply
        self._ignored = tuple(ignored)
        self._by_kind: dict[tuple[str, str], SharedInformer[Any]] = {}
        self._kinds: dict[tuple[str, str], Kind[Object]] = {}

    def kind_of(self, api_version: str, kind: str) -> Kind[Object] | None:
        """The resource of that apiVersion and kind, by the last discovery."""
        return self._kinds.get((api_version, kind))

    def cached(self, identity: Identity) -> Cached | None:
        informer = self._by_kind.get((identity.api_version, identity.kind))
        if informer is None:
            return None
        cached: Cached | None = informer.cache.get(
            object_key(ObjectMeta(name=identity.name, namespace=identity.namespace))
        )
        return cached if cached is not None and cached.metadata.uid == identity.uid else None

    def select_resources(self, discovery: Discovery) -> dict[ResourceKey, Resource]:
        """Also records the kinds that are served."""
        resources = monitored_resources(discovery, self._ignored)
        if resources:
            # Every version: references may use one that is not watched.
            self._kinds = {(r.api_version, r.kind): r.as_kind().metadata for r in discovery.resources()}
        return resources

    def add_handlers(self, key: ResourceKey, resource: Resource, informer: SharedInformer[Any]) -> Registration[Any]:
        api_version, kind_name = resource.api_version, resource.kind
        graph, apply = self._graph, self._apply

        def on_add(obj: Cached, _initial: bool) -> None:
            instructions = graph.process_add_or_update(api_version, kind_name, None, obj.metadata)
            if instructions:
                apply(instructions)

        def on_update(old: Cached, new: Cached) -> None:
            if old.metadata.uid != new.metadata.uid:
                # Recreated between two watches. Upstream keeps the old node, and its dependents, forever.
                apply(graph.process_delete(api_version, kind_name, old.metadata))
                on_add(new, False)
                return
            instructions = graph.process_add_or_update(api_version, kind_name, old.metadata, new.metadata)
            if instructions:
                apply(instructions)

        def on_delete(obj: Cached, _final_state_unknown: bool) -> None:
            apply(graph.process_delete(api_version, kind_name, obj.metadata))

        self._by_kind[api_version, kind_name] = informer
        return informer.add_handler(on_add, on_update, on_delete, resync_seconds=0.0)

    def _verify_unlisted(self, old: Monitor, new: Monitor) -> None:
        """Objects that only the old informer has were deleted in the meantime, or the new one is behind: they are read.
        Upstream keeps their nodes, and their dependents, until it is restarted."""
        listed = {obj.metadata.uid for obj in new.informer.cache.list()}
        for obj in old.informer.cache.list():
            if obj.metadata.uid not in listed:
                self._apply(self._graph.mark_unobserved(new.kind.api_version, new.kind.kind, obj.metadata.uid))

    def _forget(self, key: ResourceKey) -> Monitor:
        monitor = super()._forget(key)
        self._by_kind.pop((monitor.kind.api_version, monitor.kind.kind), None)
        return monitor
