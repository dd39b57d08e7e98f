"""Probes a plugin, and keeps the current key for writes.

After apiserver's ``pkg/server/options/encryptionconfig/config.go`` (v0.36, ``kmsv2PluginProbe``): a new seed if the
plugin reports a new key ID; if it does not respond, the old one for three more minutes.
"""

import asyncio
import datetime
import secrets
import time
from collections.abc import Callable

import msgspec

from pilothouse.env import Env, Log
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.times import format_time
from pilothouse.storage.encryption.aes import SEED_SIZE, ExtendedNonceGcm
from pilothouse.storage.encryption.kmsv2.messages import HKDF_SHA256_XNONCE_AES_GCM_SEED
from pilothouse.storage.encryption.kmsv2.plugin import Encrypted, KmsService, Status
from pilothouse.storage.encryption.kmsv2.state import InvalidKeyId, State, cache_key, check_key_id, check_source
from pilothouse.storage.encryption.metrics import EncryptionMetrics, hash_of
from pilothouse.storage.encryption.transformer import TransformError

_HEALTHY_SECONDS, _UNHEALTHY_SECONDS = 60.0, 10.0
"""The interval of background checks."""
_POSITIVE_TTL, _NEGATIVE_TTL = 20.0, 3.0
"""Seconds for which the result is cached for health checks."""
_WRITABLE = datetime.timedelta(minutes=3)
_VERSIONS = ("v2", "v2beta1")

_log = Log("encryption")


class KmsUnhealthy(Exception):
    """A plugin does not respond, or not correctly."""


class KmsProbe:
    """The state of one provider. Call ``check`` at the start, then ``run``. ``on_recovered`` is called when values that
    could not be decrypted may be decryptable."""

    def __init__(self, env: Env, name: str, service: KmsService, metrics: EncryptionMetrics) -> None:
        self.name = name
        self.on_recovered: Callable[[], None] = lambda: None
        self._env = env
        self.service = service
        self._metrics = metrics
        self._state: State | None = None
        self._version = ""
        self._lock = asyncio.Lock()
        self._checked_at = float("-inf")
        self._ttl = _NEGATIVE_TTL
        self._error: KmsUnhealthy | TransformError | None = None

    def current_state(self) -> State:
        """The key for writes, for which ``State.check_writable`` must be called, too. Raises ``TransformError`` if
        there is none."""
        if self._state is None:
            raise TransformError("got unexpected nil transformer")
        return self._state

    async def check(self) -> None:
        """Probe, unless that was done just now. Raises ``KmsUnhealthy``."""
        async with self._lock:
            now = self._env.timestamp()
            if 0 <= now - self._checked_at < self._ttl:
                if self._error is not None:
                    raise KmsUnhealthy(str(self._error))
                return
            was_unhealthy = self._error is not None
            try:
                await self._probe()
            except (KmsUnhealthy, TransformError) as error:
                self._error, self._ttl = error, _NEGATIVE_TTL
                if isinstance(error, TransformError):
                    raise KmsUnhealthy(
                        "failed to perform status section of the healthz check for KMS Provider "
                        f"{self.name}, error: {error}"
                    ) from None
                raise
            else:
                self._error, self._ttl = None, _POSITIVE_TTL
            finally:
                self._checked_at = self._env.timestamp()
            if was_unhealthy:
                self.on_recovered()

    async def run(self) -> None:
        """Probe every minute, or every ten seconds while the plugin is not healthy, until cancelled."""
        while True:
            await asyncio.sleep(_HEALTHY_SECONDS if self._error is None else _UNHEALTHY_SECONDS)
            await self.check_and_log()

    async def check_and_log(self) -> None:
        """``check``, logging failures."""
        try:
            await self.check()
        except KmsUnhealthy as error:
            _log.error("kms plugin failed health check probe", error=error, name=self.name)

    async def _probe(self) -> None:
        status = await self.service.status()
        errors = self._status_errors(status)
        try:
            check_key_id(status.key_id)
        except InvalidKeyId as error:
            self._metrics.reported_invalid_key(self.name, error.code)
            errors.append(f"got invalid KMSv2 KeyID hash {quote(hash_of(status.key_id))}: {error}")
        else:
            self._metrics.reported_key(self.name, status.key_id)
            failure = await self._rotate_dek_on_key_id_change(status.key_id, self._env.uid())
            if failure:
                errors.append(failure)
        if errors:
            text = errors[0] if len(errors) == 1 else f"[{', '.join(dict.fromkeys(errors))}]"
            raise KmsUnhealthy(f"kmsv2 Provider {self.name} is not healthy, error: {text}")

    def _status_errors(self, status: Status) -> list[str]:
        errors = []
        if status.healthz != "ok":
            errors.append(f"got unexpected healthz status: {status.healthz}")
        if status.version not in _VERSIONS:
            errors.append(f"expected KMSv2 API version v2, got {status.version}")
        else:
            self._version = self._version or status.version
            if self._version != status.version:
                errors.append(
                    "KMSv2 API version should not change after the initial status response version "
                    f"{self._version}, got {status.version}"
                )
        return errors

    async def _rotate_dek_on_key_id_change(self, key_id: str, uid: str) -> str:
        """Create a state for the plugin's current key, or extend the existing one (``rotateDEKOnKeyIDChange``); returns
        the error."""
        # From before the call: the three minutes are an upper limit.
        expires_at = self._env.now() + _WRITABLE
        state = self._state
        if state is not None and state.source.key_id == key_id:
            self._state = msgspec.structs.replace(state, expires_at=expires_at)
            return ""
        source, failure = None, ""
        began = time.perf_counter()
        seed = secrets.token_bytes(SEED_SIZE)
        self._metrics.generated(time.perf_counter() - began)
        try:
            source = await self._encrypt_seed(uid, seed)
        except TransformError as error:
            failure = str(error)
        if source is not None and source.key_id == key_id:
            self._state = State(
                transformer=ExtendedNonceGcm(seed),
                source=source,
                source_type=HKDF_SHA256_XNONCE_AES_GCM_SEED,
                uid=uid,
                expires_at=expires_at,
                cache_key=cache_key(source, HKDF_SHA256_XNONCE_AES_GCM_SEED),
            )
            _log.info(
                "successfully rotated DEK",
                uid=uid,
                newKeyIDHash=hash_of(key_id),
                expirationTimestamp=format_time(expires_at),
                v=6,
            )
            return ""
        return _rotation_failed(uid, state, failure, key_id, source)

    async def _encrypt_seed(self, uid: str, seed: bytes) -> Encrypted:
        try:
            source = await self.service.encrypt(uid, seed)
        except TransformError as error:
            raise TransformError(f"failed to encrypt DEK, error: {error}", error.code) from None
        check_source(source, HKDF_SHA256_XNONCE_AES_GCM_SEED)
        return source


def _rotation_failed(uid: str, state: State | None, failure: str, key_id: str, source: Encrypted | None) -> str:
    """Upstream's message, in which a missing error is ``<nil>`` and a missing time Go's zero time."""
    state_error = "<nil>" if state is not None else "got unexpected nil transformer"
    of_state = hash_of(state.source.key_id) if state is not None else ""
    of_source = hash_of(source.key_id) if source is not None else ""
    expires = format_time(state.expires_at) if state is not None else "0001-01-01T00:00:00Z"
    return (
        f"failed to rotate DEK uid={quote(uid)}, useSeed=true, errState={state_error}, errGen={failure or '<nil>'}, "
        f"statusKeyIDHash={quote(hash_of(key_id))}, encryptKeyIDHash={quote(of_source)}, "
        f"stateKeyIDHash={quote(of_state)}, expirationTimestamp={expires}"
    )
