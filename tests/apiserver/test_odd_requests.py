"""Answers of kube-apiserver v1.36.2 to requests that few clients send."""

import pytest
from tests.apiserver.api import CONFIG_MAPS, PODS, Api, Object, config_map, pod
from tests.tables import cases

from pilothouse.apiserver.handler_chain import HandlerChain

NOT_ALLOWED = "the server does not allow this method on the requested resource"
NOT_FOUND = "the server could not find the requested resource"
NOT_A_NUMBER = 'strconv.ParseInt: parsing "": invalid syntax'
OTHER_NAMESPACE = "the namespace of the provided object does not match the namespace sent on the request"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
EVICTION: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
OPTIONS = 'ListOptions.meta.k8s.io "" is invalid: '
MATCH = "resourceVersionMatch: Forbidden: "
BOUND: Object = {"kind": "Pod", "apiVersion": "v1", "name": "p"}


@pytest.fixture
async def api(api: Api) -> Api:
    """A server that issues tokens, with a pod and its ServiceAccount."""
    HandlerChain(api.server, address="127.0.0.1:6443", issuer="https://kubernetes.default.svc")
    await api.create(ACCOUNTS, {"metadata": {"name": "a"}})
    await api.create(PODS, pod(serviceAccountName="a"))
    return api


@cases(
    "method, target, body, code, message",
    {
        "PUT to the path of all namespaces": ("PUT", "/api/v1/pods", {}, 405, NOT_ALLOWED),
        "PATCH to the path of all namespaces": ("PATCH", "/apis/apps/v1/deployments", {}, 405, NOT_ALLOWED),
        "a resource that can only be created": ("POST", "/api/v1/bindings", {}, 404, NOT_FOUND),
        "limit without a value": ("GET", CONFIG_MAPS + "?limit=", None, 400, NOT_A_NUMBER),
        "timeout without a value": ("GET", CONFIG_MAPS + "?timeoutSeconds=", None, 400, NOT_A_NUMBER),
        "grace period without a value": ("DELETE", CONFIG_MAPS + "/c?gracePeriodSeconds=", None, 400, NOT_A_NUMBER),
        "force, which creates do not have": ("POST", CONFIG_MAPS + "?force=true", config_map(), 201, ""),
        "initial events of a list": (
            "GET",
            CONFIG_MAPS + "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            None,
            422,
            f"{OPTIONS}[{MATCH}resourceVersionMatch is forbidden unless resourceVersion is provided, "
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list]",
        ),
        "initial events of an exact version": (
            "GET",
            CONFIG_MAPS + "?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact",
            None,
            422,
            f"{OPTIONS}[{MATCH}sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, "
            'resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]',
        ),
        "a watch with a continue token": (
            "GET",
            CONFIG_MAPS + "?watch=1&continue=x",
            None,
            422,
            f"{OPTIONS}{MATCH}resourceVersionMatch is forbidden when continue is provided",
        ),
        "an eviction in another namespace": (
            "POST",
            PODS + "/p/eviction",
            {**EVICTION, "metadata": {"name": "p", "namespace": "other"}},
            400,
            OTHER_NAMESPACE,
        ),
        "a token for another ServiceAccount": (
            "POST",
            ACCOUNTS + "/a/token",
            {"metadata": {"name": "b"}, "spec": {}},
            422,
            'TokenRequest.authentication.k8s.io "a" is invalid: metadata.name: Invalid value: "b": must match the '
            "service account name if specified",
        ),
        "a token in another namespace": (
            "POST",
            ACCOUNTS + "/a/token",
            {"metadata": {"namespace": "other"}, "spec": {}},
            400,
            OTHER_NAMESPACE,
        ),
        "a token for another pod of this name": (
            "POST",
            ACCOUNTS + "/a/token",
            {"spec": {"boundObjectRef": {**BOUND, "uid": "x"}}},
            409,
            'Operation cannot be fulfilled on Pod "p": the UID in the bound object reference (x) does not match the '
            "UID in record. The object might have been deleted and then recreated",
        ),
        "a token for a pod in any version": (
            "POST",
            ACCOUNTS + "/a/token",
            {"spec": {"boundObjectRef": {**BOUND, "apiVersion": "v2", "name": "none"}}},
            404,
            'pods "none" not found',
        ),
    },
)
async def test_answers(api: Api, method: str, target: str, body: Object | None, code: int, message: str) -> None:
    answer = await api.request(method, target, body)
    assert (answer.status, answer.message) == (code, message), answer.text


async def test_a_body_that_is_no_protobuf(api: Api) -> None:
    answer = await api.request("POST", CONFIG_MAPS, b'{"kind":"ConfigMap"}', "application/vnd.kubernetes.protobuf")
    assert (answer.status, answer.message) == (
        400,
        "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a "
        'protobuf message, expected prefix [107 56 115 0] ({"kind":"ConfigMap"})',
    )


async def test_precondition_of_an_eviction(api: Api) -> None:
    uid = (await api.get(PODS + "/p")).meta["uid"]
    answer = await api.post(PODS + "/p/eviction", {**EVICTION, "deleteOptions": {"preconditions": {"uid": "x"}}})
    assert answer.message == (
        f'Operation cannot be fulfilled on Pod "p": the UID in the precondition (x) does not match the UID in record '
        f"({uid}). The object might have been deleted and then recreated"
    )


async def test_the_server_owns_what_an_eviction_writes_to_a_budget(api: Api) -> None:
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 0, "selector": {}}
    await api.create(budgets, {"metadata": {"name": "b"}, "spec": spec})
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": 1,
        "currentHealthy": 1,
        "expectedPods": 1,
        "desiredHealthy": 0,
    }
    await api.patch(budgets + "/b/status", {"status": status})
    await api.patch(PODS + "/p/status", {"status": {"phase": "Running"}})
    assert (await api.post(PODS + "/p/eviction", EVICTION)).status == 201
    managers = [entry["manager"] for entry in (await api.get(budgets + "/b")).meta["managedFields"]]
    assert "kube-apiserver" in managers
