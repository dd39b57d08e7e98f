"""Definitions of built-in resources whose conditions a client has written."""

from typing import Any

import msgspec
import pytest
from tests.apiserver.api import Api
from tests.custom_resources import DEFINITIONS

from pilothouse.env import Env

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
NAME = "clusterroles.rbac.authorization.k8s.io"
NAMES = {"plural": "clusterroles", "singular": "clusterrole", "kind": "Fake", "listKind": "FakeList"}


def definition(version: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "metadata": {"name": NAME, "annotations": {"api-approved.kubernetes.io": "unapproved"}},
        "spec": {
            "group": "rbac.authorization.k8s.io", "scope": "Cluster", "names": NAMES,
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }  # fmt: skip


@pytest.mark.parametrize("version", ["v1", "v9"])
async def test_definition_of_a_built_in_resource_is_not_served(env: Env, version: str) -> None:
    api = Api(env)
    role = {"metadata": {"name": "own"}, "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}
    assert (await api.post(ROLES, role)).status == 201
    assert (await api.post(DEFINITIONS, definition(version))).status == 201
    conditions = [
        {"type": item, "status": "True", "reason": "Said", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for item in ("NamesAccepted", "Established")
    ]
    status = {"conditions": conditions, "acceptedNames": NAMES, "storedVersions": [version]}
    assert (await api.patch(f"{DEFINITIONS}/{NAME}/status", {"status": status})).status == 200
    assert (await api.get(ROLES)).body["kind"] == "ClusterRoleList"
    assert (await api.get("/apis/rbac.authorization.k8s.io/v9/clusterroles")).status == 404
    assert (await api.post(ROLES, {"metadata": {"name": "a"}, "rules": 7})).status == 400
    assert (await api.delete(f"{DEFINITIONS}/{NAME}")).status == 200
    assert (await api.get(f"{ROLES}/own")).body["rules"] == role["rules"]


@pytest.mark.parametrize("spec", [None, {}, {"group": "a.b"}, {"group": "a.b", "names": {"plural": "cs", "kind": "C"}}])
@pytest.mark.not_on("etcd", reason="what no server writes can not be encoded")
async def test_unvalidated_definitions_are_ignored(env: Env, spec: Any) -> None:
    api = Api(env)
    whole = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "cs.a.b", "uid": "u"}, "spec": spec,
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }  # fmt: skip
    key = "apiextensions.k8s.io/customresourcedefinitions/cs.a.b"
    await api.server.core.commit(api.store.stage(key, lambda _revision: msgspec.json.encode(whole), expected=0))
    again = Api(env, store=api.store)
    await again.server.custom_resources.sync("cs.a.b")
    assert (await again.get("/apis/a.b/v1/cs")).status == 404
