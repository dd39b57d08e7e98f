"""An API server that is behind: it has its own copy of the state, which follows the first one's at a distance.

As in a cluster with several API servers, whose watch caches follow etcd independently. Lists and watches of informers
are served from the copy; requests that need the current state (writes, reads by name, lists without a version) are not
(``connection`` decides).
"""

from pilothouse.apiserver import ApiServer, ServerOptions
from pilothouse.env import Env
from pilothouse.storage import Store
from pilothouse.storage.replica import ReplicaStore


class Replica(ReplicaStore):
    """The copy, and the server over it."""

    def __init__(self, env: Env, primary: Store, options: ServerOptions | None = None) -> None:
        super().__init__(env, primary)
        self.server = ApiServer(env, self, options=options)
        """Serves this copy. It has no background tasks and writes nothing."""
