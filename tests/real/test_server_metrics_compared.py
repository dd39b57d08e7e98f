"""Metrics of the same requests to kube-apiserver (v1.20) and to our server.

Families that v1.36 has and that both show are of the same form. Requests, their sizes, admission and events are counted
alike; times are not compared.
"""

import asyncio
import contextlib
import time
from collections import Counter
from typing import Any, NamedTuple

import pytest
from tests.apiserver.application import World
from tests.controllermanager.metric_table import families, parsed, total
from tests.real_cluster import RealCluster, RequestFailed

from pilothouse.env import Env, virtual

pytestmark = pytest.mark.real

NAMESPACE = "counted"
MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PATCHES = {"PATCH": "application/merge-patch+json", "APPLY": "application/apply-patch+yaml"}


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}}


REQUESTS: tuple[tuple[str, str, Any], ...] = (
    ("POST", MAPS, config_map("a")),
    ("POST", MAPS, config_map("b")),
    ("POST", MAPS, config_map("a")),
    ("POST", f"{MAPS}?dryRun=All", config_map("c")),
    ("POST", "/api/v1/namespaces/nowhere/configmaps", config_map("a")),
    ("GET", f"{MAPS}/a", None),
    ("GET", f"{MAPS}/none", None),
    ("GET", MAPS, None),
    ("GET", f"{MAPS}?fieldSelector=metadata.name%3Da", None),
    ("GET", "/api/v1/configmaps?limit=1", None),
    ("GET", f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=0", None),
    ("PUT", f"{MAPS}/a", config_map("a") | {"data": {"a": "2"}}),
    ("PATCH", f"{MAPS}/a", {"data": {"a": "3"}}),
    ("APPLY", f"{MAPS}/a?fieldManager=x", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}),
    ("DELETE", f"{MAPS}/a", None),
    ("DELETE", MAPS, None),
    ("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/x/scale", None),
    ("PUT", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/x/status", {"metadata": {"name": "x"}}),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/x/log", None),
)
"""Every verb, with answers of each kind."""


def requests_to_upstream(cluster: RealCluster) -> tuple[str, str]:
    """The pages before and after."""
    with contextlib.suppress(RequestFailed):
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    before: str = cluster.request("GET", "/metrics")
    for method, target, body in REQUESTS:
        content = PATCHES.get(method, "application/json")
        with contextlib.suppress(RequestFailed):
            cluster.request("PATCH" if method == "APPLY" else method, target, body, content_type=content)
    time.sleep(0.5)
    return before, cluster.request("GET", "/metrics")


def requests_to_pilothouse() -> str:
    async def main(env: Env) -> str:
        world = World(env)
        await world.handler_chain.start()
        await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for method, target, body in REQUESTS:
            headers = {"content-type": PATCHES.get(method, "application/json")} if body is not None else {}
            await world.begin("PATCH" if method == "APPLY" else method, target, body, headers).run()
        await asyncio.sleep(1)
        return world.handler_chain.metrics.response().body.decode()

    return virtual.run(main)


RESOURCES = ("configmaps", "deployments", "pods")
LABELS = ("verb", "dry_run", "group", "resource", "subresource", "scope", "code")
SINCE_1_20: dict[tuple[str, ...], tuple[str, ...]] = {
    # Long answers are counted as what they are, and watches with their code.
    ("WATCH", "", "", "configmaps", "", "namespace", "0"): ("WATCH", "", "", "configmaps", "", "namespace", "200"),
    ("GET", "", "", "pods", "log", "resource", "404"): ("CONNECT", "", "", "pods", "log", "resource", "404"),
}
OTHER_FORM_SINCE_1_20 = {
    "apiserver_admission_controller_admission_duration_seconds",  # one bucket more
    "apiserver_admission_step_admission_duration_seconds",
    "apiserver_init_events_total",  # label group
    "apiserver_request_duration_seconds",  # fewer buckets
    "apiserver_request_total",  # the label contentType was removed, system_client is new
    "apiserver_watch_events_sizes",  # label resource, not kind
    "apiserver_watch_events_total",
    "etcd_request_duration_seconds",  # labels group and resource, not type
}


class Seen(NamedTuple):
    """The pages of kube-apiserver before and after the requests, and that of pilothouse."""

    before: str
    after: str
    pilothouse: str


@pytest.fixture(scope="module")
def scraped(real_cluster: RealCluster) -> Seen:
    return Seen(*requests_to_upstream(real_cluster), requests_to_pilothouse())


def requests_of(page: str) -> Counter[tuple[str, ...]]:
    """How often each kind of request was counted."""
    result: Counter[tuple[str, ...]] = Counter()
    for series in parsed(page):
        if series.name == "apiserver_request_total" and series.labels.get("resource") in RESOURCES:
            labels = tuple(series.labels[name] for name in LABELS)
            result[SINCE_1_20.get(labels, labels)] += int(series.value)
    return result


def test_request_counts_are_equal(scraped: Seen) -> None:
    upstream = requests_of(scraped.after) - requests_of(scraped.before)
    assert sum(upstream.values()) == len(REQUESTS)
    assert requests_of(scraped.pilothouse) == upstream


def test_common_metric_families_have_the_same_type_and_labels(scraped: Seen) -> None:
    upstream, pilothouse = families(scraped.after), families(scraped.pilothouse)
    shared = set(upstream) & set(pilothouse)
    assert shared >= OTHER_FORM_SINCE_1_20
    alike = shared - OTHER_FORM_SINCE_1_20
    assert len(alike) >= 8
    assert {name: pilothouse[name] for name in alike} == {name: upstream[name] for name in alike}


def test_sizes_are_counted_equally(scraped: Seen) -> None:
    for verb in ("GET", "LIST"):
        of = {"resource": "configmaps", "verb": verb}
        name = "apiserver_response_sizes_count"
        assert total(scraped.pilothouse, name, **of) == total(scraped.after, name, **of) - total(
            scraped.before, name, **of
        )


def test_namespace_lifecycle_admission_is_counted_equally(scraped: Seen) -> None:
    """The plugin that each write passes. Deletes of collections are admitted as a whole in both."""
    name = "apiserver_admission_controller_admission_duration_seconds_count"
    of = {"name": "NamespaceLifecycle", "type": "admit", "rejected": "true"}
    for operation in ("CREATE", "UPDATE", "DELETE"):
        upstream = total(scraped.after, name, **of, operation=operation) - total(
            scraped.before, name, **of, operation=operation
        )
        assert total(scraped.pilothouse, name, **of, operation=operation) == upstream
