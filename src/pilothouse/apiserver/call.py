"""``Call``: one request for a resource, as handlers get it."""

import msgspec

from pilothouse.api.wire import Request
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.request_info import RequestInfo, media_type
from pilothouse.apiserver.resources import ResourceInfo


class Call(msgspec.Struct):
    """One request for a resource that is being handled."""

    request: Request
    request_info: RequestInfo
    info: ResourceInfo
    strategy: Strategy
    identity: Identity
    namespace: str
    name: str
    warnings: list[str] = []
    admitted: bool = False
    """Admission has seen what was asked for, an eviction; what follows from it is not admitted again."""
    untracked: str = ""
    """Why the object is stored without managed fields, if it comes to that."""

    @property
    def key(self) -> str:
        """The key under which the object is stored."""
        return self.info.key(self.namespace, self.name)

    @property
    def size(self) -> int:
        """The bytes of the body, as a measure of the work."""
        return len(self.request.body)

    @property
    def content_type(self) -> str:
        """The media type of the body, without parameters, in lower case."""
        return media_type(self.request.headers.get("content-type", ""))
