"""What ResourceQuota's admission refuses, for a server that has none: pods over a number."""

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission import Admission, Plugin
from pilothouse.apiserver.server import ApiServer


class PodQuota(Plugin):
    """A quota ``q`` of one namespace with ``hard: {pods: N}``, in upstream's words."""

    def __init__(self, server: ApiServer, namespace: str, hard: int) -> None:
        self.hard = hard
        self._store = server.store
        self._namespace = namespace
        server.core.admission.plugins.append(self)

    def review(self, write: Admission) -> None:
        if (write.operation, write.info.resource, write.namespace) != ("CREATE", "pods", self._namespace):
            return
        if write.subresource:
            return
        used = len(self._store.list(write.info.key(self._namespace, "")).records)
        if used >= self.hard:
            reason = f"exceeded quota: q, requested: pods=1, used: pods={used}, limited: pods={self.hard}"
            raise errors.forbidden(write.info, write.name, reason)
