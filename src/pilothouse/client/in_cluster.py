"""The configuration that every pod has: address in the environment, token and CA in files."""

import os
from collections.abc import Mapping
from pathlib import Path

from pilothouse.client.errors import ConfigError

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this process seems to run in a pod."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST") and environ.get("KUBERNETES_SERVICE_PORT"))


def server(environ: Mapping[str, str] = os.environ) -> str:
    """The API server's URL. Raises ``ConfigError`` outside of a pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError(
            "in-cluster configuration: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; outside of a"
            " pod give --kubeconfig"
        )
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def namespace(folder: Path = FOLDER, environ: Mapping[str, str] = os.environ) -> str:
    """The pod's own namespace: ``POD_NAMESPACE``, which a pod may get from the downward API, or that of its service
    account (client-go ``tools/clientcmd/client_config.go``, v0.36). "" when there is neither."""
    if pod_namespace := environ.get("POD_NAMESPACE"):
        return pod_namespace
    try:
        return (folder / "namespace").read_text().strip()
    except OSError:
        return ""  # some runtimes leave the file out; it only chooses a default
