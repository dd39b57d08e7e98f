"""Services: addresses, families, ports, and what becomes of them (facts from kube-apiserver v1.36.2)."""

import asyncio
import re
from typing import Any

import pytest
from tests.apiserver.api import MERGE, Answer, Api, Object, on

from pilothouse.apiserver import ApiServer, ServerOptions

SERVICES = "/api/v1/namespaces/default/services"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
DUAL = ServerOptions(service_range="10.0.0.0/24,fd00::/112")


def _service(name: str = "s", **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def _changed(api: Api, made: Object, **spec: Any) -> Answer:
    """PUT the same service with another spec."""
    return await api.put(SERVICES + "/s", {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], **spec}})


# Addresses


def test_every_cluster_address_is_an_object_that_goes_with_its_service() -> None:
    async def main(api: Api) -> tuple[Answer, int, list[str]]:
        made = await api.made(SERVICES, _service())
        address = made["spec"]["clusterIP"]
        found = await api.get(f"{ADDRESSES}/{address}")
        events = await api.watch(f"{ADDRESSES}?resourceVersion={api.store.revision}")
        await api.delete(SERVICES + "/s")
        type_, obj = await events.next()
        assert int(obj["metadata"]["resourceVersion"]) > int(found.meta["resourceVersion"])
        left = [item["metadata"]["name"] for item in (await api.get(ADDRESSES)).body["items"]]
        return found, (await api.get(f"{ADDRESSES}/{address}")).status, [type_, *left]

    found, gone, seen = on(main)
    assert found.body["spec"] == {"parentRef": {"resource": "services", "namespace": "default", "name": "s"}}
    assert found.meta["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    assert (gone, seen) == (404, ["DELETED", "10.0.0.1"])


def test_an_address_is_free_again_after_its_service() -> None:
    async def main(api: Api) -> list[int]:
        codes = []
        for name in ("a", "b"):
            codes.append((await api.post(SERVICES, _service(name, clusterIP="10.0.0.9"))).status)
        await api.delete(SERVICES + "/a")
        return [*codes, (await api.post(SERVICES, _service("b", clusterIP="10.0.0.9"))).status]

    assert on(main) == [201, 422, 201]


def test_creates_of_one_moment_get_addresses_and_ports_of_their_own() -> None:
    async def main(api: Api) -> tuple[list[int], list[Object]]:
        same = [_service(f"a{n}", clusterIP="10.0.0.9", type="NodePort") for n in range(2)]
        codes = await asyncio.gather(*(api.post(SERVICES, body) for body in same))
        others = [_service(f"b{n}", type="NodePort") for n in range(20)]
        made = await asyncio.gather(*(api.made(SERVICES, body) for body in others))
        return [answer.status for answer in codes], [body["spec"] for body in made]

    codes, specs = on(main)
    assert sorted(codes) == [201, 422]
    assert len({spec["clusterIP"] for spec in specs}) == 20
    assert len({spec["ports"][0]["nodePort"] for spec in specs}) == 20


def test_a_server_over_a_store_with_services_knows_what_is_taken() -> None:
    async def main(api: Api) -> tuple[int, list[str]]:
        await api.made(SERVICES, _service(clusterIP="10.0.0.9"))
        await api.delete(f"{ADDRESSES}/10.0.0.9")
        again = ApiServer(api.env, api.store)
        api.transport = again.transport("admin", ("system:masters",))
        refused = (await api.post(SERVICES, _service("b", clusterIP="10.0.0.9"))).status
        await api.made(SERVICES, _service("c", clusterIP="10.0.0.8"))
        return refused, [item["metadata"]["name"] for item in (await api.get(ADDRESSES)).body["items"]]

    assert on(main) == (422, ["10.0.0.1", "10.0.0.8", "10.0.0.9"])


def test_a_range_runs_full_and_says_so() -> None:
    async def main(api: Api) -> tuple[list[str], Answer]:
        made = [(await api.made(SERVICES, _service(f"s{n}")))["spec"]["clusterIP"] for n in range(5)]
        return made, await api.post(SERVICES, _service("more"))

    made, refused = on(main, ServerOptions(service_range="10.0.0.0/29"))
    assert sorted(made) == [f"10.0.0.{n}" for n in range(2, 7)]
    assert (refused.status, refused.message) == (
        500,
        "Internal error occurred: failed to allocate a serviceIP: range is full",
    )


def test_a_second_range_is_a_service_cidr() -> None:
    async def main(api: Api) -> tuple[int, int]:
        before = (await api.post(SERVICES, _service("a", clusterIP="10.9.0.5"))).status
        cidr = {"metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/24"]}}
        await api.made("/apis/networking.k8s.io/v1/servicecidrs", cidr)
        return before, (await api.post(SERVICES, _service("a", clusterIP="10.9.0.5"))).status

    assert on(main) == (422, 201)


CIDRS = "/apis/networking.k8s.io/v1/servicecidrs"


def _range(name: str, *cidrs: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"cidrs": list(cidrs)}}


def test_when_a_range_is_full_the_next_one_is_used() -> None:
    async def main(api: Api) -> list[str]:
        await api.made(CIDRS, _range("more", "10.9.0.0/29"))
        return [(await api.made(SERVICES, _service(f"s{n}")))["spec"]["clusterIP"] for n in range(8)]

    made = on(main, ServerOptions(service_range="10.0.0.0/29"))
    assert sorted(made[:5]) == [f"10.0.0.{n}" for n in range(2, 7)]
    assert [address.rpartition(".")[0] for address in made[5:]] == ["10.9.0"] * 3


@pytest.mark.parametrize("address", ["10.9.0.0", "10.9.0.7", "10.9.0.8"])
def test_the_ends_of_a_range_are_no_addresses(address: str) -> None:
    """``TestPrefixContainsIP``."""

    async def main(api: Api) -> Answer:
        await api.made(CIDRS, _range("more", "10.9.0.0/29"))
        return await api.post(SERVICES, _service(clusterIP=address))

    refused = on(main)
    assert (refused.status, "the provided network does not match the current range" in refused.message) == (422, True)


def test_a_range_that_is_not_ready_or_goes_gives_nothing_and_takes_nothing_away() -> None:
    async def main(api: Api) -> list[int]:
        codes = []
        whole = _range("more", "10.9.0.0/24")
        whole["metadata"]["finalizers"] = ["networking.k8s.io/service-cidr-finalizer"]
        await api.made(CIDRS, whole)
        kept = await api.made(SERVICES, _service("kept", clusterIP="10.9.0.1"))
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
        return codes

    assert on(main) == [200, 422, 200, 201, 200, 422, 200]


def test_the_object_of_an_address_that_a_service_has_comes_back() -> None:
    async def main(api: Api) -> tuple[str, str]:
        await api.made(SERVICES, _service(clusterIP="10.0.0.9"))
        uid = (await api.get(f"{ADDRESSES}/10.0.0.9")).meta["uid"]
        await api.delete(f"{ADDRESSES}/10.0.0.9")
        found = await api.get(f"{ADDRESSES}/10.0.0.9")
        assert found.body["spec"]["parentRef"]["name"] == "s"
        await api.delete(f"{SERVICES}/s")
        assert (await api.get(f"{ADDRESSES}/10.0.0.9")).status == 404
        return uid, found.meta["uid"]

    before, after = on(main)
    assert before != after


def test_a_dry_run_takes_nothing() -> None:
    async def main(api: Api) -> tuple[str, int]:
        tried = await api.post(SERVICES + "?dryRun=All", _service(clusterIP="10.0.0.7"))
        return tried.body["spec"]["clusterIP"], (await api.post(SERVICES, _service("b", clusterIP="10.0.0.7"))).status

    assert on(main) == ("10.0.0.7", 201)


@pytest.mark.parametrize(
    ("spec", "families", "policy", "count"),
    [
        pytest.param({}, ["IPv4"], "SingleStack", 1, id="one family by default"),
        pytest.param({"ipFamilyPolicy": "PreferDualStack"}, ["IPv4", "IPv6"], "PreferDualStack", 2, id="two preferred"),
        pytest.param(
            {"ipFamilyPolicy": "RequireDualStack"}, ["IPv4", "IPv6"], "RequireDualStack", 2, id="two demanded"
        ),
        pytest.param({"ipFamilies": ["IPv6"]}, ["IPv6"], "SingleStack", 1, id="the other one"),
        pytest.param(
            {"ipFamilies": ["IPv6", "IPv4"]}, ["IPv6", "IPv4"], "RequireDualStack", 2, id="two families mean both"
        ),
        pytest.param(
            {"clusterIP": "fd00::5", "clusterIPs": ["fd00::5", "10.0.0.5"]},
            ["IPv6", "IPv4"],
            "RequireDualStack",
            2,
            id="addresses tell their families",
        ),
        pytest.param({"clusterIP": "None"}, ["IPv4", "IPv6"], "RequireDualStack", 1, id="headless, no selector"),
        pytest.param(
            {"clusterIP": "None", "selector": {"a": "b"}}, ["IPv4"], "SingleStack", 1, id="headless with a selector"
        ),
    ],
)
def test_families_of_a_cluster_with_two(spec: Object, families: list[str], policy: str, count: int) -> None:
    async def main(api: Api) -> Object:
        made: Object = (await api.made(SERVICES, _service(**spec)))["spec"]
        return made

    made = on(main, DUAL)
    assert (made["ipFamilies"], made["ipFamilyPolicy"], len(made["clusterIPs"])) == (families, policy, count)
    assert made["clusterIP"] == made["clusterIPs"][0]
    if made["clusterIP"] != "None":
        assert [":" in address for address in made["clusterIPs"]] == [family == "IPv6" for family in families]


def test_a_second_family_is_added_and_taken_away() -> None:
    async def main(api: Api) -> tuple[list[str], list[str], Object, int]:
        await api.made(SERVICES, _service())
        up = await api.patch(SERVICES + "/s", {"spec": {"ipFamilyPolicy": "PreferDualStack"}})
        both = up.body["spec"]["clusterIPs"]
        down = await api.patch(SERVICES + "/s", {"spec": {"ipFamilyPolicy": "SingleStack"}})
        return both, down.body["spec"]["clusterIPs"], down.body["spec"], len((await api.get(ADDRESSES)).body["items"])

    both, one, spec, count = on(main, DUAL)
    assert len(both) == 2
    assert one == both[:1]
    assert spec["ipFamilies"] == ["IPv4"]
    assert count == 2, "that of kubernetes, and the first of the service"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"ipFamilyPolicy": "RequireDualStack"},
            'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack '
            "services",
            id="two families where there is one",
        ),
        pytest.param(
            {"ipFamilies": ["IPv6"]},
            'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster',
            id="a family that is not there",
        ),
        pytest.param(
            {"clusterIP": "fd00::1"},
            'spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster',
            id="an address of a family that is not there",
        ),
        pytest.param(
            {"clusterIP": "nonsense"},
            'spec.clusterIPs[0]: Invalid value: "nonsense": must be a valid IP address, (e.g. 10.9.8.7 or '
            "2001:db8::ffff)",
            id="no address",
        ),
        pytest.param(
            {"clusterIPs": ["10.0.0.5"]},
            'spec.clusterIPs: Invalid value: ["10.0.0.5"]: must be empty when `clusterIP` is not specified',
            id="only the plural",
        ),
        pytest.param(
            {"clusterIP": "None", "type": "NodePort"},
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
            id="headless and reachable from outside",
        ),
        pytest.param(
            {"ports": [{"port": 80, "nodePort": 30080}]},
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
            id="a node port without being reachable",
        ),
        pytest.param({"type": "ExternalName"}, "spec.externalName: Required value", id="an alias for nothing"),
        pytest.param(
            {"type": "Other"},
            'spec.type: Unsupported value: "Other": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
            '"NodePort"',
            id="no type",
        ),
        pytest.param(
            {"externalTrafficPolicy": "Local"},
            'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services',
            id="a policy for traffic that does not come",
        ),
        pytest.param(
            {"healthCheckNodePort": 31000},
            "spec.healthCheckNodePort: Invalid value: 31000: may only be set when `type` is 'LoadBalancer' and "
            "`externalTrafficPolicy` is 'Local'",
            id="a health check of nothing",
        ),
        pytest.param(
            {"loadBalancerClass": "a.b/c"},
            "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
            id="a class of load balancer for none",
        ),
        pytest.param(
            {"trafficDistribution": "Far"},
            'spec.trafficDistribution: Unsupported value: "Far": supported values: "PreferClose", "PreferSameZone", '
            '"PreferSameNode"',
            id="a distribution that is none",
        ),
        pytest.param(
            {"sessionAffinity": "Cookie"},
            'spec.sessionAffinity: Unsupported value: "Cookie": supported values: "ClientIP", "None"',
            id="an affinity that is none",
        ),
    ],
)
def test_services_that_are_refused(spec: Object, message: str) -> None:
    async def main(api: Api) -> Answer:
        return await api.post(SERVICES, _service(**spec))

    answer = on(main)
    assert (answer.status, answer.message) == (422, f'Service "s" is invalid: {message}')


def test_a_refusal_has_the_name_that_the_service_would_have_got() -> None:
    """Names are generated before addresses are looked for, since v1.30."""

    async def main(api: Api) -> Answer:
        body = {"metadata": {"generateName": "made-"}, "spec": {"ports": [{"port": 80}], "clusterIP": "10.9.9.9"}}
        return await api.post(SERVICES, body)

    answer = on(main)
    name = answer.body["details"]["name"]
    assert re.fullmatch("made-[a-z0-9]{5}", name)
    assert answer.message.startswith(f'Service "{name}" is invalid: spec.clusterIPs: Invalid value: ["10.9.9.9"]: ')


def test_ports_are_told_apart() -> None:
    ports = [{"name": "a", "port": 80}, {"name": "a", "port": 80}, {"port": 81}]

    async def main(api: Api) -> list[Object]:
        causes: list[Object] = (await api.post(SERVICES, _service(ports=ports))).body["details"]["causes"]
        return causes

    assert [(cause["field"], cause["reason"]) for cause in on(main)] == [
        ("spec.ports[1].name", "FieldValueDuplicate"),
        ("spec.ports[2].name", "FieldValueRequired"),
        ("spec.ports[1]", "FieldValueDuplicate"),
    ]


# Ports


def test_one_number_serves_two_protocols() -> None:
    ports = [{"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}, {"name": "w", "port": 80}]

    async def main(api: Api) -> list[int]:
        made = await api.made(SERVICES, _service(type="NodePort", ports=ports))
        return [port["nodePort"] for port in made["spec"]["ports"]]

    first, second, third = on(main)
    assert first == second != third


def test_a_node_port_belongs_to_one_service() -> None:
    def wanted(name: str) -> Object:
        return _service(name, type="NodePort", ports=[{"port": 80, "nodePort": 30080}])

    async def main(api: Api) -> tuple[Answer, int]:
        await api.made(SERVICES, wanted("a"))
        refused = await api.post(SERVICES, wanted("b"))
        await api.delete(SERVICES + "/a")
        return refused, (await api.post(SERVICES, wanted("b"))).status

    refused, again = on(main)
    assert refused.message == (
        'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated'
    )
    assert again == 201


def test_a_load_balancer_for_local_traffic_has_a_port_for_health_checks() -> None:
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}

    async def main(api: Api) -> tuple[Object, Answer, Answer]:
        made = await api.made(SERVICES, _service(**local))
        other = await _changed(api, made, **local, healthCheckNodePort=31234)
        kept = await _changed(api, made, **local)
        return made["spec"], other, kept

    spec, other, kept = on(main)
    assert spec["healthCheckNodePort"] in range(30000, 32768)
    assert spec["healthCheckNodePort"] != spec["ports"][0]["nodePort"]
    assert other.message == ('Service "s" is invalid: spec.healthCheckNodePort: Forbidden: field is immutable')
    assert kept.body["spec"]["healthCheckNodePort"] == spec["healthCheckNodePort"]


# Changes


def test_a_service_that_becomes_an_alias_gives_its_address_back() -> None:
    async def main(api: Api) -> tuple[Object, Object, int]:
        made = await api.made(SERVICES, _service())
        alias = await api.patch(SERVICES + "/s", {"spec": {"type": "ExternalName", "externalName": "a.example.com"}})
        count = len((await api.get(ADDRESSES)).body["items"])
        back = await api.patch(SERVICES + "/s", {"spec": {"type": "ClusterIP", "externalName": None}})
        assert made["spec"]["clusterIP"]
        return alias.body["spec"], back.body["spec"], count

    alias, back, count = on(main)
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"} & set(alias)
    assert count == 1
    assert back["clusterIP"] == back["clusterIPs"][0]


def test_a_load_balancer_that_becomes_internal_keeps_nothing_of_it() -> None:
    async def main(api: Api) -> tuple[Object, Object]:
        made = await api.made(SERVICES, _service(type="LoadBalancer", loadBalancerClass="a.b/c"))
        status = {"status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}
        assert (await api.patch(SERVICES + "/s/status", status)).status == 200
        answer = await api.patch(SERVICES + "/s", {"spec": {"type": "ClusterIP"}}, MERGE)
        assert answer.status == 200, answer.text
        return made["spec"], answer.body

    before, after = on(main)
    assert after["status"] == {"loadBalancer": {}}
    gone = {"allocateLoadBalancerNodePorts", "loadBalancerClass", "externalTrafficPolicy"}
    assert gone <= set(before)
    assert not gone & set(after["spec"])
    assert "nodePort" not in after["spec"]["ports"][0]
    assert after["spec"]["clusterIP"] == before["clusterIP"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"clusterIP": "10.0.0.77", "clusterIPs": ["10.0.0.77"]},
            'spec.clusterIPs[0]: Invalid value: ["10.0.0.77"]: may not change once set',
            id="another address",
        ),
        pytest.param(
            {"clusterIP": "None", "clusterIPs": ["None"]},
            'spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set',
            id="headless",
        ),
    ],
)
def test_what_stays(change: Object, message: str) -> None:
    async def main(api: Api) -> Answer:
        await api.made(SERVICES, _service())
        return await api.patch(SERVICES + "/s", {"spec": change})

    answer = on(main)
    assert answer.status == 422
    assert message in answer.message


def test_ports_keep_their_numbers_by_name() -> None:
    async def main(api: Api) -> tuple[list[Object], list[Object]]:
        ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
        made = await api.made(SERVICES, _service(type="NodePort", ports=ports))
        swapped = [{"name": "b", "port": 81}, {"name": "a", "port": 8080}]
        return made["spec"]["ports"], (await _changed(api, made, type="NodePort", ports=swapped)).body["spec"]["ports"]

    before, after = on(main)
    assert [port["nodePort"] for port in after] == [port["nodePort"] for port in reversed(before)]
