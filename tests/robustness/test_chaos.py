"""The cluster of ``deploy/ha`` under all faults, with every history checked.

    KUBEBUILDER_ASSETS=… pytest tests/robustness/test_chaos.py --soak --soak-minutes 5 -s -k linearizable
    KUBEBUILDER_ASSETS=… pytest tests/robustness/test_chaos.py --soak --kills 100 -s -k sigkill

Clients create, read, update, delete and list through the load balancer, watchers follow, a Deployment is scaled; API
servers, etcd members, managers and schedulers are killed (SIGKILL), stopped (SIGSTOP), parted from each other and
slowed down, and etcd runs full. In the end: no acknowledged write is lost, every object is linearizable, watches and
lists have kept what they promise (``linearizability``, ``watch_guarantees``). The second test only kills, each kind of
program many times (``kills``).
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.real_cluster import missing_programs
from tests.robustness.cluster import API_SERVERS, KINDS, Cluster
from tests.robustness.failures import Failures
from tests.robustness.ground_truth import GroundTruth
from tests.robustness.kills import SHORT_LEASE, Kills
from tests.robustness.report import check
from tests.robustness.traffic import CONFIG_MAPS, NAMESPACE, Client, Connection, Shared, Watcher, snapshot_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real(cluster="own"),
    pytest.mark.skipif(bool(missing_programs()), reason=missing_programs()),
    pytest.mark.timeout(0),
]

CLIENTS = 4
PAUSE_SECONDS = 0.12
"""Of each client between two requests."""
SETTLE_SECONDS = 180.0
"""At most, for everything to be as it should be in the end."""
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"


class Scaler:
    """Changes the size of a Deployment, and checks the final number of pods, which managers, schedulers and nodes must
    reach."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.connection = Connection(shared)
        self.changes = 0

    def create(self) -> None:
        """Create it."""
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0},
        }
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
        until(lambda: _status(self.connection.request("POST", DEPLOYMENT, body)) in (201, 409), 60, "a Deployment")

    def run(self) -> None:
        """Until it is over."""
        while not self._shared.over.wait(5):
            replicas = 2 + self.changes % 4
            answer = self.connection.request("GET", f"{DEPLOYMENT}/web/scale")
            if answer is None or answer.status != 200:
                continue
            scale = {**answer.document, "spec": {"replicas": replicas}}
            self.changes += _status(self.connection.request("PUT", f"{DEPLOYMENT}/web/scale", scale)) == 200

    def is_done(self) -> bool:
        """Whether the desired number of pods exists, all ready."""
        answer = self.connection.request("GET", f"{DEPLOYMENT}/web")
        if answer is None or answer.status != 200:
            return False
        wanted, status = answer.document["spec"]["replicas"], answer.document.get("status", {})
        pods = self.connection.request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")
        if pods is None or pods.status != 200:
            return False
        running = [pod for pod in pods.document["items"] if pod["status"].get("phase") == "Running"]
        return bool(wanted == status.get("readyReplicas") == len(running) == len(pods.document["items"]))


def _status(answer: Any) -> int:
    return 0 if answer is None else answer.status


def until(condition: Any, seconds: float, description: str) -> None:
    """Wait for it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"never, within {seconds} s: {description}"
        time.sleep(0.3)


@pytest.fixture
def chosen(request: pytest.FixtureRequest) -> int:
    """The seed of the failures."""
    return int(request.config.getoption("--seed") or 1)


def test_acknowledged_writes_survive_and_histories_are_linearizable(
    tmp_path: Path, soak: bool, soak_minutes: float, chosen: int
) -> None:
    if not soak:
        pytest.skip("takes minutes: --soak --soak-minutes N")

    def fail(cluster: Cluster, truth: GroundTruth, shared: Shared) -> list[str]:
        failures = Failures(cluster, truth, lambda: shared.acknowledged, chosen)
        failures.run(soak_minutes * 60, full_every=max(60.0, min(300.0, soak_minutes * 60 / 2)))
        recovery = {name: round(failure, 1) for name, failure in failures.recovery.items()}
        return [
            f"seed {chosen}; failures: {failures.injected.total()}: {dict(failures.injected)}",
            f"longest time until writes succeeded again: {recovery}",
        ]

    acknowledged = _checked(Cluster(tmp_path), fail)
    assert acknowledged > 100 * soak_minutes


def test_acknowledged_writes_survive_many_sigkills(
    tmp_path: Path, soak: bool, chosen: int, request: pytest.FixtureRequest
) -> None:
    if not soak:
        pytest.skip("takes minutes: --soak --kills N")
    times = int(request.config.getoption("--kills"))

    def fail(cluster: Cluster, _truth: GroundTruth, shared: Shared) -> list[str]:
        kills = Kills(cluster, shared, chosen, times)
        began = time.monotonic()
        kills.run()
        assert all(cluster.kills[kind] >= times for kind in KINDS), cluster.kills
        return [
            f"seed {chosen}; the kills took {time.monotonic() - began:.0f} s",
            f"longest time until it was back, or the other one worked: {kills.slowest}",
            f"kills after which the Lease had another holder: {dict(kills.takeovers)}",
        ]

    acknowledged = _checked(Cluster(tmp_path, elections=SHORT_LEASE), fail)
    assert acknowledged > 5 * times


def _checked(cluster: Cluster, fail: Callable[[Cluster, GroundTruth, Shared], list[str]]) -> int:
    """Run clients, watchers and a Deployment while ``fail`` works, and check everything that they were answered.
    ``fail`` returns lines for the report. Returns the number of acknowledged writes."""
    with cluster:
        cluster.until_ready(120)
        cluster.learn_members()
        truth = GroundTruth(cluster)
        truth.start()
        shared = Shared(cluster.token, lambda: cluster.address)
        setup = Connection(shared)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        until(lambda: _status(setup.request("POST", "/api/v1/namespaces", namespace)) in (201, 409), 60, "a namespace")
        scaler = Scaler(shared)
        scaler.create()
        clients = [Client(shared, number, PAUSE_SECONDS) for number in range(1, CLIENTS + 1)]
        turn = iter(range(1_000_000))
        watchers = [
            Watcher(shared, "watcher of all"),
            Watcher(shared, "watcher of x", label="x"),
            # Continues at the other server each time, whether it is ready or not.
            Watcher(
                shared,
                "watcher in turn",
                address=lambda: cluster.layout.reach("", API_SERVERS[next(turn) % 2], "https"),
            ),
        ]
        recorders: list[Client | Watcher] = [*clients, *watchers]
        work = [*(recorder.run for recorder in recorders), scaler.run]
        threads = [threading.Thread(target=item, daemon=True) for item in work]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        lines = fail(cluster, truth, shared)
        cluster.until_ready(SETTLE_SECONDS)
        shared.over.set()
        deadline = time.monotonic() + SETTLE_SECONDS
        for thread in threads:
            thread.join(max(1.0, deadline - time.monotonic()))
        alive = [thread.name for thread in threads if thread.is_alive()]
        until(scaler.is_done, SETTLE_SECONDS, "the Deployment is as it was scaled last")
        for connection in (setup, scaler.connection):
            connection.close()
        final = [snapshots_at(shared, cluster, name) for name in API_SERVERS]
        truth.finish(max(shared.known, *(item.revision for item in final)), 60)
        operations = [operation for client in clients for operation in client.operations]
        snapshots = [*final, *(snapshot for recorder in recorders for snapshot in recorder.snapshots)]
        watches = [watch for watcher in watchers for watch in watcher.watches]
        result = check(operations, truth.history, watches, snapshots)
        events = sum(len(watch.events) for watch in watches)
        print(f"\n{time.monotonic() - began:.0f} s: {len(operations)} operations on objects")
        print(f"{shared.acknowledged} acknowledged writes, {len(truth.history)} changes in etcd")
        print(f"{len(watches)} watches, {events} events, {sum(item.expired for item in watchers)} times 410")
        print(f"{len(snapshots)} lists; scaled {scaler.changes} times")
        print(f"SIGKILL: {cluster.kills.total()}: {dict(cluster.kills)}")
        print(*lines, sep="\n")
        print(f"answers: {dict(shared.statuses)}")
        print(f"ended by themselves: {dict(cluster.ended)}")
        print(f"violations: {len(result)}", *result[:20], sep="\n")
        assert result == []
        assert alive == []
        assert shared.errors == []
        for name in (*API_SERVERS, "manager-1", "manager-2"):
            _before, found, traceback = cluster.log(name).partition("Traceback")
            assert not found, f"{name}: {traceback[:5000]}"
        return shared.acknowledged


def snapshots_at(shared: Shared, cluster: Cluster, name: str) -> Any:
    """The final list of a server."""
    connection = Connection(shared, lambda: cluster.layout.reach("", name, "https"))
    known = shared.known
    answer = connection.request("GET", CONFIG_MAPS)
    connection.close()
    assert answer is not None and answer.status == 200, (name, answer)
    return snapshot_of(answer.document, known, name)
