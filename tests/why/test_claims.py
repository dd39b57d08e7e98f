"""Causes that are claimed by users who are no components."""

from tests.tables import cases

from pilothouse.machinery.causes import Cause, Origin
from pilothouse.why.actors import root_of, who

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
        "an operator": (
            "system:serviceaccount:shop:operator",
            CLAIMED,
            "replicaset-controller as system:serviceaccount:shop:operator",
            "unknown",
        ),
        "somebody": ("jane", CLAIMED, "jane with curl, who claims to be replicaset-controller", "user"),
        "somebody who claims nothing": ("jane", None, "jane with curl", "user"),
    },
)
def test_who_wrote(user: str, cause: Cause | None, by: str, root: str) -> None:
    origin = Origin(user=user, user_agent="curl/8.0", verb="update", cause=cause)
    assert (who(origin), root_of(origin)) == (by, root)
