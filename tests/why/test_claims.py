"""Causes sent by users that are no components are not trusted."""

from tests.tables import cases

from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.machinery.causes import Cause, Origin
from pilothouse.why.actors import actor, root_kind
from pilothouse.why.evidence import ObjectChange, Reference
from pilothouse.why.trust import CONTROLLER_ACCOUNTS, trusted_cause

CLAIMED = Cause("replicaset-controller", "default/web", "it was too many")


@cases(
    "user, cause, by, root",
    {
        "the manager": ("system:kube-controller-manager", CLAIMED, "replicaset-controller", "unknown"),
        "a controller": (
            "system:serviceaccount:kube-system:replicaset-controller",
            CLAIMED,
            "replicaset-controller",
            "unknown",
        ),
        "an operator that is trusted": (
            "system:serviceaccount:shop:operator",
            CLAIMED,
            "replicaset-controller as system:serviceaccount:shop:operator",
            "unknown",
        ),
        "other service account": (
            "system:serviceaccount:shop:web",
            CLAIMED,
            "system:serviceaccount:shop:web with curl, who claims to be replicaset-controller",
            "program",
        ),
        "an add-on in kube-system": (
            "system:serviceaccount:kube-system:coredns",
            CLAIMED,
            "system:serviceaccount:kube-system:coredns with curl, who claims to be replicaset-controller",
            "program",
        ),
        "anonymous": (
            "system:anonymous",
            CLAIMED,
            "system:anonymous with curl, who claims to be replicaset-controller",
            "program",
        ),
        "a kubelet": ("system:node:node-1", Cause("kubelet", "default/web", "it ended"), "kubelet", "fault"),
        "a kubelet as a controller": (
            "system:node:node-1",
            CLAIMED,
            "system:node:node-1 with curl, who claims to be replicaset-controller",
            "program",
        ),
        "user": ("jane", CLAIMED, "jane with curl, who claims to be replicaset-controller", "user"),
        "user without claim": ("jane", None, "jane with curl", "user"),
    },
)
def test_writer_and_root_cause(user: str, cause: Cause | None, by: str, root: str) -> None:
    origin = Origin(user=user, user_agent="curl/8.0", verb="update", cause=cause)
    believed = trusted_cause(origin, {"system:serviceaccount:shop:operator"})
    change = ObjectChange(Reference("pods", "default", "web"), "MODIFIED", 7, origin=origin, cause=believed)
    assert (actor(change), root_kind(change)) == (by, root)


def test_every_controller_account_is_trusted() -> None:
    assert {descriptor.client_name for descriptor in DESCRIPTORS} == CONTROLLER_ACCOUNTS
