"""Verifies client certificates like Go's ``x509.Certificate.Verify``.

``tls`` accepts any client certificate in the handshake; ``Authorities`` verifies it for requests. The rules are those
of Go 1.24 ``crypto/x509`` with the key usage ``ClientAuth``: signatures and dates of the chain, basic constraints and
path lengths of CAs, extended key usages of every certificate below the root. Unsupported critical extensions, including
name constraints, reject the certificate.

Verification happens before authentication: key sizes are limited, and so is the time for all signatures of one chain,
to a few milliseconds.
"""

import datetime
from collections.abc import Sequence

from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from cryptography import exceptions, x509
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509 import oid

    from pilothouse.machinery import pem_errors

_MAX_DEPTH = 8
_MAX_SIGNATURE_CHECKS = 20
"""The number of signatures verified for one certificate (Go's ``maxChainSignatureChecks`` is 100). Larger RSA keys than
usual count more than once: the time is quadratic in the modulus and proportional to the length of the exponent."""
_USUAL_BITS, _USUAL_EXPONENT_BITS = 4096, 17
_MAX_RSA_KEY_SIZE = 8192
"""The maximum RSA modulus in a chain (``maxRSAKeySize`` of Go's ``crypto/tls``)."""
_MAX_RSA_EXPONENT = (1 << 31) - 1
"""The maximum exponent of an RSA key (``checkPub`` of Go's ``crypto/rsa``)."""


class Authorities:
    """The certificates in a PEM bundle, as roots. Raises ``ValueError`` if it has none, or an invalid one."""

    def __init__(self, pem: bytes) -> None:
        self.pem = pem
        try:
            self._roots = x509.load_pem_x509_certificates(pem)
        except ValueError as error:
            raise ValueError(f"the client CA is not a PEM certificate: {pem_errors.error_text(error)}") from error

    def verification_error(self, chain: Sequence[bytes], now: datetime.datetime) -> str | None:
        """Why the client's certificate, the first of the chain (DER), is not trusted; None if it is trusted."""
        if not chain:
            return "no certificate was sent"
        try:
            leaf, *intermediates = [x509.load_der_x509_certificate(der) for der in chain[: _MAX_DEPTH + 1]]
            for certificate in (leaf, *intermediates):
                key_error = _key_size_error(certificate)
                if key_error is not None:
                    return key_error
            return _Search(self._roots, intermediates, now).verification_error(leaf)
        except (ValueError, TypeError) as error:
            return f"it can't be read: {error}"


class _Search:
    """The search for a path from one certificate to a root."""

    def __init__(
        self, roots: Sequence["x509.Certificate"], intermediates: Sequence["x509.Certificate"], now: datetime.datetime
    ) -> None:
        self._roots = roots
        self._intermediates = intermediates
        self._now = now
        self._signatures = 0.0
        self._reason = "signed by unknown authority"

    def verification_error(self, leaf: "x509.Certificate") -> str | None:
        error = self._validity_error(leaf)
        if error is not None:
            return error
        if leaf in self._roots or self._has_path(leaf, [leaf]):
            return None
        return self._reason

    def _has_path(self, certificate: "x509.Certificate", path: list["x509.Certificate"]) -> bool:
        if any(self._issued(root, certificate, len(path)) for root in self._roots):
            return True
        if len(path) > _MAX_DEPTH:
            return False
        return any(
            intermediate not in path
            and _is_authority(intermediate)
            and self._issued(intermediate, certificate, len(path))
            and self._has_path(intermediate, [*path, intermediate])
            for intermediate in self._intermediates
        )

    def _issued(self, issuer: "x509.Certificate", certificate: "x509.Certificate", below: int) -> bool:
        """Whether the issuer has signed the certificate, and is a valid CA. ``below`` is the number of certificates
        below the issuer."""
        if issuer.subject != certificate.issuer or self._signatures >= _MAX_SIGNATURE_CHECKS:
            return False
        try:
            self._signatures += _cost(issuer)
            certificate.verify_directly_issued_by(issuer)
        except (exceptions.InvalidSignature, ValueError, TypeError, exceptions.UnsupportedAlgorithm):
            return False
        error = self._validity_error(issuer) or _ca_error(issuer, below)
        if error is not None:
            self._reason = f"its CA can't be used: {error}"
        return error is None

    def _validity_error(self, certificate: "x509.Certificate") -> str | None:
        if self._now < certificate.not_valid_before_utc:
            return f"not valid before {certificate.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}"
        if self._now > certificate.not_valid_after_utc:
            return f"expired at {certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
        for extension in certificate.extensions:
            value = extension.value
            if isinstance(value, x509.ExtendedKeyUsage):
                if not {oid.ExtendedKeyUsageOID.CLIENT_AUTH, oid.ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE} & set(
                    value
                ):
                    return "not meant for clients (extended key usage)"
            elif extension.critical and not isinstance(
                value, x509.BasicConstraints | x509.KeyUsage | x509.SubjectAlternativeName
            ):
                return f"unhandled critical extension {extension.oid.dotted_string}"
        return None


def _cost(issuer: "x509.Certificate") -> float:
    """The cost of verifying a signature with the certificate's key, 1 for usual ones."""
    key = issuer.public_key()
    if not isinstance(key, rsa.RSAPublicKey):
        return 1.0
    exponent_bits = key.public_numbers().e.bit_length()
    return max(1.0, (key.key_size / _USUAL_BITS) ** 2 * exponent_bits / _USUAL_EXPONENT_BITS)


def _key_size_error(certificate: "x509.Certificate") -> str | None:
    """Why signatures with the certificate's key are not verified, or None."""
    try:
        key = certificate.public_key()
    except (ValueError, exceptions.UnsupportedAlgorithm):
        return None  # no signature with such a key is supported
    if not isinstance(key, rsa.RSAPublicKey):
        return None
    if key.key_size > _MAX_RSA_KEY_SIZE:
        return f"it has an RSA key larger than {_MAX_RSA_KEY_SIZE} bits"
    if key.public_numbers().e > _MAX_RSA_EXPONENT:
        return "it has an RSA key whose public exponent is too large"
    return None


def _is_authority(certificate: "x509.Certificate") -> bool:
    constraints = _constraints(certificate)
    return constraints is not None and constraints.ca


def _ca_error(issuer: "x509.Certificate", below: int) -> str | None:
    """Why the issuer must not sign certificates, or None. A root of X.509 version 1 has no extensions and may sign."""
    constraints = _constraints(issuer)
    if constraints is not None:
        if not constraints.ca:
            return "it is not a CA"
        # The client's certificate is not counted: with path length 0, ``below`` may be 1.
        if constraints.path_length is not None and below - 1 > constraints.path_length:
            return "too many intermediates"
    try:
        usage = issuer.extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return None
    return None if usage.key_cert_sign else "its key is not meant for signing certificates"


def _constraints(certificate: "x509.Certificate") -> "x509.BasicConstraints | None":
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return None
