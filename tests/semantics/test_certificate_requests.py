"""What is read of certificate requests, and which are a kubelet's. Rows mirror ``TestIsKubeletClientCSR`` and
``TestIsKubeletServingCSR``, ``pkg/apis/certificates/helpers_test.go`` of v1.36, and ``TestHasTrueCondition`` of
``pkg/controller/certificates/certificate_controller_utils_test.go``."""

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID
from tests.certificate_requests import CLIENT, SERVING, request_pem
from tests.tables import cases

from pilothouse.api.certificates import (
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from pilothouse.semantics.certificate_requests import (
    RequestedNames,
    UnreadableRequest,
    has_failed,
    is_approved,
    is_decided,
    parse_request,
    requested_names,
    validate_kubelet_client_csr,
    validate_kubelet_serving_csr,
)


def saying(*conditions: tuple[str, str]) -> CertificateSigningRequest:
    listed = tuple(CertificateSigningRequestCondition(type=kind, status=status) for kind, status in conditions)
    return CertificateSigningRequest(status=CertificateSigningRequestStatus(conditions=listed))


@cases(
    "request_, approved, decision, failed",
    {
        "no conditions": (saying(), False, False, False),
        "approved": (saying(("Approved", "True")), True, True, False),
        "approved by a client that wrote no status": (saying(("Approved", "")), True, True, False),
        "denied": (saying(("Denied", "True")), False, True, False),
        "Approved and Denied": (saying(("Approved", "True"), ("Denied", "True")), False, True, False),
        "failed": (saying(("Failed", "True")), False, False, True),
        "failed, no status": (saying(("Failed", "")), False, False, True),
        "Failed False": (saying(("Failed", "False")), False, False, False),
        "approved and failed": (saying(("Approved", "True"), ("Failed", "True")), True, True, True),
        "lower-case condition type": (saying(("approved", "True")), False, False, False),
    },
)
def test_request_conditions(request_: CertificateSigningRequest, approved: bool, decision: bool, failed: bool) -> None:
    assert (is_approved(request_), is_decided(request_), has_failed(request_)) == (approved, decision, failed)


def test_parse_request() -> None:
    pem = request_pem("c", ["a", "b"], dns=["d.example"], emails=["e@example"], ips=["10.0.0.1", "::1"], uris=["u://v"])
    assert requested_names(parse_request(b"some text\n" + pem)) == RequestedNames(
        common_name="c",
        organizations=("a", "b"),
        dns_names=("d.example",),
        email_addresses=("e@example",),
        ip_addresses=("10.0.0.1", "::1"),
        uris=("u://v",),
    )
    assert requested_names(parse_request(request_pem("", []))) == RequestedNames()


def test_last_common_name_wins() -> None:
    pem = request_pem("first", subject_attributes=[x509.NameAttribute(NameOID.COMMON_NAME, "last")])
    assert requested_names(parse_request(pem)).common_name == "last"


@cases(
    "pem, text",
    {
        "empty": (b"", "PEM block type must be CERTIFICATE REQUEST"),
        "not PEM": (b"secret", "PEM block type must be CERTIFICATE REQUEST"),
        "PEM block of another type": (
            request_pem().replace(b"CERTIFICATE REQUEST", b"CERTIFICATE"),
            "PEM block type must be CERTIFICATE REQUEST",
        ),
        "invalid request": (b"-----BEGIN CERTIFICATE REQUEST-----\nc2VjcmV0\n-----END CERTIFICATE REQUEST-----\n", ""),
    },
)
def test_invalid_request_error_does_not_contain_the_request(pem: bytes, text: str) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        parse_request(pem)
    assert text in str(caught.value)
    assert "secret" not in str(caught.value)


def test_undecodable_names() -> None:
    pem = request_pem(other_names=[x509.RegisteredID(x509.ObjectIdentifier("1.2.3"))])
    assert requested_names(parse_request(pem)).dns_names == ()
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    wrong = x509.UnrecognizedExtension(x509.oid.ExtensionOID.SUBJECT_ALTERNATIVE_NAME, b"\x01")
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding
    from tests.certificate_requests import request_key

    signed = builder.add_extension(wrong, critical=False).sign(request_key(), hashes.SHA256())
    with pytest.raises(UnreadableRequest):
        requested_names(parse_request(signed.public_bytes(Encoding.PEM)))


NODE = RequestedNames(common_name="system:node:foo", organizations=("system:nodes",))
SERVER = RequestedNames(common_name="system:node:foo", organizations=("system:nodes",), dns_names=("foo",))


def changed(requested: RequestedNames, **changes: object) -> RequestedNames:
    from msgspec.structs import replace

    return replace(requested, **changes)


NOT_NODES = "subject organization is not system:nodes"
NO_NODE = "subject common name does not begin with system:node:"
CLIENT_USAGES = "usages did not match [client auth digital signature key encipherment]"
SERVING_USAGES = "usages did not match [digital signature key encipherment server auth]"


@cases(
    "requested, usages, expected",
    {
        "a kubelet's": (NODE, CLIENT, None),
        "without key encipherment": (NODE, ("client auth", "digital signature"), None),
        "a usage twice is one usage": (NODE, (*CLIENT, "client auth"), None),
        "common name without the node prefix": (changed(NODE, common_name="mike"), CLIENT, NO_NODE),
        "missing organization": (changed(NODE, organizations=()), CLIENT, NOT_NODES),
        "different organization": (changed(NODE, organizations=("system:master",)), CLIENT, NOT_NODES),
        "additional organization": (changed(NODE, organizations=("system:nodes", "system:masters")), CLIENT, NOT_NODES),
        "a name of a host": (changed(NODE, dns_names=("foo",)), CLIENT, "DNS subjectAltNames are not allowed"),
        "an address": (changed(NODE, email_addresses=("a@b",)), CLIENT, "Email subjectAltNames are not allowed"),
        "an IP address": (changed(NODE, ip_addresses=("1.2.3.4",)), CLIENT, "IP subjectAltNames are not allowed"),
        "a URI": (changed(NODE, uris=("u://v",)), CLIENT, "URI subjectAltNames are not allowed"),
        "unexpected usage": (NODE, (*CLIENT, "server auth"), CLIENT_USAGES),
        "missing usage": (NODE, ("key encipherment", "client auth"), CLIENT_USAGES),
        "usages of a server": (NODE, SERVING, CLIENT_USAGES),
        "no usages": (NODE, (), CLIENT_USAGES),
    },
)
def test_is_kubelet_client_csr(requested: RequestedNames, usages: tuple[str, ...], expected: str | None) -> None:
    assert validate_kubelet_client_csr(requested, usages) == expected


@cases(
    "requested, usages, expected",
    {
        "a kubelet's, by name": (SERVER, SERVING, None),
        "IP address alone": (changed(NODE, ip_addresses=("1.2.3.4",)), SERVING, None),
        "without key encipherment": (SERVER, ("server auth", "digital signature"), None),
        "no DNS name and IP address": (NODE, SERVING, "DNS or IP subjectAltName is required"),
        "common name without the node prefix": (changed(SERVER, common_name="mike"), SERVING, NO_NODE),
        "different organization": (changed(SERVER, organizations=("a",)), SERVING, NOT_NODES),
        "an address": (changed(SERVER, email_addresses=("a@b",)), SERVING, "Email subjectAltNames are not allowed"),
        "a URI": (changed(SERVER, uris=("u://v",)), SERVING, "URI subjectAltNames are not allowed"),
        "usages of a client": (SERVER, CLIENT, SERVING_USAGES),
        "usages are checked before the common name": (changed(SERVER, common_name="mike"), (), SERVING_USAGES),
    },
)
def test_is_kubelet_serving_csr(requested: RequestedNames, usages: tuple[str, ...], expected: str | None) -> None:
    assert validate_kubelet_serving_csr(requested, usages) == expected


def test_ip_addresses_are_text() -> None:
    texts = requested_names(parse_request(request_pem(ips=["::ffff:1.2.3.4", "2001:db8::1"]))).ip_addresses
    assert texts == ("1.2.3.4", "2001:db8::1"), "as Go's net.IP.String"
