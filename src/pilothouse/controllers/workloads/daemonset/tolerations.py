"""The tolerations that every daemon pod gets, for nodes that are unhealthy or cordoned. Pure. Upstream:
``AddOrUpdateDaemonPodTolerations``, v1.36 ``pkg/controller/daemon/util/daemonset_util.go``."""

from collections.abc import Iterable, Sequence

from pilothouse.api.core import Toleration
from pilothouse.semantics.nodes import NO_EXECUTE, NO_SCHEDULE

_ALWAYS = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
)
_HOST_NETWORK = (("node.kubernetes.io/network-unavailable", NO_SCHEDULE),)


def daemon_tolerations(*, host_network: bool) -> tuple[Toleration, ...]:
    """The tolerations that are added, in this order. Pods on the host network also tolerate an unavailable network."""
    return tuple(
        Toleration(key=key, operator="Exists", effect=effect)
        for key, effect in (_ALWAYS + _HOST_NETWORK if host_network else _ALWAYS)
    )


def match_toleration(lhs: Toleration, rhs: Toleration) -> bool:
    """Whether two tolerations are equal except for their duration (``MatchToleration``)."""
    return (lhs.key, lhs.effect, lhs.operator, lhs.value) == (rhs.key, rhs.effect, rhs.operator, rhs.value)


def with_daemon_tolerations(tolerations: Iterable[Toleration], *, host_network: bool) -> tuple[Toleration, ...]:
    """The template's tolerations, then the added ones. One with ``tolerationSeconds`` becomes unlimited in place."""
    merged = list(tolerations)
    for added in daemon_tolerations(host_network=host_network):
        for index in positions(merged, added):
            merged[index : index + 1] = [added]
    return tuple(merged)


def positions(tolerations: Sequence[Toleration], added: Toleration) -> Sequence[int]:
    """The indexes to replace by the added toleration: of all that match it, else the end; none if it is present
    (``AddOrUpdateTolerationInPodSpec``)."""
    if added in tolerations:
        return ()
    return [index for index, toleration in enumerate(tolerations) if match_toleration(toleration, added)] or (
        len(tolerations),
    )
