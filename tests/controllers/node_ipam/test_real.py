"""The controller on kube-apiserver, with the permissions of its role: dual stack, a restart, a deleted node, one with
an invalid CIDR.

On a separate server, because v1.20 allows a second range only with a feature gate.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.programs import kube_controller_manager, pilothouse, until
from tests.real_cluster import RealCluster, missing_programs, running

# One server for all tests of this module: not one for each worker.
pytestmark = pytest.mark.real(cluster="own")

NODES = "/api/v1/nodes"
FLAGS = (
    "--controllers=nodeipam", "--allocate-node-cidrs=true", "--cluster-cidr=10.7.0.0/24,2001:db8:7::/56",
    "--service-cluster-ip-range=10.7.0.0/27", "--node-cidr-mask-size-ipv4=28", "--node-cidr-mask-size-ipv6=62",
    "--leader-elect=false", "--secure-port=0",
)  # fmt: skip


@pytest.fixture(scope="module")
def dual_stack() -> Iterator[RealCluster]:
    why_not = missing_programs()
    if why_not:
        pytest.skip(why_not)
    with running(["--feature-gates=IPv6DualStack=true"]) as cluster:
        yield cluster


@pytest.fixture
def dual_stack_cluster(dual_stack: RealCluster) -> Iterator[RealCluster]:
    """Without nodes."""
    yield dual_stack
    for item in dual_stack.request("GET", NODES)["items"]:
        dual_stack.request("DELETE", f"{NODES}/{item['metadata']['name']}")


def test_nodes_get_pod_cidrs_across_a_restart(dual_stack_cluster: RealCluster, tmp_path: Path) -> None:
    real_cluster = dual_stack_cluster
    roles = ["system:kube-controller-manager", "system:controller:node-controller"]
    flags = ("--kubeconfig", str(real_cluster.user("nodeipam", cluster_roles=roles)), *FLAGS)
    names = [f"n{number}" for number in range(12)]
    result: dict[str, tuple[str, ...]] = {}

    def create(name: str, *ranges: str) -> None:
        spec = {"podCIDR": ranges[0], "podCIDRs": list(ranges)} if ranges else {}
        real_cluster.request("POST", NODES, {"metadata": {"name": name}, "spec": spec})

    def have_ranges(*wanted: str) -> bool:
        for name in wanted:
            spec = real_cluster.request("GET", f"{NODES}/{name}")["spec"]
            result[name] = tuple(spec.get("podCIDRs", ()))
            assert spec.get("podCIDR", "") == (result[name][0] if result[name] else "")
        return all(len(result[name]) == 2 for name in wanted)

    create(names[0])
    with pilothouse(tmp_path, "manager", *flags) as manager:
        for name in names[1:8]:
            create(name)
        until(lambda: have_ranges(*names[:8]), "eight nodes have ranges")
        assert manager.stop() == 0
    deleted_node = result.pop(names[3])
    real_cluster.request("DELETE", f"{NODES}/{names[3]}")
    with pilothouse(tmp_path, "manager", *flags):
        for name in names[8:]:
            create(name)
        until(lambda: have_ranges(*names[8:]), "four more nodes have ranges")
    everything = [text for ranges in result.values() for text in ranges]
    assert len(set(everything)) == len(everything) == 22, "no two nodes have the same"
    assert deleted_node in result.values(), "what is free is given out again"
    assert not {"10.7.0.0/28", "10.7.0.16/28"} & set(everything), "those are of services"
    create("stranger", "192.168.0.0/28", "2001:db8:7:f0::/62")
    with pilothouse(tmp_path, "manager", *flags) as manager:
        assert manager.wait() == 1
        assert "Error: failed to mark cidr[192.168.0.0/28] at idx [0] as occupied for node: stranger" in manager.log
        assert "Traceback" not in manager.log


def test_invalid_settings_are_reported_at_startup(tmp_path: Path) -> None:
    with pilothouse(tmp_path, "manager", "--kubeconfig=nowhere", "--allocate-node-cidrs") as manager:
        assert manager.wait() == 2
        assert "Must specify --cluster-cidr if --allocate-node-cidrs is set" in manager.log


def test_allocation_continues_between_kube_controller_manager_and_pilothouse(
    dual_stack_cluster: RealCluster, tmp_path: Path
) -> None:
    real_cluster = dual_stack_cluster
    roles = ["system:kube-controller-manager", "system:controller:node-controller"]
    pilothouse_flags = ("--kubeconfig", str(real_cluster.user("nodeipam", cluster_roles=roles)), *FLAGS)
    upstream_flags = (
        "--controllers=nodeipam",
        "--feature-gates=IPv6DualStack=true",
        *FLAGS[1:-2],
        "--leader-elect=false",
    )
    allocated: dict[str, tuple[str, ...]] = {}

    def read() -> dict[str, tuple[str, ...]]:
        items = real_cluster.request("GET", NODES)["items"]
        return {item["metadata"]["name"]: tuple(item["spec"].get("podCIDRs", ())) for item in items}

    for turn, start in enumerate(
        ("pilothouse", "upstream", "pilothouse")
    ):  # the Go one waits ten seconds before it reads nodes
        for number in range(4):
            real_cluster.request("POST", NODES, {"metadata": {"name": f"n{turn}{number}"}})
        if start == "upstream":
            program = kube_controller_manager(real_cluster, tmp_path, *upstream_flags)
        else:
            program = pilothouse(tmp_path, "manager", *pilothouse_flags)
        with program:
            until(lambda: all(len(ranges) == 2 for ranges in read().values()), f"{start} gives ranges")
        result = read()
        assert {name: result[name] for name in allocated} == allocated, "nobody's ranges change"
        allocated = result
    everything = [text for ranges in allocated.values() for text in ranges]
    assert len(set(everything)) == len(everything) == 24
