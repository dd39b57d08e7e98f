"""Loading policy files, after upstream's ``pkg/audit/policy/reader_test.go`` (v0.36)."""

from pathlib import Path

import pytest
from tests.tables import cases

from pilothouse.apiserver.audit.policy import GroupResources, Policy, PolicyRule
from pilothouse.apiserver.audit.reader import PolicyError, load_policy_from_bytes, load_policy_from_file

POLICY = b"""
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
  - level: None
    nonResourceURLs:
      - /healthz*
      - /version
  - level: RequestResponse
    users: ["tim"]
    userGroups: ["testers", "developers"]
    verbs: ["patch", "delete", "create"]
    resources:
      - group: ""
      - group: "rbac.authorization.k8s.io"
        resources: ["clusterroles", "clusterrolebindings"]
    namespaces: ["default", "kube-system"]
  - level: Metadata
"""
UNKNOWN_FIELD = b"""
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  resources:
  - group: coordination.k8s.io
    resources:
    - "leases"
    verbs: ["watch", "get", "list"] # invalid indentation on verbs
"""


async def test_policy_is_loaded_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_bytes(POLICY)
    assert load_policy_from_file(str(path)) == Policy(
        (
            PolicyRule("None", non_resource_urls=("/healthz*", "/version")),
            PolicyRule(
                "RequestResponse",
                users=("tim",),
                user_groups=("testers", "developers"),
                verbs=("patch", "delete", "create"),
                resources=(
                    GroupResources(),
                    GroupResources("rbac.authorization.k8s.io", ("clusterroles", "clusterrolebindings")),
                ),
                namespaces=("default", "kube-system"),
            ),
            PolicyRule("Metadata"),
        )
    )


async def test_unknown_and_duplicate_fields_log_warnings(caplog: pytest.LogCaptureFixture) -> None:
    policy = load_policy_from_bytes(UNKNOWN_FIELD)
    assert policy.rules == (PolicyRule("None", resources=(GroupResources("coordination.k8s.io", ("leases",)),)),)
    assert (
        'falling back to lenient decoding error=\'strict decoding error: unknown field "rules[0].resources[0].verbs"'
        in (caplog.text.replace('error="', "error='").replace("\\", ""))
    )
    caplog.clear()
    repeated = b"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: None\n  level: Metadata\n"
    assert load_policy_from_bytes(repeated).rules == (PolicyRule("Metadata"),)
    assert "already set in map" in caplog.text


NO_KIND = 'is registered for version "{}" in scheme "k8s.io/apiserver/pkg/audit/scheme.go:30"'


@cases(
    "text, error",
    {
        "neither apiVersion nor kind": (
            POLICY.partition(b"kind: Policy")[2],
            "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy",
        ),
        "empty": (b"", "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy"),
        "no rules": (b"apiVersion: audit.k8s.io/v1\nkind: Policy", "loaded illegal policy with 0 rules"),
        "an event": (b"apiVersion: audit.k8s.io/v1\nkind: Event", "loaded illegal policy with 0 rules"),
        "removed version": (
            b"apiVersion: audit.k8s.io/v1beta1\nkind: Policy",
            'failed decoding: no kind "Policy" ' + NO_KIND.format("audit.k8s.io/v1beta1"),
        ),
        "another kind": (b"apiVersion: v1\nkind: Pod", 'failed decoding: no kind "Pod" ' + NO_KIND.format("v1")),
        "a value of the wrong type": (
            b"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, users: tim}]",
            "failed decoding: json: cannot unmarshal string into Go struct field PolicyRule.rules.users of type "
            "[]string",
        ),
        "an invalid policy": (
            b"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Low}]",
            'rules[0].level: Unsupported value: "Low": supported values: "None", "Metadata", "Request", '
            '"RequestResponse"',
        ),
        "several errors": (
            b"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{}, {}]",
            "[rules[0].level: Required value, rules[1].level: Required value]",
        ),
        "invalid YAML": (b"a: [", "failed decoding: error converting YAML to JSON: yaml: "),
        "not an object": (b"- 1", "failed decoding: couldn't get version/kind; json parse error: "),
    },
)
async def test_invalid_policy_errors_are_upstreams(text: bytes, error: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load_policy_from_bytes(text)
    assert str(caught.value).startswith(error)


async def test_errors_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    with pytest.raises(
        PolicyError, match=r'failed to read file path ".*policy.yaml": open .*: no such file or directory'
    ):
        load_policy_from_file(str(path))
    path.write_text("")
    with pytest.raises(PolicyError, match=r"in policy: from file .*policy.yaml"):
        load_policy_from_file(str(path))
