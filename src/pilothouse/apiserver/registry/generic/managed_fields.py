"""Updates ``managedFields`` of objects on writes (apimachinery ``pkg/util/managedfields``).

``FieldManager`` has, for every resource and subresource, the types for comparing objects and the reset fields; the
rules are in ``machinery.managed_fields``. Writes of all kinds are tracked, as upstream. Within the server the encoded
entries are kept apart from the object, or in its metadata as ``msgspec.Raw``: only this module decodes them.
"""

from functools import lru_cache
from typing import Any, Protocol

import msgspec

from pilothouse.api.packaged import packaged
from pilothouse.apiserver import errors
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.objects import Object, Timestamps, decode, encode_object
from pilothouse.apiserver.options import WriteOptions
from pilothouse.apiserver.registry.generic.conversions import ConversionNeeded, converted
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.resources import ResourceInfo, ResourceTable
from pilothouse.env import Log
from pilothouse.machinery import field_sets, managed_fields, merge_types, scale_fields
from pilothouse.machinery.apply import ApplyConflicts, ConversionFailed, Versions
from pilothouse.machinery.bounded_cache import bounded_cache
from pilothouse.machinery.deep_equal import with_distinct_booleans
from pilothouse.machinery.field_sets import FieldSet
from pilothouse.machinery.field_walks import ItemError, all_errors, error_text
from pilothouse.machinery.managed_fields import Entries, Writer
from pilothouse.machinery.merge_types import MergeType

_log = Log("apiserver")
SERVER = "kube-apiserver"
"""The manager of the server's own writes."""
_NOT_SENT: Any = object()
_FIELDS_TYPE_KEY = b'"fieldsType"'
_MAX_TRACKERS = 1024
_MAX_CREATED_FIELDS = 512
_MAX_CREATED_BODY = 16 * 1024
_MAX_SIZES = 4096
_MAX_REMEMBERED_VALUE = 16 * 1024
_MAX_NAME = 128


# Splitting the entries from stored objects --------------------------------------------------------------------------


class _Meta(msgspec.Struct, gc=False):
    managedFields: msgspec.Raw = msgspec.Raw(b"")  # noqa: N815  # as on the wire


class _Head(msgspec.Struct, gc=False):
    metadata: _Meta


_read_head = msgspec.json.Decoder(_Head).decode
_KEY = b',"managedFields":'
_ENTRIES_START = _KEY + b"["
"""The start of the entries. A label or annotation with this name has a string as value."""


def split_managed_fields(value: bytes) -> tuple[bytes, bytes]:
    """A stored object without its managedFields, and the encoded managedFields (empty if there are none).

    Most writes need only some entries or none, so they are not decoded with the object.
    """
    size = _sizes.get(value)
    if size is None:
        if _ENTRIES_START not in value:
            return value, b""
        try:
            size = len(_read_head(value).metadata.managedFields)
        except msgspec.DecodeError:
            return value, b""  # the decoder of the object reports the error
        if not size:
            return value, b""
    # The first occurrence is ``metadata.managedFields``: no field before it in the metadata can have a key of this name
    # with a list as value.
    start = value.find(_ENTRIES_START)
    entries = start + len(_KEY)
    end = entries + size
    return value[:start] + value[end:], value[entries:end]


def remember_size(value: bytes, metadata: Object) -> None:
    """Remember the size of the managedFields of an object that is stored as ``value``, so that the next
    ``split_managed_fields`` need not parse it."""
    entries = metadata.get("managedFields")
    if isinstance(entries, msgspec.Raw):
        _remember_size(value, len(entries))


def _remember_size(value: bytes, size: int) -> None:
    if len(value) <= _MAX_REMEMBERED_VALUE:
        if len(_sizes) >= _MAX_SIZES:
            _sizes.clear()
        _sizes[value] = size


def without_unchanged_managed_fields(body: bytes, value: bytes) -> bytes:
    """A request body without its managedFields if they are equal to those of the stored object.

    Most clients send back the managedFields of the latest version, which then need not be decoded.
    """
    start = body.find(_ENTRIES_START)
    if start < 0:
        return body
    try:
        sent = bytes(_read_head(body).metadata.managedFields)
    except msgspec.DecodeError:
        return body
    size = len(_KEY) + len(sent)
    stored_start = value.find(_ENTRIES_START)
    if not sent or not body.startswith(sent, start + len(_KEY)) or not value.startswith(sent, stored_start + len(_KEY)):
        return body
    _remember_size(value, len(sent))
    return body[:start] + body[start + size :]


_sizes: dict[bytes, int] = {}
"""Recently stored object → size of its managedFields."""


# Managers -----------------------------------------------------------------------------------------------------------


@bounded_cache(1024)
def _prefix_from_user_agent(agent: str) -> str:
    """The manager without ``fieldManager``: the User-Agent up to the first slash (``prefixFromUserAgent``)."""
    name = agent.partition("/")[0]
    truncated = name.encode()[:_MAX_NAME].decode("utf-8", "ignore")
    return "".join(char for char in truncated if char.isprintable())


def manager_or_user_agent(call: Call, options: WriteOptions) -> str:
    """The manager of a request (``managerOrUserAgent``)."""
    return options.field_manager or _prefix_from_user_agent(call.request.headers.get("user-agent", ""))


# Reset fields -------------------------------------------------------------------------------------------------------

_STATUS = field_sets.of_paths(("f:status",))
_SPEC = field_sets.of_paths(("f:spec",))
_RESET_BY_STATUS: dict[str, FieldSet] = {
    "spec": _SPEC,
    "labels": field_sets.of_paths(("f:spec",), ("f:metadata", "f:labels")),
    "user metadata": field_sets.of_paths(("f:spec",), ("f:metadata",)),
    "metadata": field_sets.of_paths(("f:spec",), ("f:metadata",)),
    "pod": field_sets.of_paths(("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")),
}
_CONTAINERS = ("f:containers", "f:initContainers")


def _filter_pod_resize(fields: FieldSet, _version: str) -> FieldSet:
    """The fields that a write to pods/resize owns: resources and resize policies of containers."""
    spec: FieldSet = {}
    for list_name in _CONTAINERS:
        containers = {}
        for name, container_fields in fields.get("f:spec", {}).get(list_name, {}).items():
            owned_fields = {
                field: container_fields[field]
                for field in ("f:resources", "f:resizePolicy")
                if field in container_fields
            }
            if owned_fields:
                containers[name] = owned_fields
        if containers:
            spec[list_name] = containers
    return {"f:spec": spec} if spec else {}


def _filter_ephemeral_containers(fields: FieldSet, _version: str) -> FieldSet:
    containers = fields.get("f:spec", {}).get("f:ephemeralContainers")
    return {} if containers is None else {"f:spec": {"f:ephemeralContainers": containers}}


# Trackers -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _zero_objects() -> dict[str, Object]:
    return msgspec.json.decode(packaged("apiserver/data/zero_objects.json"), type=dict[str, Object])


class Server(Protocol):
    """The parts of ``core.Core`` that this module uses."""

    table: ResourceTable
    time: Timestamps

    def strategy(self, info: ResourceInfo) -> Strategy: ...

    def from_storage_nowait(self, info: ResourceInfo, value: bytes) -> bytes:
        """A stored object in the version of ``info``."""
        ...


class Tracker:
    """Types, conversions and reset fields of one resource or subresource."""

    def __init__(self, core: Server, info: ResourceInfo, subresource: str) -> None:
        self._core = core
        self.info = info
        self.subresource = subresource
        self.zero: Object = {"apiVersion": info.api_version, "kind": info.kind}
        if info.custom is None:
            self.zero |= _zero_objects().get(f"{info.group}/{info.version}/{info.kind}", {})
        # Entries stored by an older release of this server are read at the next apply.
        self.versions = Versions(info.api_version, self._type_of, self._convert, fixed=info.custom is None)
        self._types: dict[str, MergeType | None] = {}
        self._reset = self._reset_fields()
        self.skip = frozenset(name[2:] for name, children in self._reset.items() if not children)
        """Top-level fields that are reset completely, and need not be compared."""
        self._filter = {"resize": _filter_pod_resize, "ephemeralcontainers": _filter_ephemeral_containers}.get(
            subresource
        )
        if info.resource != "pods" or info.group:
            self._filter = None

    @property
    def type(self) -> MergeType:
        merge_type = self._type_of(self.info.api_version)
        assert merge_type is not None, "every served version has a type"
        return merge_type

    def _reset_fields(self) -> FieldSet:
        info, strategy = self.info, self._core.strategy(self.info)
        if self.subresource in strategy.reset_fields:
            return field_sets.of_paths(*strategy.reset_fields[self.subresource])
        if self.subresource == "status":
            return _RESET_BY_STATUS[strategy.kept_on_status_update]
        return _STATUS if "status" in info.subresources else field_sets.NOTHING

    def invalid_reset_fields(self, obj: Object) -> str:
        """The errors of fields of a custom object that have a wrong type, and which nothing else validates because its
        strategy resets them. Upstream stores such an object without managed fields (``UpdateNoErrors``, v1.36)."""
        if self.info.custom is None:
            return ""
        reset = {name: obj[name] for name in self.skip if name in obj and name != "metadata"}
        invalid = all_errors(reset, self.type, duplicates=True) if reset else []
        return error_text(invalid) if invalid else ""

    def filter_fields(self, fields: FieldSet, version: str) -> FieldSet:
        """Remove the fields that writes to this resource or subresource never own."""
        if self._filter is not None:
            return self._filter(fields, version)
        return field_sets.recursive_difference(fields, self._reset)

    def _version(self, version: str) -> ResourceInfo | None:
        """A version of the resource; for custom resources also one that is not served."""
        group, _slash, name = version.rpartition("/")
        served = self._core.table.find(group, name, self.info.resource)
        if served is None and self.info.custom is not None:
            unserved: ResourceInfo | None = self.info.custom.versions.get(version)
            return unserved
        return served

    def _type_of(self, version: str) -> MergeType | None:
        if version in self._types:
            return self._types[version]
        info = self.info if version == self.info.api_version else self._version(version)
        merge_type: MergeType | None = None
        if info is not None:
            if info.custom is not None:
                merge_type = merge_types.of_structural(info.custom.openapi)
            else:
                merge_type = merge_types.of_kind(info.group, info.version, info.kind)
        self._types[version] = merge_type
        return merge_type

    def _convert(self, obj: Object, source: str, target: str) -> Object:
        target_info, source_info = self._version(target), self._version(source)
        assert target_info is not None, "the target version has a type"
        assert source_info is not None, "the source version has a type"
        if target_info.custom is not None:
            return self._convert_custom({**obj, "apiVersion": source}, target_info)
        strategy = self._core.strategy(source_info)
        with_metadata = {**obj, "metadata": {"name": "", **(obj.get("metadata") or {})}}
        stored = encode_object(strategy.stored_as(source_info), strategy.to_storage(source_info, with_metadata))
        return decode(self._core.from_storage_nowait(target_info, stored))

    def _convert_custom(self, obj: Object, target: ResourceInfo) -> Object:
        if target.custom.converter is None:
            return {**obj, "apiVersion": target.api_version}
        # Through the version of the request, as upstream (``newCRDVersionConverter``).
        for target_version in (self.info, target):
            if obj["apiVersion"] != target_version.api_version:
                obj = converted(obj, target_version)
        return obj


class FieldManager:
    """Computes managed fields for the writes of one server."""

    def __init__(self, core: Server) -> None:
        self._core = core
        self._trackers: dict[tuple[ResourceInfo, str], Tracker] = {}
        self._created_fields: dict[tuple[ResourceInfo, str, bytes], msgspec.Raw] = {}
        core.table.on_change(self._invalidate)

    def _invalidate(self) -> None:
        # CustomResourceDefinitions have changed, and with them types and versions.
        self._trackers.clear()

    def tracker(self, info: ResourceInfo, subresource: str = "") -> Tracker:
        tracker = self._trackers.get((info, subresource))
        if tracker is None:
            if len(self._trackers) >= _MAX_TRACKERS:
                self._trackers.clear()
            tracker = self._trackers[info, subresource] = Tracker(self._core, info, subresource)
        return tracker

    def update_on_create(self, call: Call, obj: Object, options: WriteOptions, sent: Any = None) -> None:
        """Set the managed fields of a new object: its manager owns all of its fields. ``sent`` are the managedFields of
        the request body."""
        info = call.info
        tracker = self.tracker(info)
        call.untracked = tracker.invalid_reset_fields(obj)
        if call.untracked:
            return
        sent_entries = (
            None if not sent or managed_fields.is_reset(sent) else managed_fields.read_entries(_decoded(sent))
        )
        if sent_entries:
            live, writer = tracker.zero, Writer(manager_or_user_agent(call, options), info.api_version)
            try:
                entries = managed_fields.update_entries(
                    sent_entries, live, obj, tracker.versions, tracker.filter_fields, writer, self._core.time.now
                )
            except ConversionFailed as error:
                call.untracked = str(error)
                return
            set_managed_fields(obj, managed_fields.encode_entries(entries) if entries else b"")
            return
        key = self._created_fields_key(call, obj)
        fields = self._created_fields.get(key) if key is not None else None
        if fields is None:
            try:
                new = call.strategy.round_tripped(obj)
                field_set = managed_fields.created_fields(tracker.zero, new, tracker.versions, tracker.filter_fields)
            except ItemError:
                return  # upstream logs the error and sets none (managedfields/internal/fieldmanager.go, v1.36)
            fields = msgspec.Raw(field_sets.encode_fields(field_set))
            if key is not None:
                if len(self._created_fields) >= _MAX_CREATED_FIELDS:
                    self._created_fields.clear()
                self._created_fields[key] = fields
        if len(fields) <= 2:
            return
        entry = managed_fields.Entry(
            manager_or_user_agent(call, options) or "unknown",
            "Update",
            info.api_version,
            self._core.time.now(),
            "FieldsV1",
            fields,
        )
        set_managed_fields(obj, managed_fields.encode_entries([entry]))

    def update_review(self, call: Call, review: Object, options: WriteOptions) -> None:
        """Set the managed fields of a review, which is returned but not stored."""
        api_version: str = review["apiVersion"]
        group, _slash, version = api_version.rpartition("/")
        type_ = merge_types.of_kind(group, version, review["kind"])
        versions = Versions(api_version, lambda _version: type_, lambda obj, _source, _target: obj)
        zero = _zero_objects().get(f"{group}/{version}/{review['kind']}", {})
        field_set = managed_fields.created_fields(zero, review, versions, _keep_all_fields)
        if field_set:
            fields = msgspec.Raw(field_sets.encode_fields(field_set))
            manager, now = manager_or_user_agent(call, options) or "unknown", self._core.time.now()
            entry = managed_fields.Entry(
                manager, "Update", api_version, now, "FieldsV1", fields, call.request_info.subresource
            )
            set_managed_fields(review, managed_fields.encode_entries([entry]))

    def _created_fields_key(self, call: Call, obj: Object) -> tuple[ResourceInfo, str, bytes] | None:
        """The cache key for the fields of a new object: its body without its name.

        Controllers create many objects from one template. Names are not owned, so bodies that differ only in the name
        have the same fields. A body in which the name occurs more than once is not cached: it may be part of a field.
        """
        body = call.request.body
        if call.request_info.subresource or len(body) > _MAX_CREATED_BODY:
            return None
        name: str = obj["metadata"].get("name") or ""
        if name:
            encoded_name = name.encode()
            if body.count(encoded_name) != 1:
                return None
            body = body.replace(encoded_name, b"")
        return call.info, call.content_type, body

    def update_on_server_create(self, info: ResourceInfo, obj: Object) -> None:
        """``update_on_create`` for an object that the server itself creates."""
        tracker = self.tracker(info)
        field_set = managed_fields.created_fields(tracker.zero, obj, tracker.versions, tracker.filter_fields)
        if field_set:
            fields = msgspec.Raw(field_sets.encode_fields(field_set))
            time: str = obj["metadata"]["creationTimestamp"]
            entry = managed_fields.Entry(SERVER, "Update", info.api_version, time, "FieldsV1", fields)
            set_managed_fields(obj, managed_fields.encode_entries([entry]))

    def update_on_server_update(self, info: ResourceInfo, old: bytes, obj: Object, subresource: str = "") -> None:
        """Update the managed fields for a write of the server itself. ``old`` is the stored object; managedFields of
        ``obj`` are replaced."""
        value, live_entries = split_managed_fields(self._core.from_storage_nowait(info, old))
        obj["metadata"].pop("managedFields", None)
        if live_entries:
            entries = managed_fields.decode_entries(live_entries)
            tracker = self.tracker(info, subresource)
            writer = Writer(SERVER, info.api_version, subresource)
            now = self._core.time.now
            result = managed_fields.update_entries(
                entries, decode(value), obj, tracker.versions, tracker.filter_fields, writer, now, tracker.skip
            )
            set_managed_fields(obj, managed_fields.encode_entries(result) if result else b"")

    def update(self, call: Call, old: Object, obj: Object, live_entries: bytes, options: WriteOptions) -> bytes:
        """The entries after an update from ``old``, which has the entries ``live_entries``, to ``obj``.

        Removes managedFields from ``obj``. Entries that a client sends replace the stored ones, as upstream.
        """
        sent = obj["metadata"].pop("managedFields", _NOT_SENT)
        subresource = call.request_info.subresource
        entries: Entries | None = None
        uses_sent = False
        if sent is not _NOT_SENT and sent is not None and not subresource:
            sent = _decoded(sent)
            if managed_fields.is_reset(sent):
                return b""
            if sent and managed_fields.encode(sent) != live_entries:
                entries = managed_fields.read_entries(sent)
                uses_sent = bool(entries)
        if not uses_sent:
            if not live_entries:
                return b""
            entries = managed_fields.decode_entries(live_entries)
        assert entries is not None, "either sent or stored entries exist"
        try:
            return self.update_entries(
                call, old, obj, entries, b"" if uses_sent else live_entries, manager_or_user_agent(call, options)
            )
        except ConversionNeeded:
            if sent is not _NOT_SENT:
                obj["metadata"]["managedFields"] = sent  # the computation will be repeated
            raise

    def apply(
        self, call: Call, live: Object | None, live_entries: bytes, config: Object, options: WriteOptions
    ) -> tuple[Object, bytes]:
        """Server-side apply: the object with the configuration applied, and its entries. ``live`` is None for a create.

        Raises ``StatusError``, with 409 for conflicts with other managers.
        """
        info, subresource = call.info, call.request_info.subresource
        tracker = self.tracker(info, subresource)
        base = live
        if base is None:
            base = {"apiVersion": info.api_version, "kind": info.kind}
        entries = managed_fields.decode_entries(live_entries) if live_entries else []
        writer = Writer(options.field_manager, info.api_version, subresource)
        try:
            new, result = managed_fields.apply_config(
                entries,
                tracker.zero if live is not None else base,
                base,
                config,
                tracker.versions,
                tracker.filter_fields,
                writer,
                self._core.time.now(),
                force=bool(options.force),
            )
        except ApplyConflicts as error:
            raise conflict_error(error) from None
        except ConversionFailed as error:
            raise errors.plain(str(error)) from None
        except ItemError:
            if live is None:
                raise
            text = error_text(all_errors(live, tracker.type, duplicates=True))
            meta = live["metadata"]
            kind = f"{'' if info.group else '/'}{info.api_version}, Kind={info.kind}"
            object_text = f"({meta.get('namespace') or ''}/{meta['name']}; {kind})"
            failure = (
                "failed to create typed live object" if entries else "failed to create manager for existing fields"
            )
            raise errors.plain(f"{failure}: failed to convert new object {object_text} to smd typed: {text}") from None
        return new, managed_fields.encode_entries(result) if result else b""

    def apply_on_server(
        self, info: ResourceInfo, old: bytes, config: Object, manager: str, subresource: str = ""
    ) -> Object:
        """The stored object ``old`` after a forced server-side apply by the server itself."""
        plain, live_entries = split_managed_fields(self._core.from_storage_nowait(info, old))
        tracker = self.tracker(info, subresource)
        obj, entries = managed_fields.apply_config(
            managed_fields.decode_entries(live_entries) if live_entries else [],
            tracker.zero,
            decode(plain),
            config,
            tracker.versions,
            tracker.filter_fields,
            Writer(manager, info.api_version, subresource),
            self._core.time.now(),
            force=True,
        )
        set_managed_fields(obj, managed_fields.encode_entries(entries) if entries else b"")
        return obj

    def update_scale(
        self,
        call: Call,
        old_scale: Object,
        scale: Object,
        live_entries: bytes,
        options: WriteOptions,
        *,
        is_apply: bool,
    ) -> tuple[Object, bytes]:
        """The Scale after a write to /scale, and the entries of the scaled object (``ScaleHandler``).

        ``old_scale`` is the Scale before; ``scale`` is the new one or, if ``is_apply``, an apply configuration.
        """
        entries = managed_fields.decode_entries(live_entries) if live_entries else []
        paths = self._replica_paths(call.info)
        scale_entries = scale_fields.to_scale(entries, paths)
        types = Versions(scale_fields.VERSION, self._scale_type, lambda obj, _source, _target: obj)
        writer = Writer(manager_or_user_agent(call, options) or "unknown", scale_fields.VERSION, "scale")
        now = self._core.time.now
        if is_apply:
            zero: Object = {"metadata": {}, "spec": {}, "status": {"replicas": 0}}
            try:
                scale, new_scale_entries = managed_fields.apply_config(
                    scale_entries,
                    zero,
                    old_scale,
                    scale,
                    types,
                    _keep_all_fields,
                    writer,
                    now(),
                    force=bool(options.force),
                )
            except ApplyConflicts as error:
                raise conflict_error(error) from None
        elif scale_entries:
            new_scale_entries = managed_fields.update_entries(
                scale_entries, old_scale, scale, types, _keep_all_fields, writer, now
            )
        else:
            return scale, managed_fields.encode_entries(entries) if entries else b""
        result = scale_fields.to_object(entries, new_scale_entries, paths, call.info.api_version)
        return scale, managed_fields.encode_entries(result) if result else b""

    def scale_managed_fields(self, info: ResourceInfo, object_entries: list[Any]) -> list[Any]:
        """The managedFields of the Scale of an object with the managedFields ``object_entries``."""
        entries = managed_fields.read_entries(object_entries) or []
        scale_entries = scale_fields.to_scale(entries, self._replica_paths(info))
        result: list[Any] = msgspec.json.decode(managed_fields.encode_entries(scale_entries))
        return result

    def _scale_type(self, _version: str) -> MergeType | None:
        return merge_types.of_kind("autoscaling", "v1", "Scale")

    def _replica_paths(self, info: ResourceInfo) -> scale_fields.Paths:
        def path(version: str) -> tuple[str, ...] | None:
            group, _slash, name = version.rpartition("/")
            served = self._core.table.find(group, name, info.resource)
            if served is None:
                return None
            if served.custom is None:
                return scale_fields.REPLICAS
            paths = served.custom.scale
            return (
                () if paths is None else tuple(f"f:{segment}" for segment in paths.spec_replicas.lstrip(".").split("."))
            )

        return path

    def update_entries(
        self, call: Call, old: Object, obj: Object, entries: Entries, live_entries: bytes, manager: str
    ) -> bytes:
        """The encoded entries after a write by ``manager``; ``live_entries`` are the encoded entries before it."""
        subresource = call.request_info.subresource
        tracker = self.tracker(call.info, subresource)
        writer = Writer(manager or "unknown", call.info.api_version, subresource)
        obj = call.strategy.round_tripped(obj)
        if call.info.custom is not None:
            obj = with_distinct_booleans(old, obj)
        call.untracked = tracker.invalid_reset_fields(obj)
        if call.untracked:
            return b""
        try:
            result = managed_fields.update_entries(
                entries, old, obj, tracker.versions, tracker.filter_fields, writer, self._core.time.now, tracker.skip
            )
        except ItemError:
            return b""
        except ConversionFailed as error:
            # Upstream stores the object without any (managedfields/internal/fieldmanager.go, ``UpdateNoErrors``,
            # v1.36).
            call.untracked = str(error)
            return b""
        # Duplicate entries are merged by ``decode_entries``, and have to be encoded again.
        if result is entries and live_entries and live_entries.count(_FIELDS_TYPE_KEY) == len(entries):
            return live_entries
        return managed_fields.encode_entries(result) if result else b""


def warn_untracked(call: Call) -> None:
    """Log that an object was stored without managed fields. Call it only after the write has succeeded."""
    if call.untracked:
        _log.warning(
            "Failed to update managedFields; the object was stored without them",
            kind=call.info.group_kind,
            error=call.untracked,
        )


def _keep_all_fields(fields: FieldSet, _version: str) -> FieldSet:
    return fields


def _decoded(document: Any) -> Any:
    return msgspec.json.decode(document) if isinstance(document, msgspec.Raw) else document


def set_managed_fields(obj: Object, entries: bytes) -> None:
    """Set the encoded entries, if there are any."""
    if entries:
        obj["metadata"]["managedFields"] = msgspec.Raw(entries)


def with_decoded_managed_fields(obj: Object) -> Object:
    """The object with decoded managedFields. ``obj`` may lack metadata, in the middle of a server-side apply."""
    entries = obj.get("metadata", {}).get("managedFields")
    if not isinstance(entries, msgspec.Raw):
        return obj
    return {**obj, "metadata": {**obj["metadata"], "managedFields": msgspec.json.decode(entries)}}


def without_managed_fields(obj: Object) -> Object:
    """The object without managedFields, which validation rules cannot access."""
    if "managedFields" not in obj["metadata"]:
        return obj
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name != "managedFields"}}


def equal_ignoring_timestamps(obj: Object, old: Object, entries: bytes, old_entries: bytes) -> bool:
    """Whether two objects differ only in the timestamps of their entries; such a write is skipped
    (``IgnoreManagedFieldsTimestampsTransformer``)."""
    if obj.keys() != old.keys():
        return False
    for name in reversed(obj):  # the status comes last, and changes most
        if obj[name] != old[name] and name != "metadata":
            return False
    meta, old_meta = dict(obj["metadata"]), dict(old["metadata"])
    meta.pop("managedFields", None)
    old_meta.pop("managedFields", None)
    if meta != old_meta or not entries or not old_entries:
        return False
    return _without_times(entries) == _without_times(old_entries)


def _without_times(entries: bytes) -> list[Any]:
    without_times = [
        (entry.operation, entry.manager, entry.api_version, entry.subresource, bytes(entry.fieldsV1))
        for entry in managed_fields.decode_entries(entries)
    ]
    return sorted(without_times)


def conflict_error(error: ApplyConflicts) -> errors.StatusError:
    """The 409 for an apply of fields that other managers own (``NewConflictError``)."""
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {managed_fields.manager_text(name)}",
            "field": field_sets.path_text(path),
        }
        for name, path in error.conflicts
    ]
    text = managed_fields.conflict_text(error.conflicts)
    return errors.StatusError(409, "Conflict", text, details={"causes": causes})
