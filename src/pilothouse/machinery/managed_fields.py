"""metadata.managedFields: the fields of each manager, and their changes with a write.

``update_entries`` is called after every write except apply (create, PUT, other patches): it compares the object with
its previous state and assigns the changed fields to the writer. ``apply_config`` is server-side apply. Both work on
``Entry``s, whose field sets stay encoded until they are needed: most writes affect one or two entries. After
apimachinery ``pkg/util/managedfields/internal`` (v0.36), in its order of steps.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec

from pilothouse.machinery import field_sets
from pilothouse.machinery.apply import (
    ApplyConflicts,
    Filter,
    ManagedFields,
    Object,
    VersionedSet,
    Versions,
    apply,
    update,
)
from pilothouse.machinery.bounded_cache import bounded_cache
from pilothouse.machinery.deep_equal import with_distinct_booleans
from pilothouse.machinery.field_merge import reconcile_field_set_with_schema
from pilothouse.machinery.field_sets import FieldsError, FieldSet, Path, covers, difference, union
from pilothouse.machinery.field_walks import added_or_modified, all_errors, compare, field_set
from pilothouse.machinery.merge_types import MergeType

MAX_UPDATE_MANAGERS = 10
BEFORE_FIRST_APPLY = "before-first-apply"
ANCIENT_CHANGES = "ancient-changes"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KUBECTL = "kubectl"
_CURRENT = "current-operation"

_UNOWNED = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)
_STRIPPED_METADATA = frozenset({".", *("f:" + name for name in _UNOWNED)})


def _strip(fields: FieldSet) -> FieldSet:
    """The set without fields that have no managers: kind, version, and metadata that the server sets (stripmeta.go)."""
    meta = fields.get("f:metadata")
    if meta is None and "f:kind" not in fields and "f:apiVersion" not in fields:
        return fields
    result = {element: node for element, node in fields.items() if element not in ("f:kind", "f:apiVersion")}
    if meta is not None:
        members = {element: node for element, node in meta.items() if element not in _STRIPPED_METADATA}
        if members:
            result["f:metadata"] = members
        else:
            del result["f:metadata"]
    return result


class Entry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename={"api_version": "apiVersion"}):
    """One entry of managedFields, with fields in Go's order."""

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: str = ""
    fieldsType: str = ""  # noqa: N815  # as on the wire
    fieldsV1: msgspec.Raw = msgspec.Raw(b"")  # noqa: N815  # as on the wire
    subresource: str = ""

    @property
    def fields(self) -> FieldSet:
        """The decoded field set."""
        return _fields(bytes(self.fieldsV1))


@bounded_cache(512, max_length=16384)
def _fields(text: bytes) -> FieldSet:
    # Few managers write the same fields of many objects, and sets are immutable.
    return field_sets.decode_fields(text)


Entries = list[Entry]


class Writer(msgspec.Struct, frozen=True, gc=False):
    """The manager of a write, and its API version. ``subresource`` is that of the request, empty for the object
    itself."""

    manager: str
    api_version: str
    subresource: str = ""


def _entry(writer: Writer, operation: str, time: str, fields: FieldSet) -> Entry:
    return Entry(
        writer.manager or "unknown",
        operation,
        writer.api_version,
        time,
        "FieldsV1",
        msgspec.Raw(field_sets.encode_fields(fields)),
        writer.subresource,
    )


# Encoding -----------------------------------------------------------------------------------------------------------

encode = msgspec.json.Encoder().encode
_encode = encode
_decode = msgspec.json.Decoder(list[Entry]).decode


def decode_entries(text: bytes | msgspec.Raw) -> Entries:
    """Decode ``encode_entries``. Of several entries of one manager the last one is used: a write through /scale may
    have left two, of which upstream, whose managers are a map, has one."""
    entries = _decode(text)
    if len(entries) > 1 and len({_key(entry) for entry in entries}) < len(entries):
        return list({_key(entry): entry for entry in entries}.values())
    return entries


def encode_entries(entries: Entries) -> bytes:
    return _encode(entries)


def is_reset(document: Any) -> bool:
    """Whether a client resets managedFields: an empty list, or a list of one empty entry."""
    return document in ([], [{}])


def read_entries(document: Any) -> Entries | None:
    """The entries in a client's object; None if any of them is invalid."""
    if not isinstance(document, list):
        return None
    entries: dict[str, Entry] = {}
    for item in document:
        if not isinstance(item, dict) or item.get("operation") not in ("Apply", "Update"):
            return None
        if not item.get("apiVersion") or item.get("fieldsType") != "FieldsV1":
            return None
        try:
            fields = field_sets.read_fields(item.get("fieldsV1"))
        except FieldsError:
            return None
        writer = Writer(item.get("manager") or "", item["apiVersion"], item.get("subresource") or "")
        entry = msgspec.structs.replace(
            _entry(writer, item["operation"], item.get("time") or "", fields), manager=writer.manager
        )
        entries[_identifier(entry)] = entry
    return list(entries.values())


def _key(entry: Entry) -> tuple[str, str, str, str]:
    version = "" if entry.operation == "Apply" else entry.api_version
    return entry.manager, entry.operation, entry.subresource, version


def _identifier(entry: Entry) -> str:
    """Upstream's key of a manager, by which it also sorts them (``BuildManagerIdentifier``)."""
    parts = {
        "manager": entry.manager,
        "operation": entry.operation,
        "apiVersion": "" if entry.operation == "Apply" else entry.api_version,
        "subresource": entry.subresource,
    }
    return json.dumps({name: value for name, value in parts.items() if value}, separators=(",", ":"))


def _order(entry: Entry) -> tuple[str, str, str, str, str]:
    return (entry.operation, entry.time, entry.manager, entry.api_version, entry.subresource)


# Writes -------------------------------------------------------------------------------------------------------------


def created_fields(zero: Object, new: Object, versions: Versions, ignore_filter: Filter) -> FieldSet:
    """The fields of an object's creator: everything that is not in an empty object."""
    type_ = versions.type_of(versions.version)
    assert type_ is not None, "what is created is served"
    assert type_.map is not None, "objects are maps"
    fields = added_or_modified(zero, new, type_.map, _SKIPPED_ON_CREATE)
    meta = new.get("metadata")
    shape = type_.map.member("metadata")
    if meta and shape is not None and shape.map is not None:
        metadata_fields = added_or_modified(zero.get("metadata") or {}, meta, shape.map, _UNOWNED)
        if metadata_fields:
            fields["f:metadata"] = metadata_fields
    return ignore_filter(fields, versions.version)


_SKIPPED_ON_CREATE = ("apiVersion", "kind", "metadata")


def update_entries(
    entries: Entries,
    live: Object,
    new: Object,
    versions: Versions,
    ignore_filter: Filter,
    writer: Writer,
    now: Callable[[], str],
    skip: Collection[str] = (),
) -> Entries:
    """The entries after a write from ``live`` to ``new``; the same list if they do not change.

    ``live`` and ``new`` are without managedFields. ``skip`` are names of members that are not tracked.
    """
    version = versions.version
    if any(entry.api_version != version for entry in entries):
        return _update_entries_of_versions(entries, live, new, versions, ignore_filter, writer, now())
    type_ = versions.type_of(version)
    assert type_ is not None, "what is written is served"
    comparison = compare(live, new, type_, skip)
    if comparison.is_same:
        return entries
    key = _encode((comparison.removed, comparison.modified, comparison.added))
    texts = [bytes(entry.fieldsV1) for entry in entries]
    address = _only_address(key, texts)
    if address:
        key = key.replace(address, _SOME_ADDRESS)
        texts = [text.replace(address, _SOME_ADDRESS) for text in texts]
    cached = _cached_update(key, versions, ignore_filter)
    if not cached.removed_from_others:
        return entries
    result: Entries = []
    has_entry = False
    for entry, text in zip(entries, texts, strict=True):
        time = entry.time
        if entry.manager == writer.manager and entry.operation == "Update" and entry.subresource == writer.subresource:
            has_entry = True
            after = cached.update_writer(text)
            if cached.changed:
                time = now()
        else:
            after = cached.update_other_manager(text, versions, type_)
        if after is not None or time != entry.time:
            fields = entry.fieldsV1
            if after is not None:
                fields = msgspec.Raw(after.replace(_SOME_ADDRESS, address) if address else after)
            # Not ``replace``, which takes longer than everything else here.
            entry = Entry(
                entry.manager, entry.operation, entry.api_version, time, entry.fieldsType, fields, entry.subresource
            )
        if len(entry.fieldsV1) > 2:
            result.append(entry)
    if cached.changed and not has_entry:
        new_fields = cached.new_entry_fields.replace(_SOME_ADDRESS, address) if address else cached.new_entry_fields
        manager = writer.manager or "unknown"
        result.append(
            Entry(manager, "Update", writer.api_version, now(), "FieldsV1", msgspec.Raw(new_fields), writer.subresource)
        )
    return sort_and_cap(result)


_SOME_ADDRESS = b'k:{\\"ip\\":\\"?\\"}'
_addresses = re.compile(rb'k:\{\\"ip\\":\\"[^"\\]*\\"\}').findall


def _only_address(key: bytes, texts: list[bytes]) -> bytes:
    """The address that is a path element in all of these sets, if there is exactly one.

    Every pod has its own in ``podIPs``, and is otherwise like others of its template. Cached results have a
    placeholder, and apply to every address.
    """
    address = b""
    for text in (key, *texts):
        if b'k:{\\"ip' not in text:
            continue
        for candidate in _addresses(text):
            if address and candidate != address:
                return b""
            address = candidate
    return b"" if address == _SOME_ADDRESS else address


class _CachedUpdate:
    """The effect of one comparison on the field sets of managers.

    The same comparisons are frequent (a pod that starts, a node's heartbeat), and so are the sets that they apply to;
    results are cached.
    """

    __slots__ = (
        "_other_manager_sets",
        "_writer_sets",
        "changed",
        "encoded_elements",
        "new_entry_fields",
        "removed",
        "removed_from_others",
    )

    def __init__(
        self, removed: FieldSet, modified: FieldSet, added: FieldSet, version: str, ignore_filter: Filter
    ) -> None:
        changed = ignore_filter(union(modified, added), version)
        self.removed = ignore_filter(removed, version)
        self.changed = _strip(changed)
        self.removed_from_others = union(self.removed, changed)
        self.encoded_elements = [_encode(element) for element in self.removed_from_others]
        self.new_entry_fields = field_sets.encode_fields(self.changed)
        self._writer_sets: dict[bytes, bytes | None] = {}
        self._other_manager_sets: dict[bytes, bytes | None] = {}

    def update_writer(self, text: bytes) -> bytes | None:
        """The writer's set after the write; None if it does not change."""
        if text in self._writer_sets:
            return self._writer_sets[text]
        fields = _fields(text)
        updated = difference(fields, self.removed) if self.removed else fields
        if not covers(updated, self.changed):
            updated = union(updated, self.changed)
        return _remember(self._writer_sets, text, None if updated is fields else field_sets.encode_fields(updated))

    def update_other_manager(self, text: bytes, versions: Versions, type_: MergeType) -> bytes | None:
        """Another manager's set after the write; None if it does not change."""
        if not any(element in text for element in self.encoded_elements):
            return None
        if not versions.fixed:
            return self._without(text, reconcile_field_set_with_schema(_fields(text), type_))
        if text in self._other_manager_sets:
            return self._other_manager_sets[text]
        return _remember(self._other_manager_sets, text, self._without(text, _fields(text)))

    def _without(self, text: bytes, fields: FieldSet) -> bytes | None:
        remaining = difference(fields, self.removed_from_others)
        return None if remaining == _fields(text) else field_sets.encode_fields(remaining)


_MAX_CACHED_UPDATES = 512
_MAX_CACHED_SETS = 64
_MAX_CACHED_KEY_SIZE = 8 * 1024


_decode_sets = msgspec.json.Decoder(tuple[FieldSet, FieldSet, FieldSet]).decode


def _cached_update(text: bytes, versions: Versions, ignore_filter: Filter) -> _CachedUpdate:
    key = (text, ignore_filter)
    cached: _CachedUpdate | None = versions.cached_updates.get(key)
    if cached is None:
        removed, modified, added = _decode_sets(text)
        cached = _CachedUpdate(removed, modified, added, versions.version, ignore_filter)
        if len(text) <= _MAX_CACHED_KEY_SIZE:
            if len(versions.cached_updates) >= _MAX_CACHED_UPDATES:
                versions.cached_updates.clear()
            versions.cached_updates[key] = cached
    return cached


def _remember(cache: dict[bytes, bytes | None], text: bytes, result: bytes | None) -> bytes | None:
    if len(cache) >= _MAX_CACHED_SETS:
        cache.clear()
    cache[text] = result
    return result


def _with_fields(entry: Entry, fields: FieldSet) -> Entry:
    return msgspec.structs.replace(entry, fieldsV1=msgspec.Raw(field_sets.encode_fields(fields)))


def _update_entries_of_versions(
    entries: Entries, live: Object, new: Object, versions: Versions, ignore_filter: Filter, writer: Writer, now: str
) -> Entries:
    """``update_entries`` where managers wrote in different API versions."""
    managers, by_identifier = _to_managed_fields(entries)
    managers, _comparison = update(live, new, versions, managers, _CURRENT, ignore_filter)
    current_set = managers.pop(_CURRENT, None)
    entry = Entry(
        writer.manager or "unknown", "Update", writer.api_version, now, "FieldsV1", subresource=writer.subresource
    )
    if current_set is not None:
        changed = _strip(current_set.fields)
        if changed:
            identifier = _identifier(entry)
            previous = managers.get(identifier)
            fields = union(changed, previous.fields) if previous is not None else changed
            managers[identifier] = VersionedSet(fields, writer.api_version, False)
            by_identifier[identifier] = entry
    return sort_and_cap(_to_entries(managers, by_identifier))


def _to_managed_fields(entries: Iterable[Entry]) -> tuple[ManagedFields, dict[str, Entry]]:
    by_identifier = {_identifier(entry): entry for entry in entries}
    managers = {
        name: VersionedSet(entry.fields, entry.api_version, entry.operation == "Apply")
        for name, entry in by_identifier.items()
    }
    return managers, by_identifier


def _to_entries(managers: ManagedFields, by_identifier: dict[str, Entry]) -> Entries:
    result = []
    for name, manager_set in managers.items():
        entry = by_identifier[name]
        text = field_sets.encode_fields(manager_set.fields)
        if bytes(entry.fieldsV1) != text or entry.api_version != manager_set.version:
            entry = msgspec.structs.replace(entry, fieldsV1=msgspec.Raw(text), api_version=manager_set.version)
        result.append(entry)
    return result


def sort_and_cap(entries: Entries) -> Entries:
    """Sorted, with at most the maximum number of update managers."""
    if len(entries) > MAX_UPDATE_MANAGERS:
        entries = _cap_managers(entries)
    if len(entries) > 1:
        entries.sort(key=_order)
    return entries


def _cap_managers(entries: Entries) -> Entries:
    """The oldest updates are merged to one entry per version, until the limit is met (capmanagers.go)."""
    by_identifier = {_identifier(entry): entry for entry in entries}
    updaters = sorted(
        (name for name, entry in by_identifier.items() if entry.operation == "Update"),
        key=lambda name: (by_identifier[name].time, name),
    )
    count = len(updaters)
    first_by_version: dict[str, str] = {}
    for name in updaters:
        if count <= MAX_UPDATE_MANAGERS:
            break
        entry = by_identifier[name]
        version = entry.api_version
        bucket = _identifier(Entry(ANCIENT_CHANGES, "Update", version))
        first = first_by_version.get(version)
        if first is None:
            first_by_version[version] = name
            continue
        if bucket not in by_identifier:
            by_identifier[bucket] = msgspec.structs.replace(
                by_identifier.pop(first), manager=ANCIENT_CHANGES, subresource=""
            )
        merged = union(entry.fields, by_identifier[bucket].fields)
        del by_identifier[name]
        by_identifier[bucket] = msgspec.structs.replace(_with_fields(by_identifier[bucket], merged), time=entry.time)
        count -= 1
    return list(by_identifier.values())


# Apply --------------------------------------------------------------------------------------------------------------


def apply_config(
    entries: Entries,
    zero: Object,
    live: Object,
    config: Object,
    versions: Versions,
    ignore_filter: Filter,
    writer: Writer,
    now: str,
    *,
    force: bool,
) -> tuple[Object, Entries]:
    """Apply the configuration; returns the object and its entries. The object is ``live`` itself if nothing changes.

    Raises ``ApplyConflicts``, whose managers ``manager_text`` formats. The configuration must have been validated.
    """
    if not entries and live is not zero:
        # Fields from before the first apply get a manager, too (skipnonapplied.go).
        before_first_apply = msgspec.structs.replace(writer, manager=BEFORE_FIRST_APPLY)
        entries = [_entry(before_first_apply, "Update", now, created_fields(zero, live, versions, ignore_filter))]
        entries = [entry for entry in entries if len(entry.fieldsV1) > 2]
    try:
        new, result = _apply_once(entries, live, config, versions, ignore_filter, writer, now, force=force)
    except ApplyConflicts as error:
        if writer.manager != _KUBECTL:
            raise
        allowed = _last_applied_fields(live, versions)
        if allowed is None:
            raise
        conflicts = [(name, path) for name, path in error.conflicts if not field_sets.has(allowed, path)]
        if conflicts:
            raise ApplyConflicts(conflicts) from None
        new, result = _apply_once(entries, live, config, versions, ignore_filter, writer, now, force=True)
    if writer.manager == _KUBECTL:
        new = _with_last_applied(new, config)
    return new, result


def _apply_once(
    entries: Entries,
    live: Object,
    config: Object,
    versions: Versions,
    ignore_filter: Filter,
    writer: Writer,
    now: str,
    *,
    force: bool,
) -> tuple[Object, Entries]:
    managers, by_identifier = _to_managed_fields(entries)
    entry = Entry(
        writer.manager or "unknown", "Apply", writer.api_version, "", "FieldsV1", subresource=writer.subresource
    )
    identifier = _identifier(entry)
    new, managers = apply(live, config, versions, managers, identifier, ignore_filter, force=force)
    by_identifier.setdefault(identifier, entry)
    manager_set = managers.get(identifier)
    if manager_set is not None:
        fields = _strip(manager_set.fields)
        if fields:
            managers[identifier] = VersionedSet(fields, manager_set.version, True)
        else:
            del managers[identifier]
    unchanged = new == live and with_distinct_booleans(live, new) is new
    if not unchanged:
        by_identifier[identifier] = msgspec.structs.replace(by_identifier[identifier], time=now)
    return live if unchanged else new, sort_and_cap(_to_entries(managers, by_identifier))


def _last_applied_fields(live: Object, versions: Versions) -> FieldSet | None:
    """The fields of kubectl's last-applied annotation that the object still has (lastappliedmanager.go)."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    if not text:
        return None
    try:
        config = json.loads(text)
    except ValueError:
        return None
    if not isinstance(config, dict) or config.get("apiVersion") != versions.version:
        return None
    type_ = versions.type_of(versions.version)
    if type_ is None or all_errors(config, type_) or all_errors(live, type_):
        return None
    comparison = compare(config, live, type_)
    fields = field_set(config, type_)
    for changed in (comparison.modified, comparison.added, comparison.removed):
        fields = difference(fields, changed)
    return fields


def _with_last_applied(new: Object, config: Object) -> Object:
    """Update kubectl's annotation, if there is one (lastappliedupdater.go)."""
    meta = new.get("metadata") or {}
    annotations = meta.get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return new
    last_applied = dict(config)
    if "metadata" in last_applied:
        last_applied["metadata"] = dict(last_applied["metadata"])
        config_annotations = dict(last_applied["metadata"].get("annotations") or {})
        config_annotations.pop(LAST_APPLIED, None)
        # Upstream sets the remaining annotations, null if there are none.
        if config_annotations:
            last_applied["metadata"]["annotations"] = config_annotations
        else:
            last_applied["metadata"].pop("annotations", None)
    text = json.dumps(_sorted(last_applied), separators=(",", ":"), ensure_ascii=False) + "\n"
    return {**new, "metadata": {**meta, "annotations": {**annotations, LAST_APPLIED: text}}}


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


# Conflicts ----------------------------------------------------------------------------------------------------------


def manager_text(identifier: str) -> str:
    """A manager as in messages: ``"x" with subresource "status" using apps/v1``."""
    manager = json.loads(identifier)
    text = json.dumps(manager.get("manager", ""), ensure_ascii=False)
    if manager.get("subresource"):
        text += f" with subresource {json.dumps(manager['subresource'])}"
    return f"{text} using {manager.get('apiVersion', '')}" if manager.get("operation") == "Update" else text


def conflict_text(conflicts: Sequence[tuple[str, Path]]) -> str:
    """``Apply failed with 1 conflict: conflict with "x" using apps/v1: .spec.replicas``."""
    if len(conflicts) == 1:
        ((name, path),) = conflicts
        return f"Apply failed with 1 conflict: conflict with {manager_text(name)}: {field_sets.path_text(path)}"
    lines: list[str] = []
    for name in sorted({name for name, _path in conflicts}):
        lines.append(f"conflicts with {manager_text(name)}:")
        lines += [f"- {field_sets.path_text(path)}" for manager, path in conflicts if manager == name]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
