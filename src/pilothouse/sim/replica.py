"""A stale API server: it has its own copy of the state, which follows the primary one with a lag.

As in a cluster with several API servers, whose watch caches follow etcd independently. Lists and watches of informers
are served from the copy; requests that need the current state (writes, gets, lists without a resource version) are not
(see ``connection``).
"""

from pilothouse.apiserver import ApiServer, ServerOptions
from pilothouse.env import Env
from pilothouse.storage import Store
from pilothouse.storage.replica import ReplicaStore


class Replica(ReplicaStore):
    """A copy of the state, with an API server."""

    def __init__(self, env: Env, primary: Store, options: ServerOptions | None = None) -> None:
        super().__init__(env, primary)
        self.server = ApiServer(env, self, options=options)
        """Serves this copy. It has no background tasks and does not write."""
