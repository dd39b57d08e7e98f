"""Which permissions approve a request. Pure. Upstream: v1.36 ``pkg/controller/certificates/approver/sarapprove.go``."""

from typing import Any

import msgspec

from pilothouse.api.certificates import GROUP, CertificateSigningRequest
from pilothouse.semantics.certificate_requests import (
    KUBELET_CLIENT,
    RequestedNames,
    is_decided,
    validate_kubelet_client_csr,
)


class CSRRecognizer(msgspec.Struct, frozen=True):
    """A permission that approves a request: to ``create`` this subresource of ``certificatesigningrequests``, with the
    message of the approval."""

    subresource: str
    message: str


SELF = CSRRecognizer("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.")
ANY = CSRRecognizer("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")


def is_undecided(request: CertificateSigningRequest) -> bool:
    """Whether the request is a kubelet's and neither decided nor issued."""
    return request.spec.signer_name == KUBELET_CLIENT and not request.status.certificate and not is_decided(request)


def recognizers_for(request: CertificateSigningRequest, requested: RequestedNames) -> tuple[CSRRecognizer, ...]:
    """The permissions of which one is sufficient, in the order of the reviews; none if it is not a kubelet's
    request."""
    spec = request.spec
    if validate_kubelet_client_csr(requested, spec.usages) is not None:
        return ()
    return (SELF, ANY) if spec.username == requested.common_name else (ANY,)


def review_of(request: CertificateSigningRequest, recognizer: CSRRecognizer) -> dict[str, Any]:
    """The SubjectAccessReview for the requester."""
    spec = request.spec
    user: dict[str, Any] = {
        "resourceAttributes": {
            "verb": "create",
            "group": GROUP,
            "version": "*",
            "resource": "certificatesigningrequests",
            "subresource": recognizer.subresource,
        },
        "user": spec.username,
    }
    if spec.groups:
        user["groups"] = spec.groups
    if spec.extra:
        user["extra"] = spec.extra
    if spec.uid:
        user["uid"] = spec.uid
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": user}


def approval(recognizer: CSRRecognizer) -> dict[str, str]:
    """The condition, without the times, which the server sets."""
    return {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": recognizer.message}
