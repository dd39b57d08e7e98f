"""Approval of definitions in protected groups (``*.k8s.io``), by annotation.

After apiextensions-apiserver's ``pkg/apihelpers/helpers.go`` and ``pkg/controller/apiapproval`` (v0.36).
"""

from urllib.parse import urlsplit

import msgspec

from pilothouse.apiserver.objects import Object
from pilothouse.machinery.go_text import quote

ANNOTATION = "api-approved.kubernetes.io"
CONDITION = "KubernetesAPIApprovalPolicyConformant"
_SEE_ALSO = "see https://github.com/kubernetes/enhancements/pull/1111"


class Approval(msgspec.Struct, frozen=True):
    """Status, reason and message of the condition ``KubernetesAPIApprovalPolicyConformant``."""

    annotation: str
    is_true: bool
    reason: str
    message: str

    @property
    def invalid(self) -> bool:
        """Whether validation rejects a definition with this approval."""
        return self.reason in ("MissingAnnotation", "InvalidAnnotation")


def approval_of(definition: Object) -> Approval | None:
    """The approval of a definition; None if its group is not protected."""
    group = (definition.get("spec") or {}).get("group") or ""
    if not group.endswith((".k8s.io", ".kubernetes.io")) and group not in ("k8s.io", "kubernetes.io"):
        return None
    annotation = (definition["metadata"].get("annotations") or {}).get(ANNOTATION) or ""
    if not annotation:
        message = f"protected groups must have approval annotation {quote(ANNOTATION)}, {_SEE_ALSO}"
        return Approval(annotation, False, "MissingAnnotation", message)
    if annotation.startswith("unapproved"):
        return Approval(annotation, False, "UnapprovedAnnotation", f"not approved: {quote(annotation)}")
    url = urlsplit(annotation)
    if url.scheme and url.netloc:
        return Approval(annotation, True, "ApprovedAnnotation", f"approved in {annotation}")
    message = f"protected groups must have approval annotation {quote(ANNOTATION)} with either a URL or a reason "
    return Approval(annotation, False, "InvalidAnnotation", f'{message}starting with "unapproved", {_SEE_ALSO}')
