"""The state of one node for one DaemonSet: the input of the decisions per node. Pure.

Created by ``node_to_daemon_pods``, used by ``manage``, ``rolling`` and ``status``.
"""

import datetime
from collections.abc import Iterable

import msgspec

from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.daemonset.placement import MUST_NOT_RUN, Placement
from pilothouse.controllers.workloads.daemonset.pod_template import is_updated
from pilothouse.semantics.pods import is_available, is_ready, is_terminal

_LATEST = datetime.datetime.max.replace(tzinfo=datetime.UTC)


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a DaemonSet for the decisions about a node, at one moment."""

    revision_hash: str
    generation: int | None = None
    surges: bool = False
    """Whether a new pod may be created next to the old one."""
    min_ready_seconds: int = 0

    def is_updated(self, pod: Pod) -> bool:
        return is_updated(pod, self.revision_hash, self.generation)

    def is_available(self, pod: Pod, now: datetime.datetime) -> bool:
        return is_available(pod, self.min_ready_seconds, now)


class NodePods(msgspec.Struct, frozen=True, kw_only=True):
    """A node with the pods that are on it or are pinned to it, first those of ``in_order``."""

    node: str
    exists: bool = True
    """The node exists."""
    placement: Placement = MUST_NOT_RUN
    pods: tuple[Pod, ...] = ()

    @property
    def should_run(self) -> bool:
        return self.exists and self.placement.should_run

    @property
    def should_continue(self) -> bool:
        return self.exists and self.placement.should_continue


def in_order(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Pods with a node first, then older ones, then ready ones (not upstream), then by name: the first one counts and
    is kept. Finished pods that are being deleted are omitted (v1.36 ``getNodesToDaemonPods``, kubernetes#95711).
    """
    remaining = [pod for pod in pods if pod.metadata.deletion_timestamp is None or not is_terminal(pod)]
    if len(remaining) > 1:
        remaining.sort(key=_rank)
    return tuple(remaining)


def _rank(pod: Pod) -> tuple[bool, datetime.datetime, bool, str]:
    return (not pod.spec.node_name, pod.metadata.creation_timestamp or _LATEST, not is_ready(pod), pod.metadata.name)


def waits_for_time(node_pods: NodePods, rules: Rules, now: datetime.datetime) -> bool:
    """Whether a pod will become available without an event."""
    return rules.min_ready_seconds > 0 and any(
        is_ready(pod) and not rules.is_available(pod, now) for pod in node_pods.pods
    )
