"""RBAC decisions, and the user of a certificate or token file."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from tests.tables import cases

from pilothouse.apiserver.authentication.authenticator import StaticTokenAuthenticator, certificate_identity
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import MAX_RULES, Attributes, RbacAuthorizer, Rule
from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects, reconciled
from pilothouse.serving.certificates import create_authority, issue_client, issue_server

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
GET = ("get",)


@cases(
    "rule, attributes, allowed",
    {
        "matching rule": (Rule(GET, ("apps",), ("deployments",)), Attributes("get", "apps", "v1", "deployments"), True),
        "other verb": (Rule(GET, ("apps",), ("deployments",)), Attributes("list", "apps", "v1", "deployments"), False),
        "other group": (Rule(GET, ("",), ("deployments",)), Attributes("get", "apps", "v1", "deployments"), False),
        "stars": (Rule(("*",), ("*",), ("*",)), Attributes("odd", "x", "v1", "y", "z"), True),
        "a subresource is another": (Rule(GET, ("",), ("pods",)), Attributes("get", "", "v1", "pods", "log"), False),
        "named": (Rule(GET, ("",), ("pods/log",)), Attributes("get", "", "v1", "pods", "log"), True),
        "*/scale matches any scale": (
            Rule(GET, ("*",), ("*/scale",)),
            Attributes("get", "apps", "v1", "deployments", "scale"),
            True,
        ),
        "*/scale does not match a resource scale": (
            Rule(GET, ("*",), ("*/scale",)),
            Attributes("get", "apps", "v1", "scale"),
            False,
        ),
        "by name": (Rule(GET, ("",), ("pods",), ("a",)), Attributes("get", "", "v1", "pods", name="a"), True),
        "other name": (Rule(GET, ("",), ("pods",), ("a",)), Attributes("get", "", "v1", "pods", name="b"), False),
        "a list has no name": (Rule(("list",), ("",), ("pods",), ("a",)), Attributes("list", "", "v1", "pods"), False),
        "path": (Rule(GET, non_resource_urls=("/healthz/*",)), Attributes("get", path="/healthz/x"), True),
        "exact": (Rule(GET, non_resource_urls=("/healthz",)), Attributes("get", path="/healthz/x"), False),
        "resource rules do not match paths": (Rule(("*",), ("*",), ("*",)), Attributes("get", path="/metrics"), False),
        "path rules do not match resources": (
            Rule(("*",), non_resource_urls=("*",)),
            Attributes("get", "", "v1", "pods"),
            False,
        ),
    },
)
def test_rules(rule: Rule, attributes: Attributes, allowed: bool) -> None:
    assert rule.allows(attributes) is allowed


@pytest.mark.parametrize("broken", [b"garbage", b"\xff", b"null", b"{}", b'{"metadata":{},"rules":7,"subjects":7}'])
def test_undecodable_roles_are_skipped(broken: bytes) -> None:
    stored = {
        "clusterroles": b'{"metadata":{"name":"a"},"rules":[{"verbs":["get"],"nonResourceURLs":["/livez"]}]}',
        "clusterrolebindings": b'{"metadata":{"name":"a"},"roleRef":{"kind":"ClusterRole","name":"a"},'
        b'"subjects":[{"kind":"User","name":"jane"}]}',
    }
    rbac = RbacAuthorizer(lambda resource: [broken, *filter(None, [stored.get(resource)]), broken])
    assert rbac.authorize(Identity("jane", ()), Attributes("get", path="/livez")).allowed
    assert not rbac.authorize(Identity("bob", ()), Attributes("get", path="/livez")).allowed


def _stored(rules: int, *, role: str = "a") -> dict[str, list[bytes]]:
    """A role with that many rules for Secrets, the last one for ``last``, bound to jane."""
    names = [*(f"s{number}" for number in range(rules - 1)), "last"]
    texts = [
        f'{{"verbs":["get"],"apiGroups":[""],"resources":["secrets"],"resourceNames":["{name}"]}}' for name in names
    ]
    return {
        "clusterroles": [f'{{"metadata":{{"name":"{role}"}},"rules":[{",".join(texts)}]}}'.encode()],
        "clusterrolebindings": [
            b'{"metadata":{"name":"a"},"roleRef":{"kind":"ClusterRole","name":"a"},"subjects":[{"kind":"User","name":"jane"}]}'
        ],
    }


@pytest.mark.parametrize(("rules", "allowed"), [(MAX_RULES, True), (MAX_RULES + 1, False)])
def test_the_rules_of_a_user_are_limited(rules: int, allowed: bool) -> None:
    stored = _stored(rules)
    rbac = RbacAuthorizer(lambda resource: stored.get(resource, []))
    decision = rbac.authorize(Identity("jane", ()), Attributes("get", "", "v1", "secrets", name="last"))
    assert decision.allowed is allowed
    assert ("only the first 50000 rules of the user are considered" in decision.reason) is not allowed


def _binding(name: str, role: str, *subjects: str) -> bytes:
    kinds = [subject.split() for subject in subjects]
    subjects_text = ",".join(f'{{"kind":"{kind}","name":"{subject}"}}' for kind, subject in kinds)
    role_ref = f'{{"kind":"ClusterRole","name":"{role}"}}'
    return f'{{"metadata":{{"name":"{name}"}},"roleRef":{role_ref},"subjects":[{subjects_text}]}}'.encode()


def test_a_binding_applies_once_and_each_error_is_reported_once() -> None:
    """Recorded from v1.36.2: to a user by name and by two groups, and two bindings of one missing role."""
    stored = _stored(1)
    stored["clusterrolebindings"] = [
        _binding("a", "absent", "Group staff", "User jane"),
        _binding("b", "absent", "User jane"),
        _binding("c", "a", "Group staff", "User jane", "Group all"),
    ]
    rbac = RbacAuthorizer(lambda resource: stored.get(resource, []))
    jane = Identity("jane", ("staff", "all"))
    missing = 'clusterrole.rbac.authorization.k8s.io "absent" not found'
    assert rbac.authorize(jane, Attributes("get", "", "v1", "pods")).reason == f"RBAC: {missing}"
    allowed = rbac.authorize(jane, Attributes("get", "", "v1", "secrets", name="last"))
    assert allowed.reason == 'RBAC: allowed by ClusterRoleBinding "c" of ClusterRole "a" to Group "staff"'
    resolved = rbac.rules(jane, "")
    assert (len(resolved.rules), resolved.error, resolved.incomplete) == (1, missing, False)
    stored["clusterrolebindings"].append(_binding("d", "gone", "User jane"))
    rbac.changed()
    assert rbac.rules(jane, "").error == f"[{missing}, {missing.replace('absent', 'gone')}]"


def test_only_changed_roles_are_decoded_again() -> None:
    stored = _stored(10)
    rbac = RbacAuthorizer(lambda resource: stored.get(resource, []))
    before = rbac.role_rules("ClusterRole", "", "a")
    stored["clusterroles"].append(_stored(5, role="b")["clusterroles"][0])
    rbac.changed()
    after = rbac.role_rules("ClusterRole", "", "a")
    assert before is not None and after is not None
    assert [one is other for one, other in zip(before, after, strict=True)] == [True] * 10
    stored["clusterroles"][0] = _stored(3)["clusterroles"][0]
    rbac.changed()
    assert len(rbac.role_rules("ClusterRole", "", "a") or ()) == 3


def test_client_certificate_user_and_groups() -> None:
    authority = create_authority("ca", NOW)
    identity = certificate_identity(issue_client(authority, "jane", ("crew", "deck"), NOW).certificate)
    assert identity is not None
    assert (identity.user, identity.groups) == ("jane", ("crew", "deck"))
    assert identity.extra["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")
    assert certificate_identity(issue_server(authority, ["host"], NOW).certificate) is None, "it is not for clients"


def test_certificate_without_extended_key_usage_is_accepted() -> None:
    """As Go's ``x509.Certificate.Verify``; ``openssl x509 -req`` and fabric8 create such certificates."""
    identity = certificate_identity(create_authority("jane", NOW).certificate)
    assert identity is not None
    assert identity.user == "jane"


def test_certificate_with_an_undecodable_name_is_rejected() -> None:
    authority = create_authority("ca", NOW)
    certificate = x509.load_pem_x509_certificate(issue_client(authority, "janejane", (), NOW).certificate)
    der = certificate.public_bytes(serialization.Encoding.DER)
    assert certificate_identity(der) is not None
    assert certificate_identity(der.replace(b"janejane", b"jane\xff\xfe\xff\xfe")) is None


def test_token_auth_file_format() -> None:
    tokens = StaticTokenAuthenticator.read('t1,jane,u1,"crew,deck"\nt2,bob,u2\n\n')
    assert tokens.identity("t1") == Identity("jane", ("crew", "deck"), "u1")
    assert tokens.identity("t2") == Identity("bob", (), "u2")
    assert tokens.identity("t3") is None
    with pytest.raises(ValueError, match="has 2 columns"):
        StaticTokenAuthenticator.read("t,u")


def test_role_reconciliation_adds_missing_rules() -> None:
    wanted = {"metadata": {}, "rules": [{"verbs": ["get"]}]}
    custom_rule = {"metadata": {}, "rules": [{"verbs": ["list"]}]}
    changed = reconciled(custom_rule, wanted)
    assert changed is not None
    assert changed["rules"] == [{"verbs": ["list"]}, {"verbs": ["get"]}]
    assert reconciled(changed, wanted) is None
    kept = {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}}
    assert reconciled(kept, wanted) is None


def test_bootstrap_roles_are_upstreams() -> None:
    objects = list(bootstrap_objects())
    names = [resource for resource, _obj in objects]
    assert {name: names.count(name) for name in dict.fromkeys(names)} == {
        "clusterroles": 69,
        "clusterrolebindings": 50,
        "roles": 7,
        "rolebindings": 7,
    }
