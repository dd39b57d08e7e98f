"""``admissionregistration.k8s.io``: policies that are written as expressions."""

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, View


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
    """``observed_generation`` of the type checking."""

    observed_generation: int = 0


class ValidatingAdmissionPolicy(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ValidatingAdmissionPolicySpec = ValidatingAdmissionPolicySpec()
    status: ValidatingAdmissionPolicyStatus = ValidatingAdmissionPolicyStatus()


VALIDATING_ADMISSION_POLICIES: Kind[ValidatingAdmissionPolicy] = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    False,
    ValidatingAdmissionPolicy,
)
