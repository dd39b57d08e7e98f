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


async def _changed(api: Api, made: Object, **spec: Any) -> Answer:
    """PUT the same service with another spec."""
    return await api.put(SERVICES + "/s", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}})


# Addresses


async def test_ip_address_objects_follow_the_service(api: Api) -> None:
    made = await api.create(SERVICES, _service())
    address = made["spec"]["clusterIP"]
    found = await api.get(f"{ADDRESSES}/{address}")
    events = await api.watch(f"{ADDRESSES}?resourceVersion={api.store.revision}")
    await api.delete(SERVICES + "/s")
    type_, obj = await events.next()
    assert int(obj["metadata"]["resourceVersion"]) > int(found.meta["resourceVersion"])
    left = [item["metadata"]["name"] for item in (await api.get(ADDRESSES)).body["items"]]
    gone = (await api.get(f"{ADDRESSES}/{address}")).status
    seen = [type_, *left]
    assert found.body["spec"] == {"parentRef": {"resource": "services", "namespace": "default", "name": "s"}}
    assert found.meta["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    assert (gone, seen) == (404, ["DELETED", "10.0.0.1"])


async def test_cluster_ip_is_released_with_its_service(api: Api) -> None:
    codes = []
    for name in ("a", "b"):
        codes.append((await api.post(SERVICES, _service(name, clusterIP="10.0.0.9"))).status)
    await api.delete(SERVICES + "/a")
    assert [*codes, (await api.post(SERVICES, _service("b", clusterIP="10.0.0.9"))).status] == [201, 422, 201]


@cases(
    "flag, services, statuses",
    {
        "a larger one": ("10.0.0.0/16", ({"clusterIP": "10.0.0.5"}, {"clusterIP": "10.0.7.7"}), [201, 422]),
        "another one": ("10.1.0.0/16", ({"clusterIP": "10.0.0.5"}, {"clusterIP": "10.1.0.5"}), [201, 422]),
        "a second family": ("10.0.0.0/24,fd00::/112", ({"ipFamilyPolicy": "RequireDualStack"},), [201]),
    },
)
async def test_stored_service_cidr_takes_precedence_over_the_flag(
    api: Api, flag: str, services: tuple[Object, ...], statuses: list[int]
) -> None:
    """Unless the flag adds a family (``pkg/controlplane/controller/defaultservicecidr``, v1.36)."""
    stored = {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.0.0.0/24"]}}
    await api.create("/apis/networking.k8s.io/v1/servicecidrs", stored)
    again = ApiServer(api.env, api.store, options=ServerOptions(service_range=flag))
    api.transport = again.transport("admin", ("system:masters",))
    answers = [await api.post(SERVICES, _service(f"s{n}", **spec)) for n, spec in enumerate(services)]
    assert [answer.status for answer in answers] == statuses


async def test_concurrent_creates_get_unique_addresses_and_ports(api: Api) -> None:
    same = [_service(f"a{n}", clusterIP="10.0.0.9", type="NodePort") for n in range(2)]
    answers = await asyncio.gather(*(api.post(SERVICES, body) for body in same))
    others = [_service(f"b{n}", type="NodePort") for n in range(20)]
    made = await asyncio.gather(*(api.create(SERVICES, body) for body in others))
    specs = [body["spec"] for body in made]
    assert sorted(answer.status for answer in answers) == [201, 422]
    assert len({spec["clusterIP"] for spec in specs}) == 20
    assert len({spec["ports"][0]["nodePort"] for spec in specs}) == 20


async def test_existing_allocations_are_restored_at_startup(api: Api) -> None:
    await api.create(SERVICES, _service(clusterIP="10.0.0.9"))
    await api.delete(f"{ADDRESSES}/10.0.0.9")
    again = ApiServer(api.env, api.store)
    api.transport = again.transport("admin", ("system:masters",))
    refused = (await api.post(SERVICES, _service("b", clusterIP="10.0.0.9"))).status
    await api.create(SERVICES, _service("c", clusterIP="10.0.0.8"))
    assert refused == 422
    assert [item["metadata"]["name"] for item in (await api.get(ADDRESSES)).body["items"]] == [
        "10.0.0.1",
        "10.0.0.8",
        "10.0.0.9",
    ]


async def test_exhausted_range_is_an_error(env: Env) -> None:
    api = Api(env, ServerOptions(service_range="10.0.0.0/29"))
    made = [(await api.create(SERVICES, _service(f"s{n}")))["spec"]["clusterIP"] for n in range(5)]
    refused = await api.post(SERVICES, _service("more"))
    assert sorted(made) == [f"10.0.0.{n}" for n in range(2, 7)]
    assert refused.status == 500
    assert (
        refused.message == 'Internal error occurred: failed to allocate a serviceIP for Service "more": range is full'
    )


async def test_additional_service_cidr(api: Api) -> None:
    before = (await api.post(SERVICES, _service("a", clusterIP="10.9.0.5"))).status
    cidr = {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/24"]}}
    await api.create("/apis/networking.k8s.io/v1/servicecidrs", cidr)
    assert (before, (await api.post(SERVICES, _service("a", clusterIP="10.9.0.5"))).status) == (422, 201)


CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"


def _range(name: str, *cidrs: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"cidrs": list(cidrs)}}


async def test_next_service_cidr_is_used_when_one_is_full(env: Env) -> None:
    api = Api(env, ServerOptions(service_range="10.0.0.0/29"))
    await api.create(CIDRS, _range("more", "10.9.0.0/29"))
    made = [(await api.create(SERVICES, _service(f"s{n}")))["spec"]["clusterIP"] for n in range(8)]
    assert sorted(made[:5]) == [f"10.0.0.{n}" for n in range(2, 7)]
    assert [address.rpartition(".")[0] for address in made[5:]] == ["10.9.0"] * 3


@pytest.mark.parametrize("address", ["10.9.0.0", "10.9.0.7", "10.9.0.8"])
async def test_network_and_broadcast_addresses_are_not_allocated(api: Api, address: str) -> None:
    """``TestPrefixContainsIP``."""
    await api.create(CIDRS, _range("more", "10.9.0.0/29"))
    refused = await api.post(SERVICES, _service(clusterIP=address))
    assert refused.status == 422
    assert "the provided network does not match the current range" in refused.message


async def test_unready_or_terminating_service_cidr_allocates_nothing(api: Api) -> None:
    codes = []
    whole = _range("more", "10.9.0.0/24")
    whole["metadata"]["finalizers"] = ["networking.k8s.io/service-cidr-finalizer"]
    await api.create(CIDRS, whole)
    kept = await api.create(SERVICES, _service("kept", clusterIP="10.9.0.1"))
    for number, change in enumerate(("False", "True", "")):
        if change:
            condition = {"type": "Ready", "status": change, "reason": "", "message": ""}
            whole_condition = {**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}
            status = {"status": {"conditions": [whole_condition]}}
            codes.append((await api.patch(f"{CIDRS}/more/status", status, MERGE)).status)
        else:
            codes.append((await api.delete(f"{CIDRS}/more")).status)
        codes.append((await api.post(SERVICES, _service(f"s{number}", clusterIP=f"10.9.0.{number + 2}"))).status)
    kept["spec"]["ports"] = [{"port": 81}]
    codes.append((await api.put(f"{SERVICES}/kept", kept)).status)
    assert codes == [200, 422, 200, 201, 200, 422, 200]


async def test_deleted_ip_address_object_is_recreated(api: Api) -> None:
    await api.create(SERVICES, _service(clusterIP="10.0.0.9"))
    uid = (await api.get(f"{ADDRESSES}/10.0.0.9")).meta["uid"]
    await api.delete(f"{ADDRESSES}/10.0.0.9")
    found = await api.get(f"{ADDRESSES}/10.0.0.9")
    assert found.body["spec"]["parentRef"]["name"] == "s"
    await api.delete(f"{SERVICES}/s")
    assert (await api.get(f"{ADDRESSES}/10.0.0.9")).status == 404
    after = found.meta["uid"]
    assert uid != after


async def test_dry_run_allocates_nothing(api: Api) -> None:
    tried = await api.post(SERVICES + "?dryRun=All", _service(clusterIP="10.0.0.7"))
    assert tried.body["spec"]["clusterIP"] == "10.0.0.7"
    assert (await api.post(SERVICES, _service("b", clusterIP="10.0.0.7"))).status == 201


@cases(
    "spec, families, policy, count",
    {
        "one family by default": ({}, ["IPv4"], "SingleStack", 1),
        "two preferred": ({"ipFamilyPolicy": "PreferDualStack"}, ["IPv4", "IPv6"], "PreferDualStack", 2),
        "two demanded": ({"ipFamilyPolicy": "RequireDualStack"}, ["IPv4", "IPv6"], "RequireDualStack", 2),
        "the other one": ({"ipFamilies": ["IPv6"]}, ["IPv6"], "SingleStack", 1),
        "in the order that was asked for": (
            {"ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "RequireDualStack"},
            ["IPv6", "IPv4"],
            "RequireDualStack",
            2,
        ),
        "addresses say of which families they are": (
            {"clusterIP": "fd00::5", "clusterIPs": ["fd00::5", "10.0.0.5"], "ipFamilyPolicy": "PreferDualStack"},
            ["IPv6", "IPv4"],
            "PreferDualStack",
            2,
        ),
        "headless, no selector": ({"clusterIP": "None"}, ["IPv4", "IPv6"], "RequireDualStack", 1),
        "headless with a selector": ({"clusterIP": "None", "selector": {"a": "b"}}, ["IPv4"], "SingleStack", 1),
    },
)
async def test_dual_stack_ip_families(env: Env, spec: Object, families: list[str], policy: str, count: int) -> None:
    api = Api(env, DUAL)
    made: Object = (await api.create(SERVICES, _service(**spec)))["spec"]
    assert (made["ipFamilies"], made["ipFamilyPolicy"], len(made["clusterIPs"])) == (families, policy, count)
    assert made["clusterIP"] == made["clusterIPs"][0]
    if made["clusterIP"] != "None":
        assert [":" in address for address in made["clusterIPs"]] == [family == "IPv6" for family in families]


async def test_secondary_ip_family_is_added_and_removed(env: Env) -> None:
    api = Api(env, DUAL)
    await api.create(SERVICES, _service())
    up = await api.patch(SERVICES + "/s", {"spec": {"ipFamilyPolicy": "PreferDualStack"}})
    both = up.body["spec"]["clusterIPs"]
    down = await api.patch(SERVICES + "/s", {"spec": {"ipFamilyPolicy": "SingleStack"}})
    one = down.body["spec"]["clusterIPs"]
    spec = down.body["spec"]
    count = len((await api.get(ADDRESSES)).body["items"])
    assert len(both) == 2
    assert one == both[:1]
    assert spec["ipFamilies"] == ["IPv4"]
    assert count == 2, "that of kubernetes, and the first of the service"


@cases(
    "spec, message",
    {
        "two families where there is one": (
            {"ipFamilyPolicy": "RequireDualStack"},
            'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack '
            "services",
        ),
        "a family that is not there": (
            {"ipFamilies": ["IPv6"]},
            'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster',
        ),
        "an address of a family that is not there": (
            {"clusterIP": "fd00::1"},
            'spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster',
        ),
        "no address": (
            {"clusterIP": "nonsense"},
            'spec.clusterIPs[0]: Invalid value: "nonsense": must be a valid IP address, (e.g. 10.9.8.7 or '
            "2001:db8::ffff)",
        ),
        "headless and reachable from outside": (
            {"clusterIP": "None", "type": "NodePort"},
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
        ),
        "a node port without being reachable": (
            {"ports": [{"port": 80, "nodePort": 30080}]},
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
        "an alias for nothing": ({"type": "ExternalName"}, "spec.externalName: Required value"),
        "no type": (
            {"type": "Other"},
            'spec.type: Unsupported value: "Other": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
            '"NodePort"',
        ),
        "a health check of nothing": (
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
    """Names are generated before addresses are looked for, since v1.30."""
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
    made = await api.create(SERVICES, _service(type="NodePort", ports=ports))
    first, second, third = [port["nodePort"] for port in made["spec"]["ports"]]
    assert first == second != third


async def test_node_port_is_unique(api: Api) -> None:
    def wanted(name: str) -> Object:
        return _service(name, type="NodePort", ports=[{"port": 80, "nodePort": 30080}])

    await api.create(SERVICES, wanted("a"))
    refused = await api.post(SERVICES, wanted("b"))
    await api.delete(SERVICES + "/a")
    again = (await api.post(SERVICES, wanted("b"))).status
    assert refused.message == (
        'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated'
    )
    assert again == 201


async def test_health_check_node_port_for_local_traffic(api: Api) -> None:
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    made = await api.create(SERVICES, _service(**local))
    other = await _changed(api, made, **local, healthCheckNodePort=31234)
    kept = await _changed(api, made, **local)
    spec = made["spec"]
    assert spec["healthCheckNodePort"] in range(30000, 32768)
    assert spec["healthCheckNodePort"] != spec["ports"][0]["nodePort"]
    assert other.message == ('Service "s" is invalid: spec.healthCheckNodePort: Forbidden: field is immutable')
    assert kept.body["spec"]["healthCheckNodePort"] == spec["healthCheckNodePort"]


# Changes


async def test_change_to_external_name_releases_the_cluster_ip(api: Api) -> None:
    made = await api.create(SERVICES, _service())
    alias = await api.patch(SERVICES + "/s", {"spec": {"type": "ExternalName", "externalName": "a.example.com"}})
    count = len((await api.get(ADDRESSES)).body["items"])
    back = await api.patch(SERVICES + "/s", {"spec": {"type": "ClusterIP", "externalName": None}})
    assert made["spec"]["clusterIP"]
    alias = alias.body["spec"]
    back = back.body["spec"]
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"} & set(alias)
    assert count == 1
    assert back["clusterIP"] == back["clusterIPs"][0]


async def test_change_to_cluster_ip_drops_load_balancer_fields(api: Api) -> None:
    made = await api.create(SERVICES, _service(type="LoadBalancer", loadBalancerClass="a.b/c"))
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
    assert (await api.patch(SERVICES + "/s/status", status)).status == 200
    answer = await api.patch(SERVICES + "/s", {"spec": {"type": "ClusterIP"}}, MERGE)
    assert answer.status == 200, answer.text
    before = made["spec"]
    after = answer.body
    assert after["status"] == {"loadBalancer": {}}
    gone = {"allocateLoadBalancerNodePorts", "loadBalancerClass", "externalTrafficPolicy"}
    assert gone <= set(before)
    assert not gone & set(after["spec"])
    assert "nodePort" not in after["spec"]["ports"][0]
    assert after["spec"]["clusterIP"] == before["clusterIP"]


@cases(
    "change, message",
    {
        "another address": (
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
    made = await api.create(SERVICES, _service(type="NodePort", ports=ports))
    swapped = [{"name": "b", "port": 81}, {"name": "a", "port": 8080}]
    before = made["spec"]["ports"]
    after = (await _changed(api, made, type="NodePort", ports=swapped)).body["spec"]["ports"]
    assert [port["nodePort"] for port in after] == [port["nodePort"] for port in reversed(before)]
