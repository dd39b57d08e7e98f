"""Whole bodies of refusals, as kube-apiserver v1.36.2 answered them."""

# ruff: noqa: E501  # messages are left whole

from typing import Any

import pytest
from tests.apiserver.api import (
    CONFIG_MAPS,
    LEASES,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    Api,
    config_map,
    pod,
    replica_set,
)

CLUSTER_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def cause(reason: str, message: str, field: str) -> dict[str, str]:
    return {"reason": reason, "message": message, "field": field}


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "reason", "message", "details"),
    [
        pytest.param(
            "GET",
            f"{CONFIG_MAPS}/x",
            None,
            404,
            "NotFound",
            'configmaps "x" not found',
            {"name": "x", "kind": "configmaps"},
            id="nothing of that name",
        ),
        pytest.param(
            "GET",
            f"{REPLICA_SETS}/x",
            None,
            404,
            "NotFound",
            'replicasets.apps "x" not found',
            {"name": "x", "group": "apps", "kind": "replicasets"},
            id="nothing of that name in a group",
        ),
        pytest.param(
            "GET",
            "/api/v1/odds",
            None,
            404,
            "NotFound",
            "the server could not find the requested resource",
            {},
            id="no such resource",
        ),
        pytest.param(
            "POST",
            "/api/v1/namespaces/missing/configmaps",
            config_map(),
            404,
            "NotFound",
            'namespaces "missing" not found',
            {"name": "missing", "kind": "namespaces"},
            id="no such namespace",
        ),
        pytest.param(
            "POST",
            CONFIG_MAPS,
            config_map("there"),
            409,
            "AlreadyExists",
            'configmaps "there" already exists',
            {"name": "there", "kind": "configmaps"},
            id="the name is taken",
        ),
        pytest.param(
            "PUT",
            f"{CONFIG_MAPS}/there",
            config_map("there", metadata={"resourceVersion": "1"}),
            409,
            "Conflict",
            'Operation cannot be fulfilled on configmaps "there": the object has been modified; '
            "please apply your changes to the latest version and try again",
            {"name": "there", "kind": "configmaps"},
            id="somebody was quicker",
        ),
        pytest.param(
            "POST",
            f"{CONFIG_MAPS}/x",
            {},
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
            {},
            id="a method that is not for it",
        ),
        pytest.param(
            "DELETE",
            f"{NAMESPACES}/default",
            None,
            403,
            "Forbidden",
            'namespaces "default" is forbidden: this namespace may not be deleted',
            {"name": "default", "kind": "namespaces"},
            id="a namespace that stays",
        ),
        pytest.param(
            "POST",
            PODS,
            pod("x", priorityClassName="y"),
            403,
            "Forbidden",
            'pods "x" is forbidden: no PriorityClass with name y was found',
            {"name": "x", "kind": "pods"},
            id="no such class",
        ),
        pytest.param(
            "POST",
            CONFIG_MAPS,
            {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "x"}},
            400,
            "BadRequest",
            'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion',
            None,
            id="another kind",
        ),
        pytest.param(
            "POST",
            CONFIG_MAPS,
            {"metadata": {"name": "A"}},
            422,
            "Invalid",
            'ConfigMap "A" is invalid: metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of '
            "lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
            "'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            {
                "name": "A",
                "kind": "ConfigMap",
                "causes": [
                    cause(
                        "FieldValueInvalid",
                        'Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
                        "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
                        "'example.com', regex used for validation is "
                        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                        "metadata.name",
                    )
                ],
            },
            id="no name for it",
        ),
        pytest.param(
            "POST",
            REPLICA_SETS,
            replica_set("r", replicas=-1),
            422,
            "Invalid",
            'ReplicaSet.apps "r" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0',
            {
                "name": "r",
                "group": "apps",
                "kind": "ReplicaSet",
                "causes": [
                    cause("FieldValueInvalid", "Invalid value: -1: must be greater than or equal to 0", "spec.replicas")
                ],
            },
            id="a number below zero",
        ),
        pytest.param(
            "POST",
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            {"metadata": {"name": "p"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}},
            422,
            "Invalid",
            'PodDisruptionBudget.policy "p" is invalid: spec: Invalid value: {"MinAvailable":1,"Selector":null,'
            '"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set',
            {
                "name": "p",
                "group": "policy",
                "kind": "PodDisruptionBudget",
                "causes": [
                    cause(
                        "FieldValueInvalid",
                        'Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":1,'
                        '"UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set',
                        "spec",
                    )
                ],
            },
            id="a value of a type without JSON names",
        ),
        pytest.param(
            "POST",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": "system-x"}, "value": 1},
            422,
            "Invalid",
            'PriorityClass.scheduling.k8s.io "system-x" is invalid: metadata.name: Forbidden: priority class names with '
            "'system-' prefix are reserved for system use only. error: system-x is not a known system priority class",
            {
                "name": "system-x",
                "group": "scheduling.k8s.io",
                "kind": "PriorityClass",
                "causes": [
                    cause(
                        "FieldValueForbidden",
                        "Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
                        "error: system-x is not a known system priority class",
                        "metadata.name",
                    )
                ],
            },
            id="a name that is the system's",
        ),
        pytest.param(
            "POST",
            LEASES,
            {"metadata": {"name": "l"}, "spec": {"leaseDurationSeconds": 0}},
            422,
            "Invalid",
            'Lease.coordination.k8s.io "l" is invalid: spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0',
            {
                "name": "l",
                "group": "coordination.k8s.io",
                "kind": "Lease",
                "causes": [
                    cause("FieldValueInvalid", "Invalid value: 0: must be greater than 0", "spec.leaseDurationSeconds")
                ],
            },
            id="no duration",
        ),
    ],
)
async def test_a_refusal(
    api: Api, method: str, path: str, body: Any, code: int, reason: str, message: str, details: dict[str, Any] | None
) -> None:
    await api.made(CONFIG_MAPS, config_map("there"))
    answer = await api.ask(method, path, body)
    expected = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    if details is not None:
        expected["details"] = details
    assert answer.body == expected
    assert answer.status == code
    assert answer.headers["content-type"] == "application/json"
