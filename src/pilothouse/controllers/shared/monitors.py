"""Informers for all resources that an API server serves: for the garbage collector and for quotas.

Mostly of metadata; if another controller watches whole objects, its informer is used. Discovery is read every 30 s;
informers are started and stopped accordingly. When a CustomResourceDefinition is added or changed, or a kind is
missing, discovery is read immediately, and again if it does not show the definition yet. Subclasses choose the
resources and add handlers.
"""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.env import Env, Log
from pilothouse.machinery.api_resources import Discovery, Resource
from pilothouse.runtime.cache import Cached
from pilothouse.runtime.context import ControllerContext
from pilothouse.runtime.informer import InformerFactory, Registration, SharedInformer

SYNC_SECONDS = 30.0
DISCOVERY_DELAY_SECONDS = (1.0, 5.0)
"""When to read discovery again if it does not show a definition that was added or changed: other servers and an
aggregator get definitions later."""
DISCOVERY_GAP_SECONDS = 0.1
"""The minimum interval of such reads: a release may install dozens of definitions."""


class ResourceKey(msgspec.Struct, frozen=True, gc=False):
    """Identifies a monitored resource."""

    group: str
    version: str
    resource: str

    @property
    def group_version(self) -> str:
        """The name in discovery's failures."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """``apps/v1, Resource=deployments``, as upstream's logs have it."""
        return f"{self.group}/{self.version}, Resource={self.resource}"


def _listed(keys: Sequence[ResourceKey]) -> str:
    return f"[{' '.join(sorted(map(str, keys)))}]"


class Monitor(msgspec.Struct, frozen=True):
    """One resource, with our handler."""

    kind: Kind[Object]
    informer: SharedInformer[Any]
    registration: Registration[Any]
    is_own: bool
    """Whether the informer was created here, for metadata; otherwise it is another controller's, for whole objects."""


_is_stopped = attrgetter("informer.stopped")


class ResourceMonitors(ABC):
    """The informers, by resource. ``subject`` names the controller in the log; ``count_failure`` is called after each
    failure to read discovery or to sync, ``on_discovery`` when informers for its resources are started, ``on_replaced``
    when the informer of the second monitor has synced: it watches the resource of the first, usually in another
    version, and no event reported what was deleted before its first list."""

    def __init__(
        self,
        client: Client,
        factory: InformerFactory,
        object_informers: InformerFactory,
        *,
        subject: str,
        env: Env,
        log: Log,
        count_failure: Callable[[], object] = lambda: None,
        on_discovery: Callable[[], object] = lambda: None,
        on_replaced: Callable[[Monitor, Monitor], object] = lambda _old, _new: None,
    ) -> None:
        self._client = client
        self._factory = factory
        self._whole = object_informers
        self._subject = subject
        self._env = env
        self._log = log
        self._count_failure = count_failure
        self._on_discovery = on_discovery
        self._on_replaced = on_replaced
        self._monitors: dict[ResourceKey, Monitor] = {}
        self._discovery: Discovery | None = None
        self._resources: dict[ResourceKey, Resource] = {}
        self._served: frozenset[str] = frozenset()
        """Names of resources with their group, in any version, which are those of the definitions."""
        self._served_versions: frozenset[ResourceKey] = frozenset()
        self._replaced: list[tuple[ResourceKey, Monitor]] = []
        """Monitors that were stopped and whose successors have not synced yet."""
        self._definitions: SharedInformer[Object] | None = None
        self._expected: dict[str, tuple[float, Discovery | None]] = {}
        """Definitions that discovery should show, since when, and the discovery that is outdated then."""
        self._sync_at = math.inf
        self._rests_until = 0.0
        self._next_sync = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._in_sync = False
        """Whether the informers are those of the discovery that was read last."""
        self._rescheduled = asyncio.Event()
        self.ready = asyncio.Event()
        """Set after discovery was read for the first time and its informers have synced or failed."""

    # Overridden by subclasses

    @abstractmethod
    def select_resources(self, discovery: Discovery) -> dict[ResourceKey, Resource]:
        """The resources to watch. Called when discovery has changed."""

    @abstractmethod
    def add_handlers(self, key: ResourceKey, resource: Resource, informer: SharedInformer[Any]) -> Registration[Any]:
        """Add a handler to the informer of a resource that is watched from now on."""

    @property
    def is_synced(self) -> bool:
        """Whether something is watched, and all of it has synced."""
        return bool(self._monitors) and all(monitor.informer.has_synced for monitor in self._monitors.values())

    @property
    def watched(self) -> list[ResourceKey]:
        """The watched resources, in discovery's order of first appearance."""
        return list(self._monitors)

    # Following discovery

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self.sync()
            self.ready.set()
            self._next_sync = loop.time() + SYNC_SECONDS
            while await self._sync_is_due():
                await self._sync_monitors()

    async def sync(self) -> None:
        """Read discovery, start and stop informers, and wait up to 30 s for the new ones."""
        await self._resync_monitors(stop_removed=True)

    def request_sync(self, definition: str = "") -> None:
        """Read discovery now, for a definition that was added or changed, or a missing kind."""
        now = asyncio.get_running_loop().time()
        if definition:
            self._expected[definition] = now, self._discovery
        self._schedule(now)

    def _schedule(self, at: float) -> None:
        if at < self._sync_at:
            self._sync_at = at
            self._rescheduled.set()

    async def _sync_is_due(self) -> bool:
        """Wait until discovery is to be read; whether that is sooner than usual."""
        loop = asyncio.get_running_loop()
        while (due := min(max(self._sync_at, self._rests_until), self._next_sync)) > loop.time():
            self._rescheduled.clear()
            self._set_timer(due)
            try:
                await self._rescheduled.wait()
            finally:
                if self._timer is not None:
                    self._timer.cancel()
                    self._timer = None
        return due < self._next_sync

    def _set_timer(self, due: float) -> None:
        self._timer = timer = asyncio.get_running_loop().call_at(due, self._on_due)
        if due == self._next_sync:
            self._env.mark_pass(timer, self._leap)

    def _on_due(self) -> None:
        if not (self._env.is_reading_alone() and self._leap()):
            self._rescheduled.set()

    def _leap(self) -> bool:
        """Run the periodic sync that is due if its result would be the same as the last one; otherwise do nothing."""
        now = asyncio.get_running_loop().time()
        if not self._in_sync or self._next_sync > now or self._rescheduled.is_set() or self._sync_at != math.inf:
            return False
        if self._definitions is not None and self._definitions.stopped:
            return False
        if any(map(_is_stopped, self._monitors.values())):
            return False
        if self._discovery is None or self._discovery.failures or self._client.discover_nowait() is not self._discovery:
            return False
        self._next_sync = now + SYNC_SECONDS
        self._set_timer(self._next_sync)
        return True

    async def _sync_monitors(self) -> None:
        self._sync_at = math.inf
        # Informers are only stopped by the next periodic sync: deletions of objects caused by the deletion of the
        # definition must not be missed.
        await self._resync_monitors(stop_removed=False)
        now = asyncio.get_running_loop().time()
        self._rests_until = now + DISCOVERY_GAP_SECONDS
        for name, (since, outdated) in list(self._expected.items()):
            retry_at = next((since + seconds for seconds in DISCOVERY_DELAY_SECONDS if since + seconds > now), None)
            if (name in self._served and self._discovery is not outdated) or retry_at is None:
                del self._expected[name]
            else:
                self._schedule(retry_at)

    async def _resync_monitors(self, *, stop_removed: bool) -> None:
        self._in_sync = False
        try:
            discovery = await self._client.discover()
        except (ApiError, ConnectionError, TimeoutError, ValueError) as error:
            self._log_failure(f"Discovery failed, skipping {self._subject} sync", error)
            return
        if stop_removed:
            for key in [key for key, monitor in self._monitors.items() if monitor.informer.stopped]:
                # Stopped by another controller that shares it. If the resource is served, it is started again.
                self._replaced.append((key, self._forget(key)))
        desired = self._selected_resources(discovery)
        if not desired:
            self._log_failure(f"No resources reported by discovery, skipping {self._subject} sync", None)
            return
        self._watch_definitions(discovery)
        removed, added = self._diff(discovery, desired, stop_removed=stop_removed)
        if removed or added:
            diff = f"added: {_listed(added)}, removed: {_listed(removed)}"
            self._log.info(f"Syncing {self._subject} with updated resources from discovery", v=2, diff=diff)
        for key in removed:
            self._stop(key)
        for key in added:
            self._start(key, desired[key])
        self._on_discovery()
        if removed or added:
            await self._wait_synced()
        self._report_replaced()
        # A version that is still watched although another one is preferred is left to the next periodic sync.
        self._in_sync = not (removed or added or self._replaced or any(self._diff(discovery, desired)))

    def _diff(
        self, discovery: Discovery, desired: Mapping[ResourceKey, Resource], *, stop_removed: bool = True
    ) -> tuple[list[ResourceKey], list[ResourceKey]]:
        added = [key for key in desired if key not in self._monitors]
        if not stop_removed:
            # Another version replaces the watched one when that is stopped: immediately if it is not served any more,
            # since its watch reports nothing.
            preferred = {(key.group, key.resource) for key in added}
            removed = [
                key
                for key in self._monitors
                if (key.group, key.resource) in preferred
                and key not in self._served_versions
                and key.group_version not in discovery.failures
            ]
            watched = {(key.group, key.resource) for key in self._monitors if key not in removed}
            return removed, [key for key in added if (key.group, key.resource) not in watched]
        kept_keys = {
            key
            for key, monitor in self._monitors.items()
            # If the discovery of a group failed, its synced informers continue.
            if key in desired or (key.group_version in discovery.failures and monitor.informer.has_synced)
        }
        return [key for key in self._monitors if key not in kept_keys], added

    def _watch_definitions(self, discovery: Discovery) -> None:
        """Watch CustomResourceDefinitions, if they are served."""
        if self._definitions is not None and not self._definitions.stopped:
            return
        kind = CUSTOM_RESOURCE_DEFINITIONS.metadata
        if not discovery.serves(kind):
            return
        shared = self._whole.existing(kind.group, kind.version, kind.resource)
        self._definitions = self._factory.informer(kind) if shared is None else shared
        self._definitions.add_handler(self._on_definition_add, self._on_definition_update, resync_seconds=0.0)

    def _on_definition_add(self, new: Cached, initial: bool) -> None:
        if not initial or new.metadata.name not in self._served:
            self.request_sync(new.metadata.name)

    def _on_definition_update(self, old: Cached, new: Cached) -> None:
        # A definition becomes established in its status: for one that is not served yet any change counts.
        if new.metadata.name not in self._served or new.metadata.generation != old.metadata.generation:
            self.request_sync(new.metadata.name)

    def _selected_resources(self, discovery: Discovery) -> dict[ResourceKey, Resource]:
        if discovery is not self._discovery:
            self._discovery = discovery
            self._resources = self.select_resources(discovery)
            served = discovery.resources()
            self._served = frozenset(resource.group_resource for resource in served)
            self._served_versions = frozenset(ResourceKey(each.group, each.version, each.name) for each in served)
        return self._resources

    async def _wait_synced(self) -> None:
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                for monitor in list(self._monitors.values()):
                    await monitor.informer.wait_synced()
        except TimeoutError:
            missing = [key for key, monitor in self._monitors.items() if not monitor.informer.has_synced]
            self._log_failure(f"Timed out waiting for the caches of {_listed(missing)}", None)
        except RuntimeError as error:
            self._log_failure("An informer was stopped by another controller before it had synced", error)

    def _start(self, key: ResourceKey, resource: Resource) -> None:
        kind = resource.as_kind().metadata
        shared = self._whole.existing(key.group, key.version, key.resource)
        informer: SharedInformer[Any] = self._factory.informer(kind) if shared is None else shared
        self._monitors[key] = Monitor(kind, informer, self.add_handlers(key, resource, informer), shared is None)

    def _report_replaced(self) -> None:
        waiting = []
        for key, old in self._replaced:
            resource = (key.group, key.resource)
            new = next((m for k, m in self._monitors.items() if (k.group, k.resource) == resource), None)
            if new is None:
                continue  # It is not served any more.
            if new.informer.has_synced:
                self._on_replaced(old, new)
            else:
                waiting.append((key, old))
        self._replaced = waiting

    def _stop(self, key: ResourceKey) -> None:
        monitor = self._forget(key)
        self._replaced.append((key, monitor))
        if monitor.is_own:
            self._factory.stop(monitor.kind)

    def _forget(self, key: ResourceKey) -> Monitor:
        monitor = self._monitors.pop(key)
        monitor.registration.remove()
        return monitor

    def _log_failure(self, message: str, error: BaseException | None) -> None:
        self._count_failure()
        self._log.error(message, error=error)


def shared_informer(context: ControllerContext, resource: Resource) -> SharedInformer[Any] | None:
    """The informer of a resource in this version that another controller has started, for whole objects or metadata."""
    for factory in (context.informers, context.metadata_informers):
        informer = factory.existing(resource.group, resource.version, resource.name)
        if informer is not None and not informer.stopped:
            return informer
    return None


def monitored_resources(discovery: Discovery, chosen: Callable[[Resource], bool]) -> dict[ResourceKey, Resource]:
    """The preferred version of every resource that is chosen."""
    return {
        ResourceKey(resource.group, resource.version, resource.name): resource
        for resource in discovery.preferred_resources()
        if chosen(resource)
    }
