"""One object: as JSON, with its events and history.

Values of Secrets are never included, neither in the object and its differences nor in annotations with a copy of what
was applied (``last-applied-configuration``).
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.env import Env
from pilothouse.machinery.differences import ABSENT, Difference, differences, is_public_in_secrets
from pilothouse.storage import Change, Compacted, Record, Store
from pilothouse.ui.rows import event_row
from pilothouse.ui.slices import Slices

HIDDEN = "(hidden)"
MAX_VERSIONS = 100
MAX_EVENTS = 100
_MAX_BYTES = 16 * 1024 * 1024
_MAX_FIELDS = 60
_LONGEST_VALUE = 400
_SHOWN_OF_SECRETS = ("apiVersion", "kind", "metadata", "type", "immutable")


class Found(msgspec.Struct):
    """An object at a revision; ``record`` is None if it did not exist."""

    info: ResourceInfo
    key: str
    record: Record | None
    changes: list[Change]
    """The recorded changes of this key up to the revision, oldest first."""
    begins: int
    """The oldest revision of the history."""


class Objects:
    """Reads the objects of one server."""

    def __init__(self, env: Env, core: Core) -> None:
        self._env = env
        self._core = core
        self._infos: dict[tuple[str, str], ResourceInfo] = {}
        self._generation = -1

    def info(self, group: str, resource: str) -> ResourceInfo | None:
        """The resource in its preferred version; None if it is not served."""
        self._refresh()
        return self._infos.get((group, resource))

    def infos(self) -> list[ResourceInfo]:
        """Every stored resource, in one version each."""
        self._refresh()
        return list(self._infos.values())

    def _refresh(self) -> None:
        table = self._core.table
        if self._generation == table.generation:
            return
        self._generation = table.generation
        self._infos = {}
        for info in table:
            if "list" in info.verbs and "get" in info.verbs:
                self._infos.setdefault((info.group, info.resource), info)

    def find(self, info: ResourceInfo, namespace: str, name: str, revision: int = 0) -> Found:
        """Find an object, now or at a revision. Raises ``Compacted``."""
        store = self._core.store
        key = info.key(namespace, name)
        changes, begins = changes_of(store, info.prefix, key)
        record = store.get(key)
        if revision and revision < store.revision:
            if revision < begins:
                raise Compacted(revision, begins)
            later = next((change for change in changes if change.revision > revision), None)
            if later is not None:
                record = later.old
            changes = [change for change in changes if change.revision <= revision]
        return Found(info, key, record, changes, begins)

    async def document(self, located: Found) -> dict[str, Any]:
        """The object, or its last version with ``gone`` set."""
        last = located.changes[-1] if located.changes else None
        value = located.record.value if located.record is not None else last.value if last is not None else b""
        if not value:
            return {"exists": False, "gone": False}
        served = await self._core.from_storage(located.info, value)
        document = await self._core.long_work.run(len(served), msgspec.json.decode, served)
        revision = located.record.revision if located.record is not None else last.revision if last is not None else 0
        return {
            "exists": located.record is not None,
            "gone": located.record is None,
            "revision": str(revision),
            "object": without_values(located.info, document),
        }

    async def events(self, uid: str, kind: str, namespace: str, name: str, revision: int) -> list[Any]:
        """The events that regard an object, newest first. Events of later objects with the same name have another
        uid."""
        records = self._core.store.list("/events/", revision=revision).records
        slices = Slices(self._env.perf_counter)
        needle = name.encode()
        rows = []
        for record in reversed(records):
            if needle in record.value:
                row = event_row(record.key, record.value)
                # Kubelets give the name of a node as its uid.
                if row[5:8] == (kind, namespace, name) and (not uid or row[8] in (uid, name, "")):
                    rows.append(row)
            await slices.turn()
        rows.sort(key=lambda row: (row[1], row[0]), reverse=True)
        return rows[:MAX_EVENTS]

    async def versions(self, located: Found) -> dict[str, Any]:
        """The recorded versions of an object, newest first, each with its differences."""
        slices = Slices(self._env.perf_counter)
        marks = self._core.store.history_marks()
        now = self._env.now().timestamp()
        versions, size = list[dict[str, Any]](), 0
        for change in reversed(located.changes):
            length = len(change.value) + len(change.old_value or b"")
            size += length
            if len(versions) == MAX_VERSIONS or size > _MAX_BYTES:
                break
            versions.append(await self._core.long_work.run(length, _version, located.info, change, marks, now))
            await slices.turn()
        return {
            "versions": versions,
            "more": len(located.changes) - len(versions),
            "begins": str(located.begins),
        }


def _version(info: ResourceInfo, change: Change, marks: Sequence[tuple[float, int]], now: float) -> dict[str, Any]:
    new = msgspec.json.decode(change.value, type=dict[str, Any])
    old = msgspec.json.decode(change.old_value, type=dict[str, Any]) if change.old_value else {}
    changed = differences(old, new) if old and change.type != "DELETED" else []
    return {
        "revision": str(change.revision),
        "type": change.type,
        "at": change.origin.time if change.origin is not None else time_of(change.revision, marks, now),
        "origin": origin_of(change),
        "managers": [] if change.type == "DELETED" else changed_managers(old, new),
        "changes": [shown_difference(info, difference) for difference in changed[:_MAX_FIELDS]],
        "moreChanges": max(len(changed) - _MAX_FIELDS, 0),
    }


def changes_of(store: Store, prefix: str, key: str) -> tuple[list[Change], int]:
    """The recorded changes of one key, oldest first, and the oldest revision of the history."""
    return [change for change in store.changes(prefix) if change.key == key], store.history_floor(prefix)


def origin_of(change: Change) -> dict[str, Any] | None:
    """User and cause of a change, as far as recorded."""
    origin = change.origin
    if origin is None:
        return None
    return {
        "user": origin.shown_user,
        "userAgent": origin.user_agent[:_LONGEST_VALUE],
        "verb": origin.verb,
        "subresource": origin.subresource,
        "cause": origin.cause,
    }


def time_of(revision: int, marks: Sequence[tuple[float, int]], now: float) -> float:
    """When a revision was written, to about a second: by the first mark with the same or a later revision."""
    for seconds_ago, marked in marks:
        if marked >= revision:
            return now - seconds_ago
    return now


def changed_managers(previous: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The field managers whose entries differ between two versions."""
    old = (previous.get("metadata") or {}).get("managedFields") or ()
    changed = [
        managed_field
        for managed_field in (after.get("metadata") or {}).get("managedFields") or ()
        if managed_field not in old
    ]
    names = [
        f"{entry.get('manager') or 'unknown'}" + (f" ({entry['subresource']})" if entry.get("subresource") else "")
        for entry in changed
    ]
    return list(dict.fromkeys(names))


def has_secret_values(info: ResourceInfo | Kind[Any]) -> bool:
    """Whether objects of a kind contain values that must not be shown."""
    return info.group == "" and info.resource == "secrets"


def without_values(info: ResourceInfo | Kind[Any], document: dict[str, Any]) -> dict[str, Any]:
    """The object without the values that must not be shown."""
    if not has_secret_values(info):
        return document
    visible_fields = {name: document[name] for name in _SHOWN_OF_SECRETS if name in document}
    metadata = dict(visible_fields.get("metadata") or {})
    if metadata.get("annotations"):
        metadata["annotations"] = dict.fromkeys(metadata["annotations"], HIDDEN)
    visible_fields["metadata"] = metadata
    if document.get("data"):
        visible_fields["data"] = dict.fromkeys(document["data"], HIDDEN)
    return visible_fields


def shown_difference(info: ResourceInfo, change: Difference) -> dict[str, Any]:
    """One changed field as the page shows it."""
    hidden = has_secret_values(info) and not is_public_in_secrets(change.path)
    fields: dict[str, Any] = {"path": change.path[:_LONGEST_VALUE]}
    for name, value in (("before", change.before), ("after", change.after)):
        if value is not ABSENT:
            fields[name] = HIDDEN if hidden else _truncated(value)
    return fields


def _truncated(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
