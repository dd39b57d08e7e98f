"""``Simulation``: a whole cluster in virtual time whose manager can be killed.

API server, scheduler and nodes come from ``Plane`` and always run. The manager is started here as a sequence of
``Process``es, each with new caches and connections, because it is the target of faults. A second API server
(``Replica``) may lag; a process watches one of the two.
"""

import asyncio
import contextlib
import functools
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from pilothouse.api import wire
from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS, CustomResourceDefinition
from pilothouse.client import Client
from pilothouse.client.client import default_user_agent
from pilothouse.client.errors import ApiError
from pilothouse.client.interceptor import (
    Action,
    Break,
    Observation,
    Rule,
    conflict,
    delay,
    fail,
    gone,
    lose_answer,
    lose_request,
    refuse,
    time_out,
)
from pilothouse.client.request_info import RequestInfo
from pilothouse.controllermanager.feature_gates import FeatureGates
from pilothouse.controllermanager.manager import Manager
from pilothouse.controllermanager.options import LeaderElection, Options, with_gates
from pilothouse.controllermanager.selection import Selection
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.controllers.volumes.persistentvolume_attach_detach import DESCRIPTOR as ATTACH_DETACH
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.virtual import VirtualClock
from pilothouse.machinery.times import format_micro_time
from pilothouse.nodes import Profile
from pilothouse.nodes.behaviour import DeriveBehaviour, behaviour_of
from pilothouse.nodes.profile import KUBELET
from pilothouse.plane import LocalClients, NodeGroup, Plane, PlaneOptions
from pilothouse.plane.clients import ADMIN
from pilothouse.plane.options import SERVICE_RANGE
from pilothouse.runtime import LeadershipLost
from pilothouse.sim import faults, perturbations
from pilothouse.sim.connection import Connection, Death, Marked, Wire
from pilothouse.sim.held_watches import HeldWatches
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.process import Process, Program
from pilothouse.sim.replica import Replica
from pilothouse.sim.run_log import CURRENT, RunLog
from pilothouse.sim.triggers import ChangeTriggers
from pilothouse.sim.webhooks import SimulatedWebhooks, Spared
from pilothouse.storage import Change, MemoryStore, Record
from pilothouse.storage.store import newest_revision

if TYPE_CHECKING:
    from pilothouse.nodes.stages import Stage
    from pilothouse.why.evidence import Reference
    from pilothouse.why.steps import Step

with lazy_imports():
    from pilothouse import why
    from pilothouse.plane import evidence
    from pilothouse.why import chain, steps

_MAX_NODE_FAULTS = 50
"""Maximum number of faults recorded for each node."""
_MAX_NODE_CHANGES = 5000
"""Maximum number of changes of nodes that are kept for explanations, longer than the history of the store."""
QUIET_SECONDS = 1200.0
"""A cluster is idle after this time without writes: the longest backoff of a queue is 1000 s."""
STALE_SECONDS = 60.0
"""How long the second API server stays behind for a process that is to be killed and does not write."""
IDLE_LIMIT_SECONDS = 4 * 3600.0
CALM = Profile(lease_period=40.0, status_period=1800.0)
"""Nodes with infrequent heartbeats, which make quiet hours cheap to simulate."""

_WRITES: dict[str, Callable[[], Action]] = {
    "conflict": conflict,
    "internal error": lambda: fail(500, "InternalError"),
    "refused": refuse,
    "request lost": lose_request,
    "answer lost": lose_answer,
    "timed out": lambda: time_out(sent=True),
}


class SimulationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the simulated cluster."""

    nodes: int = 2
    profile: Profile = CALM
    controllers: tuple[str, ...] = ("*",)
    controller_options: dict[str, msgspec.Struct] = {}
    gates: tuple[str, ...] = ()
    """Feature gates of the API servers and the manager that are on, in addition to the default ones."""
    leader_election: bool = False
    storage: bool = False
    """Whether volumes are provisioned for claims."""
    groups: tuple[NodeGroup, ...] = ()
    """Further nodes, with their own profiles."""
    stages: "tuple[Stage, ...]" = ()
    """Replace the default behavior of nodes or pods."""
    derive_behaviour: DeriveBehaviour = behaviour_of
    """The behavior of pods on the nodes."""
    manager: Options | None = None
    """All options of the manager. Without it ``controllers``, ``controller_options``, ``leader_election`` and ``gates``
    apply."""
    throttled: bool = False
    """Whether the manager's clients are limited by ``--kube-api-qps`` and ``--kube-api-burst``."""
    scheduler_rate: tuple[float, int] = (0.0, 0)
    """As in ``PlaneOptions``."""
    records: Sequence[Record] = ()
    """The initial content of the store: the cluster of a snapshot."""
    adopted_nodes: tuple[str, ...] = ()
    """Nodes of ``records`` that are simulated, without changes."""
    service_range: str = SERVICE_RANGE
    replicas: int = 1
    """Processes of the manager. A second one requires leader election, and is the standby when the leader is killed."""


class SimulationFailed(AssertionError):
    """A failed run: the reason, the faults, and the last lines of the log."""


class Simulation:
    """A cluster under faults. Use ``running`` or ``simulate``."""

    def __init__(
        self,
        env: Env,
        options: SimulationOptions,
        invariants: Sequence[Invariant],
        program: Program | None = None,
    ) -> None:
        self.env = env
        self.options = options
        self.program = program
        """The program that replaces the manager as the target of faults."""
        self.invariants = list(invariants)
        self.store = MemoryStore(env, records=options.records, revision=newest_revision(options.records))
        nodes = options.nodes + len(options.adopted_nodes) + sum(group.count for group in options.groups)
        self.log = RunLog(env, nodes)
        self.plan: faults.FaultPlan = faults.FaultPlan()
        self.plane = Plane(
            env,
            self.store,
            PlaneOptions(
                nodes=options.nodes,
                profile=options.profile,
                groups=options.groups,
                adopted_nodes=options.adopted_nodes,
                service_range=options.service_range,
                stages=options.stages,
                derive_behaviour=options.derive_behaviour,
                storage=options.storage,
                attach=Selection(self._manager_options().controllers).enables(ATTACH_DETACH),
                gates=options.gates,
                scheduler_rate=options.scheduler_rate,
                on_demand=program is not None,
                manager=self._manager_options() if program is not None else None,
            ),
            wrap=lambda name, transport: Marked(name, transport, self.log),
        )
        self.user = Client(Spared(self.plane.server.transport("admin", ("system:masters",)), self.log), env)
        """The administrator's client, without faults."""
        self.webhooks: SimulatedWebhooks | None = None
        """The webhooks of the program, if it has any."""
        if program is not None and program.webhooks is not None:
            self.webhooks = SimulatedWebhooks(env, self.log, program.webhooks, self.user)
        self.process: Process | None = None
        """The running manager process, if there is one."""
        self._second: Process | None = None
        self.processes = 0
        self._replica: Replica | None = None
        self._rules: list[Rule] = []
        self._holds: list[HeldWatches] = []
        self.triggers = ChangeTriggers()
        """Actions of faults that start at a change."""
        self._last_write = 0.0
        self._recent_writes: Counter[str] | None = None
        """Recent writes without heartbeats, by key and program; only while ``run_until_idle`` waits."""
        self.checked: Change | None = None
        """The change that invariants are checking; after a violation the rejected change."""
        self._node_faults: dict[str, deque[tuple[int, str, str]]] = {}
        """By node: revision, time and text of each fault."""
        self._group: TaskGroup | None = None
        self._running = asyncio.Event()
        self._ending = False
        self.store.on_commit.append(self._committed)
        self._node_changes: deque[Change] = deque(maxlen=_MAX_NODE_CHANGES)
        self.store.follow("/nodes/", self._keep_node_changes)

    # Start and end

    async def run(self) -> None:
        """Run the cluster until cancelled."""
        async with TaskGroup("simulation") as group:
            self._group = group
            group.start(self.plane.run(), name="plane")
            await self.plane.wait_ready()
            self._replica = Replica(self.env, self.store, self.plane.server.options)
            for definition in self.program.definitions if self.program is not None else ():
                await self._define(definition)
            if self.webhooks is not None:
                await self.webhooks.configure(self.plane.server, self._replica.server)
            self.start_process()
            if self.options.replicas > 1:
                self.start_process(second=True)
            self._running.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._ending = True

    async def wait_ready(self) -> None:
        """Wait until the first manager is running."""
        await self._running.wait()
        assert self.process is not None, "it has not been killed"
        if self.process.manager is not None:
            await self.process.manager.leading.wait()

    @property
    def replica(self) -> Replica:
        """The second API server."""
        assert self._replica is not None, "the simulation has not started yet"
        return self._replica

    async def _define(self, definition: dict[str, Any]) -> None:
        kind = CUSTOM_RESOURCE_DEFINITIONS
        name: str = definition["metadata"]["name"]
        await self.user.create(kind.raw, definition)
        async with asyncio.timeout(60.0):
            while not _is_established(await self.user.get(kind, name)):  # noqa: ASYNC110  # in virtual time
                await asyncio.sleep(0.01)

    def start_process(self, *, stale: bool = False, second: bool = False) -> Process:
        """Start a process of the manager, or of the program that replaces it. ``stale``: its caches start with lists
        from the second server. ``second``: in parallel to the running process."""
        assert self._group is not None, "the simulation has not started yet"
        self.processes += 1
        name = f"{self.program.name if self.program is not None else 'manager'}#{self.processes}"
        wiring = Wire(self.env, name, self.log, self.store, observer=lambda seen: self._observed(process, seen))
        process = Process(self.processes, wiring, stale=stale)
        if stale:
            wiring.replica, wiring.streams = self.replica, False
        clients = LocalClients(
            self.env, self.plane.server.transport, lambda _program, inner: self._connect(wiring, inner)
        )
        if self.program is None:
            manager = process.manager = self._manager(clients, name)
            work: Callable[[], Coroutine[Any, Any, object]] = manager.run
        else:
            agent = default_user_agent("pilothouse", self.program.name)
            client = clients.client(name, *ADMIN, agent=agent)
            if self.webhooks is not None:
                self.webhooks.started(name, client)
            work = functools.partial(self.program.start, client, self.env)
        wiring.on_death = lambda: self._died(process)
        if second:
            self._second = process
        else:
            self.process = process
        self.log.record_event(f"{name} starts{' with old lists' if stale else ''}")
        for invariant in self.invariants:
            invariant.started(process)
        process.task = self._group.start(self._run_process(process, work), name=name)
        return process

    def _manager_options(self) -> Options:
        if self.options.manager is not None:
            return self.options.manager
        options = Options(
            controllers=self.options.controllers,
            controller_options=self.options.controller_options,
            leader_election=LeaderElection(enabled=self.options.leader_election),
        )
        return with_gates(options, FeatureGates(dict.fromkeys(self.options.gates, True)), DESCRIPTORS)

    def _manager(self, clients: LocalClients, name: str) -> Manager:
        return Manager(
            self.env,
            self._manager_options(),
            clients.manager(throttled=self.options.throttled),
            DESCRIPTORS,
            identity=name,
        )

    async def _run_process(self, process: Process, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        try:
            await work()
        except asyncio.CancelledError:
            self._ending = self._ending or process.wire.alive  # cancelled without a crash: the simulation is ending
            raise
        except LeadershipLost as lost:
            self.log.record_event(f"{process.name} ends: {lost}")
        except (ApiError, ConnectionError, TimeoutError) as error:
            self.log.record_event(f"{process.name} could not start: {error}")
        except BaseExceptionGroup as errors:
            if process.wire.alive:
                raise
            self.log.record_event(f"{process.name} ended with {errors!r}")
        finally:
            if process.wire.alive and not self._ending:
                process.down = 1.0
                process.wire.die()

    def _died(self, process: Process) -> None:
        if self.webhooks is not None:
            self.webhooks.died(process.name)
        if process.task is not None:
            process.task.cancel()
        was_second, replicated = self._second is process, self.options.replicas > 1
        if was_second:
            self._second = None
        if self.process is process:
            self.process = None
            if replicated:
                self.process, self._second = self._second, None
        elif not was_second:
            return
        if self._group is not None and (replicated or not was_second):
            self._group.start(self._restart(process.down, process.next_is_stale), name=f"after {process.name}")

    async def _restart(self, down: float, stale: bool) -> None:
        await asyncio.sleep(down)
        self.start_process(stale=stale, second=self.process is not None)
        if stale:
            await asyncio.sleep(self.env.stream("simulation").uniform(1.0, 30.0))
            self.replica.set_lag(0.0)

    def kill(self, *, down: float = 0.0, stale: bool = False) -> None:
        """Kill the manager process (the leader, if there are several), and restart it after ``down`` seconds."""
        process = self.leader
        if process is not None:
            process.down, process.next_is_stale = down, stale
            process.wire.die()

    @property
    def leader(self) -> Process | None:
        """The leader, if there are several processes; else the running process."""
        second = self._second
        if self.options.replicas > 1 and second is not None and second.manager is not None:
            return second if second.manager.leading.is_set() else self.process
        return self.process

    async def partition(self, seconds: float) -> None:
        """For some time the leader's requests fail, and it gets no watch events."""
        process = self.leader
        if process is None:
            return
        rule = Rule(refuse())
        process.wire.rules.append(rule)
        for interceptor in process.wire.interceptors:
            interceptor.add(rule)
            interceptor.end_watches(with_=lose_request())
        self.log.record_event(f"{process.name} is cut off")
        await asyncio.sleep(seconds)
        process.wire.rules.remove(rule)
        for interceptor in process.wire.interceptors:
            interceptor.remove(rule)

    def _connect(self, wiring: Wire, inner: wire.Transport) -> wire.Transport:
        connection = Connection(wiring, inner, _replica_transport)
        for rule in (*self._rules, *wiring.rules):
            connection.interceptor.add(rule)
        for holding in self._holds:
            holding.add(connection.interceptor)
        return connection

    # Observation

    @property
    def last_write(self) -> float:
        """The time of the last write that is not a heartbeat, in loop time."""
        return self._last_write

    def _committed(self, changes: list[Change]) -> None:
        origin = CURRENT.get()
        for change in changes:
            self.log.committed(change, origin)
            if not is_heartbeat(change):
                self._last_write = self.env.monotonic()
                if self._recent_writes is not None:
                    self._recent_writes[
                        f"{change.key} by {origin.program if origin is not None else 'the API server'}"
                    ] += 1
            self.checked = change
            for invariant in self.invariants:
                invariant.committed(change, origin)
            self.checked = None
            self.triggers.committed(change)

    def note_fault(self, node: str, text: str) -> None:
        """Record the start or end of a node fault that is not visible in objects. ``text`` is its description and
        origin, for explanations."""
        texts = self._node_faults.setdefault(node, deque(maxlen=_MAX_NODE_FAULTS))
        texts.append((self.store.revision, format_micro_time(self.env.now()), text))

    def _fault_before(self, about: "Reference", until: int) -> "Step | None":
        recorded = self._node_faults.get(about.name, ()) if about.resource == "nodes" else ()
        for revision, time, text in reversed(recorded):
            if not until or revision < until:
                name = f"node/{about.name}"
                return steps.Step(text=f"{name} {text}", object=name, time=time, root=steps.FAULT)
        return None

    def _keep_node_changes(self, changes: Sequence[Change]) -> None:
        """A pod is evicted from a node five minutes after the change that led to it (the default
        ``tolerationSeconds``): as long as the history of the store. Reports of the kubelet lead to nothing."""
        for change in changes:
            cause = change.origin.cause if change.origin is not None else None
            if cause is None or cause.component != KUBELET:
                self._node_changes.append(msgspec.structs.replace(change, memo=None))

    def explained(self) -> str:
        """The explanation of the write that an invariant rejected; empty if there is none."""
        if self.checked is None:
            return ""
        server = self.plane.server
        store_evidence = evidence.StoreEvidence(server.store, server.core.table, self._node_changes)
        explanation = chain.Chain(store_evidence, self._fault_before).step(store_evidence.described(self.checked))
        try:
            explanation.send(None)  # nothing awaits: the store is in memory
        except StopIteration as done:
            return "\n\nwhy it was written:\n" + "\n".join(steps.plain_times(steps.tree_lines(done.value)))
        raise AssertionError("reading a store does not wait")

    def state_explained(self, reference: "Reference") -> str:
        """Why an object is in its state, as ``pilothouse why`` prints it; empty if nothing is known to be wrong."""
        server = self.plane.server
        store_evidence = evidence.StoreEvidence(server.store, server.core.table, self._node_changes)
        explanation = why.explain(store_evidence, reference, time=self.env.now(), unrecorded=self._fault_before)
        try:
            explanation.send(None)  # nothing awaits: the store is in memory
        except StopIteration as done:
            unremarkable = done.value.state in (why.NOT_FOUND, *why.UNREMARKABLE)
            return "" if unremarkable else "\n".join(["why:", *why.text_lines(done.value)])
        raise AssertionError("reading a store does not wait")

    def _observed(self, process: Process, observation: Observation) -> None:
        for invariant in self.invariants:
            try:
                invariant.observed(process, observation)
            except Exception as error:  # noqa: BLE001 # raised here it would only fail a sync, not the run
                context = {"message": "an observer failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)

    # Faults

    def add_rule(self, rule: Rule) -> Rule:
        """Add a rule to all connections of the manager, including those of later processes."""
        self._rules.append(rule)
        for interceptor in self._interceptors():
            interceptor.add(rule)
        return rule

    def remove_rule(self, rule: Rule) -> None:
        """Remove the rule from all connections."""
        if rule in self._rules:
            self._rules.remove(rule)
            for interceptor in self._interceptors():
                interceptor.remove(rule)

    def _interceptors(self) -> list[Any]:
        return [
            interceptor
            for process in (self.process, self._second)
            if process
            for interceptor in process.wire.interceptors
        ]

    @contextlib.contextmanager
    def held_watches(self, resource: str = "") -> Any:
        """Hold watch events of this resource for the manager during the block."""
        holding = HeldWatches(resource)
        self._holds.append(holding)
        for interceptor in self._interceptors():
            holding.add(interceptor)
        try:
            yield
        finally:
            if holding in self._holds:
                self._holds.remove(holding)
            holding.release()

    def end_watches(self, resource: str = "", failure: str = "ended") -> None:
        """End the manager's open watches."""
        with_ = {"ended": None, "lost": lose_request(), "gone": gone()}[failure]
        for interceptor in self._interceptors():
            interceptor.end_watches(resource=resource, with_=with_)

    async def follow(self, plan: faults.FaultPlan) -> None:
        """Execute the faults of a plan, each at its time, and record them: as armed if they happen with a later write.
        Returns when the last one has started."""
        self.plan = plan
        assert self._group is not None, "the simulation has not started yet"
        started_at = self.env.monotonic()
        for fault in plan.faults:
            await asyncio.sleep(max(0.0, started_at + fault.at - self.env.monotonic()))
            self.log.record_event(f"FAULT {fault}{' (armed)' if faults.is_counted(fault) else ''}")
            self._group.start(self.inject(fault), name=str(fault))

    async def inject(self, fault: faults.Fault) -> None:
        """Inject a fault now. Returns when it has ended."""
        match fault:
            case faults.DropWatches(resource=resource, failure=failure):
                self.end_watches(resource, failure)
            case faults.SlowWatches(resource=resource, longest=longest, seconds=seconds):
                with self._write_latency_of_program():
                    await self._apply_rule_for(Rule(delay(0.0, longest), verb="watch", resource=resource), seconds)
            case faults.HoldWatches(resource=resource, seconds=seconds):
                with self._write_latency_of_program(), self.held_watches(resource):
                    await asyncio.sleep(seconds)
            case faults.FailWrites(failure=failure, resource=resource, probability=probability, seconds=seconds):
                rule = Rule(_WRITES[failure](), verb="write", resource=resource, probability=probability)
                await self._apply_rule_for(rule, seconds)
            case faults.FailWrite(failure=failure, resource=resource, nth=nth):
                self.add_rule(Rule(_WRITES[failure](), verb="write", resource=resource, nth=nth, when=_counts))
            case faults.FailReads(failure=failure, probability=probability, seconds=seconds):
                action = _WRITES[failure]()
                rules = [Rule(action, verb=verb, probability=probability) for verb in ("get", "list", "watch")]
                if isinstance(action, Break):
                    rules.pop()  # the interceptor breaks watches when they are opened only
                await asyncio.gather(*(self._apply_rule_for(rule, seconds) for rule in rules))
            case faults.SlowRequests(longest=longest, seconds=seconds):
                slow = Rule(delay(0.0, longest), when=lambda call, _request: call.verb != "watch")
                await self._apply_rule_for(slow, seconds)
            case faults.Crash(nth=nth, when=when, down=down, stale=stale):
                process = self.process
                if process is not None and process.wire.death is None:
                    process.down, process.next_is_stale = down, stale
                    process.wire.death = death = Death(nth, when)
                    if stale:
                        self.replica.set_lag(None)
                        await asyncio.sleep(STALE_SECONDS)
                        if process.wire.alive and process.wire.death is death:
                            # A program that watches this server would not see what it has to write next.
                            process.next_is_stale = False
                            self.replica.set_lag(0.0)
            case faults.SecondProcess(seconds=seconds):
                if self._second is None:
                    second = self.start_process(second=True)
                    # While their caches differ the two processes overwrite each other's writes; without latency of
                    # writes this never ends.
                    await self._apply_rule_for(_brief_delay(), seconds)
                    second.wire.die()
            case faults.Lag(lag=lag, seconds=seconds):
                self.replica.set_lag(lag)
                await asyncio.sleep(seconds)
                self.replica.set_lag(0.0)
            case faults.Move(behind=behind):
                if self.process is not None:
                    self.process.wire.replica = self.replica if behind else None
                    self.end_watches(failure="lost")
            case faults.JumpClock(seconds=seconds):
                clock = self.env.clock
                assert isinstance(clock, VirtualClock), "a simulation has a virtual clock"
                clock.jump(seconds)
            case faults.FailWebhook(failure=webhook_failure, nth=nth):
                assert self.webhooks is not None, "a plan for a program without webhooks"
                self.webhooks.fail(webhook_failure, nth)
            case faults.SlowWebhooks(longest=longest, seconds=seconds):
                assert self.webhooks is not None, "a plan for a program without webhooks"
                await self.webhooks.slow(longest, seconds)
            case faults.Compact():
                self.store.compact(self.store.revision)
                self.replica.compact(self.replica.revision)
            case faults.StaleCache() | faults.StaleRestart() | faults.MissedChange() | faults.DownDuringChange():
                with self._write_latency_of_program():
                    await perturbations.inject(self, fault)
            case _:
                assert_never(fault)

    @contextlib.contextmanager
    def _write_latency_of_program(self) -> Iterator[None]:
        """While a program observes one resource later than another, it may recreate objects that the garbage collector
        deletes because their owner is gone; without latency of writes this never ends."""
        if self.program is None:
            yield
            return
        rule = self.add_rule(_brief_delay())
        try:
            yield
        finally:
            self.remove_rule(rule)

    async def _apply_rule_for(self, rule: Rule, seconds: float) -> None:
        self.add_rule(rule)
        await asyncio.sleep(seconds)
        self.remove_rule(rule)

    def end_faults(self) -> None:
        """End all faults."""
        self.triggers.clear()
        for rule in list(self._rules):
            self.remove_rule(rule)
        for holding in self._holds:
            holding.release()
        self._holds.clear()
        self.replica.set_lag(0.0)
        if self.webhooks is not None:
            self.webhooks.end_faults()
        if self._second is not None and self.options.replicas == 1:
            self._second.wire.die()
        if self.process is not None:
            self.process.wire.death = None
        self.log.record_event("all faults are over")

    async def run_until_idle(self, *, quiet: float = QUIET_SECONDS, limit: float = IDLE_LIMIT_SECONDS) -> None:
        """End all faults, wait until nothing but heartbeats is written for ``quiet`` seconds, and check the final
        state.

        Raises ``Violation`` if writes do not stop within ``limit`` seconds.
        """
        self.end_faults()
        started_at = self.env.monotonic()
        self._last_write = max(self._last_write, started_at)
        recent = Counter[str]()
        while True:
            remaining = self._last_write + quiet - self.env.monotonic()
            if remaining <= 0:
                break
            if self.env.monotonic() - started_at > limit:
                often = ", ".join(f"{key} ({times} times)" for key, times in recent.most_common(3))
                raise Violation(f"objects are still written {limit:.0f} s after the last fault; recently {often}")
            self._recent_writes = recent = Counter()
            await asyncio.sleep(remaining)
        self._recent_writes = None
        for invariant in self.invariants:
            invariant.check_final_state()


def _brief_delay() -> Rule:
    return Rule(delay(0.005, 0.05), verb="write")


def _counts(call: RequestInfo, _request: wire.Request) -> bool:
    """As for ``Crash``: the counted writes must not depend on the times of Events and Leases."""
    return call.resource not in {"events", "leases"}


def _is_established(definition: CustomResourceDefinition) -> bool:
    return any(
        (condition.type, condition.status) == ("Established", "True") for condition in definition.status.conditions
    )


def _replica_transport(replica: Replica) -> wire.Transport:
    return replica.server.transport("system:kube-controller-manager", ("system:masters",))


def is_heartbeat(change: Change) -> bool:
    """Leases, status reports of nodes, and expired Events."""
    return change.key.startswith(("coordination.k8s.io/leases/", "/nodes/")) or (
        change.type == "DELETED" and CURRENT.get() is None
    )


@contextlib.asynccontextmanager
async def running(
    env: Env,
    options: SimulationOptions | None = None,
    invariants: Sequence[Invariant] = (),
    program: Program | None = None,
) -> AsyncIterator[Simulation]:
    """A simulation with its manager leading, or its program started; it ends with the block."""
    simulation = Simulation(env, options or SimulationOptions(), invariants, program)
    async with TaskGroup("simulation") as group:
        group.start(simulation.run(), name="simulation")
        await simulation.wait_ready()
        try:
            yield simulation
        finally:
            group.cancel()


def simulate(
    scenario: Callable[[Simulation], Coroutine[Any, Any, None]],
    *,
    seed: int = 0,
    options: SimulationOptions | None = None,
    invariants: Callable[[], Sequence[Invariant]] = tuple,
) -> RunLog:
    """Run a scenario in virtual time and return its log.

    Raises ``SimulationFailed`` for any error, with the seed, the faults and the last lines of the log.
    """
    simulations: list[Simulation] = []

    async def main(env: Env) -> None:
        async with running(env, options, invariants()) as simulation:
            simulations.append(simulation)
            await scenario(simulation)

    try:
        virtual.run(main, seed=seed)
    except Exception as error:
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        text = f"seed {seed}: {type(cause).__name__}: {cause}"
        for failed in simulations:
            text += f"\n\nfaults:\n{failed.plan}\n\nthe end of the log:\n{failed.log.excerpt()}"
            text += f"{failed.explained()}\n\nseed {seed}: {cause}"
        raise SimulationFailed(text) from error
    return simulations[0].log
