"""Certificate requests and CAs for tests. Keys are generated once per process, since it takes time."""

import base64
import datetime
import functools
import ipaddress
from collections.abc import Sequence
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from pilothouse.serving.certificates import Pair, create_authority

Doc = dict[str, Any]

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
NODES = ("system:nodes",)
CLIENT = ("digital signature", "key encipherment", "client auth")
SERVING = ("digital signature", "key encipherment", "server auth")


@functools.lru_cache(maxsize=1)
def request_key() -> ec.EllipticCurvePrivateKey:
    """The private key of all requests."""
    return ec.generate_private_key(ec.SECP256R1())


@functools.lru_cache(maxsize=1)
def key_pem() -> bytes:
    """The private key in PEM."""
    return request_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def request_pem(
    common_name: str = "system:node:foo",
    organizations: Sequence[str] = NODES,
    *,
    dns: Sequence[str] = (),
    emails: Sequence[str] = (),
    ips: Sequence[str] = (),
    uris: Sequence[str] = (),
    subject_attributes: "Sequence[x509.NameAttribute[str]]" = (),
    other_names: Sequence[x509.GeneralName] = (),
) -> bytes:
    """A certificate request in PEM."""
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    if common_name:
        parts.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    names: list[x509.GeneralName] = [
        *(x509.UniformResourceIdentifier(uri) for uri in uris),
        *(x509.IPAddress(ipaddress.ip_address(item)) for item in ips),
        *(x509.RFC822Name(email) for email in emails),
        *(x509.DNSName(item) for item in dns),
        *other_names,
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([*parts, *subject_attributes]))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(request_key(), hashes.SHA256()).public_bytes(Encoding.PEM)


def document(
    name: str, pem: bytes, signer: str, usages: Sequence[str] = CLIENT, seconds: int | None = None, **spec: Any
) -> Doc:
    """The manifest of a CertificateSigningRequest."""
    wanted: Doc = {
        "request": base64.b64encode(pem).decode(),
        "signerName": signer,
        "usages": list(usages),
        **({} if seconds is None else {"expirationSeconds": seconds}),
        **spec,
    }
    return {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}} | {
        "spec": wanted
    }


def with_approval_condition(request_object: Doc, kind: str = "Approved") -> Doc:
    """The request as ``kubectl certificate approve`` and ``deny`` write it."""
    verb = {"Approved": "approve", "Denied": "deny"}[kind]
    condition = {"type": kind, "status": "True", "reason": f"Kubectl{verb.title()}", "message": f"by {verb}"}
    status = request_object.get("status") or {}
    return {**request_object, "status": {**status, "conditions": [*(status.get("conditions") or ()), condition]}}


def certificate_in(request_object: Doc) -> x509.Certificate | None:
    """The issued certificate, if any."""
    encoded = request_object["status"].get("certificate")
    return x509.load_pem_x509_certificate(base64.b64decode(encoded)) if encoded else None


@functools.cache
def authority(now: datetime.datetime, name: str = "test-ca") -> Pair:
    """A CA that is valid from an hour before ``now``."""
    return create_authority(name, now)
