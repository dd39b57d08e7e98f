"""Invariants of rolling updates of DaemonSets: the bounds, checked at each write of a manager.

For runs in which only managers delete pods and change nodes, and requests are not delayed: then a pod that was observed
available is available, and a manager's decision is based on its observations at the time of the request.
"""

from typing import TYPE_CHECKING

from pilothouse.api.apps import DaemonSet
from pilothouse.api.core import Pod
from pilothouse.client.interceptor import Observation
from pilothouse.controllers.workloads.daemonset.pod_template import HASH_LABEL, target_node
from pilothouse.controllers.workloads.daemonset.rolling import Bounds, bounds_of
from pilothouse.semantics.pods import is_active, is_ready
from pilothouse.sim.invariants import Violation
from pilothouse.sim.invariants.cached import InformerCache
from pilothouse.sim.invariants.daemonsets import Daemons, owner_of
from pilothouse.sim.run_log import Origin

if TYPE_CHECKING:
    from pilothouse.sim.process import Process


class DaemonSetBounds(Daemons):
    """Without surge: when a manager deletes a pod that it had observed as available, at most ``maxUnavailable`` nodes
    have no available pod. With surge: it deletes such a pod only if another one is available, and creates a second pod
    on a node only if at most ``maxSurge`` nodes have a new pod that is not available yet. Each process that started
    with an old list of pods may exceed this by the same amount.
    """

    def __init__(self) -> None:
        super().__init__()
        self._caches: dict[int, InformerCache[Pod]] = {}
        self.deletions = 0
        self.surges = 0

    def observed(self, process: "Process", observation: Observation) -> None:
        super().observed(process, observation)
        cache = self._caches.get(process.number)
        if cache is None:
            cache = self._caches[process.number] = InformerCache("pods", Pod, lambda _old, _new: None)
        cache.observe(observation)

    def pod_changed(self, key: str, old: Pod | None, new: Pod | None, origin: Origin | None) -> None:
        """Check a deletion or creation by the DaemonSet controller."""
        if origin is None or origin.controller != "daemon-set-controller":
            return
        number = int(origin.program.partition("#")[2])
        if old is not None and is_active(old) and (new is None or new.metadata.deletion_timestamp is not None):
            self._deleted(number, old)
        elif old is None and new is not None:
            self._created(number, new)

    def _deleted(self, process: int, pod: Pod) -> None:
        owner, node = self.sets.get(owner_of(pod) or ""), target_node(pod)
        if owner is None or not self._was_observed_available(process, pod):
            return
        desired = [name for name, placement in self.placements(owner).items() if placement.should_run]
        live = [
            live_pod for live_pod in self.live_pods(owner.metadata.uid) if live_pod.metadata.name != pod.metadata.name
        ]
        if node not in desired:
            return
        self.deletions += 1
        serving = {target_node(live_pod) for live_pod in live if is_ready(live_pod)}
        bounds = self._bounds(owner, len(desired))
        if bounds.surge:
            if node not in serving and not self.stale:
                raise Violation(f"{pod.metadata.name} was the only available pod on {node}")
            return
        missing = sorted(name for name in desired if name not in serving)
        allowed = bounds.unavailable * (1 + len(self.stale))
        if len(missing) > allowed:
            raise Violation(
                f"after the deletion of {pod.metadata.name} no pod is available on {missing}; {allowed} are allowed"
            )

    def _created(self, process: int, pod: Pod) -> None:
        owner, node = self.sets.get(owner_of(pod) or ""), target_node(pod)
        if owner is None:
            return
        live = self.live_pods(owner.metadata.uid)
        desired = sum(1 for placement in self.placements(owner).values() if placement.should_run)
        bounds = self._bounds(owner, desired)
        other_pods = [
            live_pod
            for live_pod in live
            if target_node(live_pod) == node and live_pod.metadata.name != pod.metadata.name
        ]
        if not bounds.surge or not any(self._was_observed_available(process, live_pod) for live_pod in other_pods):
            return
        self.surges += 1
        current = pod.metadata.labels.get(HASH_LABEL)
        surging = []
        for name in sorted(self.nodes):
            pods_on_node = [live_pod for live_pod in live if target_node(live_pod) == name]
            new_pods = [
                live_pod
                for live_pod in pods_on_node
                if live_pod.metadata.labels.get(HASH_LABEL) == current and not is_ready(live_pod)
            ]
            # A new pod may always be created next to an unavailable one.
            old_pods = [
                live_pod
                for live_pod in pods_on_node
                if live_pod not in new_pods and self._was_observed_available(process, live_pod)
            ]
            if new_pods and old_pods:
                surging.append(name)
        allowed = bounds.surge * (1 + len(self.stale))
        if len(surging) > allowed:
            raise Violation(f"with {pod.metadata.name} there are two pods on {surging}; {allowed} are allowed")

    def _was_observed_available(self, process: int, pod: Pod) -> bool:
        cached_pod = self._caches[process].objects.get(f"{pod.metadata.namespace}/{pod.metadata.name}")
        return cached_pod is not None and is_active(cached_pod) and is_ready(cached_pod)

    @staticmethod
    def _bounds(owner: DaemonSet, desired: int) -> Bounds:
        return bounds_of(owner.spec.update_strategy, desired)
