"""Which rule allows what, and who a certificate or a header makes the caller."""

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from pilothouse.apiserver.authentication.authenticator import StaticTokens, certificate_identity
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes, Rule
from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects, reconciled
from pilothouse.serving.certificates import issue_client, issue_server, make_authority

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
GET = ("get",)


@pytest.mark.parametrize(
    ("rule", "asked", "allowed"),
    [
        pytest.param(
            Rule(GET, ("apps",), ("deployments",)), Attributes("get", "apps", "v1", "deployments"), True, id="it"
        ),
        pytest.param(
            Rule(GET, ("apps",), ("deployments",)),
            Attributes("list", "apps", "v1", "deployments"),
            False,
            id="other verb",
        ),
        pytest.param(
            Rule(GET, ("",), ("deployments",)), Attributes("get", "apps", "v1", "deployments"), False, id="other group"
        ),
        pytest.param(Rule(("*",), ("*",), ("*",)), Attributes("odd", "x", "v1", "y", "z"), True, id="stars"),
        pytest.param(
            Rule(GET, ("",), ("pods",)),
            Attributes("get", "", "v1", "pods", "log"),
            False,
            id="a subresource is another",
        ),
        pytest.param(Rule(GET, ("",), ("pods/log",)), Attributes("get", "", "v1", "pods", "log"), True, id="named"),
        pytest.param(
            Rule(GET, ("*",), ("*/scale",)),
            Attributes("get", "apps", "v1", "deployments", "scale"),
            True,
            id="any scale",
        ),
        pytest.param(Rule(GET, ("*",), ("*/scale",)), Attributes("get", "apps", "v1", "scale"), False, id="no scale"),
        pytest.param(
            Rule(GET, ("",), ("pods",), ("a",)), Attributes("get", "", "v1", "pods", name="a"), True, id="by name"
        ),
        pytest.param(
            Rule(GET, ("",), ("pods",), ("a",)), Attributes("get", "", "v1", "pods", name="b"), False, id="other name"
        ),
        pytest.param(
            Rule(("list",), ("",), ("pods",), ("a",)),
            Attributes("list", "", "v1", "pods"),
            False,
            id="a list has no name",
        ),
        pytest.param(
            Rule(GET, non_resource_urls=("/healthz/*",)), Attributes("get", path="/healthz/x"), True, id="path"
        ),
        pytest.param(
            Rule(GET, non_resource_urls=("/healthz",)), Attributes("get", path="/healthz/x"), False, id="exact"
        ),
        pytest.param(Rule(("*",), ("*",), ("*",)), Attributes("get", path="/metrics"), False, id="paths are apart"),
        pytest.param(Rule(("*",), non_resource_urls=("*",)), Attributes("get", "", "v1", "pods"), False, id="and back"),
    ],
)
def test_rules(rule: Rule, asked: Attributes, allowed: bool) -> None:
    assert rule.allows(asked) is allowed


def test_a_client_certificate_names_user_and_groups() -> None:
    authority = make_authority("ca", NOW)
    identity = certificate_identity(issue_client(authority, "jane", ("crew", "deck"), NOW).certificate)
    assert identity is not None
    assert (identity.user, identity.groups) == ("jane", ("crew", "deck"))
    assert identity.extra["authentication.kubernetes.io/credential-id"][0].startswith("X509SHA256=")
    assert certificate_identity(issue_server(authority, ["host"], NOW).certificate) is None, "it is not for clients"


def test_a_certificate_whose_name_cannot_be_read_is_nobodys() -> None:
    authority = make_authority("ca", NOW)
    certificate = x509.load_pem_x509_certificate(issue_client(authority, "janejane", (), NOW).certificate)
    der = certificate.public_bytes(serialization.Encoding.DER)
    assert certificate_identity(der) is not None
    assert certificate_identity(der.replace(b"janejane", b"jane\xff\xfe\xff\xfe")) is None


def test_a_token_file_is_read_as_upstream_reads_it() -> None:
    tokens = StaticTokens.read('t1,jane,u1,"crew,deck"\nt2,bob,u2\n\n')
    assert tokens.identity("t1") == Identity("jane", ("crew", "deck"), "u1")
    assert tokens.identity("t2") == Identity("bob", (), "u2")
    assert tokens.identity("t3") is None
    with pytest.raises(ValueError, match="has 2 columns"):
        StaticTokens.read("t,u")


def test_what_a_role_lacks_is_added_and_what_it_has_stays() -> None:
    wanted = {"metadata": {}, "rules": [{"verbs": ["get"]}]}
    mine = {"metadata": {}, "rules": [{"verbs": ["list"]}]}
    changed = reconciled(mine, wanted)
    assert changed is not None
    assert changed["rules"] == [{"verbs": ["list"]}, {"verbs": ["get"]}]
    assert reconciled(changed, wanted) is None
    kept = {"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}}
    assert reconciled(kept, wanted) is None


def test_there_are_upstreams_roles() -> None:
    objects = list(bootstrap_objects())
    names = [resource for resource, _obj in objects]
    assert {name: names.count(name) for name in dict.fromkeys(names)} == {
        "clusterroles": 69,
        "clusterrolebindings": 50,
        "roles": 7,
        "rolebindings": 7,
    }
