"""Leader election on a Lease, and the fence that rejects writes of a leader that has lost it.

One of several processes is the leader, the others wait. The holder of the Lease renews it; another process may take it
after it has been unchanged for its whole duration. Only the local clock is used: times in the Lease are informational
and never compared, so clocks may be wrong or jump. Timing and requests are those of client-go v0.36
``tools/leaderelection`` with a LeaseLock, so Go and Python programs can share a Lease.
"""

import asyncio
import contextlib
import datetime
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from pilothouse.api.coordination import LEASES, Lease
from pilothouse.api.meta import ObjectMeta
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.machinery.causes import Moment, begin_sync, current_moment, record_decision, return_to
from pilothouse.machinery.metrics import Registry
from pilothouse.machinery.owners import object_reference
from pilothouse.machinery.splice import replace_fields, replace_spec
from pilothouse.machinery.times import format_micro_time
from pilothouse.runtime.errors import LostLease
from pilothouse.runtime.events import NORMAL, EventRecorder

JITTER = 1.2
"""``JitterFactor``: a candidate pauses for the retry period × [1, 2.2), and renewals need deadline > 1.2 × period."""


class LeadershipLost(Exception):
    """The lease could not be renewed in time, and the leader's work was stopped."""


class Fence:
    """Whether this process may still write. Closed before the first lease.

    ``check`` is called by every client that may only write as the leader. It uses only loop time: it raises as soon as
    the renew deadline has passed since the last successful renewal *was sent*, whether the elector has noticed or not.
    The next holder waits for the longer lease duration after that renewal; in the difference, the last requests can
    still arrive.
    """

    __slots__ = ("_env", "_until")

    def __init__(self, env: Env) -> None:
        self._env = env
        self._until = float("-inf")

    @property
    def open(self) -> bool:
        """Whether ``check`` would pass."""
        return self._env.monotonic() <= self._until

    def check(self) -> None:
        """Raise ``LostLease`` unless this process may write."""
        if self._env.monotonic() > self._until:
            raise LostLease("not written: this process may no longer be the leader, its lease was not renewed in time")

    __call__ = check

    def renewed(self, sent_at: float, renew_deadline_seconds: float) -> None:
        """A renewal sent at that loop time succeeded."""
        self._until = sent_at + renew_deadline_seconds

    def close(self) -> None:
        """Close the fence: the lease was released."""
        self._until = float("-inf")


class Record(msgspec.Struct, frozen=True):
    """The content of a Lease. Times are compared in whole seconds."""

    holder: str
    duration_seconds: int
    acquired_at: datetime.datetime | None
    renewed_at: datetime.datetime | None
    transitions: int
    strategy: str = ""
    preferred_holder: str = ""

    def seen_as(self) -> tuple[object, ...]:
        """The fields in which two observations of a Lease are compared."""
        return (
            self.holder,
            self.duration_seconds,
            self.acquired_at.replace(microsecond=0) if self.acquired_at is not None else None,
            self.renewed_at.replace(microsecond=0) if self.renewed_at is not None else None,
            self.transitions,
            self.strategy,
            self.preferred_holder,
        )

    def spec(self) -> dict[str, Any]:
        """The Lease's ``spec``."""
        # In the order in which our own server stores them: a renewal is then the same text but for its time.
        spec: dict[str, Any] = {
            "acquireTime": format_micro_time(self.acquired_at) if self.acquired_at is not None else None,
            "holderIdentity": self.holder,
            "leaseDurationSeconds": self.duration_seconds,
            "leaseTransitions": self.transitions,
        }
        if self.preferred_holder:
            spec["preferredHolder"] = self.preferred_holder
        spec["renewTime"] = format_micro_time(self.renewed_at) if self.renewed_at is not None else None
        if self.strategy:
            spec["strategy"] = self.strategy
        return spec


COMPONENT = "leader-election"
"""For writes of Leases."""

_lease = msgspec.json.Decoder(Lease)


def _record_of(lease: Lease) -> Record:
    spec = lease.spec
    return Record(
        spec.holder_identity,
        spec.lease_duration_seconds,
        spec.acquire_time,
        spec.renew_time,
        spec.lease_transitions,
        spec.strategy,
        spec.preferred_holder,
    )


class LeaderElector:
    """Runs a function as the leader.

    ``run(lead)`` waits for the lease, then runs ``lead()`` and renews. Guarantees:

    * ``lead`` runs only after the lease was acquired, and ``fence`` is open by then.
    * If the lease cannot be renewed within ``renew_deadline_seconds``, or another holder is observed, the fence is
      closed, ``on_lost`` is called, ``lead`` is cancelled and waited for, and ``LeadershipLost`` is raised. The program
      should end then, and one that will not wait for ``lead`` ends itself in ``on_lost``; the lease is not touched.
      ``LeadershipLost`` is also what a ``lead`` ends with that raises ``LostLease``, the fence's refusal. (Upstream
      leads on until the deadline in the second case, too.)
    * If ``run`` is cancelled, or ``lead`` returns, the lease is kept until ``lead`` has ended and then released, so
      that the next process need not wait for it to expire (upstream's managers let it expire unless a gate is on). A
      lease that was being asked for, and may have been given, is released too.

    ``client`` must not be fenced and should give up on a request after half the renew deadline; ``run`` sees to that
    too.
    """

    def __init__(
        self,
        client: Client,
        env: Env,
        *,
        identity: str,
        name: str,
        namespace: str = "kube-system",
        lease_duration_seconds: float = 15.0,
        renew_deadline_seconds: float = 10.0,
        retry_period_seconds: float = 2.0,
        fence: Fence | None = None,
        recorder: EventRecorder | None = None,
        metrics: Registry | None = None,
        release_on_stop: bool = True,
        on_new_leader: Callable[[str], object] | None = None,
        on_lost: Callable[[LeadershipLost], object] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        _validate(identity, name, lease_duration_seconds, renew_deadline_seconds, retry_period_seconds)
        self.identity = identity
        self.name = name
        self.namespace = namespace
        self.fence = fence if fence is not None else Fence(env)
        self._env = env
        self._duration = lease_duration_seconds
        self._deadline = renew_deadline_seconds
        self._period = retry_period_seconds
        self._request_seconds = max(1.0, renew_deadline_seconds / 2)
        self._client = client.limited(self._request_seconds)
        self._recorder = recorder
        self._release_on_stop = release_on_stop
        self._on_new_leader = on_new_leader
        self._on_lost = on_lost
        self._labels = dict(labels or {})
        self._rng = env.stream("election")
        self._log = Log("leaderelection")
        self._lock = f"{namespace}/{name}"
        self._cached: bytes = b""
        self._sent = b""
        """The spec of the last request."""
        self._renewal: Callable[[str], bytes | None] | None = None
        """Renews the Lease without a request."""
        self._moment: Moment | None = None
        """The origin of renewals without a request."""
        self._meta = ObjectMeta(name=name, namespace=namespace)
        self._observed: Record | None = None
        self._observed_at = 0.0
        self._compared: tuple[object, ...] | None = None
        self._reported = ""
        self._undecided = False
        """Whether a write had no response, so that this process may hold the lease although it has not observed
        that."""
        self._master = self._slow_path = None
        if metrics is not None:
            self._master = metrics.gauge(
                "leader_election_master_status",
                "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 "
                "indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
                ("name",),
            ).labels(name)
            self._slow_path = metrics.counter(
                "leader_election_slowpath_total",
                "[ALPHA] Total number of slow path exercised in renewing leader leases. 'name' is the string used to "
                "identify the lease. Please make sure to group by name.",
                ("name",),
            ).labels(name)

    # Observing

    @property
    def leader(self) -> str:
        """The holder that was observed last; empty if there was none."""
        return self._observed.holder if self._observed is not None else ""

    @property
    def is_leader(self) -> bool:
        """Whether this process holds the lease, by the last observation."""
        return self.leader == self.identity

    def check(self, tolerance_seconds: float = 20.0) -> str | None:
        """For a health endpoint: the reason why this process is unhealthy, or None. A leader whose lease expired more
        than ``tolerance_seconds`` ago should have stopped.
        """
        if self.is_leader and self._env.monotonic() - self._observed_at > self._duration + tolerance_seconds:
            return f"failed election to renew leadership on lease {self.name}"
        return None

    # Running

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Acquire, lead, release. See the class."""
        try:
            await self._acquire()
        except asyncio.CancelledError:
            if self._undecided and self._release_on_stop:
                await self._release()
            raise
        self._record_event("became leader")
        if self._master is not None:
            self._master.set(1)
        lost = False
        try:
            lost = await self._lead_and_renew(lead)
        except BaseExceptionGroup as failed:
            rejected = failed.subgroup(LostLease)
            if rejected is None:
                raise
            # The fence is closed before the last renewal is given up; what writes in between may end with its refusal.
            lost = True
            raise self._leadership_lost_error() from rejected
        finally:
            self.fence.close()
            if self._master is not None:
                self._master.set(0)
            if not lost and self._release_on_stop:
                await self._release()
            self._record_event("stopped leading")
        if lost:
            raise self._leadership_lost_error()

    def _leadership_lost_error(self) -> LeadershipLost:
        holder = "" if self.is_leader else self.leader
        reason = f"{holder} holds it" if holder else f"it was not renewed within {self._deadline:g} s"
        return LeadershipLost(f"lost the lease {self._lock}: {reason}")

    async def _lead_and_renew(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Whether the lease was lost. Renewals continue until ``lead`` has returned, also while it is being stopped."""
        loop = asyncio.get_running_loop()
        async with TaskGroup(f"leader of {self.name}") as group:
            leading = group.start(lead(), name=f"lead-{self.name}")
            renewing = group.start(self._renew(), name=f"renew-{self.name}")
            ended: asyncio.Future[None] = loop.create_future()

            def on_end(_task: asyncio.Task[None]) -> None:
                if not ended.done():
                    ended.set_result(None)

            leading.add_done_callback(on_end)
            renewing.add_done_callback(on_end)
            stopped: asyncio.CancelledError | None = None
            try:
                await ended
            except asyncio.CancelledError as cancelled:
                stopped = cancelled
            lost = renewing.done() and not leading.done()
            if lost:
                self.fence.close()
                if self._on_lost is not None and stopped is None:
                    self._on_lost(self._leadership_lost_error())
            if not leading.done():
                leading.cancel()
                await _wait_until_done(leading)
            # A renewal that is in flight may finish after the one of ``lead``.
            lost = lost or (renewing.done() and not renewing.cancelled() and stopped is None)
            renewing.cancel()
            await _wait_until_done(renewing)
            if stopped is not None:
                raise stopped
        return lost

    async def _acquire(self) -> None:
        self._log.info("Attempting to acquire leader lease...", lock=self._lock)
        while not await self._try_acquire_or_renew():
            self._log.info("Failed to acquire lease", v=4, lock=self._lock)
            await asyncio.sleep(self._period * (1.0 + self._rng.random() * JITTER))
        self._log.info("Successfully acquired lease", lock=self._lock)

    async def _renew(self) -> None:
        """Return when the lease could not be renewed in time, or another process holds it."""
        while True:
            try:
                async with asyncio.timeout(self._deadline):
                    while not await self._try_acquire_or_renew():
                        if self.leader not in {"", self.identity}:
                            # Loop time may stop while real time continues (suspend): then the fence is still open
                            # although another process holds the lease.
                            self.fence.close()
                            self._log.info("Lease was taken over", lock=self._lock, holder=self.leader)
                            return
                        await asyncio.sleep(self._period)
            except TimeoutError:
                self._log.info("Failed to renew lease", lock=self._lock)
                return
            self._log.info("Successfully renewed lease", v=5, lock=self._lock)
            await self._next_renewal()

    async def _next_renewal(self) -> None:
        """Wait until a renewal requires a request. Renewals without a request are done in the meantime, without waking
        this task."""
        loop = asyncio.get_running_loop()
        due = loop.create_future()
        timer: asyncio.TimerHandle

        def renew() -> None:
            nonlocal timer
            if due.done():
                return
            try:
                renewed = self._renew_nowait()
            except Exception as error:  # noqa: BLE001  # it is raised where the renewals are awaited
                due.set_exception(error)
                return
            if renewed:
                self._env.mark_what_follows()
                wait()
            else:
                due.set_result(None)

        def wait() -> None:
            nonlocal timer
            timer = loop.call_later(self._period, renew)
            self._env.mark_renewal(timer, self._is_fast_path)

        wait()
        try:
            await due
        finally:
            timer.cancel()

    def _renew_nowait(self) -> bool:
        """``_try_acquire_or_renew`` as far as it is the usual renewal and does not wait; False: nothing was done."""
        env, observed = self._env, self._observed
        if observed is None or not self._is_fast_path() or not env.is_alone():
            return False
        now = env.monotonic()
        renew = self._renewal
        if renew is None:
            renew = self._renewal = self._client.renewal(LEASES.raw, self.name, self.namespace)
            if renew is None:
                return False
        wall = env.now()
        record = Record(
            self.identity, int(self._duration), observed.acquired_at, wall, observed.transitions, observed.strategy
        )
        if self._moment is None:
            begin_sync(COMPONENT, self._lock)
            record_decision(self._decision(record))
            self._moment = current_moment()
        else:
            return_to(self._moment)
        lease = renew(format_micro_time(wall))
        if lease is None:
            self._renewal = None
            return False
        self._cached, self._sent = lease, b""
        self._observed, self._observed_at = record, now
        self.fence.renewed(now, self._deadline)
        self._log.info("Successfully renewed lease", v=5, lock=self._lock)
        return True

    def _is_fast_path(self) -> bool:
        """Whether the next attempt is the usual renewal."""
        observed = self._observed
        return (
            observed is not None
            and observed.holder == self.identity
            and self._reported == self.identity
            and self._is_valid(self._env.monotonic())
            and self._has_labels()
        )

    # One attempt

    async def _try_acquire_or_renew(self) -> bool:
        """Acquire or renew once (``tryAcquireOrRenew``)."""
        try:
            return await self._attempt()
        finally:
            if self.leader != self._reported:
                self._reported = self.leader
                if self._on_new_leader is not None:
                    self._on_new_leader(self.leader)

    async def _attempt(self) -> bool:
        now = self._env.monotonic()
        wall = self._env.now()
        own_record = Record(self.identity, int(self._duration), wall, wall, 0)
        observed = self._observed
        if observed is not None and observed.holder == self.identity and self._is_valid(now):
            # The usual renewal: its resourceVersion ensures that no other candidate has changed the Lease.
            record = _renewal_of(own_record, observed)
            error = await self._put(record)
            if error is None:
                return self._record_success(record, now)
            self._log.info(
                "Failed to update lease optimistically, falling back to slow path", v=2, lock=self._lock, err=error
            )
        try:
            async with asyncio.timeout(self._request_seconds):
                self._keep(await self._client.get(LEASES.raw, self.name, self.namespace))
        except NotFound:
            error = await self._post(own_record)
            if error is not None:
                self._log.error("Error initially creating lease lock", error=error, lock=self._lock)
                return False
            return self._record_success(own_record, now)
        except (ApiError, OSError, ValueError) as failed:
            self._log.error("Error retrieving lease lock", error=failed, lock=self._lock)
            return False
        try:
            cached_record = _record_of(_lease.decode(self._cached))
        except msgspec.MsgspecError as failed:
            self._log.error("Lease lock is not readable", error=failed, lock=self._lock)
            return False
        if cached_record.seen_as() != self._compared:
            self._compared = cached_record.seen_as()
            self._set_observed_record(cached_record)
        if cached_record.holder and cached_record.holder != self.identity and self._is_valid(now):
            self._log.info("Lease is held and has not yet expired", v=4, lock=self._lock, holder=cached_record.holder)
            return False
        if cached_record.holder == self.identity:
            record = _renewal_of(own_record, cached_record)
            if self._slow_path is not None:
                self._slow_path.inc()
        else:
            record = Record(own_record.holder, own_record.duration_seconds, wall, wall, cached_record.transitions + 1)
        error = await self._put(record)
        if error is not None:
            self._log.error("Failed to update lock", error=error, lock=self._lock)
            return False
        return self._record_success(record, now)

    def _record_success(self, record: Record, sent_at: float) -> bool:
        self._set_observed_record(record)
        self.fence.renewed(sent_at, self._deadline)
        return True

    def _set_observed_record(self, record: Record) -> None:
        self._observed = record
        self._observed_at = self._env.monotonic()

    def _is_valid(self, now: float) -> bool:
        """Whether the observed lease has not expired, by the local clock."""
        return self._observed is not None and self._observed_at + self._observed.duration_seconds > now

    # Requests

    def _keep(self, raw: msgspec.Raw) -> None:
        self._renewal = None
        self._cached = bytes(raw)
        self._meta = _lease.decode(self._cached).metadata

    def _has_labels(self) -> bool:
        labels = self._labels
        return not labels or labels.items() <= self._meta.labels.items()

    def _decision(self, record: Record) -> str:
        action = f"taken or renewed for {record.duration_seconds} s" if record.holder else "released"
        return f"{self.identity}: the lease is {action}"

    async def _put(self, record: Record) -> Exception | None:
        old_spec = self._sent
        if not old_spec and self._observed is not None:
            old_spec = msgspec.json.encode(self._observed.spec())  # as it was renewed without a request
        self._sent = msgspec.json.encode(record.spec())
        # With the managedFields that were read, as client-go sends them.
        body = replace_spec(self._cached, old_spec, self._sent)
        if not self._has_labels():
            labels = {**self._meta.labels, **self._labels}
            body = replace_fields(body, {"metadata.labels": msgspec.json.encode(labels)})
        return await self._write(self._client.update(LEASES.raw, self.name, body, self.namespace), record)

    async def _post(self, record: Record) -> Exception | None:
        metadata: dict[str, Any] = {"name": self.name, "namespace": self.namespace}
        if self._labels:
            metadata["labels"] = self._labels
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": record.spec(),
        }
        return await self._write(self._client.create(LEASES.raw, body, self.namespace), record)

    async def _write(self, request: Coroutine[Any, Any, msgspec.Raw], record: Record) -> Exception | None:
        # This task also starts ``lead``, whose actions are not caused by the Lease.
        moment = current_moment()
        begin_sync(COMPONENT, f"{self.namespace}/{self.name}")
        record_decision(self._decision(record))
        try:
            return await self._send(request)
        finally:
            return_to(moment)

    async def _send(self, request: Coroutine[Any, Any, msgspec.Raw]) -> Exception | None:
        self._undecided = True
        try:
            async with asyncio.timeout(self._request_seconds):
                self._keep(await request)
        except (ApiError, OSError, ValueError) as error:
            self._undecided = not isinstance(error, ApiError)
            return error
        self._undecided = False
        return None

    async def _release(self) -> None:
        """Release the lease. A conflict means that a renewal was still in flight: read it again."""
        try:
            async with asyncio.timeout(self._deadline):
                while True:
                    self._keep(await self._client.get(LEASES.raw, self.name, self.namespace))
                    record = _record_of(_lease.decode(self._cached))
                    if record.holder != self.identity:
                        return
                    wall = self._env.now()
                    free = Record("", 1, wall, wall, record.transitions)
                    error = await self._put(free)
                    if error is None:
                        self._set_observed_record(free)
                        self._log.info("Released lease", lock=self._lock)
                        return
                    if not isinstance(error, Conflict):
                        self._log.error("Failed to release lease", error=error, lock=self._lock)
                        return
        except (ApiError, OSError, ValueError, msgspec.MsgspecError) as error:
            self._log.error("Failed to release lease", error=error, lock=self._lock)

    def _record_event(self, action: str) -> None:
        if self._recorder is not None:
            with contextlib.suppress(msgspec.MsgspecError):
                # Renewals do not read the response.
                self._meta = _lease.decode(self._cached).metadata
            about = object_reference(LEASES, self._meta)
            self._recorder.event(about, NORMAL, "LeaderElection", f"{self.identity} {action}")


def _renewal_of(own_record: Record, old_record: Record) -> Record:
    """The record of a renewal: acquire time and transitions do not change."""
    return Record(
        own_record.holder,
        own_record.duration_seconds,
        old_record.acquired_at,
        own_record.renewed_at,
        old_record.transitions,
        old_record.strategy,
    )


async def _wait_until_done(task: asyncio.Task[None]) -> None:
    """Wait until the task is done, whatever its result, which belongs to its group. Cancelling the wait does not cancel
    the task."""
    if not task.done():
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task.add_done_callback(lambda _task: None if over.done() else over.set_result(None))
        await over


def _validate(identity: str, name: str, duration: float, deadline: float, period: float) -> None:
    """``NewLeaderElector``'s checks and words; Go counts durations in nanoseconds (``leaderelection.go``, v0.36)."""
    if duration <= deadline:
        raise ValueError("leaseDuration must be greater than renewDeadline")
    if deadline <= JITTER * period:
        raise ValueError("renewDeadline must be greater than retryPeriod*JitterFactor")
    if duration <= 0:
        raise ValueError("leaseDuration must be greater than zero")
    if deadline <= 0:
        raise ValueError("renewDeadline must be greater than zero")
    if period <= 0:
        raise ValueError("retryPeriod must be greater than zero")
    if not identity:
        raise ValueError("Lock identity is empty")
    if not name:
        raise ValueError("Lock name is empty")
