"""``apps/v1``: ReplicaSets."""

import datetime

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import LabelSelector, ObjectMeta, View


class ReplicaSetSpec(View, frozen=True):
    """What a ReplicaSet should be.

    The template stays raw: it is copied into pods as it came, also the fields that nobody here knows.
    """

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")


class ReplicaSetCondition(View, frozen=True):
    """A condition of a ReplicaSet."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime.datetime | None = None


class ReplicaSetStatus(View, frozen=True):
    """What a ReplicaSet is."""

    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[ReplicaSetCondition, ...] = ()


class ReplicaSet(View, frozen=True):
    """A ReplicaSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet", True, ReplicaSet)
