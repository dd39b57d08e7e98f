"""Admission of certificate requests and trust bundles: the verbs ``approve``, ``sign`` and ``attest`` on signers, and
restricted subjects.

After kubernetes' ``plugin/pkg/admission/certificates`` (v1.36). In addition to access to the subresource, users need
the verb on the resource ``signers`` with the signer's name or ``<domain>/*``.
"""

import base64
import binascii

from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin, new_forbidden
from pilothouse.apiserver.authentication.identity import MASTERS, Identity
from pilothouse.apiserver.authorization.authorizer import Attributes
from pilothouse.apiserver.core import Core
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.go_text import quote

with lazy_imports():
    from cryptography import x509
    from cryptography.x509 import oid

GROUP = "certificates.k8s.io"
_REQUESTS = frozenset({"certificatesigningrequests.certificates.k8s.io"})
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


def is_authorized_for_signer_name(core: Core, identity: Identity, verb: str, signer: str) -> bool:
    """Whether the user has the verb on the signer or on its domain (``IsAuthorizedForSignerName``)."""
    domain = signer.partition("/")[0]
    return any(
        core.authorizer.authorize(identity, Attributes(verb, GROUP, "*", "signers", name=name)).allowed
        for name in (signer, f"{domain}/*")
    )


class _SignerPlugin(Plugin):
    def __init__(self, core: Core) -> None:
        self._core = core

    def _authorize(self, write: AdmissionAttributes, verb: str, signer: str, object_description: str) -> None:
        if not is_authorized_for_signer_name(self._core, write.identity, verb, signer):
            raise new_forbidden(write, f"user not permitted to {verb} {object_description} {quote(signer)}")


def _is_request(write: AdmissionAttributes, operation: str, subresource: str) -> bool:
    info = write.info
    return (
        info.resource == "certificatesigningrequests"
        and info.group == GROUP
        and write.operation == operation
        and write.subresource == subresource
    )


class CertificateApproval(_SignerPlugin):
    """Requires the verb ``approve`` on the request's signer to update the approval subresource."""

    resources = _REQUESTS

    def validate(self, write: AdmissionAttributes) -> None:
        if _is_request(write, "UPDATE", "approval") and write.old is not None:
            signer = (write.old.get("spec") or {}).get("signerName") or ""
            self._authorize(write, "approve", signer, "requests with signerName")


class CertificateSigning(_SignerPlugin):
    """Requires the verb ``sign`` on the request's signer to change the certificate or the conditions."""

    resources = _REQUESTS

    def validate(self, write: AdmissionAttributes) -> None:
        if not _is_request(write, "UPDATE", "status") or write.old is None or write.obj is None:
            return
        old, new = write.old.get("status") or {}, write.obj.get("status") or {}
        if all((old.get(field) or None) == (new.get(field) or None) for field in ("certificate", "conditions")):
            return
        signer = (write.old.get("spec") or {}).get("signerName") or ""
        self._authorize(write, "sign", signer, "requests with signerName")


class ClusterTrustBundleAttest(_SignerPlugin):
    """Requires the verb ``attest`` on the signer of a ClusterTrustBundle."""

    resources = frozenset({"clustertrustbundles.certificates.k8s.io"})

    def validate(self, write: AdmissionAttributes) -> None:
        if write.info.resource != "clustertrustbundles" or write.info.group != GROUP or write.obj is None:
            return
        if write.operation not in ("CREATE", "UPDATE"):
            return
        signer = (write.obj.get("spec") or {}).get("signerName") or ""
        if signer:
            self._authorize(write, "attest", signer, "for signerName")


class CertificateSubjectRestriction(Plugin):
    """Rejects requests for client certificates with the group ``system:masters``."""

    resources = _REQUESTS

    def validate(self, write: AdmissionAttributes) -> None:
        if not _is_request(write, "CREATE", "") or write.obj is None:
            return
        spec = write.obj.get("spec") or {}
        if spec.get("signerName") != CLIENT_SIGNER:
            return
        try:
            organizations = _organizations(spec.get("request") or "")
        except ValueError as error:
            raise new_forbidden(write, f"failed to parse CSR: {error}") from None
        if MASTERS in organizations:
            raise new_forbidden(write, f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed")


def _organizations(request: str) -> list[str]:
    """The organizations in the subject of a request, which become the user's groups. Raises ``ValueError``."""
    try:
        pem = base64.b64decode(request, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None
    parsed = x509.load_pem_x509_csr(pem)
    return [str(attribute.value) for attribute in parsed.subject.get_attributes_for_oid(oid.NameOID.ORGANIZATION_NAME)]
