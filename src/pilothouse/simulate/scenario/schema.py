"""The types of a scenario file: ``kind: Scenario`` of ``simulate.pilothouse.io/v1alpha1``.

The docstrings are the descriptions in the published JSON Schema, which editors show.
"""

from typing import Any, Literal

import msgspec

from pilothouse.machinery.flags import closest
from pilothouse.simulate.scenario.actions import Entry, parse_taint
from pilothouse.simulate.scenario.scalars import Duration, Quantity, Share

API_VERSION = "simulate.pilothouse.io/v1alpha1"
KIND = "Scenario"
ZONE_LABEL = "topology.kubernetes.io/zone"
MAX_NODES = 20_000
Paths = str | tuple[str, ...]


class _Strict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class Metadata(_Strict, frozen=True, kw_only=True):
    """The metadata of the scenario."""

    name: str
    """Its name in reports and results."""
    labels: dict[str, str] = {}
    """For other programs; not used here."""
    annotations: dict[str, str] = {}
    """For other programs; not used here."""


class Capacity(_Strict, frozen=True, kw_only=True):
    """The size of a node."""

    cpu: Quantity = msgspec.field(default_factory=lambda: Quantity("32"))
    """CPUs, as capacity and allocatable."""
    memory: Quantity = msgspec.field(default_factory=lambda: Quantity("256Gi"))
    """Memory, as capacity and allocatable."""
    ephemeral_storage: Quantity = msgspec.field(default_factory=lambda: Quantity("1Ti"), name="ephemeral-storage")
    """Disk for containers and emptyDir volumes."""
    pods: int = 110
    """The maximum number of pods of the node."""


class Spread(_Strict, frozen=True, kw_only=True):
    """A random duration with a log-normal distribution."""

    median: Duration
    """The median."""
    p99: Duration | None = None
    """The 99th percentile. Default: no variation, always the median."""

    def __post_init__(self) -> None:
        if self.p99 is not None and self.p99 < self.median:
            raise ValueError("p99 is at least the median")


class NodeGroup(_Strict, frozen=True, kw_only=True):
    """Nodes of the same kind: NAME-0, NAME-1, … For a pool over three zones use three groups with a common label."""

    name: str
    """The prefix of the node names."""
    count: int
    """The number of nodes, from 0 to 20,000."""
    zone: str = ""
    """The value of the label topology.kubernetes.io/zone."""
    capacity: Capacity = msgspec.field(default_factory=Capacity)
    labels: dict[str, str] = {}
    """The labels of each node."""
    taints: tuple[str, ...] = ()
    """Taints as KEY=VALUE:EFFECT, as in the kubelet's --register-with-taints."""
    profile: Literal["lifelike", "quick", "instant", "calm"] = "lifelike"
    """The timing of nodes and pods. lifelike: pods start within seconds, a heartbeat every ten seconds; calm: the same
    with a heartbeat every 40 seconds, for thousands of nodes; quick and instant: pods start in a third of a second, or
    immediately."""

    def __post_init__(self) -> None:
        if not 0 <= self.count <= 20_000:
            raise ValueError(f"count must be from 0 to 20000, got {self.count}")
        for taint in self.taints:
            parse_taint(taint)


class PodRule(_Strict, frozen=True, kw_only=True):
    """The behavior of pods that match a selector; the first matching rule applies."""

    namespace: str = ""
    """The namespace; empty: all."""
    selector: str = ""
    """A label selector; empty: all pods."""
    start: Spread | None = None
    """The time from pulled images to running containers, for each pod."""
    image_pull: Spread | None = None
    """The duration of a node's first pull of an image. Later pods find the image on the node."""
    fail_every: Duration | None = None
    """The mean time between random failures of the containers of each pod."""
    exit_code: int = 1
    """The exit code of containers that fail."""


class ApiServerSettings(_Strict, frozen=True, kw_only=True):
    """The API server for the manager and the program."""

    latency: Spread | None = None
    """The latency of each request. Default: none; computation takes no virtual time either."""


class SchedulerSettings(_Strict, frozen=True, kw_only=True):
    """The scheduler."""

    kube_api_qps: float = msgspec.field(default=50.0, name="kube-api-qps")
    """Requests per second; 0: no limit."""
    kube_api_burst: int = msgspec.field(default=100, name="kube-api-burst")
    """The maximum burst of requests."""

    def __post_init__(self) -> None:
        if not 0 <= self.kube_api_qps <= 1e6 or self.kube_api_burst < 1:
            raise ValueError("kube-api-qps must be from 0 to 1000000, and kube-api-burst at least 1")


class Cluster(_Strict, frozen=True, kw_only=True):
    """The initial cluster."""

    node_groups: tuple[NodeGroup, ...] = msgspec.field(default_factory=lambda: (NodeGroup(name="node", count=3),))
    """Default: three nodes; with a snapshot only its own."""
    snapshot: str = ""
    """A file of `pilothouse snapshot save`: the initial state of the cluster, with its nodes."""
    stages: Paths = ()
    """Files or directories with KWOK Stages, which replace the default behavior of nodes or pods."""
    pods: tuple[PodRule, ...] = ()
    """The behavior of pods, in addition to the annotations simulated.pilothouse.dev/… of each pod."""
    start: str = "2026-01-01T00:00:00Z"
    """The initial time of the clock. Default with a snapshot: the time of the snapshot."""
    api_server: ApiServerSettings = ApiServerSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    storage: bool = False
    """Whether there is a default StorageClass with a driver that provisions volumes."""
    feature_gates: dict[str, bool] = {}
    """Feature gates of the API server and the manager: GATE: true."""

    def __post_init__(self) -> None:
        names = [group.name for group in self.node_groups]
        if len(set(names)) != len(names):
            raise ValueError("two node groups have the same name")
        if (total := sum(group.count for group in self.node_groups)) > MAX_NODES:
            raise ValueError(f"at most {MAX_NODES} nodes, got {total}")


class Manager(_Strict, frozen=True, kw_only=True):
    """The controller manager."""

    controllers: tuple[str, ...] = ("*",)
    """Enabled controllers, as in --controllers."""
    flags: dict[str, str | int | float | bool] = {}
    """Flags of kube-controller-manager, without dashes: node-monitor-grace-period: 40s."""
    leader_elect: bool = False
    """Whether the manager uses leader election, as --leader-elect."""
    replicas: int = 1
    """The number of processes. 2 requires leaderElect: the second one takes over."""

    def __post_init__(self) -> None:
        if not 1 <= self.replicas <= 2:
            raise ValueError(f"replicas must be 1 or 2, got {self.replicas}")
        if self.replicas > 1 and not self.leader_elect:
            raise ValueError("two replicas need leaderElect: true")


class ProgramFile(_Strict, frozen=True, kw_only=True):
    """An operator or controller under test."""

    operator: str
    """FILE or FILE:NAME: a Python file with a pilothouse.operator.App."""


class Faults(_Strict, frozen=True, kw_only=True):
    """Random faults at random times, by count or rate."""

    count: int | None = None
    """The number of faults, at most 1,000."""
    rate: str | None = None
    """The rate: 3/h or 0.5/m."""
    after: Duration = msgspec.field(default_factory=lambda: Duration(0.0))
    """The earliest time of a fault, from the start of the timeline."""
    within: Duration
    """The faults start within this time, counted from after."""
    of: tuple[Literal["manager", "nodes", "pods"], ...] = ("manager",)
    """The targets. manager: it is killed, its requests fail, its watches are delayed; nodes: outages; pods: containers
    crash."""
    resources: tuple[str, ...] = ()
    """The resources whose watches and writes fail. Default: those of the common workloads."""

    def __post_init__(self) -> None:
        if (self.count is None) == (self.rate is None):
            raise ValueError("faults have a count or a rate")
        if not self.of:
            raise ValueError("of must not be empty: manager, nodes, pods")
        if not 0 <= self.number <= 1000:
            raise ValueError(f"at most 1000 faults, got {self.number}")

    @property
    def number(self) -> int:
        """The number of faults."""
        if self.count is not None:
            return self.count
        amount, slash, unit = (self.rate or "").partition("/")
        seconds = {"s": 1, "m": 60, "h": 3600, "d": 86400}.get(unit)
        try:
            return round(float(amount) * self.within / seconds) if slash and seconds else int("")
        except (ValueError, OverflowError):
            raise ValueError(f'a rate is a number per s, m, h or d, such as 3/h, got "{self.rate}"') from None


class Until(_Strict, frozen=True, kw_only=True):
    """When the run ends: at a time, or when the cluster is quiet."""

    time: Duration | None = None
    """The end, from the start of the timeline. Together with quiet it is a time limit, which fails the run."""
    quiet: Duration | None = None
    """End after this time without actions and writes; heartbeats and the work of CronJobs do not count."""

    def __post_init__(self) -> None:
        if self.time is None and self.quiet is None:
            raise ValueError("until has a time, quiet, or both")
        if self.time is not None and self.quiet is not None and self.quiet >= self.time:
            raise ValueError("quiet must be shorter than time, or the run can't end in it")


class Rule(_Strict, frozen=True, kw_only=True):
    """A CEL expression that must be true at all times."""

    cel: str
    """The expression; see the section about expressions."""
    name: str = ""
    """The name in messages and results."""
    for_each: str = ""
    """A resource, such as pods. The expression is evaluated for each object, which is the variable object."""
    message: str = ""
    """An explanation for messages about violations."""


class EventuallyRule(Rule, frozen=True, kw_only=True):
    """A CEL expression that must become true in time."""

    within: Duration
    """The maximum time, from the start of the timeline or of the entry."""
    after: str = ""
    """The name of an entry of the timeline; empty: the start of the timeline."""
    again: bool = False
    """It must first be false after the start of the entry: if it was true before, that does not count."""


class TimeToReady(_Strict, frozen=True, kw_only=True):
    """The maximum time from a pod's creation until it is Ready. Pods that never became ready count with their age at
    the end."""

    p50: Duration | None = None
    """The median."""
    p95: Duration | None = None
    """The 95th percentile."""
    p99: Duration | None = None
    """The 99th percentile."""
    max: Duration | None = None
    """The maximum."""


class Limit(_Strict, frozen=True, kw_only=True):
    """A maximum."""

    max: int
    """The maximum."""
    by: str = ""
    """For writes: only those of a program: manager, scheduler, nodes, user, server, or the name of the operator."""


class Budget(_Strict, frozen=True, kw_only=True):
    """A limit of one of the measures."""

    name: str = ""
    """The name in messages and results."""
    workload: str = ""
    """The workload as TYPE/NAME, such as deployment/web; empty: all pods, also those of Jobs and CronJobs."""
    namespace: str = "default"
    """The namespace of the workload."""
    max_unavailable: Share | None = None
    """The maximum number of pods of the workload that are unavailable at the same time, after all were available once.
    A percentage is of the replicas at that moment, rounded down as for a Deployment; a PodDisruptionBudget rounds
    up."""
    time_to_ready: TimeToReady | None = None
    writes: Limit | None = None
    """The maximum number of writes during the whole run, including heartbeats."""
    restarts: Limit | None = None
    """The maximum number of container restarts."""

    def __post_init__(self) -> None:
        limits = [limit for limit in (self.max_unavailable, self.time_to_ready, self.writes, self.restarts) if limit]
        if len(limits) != 1:
            raise ValueError("a budget has one of maxUnavailable, timeToReady, writes and restarts")
        if self.max_unavailable is not None and not self.workload:
            raise ValueError("maxUnavailable requires a workload: TYPE/NAME")
        if self.max_unavailable is not None and self.workload.partition("/")[0].lower() == "job":
            raise ValueError("maxUnavailable is not available for Jobs, whose pods terminate")
        if self.workload and (
            self.workload.count("/") != 1 or self.workload.partition("/")[0].lower() not in WORKLOAD_KINDS
        ):
            near = closest(self.workload.partition("/")[0].lower(), list(WORKLOAD_KINDS))
            hint = f"; did you mean {near}?" if near else ""
            raise ValueError(
                f'workload must be TYPE/NAME with one of {", ".join(WORKLOAD_KINDS)}, got "{self.workload}"{hint}'
            )


WORKLOAD_KINDS = {
    "deployment": "Deployment",
    "statefulset": "StatefulSet",
    "daemonset": "DaemonSet",
    "replicaset": "ReplicaSet",
    "job": "Job",
}


class Expect(_Strict, frozen=True, kw_only=True):
    """The expectations."""

    always: tuple[Rule, ...] = ()
    """Expressions that must always be true. Evaluated after every change of an object that they read."""
    eventually: tuple[EventuallyRule, ...] = ()
    """Expressions that must become true in time."""
    at_end: tuple[Rule, ...] = ()
    """Expressions that must be true at the end of the run."""
    invariants: tuple[str, ...] = ()
    """Invariants by name, checked after every write: ReplicaSets, Garbage, …"""
    budgets: tuple[Budget, ...] = ()


class Spec(_Strict, frozen=True, kw_only=True):
    """A cluster, actions and faults, and expectations."""

    description: str = ""
    """The description."""
    cluster: Cluster = msgspec.field(default_factory=Cluster)
    manager: Manager = Manager()
    programs: tuple[ProgramFile, ...] = ()
    """At most one operator or controller under test. It replaces the manager as the target of faults."""
    objects: tuple[str | dict[str, Any], ...] = ()
    """The initial objects: manifests, files, directories (also with a kustomization.yaml)."""
    ready: Duration = msgspec.field(default_factory=lambda: Duration(0.0))
    """The timeline starts this time after the objects were applied."""
    timeline: tuple[Entry, ...] = ()
    """The actions."""
    faults: Faults | None = None
    """Random faults, which depend on the seed of the run."""
    until: Until = msgspec.field(default_factory=lambda: Until(quiet=Duration(1200.0), time=Duration(7 * 86400.0)))
    expect: Expect = Expect()

    def __post_init__(self) -> None:
        if len(self.programs) > 1:
            raise ValueError("a scenario has at most one program")
        names = [entry.name for entry in self.timeline if entry.name]
        if len(set(names)) != len(names):
            raise ValueError("two entries of the timeline have the same name")


class ScenarioFile(_Strict, frozen=True, kw_only=True):
    """A scenario for `pilothouse simulate`."""

    api_version: Literal["simulate.pilothouse.io/v1alpha1"]
    kind: Literal["Scenario"]
    metadata: Metadata
    spec: Spec
