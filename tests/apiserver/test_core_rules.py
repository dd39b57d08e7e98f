"""What is wrong with namespaces, secrets and quotas, with what is said of it (kubernetes
``pkg/apis/core/validation/validation.go``, v1.36)."""

import base64
from typing import Any

import pytest
from tests.apiserver.api import Api, Object

NAMESPACES = "/api/v1/namespaces"
SECRETS = f"{NAMESPACES}/default/secrets"
QUOTAS = f"{NAMESPACES}/default/resourcequotas"
REDACTED = 'Invalid value: "<secret contents redacted>"'
MISAPPLIED = "unsupported scope applied to resource"
FINALIZER = "name is neither a standard finalizer name nor is it fully qualified"


def _secret(kind: str, **data: str) -> Object:
    encoded = {f".{key}": base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return {"metadata": {"name": "s"}, "type": f"kubernetes.io/{kind}", "data": encoded}


def _quota(hard: Object, **spec: Any) -> Object:
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}


def _term(scope: str, operator: str = "Exists") -> Object:
    return {"scopeName": scope, "operator": operator}


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        pytest.param(
            NAMESPACES,
            {"metadata": {"name": "n"}, "spec": {"finalizers": ["a", "a.b/c", "kubernetes"]}},
            [f'spec.finalizers: Invalid value: "a": {FINALIZER}'],
            id="a finalizer of nobody",
        ),
        pytest.param(
            SECRETS,
            _secret("dockerconfigjson", dockerconfigjson="{x"),
            [
                f"data[.dockerconfigjson]: {REDACTED}: invalid character 'x' looking for beginning of object key "
                "string",
            ],
            id="no JSON",
        ),
        pytest.param(
            SECRETS,
            _secret("dockercfg", dockercfg="[]"),
            [
                f"data[.dockercfg]: {REDACTED}: json: cannot unmarshal array into Go value of type "
                "map[string]interface {}"
            ],
            id="no JSON object",
        ),
        pytest.param(
            SECRETS,
            _secret("dockercfg", dockercfg=""),
            [f"data[.dockercfg]: {REDACTED}: unexpected end of JSON input"],
            id="nothing",
        ),
        pytest.param(SECRETS, _secret("dockercfg", dockercfg="null"), [], id="null"),
        pytest.param(SECRETS, _secret("dockercfg"), ["data[.dockercfg]: Required value"], id="no key"),
        pytest.param(
            QUOTAS,
            _quota({"pods": "1", "persistentvolumeclaims": "1"}, scopes=["VolumeAttributesClass"]),
            [f'spec.scopes: Invalid value: ["VolumeAttributesClass"]: {MISAPPLIED}'],
            id="a scope of claims for pods",
        ),
        pytest.param(
            QUOTAS,
            _quota(
                {"requests.storage": "1", "persistentvolumeclaims": "1", "x.y/z": "1"}, scopes=["VolumeAttributesClass"]
            ),
            [],
            id="a scope of claims for claims",
        ),
        pytest.param(
            QUOTAS,
            _quota({"pods": "1"}, scopeSelector={"matchExpressions": [_term("BestEffort"), _term("NotBestEffort")]}),
            ["spec.scopeSelector.matchExpressions: Invalid value: null: conflicting scopes"],
            id="scopes that exclude each other",
        ),
    ],
)
async def test_what_is_refused(api: Api, path: str, body: Object, told: list[str]) -> None:
    causes = ((await api.post(path, body)).body.get("details") or {}).get("causes") or []
    assert [f"{cause['field']}: {cause['message']}" for cause in causes] == told


async def test_a_private_key_is_not_empty(api: Api) -> None:
    body = {"metadata": {"name": "s"}, "type": "kubernetes.io/ssh-auth", "data": {"ssh-privatekey": ""}}
    assert (await api.post(SECRETS, body)).status == 422


@pytest.mark.parametrize(
    ("status", "told"),
    [
        pytest.param(
            {"declaredFeatures": ["B", "A", "A", "a/b"]},
            [
                'status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically',
                'status.declaredFeatures[2]: Duplicate value: "A"',
                'status.declaredFeatures[3]: Invalid value: "a/b": invalid feature name "a/b": must start with an '
                "UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
                "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
            ],
            id="features",
        ),
        pytest.param({"declaredFeatures": ["A", "A/b", "B"]}, [], id="right features"),
        pytest.param(
            {"addresses": [{"type": "InternalIP", "address": "a"}] * 2},
            ['status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"a"}'],
            id="an address twice",
        ),
    ],
)
async def test_what_nodes_say(api: Api, status: Object, told: list[str]) -> None:
    await api.made("/api/v1/nodes", {"metadata": {"name": "n"}})
    causes = ((await api.patch("/api/v1/nodes/n/status", {"status": status})).body.get("details") or {}).get(
        "causes"
    ) or []
    assert [f"{cause['field']}: {cause['message']}" for cause in causes] == told


async def test_ranges_of_nodes_stay(api: Api) -> None:

    stays = 'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'
    await api.made("/api/v1/nodes", {"metadata": {"name": "n"}, "spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}})
    change = {"podCIDR": "10.0.1.1/24", "podCIDRs": ["10.0.1.1/24", "fd01::/64"]}
    causes = (await api.patch("/api/v1/nodes/n", {"spec": change})).body["details"]["causes"]
    found = [f"{cause['field']}: {cause['message']}" for cause in causes]
    assert found.count(stays) == 2
    assert 'spec.podCIDRs[0]: Invalid value: "10.0.1.1/24": must not have bits set beyond the prefix length' in found
