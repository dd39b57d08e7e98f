"""The condition ``Dangling`` of FlowSchemas: whether the PriorityLevelConfiguration that one references exists.

As apiserver's ``pkg/util/flowcontrol/apf_controller.go`` (``presyncFlowSchemaStatus``, v0.36), which applies the
condition with the manager ``api-priority-and-fairness-config-consumer-v1``. Requests are not queued here.
"""

from collections.abc import Sequence
from itertools import islice

from pilothouse.apiserver.controllers.derived_objects import DerivedObjectsController
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object, decode, readable_records, stage_object
from pilothouse.machinery.go_text import quote
from pilothouse.storage import Change, Mismatch, Record, Staged
from pilothouse.storage.unreadable import is_readable

_GROUP = "flowcontrol.apiserver.k8s.io"
_CONSUMER = "api-priority-and-fairness-config-consumer-v1"
_MAX_SYNCS_AT_ONCE = 10


class FlowSchemaStatus(DerivedObjectsController):
    """Syncs the FlowSchemas that change, and those whose priority level is created or deleted."""

    reason = "the FlowSchema references a PriorityLevelConfiguration, which exists or not"

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._info = core.table.built_in(_GROUP, "flowschemas")
        levels = core.table.built_in(_GROUP, "prioritylevelconfigurations")
        self._level_key = levels.key
        self._level_of: dict[str, str] = {}
        """The keys of FlowSchemas, and the keys of their priority levels."""
        self._schemas_of: dict[str, set[str]] = {}
        self._pending: dict[str, None] = {}
        """The keys of the FlowSchemas to sync."""
        prefix = self._info.key("", "")
        for record in readable_records(core.store, prefix):
            self._add(record.key, record.value)
        core.store.follow(prefix, self._on_schemas)
        core.store.follow(levels.key("", ""), self._on_levels)

    def _on_schemas(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._remove(change.key)
            if change.type != "DELETED" and is_readable(change.value):
                self._add(change.key, change.value)
        self.notify(changes)

    def _on_levels(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.type != "MODIFIED":
                self._pending.update(dict.fromkeys(sorted(self._schemas_of.get(change.key, ()))))
        self.notify(changes)

    def _add(self, key: str, value: bytes) -> None:
        level = self._level_key("", _level_name(decode(value, key)))
        self._level_of[key] = level
        self._schemas_of.setdefault(level, set()).add(key)
        self._pending[key] = None

    def _remove(self, key: str) -> None:
        level = self._level_of.pop(key, None)
        if level is not None:
            self._schemas_of[level].discard(key)
            if not self._schemas_of[level]:
                del self._schemas_of[level]
        self._pending.pop(key, None)

    def stage(self) -> Staged | None:
        staged = None
        for key in list(islice(self._pending, _MAX_SYNCS_AT_ONCE)):
            record = self._core.store.staged(key)
            written = self._sync(record) if record is not None and is_readable(record.value) else None
            if written is None:
                del self._pending[key]
            else:
                staged = written  # pending until it is up to date: the commit may fail
        if self._pending:
            self._changed.set()
        return staged

    def _sync(self, record: Record) -> Staged | None:
        obj = decode(record.value, record.key)
        level = _level_name(obj)
        exists = self._core.store.staged(self._level_key("", level)) is not None
        condition = dangling_condition(level, self._core.time.now(), exists=exists)
        current = next((existing for existing in _conditions(obj) if existing.get("type") == "Dangling"), {})
        if all(current.get(field) == condition[field] for field in ("status", "reason", "message")):
            return None
        config = {
            "apiVersion": self._info.api_version,
            "kind": self._info.kind,
            "metadata": {"name": obj["metadata"]["name"]},
            "status": {"conditions": [condition]},
        }
        applied = self._core.managed_fields.apply_on_server(self._info, record.value, config, _CONSUMER, "status")
        try:
            return stage_object(self._core.store, self._info, record.key, applied, expected=record.revision)
        except Mismatch:
            return None  # a concurrent write; its commit triggers the next sync


def dangling_condition(level: str, now: str, *, exists: bool) -> Object:
    """The condition, with ``now`` as the time of its transition."""
    message = f"This FlowSchema references the PriorityLevelConfiguration object named {quote(level)} "
    return {
        "type": "Dangling",
        "status": "False" if exists else "True",
        "lastTransitionTime": now,
        "reason": "Found" if exists else "NotFound",
        "message": message + ("and it exists" if exists else "but there is no such object"),
    }


def _level_name(obj: Object) -> str:
    return str((obj["spec"].get("priorityLevelConfiguration") or {}).get("name") or "")


def _conditions(obj: Object) -> Sequence[Object]:
    return (obj.get("status") or {}).get("conditions") or ()
