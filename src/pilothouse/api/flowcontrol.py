"""``flowcontrol.apiserver.k8s.io/v1``: API Priority and Fairness."""

import datetime

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, View


class FlowDistinguisherMethod(View, frozen=True):
    type: str = ""


class PriorityLevelConfigurationReference(View, frozen=True):
    name: str = ""


class NonResourcePolicyRule(View, frozen=True):
    non_resource_ur_ls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    verbs: tuple[str, ...] = ()


class ResourcePolicyRule(View, frozen=True):
    api_groups: tuple[str, ...] = ()
    cluster_scope: bool = False
    namespaces: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()


class GroupSubject(View, frozen=True):
    name: str = ""


class ServiceAccountSubject(View, frozen=True):
    name: str = ""
    namespace: str = ""


class UserSubject(View, frozen=True):
    name: str = ""


class Subject(View, frozen=True):
    group: GroupSubject | None = None
    kind: str = ""
    service_account: ServiceAccountSubject | None = None
    user: UserSubject | None = None


class PolicyRulesWithSubjects(View, frozen=True):
    non_resource_rules: tuple[NonResourcePolicyRule, ...] = ()
    resource_rules: tuple[ResourcePolicyRule, ...] = ()
    subjects: tuple[Subject, ...] = ()


class FlowSchemaSpec(View, frozen=True):
    distinguisher_method: FlowDistinguisherMethod | None = None
    matching_precedence: int = 0
    priority_level_configuration: PriorityLevelConfigurationReference | None = None
    rules: tuple[PolicyRulesWithSubjects, ...] = ()


class FlowSchemaCondition(View, frozen=True):
    last_transition_time: datetime.datetime | None = None
    message: str = ""
    reason: str = ""
    status: str = ""
    type: str = ""


class FlowSchemaStatus(View, frozen=True):
    conditions: tuple[FlowSchemaCondition, ...] = ()


class FlowSchema(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: FlowSchemaSpec = FlowSchemaSpec()
    status: FlowSchemaStatus = FlowSchemaStatus()


class ExemptPriorityLevelConfiguration(View, frozen=True):
    lendable_percent: int = 0
    nominal_concurrency_shares: int = 0


class QueuingConfiguration(View, frozen=True):
    hand_size: int = 0
    queue_length_limit: int = 0
    queues: int = 0


class LimitResponse(View, frozen=True):
    queuing: QueuingConfiguration | None = None
    type: str = ""


class LimitedPriorityLevelConfiguration(View, frozen=True):
    borrowing_limit_percent: int = 0
    lendable_percent: int = 0
    limit_response: LimitResponse | None = None
    nominal_concurrency_shares: int = 0


class PriorityLevelConfigurationSpec(View, frozen=True):
    exempt: ExemptPriorityLevelConfiguration | None = None
    limited: LimitedPriorityLevelConfiguration | None = None
    type: str = ""


class PriorityLevelConfigurationCondition(View, frozen=True):
    last_transition_time: datetime.datetime | None = None
    message: str = ""
    reason: str = ""
    status: str = ""
    type: str = ""


class PriorityLevelConfigurationStatus(View, frozen=True):
    conditions: tuple[PriorityLevelConfigurationCondition, ...] = ()


class PriorityLevelConfiguration(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PriorityLevelConfigurationSpec = PriorityLevelConfigurationSpec()
    status: PriorityLevelConfigurationStatus = PriorityLevelConfigurationStatus()


FLOW_SCHEMAS = Kind("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", False, FlowSchema)
PRIORITY_LEVEL_CONFIGURATIONS = Kind(
    "flowcontrol.apiserver.k8s.io",
    "v1",
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
    False,
    PriorityLevelConfiguration,
)
