"""The key with which values are encrypted now, and validation of the plugin's responses and of stored objects
(apiserver ``…/envelope/kmsv2/envelope.go``, v0.36)."""

import datetime
import hashlib
from collections.abc import Mapping

import msgspec

from pilothouse.machinery.go_text import quote
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors
from pilothouse.machinery.times import format_time
from pilothouse.storage.encryption.aes import ExtendedNonceGcm
from pilothouse.storage.encryption.kmsv2.messages import AES_GCM_KEY, HKDF_SHA256_XNONCE_AES_GCM_SEED
from pilothouse.storage.encryption.kmsv2.plugin import Encrypted
from pilothouse.storage.encryption.metrics import hash_of
from pilothouse.storage.encryption.transformer import TransformError

_MAX_ANNOTATIONS = 32 * 1024
_MAX_KEY_ID = 1024
_MAX_SOURCE = 1024


class State(msgspec.Struct, frozen=True):
    """A seed, and its encrypted form. Valid for reads as long as there is no other; for writes until it expires, unless
    the plugin continues to report the same key ID."""

    transformer: ExtendedNonceGcm
    source: Encrypted
    source_type: int
    uid: str
    expires_at: datetime.datetime
    cache_key: bytes

    def check_writable(self, now: datetime.datetime) -> None:
        """Raises ``TransformError`` after the expiration."""
        if now > self.expires_at:
            raise TransformError(
                f"encryptedDEKSource with keyID hash {quote(hash_of(self.source.key_id))} expired at "
                f"{format_time(self.expires_at)} (current time is {format_time(now)})"
            )


class InvalidKeyId(ValueError):
    """An invalid key ID; ``code`` is the label of metrics."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def check_key_id(key_id: str) -> None:
    """Raises ``InvalidKeyId``."""
    if not key_id:
        raise InvalidKeyId("empty", "keyID is empty")
    size = len(key_id.encode())
    if size > _MAX_KEY_ID:
        raise InvalidKeyId("too_long", f"keyID is {size} bytes, which exceeds the max size of {_MAX_KEY_ID}")


def check_source(source: Encrypted, source_type: int) -> None:
    """The plugin's response for a seed, or the stored form of it. Raises ``TransformError``."""
    if source_type not in (AES_GCM_KEY, HKDF_SHA256_XNONCE_AES_GCM_SEED):
        raise TransformError(f"unknown encryptedDEKSourceType: {source_type}")
    size = len(source.ciphertext)
    if not size:
        raise TransformError("failed to validate encrypted DEK source: encrypted DEK source is empty")
    if size > _MAX_SOURCE:
        raise TransformError(
            f"failed to validate encrypted DEK source: encrypted DEK source is {size} bytes, which exceeds the max "
            f"size of {_MAX_SOURCE}"
        )
    try:
        check_key_id(source.key_id)
    except InvalidKeyId as error:
        raise TransformError(f"failed to validate key id: {error}") from None
    errors = _annotation_errors(source.annotations)
    if errors:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        raise TransformError(f"failed to validate annotations: {text}")


def _annotation_errors(annotations: Mapping[str, bytes]) -> list[str]:
    errors = []
    for name in annotations:
        errors += _domain_errors(name)
    total = sum(len(name.encode()) + len(value) for name, value in annotations.items())
    if total > _MAX_ANNOTATIONS:
        errors.append(f"total size of annotations is {total}, which exceeds the max size of {_MAX_ANNOTATIONS}")
    return list(dict.fromkeys(errors))


def _domain_errors(name: str) -> list[str]:
    """``IsFullyQualifiedDomainName`` (apimachinery ``pkg/util/validation/validation.go``, v0.36)."""
    if not name:
        return ["annotations: Required value"]
    name = name.removesuffix(".")
    if reasons := dns_subdomain_errors(name):
        return [f"annotations: Invalid value: {quote(name)}: {','.join(reasons)}"]
    labels = name.split(".")
    if len(labels) < 2:
        return [
            f"annotations: Invalid value: {quote(name)}: should be a domain with at least two segments separated by "
            "dots"
        ]
    return [
        f"annotations: Invalid value: {quote(label)}: {','.join(reasons)}"
        for label in labels
        if (reasons := dns_label_errors(label))
    ]


def cache_key(source: Encrypted, source_type: int) -> bytes:
    """The key of the cache for an encrypted key: a hash of everything that the plugin needs to decrypt it."""
    digest = hashlib.sha256()
    parts = [source_type.to_bytes(4, "big"), source.ciphertext, source.key_id.encode()]
    for name in sorted(source.annotations):
        parts += [name.encode(), source.annotations[name]]
    for part in parts:
        digest.update(len(part).to_bytes(4, "big"))
        digest.update(part)
    return digest.digest()
