"""The types of a recording: plain values, stored as JSON.

Times are virtual seconds since the start of the run. Every list is bounded, whatever the size of the cluster and the
length of the run; if entries are omitted, their number is recorded.
"""

import msgspec

ACTION = "action"
FAULT = "fault"
VIOLATION = "violation"


class Steps(msgspec.Struct, frozen=True):
    """A step function.

    ``last[i]`` is the value from ``at[i]`` on. In long runs neighboring changes are merged: ``low[i]`` and ``high[i]``
    are the minimum and maximum between ``at[i]`` and the next point.
    """

    at: list[float] = []
    last: list[int] = []
    low: list[int] = []
    high: list[int] = []

    @property
    def most(self) -> int:
        """The maximum; 0 for an empty series."""
        return max(self.high, default=0)


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Counts by name, in buckets of equal width."""

    width: float
    """Bucket width in seconds. The first bucket starts at 0."""
    counts: dict[str, list[int]] = {}
    """Each list ends with the last bucket that is not empty."""

    @property
    def total(self) -> int:
        """The sum over all names."""
        return sum(map(sum, self.counts.values()))


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in seconds, exact to the millisecond."""

    count: int = 0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    most: float = 0.0


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one revision of a workload."""

    name: str
    """The value of the pods' label ``pod-template-hash`` or ``controller-revision-hash``; empty if they have none."""
    number: str = ""
    """The revision number: ``2``. After a rollback a revision has several: ``1, 3``."""
    image: str = ""
    """The image of the first container."""
    pods: Steps
    """The number of pods that are neither terminating nor in a terminal phase."""


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """A required number of ready pods."""

    name: str
    """Where it comes from: ``maxUnavailable 25%``, ``PodDisruptionBudget web``."""
    least: Steps
    """The required number of ready pods."""
    seconds_below: float = 0.0
    """How long fewer pods were ready, after the required number was ready once."""
    most_below: int = 0
    """The maximum number of missing pods during that time."""


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """The change from one revision to the next."""

    revision: str
    number: str = ""
    began: float
    finished: float | None = None
    """When all pods were of this revision and the desired number was ready; None if it was never complete, or was
    superseded."""
    fewest_ready: int = 0
    most_pods: int = 0
    """Including terminating pods."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A Deployment, StatefulSet, DaemonSet or CronJob, or a Job, ReplicaSet or ReplicationController without an owner,
    with its pods."""

    kind: str
    namespace: str
    name: str
    created: float
    deleted: float | None = None
    revisions: list[Revision] = []
    desired: Steps = Steps()
    ready: Steps = Steps()
    """Pods that are ready and not terminating."""
    unavailable: Steps = Steps()
    """The number of desired pods that were ready before and are not now; new pods of a start or a scale-up do not
    count."""
    pending: Steps = Steps()
    """Pods that are not scheduled."""
    terminating: Steps = Steps()
    succeeded: Steps = Steps()
    """Succeeded pods of a Job since the start; empty for other kinds."""
    failed: Steps = Steps()
    """Failed pods since the start."""
    bounds: list[Bound] = []
    rollouts: list[Rollout] = []
    time_to_ready: Percentiles = Percentiles()
    """From a pod's creation until it is ready for the first time, or until it is deleted, fails or the run ends: see
    ``pilothouse.simulate.readiness``."""
    never_ready: int = 0
    """Pods that were never ready: not ready yet at the end, or deleted or failed before."""
    most_unavailable: int = 0
    pods_created: int = 0
    pods_deleted: int = 0
    """Pods marked for deletion, or removed without that."""
    restarts: int = 0
    """Container restarts."""
    evictions: int = 0
    """Evicted pods: by the API, by taint eviction, by the kubelet, or by preemption."""
    deleted_by: dict[str, int] = {}
    """Deletions by client."""

    @property
    def title(self) -> str:
        """``deployment/web``."""
        return f"{self.kind.lower()}/{self.name}"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """The states of one node: ``ready``, ``not ready``, ``unknown``, ``cordoned``, ``gone``."""

    name: str
    zone: str = ""
    at: list[float]
    states: list[str]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Events with the same type, reason and owner: the first message and the number."""

    first: float
    last: float
    type: str
    reason: str
    object: str
    """The involved object of the first Event: ``pod/web-1``."""
    namespace: str = ""
    message: str = ""
    count: int = 1
    objects: int = 1
    """The number of involved objects."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A mark on the time axis."""

    at: float
    kind: str
    """ACTION, FAULT or VIOLATION."""
    text: str
    object: str = ""
    why: str = ""
    """The explanation of a violation, formatted as a tree."""


class Writes(msgspec.Struct, frozen=True, kw_only=True):
    """The writes of one client to one resource."""

    client: str
    resource: str
    """In the format RESOURCE.GROUP: ``replicasets.apps``."""
    created: int = 0
    modified: int = 0
    deleted: int = 0

    @property
    def total(self) -> int:
        """The total number of writes."""
        return self.created + self.modified + self.deleted


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """The recording of one run."""

    name: str = ""
    """The name of the scenario."""
    seed: int = 0
    variant: str = ""
    """The varied settings, if there are several variants: ``maxUnavailable=25%``."""
    began: str = ""
    """The virtual time at the start of the run, in RFC 3339."""
    seconds: float = 0.0
    """The virtual duration of the run."""
    zero: float = 0.0
    """When the timeline started; reported times are relative to it."""
    failure: str = ""
    """The failure; empty if the run passed."""
    digest: str = ""
    time_to_ready: Percentiles = Percentiles()
    """The pods of all workloads."""
    workloads: list[Workload] = []
    more_workloads: int = 0
    """The number of workloads that are not in ``workloads``."""
    nodes: list[Node] = []
    """The first nodes, in the order of registration; ``node_states`` counts all nodes."""
    node_states: dict[str, Steps] = {}
    requests: Rates = Rates(width=1.0)
    """API requests that reached a server, by ``client verb``. A watch is counted when it is opened."""
    queues: dict[str, Steps] = {}
    """Depths of the work queues by name. Sampled at writes only: a queue with depth 0 may have been used in between."""
    events: list[Event] = []
    more_events: int = 0
    event_rates: Rates = Rates(width=1.0)
    """By Event type: ``Normal``, ``Warning``."""
    marks: list[Mark] = []
    more_marks: int = 0
    writes: list[Writes] = []
    """Sorted by their number, descending."""

    @property
    def total_writes(self) -> int:
        """All writes, including heartbeats."""
        return sum(write.total for write in self.writes)
