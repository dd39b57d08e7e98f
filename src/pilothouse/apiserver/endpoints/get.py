"""get and list, with paging, selectors and upstream's semantics of resource versions."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Protocol

import msgspec

from pilothouse.apiserver import errors, field_errors
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.options import ListOptions, check_numbers, read_list_options
from pilothouse.apiserver.registry.generic.selection_predicate import Selection, read_selection
from pilothouse.apiserver.serializers.results import ListResult, ObjectResult
from pilothouse.machinery import resource_versions
from pilothouse.machinery.structs import Int64
from pilothouse.storage import Compacted, Page, Record

FUTURE_WAIT_SECONDS = 3.0
_CONTINUE_VERSION = "meta.k8s.io/v1"
_TOO_OLD_LIST = "The resourceVersion for the provided list is too old."
_TOO_OLD_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


async def get(core: Core, call: Call) -> ObjectResult:
    """GET of one object, at least as recent as the requested resource version."""
    resource_version = call.request_info.query.first("resourceVersion")
    if resource_version and resource_version != "0":
        await wait_for(core, call.info.prefix, parse_revision(resource_version, cached=call.info.resource != "events"))
    elif not resource_version:
        await core.catch_up(call.info.prefix)
    record = core.store.get(call.key)
    if record is None:
        raise errors.not_found(call.info, call.name)
    # Without a version upstream does not read from the watch cache (``cacher/delegator.go``, v1.36).
    value = await core.from_storage(call.info, record.value, bypass_cache=not resource_version)
    return ObjectResult(200, call.info, value, tuple(call.warnings))


def parse_revision(text: str, *, cached: bool = True) -> int:
    """The resource version of a get or watch; raises upstream's 500 without reason if it is invalid."""
    try:
        return resource_versions.parse(text)
    except ValueError as error:
        reason = f'resourceVersion: Invalid value: "{text}": {error}'
    if not cached:
        # They have no watch cache, and the error is the storage's (apiserver pkg/storage/etcd3, v0.36).
        raise errors.bad_request(f"invalid resource version: {reason}")
    raise errors.plain(reason)


async def wait_for(core: Core, prefix: str, revision: int) -> None:
    """Wait for a future revision of a resource for some seconds; raises the 504 after which clients retry."""
    store = core.store.store_for(prefix)
    if revision <= store.revision:
        return
    await core.catch_up(prefix)
    try:
        async with asyncio.timeout(FUTURE_WAIT_SECONDS):
            await store.wait_for_revision(revision)
    except TimeoutError:
        raise errors.too_large_resource_version(revision, store.revision) from None


def selection_of(core: Core, call: Call) -> Selection:
    """The selectors of a list, watch or deletecollection."""
    strategy = call.strategy
    selection = read_selection(call.info, call.request_info.query, strategy.fields, strategy.unsupported_field)
    name = call.request_info.name
    if not name or selection.name == name:
        return selection
    if selection.has_field_selector:
        raise errors.bad_request("fieldSelector metadata.name doesn't match requested name")
    # The deprecated watch/ prefix has the name in the path (apiserver pkg/endpoints/handlers/get.go, v0.36).
    return selection.with_name(name)


async def list_objects(core: Core, call: Call) -> ListResult:
    """List the objects in key order, or a page of them."""
    check_numbers(call.request_info.query)
    selection = selection_of(core, call)
    options = read_list_options(call.request_info.query, watch=False)
    # A field selector may set the namespace (apiserver pkg/registry/generic/registry/store.go, ListPredicate, v1.36).
    namespace = call.namespace or (call.info.namespaced and selection.exact("metadata.namespace")) or ""
    prefix = call.info.list_prefix(namespace)
    after, revision = await _start_of_list(core, options, prefix, is_single=_selects_single_object(call, selection))
    info = call.info
    try:
        limit = options.limit if selection.empty else 0
        store = await _store_of(core, call, prefix, revision, after, limit)
    except Compacted as error:
        raise _expired(core, options, after, prefix) from error
    if options.resource_version == "0" and info.resource != "events":
        # The watch cache serves it and ignores the limit (pkg/storage/cacher/cacher.go, computeListLimit).
        options = msgspec.structs.replace(options, limit=0)
    limit = options.limit
    converted: list[bytes] | None = None
    if selection.empty:
        try:
            page = store.list(prefix, after=after, limit=limit, revision=revision)
        except Compacted as error:
            raise _expired(core, options, after, prefix) from error
        records, has_more, remaining = page.records, page.more, page.remaining if page.more else None
        revision = page.revision
        _check_readable(store, records)
    elif info.custom is not None and info.custom.converter is not None:
        records, converted, has_more, revision = await _select_converted(
            core, call, selection, options, after, prefix, revision, store
        )
        remaining = None
    else:
        records, has_more, revision = _select(core, call, selection, options, prefix, after, revision, store)
        remaining = None
    continue_ = ""
    if has_more:
        continue_ = encode_token(revision, records[-1].key[len(prefix) :])
    head = info.head
    values = [record.value for record in records] if converted is None else converted
    if values and converted is None and (info.custom is not None or not values[0].startswith(head)):
        values = await core.list_from_storage(info, values)
    if core.metrics is not None:
        core.metrics.storage.listed(info, len(values), len(values))
    return ListResult(info, values, revision, continue_, remaining, tuple(call.warnings))


def _check_readable(store: "_ListSource", records: Sequence[Record]) -> None:
    """Raises the 500 of a list with values that can't be read."""
    if store.has_unreadable:
        errors.check_readable([record.value for record in records])


class _ListSource(Protocol):
    """What is listed: the store, or a snapshot of an earlier revision read from etcd."""

    revision: int

    @property
    def has_unreadable(self) -> bool: ...

    def list(self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0) -> Page: ...

    def get(self, key: str) -> Record | None: ...


async def _store_of(core: Core, call: Call, prefix: str, revision: int, after: str, limit: int) -> _ListSource:
    """The store or snapshot of the revision. With a shared store the revision may be older than the history of this
    server (``shouldDelegateExactRV``). Raises ``Compacted``."""
    store = core.store.store_for(call.info.prefix)
    if revision and store.is_shared and revision < store.history_floor(call.info.prefix):
        return await store.read_at_revision(prefix, revision, after=after, limit=limit)
    return store


def _selects_single_object(call: Call, selection: Selection) -> bool:
    """Whether at most one object is selected. In all namespaces several can have one name."""
    return bool(selection.name) and bool(call.namespace or not call.info.namespaced)


def _select(
    core: Core,
    call: Call,
    selection: Selection,
    options: ListOptions,
    prefix: str,
    after: str,
    revision: int,
    store: _ListSource,
) -> tuple[list[Record], bool, int]:
    """The selected records after ``after``, at most the limit; whether there are more; and their revision."""
    reader, info = call.strategy.attributes, call.info
    limit = options.limit
    is_current = not revision or revision == core.store.store_for(info.prefix).revision
    records: list[Record]
    if is_current and (keys := keys_selected(core, call, selection)) is not None:
        candidates = [record for key in keys if key.startswith(prefix) and (record := store.get(key)) is not None]
        records, revision = (
            ([record for record in candidates if record.key > after] if after else candidates),
            store.revision,
        )
    else:
        try:
            page = store.list(prefix, after=after, revision=revision)
        except Compacted as error:
            raise _expired(core, options, after, prefix) from error
        records, revision = page.records, page.revision
        _check_readable(store, records)
    attributes_of = core.attributes.current
    resource = info.prefix
    selected: list[Record] = []
    for record in records:
        attributes = attributes_of(resource, reader, record) if is_current else reader.read(record.value)
        if selection.matches(attributes):
            selected.append(record)
            if limit and len(selected) == limit:
                if _selects_single_object(call, selection):
                    return selected, False, revision  # upstream gets this object instead of listing
                # Upstream does not check whether the remaining objects match (apiserver pkg/storage/cacher/cacher.go,
                # v0.36).
                remaining_records = store.list(prefix, after=record.key, limit=1, revision=revision).records
                return selected, bool(remaining_records), revision
    return selected, False, revision


_CONVERSION_BATCH = 500
"""The number of objects that are converted together before the selection."""


async def _select_converted(
    core: Core,
    call: Call,
    selection: Selection,
    options: ListOptions,
    after: str,
    prefix: str,
    revision: int,
    store: _ListSource,
) -> tuple[list[Record], list[bytes], bool, int]:
    """``_select`` with conversion by webhook: the converted objects are selected. Also returns them."""
    reader, limit = call.strategy.attributes, options.limit
    is_current = not revision or revision == core.store.store_for(call.info.prefix).revision
    keys = keys_selected(core, call, selection) if is_current else None
    if keys is not None:
        candidates = [record for key in keys if key.startswith(prefix) and (record := store.get(key)) is not None]
        records, revision = [record for record in candidates if record.key > after], store.revision
    else:
        try:
            page = store.list(prefix, after=after, revision=revision)
        except Compacted as error:
            raise _expired(core, options, after, prefix) from error
        records, revision = page.records, page.revision
        _check_readable(store, records)
    selected: list[Record] = []
    converted: list[bytes] = []
    for start in range(0, len(records), _CONVERSION_BATCH):
        batch = records[start : start + _CONVERSION_BATCH]
        values = await core.list_from_storage(call.info, [record.value for record in batch])
        for record, value in zip(batch, values, strict=True):
            if not selection.matches(reader.read(value)):
                continue
            selected.append(record)
            converted.append(value)
            if limit and len(selected) == limit:
                return (
                    selected,
                    converted,
                    record is not records[-1] and not _selects_single_object(call, selection),
                    revision,
                )
    return selected, converted, False, revision


def keys_selected(core: Core, call: Call, selection: Selection) -> list[str] | None:
    """The keys of the objects that can match now, if an index has them."""
    if selection.name and (call.namespace or not call.info.namespaced):
        return [call.info.key(call.namespace, selection.name)]
    if core.store.has_unreadable:
        return None  # the index may be incomplete
    keys = core.attributes.candidates(call.info.prefix, call.strategy.attributes, selection)
    return None if keys is None else list(keys)


async def _start_of_list(core: Core, options: ListOptions, prefix: str, *, is_single: bool = False) -> tuple[str, int]:
    """The key to start after, and the revision to list at, 0 for the current one. ``is_single``: one object is
    selected."""
    resource_version = options.resource_version
    if options.continue_:
        revision, start = decode_token(options.continue_)
        if resource_version and resource_version != "0":
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        # A token of another server may have a future revision (``shouldDelegateExactRV``, apiserver
        # pkg/storage/cacher/cacher.go v0.36).
        await wait_for(core, prefix, revision)
        return prefix + start, max(revision, 0)
    if not resource_version or resource_version == "0":
        if not resource_version:
            await core.catch_up(prefix)
        return "", 0
    revision = parse_revision(resource_version, cached=False)
    await wait_for(core, prefix, revision)
    # Without a match, a limit makes N exact, except for one object ("legacy case" in ``ValidateListOptions``, apiserver
    # pkg/storage/interfaces.go v0.36).
    is_exact = options.match == "Exact" or (not options.match and options.limit > 0 and not is_single)
    return "", revision if is_exact else 0


def _expired(core: Core, options: ListOptions, after: str, prefix: str) -> StatusError:
    if not options.continue_:
        return errors.expired(_TOO_OLD_LIST)
    return errors.expired(_TOO_OLD_CONTINUE, continue_=encode_token(-1, after[len(prefix) :]))


_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class _Token(msgspec.Struct):
    v: str = ""
    rv: Int64 = 0
    start: str = ""


def encode_token(revision: int, key: str) -> str:
    """A continue token: continue after ``key`` (relative to the list's prefix) at ``revision``; -1 for the revision at
    the time of its use."""
    text = msgspec.json.encode(_Token(_CONTINUE_VERSION, revision, f"/{key}\0"))
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def decode_token(token: str) -> tuple[int, str]:
    """The revision and relative key of a continue token. Raises upstream's 400s."""
    position = next((index for index, character in enumerate(token) if character not in _ALPHABET), -1)
    if position < 0 and len(token) % 4 == 1:
        position = len(token) - 1
    if position >= 0:
        reason = f"illegal base64 data at input byte {position}"
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {reason}")
    text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    try:
        parsed = msgspec.json.decode(text, type=_Token)
    except (msgspec.DecodeError, ValueError) as error:
        reason = str(error)
        if text[:1] not in b"{":
            character = field_errors.format_value(chr(text[0]))[1:-1]
            reason = f"invalid character '{character}' looking for beginning of value"
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {reason}") from None
    reason = ""
    start = parsed.start if parsed.start.startswith("/") else "/" + parsed.start
    if parsed.v != _CONTINUE_VERSION:
        reason = f"server does not recognize this encoded version {parsed.v}"
    elif not parsed.rv:
        reason = f"incorrect encoded start resourceVersion (version {_CONTINUE_VERSION})"
    elif not parsed.start:
        reason = f"encoded start key empty (version {_CONTINUE_VERSION})"
    elif any(segment in ("", ".", "..") for segment in start[1:].split("/")):
        reason = parsed.start  # the key would be outside of the list
    if reason:
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {reason}")
    return parsed.rv, start[1:].rstrip("\0")
