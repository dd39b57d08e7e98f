"""Invariants of ResourcePoolStatusRequests: each gets one status, with consistent numbers, and is kept long enough to
be read.

Computed from the committed objects after every write.
"""

import datetime
from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.devices.resourcepoolstatusrequest.decide import COMPLETED_TTL, PENDING_TTL
from pilothouse.env import Env
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process

_REQUESTS = "resource.k8s.io/resourcepoolstatusrequests/"
MANAGER = "resourcepoolstatusrequest-controller"


class _Pool(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pool_name: str
    total_devices: int | None = None
    allocated_devices: int | None = None
    available_devices: int | None = None
    unavailable_devices: int | None = None
    validation_error: str | None = None


class _Condition(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    last_transition_time: datetime.datetime


class _Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    pool_count: int
    pools: tuple[_Pool, ...] = ()
    conditions: tuple[_Condition, ...] = ()


class _Spec(msgspec.Struct, frozen=True):
    limit: int


class _Request(msgspec.Struct, frozen=True):
    metadata: ObjectMeta
    spec: _Spec
    status: _Status | None = None


_request = msgspec.json.Decoder(_Request).decode


class PoolRequests(Invariant):
    """All ResourcePoolStatusRequests of a cluster. ``answered`` counts statuses, ``incomplete`` those without the
    counts of a pool, ``expired`` requests that the manager deleted."""

    def __init__(self) -> None:
        self._open: dict[str, None] = {}
        self._env: Env | None = None
        self.answered = 0
        self.incomplete = 0
        self.expired = 0

    def started(self, process: "Process") -> None:
        self._env = process.wire.env

    def committed(self, change: Change, origin: Origin | None) -> None:
        if not change.key.startswith(_REQUESTS):
            return
        name = change.key.removeprefix(_REQUESTS)
        old = _request(change.old_value) if change.old_value is not None else None
        self._open.pop(name, None)
        if change.type == "DELETED":
            if old is not None and origin is not None and origin.controller == MANAGER:
                self._expired(name, old)
            return
        now = _request(change.value)
        if now.status is None:
            self._open[name] = None
        if old is not None and old.status is not None and now.status != old.status:
            raise Violation(f"request {name} had a status, and has another one")
        if now.status is not None and (old is None or old.status is None):
            self.answered += 1
            self._check(name, now.spec.limit, now.status)

    def _check(self, name: str, limit: int, status: _Status) -> None:
        names = [pool.pool_name for pool in status.pools]
        if names != sorted(set(names)):
            raise Violation(f"request {name} reports pools {names}")
        if len(names) != min(limit, status.pool_count):
            raise Violation(
                f"request {name} reports {len(names)} pools of {status.pool_count}, and the limit is {limit}"
            )
        for pool in status.pools:
            self.incomplete += pool.validation_error is not None
            counts = (pool.total_devices, pool.allocated_devices, pool.unavailable_devices, pool.available_devices)
            set_counts = [count for count in counts if count is not None]
            if pool.validation_error is not None:
                if set_counts:
                    raise Violation(f"request {name} reports {counts} of pool {pool.pool_name}, which is incomplete")
                continue
            total, allocated, unavailable, available = (*set_counts, *([-1] * (4 - len(set_counts))))
            if available != max(0, total - allocated - unavailable) or available < 0:
                raise Violation(f"request {name} reports {counts} of pool {pool.pool_name}")

    def _expired(self, name: str, request: _Request) -> None:
        self.expired += 1
        since, ttl = request.metadata.creation_timestamp, PENDING_TTL
        if request.status is not None:
            since, ttl = request.status.conditions[0].last_transition_time, COMPLETED_TTL
        assert self._env is not None, "who deletes was started"
        assert since is not None, "the server says when something was made"
        # Clocks may jump between a decision and its write.
        if self._env.now() - since < ttl / 2:
            raise Violation(f"request {name} was deleted after {self._env.now() - since}")

    def check_final_state(self) -> None:
        """At the end each request has a status."""
        if self._open:
            raise Violation(f"requests {sorted(self._open)} have no status")
