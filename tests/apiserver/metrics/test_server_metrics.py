"""Metric families of a served server, after requests over HTTP and in process."""

import asyncio
import json

import pytest
from tests.apiserver.application import ADMIN, JANE, MAPS, World, config_map
from tests.controllermanager.metric_table import parsed
from tests.tables import cases

from pilothouse.api.wire import Request
from pilothouse.env import Env
from pilothouse.storage.sqlite import SqliteStore

WRITE = {"content-type": "application/json"}


@pytest.fixture
async def world(env: Env) -> World:
    world = World(env)
    await world.handler_chain.start()
    return world


class Page:
    """What ``/metrics`` shows."""

    def __init__(self, world: World) -> None:
        self.text = world.handler_chain.metrics.response().body.decode()
        self.series = parsed(self.text)

    def value(self, name: str, /, **labels: str) -> float:
        """The sum of the series of that name that have these labels."""
        return sum(
            series_.value
            for series_ in self.series
            if series_.name == name and labels.items() <= series_.labels.items()
        )


async def test_in_process_requests_are_counted(world: World) -> None:
    local = world.core.transport("system:admin", ("system:masters",), user_agent="kube-scheduler/v1.36.2 (linux)")
    await local.request(Request("POST", MAPS, WRITE, json.dumps(config_map()).encode()))
    await local.request(Request("GET", f"{MAPS}/cm"))
    page = Page(world)
    of_maps = {"resource": "configmaps", "system_client": "kube-scheduler"}
    assert page.value("apiserver_request_total", verb="POST", code="201", **of_maps) == 1
    assert page.value("apiserver_request_total", verb="GET", code="200", **of_maps) == 1
    assert page.value("apiserver_response_sizes_count", verb="GET", resource="configmaps") == 1
    assert page.value("apiserver_response_sizes_sum", verb="GET", resource="configmaps") > 50


async def test_in_process_watches_are_counted(world: World) -> None:
    local = world.core.transport("system:admin", ("system:masters",))
    await world.request("POST", MAPS, config_map())
    stream = await local.open(Request("GET", f"{MAPS}?watch=true"))
    piece = await anext(aiter(stream))
    page = Page(world)
    assert page.value("apiserver_longrunning_requests", verb="WATCH", resource="configmaps") == 1
    assert page.value("apiserver_watch_events_total", resource="configmaps") == 1
    assert page.value("apiserver_watch_events_sizes_sum", resource="configmaps") == len(piece)
    assert page.value("apiserver_init_events_total", resource="configmaps") == 1
    assert page.value("apiserver_request_total", verb="WATCH") == 0
    await stream.close()
    await stream.close()
    page = Page(world)
    assert page.value("apiserver_longrunning_requests", verb="WATCH", resource="configmaps") == 0
    assert page.value("apiserver_request_total", verb="WATCH", resource="configmaps", code="200") == 1


@cases(
    "accept",
    {
        "json": "application/json",
        "protobuf": "application/vnd.kubernetes.protobuf",
        "tables": "application/json;as=Table;v=v1;g=meta.k8s.io",
    },
)
async def test_watch_events_are_counted_in_every_encoding(world: World, accept: str) -> None:
    await world.request("POST", MAPS, config_map(a="x" * 5000))
    exchange = world.begin("GET", f"{MAPS}?watch=true&timeoutSeconds=2", headers={"accept": accept})
    running = asyncio.ensure_future(exchange.run())
    await asyncio.sleep(1.0)
    await world.request("POST", MAPS, config_map("b"))
    sent = await running
    page = Page(world)
    assert page.value("apiserver_watch_events_total", resource="configmaps") == 2
    assert page.value("apiserver_watch_events_sizes_sum", resource="configmaps") == len(sent)


async def test_watch_list_latency(world: World) -> None:
    await world.request("POST", MAPS, config_map())
    local = world.core.transport("system:admin", ("system:masters",))
    query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    stream = await local.open(Request("GET", f"{MAPS}?{query}"))
    await anext(aiter(stream))
    assert Page(world).value("apiserver_watch_list_duration_seconds_count", resource="configmaps") == 1
    await stream.close()


async def test_plugins_and_phases_of_admission_are_counted(world: World) -> None:
    await world.request("POST", MAPS, config_map())
    await world.request("POST", "/api/v1/namespaces/nowhere/configmaps", config_map())
    page = Page(world)
    step, controller = (f"apiserver_admission_{kind}_admission_duration_seconds" for kind in ("step", "controller"))
    assert page.value(f"{step}_count", type="admit", operation="CREATE", rejected="false") == 1
    assert page.value(f"{step}_count", type="admit", operation="CREATE", rejected="true") == 1
    assert page.value(f"{step}_count", type="validate", operation="CREATE", rejected="false") == 1
    lifecycle = {"name": "NamespaceLifecycle", "type": "admit", "operation": "CREATE"}
    assert page.value(f"{controller}_count", **lifecycle, rejected="false") == 1
    assert page.value(f"{controller}_count", **lifecycle, rejected="true") == 1
    assert page.value(f"{controller}_bucket", **lifecycle, rejected="false", le="0.005") == 1
    assert Page(world).value(f"{controller}_count", **lifecycle, rejected="false") == 1


async def test_authentications_and_authorizations_are_counted(world: World) -> None:
    await world.request("GET", MAPS)
    await world.request("GET", MAPS, headers=JANE)
    await world.request("GET", MAPS, headers={"authorization": "Bearer odd"})
    page = Page(world)
    assert page.value("authentication_attempts", result="success") == 2
    assert page.value("authentication_attempts", result="error") == 1
    assert page.value("authentication_duration_seconds_count") == 3
    assert page.value("authenticated_user_requests", username="admin") == 1
    assert page.value("authenticated_user_requests", username="other") == 1
    assert page.value("authorization_attempts_total", result="allowed") == 1
    assert page.value("authorization_attempts_total", result="no-opinion") == 1


async def test_stored_objects_are_counted(world: World) -> None:
    for name in "ab":
        await world.request("POST", MAPS, config_map(name))
    await world.request("DELETE", f"{MAPS}/a")
    await world.request("GET", MAPS)
    page = Page(world)
    assert page.value("apiserver_resource_objects", group="", resource="configmaps") == 1
    assert page.value("apiserver_storage_objects", resource="configmaps") == 1
    assert [
        series_ for series_ in page.series if series_.labels.get("resource") == "clusterroles.rbac.authorization.k8s.io"
    ]
    assert page.value("etcd_requests_total", operation="create", resource="configmaps") == 2
    assert page.value("etcd_request_duration_seconds_count", operation="delete", resource="configmaps") == 1
    assert page.value("apiserver_storage_events_received_total", resource="configmaps") == 3
    assert page.value("apiserver_watch_cache_resource_version", resource="pods") == world.core.store.revision
    assert page.value("apiserver_cache_list_total", resource="configmaps") == 1
    assert page.value("apiserver_cache_list_returned_objects_total", resource="configmaps") == 1
    assert ("apiserver_storage_size_bytes" in page.text) is (world.core.store.size() is not None), "or there is no file"


async def test_storage_file_size(env: Env, tmp_path: object) -> None:
    store = SqliteStore.open(env, str(tmp_path), inline=True)
    assert (store.size() or 0) > 1000
    await store.close()


async def test_metrics_path_is_authorized(world: World) -> None:
    role = {"metadata": {"name": "scrape"}, "rules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]}
    bound = {
        "metadata": {"name": "scrape"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scrape"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}],
    }
    world.core.component_metrics["kube-scheduler"] = [lambda: "x 1\n"]
    paths = ("/metrics", "/metrics?component=kube-scheduler")
    assert [(await world.request("GET", path, headers=JANE))[0] for path in paths] == [403, 403]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    await world.request("POST", f"{rbac}/clusterroles", role)
    await world.request("POST", f"{rbac}/clusterrolebindings", bound)
    assert [(await world.request("GET", path, headers=JANE))[0] for path in paths] == [200, 200]
    assert (await world.request("GET", "/metrics?component=odd", headers=ADMIN))[0] == 400


async def test_aborted_requests_are_counted(world: World) -> None:
    # The request waits for a body that is never sent.
    exchange = world.begin("POST", MAPS, config_map())
    exchange._incoming.get_nowait()
    task = asyncio.ensure_future(exchange.run())
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    page = Page(world)
    assert page.value("apiserver_request_aborts_total", verb="POST", resource="configmaps") == 1
    assert world.handler_chain.metrics.requests.writing._count == 0


async def test_timed_out_requests_are_counted(world: World) -> None:
    exchange = world.begin("POST", f"{MAPS}?timeout=1s", config_map())
    exchange._incoming.get_nowait()
    async with asyncio.timeout(30):
        await exchange.run()
    assert exchange.status == 504
    page = Page(world)
    assert page.value("apiserver_request_terminations_total", verb="POST", resource="configmaps", code="504") == 1
