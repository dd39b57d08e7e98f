"""Verification of client certificates: the rules of Go's crypto/x509."""

import datetime
from collections.abc import Sequence
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.tables import cases

from pilothouse.serving.client_certificates import Authorities

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


class Made:
    """A certificate and its key."""

    def __init__(
        self,
        name: str,
        issuer: "Made | None" = None,
        *,
        authority: bool | None = None,
        path_length: int | None = None,
        usages: Sequence[x509.ObjectIdentifier] = (),
        signs: bool | None = None,
        days: tuple[int, int] = (-1, 1),
        more: Sequence[tuple[x509.ExtensionType, bool]] = (),
    ) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        signer = issuer or self
        builder = x509.CertificateBuilder(
            subject_name=self.name,
            issuer_name=signer.name,
            public_key=self.key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=NOW + days[0] * DAY,
            not_valid_after=NOW + days[1] * DAY,
        )
        if authority is not None:
            builder = builder.add_extension(x509.BasicConstraints(authority, path_length), critical=True)
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if signs is not None:
            usage = x509.KeyUsage(True, False, False, False, False, signs, False, False, False)
            builder = builder.add_extension(usage, critical=True)
        for extension, critical in more:
            builder = builder.add_extension(extension, critical)
        self.certificate = builder.sign(signer.key, hashes.SHA256())
        self.der = self.certificate.public_bytes(serialization.Encoding.DER)
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM)


ROOT = Made("root", authority=True)
MIDDLE = Made("middle", ROOT, authority=True)
SHORT = Made("short", authority=True, path_length=0)
BELOW_SHORT = Made("below", SHORT, authority=True)
OLD = Made("old", authority=True, days=(-9, -3))
BARE = Made("bare")
LEAF_AS_CA = Made("leaf", ROOT, authority=False)
SERVING_CA = Made("serving", ROOT, authority=True, usages=[SERVER])
NO_SIGNER = Made("nosign", authority=True, signs=False)
NAMES = x509.NameConstraints([x509.DNSName("example.com")], None)
UNKNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"x")


@cases(
    "root, chain, refusal",
    {
        "signed by the root": (ROOT, [Made("c", ROOT, usages=[CLIENT])], None),
        "no extended key usages": (ROOT, [Made("c", ROOT)], None),
        "through an intermediate that it brings along": (ROOT, [Made("c", MIDDLE), MIDDLE], None),
        "a root without constraints may sign": (BARE, [Made("c", BARE)], None),
        "root itself": (ROOT, [ROOT], None),
        "path length 0 and nothing between": (SHORT, [Made("c", SHORT)], None),
        "an intermediate that it does not bring": (ROOT, [Made("c", MIDDLE)], "signed by unknown"),
        "a namesake's": (ROOT, [Made("c", Made("root", authority=True))], "signed by unknown"),
        "self-signed": (ROOT, [Made("c")], "signed by unknown"),
        "a server's": (ROOT, [Made("c", ROOT, usages=[SERVER])], "not meant for clients"),
        "expired": (ROOT, [Made("c", ROOT, days=(-5, -2))], "expired"),
        "not valid yet": (ROOT, [Made("c", ROOT, days=(2, 5))], "not valid before"),
        "expired CA": (OLD, [Made("c", OLD)], "its CA can't be used: expired"),
        "a path that is too long": (SHORT, [Made("c", BELOW_SHORT), BELOW_SHORT], "its CA"),
        "signed by a leaf certificate": (ROOT, [Made("c", LEAF_AS_CA), LEAF_AS_CA], "signed by"),
        "CA for servers only": (ROOT, [Made("c", SERVING_CA), SERVING_CA], "its CA"),
        "CA without keyCertSign": (NO_SIGNER, [Made("c", NO_SIGNER)], "its CA can't"),
        "unknown critical extension": (ROOT, [Made("c", ROOT, more=[(UNKNOWN, True)])], "unhandled"),
        "unknown non-critical extension": (ROOT, [Made("c", ROOT, more=[(UNKNOWN, False)])], None),
        "critical name constraints": (ROOT, [Made("c", ROOT, more=[(NAMES, True)])], "unhandled"),
    },
)
def test_client_certificate_verification(root: Made, chain: list[Made], refusal: str | None) -> None:
    result = Authorities(root.pem).verification_error([item.der for item in chain], NOW)
    assert (result is None) == (refusal is None), result
    assert refusal is None or (result or "").startswith(refusal)


def test_invalid_certificate_is_rejected() -> None:
    authorities = Authorities(ROOT.pem)
    assert authorities.verification_error([b"garbage"], NOW) is not None
    assert authorities.verification_error([], NOW) == "no certificate was sent"
    with pytest.raises(ValueError, match="not a PEM certificate"):
        Authorities(b"garbage")


def test_any_of_several_cas_is_accepted() -> None:
    authorities = Authorities(SHORT.pem + b"\n" + ROOT.pem)
    assert authorities.verification_error([Made("c", ROOT).der], NOW) is None


def test_signature_checks_are_bounded_for_cyclic_cas() -> None:
    tangle = [Made("same", authority=True) for _ in range(8)]
    tangle = [Made("same", tangle[i - 1], authority=True) for i in range(8)]
    leaf = Made("c", tangle[0])
    assert Authorities(ROOT.pem).verification_error([leaf.der, *(item.der for item in tangle)], NOW) is not None


def _with_key(name: str, key: rsa.RSAPublicKey, signer: rsa.RSAPrivateKey, serial: int = 1) -> bytes:
    """A CA certificate with another key, issued by a CA of the same name, DER."""
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(
        subject_name=named,
        issuer_name=named,
        public_key=key,
        serial_number=serial,
        not_valid_before=NOW - DAY,
        not_valid_after=NOW + DAY,
    )
    builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


SIGNER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
MODULUS = SIGNER.public_key().public_numbers().n


@cases(
    "exponent, modulus, refusal",
    {
        "usual exponent": (65537, MODULUS, "signed by unknown authority"),
        "the largest exponent": ((1 << 31) - 1, MODULUS, "signed by unknown authority"),
        "a larger exponent": ((1 << 31) + 1, MODULUS, "it has an RSA key whose public exponent"),
        "a huge exponent": ((1 << 2046) + 1, MODULUS, "it has an RSA key whose public exponent"),
        "the largest modulus": (65537, (1 << 8191) + 1, "signed by unknown authority"),
        "a larger modulus": (65537, (1 << 8192) + 1, "it has an RSA key larger than 8192 bits"),
    },
)
@pytest.mark.parametrize("first", [True, False], ids=["a client's", "an authority's"])
def test_oversized_keys_are_rejected(exponent: int, modulus: int, refusal: str, first: bool) -> None:
    costly = _with_key("same", rsa.RSAPublicNumbers(exponent, modulus).public_key(), SIGNER)
    plain = _with_key("same", SIGNER.public_key(), SIGNER, serial=2)
    result = Authorities(ROOT.pem).verification_error([costly, plain] if first else [plain, costly], NOW)
    assert (result or "").startswith(refusal)


@cases(
    "exponent, modulus, most",
    {
        "usual keys": (65539, MODULUS, 20),
        "small keys with large exponents": ((1 << 30) + 1, MODULUS, 20),
        "large keys": (65539, (1 << 8191) + 1, 5),
        "large keys with large exponents": ((1 << 30) + 1, (1 << 8191) + 1, 3),
    },
)
def test_signature_cost_is_bounded(monkeypatch: pytest.MonkeyPatch, exponent: int, modulus: int, most: int) -> None:
    """Each certificate may have been issued by each other one: each has to be tried."""
    keys = [rsa.RSAPublicNumbers(exponent + 2 * i, modulus).public_key() for i in range(9)]
    chain = [_with_key("same", key, SIGNER, serial=1 + i) for i, key in enumerate(keys)]
    checked = 0

    class Counted:
        def __init__(self, certificate: x509.Certificate) -> None:
            self._certificate = certificate

        def __getattr__(self, name: str) -> Any:
            return getattr(self._certificate, name)

        def verify_directly_issued_by(self, issuer: "Counted") -> None:
            nonlocal checked
            checked += 1

    load = x509.load_der_x509_certificate
    monkeypatch.setattr(x509, "load_der_x509_certificate", lambda der: Counted(load(der)))
    assert Authorities(ROOT.pem).verification_error(chain, NOW) == "signed by unknown authority"
    assert checked == most
