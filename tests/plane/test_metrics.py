"""What ``/metrics`` of a plane shows, over HTTP: its API server, its manager, its process."""

import json
import re
import urllib.request
from collections import Counter

from tests.controllermanager.metric_table import parsed
from tests.programs import until

from pilothouse.testing import Cluster, plane

MAPS = "/api/v1/namespaces/default/configmaps"


def ask(cluster: Cluster, path: str, body: bytes | None = None) -> str:
    request = urllib.request.Request(f"{cluster.url}{path}", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        text: str = answer.read().decode()
    return text


def scraped(cluster: Cluster, component: str = "") -> list[str]:
    return ask(cluster, f"/metrics?component={component}" if component else "/metrics").splitlines()


def test_each_program_has_a_page() -> None:
    with plane(nodes=1) as cluster:
        ask(cluster, MAPS)
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
        "apiserver_request_total": {"verb", "code", "resource", "subresource", "scope", "component"},
        "apiserver_request_sli_duration_seconds_bucket": {"verb", "resource", "subresource", "scope", "le"},
        "apiserver_request_sli_duration_seconds_count": {"verb", "resource", "subresource", "scope"},
        "apiserver_request_duration_seconds_bucket": {"verb", "resource", "subresource", "scope", "le"},
        "process_resident_memory_bytes": set(),
        "process_cpu_seconds_total": set(),
        "kubernetes_build_info": {"git_version"},
    },
    "kube-controller-manager": {
        "workqueue_adds_total": {"name"},
        "workqueue_depth": {"name"},
        "workqueue_queue_duration_seconds_bucket": {"name", "le"},
        "process_resident_memory_bytes": set(),
        "process_cpu_seconds_total": set(),
        "kubernetes_build_info": {"git_version"},
    },
    "kube-scheduler": {
        "scheduler_scheduling_attempt_duration_seconds_count": {"result", "profile"},
        "scheduler_scheduling_attempt_duration_seconds_bucket": {"result", "profile", "le"},
        "scheduler_scheduling_algorithm_duration_seconds_bucket": {"le"},
        "scheduler_framework_extension_point_duration_seconds_bucket": {"extension_point", "le"},
        "scheduler_pod_scheduling_sli_duration_seconds_bucket": {"attempts", "le"},
        "scheduler_pending_pods": {"queue"},
        "process_resident_memory_bytes": set(),
        "process_cpu_seconds_total": set(),
        "kubernetes_build_info": {"git_version"},
    },
}
"""What kubernetes-mixin's dashboards, alerts and recording rules select by job, with the labels that they need."""


def test_pages_have_what_dashboards_select() -> None:
    with plane(nodes=1) as cluster:
        ask(cluster, MAPS)
        pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        ask(cluster, "/api/v1/namespaces/default/pods", json.dumps(pod).encode())
        until(lambda: '"nodeName"' in ask(cluster, "/api/v1/namespaces/default/pods/p"), "the pod is bound")
        pages = {component: scraped(cluster, component) for component in MIXIN}
    for component, wanted in MIXIN.items():
        check_format(pages[component])
        shown: dict[str, set[str]] = {}
        for series in parsed("\n".join(pages[component])):
            shown.setdefault(series.name, set()).update(series.labels)
        for name, labels in wanted.items():
            assert labels <= shown.get(name, {"(no series)"}), (component, name)


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
            ask(cluster, MAPS, b'{"metadata": {"name": "m%d"}}' % number)
        lines = scraped(cluster)
    (total,) = [
        float(line.rpartition(" ")[2])
        for line in lines
        if line.startswith("apiserver_request_duration_seconds_sum") and 'verb="POST"' in line and "configmaps" in line
    ]
    assert total > 0
    assert total * 1000 != round(total * 1000)
