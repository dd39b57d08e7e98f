"""Connections of gRPC to members of etcd."""

import asyncio
from typing import Any

import grpc
import grpc.aio
import msgspec

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # As upstream's client (``pkg/storage/storagebackend/factory/etcd3.go``, v0.36): a dead peer is noticed in time.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
)
CLOSED = "the connection was closed, since another request had failed"


class Target(msgspec.Struct, frozen=True, array_like=True):
    """A member, and how to connect to it."""

    address: str
    """``host:port``."""
    secure: bool
    ca_file: str
    cert_file: str
    key_file: str


def is_being_cancelled() -> bool:
    """Whether a ``CancelledError`` is for this task. gRPC also raises it in tasks that wait for a connection that
    another request has closed because its member had failed."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def open_channel(target: Target) -> Any:
    """A ``grpc.aio.Channel``, which connects when it is used."""
    if target.secure:
        return grpc.aio.secure_channel(target.address, _credentials(target), options=CHANNEL_OPTIONS)
    return grpc.aio.insecure_channel(target.address, options=CHANNEL_OPTIONS)


def open_blocking_channel(target: Target) -> grpc.Channel:
    """The same for callers without an event loop."""
    if target.secure:
        return grpc.secure_channel(target.address, _credentials(target), options=CHANNEL_OPTIONS)
    return grpc.insecure_channel(target.address, options=CHANNEL_OPTIONS)


def _credentials(target: Target) -> Any:
    def read(path: str) -> bytes | None:
        if not path:
            return None
        with open(path, "rb") as file:
            return file.read()

    return grpc.ssl_channel_credentials(read(target.ca_file), read(target.key_file), read(target.cert_file))
