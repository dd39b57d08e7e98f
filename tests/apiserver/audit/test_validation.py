"""Validation of policies, after upstream's ``pkg/apis/audit/validation/validation_test.go`` (v0.36)."""

import pytest
from tests.tables import cases

from pilothouse.apiserver.audit.policy import GroupResources, Policy, PolicyRule
from pilothouse.apiserver.audit.validation import validate_policy

SECRETS = GroupResources("", ("secrets",))
VALID = (
    PolicyRule("Metadata"),
    PolicyRule("None", users=("tim",), user_groups=("system:serviceaccounts", "system:nodes")),
    PolicyRule(
        "RequestResponse",
        verbs=("get",),
        resources=(GroupResources("rbac.authorization.k8s.io", ("roles", "rolebindings")),),
        namespaces=("kube-system",),
    ),
    PolicyRule("Metadata", user_groups=("developers",), non_resource_urls=("/logs*", "/healthz*", "/metrics", "*")),
    PolicyRule("Metadata", omit_stages=("RequestReceived",)),
)
NO_SLASH = "non-resource URL rules must begin with a '/' character"
NOT_FINAL = "non-resource URL wildcards '*' must be the final character of the rule"
BOTH = "rules cannot apply to both regular resources and non-resource URLs"


@pytest.mark.parametrize(
    "policy",
    [Policy(), Policy(omit_stages=("RequestReceived",)), Policy(VALID), *(Policy((rule,)) for rule in VALID)],
)
async def test_valid_policies(policy: Policy) -> None:
    assert validate_policy(policy) == []


@cases(
    "rule, errors",
    {
        "empty rule": (PolicyRule(), ["rules[0].level: Required value"]),
        "missing level": (
            PolicyRule(verbs=("get",), resources=(SECRETS,), namespaces=("kube-system",)),
            ["rules[0].level: Required value"],
        ),
        "invalid level": (
            PolicyRule("FooBar"),
            [
                'rules[0].level: Unsupported value: "FooBar": supported values: "None", "Metadata", "Request", '
                '"RequestResponse"'
            ],
        ),
        "nonResourceURLs and namespaces": (
            PolicyRule("Metadata", namespaces=("default",), non_resource_urls=("/logs*",)),
            [f'rules[0].nonResourceURLs: Invalid value: ["/logs*"]: {BOTH}'],
        ),
        "nonResourceURLs and resources": (
            PolicyRule("Metadata", resources=(SECRETS,), non_resource_urls=("/logs*",)),
            [f'rules[0].nonResourceURLs: Invalid value: ["/logs*"]: {BOTH}'],
        ),
        "invalid group name": (
            PolicyRule("Metadata", resources=(GroupResources("rbac.authorization.k8s.io/v1beta1", ("roles",)),)),
            [
                'rules[0].resources.group: Invalid value: "rbac.authorization.k8s.io/v1beta1": a lowercase RFC 1123 '
                "subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with "
                "an alphanumeric character (e.g. 'example.com', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ],
        ),
        "missing slash": (
            PolicyRule("Metadata", non_resource_urls=("logs", "/healthz*")),
            [f'rules[0].nonResourceURLs[0]: Invalid value: "logs": {NO_SLASH}'],
        ),
        "empty URL": (
            PolicyRule("Metadata", non_resource_urls=("", "/healthz*")),
            [f'rules[0].nonResourceURLs[0]: Invalid value: "": {NO_SLASH}'],
        ),
        "several wildcards": (
            PolicyRule("Metadata", non_resource_urls=("/logs/*/*", "/metrics")),
            [f'rules[0].nonResourceURLs[0]: Invalid value: "/logs/*/*": {NOT_FINAL}'],
        ),
        "wildcard before the end": (
            PolicyRule("Metadata", non_resource_urls=("/logs/*.log", "/metrics")),
            [f'rules[0].nonResourceURLs[0]: Invalid value: "/logs/*.log": {NOT_FINAL}'],
        ),
        "resourceNames without resources": (
            PolicyRule(
                "Metadata", resources=(GroupResources(resource_names=("leader",)),), namespaces=("kube-system",)
            ),
            [
                'rules[0].resources.resourceNames: Invalid value: ["leader"]: '
                "using resourceNames requires at least one resource"
            ],
        ),
        "invalid stage": (
            PolicyRule("Metadata", omit_stages=("foo",)),
            [
                'rules[0].omitStages[0]: Invalid value: "foo": allowed stages are '
                "RequestReceived,ResponseStarted,ResponseComplete,Panic"
            ],
        ),
    },
)
async def test_invalid_rules(rule: PolicyRule, errors: list[str]) -> None:
    assert [str(error) for error in validate_policy(Policy((rule,)))] == errors


async def test_every_rule_and_the_stages_of_the_policy_are_validated() -> None:
    policy = Policy((*VALID, PolicyRule()), omit_stages=("foo",))
    assert [error.field for error in validate_policy(policy)] == ["omitStages[0]", f"rules[{len(VALID)}].level"]
