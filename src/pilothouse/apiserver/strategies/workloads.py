"""The kinds that make pods: template defaults, selectors that must fit their template.

After kubernetes' ``pkg/apis/apps/{v1/defaults.go,validation}`` and ``pkg/apis/core`` (v1.36).
"""

import re
from collections.abc import Iterable

import msgspec

from pilothouse.api.meta import LabelSelector
from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.claims import ClaimStrategy
from pilothouse.apiserver.strategies.filling import child, fill, number_problems
from pilothouse.apiserver.strategies.pod_templates import validate_template
from pilothouse.apiserver.strategies.rollouts import (
    at_most_problems,
    collision_problems,
    daemon_set_strategy_problems,
    deployment_strategy_problems,
    stateful_set_problems,
)
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.apiserver.strategies.warnings import pod_spec_warnings
from pilothouse.machinery.labels import SelectorError, selector_from
from pilothouse.machinery.names import dns_label_errors
from pilothouse.machinery.quantities import canonicalize
from pilothouse.semantics.pod_defaults import default_claim_spec, default_template


def _drop_zeros(spec: Object, *fields: str) -> None:
    """Numbers that upstream leaves out when they are zero."""
    for field in fields:
        if field in spec and not spec[field]:
            del spec[field]


def _default_rollout(strategy: Object, rolling: Object) -> None:
    """Pods are replaced one after the other unless something else is said; ``rolling`` is how."""
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        fill(child(strategy, "rollingUpdate"), rolling)


def _selector_and_template_problems(
    spec: Object, kind: str, *, restart_policies: tuple[str, ...] = ("Always",)
) -> list[FieldError]:
    """The selector must be there, select something, and match the labels of the template."""
    problems: list[FieldError] = []
    selector, template = spec.get("selector"), spec.get("template")
    if selector is None:
        if kind != "daemonset":
            problems.append(errors.required("spec.selector"))
    else:
        problems += selector_problems(selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            problems.append(
                errors.invalid_value(
                    "spec.selector", selector, f"empty selector is invalid for {_CALLED.get(kind, kind)}"
                )
            )
    if not template:
        problems.append(errors.required("spec.template"))
        return problems
    if selector and kind != "daemonset" and not _is_selector(selector):
        text = "" if kind == "statefulset" else "invalid label selector"
        problems.append(errors.invalid_value("spec.selector", selector, text))
        return problems  # the template is only looked at with a selector to hold against it
    if selector is None or selector:
        labels = (template.get("metadata") or {}).get("labels")
        # No selector at all selects nothing.
        if selector is None or not _matches(selector, labels or {}):
            problems.append(
                errors.invalid_value(
                    "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
                )
            )
    # The claims of a StatefulSet are volumes of its pods; for their sake upstream left its template unjudged for long.
    claims = [(claim.get("metadata") or {}).get("name") or "" for claim in spec.get("volumeClaimTemplates") or ()]
    problems += validate_template(template, "spec.template", restart_policies=restart_policies, claims=claims)
    if (template.get("spec") or {}).get("activeDeadlineSeconds") is not None:
        kind_name = {"daemonset": "DaemonSet", "statefulset": "StatefulSet"}.get(kind, "ReplicaSet")
        problems.append(
            errors.not_allowed(
                "spec.template.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {kind_name} is not Supported"
            )
        )
    return problems


_CALLED = {"replicaset": "deployment"}
"""As upstream says it."""


def _is_selector(selector: Object) -> bool:
    try:
        selector_from(msgspec.convert(selector, LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return False
    return True


def _matches(selector: Object, labels: Object) -> bool:
    try:
        return selector_from(msgspec.convert(selector, LabelSelector)).matches(labels)
    except (SelectorError, msgspec.ValidationError):
        # Said already, by the selector's own problems.
        return True


def _immutable_selector(obj: Object, old: Object) -> list[FieldError]:
    if obj["spec"].get("selector") == old["spec"].get("selector"):
        return []
    return [errors.invalid_value("spec.selector", obj["spec"].get("selector"), "field is immutable")]


class PodTemplateStrategy(Strategy):
    """A template on its own."""

    def default(self, obj: Object) -> None:
        default_template(obj.setdefault("template", {}))

    def validate(self, obj: Object) -> list[FieldError]:
        return validate_template(
            obj.get("template") or {}, "template", restart_policies=("Always", "OnFailure", "Never")
        )


class _Workload(Strategy):
    """What Deployments, ReplicaSets, DaemonSets and StatefulSets share."""

    noun = ""
    zeros: tuple[str, ...] = ("minReadySeconds",)
    numbers: tuple[str, ...] = ("replicas", "minReadySeconds")
    has_replicas = True

    def default(self, obj: Object) -> None:
        spec: Object = obj.setdefault("spec", {})
        if self.has_replicas and spec.get("replicas") is None:
            spec["replicas"] = 1
        default_template(spec.setdefault("template", {}))
        _drop_zeros(spec, *self.zeros)
        self.default_spec(spec)

    def default_spec(self, spec: Object) -> None:
        """What the kind fills in besides."""

    def warnings(self, obj: Object) -> Iterable[str]:
        template = (obj.get("spec") or {}).get("template") or {}
        return pod_spec_warnings(template.get("spec") or {}, "spec.template.spec")

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        return number_problems(spec, "spec", self.numbers) + _selector_and_template_problems(spec, self.noun)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        if obj["spec"] == old["spec"]:
            return []
        return self.validate_again(obj) + _immutable_selector(obj, old)


class ReplicaSetStrategy(_Workload):
    """``apps/v1`` ReplicaSets."""

    noun = "replicaset"
    empty_status = {"replicas": 0}  # read only

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        return _replica_status_problems(obj.get("status") or {})

    def finish(self, obj: Object) -> None:
        status = obj.get("status") or {}
        obj["status"] = {
            "replicas": status.get("replicas") or 0,
            **{k: v for k, v in status.items() if k != "replicas"},
        }
        _drop_zeros(
            obj["status"],
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "conditions",
        )


def _replica_status_problems(status: Object) -> list[FieldError]:
    numbers = (
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    )
    return number_problems(status, "status", numbers) + at_most_problems(
        status,
        (
            ("fullyLabeledReplicas", "replicas", "status.replicas"),
            ("readyReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "replicas", "status.replicas"),
            ("availableReplicas", "readyReplicas", "readyReplicas"),
        ),
    )


class ReplicationControllerStrategy(Strategy):
    """Selector and labels come from the template."""

    empty_status = {"replicas": 0}  # read only
    selectable = {"status.replicas": ("status", "replicas")}  # read only
    selectable_defaults = {"status.replicas": "0"}  # read only

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        return _replica_status_problems(obj.get("status") or {})

    def default(self, obj: Object) -> None:
        spec: Object = obj.setdefault("spec", {})
        template = spec.get("template")
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        if template is not None:
            default_template(template)
            labels = (template.get("metadata") or {}).get("labels")
            if labels:
                if not spec.get("selector"):
                    spec["selector"] = dict(labels)
                if not obj["metadata"].get("labels"):
                    obj["metadata"]["labels"] = dict(labels)
        _drop_zeros(spec, "minReadySeconds")

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        problems = number_problems(spec, "spec", ("replicas", "minReadySeconds"))
        selector, template = spec.get("selector") or {}, spec.get("template")
        if not selector:
            problems.append(errors.required("spec.selector"))
        if not template:
            return [*problems, errors.required("spec.template")]
        labels = (template.get("metadata") or {}).get("labels") or {}
        if any(labels.get(key) != value for key, value in selector.items()):
            problems.append(
                errors.invalid_value(
                    "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
                )
            )
        problems += validate_template(template, "spec.template", restart_policies=("Always",))
        if (template.get("spec") or {}).get("activeDeadlineSeconds") is not None:
            told = "activeDeadlineSeconds in ReplicationController is not Supported"
            problems.append(errors.not_allowed("spec.template.spec.activeDeadlineSeconds", told))
        return problems

    def refuses_field(self, path: str) -> str:
        return f"field label not supported: {path}"


class DeploymentStrategy(_Workload):
    """``apps/v1`` Deployments. A change of annotations raises the generation too."""

    noun = "deployment"
    status_keeps = "labels"
    numbers = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")

    def default_spec(self, spec: Object) -> None:
        _default_rollout(child(spec, "strategy"), {"maxUnavailable": "25%", "maxSurge": "25%"})
        fill(spec, {"revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
        _drop_zeros(spec, "paused")

    def validate(self, obj: Object) -> list[FieldError]:
        problems = super().validate(obj)
        spec = obj["spec"]
        problems += deployment_strategy_problems(spec["strategy"])
        deadline, ready = spec["progressDeadlineSeconds"], spec.get("minReadySeconds") or 0
        if deadline <= ready:
            problems.append(
                errors.invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
            )
        return problems

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        status: Object = obj.get("status") or {}
        fields = (
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        )
        problems = number_problems(status, "status", fields) + at_most_problems(
            status,
            (
                ("updatedReplicas", "replicas", "status.replicas"),
                ("readyReplicas", "replicas", "status.replicas"),
                ("availableReplicas", "replicas", "status.replicas"),
                ("availableReplicas", "readyReplicas", "readyReplicas"),
            ),
        )
        return problems + collision_problems(status, old.get("status") or {})

    def changed(self, obj: Object, old: Object) -> bool:
        return super().changed(obj, old) or obj["metadata"].get("annotations") != old["metadata"].get("annotations")


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DaemonSetStrategy(_Workload):
    """``apps/v1`` DaemonSets."""

    noun = "daemonset"
    has_replicas = False
    numbers = ("minReadySeconds", "revisionHistoryLimit")
    empty_status = {  # read only
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }

    def default_spec(self, spec: Object) -> None:
        _default_rollout(child(spec, "updateStrategy"), {"maxUnavailable": 1, "maxSurge": 0})
        fill(spec, {"revisionHistoryLimit": 10})

    def validate(self, obj: Object) -> list[FieldError]:
        return super().validate(obj) + daemon_set_strategy_problems(obj["spec"]["updateStrategy"])

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        status: Object = obj.get("status") or {}
        fields = (
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        )
        return number_problems(status, "status", fields) + collision_problems(status, old.get("status") or {})

    def prepare_create(self, obj: Object, now: str) -> None:
        _set_annotation(obj, _TEMPLATE_GENERATION, "1")

    def default(self, obj: Object) -> None:
        super().default(obj)
        counter = (obj["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION)
        if counter is not None and not re.fullmatch(r"[+-]?[0-9]+", counter):
            # It is read when a body is (pkg/apis/apps/v1/conversion.go, v1.36).
            raise errors.bad_request(
                'DaemonSet in version "v1" cannot be handled as a DaemonSet: '
                f"strconv.ParseInt: parsing {errors.shown(counter)}: invalid syntax"
            )

    def prepare_status(self, obj: Object, old: Object, now: str) -> None:
        super().prepare_status(obj, old, now)
        _set_annotation(obj, _TEMPLATE_GENERATION, _known_generation(old))

    def prepare_update(self, obj: Object, old: Object) -> None:
        known = _known_generation(old)
        if obj["spec"].get("template") != old["spec"].get("template"):
            known = str(int(known) + 1)
        _set_annotation(obj, _TEMPLATE_GENERATION, known)


def _known_generation(old: Object) -> str:
    return (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or "1"


def _set_annotation(obj: Object, name: str, value: str) -> None:
    meta = obj["metadata"]
    meta["annotations"] = {**(meta.get("annotations") or {}), name: value}


_STATEFUL_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_STATEFUL_FORBIDDEN = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


_TEMPLATES = ("spec.template.", "spec.volumeClaimTemplates[")
_CLAIMS = ClaimStrategy()


class StatefulSetStrategy(_Workload):
    """``apps/v1`` StatefulSets."""

    noun = "statefulset"
    numbers = ("replicas", "minReadySeconds", "revisionHistoryLimit")
    empty_status = {"replicas": 0, "availableReplicas": 0}  # read only
    # Its pods are named after it, and their names are host names.
    name_problems = staticmethod(dns_label_errors)

    def default_spec(self, spec: Object) -> None:
        spec.setdefault("serviceName", "")
        if not spec.get("podManagementPolicy"):
            spec["podManagementPolicy"] = "OrderedReady"
        _default_rollout(child(spec, "updateStrategy"), {"partition": 0})
        fill(spec, {"revisionHistoryLimit": 10})
        retention: Object = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        spec["persistentVolumeClaimRetentionPolicy"] = retention
        for field in ("whenDeleted", "whenScaled"):
            if not retention.get(field):
                retention[field] = "Retain"
        for claim in spec.get("volumeClaimTemplates") or ():
            claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
            claim.setdefault("metadata", {})
            wanted = claim.setdefault("spec", {})
            wanted.setdefault("resources", {})
            default_claim_spec(wanted)
            status: Object = claim.get("status") or {}
            claim["status"] = status
            if not status.get("phase"):
                status["phase"] = "Pending"
            canonicalize(status.get("capacity"))

    def validate(self, obj: Object) -> list[FieldError]:
        name = obj["spec"]["serviceName"]
        told = dns_label_errors(name) if name else ()
        return self._problems(obj["spec"]) + [errors.invalid_value("spec.serviceName", name, text) for text in told]

    def _problems(self, spec: Object) -> list[FieldError]:
        """All but the name of its service, which never changes: some were wrong before they were judged."""
        problems = stateful_set_problems(spec)
        for position, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            problems += [
                msgspec.structs.replace(found, field=f"spec.volumeClaimTemplates[{position}].{found.field}")
                for found in _CLAIMS.validate(claim)
            ]
        problems += number_problems(spec, "spec", self.numbers)
        problems += number_problems(spec.get("ordinals") or {}, "spec.ordinals", ("start",))
        return problems + _selector_and_template_problems(spec, self.noun)

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        status: Object = obj.get("status") or {}
        fields = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
        return (
            number_problems(status, "status", (*fields, "observedGeneration", "collisionCount"))
            + at_most_problems(
                status,
                (
                    *((field, "replicas", "status.replicas") for field in fields[1:]),
                    ("availableReplicas", "readyReplicas", "status.readyReplicas"),
                ),
            )
            + collision_problems(status, old.get("status") or {})
        )

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        if obj["spec"] == old["spec"]:
            return []
        problems = self._problems(obj["spec"])
        if problems and self._problems(old["spec"]):
            # What was wrong before templates were judged may stay.
            problems = [found for found in problems if not found.field.startswith(_TEMPLATES)]
        fixed = [{k: v for k, v in each["spec"].items() if k not in _STATEFUL_MUTABLE} for each in (obj, old)]
        if fixed[0] != fixed[1]:
            problems.append(errors.not_allowed("spec", _STATEFUL_FORBIDDEN))
        return problems
