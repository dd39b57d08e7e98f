"""Upstream's metrics of encryption at rest.

After apiserver's ``pkg/storage/value/metrics.go``, ``pkg/storage/value/encrypt/envelope/metrics`` and
``pkg/server/options/encryptionconfig/metrics`` (v0.36). Key IDs and the ID of the server are hashed.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable

from pilothouse.machinery.metrics import Registry, exponential_buckets
from pilothouse.storage.encryption.transformer import NO_GRPC, TransformError

_MAX_KEYS = 100
"""Maximum number of key IDs with a last use; the least recently used one is dropped."""
_LATENCIES = exponential_buckets(5e-6, 2, 25)


def hash_of(text: str) -> str:
    """``sha256:`` and the hash; empty for an empty text."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" if text else ""


class EncryptionMetrics:
    """The metrics of one server. ``timestamp`` is the wall time."""

    def __init__(self, server_id: str, timestamp: Callable[[], float]) -> None:
        self.registry = registry = Registry()
        self._server = hash_of(server_id)
        self._timestamp = timestamp
        self._operations = registry.counter(
            "apiserver_storage_transformation_operations_total",
            "[ALPHA] Total number of transformations. Successful transformation will have a status 'OK' and a varied "
            "status string when the transformation fails. The status, resource, and transformation_type fields can be "
            "used for alerting purposes. For example, you can monitor for encryption/decryption failures using the "
            "transformation_type (e.g., from_storage for decryption and to_storage for encryption). Additionally, "
            "these fields can be used to ensure that the correct transformers are applied to each resource.",
            ("resource", "transformation_type", "transformer_prefix", "status"),
        )
        self._latencies = registry.histogram(
            "apiserver_storage_transformation_duration_seconds",
            "[ALPHA] Latencies in seconds of value transformation operations.",
            ("transformation_type", "transformer_prefix"),
            _LATENCIES,
        )
        self._misses = registry.counter(
            "apiserver_storage_envelope_transformation_cache_misses_total",
            "[ALPHA] Total number of cache misses while accessing key decryption key(KEK).",
        )
        self._generated = registry.histogram(
            "apiserver_storage_data_key_generation_duration_seconds",
            "[ALPHA] Latencies in seconds of data encryption key(DEK) generation operations.",
            (),
            exponential_buckets(5e-6, 2, 14),
        )
        registry.counter(
            "apiserver_storage_data_key_generation_failures_total",
            "[ALPHA] Total number of failed data encryption key(DEK) generation operations.",
        )
        self._calls = registry.histogram(
            "apiserver_envelope_encryption_kms_operations_latency_seconds",
            "[ALPHA] KMS operation duration with gRPC error code status total.",
            ("provider_name", "method_name", "grpc_status_code"),
            exponential_buckets(0.0001, 2, 20),
        )
        of_key = ("transformation_type", "provider_name", "key_id_hash", "apiserver_id_hash")
        self._key_total = registry.counter(
            "apiserver_envelope_encryption_key_id_hash_total",
            "[ALPHA] Number of times a keyID is used split by transformation type, provider, and apiserver identity.",
            of_key,
        )
        self._key_used_at = registry.gauge(
            "apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds",
            "[ALPHA] The last time in seconds when a keyID was used.",
            of_key,
        )
        self._status_at = registry.gauge(
            "apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds",
            "[ALPHA] The last time in seconds when a keyID was returned by the Status RPC call.",
            of_key[1:],
        )
        self._invalid_ids = registry.counter(
            "apiserver_envelope_encryption_invalid_key_id_from_status_total",
            "[ALPHA] Number of times an invalid keyID is returned by the Status RPC call split by error.",
            ("provider_name", "error"),
        )
        self._cached = registry.gauge(
            "apiserver_envelope_encryption_dek_source_cache_size",
            "[ALPHA] Number of records in data encryption key (DEK) source cache. On a restart, this value is an "
            "approximation of the number of decrypt RPC calls the server will make to the KMS plugin.",
            ("provider_name",),
        )
        self._reloads = registry.counter(
            "apiserver_encryption_config_controller_automatic_reloads_total",
            "[ALPHA] Total number of reload successes and failures of encryption configuration split by apiserver "
            "identity.",
            ("status", "apiserver_id_hash"),
        )
        self._reloaded_at = registry.gauge(
            "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds",
            "[ALPHA] Timestamp of the last successful or failed automatic reload of encryption configuration split by "
            "apiserver identity.",
            ("status", "apiserver_id_hash"),
        )
        self._config = registry.gauge(
            "apiserver_encryption_config_controller_last_config_info",
            "[ALPHA] Information about the last applied encryption configuration with hash as label, split by "
            "apiserver identity.",
            ("apiserver_id_hash", "hash"),
        )
        self._used: OrderedDict[tuple[str, ...], None] = OrderedDict()
        self._reported: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def transformed(self, resource: str, kind: str, prefix: str, seconds: float, error: TransformError | None) -> None:
        """A value was encrypted (``to_storage``) or decrypted (``from_storage``), or that failed."""
        self._operations.labels(resource, kind, prefix, "OK" if error is None else error.code).inc()
        if error is None:
            self._latencies.labels(kind, prefix).observe(seconds)

    def missed(self) -> None:
        """A key must be requested from a plugin."""
        self._misses.inc()

    def generated(self, seconds: float) -> None:
        """A seed was generated."""
        self._generated.observe(seconds)

    def called(self, provider: str, method: str, seconds: float, code: str) -> None:
        """A call to a plugin has ended; ``code`` is gRPC's."""
        self._calls.labels(provider, method, code or NO_GRPC).observe(seconds)

    def used_key(self, kind: str, provider: str, key_id: str) -> None:
        """A value was encrypted or decrypted with a plugin's key."""
        labels = (kind, provider, hash_of(key_id), self._server)
        if labels not in self._used and len(self._used) >= _MAX_KEYS:
            oldest, _ = self._used.popitem(last=False)
            self._key_total.remove(*oldest)
            self._key_used_at.remove(*oldest)
        self._used[labels] = None
        self._used.move_to_end(labels)
        self._key_total.labels(*labels).inc()
        self._key_used_at.labels(*labels).set(self._timestamp())

    def reported_key(self, provider: str, key_id: str) -> None:
        """A plugin has reported its key ID."""
        labels = (provider, hash_of(key_id), self._server)
        if labels not in self._reported and len(self._reported) >= _MAX_KEYS:
            oldest, _ = self._reported.popitem(last=False)
            self._status_at.remove(*oldest)
        self._reported[labels] = None
        self._reported.move_to_end(labels)
        self._status_at.labels(*labels).set(self._timestamp())

    def reported_invalid_key(self, provider: str, error: str) -> None:
        """A plugin has reported an invalid key ID: ``empty`` or ``too_long``."""
        self._invalid_ids.labels(provider, error).inc()

    def cached(self, provider: str, size: int) -> None:
        """The number of cached keys of a plugin."""
        self._cached.labels(provider).set(size)

    def reloaded(self, config_hash: str) -> None:
        """A changed configuration is in use."""
        self._count_reload("success")
        self.configured(config_hash)

    def reload_failed(self) -> None:
        """A changed configuration is invalid."""
        self._count_reload("failure")

    def configured(self, config_hash: str) -> None:
        """This configuration is in use."""
        self._config.show({(self._server, config_hash): 1.0})

    def _count_reload(self, status: str) -> None:
        self._reloads.labels(status, self._server).inc()
        self._reloaded_at.labels(status, self._server).set(self._timestamp())
