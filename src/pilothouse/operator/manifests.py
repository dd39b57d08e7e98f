"""The manifests of an operator: CustomResourceDefinitions, ServiceAccount, RBAC and Deployment."""

from typing import Any

import msgspec

from pilothouse.operator.app import App
from pilothouse.operator.rights import lease_rules

_RBAC = "rbac.authorization.k8s.io"
METRICS_PORT = 8080
PROBE_PORT = 8081


def manifests(app: App, *, namespace: str, image: str = "") -> list[dict[str, Any]]:
    """The objects in the order in which they can be applied. Without an ``image`` there is no Deployment.

    The roles grant the minimum that the declared controllers need (``App.rules``). The Deployment has one replica and
    leader election, so that it can be scaled up; the image's entry point is ``pilothouse run FILE``.
    """
    meta = {"name": app.name, "namespace": namespace}
    account = [{"kind": "ServiceAccount", "name": app.name, "namespace": namespace}]
    objects: list[dict[str, Any]] = [
        *app.definitions(),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": app.name}, "rules": app.rules()},
        _binding("ClusterRole", {"name": app.name}, account),
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": meta, "rules": lease_rules(app.name)},
        _binding("Role", meta, account),
    ]
    if image:
        objects.append(_deployment(meta, image))
    # YAML would show parts that are shared as aliases.
    copied: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(objects))
    return copied


def _binding(kind: str, meta: dict[str, str], subjects: list[dict[str, str]]) -> dict[str, Any]:
    role = {"apiGroup": _RBAC, "kind": kind, "name": meta["name"]}
    body = {"metadata": meta, "roleRef": role, "subjects": subjects}
    return {"apiVersion": f"{_RBAC}/v1", "kind": f"{kind}Binding", **body}


def _deployment(meta: dict[str, str], image: str) -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": meta["name"]}
    arguments = [
        "--leader-elect",
        f"--leader-elect-namespace={meta['namespace']}",
        f"--metrics-bind-address=:{METRICS_PORT}",
        f"--health-probe-bind-address=:{PROBE_PORT}",
    ]
    container = {
        "name": "operator",
        "image": image,
        "args": arguments,
        "ports": [
            {"name": "metrics", "containerPort": METRICS_PORT},
            {"name": "probes", "containerPort": PROBE_PORT},
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "probes"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "probes"}},
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    pod = {
        "serviceAccountName": meta["name"],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
