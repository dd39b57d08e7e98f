"""Bootstrap objects, as in kube-apiserver v1.36.2, and their recreation after deletion."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.api import Api, started
from tests.custom_resources import DEFINITIONS, definition, version

from pilothouse.apiserver.controllers.identity_lease import server_name
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.apiserver.server import ApiServer

_RIGHTS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "rbac.json").read_text())
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"


async def items(api: Api, path: str) -> list[dict[str, Any]]:
    obj: list[dict[str, Any]] = (await api.get(path)).body["items"]
    return obj


def names(listed: list[dict[str, Any]]) -> list[str]:
    return [item["metadata"]["name"] for item in listed]


@pytest.mark.parametrize("authorization", ["AlwaysAllow", "RBAC"])
@pytest.mark.parametrize("resource", list(_RIGHTS))
async def test_bootstrap_roles_and_bindings_are_upstreams(api: Api, resource: str, authorization: str) -> None:
    async with started(api, authorization):
        stored = await items(api, f"{_RBAC}/{resource}")
    result = {}
    for item in stored:
        meta = item.pop("metadata")
        key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
        result[key] = {**{field: meta[field] for field in ("labels", "annotations") if field in meta}, **item}
    assert result == _RIGHTS[resource]


async def test_bootstrap_namespaces_and_kubernetes_service(started_api: Api) -> None:
    one = "/api/v1/namespaces/default/{}/kubernetes"
    service = (await started_api.get(one.format("services"))).body
    endpoints = (await started_api.get(one.format("endpoints"))).body
    slice_ = (await started_api.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes")).body
    namespaces = names(await items(started_api, "/api/v1/namespaces"))
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


async def test_default_service_cidr_and_ip_addresses(started_api: Api) -> None:
    addresses = "/apis/networking.k8s.io/v1/ipaddresses"
    services = "/api/v1/namespaces/default/services"
    before = await items(started_api, addresses)
    created = await started_api.create(services, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    await started_api.create(services, {"metadata": {"name": "h"}, "spec": {"clusterIP": "None"}})
    await asyncio.sleep(0.1)
    during = await items(started_api, addresses)
    await started_api.delete(f"{services}/s")
    await asyncio.sleep(0.1)
    cidr = (await started_api.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes")).body
    requested_ip = created["spec"]["clusterIP"]
    after = await items(started_api, addresses)
    assert names(before) == names(after) == ["10.0.0.1"]
    assert before[0]["spec"] == {"parentRef": {"resource": "services", "namespace": "default", "name": "kubernetes"}}
    assert before[0]["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    assert sorted(names(during)) == sorted(["10.0.0.1", requested_ip])
    assert cidr["spec"] == {"cidrs": ["10.0.0.0/24"]}
    assert [
        (condition["type"], condition["status"], condition["message"]) for condition in cidr["status"]["conditions"]
    ] == [("Ready", "True", "Kubernetes default Service CIDR is ready")]


async def test_terminating_default_service_cidr_is_not_used_and_recreated(
    started_api: Api,
) -> None:
    own, services = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes", "/api/v1/namespaces/default/services"
    service = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    uid = (await started_api.get(own)).meta["uid"]
    await started_api.patch(own, {"metadata": {"finalizers": ["example.com/hold"]}})
    await started_api.delete(own)
    rejected = await started_api.post(services, service)
    assert rejected.message.endswith('failed to allocate a serviceIP for Service "a": range is full')
    events = await started_api.watch(f"{own.rpartition('/')[0]}?resourceVersion={started_api.store.revision}")
    await started_api.patch(own, {"metadata": {"finalizers": None}})
    observed = [(await events.next())[0] for _number in range(2)]
    assert (await started_api.get(own)).meta["uid"] != uid
    assert (observed, (await started_api.post(services, service)).status) == (["DELETED", "ADDED"], 201)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/default/services/kubernetes",
        "/api/v1/namespaces/default/endpoints/kubernetes",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
    ],
)
async def test_deleted_kubernetes_service_is_recreated(started_api: Api, path: str) -> None:
    """As after ``kubectl delete all --all``."""
    before = (await started_api.get(path)).body
    answer = await started_api.delete(path)
    assert answer.status == 200, answer.text
    # If several servers share the store, each checks every ten seconds which are alive, as upstream.
    await asyncio.sleep(11 if started_api.store.is_shared else 0.1)
    after = (await started_api.get(path)).body
    addresses = names(await items(started_api, "/apis/networking.k8s.io/v1/ipaddresses"))
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    for kept in (before, after):
        for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
            kept["metadata"].pop(field, None)
    assert after == before
    assert addresses == ["10.0.0.1"]


async def test_deleted_node_lease_namespace_is_recreated(started_api: Api) -> None:
    path = "/api/v1/namespaces/kube-node-lease"
    uid = (await started_api.get(path)).meta["uid"]
    await started_api.delete(path)
    going = (await started_api.get(path)).body
    going["spec"]["finalizers"] = []
    await started_api.put(f"{path}/finalize", going)
    after = (await started_api.get(path)).meta["uid"]
    assert after not in ("", uid)


async def test_flow_control_objects_are_served(started_api: Api) -> None:
    schemas = await items(started_api, f"{_FLOW}/flowschemas")
    levels = await items(started_api, f"{_FLOW}/prioritylevelconfigurations")
    reported = {
        schema["metadata"]["name"]: (
            schema["spec"]["priorityLevelConfiguration"]["name"],
            schema["spec"]["matchingPrecedence"],
            schema["spec"].get("distinguisherMethod", {}).get("type", ""),
        )
        for schema in schemas
    }
    assert reported == {
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
    assert sorted(names(levels)) == sorted({level for level, _, _ in reported.values()} | {"workload-low"})
    assert {level["metadata"]["annotations"]["apf.kubernetes.io/autoupdate-spec"] for level in levels} == {"true"}


async def test_every_group_version_has_an_api_service(started_api: Api) -> None:
    groups = (await started_api.get("/apis")).body["groups"]
    services = await items(started_api, "/apis/apiregistration.k8s.io/v1/apiservices")
    served = {f"{v['version']}.{g['name']}" for g in groups for v in g["versions"]} - {"v1.apiregistration.k8s.io"}
    assert set(names(services)) == {"v1.", *served}
    for service in services:
        assert service["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
        (condition,) = service["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Available", "True", "Local")
    core = next(service for service in services if service["metadata"]["name"] == "v1.")
    assert core["spec"] == {"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}


async def test_api_services_of_custom_groups(started_api: Api) -> None:
    async def custom() -> list[dict[str, Any]]:
        await asyncio.sleep(1)
        services = await items(started_api, "/apis/apiregistration.k8s.io/v1/apiservices")
        return [service for service in services if service["metadata"]["name"].endswith("example.com")]

    await started_api.create(DEFINITIONS, definition("Ship", group="sea.example.com"))
    await started_api.create(
        DEFINITIONS, definition("Boat", version(), version("v1beta1", storage=False), group="sea.example.com")
    )
    both = await custom()
    await started_api.delete(f"{DEFINITIONS}/boats.sea.example.com")
    one = await custom()
    await started_api.delete(f"{DEFINITIONS}/ships.sea.example.com")
    none = await custom()
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


async def test_identity_lease(started_api: Api) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
    (first,) = await items(started_api, leases)
    await asyncio.sleep(20)
    (later,) = await items(started_api, leases)
    maps = await items(started_api, "/api/v1/namespaces/kube-system/configmaps")
    assert first["metadata"]["name"].startswith("apiserver-")
    assert first["metadata"]["labels"]["apiserver.kubernetes.io/identity"] == "kube-apiserver"
    assert first["metadata"]["annotations"] == {"kubernetes.io/peer-advertise-address": "10.1.2.3:6443"}
    assert first["spec"]["holderIdentity"].startswith(first["metadata"]["name"] + "_")
    assert first["spec"]["leaseDurationSeconds"] == 3600
    assert later["spec"]["renewTime"] > first["spec"]["renewTime"]
    tracking = next(item for item in maps if item["metadata"]["name"].startswith("kube-apiserver-legacy"))
    assert len(tracking["data"]["since"]) == len("2026-01-01")
    assert server_name("host") == "apiserver-i5ak4y2hwalsyajfj72vxls274"


async def test_restart_repairs_roles_and_keeps_additions(api: Api) -> None:
    await HandlerChain(api.server, address="", authorization="RBAC").start()
    role = f"{_RBAC}/clusterroles/system:discovery"
    custom_rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}
    patched = await api.patch(role, {"rules": [custom_rule]})
    assert patched.status == 200, patched.text
    await api.delete(f"{_RBAC}/clusterroles/system:basic-user")
    again = ApiServer(api.env, api.store)
    await HandlerChain(again, address="", authorization="RBAC").start()
    api.transport = again.transport("admin", ("system:masters",))
    rules = (await api.get(role)).body["rules"]
    status = (await api.get(f"{_RBAC}/clusterroles/system:basic-user")).status
    assert rules == [custom_rule, *_RIGHTS["clusterroles"]["system:discovery"]["rules"]]
    assert status == 200
