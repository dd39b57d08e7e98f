"""Informers for whatever an API server serves, custom resources included: for the garbage collector and for quotas.

Metadata is enough for most. What other controllers watch whole anyway is not watched twice: their informer is used.
Discovery is asked every 30 s; informers start for what is new and stop for what is gone. A subclass says which
resources it wants and what is done with their objects.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.client import Client
from pilothouse.client.discovery import Discovery, Resource
from pilothouse.client.errors import ApiError
from pilothouse.env import Log
from pilothouse.runtime.context import ControllerContext
from pilothouse.runtime.informer import InformerFactory, Registration, SharedInformer

SYNC_SECONDS = 30.0


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
    whenever a look at discovery, or the wait after it, has failed and was logged."""

    def __init__(
        self,
        client: Client,
        factory: InformerFactory,
        whole: InformerFactory,
        *,
        subject: str,
        log: Log,
        count_failure: Callable[[], object] = lambda: None,
    ) -> None:
        self._client = client
        self._factory = factory
        self._whole = whole
        self._subject = subject
        self._log = log
        self._count_failure = count_failure
        self._monitors: dict[ResourceKey, Monitor] = {}
        self._discovery: Discovery | None = None
        self._resources: dict[ResourceKey, Resource] = {}
        self.ready = asyncio.Event()
        """Set after the first look at discovery and the wait for what it lists, successful or not."""

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
            self._failed(f"Discovery failed, skipping {self._subject} sync", error)
            return
        for key in [key for key, monitor in self._monitors.items() if monitor.informer.stopped]:
            # Another controller that shares the informer has stopped it. If the resource is served, it is started anew.
            self._forget(key)
        wanted = self._wanted(discovery)
        if not wanted:
            self._failed(f"No resources reported by discovery, skipping {self._subject} sync", None)
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
        self._log.info(f"Syncing {self._subject} with updated resources from discovery", v=2, diff=diff)
        for key in removed:
            self._stop(key)
        for key in added:
            self._start(key, wanted[key])
        await self._wait_synced()

    def _wanted(self, discovery: Discovery) -> dict[ResourceKey, Resource]:
        if discovery is not self._discovery:
            self._discovery = discovery
            self._resources = self.choose(discovery)
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
