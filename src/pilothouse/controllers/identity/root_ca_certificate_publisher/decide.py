"""What a namespace's ConfigMap says and should say. Pure. Upstream: v1.36
``pkg/controller/certificates/rootcacertpublisher/publisher.go``."""

from typing import Any

from pilothouse.api.core import ROOT_CA_CONFIG_MAP, ConfigMap, Namespace

KEY = "ca.crt"
ANNOTATION = "kubernetes.io/description"
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


def predicate(namespace: Namespace) -> bool:
    """Whether a change of the namespace is a reason to look. One that goes needs nothing any more."""
    return namespace.status.phase == "Active"


def is_right(found: ConfigMap, bundle: str) -> bool:
    """Whether the ConfigMap says what it should. The text of its description is anybody's, as long as there is one."""
    return found.data == {KEY: bundle} and bool(found.metadata.annotations.get(ANNOTATION))


def new_config_map(bundle: str) -> dict[str, Any]:
    """The ConfigMap as it is sent when there is none."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": ROOT_CA_CONFIG_MAP, "annotations": {ANNOTATION: DESCRIPTION}},
        "data": {KEY: bundle},
    }
