"""The interface of a provider of encryption, and the choice between several by the prefix of the stored value.

After apiserver's ``pkg/storage/value/transformer.go`` (v0.36).
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from pilothouse.env import Log
from pilothouse.storage.errors import StoreUnavailable

NO_GRPC = "unknown-non-grpc"
"""The status in metrics of a failure without a call."""

_log = Log("encryption")


class TransformError(StoreUnavailable):
    """A value cannot be encrypted or decrypted; with upstream's message. ``code`` is that of gRPC if a call failed."""

    def __init__(self, message: str, code: str = NO_GRPC) -> None:
        super().__init__(message)
        self.code = code

    @property
    def may_pass(self) -> bool:
        """Whether a retry may succeed without another configuration."""
        return self.code != NO_GRPC


class KeyNeeded(Exception):
    """A value cannot be decrypted before its key was requested. ``fetch`` and ``fetch_blocking`` do that, and never
    fail: decrypt the value again, which raises the error."""

    def __init__(self, fetch: Callable[[], Awaitable[None]], fetch_blocking: Callable[[], None]) -> None:
        super().__init__("the key must be requested from the plugin first")
        self.fetch = fetch
        self.fetch_blocking = fetch_blocking


class Context(msgspec.Struct, frozen=True):
    """The context of a value (``value.Context``)."""

    authenticated_data: bytes
    """The key in etcd: most providers authenticate it with the value."""
    resource: str = ""
    """``secrets``, ``deployments.apps``: for metrics."""


class Read(Protocol):
    """Decrypts."""

    def from_storage(self, data: bytes, context: Context) -> tuple[bytes, bool]:
        """Decrypt a value; also returns whether it is stale, to be written again even without changes. Raises
        ``TransformError``, ``KeyNeeded``."""
        ...


class Transformer(Read, Protocol):
    """Encrypts and decrypts."""

    def to_storage(self, data: bytes, context: Context) -> bytes:
        """The value to store. Raises ``TransformError``."""
        ...


class Record(Protocol):
    """Called for each transformation: ``from_storage`` or ``to_storage``, the prefix, seconds, and the error."""

    def __call__(self, resource: str, kind: str, prefix: str, seconds: float, error: TransformError | None) -> None: ...


class PrefixTransformer(msgspec.Struct, frozen=True):
    """A provider, or a key of one, and the prefix of everything that it has written."""

    prefix: bytes
    transformer: Transformer

    @property
    def name(self) -> str:
        """The prefix for metrics and logs."""
        return self.prefix.decode(errors="replace")


class PrefixTransformers:
    """Writes with the first of several transformers and reads with any. A value that was written by another one than
    the first is stale."""

    def __init__(self, no_match: str, transformers: Sequence[PrefixTransformer], record: Record) -> None:
        """``no_match`` is the error for a value without any of the prefixes."""
        self._no_match = no_match
        self._transformers = tuple(transformers)
        self._record = record

    def from_storage(self, data: bytes, context: Context) -> tuple[bytes, bool]:
        """Decrypt a value; also returns whether it is stale. Several transformers may have the same prefix, during a
        key rotation. So the next one is tried after a failure."""
        start = time.perf_counter()
        errors: list[TransformError] = []
        for index, transformer in enumerate(self._transformers):
            if not data.startswith(transformer.prefix):
                continue
            error = None
            try:
                value, stale = transformer.transformer.from_storage(data[len(transformer.prefix) :], context)
            except TransformError as failure:
                if not transformer.prefix:
                    continue  # identity, listed before a provider that is being removed
                error = failure
            name = transformer.name or "identity"
            self._record(context.resource, "from_storage", name, time.perf_counter() - start, error)
            if error is None:
                return value, stale or index > 0
            errors.append(error)
        if errors:
            raise combined(errors)
        missing = TransformError(self._no_match)
        self._record(context.resource, "from_storage", "unknown", time.perf_counter() - start, missing)
        raise missing

    def to_storage(self, data: bytes, context: Context) -> bytes:
        """Encrypt with the first transformer, and add its prefix."""
        start = time.perf_counter()
        transformer = self._transformers[0]
        try:
            result = transformer.transformer.to_storage(data, context)
        except TransformError as error:
            self._record(context.resource, "to_storage", transformer.name, time.perf_counter() - start, error)
            _log.error("failed to encrypt data", error=error, resource=context.resource)
            raise
        self._record(context.resource, "to_storage", transformer.name, time.perf_counter() - start, None)
        return transformer.prefix + result


def combined(errors: Iterable[TransformError]) -> TransformError:
    """Several errors as one (``utilerrors.Reduce`` of an aggregate): each text once, in brackets if there are several.
    It is temporary if one of them is."""
    by_message = {str(error): error for error in errors}
    if len(by_message) == 1:
        return next(iter(by_message.values()))
    code = next((error.code for error in by_message.values() if error.may_pass), NO_GRPC)
    return TransformError(f"[{', '.join(by_message)}]", code)
