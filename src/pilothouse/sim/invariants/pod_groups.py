"""Invariants of PodGroups: the finalizer remains while pods belong to the group, and is removed when there are none.

Checked against the committed objects, and against the cached pods of the process that removes the finalizer: other pods
do not count.
"""

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api.core import PODS, Pod
from pilothouse.api.meta import ObjectMeta
from pilothouse.api.scheduling import POD_GROUPS
from pilothouse.client.interceptor import Observation
from pilothouse.semantics.pods import is_terminal
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.invariants.cached import InformerCache
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process

FINALIZER = "scheduling.k8s.io/podgroup-protection"
CONTROLLER = "podgroup-protection-controller"
SLOWEST_REQUEST = 10.0
"""Maximum seconds between a decision and its write."""


class PodGroups(Invariant):
    """All PodGroups, if users don't remove the finalizer of one that is being deleted.

    ``kept`` counts groups that were deleted while pods belonged to them (for tests).
    """

    def __init__(self) -> None:
        self._groups = Objects(f"{POD_GROUPS.group}/{POD_GROUPS.resource}/", dict[str, Any])
        self._pods = Objects("/pods/", Pod)
        self._observed_pods: dict[str, Pod] = {}
        self._since: dict[str, float] = {}
        """The observations of the current process, with the time of each pod."""
        self._feed: InformerCache[Pod] | None = None
        self.kept = 0

    def started(self, process: "Process") -> None:
        self._observed_pods, self._since = {}, {}
        self._feed = InformerCache(PODS.resource, Pod, self._observe_pod)

    def observed(self, process: "Process", observation: Observation) -> None:
        assert self._feed is not None, "the process has started"
        self._feed.observe(observation)

    def _observe_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._observed_pods.pop(old.metadata.uid, None)
            self._since.pop(old.metadata.uid, None)
        if new is not None:
            self._observed_pods[new.metadata.uid] = new
            self._since.setdefault(new.metadata.uid, asyncio.get_running_loop().time())

    def committed(self, change: Change, origin: Origin | None) -> None:
        if not self._pods.follow(change) and (update := self._groups.follow(change)):
            self._check(*update, by_controller=origin is not None and origin.controller == CONTROLLER)

    def _check(self, key: str, old: dict[str, Any] | None, new: dict[str, Any] | None, *, by_controller: bool) -> None:
        if old is None:
            return
        old_meta, finalizer_removed = _meta(old), _protected(old) and not _protected(new)
        if old_meta.deletion_timestamp is None and new is not None and _meta(new).deletion_timestamp is not None:
            self.kept += bool(self._members(key))
        if not by_controller:
            return
        if finalizer_removed and old_meta.deletion_timestamp is None:
            raise Violation(f"group {key} lost its finalizer while it is not being deleted")
        if _protected(new) and not _protected(old):
            raise Violation(f"group {key} got a finalizer that only admission sets")
        if new is not None and _content(old) != _content(new):
            raise Violation(f"group {key} was changed by the write of its finalizer")
        visible_since = asyncio.get_running_loop().time() - SLOWEST_REQUEST
        users = sorted(
            pod.metadata.name
            for uid, pod in self._observed_pods.items()
            if self._since[uid] < visible_since and _group_of(pod) == key and not is_terminal(pod)
        )
        if finalizer_removed and users:
            raise Violation(f"group {key} was released while {users} belong to it")

    def _members(self, key: str) -> list[str]:
        return sorted(
            pod.metadata.name for pod in self._pods.values() if _group_of(pod) == key and not is_terminal(pod)
        )

    def check_final_state(self) -> None:
        """At the end no PodGroup without pods is being deleted."""
        for key, group in self._groups.items():
            if _meta(group).deletion_timestamp is not None and _protected(group) and not self._members(key):
                raise Violation(f"group {key} is being deleted and has no pods, and still exists")


def _group_of(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    return "" if group is None else f"{pod.metadata.namespace}/{group.pod_group_name}"


def _meta(group: dict[str, Any]) -> ObjectMeta:
    return msgspec.convert(group["metadata"], ObjectMeta)


def _protected(group: dict[str, Any] | None) -> bool:
    return group is not None and FINALIZER in group["metadata"].get("finalizers", ())


def _content(group: dict[str, Any]) -> dict[str, Any]:
    """The content without the finalizers."""
    ignored = ("finalizers", "resourceVersion", "managedFields", "generation")
    return {**group, "metadata": {name: value for name, value in group["metadata"].items() if name not in ignored}}
