"""Objects that are refused for one field: code, and every cause with its words.

``golden/refusals.json`` has the causes. Those of fields that v1.20 had were compared with what a kube-apiserver v1.20.2
answers, where the rule is the same in v1.36.2; all others follow the source of v1.36.2 (``pkg/apis/*/validation``).
"""

import copy
import re
from typing import Any

from tests.apiserver.api import NAMESPACES, Answer, Api
from tests.golden import Golden

from pilothouse.env import Env

Object = dict[str, Any]
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

POD = {"containers": [{"name": "c", "image": "nginx:1.25"}]}
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
    "/apis/batch/v1/namespaces/n/jobs": {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}},
    "/api/v1/persistentvolumes": {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
    },
    "/api/v1/namespaces/n/endpoints": {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
    "/apis/networking.k8s.io/v1/namespaces/n/ingresses": {
        "spec": {"rules": [{"host": "a.com", "http": {"paths": [PATH]}}]}
    },
    "/apis/networking.k8s.io/v1/namespaces/n/networkpolicies": {
        "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}], "from": [{"podSelector": {}}]}]}
    },
    "/apis/scheduling.k8s.io/v1/priorityclasses": {"value": 10},
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": {
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "u", "namespace": "n"}],
    },
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": {"webhooks": [WEBHOOK]},
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": {"webhooks": [WEBHOOK]},
    "/apis/autoscaling/v1/namespaces/n/horizontalpodautoscalers": {
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 3}
    },
    "/api/v1/namespaces/n/limitranges": {
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}]}
    },
    "/api/v1/namespaces/n/resourcequotas": {"spec": {"hard": {"pods": "3"}}},
    "/apis/apps/v1/namespaces/n/daemonsets": {
        "spec": {
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": POD},
        }
    },
    "/api/v1/namespaces/n/services": {"spec": {"ports": [{"port": 80}]}},
    "/api/v1/namespaces/n/secrets": {"stringData": {"a": "b"}},
}
"""One of each that is granted."""

PORT_OF_BACKEND = "spec.rules.0.http.paths.0.backend.service.port"
BAD: tuple[tuple[str, str, Any], ...] = (
    ("jobs", "spec.completions", -1),
    ("jobs", "spec.activeDeadlineSeconds", -1),
    ("jobs", "spec.ttlSecondsAfterFinished", -1),
    ("jobs", "spec.template.metadata", {"labels": {"job-name": "other"}}),
    ("persistentvolumes", "spec.volumeMode", "Odd"),
    ("endpoints", "subsets.0.addresses.0.ip", "127.0.0.1"),
    ("endpoints", "subsets.0.addresses.0.ip", "169.254.1.1"),
    ("endpoints", "subsets.0.ports.0.protocol", "ODD"),
    ("ingresses", "spec.rules.0.host", "A.com"),
    ("ingresses", "spec.rules.0.host", "10.0.0.1"),
    ("ingresses", "spec.rules.0.http.paths.0.path", "/a//b"),
    ("ingresses", PORT_OF_BACKEND, {"name": "a", "number": 1}),
    ("ingresses", PORT_OF_BACKEND, {"name": "A_"}),
    ("ingresses", "spec.rules.0.http.paths.0.backend.resource", {"kind": "K", "name": "n"}),
    ("ingresses", "spec.tls", [{"hosts": ["A"]}]),
    ("networkpolicies", "spec.ingress.0.ports.0.protocol", "ODD"),
    ("networkpolicies", "spec.ingress.0.ports.0.port", 0),
    ("networkpolicies", "spec.ingress.0.from.0", {}),
    ("networkpolicies", "spec.ingress.0.from.0", {"ipBlock": {"cidr": ""}}),
    ("networkpolicies", "spec.podSelector", {"matchLabels": {"a b": "c"}}),
    ("priorityclasses", "preemptionPolicy", "Odd"),
    ("clusterroles", "aggregationRule", {}),
    ("clusterrolebindings", "subjects.0.apiGroup", "odd"),
    ("validatingwebhookconfigurations", "webhooks.0.timeoutSeconds", 31),
    ("validatingwebhookconfigurations", "webhooks.0.clientConfig.url", "http://x"),
    ("validatingwebhookconfigurations", "webhooks.0.rules.0.apiVersions", ["*", "a"]),
    ("mutatingwebhookconfigurations", "webhooks.0.reinvocationPolicy", "Odd"),
    ("horizontalpodautoscalers", "spec.minReplicas", 0),
    ("limitranges", "spec.limits.0.min.cpu", "3"),
    ("limitranges", "spec.limits.0.default", {"cpu": "3"}),
    ("limitranges", "spec.limits.0.defaultRequest", {"cpu": "3"}),
    ("limitranges", "spec.limits.0", {"type": "Pod", "default": {"cpu": "1"}}),
    ("limitranges", "spec.limits.0", {"type": "PersistentVolumeClaim"}),
    ("resourcequotas", "spec.scopes", ["BestEffort", "NotBestEffort"]),
    ("daemonsets", "spec.template.spec.restartPolicy", "Never"),
    ("services", "spec.ports.0.protocol", "ODD"),
    ("secrets", "type", "kubernetes.io/service-account-token"),
)
"""The resource, where in the object, and the value."""


def changed(obj: Object, where: str, value: Any) -> Object:
    """The object with this value there."""
    found: Any = copy.deepcopy(obj)
    *way, last = where.split(".")
    node = found
    for step in way:
        node = node[int(step)] if isinstance(node, list) else node.setdefault(step, {})
    node[int(last) if isinstance(node, list) else last] = value
    return {"metadata": {"name": "x"}, **found}


async def answers(api: Api, bodies: list[tuple[str, Object]]) -> list[Answer]:
    """What a server with the namespace answers to each creation, tried out."""
    await api.made(NAMESPACES, {"metadata": {"name": "n"}})
    return [await api.post(f"{path}?dryRun=All", body) for path, body in bodies]


def words(answer: Answer) -> list[str]:
    """The causes of a refusal, without uids."""
    causes = (answer.body.get("details") or {}).get("causes") or ()
    lines = [f"{cause['reason']} {cause['field']}: {cause['message']}" for cause in causes]
    return [_UID.sub("(uid)", line) for line in lines]


async def test_what_is_changed_is_granted_as_it_was(api: Api) -> None:
    found = await answers(api, [(path, {"metadata": {"name": "x"}, **obj}) for path, obj in GOOD.items()])
    assert [answer.status for answer in found] == [201] * len(GOOD)


async def test_the_causes_of_a_refusal(env: Env, golden: Golden) -> None:
    paths = {path.rpartition("/")[2]: path for path in GOOD}
    bodies = [(paths[resource], changed(GOOD[paths[resource]], where, value)) for resource, where, value in BAD]
    found = {}
    for (resource, where, value), answer in zip(BAD, await answers(Api(env), bodies), strict=True):
        assert answer.status == 422, answer.text
        found[f"{resource}: {where} = {value!r}"] = words(answer)
    golden.check("refusals", found)
