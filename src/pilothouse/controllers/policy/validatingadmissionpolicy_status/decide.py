"""The types to check a policy against, and the warnings. Pure. Upstream: v1.36
``pkg/controller/validatingadmissionpolicystatus/controller.go`` and the apiserver library's
``admission/plugin/policy/validating/typechecking.go``."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pilothouse.api.admissionregistration import ResourceRule, ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec

FIELD_MANAGER = "validatingadmissionpolicy-status"
MAX_TYPES_TO_CHECK = 10


class TypeName(NamedTuple):
    """Group, version and kind; sorted in this order."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


class NamedResource(NamedTuple):
    """A resource with group and version, as a rule names it."""

    group: str
    version: str
    resource: str


KindsOf = Callable[[NamedResource], Iterable[TypeName]]
"""The kinds that are served under such a name."""


def named_in(rule: ResourceRule) -> Iterator[NamedResource]:
    """The resources of the rule, sorted. None if a group or version is ``*``; without ``*`` and subresources."""
    if any("*" in text for text in (*rule.api_groups, *rule.api_versions)):
        return
    resources = [resource for resource in rule.resources if "*" not in resource and "/" not in resource]
    for group, version, resource in itertools.product(
        sorted(rule.api_groups), sorted(rule.api_versions), sorted(resources)
    ):
        yield NamedResource(group, version, resource)


def types_to_check(spec: ValidatingAdmissionPolicySpec, kinds_of: KindsOf) -> list[TypeName]:
    """The types, sorted; up to the first rule with which there are ten."""
    type_names: set[TypeName] = set()
    for rule in spec.match_constraints.resource_rules if spec.match_constraints is not None else ():
        kinds = [kind for name in named_in(rule) for kind in kinds_of(name)]
        type_names.update(kinds[:MAX_TYPES_TO_CHECK])
        if len(kinds) >= MAX_TYPES_TO_CHECK:
            break
    return sorted(type_names)


def type_of_params(spec: ValidatingAdmissionPolicySpec) -> TypeName | None:
    """The kind of the policy's parameters; None if there is none or its version is invalid (``paramsGVK``)."""
    if spec.param_kind is None or spec.param_kind.api_version.count("/") > 1:
        return None
    group, _slash, version = spec.param_kind.api_version.rpartition("/")
    return TypeName(group, version, spec.param_kind.kind)


def expressions(spec: ValidatingAdmissionPolicySpec) -> Iterator[tuple[str, str]]:
    """Field path and expression."""
    for number, validation in enumerate(spec.validations):
        yield f"spec.validations[{number}].expression", validation.expression
        if validation.message_expression:
            yield f"spec.validations[{number}].messageExpression", validation.message_expression


def warning(errors: Sequence[tuple[TypeName, str]]) -> str:
    """The compiler's errors of one expression, by type."""
    return "\n".join(f"{name}: {error}\n" for name, error in errors)


def is_due(policy: ValidatingAdmissionPolicy) -> bool:
    """Whether this generation was not checked yet."""
    return policy.metadata.generation > policy.status.observed_generation


def configuration(policy: ValidatingAdmissionPolicy, warnings: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """The apply configuration of the status, with (field, text) of each warning.

    It is for the policy as it was read. Upstream's is applied to any policy of the name: to a newer generation, or to
    another one, which is then never checked if its generation is smaller.
    """
    meta = policy.metadata
    listed = [{"fieldRef": path, "warning": warning} for path, warning in warnings]
    checking = {"expressionWarnings": listed} if listed else {}
    return {
        "kind": "ValidatingAdmissionPolicy",
        "apiVersion": "admissionregistration.k8s.io/v1",
        "metadata": {"name": meta.name, "resourceVersion": meta.resource_version},
        "status": {"observedGeneration": meta.generation, "typeChecking": checking},
    }
