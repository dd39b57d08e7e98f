"""What ``/metrics`` of a plane shows, over HTTP: its API server, its manager, its process."""

import json
import re
import urllib.request
from collections import Counter

from tests.controllermanager.metric_table import parsed, total
from tests.programs import until

from pilothouse.testing import Cluster, plane

MAPS = "/api/v1/namespaces/default/configmaps"


def fetch(cluster: Cluster, path: str, body: bytes | None = None) -> str:
    request = urllib.request.Request(f"{cluster.url}{path}", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        text: str = answer.read().decode()
    return text


def scraped(cluster: Cluster, component: str = "") -> list[str]:
    return fetch(cluster, f"/metrics?component={component}" if component else "/metrics").splitlines()


def test_each_program_has_a_page() -> None:
    with plane(nodes=1) as cluster:
        fetch(cluster, MAPS)
        server, manager = scraped(cluster), scraped(cluster, "kube-controller-manager")
    assert {
        "apiserver_request_total",
        "apiserver_request_duration_seconds_bucket",
        "apiserver_request_sli_duration_seconds_bucket",
        "apiserver_response_sizes_bucket",
        "process_cpu_seconds_total",
    } <= names_of(server)
    assert "workqueue_depth" not in names_of(server)
    assert {
        "workqueue_depth",
        "workqueue_adds_total",
        "workqueue_queue_duration_seconds_bucket",
        "informer_store_resource_version",
        "running_managed_controllers",
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
    } <= names_of(manager)
    check_format(server)
    check_format(manager)


MIXIN = {
    "": {
        "apiserver_request_total": {"verb", "code", "resource"},
        "apiserver_request_sli_duration_seconds_bucket": {"verb", "scope", "subresource", "resource", "le"},
        "apiserver_request_sli_duration_seconds_count": {"verb", "scope", "subresource"},
        "apiserver_client_certificate_expiration_seconds_bucket": {"le"},
        "apiserver_client_certificate_expiration_seconds_count": set(),
        "aggregator_unavailable_apiservice": {"name"},
        "process_resident_memory_bytes": set(),
        "process_cpu_seconds_total": set(),
        "go_goroutines": set(),
        "kubernetes_build_info": {"git_version"},
    },
    "kube-controller-manager": {
        "workqueue_adds_total": {"name"},
        "workqueue_depth": {"name"},
        "workqueue_queue_duration_seconds_bucket": {"name", "le"},
        "rest_client_requests_total": {"code"},
        "rest_client_request_duration_seconds_bucket": {"verb", "le"},
        "process_resident_memory_bytes": set(),
        "process_cpu_seconds_total": set(),
        "go_goroutines": set(),
        "kubernetes_build_info": {"git_version"},
    },
    "kube-scheduler": {
        "scheduler_scheduling_attempt_duration_seconds_count": set(),
        "scheduler_scheduling_attempt_duration_seconds_bucket": {"le"},
        "scheduler_scheduling_algorithm_duration_seconds_count": set(),
        "scheduler_scheduling_algorithm_duration_seconds_bucket": {"le"},
        "scheduler_pod_scheduling_sli_duration_seconds_count": set(),
        "scheduler_pod_scheduling_sli_duration_seconds_bucket": {"le"},
        "rest_client_requests_total": {"code"},
        "rest_client_request_duration_seconds_bucket": {"verb", "le"},
        "process_resident_memory_bytes": set(),
        "process_cpu_seconds_total": set(),
        "go_goroutines": set(),
        "kubernetes_build_info": {"git_version"},
    },
}
"""What the dashboards, alerts and rules of kubernetes-mixin (2026-08) for API server, manager and scheduler read, with
the labels by which they select and sum.

Not among them: what is there once it has happened, ``apiserver_request_terminations_total`` (``test_requests.py``) and
``aggregator_unavailable_apiservice_total`` (``test_availability.py``); what v1.36 does not have,
``scheduler_volume_scheduling_duration_seconds``; and of the API server ``workqueue_*`` and ``rest_client_*``, since it
has neither queues nor clients here.
"""

QUANTILES = (
    ("", "apiserver_request_sli_duration_seconds", "1"),
    ("", "apiserver_request_sli_duration_seconds", "5"),
    ("", "apiserver_request_sli_duration_seconds", "30"),
)
"""Bucket bounds that the rules use as strings."""


def test_pages_have_what_dashboards_select() -> None:
    service = {"group": "g.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
    with plane(nodes=1) as cluster:
        fetch(cluster, MAPS)
        fetch(cluster, "/apis/apiregistration.k8s.io/v1/apiservices", json.dumps({
            "metadata": {"name": "v1.g.example.com"}, "spec": {**service, "service": {"namespace": "a", "name": "b"}},
        }).encode())  # fmt: skip
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        fetch(cluster, "/api/v1/namespaces/default/pods", json.dumps(pod).encode())
        until(lambda: '"nodeName"' in fetch(cluster, "/api/v1/namespaces/default/pods/p"), "the pod is bound")
        pages = {component: scraped(cluster, component) for component in MIXIN}
    for component, wanted in MIXIN.items():
        check_format(pages[component])
        exposed: dict[str, set[str]] = {}
        for series in parsed("\n".join(pages[component])):
            exposed.setdefault(series.name, set()).update(series.labels)
        for name, labels in wanted.items():
            assert labels <= exposed.get(name, {"(no series)"}), (component, name)
    for component, name, bound in QUANTILES:
        assert any(line.startswith(name) and f'le="{bound}"' in line for line in pages[component]), (name, bound)
    gauge = total("\n".join(pages[""]), "aggregator_unavailable_apiservice", name="v1.g.example.com")
    assert (gauge, total("\n".join(pages[""]), "aggregator_unavailable_apiservice", name="v1.apps")) == (1, 0)
    for component, method in (("kube-controller-manager", "GET"), ("kube-scheduler", "POST")):
        text = "\n".join(pages[component])
        assert total(text, "rest_client_requests_total", method=method, host="local") > 0
        requests = sum(sample.value for sample in parsed(text) if sample.name == "rest_client_requests_total")
        assert requests == total(text, "rest_client_request_duration_seconds_count") > 0


def names_of(lines: list[str]) -> set[str]:
    return {line.partition("{")[0].partition(" ")[0] for line in lines if not line.startswith("#")}


def check_format(lines: list[str]) -> None:
    kinds = Counter(line.split()[2] for line in lines if line.startswith("# TYPE "))
    assert set(kinds.values()) == {1}, "a family that comes twice makes Prometheus refuse the page"
    for line in lines:
        assert re.fullmatch(r"# (HELP|TYPE) \S+ .*|[a-z_]+(\{.*\})? \S+", line), line


def test_latencies_of_requests_are_not_in_milliseconds() -> None:
    with plane(nodes=0) as cluster:
        for number in range(20):
            fetch(cluster, MAPS, b'{"metadata": {"name": "m%d"}}' % number)
        lines = scraped(cluster)
    (total,) = [
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("apiserver_request_duration_seconds_sum") and 'verb="POST"' in line and "configmaps" in line
    ]
    assert total > 0
    assert total * 1000 != round(total * 1000)
