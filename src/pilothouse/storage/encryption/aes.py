"""AES in CBC and GCM, and GCM with a derived key per value.

After apiserver's ``pkg/storage/value/encrypt/aes`` (v0.36), byte by byte. Upstream caches derived keys for ten minutes,
because it decrypts an object with each read. Here a value is decrypted once, when etcd reports it.
"""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from pilothouse.storage.encryption.transformer import Context, TransformError

KEY_SIZES = (16, 24, 32)
SEED_SIZE = 32
_BLOCK = 16
_NONCE, _INFO, _DERIVED_KEY = 12, 32, 32
_TOO_SHORT = "the stored data was shorter than the required size"


def _check_key(key: bytes) -> None:
    if len(key) not in KEY_SIZES:
        raise TransformError(f"crypto/aes: invalid key size {len(key)}")


class Gcm:
    """AES-GCM with random nonces before the value. A key may be used for 2^32 writes, and must be rotated."""

    def __init__(self, key: bytes) -> None:
        """Raises ``TransformError`` unless the key has 16, 24 or 32 bytes."""
        _check_key(key)
        self._aead = AESGCM(key)

    def from_storage(self, data: bytes, context: Context) -> tuple[bytes, bool]:
        """Decrypt. Raises ``TransformError`` if the value was changed, or stored under another key in etcd."""
        if len(data) < _NONCE:
            raise TransformError(_TOO_SHORT)
        try:
            return self._aead.decrypt(data[:_NONCE], data[_NONCE:], context.authenticated_data), False
        except InvalidTag:
            raise TransformError("cipher: message authentication failed") from None

    def to_storage(self, data: bytes, context: Context) -> bytes:
        """Encrypt: nonce and ciphertext."""
        nonce = os.urandom(_NONCE)
        return nonce + self._aead.encrypt(nonce, data, context.authenticated_data)


class Cbc:
    """AES-CBC with PKCS#7 padding. Modifications are not detected; upstream advises against it."""

    def __init__(self, key: bytes) -> None:
        """Raises ``TransformError`` unless the key has 16, 24 or 32 bytes."""
        _check_key(key)
        self._key = key

    def from_storage(self, data: bytes, context: Context) -> tuple[bytes, bool]:
        """Decrypt. Raises ``TransformError``."""
        if len(data) < _BLOCK:
            raise TransformError(_TOO_SHORT)
        if len(data) % _BLOCK:
            raise TransformError("the stored data is not a multiple of the block size")
        if len(data) == _BLOCK:  # Go panics
            raise TransformError("invalid PKCS7 data (empty or not padded)")
        decryptor = self._cipher(data[:_BLOCK]).decryptor()
        padded = decryptor.update(data[_BLOCK:]) + decryptor.finalize()
        size = padded[-1]
        if size == 0 or size > len(padded):
            raise TransformError("invalid PKCS7 data (empty or not padded)")
        if padded[-size:] != bytes([size]) * size:
            raise TransformError("invalid padding on input")
        return padded[:-size], False

    def to_storage(self, data: bytes, context: Context) -> bytes:
        """Encrypt: initialization vector and ciphertext."""
        vector = os.urandom(_BLOCK)
        size = _BLOCK - len(data) % _BLOCK
        encryptor = self._cipher(vector).encryptor()
        return vector + encryptor.update(data + bytes([size]) * size) + encryptor.finalize()

    def _cipher(self, vector: bytes) -> Cipher[modes.CBC]:
        return Cipher(algorithms.AES(self._key), modes.CBC(vector))


class ExtendedNonceGcm:
    """AES-GCM with a key per value, derived from a seed and 32 random bytes before the value (HKDF-Expand with
    SHA-256). So one seed may be used for any number of writes."""

    def __init__(self, seed: bytes) -> None:
        """Raises ``TransformError`` for fewer than 32 bytes."""
        if len(seed) < SEED_SIZE:
            raise TransformError(f"invalid seed length {len(seed)} used for key generation")
        self._seed = seed

    def from_storage(self, data: bytes, context: Context) -> tuple[bytes, bool]:
        """Decrypt. Raises ``TransformError``."""
        if len(data) < _INFO:
            raise TransformError(_TOO_SHORT)
        return self._derived(data[:_INFO]).from_storage(data[_INFO:], context)

    def to_storage(self, data: bytes, context: Context) -> bytes:
        """Encrypt: the random bytes, a nonce, and the ciphertext."""
        info = os.urandom(_INFO)
        return info + self._derived(info).to_storage(data, context)

    def _derived(self, info: bytes) -> Gcm:
        return Gcm(HKDFExpand(algorithm=SHA256(), length=_DERIVED_KEY, info=info).derive(self._seed))
