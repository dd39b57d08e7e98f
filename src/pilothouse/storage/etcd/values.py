"""Converts between values of the store and those in etcd: encryption at rest, and the codec.

A value that cannot be read is not omitted: it is kept as a value with the reason (``storage.unreadable``), until it can
be read.
"""

from typing import TYPE_CHECKING, Any

from pilothouse.env import Log
from pilothouse.storage.encryption.identity import plain
from pilothouse.storage.encryption.transformer import TransformError
from pilothouse.storage.etcd.codecs import Codec
from pilothouse.storage.unreadable import damaged_value, encrypted_value, printable_key

if TYPE_CHECKING:
    from pilothouse.storage.encryption.at_rest import EncryptionAtRest

_MAX_LOGGED = 10

_log = Log("etcd")


class Values:
    """Encodes and decodes. ``encryption`` is None without encryption."""

    def __init__(self, codec: Codec, encryption: "EncryptionAtRest | None" = None) -> None:
        self.codec = codec
        self.encryption = encryption
        self.unreadable: dict[str, bool] = {}
        """Keys of current values that can't be decrypted, and whether a retry may succeed with this configuration."""
        self.has_unreadable = False
        """Whether there may be values, current or earlier, that can't be read."""

    def encode(self, key: str, etcd_key: bytes, value: bytes) -> bytes:
        """The value to write to etcd. Raises ``TransformError``."""
        data = self.codec.encode(key, value)
        return data if self.encryption is None else self.encryption.to_storage(key, etcd_key, data)

    async def decode(self, key: str, pair: Any) -> bytes:
        """The latest value of a key, from a pair of etcd, or an unreadable value with the reason."""
        try:
            data = await self.decrypt(key, pair)
        except TransformError as error:
            return self._undecryptable(key, pair, error)
        self.unreadable.pop(key, None)
        return self._decode(key, pair, data)

    async def decode_past(self, key: str, pair: Any) -> bytes:
        """The same for an earlier value of a key."""
        try:
            data = await self.decrypt(key, pair)
        except TransformError as error:
            self.has_unreadable = True
            return encrypted_value(_printable_key(pair), str(error))
        return self._decode(key, pair, data)

    def decode_blocking(self, key: str, pair: Any) -> bytes:
        """``decode`` without an event loop, at startup."""
        try:
            if self.encryption is None:
                data = plain(pair.value)
            else:
                data = self.encryption.read_blocking(key, pair.key, pair.value)[0]
        except TransformError as error:
            return self._undecryptable(key, pair, error)
        return self._decode(key, pair, data)

    async def decrypt(self, key: str, pair: Any) -> bytes:
        """The decrypted bytes of the codec. Raises ``TransformError``."""
        if self.encryption is None:
            return plain(pair.value)
        return (await self.encryption.read(key, pair.key, pair.value))[0]

    async def is_stale(self, key: str, pair: Any) -> bool:
        """Whether the value must be written again even if it does not change. Raises ``TransformError``."""
        assert self.encryption is not None, "only called with encryption"
        return (await self.encryption.read(key, pair.key, pair.value))[1]

    def _decode(self, key: str, pair: Any, data: bytes) -> bytes:
        try:
            return self.codec.decode(key, data, pair.mod_revision)
        except ValueError as error:
            # It exists: reads of it return an internal error, as upstream's.
            _log.error("A value in etcd can't be decoded", key=_printable_key(pair), error=error)
            self.has_unreadable = True
            return damaged_value(str(error))

    def _undecryptable(self, key: str, pair: Any, error: TransformError) -> bytes:
        if key not in self.unreadable and len(self.unreadable) < _MAX_LOGGED:
            # Without a key all values fail in the same way: only the first ones are logged.
            _log.error("failed to decrypt data", key=_printable_key(pair), error=error)
        self.has_unreadable = True
        self.unreadable[key] = error.may_pass
        return encrypted_value(_printable_key(pair), str(error))


def _printable_key(pair: Any) -> str:
    return printable_key(pair.key.decode(errors="replace"))
