"""Allocation of cluster IPs, IP families and ports of Services (facts from kube-apiserver v1.36.2)."""

import asyncio
import re
from typing import Any

import pytest
from tests.apiserver.api import MERGE, Answer, Api, Object
from tests.tables import cases

from pilothouse.apiserver import ApiServer, ServerOptions
from pilothouse.env import Env

SERVICES = "/api/v1/namespaces/default/services"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
DUAL = ServerOptions(service_range="10.0.0.0/24,fd00::/112")


def _service(name: str = "s", **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def _changed(api: Api, created: Object, **spec: Any) -> Answer:
    """PUT the Service with another spec."""
    return await api.put(SERVICES + "/s", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}})


# Addresses


async def test_ip_address_objects_follow_the_service(api: Api) -> None:
    created = await api.create(SERVICES, _service())
    address = created["spec"]["clusterIP"]
    ip_address = await api.get(f"{ADDRESSES}/{address}")
    events = await api.watch(f"{ADDRESSES}?resourceVersion={api.store.revision}")
    await api.delete(SERVICES + "/s")
    type_, obj = await events.next()
    assert int(obj["metadata"]["resourceVersion"]) > int(ip_address.meta["resourceVersion"])
    remaining = [item["metadata"]["name"] for item in (await api.get(ADDRESSES)).body["items"]]
    status = (await api.get(f"{ADDRESSES}/{address}")).status
    type_and_remaining = [type_, *remaining]
    assert ip_address.body["spec"] == {"parentRef": {"resource": "services", "namespace": "default", "name": "s"}}
    assert ip_address.meta["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    assert (status, type_and_remaining) == (404, ["DELETED", "10.0.0.1"])


async def test_cluster_ip_is_released_with_its_service(api: Api) -> None:
    codes = []
    for name in ("a", "b"):
        codes.append((await api.post(SERVICES, _service(name, clusterIP="10.0.0.9"))).status)
    await api.delete(SERVICES + "/a")
    assert [*codes, (await api.post(SERVICES, _service("b", clusterIP="10.0.0.9"))).status] == [201, 422, 201]


@cases(
    "flag, services, statuses",
    {
        "larger range": ("10.0.0.0/16", ({"clusterIP": "10.0.0.5"}, {"clusterIP": "10.0.7.7"}), [201, 422]),
        "another range": ("10.1.0.0/16", ({"clusterIP": "10.0.0.5"}, {"clusterIP": "10.1.0.5"}), [201, 422]),
        "additional family": ("10.0.0.0/24,fd00::/112", ({"ipFamilyPolicy": "RequireDualStack"},), [201]),
    },
)
async def test_stored_service_cidr_takes_precedence_over_the_flag(
    api: Api, flag: str, services: tuple[Object, ...], statuses: list[int]
) -> None:
    """Unless the flag adds a family (``pkg/controlplane/controller/defaultservicecidr``, v1.36)."""
    stored = {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.0.0.0/24"]}}
    await api.create("/apis/networking.k8s.io/v1/servicecidrs", stored)
    restarted = ApiServer(api.env, api.store, options=ServerOptions(service_range=flag))
    api.transport = restarted.transport("admin", ("system:masters",))
    answers = [await api.post(SERVICES, _service(f"s{n}", **spec)) for n, spec in enumerate(services)]
    assert [answer.status for answer in answers] == statuses


async def test_concurrent_creates_get_unique_addresses_and_ports(api: Api) -> None:
    conflicting = [_service(f"a{n}", clusterIP="10.0.0.9", type="NodePort") for n in range(2)]
    answers = await asyncio.gather(*(api.post(SERVICES, body) for body in conflicting))
    concurrent_services = [_service(f"b{n}", type="NodePort") for n in range(20)]
    created = await asyncio.gather(*(api.create(SERVICES, body) for body in concurrent_services))
    specs = [body["spec"] for body in created]
    assert sorted(answer.status for answer in answers) == [201, 422]
    assert len({spec["clusterIP"] for spec in specs}) == 20
    assert len({spec["ports"][0]["nodePort"] for spec in specs}) == 20


async def test_existing_allocations_are_restored_at_startup(api: Api) -> None:
    await api.create(SERVICES, _service(clusterIP="10.0.0.9"))
    await api.delete(f"{ADDRESSES}/10.0.0.9")
    restarted = ApiServer(api.env, api.store)
    api.transport = restarted.transport("admin", ("system:masters",))
    status = (await api.post(SERVICES, _service("b", clusterIP="10.0.0.9"))).status
    await api.create(SERVICES, _service("c", clusterIP="10.0.0.8"))
    assert status == 422
    assert [item["metadata"]["name"] for item in (await api.get(ADDRESSES)).body["items"]] == [
        "10.0.0.1",
        "10.0.0.8",
        "10.0.0.9",
    ]


async def test_exhausted_range_is_an_error(env: Env) -> None:
    api = Api(env, ServerOptions(service_range="10.0.0.0/29"))
    addresses = [(await api.create(SERVICES, _service(f"s{n}")))["spec"]["clusterIP"] for n in range(5)]
    rejected = await api.post(SERVICES, _service("more"))
    assert sorted(addresses) == [f"10.0.0.{n}" for n in range(2, 7)]
    assert rejected.status == 500
    assert (
        rejected.message == 'Internal error occurred: failed to allocate a serviceIP for Service "more": range is full'
    )


async def test_additional_service_cidr(api: Api) -> None:
    status = (await api.post(SERVICES, _service("a", clusterIP="10.9.0.5"))).status
    cidr = {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/24"]}}
    await api.create("/apis/networking.k8s.io/v1/servicecidrs", cidr)
    assert (status, (await api.post(SERVICES, _service("a", clusterIP="10.9.0.5"))).status) == (422, 201)


CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"


def _service_cidr(name: str, *cidrs: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"cidrs": list(cidrs)}}


async def test_next_service_cidr_is_used_when_one_is_full(env: Env) -> None:
    api = Api(env, ServerOptions(service_range="10.0.0.0/29"))
    await api.create(CIDRS, _service_cidr("more", "10.9.0.0/29"))
    addresses = [(await api.create(SERVICES, _service(f"s{n}")))["spec"]["clusterIP"] for n in range(8)]
    assert sorted(addresses[:5]) == [f"10.0.0.{n}" for n in range(2, 7)]
    assert [address.rpartition(".")[0] for address in addresses[5:]] == ["10.9.0"] * 3


@pytest.mark.parametrize("address", ["10.9.0.0", "10.9.0.7", "10.9.0.8"])
async def test_network_and_broadcast_addresses_are_not_allocated(api: Api, address: str) -> None:
    """``TestPrefixContainsIP``."""
    await api.create(CIDRS, _service_cidr("more", "10.9.0.0/29"))
    rejected = await api.post(SERVICES, _service(clusterIP=address))
    assert rejected.status == 422
    assert "the provided network does not match the current range" in rejected.message


async def test_unready_or_terminating_service_cidr_allocates_nothing(api: Api) -> None:
    codes = []
    service_cidr = _service_cidr("more", "10.9.0.0/24")
    service_cidr["metadata"]["finalizers"] = ["networking.k8s.io/service-cidr-finalizer"]
    await api.create(CIDRS, service_cidr)
    existing = await api.create(SERVICES, _service("kept", clusterIP="10.9.0.1"))
    for number, ready in enumerate(("False", "True", "")):
        if ready:
            condition = {"type": "Ready", "status": ready, "reason": "", "message": ""}
            whole_condition = {**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}
            status = {"status": {"conditions": [whole_condition]}}
            codes.append((await api.patch(f"{CIDRS}/more/status", status, MERGE)).status)
        else:
            codes.append((await api.delete(f"{CIDRS}/more")).status)
        codes.append((await api.post(SERVICES, _service(f"s{number}", clusterIP=f"10.9.0.{number + 2}"))).status)
    existing["spec"]["ports"] = [{"port": 81}]
    codes.append((await api.put(f"{SERVICES}/kept", existing)).status)
    assert codes == [200, 422, 200, 201, 200, 422, 200]


async def test_deleted_ip_address_object_is_recreated(api: Api) -> None:
    await api.create(SERVICES, _service(clusterIP="10.0.0.9"))
    uid = (await api.get(f"{ADDRESSES}/10.0.0.9")).meta["uid"]
    await api.delete(f"{ADDRESSES}/10.0.0.9")
    recreated = await api.get(f"{ADDRESSES}/10.0.0.9")
    assert recreated.body["spec"]["parentRef"]["name"] == "s"
    await api.delete(f"{SERVICES}/s")
    assert (await api.get(f"{ADDRESSES}/10.0.0.9")).status == 404
    new_uid = recreated.meta["uid"]
    assert uid != new_uid


async def test_dry_run_allocates_nothing(api: Api) -> None:
    answer = await api.post(SERVICES + "?dryRun=All", _service(clusterIP="10.0.0.7"))
    assert answer.body["spec"]["clusterIP"] == "10.0.0.7"
    assert (await api.post(SERVICES, _service("b", clusterIP="10.0.0.7"))).status == 201


@cases(
    "spec, families, policy, count",
    {
        "one family by default": ({}, ["IPv4"], "SingleStack", 1),
        "PreferDualStack": ({"ipFamilyPolicy": "PreferDualStack"}, ["IPv4", "IPv6"], "PreferDualStack", 2),
        "RequireDualStack": ({"ipFamilyPolicy": "RequireDualStack"}, ["IPv4", "IPv6"], "RequireDualStack", 2),
        "IPv6 only": ({"ipFamilies": ["IPv6"]}, ["IPv6"], "SingleStack", 1),
        "families in the requested order": (
            {"ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "RequireDualStack"},
            ["IPv6", "IPv4"],
            "RequireDualStack",
            2,
        ),
        "families of the requested cluster IPs": (
            {"clusterIP": "fd00::5", "clusterIPs": ["fd00::5", "10.0.0.5"], "ipFamilyPolicy": "PreferDualStack"},
            ["IPv6", "IPv4"],
            "PreferDualStack",
            2,
        ),
        "headless without selector": ({"clusterIP": "None"}, ["IPv4", "IPv6"], "RequireDualStack", 1),
        "headless with selector": ({"clusterIP": "None", "selector": {"a": "b"}}, ["IPv4"], "SingleStack", 1),
    },
)
async def test_dual_stack_ip_families(env: Env, spec: Object, families: list[str], policy: str, count: int) -> None:
    api = Api(env, DUAL)
    created: Object = (await api.create(SERVICES, _service(**spec)))["spec"]
    assert (created["ipFamilies"], created["ipFamilyPolicy"], len(created["clusterIPs"])) == (families, policy, count)
    assert created["clusterIP"] == created["clusterIPs"][0]
    if created["clusterIP"] != "None":
        assert [":" in address for address in created["clusterIPs"]] == [family == "IPv6" for family in families]


async def test_secondary_ip_family_is_added_and_removed(env: Env) -> None:
    api = Api(env, DUAL)
    await api.create(SERVICES, _service())
    upgraded = await api.patch(SERVICES + "/s", {"spec": {"ipFamilyPolicy": "PreferDualStack"}})
    addresses = upgraded.body["spec"]["clusterIPs"]
    downgraded = await api.patch(SERVICES + "/s", {"spec": {"ipFamilyPolicy": "SingleStack"}})
    remaining = downgraded.body["spec"]["clusterIPs"]
    spec = downgraded.body["spec"]
    count = len((await api.get(ADDRESSES)).body["items"])
    assert len(addresses) == 2
    assert remaining == addresses[:1]
    assert spec["ipFamilies"] == ["IPv4"]
    assert count == 2, "the address of kubernetes, and the first one of the Service"


@cases(
    "spec, message",
    {
        "RequireDualStack in a single-stack cluster": (
            {"ipFamilyPolicy": "RequireDualStack"},
            'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack '
            "services",
        ),
        "unconfigured family": (
            {"ipFamilies": ["IPv6"]},
            'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster',
        ),
        "cluster IP of an unconfigured family": (
            {"clusterIP": "fd00::1"},
            'spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster',
        ),
        "invalid cluster IP": (
            {"clusterIP": "nonsense"},
            'spec.clusterIPs[0]: Invalid value: "nonsense": must be a valid IP address, (e.g. 10.9.8.7 or '
            "2001:db8::ffff)",
        ),
        "headless NodePort Service": (
            {"clusterIP": "None", "type": "NodePort"},
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
        ),
        "node port of a ClusterIP Service": (
            {"ports": [{"port": 80, "nodePort": 30080}]},
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
        "ExternalName without externalName": ({"type": "ExternalName"}, "spec.externalName: Required value"),
        "unsupported type": (
            {"type": "Other"},
            'spec.type: Unsupported value: "Other": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
            '"NodePort"',
        ),
        "healthCheckNodePort of a ClusterIP Service": (
            {"healthCheckNodePort": 31000},
            "spec.healthCheckNodePort: Invalid value: 31000: may only be set when `type` is 'LoadBalancer' and "
            "`externalTrafficPolicy` is 'Local'",
        ),
    },
)
async def test_rejected_services(api: Api, spec: Object, message: str) -> None:
    answer = await api.post(SERVICES, _service(**spec))
    assert (answer.status, answer.message) == (422, f'Service "s" is invalid: {message}')


async def test_rejection_has_the_generated_name(api: Api) -> None:
    """Names are generated before addresses are allocated, since v1.30."""
    body = {"metadata": {"generateName": "made-"}, "spec": {"ports": [{"port": 80}], "clusterIP": "10.9.9.9"}}
    answer = await api.post(SERVICES, body)
    name = answer.body["details"]["name"]
    assert re.fullmatch("made-[a-z0-9]{5}", name)
    assert answer.message.startswith(f'Service "{name}" is invalid: spec.clusterIPs: Invalid value: ["10.9.9.9"]: ')


async def test_duplicate_ports_are_rejected(api: Api) -> None:
    ports = [{"name": "a", "port": 80}, {"name": "a", "port": 80}, {"port": 81}]
    causes: list[Object] = (await api.post(SERVICES, _service(ports=ports))).body["details"]["causes"]
    assert [(cause["field"], cause["reason"]) for cause in causes] == [
        ("spec.ports[1].name", "FieldValueDuplicate"),
        ("spec.ports[2].name", "FieldValueRequired"),
        ("spec.ports[1]", "FieldValueDuplicate"),
    ]


# Ports


async def test_node_port_is_shared_by_two_protocols(api: Api) -> None:
    ports = [{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}, {"name": "w", "port": 80}]
    created = await api.create(SERVICES, _service(type="NodePort", ports=ports))
    first, second, third = [port["nodePort"] for port in created["spec"]["ports"]]
    assert first == second != third


async def test_node_port_is_unique(api: Api) -> None:
    def wanted(name: str) -> Object:
        return _service(name, type="NodePort", ports=[{"port": 80, "nodePort": 30080}])

    await api.create(SERVICES, wanted("a"))
    rejected = await api.post(SERVICES, wanted("b"))
    await api.delete(SERVICES + "/a")
    status = (await api.post(SERVICES, wanted("b"))).status
    assert rejected.message == (
        'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated'
    )
    assert status == 201


async def test_health_check_node_port_for_local_traffic(api: Api) -> None:
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    created = await api.create(SERVICES, _service(**local))
    changed = await _changed(api, created, **local, healthCheckNodePort=31234)
    unchanged = await _changed(api, created, **local)
    spec = created["spec"]
    assert spec["healthCheckNodePort"] in range(30000, 32768)
    assert spec["healthCheckNodePort"] != spec["ports"][0]["nodePort"]
    assert changed.message == ('Service "s" is invalid: spec.healthCheckNodePort: Forbidden: field is immutable')
    assert unchanged.body["spec"]["healthCheckNodePort"] == spec["healthCheckNodePort"]


# Changes


async def test_change_to_external_name_releases_the_cluster_ip(api: Api) -> None:
    created = await api.create(SERVICES, _service())
    external_name = await api.patch(
        SERVICES + "/s", {"spec": {"type": "ExternalName", "externalName": "a.example.com"}}
    )
    count = len((await api.get(ADDRESSES)).body["items"])
    cluster_ip = await api.patch(SERVICES + "/s", {"spec": {"type": "ClusterIP", "externalName": None}})
    assert created["spec"]["clusterIP"]
    external_name = external_name.body["spec"]
    cluster_ip = cluster_ip.body["spec"]
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"} & set(external_name)
    assert count == 1
    assert cluster_ip["clusterIP"] == cluster_ip["clusterIPs"][0]


async def test_change_to_cluster_ip_drops_load_balancer_fields(api: Api) -> None:
    created = await api.create(SERVICES, _service(type="LoadBalancer", loadBalancerClass="a.b/c"))
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    assert (await api.patch(SERVICES + "/s/status", status)).status == 200
    answer = await api.patch(SERVICES + "/s", {"spec": {"type": "ClusterIP"}}, MERGE)
    assert answer.status == 200, answer.text
    old_spec = created["spec"]
    new = answer.body
    assert new["status"] == {"loadBalancer": {}}
    dropped = {"allocateLoadBalancerNodePorts", "loadBalancerClass", "externalTrafficPolicy"}
    assert dropped <= set(old_spec)
    assert not dropped & set(new["spec"])
    assert "nodePort" not in new["spec"]["ports"][0]
    assert new["spec"]["clusterIP"] == old_spec["clusterIP"]


@cases(
    "change, message",
    {
        "another cluster IP": (
            {"clusterIP": "10.0.0.77", "clusterIPs": ["10.0.0.77"]},
            'spec.clusterIPs[0]: Invalid value: ["10.0.0.77"]: may not change once set',
        ),
        "headless": (
            {"clusterIP": "None", "clusterIPs": ["None"]},
            'spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set',
        ),
    },
)
async def test_immutable_fields(api: Api, change: Object, message: str) -> None:
    await api.create(SERVICES, _service())
    answer = await api.patch(SERVICES + "/s", {"spec": change})
    assert answer.status == 422
    assert message in answer.message


async def test_node_ports_are_kept_by_port_name(api: Api) -> None:
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    created = await api.create(SERVICES, _service(type="NodePort", ports=ports))
    swapped = [{"name": "b", "port": 81}, {"name": "a", "port": 8080}]
    old_ports = created["spec"]["ports"]
    new_ports = (await _changed(api, created, type="NodePort", ports=swapped)).body["spec"]["ports"]
    assert [port["nodePort"] for port in new_ports] == [port["nodePort"] for port in reversed(old_ports)]
