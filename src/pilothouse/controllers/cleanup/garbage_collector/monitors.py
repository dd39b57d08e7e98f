"""Which resources are watched for the graph: every one that can be listed, watched and deleted.

Metadata is enough. What other controllers watch whole anyway is not watched twice: their informer feeds the graph too.

Discovery is asked every 30 s; informers start for what is new and stop for what is gone. ``controller.py`` owns this
and says what to do with an object that was seen or went.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object, ObjectMeta
from pilothouse.client import Client
from pilothouse.client.discovery import Discovery, Resource
from pilothouse.client.errors import ApiError
from pilothouse.controllers.cleanup.garbage_collector.graph import Graph, Identity, Instructions
from pilothouse.env import Log
from pilothouse.runtime.cache import Cached, object_key
from pilothouse.runtime.informer import InformerFactory, Registration, SharedInformer
from pilothouse.runtime.metrics import Registry

SYNC_SECONDS = 30.0

NEEDED_VERBS = ("delete", "list", "watch")


class ResourceKey(msgspec.Struct, frozen=True, gc=False):
    """What makes a monitored resource another one."""

    group: str
    version: str
    resource: str

    @property
    def group_version(self) -> str:
        """As discovery's failures name it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """``apps/v1, Resource=deployments``, as upstream's logs have it."""
        return f"{self.group}/{self.version}, Resource={self.resource}"


def _listed(keys: Sequence[ResourceKey]) -> str:
    return f"[{' '.join(sorted(map(str, keys)))}]"


class _Monitor(msgspec.Struct, frozen=True):
    kind: Kind[Object]
    informer: SharedInformer[Any]
    registration: Registration[Any]
    is_own: bool
    """Of metadata, for nobody but metadata's readers; otherwise other controllers' whole objects."""


def wanted_resources(discovery: Discovery, ignored: Sequence[str]) -> dict[ResourceKey, Resource]:
    """The preferred version of everything that the garbage collector works with: pure."""
    return {
        ResourceKey(resource.group, resource.version, resource.name): resource
        for resource in discovery.preferred_resources()
        if resource.supports(*NEEDED_VERBS) and resource.group_resource not in ignored
    }


class Monitors:
    """The informers that feed the graph.

    ``apply`` receives what the graph asks for. Nodes of a resource that is not served any more stay in the graph: what
    they own was not deleted by anybody.
    """

    def __init__(
        self,
        client: Client,
        factory: InformerFactory,
        whole: InformerFactory,
        graph: Graph,
        *,
        apply: Callable[[Instructions], None],
        ignored: Sequence[str],
        metrics: Registry,
        log: Log,
    ) -> None:
        self._client = client
        self._factory = factory
        self._whole = whole
        self._graph = graph
        self._apply = apply
        self._ignored = tuple(ignored)
        self._log = log
        self._monitors: dict[ResourceKey, _Monitor] = {}
        self._by_kind: dict[tuple[str, str], SharedInformer[Any]] = {}
        self._kinds: dict[tuple[str, str], Kind[Object]] = {}
        self._discovery: Discovery | None = None
        self._resources: dict[ResourceKey, Resource] = {}
        self.ready = asyncio.Event()
        """Set after the first look at discovery and the wait for what it lists, successful or not."""
        self._errors = metrics.counter(
            "garbagecollector_controller_resources_sync_error_total",
            "[ALPHA] Number of garbage collector resources sync errors",
        ).labels_of()

    @property
    def is_synced(self) -> bool:
        """Whether something is watched, and all of it has been read once."""
        return bool(self._monitors) and all(monitor.informer.has_synced for monitor in self._monitors.values())

    @property
    def watched(self) -> list[ResourceKey]:
        """What is watched, in discovery's order of first appearance."""
        return list(self._monitors)

    def kind_of(self, api_version: str, kind: str) -> Kind[Object] | None:
        """The resource that serves objects of that apiVersion and kind, as discovery said last."""
        return self._kinds.get((api_version, kind))

    def cached(self, identity: Identity) -> Cached | None:
        """The object as an informer knows it."""
        informer = self._by_kind.get((identity.api_version, identity.kind))
        if informer is None:
            return None
        found: Cached | None = informer.cache.get(
            object_key(ObjectMeta(name=identity.name, namespace=identity.namespace))
        )
        return found if found is not None and found.metadata.uid == identity.uid else None

    async def run(self) -> None:
        """Follow discovery until cancelled."""
        while True:
            await self.sync()
            self.ready.set()
            await asyncio.sleep(SYNC_SECONDS)

    async def sync(self) -> None:
        """Ask discovery once, start and stop informers, and wait up to 30 s for the new ones."""
        try:
            discovery = await self._client.discover()
        except (ApiError, ConnectionError, TimeoutError, ValueError) as error:
            self._failed("Discovery failed, skipping garbage collector sync", error)
            return
        for key in [key for key, monitor in self._monitors.items() if monitor.informer.stopped]:
            # Another controller that shares the informer has stopped it. If the resource is served, it is started anew.
            self._forget(key)
        wanted = self._wanted(discovery)
        if not wanted:
            self._failed("No resources reported by discovery, skipping garbage collector sync", None)
            return
        kept = {
            key
            for key, monitor in self._monitors.items()
            # Of a group that could not be asked nothing is known; what works goes on.
            if key in wanted or (key.group_version in discovery.failures and monitor.informer.has_synced)
        }
        removed = [key for key in self._monitors if key not in kept]
        added = [key for key in wanted if key not in self._monitors]
        if not removed and not added:
            return
        diff = f"added: {_listed(added)}, removed: {_listed(removed)}"
        self._log.info("Syncing garbage collector with updated resources from discovery", v=2, diff=diff)
        for key in removed:
            self._stop(key)
        for key in added:
            self._start(key, wanted[key])
        await self._wait_synced()

    def _wanted(self, discovery: Discovery) -> dict[ResourceKey, Resource]:
        """What is to be watched; on the way the kinds are noted. Computed when discovery says something new."""
        if discovery is not self._discovery:
            self._discovery = discovery
            self._resources = wanted_resources(discovery, self._ignored)
            if self._resources:
                # Every version counts here: owners may be named by one that nobody watches.
                self._kinds = {(r.api_version, r.kind): r.as_kind().metadata for r in discovery.resources()}
        return self._resources

    async def _wait_synced(self) -> None:
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                for monitor in list(self._monitors.values()):
                    await monitor.informer.wait_synced()
        except TimeoutError:
            missing = [key for key, monitor in self._monitors.items() if not monitor.informer.has_synced]
            self._failed(f"Timed out waiting for the caches of {_listed(missing)}", None)
        except RuntimeError as error:
            self._failed("An informer was stopped by another controller before it had synced", error)

    def _start(self, key: ResourceKey, resource: Resource) -> None:
        kind = resource.as_kind().metadata
        api_version, kind_name = kind.api_version, kind.kind
        graph, apply = self._graph, self._apply

        def on_add(obj: Cached, _initial: bool) -> None:
            instructions = graph.observe(api_version, kind_name, None, obj.metadata)
            if instructions:
                apply(instructions)

        def on_update(old: Cached, new: Cached) -> None:
            if old.metadata.uid != new.metadata.uid:
                # Deleted and made again while nobody watched. Upstream keeps the old node, and what it owned, for ever.
                apply(graph.forget(api_version, kind_name, old.metadata))
                on_add(new, False)
                return
            instructions = graph.observe(api_version, kind_name, old.metadata, new.metadata)
            if instructions:
                apply(instructions)

        def on_delete(obj: Cached, _final_state_unknown: bool) -> None:
            apply(graph.forget(api_version, kind_name, obj.metadata))

        shared = self._whole.existing(key.group, key.version, key.resource)
        informer: SharedInformer[Any] = self._factory.informer(kind) if shared is None else shared
        registration = informer.add_handler(on_add, on_update, on_delete, resync_seconds=0.0)
        self._monitors[key] = _Monitor(kind, informer, registration, shared is None)
        self._by_kind[api_version, kind_name] = informer

    def _stop(self, key: ResourceKey) -> None:
        monitor = self._forget(key)
        if monitor.is_own:
            self._factory.stop(monitor.kind)

    def _forget(self, key: ResourceKey) -> _Monitor:
        monitor = self._monitors.pop(key)
        self._by_kind.pop((monitor.kind.api_version, monitor.kind.kind), None)
        monitor.registration.remove()
        return monitor

    def _failed(self, message: str, error: BaseException | None) -> None:
        self._errors.inc()
        self._log.error(message, error=error)
