"""The provider that does not encrypt, and rejects values that another one has encrypted (apiserver
``pkg/storage/value/encrypt/identity``, v0.36)."""

from pilothouse.storage.encryption.transformer import Context, TransformError

ENCRYPTED = b"k8s:enc:"
"""The prefix of encrypted values; JSON and Kubernetes' protobuf messages never have it."""


class Identity:
    """Returns values unchanged."""

    def from_storage(self, data: bytes, context: Context) -> tuple[bytes, bool]:
        """The value. Raises ``TransformError`` if it is encrypted."""
        return plain(data), False

    def to_storage(self, data: bytes, context: Context) -> bytes:
        """The value."""
        return data


def plain(data: bytes) -> bytes:
    """A value that is not encrypted. Raises ``TransformError`` if it is."""
    if data.startswith(ENCRYPTED):
        raise TransformError("identity transformer tried to read encrypted data")
    return data
