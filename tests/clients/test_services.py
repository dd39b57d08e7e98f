"""``pilothouse up`` with kubectl: custom Endpoints are mirrored, ServiceCIDRs are added and deleted, and the simulated
cloud assigns load balancer addresses.

kubectl waits for what the controllers do (``mirroring``: EndpointSlices; ``service-cidr``: Ready, and the finalizer).
"""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.clients.test_kubectl import KUBECTL
from tests.clients.test_up import Terminal, start
from tests.programs import until

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    directory = tmp_path_factory.mktemp("services")
    with start(directory, "--nodes=1", "--authorization-mode=RBAC") as up:
        up.until("is ready")
        yield Terminal(directory)
        assert up.stop() == 0
        assert "Traceback" not in up.log


def endpoints(*addresses: str) -> dict[str, Any]:
    result = [{"ip": address} for address in addresses]
    subsets = [{"addresses": result, "ports": [{"port": 8080}]}]
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "ext"}, "subsets": subsets}


def test_custom_endpoints_are_mirrored(terminal: Terminal) -> None:
    def slices() -> list[dict[str, Any]]:
        selected = terminal("get", "endpointslices", "-l", "kubernetes.io/service-name=ext", "-o", "json")
        items: list[dict[str, Any]] = json.loads(selected)["items"]
        return items

    def addresses() -> list[str]:
        return sorted(
            address
            for endpoint_slice in slices()
            for endpoint in endpoint_slice["endpoints"]
            for address in endpoint["addresses"]
        )

    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ext"}, "spec": {"ports": [{"port": 80}]}}
    terminal("create", "-f", "-", stdin=service)
    terminal("apply", "-f", "-", stdin=endpoints("192.0.2.1", "192.0.2.2"))
    until(lambda: addresses() == ["192.0.2.1", "192.0.2.2"], "both are in the slice")
    [only] = slices()
    assert "annotations" not in only["metadata"], "what kubectl apply notes is not copied"
    assert only["metadata"]["ownerReferences"][0]["kind"] == "Endpoints"
    terminal("apply", "-f", "-", stdin=endpoints("192.0.2.1", "2001:db8::1"))
    until(lambda: addresses() == ["192.0.2.1", "2001:db8::1"], "each family has its slice")
    assert sorted(endpoint_slice["addressType"] for endpoint_slice in slices()) == ["IPv4", "IPv6"]
    terminal("delete", "endpointslice", only["metadata"]["name"])
    until(lambda: len(slices()) == 2, "what was deleted comes back")
    terminal("label", "endpoints", "ext", "endpointslice.kubernetes.io/skip-mirror=true")
    until(lambda: not slices(), "they go when they are not to be mirrored")
    terminal("label", "endpoints", "ext", "endpointslice.kubernetes.io/skip-mirror-")
    until(lambda: len(slices()) == 2, "and come again")
    terminal("delete", "service", "ext")
    until(lambda: not slices(), "they go with the service")


def test_load_balancer_assigns_and_releases_an_address(terminal: Terminal) -> None:
    def addresses() -> list[str]:
        result = terminal("get", "services", "-o", "jsonpath={.items[*].status.loadBalancer.ingress[*].ip}")
        return result.split()

    for name in ("front", "other"):
        terminal("create", "service", "loadbalancer", name, "--tcp=80")
    until(lambda: len(addresses()) == 2, "both have an address")
    assert len(set(addresses())) == 2
    row = next(line for line in terminal("get", "services").splitlines() if line.startswith("front"))
    assert row.split()[3] in addresses()
    assert "EnsuredLoadBalancer" in terminal("describe", "service", "front")
    terminal("patch", "service", "front", "-p", '{"spec":{"type":"ClusterIP"}}')
    until(lambda: len(addresses()) == 1, "a Service that is no balancer any more has none")
    until(lambda: "finalizers" not in terminal("get", "service", "front", "-o", "yaml"), "and nothing holds it")
    terminal("delete", "service", "front", "other", "--timeout=20s")
    assert not addresses()


def cidr(name: str, *ranges: str) -> dict[str, Any]:
    metadata, spec = {"name": name}, {"cidrs": list(ranges)}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": metadata, "spec": spec}


def test_service_cidr_is_added_filled_and_deleted(terminal: Terminal) -> None:
    def condition(name: str) -> str:
        path = '{.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].reason}'
        return terminal("get", "servicecidr", name, "-o", f"jsonpath={path}").strip()

    def names() -> set[str]:
        return set(terminal("get", "servicecidrs", "-o", "name").split())

    terminal("wait", "--for=condition=Ready", "servicecidr/kubernetes", "--timeout=10s")
    assert "networking.k8s.io/service-cidr-finalizer" in terminal("get", "servicecidr", "kubernetes", "-o", "yaml")
    terminal("create", "-f", "-", stdin=cidr("more", "10.9.0.0/29"))
    terminal("wait", "--for=condition=Ready", "servicecidr/more", "--timeout=10s")
    for number in range(1, 7):
        terminal("create", "service", "clusterip", f"s{number}", "--tcp=80", f"--clusterip=10.9.0.{number}")
    with pytest.raises(AssertionError, match="the provided network does not match the current range"):
        terminal("create", "service", "clusterip", "s7", "--tcp=80", "--clusterip=10.9.0.7")
    parents = terminal("get", "ipaddresses")
    assert all(f"services/default/s{number}" in parents for number in range(1, 7))
    terminal("delete", "servicecidr", "more", "--wait=false")
    until(lambda: condition("more") == "False Terminating", "the services hold it")
    time.sleep(11)  # longer than it stays after a deletion
    assert "servicecidr.networking.k8s.io/more" in names()
    for number in range(1, 7):
        terminal("delete", "service", f"s{number}")
    until(lambda: names() == {"servicecidr.networking.k8s.io/kubernetes"}, "it goes with the last of them")
    assert "10.9.0." not in terminal("get", "ipaddresses")
