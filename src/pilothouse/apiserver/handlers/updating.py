"""update, and the one way in which every change of a stored object goes: PUT, PATCH, status, scale, finalize.

``change`` takes the stored object and a function that makes the wanted one of it, and ends in a compare-and-swap.
Without a resource version in the request it starts over when somebody else was quicker; with one, that is the
client's conflict.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.api.wire import Request
from pilothouse.apiserver import errors, metadata
from pilothouse.apiserver.admission import Admission
from pilothouse.apiserver.core import Call, Core
from pilothouse.apiserver.handlers.creating import create_object
from pilothouse.apiserver.handlers.incoming import read_object
from pilothouse.apiserver.objects import Object, decode, encode_object, ordered_metadata, with_revision
from pilothouse.apiserver.options import WriteOptions, read_write_options
from pilothouse.apiserver.ownership import put_entries, remember_size, same_but_for_times, split, without_known
from pilothouse.apiserver.places import check_identity
from pilothouse.apiserver.results import ObjectResult
from pilothouse.apiserver.strategies.judgements import ONCE
from pilothouse.storage import Mismatch, Record

_ATTEMPTS = 5
decode_list = msgspec.json.Decoder(list[Any]).decode
_ALL_USER_FIELDS = ("labels", "annotations", "finalizers", "ownerReferences")


async def update(core: Core, call: Call) -> ObjectResult:
    """PUT of an object, or of its status."""
    options = read_write_options(call.asked.query, "UpdateOptions")
    record = core.store.staged(call.key)
    if record is not None:
        request = call.request
        body = without_known(request.body, record.value)
        if body is not request.body:
            call.request = Request(request.method, request.target, request.headers, body)
    sent = read_object(call, options)
    meta: Object = sent.setdefault("metadata", {})
    check_identity(call, meta)
    if call.strategy.create_on_update and not call.asked.subresource and record is None:
        if meta.get("uid"):
            raise errors.wrong_uid(call.info, call.namespace, call.name, meta["uid"], "")
        meta.pop("resourceVersion", None)  # where there is nothing no version is wrong
        return await create_object(core, call, sent, options)
    revision = meta.get("resourceVersion") or ""
    unused = [sent]

    def wanted(_old: Object) -> Object:
        # What was prepared for one attempt is of no use to the next.
        return unused.pop() if unused else read_object(call, options)

    return await change(core, call, wanted, options, revision=revision, builds_on_old=False)


def check_revision_given(call: Call, meta: Object) -> None:
    """Refuse a PUT without a resource version where there is no unconditional update."""
    if meta.get("resourceVersion") in (None, "", "0") and not call.strategy.unconditional_update:
        raise errors.invalid(
            call.info.group,
            call.info.resource,
            call.name,
            [errors.invalid_value("metadata.resourceVersion", 0, "must be specified for an update")],
        )


Wanted = Callable[[Object], Object]
"""What a request makes of the stored object. It may keep parts of what it is handed and change them."""


async def change(
    core: Core,
    call: Call,
    wanted: Wanted,
    options: WriteOptions,
    *,
    revision: str | None = None,
    prepare: Callable[[Object, Object], None] | None = None,
    main: bool = False,
    builds_on_old: bool = True,
    tracked: bool = True,
    with_owners: bool = False,
    shares_rest: bool = False,
    applied: Callable[[Object, bytes], tuple[Object, bytes]] | None = None,
) -> ObjectResult:
    """Store what ``wanted`` makes of the object.

    ``revision`` is the resource version that the request insists on, empty for none; without it (a patch) the object
    says itself whether it insists on one. ``main`` treats the write as one to the object itself, whatever the
    subresource. ``builds_on_old`` False: ``wanted`` does not look at what it is handed. ``prepare`` replaces the
    ordinary separation of spec and status, for subresources with rules of their own. ``tracked`` False: the write
    changes nobody's ownership. ``with_owners``: ``wanted`` looks at managedFields. ``shares_rest``: it is about the
    status and changes nothing that it is handed, so that the rest need not be there twice. ``applied`` takes the place
    of ``wanted``: it knows managedFields and says what becomes of them.
    """
    for attempt in range(_ATTEMPTS):
        record = core.store.staged(call.key)
        if record is None:
            raise errors.not_found(call.info, call.name)
        plain, owners = split(core.view(call.info, record.value))
        old = decode(plain, record.key)
        base = old
        if shares_rest:
            base = {**old, "metadata": dict(old["metadata"])}
        elif builds_on_old:
            base = decode(plain, record.key)
            if with_owners and owners:
                base["metadata"]["managedFields"] = decode_list(owners)
        after: bytes | None = None
        if applied is None:
            obj = wanted(base)
        else:
            obj, after = applied(base, owners)
        meta: Object = obj.setdefault("metadata", {})
        uid: str = meta.get("uid") or ""
        is_another = uid not in ("", old["metadata"]["uid"])
        if is_another and call.request.method != "PATCH":
            raise errors.wrong_uid(
                call.info, call.namespace, call.name, uid, old["metadata"]["uid"], dry_run=options.dry_run
            )
        if not builds_on_old:
            check_revision_given(call, meta)
        insists = _insists(meta, old["metadata"]) if revision is None else revision
        if insists and not (insists.isascii() and insists.isdigit()):
            raise errors.plain(f"strconv.ParseUint: parsing {errors.shown(insists)}: invalid syntax")
        if insists not in ("", "0") and insists != old["metadata"]["resourceVersion"]:
            raise errors.modified(call.info, call.name)
        try:
            return await _replace(
                core,
                call,
                record,
                old,
                obj,
                options,
                prepare,
                "" if main else call.asked.subresource,
                owners,
                tracked,
                after,
                uid if is_another else "",
            )
        except Mismatch:
            if insists not in ("", "0") or attempt == _ATTEMPTS - 1:
                raise errors.modified(call.info, call.name) from None
    raise AssertionError("the last attempt returns or raises")


def _insists(meta: Object, old: Object) -> str:
    """The resource version in a patched object, when the patch has put one there."""
    version: str = meta.get("resourceVersion") or ""
    return "" if version == old["resourceVersion"] else version


def read_stored(core: Core, call: Call, record: Record) -> Object:
    """A stored object in the version of the call, free to be changed; its managedFields stay encoded."""
    plain, owners = split(core.view(call.info, record.value))
    obj = decode(plain, record.key)
    put_entries(obj, owners)
    return obj


async def _replace(
    core: Core,
    call: Call,
    record: Record,
    old: Object,
    obj: Object,
    options: WriteOptions,
    prepare: Callable[[Object, Object], None] | None,
    subresource: str,
    known: bytes,
    tracked: bool,
    after: bytes | None,
    uid: str,
) -> ObjectResult:
    info, strategy = call.info, call.strategy
    meta, old_meta = obj["metadata"], old["metadata"]
    obj["kind"], obj["apiVersion"] = info.kind, info.api_version
    strategy.default(obj)
    metadata.keep_system_fields(meta, old_meta)
    meta["resourceVersion"] = old_meta["resourceVersion"]
    if call.request.method == "PUT":
        call.warnings += metadata.without_duplicate_owners(meta, admitted=False)
    if after is not None:
        owners = after
    else:
        owners = core.ownership.updated(call, old, obj, known, options) if tracked else known
    put_entries(obj, owners)
    put_entries(old, known)
    write = Admission(
        operation="UPDATE",
        info=info,
        namespace=call.namespace,
        name=call.name,
        identity=call.identity,
        subresource=call.asked.subresource,
        obj=obj,
        old=old,
        dry_run=options.dry_run,
        warnings=call.warnings,
    )
    await core.admission.admit(write)
    core.admission.allot(write)
    if owners != known and same_but_for_times(obj, old, owners, known):
        obj["metadata"]["managedFields"] = old_meta["managedFields"]
    if prepare is not None:
        prepare(obj, old)
    elif subresource == "status":
        _prepare_status(core, call, obj, old)
    else:
        _prepare(core, call, obj, old)
    call.warnings += metadata.without_duplicate_owners(meta, admitted=True)
    meta = obj["metadata"] = ordered_metadata(obj["metadata"])
    if uid:
        # A PUT names the uid as a precondition; to a patch it is a field like others, judged with them.
        meta["uid"] = uid
    judged = strategy.judgements
    if subresource == "status" and judged.finalizers and not judged.status:
        judged = ONCE
    problems = metadata.validate_update(meta, old_meta, judged)
    if subresource == "status":
        problems += strategy.validate_status(obj, old)
    elif prepare is None:
        problems += strategy.validate_update(obj, old)
        call.warnings += strategy.warnings(obj)
    if uid:
        problem = errors.invalid_value("metadata.uid", uid, "field is immutable")
        problems = [problem] * (1 + judged.change) + problems
    if problems:
        raise errors.invalid(strategy.error_group(info), info.kind, call.name, problems)
    await core.admission.review(write)
    strategy.finish(obj)
    warnings = tuple(call.warnings)
    if _is_gone(call, obj):
        return await _remove(core, call, record, obj, options)
    stored_as = strategy.stored_as(info)
    as_shown = record.value.startswith(stored_as.head) and core.view(stored_as, record.value) == record.value
    if obj == old and as_shown:
        # What is stored in another version, or as another schema had it, is written all the same, as upstream compares
        # what is to be stored, and not what it says: storage versions are migrated by writes that change nothing.
        return ObjectResult(200, info, core.view(info, record.value), warnings)
    stored = strategy.to_storage(info, obj)
    if options.dry_run:
        return ObjectResult(200, info, core.view(info, encode_object(stored_as, stored)), warnings)
    is_ordered = stored["metadata"] is meta
    meta = stored["metadata"]

    def make(revision: int) -> bytes:
        meta["resourceVersion"] = str(revision)
        value = encode_object(stored_as, stored, ordered=is_ordered)
        remember_size(value, meta)
        return value

    value = await core.commit(core.store.stage(record.key, make, expected=record.revision))
    return ObjectResult(200, info, core.view(info, value), warnings)


def _prepare(core: Core, call: Call, obj: Object, old: Object) -> None:
    """A write to the object itself: the status stays, and a changed spec raises the generation."""
    strategy = call.strategy
    if "status" in call.info.subresources:
        _take(obj, old, "status")
    strategy.stamp(obj, core.time.now())
    strategy.prepare_update(obj, old)
    if strategy.tracked and strategy.changed(obj, old):
        obj["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def _prepare_status(core: Core, call: Call, obj: Object, old: Object) -> None:
    """A write to the status: everything else stays, but for the metadata that the resource lets go through."""
    for name in [name for name in {**obj, **old} if name not in ("metadata", "status", "kind", "apiVersion")]:
        _take(obj, old, name)
    meta, old_meta = obj["metadata"], old["metadata"]
    keeps = call.strategy.status_keeps
    if keeps == "labels":
        metadata.keep_user_fields(meta, old_meta, ("labels",))
    elif keeps in ("user metadata", "metadata"):
        metadata.keep_user_fields(meta, old_meta, _ALL_USER_FIELDS)
        # Nor when it is to go (metav1.ResetObjectMetaForStatus, apimachinery v0.36).
        _take(meta, old_meta, "deletionTimestamp")
    elif keeps == "pod":
        metadata.keep_user_fields(meta, old_meta, ("ownerReferences",))
    call.strategy.prepare_status(obj, old, core.time.now())


def _take(obj: Object, old: Object, name: str) -> None:
    if name in old:
        obj[name] = old[name]
    else:
        obj.pop(name, None)


def _is_gone(call: Call, obj: Object) -> bool:
    """Whether the object was only waiting for its finalizers, and they are gone now."""
    meta: dict[str, Any] = obj["metadata"]
    return (
        bool(meta.get("deletionTimestamp"))
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
        and call.strategy.may_go(obj)
    )


async def _remove(core: Core, call: Call, record: Record, obj: Object, options: WriteOptions) -> ObjectResult:
    """The update that takes the last finalizer away removes the object.

    The caller sees the object as it was sent; watchers see the last stored state (apiserver
    ``pkg/registry/generic/registry/store.go``, ``deleteWithoutFinalizers``, v0.36).
    """
    if not options.dry_run:
        await remove(core, record)
    return ObjectResult(200, call.info, encode_object(call.info, obj), tuple(call.warnings))


async def remove(core: Core, record: Record) -> bytes:
    """Delete a record for good; its last state with the revision of the deletion. Raises ``Mismatch``."""
    staged = core.store.stage(
        record.key,
        None,
        expected=record.revision,
        last=lambda revision: with_revision(record.value, record.revision, revision),
    )
    return await core.commit(staged)
