"""What a report shows of one run: plain values that are JSON.

Times are virtual seconds since the start of the run. Every list is bounded, whatever the size of the cluster and the
length of the run; where something had to be left out, the value says how much.
"""

import msgspec

ACTION = "action"
FAULT = "fault"
VIOLATION = "violation"


class Steps(msgspec.Struct, frozen=True):
    """A number that changes at instants and stays in between.

    ``at[i]`` is when it became ``last[i]``. In a long run neighbouring changes are merged: ``low[i]`` and ``high[i]``
    are the least and the most that it was from ``at[i]`` on, until the next point.
    """

    at: list[float] = []
    last: list[int] = []
    low: list[int] = []
    high: list[int] = []

    @property
    def most(self) -> int:
        """The highest that it ever was; 0 if nothing is known."""
        return max(self.high, default=0)


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """How often something happened, by name, in buckets of equal width."""

    width: float
    """Seconds of a bucket. The first one begins at 0."""
    counts: dict[str, list[int]] = {}
    """By name; each list ends with the last bucket in which there was something."""

    @property
    def total(self) -> int:
        """Of all names."""
        return sum(map(sum, self.counts.values()))


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Durations in seconds, exact to the millisecond."""

    count: int = 0
    p50: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    most: float = 0.0


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one revision of a workload."""

    name: str
    """The value of the pods' label ``pod-template-hash`` or ``controller-revision-hash``; empty if they have none."""
    number: str = ""
    """Of the rollout: ``2``. After a rollback a revision has several: ``1, 3``."""
    image: str = ""
    """Of the first container."""
    pods: Steps
    """How many there are that are neither terminating nor at their end."""


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods have to be there."""

    name: str
    """What demands it: ``maxUnavailable 25%``, ``PodDisruptionBudget web``."""
    least: Steps
    """The number of ready pods that it demands."""
    seconds_below: float = 0.0
    """For how long there were fewer, after all that it demands were ready once."""
    most_below: int = 0
    """How many were missing then, at most."""


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """The change from one revision to the next."""

    revision: str
    number: str = ""
    began: float
    finished: float | None = None
    """When every pod was of it and as many as desired were ready; None if that never came, or another one began."""
    fewest_ready: int = 0
    most_pods: int = 0
    """Terminating ones, too."""


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """A Deployment, StatefulSet, DaemonSet, CronJob, Job, ReplicaSet or ReplicationController without an owner, and its
    pods."""

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
    """How many of the desired pods that had been ready once are not: new ones of a start or a scale-up do not count."""
    pending: Steps = Steps()
    """Pods without a node."""
    terminating: Steps = Steps()
    succeeded: Steps = Steps()
    """Pods of a Job that have ended well, since the beginning; empty for other kinds."""
    failed: Steps = Steps()
    """Pods that have failed, since the beginning."""
    bounds: list[Bound] = []
    rollouts: list[Rollout] = []
    time_to_ready: Percentiles = Percentiles()
    """From a pod's creation until it is ready for the first time, or until it is given up or the run ends: see
    ``pilothouse.simulate.readiness``."""
    never_ready: int = 0
    """Pods that were never ready: those that wait still at the end, and those that were deleted or failed before."""
    most_unavailable: int = 0
    pods_created: int = 0
    pods_deleted: int = 0
    """Marked for deletion, or removed without."""
    restarts: int = 0
    """Of containers."""
    evictions: int = 0
    """Pods that were evicted: by the API, by a taint, by their kubelet, or for a pod of higher priority."""
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
    """Events of one type, reason and owner: the first message, and how many there were."""

    first: float
    last: float
    type: str
    reason: str
    object: str
    """``pod/web-1``, the first that it was about."""
    namespace: str = ""
    message: str = ""
    count: int = 1
    objects: int = 1
    """About so many objects."""


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is marked on the axis of time."""

    at: float
    kind: str
    """ACTION, FAULT or VIOLATION."""
    text: str
    object: str = ""
    why: str = ""
    """Of a violation: the explanation, as the lines of a tree."""


class Writes(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that a client has made to objects of a resource."""

    client: str
    resource: str
    """As a group resource: ``replicasets.apps``."""
    created: int = 0
    modified: int = 0
    deleted: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.created + self.modified + self.deleted


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One run, as its report shows it."""

    name: str = ""
    """Of the scenario."""
    seed: int = 0
    variant: str = ""
    """What is varied, and how, if there are several: ``maxUnavailable=25%``."""
    began: str = ""
    """What the virtual clock said at the start of the run, in RFC 3339."""
    seconds: float = 0.0
    """Virtual, from the start to the end."""
    zero: float = 0.0
    """When the time line of the scenario began: its times count from there."""
    failure: str = ""
    """Why the run has failed; empty if it has not."""
    digest: str = ""
    time_to_ready: Percentiles = Percentiles()
    """Of the pods of all workloads."""
    workloads: list[Workload] = []
    more_workloads: int = 0
    """Those that came after the first ones are only counted."""
    nodes: list[Node] = []
    """In the order of their appearance, only the first ones; the numbers of all of them are in ``node_states``."""
    node_states: dict[str, Steps] = {}
    requests: Rates = Rates(width=1.0)
    """API requests that have reached a server, by ``client verb``. A watch counts when it is opened."""
    queues: dict[str, Steps] = {}
    """Depths of the work queues by name. Between writes nothing is looked at: an empty queue may have been in use."""
    events: list[Event] = []
    more_events: int = 0
    event_rates: Rates = Rates(width=1.0)
    """By type: ``Normal``, ``Warning``."""
    marks: list[Mark] = []
    more_marks: int = 0
    writes: list[Writes] = []
    """The most first."""

    @property
    def total_writes(self) -> int:
        """All changes, heartbeats too."""
        return sum(write.total for write in self.writes)
