"""Writes on a store that other servers write as well.

A write is decided by the cache, and etcd checks it with a compare of the key (``GuaranteedUpdate`` with a cached state,
apiserver ``pkg/storage/etcd3/store.go``, v0.36). A rejection is not final while the cache may lack writes of another
server: then it is decided again when those are visible.

Writes also build on staged writes of other requests of the same server. With etcd a staged write may fail, if etcd is
out of space or another server has written first. Then no response may be based on it: neither that the object exists,
has been modified or is not found, nor its contents. kube-apiserver has no staged state.
"""

from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core, Handler
from pilothouse.apiserver.errors import StatusError
from pilothouse.storage import Mismatch, Record

_ATTEMPTS = 5


async def run_write_handler(core: Core, call: Call, handler: Handler) -> Any:
    """Call the handler of a write. Its error is only raised once all writes of other servers are visible, and the write
    that it may depend on is committed; if the error may be due to one of these, the handler is called again."""
    store = core.store.store_for(call.info.prefix)
    request, warnings = call.request, list(call.warnings)
    is_current = not _is_checked_by_etcd(call)
    if is_current:
        await _catch_up(core, call)
    for _ in range(_ATTEMPTS):
        failed_writes_before, changes_before = store.failed_writes, core.store.changes_by_others
        try:
            return await handler(core, call)
        except StatusError as error:
            name = call.name or (error.details or {}).get("name", "")  # a create has the name in the body
            key = call.info.key(call.namespace, name)
            await store.wait_until_decided(key)
            has_failed = store.has_failed_since(key, failed_writes_before)
            if is_current and not has_failed:
                raise
            await _catch_up(core, call)
            if not has_failed and core.store.changes_by_others == changes_before:
                raise
            is_current = True
        call.request, call.warnings = request, list(warnings)
    raise errors.internal("writes of this object fail repeatedly; their outcome is unknown")


def _is_checked_by_etcd(call: Call) -> bool:
    """Whether the write itself compares what it was decided by: the key. Others, such as an eviction, also depend on
    the state of other objects."""
    request_info = call.request_info
    if request_info.query.get("dryRun"):
        return False
    if request_info.verb == "create":
        is_stored = call.info.verbs != ("create",)
        return is_stored and request_info.subresource in ("", "binding")
    return request_info.verb in ("update", "patch")


async def _catch_up(core: Core, call: Call) -> None:
    """Make the writes of other servers visible: to the resource, and what admission reads."""
    await core.store.catch_up()
    store = core.store.store_for(call.info.prefix)
    if store is not core.store.store_for(""):
        await store.catch_up()


async def require_stored(core: Core, record: Record) -> None:
    """Make sure that a record that is returned unchanged is the current one, and not only staged by another request.
    Raises ``Mismatch`` if it is not."""
    store = core.store.store_for(record.key)
    if not store.is_shared:
        return
    if store.get(record.key) is record:
        await store.catch_up()
    if store.get(record.key) is not record:
        await store.wait_until_decided(record.key)
        raise Mismatch(record.key, record.revision, store.get(record.key))
