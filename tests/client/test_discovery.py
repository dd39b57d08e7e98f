"""Discovery in both formats, with missing parts; the REST mapper."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from tests.tables import cases

from pilothouse.api import wire
from pilothouse.api.apps import REPLICA_SETS
from pilothouse.api.core import PODS
from pilothouse.client.discovery import RestMapper, discover
from pilothouse.client.errors import ServiceUnavailable, error_of
from pilothouse.machinery.api_resources import Discovery, GroupVersion, Resource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def aggregated_resource(name: str, kind: str, **more: Any) -> dict[str, Any]:
    response = {"group": "", "version": "", "kind": kind}
    return {"resource": name, "responseKind": response, "scope": "Namespaced", "verbs": ["list", "delete"], **more}


CORE = {"items": [{"versions": [{"version": "v1", "resources": [aggregated_resource("pods", "Pod")]}]}]}
NAMED = {
    "items": [
        {
            "metadata": {"name": "apps"},
            "versions": [
                {
                    "version": "v1",
                    "freshness": "Current",
                    "resources": [
                        aggregated_resource("replicasets", "ReplicaSet", subresources=[{"subresource": "status"}]),
                        {"resource": "ghosts", "subresources": [{"subresource": "x"}]},
                    ],
                },
                {
                    "version": "v1beta2",
                    "resources": [aggregated_resource("replicasets", "ReplicaSet"), aggregated_resource("old", "Old")],
                },
            ],
        },
        {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": "Stale"}]},
    ]
}


def legacy(version: str, *resources: tuple[str, str]) -> dict[str, Any]:
    result = [{"name": name, "kind": kind, "namespaced": True, "verbs": ["list"]} for name, kind in resources]
    return {"groupVersion": version, "resources": result}


LEGACY = {
    "/api": {"versions": ["v1"]},
    "/apis": {
        "groups": [
            {
                "name": "apps",
                "versions": [{"groupVersion": "apps/v1beta2"}, {"groupVersion": "apps/v1"}],
                "preferredVersion": {"groupVersion": "apps/v1"},
            },
            {"name": "metrics.k8s.io", "versions": [{"groupVersion": "metrics.k8s.io/v1beta1"}]},
        ]
    },
    "/api/v1": legacy("v1", ("pods", "Pod"), ("pods/status", "Pod")),
    "/apis/apps/v1": legacy("apps/v1", ("replicasets", "ReplicaSet"), ("replicasets/status", "ReplicaSet")),
    "/apis/apps/v1beta2": legacy("apps/v1beta2", ("replicasets", "ReplicaSet"), ("old", "Old")),
}


class Server:
    def __init__(self, documents: Mapping[str, object], content_type: str = "application/json") -> None:
        self.documents = documents
        self.content_type = content_type
        self.requests: list[str] = []

    async def request(
        self, method: str, target: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> wire.Response:
        self.requests.append(target)
        await asyncio.sleep(0.01)
        if "metrics" in target:
            raise error_of(503, b"")
        if target not in self.documents:
            raise error_of(404, b"")
        return wire.Response(200, {"content-type": self.content_type}, msgspec.json.encode(self.documents[target]))


@cases(
    "server, requests",
    {
        "aggregated": (Server({"/api": CORE, "/apis": NAMED}, AGGREGATED), 2),
        "legacy": (Server(LEGACY), 6),
    },
)
async def test_aggregated_and_unaggregated_discovery_agree(server: Server, requests: int) -> None:
    result = await discover(server)
    assert len(server.requests) == requests
    assert [version.name for version in result.versions] == ["v1", "apps/v1", "apps/v1beta2"]
    assert list(result.failures) == ["metrics.k8s.io/v1beta1"], "what is missing is named, the rest is there"
    preferred = {resource.group_resource: resource.version for resource in result.preferred_resources()}
    assert preferred == {"pods": "v1", "replicasets.apps": "v1", "old.apps": "v1beta2"}
    replica_sets = result.find("apps/v1", "ReplicaSet")
    assert replica_sets is not None
    assert replica_sets.subresources == ("status",)
    assert replica_sets.supports("list")
    assert not replica_sets.supports("list", "watch")
    assert replica_sets.as_kind().api_version == "apps/v1"
    assert result.serves(PODS)
    assert result.serves(REPLICA_SETS)


@cases(
    "group, kind, names",
    {
        "all resources of the kind in the preferred version": ("apps", "ReplicaSet", ["v1 replicasets", "v1 copies"]),
        "kind that the preferred version lacks": ("apps", "Old", ["v1beta2 old"]),
        "a kind is one of its group": ("", "ReplicaSet", []),
        "kind of another group": ("apps", "Pod", []),
    },
)
def test_resources_are_found_by_group_and_kind(group: str, kind: str, names: list[str]) -> None:
    def version(name: str, *resources: tuple[str, str]) -> GroupVersion:
        return GroupVersion("apps", name, tuple(Resource("apps", name, *resource, True) for resource in resources))

    served = Discovery(
        (
            GroupVersion("", "v1", (Resource("", "v1", "pods", "Pod", True),)),
            version("v1", ("replicasets", "ReplicaSet"), ("copies", "ReplicaSet")),
            version("v1beta2", ("replicasets", "ReplicaSet"), ("old", "Old")),
        )
    )
    assert [f"{item.version} {item.name}" for item in served.preferred_for(group, kind)] == names


async def test_missing_core_group_is_accepted_and_failing_one_is_not() -> None:
    class Failing(Server):
        async def request(self, method: str, target: str, **_: Any) -> wire.Response:
            raise error_of(503, b"")

    result = await discover(Server({"/apis": NAMED}, AGGREGATED))
    assert result.find("v1", "Pod") is None
    with pytest.raises(ServiceUnavailable):
        await discover(Failing({}))


async def test_mapper_caches_discovery_until_reset() -> None:
    server = Server({"/api": CORE, "/apis": NAMED}, AGGREGATED)
    mapper = RestMapper(server)
    first = asyncio.ensure_future(mapper.resource_for("v1", "Pod"))
    others = [asyncio.ensure_future(mapper.resource_for("apps/v1", "ReplicaSet")) for _ in range(5)]
    await asyncio.sleep(0)
    first.cancel()  # the first caller may be cancelled; the others still get the response
    result = await asyncio.gather(*others)
    assert {resource.name for resource in result if resource is not None} == {"replicasets"}
    assert await mapper.kind_for("example.org/v1", "Thing") is None
    assert len(server.requests) == 2
    with pytest.raises(LookupError, match="stale"):
        await mapper.resource_for("metrics.k8s.io/v1beta1", "PodMetrics")
    mapper.reset()
    await mapper.resource_for("v1", "Pod")
    assert len(server.requests) == 4


async def test_discovery_started_before_a_reset_is_not_cached() -> None:
    """A caller that resets needs a newer result; the earlier caller still gets its result."""
    nothing = {**NAMED, "items": []}
    server = Server({"/api": CORE, "/apis": nothing}, AGGREGATED)
    mapper = RestMapper(server)
    before = asyncio.ensure_future(mapper.resource_for("apps/v1", "ReplicaSet"))
    await asyncio.sleep(0.005)
    mapper.reset()
    after = asyncio.ensure_future(mapper.resource_for("apps/v1", "ReplicaSet"))
    assert await before is None
    server.documents = {"/api": CORE, "/apis": NAMED}
    assert await after is not None
    assert await mapper.resource_for("apps/v1", "ReplicaSet") is not None
    assert len(server.requests) == 4


async def test_failed_discovery_is_retried() -> None:
    class Flaky(Server):
        async def request(self, method: str, target: str, **more: Any) -> wire.Response:
            if len(self.requests) < 2:
                self.requests.append(target)
                raise error_of(503, b"")
            return await super().request(method, target, **more)

    mapper = RestMapper(Flaky({"/api": CORE, "/apis": NAMED}, AGGREGATED))
    with pytest.raises(ServiceUnavailable):
        await mapper.resource_for("v1", "Pod")
    assert await mapper.resource_for("v1", "Pod") is not None
