"""Requests that are decided while another one's write of the same object is under way.

Writes of one server build on what others of its requests have staged. With etcd a staged write may fail: it is out of
space, or another server was quicker. Then nobody may be answered what followed from it: neither that the object exists,
has been modified or is not found, nor what it says. kube-apiserver has no staged state: it decides on what etcd has
(``pkg/storage/etcd3/store.go``, v0.36).
"""

from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core, Handler
from pilothouse.apiserver.errors import StatusError
from pilothouse.storage import Mismatch, Record

_ATTEMPTS = 5


async def carry_out(core: Core, call: Call, handler: Handler) -> Any:
    """What the handler of a write answers. It gives an error only once the write that the error may be about is stored;
    if that was given up, the handler decides again."""
    store = core.store
    request, warnings = call.request, list(call.warnings)
    for _ in range(_ATTEMPTS):
        since = store.given_up
        try:
            return await handler(core, call)
        except StatusError as error:
            name = call.name or (error.details or {}).get("name", "")  # a create names it in the body
            key = call.info.key(call.namespace, name)
            await store.settled(key)
            if not store.was_given_up(key, since):
                raise
        call.request, call.warnings = request, list(warnings)
        await store.catch_up()
    raise errors.internal("writes of this object fail, again and again: their outcome is not known")


async def require_stored(core: Core, record: Record) -> None:
    """Wait for a record that is answered as it is until it is stored, if another request has only staged it so far.
    Raises ``Mismatch`` then: it has another revision, or was given up."""
    store = core.store
    if store.is_shared and store.get(record.key) is not record:
        await store.settled(record.key)
        raise Mismatch(record.key, record.revision, store.get(record.key))
