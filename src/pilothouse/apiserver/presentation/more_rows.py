"""Table rows of the kinds for policy, networking, storage, access and extension. ``rows`` has the others.

Follows kubernetes' ``pkg/printers/internalversion/printers.go`` (v1.36).
"""

import datetime
from typing import Any

from pilothouse.apiserver.presentation.human import NONE, UNSET, age, format_selector, human_duration, some
from pilothouse.apiserver.presentation.rows import Cells, Doc, Now, age_of, name_and_age, name_of, part
from pilothouse.machinery.quantities import Quantity, parse_quantity

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_LEGACY_CLASS = "volume.beta.kubernetes.io/storage-class"


def _modes(modes: Any) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _storage_class_of(value: Doc) -> str:
    annotations = part(value, "metadata", "annotations") or {}
    return annotations.get(_LEGACY_CLASS) or part(value, "spec", "storageClassName") or ""


def _volume_phase(value: Doc) -> str:
    deleting = part(value, "metadata", "deletionTimestamp")
    return "Terminating" if deleting else part(value, "status", "phase") or ""


def _persistent_volume(value: Doc, now: Now) -> list[Any]:
    spec = part(value, "spec") or {}
    claim = spec.get("claimRef")
    return [
        name_of(value),
        part(spec, "capacity", "storage") or "0",
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _volume_phase(value),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _storage_class_of(value),
        spec.get("volumeAttributesClassName") or UNSET,
        part(value, "status", "reason") or "",
        age_of(value, now),
        spec.get("volumeMode") or UNSET,
    ]


def _persistent_volume_claim(value: Doc, now: Now) -> list[Any]:
    spec = part(value, "spec") or {}
    bound = bool(spec.get("volumeName"))
    return [
        name_of(value),
        _volume_phase(value),
        spec.get("volumeName", ""),
        (part(value, "status", "capacity", "storage") or "0") if bound else "",
        _modes(part(value, "status", "accessModes")) if bound else "",
        _storage_class_of(value),
        spec.get("volumeAttributesClassName") or UNSET,
        age_of(value, now),
        spec.get("volumeMode") or UNSET,
    ]


def _resource_quota(value: Doc, now: Now) -> list[Any]:
    hard, used = part(value, "status", "hard") or {}, part(value, "status", "used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        shown = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limits if name.startswith("limits.") else requests).append(shown)
    return [name_of(value), ", ".join(requests), ", ".join(limits), age_of(value, now)]


def _component_status(value: Doc, _now: Now) -> list[Any]:
    shown, message, error = "Unknown", "", ""
    for condition in value.get("conditions") or ():
        if condition.get("type") == "Healthy":
            shown = "Healthy" if condition.get("status") == "True" else "Unhealthy"
            message, error = condition.get("message", ""), condition.get("error", "")
            break
    return [name_of(value), shown, message, error]


def _api_service(value: Doc, now: Now) -> list[Any]:
    service = part(value, "spec", "service")
    shown = f"{service.get('namespace')}/{service.get('name')}" if service else "Local"
    available = "Unknown"
    for condition in part(value, "status", "conditions") or ():
        if condition.get("type") == "Available":
            available = condition.get("status", "")
            if available != "True":
                available = f"{available} ({condition.get('reason', '')})"
    return [name_of(value), shown, available, age_of(value, now)]


def _autoscaler(value: Doc, now: Now) -> list[Any]:
    spec, status = part(value, "spec") or {}, part(value, "status") or {}
    target = spec.get("scaleTargetRef") or {}
    minimum = spec.get("minReplicas")
    return [
        name_of(value),
        f"{target.get('kind', '')}/{target.get('name', '')}",
        _autoscaler_targets(spec, status),
        UNSET if minimum is None else str(minimum),
        spec.get("maxReplicas", 0),
        status.get("currentReplicas") or 0,
        age_of(value, now),
    ]


def _autoscaler_targets(spec: Doc, status: Doc) -> str:
    if "targetCPUUtilizationPercentage" in spec:  # autoscaling/v1
        current = status.get("currentCPUUtilizationPercentage")
        shown = "<unknown>" if current is None else f"{current}%"
        return f"cpu: {shown}/{spec['targetCPUUtilizationPercentage']}%"
    metrics = spec.get("metrics") or ()
    if not metrics:
        return NONE
    currents = status.get("currentMetrics") or ()
    listed = [_metric(m, currents[i] if i < len(currents) else {}) for i, m in enumerate(metrics)]
    text = ", ".join(listed[:2])
    return f"{text} + {len(listed) - 2} more..." if len(listed) > 2 else text


def _metric(metric: Doc, current: Doc) -> str:
    kind = metric.get("type", "")
    field = kind[:1].lower() + kind[1:]
    spec = metric.get(field) or {}
    target = spec.get("target") or {}
    now = part(current, field, "current") or {}
    prefix = f"{spec.get('name')}: " if field in ("resource", "containerResource") else ""
    if target.get("averageUtilization") is not None:
        shown = now.get("averageUtilization")
        return f"{prefix}{'<unknown>' if shown is None else f'{shown}%'}/{target['averageUtilization']}%"
    if target.get("averageValue") is not None:
        average = " (avg)" if field in ("object", "external") else ""
        return f"{prefix}{now.get('averageValue') or '<unknown>'}/{target['averageValue']}{average}"
    if target.get("value") is not None:
        return f"{prefix}{now.get('value') or '<unknown>'}/{target['value']}"
    return f"{prefix}<unknown>/<auto>"


def _signing_request(value: Doc, now: Now) -> list[Any]:
    spec, status = part(value, "spec") or {}, part(value, "status") or {}
    kinds = [c.get("type") for c in status.get("conditions") or ()]
    condition = "Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"
    if "Failed" in kinds:
        condition += ",Failed"
    if status.get("certificate"):
        condition += ",Issued"
    duration = NONE
    if spec.get("expirationSeconds") is not None:
        duration = human_duration(datetime.timedelta(seconds=spec["expirationSeconds"]))
    return [
        name_of(value),
        age_of(value, now),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        duration,
        condition,
    ]


def _ingress_class(value: Doc, now: Now) -> list[Any]:
    parameters = part(value, "spec", "parameters")
    shown = NONE
    if parameters:
        group = parameters.get("apiGroup")
        shown = f"{parameters.get('kind')}{f'.{group}' if group else ''}/{parameters.get('name')}"
    default = "ingressclass.kubernetes.io/is-default-class"
    return [_marked(value, default), part(value, "spec", "controller") or "", shown, age_of(value, now)]


def _marked(value: Doc, *annotations: str) -> str:
    marks = part(value, "metadata", "annotations") or {}
    return name_of(value) + (" (default)" if any(marks.get(name) == "true" for name in annotations) else "")


def _ingress(value: Doc, now: Now) -> list[Any]:
    spec = part(value, "spec") or {}
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    addresses = {i.get("ip") or i.get("hostname") or "" for i in part(value, "status", "loadBalancer", "ingress") or ()}
    return [
        name_of(value),
        spec.get("ingressClassName") or NONE,
        some(hosts, 3) if hosts else "*",
        ",".join(sorted(addresses - {""})),
        "80, 443" if spec.get("tls") else "80",
        age_of(value, now),
    ]


def _ip_address(value: Doc, now: Now) -> list[Any]:
    # Three cells under two column definitions, as upstream.
    parent = part(value, "spec", "parentRef")
    if not parent:
        return [name_of(value), NONE, age_of(value, now)]
    group, namespace = parent.get("group"), parent.get("namespace")
    shown = f"{parent.get('resource')}{f'.{group}' if group else ''}/{f'{namespace}/' if namespace else ''}"
    return [name_of(value), shown + str(parent.get("name")), age_of(value, now)]


def _network_policy(value: Doc, now: Now) -> list[Any]:
    return [name_of(value), format_selector(part(value, "spec", "podSelector")), age_of(value, now)]


def _service_cidr(value: Doc, now: Now) -> list[Any]:
    return [name_of(value), ",".join(part(value, "spec", "cidrs") or ()), age_of(value, now)]


def _disruption_budget(value: Doc, now: Now) -> list[Any]:
    spec = part(value, "spec") or {}
    limits = ["N/A" if spec.get(f) is None else str(spec[f]) for f in ("minAvailable", "maxUnavailable")]
    return [name_of(value), *limits, part(value, "status", "disruptionsAllowed") or 0, age_of(value, now)]


def _role_binding(value: Doc, now: Now) -> list[Any]:
    role = value.get("roleRef") or {}
    subjects = value.get("subjects") or ()
    named = {
        kind: ", ".join(s.get("name", "") for s in subjects if s.get("kind") == kind) for kind in ("User", "Group")
    }
    accounts = ", ".join(
        f"{s.get('namespace', '')}/{s.get('name', '')}" for s in subjects if s.get("kind") == "ServiceAccount"
    )
    shown = f"{role.get('kind', '')}/{role.get('name', '')}"
    return [name_of(value), shown, age_of(value, now), named["User"], named["Group"], accounts]


def _csi_driver(value: Doc, now: Now) -> list[Any]:
    spec = part(value, "spec") or {}
    audiences = ",".join(r.get("audience", "") for r in spec.get("tokenRequests") or ())
    attach = spec.get("attachRequired")
    return [
        name_of(value),
        True if attach is None else attach,
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        audiences or UNSET,
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age_of(value, now),
    ]


def _storage_class(value: Doc, now: Now) -> list[Any]:
    default = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
    return [
        _marked(value, *default),
        value.get("provisioner", ""),
        value.get("reclaimPolicy") or "Delete",
        value.get("volumeBindingMode") or "Immediate",
        bool(value.get("allowVolumeExpansion")),
        age_of(value, now),
    ]


def _volume_attachment(value: Doc, now: Now) -> list[Any]:
    spec = part(value, "spec") or {}
    volume = part(spec, "source", "persistentVolumeName") or ""
    attached = bool(part(value, "status", "attached"))
    return [name_of(value), spec.get("attacher", ""), volume, spec.get("nodeName", ""), attached, age_of(value, now)]


def _param_kind(value: Doc) -> str:
    kind = part(value, "spec", "paramKind")
    return f"{kind.get('apiVersion')}/{kind.get('kind')}" if kind else UNSET


def _policy_binding(value: Doc, now: Now) -> list[Any]:
    reference = part(value, "spec", "paramRef")
    shown = UNSET
    if reference:
        if reference.get("name"):
            shown = f"{reference.get('namespace') or '*'}/{reference['name']}"
        elif reference.get("selector") is not None:
            shown = format_selector(reference["selector"])
    return [name_of(value), part(value, "spec", "policyName") or "", shown, age_of(value, now)]


def _endpoint_slice(value: Doc, now: Now) -> list[Any]:
    ports = [str(p.get("port") or p.get("name") or "*") for p in value.get("ports") or ()]
    addresses = [address for e in value.get("endpoints") or () for address in e.get("addresses") or ()]
    return [
        name_of(value),
        value.get("addressType", ""),
        some(ports, 3) or UNSET,
        some(addresses, 3) or UNSET,
        age_of(value, now),
    ]


def _resource_claim(value: Doc, now: Now) -> list[Any]:
    states = ["deleted"] if part(value, "metadata", "deletionTimestamp") else []
    if part(value, "status", "allocation") is None:
        states += [] if states else ["pending"]
    else:
        states += ["allocated"]
        if part(value, "status", "reservedFor"):
            states += ["reserved"]
    return [name_of(value), ",".join(states), age_of(value, now)]


def _resource_slice(value: Doc, now: Now) -> list[Any]:
    spec = part(value, "spec") or {}
    pool = part(spec, "pool", "name") or ""
    return [name_of(value), spec.get("nodeName", ""), spec.get("driver", ""), pool, age_of(value, now)]


_ANSWERED = ("Complete", "Failed")
_TOTALS = ("totalDevices", "availableDevices", "allocatedDevices", "unavailableDevices")
_NOT_YET = "-"


def _pool_request(value: Doc, now: Now) -> list[Any]:
    """The sums over all pools that are told (KEP-5677, v1.36)."""
    status, driver = part(value, "status"), part(value, "spec", "driver") or ""
    given = [each for each in part(status, "conditions") or () if each.get("type") in _ANSWERED]
    if status is None or not given:
        return [name_of(value), driver, *(_NOT_YET for _ in (*_TOTALS, "errors", "pools")), "Pending", _NOT_YET]
    pools, count = part(status, "pools") or (), part(status, "poolCount") or 0
    answered, *_others = given
    said = answered["type"]
    if said == "Complete" and len(pools) < count:
        said = f"Complete ({len(pools)}/{count} pools)"
    return [
        name_of(value),
        driver,
        *(str(sum(pool.get(field) or 0 for pool in pools)) for field in _TOTALS),
        str(sum(bool(pool.get("validationError")) for pool in pools)),
        str(count),
        said,
        age(answered.get("lastTransitionTime"), now),
    ]


def _flow_schema(value: Doc, now: Now) -> list[Any]:
    spec = part(value, "spec") or {}
    missing = "?"
    for condition in part(value, "status", "conditions") or ():
        if condition.get("type") == "Dangling":
            missing = condition.get("status", "?")
    return [
        name_of(value),
        part(spec, "priorityLevelConfiguration", "name") or "",
        spec.get("matchingPrecedence", 0),
        part(spec, "distinguisherMethod", "type") or NONE,
        age_of(value, now),
        missing,
    ]


def _priority_level(value: Doc, now: Now) -> list[Any]:
    spec = part(value, "spec") or {}
    limited = spec.get("limited") or spec.get("exempt") or {}
    queuing = part(limited, "limitResponse", "queuing") or {}
    shares = limited.get("nominalConcurrencyShares")
    return [
        name_of(value),
        spec.get("type", ""),
        NONE if shares is None else shares,
        *(queuing.get(field, NONE) for field in ("queues", "handSize", "queueLengthLimit")),
        age_of(value, now),
    ]


def _count(*path: str) -> Cells:
    return lambda value, now: [name_of(value), len(part(value, *path) or ()), age_of(value, now)]


def _field(*path: str) -> Cells:
    return lambda value, now: [name_of(value), part(value, *path) or "", age_of(value, now)]


def _policy(field: str) -> Cells:
    return lambda value, now: [
        name_of(value),
        len(part(value, "spec", field) or ()),
        _param_kind(value),
        age_of(value, now),
    ]


def _priority_class(value: Doc, now: Now) -> list[Any]:
    policy = value.get("preemptionPolicy") or "PreemptLowerPriority"
    return [name_of(value), value.get("value", 0), bool(value.get("globalDefault")), age_of(value, now), policy]


def _measured(value: Doc, _now: Now) -> list[Any]:
    """Metrics of a pod or a node, as metrics-server prints them (v0.8 ``pkg/api/table.go``)."""
    used = [each.get("usage") or {} for each in value.get("containers") or (value,)]

    def total(resource: str) -> str:
        return str(sum((parse_quantity(each.get(resource) or "0") for each in used), Quantity(0)))

    return [name_of(value), total("cpu"), total("memory"), value.get("window") or ""]


MORE_ROWS: dict[str, Cells] = {
    "metrics.k8s.io/v1beta1 NodeMetrics": _measured,
    "metrics.k8s.io/v1beta1 PodMetrics": _measured,
    "v1 PersistentVolume": _persistent_volume,
    "v1 PersistentVolumeClaim": _persistent_volume_claim,
    "v1 ResourceQuota": _resource_quota,
    "v1 ComponentStatus": _component_status,
    "apiregistration.k8s.io/v1 APIService": _api_service,
    "autoscaling/v1 HorizontalPodAutoscaler": _autoscaler,
    "autoscaling/v2 HorizontalPodAutoscaler": _autoscaler,
    "certificates.k8s.io/v1 CertificateSigningRequest": _signing_request,
    "networking.k8s.io/v1 IngressClass": _ingress_class,
    "networking.k8s.io/v1 Ingress": _ingress,
    "networking.k8s.io/v1 IPAddress": _ip_address,
    "networking.k8s.io/v1 NetworkPolicy": _network_policy,
    "networking.k8s.io/v1 ServiceCIDR": _service_cidr,
    "policy/v1 PodDisruptionBudget": _disruption_budget,
    "rbac.authorization.k8s.io/v1 ClusterRoleBinding": _role_binding,
    "rbac.authorization.k8s.io/v1 RoleBinding": _role_binding,
    "storage.k8s.io/v1 CSIDriver": _csi_driver,
    "storage.k8s.io/v1 CSINode": _count("spec", "drivers"),
    "storage.k8s.io/v1 StorageClass": _storage_class,
    "storage.k8s.io/v1 VolumeAttachment": _volume_attachment,
    "storage.k8s.io/v1 VolumeAttributesClass": _field("driverName"),
    "admissionregistration.k8s.io/v1 MutatingAdmissionPolicy": _policy("mutations"),
    "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy": _policy("validations"),
    "admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding": _policy_binding,
    "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding": _policy_binding,
    "admissionregistration.k8s.io/v1 MutatingWebhookConfiguration": _count("webhooks"),
    "admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration": _count("webhooks"),
    "scheduling.k8s.io/v1 PriorityClass": _priority_class,
    "node.k8s.io/v1 RuntimeClass": _field("handler"),
    "discovery.k8s.io/v1 EndpointSlice": _endpoint_slice,
    "resource.k8s.io/v1 DeviceClass": name_and_age,
    "resource.k8s.io/v1 ResourceClaim": _resource_claim,
    "resource.k8s.io/v1 ResourceClaimTemplate": name_and_age,
    "resource.k8s.io/v1 ResourceSlice": _resource_slice,
    "resource.k8s.io/v1alpha3 ResourcePoolStatusRequest": _pool_request,
    "flowcontrol.apiserver.k8s.io/v1 FlowSchema": _flow_schema,
    "flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration": _priority_level,
}
