"""``certificates.k8s.io``: requests for certificates, their signers and approvals.

CertificateSigningRequests are ``v1``. Requests of pods and published authorities are ``v1beta1`` in v1.36, behind gates
that are off.
"""

import datetime

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object, ObjectMeta, View


class CertificateSigningRequestSpec(View, frozen=True):
    """The request, with its creator, which the server sets. Immutable."""

    request: bytes = b""
    """PEM."""
    signer_name: str = ""
    expiration_seconds: int | None = None
    usages: tuple[str, ...] = ()
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class CertificateSigningRequestCondition(View, frozen=True):
    """``Approved``, ``Denied`` and ``Failed`` cannot be removed."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_update_time: datetime.datetime | None = None
    last_transition_time: datetime.datetime | None = None


class CertificateSigningRequestStatus(View, frozen=True):
    conditions: tuple[CertificateSigningRequestCondition, ...] = ()
    certificate: bytes = b""
    """PEM."""


class CertificateSigningRequest(View, frozen=True):
    """A certificate signing request. To write one back, read the complete object."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CertificateSigningRequestSpec = CertificateSigningRequestSpec()
    status: CertificateSigningRequestStatus = CertificateSigningRequestStatus()


GROUP = "certificates.k8s.io"
CERTIFICATE_SIGNING_REQUESTS = Kind(
    GROUP, "v1", "certificatesigningrequests", "CertificateSigningRequest", False, CertificateSigningRequest
)
POD_CERTIFICATE_REQUESTS = Kind(GROUP, "v1beta1", "podcertificaterequests", "PodCertificateRequest", True, Object)
"""Only the metadata of these is read."""


class ClusterTrustBundleSpec(View, frozen=True):
    signer_name: str = ""
    trust_bundle: str = ""


class ClusterTrustBundle(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterTrustBundleSpec = ClusterTrustBundleSpec()


CLUSTER_TRUST_BUNDLES = Kind(GROUP, "v1beta1", "clustertrustbundles", "ClusterTrustBundle", False, ClusterTrustBundle)

KUBE_APISERVER_SERVING_SIGNER = "kubernetes.io/kube-apiserver-serving"
"""The signer of the API server's own certificate, by which its trust bundle is found."""
