"""Metrics of the same scenario with kube-controller-manager (v1.20) and with our manager, each on an API server of its
own: common metrics agree.

Exact is what the scenario decides: which writes are sent, with which answers, who leads, how many nodes a zone has, how
many of them are healthy. Not exact is what merges as chance has it: how often a key was added to its queue, how often
a status was written. There the bounds say what the scenario needs at least, and how far the two may be apart.
"""

import contextlib
import datetime
import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.controllermanager.metric_table import METRICS, families, parsed, total
from tests.programs import Program, free_port, kube_controller_manager, pilothouse, until
from tests.real.cluster_view import View, replica_set
from tests.real.test_secure_port import get
from tests.real_cluster import ADMIN_TOKEN, RealCluster, missing_programs, running
from tests.tables import cases

# One scenario for all tests of this module: workers must not each run it.
pytestmark = pytest.mark.real(cluster="own")

CONTROLLERS = "--controllers=replicaset,daemonset,garbagecollector,namespace,nodelifecycle,podgc,ttl"
FLAGS = (
    "--node-monitor-period=500ms",
    "--node-monitor-grace-period=13s",
    "--node-eviction-rate=5",
    "--kube-api-qps=200",
    "--kube-api-burst=400",
    "--authorization-always-allow-paths=/metrics",
)
NODES = "/api/v1/nodes"
WORKING, SILENT = ("working-0", "working-1", "working-2"), "silent-0"


class Seen(NamedTuple):
    """The results of a run."""

    page: str
    log: str


def pilothouse_manager(cluster: RealCluster, directory: Path, port: int) -> Program:
    """pilothouse. Since v1.29 taint eviction is a separate controller."""
    login = f"kubeconfig={cluster.kubeconfig}"
    logins = [f"--{login}", f"--authentication-{login}", f"--authorization-{login}"]
    controllers = f"{CONTROLLERS},taint-eviction-controller"
    return pilothouse(directory, "manager", *logins, controllers, f"--secure-port={port}", *FLAGS)


def upstream_manager(cluster: RealCluster, directory: Path, port: int) -> Program:
    """kube-controller-manager."""
    return kube_controller_manager(cluster, directory, CONTROLLERS, f"--secure-port={port}", *FLAGS)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """Both runs, concurrently: they mostly wait. Programs end with the thread that starts them."""
    problem = missing_programs()
    if problem:
        pytest.skip(problem)
    runs: dict[str, Run] = {}
    with contextlib.ExitStack() as stack, ThreadPoolExecutor() as pool:
        for name, start in (("pilothouse", pilothouse_manager), ("upstream", upstream_manager)):
            cluster, port = stack.enter_context(running()), free_port()
            manager = stack.enter_context(start(cluster, tmp_path_factory.mktemp(name), port))
            runs[name] = Run(cluster, manager, port)
        return dict(zip(runs, pool.map(play, runs.values()), strict=True))


class Run(NamedTuple):
    """A manager on a separate API server."""

    cluster: RealCluster
    manager: Program
    port: int


def play(run: Run) -> Seen:
    """Run the scenario, and read the metrics."""
    run.manager.until("uccessfully acquired lease")
    scenario(run.cluster)
    status, page = get(run.port, "/metrics", token=ADMIN_TOKEN)
    assert status == 200
    return Seen(page, run.manager.log)


def scenario(cluster: RealCluster) -> None:
    """No node and no scheduler runs: whatever happens to pods and nodes happens here, one thing after the other."""

    def send(method: str, path: str, body: Any = None) -> Any:
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return cluster.request(method, path, body, content_type=content_type)

    ready = [{"type": "Ready", "status": "True"}]
    for name in (*WORKING, SILENT):
        labels = {"kubernetes.io/os": "linux", "kubernetes.io/hostname": name}
        send("POST", NODES, {"metadata": {"name": name, "labels": labels}})
        send("PATCH", f"{NODES}/{name}/status", {"status": {"conditions": ready}})
    for name in (*WORKING, SILENT):
        until(functools.partial(is_settled, send, name), f"{name} has its labels, its annotation and no taint")
    view = View(cluster, cluster.namespace("compared"))
    view.create(replica_set("web", 7))
    until(lambda: view.status("web").get("replicas") == 7, "seven pods")
    view.scale("web", 3)
    until(lambda: len(view.pods()) == 3 and view.status("web").get("replicas") == 3, "three are left")
    first = sorted(view.pods())[0]
    view.kubectl("label", "pod", first, "app=other", "--overwrite")
    until(lambda: len(view.pods()) == 4 and view.status("web").get("replicas") == 3, "one is let go, and replaced")
    view.kubectl("delete", "rs", "web", "--cascade=background")
    until(lambda: len(view.pods()) == 1, "what belonged to it goes with it")

    def beat() -> None:
        at = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for name in WORKING:
            send("PATCH", f"{NODES}/{name}/status", {"status": {"conditions": [{**ready[0], "lastHeartbeatTime": at}]}})

    def noticed() -> bool:
        beat()
        time.sleep(0.3)
        taints = send("GET", f"{NODES}/{SILENT}")["spec"].get("taints", ())
        events = [e["reason"] for e in send("GET", "/api/v1/events")["items"]]
        reported = events.count("NodeNotReady") == 1 and events.count("RegisteredNode") == 4
        return reported and any(taint["effect"] == "NoExecute" for taint in taints)

    until(noticed, "the silent node is noticed, tainted and reported", 40.0)
    for _pass in range(4):
        beat()
        time.sleep(0.4)


def is_settled(request: Callable[..., Any], name: str) -> bool:
    """Whether both controllers of nodes have done with a new one."""
    node = request("GET", f"{NODES}/{name}")
    annotated = "node.alpha.kubernetes.io/ttl" in node["metadata"].get("annotations", {})
    return annotated and not node["spec"].get("taints") and "beta.kubernetes.io/os" in node["metadata"]["labels"]


def both(scraped: dict[str, Seen], name: str, upstream_name: str = "", /, **labels: str) -> tuple[float, float]:
    """A value of both managers."""
    return total(scraped["pilothouse"].page, name, **labels), total(
        scraped["upstream"].page, upstream_name or name, **labels
    )


@cases(
    "method, code, expected",
    {
        # 8 pods, 12 events of them and 5 of nodes, 1 of the leader, 1 lease, 1 TokenReview
        "creates": ("POST", "201", 28),
        "deletes": ("DELETE", "200", 7),
    },
)
def test_request_counts_are_equal(scraped: dict[str, Seen], method: str, code: str, expected: int) -> None:
    assert both(scraped, "rest_client_requests_total", method=method, code=code) == (expected, expected)


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_mergeable_request_counts_are_similar(scraped: dict[str, Seen], method: str) -> None:
    """Statuses, renewals of the lease, labels and taints of nodes."""
    actual, upstream = both(scraped, "rest_client_requests_total", method=method, code="200")
    assert 8 <= actual <= 2 * upstream
    assert upstream <= 2 * actual


def test_response_codes_are_expected(scraped: dict[str, Seen]) -> None:
    for run in scraped.values():
        codes = {s.labels["code"] for s in parsed(run.page) if s.name == "rest_client_requests_total"}
        # 404: a lease that is not there yet; 409: a conflict; 422: a watch that v1.20 cannot begin with a list.
        assert codes <= {"200", "201", "404", "409", "422"}


@pytest.mark.parametrize(
    ("name", "upstream_name", "expected"),
    [
        ("leader_election_master_status", "", 1),
        ("node_collector_zone_size", "", 4),
        ("node_collector_unhealthy_nodes_in_zone", "", 1),
        ("node_collector_zone_health", "", 75),
        ("node_collector_evictions_total", "node_collector_evictions_number", 1),
    ],
)
def test_deterministic_metrics_are_equal(
    scraped: dict[str, Seen], name: str, upstream_name: str, expected: float
) -> None:
    assert both(scraped, name, upstream_name) == (expected, expected)


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ("garbage_collector_attempt_to_orphan", 0),
        ("namespace", 0),
        ("daemonset", 0),
        ("orphaned_pods_nodes", 0),
        ("garbage_collector_attempt_to_delete", 4),  # the deleted ReplicaSet, and three pods
    ],
)
def test_workqueue_adds_of_unmergeable_keys_are_equal(scraped: dict[str, Seen], queue: str, expected: int) -> None:
    assert both(scraped, "workqueue_adds_total", name=queue) == (expected, expected)


@pytest.mark.parametrize(
    ("queue", "least"),
    [
        ("replicaset", 5),  # as many steps
        ("ttlcontroller", 4),  # as many nodes
        ("node_lifecycle_controller", 4),
        ("noexec_taint_node", 5),  # and the taint
        ("noexec_taint_pod", 8),
    ],
)
def test_workqueue_adds_of_mergeable_keys_are_similar(scraped: dict[str, Seen], queue: str, least: int) -> None:
    actual, upstream = both(scraped, "workqueue_adds_total", name=queue)
    assert least <= actual <= 2 * upstream
    assert upstream <= 2 * actual


OF_ITS_SERVING = {
    "DynamicCABundle-serving-cert",
    "DynamicConfigMapCABundle-client-ca",
    "DynamicServingCertificateController",
    "RequestHeaderAuthRequestController",
}
"""Queues of Go's secure port; files are looked at and a ConfigMap is watched without one here."""


def test_workqueues_have_the_same_names_and_end_empty(scraped: dict[str, Seen]) -> None:
    actual, upstream = (
        {s.labels["name"]: s.value for s in parsed(scraped[run].page) if s.name == "workqueue_depth"}
        for run in ("pilothouse", "upstream")
    )
    # Events change the graph when they arrive.
    assert set(upstream) - set(actual) - OF_ITS_SERVING == {"garbage_collector_graph_changes"}
    assert {name for name in set(actual) & set(upstream) if actual[name] or upstream[name]} == set()


def test_common_metric_families_have_the_same_type_and_labels(scraped: dict[str, Seen]) -> None:
    actual, upstream = families(scraped["pilothouse"].page), families(scraped["upstream"].page)
    shared = {metric.name for metric in METRICS} & set(actual) & set(upstream)
    assert len(shared) >= 20
    # v1.20 had the whole URL as a label, and other buckets.
    shared.remove("rest_client_request_duration_seconds")
    assert {name: actual[name] for name in shared} == {name: upstream[name] for name in shared}


def test_process_metrics_have_the_same_names(scraped: dict[str, Seen]) -> None:
    actual, upstream = (
        {n for n in families(scraped[run].page) if n.startswith("process_")} for run in ("pilothouse", "upstream")
    )
    newer = {f"process_network_{direction}_bytes_total" for direction in ("receive", "transmit")}
    assert actual - newer == upstream - newer, "v1.20 has no others"
    assert newer <= actual
    limits = both(scraped, "process_max_fds")
    assert limits[0] == limits[1]
    for name in ("process_cpu_seconds_total", "process_open_fds", "process_resident_memory_bytes"):
        assert min(both(scraped, name)) > 0
    started = both(scraped, "process_start_time_seconds")
    assert abs(started[0] - started[1]) < 600
