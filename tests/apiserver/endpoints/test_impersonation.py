"""Impersonation: headers, and the rights required.

The modes and their order are those of apiserver's ``pkg/endpoints/filters/impersonation`` (v1.36).
"""

import pytest
from tests.tables import cases

from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes, Decision, Rule
from pilothouse.apiserver.endpoints.impersonation import impersonate, requested_user
from pilothouse.apiserver.errors import StatusError

AUTHENTICATION = "authentication.k8s.io"
LIST = Attributes("list", "", "v1", "pods", namespace="d1")
AGENT = Identity(
    "system:serviceaccount:d1:agent",
    ("system:serviceaccounts",),
    "",
    {"authentication.kubernetes.io/node-name": ("n1",)},
)


class Rights:
    """Allows requests by rules, and records them."""

    def __init__(self, *rules: Rule) -> None:
        self.requests: list[Attributes] = []
        self._rules = rules

    def authorize(self, identity: Identity, attributes: Attributes) -> Decision:
        self.requests.append(attributes)
        return Decision(any(rule.allows(attributes) for rule in self._rules))

    def rules(self, identity: Identity, namespace: str) -> tuple[list[Rule], str]:
        return list(self._rules), ""


def may(verb: str, group: str, resource: str, *names: str) -> Rule:
    return Rule((verb,), (group,), (resource,), names)


def test_impersonation_headers() -> None:
    headers = {
        "impersonate-user": "jane",
        "impersonate-group": "a,b\nc",
        "impersonate-uid": "u",
        "impersonate-extra-acme.com%2fscopes": "x\ny",
        "accept": "*/*",
    }
    extra = {"acme.com/scopes": ("x", "y")}
    assert requested_user(headers) == Identity("jane", ("a,b", "c"), "u", extra)
    assert requested_user({"accept": "*/*"}) is None


def test_impersonation_requires_a_user() -> None:
    with pytest.raises(StatusError) as caught:
        requested_user({"impersonate-group": "bob"})
    assert (caught.value.code, caught.value.message) == (
        400,
        'requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"bob"}, Extra:map[string][]string(nil)} '
        "without impersonating a user name",
    )


def test_impersonate_verb_allows_every_request() -> None:
    rights = Rights(
        may("impersonate", "", "users", "jane"),
        may("impersonate", "", "groups", "crew"),
        may("impersonate", AUTHENTICATION, "uids", "u"),
        may("impersonate", AUTHENTICATION, "userextras/acme.com/scopes", "x"),
    )
    wanted = Identity("jane", ("crew",), "u", {"acme.com/scopes": ("x",)})
    decision, _mode = impersonate(Identity("bob"), wanted, LIST, rights)
    assert decision == Identity("jane", ("crew", "system:authenticated"), "u", {"acme.com/scopes": ("x",)})


@cases(
    "caller, user, rules, groups",
    {
        "user for lists of pods only": (
            Identity("bob"),
            "jane",
            (
                may("impersonate-on:user-info:list", "", "pods"),
                may("impersonate:user-info", AUTHENTICATION, "users", "jane"),
            ),
            ("system:authenticated",),
        ),
        "service account with its groups": (
            Identity("bob"),
            "system:serviceaccount:d1:x",
            (
                may("impersonate-on:serviceaccount:list", "", "pods"),
                may("impersonate:serviceaccount", AUTHENTICATION, "serviceaccounts", "x"),
            ),
            ("system:serviceaccounts", "system:serviceaccounts:d1", "system:authenticated"),
        ),
        "node with its group": (
            Identity("bob"),
            "system:node:n1",
            (
                may("impersonate-on:arbitrary-node:list", "", "pods"),
                may("impersonate:arbitrary-node", AUTHENTICATION, "nodes", "n1"),
            ),
            ("system:nodes", "system:authenticated"),
        ),
        "a pod's account may be the node that the pod is on": (
            AGENT,
            "system:node:n1",
            (
                may("impersonate-on:associated-node:list", "", "pods"),
                may("impersonate:associated-node", AUTHENTICATION, "nodes"),
            ),
            ("system:nodes", "system:authenticated"),
        ),
        "system:anonymous is unauthenticated": (
            Identity("bob"),
            "system:anonymous",
            (may("impersonate", "", "users"),),
            ("system:unauthenticated",),
        ),
    },
)
def test_constrained_impersonation_modes(
    caller: Identity, user: str, rules: tuple[Rule, ...], groups: tuple[str, ...]
) -> None:
    assert impersonate(caller, Identity(user), LIST, Rights(*rules))[0] == Identity(user, groups)
    for left_out in range(len(rules)):
        fewer = [rule for position, rule in enumerate(rules) if position != left_out]
        with pytest.raises(StatusError):
            impersonate(caller, Identity(user), LIST, Rights(*fewer))


def test_service_account_cannot_impersonate_the_node_of_another_pod() -> None:
    rights = Rights(
        may("impersonate-on:associated-node:list", "", "pods"),
        may("impersonate:associated-node", AUTHENTICATION, "nodes"),
    )
    with pytest.raises(StatusError):
        impersonate(AGENT, Identity("system:node:n2"), LIST, rights)


def test_first_rejection_is_reported() -> None:
    with pytest.raises(StatusError) as caught:
        impersonate(Identity("bob"), Identity("jane"), LIST, Rights())
    assert caught.value.message == (
        'pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods" in API group "" '
        'in the namespace "d1"'
    )


def test_system_masters_requires_unconstrained_impersonation() -> None:
    new = (may("impersonate-on:user-info:list", "", "pods"), Rule(("impersonate:user-info",), ("*",), ("*",)))
    wanted = Identity("jane", ("system:masters",))
    with pytest.raises(StatusError, match="impersonating the system:masters group is not allowed"):
        impersonate(Identity("bob"), wanted, LIST, Rights(*new))
    decision, _mode = impersonate(Identity("bob"), wanted, LIST, Rights(*new, Rule(("impersonate",), ("",), ("*",))))
    assert "system:masters" in decision.groups


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        ({"scopes": ("x",)}, 'must be a domain-prefixed path (such as "acme.io/foo")'),
        ({"acme.io/Foo": ("x",)}, 'impersonating a non-lowercase key in extra is not allowed: "acme.io/Foo"'),
        ({"acme.io/foo": ("",)}, "impersonating the empty string value in extra is not allowed"),
    ],
)
def test_constrained_impersonation_of_extra(extra: dict[str, tuple[str, ...]], why: str) -> None:
    rights = Rights(may("impersonate-on:user-info:list", "", "pods"), Rule(("impersonate:user-info",), ("*",), ("*",)))
    with pytest.raises(StatusError) as caught:
        impersonate(Identity("bob"), Identity("jane", (), "", extra), LIST, rights)
    assert why in caught.value.message
