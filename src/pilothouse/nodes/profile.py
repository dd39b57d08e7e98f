"""How simulated nodes behave: sizes and delays, all in seconds."""

import msgspec

from pilothouse.api.core import Taint

EVENTFUL_NODES = 20
"""By default, simulators with up to this many nodes send events."""


KUBELET = "kubelet"
"""The event source component of simulated nodes."""


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of one kind of simulated node. With the defaults everything is fast, and in the order of a
    kubelet."""

    cpu: str = "32"
    memory: str = "256Gi"
    ephemeral_storage: str = "1Ti"
    pods: int = 110
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    """The taints that the node registers with, as the kubelet's ``--register-with-taints``."""
    clears_start_taint: bool = True
    """Remove the taint that admission adds to every new node, instead of a node lifecycle controller."""
    adopts: bool = False
    """Keep an existing Node of this name except for its heartbeats: it comes from a snapshot, and has the addresses,
    capacity and labels of the real node."""
    events: bool | None = None
    """Send a kubelet's events of pods and nodes (Pulled, Created, Started, Killing, NodeReady, ...). They double the
    writes per pod. None: in clusters of up to ``EVENTFUL_NODES``."""

    accept_delay: float = 0.0
    """From the binding to the first status (Pending, ContainerCreating)."""
    start_delay: float = 0.3
    """From the first status to the start of all containers."""
    ready_delay: float = 0.0
    """From running to Ready. At 0 both are one write, as for a pod without readiness probes."""
    stop_delay: float = 1.0
    """From the deletion to the end of the containers, which are killed when the pod's grace period is over."""
    remove_delay: float = 0.0
    """From the terminal phase to the final delete."""
    init_run_time: float = 0.0
    """How long each init container runs that is not a sidecar. At 0 they end when the next containers start."""
    job_run_time: float = 1.0
    """How long the containers of a Job's pods run before they exit with code 0."""
    commands: bool = True
    """Derive the behavior of pods from their specs: commands such as ``sleep 5`` and ``exit 3`` end accordingly;
    containers that are not restarted end as those of Jobs, unless they are servers; images such as ``app:404`` cannot
    be pulled. Without it all containers except those of Jobs run until they are stopped."""
    restart_gap: float = 1.0
    """From the end of a container to the next step: a kubelet relists the containers once a second."""

    eviction_period: float = 10.0
    """Under pressure, one pod is evicted in each of these periods."""
    pressure_transition: float = 300.0
    """How long the condition of a node remains after the pressure has ended."""

    lease_period: float = 10.0
    """Renewal of the node's Lease: a quarter of its 40 s, as the kubelet does (v1.36 ``pkg/kubelet``)."""
    status_period: float = 300.0
    """Report of an unchanged node status."""
    sync_period: float = 10.0
    """How soon a status that another client changed, of a node or a pod, is corrected."""
    jitter: float = 0.04
    """Periods are extended by a random share of up to this."""

    def sends_events(self, nodes: int) -> bool:
        """Whether a simulator with this number of nodes sends events."""
        return nodes <= EVENTFUL_NODES if self.events is None else self.events


PROFILES = {
    "quick": Profile(),
    "instant": Profile(start_delay=0.0, stop_delay=0.0, job_run_time=0.0),
    "lifelike": Profile(
        accept_delay=0.05, start_delay=2.5, ready_delay=1.0, stop_delay=2.0, init_run_time=1.5, job_run_time=10.0
    ),
}
"""The values of ``--pod-profile``."""
