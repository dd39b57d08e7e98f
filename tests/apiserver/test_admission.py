"""Admission plugins that change what is stored (kubernetes ``plugin/pkg/admission/*``, v1.36)."""

from typing import Any

import pytest

from pilothouse.apiserver.admission import Admission
from pilothouse.apiserver.admission.default_toleration_seconds import DefaultTolerationSeconds
from pilothouse.apiserver.identity import Identity
from pilothouse.apiserver.resources import ResourceTable

NOT_READY = {
    "key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
}  # fmt: skip
UNREACHABLE = {**NOT_READY, "key": "node.kubernetes.io/unreachable"}


def admitted(obj: dict[str, Any], *, resource: str = "pods", subresource: str = "") -> dict[str, Any]:
    info = next(i for i in ResourceTable() if i.resource == resource and not i.group)
    write = Admission("CREATE", info, "default", "p", Identity("user"), subresource, obj)
    DefaultTolerationSeconds().admit(write)
    return obj


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        pytest.param(None, [NOT_READY, UNREACHABLE], id="a pod that says nothing gets both"),
        pytest.param(
            [{**NOT_READY, "tolerationSeconds": 5}],
            [{**NOT_READY, "tolerationSeconds": 5}, UNREACHABLE],
            id="what it says of one stays",
        ),
        pytest.param([{"operator": "Exists"}], [{"operator": "Exists"}], id="whoever tolerates everything gets none"),
        pytest.param(
            [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}, UNREACHABLE],
            id="no effect means every effect",
        ),
        pytest.param(
            [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}],
            [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
                NOT_READY,
                UNREACHABLE,
            ],
            id="another effect is another matter",
        ),
    ],
)
def test_pods_stay_five_minutes_on_a_lost_node(
    tolerations: list[dict[str, Any]] | None, expected: list[dict[str, Any]]
) -> None:
    spec: dict[str, Any] = {"containers": []} if tolerations is None else {"tolerations": tolerations}
    assert admitted({"spec": spec})["spec"]["tolerations"] == expected


def test_other_kinds_and_subresources_are_left_alone() -> None:
    assert admitted({"spec": {}}, resource="services") == {"spec": {}}
    assert admitted({"spec": {}}, subresource="status") == {"spec": {}}
