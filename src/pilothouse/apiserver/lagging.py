"""Serves reads from a delayed copy of the store, like an API server whose watch cache lags.

In a cluster with several API servers informers read from a watch cache that follows etcd with a delay, and controllers
must not act on state that they have already changed. A single process never shows this. ``ApiServer.set_lag`` puts this
class between reads and store. Everything that upstream reads from its cache is then stale (apiserver
``pkg/storage/cacher``, v0.36):

* every watch; one with sendInitialEvents and no resource version waits until the cache has reached the revision at its
  start, three seconds at most, then ends with the 504 after which clients retry;
* lists and gets with a resource version: "0" for any state, N for one at least as recent (with the same wait).

Everything else (writes, gets and lists without a version, exact lists and their pages) is current.
"""

import msgspec

from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core, Handler
from pilothouse.apiserver.endpoints import get, watch
from pilothouse.apiserver.request_info import Query
from pilothouse.storage.replica import ReplicaStore


class LaggingReads:
    """Routes reads that upstream serves from the watch cache to a core on a delayed copy of the store."""

    def __init__(self, core: Core) -> None:
        self._primary = core
        self.store = ReplicaStore(core.env, core.store)
        self._core = core.reading_from(self.store)

    def route(self, handler: Handler, call: Call) -> tuple[Core, Call]:
        """The core that handles a call, and the adapted call."""
        if handler is watch.watch:
            return self._core, _at_current_revision(call, self._primary.store.revision)
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


def _at_current_revision(call: Call, revision: int) -> Call:
    """The call; a watch with sendInitialEvents and without a resource version gets this one, which the copy may not
    have reached."""
    query = call.request_info.query
    if query.first("resourceVersion") or not query.flag("sendInitialEvents"):
        return call
    new_query = Query({**query, "resourceVersion": [str(revision)]})
    return msgspec.structs.replace(call, request_info=msgspec.structs.replace(call.request_info, query=new_query))
