"""PodSecurity: rejects and warns about pods, warns about templates, and checks the labels of namespaces.

After pod-security-admission's ``admission/admission.go`` (v0.36).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.admission.pod_security.levels import (
    PREFIX,
    LevelVersion,
    PodSecurityOptions,
    Policy,
    is_stricter,
    policy_to_evaluate,
)
from pilothouse.apiserver.audit.context import add_audit_annotation, audit_context
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object, decode
from pilothouse.env.lazy import lazy_imports
from pilothouse.storage import Store

if TYPE_CHECKING:
    from pilothouse.apiserver.admission.pod_security.checks import Violation

with lazy_imports():
    from pilothouse.apiserver.admission.pod_security import violations


_LABEL_PREFIX = PREFIX.encode()
_ENFORCED, _AUDIT_VIOLATIONS = f"{PREFIX}enforce-policy", f"{PREFIX}audit-violations"
_EXEMPT, _ERROR = f"{PREFIX}exempt", f"{PREFIX}error"
_TEMPLATE_PATHS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "replicationcontrollers"): ("spec", "template"),
    ("", "podtemplates"): ("template",),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}
_IGNORED_POD_SUBRESOURCES = frozenset(
    {"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"}
)
_MAX_PODS_TO_CHECK = 3000
"""How many existing pods are checked when the enforce level of a namespace gets stricter."""


class _Meta(msgspec.Struct, frozen=True):
    labels: dict[str, str] | None = None


class _Namespace(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


_decode_namespace = msgspec.json.Decoder(_Namespace).decode


class PodSecurity(Plugin):
    """Validating admission; objects are not changed."""

    resources = frozenset(
        {"pods", "namespaces", *(f"{name}.{group}" if group else name for group, name in _TEMPLATE_PATHS)},
    )

    def __init__(self, store: Store, options: PodSecurityOptions | None = None) -> None:
        self._store = store
        self._options = options or PodSecurityOptions()

    def validate(self, write: AdmissionAttributes) -> None:
        info, obj = write.info, write.obj
        if obj is None or write.operation not in ("CREATE", "UPDATE"):
            return
        if info.group == "" and info.resource == "pods":
            self._validate_pod(write, obj)
        elif info.group == "" and info.resource == "namespaces":
            if not write.subresource:
                self._validate_namespace(write, obj)
        elif not write.subresource and (info.group, info.resource) in _TEMPLATE_PATHS:
            self._validate_pod_controller(write, obj)

    # Pods and templates

    def _validate_pod(self, write: AdmissionAttributes, pod: Object) -> None:
        if write.subresource in _IGNORED_POD_SUBRESOURCES:
            return
        policy = self._policy(write)
        if policy is None:
            return
        if policy == Policy():
            add_audit_annotation(_ENFORCED, str(policy.enforce))
            return
        if write.old is not None and not _is_significant_pod_update(pod, write.old):
            return
        spec = pod.get("spec") or {}
        if self._is_exempt(spec):
            return
        add_audit_annotation(_ENFORCED, str(policy.enforce))
        _audit(policy.audit, pod["metadata"], spec)
        violations_found = _violations(policy.enforce, pod["metadata"], spec)
        if violations_found:
            reason = f'violates PodSecurity "{policy.enforce}": {violations.forbidden_detail(violations_found)}'
            raise errors.forbidden(write.info, write.name, reason)
        self._warn(write, policy.warn, pod["metadata"], spec)

    def _validate_pod_controller(self, write: AdmissionAttributes, obj: Object) -> None:
        policy = self._policy(write)
        if policy is None or policy.warn.level == policy.audit.level == "privileged":
            return
        template: Any = obj
        for field in _TEMPLATE_PATHS[(write.info.group, write.info.resource)]:
            template = template.get(field) or {}
        spec = template.get("spec")
        if not spec or self._is_exempt(spec):
            return
        _audit(policy.audit, template.get("metadata") or {}, spec)
        self._warn(write, policy.warn, template.get("metadata") or {}, spec)

    def _is_exempt(self, spec: Object) -> bool:
        if spec.get("runtimeClassName") not in self._options.exempt_runtime_classes:
            return False
        add_audit_annotation(_EXEMPT, "runtimeClass")
        return True

    def _warn(self, write: AdmissionAttributes, level: LevelVersion, metadata: Object, spec: Object) -> None:
        violations_found = _violations(level, metadata, spec)
        if violations_found:
            write.warnings.append(
                f'would violate PodSecurity "{level}": {violations.forbidden_detail(violations_found)}'
            )

    def _policy(self, write: AdmissionAttributes) -> Policy | None:
        """The policy of the write's namespace; None if the write is exempt or the namespace does not exist."""
        options = self._options
        if write.namespace in options.exempt_namespaces:
            add_audit_annotation(_EXEMPT, "namespace")
            return None
        if write.identity.user in options.exempt_usernames:
            add_audit_annotation(_EXEMPT, "user")
            return None
        record = self._store.staged("/namespaces/" + write.namespace)
        if record is None:
            return None
        if _LABEL_PREFIX not in record.value:
            return options.defaults
        policy, all_errors = policy_to_evaluate(_decode_namespace(record.value).metadata.labels or {}, options.defaults)
        if all_errors:
            texts = [str(error) for error in all_errors]
            text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            add_audit_annotation(_ERROR, f"Failed to parse policy: {text}")
        return policy

    # Namespaces

    def _validate_namespace(self, write: AdmissionAttributes, namespace: Object) -> None:
        labels, options = namespace["metadata"].get("labels") or {}, self._options
        policy, all_errors = policy_to_evaluate(labels, options.defaults)
        if write.old is None:
            if all_errors:
                raise _invalid(write, all_errors)
            if write.name in options.exempt_namespaces:
                self._exempt_namespace_warning(write, policy, labels)
            return
        old_policy, old_errors = policy_to_evaluate(write.old["metadata"].get("labels") or {}, options.defaults)
        if all_errors and all_errors != old_errors:
            raise _invalid(write, all_errors)
        new_level, old_level = policy.enforce, old_policy.enforce
        if new_level == old_level or new_level.level == "privileged":
            return
        if new_level.version == old_level.version and not is_stricter(new_level.level, old_level.level):
            return
        if write.name in options.exempt_namespaces:
            self._exempt_namespace_warning(write, policy, labels)
            return
        write.warnings += self._evaluate_pods_in_namespace(write.name, new_level)

    def _evaluate_pods_in_namespace(self, namespace: str, level: LevelVersion) -> list[str]:
        """Warnings about existing pods that would be rejected now. They keep running."""
        names: dict[str, list[str]] = {}
        records = self._store.list(f"/pods/{namespace}/").records
        pods = _prioritize_pods([decode(record.value) for record in records], self._options.exempt_runtime_classes)
        for pod in pods[:_MAX_PODS_TO_CHECK]:
            violations_found = _violations(level, pod["metadata"], pod.get("spec") or {})
            if violations_found:
                names.setdefault(violations.forbidden_reason(violations_found), []).append(pod["metadata"]["name"])
        detail = []
        if len(pods) > _MAX_PODS_TO_CHECK:
            checked = f"the first {_MAX_PODS_TO_CHECK} of {len(pods)} existing pods"
            detail.append(f"new PodSecurity enforce level only checked against {checked}")
        if names:
            detail.append(
                f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{level}"'
            )
        return detail + sorted(f"{_pod_names(pod_names)}: {reason}" for reason, pod_names in names.items())

    def _exempt_namespace_warning(self, write: AdmissionAttributes, policy: Policy, labels: Mapping[str, str]) -> None:
        modes = (("enforce", policy.enforce), ("audit", policy.audit), ("warn", policy.warn))
        if all(level.level == "privileged" for _mode, level in modes) or _fully_equivalent(
            policy, self._options.defaults
        ):
            return
        modes_set = [
            f"{mode}={level}"
            for mode, level in modes
            if level.level != "privileged" and (PREFIX + mode in labels or f"{PREFIX}{mode}-version" in labels)
        ]
        policy_text = ", ".join(modes_set)
        write.warnings.append(
            f'namespace "{write.name}" is exempt from Pod Security, and the policy ({policy_text}) will be ignored'
        )


def _violations(level: LevelVersion, metadata: Object, spec: Object) -> "list[Violation]":
    """``violations.violations``. The checks are imported only when a level other than privileged applies."""
    if level.level == "privileged":
        return []
    return violations.violations(level, metadata, spec)


def _audit(level: LevelVersion, metadata: Object, spec: Object) -> None:
    """Annotate the audit event with violations of the namespace's audit level."""
    context = audit_context()
    if context is not None and context.enabled:
        violations_found = _violations(level, metadata, spec)
        if violations_found:
            add_audit_annotation(
                _AUDIT_VIOLATIONS,
                f'would violate PodSecurity "{level}": {violations.forbidden_detail(violations_found)}',
            )


def _fully_equivalent(policy: Policy, other_policy: Policy) -> bool:
    """Whether two policies are equivalent: the version of a privileged level does not matter."""
    pairs = (
        (policy.enforce, other_policy.enforce),
        (policy.audit, other_policy.audit),
        (policy.warn, other_policy.warn),
    )
    return all(a == b or a.level == b.level == "privileged" for a, b in pairs)


def _invalid(write: AdmissionAttributes, all_errors: ErrorList) -> errors.StatusError:
    return errors.invalid(write.info.group, write.info.kind, write.name, all_errors)


def _is_significant_pod_update(pod: Object, old: Object) -> bool:
    """Whether an update can change the result of the checks: a container or an image is new."""
    spec, old_spec = pod.get("spec") or {}, old.get("spec") or {}
    for field in ("containers", "initContainers"):
        new_containers, old_containers = spec.get(field) or (), old_spec.get(field) or ()
        if len(new_containers) != len(old_containers) or any(
            container.get("image") != old_container.get("image")
            for container, old_container in zip(new_containers, old_containers, strict=True)
        ):
            return True
    old_images = {
        container.get("name"): container.get("image") for container in old_spec.get("ephemeralContainers") or ()
    }
    return any(
        container.get("name") not in old_images or old_images[container.get("name")] != container.get("image")
        for container in spec.get("ephemeralContainers") or ()
    )


def _prioritize_pods(pods: Iterable[Object], exempt: frozenset[str]) -> list[Object]:
    """Sort pods without a controller and one pod of each controller first: pods of one controller are mostly alike."""
    prioritized: list[Object] = []
    remaining: list[Object] = []
    evaluated_controllers = set()
    for pod in pods:
        if (pod.get("spec") or {}).get("runtimeClassName") in exempt:
            continue
        owners = pod["metadata"].get("ownerReferences") or ()
        uid = next((owner.get("uid") for owner in owners if owner.get("controller")), None)
        (remaining if uid in evaluated_controllers else prioritized).append(pod)
        if uid is not None:
            evaluated_controllers.add(uid)
    return prioritized + remaining


def _pod_names(names: list[str]) -> str:
    if len(names) == 1:
        return names[0]
    other_pods = "1 other pod" if len(names) == 2 else f"{len(names) - 1} other pods"
    return f"{min(names)} (and {other_pods})"
