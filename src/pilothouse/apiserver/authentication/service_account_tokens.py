"""Signs and authenticates service account tokens (JWTs).

Follows kubernetes' ``pkg/serviceaccount/jwt.go``, ``claims.go`` and ``legacy.go`` (v1.36): claims bind a token to an
account and optionally to a Pod, Secret or Node. Keys and signatures are in ``machinery.jws``.
"""

import base64
import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from pilothouse.apiserver.audit.context import add_audit_annotation
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.machinery.jws import (
    PrivateKey,
    PublicKey,
    Signer,
    algorithm_of,
    from_base64url,
    jwk,
    key_id,
    new_key,
    verify,
)
from pilothouse.semantics.service_accounts import INVALID_SINCE, LEGACY_CLAIMS, LEGACY_ISSUER, user_name

_PREFIX = "authentication.kubernetes.io"
_DELETION_LEEWAY = 60
"""Seconds after the end of an object's grace period during which a token bound to it is still valid (kubernetes
``pkg/serviceaccount/claims.go``)."""

_MAX_CACHED_TOKENS = 4096
_MAX_CACHED_TOKEN_LENGTH = 4096
"""How many verified tokens are cached, and the maximum length of each in characters."""


class _Head(msgspec.Struct, frozen=True):
    alg: str = ""
    kid: str = ""


class _Reference(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Private(msgspec.Struct, frozen=True):
    namespace: str = ""
    serviceaccount: _Reference = _Reference()
    pod: _Reference | None = None
    secret: _Reference | None = None
    node: _Reference | None = None


class _Claims(msgspec.Struct, frozen=True):
    """The claims of a token, bound or legacy."""

    iss: str = ""
    sub: str = ""
    aud: str | tuple[str, ...] = ()
    exp: int | float = 0
    nbf: int | float = 0
    jti: str = ""
    private: _Private = msgspec.field(default=_Private(), name="kubernetes.io")
    legacy_namespace: str = msgspec.field(default="", name=f"{LEGACY_CLAIMS}/namespace")
    legacy_secret: str = msgspec.field(default="", name=f"{LEGACY_CLAIMS}/secret.name")
    legacy_account: str = msgspec.field(default="", name=f"{LEGACY_CLAIMS}/service-account.name")
    legacy_account_uid: str = msgspec.field(default="", name=f"{LEGACY_CLAIMS}/service-account.uid")

    @property
    def audiences(self) -> tuple[str, ...]:
        """The audiences of the token."""
        return (self.aud,) if isinstance(self.aud, str) else self.aud


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_claims = msgspec.json.Decoder(_Claims).decode

FindObject = Callable[[str, str, str], Mapping[str, Any] | None]
"""The stored object of a core resource: (resource, namespace, name)."""


class ServiceAccountTokens:
    """Issues and authenticates the tokens of one issuer.

    ``now`` returns seconds since the epoch; ``find`` reads stored objects: a token is invalid after its account, or the
    object that it is bound to, is deleted; ``used`` is called for the Secret of a used token. The first of
    ``audiences`` is the default audience of issued tokens.
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
        used: Callable[[Mapping[str, Any]], object] = lambda _secret: None,
    ) -> None:
        self._signing_key = key
        self._additional_public_keys = tuple(public_keys)
        self.issuer = issuer
        self.audiences = tuple(audiences) or (issuer,)
        self._now = now
        self._new_id = new_id
        self._find = find
        self._on_secret_use = used
        self._cached_claims: dict[str, _Claims] = {}

    @cached_property
    def _key(self) -> PrivateKey:
        return self._signing_key or new_key()

    @cached_property
    def signer(self) -> Signer:
        """The key that signs tokens."""
        return Signer(self._key)

    @cached_property
    def _public(self) -> dict[str, PublicKey]:
        return {key_id(public): public for public in (self._key.public_key(), *self._additional_public_keys)}

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
        """A token for the account (an object), and its expiration. ``bound`` is (pod, secret or node; the object);
        ``node`` is name and uid of the node of a bound pod."""
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
        token_id = self._new_id()
        add_audit_annotation(f"{_PREFIX}/issued-credential-id", f"JTI={token_id}")
        claims = {
            "aud": list(audiences or self.audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": token_id,
            "kubernetes.io": private,
            "nbf": now,
            "sub": user_name(namespace, name),
        }
        return self.signer.sign(claims), now + seconds

    def identity(self, token: str) -> Identity | None:
        """The service account of the token, or None."""
        return self.identity_for(token, self.audiences)

    def identity_for(self, token: str, audiences: Sequence[str]) -> Identity | None:
        """As ``identity``, for a token with at least one of these audiences."""
        claims = self._claims(token)
        if claims is None:
            return None
        if claims.iss == LEGACY_ISSUER:
            return self._legacy_identity(token, claims, audiences)
        if claims.iss != self.issuer:
            return None
        now = self._now()
        if now >= claims.exp or now < claims.nbf:
            return None
        if not set(claims.audiences) & set(audiences):
            return None
        private = claims.private
        namespace, account = private.namespace, private.serviceaccount
        stored = self._find("serviceaccounts", namespace, account.name)
        if not self._exists_with_uid(stored, account.uid):
            return None
        extra: dict[str, tuple[str, ...]] = {f"{_PREFIX}/credential-id": (f"JTI={claims.jti}",)}
        for kind, resource, bound in (
            ("pod", "pods", private.pod),
            ("secret", "secrets", private.secret),
            ("node", "nodes", private.node),
        ):
            if bound is None:
                continue
            if kind != "node" or private.pod is None:
                bound_object = self._find(resource, "" if kind == "node" else namespace, bound.name)
                if not self._exists_with_uid(bound_object, bound.uid):
                    return None
            if kind != "secret":
                for field, value in (("name", bound.name), ("uid", bound.uid)):
                    if value:
                        extra[f"{_PREFIX}/{kind}-{field}"] = (value,)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return Identity(user_name(namespace, account.name), groups, account.uid, extra)

    def audiences_of(self, token: str) -> Sequence[str]:
        """The audiences of a valid token; those of the API server if it has none."""
        claims = self._claims(token)
        return (claims.audiences if claims is not None else ()) or self.audiences

    def _legacy_identity(self, token: str, claims: _Claims, audiences: Sequence[str]) -> Identity | None:
        """The account of a legacy token, as long as its Secret exists. Such tokens have no audience but the API
        server's, and do not expire."""
        if not set(self.audiences) & set(audiences):
            return None
        namespace, name, uid = claims.legacy_namespace, claims.legacy_account, claims.legacy_account_uid
        if claims.sub != user_name(namespace, name):
            return None
        if not self._exists_with_uid(self._find("serviceaccounts", namespace, name), uid):
            return None
        secret = self._find("secrets", namespace, claims.legacy_secret)
        encoded_token = base64.b64encode(token.encode()).decode()
        if (
            secret is None
            or secret["metadata"].get("deletionTimestamp")
            or (secret["metadata"].get("labels") or {}).get(INVALID_SINCE)
            or (secret.get("data") or {}).get("token") != encoded_token
        ):
            return None
        self._on_secret_use(secret)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        return Identity(user_name(namespace, name), groups, uid)

    def _exists_with_uid(self, stored: Mapping[str, Any] | None, uid: str) -> bool:
        """Whether the object exists with this UID, and is not deleted beyond its grace period."""
        if stored is None or stored["metadata"].get("uid") != uid:
            return False
        deleted_at = stored["metadata"].get("deletionTimestamp")
        if not deleted_at:
            return True
        return self._now() < datetime.datetime.fromisoformat(deleted_at).timestamp() + _DELETION_LEEWAY

    def _claims(self, token: str) -> _Claims | None:
        """The claims of a token that was signed with one of our keys. Each signature is verified once."""
        cached = self._cached_claims.get(token)
        if cached is not None:
            return cached
        segments = token.split(".", 3)
        if len(segments) != 3:
            return None
        try:
            head = _decode_head(from_base64url(segments[0]))
            signed, signature = f"{segments[0]}.{segments[1]}".encode(), from_base64url(segments[2])
            if not any(verify(key, {"alg": head.alg}, signed, signature) for key in self._candidates(head)):
                return None
            claims = _decode_claims(from_base64url(segments[1]))
        # Msgspec's errors are ``ValueError``s; deep nesting raises ``RecursionError``.
        except (ValueError, RecursionError):
            return None
        if len(token) <= _MAX_CACHED_TOKEN_LENGTH:
            if len(self._cached_claims) >= _MAX_CACHED_TOKENS:
                self._cached_claims.clear()
            self._cached_claims[token] = claims
        return claims

    def _candidates(self, head: _Head) -> Iterable[PublicKey]:
        """The key with the token's key ID; all keys if that is unknown."""
        key = self._public.get(head.kid)
        return self._public.values() if key is None else (key,)

    def discovery(self, address: str) -> dict[str, Any]:
        """``/.well-known/openid-configuration``."""
        return {
            "issuer": self.issuer,
            "jwks_uri": f"https://{address}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [algorithm_of(self._key.public_key())],
        }

    def key_set(self) -> dict[str, Any]:
        """``/openid/v1/jwks``."""
        return {"keys": [jwk(kid, key) for kid, key in self._public.items()]}
