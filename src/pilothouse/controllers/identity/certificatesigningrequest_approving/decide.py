"""Which right approves a request. Pure. Upstream: v1.36 ``pkg/controller/certificates/approver/sarapprove.go``."""

from typing import Any

import msgspec

from pilothouse.api.certificates import GROUP, CertificateSigningRequest
from pilothouse.semantics.certificate_requests import (
    KUBELET_CLIENT,
    RequestedNames,
    is_decided,
    validate_kubelet_client_csr,
)


class Right(msgspec.Struct, frozen=True):
    """The right to ``create`` this subresource, and the message of the approval."""

    subresource: str
    message: str


SELF = Right("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.")
ANY = Right("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")


def is_open(request: CertificateSigningRequest) -> bool:
    """Whether the request is a kubelet's and neither decided nor issued."""
    return request.spec.signer_name == KUBELET_CLIENT and not request.status.certificate and not is_decided(request)


def rights_that_do(request: CertificateSigningRequest, requested: RequestedNames) -> tuple[Right, ...]:
    """The permissions of which one is sufficient, in the order of the reviews; none if it is not a kubelet's
    request."""
    spec = request.spec
    if validate_kubelet_client_csr(requested, spec.usages) is not None:
        return ()
    return (SELF, ANY) if spec.username == requested.common_name else (ANY,)


def review_of(request: CertificateSigningRequest, right: Right) -> dict[str, Any]:
    """The SubjectAccessReview for the requester."""
    spec = request.spec
    asked: dict[str, Any] = {
        "resourceAttributes": {
            "verb": "create",
            "group": GROUP,
            "version": "*",
            "resource": "certificatesigningrequests",
            "subresource": right.subresource,
        },
        "user": spec.username,
    }
    if spec.groups:
        asked["groups"] = spec.groups
    if spec.extra:
        asked["extra"] = spec.extra
    if spec.uid:
        asked["uid"] = spec.uid
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": asked}


def approval(right: Right) -> dict[str, str]:
    """The condition, without the times, which the server sets."""
    return {"type": "Approved", "status": "True", "reason": "AutoApproved", "message": right.message}
