"""Issues the certificate, as Go's ``x509.CreateCertificate`` does for v1.36 ``pkg/controller/certificates/authority``.

The subject has the attributes that Go supports, in Go's order, the alternative names have Go's four types, and the
usages are those of the spec. Serial numbers must be unpredictable: they do not depend on the seed of a simulation.
"""

import datetime
from collections.abc import Sequence

import msgspec
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID as Purpose
from cryptography.x509.oid import ExtensionOID, NameOID

from pilothouse.semantics.certificate_requests import alternative_names

SigningKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class CannotIssue(Exception):
    """A certificate that cannot be issued, with the reason."""


class Authority(msgspec.Struct, frozen=True):
    certificate: x509.Certificate
    key: SigningKey


_BITS = {
    "signing": 0,
    "digital signature": 0,
    "content commitment": 1,
    "key encipherment": 2,
    "data encipherment": 3,
    "key agreement": 4,
    "cert sign": 5,
    "crl sign": 6,
    "encipher only": 7,
    "decipher only": 8,
}
"""Usages of the key, by their bit (RFC 5280, 4.2.1.3)."""

_PURPOSES = {
    "any": Purpose.ANY_EXTENDED_KEY_USAGE,
    "server auth": Purpose.SERVER_AUTH,
    "client auth": Purpose.CLIENT_AUTH,
    "code signing": Purpose.CODE_SIGNING,
    "email protection": Purpose.EMAIL_PROTECTION,
    "s/mime": Purpose.EMAIL_PROTECTION,
    "ipsec end system": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": x509.ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "timestamping": Purpose.TIME_STAMPING,
    "ocsp signing": Purpose.OCSP_SIGNING,
    "microsoft sgc": x509.ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": x509.ObjectIdentifier("2.16.840.1.113730.4.1"),
}
"""Extended key usages, in the order of Go's constants, in which they are written."""

_ATTRIBUTES = (
    NameOID.COUNTRY_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.POSTAL_CODE,
    NameOID.COMMON_NAME,
    NameOID.SERIAL_NUMBER,
)
"""Of a subject (Go ``crypto/x509/pkix`` ``ToRDNSequence``). Go drops other ones."""
_SINGLE = {NameOID.COMMON_NAME, NameOID.SERIAL_NUMBER}


def issue(
    authority: Authority,
    request: x509.CertificateSigningRequest,
    usages: Sequence[str],
    valid: tuple[datetime.datetime, datetime.datetime],
) -> bytes:
    """The certificate, PEM. Raises ``CannotIssue``, or ``UnreadableRequest``."""
    try:
        builder = _builder(authority, request, usages, valid)
        return builder.sign(authority.key, _digest(authority.key)).public_bytes(Encoding.PEM)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CannotIssue(f"failed to sign certificate: {error}") from error


def _builder(
    authority: Authority,
    request: x509.CertificateSigningRequest,
    usages: Sequence[str],
    valid: tuple[datetime.datetime, datetime.datetime],
) -> x509.CertificateBuilder:
    if not request.is_signature_valid:
        raise CannotIssue("unable to verify certificate request signature")
    bits, extended_key_usages = usages_of(usages)
    subject = _subject(request)
    builder = x509.CertificateBuilder(
        subject_name=subject,
        issuer_name=authority.certificate.subject,
        public_key=request.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=valid[0].replace(microsecond=0),
        not_valid_after=valid[1].replace(microsecond=0),
    )
    if bits:
        usage = x509.UnrecognizedExtension(ExtensionOID.KEY_USAGE, _encoded(bits))
        builder = builder.add_extension(usage, critical=True)
    if extended_key_usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(extended_key_usages), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    try:
        subject_key_id = authority.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        pass
    else:
        authority_key_id = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(subject_key_id)
        builder = builder.add_extension(authority_key_id, critical=False)
    names = _names(request)
    if names:
        # Without a subject, they are the only identity (RFC 5280, 4.2.1.6).
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=not subject.rdns)
    return builder


def usages_of(usages: Sequence[str]) -> tuple[frozenset[int], list[x509.ObjectIdentifier]]:
    """Key usage bits and extended key usages. Raises ``CannotIssue`` for unknown ones."""
    unrecognized = [usage for usage in usages if usage not in _BITS and usage not in _PURPOSES]
    if unrecognized:
        listed = " ".join(f'"{usage}"' for usage in unrecognized)
        raise CannotIssue(f"unrecognized usage values: [{listed}]")
    desired = [usage_oid for word, usage_oid in _PURPOSES.items() if word in usages]
    return frozenset(_BITS[usage] for usage in usages if usage in _BITS), list(dict.fromkeys(desired))


def _encoded(bits: frozenset[int]) -> bytes:
    """A DER bit string. The library's own ``KeyUsage`` refuses ``encipher only`` without ``key agreement``, which Go
    writes: {0, 2} is 1010 0000, of which the last five bits are not used: 03 02 05 a0."""
    value = sum(1 << (15 - bit) for bit in bits).to_bytes(2, "big")
    value = value if 8 in bits else value[:1]
    unused = next(count for count in range(8) if value[-1] >> count & 1)
    return bytes((3, len(value) + 1, unused)) + value


def _subject(request: x509.CertificateSigningRequest) -> x509.Name:
    """Values of one attribute are grouped, as in Go; of a common name and a serial number the last one counts."""
    parts = []
    for oid in _ATTRIBUTES:
        attributes = list(dict.fromkeys(request.subject.get_attributes_for_oid(oid)))
        if attributes:
            parts.append(x509.RelativeDistinguishedName(attributes[-1:] if oid in _SINGLE else attributes))
    return x509.Name(parts)


def _names(request: x509.CertificateSigningRequest) -> list[x509.GeneralName]:
    requested = alternative_names(request)
    kinds = (x509.DNSName, x509.RFC822Name, x509.IPAddress, x509.UniformResourceIdentifier)
    return [name for kind in kinds for name in requested if isinstance(name, kind)]


def _digest(key: SigningKey) -> hashes.SHA256 | hashes.SHA384 | hashes.SHA512 | None:
    """As Go: by the size of the curve, SHA-256 for RSA, none for Ed25519."""
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return None
    if isinstance(key, ec.EllipticCurvePrivateKey):
        size = key.curve.key_size
        return hashes.SHA256() if size <= 256 else hashes.SHA384() if size <= 384 else hashes.SHA512()
    return hashes.SHA256()
