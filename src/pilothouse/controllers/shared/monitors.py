"""Informers for whatever an API server serves, custom resources included: for the garbage collector and for quotas.

Metadata is enough for most. What other controllers watch whole anyway is not watched twice: their informer is used.
Discovery is asked every 30 s; informers start for what is new and stop for what is gone. What is new does not wait so
long: when a definition of a custom resource comes or changes, or somebody misses a kind, discovery is asked at once,
and again if it does not show the definition yet. A subclass says which resources it wants and what is done with their
objects.
"""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.env import Log
from pilothouse.machinery.api_resources import Discovery, Resource
from pilothouse.runtime.cache import Cached
from pilothouse.runtime.context import ControllerContext
from pilothouse.runtime.informer import InformerFactory, Registration, SharedInformer

SYNC_SECONDS = 30.0
DISCOVERY_DELAY_SECONDS = (1.0, 5.0)
"""How long after a definition has come or changed discovery is asked again if it does not show it. Servers learn of
definitions one after the other, and an aggregator of them later still."""
DISCOVERY_GAP_SECONDS = 0.1
"""Between two such questions at least: a release may bring dozens of definitions."""


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


class Monitor(msgspec.Struct, frozen=True):
    """One resource, and what is told of it."""

    kind: Kind[Object]
    informer: SharedInformer[Any]
    registration: Registration[Any]
    is_own: bool
    """Of metadata, for nobody but metadata's readers; otherwise other controllers' whole objects."""


class ResourceMonitors(ABC):
    """The informers, by resource. ``subject`` is who they are for, as log lines name it; ``count_failure`` is called
    whenever reading discovery, or the wait after it, has failed and was logged; ``on_discovery`` when discovery has
    answered and informers for what it shows are started."""

    def __init__(
        self,
        client: Client,
        factory: InformerFactory,
        whole: InformerFactory,
        *,
        subject: str,
        log: Log,
        count_failure: Callable[[], object] = lambda: None,
        on_discovery: Callable[[], object] = lambda: None,
    ) -> None:
        self._client = client
        self._factory = factory
        self._whole = whole
        self._subject = subject
        self._log = log
        self._count_failure = count_failure
        self._on_discovery = on_discovery
        self._monitors: dict[ResourceKey, Monitor] = {}
        self._discovery: Discovery | None = None
        self._resources: dict[ResourceKey, Resource] = {}
        self._served: frozenset[str] = frozenset()
        """Names of resources with their group, in any version, which are those of the definitions."""
        self._definitions: SharedInformer[Object] | None = None
        self._expected: dict[str, float] = {}
        """Definitions that discovery should show, and since when."""
        self._sync_at = math.inf
        self._rests_until = 0.0
        self._rescheduled = asyncio.Event()
        self.ready = asyncio.Event()
        """Set after discovery was first read and the informers of what it lists were waited for, successful or not."""

    # What a subclass says

    @abstractmethod
    def choose(self, discovery: Discovery) -> dict[ResourceKey, Resource]:
        """The resources to watch. Asked when discovery says something new."""

    @abstractmethod
    def listen(self, key: ResourceKey, resource: Resource, informer: SharedInformer[Any]) -> Registration[Any]:
        """Add a handler to the informer of a resource that is watched from now on."""

    # For who reads

    @property
    def is_synced(self) -> bool:
        """Whether something is watched, and all of it has been read once."""
        return bool(self._monitors) and all(monitor.informer.has_synced for monitor in self._monitors.values())

    @property
    def watched(self) -> list[ResourceKey]:
        """What is watched, in discovery's order of first appearance."""
        return list(self._monitors)

    # Following discovery

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self.sync()
            self.ready.set()
            next_sync = loop.time() + SYNC_SECONDS
            while await self._sync_is_due(next_sync):
                await self._sync_monitors()

    async def sync(self) -> None:
        """Ask discovery once, start and stop informers, and wait up to 30 s for the new ones."""
        await self._follow(stops=True)

    def request_sync(self, definition: str = "") -> None:
        """Ask discovery now, instead of within 30 s: for a definition that has come or changed, or for whatever is
        missed."""
        now = asyncio.get_running_loop().time()
        if definition:
            self._expected[definition] = now
        self._schedule(now)

    def _schedule(self, at: float) -> None:
        if at < self._sync_at:
            self._sync_at = at
            self._rescheduled.set()

    async def _sync_is_due(self, next_sync: float) -> bool:
        """Wait until discovery is to be asked; whether that is sooner than usual."""
        loop = asyncio.get_running_loop()
        while (due := min(max(self._sync_at, self._rests_until), next_sync)) > loop.time():
            self._rescheduled.clear()
            timer = loop.call_at(due, self._rescheduled.set)
            try:
                await self._rescheduled.wait()
            finally:
                timer.cancel()
        return due < next_sync

    async def _sync_monitors(self) -> None:
        self._sync_at = math.inf
        # What is gone is left to the next sync: an object's deletion that its informer has yet to hear of must not be
        # lost because the definition went with it.
        await self._follow(stops=False)
        now = asyncio.get_running_loop().time()
        self._rests_until = now + DISCOVERY_GAP_SECONDS
        for name, since in list(self._expected.items()):
            again = next((since + seconds for seconds in DISCOVERY_DELAY_SECONDS if since + seconds > now), None)
            if name in self._served or again is None:
                del self._expected[name]
            else:
                self._schedule(again)

    async def _follow(self, *, stops: bool) -> None:
        try:
            discovery = await self._client.discover()
        except (ApiError, ConnectionError, TimeoutError, ValueError) as error:
            self._failed(f"Discovery failed, skipping {self._subject} sync", error)
            return
        if stops:
            for key in [key for key, monitor in self._monitors.items() if monitor.informer.stopped]:
                # Another controller that shares the informer has stopped it. If the resource is served, it is started
                # anew.
                self._forget(key)
        wanted = self._wanted(discovery)
        if not wanted:
            self._failed(f"No resources reported by discovery, skipping {self._subject} sync", None)
            return
        self._follow_definitions(discovery)
        removed, added = self._differences(discovery, wanted, stops=stops)
        if removed or added:
            diff = f"added: {_listed(added)}, removed: {_listed(removed)}"
            self._log.info(f"Syncing {self._subject} with updated resources from discovery", v=2, diff=diff)
        for key in removed:
            self._stop(key)
        for key in added:
            self._start(key, wanted[key])
        self._on_discovery()
        if removed or added:
            await self._wait_synced()

    def _differences(
        self, discovery: Discovery, wanted: Mapping[ResourceKey, Resource], *, stops: bool
    ) -> tuple[list[ResourceKey], list[ResourceKey]]:
        added = [key for key in wanted if key not in self._monitors]
        if not stops:
            # Another version takes the place of the one that is watched, when that is stopped.
            watched = {(key.group, key.resource) for key in self._monitors}
            return [], [key for key in added if (key.group, key.resource) not in watched]
        kept = {
            key
            for key, monitor in self._monitors.items()
            # Of a group that could not be asked nothing is known; what works goes on.
            if key in wanted or (key.group_version in discovery.failures and monitor.informer.has_synced)
        }
        return [key for key in self._monitors if key not in kept], added

    def _follow_definitions(self, discovery: Discovery) -> None:
        """Hear of definitions of custom resources, where there are any."""
        if self._definitions is not None and not self._definitions.stopped:
            return
        kind = CUSTOM_RESOURCE_DEFINITIONS.metadata
        if not discovery.serves(kind):
            return
        shared = self._whole.existing(kind.group, kind.version, kind.resource)
        self._definitions = self._factory.informer(kind) if shared is None else shared
        self._definitions.add_handler(self._see_new_definition, self._see_changed_definition, resync_seconds=0.0)

    def _see_new_definition(self, new: Cached, initial: bool) -> None:
        if not initial or new.metadata.name not in self._served:
            self.request_sync(new.metadata.name)

    def _see_changed_definition(self, old: Cached, new: Cached) -> None:
        # That it is established is in its status: one that is not known yet is asked for whatever has changed.
        if new.metadata.name not in self._served or new.metadata.generation != old.metadata.generation:
            self.request_sync(new.metadata.name)

    def _wanted(self, discovery: Discovery) -> dict[ResourceKey, Resource]:
        if discovery is not self._discovery:
            self._discovery = discovery
            self._resources = self.choose(discovery)
            self._served = frozenset(resource.group_resource for resource in discovery.resources())
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
        shared = self._whole.existing(key.group, key.version, key.resource)
        informer: SharedInformer[Any] = self._factory.informer(kind) if shared is None else shared
        self._monitors[key] = Monitor(kind, informer, self.listen(key, resource, informer), shared is None)

    def _stop(self, key: ResourceKey) -> None:
        monitor = self._forget(key)
        if monitor.is_own:
            self._factory.stop(monitor.kind)

    def _forget(self, key: ResourceKey) -> Monitor:
        monitor = self._monitors.pop(key)
        monitor.registration.remove()
        return monitor

    def _failed(self, message: str, error: BaseException | None) -> None:
        self._count_failure()
        self._log.error(message, error=error)


def shared_informer(context: ControllerContext, resource: Resource) -> SharedInformer[Any] | None:
    """The informer of all objects of a resource, in this version, that others have: controllers that watch it whole, or
    those that monitor everything. For who wants to know what they know, and is not to watch it once more."""
    for factory in (context.informers, context.metadata_informers):
        found = factory.existing(resource.group, resource.version, resource.name)
        if found is not None and not found.stopped:
            return found
    return None


def wanted_resources(discovery: Discovery, chosen: Callable[[Resource], bool]) -> dict[ResourceKey, Resource]:
    """The preferred version of every resource that is chosen: pure."""
    return {
        ResourceKey(resource.group, resource.version, resource.name): resource
        for resource in discovery.preferred_resources()
        if chosen(resource)
    }
