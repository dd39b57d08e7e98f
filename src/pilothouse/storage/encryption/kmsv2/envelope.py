"""Envelope encryption: values are stored with their encrypted data encryption key, which only the plugin can decrypt.

Values are written with a seed that the plugin has encrypted once; a seed is used until the plugin's key changes. Seeds
of other values are requested at the first use, and cached for a day (upstream's ``cache.go``).
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from google.protobuf.message import DecodeError

from pilothouse.env import Env
from pilothouse.storage.encryption.aes import ExtendedNonceGcm, Gcm
from pilothouse.storage.encryption.kmsv2 import messages
from pilothouse.storage.encryption.kmsv2.plugin import Encrypted, KmsService
from pilothouse.storage.encryption.kmsv2.state import State, cache_key, check_source
from pilothouse.storage.encryption.metrics import EncryptionMetrics
from pilothouse.storage.encryption.transformer import Context, KeyNeeded, Read, TransformError

_CACHE_TTL_SECONDS = 24 * 3600.0
_MAX_ENTRIES = 10_000
_RETRY_DELAY_SECONDS = 5.0
"""Delay before a plugin is called again for a key that it could not decrypt, or for any key if it did not respond:
otherwise all values would wait for it one after another."""
_UNAVAILABLE = ("Unavailable", "DeadlineExceeded", "Canceled")


class SourceCache:
    """Decrypted keys, by the hash of the encrypted ones. Expired ones are removed with the next insertion; until then
    they are still valid, because they never change."""

    def __init__(self, timestamp: Callable[[], float]) -> None:
        self._timestamp = timestamp
        self._entries: OrderedDict[bytes, tuple[float, Read]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> Read | None:
        """The transformer with that key."""
        cached = self._entries.get(key)
        return None if cached is None else cached[1]

    def put(self, key: bytes, transformer: Read) -> None:
        """Add a key."""
        now = self._timestamp()
        self._entries[key] = (now + _CACHE_TTL_SECONDS, transformer)
        self._entries.move_to_end(key)
        while len(self._entries) > _MAX_ENTRIES or next(iter(self._entries.values()))[0] < now:
            self._entries.popitem(last=False)


class EnvelopeTransformer:
    """Encrypts with the current state, decrypts with the key of the value."""

    def __init__(
        self,
        env: Env,
        provider: str,
        service: KmsService,
        current_state: Callable[[], State],
        metrics: EncryptionMetrics,
    ) -> None:
        """``current_state`` raises ``TransformError`` while there is none."""
        self._env = env
        self._provider = provider
        self._service = service
        self._current_state = current_state
        self._metrics = metrics
        self._cache = SourceCache(env.timestamp)
        self._failed: dict[bytes, tuple[float, TransformError]] = {}
        """Until when ``Decrypt`` is not called for a key (the empty key: for any), and the error."""

    def from_storage(self, data: bytes, context: Context) -> tuple[bytes, bool]:
        """Decrypt a value; also returns whether its key differs from the current one. Raises ``KeyNeeded``,
        ``TransformError``."""
        try:
            encrypted_object = messages.EncryptedObject.FromString(data)
        except DecodeError:
            raise TransformError("proto: cannot parse invalid wire-format data") from None
        source = Encrypted(
            encrypted_object.encryptedDEKSource, encrypted_object.keyID, dict(encrypted_object.annotations)
        )
        source_type = encrypted_object.encryptedDEKSourceType
        _check_data(encrypted_object.encryptedData, source_type)
        check_source(source, source_type)
        state = self._current_state()
        key = cache_key(source, source_type)
        transformer = self._cache.get(key)
        if transformer is None:
            self._raise_failed(key)
            fetch = partial(self._fetch, key, source, source_type)
            raise KeyNeeded(fetch, lambda: self._service.run_blocking(fetch()))
        self._metrics.used_key("from_storage", self._provider, source.key_id)
        value, stale = transformer.from_storage(encrypted_object.encryptedData, context)
        return value, stale or source.key_id != state.source.key_id or source_type != state.source_type

    def to_storage(self, data: bytes, context: Context) -> bytes:
        """Encrypt a value. Raises ``TransformError`` if there is no state, or it has expired."""
        state = self._current_state()
        state.check_writable(self._env.now())
        if self._cache.get(state.cache_key) is not state.transformer:
            self._cache_transformer(state.cache_key, state.transformer)
        encrypted = state.transformer.to_storage(data, context)
        self._metrics.used_key("to_storage", self._provider, state.source.key_id)
        encoded: bytes = messages.EncryptedObject(
            encryptedData=encrypted,
            keyID=state.source.key_id,
            encryptedDEKSource=state.source.ciphertext,
            annotations=state.source.annotations,
            encryptedDEKSourceType=state.source_type,
        ).SerializeToString()
        return encoded

    async def _fetch(self, key: bytes, source: Encrypted, source_type: int) -> None:
        if self._cache.get(key) is not None or self._recent_failure(key) is not None:
            return  # another value had the same key
        self._metrics.missed()
        try:
            plain = await self._service.decrypt(self._env.uid(), source)
        except TransformError as error:
            self._remember_failure(key, TransformError(f"failed to decrypt DEK, error: {error}", error.code))
            return
        seeded = source_type == messages.HKDF_SHA256_XNONCE_AES_GCM_SEED
        try:
            self._cache_transformer(key, ExtendedNonceGcm(plain) if seeded else Gcm(plain))
        except TransformError as error:
            self._remember_failure(key, error)

    def _cache_transformer(self, key: bytes, transformer: Read) -> None:
        self._cache.put(key, transformer)
        self._metrics.cached(self._provider, len(self._cache))

    def _remember_failure(self, key: bytes, error: TransformError) -> None:
        now = self._env.timestamp()
        for expired in [expired for expired, (expires_at, _error) in self._failed.items() if expires_at < now]:
            del self._failed[expired]
        self._failed[b"" if error.code in _UNAVAILABLE else key] = (now + _RETRY_DELAY_SECONDS, error)

    def _recent_failure(self, key: bytes) -> TransformError | None:
        for failed in (self._failed.get(b""), self._failed.get(key)):
            if failed is not None and self._env.timestamp() < failed[0]:
                return failed[1]
        return None

    def _raise_failed(self, key: bytes) -> None:
        error = self._recent_failure(key)
        if error is not None:
            raise TransformError(str(error), error.code)


def _check_data(data: bytes, source_type: int) -> None:
    if not data and source_type in (messages.AES_GCM_KEY, messages.HKDF_SHA256_XNONCE_AES_GCM_SEED):
        raise TransformError("encrypted data is empty")
