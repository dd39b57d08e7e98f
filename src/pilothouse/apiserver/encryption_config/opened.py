"""Encryption at rest of a running server: providers, metrics, health, and reloading."""

from functools import partial

from pilothouse.apiserver.encryption_config.config import load_config
from pilothouse.apiserver.encryption_config.controller import ReloadController
from pilothouse.apiserver.endpoints.healthz import KmsHealth
from pilothouse.apiserver.storage_codec import resource_of
from pilothouse.env import Env, Log
from pilothouse.storage.encryption.at_rest import EncryptionAtRest
from pilothouse.storage.encryption.kmsv2.probe import KmsUnhealthy
from pilothouse.storage.encryption.metrics import EncryptionMetrics

_log = Log("encryption")


class OpenedEncryption:
    """A configuration in use. Its plugins have been called once, so that data encrypted by them can be decrypted
    without an event loop. A plugin that does not respond does not prevent the start."""

    def __init__(self, env: Env, path: str, *, reload: bool, server_id: str) -> None:
        """Raises ``EncryptionConfigError``."""
        self.metrics = EncryptionMetrics(server_id, env.timestamp)
        load = partial(load_config, env, path, self.metrics, reload=reload)
        loaded = load()
        self.metrics.configured(loaded.content_hash)
        for probe in loaded.providers.probes:
            probe.service.run_blocking(probe.check_and_log())
        self.at_rest = EncryptionAtRest(loaded.providers, resource_of)
        self.controller = (
            ReloadController(path, self.at_rest, loaded.content_hash, load, self.metrics) if reload else None
        )
        # After a reload there may be plugins, so the health check always exists.
        self.health = KmsHealth(self._is_healthy, reloads=reload) if reload or loaded.providers.probes else None

    async def _is_healthy(self) -> bool:
        try:
            await self.at_rest.providers.check()
        except KmsUnhealthy as error:
            _log.info("kms-providers check failed", error=error)
            return False
        return True
