"""The manifests of an operator: definitions, ServiceAccount, RBAC, Deployment, and webhook configurations."""

from typing import Any, Literal

import msgspec

from pilothouse.machinery.names import dns_label_errors
from pilothouse.operator import cert_manager
from pilothouse.operator.app import App
from pilothouse.operator.client_config import HTTPS_PORT, ClientConfig
from pilothouse.operator.rights import certificate_rules, lease_rules, trust_rules
from pilothouse.operator.webhook_server import PORT, service_name

_RBAC = "rbac.authorization.k8s.io"
METRICS_PORT = 8080
PROBE_PORT = 8081
Certificates = Literal["operator", "cert-manager"]
"""Who issues the certificates of webhooks."""


def manifests(
    app: App, *, namespace: str, image: str = "", certificates: Certificates = "operator"
) -> list[dict[str, Any]]:
    """The objects in the order in which they can be applied. Without an ``image`` there is no Deployment.

    The roles grant the minimum that the declared controllers need (``App.rules``), and the webhooks: their Secret, and
    ``caBundle`` in the objects with these names. The Deployment has one replica and leader election, so that it can be
    scaled up; the image's entry point is ``pilothouse run FILE``. Webhook configurations come last: until the operator
    runs they reject matching requests.

    With ``certificates="cert-manager"`` there are an Issuer and a Certificate, and the operator gets no permissions for
    its certificates. Raises ``ValueError`` if the app has no webhooks, which are the only users of certificates, if it
    has no controllers either, and for names that the API server would reject.
    """
    app._check_declared()
    if errors := dns_label_errors(namespace):
        raise ValueError(f"namespace {namespace!r}: {errors[0]}")
    if image.split() != [image] and image:
        raise ValueError(f"image {image!r}: must not have spaces")
    meta = {"name": app.name, "namespace": namespace}
    config = ClientConfig(service_name=service_name(app.name), service_namespace=namespace)
    definitions, configurations = app.definitions(config), app.webhook_configurations(config)
    trust: list[dict[str, Any]] = []
    secured: list[dict[str, Any]] = []
    own = lease_rules(app.name)
    if certificates == "cert-manager":
        if not app.has_webhooks:
            text = f"app {app.name} has no webhooks and no conversions, which certificates are for"
            raise ValueError(f"certificates={certificates!r}: {text}")
        secured = cert_manager.certificate_objects(app.name, namespace)
        converted = [definition for definition in definitions if "webhook" in definition["spec"].get("conversion", {})]
        cert_manager.inject_ca([*converted, *configurations], app.name, namespace)
    else:
        trust = trust_rules(configurations, definitions)
        own += certificate_rules(app.name) if app.has_webhooks else ()
    account = [{"kind": "ServiceAccount", "name": app.name, "namespace": namespace}]
    objects: list[dict[str, Any]] = [
        *definitions,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": app.name},
            "rules": [*app.rules(), *trust],
        },
        _binding("ClusterRole", {"name": app.name}, account),
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": meta, "rules": own},
        _binding("Role", meta, account),
    ]
    if app.has_webhooks:
        objects.append(_service(meta))
    objects += secured
    if image:
        objects.append(_deployment(meta, image, certificates if app.has_webhooks else None))
    objects += configurations
    # YAML would show parts that are shared as aliases.
    copied: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(objects))
    return copied


def _binding(kind: str, meta: dict[str, str], subjects: list[dict[str, str]]) -> dict[str, Any]:
    role = {"apiGroup": _RBAC, "kind": kind, "name": meta["name"]}
    body = {"metadata": meta, "roleRef": role, "subjects": subjects}
    return {"apiVersion": f"{_RBAC}/v1", "kind": f"{kind}Binding", **body}


def _labels(meta: dict[str, str]) -> dict[str, str]:
    return {"app.kubernetes.io/name": meta["name"]}


def _service(meta: dict[str, str]) -> dict[str, Any]:
    port = {"name": "webhooks", "port": HTTPS_PORT, "targetPort": "webhooks"}
    spec = {"selector": _labels(meta), "ports": [port]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**meta, "name": service_name(meta["name"])},
        "spec": spec,
    }


def _deployment(meta: dict[str, str], image: str, certificates: Certificates | None) -> dict[str, Any]:
    labels = _labels(meta)
    arguments = [
        "--leader-elect",
        f"--leader-elect-namespace={meta['namespace']}",
        f"--metrics-bind-address=:{METRICS_PORT}",
        f"--health-probe-bind-address=:{PROBE_PORT}",
    ]
    container: dict[str, Any] = {
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
    pod: dict[str, Any] = {
        "serviceAccountName": meta["name"],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }
    if certificates is not None:
        container["ports"].append({"name": "webhooks", "containerPort": PORT})
    if certificates == "cert-manager":
        cert_manager.mount(meta["name"], pod, container)
    elif certificates is not None:
        arguments.append(f"--webhook-namespace={meta['namespace']}")
        # OpenSSL reads keys from files only; this one is in memory.
        container["volumeMounts"] = [{"name": "tmp", "mountPath": "/tmp"}]  # noqa: S108  # in the container
        pod["volumes"] = [{"name": "tmp", "emptyDir": {"medium": "Memory"}}]
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
