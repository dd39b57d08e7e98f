"""What is there before anybody asks: as kube-apiserver v1.36.2 has it, and again after somebody took it away."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.api import Api, on

from pilothouse.apiserver.gateway import Gateway
from pilothouse.apiserver.identity_lease import server_name
from pilothouse.apiserver.server import ApiServer

_RIGHTS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "rbac.json").read_text())
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"


def started(ask: Callable[[Api], Coroutine[Any, Any, Any]], authorization: str = "AlwaysAllow") -> Any:
    """Ask a server with all that it is given outside of simulations, after a second."""

    async def main(api: Api) -> Any:
        gateway = Gateway(api.server, address="127.0.0.1:6443", authorization=authorization)
        await gateway.start()
        gateway.publish("10.1.2.3", 6443)
        work = asyncio.get_running_loop().create_task(api.server.run())
        await asyncio.sleep(1)
        try:
            return await ask(api)
        finally:
            work.cancel()

    return on(main)


async def items(api: Api, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get(path)).body["items"]
    return found


def names(listed: list[dict[str, Any]]) -> list[str]:
    return [item["metadata"]["name"] for item in listed]


@pytest.mark.parametrize("authorization", ["AlwaysAllow", "RBAC"])
@pytest.mark.parametrize("resource", list(_RIGHTS))
def test_roles_and_bindings_are_upstreams(resource: str, authorization: str) -> None:
    stored = started(lambda api: items(api, f"{_RBAC}/{resource}"), authorization)
    found = {}
    for item in stored:
        meta = item.pop("metadata")
        key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
        found[key] = {**{field: meta[field] for field in ("labels", "annotations") if field in meta}, **item}
    assert found == _RIGHTS[resource]


def test_namespaces_and_the_first_service() -> None:
    async def ask(api: Api) -> Any:
        one = "/api/v1/namespaces/default/{}/kubernetes"
        service = (await api.get(one.format("services"))).body
        endpoints = (await api.get(one.format("endpoints"))).body
        slice_ = (await api.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")).body
        return names(await items(api, "/api/v1/namespaces")), service, endpoints, slice_

    namespaces, service, endpoints, slice_ = started(ask)
    assert namespaces == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert service["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    assert service["spec"]["clusterIP"] == "10.0.0.1"
    assert "selector" not in service["spec"]
    assert service["spec"]["ports"] == [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]
    ports = [{"name": "https", "port": 6443, "protocol": "TCP"}]
    assert endpoints["metadata"]["labels"] == {"endpointslice.kubernetes.io/skip-mirror": "true"}
    assert endpoints["subsets"] == [{"addresses": [{"ip": "10.1.2.3"}], "ports": ports}]
    assert slice_["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
    assert slice_["endpoints"] == [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}]
    assert (slice_["addressType"], slice_["ports"]) == ("IPv4", ports)


def test_the_range_of_services_and_their_addresses() -> None:
    async def ask(api: Api) -> Any:
        addresses = "/apis/networking.k8s.io/v1/ipaddresses"
        services = "/api/v1/namespaces/default/services"
        before = await items(api, addresses)
        made = await api.made(services, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
        await api.made(services, {"metadata": {"name": "h"}, "spec": {"clusterIP": "None"}})
        await asyncio.sleep(0.1)
        during = await items(api, addresses)
        await api.delete(f"{services}/s")
        await asyncio.sleep(0.1)
        cidr = (await api.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes")).body
        return before, made["spec"]["clusterIP"], during, await items(api, addresses), cidr

    before, given, during, after, cidr = started(ask)
    assert names(before) == names(after) == ["10.0.0.1"]
    assert before[0]["spec"] == {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}}
    assert before[0]["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    assert sorted(names(during)) == sorted(["10.0.0.1", given])
    assert cidr["spec"] == {"cidrs": ["10.0.0.0/24"]}
    assert [(each["type"], each["status"], each["message"]) for each in cidr["status"]["conditions"]] == [
        ("Ready", "True", "Kubernetes default Service CIDR is ready")
    ]


def test_the_servers_own_range_gives_nothing_while_its_object_goes_and_comes_back_after_it() -> None:
    async def ask(api: Api) -> Any:
        own, services = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", "/api/v1/namespaces/default/services"
        service = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
        uid = (await api.get(own)).meta["uid"]
        await api.patch(own, {"metadata": {"finalizers": ["example.com/hold"]}})
        await api.delete(own)
        refused = await api.post(services, service)
        assert refused.message.endswith("failed to allocate a serviceIP: range is full")
        events = await api.watch(f"{own.rpartition('/')[0]}?resourceVersion={api.store.revision}")
        await api.patch(own, {"metadata": {"finalizers": None}})
        seen = [(await events.next())[0] for _number in range(2)]
        assert (await api.get(own)).meta["uid"] != uid
        return seen, (await api.post(services, service)).status

    assert started(ask) == (["DELETED", "ADDED"], 201)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/services/kubernetes",
        "/api/v1/namespaces/default/endpoints/kubernetes",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
    ],
)
def test_the_way_to_the_server_comes_back_when_it_is_deleted(path: str) -> None:
    """As after ``kubectl delete all --all``."""

    async def ask(api: Api) -> Any:
        before = (await api.get(path)).body
        answer = await api.delete(path)
        assert answer.status == 200, answer.text
        await asyncio.sleep(0.1)
        after = (await api.get(path)).body
        return before, after, names(await items(api, "/apis/networking.k8s.io/v1/ipaddresses"))

    before, after, addresses = started(ask)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    for kept in (before, after):
        for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
            kept["metadata"].pop(field, None)
    assert after == before
    assert addresses == ["10.0.0.1"]


def test_the_namespace_of_the_nodes_leases_comes_back_when_it_is_gone() -> None:
    async def ask(api: Api) -> Any:
        path = "/api/v1/namespaces/kube-node-lease"
        uid = (await api.get(path)).meta["uid"]
        await api.delete(path)
        going = (await api.get(path)).body
        going["spec"]["finalizers"] = []
        await api.put(f"{path}/finalize", going)
        return uid, (await api.get(path)).meta["uid"]

    before, after = started(ask)
    assert after not in ("", before)


def test_flow_control_is_shown() -> None:
    async def ask(api: Api) -> Any:
        return await items(api, f"{_FLOW}/flowschemas"), await items(api, f"{_FLOW}/prioritylevelconfigurations")

    schemas, levels = started(ask)
    told = {
        schema["metadata"]["name"]: (
            schema["spec"]["priorityLevelConfiguration"]["name"],
            schema["spec"]["matchingPrecedence"],
            schema["spec"].get("distinguisherMethod", {}).get("type", ""),
        )
        for schema in schemas
    }
    assert told == {
        "exempt": ("exempt", 1, ""),
        "probes": ("exempt", 2, ""),
        "system-leader-election": ("leader-election", 100, "ByUser"),
        "system-node-high": ("node-high", 400, "ByUser"),
        "system-nodes": ("system", 500, "ByUser"),
        "kube-controller-manager": ("workload-high", 800, "ByNamespace"),
        "kube-scheduler": ("workload-high", 800, "ByNamespace"),
        "kube-system-service-accounts": ("workload-high", 900, "ByNamespace"),
        "service-accounts": ("workload-low", 9000, "ByUser"),
        "global-default": ("global-default", 9900, "ByUser"),
        "catch-all": ("catch-all", 10000, "ByUser"),
    }
    assert {schema["status"]["conditions"][0]["status"] for schema in schemas} == {"False"}
    assert sorted(names(levels)) == sorted({level for level, _, _ in told.values()} | {"workload-low"})
    assert {level["metadata"]["annotations"]["apf.kubernetes.io/autoupdate-spec"] for level in levels} == {"true"}


def test_every_group_version_has_an_api_service() -> None:
    async def ask(api: Api) -> Any:
        groups = (await api.get("/apis")).body["groups"]
        return await items(api, "/apis/apiregistration.k8s.io/v1/apiservices"), groups

    services, groups = started(ask)
    served = {f"{v['version']}.{g['name']}" for g in groups for v in g["versions"]} - {"v1.apiregistration.k8s.io"}
    assert set(names(services)) == {"v1.", *served}
    for service in services:
        assert service["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
        (condition,) = service["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")
    core = next(service for service in services if service["metadata"]["name"] == "v1.")
    assert core["spec"] == {"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}


def test_custom_groups_have_api_services_while_they_are_served() -> None:
    def definition(plural: str, *versions: str) -> dict[str, Any]:
        schema = {"openAPIV3Schema": {"type": "object"}}
        served = [
            {"name": version, "served": True, "storage": version == versions[0], "schema": schema}
            for version in versions
        ]
        names = {"plural": plural, "singular": plural[:-1], "kind": plural.capitalize(), "listKind": f"{plural}List"}
        spec = {"group": "sea.example.com", "scope": "Namespaced", "names": names, "versions": served}
        return {"metadata": {"name": f"{plural}.sea.example.com"}, "spec": spec}

    async def ask(api: Api) -> Any:
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

        async def custom() -> list[dict[str, Any]]:
            await asyncio.sleep(1)
            services = await items(api, "/apis/apiregistration.k8s.io/v1/apiservices")
            return [service for service in services if service["metadata"]["name"].endswith("example.com")]

        await api.made(definitions, definition("ships", "v1"))
        await api.made(definitions, definition("boats", "v1", "v1beta1"))
        both = await custom()
        await api.delete(f"{definitions}/boats.sea.example.com")
        one = await custom()
        await api.delete(f"{definitions}/ships.sea.example.com")
        return both, one, await custom()

    both, one, none = started(ask)
    assert names(both) == ["v1.sea.example.com", "v1beta1.sea.example.com"]
    assert both[0]["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "true"}
    assert both[0]["spec"] == {
        "group": "sea.example.com",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 100,
    }
    assert names(one) == ["v1.sea.example.com"]
    assert none == []


def test_the_server_says_that_it_is_there() -> None:
    async def ask(api: Api) -> Any:
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        first = await items(api, leases)
        await asyncio.sleep(20)
        return first, await items(api, leases), await items(api, "/api/v1/namespaces/kube-system/configmaps")

    (first,), (later,), maps = started(ask)
    assert first["metadata"]["name"].startswith("apiserver-")
    assert first["metadata"]["labels"]["apiserver.kubernetes.io/identity"] == "kube-apiserver"
    assert first["metadata"]["annotations"] == {"kubernetes.io/peer-advertise-address": "10.1.2.3:6443"}
    assert first["spec"]["holderIdentity"].startswith(first["metadata"]["name"] + "_")
    assert first["spec"]["leaseDurationSeconds"] == 3600
    assert later["spec"]["renewTime"] > first["spec"]["renewTime"]
    tracking = next(each for each in maps if each["metadata"]["name"].startswith("kube-apiserver-legacy"))
    assert len(tracking["data"]["since"]) == len("2026-01-01")
    assert server_name("host") == "apiserver-i5ak4y2hwalsyajfj72vxls274"


def test_the_next_start_repairs_roles_and_leaves_what_was_added() -> None:
    async def main(api: Api) -> Any:
        await Gateway(api.server, address="", authorization="RBAC").start()
        role = f"{_RBAC}/clusterroles/system:discovery"
        mine = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
        patched = await api.patch(role, {"rules": [mine]})
        assert patched.status == 200, patched.text
        await api.delete(f"{_RBAC}/clusterroles/system:basic-user")
        again = ApiServer(api.env, api.store)
        await Gateway(again, address="", authorization="RBAC").start()
        api.transport = again.transport("admin", ("system:masters",))
        rules = (await api.get(role)).body["rules"]
        return mine, rules, (await api.get(f"{_RBAC}/clusterroles/system:basic-user")).status

    mine, rules, status = on(main)
    assert rules == [mine, *_RIGHTS["clusterroles"]["system:discovery"]["rules"]]
    assert status == 200
