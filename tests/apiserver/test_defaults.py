"""Stored objects of every kind equal those of kube-apiserver v1.36.2 (data/defaults.json).

Admission plugins changed those objects, too. Their additions are removed on both sides before comparing.
"""

import copy
import json
import re
from typing import Any

import pytest
from tests.apiserver.api import NAMESPACES, PODS, Answer, Api, Object
from tests.apiserver.samples import ROWS, collection, kind_id, make_namespace
from tests.tables import cases

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.apiserver.resources import built_in

_ADMIN = Identity("admin", ("system:masters", "system:authenticated"), "admin")
_PROTECTION = ("kubernetes.io/pv-protection", "kubernetes.io/pvc-protection", "kubernetes.io/vac-protection")


def _without_admission(stored: Object) -> Object:
    meta = stored["metadata"]
    kept = [finalizer for finalizer in meta.pop("finalizers", ()) if finalizer not in _PROTECTION]
    if kept:
        meta["finalizers"] = kept
    if stored["kind"] != "Pod":
        return stored
    spec = stored["spec"]
    for field in ("serviceAccountName", "serviceAccount"):
        spec.pop(field, None)
    _drop_tokens(spec, "volumes")
    for container in [*spec.get("initContainers", ()), *spec["containers"]]:
        _drop_tokens(container, "volumeMounts")
    return stored


def _drop_tokens(holder: Object, field: str) -> None:
    kept = [entry for entry in holder.pop(field, ()) if not entry["name"].startswith(("kube-api-access", "<"))]
    if kept:
        holder[field] = kept


def _masked(value: Any, pattern: Any) -> Any:
    """The value with everything replaced that the recorded one has a placeholder for."""
    if isinstance(pattern, str) and re.fullmatch("<.*>", pattern) and value not in (None, ""):
        return pattern
    if isinstance(value, dict) and isinstance(pattern, dict):
        return {name: _masked(member, pattern.get(name)) for name, member in value.items()}
    if isinstance(value, list) and isinstance(pattern, list) and len(value) == len(pattern):
        return [_masked(item, other) for item, other in zip(value, pattern, strict=True)]
    return value


def _collection(sent: Object) -> str:
    if sent["kind"] == "TokenRequest":
        return "/api/v1/namespaces/d1/serviceaccounts/x/token"
    return collection(next(info for info in built_in() if kind_id(info) == f"{sent['apiVersion']} {sent['kind']}"))


@pytest.mark.parametrize("row", list(ROWS))
async def test_stored_as_upstream_stores_it(api: Api, row: str) -> None:
    sent, stored = copy.deepcopy((ROWS[row]["sent"], ROWS[row]["stored"]))
    HandlerChain(api.server, address="127.0.0.1:6443", issuer="https://kubernetes.default.svc")
    await make_namespace(api)
    if sent["kind"] == "TokenRequest":
        await api.create("/api/v1/namespaces/d1/serviceaccounts", {"metadata": {"name": "x"}})
    if sent["kind"] == "Pod":
        # Admission gives it an account, without which it may have no token.
        sent["spec"]["serviceAccountName"] = "default"
    body = json.dumps(sent).encode()
    request = Request("POST", _collection(sent), {"content-type": "application/json"}, body)
    response = await api.server.handle(request, _ADMIN)
    assert isinstance(response, Response)
    answer = Answer(response.status, response.headers, response.body)
    assert answer.status == 201, answer.text
    # The data has no managedFields; test_managed_fields.py is about those.
    answer.body.get("metadata", {}).pop("managedFields", None)
    expected = _without_admission(stored)
    assert _masked(_without_admission(answer.body), expected) == expected
    assert answer.headers.get("warning", "") == ROWS[row].get("warning", "")


NODES = "/api/v1/nodes"
GROUPS = {
    "accounts": "/api/v1/namespaces/default/serviceaccounts",
    "limits": "/api/v1/namespaces/default/limitranges",
    "policies": "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
    "revisions": "/apis/apps/v1/namespaces/default/controllerrevisions",
    "leases": "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "ingresses": "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
}


@cases(
    "path, obj, field, stored",
    {
        "podCIDR": (NODES, {"spec": {"podCIDR": "10.1.0.0/24"}}, "spec.podCIDRs", ["10.1.0.0/24"]),
        "podCIDRs": (NODES, {"spec": {"podCIDRs": ["10.1.0.0/24"]}}, "spec.podCIDR", "10.1.0.0/24"),
        "secrets of an account by name alone": (
            GROUPS["accounts"],
            {"secrets": [{"name": "x", "namespace": "y", "uid": "z"}]},
            "secrets",
            [{"name": "x"}],
        ),
        "revision": (GROUPS["revisions"], {"data": {"a": 1}}, "revision", 0),
        "coordinated leader election is behind a gate that is off": (
            GROUPS["leases"],
            {"spec": {"strategy": "X", "preferredHolder": "b", "holderIdentity": "a"}},
            "spec",
            {"holderIdentity": "a"},
        ),
        "absent apiGroup of a backend is null": (
            GROUPS["ingresses"],
            {"spec": {"defaultBackend": {"resource": {"kind": "K", "name": "n"}}}},
            "spec.defaultBackend.resource",
            {"apiGroup": None, "kind": "K", "name": "n"},
        ),
    },
)
async def test_defaults_and_conversions(api: Api, path: str, obj: Object, field: str, stored: Any) -> None:
    result = await api.create(path, {"metadata": {"name": "x"}, **obj})
    for name in field.split("."):
        result = result[name]
    assert result == stored


async def test_a_patch_of_a_lease_drops_the_fields_of_coordinated_leader_election(api: Api) -> None:
    await api.create(GROUPS["leases"], {"metadata": {"name": "x"}, "spec": {"holderIdentity": "a"}})
    answer = await api.patch(f"{GROUPS['leases']}/x", {"spec": {"preferredHolder": "c"}})
    assert answer.body["spec"] == {"holderIdentity": "a"}


async def test_a_limit_range_without_a_name_gets_one(api: Api) -> None:
    answer = await api.post(GROUPS["limits"], {"spec": {"limits": [{"type": "Pod", "min": {"cpu": "1"}}]}})
    assert (answer.status, len(answer.meta["name"])) == (201, 36)


async def test_the_phase_of_a_namespace_is_defaulted(api: Api) -> None:
    created = await api.create(NAMESPACES, {"metadata": {"name": "n"}})
    answer = await api.put(f"{NAMESPACES}/n/status", {**created, "status": {}})
    assert (answer.status, answer.body["status"]) == (200, {"phase": "Active"})


@pytest.mark.parametrize("endpoints", [None, {}, {"kubeletEndpoint": None}, {"kubeletEndpoint": {"Port": None}}])
async def test_the_kubelet_port_of_a_node_is_always_shown(api: Api, endpoints: Object | None) -> None:
    await api.create(NODES, {"metadata": {"name": "n"}})
    answer = await api.patch(f"{NODES}/n", {"status": {"daemonEndpoints": endpoints}})
    assert answer.body["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}


async def test_a_network_policy_without_a_pod_selector_has_an_empty_one(api: Api) -> None:
    await api.create(GROUPS["policies"], {"metadata": {"name": "p"}, "spec": {"podSelector": {}}})
    answer = await api.put(f"{GROUPS['policies']}/p", {"metadata": {"name": "p"}, "spec": {}})
    assert (answer.status, answer.body["spec"]["podSelector"]) == (200, {})
    assert answer.meta["generation"] == 1


async def test_divisors_of_resource_field_selectors_are_defaulted(api: Api) -> None:
    cpu = {"containerName": "c", "resource": "limits.cpu"}
    projected = {"sources": [{"downwardAPI": {"items": [{"path": "p", "resourceFieldRef": cpu}]}}]}
    spec = {
        "containers": [{"name": "c", "image": "i", "env": [{"name": "E", "valueFrom": {"resourceFieldRef": cpu}}]}],
        "volumes": [
            {"name": "v", "downwardAPI": {"items": [{"path": "p", "resourceFieldRef": {**cpu, "divisor": "1000m"}}]}},
            {"name": "w", "projected": projected},
        ],
    }
    created = (await api.create(PODS, {"metadata": {"name": "p"}, "spec": spec}))["spec"]
    variable = created["containers"][0]["env"][0]["valueFrom"]
    volume = created["volumes"][0]["downwardAPI"]["items"][0]
    source = created["volumes"][1]["projected"]["sources"][0]["downwardAPI"]["items"][0]
    assert [item["resourceFieldRef"]["divisor"] for item in (variable, volume, source)] == ["0", "1", "0"]


@cases(
    "spec, stored",
    {
        "false": ({"hostNetwork": False}, {}),
        "an empty string": ({"hostname": ""}, {}),
        "false behind a pointer": ({"enableServiceLinks": False}, {"enableServiceLinks": False}),
    },
)
async def test_zero_values_are_stored_where_go_has_a_pointer(api: Api, spec: Object, stored: Object) -> None:
    containers = {"containers": [{"name": "c", "image": "i"}]}
    created = (await api.create(PODS, {"metadata": {"name": "p"}, "spec": {**containers, **spec}}))["spec"]
    assert {name: value for name, value in created.items() if name in spec} == stored
