"""``deploy/rbac.yaml`` grants the manager's account exactly the permissions that it needs.

``NEEDED`` has the manager's requests under its own name, with the reason; the requests of a startup in virtual time are
compared with it, too. Controllers use their own accounts, with the permissions of v1.36's bootstrap roles.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.controllermanager.usual import SERVED
from tests.controllers.rights import PLURALS, authorizer
from tests.packaging.manifests import documents
from tests.tables import cases
from tests.traces.audit import MANAGER
from tests.traces.managers import start_up

from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes
from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects
from pilothouse.controllermanager.compatibility import own_controllers
from pilothouse.controllers.registry import DESCRIPTORS

SYSTEM, LEASE = "kube-system", "pilothouse-manager"
ACCOUNT = Identity(
    f"system:serviceaccount:{SYSTEM}:pilothouse-manager",
    ("system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}", "system:authenticated"),
)
CLIENTS = sorted({item.client_name for item in SERVED})
ESCALATING = "clusterrole-aggregation-controller"
"""Its token would make the pod an administrator, so ``deployment.yaml`` disables that controller."""
OWN_ROLES = {f"system:controller:{item.client_name}" for item in own_controllers(DESCRIPTORS)}
"""Roles of controllers that upstream does not have: no API server creates them."""


def needed() -> Iterator[Any]:
    """Every request of the manager under its own name."""

    def check(reason: str, verb: str, group: str, resource: str, namespace: str = "", name: str = "") -> Any:
        resource, _, subresource = resource.partition("/")
        return pytest.param(Attributes(verb, group, "v1", resource, subresource, namespace, name), id=reason)

    lease = ("coordination.k8s.io", "leases", SYSTEM)
    yield check("leader election: create the Lease", "create", *lease)
    yield check("leader election: read it", "get", *lease, LEASE)
    yield check("leader election: renew and release it", "update", *lease, LEASE)
    yield check("leader election: record it", "create", "", "events", SYSTEM)
    yield check("leader election: record it again", "patch", "", "events", SYSTEM, "e")
    # A Namespace counts as being in itself (apiserver library ``pkg/endpoints/request/requestinfo.go``, v0.36).
    yield check("accounts: is the namespace there", "get", "", "namespaces", SYSTEM, SYSTEM)
    yield check("accounts: make one that is missing", "create", "", "serviceaccounts", SYSTEM)
    for client in CLIENTS:
        yield check(f"accounts: is it there: {client}", "get", "", "serviceaccounts", SYSTEM, client)
        if client != ESCALATING:
            yield check(f"accounts: its token: {client}", "create", "", "serviceaccounts/token", SYSTEM, client)
    trust = ("", "configmaps", SYSTEM, "extension-apiserver-authentication")
    for verb in ("get", "list", "watch"):
        yield check(f"secure port: authorities of the cluster: {verb}", verb, *trust)
    yield check("secure port: whose token", "create", "authentication.k8s.io", "tokenreviews")
    yield check("secure port: may they", "create", "authorization.k8s.io", "subjectaccessreviews")
    for verb in ("list", "watch"):
        yield check(f"garbage collector: any resource: {verb}", verb, "example.com", "widgets")
        for kind in {
            watch.kind.resource: watch.kind for descriptor in DESCRIPTORS for watch in descriptor.watches
        }.values():
            yield check(f"caches: {kind.resource}: {verb}", verb, kind.group, kind.resource)


NEEDED = list(needed())


def grants() -> Iterator[Any]:
    """Every single permission of the account, including those of bound roles: one verb on one resource."""
    roles = {(kind, obj["metadata"]["name"]): obj for kind, obj in bootstrap_objects()}
    own = documents("rbac.yaml")
    roles.update({(PLURALS[item["kind"]], item["metadata"]["name"]): item for item in own if "rules" in item})
    for binding in own:
        if "roleRef" not in binding or binding["metadata"]["name"] in OWN_ROLES:
            continue
        reference = binding["roleRef"]
        role = roles[PLURALS[reference["kind"]], reference["name"]]
        namespace = binding["metadata"].get("namespace", "")
        for rule in role["rules"]:
            names = rule.get("resourceNames") or [""]
            for group, resource, verb, name in itertools.product(
                rule["apiGroups"], rule["resources"], rule["verbs"], names
            ):
                label = f"{reference['name']}: {verb} {group or 'core'}/{resource} {name}".strip()
                yield pytest.param(group, resource, verb, namespace, name, id=label)


@pytest.mark.parametrize("attributes", NEEDED)
def test_every_needed_right_is_granted(attributes: Attributes) -> None:
    assert authorizer().authorize(ACCOUNT, attributes).allowed


@pytest.mark.parametrize(("group", "resource", "verb", "namespace", "name"), list(grants()))
def test_every_granted_right_is_needed(group: str, resource: str, verb: str, namespace: str, name: str) -> None:
    def uses(attributes: Attributes) -> bool:
        return (
            group in ("*", attributes.group)
            and resource in ("*", attributes.full_resource)
            and attributes.verb == verb
            and (not namespace or attributes.namespace == namespace)
            and (not name or attributes.name == name)
        )

    assert any(uses(param.values[0]) for param in NEEDED)


def test_deployment_runs_no_controller_without_a_token() -> None:
    (deployment,) = [document for document in documents("deployment.yaml") if document["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (chosen,) = [word for word in container["command"] if word.startswith("--controllers=")]
    assert ESCALATING not in chosen


def test_wildcard_rights_are_for_the_garbage_collector_only() -> None:
    """Without that controller, the caches' resources could be named."""
    assert "garbage-collector-controller" in {descriptor.name for descriptor in DESCRIPTORS}


@pytest.mark.parametrize("client", CLIENTS)
def test_every_controller_account_has_a_role(client: str) -> None:
    """From the start, because the API server makes it; for controllers that upstream does not have it is in
    ``deploy/rbac.yaml``. A manager of one or two namespaces only has it there."""
    name = f"system:controller:{client}"
    own = name in OWN_ROLES
    objects = documents("rbac.yaml") if own else [bound for _resource, bound in bootstrap_objects()]
    bindings = [obj for obj in objects if "roleRef" in obj and obj["metadata"]["name"] == name]
    source = "deploy/rbac.yaml" if own else "the bootstrap policy (apiserver/data/rbac.json)"
    assert bindings, f"{source} has no role and binding {name}: docs/controllers/adding.md, section 7"
    assert name in {obj["metadata"]["name"] for obj in objects if "rules" in obj}
    for binding in bindings:
        assert binding["roleRef"]["name"] == name
        assert {"kind": "ServiceAccount", "name": client, "namespace": SYSTEM} in binding["subjects"]


@cases(
    "attributes",
    {
        "a secret by name": Attributes("get", "", "v1", "secrets", "", SYSTEM, "x"),
        "a new secret": Attributes("create", "", "v1", "secrets", "", SYSTEM),
        "token of a more privileged account": Attributes(
            "create", "", "v1", "serviceaccounts", "token", SYSTEM, ESCALATING
        ),
        "a token in another namespace": Attributes(
            "create", "", "v1", "serviceaccounts", "token", "default", "ttl-controller"
        ),
        "the Lease of the other manager": Attributes(
            "update", "coordination.k8s.io", "v1", "leases", "", SYSTEM, "kube-controller-manager"
        ),
        "a pod": Attributes("delete", "", "v1", "pods", "", "default", "p"),
        "a path of the API server": Attributes("get", path="/metrics"),
    },
)
def test_other_requests_are_denied(attributes: Attributes) -> None:
    assert not authorizer().authorize(ACCOUNT, attributes).allowed


def test_startup_sends_no_other_requests() -> None:
    """All controllers, with an election, for twenty seconds; the Lease has upstream's name there."""
    roles = authorizer()
    requested = {attributes for user, attributes, _decision in start_up().decisions if user.user == MANAGER}
    checked = {
        msgspec.structs.replace(item, name=LEASE) if item.resource == "leases" and item.name else item
        for item in requested
    }
    refused = [item for item in checked if not roles.authorize(ACCOUNT, item).allowed]
    assert not refused
    assert {"leases", "pods", "replicasets", "events"} <= {item.resource for item in checked}
