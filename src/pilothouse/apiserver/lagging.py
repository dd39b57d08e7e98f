"""Serves reads from a delayed copy of the store, like an API server whose watch cache lags.

In a cluster with several API servers informers read from a cache that follows etcd at its own pace, and controllers
must not act on what they have changed already. With one process that never shows. ``ApiServer.set_lag`` puts this
between reads and store. What upstream reads from its cache is stale then (apiserver ``pkg/storage/cacher``, v0.36):

* every watch; one with sendInitialEvents and no resource version waits until the cache has what was there when it came,
  three seconds at most, then ends with the 504 that clients retry;
* lists and gets with a resource version, "0" for whatever there is, N for not older than that (with the same wait).

Everything else (writes, gets and lists without a version, exact lists and their pages) is the truth.
"""

import msgspec

from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core, Handler
from pilothouse.apiserver.endpoints import get, watch
from pilothouse.apiserver.request_info import Query
from pilothouse.storage.replica import ReplicaStore


class LaggingReads:
    """A copy of a core's state that is behind, and a core that reads from it."""

    def __init__(self, core: Core) -> None:
        self._primary = core
        self.store = ReplicaStore(core.env, core.store)
        self._core = core.reading_from(self.store)

    def route(self, handler: Handler, call: Call) -> tuple[Core, Call]:
        """The server that answers a call, and the call as it is to be answered."""
        if handler is watch.watch:
            return self._core, _from_now(call, self._primary.store.revision)
        query = call.request_info.query
        version = query.first("resourceVersion")
        if handler is get.get and version:
            return self._core, call
        if handler is get.list_objects and version and not query.first("continue"):
            match = query.first("resourceVersionMatch")
            legacy_exact = not match and version != "0" and query.first("limit") not in ("", "0")
            if match != "Exact" and not legacy_exact:
                return self._core, call
        return self._primary, call


def _from_now(call: Call, revision: int) -> Call:
    """A watch that asks for the current state gets its revision, which the copy does not know."""
    query = call.request_info.query
    if query.first("resourceVersion") or not query.flag("sendInitialEvents"):
        return call
    desired = Query({**query, "resourceVersion": [str(revision)]})
    return msgspec.structs.replace(call, request_info=msgspec.structs.replace(call.request_info, query=desired))
