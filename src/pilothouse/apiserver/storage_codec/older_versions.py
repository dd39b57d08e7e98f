"""Converts objects of API versions that are no storage versions of this server. Pure.

Clusters older than v1.36 store some kinds in other versions. These are upstream's conversions, for versions that were
preferred in a release since v1.19; others are not supported.
"""

from collections.abc import Callable, Mapping
from typing import Any

Object = dict[str, Any]
_HOSTNAME = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"


def _unchanged(obj: Object) -> Object:
    return obj


def _disruption_budget(obj: Object) -> Object:
    """An empty selector selects nothing in policy/v1beta1, and everything in v1, where an absent one selects
    nothing."""
    spec = dict(obj.get("spec") or {})
    if spec.get("selector") == {}:
        del spec["selector"]
    return {**obj, "spec": spec}


def _endpoint_slice(obj: Object) -> Object:
    """``topology`` was replaced by three fields (``pkg/apis/discovery/v1beta1/conversion.go``)."""
    return {**obj, "endpoints": [_endpoint(endpoint) for endpoint in obj.get("endpoints") or ()]}


def _endpoint(endpoint: Object) -> Object:
    converted = {key: value for key, value in endpoint.items() if key != "topology"}
    topology = dict(endpoint.get("topology") or {})
    hostname, zone = topology.pop(_HOSTNAME, None), topology.pop(_ZONE, None)
    if hostname and not converted.get("nodeName"):
        converted["nodeName"] = hostname
    if zone:
        converted["zone"] = zone
    if topology:
        converted["deprecatedTopology"] = topology
    return converted


def _priority_level(obj: Object) -> Object:
    """``assuredConcurrencyShares`` was renamed in v1beta3."""
    spec = dict(obj.get("spec") or {})
    limited = spec.get("limited")
    if isinstance(limited, dict) and "assuredConcurrencyShares" in limited:
        limited = dict(limited)
        limited.setdefault("nominalConcurrencyShares", limited.pop("assuredConcurrencyShares"))
        spec["limited"] = limited
    return {**obj, "spec": spec}


def _ingress(obj: Object) -> Object:
    """The service of a backend is in another field (``pkg/apis/networking/v1beta1/conversion.go``)."""
    spec = dict(obj.get("spec") or {})
    if "backend" in spec:
        spec["defaultBackend"] = _backend(spec.pop("backend"))
    if spec.get("rules"):
        spec["rules"] = [_rule(rule) for rule in spec["rules"]]
    return {**obj, "spec": spec}


def _rule(rule: Object) -> Object:
    http = rule.get("http")
    if not http:
        return rule
    paths = [
        {"pathType": "ImplementationSpecific", **path, "backend": _backend(path.get("backend") or {})}
        for path in http.get("paths") or ()
    ]
    return {**rule, "http": {**http, "paths": paths}}


def _backend(backend: Object) -> Object:
    converted = {key: value for key, value in backend.items() if key not in ("serviceName", "servicePort")}
    name, port = backend.get("serviceName"), backend.get("servicePort")
    if name or port:
        converted["service"] = {"name": name or "", "port": {"name" if isinstance(port, str) else "number": port}}
    return converted


def _signing_request(obj: Object) -> Object:
    """In v1beta1 the signer and the status of a condition are optional
    (``pkg/apis/certificates/v1beta1/defaults.go``)."""
    spec = {"signerName": "kubernetes.io/legacy-unknown", **(obj.get("spec") or {})}
    status = dict(obj.get("status") or {})
    if status.get("conditions"):
        status["conditions"] = [
            {**condition, "status": condition.get("status") or "True"} for condition in status["conditions"]
        ]
    return {**obj, "spec": spec, "status": status}


_FLOW = "flowcontrol.apiserver.k8s.io"
_RENAMED: Mapping[str, tuple[str, ...]] = {
    "admissionregistration.k8s.io": (
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
    ),
    "apiregistration.k8s.io": ("apiservices",),
    "batch": ("cronjobs",),
    "coordination.k8s.io": ("leases",),
    "networking.k8s.io": ("ingressclasses", "ipaddresses", "servicecidrs"),
    "node.k8s.io": ("runtimeclasses",),
    "rbac.authorization.k8s.io": ("clusterroles", "clusterrolebindings", "roles", "rolebindings"),
    "scheduling.k8s.io": ("priorityclasses",),
    "storage.k8s.io": (
        "csidrivers",
        "csinodes",
        "csistoragecapacities",
        "storageclasses",
        "volumeattachments",
        "volumeattributesclasses",
    ),
}
"""Resources with the same fields in v1beta1 and v1."""
_DEVICES = ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices")
CONVERSIONS: Mapping[tuple[str, str, str], Callable[[Object], Object]] = {
    **{(group, "v1beta1", resource): _unchanged for group, resources in _RENAMED.items() for resource in resources},
    ("networking.k8s.io", "v1beta1", "ingresses"): _ingress,
    ("certificates.k8s.io", "v1beta1", "certificatesigningrequests"): _signing_request,
    ("policy", "v1beta1", "poddisruptionbudgets"): _disruption_budget,
    ("discovery.k8s.io", "v1beta1", "endpointslices"): _endpoint_slice,
    **{(_FLOW, version, "flowschemas"): _unchanged for version in ("v1beta1", "v1beta2", "v1beta3")},
    **{
        (_FLOW, version, "prioritylevelconfigurations"): _priority_level
        for version in ("v1beta1", "v1beta2", "v1beta3")
    },
    **{("resource.k8s.io", "v1beta2", resource): _unchanged for resource in _DEVICES},
}
"""By group, version and resource: the conversion to v1. The caller sets kind, apiVersion and metadata."""
