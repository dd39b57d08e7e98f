"""DynamicResources, loaded and started with the first pod that has claims or requests what may be an extended resource.

Most clusters have no such pods. Before the start there is nothing to look up.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from pilothouse.api.core import Pod
from pilothouse.cel.limits import GetEvaluator
from pilothouse.client import Client
from pilothouse.env import Env, Log
from pilothouse.env.lazy import lazy_imports
from pilothouse.runtime import InformerFactory
from pilothouse.scheduler.framework.term_limits import too_many_resource_claims
from pilothouse.scheduler.framework.types import PodInfo

if TYPE_CHECKING:
    from pilothouse.api.resource import DeviceClass, ResourceClaim
    from pilothouse.scheduler.plugins.dynamic_resources.dra_manager import DRAManager
    from pilothouse.scheduler.plugins.dynamic_resources.plugin import Plugin
    from pilothouse.scheduler.plugins.dynamic_resources.pod_claims import PodClaims

with lazy_imports():
    from pilothouse.scheduler.plugins.dynamic_resources import plugin


class DynamicResources:
    """The plugin of one scheduler. ``on_claim``, ``on_slice`` and ``on_class`` are called after changes that may help a
    pod."""

    def __init__(
        self, env: Env, client: Client, informers: InformerFactory, log: Log, get_evaluator: GetEvaluator
    ) -> None:
        self._new_plugin: Callable[[], Plugin] = lambda: plugin.Plugin(env, client, informers, log, get_evaluator)
        self._plugin: Plugin | None = None
        self._starting = asyncio.Lock()
        self.needed = asyncio.Event()
        """Set when the first pod with claims was added: the plugin should be started."""
        self.on_claim: Callable[[ResourceClaim | None, ResourceClaim], None] = lambda _old, _new: None
        self.on_slice: Callable[[], None] = lambda: None
        self.on_class: Callable[[DeviceClass | None, DeviceClass], None] = lambda _old, _new: None

    async def start(self) -> None:
        """Start, if that has not happened, and wait until the caches are filled."""
        async with self._starting:
            if self._plugin is None:
                started = self._new_plugin()
                manager = started.manager
                manager.on_claim, manager.on_slice, manager.on_class = self.on_claim, self.on_slice, self.on_class
                self._plugin = started
                await manager.start()

    @property
    def plugin(self) -> "Plugin":
        """The plugin, after the start."""
        assert self._plugin is not None, "only pods that need it get here, after the start"
        return self._plugin

    @property
    def manager(self) -> "DRAManager":
        """What it has of the cluster, after the start."""
        return self.plugin.manager

    @property
    def version(self) -> int:
        """Increases with every event that may help a pod."""
        return self._plugin.manager.version if self._plugin is not None else 0

    def may_enqueue(self, pod: Pod) -> bool:
        """PreEnqueue: whether the claims of a pod exist, so that it can be scheduled."""
        if too_many_resource_claims(pod.spec) is not None:
            return True  # it is rejected with a message
        if self._plugin is None or not self._plugin.manager.started:
            self.needed.set()
            return False
        return self._plugin.may_enqueue(pod)

    def claim_keys(self, pod: Pod) -> list[str]:
        """The claims that the pod refers to, whether they exist or not; none before the start."""
        return self._plugin.claim_keys(pod) if self._plugin is not None else []

    def pre_filter(self, pod_info: PodInfo, earlier: "PodClaims | None" = None) -> "PodClaims | None":
        """The claims of the pod, as of now, including one for extended resources; None if it has none. Sets which
        resources NodeResourcesFit leaves to this plugin. ``earlier``: see ``Plugin.pre_filter``."""
        pod_info.delegated_resources = self.plugin.delegated_resources(pod_info)
        return self.plugin.pre_filter(pod_info, earlier) if self.plugin.involves(pod_info) else None

    def cancel_binding(self, uid: str) -> bool:
        """Have the pod stop waiting for its devices, as it is preempted. Returns whether it was waiting."""
        return self._plugin is not None and self._plugin.manager.cancel_binding(uid)
