"""The messages between a server and the process of its connection to etcd, whose payloads are messages of gRPC.

A frame has all messages of one iteration of the event loop, as MessagePack.
"""

import msgspec

from pilothouse.storage.etcd.grpc_channel import Target


class OpenChannel(msgspec.Struct, frozen=True, array_like=True, tag="channel", gc=False):
    """Connect to a member; calls refer to the connection by its number."""

    channel: int
    target: Target


class CloseChannel(msgspec.Struct, frozen=True, array_like=True, tag="close", gc=False):
    """Close a connection when its calls have ended, or after ``grace`` seconds."""

    channel: int
    grace: float | None


class Call(msgspec.Struct, frozen=True, array_like=True, tag="call", gc=False):
    """A unary call."""

    id: int
    channel: int
    method: str
    payload: bytes
    timeout: float


class OpenStream(msgspec.Struct, frozen=True, array_like=True, tag="stream", gc=False):
    """A call with a stream in both directions."""

    id: int
    channel: int
    method: str
    metadata: tuple[tuple[str, str], ...]


class Write(msgspec.Struct, frozen=True, array_like=True, tag="write", gc=False):
    """A message for etcd on a stream, which ``Written`` confirms."""

    id: int
    payload: bytes


class Taken(msgspec.Struct, frozen=True, array_like=True, tag="taken", gc=False):
    """So many bytes of a stream were read, so that as many can follow."""

    id: int
    size: int


class Cancel(msgspec.Struct, frozen=True, array_like=True, tag="cancel", gc=False):
    """Nobody waits for a call any more."""

    id: int


class Answer(msgspec.Struct, frozen=True, array_like=True, tag="answer", gc=False):
    """The response to a unary call."""

    id: int
    payload: bytes


class Written(msgspec.Struct, frozen=True, array_like=True, tag="written", gc=False):
    """The oldest unconfirmed ``Write`` of a stream was sent."""

    id: int


class Received(msgspec.Struct, frozen=True, array_like=True, tag="received", gc=False):
    """A message of etcd on a stream."""

    id: int
    payload: bytes


class Ended(msgspec.Struct, frozen=True, array_like=True, tag="ended", gc=False):
    """A call has failed, or a stream has ended, with this status of gRPC; its ``OK`` ends a stream only."""

    id: int
    code: str
    details: str


ToConnection = OpenChannel | CloseChannel | Call | OpenStream | Write | Taken | Cancel
FromConnection = Answer | Written | Received | Ended
