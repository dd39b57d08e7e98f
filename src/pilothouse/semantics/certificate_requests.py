"""The content of a CertificateSigningRequest, its conditions, and whether it is a kubelet's.

The approver and the signer decide by these, the API server reads requests with them. Sources: kubernetes v1.36
``pkg/apis/certificates/helpers.go``, ``pkg/controller/certificates/certificate_controller_utils.go``. ``cryptography``
is imported when a request is read, not before.
"""

from collections.abc import Sequence

import msgspec

from pilothouse.api.certificates import CertificateSigningRequest
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.cidrs import Address, address_text
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.pem_blocks import pem_blocks

with lazy_imports():
    from cryptography import exceptions, x509
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509 import oid

KUBELET_SERVING = "kubernetes.io/kubelet-serving"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
API_SERVER_CLIENT = "kubernetes.io/kube-apiserver-client"
LEGACY_UNKNOWN = "kubernetes.io/legacy-unknown"

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"

_NODES, _NODE_PREFIX = ["system:nodes"], "system:node:"
_NOT_FOR_NODES = "subject organization is not system:nodes"
_NO_NODE = "subject common name does not begin with system:node:"


# Conditions


def is_approved(request: CertificateSigningRequest) -> bool:
    """Whether it is approved and not denied."""
    condition_types = {condition.type for condition in request.status.conditions}
    return APPROVED in condition_types and DENIED not in condition_types


def is_decided(request: CertificateSigningRequest) -> bool:
    return any(condition.type in (APPROVED, DENIED) for condition in request.status.conditions)


def has_failed(request: CertificateSigningRequest) -> bool:
    """Whether its signer has failed it. A condition without a status counts: old clients did not set it."""
    return any(condition.type == FAILED and condition.status in ("", "True") for condition in request.status.conditions)


# The request


class UnreadableRequest(ValueError):
    """Bytes that are not a valid certificate request. The message does not repeat them."""


class RequestedNames(msgspec.Struct, frozen=True, kw_only=True):
    """Subject and alternative names in a request, as far as they are validated."""

    common_name: str = ""
    organizations: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    email_addresses: tuple[str, ...] = ()
    ip_addresses: tuple[str, ...] = ()
    uris: tuple[str, ...] = ()


def parse_request(pem: bytes) -> "x509.CertificateSigningRequest":
    """The first PEM block, which must be a request. Raises ``UnreadableRequest``."""
    block = next(pem_blocks(pem), None)
    if block is None or block.type != b"CERTIFICATE REQUEST":
        raise UnreadableRequest("PEM block type must be CERTIFICATE REQUEST")
    try:
        return x509.load_pem_x509_csr(block.text)
    except (ValueError, x509.InvalidVersion) as error:
        raise UnreadableRequest(str(error)) from error


def check_signature(request: "x509.CertificateSigningRequest") -> None:
    """Raise ``UnreadableRequest``, in the words of Go's ``crypto/x509``, unless it is signed with its own key."""
    try:
        if request.is_signature_valid:
            return
        is_rsa = isinstance(request.public_key(), rsa.RSAPublicKey)
    except (exceptions.UnsupportedAlgorithm, ValueError, TypeError):
        raise UnreadableRequest("x509: cannot verify signature: algorithm unimplemented") from None
    raise UnreadableRequest("crypto/rsa: verification error" if is_rsa else "x509: ECDSA verification failure")


def requested_names(request: "x509.CertificateSigningRequest") -> RequestedNames:
    """The requested names. Of several common names the last one counts, as in Go. Raises ``UnreadableRequest`` for
    invalid extensions."""
    subject, names = request.subject, alternative_names(request)
    common_names = [str(attribute.value) for attribute in subject.get_attributes_for_oid(oid.NameOID.COMMON_NAME)]
    organizations = [
        str(attribute.value) for attribute in subject.get_attributes_for_oid(oid.NameOID.ORGANIZATION_NAME)
    ]
    return RequestedNames(
        common_name=common_names[-1] if common_names else "",
        organizations=tuple(organizations),
        dns_names=tuple(names.get_values_for_type(x509.DNSName)),
        email_addresses=tuple(names.get_values_for_type(x509.RFC822Name)),
        ip_addresses=tuple(
            address_text(address)
            for address in names.get_values_for_type(x509.IPAddress)
            if isinstance(address, Address)  # never a network, which only name constraints have
        ),
        uris=tuple(names.get_values_for_type(x509.UniformResourceIdentifier)),
    )


class UnreadableCertificate(ValueError):
    """Bytes that are not certificates. The message does not repeat them."""


def check_certificates(pem: bytes) -> None:
    """Raise ``UnreadableCertificate`` unless it is nothing, or PEM blocks of certificates (``validateCertificate`` in
    ``pkg/apis/certificates/validation``)."""
    blocks = list(pem_blocks(pem))
    for block in blocks:
        if block.type != b"CERTIFICATE":
            kind = block.type.decode(errors="replace")
            raise UnreadableCertificate(f"only CERTIFICATE PEM blocks are allowed, found {quote(kind)}")
        if b":" in block.body:
            raise UnreadableCertificate("no PEM block headers are permitted")
        try:
            x509.load_pem_x509_certificate(block.text)
        except (ValueError, x509.InvalidVersion):
            raise UnreadableCertificate("x509: malformed certificate") from None
    if pem and not blocks:
        raise UnreadableCertificate("must contain at least one CERTIFICATE PEM block")


def alternative_names(request: "x509.CertificateSigningRequest") -> "x509.SubjectAlternativeName":
    """The subject alternative names, if any. Raises ``UnreadableRequest``."""
    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return x509.SubjectAlternativeName([])
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as error:
        raise UnreadableRequest(str(error)) from error


# Kubelets


def validate_kubelet_client_csr(requested: RequestedNames, usages: Sequence[str]) -> str | None:
    """Why this is not a kubelet's request for a client certificate, with upstream's message; ``None`` if it is."""
    if list(requested.organizations) != _NODES:
        return _NOT_FOR_NODES
    for names, kind in (
        (requested.dns_names, "DNS"),
        (requested.email_addresses, "Email"),
        (requested.ip_addresses, "IP"),
        (requested.uris, "URI"),
    ):
        if names:
            return f"{kind} subjectAltNames are not allowed"
    if not requested.common_name.startswith(_NODE_PREFIX):
        return _NO_NODE
    return _usage_error(usages, "client auth")


def validate_kubelet_serving_csr(requested: RequestedNames, usages: Sequence[str]) -> str | None:
    """Why this is not a kubelet's request for a serving certificate, with upstream's message; ``None`` if it is."""
    if list(requested.organizations) != _NODES:
        return _NOT_FOR_NODES
    if not requested.dns_names and not requested.ip_addresses:
        return "DNS or IP subjectAltName is required"
    if requested.email_addresses:
        return "Email subjectAltNames are not allowed"
    if requested.uris:
        return "URI subjectAltNames are not allowed"
    text_error = _usage_error(usages, "server auth")
    if text_error is None and not requested.common_name.startswith(_NODE_PREFIX):
        return _NO_NODE
    return text_error


def _usage_error(usages: Sequence[str], purpose: str) -> str | None:
    # Keys that are not RSA encipher no other keys, so that one may be missing.
    needed = {"digital signature", purpose}
    if set(usages) in (needed, needed | {"key encipherment"}):
        return None
    return f"usages did not match [{' '.join(sorted({*needed, 'key encipherment'}))}]"
