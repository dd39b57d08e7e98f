"""The entries of ``spec.timeline``: times and actions.

Each entry has a time (``at``, ``every``, ``when``) and exactly one action. ``pilothouse.simulate.actions`` performs
them.
"""

from typing import Any, Literal

import msgspec

from pilothouse.simulate.scenario.scalars import Duration, Quantity


class _Strict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


_WORKLOADS = ("deployment", "stateful_set", "daemon_set", "replica_set", "job", "cron_job")


class Target(_Strict, frozen=True, kw_only=True):
    """One object, by exactly one of these fields."""

    namespace: str = "default"
    """The namespace of the object; ignored for cluster-scoped objects."""
    object: str | None = None
    """Any object as TYPE/NAME, as kubectl accepts it, for example resourcequota/small."""
    deployment: str | None = None
    """The name of a Deployment."""
    stateful_set: str | None = None
    """The name of a StatefulSet."""
    daemon_set: str | None = None
    """The name of a DaemonSet."""
    replica_set: str | None = None
    """The name of a ReplicaSet."""
    job: str | None = None
    """The name of a Job."""
    cron_job: str | None = None
    """The name of a CronJob."""

    def __post_init__(self) -> None:
        names = [name for name in ("object", *_WORKLOADS) if getattr(self, name) is not None]
        if len(names) != 1:
            raise ValueError("name one object: by deployment, statefulSet, daemonSet, …, or by object: TYPE/NAME")
        if self.object is not None and (self.object.count("/") != 1 or "" in self.object.split("/")):
            raise ValueError(f'object must be TYPE/NAME, got "{self.object[:80]}"')

    @property
    def resource_and_name(self) -> tuple[str, str]:
        """Resource and name: ``("deployments", "web")``; the type of ``object`` is as written."""
        if self.object is not None:
            resource, _slash, name = self.object.partition("/")
            return resource, name
        field = next(name for name in _WORKLOADS if getattr(self, name) is not None)
        return f"{field.replace('_', '')}s", getattr(self, field)

    def __str__(self) -> str:
        resource, name = self.resource_and_name
        return f"{resource}/{name}" + (f" in {self.namespace}" if self.namespace != "default" else "")


class Patch(Target, frozen=True, kw_only=True):
    """Patch an object, with exactly one kind of patch."""

    merge: dict[str, Any] | None = None
    """A JSON merge patch."""
    strategic: dict[str, Any] | None = None
    """A strategic merge patch, kubectl's default."""
    json: list[dict[str, Any]] | None = None
    """A JSON patch: a list of operations."""
    subresource: str = ""
    """A subresource, for example status."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if sum(patch is not None for patch in (self.merge, self.strategic, self.json)) != 1:
            raise ValueError("a patch has one of merge, strategic and json")


class Scale(Target, frozen=True, kw_only=True):
    """Set the number of replicas, through the subresource scale."""

    replicas: int
    """The number of replicas."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.replicas <= 1_000_000:
            raise ValueError(f"replicas must be from 0 to 1000000, got {self.replicas}")


class SetImage(Target, frozen=True, kw_only=True):
    """Set the image of a container, as ``kubectl set image``. Tags such as 404 can't be pulled."""

    image: str
    """The image, for example web:2."""
    container: str = ""
    """The name of the container; empty: all."""


class Restart(Target, frozen=True, kw_only=True):
    """As ``kubectl rollout restart``."""


class Delete(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Delete one object, or the objects of a type that match a selector."""

    namespace: str = "default"
    """The namespace of the object; ignored for cluster-scoped objects."""
    object: str
    """The object as TYPE/NAME, or TYPE with a selector."""
    selector: str = ""
    """A label selector: app=web,tier!=db."""
    grace_period: Duration | None = None
    """The grace period; overrides that of the object."""
    propagation: Literal["Background", "Foreground", "Orphan"] = "Background"
    """The propagation policy for its dependents."""

    def __post_init__(self) -> None:
        parts = self.object.split("/")
        if len(parts) > 2 or "" in parts or (len(parts) == 1) != bool(self.selector):
            raise ValueError("object must be TYPE/NAME, or TYPE together with a selector")

    def __str__(self) -> str:
        return self.object + (f" -l {self.selector}" if self.selector else "")


class NodeSelection(_Strict, frozen=True, kw_only=True):
    """Nodes that match all given fields. Vanished nodes are only selected by name, or by revive."""

    name: str = ""
    """One node."""
    names: tuple[str, ...] = ()
    """Several nodes."""
    group: str = ""
    """A group of ``cluster.nodeGroups``."""
    zone: str = ""
    """A zone of ``cluster.nodeGroups``."""
    selector: str = ""
    """A label selector: pool=web,zone!=a."""
    count: int | None = None
    """The number of nodes, selected randomly by the seed. It is an error if fewer nodes match."""

    def __post_init__(self) -> None:
        if not (self.name or self.names or self.group or self.zone or self.selector or self.count is not None):
            raise ValueError("select nodes by name, names, group, zone, selector or count")
        if self.count is not None and not 0 < self.count <= 100_000:
            raise ValueError(f"count must be from 1 to 100000, got {self.count}")

    def __str__(self) -> str:
        parts = [*([self.name] if self.name else []), *self.names]
        parts += [f"{key} {getattr(self, key)}" for key in ("group", "zone", "selector") if getattr(self, key)]
        picked = f"{self.count} of " if self.count is not None else ""
        return picked + (", ".join(parts) or "all nodes")


class NodeFault(NodeSelection, frozen=True, kw_only=True):
    """Faults of nodes. Exactly one of the effects."""

    silence: bool = False
    """The nodes send nothing, as with a network partition; containers keep running."""
    vanish: bool = False
    """The machines and their Node objects are deleted, as by a cloud controller manager."""
    out_of_service: bool = False
    """The nodes send nothing, and get the taint node.kubernetes.io/out-of-service."""
    slow: Duration | None = None
    """All requests of the nodes are delayed by this time; 0s ends the delay."""
    pressure: Literal["memory", "disk", "pids"] | None = None
    """The nodes report the pressure condition of this resource, and evict a pod every ten seconds."""
    relieve: bool = False
    """End all pressure conditions."""
    reboot: bool = False
    """The nodes reboot immediately; all running containers terminate."""
    revive: bool = False
    """End all faults of the nodes. Containers kept running, except on machines that were deleted."""
    lose_disk: bool = False
    """With revive: the machines return without their containers."""
    for_: Duration | None = msgspec.field(default=None, name="for")
    """The duration; afterwards the fault is reverted."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = [name for name in _EFFECTS if getattr(self, name)] + (["slow"] if self.slow is not None else [])
        if len(names) != 1:
            raise ValueError(
                "one effect: silence, vanish, outOfService, slow, pressure, relieve, reboot or revive; "
                f"got {', '.join(names) or 'none'}"
            )
        if self.lose_disk and not self.revive:
            raise ValueError("loseDisk requires revive: the nodes return without their containers")
        if self.for_ is not None and (self.relieve or self.reboot or self.revive):
            raise ValueError("for is the duration of an outage; this effect has none")

    @property
    def effect(self) -> str:
        """The field name of the effect."""
        return "slow" if self.slow is not None else next(name for name in _EFFECTS if getattr(self, name))


_EFFECTS = ("silence", "vanish", "out_of_service", "pressure", "relieve", "reboot", "revive")


class Drain(NodeSelection, frozen=True, kw_only=True):
    """As ``kubectl drain --ignore-daemonsets``: cordon the nodes, then evict their pods node by node. Evictions respect
    PodDisruptionBudgets and are retried every five seconds."""

    timeout: Duration | None = None
    """The time limit, which fails the run. Default: none."""
    grace_period: Duration | None = None
    """The grace period; overrides that of the pods."""
    delete_empty_dir_data: bool = True
    """Whether to evict pods with emptyDir volumes. If false they fail the drain, as with kubectl without
    --delete-emptydir-data."""
    force: bool = False
    """Whether to evict pods without a controller. If false they fail the drain."""
    parallel: bool = False
    """Whether to drain all nodes in parallel."""


class TaintNodes(NodeSelection, frozen=True, kw_only=True):
    """Add a taint: KEY=VALUE:EFFECT or KEY:EFFECT."""

    taint: str
    """The taint, for example pool=batch:NoSchedule."""

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_taint(self.taint)


class UntaintNodes(NodeSelection, frozen=True, kw_only=True):
    """Remove taints by key, or by KEY:EFFECT."""

    taint: str
    """The key or KEY:EFFECT, for example pool or pool:NoSchedule."""


class PodSelection(_Strict, frozen=True, kw_only=True):
    """Pods that match all given fields."""

    namespace: str = "default"
    """The namespace of the pods."""
    name: str = ""
    """One pod."""
    selector: str = ""
    """A label selector: app=web,tier!=db."""
    node: str = ""
    """The node of the pods."""
    count: int | None = None
    """The number of pods, selected randomly by the seed."""

    def __post_init__(self) -> None:
        if not (self.name or self.selector or self.node or self.count is not None):
            raise ValueError("select pods by name, selector, node or count")

    def __str__(self) -> str:
        parts = [f"{key} {getattr(self, key)}" for key in ("name", "selector", "node") if getattr(self, key)]
        picked = f"{self.count} of " if self.count is not None else ""
        return f"{picked}{', '.join(parts) or 'all pods'} in {self.namespace}"


class Evict(PodSelection, frozen=True, kw_only=True):
    """Evict pods once, through the eviction subresource; a PodDisruptionBudget may reject it."""


class Crash(PodSelection, frozen=True, kw_only=True):
    """Terminate the containers of running pods."""

    exit_code: int = 1
    """The exit code of the containers."""
    container: str = ""
    """The name of the container; empty: all."""


class ManagerFault(_Strict, frozen=True, kw_only=True):
    """Faults of the manager, or of the program that replaces it."""

    kill: bool = False
    """The process of the leader is killed."""
    down: Duration = msgspec.field(default_factory=lambda: Duration(0.0))
    """With kill: the delay before it is restarted."""
    stale: bool = False
    """With kill: its first lists are from an API server that is behind."""
    partition: Duration | None = None
    """For this time it is disconnected from the API server."""

    def __post_init__(self) -> None:
        if self.kill == (self.partition is not None):
            raise ValueError("one of kill and partition")
        if not self.kill and (self.down or self.stale):
            raise ValueError("down and stale require kill")


class ApiServerFault(_Strict, frozen=True, kw_only=True):
    """Faults of the API server for the manager, or for the program that replaces it. Exactly one of the effects."""

    slow: Duration | None = None
    """Each request of the manager, or of the program that replaces it, is delayed by up to this time; 0s has no effect.
    Nodes, scheduler and users are not affected."""
    lag: Duration | None = None
    """The manager watches a server that is behind by this time."""
    fail_writes: Literal["conflict", "internal error", "refused", "request lost", "answer lost", "timed out"] | None = (
        None
    )
    """How writes fail. With answer lost and timed out they are carried out nevertheless."""
    fail_reads: Literal["internal error", "refused", "request lost"] | None = None
    """How gets and lists fail."""
    probability: float = 1.0
    """With failWrites and failReads: the probability for each request."""
    drop_watches: Literal["ended", "lost", "gone"] | None = None
    """How open watches end: normally (ended), with their connection (lost), or with 410 (gone)."""
    slow_watches: Duration | None = None
    """Each watch event is delayed by up to this time."""
    hold_watches: bool = False
    """No watch event is delivered."""
    compact: bool = False
    """The history is compacted, so watches cannot be resumed."""
    resource: str = ""
    """With failWrites, dropWatches, slowWatches and holdWatches: only for this resource."""
    for_: Duration | None = msgspec.field(default=None, name="for")
    """The duration."""

    def __post_init__(self) -> None:
        names = [
            name for name in _SERVER_EFFECTS if getattr(self, name) is not None and getattr(self, name) is not False
        ]
        if len(names) != 1:
            raise ValueError(
                "one effect: slow, lag, failWrites, failReads, dropWatches, slowWatches, holdWatches or compact; "
                f"got {len(names) or 'none'}"
            )
        if self.resource and names[0] in ("slow", "lag", "fail_reads", "compact"):
            raise ValueError("resource is for failWrites, dropWatches, slowWatches and holdWatches")
        if self.probability != 1 and names[0] not in ("fail_writes", "fail_reads"):
            raise ValueError("probability is for failWrites and failReads")
        instant = names[0] in ("drop_watches", "compact")
        if instant == (self.for_ is not None):
            raise ValueError(
                "dropWatches and compact are instantaneous: omit for" if instant else "for (the duration) is required"
            )
        if not 0 < self.probability <= 1:
            raise ValueError(f"a probability is above 0 and at most 1, got {self.probability:g}")


_SERVER_EFFECTS = (
    "slow",
    "lag",
    "fail_writes",
    "fail_reads",
    "drop_watches",
    "slow_watches",
    "hold_watches",
    "compact",
)


class Daily(_Strict, frozen=True, kw_only=True):
    """A daily cosine curve, with its minimum twelve hours after the peak."""

    low: Quantity
    """The minimum, in CPUs."""
    high: Quantity
    """The maximum, in CPUs."""
    peak: Duration = msgspec.field(default_factory=lambda: Duration(14 * 3600.0))
    """The time of the peak, from midnight of the cluster's clock."""


class Point(_Strict, frozen=True, kw_only=True):
    """A point of a curve."""

    at: Duration
    """The time, from the start of the action."""
    cpu: Quantity | None = None
    """CPUs, all pods together."""
    memory: Quantity | None = None
    """Memory, all pods together."""


class Load(Target, frozen=True, kw_only=True):
    """The load on a workload, which is divided among its pods and measured by autoscalers: constant, a daily curve, or
    points with linear interpolation."""

    cpu: Quantity | None = None
    """CPUs, all pods together."""
    memory: Quantity | None = None
    """Memory, all pods together."""
    daily_cpu: Daily | None = None
    points: tuple[Point, ...] = ()
    """A curve through these points."""
    period: Duration | None = None
    """With points: repeat the curve after this time."""
    step: Duration = msgspec.field(default_factory=lambda: Duration(60.0))
    """The interval between updates of the load."""

    def __post_init__(self) -> None:
        super().__post_init__()
        constant = self.cpu is not None or self.memory is not None
        if constant + (self.daily_cpu is not None) + bool(self.points) != 1:
            raise ValueError("a load is cpu and memory, dailyCpu, or points")
        if self.step < 1:
            raise ValueError(f"step must be at least 1s, got {self.step}")
        if any(first.at >= second.at for first, second in zip(self.points, self.points[1:], strict=False)):
            raise ValueError("points must be in the order of their times")
        if self.period is not None and (not self.points or self.period < self.points[-1].at):
            raise ValueError("period requires points, and must not be shorter than their curve")


class ClockFault(_Strict, frozen=True, kw_only=True):
    """Change the wall clock of all machines."""

    forward: Duration | None = None
    """The change."""
    back: Duration | None = None
    """The change."""

    def __post_init__(self) -> None:
        if (self.forward is None) == (self.back is None):
            raise ValueError("a clock goes forward or back")


Action = (
    Patch
    | Scale
    | SetImage
    | Restart
    | Delete
    | Drain
    | NodeFault
    | NodeSelection
    | TaintNodes
    | UntaintNodes
    | Evict
    | Crash
    | ManagerFault
    | ApiServerFault
    | Load
    | ClockFault
)
ACTIONS = (
    "apply",
    "patch",
    "scale",
    "set_image",
    "restart",
    "delete",
    "drain",
    "cordon",
    "uncordon",
    "taint",
    "untaint",
    "evict",
    "crash",
    "nodes",
    "manager",
    "program",
    "api_server",
    "load",
    "clock",
)
"""The fields of ``Entry`` that are actions."""


class Entry(_Strict, frozen=True, kw_only=True):
    """An entry of the timeline: a time and an action."""

    name: str = ""
    """The name, for after: NAME in expectations."""
    at: Duration | None = None
    """The time, from the start of the timeline."""
    every: Duration | None = None
    """The period. Without at, the first time is after one period."""
    until: Duration | None = None
    """With every: the latest time, from the start of the timeline."""
    when: str | None = None
    """A CEL expression over objects. The action is performed once, when it becomes true. With at: not before that
    time."""
    delay: Duration = msgspec.field(default_factory=lambda: Duration(0.0))
    """With when: the delay after it has become true."""
    apply: str | dict[str, Any] | tuple[str | dict[str, Any], ...] | None = None
    """Create or patch objects: manifests, files, directories."""
    patch: Patch | None = None
    scale: Scale | None = None
    set_image: SetImage | None = None
    restart: Restart | None = None
    delete: Delete | None = None
    drain: Drain | None = None
    cordon: NodeSelection | None = None
    """As ``kubectl cordon``."""
    uncordon: NodeSelection | None = None
    """As ``kubectl uncordon``."""
    taint: TaintNodes | None = None
    untaint: UntaintNodes | None = None
    evict: Evict | None = None
    crash: Crash | None = None
    nodes: NodeFault | None = None
    manager: ManagerFault | None = None
    """A fault of the manager."""
    program: ManagerFault | None = None
    """A fault of the program of spec.programs."""
    api_server: ApiServerFault | None = None
    load: Load | None = None
    clock: ClockFault | None = None

    def __post_init__(self) -> None:
        names = [name for name in ACTIONS if getattr(self, name) is not None]
        if len(names) != 1:
            names_text = ", ".join(_camel(name) for name in names) or "none"
            raise ValueError(f"an entry has one action, got {names_text}; one of {', '.join(map(_camel, ACTIONS))}")
        if self.every is not None and (self.when is not None or self.every < 1):
            raise ValueError(
                "every and when exclude each other" if self.when is not None else "every must be at least 1s"
            )
        if self.at is None and self.every is None and self.when is None:
            raise ValueError("a time is required: at, every or when")
        if self.until is not None and self.every is None:
            raise ValueError("until requires every")
        if self.delay and self.when is None:
            raise ValueError("delay requires when")

    @property
    def action(self) -> str:
        """The field name of its action."""
        return next(name for name in ACTIONS if getattr(self, name) is not None)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def parse_taint(text: str) -> dict[str, str]:
    """``key=value:effect`` as in the spec of a Node. Raises ``ValueError``."""
    pair, colon, effect = text.rpartition(":")
    key, _equals, value = pair.partition("=")
    if not colon or not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
        raise ValueError(
            f'a taint is KEY=VALUE:EFFECT with NoSchedule, PreferNoSchedule or NoExecute, got "{text[:80]}"'
        )
    return {"key": key, **({"value": value} if value else {}), "effect": effect}
