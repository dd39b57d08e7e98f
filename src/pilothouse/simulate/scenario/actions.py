"""Actions: the entries of ``spec.timeline``, in the form of the file.

Each entry has a time (``at``, ``every``, ``when``) and one action. ``pilothouse.simulate.actions`` performs them.
"""

from typing import Any, Literal

import msgspec

from pilothouse.simulate.scenario.scalars import Duration, Quantity


class _Strict(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


_WORKLOADS = ("deployment", "stateful_set", "daemon_set", "replica_set", "job", "cron_job")


class Target(_Strict, frozen=True, kw_only=True):
    """One object, by one of the fields that name it."""

    namespace: str = "default"
    """Of the object; ignored for cluster-scoped objects."""
    object: str | None = None
    """Any object, as kubectl takes it: TYPE/NAME, for example resourcequota/small."""
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
        """``("deployments", "web")``; of ``object`` the type as it is written."""
        if self.object is not None:
            resource, _slash, name = self.object.partition("/")
            return resource, name
        field = next(name for name in _WORKLOADS if getattr(self, name) is not None)
        return f"{field.replace('_', '')}s", getattr(self, field)

    def __str__(self) -> str:
        resource, name = self.resource_and_name
        return f"{resource}/{name}" + (f" in {self.namespace}" if self.namespace != "default" else "")


class Patch(Target, frozen=True, kw_only=True):
    """Change an object, by one of three kinds of patches."""

    merge: dict[str, Any] | None = None
    """A JSON merge patch."""
    strategic: dict[str, Any] | None = None
    """A strategic merge patch, kubectl's default."""
    json: list[dict[str, Any]] | None = None
    """A JSON patch: a list of operations."""
    subresource: str = ""
    """For example status."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if sum(patch is not None for patch in (self.merge, self.strategic, self.json)) != 1:
            raise ValueError("a patch has one of merge, strategic and json")


class Scale(Target, frozen=True, kw_only=True):
    """Set the number of replicas, through the subresource scale."""

    replicas: int
    """How many."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.replicas <= 1_000_000:
            raise ValueError(f"replicas must be from 0 to 1000000, got {self.replicas}")


class SetImage(Target, frozen=True, kw_only=True):
    """Set the image of a container, as ``kubectl set image``. Tags such as 404 can't be pulled."""

    image: str
    """For example web:2."""
    container: str = ""
    """Empty: all containers."""


class Restart(Target, frozen=True, kw_only=True):
    """As ``kubectl rollout restart``."""


class Delete(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Delete one object, or those of a type that a selector matches."""

    namespace: str = "default"
    """Of the object; ignored for cluster-scoped objects."""
    object: str
    """TYPE/NAME, or TYPE with a selector."""
    selector: str = ""
    """Labels: app=web,tier!=db."""
    grace_period: Duration | None = None
    """Overrides the object's own."""
    propagation: Literal["Background", "Foreground", "Orphan"] = "Background"
    """The propagation policy for its dependents."""

    def __post_init__(self) -> None:
        parts = self.object.split("/")
        if len(parts) > 2 or "" in parts or (len(parts) == 1) != bool(self.selector):
            raise ValueError("object must be TYPE/NAME, or TYPE together with a selector")

    def __str__(self) -> str:
        return self.object + (f" -l {self.selector}" if self.selector else "")


class NodeSelection(_Strict, frozen=True, kw_only=True):
    """Nodes that match all given fields. Nodes that have vanished are only selected by name, or by revive."""

    name: str = ""
    """One node."""
    names: tuple[str, ...] = ()
    """Several nodes."""
    group: str = ""
    """A group of ``cluster.nodeGroups``."""
    zone: str = ""
    """A zone of ``cluster.nodeGroups``."""
    selector: str = ""
    """Labels: pool=web,zone!=a."""
    count: int | None = None
    """So many of them, drawn from the seed. More than match are an error."""

    def __post_init__(self) -> None:
        if not (self.name or self.names or self.group or self.zone or self.selector or self.count is not None):
            raise ValueError("say which nodes: by name, names, group, zone, selector or count")
        if self.count is not None and not 0 < self.count <= 100_000:
            raise ValueError(f"count must be from 1 to 100000, got {self.count}")

    def __str__(self) -> str:
        parts = [*([self.name] if self.name else []), *self.names]
        parts += [f"{key} {getattr(self, key)}" for key in ("group", "zone", "selector") if getattr(self, key)]
        picked = f"{self.count} of " if self.count is not None else ""
        return picked + (", ".join(parts) or "all nodes")


class NodeFault(NodeSelection, frozen=True, kw_only=True):
    """Changes of nodes. Exactly one of the effects."""

    silence: bool = False
    """They send nothing, as with a broken network; containers run on."""
    vanish: bool = False
    """The machines are deleted, and their Nodes, as a cloud provider's controller does."""
    out_of_service: bool = False
    """They are silent, and get the taint node.kubernetes.io/out-of-service."""
    slow: Duration | None = None
    """Everything that they send is delayed by this; 0s ends that."""
    pressure: Literal["memory", "disk", "pids"] | None = None
    """They are under pressure of a resource: they report the condition, and evict a pod every ten seconds."""
    relieve: bool = False
    """There is enough of everything again."""
    reboot: bool = False
    """They reboot at once: running containers have ended."""
    revive: bool = False
    """All faults end: reachable, quick, in service, registered. Containers have continued to run, except on machines
    that were gone."""
    lose_disk: bool = False
    """With revive: the machines return without their containers."""
    for_: Duration | None = msgspec.field(default=None, name="for")
    """Undo it after so long."""

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in _EFFECTS if getattr(self, name)] + (["slow"] if self.slow is not None else [])
        if len(given) != 1:
            raise ValueError(
                "one effect: silence, vanish, outOfService, slow, pressure, relieve, reboot or revive; "
                f"got {', '.join(given) or 'none'}"
            )
        if self.lose_disk and not self.revive:
            raise ValueError("loseDisk goes with revive: the nodes come back without what ran on them")
        if self.for_ is not None and (self.relieve or self.reboot or self.revive):
            raise ValueError("for says when an outage ends; this effect is none")

    @property
    def effect(self) -> str:
        """Its name."""
        return "slow" if self.slow is not None else next(name for name in _EFFECTS if getattr(self, name))


_EFFECTS = ("silence", "vanish", "out_of_service", "pressure", "relieve", "reboot", "revive")


class Drain(NodeSelection, frozen=True, kw_only=True):
    """As ``kubectl drain --ignore-daemonsets``: cordon the nodes, then evict their pods node by node. Evictions respect
    PodDisruptionBudgets and are tried again every five seconds."""

    timeout: Duration | None = None
    """Give up after this time, which fails the run. Default: never."""
    grace_period: Duration | None = None
    """Overrides the pods' own."""
    delete_empty_dir_data: bool = True
    """Otherwise pods with emptyDir volumes fail the drain, as kubectl's do without --delete-emptydir-data."""
    force: bool = False
    """Delete pods without a controller, too. Otherwise they fail the drain."""
    parallel: bool = False
    """All nodes at once, rather than one after the other."""


class TaintNodes(NodeSelection, frozen=True, kw_only=True):
    """Add a taint: KEY=VALUE:EFFECT or KEY:EFFECT."""

    taint: str
    """For example pool=batch:NoSchedule."""

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_taint(self.taint)


class UntaintNodes(NodeSelection, frozen=True, kw_only=True):
    """Remove the taints of a key, or of KEY:EFFECT."""

    taint: str
    """For example pool, or pool:NoSchedule."""


class PodSelection(_Strict, frozen=True, kw_only=True):
    """Pods that match all given fields."""

    namespace: str = "default"
    """Of the pods."""
    name: str = ""
    """One pod."""
    selector: str = ""
    """Labels: app=web,tier!=db."""
    node: str = ""
    """Those on a node."""
    count: int | None = None
    """This many of them, drawn from the seed."""

    def __post_init__(self) -> None:
        if not (self.name or self.selector or self.node or self.count is not None):
            raise ValueError("say which pods: by name, selector, node or count")

    def __str__(self) -> str:
        parts = [f"{key} {getattr(self, key)}" for key in ("name", "selector", "node") if getattr(self, key)]
        picked = f"{self.count} of " if self.count is not None else ""
        return f"{picked}{', '.join(parts) or 'all pods'} in {self.namespace}"


class Evict(PodSelection, frozen=True, kw_only=True):
    """Evict pods through the subresource, once each; a budget may reject that."""


class Crash(PodSelection, frozen=True, kw_only=True):
    """The containers of running pods end."""

    exit_code: int = 1
    """Of the containers."""
    container: str = ""
    """Empty: all containers."""


class ManagerFault(_Strict, frozen=True, kw_only=True):
    """Changes of the manager (or of the program that replaces it)."""

    kill: bool = False
    """The process of the leader is killed."""
    down: Duration = msgspec.field(default_factory=lambda: Duration(0.0))
    """With kill: started again after so long."""
    stale: bool = False
    """With kill: it starts with lists from a stale API server."""
    partition: Duration | None = None
    """For this time it reaches no API server, and gets no events."""

    def __post_init__(self) -> None:
        if self.kill == (self.partition is not None):
            raise ValueError("one of kill and partition")
        if not self.kill and (self.down or self.stale):
            raise ValueError("down and stale go with kill")


class ApiServerFault(_Strict, frozen=True, kw_only=True):
    """Faults of the API server for the manager (or the program that replaces it). Exactly one of the effects."""

    slow: Duration | None = None
    """Each request is delayed by up to this; 0s changes nothing. Only those of the manager (or the program that
    replaces it): nodes, scheduler and users are not affected."""
    lag: Duration | None = None
    """The manager watches a server that is so far behind."""
    fail_writes: Literal["conflict", "internal error", "refused", "request lost", "answer lost", "timed out"] | None = (
        None
    )
    """How writes fail. With answer lost and timed out they are carried out nevertheless."""
    fail_reads: Literal["internal error", "refused", "request lost"] | None = None
    """Gets and lists fail so."""
    probability: float = 1.0
    """With failWrites and failReads: of each request."""
    drop_watches: Literal["ended", "lost", "gone"] | None = None
    """How open watches end: normally, with their connection, or with 410."""
    slow_watches: Duration | None = None
    """Each event takes up to so long to arrive."""
    hold_watches: bool = False
    """No event arrives."""
    compact: bool = False
    """The history is dropped, so that watches cannot be resumed."""
    resource: str = ""
    """With failWrites, dropWatches, slowWatches and holdWatches: only this resource."""
    for_: Duration | None = msgspec.field(default=None, name="for")
    """How long it lasts."""

    def __post_init__(self) -> None:
        given = [
            name for name in _SERVER_EFFECTS if getattr(self, name) is not None and getattr(self, name) is not False
        ]
        if len(given) != 1:
            raise ValueError(
                "one effect: slow, lag, failWrites, failReads, dropWatches, slowWatches, holdWatches or compact; "
                f"got {len(given)}"
            )
        instant = given[0] in ("drop_watches", "compact")
        if instant == (self.for_ is not None):
            raise ValueError("dropWatches and compact happen at once, without for" if instant else "say for how long")
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
    """A day's curve: lowest twelve hours from its peak, between the two a cosine."""

    low: Quantity
    """Processors, at the least."""
    high: Quantity
    """Processors, at the most."""
    peak: Duration = msgspec.field(default_factory=lambda: Duration(14 * 3600.0))
    """When it is highest, from midnight of the cluster's clock."""


class Point(_Strict, frozen=True, kw_only=True):
    """One point of a curve."""

    at: Duration
    """From when the action is performed."""
    cpu: Quantity | None = None
    """Processors, all pods together."""
    memory: Quantity | None = None
    """Memory, all pods together."""


class Load(Target, frozen=True, kw_only=True):
    """The load on a workload, which is divided among its pods and measured by autoscalers. A constant, a curve over a
    day, or points with linear interpolation."""

    cpu: Quantity | None = None
    """Processors, all pods together."""
    memory: Quantity | None = None
    """Memory, all pods together."""
    daily_cpu: Daily | None = None
    points: tuple[Point, ...] = ()
    """A curve."""
    period: Duration | None = None
    """With points: start over after this time."""
    step: Duration = msgspec.field(default_factory=lambda: Duration(60.0))
    """How often the load changes."""

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
            raise ValueError("period goes with points, and is at least as long as they are")


class ClockFault(_Strict, frozen=True, kw_only=True):
    """The wall clock of all machines changes."""

    forward: Duration | None = None
    """By so much."""
    back: Duration | None = None
    """By so much."""

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
    """Something that happens: when, and one action."""

    name: str = ""
    """For expectations: after: NAME."""
    at: Duration | None = None
    """Time after the start."""
    every: Duration | None = None
    """Again and again, first after so long."""
    until: Duration | None = None
    """With every: not later than so long after the start."""
    when: str | None = None
    """A CEL expression over objects: once, as soon as it is true. With at: not before that."""
    delay: Duration = msgspec.field(default_factory=lambda: Duration(0.0))
    """With when: this time after it has become true."""
    apply: str | dict[str, Any] | tuple[str | dict[str, Any], ...] | None = None
    """Create or change objects: manifests, files, folders."""
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
    """A change of the manager."""
    program: ManagerFault | None = None
    """A change of the program of spec.programs."""
    api_server: ApiServerFault | None = None
    load: Load | None = None
    clock: ClockFault | None = None

    def __post_init__(self) -> None:
        given = [name for name in ACTIONS if getattr(self, name) is not None]
        if len(given) != 1:
            shown = ", ".join(_camel(name) for name in given) or "none"
            raise ValueError(f"an entry has one action, got {shown}; one of {', '.join(map(_camel, ACTIONS))}")
        if self.every is not None and (self.when is not None or self.every < 1):
            raise ValueError("every does not go with when" if self.when is not None else "every must be at least 1s")
        if self.at is None and self.every is None and self.when is None:
            raise ValueError("say when: at, every or when")
        if self.until is not None and self.every is None:
            raise ValueError("until goes with every")
        if self.delay and self.when is None:
            raise ValueError("delay goes with when")

    @property
    def action(self) -> str:
        """Its field."""
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
