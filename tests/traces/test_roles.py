"""v1.36's bootstrap roles suffice for every request of our controllers in any scenario."""

import functools

import pytest
from tests.tables import cases
from tests.traces import test_daemonsets, test_nodes
from tests.traces.audit import MANAGER, SERVICE_ACCOUNT, AuditedServer, roles
from tests.traces.kubectl_user import replay
from tests.traces.managers import start_up, take_over
from tests.traces.records import Record, recorded
from tests.traces.scenarios import QUOTA, SCENARIOS, run

from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes

START_UP, TAKE_OVER = "14-startup", "16-leader-election"
PLAYED = (*SCENARIOS, QUOTA, *test_daemonsets.STEPS, *test_nodes.STEPS)


@functools.cache
def played(scenario: str) -> AuditedServer:
    """Each scenario once."""
    if scenario in test_daemonsets.STEPS:
        before, steps = test_daemonsets.STEPS[scenario]
        return replay(scenario, steps, before=before)
    if scenario in test_nodes.STEPS:
        return replay(scenario, test_nodes.STEPS[scenario], options=test_nodes.MANAGER)
    return {START_UP: start_up, TAKE_OVER: take_over}.get(scenario, functools.partial(run, scenario))()


@pytest.mark.parametrize("scenario", [*PLAYED, START_UP, TAKE_OVER])
def test_bootstrap_roles_allow_every_request(scenario: str) -> None:
    server = played(scenario)
    refused = {f"{user.user}: {attributes}" for user, attributes, decision in server.decisions if not decision.allowed}
    assert not refused
    assert len(server.decisions) >= len(server.records)


@pytest.mark.parametrize("scenario", [*PLAYED, START_UP, TAKE_OVER])
def test_users_of_requests_are_upstreams(scenario: str) -> None:
    """Of the manager and the controllers that were recorded; others may be at work as well."""
    actual = {record.user for record in played(scenario).records}
    # Upstream's namespace controller reads discovery when it starts; ours when it has a terminating namespace.
    assert {record.user for record in recorded(scenario)} - actual <= {"namespace-controller"}


@pytest.mark.parametrize("scenario", [*PLAYED, START_UP, TAKE_OVER])
def test_roles_allow_recorded_requests(scenario: str) -> None:
    authorizer = roles()
    for record in recorded(scenario):
        assert authorizer.authorize(identity(record), attributes(record)).allowed, str(record)


@cases(
    "user, attributes",
    {
        "an owner": ("replicaset-controller", Attributes("delete", "apps", "v1", "replicasets")),
        "PUT of a pod": ("replicaset-controller", Attributes("update", "", "v1", "pods")),
        "PATCH": ("replicaset-controller", Attributes("patch", "apps", "v1", "replicasets", "status")),
        "a new pod": ("generic-garbage-collector", Attributes("create", "", "v1", "pods")),
        "a new ConfigMap": ("namespace-controller", Attributes("create", "", "v1", "configmaps")),
    },
)
def test_roles_allow_no_other_verbs(user: str, attributes: Attributes) -> None:
    assert not roles().authorize(account(user), attributes).allowed


def account(user: str) -> Identity:
    """A controller's service account."""
    groups = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
    return Identity(SERVICE_ACCOUNT + user, groups)


def identity(record: Record) -> Identity:
    """The sender of a recorded request."""
    if record.user == "kube-controller-manager":
        return Identity(MANAGER, ("system:authenticated",))
    return account(record.user)


def attributes(record: Record) -> Attributes:
    """The authorization attributes of a recorded request."""
    if record.resource.startswith("/"):
        return Attributes(record.verb, path=record.resource)
    group, _, version = record.group.rpartition("/")
    resource, _, subresource = record.resource.partition("/")
    return Attributes(record.verb, group, version, resource, subresource, record.namespace, record.name)
