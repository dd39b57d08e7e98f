"""NaCl's secretbox: XSalsa20 and Poly1305 (apiserver ``pkg/storage/value/encrypt/secretbox``, v0.36). Needs PyNaCl,
because cryptography lacks XSalsa20."""

from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from pilothouse.storage.encryption.transformer import Context, TransformError

KEY_SIZE = SecretBox.KEY_SIZE
_MIN_SIZE = SecretBox.NONCE_SIZE + SecretBox.MACBYTES


class Secretbox:
    """Encrypts and authenticates; the key in etcd is not authenticated. A random nonce of 24 bytes comes first."""

    def __init__(self, key: bytes) -> None:
        """``key`` has 32 bytes."""
        self._box = SecretBox(key)

    def from_storage(self, data: bytes, context: Context) -> tuple[bytes, bool]:
        """Decrypt. Raises ``TransformError``, with upstream's message, if the value was changed."""
        if len(data) < _MIN_SIZE:
            raise TransformError("the stored data was shorter than the required size")
        try:
            return self._box.decrypt(data), False
        except CryptoError:
            raise TransformError("output array was not large enough for encryption") from None

    def to_storage(self, data: bytes, context: Context) -> bytes:
        """Encrypt: nonce and ciphertext."""
        return bytes(self._box.encrypt(data))
