"""metadata.managedFields: the fields of each manager, and their changes with a write.

``follow`` is called after every write except apply (create, PUT, other patches): it compares the object with its
previous state and assigns the changed fields to the writer. ``apply_config`` is server-side apply. Both work on
``Entry``s, whose field sets stay encoded until they are needed: most writes affect one or two entries. After
apimachinery ``pkg/util/managedfields/internal`` (v0.36), in its order of steps.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import msgspec

from pilothouse.machinery import field_sets
from pilothouse.machinery.apply import ApplyConflicts, Filter, Object, Owned, Owners, Versions, apply, update
from pilothouse.machinery.bounded_cache import bounded_cache
from pilothouse.machinery.field_merge import reconciled
from pilothouse.machinery.field_sets import FieldsError, FieldSet, Path, covers, difference, union
from pilothouse.machinery.field_walks import all_errors, compare, field_set, grown
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
        kept = {element: node for element, node in meta.items() if element not in _STRIPPED_METADATA}
        if kept:
            result["f:metadata"] = kept
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


@bounded_cache(512, longest=16384)
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


def _entry(who: Writer, operation: str, time: str, fields: FieldSet) -> Entry:
    return Entry(
        who.manager or "unknown",
        operation,
        who.api_version,
        time,
        "FieldsV1",
        msgspec.Raw(field_sets.encode_fields(fields)),
        who.subresource,
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
    found: dict[str, Entry] = {}
    for each in document:
        if not isinstance(each, dict) or each.get("operation") not in ("Apply", "Update"):
            return None
        if not each.get("apiVersion") or each.get("fieldsType") != "FieldsV1":
            return None
        try:
            fields = field_sets.read_fields(each.get("fieldsV1"))
        except FieldsError:
            return None
        who = Writer(each.get("manager") or "", each["apiVersion"], each.get("subresource") or "")
        entry = msgspec.structs.replace(
            _entry(who, each["operation"], each.get("time") or "", fields), manager=who.manager
        )
        found[_identifier(entry)] = entry
    return list(found.values())


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


def created_fields(zero: Object, new: Object, versions: Versions, counts: Filter) -> FieldSet:
    """The fields of an object's creator: everything that is not in an empty object."""
    type_ = versions.type_of(versions.version)
    assert type_ is not None, "what is created is served"
    assert type_.map is not None, "objects are maps"
    fields = grown(zero, new, type_.map, _SKIPPED_ON_CREATE)
    meta = new.get("metadata")
    shape = type_.map.member("metadata")
    if meta and shape is not None and shape.map is not None:
        own = grown(zero.get("metadata") or {}, meta, shape.map, _UNOWNED)
        if own:
            fields["f:metadata"] = own
    return counts(fields, versions.version)


_SKIPPED_ON_CREATE = ("apiVersion", "kind", "metadata")


def follow(
    entries: Entries,
    live: Object,
    new: Object,
    versions: Versions,
    counts: Filter,
    who: Writer,
    now: Callable[[], str],
    skip: Collection[str] = (),
) -> Entries:
    """The entries after a write from ``live`` to ``new``; the same list if they do not change.

    ``live`` and ``new`` are without managedFields. ``skip`` are names of members that are not tracked.
    """
    version = versions.version
    if any(entry.api_version != version for entry in entries):
        return _follow_versions(entries, live, new, versions, counts, who, now())
    type_ = versions.type_of(version)
    assert type_ is not None, "what is written is served"
    found = compare(live, new, type_, skip)
    if found.is_same:
        return entries
    key = _encode((found.removed, found.modified, found.added))
    texts = [bytes(entry.fieldsV1) for entry in entries]
    address = _only_address(key, texts)
    if address:
        key = key.replace(address, _SOME_ADDRESS)
        texts = [text.replace(address, _SOME_ADDRESS) for text in texts]
    step = _step(key, versions, counts)
    if not step.gone:
        return entries
    result: Entries = []
    mine = False
    for entry, text in zip(entries, texts, strict=True):
        time = entry.time
        if entry.manager == who.manager and entry.operation == "Update" and entry.subresource == who.subresource:
            mine = True
            after = step.own(text)
            if step.changed:
                time = now()
        else:
            after = step.other(text, versions, type_)
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
    if step.changed and not mine:
        first = step.first.replace(_SOME_ADDRESS, address) if address else step.first
        manager = who.manager or "unknown"
        result.append(Entry(manager, "Update", who.api_version, now(), "FieldsV1", msgspec.Raw(first), who.subresource))
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
        for each in _addresses(text):
            if address and each != address:
                return b""
            address = each
    return b"" if address == _SOME_ADDRESS else address


class _CachedUpdate:
    """The effect of one comparison on the field sets of managers.

    The same comparisons are frequent (a pod that starts, a node's heartbeat), and so are the sets that they apply to;
    results are cached.
    """

    __slots__ = ("_others", "_own", "changed", "first", "gone", "marks", "removed")

    def __init__(self, removed: FieldSet, modified: FieldSet, added: FieldSet, version: str, counts: Filter) -> None:
        taken = counts(union(modified, added), version)
        self.removed = counts(removed, version)
        self.changed = _strip(taken)
        self.gone = union(self.removed, taken)
        self.marks = [_encode(element) for element in self.gone]
        self.first = field_sets.encode_fields(self.changed)
        self._own: dict[bytes, bytes | None] = {}
        self._others: dict[bytes, bytes | None] = {}

    def own(self, text: bytes) -> bytes | None:
        """The writer's set after the write; None if it does not change."""
        if text in self._own:
            return self._own[text]
        fields = _fields(text)
        left = difference(fields, self.removed) if self.removed else fields
        if not covers(left, self.changed):
            left = union(left, self.changed)
        return _remember(self._own, text, None if left is fields else field_sets.encode_fields(left))

    def other(self, text: bytes, versions: Versions, type_: MergeType) -> bytes | None:
        """Another manager's set after the write; None if it does not change."""
        if not any(mark in text for mark in self.marks):
            return None
        if not versions.fixed:
            return self._without(text, reconciled(_fields(text), type_))
        if text in self._others:
            return self._others[text]
        return _remember(self._others, text, self._without(text, _fields(text)))

    def _without(self, text: bytes, fields: FieldSet) -> bytes | None:
        left = difference(fields, self.gone)
        return None if left == _fields(text) else field_sets.encode_fields(left)


_MAX_STEPS = 512
_MAX_SETS = 64
_MAX_STEP_SIZE = 8 * 1024


_decode_sets = msgspec.json.Decoder(tuple[FieldSet, FieldSet, FieldSet]).decode


def _step(text: bytes, versions: Versions, counts: Filter) -> _CachedUpdate:
    key = (text, counts)
    step: _CachedUpdate | None = versions.steps.get(key)
    if step is None:
        removed, modified, added = _decode_sets(text)
        step = _CachedUpdate(removed, modified, added, versions.version, counts)
        if len(text) <= _MAX_STEP_SIZE:
            if len(versions.steps) >= _MAX_STEPS:
                versions.steps.clear()
            versions.steps[key] = step
    return step


def _remember(known: dict[bytes, bytes | None], text: bytes, result: bytes | None) -> bytes | None:
    if len(known) >= _MAX_SETS:
        known.clear()
    known[text] = result
    return result


def _with_fields(entry: Entry, fields: FieldSet) -> Entry:
    return msgspec.structs.replace(entry, fieldsV1=msgspec.Raw(field_sets.encode_fields(fields)))


def _follow_versions(
    entries: Entries, live: Object, new: Object, versions: Versions, counts: Filter, who: Writer, now: str
) -> Entries:
    """``follow`` where managers wrote in different API versions."""
    owners, known = _owners(entries)
    owners, _found = update(live, new, versions, owners, _CURRENT, counts)
    mine = owners.pop(_CURRENT, None)
    current = Entry(who.manager or "unknown", "Update", who.api_version, now, "FieldsV1", subresource=who.subresource)
    if mine is not None:
        changed = _strip(mine.fields)
        if changed:
            identifier = _identifier(current)
            before = owners.get(identifier)
            fields = union(changed, before.fields) if before is not None else changed
            owners[identifier] = Owned(fields, who.api_version, False)
            known[identifier] = current
    return sort_and_cap(_entries(owners, known))


def _owners(entries: Iterable[Entry]) -> tuple[Owners, dict[str, Entry]]:
    known = {_identifier(entry): entry for entry in entries}
    owners = {name: Owned(entry.fields, entry.api_version, entry.operation == "Apply") for name, entry in known.items()}
    return owners, known


def _entries(owners: Owners, known: dict[str, Entry]) -> Entries:
    result = []
    for name, owned in owners.items():
        entry = known[name]
        text = field_sets.encode_fields(owned.fields)
        if bytes(entry.fieldsV1) != text or entry.api_version != owned.version:
            entry = msgspec.structs.replace(entry, fieldsV1=msgspec.Raw(text), api_version=owned.version)
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
    known = {_identifier(entry): entry for entry in entries}
    updaters = sorted(
        (name for name, entry in known.items() if entry.operation == "Update"),
        key=lambda name: (known[name].time, name),
    )
    left = len(updaters)
    firsts: dict[str, str] = {}
    for name in updaters:
        if left <= MAX_UPDATE_MANAGERS:
            break
        entry = known[name]
        version = entry.api_version
        bucket = _identifier(Entry(ANCIENT_CHANGES, "Update", version))
        first = firsts.get(version)
        if first is None:
            firsts[version] = name
            continue
        if bucket not in known:
            known[bucket] = msgspec.structs.replace(known.pop(first), manager=ANCIENT_CHANGES, subresource="")
        merged = union(entry.fields, known[bucket].fields)
        del known[name]
        known[bucket] = msgspec.structs.replace(_with_fields(known[bucket], merged), time=entry.time)
        left -= 1
    return list(known.values())


# Apply --------------------------------------------------------------------------------------------------------------


def apply_config(
    entries: Entries,
    zero: Object,
    live: Object,
    config: Object,
    versions: Versions,
    counts: Filter,
    who: Writer,
    now: str,
    *,
    force: bool,
) -> tuple[Object, Entries]:
    """Apply the configuration; returns the object and its entries. The object is ``live`` itself if nothing changes.

    Raises ``ApplyConflicts``, whose managers ``manager_text`` formats. The configuration must have been validated.
    """
    if not entries and live is not zero:
        # Fields from before the first apply get a manager, too (skipnonapplied.go).
        before = msgspec.structs.replace(who, manager=BEFORE_FIRST_APPLY)
        entries = [_entry(before, "Update", now, created_fields(zero, live, versions, counts))]
        entries = [entry for entry in entries if len(entry.fieldsV1) > 2]
    try:
        new, result = _apply_once(entries, live, config, versions, counts, who, now, force=force)
    except ApplyConflicts as error:
        if who.manager != _KUBECTL:
            raise
        allowed = _last_applied_fields(live, versions)
        if allowed is None:
            raise
        left = [(name, path) for name, path in error.conflicts if not field_sets.has(allowed, path)]
        if left:
            raise ApplyConflicts(left) from None
        new, result = _apply_once(entries, live, config, versions, counts, who, now, force=True)
    if who.manager == _KUBECTL:
        new = _with_last_applied(new, config)
    return new, result


def _apply_once(
    entries: Entries,
    live: Object,
    config: Object,
    versions: Versions,
    counts: Filter,
    who: Writer,
    now: str,
    *,
    force: bool,
) -> tuple[Object, Entries]:
    owners, known = _owners(entries)
    me = Entry(who.manager or "unknown", "Apply", who.api_version, "", "FieldsV1", subresource=who.subresource)
    name = _identifier(me)
    new, owners = apply(live, config, versions, owners, name, counts, force=force)
    known.setdefault(name, me)
    mine = owners.get(name)
    if mine is not None:
        fields = _strip(mine.fields)
        if fields:
            owners[name] = Owned(fields, mine.version, True)
        else:
            del owners[name]
    same = new == live
    if not same:
        known[name] = msgspec.structs.replace(known[name], time=now)
    return live if same else new, sort_and_cap(_entries(owners, known))


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
    found = compare(config, live, type_)
    fields = field_set(config, type_)
    for others in (found.modified, found.added, found.removed):
        fields = difference(fields, others)
    return fields


def _with_last_applied(new: Object, config: Object) -> Object:
    """Update kubectl's annotation, if there is one (lastappliedupdater.go)."""
    meta = new.get("metadata") or {}
    annotations = meta.get("annotations") or {}
    if not annotations.get(LAST_APPLIED):
        return new
    mine = dict(config)
    if "metadata" in mine:
        mine["metadata"] = dict(mine["metadata"])
        given = dict(mine["metadata"].get("annotations") or {})
        given.pop(LAST_APPLIED, None)
        # Upstream sets the remaining annotations, null if there are none.
        if given:
            mine["metadata"]["annotations"] = given
        else:
            mine["metadata"].pop("annotations", None)
    text = json.dumps(_sorted(mine), separators=(",", ":"), ensure_ascii=False) + "\n"
    return {**new, "metadata": {**meta, "annotations": {**annotations, LAST_APPLIED: text}}}


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


# Conflicts ----------------------------------------------------------------------------------------------------------


def manager_text(identifier: str) -> str:
    """A manager as in messages: ``"x" with subresource "status" using apps/v1``."""
    parts = json.loads(identifier)
    text = json.dumps(parts.get("manager", ""), ensure_ascii=False)
    if parts.get("subresource"):
        text += f" with subresource {json.dumps(parts['subresource'])}"
    return f"{text} using {parts.get('apiVersion', '')}" if parts.get("operation") == "Update" else text


def conflict_text(conflicts: Sequence[tuple[str, Path]]) -> str:
    """``Apply failed with 1 conflict: conflict with "x" using apps/v1: .spec.replicas``."""
    if len(conflicts) == 1:
        ((name, path),) = conflicts
        return f"Apply failed with 1 conflict: conflict with {manager_text(name)}: {field_sets.path_text(path)}"
    lines: list[str] = []
    for name in sorted({name for name, _path in conflicts}):
        lines.append(f"conflicts with {manager_text(name)}:")
        lines += [f"- {field_sets.path_text(path)}" for other, path in conflicts if other == name]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
