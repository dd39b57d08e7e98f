"""``admissionregistration.k8s.io``: admission policies with CEL expressions."""

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import LabelSelector, ObjectMeta, View


class ParamKind(View, frozen=True):
    api_version: str = ""
    kind: str = ""


class ResourceRule(View, frozen=True):
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()


class MatchResources(View, frozen=True):
    resource_rules: tuple[ResourceRule, ...] = ()


class Validation(View, frozen=True):
    expression: str = ""
    message_expression: str = ""


class Variable(View, frozen=True):
    name: str = ""
    expression: str = ""


class ValidatingAdmissionPolicySpec(View, frozen=True):
    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    validations: tuple[Validation, ...] = ()
    variables: tuple[Variable, ...] = ()


class ValidatingAdmissionPolicyStatus(View, frozen=True):
    """The result of type checking; ``observed_generation`` is the generation that was checked."""

    observed_generation: int = 0


class ValidatingAdmissionPolicy(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ValidatingAdmissionPolicySpec = ValidatingAdmissionPolicySpec()
    status: ValidatingAdmissionPolicyStatus = ValidatingAdmissionPolicyStatus()


class ServiceReference(View, frozen=True):
    name: str = ""
    namespace: str = ""
    path: str = ""
    port: int = 0


class WebhookClientConfig(View, frozen=True):
    ca_bundle: bytes = b""
    service: ServiceReference | None = None
    url: str = ""


class MatchCondition(View, frozen=True):
    expression: str = ""
    name: str = ""


class RuleWithOperations(View, frozen=True):
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str = ""


class MutatingWebhook(View, frozen=True):
    admission_review_versions: tuple[str, ...] = ()
    client_config: WebhookClientConfig | None = None
    failure_policy: str = ""
    match_conditions: tuple[MatchCondition, ...] = ()
    match_policy: str = ""
    name: str = ""
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    reinvocation_policy: str = ""
    rules: tuple[RuleWithOperations, ...] = ()
    side_effects: str = ""
    timeout_seconds: int = 0


class MutatingWebhookConfiguration(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[MutatingWebhook, ...] = ()


class ValidatingWebhook(View, frozen=True):
    admission_review_versions: tuple[str, ...] = ()
    client_config: WebhookClientConfig | None = None
    failure_policy: str = ""
    match_conditions: tuple[MatchCondition, ...] = ()
    match_policy: str = ""
    name: str = ""
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    rules: tuple[RuleWithOperations, ...] = ()
    side_effects: str = ""
    timeout_seconds: int = 0


class ValidatingWebhookConfiguration(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[ValidatingWebhook, ...] = ()


class ParamRef(View, frozen=True):
    name: str = ""
    namespace: str = ""
    parameter_not_found_action: str = ""
    selector: LabelSelector | None = None


class ValidatingAdmissionPolicyBindingSpec(View, frozen=True):
    match_resources: MatchResources | None = None
    param_ref: ParamRef | None = None
    policy_name: str = ""
    validation_actions: tuple[str, ...] = ()


class ValidatingAdmissionPolicyBinding(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ValidatingAdmissionPolicyBindingSpec = ValidatingAdmissionPolicyBindingSpec()


class ApplyConfiguration(View, frozen=True):
    expression: str = ""


class JSONPatch(View, frozen=True):
    expression: str = ""


class Mutation(View, frozen=True):
    apply_configuration: ApplyConfiguration | None = None
    json_patch: JSONPatch | None = None
    patch_type: str = ""


class MutatingAdmissionPolicySpec(View, frozen=True):
    failure_policy: str = ""
    match_conditions: tuple[MatchCondition, ...] = ()
    match_constraints: MatchResources | None = None
    mutations: tuple[Mutation, ...] = ()
    param_kind: ParamKind | None = None
    reinvocation_policy: str = ""
    variables: tuple[Variable, ...] = ()


class MutatingAdmissionPolicy(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: MutatingAdmissionPolicySpec = MutatingAdmissionPolicySpec()


class MutatingAdmissionPolicyBindingSpec(View, frozen=True):
    match_resources: MatchResources | None = None
    param_ref: ParamRef | None = None
    policy_name: str = ""


class MutatingAdmissionPolicyBinding(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: MutatingAdmissionPolicyBindingSpec = MutatingAdmissionPolicyBindingSpec()


VALIDATING_ADMISSION_POLICIES: Kind[ValidatingAdmissionPolicy] = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    False,
    ValidatingAdmissionPolicy,
)
MUTATING_WEBHOOK_CONFIGURATIONS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    False,
    MutatingWebhookConfiguration,
)
VALIDATING_WEBHOOK_CONFIGURATIONS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
    ValidatingWebhookConfiguration,
)
VALIDATING_ADMISSION_POLICY_BINDINGS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    False,
    ValidatingAdmissionPolicyBinding,
)
MUTATING_ADMISSION_POLICIES = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingadmissionpolicies",
    "MutatingAdmissionPolicy",
    False,
    MutatingAdmissionPolicy,
)
MUTATING_ADMISSION_POLICY_BINDINGS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingadmissionpolicybindings",
    "MutatingAdmissionPolicyBinding",
    False,
    MutatingAdmissionPolicyBinding,
)
