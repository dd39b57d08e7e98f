"""Objects that refer to what does not exist: bindings, webhook configurations, Ingresses, owners."""

import asyncio
from typing import Any

from tests.why.cluster import Cluster, deployment, text

from pilothouse.api.core import CONFIG_MAPS
from pilothouse.api.networking import INGRESSES
from pilothouse.why import STORED

_RBAC = "rbac.authorization.k8s.io"
_NETWORKING = "networking.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"
_UID = "11111111-1111-1111-1111-111111111111"


def _object(api_version: str, kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def _binding(role: str, account: str) -> dict[str, Any]:
    return _object(
        f"{_RBAC}/v1",
        "RoleBinding",
        "readers",
        roleRef={"apiGroup": _RBAC, "kind": "Role", "name": role},
        subjects=[{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    )


async def test_binding_of_a_role_that_does_not_exist(cluster: Cluster) -> None:
    await cluster.create(_binding("reader", "nobody"))
    explanation = await cluster.why(f"rolebindings.{_RBAC}", "readers")
    assert explanation.state == "incomplete"
    assert [step.text for step in explanation.steps] == [
        "rolebinding/readers refers to role/reader as its role, which does not exist: it grants nothing",
        "rolebinding/readers refers to serviceaccount/nobody as a subject, which does not exist",
    ]
    await cluster.create(_object(f"{_RBAC}/v1", "Role", "reader", rules=[]))
    await cluster.create(_object("v1", "ServiceAccount", "nobody"))
    assert (await cluster.why(f"rolebindings.{_RBAC}", "readers")).state == STORED


async def test_webhook_whose_service_does_not_exist(cluster: Cluster) -> None:
    webhook = {
        "name": "check.example.com",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "default", "name": "checker"}},
        "rules": [{"apiGroups": ["x.example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}],
    }
    await cluster.create(_object(_ADMISSION, "ValidatingWebhookConfiguration", "checks", webhooks=[webhook]))
    resource = "validatingwebhookconfigurations.admissionregistration.k8s.io"
    (step,) = (await cluster.why(resource, "checks", "")).steps
    assert step.text == (
        "validatingwebhookconfiguration/checks refers to service/checker of namespace default for the webhook "
        "check.example.com, which does not exist: matching requests are rejected (failurePolicy Fail)"
    )
    await cluster.create(_object("v1", "Service", "checker", spec={"selector": {"app": "x"}, "ports": [{"port": 443}]}))
    await asyncio.sleep(2)
    (step,) = (await cluster.why(resource, "checks", "")).steps
    assert "which has no endpoints: matching requests are rejected" in step.text
    assert step.because[0].text.startswith("service/checker selects app=x, and no pod")
    await cluster.plane.patch("v1", "Service", "checker", {"spec": {"ports": [{"port": 8443}]}})
    (step,) = (await cluster.why(resource, "checks", "")).steps
    assert "which does not have the port 443, but 8443: matching requests are rejected" in step.text


async def test_webhook_whose_service_has_no_possible_name(cluster: Cluster) -> None:
    """The API server checks only that there is one."""
    webhook = {
        "name": "check.example.com",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "../default", "name": "a/b"}},
        "rules": [{"apiGroups": ["x.example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}],
    }
    await cluster.create(_object(_ADMISSION, "ValidatingWebhookConfiguration", "checks", webhooks=[webhook]))
    (step,) = (await cluster.why("validatingwebhookconfigurations.admissionregistration.k8s.io", "checks", "")).steps
    assert "refers to service/a/b of namespace ../default for the webhook" in step.text
    assert "which does not exist" in step.text


async def test_ingress(cluster: Cluster) -> None:
    backend = {"service": {"name": "web", "port": {"number": 81}}}
    spec = {"ingressClassName": "front", "defaultBackend": backend}
    await cluster.create(_object(_NETWORKING, "Ingress", "web", spec=spec))

    async def texts() -> list[str]:
        explanation = await cluster.why("ingresses.networking.k8s.io", "web")
        return [explanation.state, *(step.text.removeprefix("ingress/web ") for step in explanation.steps)]

    assert await texts() == [
        "incomplete",
        "refers to ingressclass/front as its class, which does not exist: no controller processes it",
        "refers to service/web as a backend, which does not exist",
    ]
    await cluster.create(_object(_NETWORKING, "IngressClass", "front", spec={"controller": "example.com/front"}))
    await cluster.create(_object("v1", "Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}))
    assert await texts() == [
        "incomplete",
        "refers to service/web as a backend, which does not have the port 81, but 80",
    ]
    await cluster.deployment("web", replicas=1)
    backend["service"]["port"] = {"number": 80}
    await cluster.plane.apply(_object(_NETWORKING, "Ingress", "web", spec=spec))
    assert await texts() == ["no address", "has no address: no ingress controller of the class front has reported one"]


async def test_the_change_that_set_a_reference(cluster: Cluster) -> None:
    """Not the last change of the object, which set another field."""
    spec = {
        "ingressClassName": "front",
        "defaultBackend": {"service": {"name": "web", "port": {"number": 80}}},
        "tls": [{"hosts": ["example.com"], "secretName": "first"}],
    }
    await cluster.create(_object(_NETWORKING, "Ingress", "web", spec=spec))

    async def changes() -> dict[str, str]:
        steps = (await cluster.why("ingresses.networking.k8s.io", "web")).steps
        return {step.text.split()[3]: step.because[0].text.removeprefix("ingress/web ") for step in steps}

    await cluster.patch(INGRESSES, "web", {"spec": {"tls": [{"hosts": ["example.com"], "secretName": "second"}]}})
    tls = 'changed: spec.tls[0].secretName: "first" -> "second"'
    assert await changes() == {
        "ingressclass/front": "was created",
        "service/web": "was created",
        "secret/second": tls,
    }
    await cluster.patch(INGRESSES, "web", {"spec": {"defaultBackend": {"service": {"port": {"number": 81}}}}})
    assert (await changes())["service/web"] == "was created", "the Service was named before"
    await cluster.create(_object("v1", "Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}))
    port = "changed: spec.defaultBackend.service.port.number: 80 -> 81"
    assert await changes() == {"ingressclass/front": "was created", "service/web": port, "secret/second": tls}
    await cluster.patch(INGRESSES, "web", {"spec": {"ingressClassName": "back"}})
    assert (await changes())["ingressclass/back"] == 'changed: spec.ingressClassName: "front" -> "back"'


async def test_admission_policy(cluster: Cluster) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.spec.replicas < 3"}],
    }
    await cluster.create(_object(_ADMISSION, "ValidatingAdmissionPolicy", "few", spec=spec))
    binding = {"policyName": "fewer", "validationActions": ["Deny"]}
    await cluster.create(_object(_ADMISSION, "ValidatingAdmissionPolicyBinding", "few", spec=binding))
    await asyncio.sleep(5)
    group = "admissionregistration.k8s.io"
    policy = await cluster.why(f"validatingadmissionpolicies.{group}", "few", "")
    assert policy.state == "type checking warnings"
    assert "undefined field 'spec'" in policy.steps[0].text
    assert policy.steps[1].text.endswith("has no effect: no validatingadmissionpolicybinding has it as its policy")
    (step,) = (await cluster.why(f"validatingadmissionpolicybindings.{group}", "few", "")).steps
    assert step.text == (
        "validatingadmissionpolicybinding/few refers to validatingadmissionpolicy/fewer as its policy, which does not "
        "exist: it has no effect"
    )


async def test_missing_owners(cluster: Cluster) -> None:
    await cluster.create(_object("v1", "ConfigMap", "owner"))
    (owner,) = [
        found for found in await cluster.documents("configmaps", "default") if found["metadata"]["name"] == "owner"
    ]
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]},
        {"apiVersion": "x.example.com/v1", "kind": "Gone", "name": "gone", "uid": _UID},
    ]
    owned = _object("v1", "ConfigMap", "owned")
    owned["metadata"]["ownerReferences"] = references
    await cluster.create(owned)
    await cluster.user.delete(CONFIG_MAPS, "owner", "default")
    await asyncio.sleep(60)
    explanation = await cluster.why("configmaps", "owned")
    assert explanation.state == STORED
    gone, unserved = explanation.steps[1:]
    assert gone.text == (
        f"configmap/owned has the owner configmap/owner with uid {owner['metadata']['uid']}, which does not exist: "
        "garbage-collector-controller deletes the object, unless another owner exists"
    )
    assert gone.because[0].text == "configmap/owner was deleted", text(explanation)
    assert unserved.text == ("configmap/owned has the owner Gone gone of x.example.com/v1, which is not served")


async def test_owner_of_another_uid(cluster: Cluster) -> None:
    """As after a backup was restored. The second owner keeps the object."""
    await cluster.create(deployment("web", replicas=0))
    owned = _object("v1", "ConfigMap", "owned")
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": _UID},
        {"apiVersion": "x.example.com/v1", "kind": "Gone", "name": "gone", "uid": _UID.replace("1", "2")},
    ]
    await cluster.create(owned)
    explanation = await cluster.why("configmaps", "owned")
    step = explanation.steps[1]
    assert f"with uid {_UID}, but deployment/web is another one, with uid " in step.text
    assert step.text.endswith("garbage-collector-controller deletes the object, unless another owner exists")
