"""The author of a change: users, kubectl commands and components."""

from tests.tables import cases
from tests.why.cluster import Cluster

from pilothouse.api.apps import DEPLOYMENTS
from pilothouse.machinery.causes import Cause, Origin
from pilothouse.why import Reference, ServerEvidence
from pilothouse.why.actors import actor, actor_with_command, root_kind
from pilothouse.why.evidence import ObjectChange
from pilothouse.why.trust import trusted_cause

KUBECTL = "kubectl/v1.20.2 (linux/amd64)"


def change_by(origin: Origin) -> ObjectChange:
    return ObjectChange(Reference("pods", "default", "web"), "MODIFIED", 7, origin=origin, cause=trusted_cause(origin))


@cases(
    "origin, expected",
    {
        "the command as kubectl names it": (
            Origin(user="jane", user_agent=KUBECTL, field_manager="kubectl-set", command="kubectl set image"),
            "jane with kubectl set image",
        ),
        "a user on behalf of another": (
            Origin(user="jane", impersonator="admin", user_agent=KUBECTL, command="kubectl delete"),
            "jane (impersonated by admin) with kubectl delete",
        ),
        "an older kubectl, by its field manager": (
            Origin(user="jane", user_agent=KUBECTL, field_manager="kubectl-client-side-apply"),
            "jane with kubectl apply",
        ),
        "an older kubectl, by the subresource": (
            Origin(user="jane", user_agent=KUBECTL, verb="update", subresource="scale"),
            "jane with kubectl scale",
        ),
        "an older kubectl, by the verb": (
            Origin(user="jane", user_agent=KUBECTL, verb="delete"),
            "jane with kubectl delete",
        ),
        "an eviction": (
            Origin(user="jane", user_agent=KUBECTL, subresource="eviction", command="kubectl drain"),
            "jane with kubectl drain (an eviction)",
        ),
        "other user agent": (Origin(user="jane", user_agent="argocd/v3.1"), "jane with argocd"),
        "user without user agent": (Origin(user="jane"), "jane"),
        "annotation by the API server on a user's request": (
            Origin(user="kubernetes-admin", command="kubectl drain", cause=Cause("kube-apiserver", "", "charged")),
            "kubernetes-admin with kubectl drain",
        ),
        "annotation on the request of a user who is no component": (
            Origin(user="jane", command="kubectl drain", cause=Cause("kube-apiserver", "", "charged")),
            "jane with kubectl drain",
        ),
        "a cause that a user sent": (
            Origin(user="jane", user_agent="bot/1", cause=Cause("replicaset-controller", "default/web", "create")),
            "jane with bot, who claims to be replicaset-controller",
        ),
        "write of the API server": (
            Origin(user="system:apiserver", cause=Cause("kube-apiserver", "", "expired")),
            "kube-apiserver",
        ),
    },
)
def test_actor(origin: Origin, expected: str) -> None:
    assert actor(change_by(origin)) == expected


def test_kubectl_command_is_recognized_by_the_change() -> None:
    origin = change_by(Origin(user="jane", user_agent=KUBECTL))
    assert actor_with_command(origin, "changed: spec.unschedulable added (true)") == "jane with kubectl cordon or drain"
    assert actor_with_command(origin, "changed: spec.replicas: 1 -> 2") == "jane with kubectl"


def test_cause_added_by_the_api_server_keeps_the_user() -> None:
    remark = Cause("kube-apiserver", "", "PodDisruptionBudget web is charged")
    assert root_kind(change_by(Origin(user="kubernetes-admin", cause=remark))) == "user"


async def test_kubectl_command_is_recorded(cluster: Cluster) -> None:
    await cluster.deployment(replicas=1)
    await cluster.user.request(
        "PATCH",
        "/apis/apps/v1/namespaces/default/deployments/web",
        body=b'{"spec": {"replicas": 2}}',
        headers={"content-type": "application/merge-patch+json", "kubectl-command": "kubectl scale"},
    )
    evidence = ServerEvidence(cluster.user, await cluster.user.discover())
    changes = await evidence.changes(Reference(DEPLOYMENTS.group_resource, "default", "web"))
    commands = [change.origin.command for change in changes if change.origin is not None and change.origin.command]
    assert commands == ["kubectl scale"]
