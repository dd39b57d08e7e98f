"""Requests that depend on a staged write of another request to the same object.

Writes build on staged writes of other requests of the same server. With etcd a staged write may fail, if etcd is out of
space or another server has written first. Then no response may be based on it: neither that the object exists, has been
modified or is not found, nor its contents. kube-apiserver has no staged state: it decides by the contents of etcd
(``pkg/storage/etcd3/store.go``, v0.36).
"""

from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core, Handler
from pilothouse.apiserver.errors import StatusError
from pilothouse.storage import Mismatch, Record

_ATTEMPTS = 5


async def run_write_handler(core: Core, call: Call, handler: Handler) -> Any:
    """Call the handler of a write. Its error is only raised once the write that it may depend on is committed; if that
    write was dropped, the handler is called again."""
    store = core.store.store_for(call.info.prefix)
    request, warnings = call.request, list(call.warnings)
    for _ in range(_ATTEMPTS):
        failed_writes_before = store.failed_writes
        try:
            return await handler(core, call)
        except StatusError as error:
            name = call.name or (error.details or {}).get("name", "")  # a create has the name in the body
            key = call.info.key(call.namespace, name)
            await store.wait_until_decided(key)
            if not store.has_failed_since(key, failed_writes_before):
                raise
        call.request, call.warnings = request, list(warnings)
        await store.catch_up()
    raise errors.internal("writes of this object fail repeatedly; their outcome is unknown")


async def require_stored(core: Core, record: Record) -> None:
    """Wait for the commit of a record that is returned unchanged and was staged by another request. Raises ``Mismatch``
    if the write was dropped or the record has another revision."""
    store = core.store.store_for(record.key)
    if store.is_shared and store.get(record.key) is not record:
        await store.wait_until_decided(record.key)
        raise Mismatch(record.key, record.revision, store.get(record.key))
