"""Small parts of a request: headers encoded once, the fence, paths and queries, bodies.

``Client`` builds requests with these; ``RemoteTransport`` uses two of them for optimizations (prepared headers) and a
late check (fence).
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from pilothouse.api import wire
from pilothouse.api.kinds import Kind


class NewObject(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Base of structs that are only ever written: a new object, declared field by field.

    Not a view: the JSON of an object may have more fields than a view.
    """


Body = msgspec.Raw | bytes | Mapping[str, Any] | NewObject
"""The accepted forms of a new object."""


class FixedHeaders(dict[str, str]):
    """Headers that do not change, with their encoded HTTP/1.1 form.

    Encoding the same six headers again for every request would cost more than sending it.
    """

    __slots__ = ("block",)

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__(headers)
        self.block = encode_headers(headers)


def encode_headers(headers: Mapping[str, str]) -> bytes:
    """The encoded header lines. Rejects line breaks, which would start another header."""
    block = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    if block.count("\r") != len(headers) or block.count("\n") != len(headers):
        raise ValueError("a header name or value contains a line break")
    return block.encode("latin-1")


class FencedRequest(wire.Request, frozen=True, gc=False):
    """A write whose fence is checked again when a connection is available.

    It may have waited for the connection, and the program may no longer be the leader. ``fence`` raises to prevent it.
    """

    fence: Callable[[], None] | None = None


_plain_segment = re.compile(r"[A-Za-z0-9._:~-]+").fullmatch


def invalid_name(name: str) -> str:
    """Why no object has this name, which would change the meaning of the path (client-go ``rest/request.go``, v0.36);
    empty if the server decides."""
    if name in {".", ".."}:
        return "may not be '.' or '..'"
    character = next((character for character in "/%" if character in name), "")
    return f"may not contain {character!r}" if character else ""


def _segment(name: str) -> str:
    if _plain_segment(name) is not None and name not in {".", ".."}:
        return name
    if reason := invalid_name(name):
        raise ValueError(f"invalid resource name {name!r}: {reason}")
    return quote(name, safe=":")


def _check_kind(kind: object) -> None:
    """Raise ``TypeError`` for anything else in the place of a kind, such as the CustomResource that has it."""
    if not isinstance(kind, Kind):
        raise TypeError(
            "a kind is a Kind, such as pilothouse.api.core.CONFIG_MAPS, and that of a CustomResource is its .kind; got "
            f"{kind!r}"
        )


@lru_cache(maxsize=1024)
def collection_path(kind: Kind[Any], namespace: str) -> str:
    """The path of all objects of a kind, in a namespace or everywhere."""
    _check_kind(kind)
    prefix = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if namespace and kind.namespaced:
        return f"{prefix}/namespaces/{_segment(namespace)}/{kind.resource}"
    return f"{prefix}/{kind.resource}"


def creation_path(kind: Kind[Any], namespace: str) -> str:
    """The path to which new objects are posted. A namespaced kind requires a namespace."""
    _check_kind(kind)
    if kind.namespaced and not namespace:
        raise ValueError(f"creating {kind.group_resource}: an empty namespace may not be set during creation")
    return collection_path(kind, namespace)


@lru_cache(maxsize=4096)
def object_path(kind: Kind[Any], namespace: str, name: str, subresource: str = "") -> str:
    """The path of one object. Rejects names that the server would interpret differently, such as an empty one."""
    _check_kind(kind)
    if not name:
        raise ValueError(f"{kind.group_resource}: resource name may not be empty")
    if kind.namespaced and not namespace:
        raise ValueError(
            f"{kind.group_resource} {name!r}: an empty namespace may not be set when a resource name is provided"
        )
    path = f"{collection_path(kind, namespace)}/{_segment(name)}"
    return f"{path}/{subresource}" if subresource else path


def with_query(path: str, **parameters: str | int | bool | None) -> str:
    """The path with the parameters that are not "", 0, False or None; ``continue_`` loses its underscore."""
    pairs = [
        f"{name.removesuffix('_')}={'true' if value is True else _quoted(str(value))}"
        for name, value in parameters.items()
        if value
    ]
    return f"{path}?{'&'.join(pairs)}" if pairs else path


def _quoted(value: str) -> str:
    return value if _plain_value(value) is not None else _quoted_value(value)


_plain_value = re.compile(r"[A-Za-z0-9._~-]*").fullmatch
_quoted_value = lru_cache(maxsize=64)(quote_plus)  # field managers and selectors are the same for each request


def encode_body(body: Body) -> bytes:
    """JSON as it is sent."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, msgspec.Raw):
        return bytes(body)
    return msgspec.json.encode(body)


class _Preconditions(NewObject, frozen=True):
    uid: str = ""
    resource_version: str = ""


class _DeleteOptions(NewObject, frozen=True, tag_field="kind", tag="DeleteOptions"):
    api_version: str
    grace_period_seconds: int | None = None
    preconditions: _Preconditions | None = None
    propagation_policy: str = ""
    dry_run: tuple[str, ...] = ()


def delete_options(
    *, uid: str, resource_version: str, propagation_policy: str, grace_period_seconds: int | None, dry_run: bool
) -> bytes:
    """The body of a DELETE."""
    return msgspec.json.encode(
        _DeleteOptions(
            api_version="v1",
            grace_period_seconds=grace_period_seconds,
            preconditions=_Preconditions(uid=uid, resource_version=resource_version)
            if uid or resource_version
            else None,
            propagation_policy=propagation_policy,
            dry_run=("All",) if dry_run else (),
        )
    )
