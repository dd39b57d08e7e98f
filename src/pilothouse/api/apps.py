"""``apps/v1``: Deployments, ReplicaSets, DaemonSets, StatefulSets, and the ControllerRevisions of their templates."""

import datetime

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import LabelSelector, ObjectMeta, View


class ReplicaSetSpec(View, frozen=True):
    """The desired state of a ReplicaSet. The template stays raw, because it is copied into pods with unknown fields."""

    replicas: int | None = None
    min_ready_seconds: int = 0
    selector: LabelSelector | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")


class ReplicaSetCondition(View, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime.datetime | None = None


class ReplicaSetStatus(View, frozen=True):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    observed_generation: int = 0
    conditions: tuple[ReplicaSetCondition, ...] = ()


class ReplicaSet(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet", True, ReplicaSet)


class RollingUpdateDeployment(View, frozen=True):
    """The limits of a rolling update: numbers, or percentages as text."""

    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DeploymentStrategy(View, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(View, frozen=True):
    """The desired state of a Deployment. The template stays raw, as in ``ReplicaSetSpec``."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentCondition(View, frozen=True):
    """A condition of a Deployment. ``last_transition_time``: when its status changed; ``last_update_time``: when its
    reason changed, or progress was made."""

    type: str = ""
    status: str = ""
    last_update_time: datetime.datetime | None = None
    last_transition_time: datetime.datetime | None = None
    reason: str = ""
    message: str = ""


class DeploymentStatus(View, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[DeploymentCondition, ...] = ()
    collision_count: int | None = None


class Deployment(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class RollingUpdateDaemonSet(View, frozen=True):
    """The limits of a rolling update: numbers, or percentages as text."""

    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DaemonSetUpdateStrategy(View, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateDaemonSet | None = None


class DaemonSetSpec(View, frozen=True):
    """The desired state of a DaemonSet. The template stays raw, as in ``ReplicaSetSpec``."""

    selector: LabelSelector | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")
    update_strategy: DaemonSetUpdateStrategy = DaemonSetUpdateStrategy()
    min_ready_seconds: int = 0
    revision_history_limit: int | None = None


class DaemonSetStatus(View, frozen=True):
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
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class RollingUpdateStatefulSet(View, frozen=True):
    partition: int | None = None
    max_unavailable: int | str | None = None


class StatefulSetUpdateStrategy(View, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateStatefulSet | None = None


class StatefulSetOrdinals(View, frozen=True):
    start: int = 0


class PersistentVolumeClaimRetentionPolicy(View, frozen=True):
    when_deleted: str = ""
    when_scaled: str = ""


class StatefulSetSpec(View, frozen=True):
    """The desired state of a StatefulSet. Templates stay raw, as in ``ReplicaSetSpec``."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")
    volume_claim_templates: msgspec.Raw = msgspec.Raw(b"[]")
    service_name: str = ""
    pod_management_policy: str = ""
    update_strategy: StatefulSetUpdateStrategy = StatefulSetUpdateStrategy()
    revision_history_limit: int | None = None
    min_ready_seconds: int = 0
    persistent_volume_claim_retention_policy: PersistentVolumeClaimRetentionPolicy | None = None
    ordinals: StatefulSetOrdinals | None = None


class StatefulSetStatus(View, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    available_replicas: int | None = None


class StatefulSet(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class ControllerRevision(View, frozen=True):
    """A revision of the template of a DaemonSet or StatefulSet. The owner determines the format of ``data``."""

    metadata: ObjectMeta = ObjectMeta()
    data: msgspec.Raw = msgspec.Raw(b"null")
    revision: int = 0


DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment", True, Deployment)
DAEMON_SETS = Kind("apps", "v1", "daemonsets", "DaemonSet", True, DaemonSet)
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet", True, StatefulSet)
CONTROLLER_REVISIONS = Kind("apps", "v1", "controllerrevisions", "ControllerRevision", True, ControllerRevision)
