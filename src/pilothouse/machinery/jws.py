"""JWS (RFC 7515) and JWK (RFC 7517), as far as Kubernetes uses them: service account tokens, and detached signatures.

The cryptography is a library's; this module selects the algorithm for a key and assembles the parts. After kubernetes'
``pkg/serviceaccount/jwt.go``, client-go's ``util/keyutil`` and cluster-bootstrap's ``token/jws`` (v1.36). The API
server signs and verifies with it, controllers sign with it.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from cryptography import exceptions, x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

if TYPE_CHECKING:
    PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
else:
    # The library takes some 20 ms to load, which programs that do not sign save.
    PrivateKey = PublicKey = Any

_encode = msgspec.json.Encoder().encode
_PRIVATE = re.compile(rb"-----BEGIN ((?:RSA |EC )?PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)
_CURVES = {
    "secp256r1": ("ES256", "P-256", 32),
    "secp384r1": ("ES384", "P-384", 48),
    "secp521r1": ("ES512", "P-521", 66),
}
"""Algorithm, the curve's other name, and the size in bytes of each of the two numbers of a signature."""


def to_base64url(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """Decode ``to_base64url``. Raises ``ValueError`` for any other form: the encoding of given bytes is unique."""
    data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if to_base64url(data) != text:
        raise ValueError("not base64url in its one form without padding")
    return data


# Keys


def new_key() -> PrivateKey:
    """Generate a key. EC keys take a millisecond, RSA keys far longer."""
    return ec.generate_private_key(ec.SECP256R1())


def load_key(pem: bytes) -> PrivateKey:
    """The first private key of a PEM text: PKCS#1, SEC 1 or PKCS#8; curve parameters and certificates before it are
    skipped. Raises ``ValueError``, without any part of the key, if there is none, or none that can sign tokens (RSA; EC
    on one of three curves)."""
    block = _PRIVATE.search(pem)
    if block is None:
        raise ValueError("data does not contain a valid RSA or ECDSA private key")
    try:
        key = serialization.load_pem_private_key(block.group(), password=None)
    except (TypeError, ValueError, exceptions.UnsupportedAlgorithm):
        # The library's error may contain a part of the input.
        raise ValueError("data does not contain a valid RSA or ECDSA private key") from None
    if isinstance(key, rsa.RSAPrivateKey):
        return key
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _CURVES:
        return key
    raise ValueError("a key that signs tokens must be RSA, or EC with curve P-256, P-384 or P-521")


def load_public_key(pem: bytes) -> PublicKey:
    """A public key from PEM: a key, a certificate, or the corresponding private key. Raises ``ValueError``."""
    if b"PRIVATE KEY" in pem:
        return load_key(pem).public_key()
    key: object
    if b"BEGIN CERTIFICATE" in pem:
        key = x509.load_pem_x509_certificate(pem).public_key()
    else:
        key = serialization.load_pem_public_key(pem)
    if isinstance(key, rsa.RSAPublicKey) or (isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES):
        return key
    raise ValueError("a key that signs tokens must be RSA, or EC with curve P-256, P-384 or P-521")


def key_id(key: PublicKey) -> str:
    """The ``kid`` of tokens signed by the key: a hash of the key."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return to_base64url(hashlib.sha256(der).digest())


def algorithm_of(key: PublicKey) -> str:
    """RS256, or the algorithm of the key's curve."""
    return "RS256" if isinstance(key, rsa.RSAPublicKey) else _CURVES[key.curve.name][0]


def jwk(kid: str, key: PublicKey) -> dict[str, str]:
    """The key in the form of a JSON Web Key Set."""
    head = {"use": "sig", "kty": "RSA" if isinstance(key, rsa.RSAPublicKey) else "EC", "kid": kid}
    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        size = (numbers.n.bit_length() + 7) // 8
        return {
            **head,
            "alg": "RS256",
            "n": to_base64url(numbers.n.to_bytes(size, "big")),
            "e": to_base64url(numbers.e.to_bytes(3, "big").lstrip(b"\x00")),
        }
    algorithm, curve, size = _CURVES[key.curve.name]
    point = key.public_numbers()
    return {
        **head,
        "crv": curve,
        "alg": algorithm,
        "x": to_base64url(point.x.to_bytes(size, "big")),
        "y": to_base64url(point.y.to_bytes(size, "big")),
    }


# Signatures


class Signer:
    """Signs claims with one key. Its ``repr`` does not contain the key."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        public = key.public_key()
        self.algorithm = algorithm_of(public)
        self.kid = key_id(public)

    def __repr__(self) -> str:
        return f"Signer({self.algorithm}, kid={self.kid!r})"

    @property
    def pem(self) -> bytes:
        """The private key, PKCS#8."""
        return self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def sign(self, claims: Mapping[str, Any]) -> str:
        """The JSON Web Token with these claims, in their order."""
        head = to_base64url(_encode({"alg": self.algorithm, "kid": self.kid}))
        signed = f"{head}.{to_base64url(_encode(claims))}"
        return f"{signed}.{to_base64url(_sign(self._key, signed.encode()))}"


def _hash_of(algorithm: str) -> "hashes.HashAlgorithm":
    return {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}[algorithm[2:]]


def _sign(key: PrivateKey, data: bytes) -> bytes:
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(data, padding.PKCS1v15(), _hash_of("RS256"))
    algorithm, _curve, size = _CURVES[key.curve.name]
    r, s = utils.decode_dss_signature(key.sign(data, ec.ECDSA(_hash_of(algorithm))))
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def verify(key: PublicKey, head: Mapping[str, Any], data: bytes, signature: bytes) -> bool:
    """Whether the signature is valid."""
    # The algorithm is that of the key; the token's header must agree with it.
    algorithm = algorithm_of(key)
    if head.get("alg") != algorithm:
        return False
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, data, padding.PKCS1v15(), _hash_of(algorithm))
            return True
        size = _CURVES[key.curve.name][2]
        if len(signature) != 2 * size:
            return False
        r, s = int.from_bytes(signature[:size], "big"), int.from_bytes(signature[size:], "big")
        key.verify(utils.encode_dss_signature(r, s), data, ec.ECDSA(_hash_of(algorithm)))
    except exceptions.InvalidSignature:
        return False
    return True


def detached_hs256(content: str, kid: str, secret: bytes) -> str:
    """The HMAC of ``content`` with a shared secret, as JWS with detached content (RFC 7515, appendix F)."""
    head = to_base64url(_encode({"alg": "HS256", "kid": kid}))
    signed = f"{head}.{to_base64url(content.encode())}".encode()
    return f"{head}..{to_base64url(hmac.new(secret, signed, hashlib.sha256).digest())}"
