"""Which pods to create and delete on one node. Pure.

Upstream: ``podsShouldBeOnNode`` and ``getUnscheduledPodsWithoutNode``, v1.36 ``pkg/controller/daemon/
daemon_controller.go``. The controller adds up what the nodes need, at most 250 creates and 250 deletes in one sync.
"""

import datetime
from collections.abc import Iterable

import msgspec

from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.daemonset.node_pods import NodePods, Rules
from pilothouse.controllers.workloads.daemonset.pod_template import HASH_LABEL
from pilothouse.semantics.pods import is_ready

BURST = 250
"""At most this many creates, and as many deletes, in one sync (``BurstReplicas``)."""


class NodeChanges(msgspec.Struct, frozen=True, kw_only=True):
    create: bool = False
    delete: tuple[str, ...] = ()
    """Names of pods."""
    failed: str = ""
    """The failed pod in ``delete``. It increases the backoff of the node."""
    succeeded: tuple[str, ...] = ()
    """The succeeded pods in ``delete``."""
    waits: bool = False
    """A failed pod is not deleted before the backoff of its node has passed."""


NOTHING = NodeChanges()


def pods_should_be_on_node(
    node_pods: NodePods, rules: Rules, now: datetime.datetime, *, in_backoff: bool = False
) -> NodeChanges:
    """The changes that give the node one pod if it should run one, one old and one new during a surge, and none
    otherwise.

    A terminating pod is only replaced when it is gone. One failed pod of a node is deleted at a time.
    """
    if not node_pods.exists:
        # Pods bound to a deleted node are deleted by the pod garbage collector, which ignores pods without a node.
        return _deletion(pod for pod in node_pods.pods if not pod.spec.node_name)
    if not node_pods.pods:
        return NodeChanges(create=True) if node_pods.should_run else NOTHING
    if not node_pods.should_continue:
        return _deletion(node_pods.pods)
    running: list[Pod] = []
    finished: list[str] = []
    failed = ""
    waits = False
    for pod in node_pods.pods:
        if pod.metadata.deletion_timestamp is not None:
            continue
        if pod.status.phase == "Failed":
            if in_backoff or failed:
                waits = True
            else:
                failed = pod.metadata.name
        elif pod.status.phase == "Succeeded":
            finished.append(pod.metadata.name)
        else:
            running.append(pod)
    create = False
    surplus: list[str] = []
    if not rules.surges:
        surplus = [pod.metadata.name for pod in running[1:]]
    elif not running:
        # Unlike without surge, a terminating pod is not waited for: two pods are allowed. A failed pod in backoff is:
        # upstream creates the next one, endlessly and without delay if the kubelet rejects them all.
        create = node_pods.should_run and not waits
    elif len(running) > 1:
        surplus = _surplus_during_surge(running, rules, now)
    if not (create or failed or finished or surplus or waits):
        return NOTHING
    return NodeChanges(
        create=create,
        delete=(*((failed,) if failed else ()), *finished, *surplus),
        failed=failed,
        succeeded=tuple(finished),
        waits=waits,
    )


def _surplus_during_surge(running: list[Pod], rules: Rules, now: datetime.datetime) -> list[str]:
    """All but the first new and the first old pod, and the old one once it is not ready or the new one is available."""
    new = next((pod for pod in running if _is_new(pod, rules)), None)
    old = next((pod for pod in running if not _is_new(pod, rules)), None)
    surplus = [pod.metadata.name for pod in running if pod is not new and pod is not old]
    if new is not None and old is not None and (not is_ready(old) or rules.is_available(new, now)):
        surplus.append(old.metadata.name)
    return surplus


def _is_new(pod: Pod, rules: Rules) -> bool:
    # As upstream, by the hash only, not by the template generation as elsewhere.
    return pod.metadata.labels.get(HASH_LABEL) == rules.revision_hash


def _deletion(pods: Iterable[Pod]) -> NodeChanges:
    names = tuple(pod.metadata.name for pod in pods if pod.metadata.deletion_timestamp is None)
    return NodeChanges(delete=names) if names else NOTHING
