"""Decides when a volume that is not desired is detached, and builds the multi-attach messages. Pure.

Upstream: v1.36 ``pkg/controller/volume/attachdetach/reconciler/reconciler.go``.
"""

from collections.abc import Iterable, Sequence

import msgspec

from pilothouse.api.core import Node, Pod
from pilothouse.machinery.go_text import quote
from pilothouse.semantics.attachments import Disk
from pilothouse.semantics.nodes import is_node_ready

UNMOUNT_SECONDS = 360.0
"""How long to wait for an unhealthy node to unmount a volume (``maxWaitForUnmountDuration``)."""
SILENCE_SECONDS = 10.0
"""How long to wait for a healthy node to report a volume as in use. Kubelets update their status at this interval
(``nodeStatusUpdateFrequency``), and immediately when it changes."""
OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"
TIMEOUT, OUT_OF_SERVICE = "timeout", "out-of-service"


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """A volume on a node, not desired there for ``waited`` seconds."""

    mounted: bool
    unreported: bool = False
    """It counts as mounted only because the node has not reported yet."""
    healthy: bool
    out_of_service: bool
    waited: float
    force: bool = True
    """Whether volumes are detached from unhealthy nodes after the timeout."""


class Wait(msgspec.Struct, frozen=True):
    """The node still uses it."""


class Detach(msgspec.Struct, frozen=True):
    """Detach now. ``forced`` is the reason for not checking the node first, or empty."""

    forced: str = ""


def decide_detach(observed: Observed) -> Wait | Detach:
    """Whether to detach the volume. After the timeout the live status of a healthy node is not checked any more, but
    its volume must not be mounted. If a healthy node has not reported, detaching is tried sooner and always with the
    check; upstream waits until another change of the node."""
    expired = observed.force and observed.waited > UNMOUNT_SECONDS
    if observed.unreported and observed.healthy and not observed.out_of_service and observed.waited > SILENCE_SECONDS:
        return Detach()
    if observed.mounted and not (expired and not observed.healthy) and not observed.out_of_service:
        return Wait()
    if expired:
        return Detach(TIMEOUT)
    return Detach(OUT_OF_SERVICE if observed.out_of_service else "")


def is_healthy(node: Node | None) -> bool:
    return node is not None and is_node_ready(node)


def is_out_of_service(node: Node | None) -> bool:
    return node is not None and any(taint.key == OUT_OF_SERVICE_TAINT for taint in node.spec.taints)


def multi_attach_messages(disk: Disk, waiting: Iterable[Pod], users: Sequence[Pod]) -> list[tuple[Pod, str]]:
    """The message for each pod that waits for a volume. ``users`` are the pods that use it on other nodes; names in
    other namespaces are not revealed."""
    prefix = f"Multi-Attach error for volume {quote(disk.volume)} "
    reported: list[tuple[Pod, str]] = []
    for pod in waiting:
        same_namespace = [user.metadata.name for user in users if user.metadata.namespace == pod.metadata.namespace]
        other_count = len(users) - len(same_namespace)
        if not users:
            text = "Volume is already exclusively attached to one node and can't be attached to another"
        elif same_namespace:
            text = f"Volume is already used by pod(s) {', '.join(same_namespace)}"
            if other_count:
                text += f" and {other_count} pod(s) in different namespaces"
        else:
            text = f"Volume is already used by {other_count} pod(s) in different namespaces"
        reported.append((pod, prefix + text))
    return reported
