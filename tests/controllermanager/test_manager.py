"""The manager's order of things, in virtual time, on the embedded API server."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.runtime.cluster import Cluster

from pilothouse.api import wire
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.client import Client
from pilothouse.controllermanager.manager import Manager
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.env import Env, TaskGroup
from pilothouse.env.virtual import run
from pilothouse.runtime import LeadershipLost
from pilothouse.runtime.api_server import wait_for_api_server
from pilothouse.runtime.context import ControllerContext
from pilothouse.runtime.descriptor import Descriptor, RunnableController, Watch

WIDGETS = Kind("example.com", "v1", "widgets", "Widget", True, Object)
ELECTED = Options(leader_election=LeaderElection())
ALONE = Options(leader_election=LeaderElection(enabled=False))


class Probe:
    """A controller that only says what happens to it."""

    log: list[str] = []
    stop_seconds = 0.0

    def __init__(self, name: str) -> None:
        self.name = name

    async def run(self) -> None:
        Probe.log.append(f"{self.name} runs")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            Probe.log.append(f"{self.name} is told to stop")
            await asyncio.sleep(self.stop_seconds)
            Probe.log.append(f"{self.name} finished")


@pytest.fixture(autouse=True)
def fresh() -> None:
    Probe.log = []
    Probe.stop_seconds = 0.0


def probe(name: str, **changes: Any) -> Descriptor:
    def build(_context: ControllerContext) -> RunnableController:
        return Probe(name)

    class Built(Descriptor, frozen=True):
        def build(self, context: ControllerContext) -> RunnableController:
            return build(context)

    return Built(name=name, client_name=name, factory="nowhere:nothing", **changes)


class Factory:
    """Gives every controller the same client, and writes down who asked."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.asked: list[tuple[str, float, int, bool]] = []

    def shared(self, suffix: str, *, qps: float, burst: int, fence: Any = None) -> Client:
        self.asked.append((suffix, qps, burst, fence is not None))
        return self.client

    def for_controller(self, name: str, *, qps: float, burst: int, fence: Any) -> Client:
        self.asked.append((f"controller {name}", qps, burst, fence is not None))
        return self.client


def test_the_api_server_is_waited_for_and_then_controllers_run_until_they_are_stopped() -> None:
    async def main(env: Env) -> None:
        cluster = Cluster(env)
        cluster.down = True
        manager = Manager(env, ALONE, Factory(cluster.client()), [probe("a"), probe("b")])
        assert not manager.readiness.report("readyz").healthy
        async with TaskGroup("test") as group:
            group.start(manager.run())
            await asyncio.sleep(5)
            assert Probe.log == []
            cluster.down = False
            await manager.leading.wait()
            assert env.monotonic() < 7
            assert manager.readiness.report("readyz").healthy
            await asyncio.sleep(1)
            text = manager.health.report("healthz", verbose=True).text
            assert text == "[+]a ok\n[+]b ok\nhealthz check passed\n"
            group.cancel()
        assert Probe.log[:2] == ["a runs", "b runs"]
        stops = ["a finished", "a is told to stop", "b finished", "b is told to stop"]
        assert sorted(Probe.log[2:]) == stops

    run(main)


def test_an_api_server_that_never_comes_is_given_up_after_ten_seconds() -> None:
    async def main(env: Env) -> None:
        cluster = Cluster(env)
        cluster.down = True
        with pytest.raises(ConnectionError, match="failed to wait for apiserver being healthy: connection refused"):
            await wait_for_api_server(cluster.client(), env)
        assert 10 <= env.monotonic() < 12

    run(main)


def test_wrong_credentials_are_not_waited_for() -> None:
    async def main(env: Env) -> None:
        cluster = Cluster(env)
        cluster.before = lambda _request: cluster.answer(401, "Unauthorized", "Unauthorized")
        with pytest.raises(ConnectionError, match="does not accept the credentials in use: Unauthorized"):
            await wait_for_api_server(cluster.client(), env)
        assert env.monotonic() < 1

    run(main)


def test_only_what_runs_on_the_leader_is_fenced_and_each_client_has_its_own_limits() -> None:
    async def main(env: Env) -> None:
        factory = Factory(Cluster(env).client())
        manager = Manager(env, ELECTED, factory, [probe("a", qps_factor=2.0, burst_factor=100)])
        async with TaskGroup("test") as group:
            group.start(manager.run())
            await manager.leading.wait()
            group.cancel()
        fenced = {name for name, _qps, _burst, is_fenced in factory.asked if is_fenced}
        assert ("leader-election", 20.0, 30, False) in factory.asked
        assert ("controller a", 40.0, 3000, True) in factory.asked
        assert "metadata-informers" in fenced

    run(main)


def test_a_controller_whose_api_is_missing_is_left_out() -> None:
    async def main(env: Env) -> None:
        descriptors = [probe("here"), probe("strange", watches=(Watch(kind=WIDGETS),))]
        manager = Manager(env, ALONE, Factory(Cluster(env).client()), descriptors)
        async with TaskGroup("test") as group:
            group.start(manager.run())
            await manager.leading.wait()
            await asyncio.sleep(1)
            assert Probe.log == ["here runs"]
            assert "strange" not in manager.health.report("healthz", verbose=True).text
            group.cancel()

    run(main)


class Switched(msgspec.Struct, frozen=True):
    on: bool = False


def test_a_controller_that_is_switched_off_is_not_even_built() -> None:
    async def main(env: Env) -> None:
        descriptors = [probe("plain"), *(probe(name, options=Switched, switch="on") for name in ("off", "given"))]
        options = msgspec.structs.replace(ALONE, controller_options={"given": Switched(on=True)})
        manager = Manager(env, options, Factory(Cluster(env).client()), descriptors)
        async with TaskGroup("test") as group:
            group.start(manager.run())
            await manager.leading.wait()
            await asyncio.sleep(1)
            assert Probe.log == ["plain runs", "given runs"]
            assert "off" not in manager.health.report("healthz", verbose=True).text
            group.cancel()

    run(main)


def test_controllers_get_the_shutdown_timeout_and_no_more() -> None:
    async def main(env: Env) -> None:
        Probe.stop_seconds = 3600
        options = Options(shutdown_timeout=4.0, leader_election=LeaderElection())
        cluster = Cluster(env)
        manager = Manager(env, options, Factory(cluster.client()), [probe("slow")])
        async with TaskGroup("test") as group:
            group.start(manager.run())
            await manager.leading.wait()
            await asyncio.sleep(1)
            began = env.monotonic()
            group.cancel()
        assert env.monotonic() - began == pytest.approx(4, abs=1.1)
        assert Probe.log == ["slow runs", "slow is told to stop"]
        [lease] = [o for o in cluster.objects("coordination.k8s.io/leases/") if o["kind"] == "Lease"]
        assert not lease["spec"].get("holderIdentity")

    run(main)


def test_a_lost_lease_stops_the_controllers_and_ends_the_run() -> None:
    async def main(env: Env) -> None:
        cluster = Cluster(env)

        def refuse(request: wire.Request) -> wire.Response | None:
            return cluster.answer(503, "ServiceUnavailable", "away") if "leases" in request.target else None

        manager = Manager(env, ELECTED, Factory(cluster.client()), [probe("a")])
        running = asyncio.get_running_loop().create_task(manager.run())
        await manager.leading.wait()
        await asyncio.sleep(1)
        cluster.before = refuse
        with pytest.raises(
            LeadershipLost, match="lost the lease kube-system/kube-controller-manager: it was not renewed"
        ):
            await running
        assert Probe.log == ["a runs", "a is told to stop", "a finished"]
        assert not manager.leading.is_set()

    run(main)


def test_starts_are_spread_over_the_start_interval() -> None:
    async def main(env: Env) -> None:
        options = Options(start_interval=10.0, leader_election=LeaderElection(enabled=False))
        manager = Manager(env, options, Factory(Cluster(env).client()), [probe("a"), probe("b")])
        async with TaskGroup("test") as group:
            group.start(manager.run())
            await asyncio.sleep(9.9)
            assert Probe.log == []
            await asyncio.sleep(10.2)
            assert sorted(Probe.log) == ["a runs", "b runs"]
            group.cancel()

    run(main)
