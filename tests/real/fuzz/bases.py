"""One object of each kind that every server accepts, to be varied."""

import base64
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Json = dict[str, Any]

POD: Json = {"containers": [{"name": "c", "image": "nginx:1.25"}]}
TEMPLATE: Json = {"metadata": {"labels": {"app": "x"}}, "spec": POD}
SELECTED: Json = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
WEBHOOK: Json = {
    "name": "a.example.com",
    "clientConfig": {"service": {"name": "s", "namespace": "default"}},
    "rules": [
        {"operations": ["CREATE"], "apiGroups": ["fuzz.example.com"], "apiVersions": ["v1"], "resources": ["bars"]}
    ],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
APIS = "apiservices.apiregistration.k8s.io"
POD_REFERENCE = {"kind": "Pod", "name": "p", "apiVersion": "v1"}


def base(group_resource: str, namespace: str, name: str) -> Json:
    """The body without apiVersion, kind and metadata of an object of this name. It belongs to the caller."""
    found = _bodies(namespace)
    if group_resource == DEFINITIONS:
        return {"spec": _definition(name)}
    if group_resource == APIS:
        version, _dot, group = name.partition(".")
        service = {"name": "s", "namespace": "default"}
        spec = {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 10}
        return {"spec": {**spec, "service": service, "insecureSkipTLSVerify": True}}
    if group_resource == "certificatesigningrequests.certificates.k8s.io":
        usages = ["digital signature", "client auth"]
        return {"spec": {"request": signing_request(), "signerName": "example.com/s", "usages": usages}}
    return found[group_resource]


def has_base(group_resource: str) -> bool:
    """Whether objects of this resource can be made."""
    return group_resource in _bodies("") or group_resource in (
        "certificatesigningrequests.certificates.k8s.io",
        DEFINITIONS,
        APIS,
    )


def names(group_resource: str, seed: int) -> list[str]:
    """What the objects of a story are called."""
    if group_resource == DEFINITIONS:
        return [f"{letter}s.f{seed}.example.com" for letter in "ab"]
    if group_resource == APIS:
        return [f"v1.{letter}.f{seed}.example.com" for letter in "ab"]
    return [f"f{seed}-{letter}" for letter in "ab"]


def _definition(name: str) -> Json:
    plural, _dot, group = name.partition(".")
    properties = {"spec": {"type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return {
        "group": group,
        "names": {"plural": plural, "kind": plural[:-1].upper()},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }


def _bodies(namespace: str) -> dict[str, Json]:
    target = {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}
    return {
        "configmaps": {"data": {"a": "b"}},
        "endpoints": {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
        "events": {"involvedObject": {**POD_REFERENCE, "namespace": namespace}, "reason": "R", "message": "m"},
        "events.events.k8s.io": {
            "regarding": {**POD_REFERENCE, "namespace": namespace},
            "reason": "R",
            "note": "m",
            "type": "Normal",
            "action": "A",
            "reportingController": "c.example.com/x",
            "reportingInstance": "i",
            "eventTime": "2026-01-01T00:00:00.000000Z",
        },
        "limitranges": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "100"}}]}},
        "namespaces": {},
        "nodes": {"spec": {"providerID": "example://a"}, "status": {"capacity": {"cpu": "4", "pods": "10"}}},
        "persistentvolumeclaims": {
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        },
        "persistentvolumes": {
            "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
        },
        "pods": {"spec": POD},
        "podtemplates": {"template": TEMPLATE},
        "replicationcontrollers": {"spec": {"template": TEMPLATE}},
        "resourcequotas": {"spec": {"hard": {"count/foos.example.com": "1000"}}},
        "secrets": {"data": {"a": "aGk="}},
        "serviceaccounts": {},
        "services": {"spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}},
        "deployments.apps": {"spec": SELECTED},
        "replicasets.apps": {"spec": SELECTED},
        "daemonsets.apps": {"spec": SELECTED},
        "statefulsets.apps": {"spec": {**SELECTED, "serviceName": "s"}},
        "controllerrevisions.apps": {"data": {"a": 1}, "revision": 1},
        "jobs.batch": {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}},
        "horizontalpodautoscalers.autoscaling": {"spec": {"scaleTargetRef": target, "maxReplicas": 3}},
        "leases.coordination.k8s.io": {"spec": {"holderIdentity": "a"}},
        "ingresses.networking.k8s.io": {"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}},
        "ingressclasses.networking.k8s.io": {"spec": {"controller": "example.com/c"}},
        "networkpolicies.networking.k8s.io": {"spec": {"podSelector": {}}},
        "roles.rbac.authorization.k8s.io": {"rules": RULES},
        "clusterroles.rbac.authorization.k8s.io": {"rules": RULES},
        "rolebindings.rbac.authorization.k8s.io": {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        },
        "clusterrolebindings.rbac.authorization.k8s.io": {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "none-such"}
        },
        "priorityclasses.scheduling.k8s.io": {"value": 10},
        "storageclasses.storage.k8s.io": {"provisioner": "example.com/p"},
        "csidrivers.storage.k8s.io": {"spec": {}},
        "csinodes.storage.k8s.io": {
            "spec": {"drivers": [{"name": "d.example.com", "nodeID": "n", "topologyKeys": ["a"]}]}
        },
        "volumeattachments.storage.k8s.io": {
            "spec": {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "p"}}
        },
        "mutatingwebhookconfigurations.admissionregistration.k8s.io": {"webhooks": [WEBHOOK]},
        "validatingwebhookconfigurations.admissionregistration.k8s.io": {"webhooks": [WEBHOOK]},
        "runtimeclasses.node.k8s.io": {"handler": "h"},
    }


@cache
def signing_request() -> str:
    """A certificate signing request, as a field carries it."""
    key = ec.derive_private_key(1_234_567, ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()
