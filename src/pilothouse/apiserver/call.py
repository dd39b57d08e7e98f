"""``Call``: one request for a resource, as handlers receive it."""

import msgspec

from pilothouse.api.wire import Request
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.request_info import RequestInfo, media_type
from pilothouse.apiserver.resources import ResourceInfo


class Call(msgspec.Struct):
    """A request for a resource that is being handled."""

    request: Request
    request_info: RequestInfo
    info: ResourceInfo
    strategy: Strategy
    identity: Identity
    namespace: str
    name: str
    warnings: list[str] = []
    skip_admission: bool = False
    """Nothing is admitted: the request that causes this one was, or upstream writes below admission."""
    untracked: str = ""
    """Why the object is stored without managed fields, if it is."""

    @property
    def key(self) -> str:
        """The key under which the object is stored."""
        return self.info.key(self.namespace, self.name)

    @property
    def size(self) -> int:
        """The size of the body in bytes, as an estimate of the work."""
        return len(self.request.body)

    @property
    def content_type(self) -> str:
        """The media type of the body, without parameters, in lower case."""
        return media_type(self.request.headers.get("content-type", ""))
