"""Objects of many kinds for kube-apiserver."""

from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]
LABELS = {"app": "web"}
NODES = 9
OBJECTS_PER_NAMESPACE = 60


def pod_template(app: str, cpu: str = "100m", **spec: Any) -> Object:
    resources = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {
            "containers": [{"name": "main", "image": f"registry.example.com/{app}:1", "resources": resources}],
            **spec,
        },
    }


def cluster_objects() -> Iterator[tuple[str, Object]]:
    """Cluster-scoped objects: path and object."""
    yield (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {
                                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                                    "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                                },
                            }
                        },
                    }
                ],
            },
        },
    )
    yield (
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        {"metadata": {"name": "important"}, "value": 1000, "description": "for what has to stay"},
    )
    yield (
        "/apis/storage.k8s.io/v1/storageclasses",
        {"metadata": {"name": "manual"}, "provisioner": "kubernetes.io/no-provisioner"},
    )
    for name in ("logs", "network"):
        yield (
            "/apis/apps/v1/namespaces/kube-system/daemonsets",
            {
                "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": {"app": name}}, "template": pod_template(name, "10m")},
            },
        )


def namespace_objects(number: int) -> Iterator[tuple[str, Object]]:
    """Namespaced objects."""
    name = f"team-{number}"
    yield "/api/v1/namespaces", {"metadata": {"name": name, "labels": {"team": str(number)}}}
    core, apps, batch = f"/api/v1/namespaces/{name}", f"/apis/apps/v1/namespaces/{name}", f"/namespaces/{name}"
    yield (
        f"{core}/resourcequotas",
        {"metadata": {"name": "quota"}, "spec": {"hard": {"pods": "100", "requests.cpu": "50", "services": "20"}}},
    )
    yield (
        f"{core}/limitranges",
        {
            "metadata": {"name": "limits"},
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "10m", "memory": "16Mi"}}]},
        },
    )
    for account in ("web", "jobs"):
        yield f"{core}/serviceaccounts", {"metadata": {"name": account}}
    for item in range(8):
        yield f"{core}/configmaps", {"metadata": {"name": f"config-{item}"}, "data": {"key": "value" * item}}
    for item in range(4):
        yield f"{core}/secrets", {"metadata": {"name": f"secret-{item}"}, "stringData": {"password": "swordfish"}}
    for app, replicas in (("web", 3), ("api", 2)):
        selector = {"matchLabels": {"app": app}}
        yield (
            f"{apps}/deployments",
            {
                "metadata": {"name": app, "labels": {"app": app}},
                "spec": {
                    "replicas": replicas,
                    "selector": selector,
                    "template": pod_template(app, serviceAccountName="web"),
                },
            },
        )
        yield (
            f"/apis/policy/v1beta1/namespaces/{name}/poddisruptionbudgets",
            {"metadata": {"name": app}, "spec": {"maxUnavailable": 1, "selector": selector}},
        )
    yield (
        f"{apps}/statefulsets",
        {
            "metadata": {"name": "db"},
            "spec": {
                "serviceName": "db",
                "replicas": 2,
                "selector": {"matchLabels": {"app": "db"}},
                "template": pod_template("db", priorityClassName="important"),
            },
        },
    )
    yield (
        f"{core}/replicationcontrollers",
        {
            "metadata": {"name": "old"},
            "spec": {"replicas": 1, "selector": {"app": "old"}, "template": pod_template("old")},
        },
    )
    yield (
        f"/apis/batch/v1{batch}/jobs",
        {
            "metadata": {"name": "migrate"},
            "spec": {"completions": 2, "template": pod_template("migrate", restartPolicy="Never")},
        },
    )
    yield (
        f"/apis/batch/v1beta1{batch}/cronjobs",
        {
            "metadata": {"name": "nightly"},
            "spec": {
                "schedule": "0 3 * * *",
                "jobTemplate": {"spec": {"template": pod_template("nightly", restartPolicy="Never")}},
            },
        },
    )
    yield (
        f"{core}/services",
        {"metadata": {"name": "web"}, "spec": {"selector": LABELS, "ports": [{"port": 80, "targetPort": 8080}]}},
    )
    yield (
        f"{core}/services",
        {
            "metadata": {"name": "api"},
            "spec": {"type": "NodePort", "selector": {"app": "api"}, "ports": [{"port": 80}]},
        },
    )
    yield (
        f"{core}/services",
        {
            "metadata": {"name": "db"},
            "spec": {"clusterIP": "None", "selector": {"app": "db"}, "ports": [{"port": 5432}]},
        },
    )
    yield (
        f"/apis/networking.k8s.io/v1{batch}/ingresses",
        {
            "metadata": {"name": "web"},
            "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
        },
    )
    yield (
        f"/apis/networking.k8s.io/v1{batch}/networkpolicies",
        {"metadata": {"name": "closed"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
    )
    yield (
        f"/apis/rbac.authorization.k8s.io/v1{batch}/roles",
        {"metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    )
    yield (
        f"/apis/rbac.authorization.k8s.io/v1{batch}/rolebindings",
        {
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "web", "namespace": name}],
        },
    )
    yield (
        "/api/v1/persistentvolumes",
        {
            "metadata": {"name": f"disk-{number}"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "manual",
                "hostPath": {"path": f"/disks/{number}"},
                "persistentVolumeReclaimPolicy": "Retain",
            },
        },
    )
    yield (
        f"{core}/persistentvolumeclaims",
        {
            "metadata": {"name": "data"},
            "spec": {
                "storageClassName": "manual",
                "volumeName": f"disk-{number}",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    )
    for item in range(2):
        yield (
            f"/apis/example.com/v1{batch}/widgets",
            {
                "apiVersion": "example.com/v1",
                "kind": "Widget",
                "metadata": {"name": f"widget-{item}"},
                "spec": {"size": item},
            },
        )
