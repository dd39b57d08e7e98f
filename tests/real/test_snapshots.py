"""A snapshot of a cluster with upstream's API server, controllers and scheduler, restored in virtual time: it has no
pending work, and a drain ends in the same state."""

import asyncio
import functools
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.programs import Program, environment, free_port, pilothouse, run_pilothouse, until
from tests.real.populated import NODES, cluster_objects, namespace_objects
from tests.real_cluster import RealCluster, RequestFailed, missing_programs

from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.env import Env, virtual
from pilothouse.sim import Simulation, SimulationOptions, running
from pilothouse.sim.run_log import CURRENT
from pilothouse.simulate.actions import pods
from pilothouse.simulate.actions.nodes import Nodes
from pilothouse.simulate.cluster import restored_manager, restored_options
from pilothouse.simulate.scenario.actions import Drain
from pilothouse.snapshots import Restored, SaveOptions, restored, save
from pilothouse.storage import Change

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing_programs()), reason=missing_programs()),
]

TEN_MINUTES = 600.0
DRAINED = [f"machine-{number}" for number in range(NODES // 3)]
UPGRADED = {
    "apps/deployments": "terminatingReplicas",
    "apps/replicasets": "terminatingReplicas",
    "apps/statefulsets": "availableReplicas",
    "policy/poddisruptionbudgets": "DisruptionAllowed",
    "/endpoints": "managed-by",
    "discovery.k8s.io/endpointslices": "serving",
    "/configmaps": "kubernetes.io/description",
    "networking.k8s.io/servicecidrs": "is ready",
    "rbac.authorization.k8s.io/clusterroles": "aggregationRule",
}
"""What controllers of v1.36 write once about objects of v1.20, when they start: what that release did not have."""
Object = dict[str, Any]


@pytest.fixture(params=[pytest.param(1, id="small"), pytest.param(30, id="2,000 objects")], scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """With controllers, scheduler and nodes, and that many namespaces; at rest."""
    if not request.config.getoption("--soak"):
        pytest.skip("takes one minute, 2,000 objects two: --soak; tests/snapshots restores clusters of our own")
    directory = tmp_path_factory.mktemp("programs")
    cluster = RealCluster(service_accounts=True).start()
    try:
        with _go(cluster, directory, "kube-controller-manager"), _go(cluster, directory, "kube-scheduler"):
            words = (f"--kubeconfig={cluster.kubeconfig}", f"--nodes={NODES}", "--node-prefix=machine-")
            with pilothouse(directory, "nodes", *words):
                _create(cluster, request.param)
                yield cluster
    finally:
        cluster.stop()


def _go(cluster: RealCluster, directory: Path, program: str) -> Program:
    kubeconfig = str(cluster.kubeconfig)
    own = {
        "kube-controller-manager": [
            "--controllers=*",
            f"--service-account-private-key-file={cluster.service_account_key_file}",
            f"--root-ca-file={cluster.ca_file}",
        ],
        "kube-scheduler": ["--feature-gates=PodDisruptionBudget=false"],
    }
    command = [
        str(cluster.assets / program),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--port=0",
        f"--secure-port={free_port()}",
        f"--cert-dir={directory}",
        "--leader-elect=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=1000",
        *own[program],
    ]
    return Program(directory, program, command, environment=environment(directory))


def _create(cluster: RealCluster, namespaces: int) -> None:
    objects = [*cluster_objects(), *(item for number in range(namespaces) for item in namespace_objects(number))]
    for path, obj in objects:
        until(functools.partial(_created, cluster, path, obj), f"{path} takes {obj['metadata']['name']}")
    until(lambda: _is_complete(cluster), "everything is ready", 240)
    _wait_for_rest(cluster)


def _created(cluster: RealCluster, path: str, obj: Object) -> bool:
    try:
        cluster.request("POST", path, obj)
    except RequestFailed as error:
        # No default account yet, no definition yet, no quota counted yet.
        if error.status not in (403, 404, 429, 503):
            raise
        return False
    return True


def _is_complete(cluster: RealCluster) -> bool:
    phases = [pod["status"]["phase"] for pod in cluster.request("GET", "/api/v1/pods")["items"]]
    jobs = cluster.request("GET", "/apis/batch/v1/jobs")["items"]
    claims = cluster.request("GET", "/api/v1/persistentvolumeclaims")["items"]
    done = all(job["status"].get("succeeded") == job["spec"]["completions"] for job in jobs)
    bound = all(claim["status"]["phase"] == "Bound" for claim in claims)
    return bool(jobs) and done and bound and set(phases) == {"Running", "Succeeded"} and _is_current(cluster)


def _is_current(cluster: RealCluster) -> bool:
    daemons = cluster.request("GET", "/apis/apps/v1/daemonsets")["items"]
    deployments = cluster.request("GET", "/apis/apps/v1/deployments")["items"]
    stateful = cluster.request("GET", "/apis/apps/v1/statefulsets")["items"]
    return all(daemon["status"].get("numberReady") == NODES for daemon in daemons) and all(
        item["status"].get("readyReplicas") == item["spec"]["replicas"] for item in [*deployments, *stateful]
    )


def _wait_for_rest(cluster: RealCluster) -> None:
    """Wait until the resourceVersions of what controllers write are unchanged for five seconds."""
    paths = ("/api/v1/pods", "/api/v1/endpoints", "/api/v1/resourcequotas", "/apis/apps/v1/deployments")
    observed: list[Any] = []

    def rests() -> bool:
        versions = [
            item["metadata"]["resourceVersion"] for path in paths for item in cluster.request("GET", path)["items"]
        ]
        observed.append(versions)
        return len(observed) > 18 and all(item == versions for item in observed[-18:])

    until(rests, "the cluster is at rest", 120)


class Watched:
    """The changes of a simulation, heartbeats aside."""

    def __init__(self, simulation: Simulation) -> None:
        self.changes: list[tuple[float, Change, str]] = []
        self._env = simulation.env
        simulation.store.on_commit.append(self._committed)

    def _committed(self, changes: Iterable[Change]) -> None:
        origin = CURRENT.get()
        for change in changes:
            if change.key.startswith("coordination.k8s.io/leases/kube-node-lease/") or _is_report(change):
                continue
            self.changes.append((self._env.monotonic(), change, "" if origin is None else str(origin)))

    def resources(self) -> Counter[str]:
        """The number of objects of each resource, without the events of a manager's startup."""
        return Counter(
            "/".join(change.key.split("/")[:2])
            for _at, change, _origin in self.changes
            if not (change.key.startswith("/events/") and b'"reason":"RegisteredNode"' in change.value)
        )


def _is_report(change: Change) -> bool:
    """A node's report in which only the time of the heartbeat differs."""
    if not change.key.startswith("/nodes/") or change.old is None:
        return False
    before, after = (json.loads(item) for item in (change.old.value, change.value))
    for node in (before, after):
        del node["metadata"]["resourceVersion"]
        node["metadata"].pop("managedFields", None)
        for condition in node["status"]["conditions"]:
            del condition["lastHeartbeatTime"]
    return bool(before == after)


def simulated(object_: Restored, work: Callable[[Env, Simulation], Any]) -> None:
    """Run a coroutine in the restored cluster, from the time of the snapshot on."""

    async def main(env: Env) -> None:
        manager = restored_manager(object_, Options(leader_election=LeaderElection(enabled=False)))
        options = SimulationOptions(nodes=0, manager=manager, **restored_options(object_))
        async with running(env, options) as simulation:
            await work(env, simulation)

    assert object_.time is not None
    virtual.run(main, start=object_.time)


class Saved(NamedTuple):
    path: Path
    found: Restored


@pytest.fixture(scope="module")
def saved(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    path = tmp_path_factory.mktemp("snapshot") / "cluster"
    done = run_pilothouse(path.parent, "snapshot", "save", str(path), "--kubeconfig", str(cluster.kubeconfig))
    assert done.returncode == 0, done.stderr
    return Saved(path, restored(path))


def test_restored_cluster_has_no_pending_writes(saved: Saved, tmp_path: Path) -> None:
    """What v1.20 did not have is written at the start; then nothing for ten minutes. Saved and restored once more, as a
    cluster of this release, it is at rest from the first moment on."""
    again = tmp_path / "again"

    async def work(env: Env, simulation: Simulation) -> None:
        watched = Watched(simulation)
        await asyncio.sleep(10)
        assert watched.resources().keys() <= UPGRADED.keys()
        for _at, change, origin in watched.changes:
            marker = UPGRADED.get("/".join(change.key.split("/")[:2]), "")
            assert marker.encode() in change.value, f"{change.key} by {origin}: {change.value!r}"
        watched.changes.clear()
        await asyncio.sleep(TEN_MINUTES)
        assert watched.resources() == {}
        await save(simulation.user, env, again, SaveOptions(secret_values=True))

    async def at_rest(_env: Env, simulation: Simulation) -> None:
        watched = Watched(simulation)
        await asyncio.sleep(TEN_MINUTES)
        assert watched.resources() == {}

    simulated(saved.found, work)
    simulated(restored(again), at_rest)


def test_drain_ends_as_on_the_original_cluster(cluster: RealCluster, saved: Saved) -> None:
    result: list[dict[str, Any]] = []

    async def work(env: Env, simulation: Simulation) -> None:
        nodes = Nodes(simulation, (), saved.found.nodes)
        await pods.drain(simulation.user, nodes, DRAINED, Drain(names=tuple(DRAINED), force=True))
        await simulation.run_until_idle(quiet=120.0)
        lists = {
            prefix: [json.loads(record.value) for record in simulation.store.list(prefix).records]
            for prefix in PREFIXES
        }
        result.append(summary(lists))

    simulated(saved.found, work)
    words = ["--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=300s"]
    done = subprocess.run(
        [str(cluster.assets / "kubectl"), "--kubeconfig", str(cluster.kubeconfig), "drain", *DRAINED, *words],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=environment(cluster.directory),
    )
    assert done.returncode == 0, done.stderr[-2000:]

    def ends_equal() -> bool:
        lists = {prefix: cluster.request("GET", path)["items"] for prefix, path in PREFIXES.items()}
        result[1:] = [summary(lists)]
        return result[0] == result[1]

    try:
        until(ends_equal, "the real cluster ends as the simulated one", 120)
    except AssertionError:
        assert result[1] == result[0]
        raise


PREFIXES = {
    "/pods/": "/api/v1/pods",
    "/nodes/": "/api/v1/nodes",
    "/endpoints/": "/api/v1/endpoints",
    "apps/deployments/": "/apis/apps/v1/deployments",
    "apps/statefulsets/": "/apis/apps/v1/statefulsets",
    "apps/daemonsets/": "/apis/apps/v1/daemonsets",
    "batch/jobs/": "/apis/batch/v1/jobs",
    "policy/poddisruptionbudgets/": "/apis/policy/v1beta1/poddisruptionbudgets",
    "/resourcequotas/": "/api/v1/resourcequotas",
    "/persistentvolumeclaims/": "/api/v1/persistentvolumeclaims",
    "/configmaps/": "/api/v1/configmaps",
    "/secrets/": "/api/v1/secrets",
    "example.com/widgets/": "/apis/example.com/v1/widgets",
}


def summary(lists: dict[str, list[Object]]) -> dict[str, Any]:
    """The end, apart from what the scheduler and generated names leave to chance."""
    result: dict[str, Any] = {}
    for prefix, objects in lists.items():
        if prefix == "/pods/":
            result[prefix] = Counter(map(_pod, objects))
        else:
            # v1.36 has ConfigMaps of its own in kube-system.
            own = [obj for obj in objects if obj["metadata"].get("namespace") != "kube-system"]
            result[prefix] = {_key(item): _of(prefix, item) for item in own}
    return result


def _key(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def _pod(pod: Object) -> tuple[str, str, str, bool]:
    owners = [item for item in pod["metadata"].get("ownerReferences") or () if item.get("controller")]
    owner = f"{owners[0]['kind']}/{owners[0]['name']}" if owners else pod["metadata"]["name"]
    return pod["metadata"]["namespace"], owner, pod["status"]["phase"], pod["spec"].get("nodeName") in DRAINED


def _of(prefix: str, obj: Object) -> Any:
    status = obj.get("status") or {}
    match prefix:
        case "/nodes/":
            return bool(obj["spec"].get("unschedulable"))
        case "/endpoints/":
            return sum(len(subset.get("addresses") or ()) for subset in obj.get("subsets") or ())
        case "/resourcequotas/":
            return status.get("used")
        case "policy/poddisruptionbudgets/":
            return [status.get(name) for name in ("currentHealthy", "desiredHealthy", "disruptionsAllowed")]
        case "/persistentvolumeclaims/":
            return status.get("phase")
        case _:
            counts = ("replicas", "readyReplicas", "updatedReplicas", "numberReady", "succeeded")
            return [status.get(name) for name in counts]
