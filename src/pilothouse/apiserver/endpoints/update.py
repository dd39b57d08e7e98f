"""update: PUT, and the steps that all changes of stored objects share (PATCH, status, scale, finalize).

``apply_change`` transforms the stored object and ends in a compare-and-swap. After a concurrent write it starts over,
unless the request has a resource version: then the client gets a conflict.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from pilothouse.api.schema import definition_of
from pilothouse.api.wire import Request
from pilothouse.apiserver import errors, field_errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.audit.context import audit_context
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.endpoints.create import MAX_WARNINGS, create_object
from pilothouse.apiserver.endpoints.object_names import check_name, ensure_namespace_matches
from pilothouse.apiserver.endpoints.renewal import renew
from pilothouse.apiserver.endpoints.request_objects import read_object
from pilothouse.apiserver.endpoints.unchanged_members import join_unchanged, split_unchanged
from pilothouse.apiserver.endpoints.undecided import require_stored
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import (
    Object,
    decode,
    encode_object,
    next_generation,
    ordered_metadata,
    stage_deletion,
)
from pilothouse.apiserver.options import WriteOptions, read_write_options
from pilothouse.apiserver.registry import registration_of
from pilothouse.apiserver.registry.generic import object_meta
from pilothouse.apiserver.registry.generic.managed_fields import (
    equal_ignoring_timestamps,
    remember_size,
    set_managed_fields,
    split_managed_fields,
    warn_untracked,
    without_unchanged_managed_fields,
)
from pilothouse.apiserver.registry.generic.strategy import Step
from pilothouse.apiserver.registry.generic.validation import Validate, validate_update
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.apiserver.serializers.bodies import JSON_TYPES
from pilothouse.apiserver.serializers.results import ObjectResult
from pilothouse.machinery import resource_versions
from pilothouse.machinery.deep_equal import deep_equal
from pilothouse.storage import Mismatch, Record

_ATTEMPTS = 5
decode_list = msgspec.json.Decoder(list[Any]).decode
_ALL_USER_FIELDS = ("labels", "annotations", "finalizers", "ownerReferences")


async def update(core: Core, call: Call) -> ObjectResult:
    """PUT of an object, or of its status."""
    options = read_write_options(call.request_info.query, "UpdateOptions")
    record = core.store.staged(call.key)
    context = audit_context()
    # The whole body is decoded if it is audited, because the audit event has the object as it was sent.
    if record is not None and (context is None or not context.enabled):
        if call.strategy.has_renewal_path and not call.request_info.subresource:
            response = await renew(core, call, record, options)
            if response is not None:
                return response
        request = call.request
        body = without_unchanged_managed_fields(request.body, record.value)
        if body is not request.body:
            call.request = Request(request.method, request.target, request.headers, body)
        read = await core.long_work.run(call.size, _reader, core, call, options, record)
    else:
        read = partial(read_object, call, options)
    new = await core.long_work.run(call.size, read)
    meta: Object = new.setdefault("metadata", {})
    check_name(call, meta)
    if call.strategy.allow_create_on_update and not call.request_info.subresource and record is None:
        if meta.get("uid"):
            raise wrong_uid(call.info, call.namespace, call.name, meta["uid"], "")
        meta.pop("resourceVersion", None)  # without an object every version matches
        return await create_object(core, call, new, options)
    revision = meta.get("resourceVersion") or ""
    unused = [new]

    def sent_object(_old: Object) -> Object:
        # An attempt changes the object, so the next one decodes it again.
        return unused.pop() if unused else read()

    return await apply_change(
        core, call, Change(transform=sent_object, revision=revision, builds_on_old=False), options
    )


def _reader(core: Core, call: Call, options: WriteOptions, record: Record) -> Callable[[], Object]:
    """Reads the object in the body, without those members that are sent as this server has stored them."""
    request, info = call.request, call.info
    if (
        info.custom is not None
        or call.content_type not in JSON_TYPES
        or core.is_from_before_start(record)
        or not record.value.startswith(info.head)
        or call.strategy.stored_as(info) is not info
    ):
        return partial(read_object, call, options)
    remaining_body, unchanged = split_unchanged(request.body, record.value)
    if not unchanged:
        return partial(read_object, call, options)
    definition = definition_of(info.group, info.version, info.kind)
    reduced_request = Request(request.method, request.target, request.headers, remaining_body)

    def read() -> Object:
        call.request = reduced_request
        try:
            return join_unchanged(read_object(call, options), unchanged, definition)
        except (errors.StatusError, msgspec.DecodeError):
            # Errors refer to the whole object; numbers that no float can represent are reported by the decoder.
            call.request = request
            return read_object(call, options)
        finally:
            call.request = request

    return read


def check_revision_given(call: Call, meta: Object) -> None:
    """Reject a PUT without a resource version where there is no unconditional update."""
    if meta.get("resourceVersion") in (None, "", "0") and not call.strategy.allow_unconditional_update:
        raise errors.invalid(
            call.info.group,
            call.info.resource,
            call.name,
            [field_errors.invalid("metadata.resourceVersion", 0, "must be specified for an update")],
        )


Transform = Callable[[Object], Object]
"""Creates the updated object from the stored one (``rest.TransformFunc``). It may keep and change parts of its
argument."""


class SubresourceStrategy(msgspec.Struct, frozen=True):
    """A subresource with its own rules. ``prepare`` resets the fields that it does not write: (object, old).
    ``validate`` returns the errors of the others; without it nothing is validated."""

    prepare: Callable[[Object, Object], None]
    validate: Validate | None = None
    steps: Sequence[Step] = ("object meta update", "update")


class SubresourceView(msgspec.Struct, frozen=True):
    """The form in which a subresource is admitted, if it has another kind than the object (a Scale)."""

    read: Callable[[Object], Object]
    """The subresource of an object."""
    write: Callable[[Object, Object], None]
    """Sets the fields of the object from the admitted subresource: (subresource, object). Raises ``StatusError``."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """How a request changes a stored object: by ``transform`` or by ``apply``."""

    transform: Transform | None = None
    apply: Callable[[Object, bytes], tuple[Object, bytes]] | None = None
    """Gets the encoded managedFields as well, and returns the new ones."""
    revision: str | None = None
    """The resource version that the request requires, empty if it requires none. None for a patch: the patched object
    requires one if the patch has set it."""
    subresource_strategy: SubresourceStrategy | None = None
    """The rules of the subresource; None for the object itself and its status."""
    main: bool = False
    """Treat it as a change of the object itself, whatever the subresource."""
    builds_on_old: bool = True
    """Whether ``transform`` reads its argument."""
    view: SubresourceView | None = None
    tracked: bool = True
    """Whether managedFields are updated."""
    with_owners: bool = False
    """``transform`` reads managedFields."""
    copies_only_metadata: bool = False
    """``transform`` modifies nothing but metadata in place, so that only metadata is copied for it."""


class _Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to replace a record. ``old`` and ``obj`` are changed in place."""

    record: Record
    old: Object
    obj: Object
    old_owners: bytes
    """The encoded managedFields of ``old``."""
    new_owners: bytes | None
    """Those of ``obj``, if ``Change.apply`` has computed them."""
    uid: str
    """Another uid than that of ``old``, which the object must keep."""
    size: int
    """The bytes to process."""


async def apply_change(core: Core, call: Call, change: Change, options: WriteOptions) -> ObjectResult:
    """Store the changed object. Retried after a concurrent write if no resource version is required."""

    def make(encoded: bytes, owners: bytes, key: str) -> tuple[Object, Object, bytes | None]:
        old = base = decode(encoded, key)
        if change.copies_only_metadata:
            base = {**old, "metadata": dict(old["metadata"])}
        elif change.builds_on_old:
            base = decode(encoded, key)
            if change.with_owners and owners:
                base["metadata"]["managedFields"] = decode_list(owners)
        if change.apply is not None:
            return (old, *change.apply(base, owners))
        assert change.transform is not None, "a change has a transform or an apply"
        return old, change.transform(base), None

    for attempt in range(_ATTEMPTS):
        record = core.store.staged(call.key)
        if record is None:
            raise errors.not_found(call.info, call.name)
        encoded, owners = split_managed_fields(await core.from_storage(call.info, record.value))
        size = call.size + len(encoded)
        old, obj, new_owners = await core.run_converting(call.info, size, make, encoded, owners, record.key)
        meta: Object = obj.setdefault("metadata", {})
        uid: str = meta.get("uid") or ""
        is_another = uid not in ("", old["metadata"]["uid"])
        if is_another and call.request.method != "PATCH":
            raise wrong_uid(call.info, call.namespace, call.name, uid, old["metadata"]["uid"], dry_run=options.dry_run)
        if not change.builds_on_old:
            check_revision_given(call, meta)
        version = _resource_version_of_patch(meta, old["metadata"]) if change.revision is None else change.revision
        if version:
            try:
                resource_versions.parse(version)
            except ValueError as error:
                raise errors.plain(str(error)) from None
        if version not in ("", "0") and version != old["metadata"]["resourceVersion"]:
            raise errors.modified(call.info, call.name)
        try:
            attempted = _Attempt(
                record=record,
                old=old,
                obj=obj,
                old_owners=owners,
                new_owners=new_owners,
                uid=uid if is_another else "",
                size=size,
            )
            return await _replace(core, call, change, attempted, options)
        except Mismatch:
            if version not in ("", "0") or attempt == _ATTEMPTS - 1:
                raise errors.modified(call.info, call.name) from None
    raise AssertionError("the last attempt returns or raises")


def _resource_version_of_patch(meta: Object, old: Object) -> str:
    """The resource version in a patched object if the patch has set it, else ""."""
    version: str = meta.get("resourceVersion") or ""
    return "" if version == old["resourceVersion"] else version


async def read_stored(core: Core, call: Call, record: Record, *, bypass_cache: bool = False) -> Object:
    """A stored object in the version of the call, free to be changed; its managedFields stay encoded. ``bypass_cache``
    as in ``Core.from_storage``."""
    encoded, owners = split_managed_fields(await core.from_storage(call.info, record.value, bypass_cache=bypass_cache))
    obj = decode(encoded, record.key)
    set_managed_fields(obj, owners)
    return obj


async def _replace(core: Core, call: Call, change: Change, attempt: _Attempt, options: WriteOptions) -> ObjectResult:
    record, old, obj, old_owners, subresource_strategy, view = (
        attempt.record,
        attempt.old,
        attempt.obj,
        attempt.old_owners,
        change.subresource_strategy,
        change.view,
    )
    subresource = "" if change.main else call.request_info.subresource
    info, strategy = call.info, call.strategy
    meta, old_meta = obj["metadata"], old["metadata"]
    obj["kind"], obj["apiVersion"] = info.kind, info.api_version

    def complete() -> bytes:
        strategy.set_defaults(obj)
        if call.request.method != "PUT":
            object_meta.keep_system_fields(meta, old_meta)
        else:
            call.warnings += object_meta.dedup_owner_references(meta, admitted=False)
        if attempt.new_owners is not None:
            return attempt.new_owners
        return core.managed_fields.update(call, old, obj, old_owners, options) if change.tracked else old_owners

    owners = await core.run_converting(info, attempt.size, complete)
    set_managed_fields(obj, owners)
    set_managed_fields(old, old_owners)
    write = AdmissionAttributes(
        operation="UPDATE",
        info=info,
        namespace=call.namespace,
        name=call.name,
        identity=call.identity,
        subresource=call.request_info.subresource,
        obj=obj if view is None else view.read(obj),
        old=old if view is None else view.read(old),
        dry_run=options.dry_run,
        warnings=call.warnings,
        query=call.request_info.query,
    )
    admission = core.admission_of(call)
    await admission.admit(write)
    if view is not None:
        assert write.obj is not None, "an update has an object"
        view.write(write.obj, obj)
    admitted_uid = meta.get("uid") or ""
    object_meta.keep_system_fields(meta, old_meta)
    _check_admitted(call, meta, old_meta)
    meta["resourceVersion"] = old_meta["resourceVersion"]
    admission.allocate(write)
    if owners != old_owners and equal_ignoring_timestamps(obj, old, owners, old_owners):
        obj["metadata"]["managedFields"] = old_meta["managedFields"]
    if subresource_strategy is not None:
        subresource_strategy.prepare(obj, old)
    elif subresource == "status":
        _prepare_status(core, call, obj, old)
    else:
        _prepare(core, call, obj, old)
    call.warnings += object_meta.dedup_owner_references(meta, admitted=True)
    self_link = obj["metadata"].get("selfLink") if options.dry_run else None
    meta = obj["metadata"] = ordered_metadata(obj["metadata"])
    uid = attempt.uid or admitted_uid
    if uid and not (subresource == "status" and strategy.kept_on_status_update == "metadata"):
        # In a PUT the uid is a precondition, in a patch a field like others.
        meta["uid"] = uid
    call.warnings += await core.long_work.run(
        attempt.size, _check, core, call, obj, old, subresource_strategy, subresource
    )
    if view is not None:
        write.obj = view.read(obj)
    await admission.validate(write)
    strategy.canonicalize(obj)
    warnings = tuple(call.warnings)
    if _should_delete_during_update(call, obj):
        return await _delete_without_finalizers(core, call, record, obj, options)
    stored_as = strategy.stored_as(info)
    is_defaulted_when_read = record.created == record.revision and strategy.defaulted_when_read(obj)
    if (
        deep_equal(obj, old)
        and not self_link
        and not is_defaulted_when_read
        and _is_stored_as_served(core, stored_as, record)
        and not core.needs_webhook(info, record.value)
        and (not core.store.is_shared or await _is_current(core, record, options))
    ):
        # As upstream, an object that is stored in another version, by another schema, or with an earlier encryption key
        # is written even if its content does not change: storage versions are migrated, and keys rotated, by such
        # writes. A webhook may also convert it differently than before.
        return ObjectResult(200, info, core.from_storage_nowait(info, record.value), warnings)
    stored = await core.to_storage(info, obj, attempt.size)
    if (
        stored_as is not info
        and not self_link
        and not is_defaulted_when_read
        and _is_stored(stored_as, stored, record)
        and (not core.store.is_shared or await _is_current(core, record, options))
    ):
        # Only the converted form differs, not the stored one.
        return ObjectResult(200, info, await core.from_storage(info, record.value), warnings)
    if options.dry_run:
        if self_link:
            # Nothing but storage drops it (apiserver pkg/storage/api_object_versioner.go, v1.36).
            stored["metadata"] = {**ordered_metadata(stored["metadata"]), "selfLink": self_link}
            converted = await core.from_storage(info, encode_object(stored_as, stored, ordered=True))
            return ObjectResult(200, info, converted, warnings)
        return ObjectResult(200, info, await core.from_storage(info, encode_object(stored_as, stored)), warnings)
    is_ordered = stored["metadata"] is meta
    meta = stored["metadata"]

    def encode(revision: int) -> bytes:
        meta["resourceVersion"] = str(revision)
        value = encode_object(stored_as, stored, ordered=is_ordered)
        remember_size(value, meta)
        return value

    value = await core.commit(core.store.stage(record.key, encode, expected=record.revision))
    warn_untracked(call)
    return ObjectResult(200, info, await core.from_storage(info, value), warnings)


def _check_admitted(call: Call, meta: Object, old_meta: Object) -> None:
    """Check the precondition and the namespace that mutating webhooks and policies may have set."""
    ensure_namespace_matches(call, meta)
    version = meta.get("resourceVersion")
    if version in (None, "", "0", old_meta["resourceVersion"]):
        return
    try:
        resource_versions.parse(version)
    except ValueError as error:
        raise errors.plain(str(error)) from None
    raise errors.modified(call.info, call.name)


def _check(
    core: Core, call: Call, obj: Object, old: Object, subresource_strategy: SubresourceStrategy | None, subresource: str
) -> Iterable[str]:
    """Warnings about the change; raises 422 if it is invalid."""
    all_errors = _validate(core, call, obj, old, subresource_strategy, subresource)
    if all_errors:
        # A mutating webhook can have changed the name, which is an error.
        name = obj["metadata"].get("name") or ""
        raise errors.invalid(call.strategy.error_group(call.info), call.info.kind, name, all_errors)
    if subresource_strategy is not None:
        return ()
    strategy = call.strategy
    warnings_on_update = strategy.warnings_on_status_update if subresource == "status" else strategy.warnings_on_update
    return list(islice(warnings_on_update(obj, old), MAX_WARNINGS))


def _validate(
    core: Core, call: Call, obj: Object, old: Object, subresource_strategy: SubresourceStrategy | None, subresource: str
) -> ErrorList:
    strategy = call.strategy
    if subresource_strategy is not None:
        return (
            validate_update(strategy, obj, old, subresource_strategy.steps, subresource_strategy.validate)
            if subresource_strategy.validate is not None
            else []
        )
    if subresource == "status":
        unauthorized = core.authorize_fields(call, obj, old)
        errors = validate_update(strategy, obj, old, strategy.status_steps, strategy.validate_status_update)
        return unauthorized + errors if unauthorized else errors
    return validate_update(strategy, obj, old, strategy.update_steps, strategy.validate_update)


def _is_stored_as_served(core: Core, stored_as: ResourceInfo, record: Record) -> bool:
    value = record.value
    return value.startswith(stored_as.head) and core.from_storage_nowait(stored_as, value) == value


async def _is_current(core: Core, record: Record, options: WriteOptions) -> bool:
    """Whether a record is stored as it would be now. For a dry run it does not matter. Raises ``Mismatch`` if it was
    only staged."""
    await require_stored(core, record)
    return options.dry_run or not await core.store.is_stale(record)


def _is_stored(info: ResourceInfo, stored: Object, record: Record) -> bool:
    return decode(encode_object(info, stored)) == decode(record.value)


def _prepare(core: Core, call: Call, obj: Object, old: Object) -> None:
    """A write to the object itself: the status stays, and a changed spec raises the generation."""
    strategy = call.strategy
    if "status" in call.info.subresources:
        _copy_field(obj, old, "status")
    strategy.drop_disabled_fields(obj, old)
    strategy.set_timestamps(obj, core.time.now())
    strategy.prepare_for_update(obj, old)
    if strategy.generation_fields and strategy.increments_generation(obj, old):
        obj["metadata"]["generation"] = next_generation(old["metadata"])


def _prepare_status(core: Core, call: Call, obj: Object, old: Object) -> None:
    """A write of the status: everything else is reset, except the metadata that the resource allows."""
    for name in [name for name in {**obj, **old} if name not in ("metadata", "status", "kind", "apiVersion")]:
        _copy_field(obj, old, name)
    meta, old_meta = obj["metadata"], old["metadata"]
    kept_metadata = call.strategy.kept_on_status_update
    if kept_metadata == "labels":
        object_meta.keep_user_fields(meta, old_meta, ("labels",))
    elif kept_metadata == "metadata":
        managed_fields = meta.get("managedFields")
        meta.clear()
        meta.update(old_meta)
        meta["managedFields"] = managed_fields
    elif kept_metadata == "user metadata":
        object_meta.keep_user_fields(meta, old_meta, _ALL_USER_FIELDS)
        # The deletionTimestamp is reset, too (metav1.ResetObjectMetaForStatus, apimachinery v0.36).
        _copy_field(meta, old_meta, "deletionTimestamp")
    elif kept_metadata == "pod":
        object_meta.keep_user_fields(meta, old_meta, ("ownerReferences",))
    call.strategy.prepare_for_status_update(obj, old, core.time.now())


def _copy_field(obj: Object, old: Object, name: str) -> None:
    if name in old:
        obj[name] = old[name]
    else:
        obj.pop(name, None)


def _should_delete_during_update(call: Call, obj: Object) -> bool:
    """Whether the object was only waiting for its finalizers, and has none now."""
    meta: dict[str, Any] = obj["metadata"]
    return (
        bool(meta.get("deletionTimestamp"))
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and call.strategy.should_delete_during_update(obj)
    )


async def _delete_without_finalizers(
    core: Core, call: Call, record: Record, obj: Object, options: WriteOptions
) -> ObjectResult:
    """An update that removes the last finalizer deletes the object.

    The response has the object as it was sent; watchers get the last stored state (apiserver
    ``pkg/registry/generic/registry/store.go``, ``deleteWithoutFinalizers``, v0.36).
    """
    if not options.dry_run:
        await remove(core, record)
    return ObjectResult(200, call.info, encode_object(call.info, obj), tuple(call.warnings))


async def remove(core: Core, record: Record) -> bytes:
    """Delete a record; returns its last state with the revision of the deletion. Raises ``Mismatch``."""
    return await core.commit(stage_deletion(core.store, record))


def wrong_uid(
    info: ResourceInfo, namespace: str, name: str, expected: str, actual: str, *, dry_run: bool = False
) -> errors.StatusError:
    """409, about an update that names another object's uid."""
    declared = registration_of(info.group, info.resource).etcd_prefix if info.custom is None else ""
    prefix = declared or info.resource
    root = "" if dry_run else "/registry"  # a dry run does not reach the storage, which adds the root
    path = f"{root}/{prefix}/{namespace}/{name}" if info.namespaced else f"{root}/{prefix}/{name}"
    return errors.conflict(
        info,
        name,
        f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {expected}, UID in object meta: {actual}",
    )
