"""Tokens of service accounts: signed JWTs, made for a TokenRequest and taken as login.

Follows kubernetes' ``pkg/serviceaccount/jwt.go`` and ``claims.go`` (v1.36): RS256 or ES256, key ids from the public
key, claims that tie a token to an account and perhaps to a pod, secret or node.
"""

import base64
import datetime
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.apiserver.identity import Identity

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
    PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
else:
    # The library takes some 20 ms, and a server whose tokens nobody asks for does without it.
    PrivateKey = PublicKey = Any

_PREFIX = "authentication.kubernetes.io"
_LEGACY_ISSUER = "kubernetes/serviceaccount"
_LEGACY_CLAIMS = ("namespace", "secret.name", "service-account.name", "service-account.uid")
_DELETION_LEEWAY = 60
"""Seconds after the end of an object's grace period in which a token bound to it is still good
(kubernetes ``pkg/serviceaccount/claims.go``)."""
_encode = msgspec.json.Encoder().encode

FindObject = Callable[[str, str, str], Mapping[str, Any] | None]
"""The stored object of a core resource: (resource, namespace, name)."""


def new_key() -> PrivateKey:
    """A key for a server that was given none. EC keys are made in a millisecond, RSA keys are not."""
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def load_key(pem: bytes) -> PrivateKey:
    """A private key from PEM. Raises ``ValueError`` if it is neither RSA nor EC."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    key = serialization.load_pem_private_key(pem, password=None)
    if isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        return key
    raise ValueError("a service account key must be RSA or EC")


def load_public_key(pem: bytes) -> PublicKey:
    """A public key from PEM: a key, a certificate, or the private key it belongs to."""
    if b"PRIVATE KEY" in pem:
        return load_key(pem).public_key()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    key: object
    if b"BEGIN CERTIFICATE" in pem:
        from cryptography import x509

        key = x509.load_pem_x509_certificate(pem).public_key()
    else:
        key = serialization.load_pem_public_key(pem)
    if isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        return key
    raise ValueError("a service account key must be RSA or EC")


def key_id(key: PublicKey) -> str:
    """The ``kid`` of tokens that the key signed."""
    from cryptography.hazmat.primitives import serialization

    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return _base64(hashlib.sha256(der).digest())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unbase64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class ServiceAccountTokens:
    """Issues and accepts tokens of one issuer.

    ``now`` gives seconds since the epoch; ``find`` reads stored objects, so that a token dies with its account or with
    the object that it is bound to. The first of ``audiences`` is what tokens are made for unless asked otherwise.
    """

    def __init__(
        self,
        key: PrivateKey | None,
        *,
        issuer: str,
        audiences: Sequence[str] = (),
        public_keys: Sequence[PublicKey] = (),
        now: Callable[[], float],
        new_id: Callable[[], str],
        find: FindObject,
    ) -> None:
        self._given = key
        self._more_keys = tuple(public_keys)
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        self._now = now
        self._new_id = new_id
        self._find = find
        self._seen: dict[str, dict[str, Any]] = {}

    @cached_property
    def _key(self) -> PrivateKey:
        return self._given or new_key()

    @cached_property
    def _kid(self) -> str:
        return key_id(self._key.public_key())

    @cached_property
    def _algorithm(self) -> str:
        return _algorithm_of(self._key.public_key())

    @cached_property
    def _public(self) -> dict[str, PublicKey]:
        return {key_id(public): public for public in (self._key.public_key(), *self._more_keys)}

    def issue(
        self,
        account: Mapping[str, Any],
        *,
        audiences: Sequence[str],
        seconds: int,
        bound: tuple[str, Mapping[str, Any]] | None = None,
        node: Mapping[str, str] | None = None,
        warn_after: int | None = None,
    ) -> tuple[str, int]:
        """A token for the account (an object) and when it ends. ``bound`` is (pod, secret or node; the object);
        ``node`` name and uid of the node that a bound pod is on."""
        metadata = account["metadata"]
        namespace, name = metadata["namespace"], metadata["name"]
        now = int(self._now())
        private: dict[str, Any] = {
            "namespace": namespace,
            "serviceaccount": {"name": name, "uid": metadata["uid"]},
        }
        if bound is not None:
            kind, obj = bound
            private[kind] = {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}
        if node is not None:
            private["node"] = dict(node)
        if warn_after is not None:
            private["warnafter"] = now + warn_after
        claims = {
            "aud": list(audiences or self.audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": self._new_id(),
            "kubernetes.io": private,
            "nbf": now,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        head = _base64(_encode({"alg": self._algorithm, "kid": self._kid}))
        signed = f"{head}.{_base64(_encode(claims))}"
        return f"{signed}.{_base64(_sign(self._key, signed.encode()))}", now + seconds

    def identity(self, token: str) -> Identity | None:
        """The service account that holds the token, or None."""
        return self.identity_for(token, self.audiences)

    def identity_for(self, token: str, audiences: Sequence[str]) -> Identity | None:
        """The same, for a token that must be meant for one of these audiences."""
        claims = self._claims(token)
        if claims is None:
            return None
        if claims.get("iss") == _LEGACY_ISSUER:
            return self._legacy_identity(token, claims, audiences)
        if claims.get("iss") != self.issuer:
            return None
        now = self._now()
        if now >= claims.get("exp", 0) or now < claims.get("nbf", 0):
            return None
        if not set(claims.get("aud") or ()) & set(audiences):
            return None
        private = claims.get("kubernetes.io") or {}
        namespace, account = private.get("namespace", ""), private.get("serviceaccount") or {}
        stored = self._find("serviceaccounts", namespace, account.get("name", ""))
        if not self._is_same(stored, account):
            return None
        extra: dict[str, tuple[str, ...]] = {f"{_PREFIX}/credential-id": (f"JTI={claims.get('jti', '')}",)}
        for kind, resource in (("pod", "pods"), ("secret", "secrets"), ("node", "nodes")):
            bound = private.get(kind)
            if bound is None:
                continue
            if kind != "node" or not private.get("pod"):
                found = self._find(resource, "" if kind == "node" else namespace, bound.get("name", ""))
                if not self._is_same(found, bound):
                    return None
            if kind != "secret":
                for field in ("name", "uid"):
                    if bound.get(field):
                        extra[f"{_PREFIX}/{kind}-{field}"] = (bound[field],)
        name = account["name"]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return Identity(f"system:serviceaccount:{namespace}:{name}", groups, account.get("uid", ""), extra)

    def meant_for(self, token: str) -> Sequence[str]:
        """The audiences of a token that is accepted; those of the API server if it names none."""
        claims = self._claims(token) or {}
        named: Sequence[str] = claims.get("aud") or self.audiences
        return named

    def _legacy_identity(self, token: str, claims: Mapping[str, Any], audiences: Sequence[str]) -> Identity | None:
        """The account of a token that stands in a Secret, for as long as it stands there. Such tokens have no audience
        but the API server, and no end."""
        if not set(self.audiences) & set(audiences):
            return None
        told = {field: claims.get(f"{_LEGACY_ISSUER}/{field}", "") for field in _LEGACY_CLAIMS}
        namespace, name = told["namespace"], told["service-account.name"]
        if claims.get("sub") != f"system:serviceaccount:{namespace}:{name}":
            return None
        account = {"uid": told["service-account.uid"]}
        if not self._is_same(self._find("serviceaccounts", namespace, name), account):
            return None
        secret = self._find("secrets", namespace, told["secret.name"])
        kept = base64.b64encode(token.encode()).decode()
        if (
            secret is None
            or secret["metadata"].get("deletionTimestamp")
            or (secret.get("data") or {}).get("token") != kept
        ):
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return Identity(f"system:serviceaccount:{namespace}:{name}", groups, account["uid"])

    def _is_same(self, stored: Mapping[str, Any] | None, claimed: Mapping[str, Any]) -> bool:
        """Whether the object is there, is the one that was meant, and is not gone but for the formalities."""
        if stored is None or stored["metadata"].get("uid") != claimed.get("uid"):
            return False
        deleted_at = stored["metadata"].get("deletionTimestamp")
        if not deleted_at:
            return True
        return self._now() < datetime.datetime.fromisoformat(deleted_at).timestamp() + _DELETION_LEEWAY

    def _claims(self, token: str) -> dict[str, Any] | None:
        """The claims of a token that one of our keys signed. Signatures are checked once per token."""
        known = self._seen.get(token)
        if known is not None:
            return known
        parts = token.split(".")
        if len(parts) != 3:
            return None
        try:
            head = msgspec.json.decode(_unbase64(parts[0]), type=dict[str, Any])
            signed, signature = f"{parts[0]}.{parts[1]}".encode(), _unbase64(parts[2])
            if not any(_verify(key, head, signed, signature) for key in self._candidates(head)):
                return None
            claims = msgspec.json.decode(_unbase64(parts[1]), type=dict[str, Any])
        except (ValueError, msgspec.DecodeError):
            return None
        if len(self._seen) > 4096:
            self._seen.clear()
        self._seen[token] = claims
        return claims

    def _candidates(self, head: Mapping[str, Any]) -> Iterable[PublicKey]:
        """The key that the token names; all of them if it names none that is known."""
        named = self._public.get(head.get("kid") or "")
        return self._public.values() if named is None else (named,)

    def discovery(self, address: str) -> dict[str, Any]:
        """``/.well-known/openid-configuration``."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"https://{address}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [self._algorithm],
        }

    def key_set(self) -> dict[str, Any]:
        """``/openid/v1/jwks``."""
        return {"keys": [_jwk(kid, key) for kid, key in self._public.items()]}


def _algorithm_of(key: PublicKey) -> str:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return "RS256" if isinstance(key, rsa.RSAPublicKey) else "ES256"


def _sign(key: PrivateKey, data: bytes) -> bytes:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(data, padding.PKCS1v15(), hashes.SHA256())
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def _verify(key: PublicKey, head: Mapping[str, Any], data: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    # The algorithm is the key's, never the token's: what the token says must only agree.
    if head.get("alg") != _algorithm_of(key):
        return False
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, data, padding.PKCS1v15(), hashes.SHA256())
        else:
            r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
            key.verify(encode_dss_signature(r, s), data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


def _jwk(kid: str, key: PublicKey) -> dict[str, str]:
    from cryptography.hazmat.primitives.asymmetric import rsa

    if isinstance(key, rsa.RSAPublicKey):
        numbers = key.public_numbers()
        size = (numbers.n.bit_length() + 7) // 8
        return {
            "use": "sig",
            "kty": "RSA",
            "kid": kid,
            "alg": "RS256",
            "n": _base64(numbers.n.to_bytes(size, "big")),
            "e": _base64(numbers.e.to_bytes(3, "big").lstrip(b"\x00")),
        }
    point = key.public_numbers()
    return {
        "use": "sig",
        "kty": "EC",
        "kid": kid,
        "crv": "P-256",
        "alg": "ES256",
        "x": _base64(point.x.to_bytes(32, "big")),
        "y": _base64(point.y.to_bytes(32, "big")),
    }
