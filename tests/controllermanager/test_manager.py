"""Startup, running and shutdown of the manager, in virtual time, on the embedded API server."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest
from tests.runtime.cluster import Cluster

from pilothouse.api import wire
from pilothouse.api.core import PODS
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.client import Client
from pilothouse.client.discovery import Requester
from pilothouse.client.errors import ConfigError, ConnectFailed
from pilothouse.controllermanager.feature_gates import FeatureGates
from pilothouse.controllermanager.leader_migration import Leader, LeaderMigration
from pilothouse.controllermanager.manager import Manager
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.env import Env, TaskGroup
from pilothouse.runtime import LeadershipLost
from pilothouse.runtime.api_server import wait_for_api_server
from pilothouse.runtime.context import ControllerContext
from pilothouse.runtime.descriptor import Descriptor, RunnableController
from pilothouse.runtime.watches import Watch

WIDGETS = Kind("example.com", "v1", "widgets", "Widget", True, Object)
SECRETS = Kind("", "v1", "secrets", "Secret", True, Object, metadata_only=True)
ELECTED = Options(leader_election=LeaderElection())
ALONE = Options(leader_election=LeaderElection(enabled=False))


class Probe:
    """A controller that only records what happens to it."""

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

    return Built(name=name, client_name=name, package="nowhere", **changes)


class Factory:
    """Gives every controller the same client, and records the controllers' names."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.requests: list[tuple[str, float, int, bool]] = []

    def shared(self, suffix: str, *, qps: float, burst: int, fence: Any = None) -> Client:
        self.requests.append((suffix, qps, burst, fence is not None))
        return self.client

    async def for_controller(self, name: str, *, qps: float, burst: int, fence: Any) -> Client:
        self.requests.append((f"controller {name}", qps, burst, fence is not None))
        return self.client


async def test_controllers_run_after_the_api_server_is_healthy_until_stopped(env: Env) -> None:
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


@pytest.mark.parametrize("streams", [True, False])
async def test_watch_list_client_gate(env: Env, streams: bool) -> None:
    """``WatchListClient``."""

    class Reader(Descriptor, frozen=True):
        def build(self, context: ControllerContext) -> RunnableController:
            context.informers.informer(PODS)
            context.metadata_informers.informer(SECRETS)
            return Probe("reader")

    cluster = Cluster(env)
    options = msgspec.structs.replace(ALONE, gates=FeatureGates({"WatchListClient": streams}))
    reader = Reader(name="reader", client_name="reader", package="nowhere")
    manager = Manager(env, options, Factory(cluster.client()), [reader])
    async with TaskGroup("test") as group:
        group.start(manager.run())
        await manager.leading.wait()
        await asyncio.sleep(1)
        targets = [target for target in cluster.targets if "/pods?" in target or "/secrets?" in target]
        begun = {"streamed" if "sendInitialEvents=true" in target else "other" for target in targets}
        assert len(targets) == (2 if streams else 4)
        assert begun == ({"streamed"} if streams else {"other"})
        group.cancel()


async def test_unreachable_api_server_fails_startup_after_ten_seconds(env: Env) -> None:
    cluster = Cluster(env)
    cluster.down = True
    with pytest.raises(ConnectionError, match="failed to wait for apiserver being healthy: connection refused"):
        await wait_for_api_server(cluster.client(), env)
    assert 10 <= env.monotonic() < 12


async def test_an_api_server_that_does_not_respond_fails_startup_after_ten_seconds(env: Env) -> None:
    class Silent(Requester):
        async def request(self, *_arguments: Any, **_keywords: Any) -> wire.Response:
            await asyncio.sleep(3600)
            raise AssertionError("nothing waits so long")

    with pytest.raises(ConnectionError, match=r"healthy at https://a: no response within 10 s; is it running"):
        await wait_for_api_server(Silent(), env, "https://a")
    assert 10 <= env.monotonic() < 12


async def test_another_server_behind_the_address(env: Env, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster(env)
    cluster.before = lambda _request: cluster.answer(404, "NotFound", "404 page not found")
    with pytest.raises(
        ConnectionError, match=r"healthy at https://a: 404 page .*; is this .* a Kubernetes API server\?$"
    ):
        await wait_for_api_server(cluster.client(), env, "https://a")
    assert len([line for line in caplog.messages if "Waiting for the API server" in line]) == 1


async def test_missing_credentials_are_not_reported_as_an_unreachable_server(env: Env) -> None:
    def no_plugin(_request: object) -> None:
        raise ConnectFailed("getting credentials: plugin not found") from ConfigError("plugin not found")

    cluster = Cluster(env)
    cluster.before = no_plugin
    with pytest.raises(ConnectionError, match=r"healthy: getting credentials: plugin not found$"):
        await wait_for_api_server(cluster.client(), env)


async def test_wrong_credentials_fail_startup_immediately(env: Env) -> None:
    cluster = Cluster(env)
    cluster.before = lambda _request: cluster.answer(401, "Unauthorized", "Unauthorized")
    with pytest.raises(ConnectionError, match="does not accept the credentials in use: Unauthorized"):
        await wait_for_api_server(cluster.client(), env)
    assert env.monotonic() < 1


async def test_leader_clients_are_fenced_and_have_separate_rate_limits(env: Env) -> None:
    factory = Factory(Cluster(env).client())
    manager = Manager(env, ELECTED, factory, [probe("a", qps_factor=2.0, burst_factor=100)])
    async with TaskGroup("test") as group:
        group.start(manager.run())
        await manager.leading.wait()
        group.cancel()
    fenced = {name for name, _qps, _burst, is_fenced in factory.requests if is_fenced}
    assert ("leader-election", 20.0, 30, False) in factory.requests
    assert ("controller a", 40.0, 3000, True) in factory.requests
    assert "metadata-informers" in fenced


async def test_controller_without_its_api_is_skipped(env: Env) -> None:
    descriptors = [probe("here"), probe("strange", watches=(Watch(kind=WIDGETS),))]
    manager = Manager(env, ALONE, Factory(Cluster(env).client()), descriptors)
    async with TaskGroup("test") as group:
        group.start(manager.run())
        await manager.leading.wait()
        await asyncio.sleep(1)
        assert Probe.log == ["here runs"]
        assert "strange" not in manager.health.report("healthz", verbose=True).text
        group.cancel()


class Switched(msgspec.Struct, frozen=True):
    on: bool = False


async def test_controller_requires_all_its_gates(env: Env) -> None:
    """Gates that are off by default, and one that is switched off."""
    cluster = Cluster(env)
    options = msgspec.structs.replace(ALONE, gates=FeatureGates({"ComponentFlagz": False}))
    descriptors = [
        probe("beta", gates=("ComponentStatusz",)),
        probe("beta-off", gates=("ComponentStatusz", "ComponentFlagz")),
        probe("alpha", gates=("GenericWorkload",)),
    ]
    manager = Manager(env, options, Factory(cluster.client()), descriptors)
    async with TaskGroup("test") as group:
        group.start(manager.run())
        await manager.leading.wait()
        await asyncio.sleep(1)
        assert Probe.log == ["beta runs"]
        group.cancel()


async def test_disabled_controller_is_not_built(env: Env) -> None:
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


async def test_shutdown_timeout(env: Env) -> None:
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


async def test_lease_is_not_released_without_release_on_cancel(env: Env) -> None:
    cluster = Cluster(env)
    options = Options(leader_election=LeaderElection(release_on_stop=False))
    manager = Manager(env, options, Factory(cluster.client()), [probe("a")], identity="me")
    async with TaskGroup("test") as group:
        group.start(manager.run())
        await manager.leading.wait()
        group.cancel()
    assert leases(cluster) == {"kube-controller-manager": "me"}


async def test_lost_lease_stops_the_controllers_and_the_run(env: Env) -> None:
    cluster = Cluster(env)

    def refuse(request: wire.Request) -> wire.Response | None:
        return cluster.answer(503, "ServiceUnavailable", "away") if "leases" in request.target else None

    manager = Manager(env, ELECTED, Factory(cluster.client()), [probe("a")])
    running = asyncio.get_running_loop().create_task(manager.run())
    await manager.leading.wait()
    await asyncio.sleep(1)
    cluster.before = refuse
    with pytest.raises(LeadershipLost, match="lost the lease kube-system/kube-controller-manager: it was not renewed"):
        await running
    assert Probe.log == ["a runs", "a is told to stop", "a finished"]
    assert not manager.leading.is_set()


async def test_controller_start_interval(env: Env) -> None:
    options = Options(start_interval=10.0, leader_election=LeaderElection(enabled=False))
    manager = Manager(env, options, Factory(Cluster(env).client()), [probe("a"), probe("b")])
    async with TaskGroup("test") as group:
        group.start(manager.run())
        await asyncio.sleep(9.9)
        assert Probe.log == []
        await asyncio.sleep(10.2)
        assert sorted(Probe.log) == ["a runs", "b runs"]
        group.cancel()


def leases(cluster: Cluster) -> dict[str, str]:
    """The holder of each Lease."""
    result = [o for o in cluster.objects("coordination.k8s.io/leases/") if o["kind"] == "Lease"]
    return {lease["metadata"]["name"]: lease["spec"].get("holderIdentity", "") for lease in result}


MIGRATION = LeaderMigration(
    leader_name="migration", leaders=(Leader("b", "*"), Leader("c", "kube-controller-manager"), Leader("d", "other"))
)


async def test_leader_migration_uses_a_second_lease(env: Env) -> None:
    cluster = Cluster(env)
    options = Options(leader_migration=MIGRATION)
    descriptors = [probe(name) for name in "abcd"]
    manager = Manager(env, options, Factory(cluster.client()), descriptors, identity="one")
    other = Manager(env, options, Factory(cluster.client()), descriptors, identity="two")
    async with TaskGroup("test") as group:
        group.start(manager.run())
        await asyncio.sleep(5)
        assert Probe.log == ["a runs", "b runs", "c runs"]
        assert leases(cluster) == {"kube-controller-manager": "one", "migration": "one"}
        group.start(other.run())
        await asyncio.sleep(60)
        assert leases(cluster) == {"kube-controller-manager": "one", "migration": "one"}
        assert manager.health.report("healthz", verbose=True).text.startswith("[+]leaderElection ok\n")
        group.cancel()
    assert set(leases(cluster).values()) == {""}, "both are released"


async def test_standby_acquires_the_migration_lease_after_the_main_one(env: Env) -> None:
    cluster = Cluster(env)
    holder = Manager(env, ELECTED, Factory(cluster.client()), [probe("a")], identity="old")
    other = Manager(env, Options(leader_migration=MIGRATION), Factory(cluster.client()), [probe("b")])
    async with TaskGroup("test") as group:
        group.start(holder.run())
        await holder.leading.wait()
        group.start(other.run())
        await asyncio.sleep(60)
        assert leases(cluster) == {"kube-controller-manager": "old"}
        assert "b runs" not in Probe.log
        group.cancel()


@pytest.mark.parametrize("lost", ["kube-controller-manager", "migration"])
async def test_losing_either_lease_stops_the_run(env: Env, lost: str) -> None:
    cluster = Cluster(env)

    def refuse(request: wire.Request) -> wire.Response | None:
        return cluster.answer(503, "ServiceUnavailable", "away") if f"leases/{lost}" in request.target else None

    descriptors = [probe("a"), probe("b")]
    manager = Manager(env, Options(leader_migration=MIGRATION), Factory(cluster.client()), descriptors)
    running = asyncio.get_running_loop().create_task(manager.run())
    await asyncio.sleep(5)
    cluster.before = refuse
    with pytest.raises((BaseExceptionGroup, LeadershipLost)) as caught:
        await running
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        [error] = error.exceptions
    assert isinstance(error, LeadershipLost)
    assert lost in str(error)
    assert sorted(Probe.log[2:]) == sorted(
        f"{n} {event_name}" for n in "ab" for event_name in ("finished", "is told to stop")
    )


async def test_service_account_token_controller_starts_first_with_the_managers_identity(
    env: Env,
) -> None:
    factory = Factory(Cluster(env).client())
    options = Options(controllers=("a", "-serviceaccount-token"), leader_election=LeaderElection(enabled=False))
    tokens = probe("serviceaccount-token-controller", aliases=("serviceaccount-token",))
    manager = Manager(env, options, factory, [probe("a"), tokens])
    async with TaskGroup("test") as group:
        group.start(manager.run())
        await asyncio.sleep(1)
        assert Probe.log == ["serviceaccount-token-controller runs", "a runs"]
        requested_names = [name for name, *_ in factory.requests]
        assert requested_names[-2:] == ["serviceaccount-token-controller", "controller a"]
        group.cancel()


class Failing(Probe):
    """A controller with a bug where no guard is."""

    async def run(self) -> None:
        await asyncio.sleep(5)
        raise RuntimeError("a bug")


async def test_failing_controller_stops_the_process_gracefully(env: Env) -> None:
    class Broken(Descriptor, frozen=True):
        def build(self, context: ControllerContext) -> RunnableController:
            return Failing("broken")

    cluster = Cluster(env)
    broken = Broken(name="broken", client_name="broken", package="nowhere")
    manager = Manager(env, ELECTED, Factory(cluster.client()), [probe("a"), broken])
    with pytest.raises(BaseExceptionGroup) as caught:
        await manager.run()
    error: BaseException = caught.value
    while isinstance(error, BaseExceptionGroup):
        [error] = error.exceptions
    assert str(error) == "a bug"
    assert Probe.log == ["a runs", "a is told to stop", "a finished"]
    assert leases(cluster) == {"kube-controller-manager": ""}, "another process may take over at once"


async def test_leader_election_health_check_fails_after_the_timeout(env: Env) -> None:
    cluster = Cluster(env)
    Probe.stop_seconds = 3600
    manager = Manager(env, Options(shutdown_timeout=0.0), Factory(cluster.client()), [probe("stuck")])
    running = asyncio.get_running_loop().create_task(manager.run())
    await manager.leading.wait()
    await asyncio.sleep(1)
    cluster.before = lambda r: cluster.answer(503, "ServiceUnavailable", "x") if "leases" in r.target else None
    observed: dict[bool, float] = {}
    for _second in range(60):
        observed.setdefault(manager.health.report("healthz").healthy, env.monotonic())
        await asyncio.sleep(1)
    assert 15 + 20 - 2 <= observed[False] - 1 <= 15 + 20 + 2
    running.cancel()
    running.cancel()
    Probe.stop_seconds = 0
    await asyncio.sleep(4000)
    assert running.done()
    running.exception() if not running.cancelled() else None
