"""A KMS v2 plugin for tests, on a unix socket. Its ciphertext is the reversed plaintext."""

from concurrent import futures
from pathlib import Path
from typing import Any

import grpc

from pilothouse.storage.encryption.kmsv2 import messages


class KmsPlugin:
    """Runs in the background. Its attributes determine the responses and may change at any time; ``calls`` are the
    names of the calls."""

    def __init__(self, socket: Path) -> None:
        self.endpoint = f"unix://{socket}"
        self.key_id = "1"
        self.healthz = "ok"
        self.version = "v2"
        self.annotations: dict[str, bytes] = {"local.example.com": b"a"}
        self.calls: list[str] = []
        self.refused: set[str] = set()
        """Ids of keys that it no longer has."""
        self._server: Any = None
        self._socket = socket

    def start(self) -> "KmsPlugin":
        """Listen."""
        self._socket.unlink(missing_ok=True)
        server = self._server = grpc.server(futures.ThreadPoolExecutor(2))
        handlers = {
            "Status": (self._status, messages.StatusRequest),
            "Encrypt": (self._encrypt, messages.EncryptRequest),
            "Decrypt": (self._decrypt, messages.DecryptRequest),
        }
        methods = {
            name: grpc.unary_unary_rpc_method_handler(
                self._counted(name, handle),
                request_deserializer=request.FromString,
                response_serializer=lambda answer: answer.SerializeToString(),
            )
            for name, (handle, request) in handlers.items()
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v2.KeyManagementService", methods),))
        server.add_insecure_port(f"unix:{self._socket}")
        server.start()
        return self

    def stop(self) -> None:
        """Stop listening; calls under way fail."""
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None

    def _counted(self, name: str, handle: Any) -> Any:
        def call(request: Any, context: Any) -> Any:
            self.calls.append(name)
            return handle(request, context)

        return call

    def _status(self, _request: Any, _context: Any) -> Any:
        return messages.StatusResponse(version=self.version, healthz=self.healthz, key_id=self.key_id)

    def _encrypt(self, request: Any, _context: Any) -> Any:
        return messages.EncryptResponse(
            ciphertext=request.plaintext[::-1], key_id=self.key_id, annotations=self.annotations
        )

    def _decrypt(self, request: Any, context: Any) -> Any:
        if request.key_id in self.refused:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"no key {request.key_id}")
        return messages.DecryptResponse(plaintext=request.ciphertext[::-1])
