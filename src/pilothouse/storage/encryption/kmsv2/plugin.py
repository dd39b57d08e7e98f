"""The interface of a plugin, independent of the transport."""

from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

import msgspec

T = TypeVar("T")


class Status(msgspec.Struct, frozen=True):
    """The status of the plugin, and its current key ID."""

    version: str
    healthz: str
    key_id: str


class Encrypted(msgspec.Struct, frozen=True):
    """The encrypted seed, and the values that are needed to decrypt it."""

    ciphertext: bytes
    key_id: str
    annotations: dict[str, bytes] = {}


class KmsService(Protocol):
    """A plugin. All methods raise ``TransformError``, with gRPC's code."""

    async def status(self) -> Status: ...

    async def encrypt(self, uid: str, plaintext: bytes) -> Encrypted: ...

    async def decrypt(self, uid: str, encrypted: Encrypted) -> bytes: ...

    def run_blocking(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a call that depends on nothing but this plugin, without a loop."""
        ...

    def close(self) -> None:
        """Close the connection; calls in flight fail."""
        ...
