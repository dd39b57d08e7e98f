"""A plugin on a unix socket, with the gRPC API KMS v2 (apiserver ``…/envelope/kmsv2/grpc_service.go``, v0.36).

Needs gRPC, an extra. Calls wait for a plugin that is not running yet, up to the timeout of the provider.
``run_blocking`` is for startup, when a store is read without an event loop.
"""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar
from urllib.parse import urlsplit

import grpc

from pilothouse.storage.encryption.kmsv2 import messages
from pilothouse.storage.encryption.kmsv2.plugin import Encrypted, Status
from pilothouse.storage.encryption.metrics import EncryptionMetrics
from pilothouse.storage.encryption.transformer import TransformError

T = TypeVar("T")
_SERVICE = "/v2.KeyManagementService/"
_CHANNEL_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
)


class GrpcKmsService:
    """A plugin at a socket. ``endpoint`` has been validated: ``unix:///path`` or ``unix:///@abstract``."""

    def __init__(self, endpoint: str, provider: str, timeout: float, metrics: EncryptionMetrics) -> None:
        self._provider = provider
        self._timeout = timeout
        self._metrics = metrics
        self._blocking = False
        self._channel: Any = grpc.insecure_channel(_target(endpoint), options=_CHANNEL_OPTIONS)

    async def status(self) -> Status:
        """Call ``Status``."""
        response = await self._call("Status", messages.StatusRequest(), messages.StatusResponse)
        return Status(response.version, response.healthz, response.key_id)

    async def encrypt(self, uid: str, plaintext: bytes) -> Encrypted:
        """Call ``Encrypt``."""
        request = messages.EncryptRequest(plaintext=plaintext, uid=uid)
        response = await self._call("Encrypt", request, messages.EncryptResponse)
        return Encrypted(response.ciphertext, response.key_id, dict(response.annotations))

    async def decrypt(self, uid: str, encrypted: Encrypted) -> bytes:
        """The plaintext of ``encrypt``."""
        request = messages.DecryptRequest(
            ciphertext=encrypted.ciphertext, uid=uid, key_id=encrypted.key_id, annotations=encrypted.annotations
        )
        response = await self._call("Decrypt", request, messages.DecryptResponse)
        return bytes(response.plaintext)

    def run_blocking(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a call that depends on nothing but this plugin, without a loop."""
        self._blocking = True
        try:
            work.send(None)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            self._blocking = False
            work.close()
        raise AssertionError("it has waited for something else than this plugin")

    def close(self) -> None:
        """Close the connection; calls in flight fail."""
        self._channel.close()

    async def _call(self, name: str, request: Any, response: Any) -> Any:
        method = f"{_SERVICE}{name}"
        stub = self._channel.unary_unary(
            method, request_serializer=type(request).SerializeToString, response_deserializer=response.FromString
        )
        began = time.perf_counter()
        code = "OK"
        try:
            if self._blocking:
                return stub(request, timeout=self._timeout, wait_for_ready=True)
            return await _finished(stub.future(request, timeout=self._timeout, wait_for_ready=True))
        except grpc.RpcError as error:
            code = _code(error)
            raise TransformError(f"rpc error: code = {code} desc = {error.details() or ''}", code) from None
        finally:
            self._metrics.called(self._provider, method, time.perf_counter() - began, code)


async def _finished(call: Any) -> Any:
    """The result of a gRPC future, for the event loop."""
    loop = asyncio.get_running_loop()
    finished = loop.create_future()

    def notify() -> None:
        if not finished.done():
            finished.set_result(None)

    call.add_done_callback(lambda _call: loop.call_soon_threadsafe(notify))
    try:
        await finished
    finally:
        call.cancel()  # no effect on a finished call
    return call.result()


def _code(error: Any) -> str:
    """Go's name of the status code."""
    name: str = error.code().name
    return "Canceled" if name == "CANCELLED" else name.title().replace("_", "")


def _target(endpoint: str) -> str:
    path = urlsplit(endpoint).path
    return f"unix-abstract:{path[2:]}" if path.startswith("/@") else f"unix:{path}"
