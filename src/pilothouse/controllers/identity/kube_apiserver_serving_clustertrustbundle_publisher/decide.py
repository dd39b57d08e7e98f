"""Which bundle there should be, and which should not. Pure. Upstream: v1.36
``pkg/controller/certificates/clustertrustbundlepublisher/publisher.go``."""

import hashlib
from collections.abc import Sequence
from typing import Any

from pilothouse.api.certificates import CLUSTER_TRUST_BUNDLES, KUBE_APISERVER_SERVING_SIGNER, ClusterTrustBundle


def name_of(bundle: str) -> str:
    """The object's name: the signer's, and the beginning of the content's hash, so that another content is another
    object and pods see either the one or the other."""
    return f"{KUBE_APISERVER_SERVING_SIGNER.replace('/', ':')}:{hashlib.sha256(bundle.encode()).digest()[:12].hex()}"


def new_bundle(bundle: str) -> dict[str, Any]:
    """The object as it is sent when there is none."""
    return {
        "apiVersion": CLUSTER_TRUST_BUNDLES.api_version,
        "kind": CLUSTER_TRUST_BUNDLES.kind,
        "metadata": {"name": name_of(bundle)},
        "spec": {"signerName": KUBE_APISERVER_SERVING_SIGNER, "trustBundle": bundle},
    }


def others(found: Sequence[ClusterTrustBundle], bundle: str) -> list[str]:
    """Names of the signer's objects that say something else, or the same under another name."""
    return [each.metadata.name for each in found if each.metadata.name != name_of(bundle)]
