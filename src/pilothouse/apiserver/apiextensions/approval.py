"""Approval of definitions in protected groups (``*.k8s.io``), by annotation.

After apiextensions-apiserver's ``pkg/apihelpers/helpers.go`` and ``pkg/controller/apiapproval`` (v0.36).
"""

from urllib.parse import urlsplit

import msgspec

from pilothouse.apiserver.objects import Object
from pilothouse.machinery.go_text import quote

ANNOTATION = "api-approved.kubernetes.io"
CONDITION = "KubernetesAPIApprovalPolicyConformant"
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"


class Approval(msgspec.Struct, frozen=True):
    """Status, reason and message of the condition ``KubernetesAPIApprovalPolicyConformant``."""

    given: str
    holds: bool
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
    given = (definition["metadata"].get("annotations") or {}).get(ANNOTATION) or ""
    if not given:
        why = f"protected groups must have approval annotation {quote(ANNOTATION)}, {_SEE}"
        return Approval(given, False, "MissingAnnotation", why)
    if given.startswith("unapproved"):
        return Approval(given, False, "UnapprovedAnnotation", f"not approved: {quote(given)}")
    parts = urlsplit(given)
    if parts.scheme and parts.netloc:
        return Approval(given, True, "ApprovedAnnotation", f"approved in {given}")
    why = f"protected groups must have approval annotation {quote(ANNOTATION)} with either a URL or a reason "
    return Approval(given, False, "InvalidAnnotation", f'{why}starting with "unapproved", {_SEE}')
