"""Encodes objects as kube-apiserver v1.36 stores them, and decodes what v1.20 to v1.36 have stored.

Built-in kinds are protobuf messages of the storage version after ``k8s\\0`` and the name of their type. Definitions and
APIServices are JSON in the order of their Go structs, custom resources JSON with sorted keys, as ``encoding/json``
writes both. An object in etcd has no resourceVersion, which is its revision (apiserver ``pkg/storage/etcd3/store.go``,
``PrepareObjectForStorage``, v0.36).
"""

import re
from functools import cache
from typing import Any

import msgspec

from pilothouse.api.schema import definition_of
from pilothouse.apiserver.objects import Object, encode_object, ordered_metadata, with_revision
from pilothouse.apiserver.registry import registration_of
from pilothouse.apiserver.resources import BEHIND_GATES, ResourceInfo, built_in
from pilothouse.apiserver.serializers import protobuf
from pilothouse.apiserver.serializers.protobuf_decoding import ProtobufError, decode_with_zero_values
from pilothouse.apiserver.serializers.protobuf_encoding import marshal, marshal_members
from pilothouse.apiserver.serializers.protobuf_table import message_of, older_table
from pilothouse.apiserver.storage_codec import definitions
from pilothouse.apiserver.storage_codec.keys import NO_RESOURCES
from pilothouse.apiserver.storage_codec.older_versions import CONVERSIONS
from pilothouse.machinery.bodies import DecodeError, decode_body

_AS_JSON = frozenset({"apiextensions.k8s.io", "apiregistration.k8s.io"})
"""Groups whose types have a protobuf form but are stored as JSON: their servers use another serializer
(apiextensions-apiserver and kube-aggregator, v1.36)."""
_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_PLAIN = re.compile(r'[^"\\\x00-\x1f\x7f]*').fullmatch
_BEFORE_REVISION = ("name", "generateName", "namespace", "uid")
"""The bytes before the resourceVersion in a stored object; nothing before them may need escaping
(``apiserver.objects``)."""


_UNDECODABLE = (
    ProtobufError,
    DecodeError,
    msgspec.DecodeError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)


class CodecError(ValueError):
    """The value is not an object of the key's resource."""


class ObjectCodec:
    """Converts between the objects of this server and bytes in etcd. Built-in resources are recognized by their keys;
    all others are custom ones."""

    def __init__(self) -> None:
        self.older: dict[str, str] = {}
        """By group and resource: the last version of a decoded object that is not the version that it has in memory."""

    def encode(self, key: str, value: bytes) -> bytes:
        """The bytes in etcd for an object in this server's form."""
        info = None if key.startswith(NO_RESOURCES) else _storage_version_of_key(key)
        if info is not None and info.group not in _AS_JSON:
            return _encode_built_in(info, value)
        obj = _decode(value)
        obj["metadata"].pop("resourceVersion", None)
        if key.startswith(NO_RESOURCES):
            kind = obj["kind"]
            return protobuf.envelope("v1", kind, marshal(_message("v1", kind), obj))
        if info is None:
            return _as_go_json(_encode_sorted(obj))
        return _as_go_json(_encode(definitions.to_v1beta1(obj) if info.kind == "CustomResourceDefinition" else obj))

    def decode(self, key: str, data: bytes, revision: int) -> bytes:
        """The object in this server's form, with the revision as its resource version. Raises ``CodecError``."""
        try:
            return self._decode(key, data, revision)
        except _UNDECODABLE as error:
            raise CodecError(f"{key} can't be decoded: {error}") from error

    def with_revision(self, value: bytes, old: int, new: int) -> bytes:
        """An object in this server's form with another resource version."""
        return with_revision(value, old, new)

    def _decode(self, key: str, data: bytes, revision: int) -> bytes:
        in_protobuf = data.startswith(protobuf.MAGIC)
        obj = _from_envelope(data) if in_protobuf else _decode(data)
        if key.startswith(NO_RESOURCES):
            return _encode({**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}})
        info = _storage_version_of_key(key)
        if info is not None:
            api_version = obj["apiVersion"]
            obj = _in_storage_version(info, key, obj)
            if api_version != info.api_version:
                self.older[f"{info.group}/{info.resource}"] = api_version
            obj["kind"], obj["apiVersion"] = info.kind, info.api_version
            if not in_protobuf:
                # Go also decodes JSON to its types, which readers of stored objects rely on.
                decode_body(_encode(obj), definition_of(info.group, info.version, info.kind))
            # Upstream applies defaults of the storage version when it decodes (``runtime.NewCodec`` with a defaulter),
            # for fields that an older release has left unset.
            registration_of(info.group, info.resource).strategy.set_defaults(obj)
        metadata: Object = obj["metadata"]
        _check_metadata(key, metadata)
        metadata["resourceVersion"] = str(revision)
        if info is not None:
            return encode_object(info, obj)
        document = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": ordered_metadata(metadata)}
        return _encode(document | {name: value for name, value in obj.items() if name not in document})


def _encode_built_in(info: ResourceInfo, value: bytes) -> bytes:
    members = _decode_members(value)
    metadata, kind = _decode(members["metadata"]), _decode_text(members["kind"])
    metadata.pop("resourceVersion", None)
    declared = registration_of(info.group, info.resource).storage_version
    api_version = f"{info.group}/{declared}" if declared else _decode_text(members["apiVersion"])
    return protobuf.envelope(api_version, kind, marshal_members(_message(api_version, kind), metadata, members))


def _from_envelope(data: bytes) -> Object:
    api_version, kind, raw = protobuf.read_envelope(data)
    return {"kind": kind, "apiVersion": api_version, **decode_with_zero_values(_message(api_version, kind), raw)}


def _message(api_version: str, kind: str) -> str:
    message = message_of(api_version, kind) or older_table().kinds.get(f"{api_version} {kind}")
    if message is None:
        raise CodecError(f'no kind "{kind}" is known in version "{api_version}"')
    return message


def _check_metadata(key: str, metadata: Object) -> None:
    for field in _BEFORE_REVISION:
        text = metadata.get(field) or ""
        if type(text) is not str or not _PLAIN(text):
            raise CodecError(f"{key} has an invalid metadata.{field}: {str(text)[:80]!r}")
    if not metadata.get("uid"):
        raise CodecError(f"{key} has no uid")


def _in_storage_version(info: ResourceInfo, key: str, obj: Object) -> Object:
    """The object in this server's storage version, without kind and apiVersion."""
    group, _, version = obj.pop("apiVersion").rpartition("/")
    kind = obj.pop("kind")
    if kind != info.kind:
        raise CodecError(f"{key} is a {kind} and not a {info.kind}")
    if (group, version) == (info.group, info.version):
        return obj
    declared = registration_of(info.group, info.resource).storage_version
    if group == info.group and version == declared:
        return obj
    served = _built_in_by_kind().get((group, version, info.kind))
    if served is not None:
        stored: Object = registration_of(group, served.resource).strategy.to_storage(served, obj)
        return stored
    if f"{group}/{version}" == definitions.API_VERSION:
        return definitions.from_v1beta1(obj)
    convert = CONVERSIONS.get((group, version, info.resource))
    if convert is None:
        raise CodecError(f"{key} is in version {group}/{version}, which is not known")
    return _plain(convert(obj))


def _plain(obj: Object) -> Object:
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    return obj


@cache
def _built_in_by_kind() -> dict[tuple[str, str, str], ResourceInfo]:
    """The built-in resources by group, version and kind."""
    return {(info.group, info.version, info.kind): info for info in built_in()}


@cache
def _storage_versions() -> dict[tuple[str, str], ResourceInfo]:
    """The storage version of each built-in resource here, by group and resource of its keys."""
    by_resource: dict[tuple[str, str], ResourceInfo] = {}
    for info in (*built_in(), *(info for infos in BEHIND_GATES.values() for info in infos)):
        stored = registration_of(info.group, info.resource).strategy.stored_as(info)
        group, resource, _ = stored.prefix.split("/")
        by_resource[group, resource] = stored
    return by_resource


def _storage_version_of_key(key: str) -> ResourceInfo | None:
    group, resource, _rest = key.split("/", 2)
    return _storage_versions().get((group, resource))


_ESCAPED: tuple[tuple[bytes, bytes], ...] = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)
"""They are only found in JSON inside of strings."""


def _as_go_json(text: bytes) -> bytes:
    """JSON as Go's ``Encoder`` writes it: HTML-escaped, with a line end."""
    for character, escaped in _ESCAPED:
        text = text.replace(character, escaped)
    return text + b"\n"
