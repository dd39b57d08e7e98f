"""create: with the client's or a generated name."""

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.endpoints.object_names import ensure_namespace_matches
from pilothouse.apiserver.endpoints.request_objects import read_object
from pilothouse.apiserver.objects import Object, encode_object
from pilothouse.apiserver.options import WriteOptions, read_write_options
from pilothouse.apiserver.registry.generic import object_meta
from pilothouse.apiserver.registry.generic.managed_fields import remember_size, set_managed_fields, warn_untracked
from pilothouse.apiserver.registry.generic.validation import validate_create
from pilothouse.apiserver.serializers.results import ObjectResult
from pilothouse.machinery import resource_versions
from pilothouse.storage import Mismatch

_CONFLICT_ATTEMPTS = 20
_NAME_ATTEMPTS = 8
_SERVER_FIELDS = ("uid", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds")


async def create(core: Core, call: Call) -> ObjectResult:
    """POST to a collection."""
    options = read_write_options(call.request_info.query, "CreateOptions")
    obj = await core.long_work.run(call.size, read_object, call, options)
    return await create_object(core, call, obj, options)


async def create_object(
    core: Core, call: Call, obj: Object, options: WriteOptions, *, owners: bytes | None = None
) -> ObjectResult:
    """Create ``obj``, which may be changed. ``owners`` are its managedFields if they are known."""
    info, strategy = call.info, call.strategy
    meta: Object = obj.setdefault("metadata", {})
    ensure_namespace_matches(call, meta)
    revision = meta.pop("resourceVersion", None) or ""
    for field in _SERVER_FIELDS:
        meta.pop(field, None)
    sent_managed_fields = meta.pop("managedFields", None)
    meta.pop("creationTimestamp", None)
    obj["kind"], obj["apiVersion"] = info.kind, info.api_version
    await core.run_converting(info, call.size, _complete, core, call, obj, options, sent_managed_fields, owners)

    write = AdmissionAttributes(
        operation="CREATE",
        info=info,
        namespace=call.namespace,
        name=meta.get("name") or "",
        identity=call.identity,
        obj=obj,
        dry_run=options.dry_run,
        warnings=call.warnings,
        query=call.request_info.query,
    )
    await core.admission.admit(write)
    meta.pop("selfLink", None)
    now = core.time.now()
    meta["uid"] = core.env.random_streams.uid()
    meta["creationTimestamp"] = now
    ensure_namespace_matches(call, meta)
    generated = not meta.get("name") and bool(meta.get("generateName"))
    if generated:
        meta["name"] = call.strategy.generated_name(meta["generateName"], core.env.name_suffix())
    write.name = meta.get("name") or ""  # strategies may generate it differently
    core.admission.allocate(write)

    has_status = "status" in info.subresources
    if has_status and not strategy.keeps_status_on_create:
        obj.pop("status", None)
    if strategy.generation_fields:
        if strategy.generation_on_create:
            meta["generation"] = 1
        else:
            meta.pop("generation", None)
    strategy.drop_disabled_fields(obj, None)
    strategy.record_requester(obj, call.identity)
    strategy.set_timestamps(obj, now)
    call.warnings += strategy.warnings_before_create(obj)
    strategy.prepare_for_create(obj, now)
    if "ownerReferences" in meta:
        call.warnings += object_meta.dedup_owner_references(meta, admitted=True)
    call.warnings += await core.long_work.run(call.size, _check, core, call, obj)
    write.name = meta["name"]
    await core.admission.validate(write)
    if revision and _is_revision(revision) and not options.dry_run:
        # Only the storage checks it, if it can be parsed (apiserver pkg/storage/etcd3/store.go, v0.36).
        raise errors.plain("resourceVersion should not be set on objects to be created")
    if options.dry_run and revision:
        meta["resourceVersion"] = revision  # it is neither validated nor overwritten
    strategy.canonicalize(obj)
    for attempt in range(_CONFLICT_ATTEMPTS):
        try:
            return await _store(core, call, obj, options, generated=generated)
        except Mismatch:
            # The name is free: another server has changed something that is written in the same commit, a quota or an
            # address.
            await asyncio.sleep(core.env.stream("apiserver races").random() * 0.02 * attempt)
            core.admission.allocate(write)
            await core.admission.validate(write)
    raise errors.modified(info, meta["name"])


def _complete(
    core: Core, call: Call, obj: Object, options: WriteOptions, sent_managed_fields: Any, owners: bytes | None
) -> None:
    """Apply defaults and set managed fields. ``sent_managed_fields`` is the managedFields of the body."""
    call.strategy.set_defaults(obj)
    if owners is None:
        if "ownerReferences" in obj["metadata"]:
            call.warnings += object_meta.dedup_owner_references(obj["metadata"], admitted=False)
        core.managed_fields.update_on_create(call, obj, options, sent_managed_fields)
    else:
        set_managed_fields(obj, owners)


MAX_WARNINGS = 1000
"""More warnings about an object are not computed: the header holds 4,096 characters."""


def _check(core: Core, call: Call, obj: Object) -> Iterable[str]:
    """Add the warnings about a new object; raises 422 if it is invalid."""
    all_errors = core.authorize_fields(call, obj) + validate_create(call.strategy, obj)
    if all_errors:
        group, name = call.strategy.error_group(call.info), obj["metadata"].get("name") or ""
        raise errors.invalid(group, call.info.kind, name, all_errors)
    return list(islice(call.strategy.warnings_on_create(obj), MAX_WARNINGS))


def subresource_attributes(call: Call, obj: Object, name: str | None = None) -> AdmissionAttributes:
    """The admission attributes of a POST to a subresource, or of a review: ``obj`` has its own kind (an Eviction, a
    TokenRequest), given by ``kind`` and ``apiVersion``. ``name``: another one than that of the path."""
    return AdmissionAttributes(
        operation="CREATE",
        info=call.info,
        namespace=call.namespace,
        name=call.name if name is None else name,
        identity=call.identity,
        subresource=call.request_info.subresource,
        obj=obj,
        dry_run=bool(call.request_info.query.get("dryRun")),
        warnings=call.warnings,
        query=call.request_info.query,
    )


def _is_revision(text: str) -> bool:
    try:
        return resource_versions.parse(text) != 0
    except ValueError:
        return False


async def _store(core: Core, call: Call, obj: Object, options: WriteOptions, *, generated: bool) -> ObjectResult:
    info, store, strategy = call.info, core.store, call.strategy
    stored_as = strategy.stored_as(info)
    stored = await core.to_storage(info, obj, call.size)
    meta = stored["metadata"]

    def encode(revision: int) -> bytes:
        meta["resourceVersion"] = str(revision)
        value = encode_object(stored_as, stored)
        remember_size(value, meta)
        return value

    for attempt in range(_NAME_ATTEMPTS):
        key = info.key(call.namespace, meta["name"])
        if options.dry_run:
            existing = store.staged(key)
            if existing is None:
                converted = await core.from_storage(info, encode_object(stored_as, stored))
                return ObjectResult(201, info, converted, tuple(call.warnings))
        else:
            try:
                value = await core.commit(store.stage(key, encode, expected=0))
            except Mismatch as mismatch:
                existing = mismatch.current
                if existing is None:
                    raise
            else:
                warn_untracked(call)
                return ObjectResult(201, info, await core.from_storage(info, value), tuple(call.warnings))
        assert existing is not None, "a create only fails on an existing object"
        being_deleted = b'"deletionTimestamp":"' in existing.value
        if not generated:
            if not meta.get("generateName"):
                raise errors.already_exists(info, meta["name"], being_deleted=being_deleted)
            break
        if attempt < _NAME_ATTEMPTS - 1:
            meta["name"] = call.strategy.generated_name(meta["generateName"], core.env.name_suffix())
    raise errors.no_unique_name(info, meta["name"], being_deleted=being_deleted)
