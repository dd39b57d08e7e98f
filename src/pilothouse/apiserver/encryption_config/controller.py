"""Reloads the configuration when its file changes (apiserver
``pkg/server/options/encryptionconfig/controller/controller.go``, v0.36)."""

import asyncio
from collections.abc import Callable

from pilothouse.apiserver.encryption_config.config import LoadedConfig, read_hash
from pilothouse.apiserver.encryption_config.types import EncryptionConfigError
from pilothouse.env import Log
from pilothouse.storage.encryption.at_rest import EncryptionAtRest, Providers
from pilothouse.storage.encryption.kmsv2.probe import KmsUnhealthy
from pilothouse.storage.encryption.metrics import EncryptionMetrics

POLL_SECONDS = 60.0
_FIRST_RETRY = 1.0
"""The delay in seconds before an invalid file is loaded again; doubled each time, up to a minute."""
_CHECK_SECONDS = 0.1
_MIN_CHECK_SECONDS = 10.0
"""The minimum time in seconds for new plugins to become healthy."""

_log = Log("encryption")


class ReloadController:
    """Reloads one file. ``load`` loads it."""

    def __init__(
        self,
        path: str,
        encryption: EncryptionAtRest,
        content_hash: str,
        load: Callable[[], LoadedConfig],
        metrics: EncryptionMetrics,
    ) -> None:
        self._path = path
        self._encryption = encryption
        self._hash = content_hash
        self._load = load
        self._metrics = metrics

    async def run(self, poll_seconds: float = POLL_SECONDS) -> None:
        """Poll the file until cancelled."""
        retry = 0.0
        while True:
            try:
                await self.sync()
                retry = 0.0
            except (EncryptionConfigError, KmsUnhealthy) as error:
                self._metrics.reload_failed()
                _log.error(f"error processing encryption config file {self._path}", error=error)
                retry = min(2 * retry or _FIRST_RETRY, poll_seconds)
            await asyncio.sleep(retry or poll_seconds)

    async def sync(self) -> None:
        """Load and use the file, if it has changed. Raises ``EncryptionConfigError``, and ``KmsUnhealthy`` if a plugin
        is not healthy; the previous configuration then stays in use."""
        if read_hash(self._path) == self._hash:
            return
        loaded = self._load()
        if loaded.content_hash == self._hash:
            loaded.providers.close()
            return
        try:
            await _become_healthy(loaded.providers)
        except BaseException:
            loaded.providers.close()
            raise
        self._encryption.replace(loaded.providers)
        self._hash = loaded.content_hash
        self._metrics.reloaded(loaded.content_hash)
        _log.info("Loaded new kms encryption config content", path=self._path)


async def _become_healthy(providers: Providers) -> None:
    failure = KmsUnhealthy("no answer")
    try:
        async with asyncio.timeout(max(providers.close_after, _MIN_CHECK_SECONDS)):
            while True:
                try:
                    return await providers.check()
                except KmsUnhealthy as error:
                    failure = error
                await asyncio.sleep(_CHECK_SECONDS)
    except TimeoutError:
        raise KmsUnhealthy(
            f"health check for new transformers failed, polling error timed out waiting for the condition: {failure}"
        ) from None
