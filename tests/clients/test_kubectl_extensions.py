"""kubectl with custom resources with CEL rules, admission policies and webhooks."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.clients.embedded_server import ADMIN_TOKEN, EmbeddedServer
from tests.clients.test_kubectl import KUBECTL, Kubectl
from tests.custom_resources import definition, schema, version

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")
REGISTRATION = "admissionregistration.k8s.io/v1"


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with EmbeddedServer(tmp_path_factory.mktemp("extensions")) as running:
        yield Kubectl(running, running.kubeconfig("admin", token=ADMIN_TOKEN))


def cron_tabs() -> dict[str, Any]:
    rules = [
        {"rule": "self.replicas <= self.most", "messageExpression": "'no more than %d'.format([self.most])"},
        {"rule": "quantity(self.memory).isLessThan(quantity('1Gi'))", "message": "too much", "fieldPath": ".memory"},
    ]
    spec = {
        "type": "object",
        "x-kubernetes-validations": rules,
        "properties": {
            "schedule": {
                "type": "string",
                "description": "when it runs",
                "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
            },
            "replicas": {"type": "integer", "default": 3},
            "most": {"type": "integer", "default": 10},
            "memory": {"type": "string", "default": "64Mi"},
        },
    }
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    served = version(
        schema=schema(spec, status=status),
        subresources={"status": {}, "scale": paths},
        additionalPrinterColumns=[{"name": "Schedule", "type": "string", "jsonPath": ".spec.schedule"}],
    )
    return definition("CronTab", served, names={"shortNames": ["ct"]})


def cron_tab(name: str = "my", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "CronTab", "metadata": {"name": name}, "spec": spec}


def test_custom_resource_with_cel_rules(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=cron_tabs())
    kubectl("wait", "--for=condition=Established", "crd/crontabs.example.com")
    assert "when it runs" in kubectl("explain", "crontab.spec.schedule")
    kubectl("apply", "-f", "-", stdin=cron_tab(schedule="* * * * *"))
    assert kubectl("get", "ct").split() == ["NAME", "SCHEDULE", "my", "*", "*", "*", "*", "*"]
    assert kubectl("get", "ct", "my", "-o", "jsonpath={.spec.replicas} {.spec.memory}") == "3 64Mi"
    for change, problem in (
        ('{"replicas": 11}', "spec: Invalid value: no more than 10"),
        ('{"memory": "2Gi"}', "spec.memory: Invalid value: too much"),
        ('{"schedule": "1 * * * *"}', 'spec.schedule: Invalid value: "1 * * * *": is immutable'),
    ):
        refused = kubectl("patch", "ct", "my", "--type=merge", "-p", f'{{"spec": {change}}}', fails=True)
        assert refused.strip() == f'The CronTab "my" is invalid: {problem}'
    kubectl("scale", "ct", "my", "--replicas=5")
    assert kubectl.get("ct", "my")["spec"]["replicas"] == 5
    unknown = kubectl("create", "-f", "-", stdin=cron_tab("other", nonsense=1), fails=True)
    assert 'strict decoding error: unknown field "spec.nonsense"' in unknown
    kubectl("delete", "crd", "crontabs.example.com")
    assert 'doesn\'t have a resource type "crontabs"' in kubectl("get", "crontabs.example.com", fails=True)


def policy(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
    constraints = {"resourceRules": [rule]}
    return {
        "apiVersion": REGISTRATION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"matchConstraints": constraints, **spec},
    }


def binding(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": REGISTRATION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"policyName": name, **spec},
    }


def test_policies_validate_and_mutate(kubectl: Kubectl) -> None:
    few = [{"expression": "object.spec.replicas <= 5", "messageExpression": "string(object.spec.replicas) + ' of 5'"}]
    label = "Object{metadata: Object.metadata{labels: Object.metadata.labels{team: 'core'}}}"
    change = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": label}}
    for manifest in (
        policy("ValidatingAdmissionPolicy", "few", validations=few),
        binding("ValidatingAdmissionPolicyBinding", "few", validationActions=["Deny"]),
        policy("MutatingAdmissionPolicy", "team", mutations=[change], reinvocationPolicy="Never"),
        binding("MutatingAdmissionPolicyBinding", "team"),
    ):
        kubectl("apply", "-f", "-", stdin=manifest)
    refused = kubectl("create", "deployment", "web", "--image=i", "--replicas=6", fails=True)
    assert refused.strip() == (
        "error: failed to create deployment: deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'few' "
        "with binding 'few' denied request: 6 of 5"
    )
    kubectl("create", "deployment", "web", "--image=i")
    assert kubectl.get("deployment", "web")["metadata"]["labels"] == {"app": "web", "team": "core"}
    wrong = policy("ValidatingAdmissionPolicy", "wrong", validations=[{"expression": "object.a ="}])
    refused = kubectl("create", "-f", "-", stdin=wrong, fails=True)
    assert "spec.validations[0].expression: Invalid value" in refused
    assert "Syntax error" in refused


def test_unreachable_webhook_rejects(kubectl: Kubectl) -> None:
    hook = {
        "name": "no.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/no"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["secrets"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    configuration = {
        "apiVersion": REGISTRATION,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "no"},
        "webhooks": [hook],
    }
    kubectl("create", "-f", "-", stdin=configuration)
    refused = kubectl("create", "secret", "generic", "s", fails=True)
    assert refused.strip() == (
        'error: failed to create secret Internal error occurred: failed calling webhook "no.example.com": failed to '
        'call webhook: Post "https://127.0.0.1:1/no?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused'
    )
    kubectl("delete", "validatingwebhookconfiguration", "no")
    kubectl("create", "secret", "generic", "s")
