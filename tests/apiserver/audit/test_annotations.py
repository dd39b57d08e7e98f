"""Audit annotations of admission, deprecated versions and issued tokens (keys of v1.36)."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.apiserver.admission.test_validating_policies import BINDINGS, ONE, POLICIES, binding, policy
from tests.apiserver.admission.test_webhooks import MUTATING, VALIDATING, Hooks, configuration, patch, webhook
from tests.apiserver.api import CONFIG_MAPS, NAMESPACES, PODS, Api
from tests.apiserver.audit.test_filter import Recorder

from pilothouse.apiserver.admission.dynamic.webhook_calls import CallError
from pilothouse.apiserver.audit.checker import PolicyRuleEvaluator
from pilothouse.apiserver.audit.filter import Audit
from pilothouse.apiserver.audit.metrics import AuditMetrics
from pilothouse.apiserver.audit.policy import Policy, PolicyRule
from pilothouse.env import Env

MAP = {"metadata": {"name": "c"}, "data": {"a": "2"}}
POD = {"metadata": {"name": "pod"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
ROUND = "webhook.admission.k8s.io/round_{}_index_{}"


class Audited:
    """A server that records each request's last stage, by a user without a handler chain."""

    def __init__(self, env: Env, level: str = "Request") -> None:
        self.api = Api(env)
        self.recorder = Recorder()
        rule = PolicyRule(level, omit_stages=("RequestReceived",))
        self.api.server.audit = Audit(env, PolicyRuleEvaluator(Policy((rule,))), self.recorder, AuditMetrics())
        self.api.transport = self.api.server.transport("admin", ("system:masters",))

    async def annotations(self, target: str, body: Any, *, code: int = 201) -> dict[str, str]:
        """What a creation leaves behind."""
        answer = await self.api.post(target, body)
        assert answer.status == code, answer.text
        return dict(self.recorder.events[-1].annotations or {})


def _answering(**answers: dict[str, Any] | Exception) -> Callable[[str, Any], dict[str, Any]]:
    def answer(name: str, _request: Any) -> dict[str, Any]:
        result = answers[name.partition(".")[0]]
        if isinstance(result, Exception):
            raise result
        return result

    return answer


@pytest.mark.parametrize("level", ["Metadata", "Request"])
async def test_mutating_webhook_annotations_per_round(env: Env, level: str) -> None:
    audited = Audited(env, level)
    add = {"op": "add", "path": "/data/b", "value": "1"}
    answer = _answering(
        a={"auditAnnotations": {"seen": "yes", "not a key": "x"}}, b=patch(add), c=CallError("no route")
    )
    Hooks(audited.api, answer)
    hooks = [
        webhook("a.example.com", reinvocationPolicy="IfNeeded"),
        webhook("b.example.com"),
        webhook("c.example.com", failurePolicy="Ignore"),
    ]
    await audited.api.create(MUTATING, configuration(*hooks))
    annotations = await audited.annotations(CONFIG_MAPS, MAP)

    def patch_annotation(name: str, *, mutated: bool) -> str:
        return f'{{"configuration":"w","webhook":"{name}.example.com","mutated":{json.dumps(mutated)}}}'

    expected = {
        "a.example.com/seen": "yes",
        f"mutation.{ROUND.format(0, 0)}": patch_annotation("a", mutated=False),
        f"mutation.{ROUND.format(0, 1)}": patch_annotation("b", mutated=True),
        f"mutation.{ROUND.format(0, 2)}": patch_annotation("c", mutated=False),
        f"mutation.{ROUND.format(1, 0)}": patch_annotation("a", mutated=False),
        f"failed-open.mutation.{ROUND.format(0, 2)}": "c.example.com",
    }
    if level == "Request":
        # A patch may have what only the request's object has.
        expected[f"patch.{ROUND.format(0, 1)}"] = (
            '{"configuration":"w","webhook":"b.example.com","patch":[{"op":"add","path":"/data/b","value":"1"}],'
            '"patchType":"JSONPatch"}'
        )
    assert annotations == expected


async def test_validating_webhook_annotations_on_denial(env: Env) -> None:
    audited = Audited(env)
    Hooks(
        audited.api,
        _answering(a=CallError("no route"), b={"allowed": False, "auditAnnotations": {"why": "because"}}),
    )
    hooks = webhook("a.example.com", failurePolicy="Ignore"), webhook("b.example.com")
    await audited.api.create(VALIDATING, configuration(*hooks))
    assert await audited.annotations(CONFIG_MAPS, MAP, code=400) == {
        f"failed-open.validating.{ROUND.format(0, 0)}": "a.example.com",
        "b.example.com/why": "because",
    }


async def test_policy_failures_and_audit_annotations(env: Env) -> None:
    audited = Audited(env)
    annotation = {"key": "value-of-a", "valueExpression": "string(object.data.a)"}
    policy_object = policy({"expression": "true"}, {**ONE, "message": "must be 1"}, auditAnnotations=[annotation])
    await audited.api.create(POLICIES, policy_object)
    await audited.api.create(BINDINGS, binding(validationActions=["Audit"]))
    annotations = await audited.annotations(CONFIG_MAPS, MAP)
    failures = json.loads(annotations.pop("validation.policy.admission.k8s.io/validation_failure"))
    assert failures == [
        {
            "message": "must be 1",
            "policy": "p",
            "binding": "b",
            "expressionIndex": 1,
            "validationActions": ["Audit"],
        }
    ]
    assert annotations == {"p/value-of-a": "2"}


async def test_annotations_of_several_bindings_are_joined_and_truncated(env: Env) -> None:
    audited = Audited(env)
    annotation = {"key": "k", "valueExpression": "string(object.data.a)"}
    await audited.api.create(POLICIES, policy({"expression": "true"}, auditAnnotations=[annotation]))
    for name in ("b", "c"):
        await audited.api.create(BINDINGS, {**binding(), "metadata": {"name": name}})
    assert await audited.annotations(CONFIG_MAPS, MAP) == {"p/k": "2"}
    long = {"metadata": {"name": "long"}, "data": {"a": "ä" * 6000}}
    assert await audited.annotations(CONFIG_MAPS, long) == {"p/k": "ä" * 5120}


LABEL = "pod-security.kubernetes.io/"


@pytest.mark.parametrize(
    ("labels", "code", "expected"),
    [
        ({}, 201, {"enforce-policy": "privileged:latest"}),
        (
            {"enforce": "baseline", "enforce-version": "v1.30"},
            201,
            {"enforce-policy": "baseline:v1.30"},
        ),
        (
            {"audit": "baseline"},
            201,
            {"enforce-policy": "privileged:latest"},
        ),
    ],
)
async def test_pod_security_enforce_policy_annotation(
    env: Env, labels: dict[str, str], code: int, expected: dict[str, str]
) -> None:
    audited = Audited(env)
    meta = {"name": "n", "labels": {LABEL + key: value for key, value in labels.items()}}
    await audited.api.create(NAMESPACES, {"metadata": meta})
    result = await audited.annotations(PODS.replace("default", "n"), POD, code=code)
    assert result == {LABEL + key: value for key, value in expected.items()}


async def test_pod_security_audit_violations_annotation(env: Env) -> None:
    audited = Audited(env)
    labels = {f"{LABEL}enforce": "baseline", f"{LABEL}audit": "restricted", f"{LABEL}warn": "privileged"}
    await audited.api.create(NAMESPACES, {"metadata": {"name": "n", "labels": labels}})
    result = await audited.annotations(PODS.replace("default", "n"), POD)
    assert result[f"{LABEL}enforce-policy"] == "baseline:latest"
    assert result[f"{LABEL}audit-violations"].startswith(
        'would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false'
    )
    template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployments = "/apis/apps/v1/namespaces/n/deployments"
    result = await audited.annotations(deployments, {"metadata": {"name": "web"}, "spec": spec})
    assert list(result) == [f"{LABEL}audit-violations"]


async def test_deprecated_versions_are_annotated(env: Env) -> None:
    audited = Audited(env)
    endpoints = "/api/v1/namespaces/default/endpoints"
    annotations = await audited.annotations(endpoints, {"metadata": {"name": "e"}})
    assert annotations == {"k8s.io/deprecated": "true"}
