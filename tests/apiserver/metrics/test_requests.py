"""Request metrics: kube-apiserver's series, labels and buckets."""

import pytest
from tests.stores import new_store
from tests.tables import cases

from pilothouse.api.wire import Request
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.metrics import ServerMetrics
from pilothouse.apiserver.metrics.requests import RequestMetrics
from pilothouse.apiserver.request_info import read_request
from pilothouse.apiserver.resources import ResourceTable, built_in
from pilothouse.env import Env
from pilothouse.machinery.metrics import Registry

TABLE = ResourceTable(())
PODS = "/api/v1/namespaces/a/pods"
MERGE = {"content-type": "application/merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}
BOUNDS = (
    *("0.005", "0.025", "0.05", "0.1", "0.2", "0.4", "0.6", "0.8", "1", "1.25", "1.5", "2", "3", "4", "5", "6", "8"),
    *("10", "15", "20", "30", "45", "60", "+Inf"),
)


class Counted:
    """Request metrics, their registry and the clock that they go by."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.now = 0.0
        self.metrics = RequestMetrics(self.registry, lambda: self.now)


def metrics_of(*asked: Request, seconds: float = 0.0, size: int | None = None) -> Counted:
    counted = Counted()
    for request in asked:
        counted.metrics.observe(request, read_request(request.method, request.target, TABLE), 200, seconds, size)
    return counted


def lines(counted: Counted, name: str) -> list[str]:
    return [line for line in counted.registry.exposition().splitlines() if line.startswith(name)]


@cases(
    "method, target, headers, verb, scope",
    {
        "get": ("GET", f"{PODS}/x", {}, "GET", "resource"),
        "list": ("GET", PODS, {}, "LIST", "namespace"),
        "HEAD of a list": ("HEAD", PODS, {}, "LIST", "namespace"),
        "list of all namespaces": ("GET", "/api/v1/pods", {}, "LIST", "cluster"),
        "list of one name": ("GET", f"{PODS}?fieldSelector=metadata.name%3Dx", {}, "LIST", "namespace"),
        "watch of one name": ("GET", f"{PODS}?watch=1&fieldSelector=metadata.name%3Dx", {}, "WATCH", "namespace"),
        "watch of one name by its path": ("GET", "/api/v1/watch/namespaces/a/pods/x", {}, "WATCH", "resource"),
        "watch": ("GET", f"{PODS}?watch=true", {}, "WATCH", "namespace"),
        "create": ("POST", PODS, {}, "POST", "resource"),
        "update": ("PUT", f"{PODS}/x", {}, "PUT", "resource"),
        "patch": ("PATCH", f"{PODS}/x", MERGE, "PATCH", "resource"),
        "apply": ("PATCH", f"{PODS}/x", APPLY, "APPLY", "resource"),
        "delete": ("DELETE", f"{PODS}/x", {}, "DELETE", "resource"),
        "delete a collection": ("DELETE", PODS, {}, "DELETE", "namespace"),
        "a log": ("GET", f"{PODS}/x/log", {}, "CONNECT", "resource"),
        "exec": ("POST", f"{PODS}/x/exec", {}, "CONNECT", "resource"),
    },
)
def test_verbs_and_scopes(method: str, target: str, headers: dict[str, str], verb: str, scope: str) -> None:
    """``MonitorRequest``, ``CanonicalVerb``, ``cleanVerb`` and ``CleanScope``."""
    (line,) = lines(metrics_of(Request(method, target, headers)), "apiserver_request_total")
    assert f'verb="{verb}"' in line
    assert f'scope="{scope}"' in line


@pytest.mark.parametrize(
    ("query", "label"),
    [
        ("", ""),
        ("?dryRun=All", "All"),
        ("?dryRun=All&dryRun=All", "All"),
        ("?dryRun=Some", "invalid"),
        ("?dryRun=", "invalid"),
    ],
)  # fmt: skip
def test_dry_runs(query: str, label: str) -> None:
    metrics = metrics_of(Request("POST", PODS + query))
    assert f'dry_run="{label}"' in lines(metrics, "apiserver_request_total")[0]
    assert bool(lines(metrics, "apiserver_request_sli_duration_seconds_count")) is not bool(label)


@pytest.mark.parametrize(
    ("agent", "client"),
    [
        ("kube-controller-manager/v1.36.2 (linux/amd64) kubernetes/abc", "kube-controller-manager"),
        ("kube-scheduler/v1.36.2", "kube-scheduler"),
        ("kubectl/v1.36.4", ""),
        ("", ""),
    ],
)
def test_system_clients(agent: str, client: str) -> None:
    (line,) = lines(metrics_of(Request("GET", PODS, {"user-agent": agent})), "apiserver_request_total")
    assert line.endswith(f'code="200",system_client="{client}"}} 1')


def test_latencies_have_upstreams_buckets() -> None:
    metrics = metrics_of(Request("GET", PODS), Request("GET", PODS), seconds=0.03)
    labels = 'verb="LIST",dry_run="",group="",version="v1",resource="pods",subresource="",scope="namespace"'
    labels += ',component="apiserver"'
    buckets = lines(metrics, "apiserver_request_duration_seconds_bucket")
    bounds = [line.partition('le="')[2].partition('"')[0] for line in buckets]
    assert bounds == [*BOUNDS]
    assert f'apiserver_request_duration_seconds_bucket{{{labels},le="0.025"}} 0' in buckets
    assert f'apiserver_request_duration_seconds_bucket{{{labels},le="0.05"}} 2' in buckets
    assert lines(metrics, "apiserver_request_duration_seconds_sum") == [
        f"apiserver_request_duration_seconds_sum{{{labels}}} 0.06"
    ]
    assert len(lines(metrics, "apiserver_request_sli_duration_seconds_bucket")) == len(buckets) - 2
    assert "# TYPE apiserver_request_duration_seconds histogram" in metrics.registry.exposition().splitlines()


def test_request_and_response_sizes() -> None:
    metrics = metrics_of(Request("GET", PODS), Request("POST", PODS), size=5000)
    (counted,) = lines(metrics, "apiserver_response_sizes_count")
    assert 'verb="LIST"' in counted
    assert 'apiserver_response_sizes_bucket{verb="LIST",' in lines(metrics, "apiserver_response_sizes_bucket")[0]
    assert [line.rpartition(" ")[2] for line in lines(metrics, "apiserver_response_sizes_bucket")][:2] == ["0", "1"]


def test_health_checks_are_labeled_by_path() -> None:
    (line,) = lines(metrics_of(Request("GET", "/livez")), "apiserver_request_total")
    assert 'resource="",subresource="/livez",scope="",component=""' in line


def test_open_watches_are_counted() -> None:
    metrics = Counted()
    request = Request("GET", f"{PODS}?watch=true")
    gauge = metrics.metrics.long_running(request, read_request("GET", request.target, TABLE))
    gauge.inc()
    (line,) = lines(metrics, "apiserver_longrunning_requests")
    assert line == (
        'apiserver_longrunning_requests{verb="WATCH",group="",version="v1",resource="pods",subresource="",'
        'scope="namespace",component="apiserver"} 1'
    )
    gauge.inc(-1.0)
    assert lines(metrics, "apiserver_longrunning_requests")[0].endswith(" 0")


def test_every_resource_has_its_own_series() -> None:
    targets = [f"/{'apis' if info.group else 'api'}/{info.api_version}/{info.resource}" for info in built_in()]
    metrics = metrics_of(*[Request("GET", target) for target in [*targets, *targets]])
    result = lines(metrics, "apiserver_request_total")
    assert len(result) == len(set(targets)) == sum(line.endswith(" 2") for line in result)


def test_inflight_requests_are_the_maximum_of_the_last_second() -> None:
    counted = Counted()
    reading, writing = counted.metrics.reading, counted.metrics.writing

    def inflight() -> list[str]:
        return [line.partition("{")[2] for line in lines(counted, "apiserver_current_inflight_requests")]

    reading.enter(counted.now)
    for _ in range(3):
        writing.enter(counted.now)
    for _ in range(3):
        writing.leave()
    counted.now = 1.1
    assert inflight() == ['request_kind="mutating"} 3', 'request_kind="readOnly"} 1']
    counted.now = 2.2
    assert inflight() == ['request_kind="mutating"} 0', 'request_kind="readOnly"} 1']
    reading.leave()
    counted.now = 60.0
    assert inflight() == ['request_kind="mutating"} 0', 'request_kind="readOnly"} 0']


def test_sli_latency_excludes_webhooks() -> None:
    counted = Counted()
    request = Request("POST", PODS)
    for waited in (0.0, 1.0):
        if waited:
            counted.metrics.waited(waited)
        counted.metrics.observe(request, read_request("POST", PODS, TABLE), 201, 1.04)
    (whole,) = lines(counted, "apiserver_request_duration_seconds_sum")
    assert float(whole.split()[-1]) == pytest.approx(2.08)
    (without,) = lines(counted, "apiserver_request_sli_duration_seconds_sum")
    assert float(without.split()[-1]) == pytest.approx(1.08)
    buckets = {
        line.split('le="')[1].split('"')[0]: line.split()[-1]
        for line in lines(counted, "apiserver_request_sli_duration_seconds_bucket")
    }
    assert (buckets["0.05"], buckets["1"], buckets["1.25"], buckets["+Inf"]) == ("1", "1", "2", "2")


def test_unfinished_requests() -> None:
    counted = Counted()
    request = Request("GET", PODS)
    info = read_request("GET", PODS, TABLE)
    counted.metrics.terminated(request, info, 504)
    counted.metrics.aborted(request, info)
    of = 'verb="LIST",group="",version="v1",resource="pods",subresource="",scope="namespace"'
    assert lines(counted, "apiserver_request_terminations_total") == [
        f'apiserver_request_terminations_total{{{of},component="apiserver",code="504"}} 1'
    ]
    assert lines(counted, "apiserver_request_aborts_total") == [f"apiserver_request_aborts_total{{{of}}} 1"]


async def test_metrics_by_component(env: Env) -> None:
    metrics = ServerMetrics(
        env.perf_counter,
        new_store(env),
        lambda: TABLE,
        sources=[lambda: "audit 1\n"],
        components={"kube-scheduler": [lambda: "scheduler 2\n"]},
        process=[lambda: "process 3\n"],
    )
    for component in ("", "kube-apiserver"):
        page = metrics.response(component).body.decode()
        assert page.endswith("audit 1\nprocess 3\n")
        assert 'apiserver_resource_objects{group="apps",resource="deployments"} 0\n' in page
    assert metrics.response("kube-scheduler").body == b"scheduler 2\n"
    with pytest.raises(StatusError, match='"kubelet": the components are kube-apiserver, kube-scheduler'):
        metrics.response("kubelet")
