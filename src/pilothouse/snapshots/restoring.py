"""Converts a snapshot to the records of a store: uids, resourceVersions, generations, managed fields, status and owner
references as saved.

Nothing passes admission or defaulting, and controllers see no events: a store with these records is the saved cluster.
Objects are decoded as strictly as request bodies; an invalid one is an error with its line number. Objects of resources
that this server does not serve are left out and reported.

Objects of one etcd have different resourceVersions; if a snapshot has two equal ones (of another etcd or an aggregated
server), the later object gets a higher one, which keeps the order.
"""

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from pilothouse.api.schema import Definition, definition_of, load
from pilothouse.apiserver.apiextensions import serving
from pilothouse.apiserver.objects import encode_object, read_head
from pilothouse.apiserver.registry import registration_of
from pilothouse.apiserver.resources import ResourceInfo, ResourceTable
from pilothouse.apiserver.serializers.omitempty import drop_empty
from pilothouse.apiserver.storage_codec.older_versions import CONVERSIONS
from pilothouse.machinery.bodies import DecodeError, decode_body
from pilothouse.machinery.names import path_segment_errors
from pilothouse.machinery.times import TimeError, parse_time
from pilothouse.snapshots.file_format import Header, ResourceLine, Skipped, SnapshotError, Totals
from pilothouse.snapshots.leases import LEASES, released
from pilothouse.snapshots.reading import Entry, decoded
from pilothouse.snapshots.resource_order import DEFINITIONS
from pilothouse.snapshots.service_ranges import service_range_of
from pilothouse.storage import Record

Object = dict[str, Any]
MAX_REVISION = 1 << 62
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_PLAIN = re.compile(r'[^"\\\x00-\x1f\x7f]*').fullmatch
"""Text before the resourceVersion in a stored object must not need escaping (``apiserver.objects``)."""
_MAX_NAME_LENGTH = 253
_ZONE = "topology.kubernetes.io/zone"
_ROOT_CA = "kube-root-ca.crt"
_ENTRY = ("manager", "operation", "apiVersion", "time", "fieldsType", "fieldsV1", "subresource")
"""The fields of a managedFields entry in upstream's order."""
_KEPT_RESOURCES = frozenset(
    {
        ("", "nodes"),
        ("", "configmaps"),
        ("", "services"),
        ("networking.k8s.io", "servicecidrs"),
        ("storage.k8s.io", "storageclasses"),
    }
)
"""Resources with data that programs need (``Restoring._keep_program_data``)."""
_encode = msgspec.json.Encoder().encode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode


class SavedNode(msgspec.Struct, frozen=True):
    """A node of the snapshot, to be simulated."""

    name: str
    ready: bool
    zone: str = ""


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The records of a store, and what else the programs of a plane need."""

    records: list[Record]
    """In the order of their revisions."""
    revision: int
    time: datetime.datetime | None
    """When the snapshot was taken."""
    nodes: tuple[SavedNode, ...] = ()
    service_range: str = ""
    """The range of the cluster IPs, for ``--service-cluster-ip-range``; empty if there are none."""
    provisioners: tuple[str, ...] = ()
    """The provisioners of the StorageClasses."""
    root_ca: str = ""
    """The root CA bundle that the cluster publishes to its namespaces (PEM), for the controller manager."""
    skipped: tuple[Skipped, ...] = ()
    """Resources and objects that could not be restored, with their number."""


class Source(Protocol):
    """A ``SnapshotFile`` or a snapshot of etcd."""

    @property
    def header(self) -> Header:
        """The header, with the time of the snapshot."""
        ...

    @property
    def totals(self) -> Totals | None:
        """The totals, with what was left out; read at the end."""
        ...

    def error(self, reason: str, line: int = 0) -> SnapshotError:
        """An error for the file."""
        ...


class _Custom(msgspec.Struct, frozen=True):
    """A custom resource defined in the snapshot."""

    info: ResourceInfo
    versions: frozenset[str]


class Restoring:
    """Converts the objects of a file one by one."""

    def __init__(self, file: Source, table: ResourceTable) -> None:
        self._file = file
        self._built_in: dict[tuple[str, str], ResourceInfo] = {}
        self._by_version: dict[tuple[str, str, str], ResourceInfo] = {}
        for info in table:
            self._built_in.setdefault((info.group, info.resource), info)
            self._by_version[info.group, info.version, info.resource] = info
        self._custom: dict[tuple[str, str], _Custom] = {}
        self._lines: dict[str, int] = {}
        self._uids: dict[str, str] = {}
        self._encoded: dict[str, tuple[int, bytes]] = {}
        self._unknown: dict[tuple[str, str], int] = {}
        self._nodes: list[SavedNode] = []
        self._services: list[Object] = []
        self._ranges: list[Object] = []
        self._provisioners: dict[str, None] = {}
        self._root_ca = ""

    def add(self, entry: Entry) -> None:
        """Add the next object."""
        converted = self.convert(entry)
        if converted is not None:
            obj, stored = converted
            self._store(entry, stored, obj, self._revision(entry, obj["metadata"]))
            self._keep_program_data((entry.resource.group, entry.resource.resource), obj)

    def add_stored(self, entry: Entry) -> None:
        """Add the next object of a built-in resource, already in its storage form and checked: it is decoded only if
        programs need something from it. Raises ``SnapshotError``."""
        resource = entry.resource
        group_resource = (resource.group, resource.resource)
        info = self.info_of(resource)
        if info is None or group_resource in (LEASES, DEFINITIONS):
            self.add(entry)
            return
        head = read_head(entry.raw).metadata
        meta = {
            "name": head.name,
            "namespace": head.namespace,
            "uid": head.uid,
            "resourceVersion": head.resource_version,
        }
        self._check_namespace(entry, info, meta)
        revision = self._revision(entry, meta)
        key = self._reserve_key(entry, info, meta)
        self._encoded[key] = (revision, entry.raw)
        if group_resource in _KEPT_RESOURCES and not (group_resource == ("", "configmaps") and head.name != _ROOT_CA):
            self._keep_program_data(group_resource, _decode_object(entry.raw))

    def convert(self, entry: Entry) -> tuple[Object, ResourceInfo] | None:
        """Convert an object to its storage form; None if its resource is not served."""
        resource, line = entry.resource, entry.line
        group_resource = (resource.group, resource.resource)
        info = self._built_in.get(group_resource)
        if info is not None:
            converted = self._convert_built_in(entry, info)
        elif group_resource in self._custom:
            converted = self._convert_custom(entry, self._custom[group_resource])
        else:
            converted = "this API server has no such resource"
        if isinstance(converted, str):
            key = (resource.group_resource, converted)
            self._unknown[key] = self._unknown.get(key, 0) + 1
            return None
        obj, stored = converted
        self._check_namespace(entry, stored, obj["metadata"])
        if group_resource == DEFINITIONS:
            self._define(obj, line)
        return obj, stored

    def _check_namespace(self, entry: Entry, info: ResourceInfo, meta: Mapping[str, Any]) -> None:
        if info.namespaced != bool(meta.get("namespace")):
            reason = "needs a namespace" if info.namespaced else "can't be in a namespace"
            raise self._file.error(f"{entry.resource.kind} {meta.get('name')!r} {reason}", entry.line)

    def _convert_built_in(self, entry: Entry, info: ResourceInfo) -> "tuple[Object, ResourceInfo] | str":
        resource = entry.resource
        same_version = self._by_version.get((resource.group, resource.version, resource.resource))
        if "create" not in info.verbs or "list" not in info.verbs:
            return "objects of this kind are not stored"
        if same_version is not None:
            if same_version.kind != resource.kind:
                raise self._file.error(
                    f"{resource.group_resource} are {same_version.kind} and not {resource.kind}", entry.line
                )
            obj = self._decode(
                entry, entry.raw, definition_of(same_version.group, same_version.version, same_version.kind)
            )
            strategy = registration_of(same_version.group, same_version.resource).strategy
            stored = strategy.stored_as(same_version)
            # A conversion takes the object without kind and apiVersion, which are set again afterwards.
            obj.pop("kind", None)
            obj.pop("apiVersion", None)
            return (strategy.to_storage(same_version, obj) if stored is not same_version else obj), stored
        convert = CONVERSIONS.get((resource.group, resource.version, resource.resource))
        if convert is None:
            return f"objects of version {resource.version} can't be converted to {info.version}"
        obj = decoded(self._file, entry)
        try:
            new_object = convert(obj)
        except (AttributeError, TypeError, ValueError) as error:
            raise self._file.error(f"the {resource.kind} is invalid: {error}", entry.line) from None
        new_object["apiVersion"] = info.api_version
        raw = _encode(new_object)
        return self._decode(entry, raw, definition_of(info.group, info.version, info.kind)), info

    def _convert_custom(self, entry: Entry, custom: _Custom) -> "tuple[Object, ResourceInfo] | str":
        resource, info = entry.resource, custom.info
        if resource.version not in custom.versions:
            return f"its definition has no version {resource.version}"
        if resource.kind != info.kind:
            raise self._file.error(f"{resource.group_resource} are {info.kind} and not {resource.kind}", entry.line)
        obj = decoded(self._file, entry)
        obj["metadata"] = self._decode(entry, _encode(obj["metadata"]), load().definition(_OBJECT_META))
        if resource.version != info.version:
            # Stored in the served version; the API server converts it when it is read.
            info = msgspec.structs.replace(info, version=resource.version)
        return obj, info

    def _decode(self, entry: Entry, raw: bytes, definition: Definition) -> Object:
        try:
            obj = decode_body(raw, definition).document
        except DecodeError as error:
            raise self._file.error(f"the {entry.resource.kind} can't be decoded: {error}", entry.line) from None
        drop_empty(obj, definition)
        if definition.name != _OBJECT_META:
            type_meta = (obj.get("apiVersion"), obj.get("kind"))
            expected = entry.resource.kind
            if type_meta[1] != expected:
                raise self._file.error(f"expected a {expected}, got {type_meta[0]} {type_meta[1]}"[:200], entry.line)
            if not isinstance(obj.get("metadata"), dict):
                raise self._file.error(f"the {expected} has no metadata", entry.line)
        return obj

    def _revision(self, entry: Entry, meta: Mapping[str, Any]) -> int:
        text = meta.get("resourceVersion") or ""
        if not (text.isascii() and text.isdigit() and 0 < int(text[:20]) < MAX_REVISION and len(text) < 20):
            name = meta.get("name")
            raise self._file.error(
                f"{entry.resource.kind} {name!r} has the resourceVersion {text[:40]!r}, which is not a revision",
                entry.line,
            )
        return int(text)

    def _store(self, entry: Entry, info: ResourceInfo, obj: Object, revision: int) -> None:
        meta = obj["metadata"]
        key = self._reserve_key(entry, info, meta)
        if meta.get("managedFields"):
            meta["managedFields"] = [
                {k: managed_field[k] for k in _ENTRY if k in managed_field} for managed_field in meta["managedFields"]
            ]
        self._encoded[key] = (revision, encode_object(info, released(info, obj)))

    def _reserve_key(self, entry: Entry, info: ResourceInfo, meta: Mapping[str, Any]) -> str:
        """Compute the key of an object and reserve it. Raises ``SnapshotError`` for duplicates."""
        kind, line = entry.resource.kind, entry.line
        self.check_names(entry, meta)
        name, uid = meta["name"], meta["uid"]
        key = info.key(meta.get("namespace") or "", name)
        if key in self._lines:
            place = f", in line {self._lines[key]}" if line else ""
            raise self._file.error(f"{kind} {key.split('/', 2)[2]} exists already{place}", line)
        if uid in self._uids:
            raise self._file.error(f"{kind} {name} has the uid of {self._uids[uid]}", line)
        self._lines[key] = line
        self._uids[uid] = key
        return key

    def info_of(self, resource: ResourceLine) -> ResourceInfo | None:
        """The resource by which an object is stored; None if it is not served."""
        group_resource = (resource.group, resource.resource)
        if group_resource in self._built_in:
            info = self._by_version.get(
                (resource.group, resource.version, resource.resource), self._built_in[group_resource]
            )
            return registration_of(info.group, info.resource).strategy.stored_as(info)
        return self._custom[group_resource].info if group_resource in self._custom else None

    def stored_line(self, group: str, resource: str) -> ResourceLine | None:
        """The resource line of a built-in resource in its storage version."""
        info = self._built_in.get((group, resource))
        if info is None:
            return None
        info = registration_of(group, resource).strategy.stored_as(info)
        return ResourceLine(
            resource=resource, group=info.group, version=info.version, kind=info.kind, namespaced=info.namespaced
        )

    def check_names(self, entry: Entry, meta: Mapping[str, Any]) -> None:
        """Check that namespace and name are valid parts of a key. Raises ``SnapshotError``."""
        kind, line = entry.resource.kind, entry.line
        for field in ("name", "namespace", "generateName", "uid"):
            text = meta.get(field) or ""
            if (
                len(text) > _MAX_NAME_LENGTH
                or not _PLAIN(text)
                or (text and field != "uid" and path_segment_errors(text))
            ):
                raise self._file.error(f"the {kind} has an invalid metadata.{field}: {text[:80]!r}", line)
        name, uid = meta.get("name") or "", meta.get("uid") or ""
        if not name or not uid:
            raise self._file.error(f"the {kind} {name!r} has no {'uid' if name else 'name'}", line)

    def _define(self, definition: Object, line: int) -> None:
        """Register the resource of a CustomResourceDefinition."""
        try:
            infos = serving.resource_infos(definition)
            names = definition["spec"]["names"]
            versions = frozenset(version["name"] for version in definition["spec"]["versions"])
            group_resource = (definition["spec"]["group"], names["plural"])
            stored = infos[0].custom.strategy.storage if infos else None
        except (LookupError, TypeError, ValueError, AttributeError, StopIteration, RuntimeError) as error:
            name = definition["metadata"].get("name")
            raise self._file.error(
                f"the CustomResourceDefinition {name} can't be served: {type(error).__name__}: {error}", line
            ) from None
        if stored is not None and group_resource not in self._built_in:
            self._custom[group_resource] = _Custom(stored, versions)

    def _keep_program_data(self, group_resource: tuple[str, str], obj: Object) -> None:
        """Keep what programs need: nodes, provisioners, service ranges, the root CA."""
        if group_resource == ("", "nodes"):
            conditions = (obj.get("status") or {}).get("conditions") or ()
            ready = any(
                condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions
            )
            labels = obj["metadata"].get("labels") or {}
            self._nodes.append(SavedNode(obj["metadata"]["name"], ready, labels.get(_ZONE) or ""))
        elif group_resource == ("", "configmaps") and obj["metadata"]["name"] == _ROOT_CA:
            self._root_ca = self._root_ca or (obj.get("data") or {}).get("ca.crt") or ""
        elif group_resource == ("", "services"):
            self._services.append({"metadata": {"name": obj["metadata"]["name"]}, "spec": obj.get("spec") or {}})
        elif group_resource == ("networking.k8s.io", "servicecidrs"):
            self._ranges.append(obj)
        elif group_resource == ("storage.k8s.io", "storageclasses"):
            self._provisioners[obj.get("provisioner") or ""] = None

    def assume_service_range(self, cidrs: Sequence[str]) -> None:
        """The service range, unless a ServiceCIDR defines it."""
        self._ranges.append({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": cidrs}})

    def done(self) -> Restored:
        """The whole snapshot."""
        if not self._encoded:
            raise self._file.error("there is no object in it that this API server can store")
        records: list[Record] = []
        newest = 1
        for key, (revision, value) in sorted(self._encoded.items(), key=lambda item: (item[1][0], item[0])):
            new_revision = max(revision, newest + 1)
            if new_revision != revision:
                value = value.replace(b'"resourceVersion":"%d"' % revision, b'"resourceVersion":"%d"' % new_revision, 1)
            newest = new_revision
            records.append(Record(key, value, new_revision, new_revision))
        self._encoded.clear()
        skipped = list(self._file.totals.skipped if self._file.totals is not None else ())
        for (name, reason), count in self._unknown.items():
            skipped.append(Skipped(name, f"{count} {'object' if count == 1 else 'objects'}: {reason}"))
        return Restored(
            records=records,
            revision=newest,
            time=self._time(),
            nodes=tuple(self._nodes),
            service_range=service_range_of(self._services, self._ranges),
            provisioners=tuple(self._provisioners),
            root_ca=self._root_ca,
            skipped=tuple(skipped),
        )

    def _time(self) -> datetime.datetime | None:
        try:
            return parse_time(self._file.header.time)
        except (TimeError, ValueError):
            return None
