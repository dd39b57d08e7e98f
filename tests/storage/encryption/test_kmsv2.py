"""KMS v2 envelopes and the plugin health probe, with a small plugin in virtual time."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from pilothouse.env import Env
from pilothouse.storage.encryption.aes import Gcm
from pilothouse.storage.encryption.kmsv2 import messages
from pilothouse.storage.encryption.kmsv2.envelope import EnvelopeTransformer
from pilothouse.storage.encryption.kmsv2.plugin import Encrypted, Status
from pilothouse.storage.encryption.kmsv2.probe import KmsProbe, KmsUnhealthy
from pilothouse.storage.encryption.metrics import EncryptionMetrics
from pilothouse.storage.encryption.transformer import Context, KeyNeeded, TransformError

T = TypeVar("T")
HERE = Context(b"/registry/secrets/default/x", "secrets")


class Plugin:
    """Turns bytes round."""

    def __init__(self) -> None:
        self.key_id, self.encrypts_with = "1", ""
        self.healthz, self.version = "ok", "v2"
        self.annotations: dict[str, bytes] = {}
        self.failure: TransformError | None = None
        self.calls: list[str] = []

    async def status(self) -> Status:
        self._called("Status")
        return Status(self.version, self.healthz, self.key_id)

    async def encrypt(self, uid: str, plaintext: bytes) -> Encrypted:
        self._called("Encrypt")
        return Encrypted(plaintext[::-1], self.encrypts_with or self.key_id, self.annotations)

    async def decrypt(self, uid: str, encrypted: Encrypted) -> bytes:
        self._called("Decrypt")
        return encrypted.ciphertext[::-1]

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.failure is not None:
            raise self.failure

    def run_blocking(self, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError

    def close(self) -> None:
        self.calls.append("close")


class Server:
    """What one API server has of a plugin."""

    def __init__(self, env: Env, plugin: Plugin) -> None:
        self.plugin = plugin
        self.metrics = EncryptionMetrics("server", env.timestamp)
        self.probe = KmsProbe(env, "foo", plugin, self.metrics)
        self.transformer = EnvelopeTransformer(env, "foo", plugin, self.probe.current_state, self.metrics)

    async def read(self, stored: bytes) -> tuple[bytes, bool]:
        for _ in range(2):
            try:
                return self.transformer.from_storage(stored, HERE)
            except KeyNeeded as needed:
                await needed.fetch()
        raise AssertionError("the key was asked for")


NO_ANSWER = TransformError("rpc error: code = Unavailable desc = gone", "Unavailable")


@pytest.fixture
async def server(env: Env) -> Server:
    result = Server(env, Plugin())
    await result.probe.check()
    return result


async def test_dek_seed_is_reused_and_decrypted_once_per_server(env: Env, server: Server) -> None:
    stored = [server.transformer.to_storage(b"value", HERE) for _ in range(3)]
    assert server.plugin.calls == ["Status", "Encrypt"]
    assert len(set(stored)) == 3
    assert await server.read(stored[0]) == (b"value", False)
    other = Server(env, server.plugin)
    await other.probe.check()
    server.plugin.calls.clear()
    assert [await other.read(item) for item in stored] == [(b"value", False)] * 3
    assert server.plugin.calls == ["Decrypt"]
    assert other.metrics.registry.value("apiserver_storage_envelope_transformation_cache_misses_total") == 1


async def test_stored_envelope_is_upstreams(server: Server) -> None:
    server.plugin.annotations = {"a.example.com": b"note"}
    server.plugin.key_id = "2"
    await asyncio.sleep(30)
    await server.probe.check()
    result = messages.EncryptedObject.FromString(server.transformer.to_storage(b"value", HERE))
    assert (result.keyID, dict(result.annotations)) == ("2", {"a.example.com": b"note"})
    assert result.encryptedDEKSourceType == messages.HKDF_SHA256_XNONCE_AES_GCM_SEED
    assert len(result.encryptedData) == 32 + 12 + len(b"value") + 16
    assert len(result.encryptedDEKSource) == 32


async def test_changed_key_id_creates_a_new_seed_and_old_values_are_stale(server: Server) -> None:
    old = server.transformer.to_storage(b"value", HERE)
    server.plugin.key_id = "2"
    await asyncio.sleep(10)
    await server.probe.check()
    assert await server.read(old) == (b"value", False), "the last answer is good for 20 seconds"
    await asyncio.sleep(11)
    await server.probe.check()
    assert await server.read(old) == (b"value", True)
    assert await server.read(server.transformer.to_storage(b"value", HERE)) == (b"value", False)
    assert server.plugin.calls.count("Encrypt") == 2


async def test_values_with_a_dek_are_decrypted_and_stale(server: Server) -> None:
    """As releases before v1.28 have written them."""
    key = b"k" * 32
    stored = messages.EncryptedObject(
        encryptedData=Gcm(key).to_storage(b"value", HERE),
        keyID="1",
        encryptedDEKSource=key[::-1],
        encryptedDEKSourceType=messages.AES_GCM_KEY,
    ).SerializeToString()
    assert await server.read(stored) == (b"value", True)


async def test_writes_continue_for_three_minutes_without_the_plugin(env: Env, server: Server) -> None:
    polls = asyncio.create_task(server.probe.run())
    stored = server.transformer.to_storage(b"value", HERE)
    await asyncio.sleep(600)
    server.transformer.to_storage(b"value", HERE)
    server.plugin.failure = NO_ANSWER
    began = env.now()
    await asyncio.sleep(115)
    server.transformer.to_storage(b"value", HERE)
    await asyncio.sleep(70)
    with pytest.raises(
        TransformError, match=r'encryptedDEKSource with keyID hash "sha256:6b86.*" expired at .* \(curr'
    ):
        server.transformer.to_storage(b"value", HERE)
    assert await server.read(stored) == (b"value", False), "reads need no plugin"
    assert 150 < (env.now() - began).total_seconds() < 200
    server.plugin.failure = None
    await asyncio.sleep(10)
    server.transformer.to_storage(b"value", HERE)
    polls.cancel()


async def test_plugin_may_start_after_the_server(env: Env) -> None:
    plugin = Plugin()
    plugin.failure = NO_ANSWER
    server = Server(env, plugin)
    recovered: list[bool] = []
    server.probe.on_recovered = lambda: recovered.append(True)
    await server.probe.check_and_log()
    with pytest.raises(TransformError, match="got unexpected nil transformer"):
        server.transformer.to_storage(b"value", HERE)
    polls = asyncio.create_task(server.probe.run())
    plugin.failure = None
    await asyncio.sleep(11)
    assert recovered == [True]
    assert server.transformer.to_storage(b"value", HERE)
    polls.cancel()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"healthz": "no"}, "got unexpected healthz status: no", id="unhealthy"),
        pytest.param({"version": "v3"}, "expected KMSv2 API version v2, got v3", id="unsupported version"),
        pytest.param(
            {"version": "v2beta1"},
            "KMSv2 API version should not change after the initial status response version v2, got v2beta1",
            id="the version changes",
        ),
        pytest.param({"key_id": ""}, 'got invalid KMSv2 KeyID hash "": keyID is empty', id="empty key ID"),
        pytest.param(
            {"key_id": "k" * 1025}, ": keyID is 1025 bytes, which exceeds the max size of 1024", id="a long key"
        ),
        pytest.param(
            {"key_id": "2", "encrypts_with": "3"}, "failed to rotate DEK uid=", id="encrypts with another key"
        ),
        pytest.param(
            {"healthz": "no", "version": "v3"},
            "error: [got unexpected healthz status: no, expected KMSv2 API version v2, got v3]",
            id="several errors",
        ),
        pytest.param(
            {"key_id": "2", "annotations": {"a": b""}},
            'annotations: Invalid value: "a": should be a domain with at least two segments separated by dots',
            id="a note without a domain",
        ),
        pytest.param(
            {"key_id": "2", "annotations": {"a.b": bytes(33_000)}},
            "total size of annotations is 33003, which exceeds the max size of 32768",
            id="large notes",
        ),
        pytest.param(
            {"failure": NO_ANSWER},
            "failed to perform status section of the healthz check for KMS Provider foo, error: rpc error: code = "
            "Unavailable desc = gone",
            id="no response",
        ),
    ],
)
async def test_unhealthy_plugin_statuses(server: Server, change: dict[str, Any], message: str) -> None:
    before = server.probe.current_state().source
    for name, value in change.items():
        setattr(server.plugin, name, value)
    await asyncio.sleep(21)
    with pytest.raises(KmsUnhealthy) as refused:
        await server.probe.check()
    assert message in str(refused.value)
    assert server.probe.current_state().source is before, "what there is stays in use"
    calls = len(server.plugin.calls)
    with pytest.raises(KmsUnhealthy):
        await server.probe.check()
    assert len(server.plugin.calls) == calls, "not asked again for three seconds"


async def test_failing_plugin_is_not_called_for_each_value(env: Env, server: Server) -> None:
    stored = server.transformer.to_storage(b"value", HERE)
    other = Server(env, server.plugin)
    await other.probe.check()
    server.plugin.failure = NO_ANSWER
    server.plugin.calls.clear()
    for _ in range(20):
        with pytest.raises(TransformError, match="failed to decrypt DEK, error: rpc error: code = Unavailable"):
            await other.read(stored)
    assert server.plugin.calls == ["Decrypt"]
    server.plugin.failure = None
    await asyncio.sleep(6)
    assert await other.read(stored) == (b"value", False)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(None, "proto: cannot parse invalid wire-format data", id="invalid message"),
        pytest.param({"encryptedData": b""}, "encrypted data is empty", id="empty data"),
        pytest.param({"encryptedDEKSourceType": 7}, "unknown encryptedDEKSourceType: 7", id="unknown source type"),
        pytest.param(
            {"encryptedDEKSource": b""},
            "failed to validate encrypted DEK source: encrypted DEK source is empty",
            id="empty source",
        ),
        pytest.param(
            {"encryptedDEKSource": bytes(1025)},
            "failed to validate encrypted DEK source: encrypted DEK source is 1025 bytes, which exceeds the max size "
            "of 1024",
            id="a long source",
        ),
        pytest.param({"keyID": ""}, "failed to validate key id: keyID is empty", id="empty key ID"),
        pytest.param({"encryptedDEKSource": b"s"}, "invalid seed length 1 used for key generation", id="a short seed"),
    ],
)
async def test_invalid_envelopes_are_rejected(server: Server, fields: dict[str, Any] | None, message: str) -> None:
    good = {"encryptedData": b"d" * 60, "keyID": "1", "encryptedDEKSource": b"s" * 32, "encryptedDEKSourceType": 1}
    stored = b"\xff" if fields is None else messages.EncryptedObject(**{**good, **fields}).SerializeToString()
    with pytest.raises(TransformError) as refused:
        await server.read(stored)
    assert str(refused.value) == message


async def test_key_id_hash_metrics_are_bounded_to_100(env: Env) -> None:
    metrics = EncryptionMetrics("server", env.timestamp)
    for number in range(150):
        metrics.used_key("from_storage", "foo", str(number))
    page = metrics.registry.exposition()
    assert page.count("apiserver_envelope_encryption_key_id_hash_total{") == 100
    assert page.count("apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds{") == 100
