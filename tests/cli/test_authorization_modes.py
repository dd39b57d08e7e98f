"""``--authorization-mode`` of ``up`` and ``apiserver`` takes kube-apiserver's value for kubeadm's clusters, too."""

import pytest

from pilothouse.cli import apiserver
from pilothouse.cli.program import UserError


@pytest.mark.parametrize(
    ("value", "modes"),
    [("AlwaysAllow", "AlwaysAllow"), ("RBAC", "Node,RBAC"), ("Node,RBAC", "Node,RBAC"), ("RBAC,Node", "Node,RBAC")],
)
def test_modes(value: str, modes: str) -> None:
    parsed = apiserver.flag_set("x").parse([f"--authorization-mode={value}"])
    assert apiserver.authorization_modes(parsed) == modes


@pytest.mark.parametrize("value", ["Node", "rbac", "ABAC", "AlwaysAllow,RBAC", "Node,RBAC,Webhook", ""])
def test_other_modes_are_rejected(value: str) -> None:
    parsed = apiserver.flag_set("x").parse([f"--authorization-mode={value}"])
    with pytest.raises(UserError, match=f"must be AlwaysAllow or Node,RBAC .RBAC for short., got {value}$"):
        apiserver.authorization_modes(parsed)
