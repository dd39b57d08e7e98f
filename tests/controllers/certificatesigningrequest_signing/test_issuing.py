"""The content of issued certificates.

Rows mirror ``TestCertificateAuthority`` and ``TestKeyUsagesFromStrings``, ``pkg/controller/certificates/authority`` of
v1.36, and ``TestSigner`` of ``signer/signer_test.go``.
"""

import datetime
import ipaddress
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.certificate_requests import CLIENT, authority, request_key, request_pem
from tests.tables import cases

from pilothouse.controllers.identity.certificatesigningrequest_signing.authorities import authority_of
from pilothouse.controllers.identity.certificatesigningrequest_signing.issuing import (
    _PURPOSES,
    Authority,
    CannotIssue,
    SigningKey,
    _encoded,
    issue,
    usages_of,
)
from pilothouse.semantics.certificate_requests import parse_request

NOW = datetime.datetime(2026, 5, 1, 12, tzinfo=datetime.UTC)
VALID = (NOW - datetime.timedelta(minutes=5), NOW + datetime.timedelta(hours=1, microseconds=7))
OURS = authority_of(authority(NOW))


def issued(pem: bytes | None = None, usages: tuple[str, ...] = CLIENT, by: Authority = OURS) -> x509.Certificate:
    return x509.load_pem_x509_certificate(issue(by, parse_request(pem or request_pem()), usages, VALID))


def test_kubelet_client_certificate() -> None:
    usages = ("signing", "key encipherment", "server auth", "client auth")
    result = issued(usages=usages)
    assert result.version is x509.Version.v3
    assert result.subject.rfc4514_string() == "CN=system:node:foo,O=system:nodes"
    assert result.issuer == OURS.certificate.subject
    assert (result.not_valid_before_utc, result.not_valid_after_utc) == (VALID[0], NOW + datetime.timedelta(hours=1))
    assert result.public_key() == request_key().public_key()
    constraints = result.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (constraints.critical, constraints.value) == (True, x509.BasicConstraints(ca=False, path_length=None))
    usage = result.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert (usage.value.digital_signature, usage.value.key_encipherment) == (True, True)
    assert not usage.value.key_cert_sign
    assert not usage.value.data_encipherment
    assert list(result.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.CLIENT_AUTH,
    ]
    known = result.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    own = OURS.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert known.key_identifier == own.digest
    assert 0 < result.serial_number < 1 << 160
    assert result.serial_number != issued(usages=usages).serial_number
    result.verify_directly_issued_by(OURS.certificate)


def test_subject_alternative_names_are_those_of_the_request_in_gos_order() -> None:
    pem = request_pem(
        dns=["a.example", "b.example"],
        emails=["c@example"],
        ips=["10.0.0.1", "::1"],
        uris=["help://me@what:8080/where/when?why=true"],
        other_names=[x509.RegisteredID(x509.ObjectIdentifier("1.2.3"))],
    )
    names = issued(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert not names.critical
    assert list(names.value) == [
        x509.DNSName("a.example"),
        x509.DNSName("b.example"),
        x509.RFC822Name("c@example"),
        x509.IPAddress(ipaddress.ip_address("10.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
        x509.UniformResourceIdentifier("help://me@what:8080/where/when?why=true"),
    ]


def test_subject_alternative_names_are_critical_if_the_subject_is_empty() -> None:
    names = issued(request_pem("", [], dns=["a.example"])).extensions
    assert names.get_extension_for_class(x509.SubjectAlternativeName).critical
    with pytest.raises(x509.ExtensionNotFound):
        issued(request_pem("", [])).extensions.get_extension_for_class(x509.SubjectAlternativeName)


def test_subject_has_the_attributes_known_to_go_in_gos_order() -> None:
    """The uid of Kubernetes users (1.3.6.1.4.1.57683.2) is dropped: no request can claim the uid of another user."""
    more = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "third"),
        x509.NameAttribute(NameOID.SERIAL_NUMBER, "7"),
        x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
        x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b"),
        x509.NameAttribute(x509.ObjectIdentifier("1.3.6.1.4.1.57683.2"), "somebody's uid"),
    ]
    subject = issued(request_pem("c", ["first", "second"], subject_attributes=more)).subject
    assert [(item.oid, item.value) for item in subject.rdns[0]] == [(NameOID.COUNTRY_NAME, "DE")]
    assert {item.value for item in subject.rdns[1]} == {"first", "second", "third"}, "one part with all of a kind"
    assert [item.value for rdn in subject.rdns[2:] for item in rdn] == ["c", "7"]


def test_requested_extensions_are_ignored() -> None:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3"), b"x"), critical=True)
    result = issue(OURS, builder.sign(request_key(), hashes.SHA256()), ("client auth",), VALID)
    extensions = x509.load_pem_x509_certificate(result).extensions
    assert extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    assert {extension.oid.dotted_string for extension in extensions} == {"2.5.29.37", "2.5.29.19", "2.5.29.35"}


@cases(
    "usages, bits, purposes",
    {
        "signing": (("signing",), {0}, []),
        "client auth": (("client auth",), set(), [ExtendedKeyUsageOID.CLIENT_AUTH]),
        "duplicate usage": (("client auth",) * 2, set(), [ExtendedKeyUsageOID.CLIENT_AUTH]),
        "cert sign, encipher only": (("cert sign", "encipher only"), {5, 7}, []),
        "order of Go's list": (
            ("ocsp signing", "crl sign", "s/mime", "content commitment"),
            {6, 1},
            [ExtendedKeyUsageOID.EMAIL_PROTECTION, ExtendedKeyUsageOID.OCSP_SIGNING],
        ),
        "two names of one usage": (("s/mime", "email protection"), set(), [ExtendedKeyUsageOID.EMAIL_PROTECTION]),
        "no bits": ((), set(), []),
    },
)
def test_key_usages_from_strings(
    usages: tuple[str, ...], bits: set[int], purposes: list[x509.ObjectIdentifier]
) -> None:
    usages_found, listed = usages_of(usages)
    assert (set(usages_found), listed) == (bits, purposes)


def test_unknown_usage_is_rejected() -> None:
    with pytest.raises(CannotIssue, match='unrecognized usage values: \\["unsupported string"\\]'):
        issued(usages=("client auth", "unsupported string"))


def test_every_key_usage_combination_is_encoded() -> None:
    """Including combinations that the library's type rejects."""
    words = ("digital signature", "content commitment", "key encipherment", "data encipherment", "key agreement")
    signs = ("cert sign", "crl sign", "encipher only", "decipher only")
    result = issued(usages=(*words, *signs, *_PURPOSES)).extensions
    usage = result.get_extension_for_class(x509.KeyUsage).value
    assert all(
        (
            usage.digital_signature,
            usage.content_commitment,
            usage.key_encipherment,
            usage.data_encipherment,
            usage.key_agreement,
            usage.key_cert_sign,
            usage.crl_sign,
            usage.encipher_only,
            usage.decipher_only,
        )
    )
    assert len(list(result.get_extension_for_class(x509.ExtendedKeyUsage).value)) == 12


@cases(
    "bits, expected",
    {
        "first bit": ({0}, "03020780"),
        "two bits of the first byte": ({0, 2}, "030205a0"),
        "the last of the first byte": ({7}, "03020001"),
        "the first of the second": ({8}, "0303070080"),
        "bits of both bytes": ({0, 8}, "0303078080"),
    },
)
def test_key_usage_bits_are_der_encoded(bits: set[int], expected: str) -> None:
    assert _encoded(frozenset(bits)).hex() == expected


def test_key_usage_extension_is_omitted_if_empty() -> None:
    with pytest.raises(x509.ExtensionNotFound):
        issued(usages=("client auth",)).extensions.get_extension_for_class(x509.KeyUsage)


def test_request_signed_by_another_key_is_rejected() -> None:
    der = bytearray(x509.load_pem_x509_csr(request_pem()).public_bytes(Encoding.DER))
    der[-1] ^= 1
    with pytest.raises(CannotIssue):
        issue(OURS, x509.load_der_x509_csr(bytes(der)), CLIENT, VALID)


def self_signed(key: SigningKey) -> Authority:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "any")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, VALID[0], VALID[1])
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return Authority(builder.sign(key, digest), key)


@cases(
    "key, digest",
    {
        "RSA": (lambda: rsa.generate_private_key(65537, 2048), "sha256"),
        "P-256": (lambda: ec.generate_private_key(ec.SECP256R1()), "sha256"),
        "P-384": (lambda: ec.generate_private_key(ec.SECP384R1()), "sha384"),
        "P-521": (lambda: ec.generate_private_key(ec.SECP521R1()), "sha512"),
        "Ed25519": (ed25519.Ed25519PrivateKey.generate, None),
    },
)
def test_signature_algorithm_depends_on_the_ca_key_as_in_go(key: Callable[[], SigningKey], digest: str | None) -> None:
    by = self_signed(key())
    result = issued(by=by)
    result.verify_directly_issued_by(by.certificate)
    chosen = result.signature_hash_algorithm
    assert (chosen.name if chosen is not None else None) == digest


def test_openssl_verifies_the_certificate(tmp_path: Path) -> None:
    pem = issue(OURS, parse_request(request_pem(ips=["10.0.0.1"])), ("digital signature", "server auth"), VALID)
    (tmp_path / "ca.crt").write_bytes(authority(NOW).certificate)
    (tmp_path / "it.crt").write_bytes(pem)
    words = ["-x509_strict", "-purpose", "sslserver", "-verify_ip", "10.0.0.1", "-attime", str(int(NOW.timestamp()))]
    command = ["openssl", "verify", *words, "-CAfile", str(tmp_path / "ca.crt"), str(tmp_path / "it.crt")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_repr_does_not_show_keys() -> None:
    pair = authority(NOW)
    body = pair.key.decode().splitlines()[1]
    assert body not in repr(pair) + repr(OURS)
    assert "PRIVATE" not in repr(pair) + repr(OURS)
