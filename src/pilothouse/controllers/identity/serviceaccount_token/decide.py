"""The missing fields of a token Secret. Pure. Upstream: v1.36
``pkg/controller/serviceaccount/tokens_controller.go``."""

from collections.abc import Iterable

import msgspec

from pilothouse.api.core import Secret, SecretReference, ServiceAccount
from pilothouse.api.meta import ObjectMeta
from pilothouse.machinery.jws import Signer
from pilothouse.machinery.splice import replace_fields, take_field
from pilothouse.semantics.service_accounts import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    AUTHORITY_KEY,
    NAMESPACE_KEY,
    TOKEN_KEY,
    belongs_to,
    legacy_claims,
)

_json = msgspec.json.Encoder().encode
_references = msgspec.json.Decoder(list[msgspec.Raw])
_reference = msgspec.json.Decoder(SecretReference)


def missing_keys(secret: Secret, authority: bytes) -> frozenset[str]:
    """The keys that must be written. An unknown CA is not compared; any namespace and token will do."""
    missing = {key for key in (NAMESPACE_KEY, TOKEN_KEY) if not secret.data.get(key)}
    if authority and secret.data.get(AUTHORITY_KEY) != authority:
        missing.add(AUTHORITY_KEY)
    return frozenset(missing)


def with_token(
    raw: bytes | msgspec.Raw, secret: Secret, account: ObjectMeta, authority: bytes, signer: Signer
) -> bytes:
    """The Secret, ``raw`` as it was read, with the missing keys."""
    missing = missing_keys(secret, authority)
    data = dict(secret.data)
    if AUTHORITY_KEY in missing:
        data[AUTHORITY_KEY] = authority
    if NAMESPACE_KEY in missing:
        data[NAMESPACE_KEY] = secret.metadata.namespace.encode()
    if TOKEN_KEY in missing:
        data[TOKEN_KEY] = signer.sign(legacy_claims(account, secret.metadata.name)).encode()
    annotations = {**secret.metadata.annotations, ACCOUNT_NAME: account.name, ACCOUNT_UID: account.uid}
    return replace_fields(raw, {"data": _json(data), "metadata.annotations": _json(annotations)})


def is_referenced_account(account: ServiceAccount | None, uid: str) -> bool:
    """Whether the account exists and has that uid, if one is given."""
    return account is not None and uid in ("", account.metadata.uid)


def list_token_secrets(namespace: str, name: str, uid: str, secrets: Iterable[Secret]) -> list[Secret]:
    """The token Secrets of that account."""
    return [secret for secret in secrets if belongs_to(secret, namespace, name, uid)]


def without_reference(raw: bytes | msgspec.Raw, secret: str) -> bytes | None:
    """The account, with JSON ``raw``, without references to that Secret; None if there are none."""
    listed = take_field(raw, "secrets")
    if listed is None:
        return None
    old = _references.decode(listed)
    new = [reference for reference in old if _reference.decode(reference).name != secret]
    if len(new) == len(old):
        return None
    return replace_fields(raw, {"secrets": _json(new) if new else None})
