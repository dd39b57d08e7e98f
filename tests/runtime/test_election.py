"""Leader election and fencing of writes. All times are virtual."""

import asyncio
import datetime
import itertools
from typing import Any

import msgspec
import pytest
from tests.runtime.cluster import Cluster

from pilothouse.api import wire
from pilothouse.api.coordination import LEASES
from pilothouse.client import merge_patch
from pilothouse.env import Env, TaskGroup
from pilothouse.env.virtual import VirtualClock
from pilothouse.machinery.times import parse_micro_time
from pilothouse.runtime import EventRecorder, Fence, LeaderElector, LeadershipLost, LostLease, Registry

NAME, NAMESPACE = "kube-controller-manager", "kube-system"


class Member:
    """One candidate with its own client, and when it led."""

    def __init__(self, env: Env, server: Cluster, identity: str, **options: Any) -> None:
        self.env = env
        self.started: list[float] = []
        self.ended: list[float] = []
        self.work_seconds: float | None = None
        self.last_words = 0.0
        self.elector = LeaderElector(server.client(), env, identity=identity, name="kube-controller-manager", **options)

    async def lead(self) -> None:
        self.started.append(self.env.monotonic())
        try:
            if self.work_seconds is None:
                await asyncio.get_running_loop().create_future()
            else:
                await asyncio.sleep(self.work_seconds)
        finally:
            await asyncio.sleep(self.last_words)
            self.ended.append(self.env.monotonic())

    def run(self) -> "asyncio.Task[None]":
        return asyncio.create_task(self.elector.run(self.lead))


def lease(server: Cluster) -> dict[str, Any]:
    (leases,) = server.objects("coordination.k8s.io/leases/kube-system/")
    spec: dict[str, Any] = leases["spec"]
    return spec


async def test_first_candidate_creates_the_lease_and_renews_every_retry_period(env: Env) -> None:
    server = Cluster(env)
    first = Member(env, server, "one")
    running = first.run()
    await asyncio.sleep(9)
    assert [(at, method) for at, method, _name, _body in server.log] == [
        (0.0, "GET"), (0.0, "POST"), (0.0, "PUT"), (2.0, "PUT"), (4.0, "PUT"), (6.0, "PUT"), (8.0, "PUT"),
    ]  # fmt: skip
    spec = lease(server)
    assert spec["holderIdentity"] == "one"
    assert spec["leaseDurationSeconds"] == 15
    assert spec["leaseTransitions"] == 0
    assert spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert parse_micro_time(spec["renewTime"]) == datetime.datetime(2026, 1, 1, 0, 0, 8, tzinfo=datetime.UTC)
    assert first.started == [0.0]
    assert first.elector.is_leader
    running.cancel()


async def test_renewals_after_the_first_use_the_servers_fast_path(env: Env) -> None:
    server = Cluster(env)
    running = Member(env, server, "one").run()
    await asyncio.sleep(5)
    (record,) = server.store.list("coordination.k8s.io/leases/kube-system/").records
    revision, owner = server.server.core.renewed[record.key]
    assert revision == record.revision
    assert owner.time == "2026-01-01T00:00:04Z"
    running.cancel()


async def test_candidate_waits_a_full_lease_duration_after_the_last_observed_change(env: Env, seed: int) -> None:
    server = Cluster(env)
    first, second = Member(env, server, "one", release_on_stop=False), Member(env, server, "two")
    leaders: list[str] = []
    second.elector._on_new_leader = leaders.append
    running = [first.run()]
    await asyncio.sleep(1.0)
    running.append(second.run())
    await asyncio.sleep(20.0)
    running[0].cancel()
    before = env.monotonic()
    await asyncio.sleep(40.0)
    assert second.started
    # The last renewal was observed up to one retry (4.4 s) later, and so was the expiry of the Lease.
    assert before - 2.0 + 15.0 <= second.started[0] <= before + 4.4 + 15.0 + 4.4
    assert lease(server)["leaseTransitions"] == 1
    assert leaders == ["one", "two"]
    running[1].cancel()


async def test_new_candidate_ignores_times_in_the_lease(env: Env) -> None:
    """The times in the lease are years old, and the wall clock jumps: neither counts."""
    server = Cluster(env)
    stale = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "holderIdentity": "gone", "leaseDurationSeconds": 15, "leaseTransitions": 7,
            "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": "2020-01-01T00:00:00.000000Z",
        },
    }  # fmt: skip
    await server.admin().create(LEASES, stale, NAMESPACE)
    member = Member(env, server, "me")
    running = member.run()
    await asyncio.sleep(5)
    assert isinstance(env.clock, VirtualClock)
    env.clock.jump(100_000)
    await asyncio.sleep(30)
    assert 15.0 < member.started[0] < 20.0
    assert lease(server)["leaseTransitions"] == 8
    running.cancel()


async def test_released_lease_is_acquired_at_the_next_jittered_retry(env: Env) -> None:
    server = Cluster(env)
    first, second = Member(env, server, "one"), Member(env, server, "two")
    running = first.run()
    await asyncio.sleep(0.5)
    waiting = second.run()
    await asyncio.sleep(60)
    reads = [at for at, method, _name, _body in server.log if method == "GET" and at > 0.4]
    pauses = [b - a for a, b in itertools.pairwise(reads)]
    assert all(2.0 <= pause < 4.4001 for pause in pauses)
    assert max(pauses) > 3.5
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert lease(server) == {
        "holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 0,
        "acquireTime": lease(server)["renewTime"], "renewTime": lease(server)["renewTime"],
    }  # fmt: skip
    released_at = env.monotonic()
    await asyncio.sleep(5)
    assert second.started[0] - released_at < 4.4
    assert lease(server)["leaseTransitions"] == 1
    waiting.cancel()


async def test_leader_stops_and_is_fenced_after_the_renew_deadline(env: Env) -> None:
    server = Cluster(env)
    fence = Fence(env)
    metrics = Registry()
    with pytest.raises(LostLease):
        fence.check()
    member = Member(env, server, "one", fence=fence, metrics=metrics)
    running = member.run()
    await asyncio.sleep(20.5)
    fence.check()
    assert metrics.value("leader_election_master_status", "kube-controller-manager") == 1
    server.down = True  # the last renewal was sent at 20.0
    await asyncio.sleep(9.4)
    fence.check()
    await asyncio.sleep(0.2)
    with pytest.raises(LostLease):
        fence.check()
    assert member.ended == [], "the elector notices later than the fence: it began its last renewal at 22.0"
    with pytest.raises(LeadershipLost):
        await running
    assert member.ended == [32.0]
    assert metrics.value("leader_election_master_status", "kube-controller-manager") == 0
    assert not fence.open


async def test_leader_ending_due_to_its_fence_has_lost_the_lease(env: Env) -> None:
    """The fence closes before the last renewal times out: writes in between fail, and so does what is being started."""
    server = Cluster(env)
    fence = Fence(env)
    member = Member(env, server, "one", fence=fence)

    async def write_after(seconds: float) -> None:
        async with TaskGroup("controllers") as group:
            group.start(_write_after(seconds, fence), name="controller")

    running = asyncio.create_task(member.elector.run(lambda: write_after(30.5)))
    await asyncio.sleep(20.5)
    server.down = True
    with pytest.raises(LeadershipLost, match="it was not renewed within 10 s"):
        await running
    assert env.monotonic() == 30.5


async def _write_after(seconds: float, fence: Fence) -> None:
    await asyncio.sleep(seconds)
    fence.check()


async def test_leader_observing_another_holder_stops_immediately(env: Env) -> None:
    """Its loop time may have stopped while the other's continued (a suspended machine), so its fence was open."""
    server = Cluster(env)
    fence = Fence(env)
    member = Member(env, server, "one", fence=fence)
    member.last_words = 5.0
    running = member.run()
    await asyncio.sleep(20.5)
    await server.admin().patch(LEASES, NAME, merge_patch({"spec": {"holderIdentity": "two"}}), NAMESPACE)
    await asyncio.sleep(2.0)
    assert not fence.open, "the renewal at 22.0 came upon it"
    with pytest.raises(LeadershipLost, match="two holds it"):
        await running
    assert member.ended == [27.0]
    assert not fence.open
    assert lease(server)["holderIdentity"] == "two"


async def test_on_lost_is_called_before_the_leader_is_stopped(env: Env) -> None:
    server = Cluster(env)
    fence = Fence(env)
    losses: list[tuple[str, float, bool]] = []
    member = Member(
        env,
        server,
        "one",
        fence=fence,
        on_lost=lambda lost: losses.append((str(lost), env.monotonic(), fence.open)),
    )
    member.last_words = 5.0
    running = member.run()
    await asyncio.sleep(20.5)
    await server.admin().patch(LEASES, NAME, merge_patch({"spec": {"holderIdentity": "two"}}), NAMESPACE)
    with pytest.raises(LeadershipLost) as raised:
        await running
    assert losses == [(str(raised.value), 22.0, False)]
    assert member.ended == [27.0]


async def test_graceful_stop_is_not_a_lost_lease(env: Env) -> None:
    server = Cluster(env)
    losses: list[object] = []
    member = Member(env, server, "one", on_lost=losses.append)
    member.last_words = 30.0
    running = member.run()
    await asyncio.sleep(5)
    server.down = True
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert losses == []


async def test_hanging_renewal_times_out_after_half_the_deadline(env: Env) -> None:
    server = Cluster(env)
    member = Member(env, server, "one")
    running = member.run()
    await asyncio.sleep(3)
    hanging = HangingTransport()
    member.elector._client.transport = hanging
    member.elector._client._calls._transport = hanging
    with pytest.raises(LeadershipLost):
        await running
    assert member.ended == [14.0]
    assert hanging.requests == ["PUT", "GET"], "five seconds each"


class HangingTransport:
    """Never answers."""

    def __init__(self) -> None:
        self.requests: list[str] = []

    async def request(self, request: wire.Request) -> wire.Response:
        self.requests.append(request.method)
        answer: wire.Response = await asyncio.get_running_loop().create_future()
        return answer

    async def open(self, request: wire.Request) -> wire.Stream:
        raise AssertionError

    async def close(self) -> None:
        return None


async def test_lease_changed_by_others_is_read_before_renewal(env: Env) -> None:
    server = Cluster(env)
    metrics = Registry()
    member = Member(env, server, "one", metrics=metrics)
    running = member.run()
    await asyncio.sleep(3)
    server.log.clear()
    touch = merge_patch({"metadata": {"annotations": {"touched": "yes"}}})
    await server.admin().patch(LEASES, NAME, touch, NAMESPACE)
    await asyncio.sleep(3.5)
    assert server.methods() == ["PUT", "GET", "PUT", "PUT"]
    (leases,) = server.objects("coordination.k8s.io/leases/kube-system/")
    assert leases["metadata"]["annotations"] == {"touched": "yes"}
    assert metrics.value("leader_election_slowpath_total", "kube-controller-manager") == 1
    running.cancel()


async def test_lease_is_renewed_until_the_leader_stopped_and_then_released(env: Env) -> None:
    server = Cluster(env)
    recorder = EventRecorder(server.client(), env, "kube-controller-manager")
    sending = asyncio.create_task(recorder.run())
    fence = Fence(env)
    member = Member(env, server, "one", recorder=recorder, fence=fence)
    member.last_words = 30.0
    running = member.run()
    await asyncio.sleep(5)
    running.cancel()
    await asyncio.sleep(29)
    assert lease(server)["holderIdentity"] == "one"
    fence.check()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert member.ended == [35.0]
    assert env.monotonic() == 35.0
    assert lease(server)["holderIdentity"] == ""
    assert not fence.open
    assert await recorder.flush(5)
    events = server.objects("/events/")
    assert [(e["type"], e["reason"], e["message"]) for e in events] == [
        ("Normal", "LeaderElection", "one became leader"),
        ("Normal", "LeaderElection", "one stopped leading"),
    ]
    assert events[0]["involvedObject"]["kind"] == "Lease"
    sending.cancel()


async def test_candidate_stopped_while_acquiring_releases_the_lease(env: Env) -> None:
    """Its request had been carried out, only the answer was still on its way."""
    server = Cluster(env)
    member = Member(env, server, "one")
    calls = member.elector._client._calls
    calls._transport = LateAnswers(calls._transport, 1.0)
    running = member.run()
    await asyncio.sleep(1.5)  # the lookup took a second, the create has been carried out
    assert lease(server)["holderIdentity"] == "one"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
    assert member.started == []
    assert lease(server).get("holderIdentity", "") == ""


class LateAnswers:
    """Executes requests immediately, and delays the responses."""

    def __init__(self, inner: wire.Transport, seconds: float) -> None:
        self._inner = inner
        self._seconds = seconds

    async def request(self, request: wire.Request) -> wire.Response:
        answer = await self._inner.request(request)
        await asyncio.sleep(self._seconds)
        return answer

    async def open(self, request: wire.Request) -> wire.Stream:
        return await self._inner.open(request)

    async def close(self) -> None:
        await self._inner.close()


async def test_finished_leader_releases_the_lease(env: Env) -> None:
    server = Cluster(env)
    member = Member(env, server, "one")
    member.work_seconds = 3.0
    await member.run()
    assert lease(server)["holderIdentity"] == ""


async def test_release_conflict_is_retried(env: Env) -> None:
    server = Cluster(env)
    member = Member(env, server, "one")
    running = member.run()
    await asyncio.sleep(3)
    conflicts = 2

    def before(request: wire.Request) -> wire.Response | None:
        nonlocal conflicts
        if request.method == "PUT" and conflicts:
            conflicts -= 1
            return server.answer(409, "Conflict")
        return None

    server.before = before
    server.log.clear()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert server.methods() == ["GET", "PUT"] * 3
    assert lease(server)["holderIdentity"] == ""


async def test_health_check_fails_if_the_leader_runs_past_its_lease(env: Env) -> None:
    server = Cluster(env)
    member = Member(env, server, "one")
    assert member.elector.check() is None
    member.last_words = 100.0
    running = member.run()
    await asyncio.sleep(1)
    server.down = True
    await asyncio.sleep(34)
    assert member.elector.check(20.0) is None
    await asyncio.sleep(2)
    assert member.elector.check(20.0) == "failed election to renew leadership on lease kube-controller-manager"
    with pytest.raises(LeadershipLost):
        await running


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lease_duration_seconds": 10.0}, "leaseDuration must be greater than renewDeadline"),
        ({"retry_period_seconds": 9.0}, "renewDeadline must be greater than retryPeriod*JitterFactor"),
        ({"retry_period_seconds": 0.0}, "retryPeriod must be greater than zero"),
        (
            {"lease_duration_seconds": 0.0, "renew_deadline_seconds": -1.0, "retry_period_seconds": -2.0},
            "leaseDuration must be greater than zero",
        ),
        ({"renew_deadline_seconds": 0.0, "retry_period_seconds": -1.0}, "renewDeadline must be greater than zero"),
        ({"identity": ""}, "Lock identity is empty"),
    ],
)
async def test_invalid_settings_are_rejected(env: Env, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("*", r"\*")):
        LeaderElector(Cluster(env).client(), env, **{"identity": "me", "name": "x", **options})


async def test_fractional_durations_are_accepted(env: Env) -> None:
    short: dict[str, Any] = {"lease_duration_seconds": 0.9, "renew_deadline_seconds": 0.5, "retry_period_seconds": 0.1}
    LeaderElector(Cluster(env).client(), env, identity="me", name="x", **short)


async def test_undecodable_lease_is_a_failed_attempt(env: Env) -> None:
    server = Cluster(env)
    client = server.client()
    meta = {"name": NAME, "namespace": NAMESPACE}
    await client.create(LEASES.raw, {"metadata": meta, "spec": {"holderIdentity": "other"}}, NAMESPACE)
    member = Member(env, server, "one")
    unreadable = True
    read = client.get

    async def get(*arguments: Any, **options: Any) -> Any:
        result = await read(*arguments, **options)
        return msgspec.Raw(b'{"spec":{"renewTime":"yesterday"}}') if unreadable else result

    member.elector._client.get = get  # type: ignore[method-assign]  # no server would store such a lease
    running = member.run()
    await asyncio.sleep(60)
    assert not running.done()
    assert member.started == []
    unreadable = False
    await asyncio.sleep(30)
    assert len(member.started) == 1
    running.cancel()
