"""Certificates: our own CA, and the certificates that it issues to servers and clients.

Keys are ECDSA P-256: generated in a millisecond, and supported by every Kubernetes client. Private files have mode 0600
and are replaced atomically. ``cryptography`` is only imported when a certificate is created or read.
"""

import datetime
import ipaddress
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from pilothouse.env.lazy import lazy_imports
from pilothouse.env.private_files import write_private

with lazy_imports():
    from cryptography import exceptions, x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509 import oid

    from pilothouse.machinery import pem_errors

AUTHORITY_DAYS = 3650
ISSUED_DAYS = 365
"""As upstream's self-signed certificates (client-go ``util/cert``, v0.36)."""

RENEW_BEFORE = datetime.timedelta(days=30)
"""A stored certificate that expires within this time is replaced."""

_SKEW = datetime.timedelta(hours=1)
"""Certificates are valid from an hour ago, for clients whose clock is behind (client-go ``util/cert``, v0.36)."""


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"Pair(certificate={self.certificate!r})"  # keys must not be logged

    def save(self, certificate: Path, key: Path) -> None:
        """Write both, readable by the owner only. The key is written first, so that a certificate never lacks its
        key."""
        write_private(key, self.key)
        write_private(certificate, self.certificate)

    @staticmethod
    def load(certificate: Path, key: Path) -> "Pair":
        """Read both. Raises ``OSError``, or ``ValueError`` with the file names if they do not belong together."""
        pair = Pair(certificate.read_bytes(), key.read_bytes())
        pair.check(str(certificate), str(key))
        return pair

    def check(self, certificate: str = "the certificate", key: str = "the key") -> None:
        """Raise ``ValueError``, with both file names, unless they can be read and belong together."""
        try:
            fits = _certificate(self.certificate).public_key() == _key(self.key).public_key()
        except (ValueError, TypeError) as error:
            raise ValueError(f"{certificate} and {key} can't be read: {pem_errors.error_text(error)}") from error
        if not fits:
            raise ValueError(f"{key} is not the key of the certificate {certificate}")

    @property
    def not_after(self) -> datetime.datetime:
        """When the certificate expires."""
        return _certificate(self.certificate).not_valid_after_utc


def create_authority(common_name: str, now: datetime.datetime) -> Pair:
    """A self-signed CA that may issue server and client certificates, but no further CAs."""
    key = _new_key()
    name = _name(common_name)
    not_after = now + datetime.timedelta(days=AUTHORITY_DAYS)
    builder = _builder((name, name), key.public_key(), key.public_key(), now, not_after)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(authority=True), critical=True)
    return _sign(builder, key, key)


def issue_server(authority: Pair, hosts: Sequence[str], now: datetime.datetime, *, common_name: str = "") -> Pair:
    """A server certificate for these host names and IP addresses, followed by the CA's."""
    if not hosts:
        raise ValueError("a server's certificate needs at least one host name or address")
    names: list[x509.GeneralName] = []
    for host in dict.fromkeys(hosts):
        address = _address(host)
        names.append(x509.IPAddress(address) if address is not None else x509.DNSName(host))
    issued = _issue(
        authority,
        _name(common_name or hosts[0]),
        now,
        (x509.SubjectAlternativeName(names), x509.ExtendedKeyUsage([oid.ExtendedKeyUsageOID.SERVER_AUTH])),
    )
    return Pair(issued.certificate + authority.certificate, issued.key)


def issue_client(authority: Pair, user: str, groups: Iterable[str], now: datetime.datetime) -> Pair:
    """A client certificate: Kubernetes uses the common name as user and the organizations as groups."""
    usage = x509.ExtendedKeyUsage([oid.ExtendedKeyUsageOID.CLIENT_AUTH])
    return _issue(authority, _name(user, groups), now, (usage,))


def load_or_create_authority(directory: Path, name: str, common_name: str, now: datetime.datetime) -> Pair:
    """The CA in ``<name>.crt`` and ``<name>.key``, created if neither file exists. An expired one is an error."""
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    if not certificate.exists() and not key.exists():
        authority = create_authority(common_name, now)
        authority.save(certificate, key)
        return authority
    existing = Pair.load(certificate, key)
    if existing.not_after <= now:
        raise ValueError(
            f"the CA certificate {certificate} expired at {existing.not_after}; remove it and its key to get a new one "
            "(clients then need the new one too)"
        )
    return existing


def load_or_issue_server(
    directory: Path, name: str, authority: Pair, hosts: Sequence[str], now: datetime.datetime
) -> Pair:
    """The server's pair in ``<name>.crt`` and ``<name>.key``, issued again if it is absent, expires soon, was issued by
    another CA, or lacks a host."""
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    if certificate.exists() and key.exists():
        existing = Pair.load(certificate, key)
        if (
            existing.not_after - now > RENEW_BEFORE
            and _normal(hosts) <= _hosts_of(existing)
            and _is_signed_by(existing, authority)
        ):
            return existing
    issued = issue_server(authority, hosts, now)
    issued.save(certificate, key)
    return issued


def _issue(
    authority: Pair, subject: "x509.Name", now: datetime.datetime, extensions: "tuple[x509.ExtensionType, ...]"
) -> Pair:
    issuer, issuer_key, key = _certificate(authority.certificate), _key(authority.key), _new_key()
    not_after = min(now + datetime.timedelta(days=ISSUED_DAYS), issuer.not_valid_after_utc)
    builder = _builder((subject, issuer.subject), key.public_key(), issuer_key.public_key(), now, not_after)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(authority=False), critical=True)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return _sign(builder, issuer_key, key)


def _builder(
    names: "tuple[x509.Name, x509.Name]",
    public: "ec.EllipticCurvePublicKey",
    issuer_public: "ec.EllipticCurvePublicKey",
    now: datetime.datetime,
    not_after: datetime.datetime,
) -> "x509.CertificateBuilder":
    """The common part of all certificates; ``names`` are those of subject and issuer."""
    builder = x509.CertificateBuilder(
        subject_name=names[0],
        issuer_name=names[1],
        public_key=public,
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _SKEW,
        not_valid_after=not_after,
    )
    # Python 3.13 and later verify strictly by default and require both identifiers.
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    return builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_public), critical=False)


def _sign(
    builder: "x509.CertificateBuilder", signer: "ec.EllipticCurvePrivateKey", key: "ec.EllipticCurvePrivateKey"
) -> Pair:
    certificate = builder.sign(signer, hashes.SHA256())
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    return Pair(
        certificate.public_bytes(encoding),
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain),
    )


def _usage(*, authority: bool) -> "x509.KeyUsage":
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str, organizations: Iterable[str] = ()) -> "x509.Name":
    attributes = [x509.NameAttribute(oid.NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([*attributes, x509.NameAttribute(oid.NameOID.COMMON_NAME, common_name)])


def _new_key() -> "ec.EllipticCurvePrivateKey":
    return ec.generate_private_key(ec.SECP256R1())


def _certificate(pem: bytes) -> "x509.Certificate":
    return x509.load_pem_x509_certificate(pem)


def _key(pem: bytes) -> "ec.EllipticCurvePrivateKey":
    return serialization.load_pem_private_key(pem, None)  # type: ignore[return-value]  # any kind that signs will do


def _normal(hosts: Iterable[str]) -> set[str]:
    """Addresses as in certificates: an IPv6 address has many spellings."""
    return {str(_address(host) or host) for host in hosts}


def _hosts_of(pair: Pair) -> set[str]:
    certificate = _certificate(pair.certificate)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    return addresses | set(names.get_values_for_type(x509.DNSName))


def _is_signed_by(pair: Pair, authority: Pair) -> bool:
    """Whether the certificate was signed with the CA's key."""
    try:
        _certificate(pair.certificate).verify_directly_issued_by(_certificate(authority.certificate))
    except (exceptions.InvalidSignature, ValueError, TypeError):
        return False
    return True


def is_issued_for(pair: Pair, hosts: Iterable[str], bundle: bytes) -> bool:
    """Whether the certificate is for all of these hosts, and signed by a CA in ``bundle``."""
    return _normal(hosts) <= _hosts_of(pair) and any(_is_signed_by(pair, Pair(ca, b"")) for ca in split(bundle))


def split(bundle: bytes) -> list[bytes]:
    """The certificates of a bundle, each PEM. Raises ``ValueError`` if there is none."""
    return [
        certificate.public_bytes(serialization.Encoding.PEM) for certificate in x509.load_pem_x509_certificates(bundle)
    ]


def not_expired(bundle: bytes, now: datetime.datetime) -> list[bytes]:
    """Those certificates of a bundle that have not expired."""
    return [certificate for certificate in split(bundle) if _certificate(certificate).not_valid_after_utc > now]


def certificate_names(pair: Pair) -> tuple[str, ...]:
    """The host names of a certificate: its common name if that is one, and its alternative names (apiserver
    ``dynamiccertificates/named_certificates.go``, v0.36)."""
    certificate = _certificate(pair.certificate)
    names = [str(attribute.value) for attribute in certificate.subject.get_attributes_for_oid(oid.NameOID.COMMON_NAME)]
    names = [name for name in names if "." in name.strip(".") or name.isalnum()]
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return tuple(names)
    return tuple(dict.fromkeys([*names, *alternatives.get_values_for_type(x509.DNSName)]))


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
