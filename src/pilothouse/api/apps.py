"""``apps/v1``: ReplicaSets, DaemonSets and the revisions of what they were made from."""

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


class RollingUpdateDaemonSet(View, frozen=True):
    """How far a rolling update may go at once: numbers, or percentages as text."""

    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DaemonSetUpdateStrategy(View, frozen=True):
    """How pods of older templates are replaced."""

    type: str = ""
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(View, frozen=True):
    """What a DaemonSet should be. The template stays raw, as in ``ReplicaSetSpec``."""

    selector: LabelSelector | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")
    update_strategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None


class DaemonSetStatus(View, frozen=True):
    """What a DaemonSet is."""

    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    observed_generation: int = 0
    collision_count: int | None = None


class DaemonSet(View, frozen=True):
    """A DaemonSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ControllerRevision(View, frozen=True):
    """One state that the template of a DaemonSet or StatefulSet has had. ``data`` is whatever its owner put there."""

    metadata: ObjectMeta = ObjectMeta()
    data: msgspec.Raw = msgspec.Raw(b"null")
    revision: int = 0


DAEMON_SETS = Kind("apps", "v1", "daemonsets", "DaemonSet", True, DaemonSet)
CONTROLLER_REVISIONS = Kind("apps", "v1", "controllerrevisions", "ControllerRevision", True, ControllerRevision)
