"""What is refused, and why, side by side: invalid objects sent to a real kube-apiserver and to ours.

Compared are the code, the reason and every cause's field, reason and words after the value; how values are printed has
changed with the releases. ``CHANGED`` names what is meant to differ, and why.
"""

# a table is read one question to a line

import contextlib
import copy
import http.client
import json
import ssl
from typing import Any

from tests.apiserver.api import Api, on
from tests.apiserver.test_volume_sources import PERSISTENT, REFERENCES, SOURCES
from tests.real_cluster import ADMIN_TOKEN, RealCluster

Object = dict[str, Any]

POD = {"containers": [{"name": "c", "image": "nginx:1.25"}]}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": POD}
SELECTOR = {"matchLabels": {"app": "x"}}
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
WEBHOOK = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://127.0.0.1/x"},
    "rules": [RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
PATH = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}

GOOD: dict[str, Object] = {
    "/apis/batch/v1/namespaces/judged/jobs": {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}},
    "/api/v1/namespaces/judged/persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "/api/v1/persistentvolumes": {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    },
    "/apis/storage.k8s.io/v1/storageclasses": {"provisioner": "example.com/p"},
    "/apis/storage.k8s.io/v1/csinodes": {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "n"}]}},
    "/apis/storage.k8s.io/v1/volumeattachments": {
        "spec": {"attacher": "a.example.com", "nodeName": "n", "source": {"persistentVolumeName": "pv"}}
    },
    "/apis/storage.k8s.io/v1/csidrivers": {"spec": {}},
    "/api/v1/namespaces/judged/endpoints": {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
    "/apis/networking.k8s.io/v1/namespaces/judged/ingresses": {
        "spec": {"rules": [{"host": "a.com", "http": {"paths": [PATH]}}]}
    },
    "/apis/networking.k8s.io/v1/ingressclasses": {"spec": {"controller": "example.com/c"}},
    "/apis/networking.k8s.io/v1/namespaces/judged/networkpolicies": {
        "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}], "from": [{"podSelector": {}}]}]}
    },
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"value": 10},
    "/apis/node.k8s.io/v1/runtimeclasses": {"handler": "runc"},
    "/apis/rbac.authorization.k8s.io/v1/namespaces/judged/roles": {
        "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
    },
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
    "/apis/rbac.authorization.k8s.io/v1/namespaces/judged/rolebindings": {
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}],
    },
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": {
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "u", "namespace": "judged"}],
    },
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": {"webhooks": [WEBHOOK]},
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": {"webhooks": [WEBHOOK]},
    "/apis/autoscaling/v1/namespaces/judged/horizontalpodautoscalers": {
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3}
    },
    "/api/v1/namespaces/judged/limitranges": {
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}]}
    },
    "/api/v1/namespaces/judged/resourcequotas": {"spec": {"hard": {"pods": "3"}}},
    "/apis/apiregistration.k8s.io/v1/apiservices": {
        "metadata": {"name": "v1.agg.example.com"},
        "spec": {
            "group": "agg.example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"name": "s", "namespace": "judged"},
            "insecureSkipTLSVerify": True,
        },
    },
    "/apis/apps/v1/namespaces/judged/controllerrevisions": {"data": {"a": 1}, "revision": 1},
    "/apis/apps/v1/namespaces/judged/daemonsets": {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    "/apis/apps/v1/namespaces/judged/statefulsets": {
        "spec": {"serviceName": "s", "selector": SELECTOR, "template": TEMPLATE}
    },
    "/api/v1/namespaces/judged/services": {"spec": {"ports": [{"port": 80}]}},
    "/api/v1/namespaces/judged/pods": {"spec": POD},
    "/api/v1/namespaces/judged/secrets": {"stringData": {"a": "b"}},
}

Change = tuple[str, str, Any]
"""(the end of the collection's path, where in the object, the value; None takes it away)."""
BAD: list[Change] = [
    *(("/pods", "spec.volumes", [{"name": "v", **source}]) for source, _causes in SOURCES),
    *(("/pods", "spec.containers.0.env", [{"name": "A", "valueFrom": asked}]) for asked, _causes in REFERENCES),
    *(
        ("persistentvolumes", "spec", {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source})
        for source, _causes in PERSISTENT
    ),
    ("jobs", "spec.parallelism", -1),
    ("jobs", "spec.completions", -1),
    ("jobs", "spec.backoffLimit", -1),
    ("jobs", "spec.activeDeadlineSeconds", -1),
    ("jobs", "spec.ttlSecondsAfterFinished", -1),
    ("jobs", "spec.template.spec.restartPolicy", None),
    ("jobs", "spec.template.spec.restartPolicy", "Always"),
    ("jobs", "spec.template.spec.restartPolicy", "Sometimes"),
    ("jobs", "spec.selector", {"matchLabels": {"a": "b"}}),
    ("jobs", "spec.selector", {"matchLabels": {"controller-uid": "1"}}),
    ("jobs", "spec.manualSelector", True),
    ("jobs", "spec.template.metadata", {"labels": {"job-name": "other"}}),
    ("jobs", "spec.template.spec.containers", []),
    ("jobs", "metadata.name", "UPPER"),
    ("persistentvolumeclaims", "spec.accessModes", None),
    ("persistentvolumeclaims", "spec.accessModes", ["Sometimes"]),
    ("persistentvolumeclaims", "spec.resources", None),
    ("persistentvolumeclaims", "spec.resources.requests.storage", "0"),
    ("persistentvolumeclaims", "spec.resources.requests.storage", "-1"),
    ("persistentvolumeclaims", "spec.volumeMode", "Odd"),
    ("persistentvolumes", "spec.accessModes", None),
    ("persistentvolumes", "spec.accessModes", ["Sometimes"]),
    ("persistentvolumes", "spec.capacity", None),
    ("persistentvolumes", "spec.capacity.storage", "0"),
    ("persistentvolumes", "spec.capacity", {"cpu": "1"}),
    ("persistentvolumes", "spec.hostPath", None),
    ("persistentvolumes", "spec.nfs", {"server": "s", "path": "/"}),
    ("persistentvolumes", "spec.persistentVolumeReclaimPolicy", "Odd"),
    ("persistentvolumes", "spec.volumeMode", "Odd"),
    ("storageclasses", "provisioner", None),
    ("storageclasses", "reclaimPolicy", "Odd"),
    ("storageclasses", "reclaimPolicy", "Recycle"),
    ("storageclasses", "volumeBindingMode", "Odd"),
    ("csinodes", "spec.drivers.0.name", ""),
    ("csinodes", "spec.drivers.0.nodeID", ""),
    ("csinodes", "spec.drivers", [{"name": "d.example.com", "nodeID": "n"}, {"name": "d.example.com", "nodeID": "n"}]),
    ("volumeattachments", "spec.attacher", ""),
    ("volumeattachments", "spec.nodeName", ""),
    ("volumeattachments", "spec.source", {}),
    ("csidrivers", "metadata.name", "a_b"),
    ("csidrivers", "spec.volumeLifecycleModes", ["Odd"]),
    ("endpoints", "subsets.0.addresses", []),
    ("endpoints", "subsets.0.addresses.0.ip", "x"),
    ("endpoints", "subsets.0.addresses.0.ip", "127.0.0.1"),
    ("endpoints", "subsets.0.addresses.0.ip", "169.254.1.1"),
    ("endpoints", "subsets.0.ports.0.port", 0),
    ("endpoints", "subsets.0.ports.0.protocol", "ODD"),
    ("endpoints", "subsets.0.ports", [{"port": 1}, {"port": 2}]),
    ("ingresses", "spec.rules", []),
    ("ingresses", "spec.rules.0.host", "A.com"),
    ("ingresses", "spec.rules.0.host", "10.0.0.1"),
    ("ingresses", "spec.rules.0.host", "a.*.com"),
    ("ingresses", "spec.rules.0.host", "*.com"),
    ("ingresses", "spec.rules.0.http.paths", []),
    ("ingresses", "spec.rules.0.http.paths.0.path", "x"),
    ("ingresses", "spec.rules.0.http.paths.0.path", "/a//b"),
    ("ingresses", "spec.rules.0.http.paths.0.pathType", None),
    ("ingresses", "spec.rules.0.http.paths.0.pathType", "Odd"),
    ("ingresses", "spec.rules.0.http.paths.0.backend", {}),
    ("ingresses", "spec.rules.0.http.paths.0.backend.service.name", ""),
    ("ingresses", "spec.rules.0.http.paths.0.backend.service.name", "A"),
    ("ingresses", "spec.rules.0.http.paths.0.backend.service.port", {}),
    ("ingresses", "spec.rules.0.http.paths.0.backend.service.port.number", 70000),
    ("ingresses", "spec.rules.0.http.paths.0.backend.service.port", {"name": "a", "number": 1}),
    ("ingresses", "spec.rules.0.http.paths.0.backend.service.port", {"name": "A_"}),
    ("ingresses", "spec.rules.0.http.paths.0.backend.resource", {"kind": "K", "name": "n"}),
    ("ingresses", "spec.ingressClassName", "A_"),
    ("ingresses", "spec.tls", [{"hosts": ["A"]}]),
    ("ingressclasses", "spec.controller", ""),
    ("ingressclasses", "spec.controller", "c"),
    ("ingressclasses", "spec.parameters", {"kind": "", "name": ""}),
    ("networkpolicies", "spec.policyTypes", ["Odd"]),
    ("networkpolicies", "spec.ingress.0.ports.0.protocol", "ODD"),
    ("networkpolicies", "spec.ingress.0.ports.0.port", 0),
    ("networkpolicies", "spec.ingress.0.ports.0.port", "A_"),
    ("networkpolicies", "spec.ingress.0.from.0", {}),
    ("networkpolicies", "spec.ingress.0.from.0.ipBlock", {"cidr": "10.0.0.0/8"}),
    ("networkpolicies", "spec.ingress.0.from.0", {"ipBlock": {"cidr": "x"}}),
    ("networkpolicies", "spec.ingress.0.from.0", {"ipBlock": {"cidr": ""}}),
    ("networkpolicies", "spec.ingress.0.from.0", {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/9"]}}),
    ("networkpolicies", "spec.podSelector", {"matchLabels": {"a b": "c"}}),
    ("priorityclasses", "value", 2000000000),
    ("priorityclasses", "preemptionPolicy", "Odd"),
    ("priorityclasses", "metadata.name", "system-x"),
    ("runtimeclasses", "handler", ""),
    ("runtimeclasses", "handler", "A"),
    ("roles", "rules.0.verbs", []),
    ("roles", "rules.0.apiGroups", []),
    ("roles", "rules.0.resources", []),
    ("roles", "rules.0.nonResourceURLs", ["/x"]),
    ("clusterroles", "rules.0.apiGroups", [""]),
    ("clusterroles", "aggregationRule", {}),
    ("clusterroles", "metadata.name", "a/b"),
    ("clusterroles", "metadata.name", ".."),
    ("/rolebindings", "roleRef.kind", "Odd"),
    ("/rolebindings", "roleRef.name", ""),
    ("/rolebindings", "roleRef.apiGroup", "odd"),
    ("/rolebindings", "subjects.0.kind", "Odd"),
    ("/rolebindings", "subjects.0.name", ""),
    ("/rolebindings", "subjects.0.apiGroup", "odd"),
    ("/rolebindings", "subjects.0", {"kind": "ServiceAccount", "name": "A"}),
    ("clusterrolebindings", "roleRef.kind", "Role"),
    ("clusterrolebindings", "subjects.0.namespace", ""),
    ("clusterrolebindings", "subjects.0.apiGroup", "odd"),
    ("validatingwebhookconfigurations", "webhooks.0.name", ""),
    ("validatingwebhookconfigurations", "webhooks.0.name", "a.b"),
    ("validatingwebhookconfigurations", "webhooks.0.name", "A.b.c"),
    ("validatingwebhookconfigurations", "webhooks.0.sideEffects", None),
    ("validatingwebhookconfigurations", "webhooks.0.sideEffects", "Some"),
    ("validatingwebhookconfigurations", "webhooks.0.admissionReviewVersions", []),
    ("validatingwebhookconfigurations", "webhooks.0.admissionReviewVersions", ["v9"]),
    ("validatingwebhookconfigurations", "webhooks.0.failurePolicy", "Odd"),
    ("validatingwebhookconfigurations", "webhooks.0.matchPolicy", "Odd"),
    ("validatingwebhookconfigurations", "webhooks.0.timeoutSeconds", 31),
    ("validatingwebhookconfigurations", "webhooks.0.clientConfig", {}),
    ("validatingwebhookconfigurations", "webhooks.0.clientConfig.url", "http://x"),
    ("validatingwebhookconfigurations", "webhooks.0.clientConfig.service", {"name": "s", "namespace": "n"}),
    ("validatingwebhookconfigurations", "webhooks.0.clientConfig", {"service": {"name": "", "namespace": ""}}),
    ("validatingwebhookconfigurations", "webhooks.0.rules.0.operations", []),
    ("validatingwebhookconfigurations", "webhooks.0.rules.0.operations", ["*", "CREATE"]),
    ("validatingwebhookconfigurations", "webhooks.0.rules.0.operations", ["ODD"]),
    ("validatingwebhookconfigurations", "webhooks.0.rules.0.apiGroups", []),
    ("validatingwebhookconfigurations", "webhooks.0.rules.0.apiGroups", ["*", "a"]),
    ("validatingwebhookconfigurations", "webhooks.0.rules.0.apiVersions", ["*", "a"]),
    ("validatingwebhookconfigurations", "webhooks.0.rules.0.resources", []),
    ("validatingwebhookconfigurations", "webhooks.0.rules.0.scope", "Odd"),
    ("mutatingwebhookconfigurations", "webhooks.0.reinvocationPolicy", "Odd"),
    ("horizontalpodautoscalers", "spec.maxReplicas", 0),
    ("horizontalpodautoscalers", "spec.minReplicas", 0),
    ("horizontalpodautoscalers", "spec.minReplicas", 5),
    ("horizontalpodautoscalers", "spec.scaleTargetRef.kind", ""),
    ("horizontalpodautoscalers", "spec.scaleTargetRef.name", ""),
    ("horizontalpodautoscalers", "spec.targetCPUUtilizationPercentage", 0),
    ("limitranges", "spec.limits.0.min.cpu", "3"),
    ("limitranges", "spec.limits.0.default", {"cpu": "3"}),
    ("limitranges", "spec.limits.0.defaultRequest", {"cpu": "3"}),
    ("limitranges", "spec.limits.0.maxLimitRequestRatio", {"cpu": "0.5"}),
    ("limitranges", "spec.limits.0.type", "Odd"),
    ("limitranges", "spec.limits.0", {"type": "Pod", "default": {"cpu": "1"}}),
    ("limitranges", "spec.limits.0", {"type": "PersistentVolumeClaim"}),
    ("limitranges", "spec.limits", [{"type": "Pod", "max": {"cpu": "1"}}, {"type": "Pod", "max": {"cpu": "1"}}]),
    ("resourcequotas", "spec.hard", {"pods": "-1"}),
    ("resourcequotas", "spec.hard", {"pods": "0.5"}),
    ("resourcequotas", "spec.hard", {"count/pods": "0.5"}),
    ("resourcequotas", "spec.hard", {"example.com/gpu": "0.5"}),
    ("resourcequotas", "spec.hard", {"requests.example.com/gpu": "0.5"}),
    ("resourcequotas", "spec.hard", {"odd": "1"}),
    ("resourcequotas", "spec.scopes", ["Odd"]),
    ("resourcequotas", "spec.scopes", ["BestEffort", "NotBestEffort"]),
    ("apiservices", "metadata.name", "odd"),
    ("apiservices", "spec.groupPriorityMinimum", 0),
    ("apiservices", "spec.versionPriority", 2000),
    ("apiservices", "spec.service.name", ""),
    ("controllerrevisions", "data", None),
    ("controllerrevisions", "revision", -1),
    ("daemonsets", "spec.updateStrategy", {"rollingUpdate": {"maxUnavailable": 0}}),
    ("daemonsets", "spec.updateStrategy", {"type": "Odd"}),
    ("daemonsets", "spec.selector", {}),
    ("daemonsets", "spec.template.spec.restartPolicy", "Never"),
    ("statefulsets", "spec.podManagementPolicy", "Odd"),
    ("statefulsets", "spec.updateStrategy", {"type": "Odd"}),
    ("statefulsets", "spec.updateStrategy", {"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
    ("statefulsets", "spec.updateStrategy", {"rollingUpdate": {"partition": -1}}),
    ("statefulsets", "spec.replicas", -1),
    ("statefulsets", "spec.template.spec.restartPolicy", "Never"),
    ("/services", "spec.type", "Odd"),
    ("/services", "spec.ports", []),
    ("/services", "spec.ports.0.protocol", "ODD"),
    ("/services", "spec.ports.0.targetPort", "A_"),
    ("/services", "spec.ports", [{"port": 80}, {"port": 81}]),
    ("/services", "spec.ports", [{"name": "a", "port": 80}, {"name": "b", "port": 80}]),
    ("/services", "spec.sessionAffinity", "Odd"),
    ("/services", "spec.externalIPs", ["x"]),
    ("/services", "spec.loadBalancerSourceRanges", ["10.0.0.0/8"]),
    ("/services", "spec.externalTrafficPolicy", "Local"),
    ("/services", "spec.healthCheckNodePort", 30123),
    ("/services", "spec", {"type": "ExternalName"}),
    ("/services", "spec", {"type": "NodePort", "clusterIP": "None", "ports": [{"port": 80}]}),
    ("/services", "spec.selector", {"a b": "c"}),
    ("secrets", "type", "kubernetes.io/tls"),
    ("secrets", "type", "kubernetes.io/dockerconfigjson"),
    ("secrets", "type", "kubernetes.io/basic-auth"),
    ("secrets", "type", "kubernetes.io/ssh-auth"),
    ("secrets", "type", "kubernetes.io/service-account-token"),
    ("secrets", "stringData", {"a b": "c"}),
]

_NEWER_MODE = "ReadWriteOncePod is newer"
CHANGED = {
    ("jobs", "spec.ttlSecondsAfterFinished"): "the field was behind a feature gate, and dropped",
    ("persistentvolumeclaims", "spec.accessModes"): _NEWER_MODE,
    ("persistentvolumes", "spec.accessModes"): _NEWER_MODE,
    ("endpoints", "subsets.0.addresses.0.ip"): "the words name both families now, and what is no address is told once",
    ("ingresses", "spec.rules.0.http.paths.0.backend.service.name"): "names of services may begin with a digit now",
    ("ingresses", "spec.rules.0.http.paths.0.backend.service.port"): "names of ports are told of in other words now",
    ("networkpolicies", "spec.ingress.0.ports.0.port"): "names of ports are told of in other words now",
    ("networkpolicies", "spec.ingress.0.from.0"): "ranges are told of in other words now",
    ("horizontalpodautoscalers", "spec.maxReplicas"): "zero is a missing value now, and said once",
    ("daemonsets", "spec.updateStrategy"): "maxSurge is newer",
    ("/services", "spec.ports.0.targetPort"): "names of ports are told of in other words now",
    ("/services", "spec.externalTrafficPolicy"): "in other words now",
    ("/services", "spec.healthCheckNodePort"): "in other words now",
}


CHANGED_VALUES = {
    "{'name': '', 'namespace': ''}": "what is missing of a webhook's service is told of in fewer words now",
    "ephemeral": "the field was behind a feature gate",
    "projected": "one source too many is told of in other words now",
    "metadata.labels'}": "addresses of nodes are newer",
    "nodePublishSecretRef": "a secret of a driver is named by its own field now, and may be a subdomain",
}
"""By what stands in the value."""


def sent(change: Change) -> tuple[str, Object]:
    """The collection and the invalid object."""
    end, where, value = change
    path = next(path for path in GOOD if path.endswith(end))
    obj: Any = {"metadata": {"name": "x"}, **copy.deepcopy(GOOD[path])}
    *way, last = where.split(".")
    node = obj
    for step in way:
        node = node[int(step)] if isinstance(node, list) else node.setdefault(step, {})
    if isinstance(node, list):
        node[int(last)] = value
    elif value is None:
        node.pop(last, None)
    else:
        node[last] = value
    return path, obj


def normal(status: int, body: Any) -> Any:
    """Code, reason, and causes without values."""
    if status < 300 or not isinstance(body, dict):
        return status
    causes = (body.get("details") or {}).get("causes") or ()
    told = [(cause.get("field"), cause.get("reason"), _words(cause.get("message") or "")) for cause in causes]
    return status, body.get("reason"), sorted(set(told), key=str) or body.get("message")


def _words(message: str) -> str:
    """What stands behind the value; a value may itself contain colons, so that the last part has to do."""
    kind, _, rest = message.partition(": ")
    if kind in ("Invalid value", "Unsupported value", "Duplicate value"):
        rest = rest.rpartition(": ")[2] if ": " in rest else ""
        if kind == "Unsupported value":
            rest = ", ".join(sorted(rest.split(", ")))
    return f"{kind}: {rest}"


def real_answers(cluster: RealCluster) -> list[Any]:
    context = ssl.create_default_context(cafile=str(cluster.ca_file))
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {ADMIN_TOKEN}"}
    found = []
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "judged"}})
    for change in [*((path, "metadata.name", "good") for path in GOOD if not path.endswith("apiservices")), *BAD]:
        path, body = sent(change)
        with contextlib.closing(
            http.client.HTTPSConnection("127.0.0.1", cluster.port, timeout=30, context=context)
        ) as connection:
            connection.request("POST", path + "?dryRun=All", json.dumps(body), headers)
            answer = connection.getresponse()
            found.append(normal(answer.status, json.loads(answer.read())))
    return found


def our_answers() -> list[Any]:
    async def main(api: Api) -> list[Any]:
        await api.made("/api/v1/namespaces", {"metadata": {"name": "judged"}})
        found = []
        for change in [*((path, "metadata.name", "good") for path in GOOD if not path.endswith("apiservices")), *BAD]:
            path, body = sent(change)
            answer = await api.post(path + "?dryRun=All", body)
            found.append(normal(answer.status, answer.body))
        return found

    return on(main)


def test_the_same_objects_are_refused_for_the_same_reasons(real_cluster: RealCluster) -> None:
    differences = []
    changes = [*((path, "metadata.name", "good") for path in GOOD if not path.endswith("apiservices")), *BAD]
    for change, theirs, ours in zip(changes, real_answers(real_cluster), our_answers(), strict=True):
        told = any(each in str(change[2]) for each in CHANGED_VALUES)
        if theirs != ours and change[:2] not in CHANGED and not told:
            differences.append(f"{change}\n  real {theirs}\n  ours {ours}")
    assert not differences, "\n".join(differences)
