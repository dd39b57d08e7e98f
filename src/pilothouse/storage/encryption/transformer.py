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
        super().__init__("the key has to be asked for")
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
        began = time.perf_counter()
        errors: list[TransformError] = []
        for at, each in enumerate(self._transformers):
            if not data.startswith(each.prefix):
                continue
            error = None
            try:
                found, stale = each.transformer.from_storage(data[len(each.prefix) :], context)
            except TransformError as failure:
                if not each.prefix:
                    continue  # identity, listed before a provider that is being removed
                error = failure
            name = each.name or "identity"
            self._record(context.resource, "from_storage", name, time.perf_counter() - began, error)
            if error is None:
                return found, stale or at > 0
            errors.append(error)
        if errors:
            raise combined(errors)
        missing = TransformError(self._no_match)
        self._record(context.resource, "from_storage", "unknown", time.perf_counter() - began, missing)
        raise missing

    def to_storage(self, data: bytes, context: Context) -> bytes:
        """Encrypt with the first transformer, and add its prefix."""
        began = time.perf_counter()
        first = self._transformers[0]
        try:
            written = first.transformer.to_storage(data, context)
        except TransformError as error:
            self._record(context.resource, "to_storage", first.name, time.perf_counter() - began, error)
            _log.error("failed to encrypt data", error=error, resource=context.resource)
            raise
        self._record(context.resource, "to_storage", first.name, time.perf_counter() - began, None)
        return first.prefix + written


def combined(errors: Iterable[TransformError]) -> TransformError:
    """Several errors as one (``utilerrors.Reduce`` of an aggregate): each text once, in brackets if there are several.
    It is temporary if one of them is."""
    found = {str(error): error for error in errors}
    if len(found) == 1:
        return next(iter(found.values()))
    code = next((error.code for error in found.values() if error.may_pass), NO_GRPC)
    return TransformError(f"[{', '.join(found)}]", code)
