"""A manifest applied to a cluster, as users of ``kubectl apply`` expect it: its fields are set, fields removed from it
since it was applied last are removed, and what admission, controllers, ``kubectl scale`` and others have set stays.

This is server-side apply with ``force``, as ``kubectl apply --server-side --force-conflicts``: the server knows from
managedFields what was applied before. Objects created otherwise are migrated first, as kubectl and client-go do it
(client-go 0.36, ``util/csaupgrade/upgrade.go``; kubectl ``pkg/cmd/apply/apply.go``, ``migrateToSSAIfNecessary``).
"""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from pilothouse.api import schema
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object
from pilothouse.client import Client, apply_patch, merge_patch
from pilothouse.client.errors import Conflict, InternalError, MethodNotAllowed, NotFound
from pilothouse.machinery import field_sets
from pilothouse.machinery.go_numbers import ConversionError, fit_numbers
from pilothouse.machinery.managed_fields import LAST_APPLIED

_STRICT = "Strict"
"""As with kubectl, an unknown field is an error in the manifest."""
_OUR_MANAGERS = ("pilothouse-up", "pilothouse-load", "pilothouse-dev")
"""Whatever program has applied an object before, they all apply it as its manager: fields that are removed from the
manifest between ``up -f`` and ``load`` are removed as well."""
_CREATED_BY_KUBECTL = "kubectl-create"
_ATTEMPTS = 5
_ANNOTATION = ("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")
_WRITTEN_BY_SERVER = ("generation", "managedFields", "resourceVersion")

Document = dict[str, Any]


async def apply_document(
    client: Client, kind: Kind[Object], document: Document, namespace: str
) -> tuple[Document, str]:
    """The object in the cluster after applying ``document``, and whether it was created, configured or unchanged. The
    field manager of a new object is the user agent of the client."""
    config = _config(document)
    name = str(config["metadata"].get("name") or "")
    requires_version = bool(config["metadata"].get("resourceVersion"))
    for left in reversed(range(_ATTEMPTS)):
        live = await _live(client, kind, name, namespace) if name else None
        manager = _manager(live, client.user_agent.partition("/")[0])
        if live is None:
            return await _created(client, kind, config, namespace, manager), "created"
        try:
            live = await _migrated(client, kind, live, namespace, manager)
            # Another write in between would look like one of ours. An object that changes all the time is updated.
            version = config["metadata"].get("resourceVersion") or (left and live["metadata"]["resourceVersion"])
            sent = {**config, "metadata": {**config["metadata"], "resourceVersion": version}} if version else config
            result = await _updated(client, kind, sent, namespace, manager)
        except Conflict:
            if requires_version or not left:
                raise
        else:
            same = _content(result, config) == _content(live, config)
            return result, "unchanged" if same else "configured"
    raise AssertionError("the last attempt returns or raises")


async def _updated(client: Client, kind: Kind[Object], config: Document, namespace: str, manager: str) -> Document:
    raw = await _applied(client, kind, config, namespace, manager)
    if raw is None:
        name, patch = config["metadata"]["name"], merge_patch(config)
        raw = await client.patch(kind.raw, name, patch, namespace, field_manager=manager, field_validation=_STRICT)
    updated: Document = msgspec.json.decode(raw)
    return updated


async def _live(client: Client, kind: Kind[Object], name: str, namespace: str) -> Document | None:
    try:
        raw = await client.get(kind.raw, name, namespace)
    except (NotFound, MethodNotAllowed):  # Reviews can only be created.
        return None
    live: Document = msgspec.json.decode(raw)
    return live


async def _created(client: Client, kind: Kind[Object], config: Document, namespace: str, manager: str) -> Document:
    raw = await _applied(client, kind, config, namespace, manager) if config["metadata"].get("name") else None
    if raw is None:
        raw = await client.create(kind.raw, config, namespace, field_manager=manager, field_validation=_STRICT)
    created: Document = msgspec.json.decode(raw)
    return created


async def _applied(
    client: Client, kind: Kind[Object], config: Document, namespace: str, manager: str
) -> msgspec.Raw | None:
    """The object after server-side apply. None if it is not possible, so that another request has to apply the manifest
    or is rejected with a better reason: items with the same key, such as a variable that a container has twice; unknown
    fields; integers out of range, which server-side apply wraps; kinds that can only be created."""
    name, patch = config["metadata"]["name"], apply_patch(config)
    if not _has_valid_numbers(config):
        return None
    try:
        return await client.patch(
            kind.raw, name, patch, namespace, field_manager=manager, force=True, field_validation=_STRICT
        )
    except (InternalError, MethodNotAllowed):
        return None


def _has_valid_numbers(config: Document) -> bool:
    group, _, version = config["apiVersion"].rpartition("/")
    definition = schema.load().for_kind(group, version, config["kind"])
    if definition is None:
        return True
    try:
        return fit_numbers(config, definition) is config
    except ConversionError:
        return False


def _manager(live: Document | None, own: str) -> str:
    entries = live["metadata"].get("managedFields") or [] if live else []
    own_entries = [
        managed_entry
        for managed_entry in entries
        if managed_entry.get("manager") in _OUR_MANAGERS and not managed_entry.get("subresource")
    ]
    own_entries.sort(key=lambda managed_entry: managed_entry["operation"] != "Apply")
    return own_entries[0]["manager"] if own_entries else own


def _config(document: Document) -> Document:
    """The manifest as a configuration. An exported object has managedFields, which the server does not accept here; a
    Secret's stringData is only written, so the server could not determine which of it was applied before."""
    config = {**document, "metadata": {key: v for key, v in document["metadata"].items() if key != "managedFields"}}
    text = config.get("stringData")
    data = config.get("data") or {}
    is_secret = (config["apiVersion"], config["kind"]) == ("v1", "Secret")
    if not (is_secret and isinstance(text, dict) and isinstance(data, dict)):
        return config
    if not all(isinstance(value, str) for value in text.values()):
        return config  # rejected by the server, with the reason
    del config["stringData"]
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
    return {**config, "data": {**data, **encoded}}


def _content(document: Document, config: Document) -> Document:
    """An object without what the server and controllers write. The status counts if the manifest has one."""
    content = {key: value for key, value in document.items() if key != "status" or "status" in config}
    meta = {key: value for key, value in document["metadata"].items() if key not in _WRITTEN_BY_SERVER}
    return {**content, "metadata": meta}


# Migration to server-side apply ---------------------------------------------------------------------------------------


async def _migrated(client: Client, kind: Kind[Object], live: Document, namespace: str, manager: str) -> Document:
    """The object after taking over what was applied before by other means: by ``kubectl apply``, or by us with a create
    or a patch. Raises ``Conflict`` if it is not the current one."""
    meta = live["metadata"]
    entries = migrated_entries(meta, manager)
    if entries is None:
        return live
    patch = merge_patch({"metadata": {"resourceVersion": meta["resourceVersion"], "managedFields": entries}})
    raw = await client.patch(kind.raw, meta["name"], patch, namespace, field_manager=manager)
    migrated: Document = msgspec.json.decode(raw)
    return migrated


def migrated_entries(meta: Mapping[str, Any], manager: str) -> list[Document] | None:
    """The managedFields in which ``manager`` has applied what it and ``kubectl apply`` have written by other requests;
    None if there is nothing to migrate. Pure."""
    entries: list[Document] = meta.get("managedFields") or []
    managers = {manager, *_OUR_MANAGERS}
    if LAST_APPLIED in (meta.get("annotations") or {}):
        owners = {
            managed_entry["manager"] for managed_entry in entries if field_sets.has(_fields(managed_entry), _ANNOTATION)
        }
        managers |= {*owners, _CREATED_BY_KUBECTL}
    updates = [
        managed_entry
        for managed_entry in entries
        if _is_update(managed_entry) and managed_entry.get("manager") in managers
    ]
    applied = next((managed_entry for managed_entry in entries if _is_applied(managed_entry, manager)), None)
    base = applied or next(iter(updates), None)
    updates = [
        managed_entry
        for managed_entry in updates
        if base is not None and managed_entry.get("apiVersion") == base.get("apiVersion")
    ]
    annotation = field_sets.of_paths(_ANNOTATION)
    fields = _fields(applied) if applied else field_sets.NOTHING
    kept = [managed_entry for managed_entry in entries if managed_entry is not applied and managed_entry not in updates]
    migrated = False
    for managed_entry in updates:
        own = _fields(managed_entry)
        rest = field_sets.intersection(own, annotation)
        moved = field_sets.difference(own, rest)
        migrated = migrated or bool(moved)
        fields = field_sets.union(fields, moved)
        if rest:
            kept.append({**managed_entry, "fieldsV1": rest})
    if base is None or not migrated:
        return None
    return [*kept, {**base, "manager": manager, "operation": "Apply", "fieldsV1": fields}]


def _is_update(entry: Document) -> bool:
    return entry.get("operation") == "Update" and not entry.get("subresource")


def _is_applied(entry: Document, manager: str) -> bool:
    return entry.get("operation") == "Apply" and entry.get("manager") == manager and not entry.get("subresource")


def _fields(entry: Document) -> field_sets.FieldSet:
    fields: field_sets.FieldSet = entry.get("fieldsV1") or field_sets.NOTHING
    return fields
