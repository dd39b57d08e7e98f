"""Mutating admission plugins (kubernetes ``plugin/pkg/admission/*``, v1.36)."""

from typing import Any

from tests.tables import cases

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Chain, Plugin
from pilothouse.apiserver.admission.default_toleration_seconds import DefaultTolerationSeconds
from pilothouse.apiserver.admission.taint_nodes_by_condition import TaintNodesByCondition
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.resources import ResourceTable
from pilothouse.env import Env

NOT_READY = {
    "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
}  # fmt: skip
UNREACHABLE = {**NOT_READY, "key": "node.kubernetes.io/unreachable"}


START = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def admitted(
    obj: dict[str, Any],
    *,
    plugin: type[Plugin] = DefaultTolerationSeconds,
    operation: str = "CREATE",
    resource: str = "pods",
    subresource: str = "",
) -> dict[str, Any]:
    info = next(i for i in ResourceTable() if i.resource == resource and not i.group)
    write = AdmissionAttributes(operation, info, "default", "p", Identity("user"), subresource, obj)
    plugin().admit(write)
    return obj


@cases(
    "tolerations, expected",
    {
        "a pod without tolerations gets both": (None, [NOT_READY, UNREACHABLE]),
        "existing toleration is kept": (
            [{**NOT_READY, "tolerationSeconds": 5}],
            [{**NOT_READY, "tolerationSeconds": 5}, UNREACHABLE],
        ),
        "a pod that tolerates everything gets none": ([{"operator": "Exists"}], [{"operator": "Exists"}]),
        "toleration without effect": (
            [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}, UNREACHABLE],
        ),
        "toleration of another effect": (
            [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}],
            [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
                NOT_READY,
                UNREACHABLE,
            ],
        ),
    },
)
def test_default_toleration_seconds(tolerations: list[dict[str, Any]] | None, expected: list[dict[str, Any]]) -> None:
    spec: dict[str, Any] = {"containers": []} if tolerations is None else {"tolerations": tolerations}
    assert admitted({"spec": spec})["spec"]["tolerations"] == expected


def test_other_kinds_and_subresources_are_ignored() -> None:
    assert admitted({"spec": {}}, resource="services") == {"spec": {}}
    assert admitted({"spec": {}}, subresource="status") == {"spec": {}}


@cases(
    "spec, expected",
    {
        "a node without taints gets the one": ({}, [START]),
        "a node without a spec, too": (None, [START]),
        "null is no taint": ({"taints": None}, [START]),
        "appended after existing taints": (
            {"taints": [{"key": "mine", "effect": "NoExecute"}]},
            [{"key": "mine", "effect": "NoExecute"}, START],
        ),
        "already tainted": ({"taints": [START]}, [START]),
        "already tainted with a value": ({"taints": [{**START, "value": "x"}]}, [{**START, "value": "x"}]),
        "same key with another effect": (
            {"taints": [{**START, "effect": "NoExecute"}]},
            [{**START, "effect": "NoExecute"}, START],
        ),
    },
)
def test_new_node_gets_the_not_ready_taint(spec: dict[str, Any] | None, expected: list[dict[str, Any]]) -> None:
    """Upstream: v1.36 ``plugin/pkg/admission/nodetaint/admission_test.go``."""
    node: dict[str, Any] = {"metadata": {"name": "n"}} | ({} if spec is None else {"spec": spec})
    assert admitted(node, plugin=TaintNodesByCondition, resource="nodes")["spec"]["taints"] == expected


@cases(
    "operation, resource, subresource",
    {
        "update of a node": ("UPDATE", "nodes", ""),
        "another kind": ("CREATE", "pods", ""),
        "a subresource": ("CREATE", "nodes", "proxy"),
    },
)
def test_node_updates_add_no_taint(operation: str, resource: str, subresource: str) -> None:
    obj: dict[str, Any] = {"spec": {}}
    result = admitted(
        obj, plugin=TaintNodesByCondition, operation=operation, resource=resource, subresource=subresource
    )
    assert result == {"spec": {}}


class RecordingAdmission(Plugin):
    """Records its calls."""

    resources = frozenset({"pods"})

    def __init__(self, notes: list[str], name: str) -> None:
        self._notes, self._name = notes, name

    def validate(self, write: AdmissionAttributes) -> None:
        self._notes.append(f"{self._name} {write.info.resource}")


async def test_plugins_run_in_order_and_only_for_their_resources(env: Env) -> None:
    notes: list[str] = []
    chain = Chain([RecordingAdmission(notes, "a")])
    for round_ in range(2):
        for resource in ("pods", "nodes"):
            info = next(i for i in ResourceTable() if i.resource == resource and not i.group)
            write = AdmissionAttributes("CREATE", info, "default", "p", Identity("user"), obj={})
            await chain.admit(write)
            await chain.validate(write)
        if not round_:
            chain.plugins.append(RecordingAdmission(notes, "b"))
    assert notes == ["a pods", "a pods", "b pods"]
