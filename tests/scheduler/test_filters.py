"""What one node says to a pod. Rows mirror the filter tests of kube-scheduler v1.36, named per table."""

from typing import Any

import pytest
from tests.scheduler.build import info, node, pod

from pilothouse.api.core import Node, Pod
from pilothouse.scheduler.filters import why_not
from pilothouse.scheduler.refusals import CORDONED, NOT_SELECTED, OTHER_NAME, PORTS_TAKEN, TAINTED, Refusal
from pilothouse.scheduler.wish import Wish

PLUGINS = "pkg/scheduler/framework/plugins"
TAINT = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expressions(*wanted: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, v in wanted]}


def by_name(operator: str, *names: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(names)}]}


def refusal(wanted: Pod, there: Node, *placed: Pod) -> Refusal | None:
    return why_not(Wish(wanted), info(there, *placed))


@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        # nodename/node_name_test.go
        pytest.param(pod(), node(), None, id="no name asked for"),
        pytest.param(pod(nodeName="n"), node(), None, id="the name asked for"),
        pytest.param(pod(nodeName="other"), node(), OTHER_NAME, id="another name"),
        # nodeunschedulable/node_unschedulable_test.go
        pytest.param(pod(), node(unschedulable=True), CORDONED, id="cordoned"),
        pytest.param(pod(nodeName="x"), node(unschedulable=True), CORDONED, id="cordoned is said before the name"),
        pytest.param(
            pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
            node(unschedulable=True),
            None,
            id="cordoned, but tolerated",
        ),
        # tainttoleration/taint_toleration_test.go
        pytest.param(pod(), node(taints=[TAINT]), TAINTED, id="a taint without a toleration"),
        pytest.param(
            pod(tolerations=[{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]),
            node(taints=[TAINT]),
            None,
            id="key, value and effect are tolerated",
        ),
        pytest.param(
            pod(tolerations=[{"key": "dedicated", "value": "web", "effect": "NoSchedule"}]),
            node(taints=[TAINT]),
            TAINTED,
            id="another value is tolerated",
        ),
        pytest.param(
            pod(tolerations=[{"key": "dedicated", "operator": "Exists"}]),
            node(taints=[TAINT]),
            None,
            id="any value and effect is tolerated",
        ),
        pytest.param(
            pod(tolerations=[{"key": "dedicated", "value": "db", "effect": "NoExecute"}]),
            node(taints=[TAINT]),
            TAINTED,
            id="another effect is tolerated",
        ),
        pytest.param(
            pod(tolerations=[{"key": "dedicated", "operator": "Exists"}]),
            node(taints=[TAINT, {"key": "sick", "effect": "NoExecute"}]),
            TAINTED,
            id="one of two taints is tolerated",
        ),
        pytest.param(
            pod(), node(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), None, id="a preference keeps nobody off"
        ),
    ],
)
def test_names_cordons_and_taints(wanted: Pod, there: Node, expected: Refusal | None) -> None:
    assert refusal(wanted, there) == expected


@pytest.mark.parametrize(
    ("spec", "labels", "fits"),
    [
        # nodeaffinity/node_affinity_test.go
        pytest.param({}, {}, True, id="no selector"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, {}, False, id="selector without its label"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, {"disk": "ssd", "x": "y"}, True, id="selector, one label more"),
        pytest.param({"nodeSelector": {"disk": "ssd", "a": "b"}}, {"disk": "ssd"}, False, id="half a selector"),
        pytest.param(
            {"affinity": affinity(expressions(("zone", "In", ["a", "b"])))}, {"zone": "b"}, True, id="In, one of them"
        ),
        pytest.param(
            {"affinity": affinity(expressions(("cores", "Gt", ["8"])))}, {"cores": "16"}, True, id="Gt, greater"
        ),
        pytest.param(
            {"affinity": affinity(expressions(("cores", "Gt", ["8"])))}, {"cores": "8"}, False, id="Gt, equal"
        ),
        pytest.param({"affinity": affinity(expressions(("cores", "Lt", ["8"])))}, {"cores": "4"}, True, id="Lt"),
        pytest.param({"affinity": affinity(expressions(("zone", "NotIn", ["a"])))}, {}, True, id="NotIn without label"),
        pytest.param({"affinity": affinity(expressions(("gpu", "Exists", [])))}, {"gpu": "x"}, True, id="Exists"),
        pytest.param(
            {"affinity": affinity(expressions(("gpu", "DoesNotExist", [])))}, {"gpu": "x"}, False, id="DoesNotExist"
        ),
        pytest.param({"affinity": affinity()}, {"a": "b"}, False, id="no terms match nothing"),
        pytest.param({"affinity": affinity(expressions())}, {"a": "b"}, False, id="an empty term matches nothing"),
        pytest.param(
            {"affinity": affinity(expressions(("a", "In", ["1"]), ("b", "Exists", [])))},
            {"a": "1"},
            False,
            id="expressions of a term must all hold",
        ),
        pytest.param(
            {"affinity": affinity(expressions(("a", "In", ["1"])), expressions(("b", "Exists", [])))},
            {"b": "1"},
            True,
            id="one of several terms is enough",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1"}, "affinity": affinity(expressions(("b", "Exists", [])))},
            {"b": "1"},
            False,
            id="selector and affinity must both hold",
        ),
        pytest.param({"affinity": affinity(by_name("In", "n"))}, {}, True, id="the node by field"),
        pytest.param({"affinity": affinity(by_name("In", "m"))}, {}, False, id="another node by field"),
        pytest.param({"affinity": affinity(by_name("NotIn", "m"))}, {}, True, id="any but another node by field"),
        pytest.param(
            {"affinity": affinity({**by_name("In", "n"), **expressions(("a", "Exists", []))})},
            {},
            False,
            id="fields and expressions of a term must both hold",
        ),
        pytest.param(
            {"affinity": affinity(by_name("In", "m"), expressions(("a", "Exists", [])))},
            {"a": "1"},
            True,
            id="field or expression in different terms",
        ),
    ],
)
def test_node_selection(spec: dict[str, Any], labels: dict[str, str], fits: bool) -> None:
    assert refusal(pod(**spec), node(labels=labels)) == (None if fits else NOT_SELECTED)


def port(number: int, address: str = "", protocol: str = "TCP") -> dict[str, Any]:
    return {"containerPort": 80, "hostPort": number, "hostIP": address, "protocol": protocol}


@pytest.mark.parametrize(
    ("taken", "wanted", "fits"),
    [
        # nodeports/node_ports_test.go
        pytest.param([port(80)], [], True, id="nothing wanted"),
        pytest.param([port(80, "127.0.0.1")], [port(9090, "127.0.0.1")], True, id="another port"),
        pytest.param([port(80, "127.0.0.1")], [port(80, "127.0.0.1")], False, id="the same port"),
        pytest.param([port(80, "127.0.0.1")], [port(80, "127.0.0.2")], True, id="the same port, another address"),
        pytest.param([port(80, protocol="UDP")], [port(80)], True, id="the same port, another protocol"),
        pytest.param([port(80, "127.0.0.1")], [port(80)], False, id="all addresses are wanted, one is taken"),
        pytest.param([port(80, "0.0.0.0")], [port(80, "127.0.0.1")], False, id="one is wanted, all are taken"),
        pytest.param([port(80)], [port(80)], False, id="all and all"),
        pytest.param(
            [port(8001, "127.0.0.1"), port(8002)], [port(8000), port(8001)], False, id="one of two wanted is taken"
        ),
    ],
)
def test_host_ports(taken: list[dict[str, Any]], wanted: list[dict[str, Any]], fits: bool) -> None:
    assert refusal(pod(ports=wanted), node(), pod("q", ports=taken)) == (None if fits else PORTS_TAKEN)


def test_ports_of_sidecars_count_those_of_other_init_containers_do_not() -> None:
    """As ``TestGetHostPorts``, pkg/scheduler/util/utils_test.go."""

    def with_init(policy: str) -> Pod:
        init = {"name": "i", "ports": [port(80)], **({"restartPolicy": policy} if policy else {})}
        return pod("q", initContainers=[init])

    assert refusal(pod(ports=[port(80)]), node(), with_init("Always")) == PORTS_TAKEN
    assert refusal(pod(ports=[port(80)]), node(), with_init("")) is None


GPU = "example.com/gpu"


def init(cpu: str, policy: str = "") -> dict[str, Any]:
    return {"name": "i", "resources": {"requests": {"cpu": cpu}}, **({"restartPolicy": policy} if policy else {})}


@pytest.mark.parametrize(
    ("wanted", "placed", "reasons", "final"),
    [
        # noderesources/fit_test.go: TestEnoughRequests, TestNotEnoughRequests, TestRestartableInitContainers,
        # TestPodLevelResources
        pytest.param(pod(), pod("q", "4", "8Gi"), (), False, id="nothing asked for always fits"),
        pytest.param(pod("p", "2"), pod("q", "2"), (), False, id="fits exactly"),
        pytest.param(pod("p", "1", "1Gi"), pod("q", "4", "8Gi"), ("cpu", "memory"), False, id="both are short"),
        pytest.param(pod("p", "1"), pod("q", "4"), ("cpu",), False, id="cpu is short"),
        pytest.param(pod("p", "", "1Gi"), pod("q", "4", "8Gi"), ("memory",), False, id="memory is short"),
        pytest.param(pod("p", "5"), pod("q"), ("cpu",), True, id="more than the node has: nobody can help"),
        pytest.param(pod(more={GPU: "2"}), pod("q"), (), False, id="an extended resource"),
        pytest.param(pod(more={GPU: "2"}), pod("q", more={GPU: "1"}), (GPU,), False, id="too little of it is left"),
        pytest.param(pod(more={"example.com/x": "1"}), pod("q"), ("example.com/x",), True, id="one the node lacks"),
        pytest.param(pod(more={"ephemeral-storage": "1Gi"}), pod("q"), ("ephemeral-storage",), True, id="storage"),
        pytest.param(
            pod(more={GPU: "3", "cpu": "9", "ephemeral-storage": "1"}),
            pod("q"),
            ("cpu", "ephemeral-storage", GPU),
            True,
            id="all shortages are told, extended ones last",
        ),
        pytest.param(
            pod("p", "1", initContainers=[init("3")]), pod("q", "1"), (), False, id="init containers run first"
        ),
        pytest.param(
            pod("p", "1", initContainers=[init("4")]), pod("q", "1"), ("cpu",), False, id="the largest init container"
        ),
        pytest.param(
            pod("p", "1", initContainers=[init("3"), init("3")]), pod("q", "1"), (), False, id="one after the other"
        ),
        pytest.param(
            pod("p", "1", initContainers=[init("3", "Always")]), pod("q", "1"), ("cpu",), False, id="sidecars stay"
        ),
        pytest.param(
            pod("p", "1", initContainers=[init("2", "Always"), init("2")]),
            pod("q", "1"),
            ("cpu",),
            False,
            id="a sidecar runs beside later init containers",
        ),
        pytest.param(pod("p", "1", overhead={"cpu": "3"}), pod("q", "1"), ("cpu",), False, id="overhead is added"),
        pytest.param(
            pod("p", "1", resources={"requests": {"cpu": "4"}}),
            pod("q", "1"),
            ("cpu",),
            False,
            id="the pod's own requests",
        ),
    ],
)
def test_resources(wanted: Pod, placed: Pod, reasons: tuple[str, ...], final: bool) -> None:
    found = refusal(wanted, node(more={GPU: "2"}), placed)
    if not reasons:
        assert found is None
    else:
        expected = tuple(f"Insufficient {name}" for name in reasons)
        assert found == Refusal("NodeResourcesFit", expected, final)


def test_the_number_of_pods_is_a_resource() -> None:
    full = node(pods="1")
    assert refusal(pod(), full, pod("q")) == Refusal("NodeResourcesFit", ("Too many pods",))
    both = Refusal("NodeResourcesFit", ("Too many pods", "Insufficient cpu"), final=True)
    assert refusal(pod("p", "5"), full, pod("q")) == both
