"""delete and deletecollection: preconditions, propagation, grace, finalizers.

After apiserver's ``pkg/registry/rest/delete.go`` and ``pkg/registry/generic/registry/store.go`` (v0.36).
"""

from typing import Any

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.audit.context import audit_context
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.endpoints.get import list_objects, selection_of
from pilothouse.apiserver.endpoints.undecided import require_stored
from pilothouse.apiserver.endpoints.update import read_stored, remove
from pilothouse.apiserver.objects import (
    Object,
    encode_object,
    format_seconds,
    next_generation,
    ordered_metadata,
    parse_seconds,
    read_head,
    stage_object,
)
from pilothouse.apiserver.options import DeleteOptions, check_numbers, read_delete_options
from pilothouse.apiserver.serializers.bodies import JSON_TYPES, YAML_TYPES, check_size, read_document, read_text
from pilothouse.apiserver.serializers.results import ListResult, ObjectResult, Result, StatusResult
from pilothouse.machinery.times import add_seconds
from pilothouse.storage import Mismatch, Record

_ATTEMPTS = 5
_OPTIONS = ("gracePeriodSeconds", "preconditions", "orphanDependents", "propagationPolicy", "dryRun")


def read_options(call: Call) -> DeleteOptions:
    """The options of a DELETE, from body or query."""
    body = call.request.body
    if body:
        check_size(body)
        content_type = call.content_type
        if content_type in YAML_TYPES:
            body = read_text(body, content_type, "DeleteOptions")[0]
        elif content_type not in JSON_TYPES:
            read_document(body, content_type, "DeleteOptions")
    try:
        options = read_delete_options(call.request_info.query, body)
    except errors.StatusError as error:
        if error.code == 422:  # invalid options, but options
            _record_options(body)
        raise
    _record_options(body)
    return options


def _record_options(body: bytes) -> None:
    context = audit_context()
    if body and context is not None:
        context.log_request_object(None, lambda: _encode_options(body))


def _encode_options(body: bytes) -> bytes:
    """The options of a body, for the audit."""
    document = msgspec.json.decode(body, type=dict[str, Any])
    options = {name: document[name] for name in _OPTIONS if document.get(name) is not None}
    return msgspec.json.encode({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/__internal", **options})


async def delete(core: Core, call: Call) -> Result:
    """DELETE of one object."""
    options = await core.long_work.run(call.size, read_options, call)
    info, strategy = call.info, call.strategy
    if strategy.delete_warning and options.propagation_policy is None and options.orphan_dependents is None:
        call.warnings.append(strategy.delete_warning)
    # Upstream reads the object from etcd, not from the watch cache.
    value, removed = await delete_one(core, call, options, bypass_cache=True)
    code = 202 if not removed and options.orphan_dependents is False else 200
    warnings = tuple(call.warnings)
    if removed and not strategy.return_deleted_object:
        group = {"group": info.group} if info.group else {}
        details = {"name": call.name, **group, "kind": info.resource, "uid": read_head(value).metadata.uid}
        return StatusResult(code, msgspec.json.encode(errors.success(details)), warnings)
    return ObjectResult(code, info, await core.from_storage(info, value), warnings)


async def delete_one(
    core: Core,
    call: Call,
    options: DeleteOptions,
    *,
    bypass_cache: bool = False,
    of_collection: bool = False,
) -> tuple[bytes, bool]:
    """Delete an object, or start its graceful deletion. Returns its current (or last) state, and whether it was
    removed. ``bypass_cache`` as in ``Core.from_storage``; ``of_collection``: admitted without a name, as upstream."""
    for _attempt in range(_ATTEMPTS):
        record = core.store.staged(call.key)
        if record is None:
            raise errors.not_found(call.info, call.name)
        obj = await read_stored(core, call, record, bypass_cache=bypass_cache)
        check_preconditions(call, obj, options)
        if not _is_pending(core, call, obj, options):
            write = AdmissionAttributes(
                operation="DELETE",
                info=call.info,
                namespace=call.namespace,
                name="" if of_collection else call.name,
                identity=call.identity,
                old=obj,
                dry_run=options.is_dry_run,
                warnings=call.warnings,
                delete_options=options,
            )
            admission = core.admission_of(call)
            await admission.admit(write)
            await admission.validate(write)
        try:
            return await _delete(core, call, record, obj, options)
        except Mismatch:
            continue
    raise errors.modified(call.info, call.name)


def _is_pending(core: Core, call: Call, obj: Object, options: DeleteOptions) -> bool:
    """Whether the deletion has started, and this request does not change it: then it is not admitted again."""
    meta, strategy = obj["metadata"], call.strategy
    if not meta.get("deletionTimestamp"):
        return False
    if strategy.before_delete(obj, core.time.now()) == "wait":
        return True
    current: int = meta.get("deletionGracePeriodSeconds") or 0
    return strategy.graceful and _keeps_deadline(current, options.grace_period_seconds)


def _keeps_deadline(current: int, requested: int | None) -> bool:
    if requested is not None and requested < 0:
        requested = 1
    return current > 0 and (requested is None or requested >= current)


def check_preconditions(call: Call, obj: Object, options: DeleteOptions) -> None:
    """Reject the deletion if the preconditions do not match."""
    preconditions = options.preconditions
    if preconditions is None:
        return
    meta = obj["metadata"]
    for noun, expected, actual in (
        ("UID", preconditions.uid, meta["uid"]),
        ("ResourceVersion", preconditions.resource_version, meta["resourceVersion"]),
    ):
        if expected is None or expected == actual:
            continue
        if call.strategy.checks_delete_preconditions:
            reason = f"Precondition failed: {noun} in precondition: {expected}, {noun} in object meta: {actual}"
            raise errors.conflict(call.info, call.name, reason)
        change = "deleted and then recreated" if noun == "UID" else "modified"
        raise _mismatch(
            call,
            f"the {noun} in the precondition ({expected}) does not match the {noun} in record ({actual}). The object "
            f"might have been {change}",
        )


def _mismatch(call: Call, reason: str) -> errors.StatusError:
    """The 409 of a precondition. Its details name the kind instead of the resource, as upstream's."""
    info, group = call.info, call.strategy.error_group(call.info)
    details = {"name": call.name, **({"group": group} if group else {}), "kind": info.kind}
    kind = f"{info.kind}.{group}" if group else info.kind
    return errors.StatusError(
        409, "Conflict", f'Operation cannot be fulfilled on {kind} "{call.name}": {reason}', details=details
    )


def deletion_finalizers(call: Call, obj: Object, options: DeleteOptions) -> list[str]:
    """The finalizers after the delete request; the garbage collector's two depend on the propagation policy."""
    finalizers: list[str] = list(obj["metadata"].get("finalizers") or ())
    if not call.strategy.garbage_collected:
        return finalizers
    policy = options.propagation_policy
    if options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else call.strategy.non_orphan_policy
    if policy is None:
        for name in finalizers:
            if name in ("orphan", "foregroundDeletion"):
                return finalizers
        policy = "Orphan" if call.strategy.orphans_by_default else "Background"
    desired = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}.get(policy, "")
    new_finalizers = [name for name in finalizers if name not in ("orphan", "foregroundDeletion") or name == desired]
    if desired and desired not in new_finalizers:
        new_finalizers.append(desired)
    return new_finalizers


async def _delete(core: Core, call: Call, record: Record, obj: Object, options: DeleteOptions) -> tuple[bytes, bool]:
    strategy, meta = call.strategy, obj["metadata"]
    step = strategy.before_delete(obj, core.time.now())
    if step == "wait":
        await require_stored(core, record)
        return record.value, False
    grace: int | None = None
    if step == "" and strategy.graceful:
        grace, pending = _before_delete(core, call, obj, options)
        if pending:
            await require_stored(core, record)
            return record.value, False
    finalizers = list(meta["finalizers"]) if step == "mark only" else deletion_finalizers(call, obj, options)
    if step == "" and grace is None:
        if not finalizers:
            if options.is_dry_run:
                return record.value, True
            return await remove(core, record), True
        _mark_as_deleting(core, call, meta)
    meta["finalizers"] = finalizers
    removes_now = step == "" and not finalizers and not grace
    marked_record = await _write(core, call, record, obj, options)
    if not removes_now:
        return marked_record.value, False
    if options.is_dry_run:
        return marked_record.value, True
    # A pod with grace period zero is first marked, then removed.
    return await _remove_marked(core, call, marked_record), True


async def _remove_marked(core: Core, call: Call, marked_record: Record) -> bytes:
    """Remove the marked object. A kubelet that sees the mark may have removed the pod already, which is no error.

    ``ignoreNotFound`` in apiserver's generic/registry/store.go (v0.36; kubernetes/kubernetes#19403).
    """
    record, uid = marked_record, read_head(marked_record.value).metadata.uid
    for _attempt in range(_ATTEMPTS):
        try:
            return await remove(core, record)
        except Mismatch as mismatch:
            newest = mismatch.current
            if newest is None or read_head(newest.value).metadata.uid != uid:
                return marked_record.value
            record = newest
    raise errors.modified(call.info, call.name)


def _before_delete(core: Core, call: Call, obj: Object, options: DeleteOptions) -> tuple[int | None, bool]:
    """Set or shorten the grace period (``rest.BeforeDelete``).

    Returns the new grace period, None if the deletion is not graceful, and whether a pending deletion is unchanged.
    """
    meta = obj["metadata"]
    requested = options.grace_period_seconds
    if requested is not None and requested < 0:
        requested = 1
    if not meta.get("deletionTimestamp"):
        grace = call.strategy.grace_period(obj, requested)
        meta["deletionTimestamp"] = core.time.after(grace)
        meta["deletionGracePeriodSeconds"] = grace
        if meta.get("generation"):
            meta["generation"] = next_generation(meta)
        return grace, False
    current: int = meta.get("deletionGracePeriodSeconds") or 0
    if not current:
        return None, False
    if requested is None or requested >= current:
        return current, True
    # The old deadline minus the old period is the start of the deletion; the new period counts from there, but does not
    # end before now.
    requested_at = add_seconds(parse_seconds(meta["deletionTimestamp"]), -current)
    deadline = add_seconds(requested_at, requested)
    meta["deletionTimestamp"] = format_seconds(max(deadline, core.env.now()))
    meta["deletionGracePeriodSeconds"] = requested
    return requested, False


def _mark_as_deleting(core: Core, call: Call, meta: Object) -> None:
    """Without grace period: mark an object that has finalizers as deleted now."""
    now = core.time.now()
    if not meta.get("deletionTimestamp") and meta.get("generation") and call.strategy.increments_generation_on_delete:
        meta["generation"] = next_generation(meta)
    if not meta.get("deletionTimestamp") or meta["deletionTimestamp"] > now:
        meta["deletionTimestamp"] = now
    meta["deletionGracePeriodSeconds"] = 0


async def _write(core: Core, call: Call, record: Record, obj: Object, options: DeleteOptions) -> Record:
    """Store the changed object; returns the same record if nothing has changed."""
    obj["metadata"] = ordered_metadata(obj["metadata"])
    if obj == await read_stored(core, call, record):
        return record
    if options.is_dry_run:
        return Record(record.key, encode_object(call.info, obj), record.revision, record.created)
    strategy = call.strategy
    stored, stored_as = await core.to_storage(call.info, obj, len(record.value)), strategy.stored_as(call.info)
    staged = stage_object(core.store, stored_as, record.key, stored, expected=record.revision)
    await core.commit(staged)
    assert staged.record is not None, "an update leaves a record"
    return staged.record


async def delete_collection(core: Core, call: Call) -> Result:
    """DELETE of a collection: deletes each selected object as a single delete does."""
    check_numbers(call.request_info.query)
    selection_of(core, call)  # upstream parses the selectors first
    options = await core.long_work.run(call.size, read_options, call)
    page = await list_objects(core, call)
    assert isinstance(page, ListResult), "a list returns a ListResult"
    deleted: list[bytes] = []
    for value in page.values:
        meta = read_head(value).metadata
        object_call = Call(
            call.request, call.request_info, call.info, call.strategy, call.identity, meta.namespace, meta.name
        )
        # The response is the list as it was read (apiserver pkg/registry/generic/registry/store.go, v0.36).
        deleted.append(value)
        try:
            await delete_one(core, object_call, options, of_collection=True)
        except errors.StatusError as error:
            if error.code != 404:
                raise
    return ListResult(call.info, deleted, page.revision, page.continue_, page.remaining, tuple(call.warnings))
