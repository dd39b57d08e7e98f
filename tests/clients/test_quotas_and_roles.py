"""``pilothouse up`` with kubectl: quotas are enforced, and user-facing roles have rules."""

import json
from collections.abc import Iterator

import pytest
from tests.clients.test_kubectl import KUBECTL
from tests.clients.test_up import Terminal, replica_set, start
from tests.programs import until

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    directory = tmp_path_factory.mktemp("quotas")
    with start(directory, "--nodes=1", "--authorization-mode=RBAC") as up:
        up.until("is ready")
        yield Terminal(directory)


def test_quota_limits_a_replica_set_and_is_released(terminal: Terminal) -> None:
    def used() -> str:
        return terminal("get", "quota", "q", "-o", "jsonpath={.status.used.pods}")

    terminal("create", "quota", "q", "--hard=pods=2")
    until(lambda: used() == "0", "it is in force")
    terminal("create", "-f", "-", stdin=replica_set(replicas=3))
    until(lambda: used() == "2", "it is full")
    assert "pods: 2/2" in terminal("get", "quota", "q")
    assert len(json.loads(terminal("get", "pods", "-o", "json"))["items"]) == 2
    terminal("delete", "replicaset", "web")
    until(lambda: used() == "0", "the pods are given back")


def test_user_facing_roles_have_rules(terminal: Terminal) -> None:
    def may(*words: str) -> bool:
        return terminal("auth", "can-i", *words, "--as=ann", "-n", "default").strip() == "yes"

    terminal("create", "rolebinding", "ann", "--clusterrole=view", "--user=ann")
    until(lambda: bool(json.loads(terminal("get", "clusterrole", "view", "-o", "json"))["rules"]), "view is filled")
    assert may("list", "pods")
