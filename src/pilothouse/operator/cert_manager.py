"""The objects by which cert-manager issues the certificates of webhooks, as in kubebuilder's ``config/default`` (v4).

An Issuer signs a Certificate for the app's Service. cert-manager keeps it in a Secret, which is mounted in the
operator's pods, renews it, and writes ``caBundle`` where the annotation ``cert-manager.io/inject-ca-from`` names the
Certificate.
"""

from collections.abc import Iterable
from typing import Any

from pilothouse.operator.webhook_server import secret_name, service_name

_API_VERSION = "cert-manager.io/v1"
INJECT_CA_FROM = "cert-manager.io/inject-ca-from"
DIRECTORY = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108  # controller-runtime's default, in the container
_VOLUME = "webhook-certs"


def certificate_objects(app: str, namespace: str) -> list[dict[str, Any]]:
    """The Issuer and the Certificate."""
    host = f"{service_name(app)}.{namespace}.svc"
    issuer = f"{app}-selfsigned-issuer"
    certificate = {
        "dnsNames": [host, f"{host}.cluster.local"],
        "issuerRef": {"kind": "Issuer", "name": issuer},
        "secretName": secret_name(app),
    }
    return [
        {
            "apiVersion": _API_VERSION,
            "kind": "Issuer",
            "metadata": {"name": issuer, "namespace": namespace},
            "spec": {"selfSigned": {}},
        },
        {
            "apiVersion": _API_VERSION,
            "kind": "Certificate",
            "metadata": {"name": _certificate_name(app), "namespace": namespace},
            "spec": certificate,
        },
    ]


def inject_ca(objects: Iterable[dict[str, Any]], app: str, namespace: str) -> None:
    """Have cert-manager write ``caBundle`` into these webhook configurations and definitions."""
    for obj in objects:
        annotations = obj["metadata"].setdefault("annotations", {})
        annotations[INJECT_CA_FROM] = f"{namespace}/{_certificate_name(app)}"


def mount(app: str, pod: dict[str, Any], container: dict[str, Any]) -> None:
    """Mount the Secret, and have the operator use it."""
    container["args"].append(f"--webhook-cert-dir={DIRECTORY}")
    container["volumeMounts"] = [{"name": _VOLUME, "mountPath": DIRECTORY, "readOnly": True}]
    pod["volumes"] = [{"name": _VOLUME, "secret": {"secretName": secret_name(app)}}]


def _certificate_name(app: str) -> str:
    return f"{app}-serving-cert"
