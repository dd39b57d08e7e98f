"""Responses of the default admission plugins: rejections, verbatim, and defaults.

``golden/admission.json`` has the answers. They were compared with those of a kube-apiserver v1.20.2 with the same
plugins; of a quota that demands requests or limits, v1.36.2 also names the containers without them
(``PodValidateLimitFunc`` and ``Constraints`` in ``pkg/quota/v1/evaluator/core/pods.go``).
"""

import re
from collections.abc import Sequence
from typing import Any

from tests.apiserver.api import Api
from tests.golden import Golden

from pilothouse.apiserver import ServerOptions
from pilothouse.apiserver.admission.names import DEFAULT
from pilothouse.env import Env

Json = dict[str, Any]
Ask = tuple[str, str, Any]
"""Method, path below ``/`` with ``{ns}`` for the namespace, body."""

NAMESPACE = "n"
PODS, RANGES, QUOTAS = (f"api/v1/namespaces/{{ns}}/{kind}" for kind in ("pods", "limitranges", "resourcequotas"))
CLAIMS = "api/v1/namespaces/{ns}/persistentvolumeclaims"
SERVICES = "api/v1/namespaces/{ns}/services"
ACCOUNTS = "api/v1/namespaces/{ns}/serviceaccounts"
CLASSES = "apis/scheduling.k8s.io/v1/priorityclasses"
RUNTIMES = "apis/node.k8s.io/v1/runtimeclasses"


def pod(name: str = "p", *, requests: Any = None, limits: Any = None, annotations: Any = None, **spec: Any) -> Json:
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    whole = {"serviceAccountName": "s", "automountServiceAccountToken": False, "containers": containers, **spec}
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": whole}


def bare(**spec: Any) -> Json:
    bare_pod = pod(**spec)
    del bare_pod["spec"]["serviceAccountName"]
    return bare_pod


def limits(**limit: Any) -> Ask:
    return "POST", RANGES, {"metadata": {"name": "l"}, "spec": {"limits": [limit]}}


def quota(hard: Json, used: Json | None, **spec: Any) -> tuple[Ask, ...]:
    created: Ask = ("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}})
    if used is None:
        return (created,)
    counted = {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": used}}
    return created, ("PUT", f"{QUOTAS}/q/status", counted)


def claim(name: str = "d", size: str = "1Gi", **spec: Any) -> Json:
    whole = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    return {"metadata": {"name": name}, "spec": whole}


def service(kind: str, name: str = "v") -> Json:
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}}


MIRROR = {"kubernetes.io/config.mirror": "x"}
ZERO = {"requests.cpu": "0", "pods": "0"}

CASES: dict[str, tuple[Sequence[Ask], Sequence[Ask]]] = {
    "a container gets defaults": (
        [limits(type="Container", default={"cpu": "2"}, defaultRequest={"cpu": "1", "memory": "1Gi"})],
        [
            ("POST", PODS, pod(initContainers=[{"name": "i", "image": "x"}])),
            ("POST", PODS, pod("q", limits={"cpu": "3"})),
        ],
    ),
    "too little for a container": (
        [limits(type="Container", min={"cpu": "100m"})],
        [
            ("POST", PODS, pod(requests={"cpu": "50m"})),
            ("POST", PODS, pod()),
            ("POST", PODS, pod(requests={"cpu": "1500m"}, limits={"cpu": "2"})),
        ],
    ),
    "too much for a container": (
        [limits(type="Container", max={"memory": "1Gi"})],
        [("POST", PODS, pod(limits={"memory": "1.5Gi"})), ("POST", PODS, pod("q", limits={"memory": "1024Mi"}))],
    ),
    "too far apart": (
        [limits(type="Container", maxLimitRequestRatio={"cpu": "1500m"})],
        [
            ("POST", PODS, pod(requests={"cpu": "1"}, limits={"cpu": "1600m"})),
            ("POST", PODS, pod(requests={"cpu": "3"}, limits={"cpu": "10"})),
            ("POST", PODS, pod()),
            ("POST", PODS, pod(requests={"cpu": "1"})),
            ("POST", PODS, pod("q", requests={"cpu": "1"}, limits={"cpu": "1500m"})),
        ],
    ),
    "limits of whole pods": (
        [limits(type="Pod", max={"cpu": "2"})],
        [
            ("POST", PODS, pod()),
            ("POST", PODS, pod(limits={"cpu": "3"})),
            (
                "POST",
                PODS,
                pod(
                    limits={"cpu": "1"},
                    initContainers=[{"name": "i", "image": "x", "resources": {"limits": {"cpu": "2500m"}}}],
                ),
            ),
        ],
    ),
    "limits of claims": (
        [limits(type="PersistentVolumeClaim", min={"storage": "2Gi"}, max={"storage": "4Gi"})],
        [("POST", CLAIMS, claim()), ("POST", CLAIMS, claim(size="5Gi")), ("POST", CLAIMS, claim(size="3Gi"))],
    ),
    "a quota of pods": (
        quota({"requests.cpu": "1", "pods": "2"}, ZERO),
        [
            ("POST", PODS, pod("a", requests={"cpu": "600m"})),
            ("POST", PODS, pod("b", requests={"cpu": "600m"})),
            ("POST", PODS, pod("c")),
            ("POST", PODS, pod("d", requests={"cpu": "0.1"})),
            ("POST", PODS, pod("e", requests={"cpu": "2"})),
            ("GET", f"{QUOTAS}/q", None),
        ],
    ),
    "a quota that nobody has counted": (
        quota({"pods": "0"}, None),
        [("POST", PODS, pod()), ("GET", f"{QUOTAS}/q", None)],
    ),
    "a quota that is counted by half": (
        quota({"pods": "5", "requests.cpu": "1"}, {"pods": "0"}),
        [("POST", PODS, pod(requests={"cpu": "1"}))],
    ),
    "a quota that wants limits": (
        quota({"limits.cpu": "5", "limits.memory": "5Gi"}, {"limits.cpu": "0", "limits.memory": "0"}),
        [("POST", PODS, pod()), ("POST", PODS, pod(limits={"cpu": "1"}))],
    ),
    "a quota for pods with a deadline": (
        quota({"pods": "1"}, {"pods": "0"}, scopes=["Terminating"]),
        [
            ("POST", PODS, pod("a")),
            ("POST", PODS, pod("b", activeDeadlineSeconds=9)),
            ("POST", PODS, pod("c", activeDeadlineSeconds=9)),
            ("GET", f"{QUOTAS}/q", None),
        ],
    ),
    "a quota by priority": (
        quota(
            {"pods": "0"},
            {"pods": "0"},
            scopeSelector={
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
                ]
            },
        ),
        [("POST", PODS, pod()), ("POST", PODS, pod("q", priorityClassName="system-node-critical"))],
    ),
    "a quota of services": (
        quota(
            {"services": "2", "services.nodeports": "1", "services.loadbalancers": "0"},
            {"services": "0", "services.nodeports": "0", "services.loadbalancers": "0"},
        ),
        [
            ("POST", SERVICES, service("NodePort", "a")),
            ("POST", SERVICES, service("NodePort", "b")),
            ("POST", SERVICES, service("LoadBalancer", "c")),
            ("POST", SERVICES, service("ClusterIP", "d")),
            ("POST", SERVICES, service("ClusterIP", "e")),
            ("GET", f"{QUOTAS}/q", None),
        ],
    ),
    "a quota of claims": (
        quota(
            {"requests.storage": "3Gi", "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "0"},
            {"requests.storage": "0", "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "0"},
        ),
        [
            ("POST", CLAIMS, claim("a", "2Gi")),
            ("POST", CLAIMS, claim("b", "2Gi")),
            ("POST", CLAIMS, claim("c", "1", storageClassName="gold")),
            ("GET", f"{QUOTAS}/q", None),
        ],
    ),
    "a quota of everything else": (
        quota(
            {"configmaps": "0", "count/deployments.apps": "0", "count/secrets": "1"},
            {"configmaps": "0", "count/deployments.apps": "0", "count/secrets": "0"},
        ),
        [
            ("POST", "api/v1/namespaces/{ns}/configmaps", {"metadata": {"name": "m"}}),
            ("POST", "api/v1/namespaces/{ns}/configmaps", {"metadata": {"generateName": "m-"}}),
            ("POST", "api/v1/namespaces/{ns}/secrets?dryRun=All", {"metadata": {"name": "a"}}),
            ("POST", "api/v1/namespaces/{ns}/secrets", {"metadata": {"name": "a"}}),
            ("POST", "api/v1/namespaces/{ns}/secrets", {"metadata": {"name": "b"}}),
            ("GET", f"{QUOTAS}/q", None),
        ],
    ),
    "accounts": (
        [("POST", ACCOUNTS, {"metadata": {"name": "pulls"}, "imagePullSecrets": [{"name": "x"}]})],
        [
            ("POST", PODS, pod(serviceAccountName="missing")),
            ("POST", PODS, pod(serviceAccountName="pulls")),
            ("POST", PODS, pod("q", serviceAccountName="pulls", imagePullSecrets=[{"name": "own"}])),
            ("POST", PODS, bare(name="d")),
            ("POST", PODS, pod(annotations=MIRROR)),
            ("POST", PODS, bare(annotations=MIRROR, volumes=[{"name": "v", "secret": {"secretName": "x"}}])),
            (
                "POST",
                PODS,
                bare(
                    annotations=MIRROR,
                    volumes=[{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
                ),
            ),
        ],
    ),
    "an account that lists its secrets": (
        [
            (
                "POST",
                ACCOUNTS,
                {
                    "metadata": {"name": "l", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
                    "secrets": [{"name": "known"}],
                },
            )
        ],
        [
            ("POST", PODS, pod(serviceAccountName="l", volumes=[{"name": "v", "secret": {"secretName": "x"}}])),
            (
                "POST",
                PODS,
                pod("q", serviceAccountName="l", volumes=[{"name": "v", "secret": {"secretName": "known"}}]),
            ),
            ("POST", PODS, pod(serviceAccountName="l", imagePullSecrets=[{"name": "x"}])),
            (
                "POST",
                PODS,
                pod(
                    serviceAccountName="l",
                    initContainers=[
                        {
                            "name": "i",
                            "image": "x",
                            "env": [{"name": "V", "valueFrom": {"secretKeyRef": {"name": "x", "key": "k"}}}],
                        }
                    ],
                ),
            ),
        ],
    ),
    "priorities": (
        [("POST", CLASSES, {"metadata": {"name": "{ns}"}, "value": 7, "preemptionPolicy": "Never"})],
        [
            ("POST", PODS, pod(priorityClassName="missing")),
            ("POST", PODS, pod(priorityClassName="{ns}")),
            ("POST", PODS, pod("q", priorityClassName="{ns}", priority=8)),
            ("POST", PODS, pod("r", priority=1)),
            ("POST", PODS, pod("s", priorityClassName="{ns}", preemptionPolicy="PreemptLowerPriority")),
        ],
    ),
    "claims are protected": (
        [("POST", CLAIMS, claim("a")), ("POST", CLAIMS, claim("b", storageClassName="{ns}"))],
        [("GET", f"{CLAIMS}/a", None), ("GET", f"{CLAIMS}/b", None)],
    ),
    "runtime classes": (
        [
            (
                "POST",
                RUNTIMES,
                {
                    "metadata": {"name": "{ns}"},
                    "handler": "h",
                    "overhead": {"podFixed": {"cpu": "100m"}},
                    "scheduling": {"nodeSelector": {"a": "b"}},
                },
            )
        ],
        [
            ("POST", PODS, pod(runtimeClassName="missing")),
            ("POST", PODS, pod(runtimeClassName="{ns}")),
            ("POST", PODS, pod("q", runtimeClassName="{ns}", overhead={"cpu": "1"})),
            ("POST", PODS, pod("r", runtimeClassName="{ns}", nodeSelector={"a": "c"})),
            ("POST", PODS, pod("t", overhead={"cpu": "1"})),
        ],
    ),
}
"""What is there first, and what is compared, by what it is about."""

SEEN = (
    ("metadata", "annotations"),
    ("metadata", "finalizers"),
    *(
        ("spec", field)
        for field in (
            "containers", "initContainers", "imagePullSecrets", "nodeSelector", "overhead", "preemptionPolicy",
            "priority", "priorityClassName", "serviceAccountName", "storageClassName", "tolerations", "volumes",
        )
    ),
    ("status", "used"),
)  # fmt: skip
"""The fields that admission has to do with."""


def filled(value: Any) -> Any:
    """With the namespace, which classes are named after, too."""
    if isinstance(value, str):
        return value.replace("{ns}", NAMESPACE)
    if isinstance(value, dict):
        return {key: filled(one) for key, one in value.items()}
    return [filled(item) for item in value] if isinstance(value, list) else value


def essence(status: int, body: Json) -> Any:
    """The compared part of a response."""
    if status >= 400:
        return status, body.get("reason"), re.sub(r"m-[a-z0-9]{5}", "m-", body["message"])
    result = {f"{part}.{field}": body.get(part, {}).get(field) for part, field in SEEN}
    return status, {path: value for path, value in result.items() if value not in (None, {}, [])}


async def answers(env: Env, setup: Sequence[Ask], requests: Sequence[Ask]) -> list[Any]:
    accounts: list[Ask] = [("POST", ACCOUNTS, {"metadata": {"name": name}}) for name in ("s", "default")]
    api = Api(env, ServerOptions(admission_plugins=DEFAULT))
    await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    for method, path, body in [*accounts, *setup]:
        answer = await api.request(method, f"/{filled(path)}", filled(body))
        assert answer.status < 300, answer.text
    result = []
    for method, path, body in requests:
        answer = await api.request(method, f"/{filled(path)}", filled(body))
        result.append(essence(answer.status, answer.body))
    return result


async def test_admission_responses(env: Env, golden: Golden) -> None:
    golden.check("admission", {case: await answers(env, *CASES[case]) for case in CASES})
