"""As kube-scheduler v1.36 ``plugins/nodeports/node_ports_test.go``."""

from typing import Any

from tests.scheduler.build import filter_status, node, pod
from tests.tables import cases

from pilothouse.api.core import Pod
from pilothouse.scheduler.plugins.node_ports import PORTS_NOT_FREE


def port(number: int, address: str = "", protocol: str = "TCP") -> dict[str, Any]:
    return {"containerPort": 80, "hostPort": number, "hostIP": address, "protocol": protocol}


@cases(
    "used_ports, wanted, fits",
    {
        # nodeports/node_ports_test.go
        "no host port": ([port(80)], [], True),
        "different port": ([port(80, "127.0.0.1")], [port(9090, "127.0.0.1")], True),
        "equal port": ([port(80, "127.0.0.1")], [port(80, "127.0.0.1")], False),
        "equal port, different address": ([port(80, "127.0.0.1")], [port(80, "127.0.0.2")], True),
        "equal port, different protocol": ([port(80, protocol="UDP")], [port(80)], True),
        "0.0.0.0 requested, one address in use": ([port(80, "127.0.0.1")], [port(80)], False),
        "one address requested, 0.0.0.0 in use": ([port(80, "0.0.0.0")], [port(80, "127.0.0.1")], False),
        "0.0.0.0 requested and in use": ([port(80)], [port(80)], False),
        "one of two requested ports in use": ([port(8001, "127.0.0.1"), port(8002)], [port(8000), port(8001)], False),
    },
)
def test_filter(used_ports: list[dict[str, Any]], wanted: list[dict[str, Any]], fits: bool) -> None:
    assert filter_status(pod(ports=wanted), node(), pod("q", ports=used_ports)) == (None if fits else PORTS_NOT_FREE)


def test_ports_count_of_sidecars_but_not_of_other_init_containers() -> None:
    """As ``TestGetHostPorts``, pkg/scheduler/util/utils_test.go."""

    def with_init(policy: str) -> Pod:
        init = {"name": "i", "ports": [port(80)], **({"restartPolicy": policy} if policy else {})}
        return pod("q", initContainers=[init])

    assert filter_status(pod(ports=[port(80)]), node(), with_init("Always")) == PORTS_NOT_FREE
    assert filter_status(pod(ports=[port(80)]), node(), with_init("")) is None
