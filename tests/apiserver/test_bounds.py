"""Input from clients is kept in bounded memory: metric labels, authorization decisions, parsed requests and headers."""

import pytest
from tests.apiserver.application import MAPS, World
from tests.tables import cases

from pilothouse.api.wire import Request
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes, RbacAuthorizer
from pilothouse.apiserver.metrics.requests import RequestMetrics
from pilothouse.apiserver.request_info import RequestReader, read_request
from pilothouse.apiserver.resources import ResourceTable
from pilothouse.apiserver.serializers.negotiation import NotAcceptable, choose, parse_accept
from pilothouse.machinery.metrics import Registry

TABLE = ResourceTable(())


def _series(*requests: tuple[str, str]) -> list[str]:
    registry = Registry()
    metrics = RequestMetrics(registry, lambda: 0.0)
    for method, target in requests:
        metrics.observe(Request(method, target), read_request(method, target, TABLE), 200, 0.0)
    return [line for line in registry.exposition().splitlines() if line.startswith("apiserver_request_total")]


@cases(
    "method, target, labels",
    {
        "a resource": ("GET", "/apis/apps/v1/deployments", ("LIST", "apps", "v1", "deployments", "", "cluster")),
        "a subresource": ("PUT", "/api/v1/namespaces/a/pods/x/status", ("PUT", "", "v1", "pods", "status", "resource")),
        "unknown subresource": (
            "GET",
            "/api/v1/namespaces/a/pods/x/odd",
            ("GET", "", "v1", "pods", "", "resource"),
        ),
        "unknown group": ("GET", "/apis/e.example/v1/pods", ("GET", "", "", "", "", "")),
        "unknown path": ("GET", "/odd", ("GET", "", "", "", "", "")),
        "unknown method": ("PURGE", "/odd", ("other", "", "", "", "", "")),
        "unknown method of a resource": ("PURGE", "/api/v1/pods", ("other", "", "v1", "pods", "", "cluster")),
    },
)
def test_metric_labels_are_served_resources(method: str, target: str, labels: tuple[str, ...]) -> None:
    assert _series((method, target)) == [_total(labels, 200, 1)]


def _total(labels: tuple[str, ...], code: int, count: int) -> str:
    verb, group, version, resource, subresource, scope = labels
    return (
        f'apiserver_request_total{{verb="{verb}",dry_run="",group="{group}",version="{version}",resource="{resource}",'
        f'subresource="{subresource}",scope="{scope}",component="apiserver",code="{code}",system_client=""}} {count}'
    )


def test_unserved_resources_share_one_series() -> None:
    targets = [f"/apis/g{number}.example/v{number}/r{number}/n/s{number}" for number in range(100)]
    assert len(_series(*[("GET", target) for target in [*targets, '/apis/evil"}/v1/pods/x', "/a\nb"]])) == 1


def test_long_authorization_attributes_are_not_cached() -> None:
    rbac = RbacAuthorizer(lambda _resource: [])
    long = "x" * 2000
    for identity, request_attributes in (
        (Identity("jane"), Attributes("get", path=f"/{long}")),
        (Identity("jane"), Attributes("get", name=long)),
        (Identity("jane", (long,)), Attributes("get", path="/")),
        (Identity(long), Attributes("get", path="/")),
    ):
        assert not rbac.authorize(identity, request_attributes).allowed
        assert not rbac._decisions
    rbac.authorize(Identity("jane"), Attributes("get", path="/"))
    assert len(rbac._decisions) == 1


def test_only_short_targets_are_cached() -> None:
    reader = RequestReader(TABLE)
    long = f"/api/v1/pods?labelSelector={'x' * 300}"
    for target in ("/api/v1/pods", long):
        assert reader.read("GET", target) is reader.read("GET", target)
    assert list(reader._cached) == [("GET", "/api/v1/pods")]


async def test_too_many_query_parameters_are_rejected(world: World) -> None:
    query = "&".join(f"a{number}=1" for number in range(1000))
    assert (await world.request("GET", f"{MAPS}?{query}"))[0] == 200
    status, answer = await world.request("GET", f"{MAPS}?{query}&dryRun=All")
    assert (status, answer["message"]) == (400, "number of URL query parameters exceeded limit")


def test_number_of_path_segments_is_bounded() -> None:
    info = read_request("GET", "/api/v1/namespaces/a/pods/x/proxy" + "/%41" * 1000, TABLE)
    assert (info.name, info.subresource) == ("x", "proxy")
    assert len(info.trailing_segments) < 20


def test_overlong_accept_header_is_not_acceptable() -> None:
    accept = "application/json," * 100
    assert parse_accept(accept) == ()
    with pytest.raises(NotAcceptable):
        choose(accept, protobuf=True, table=True)


async def test_unauthenticated_requests_are_counted_without_their_target(world: World) -> None:
    for target in ("/apis/a.example/v1/b", f"{MAPS}/x", "/odd"):
        await world.request("GET", target, headers={"authorization": "Bearer bad"})
    series = world.handler_chain.metrics.response().body.decode().splitlines()
    assert [line for line in series if "request_total{" in line] == [_total(("GET", "", "", "", "", ""), 401, 3)]
