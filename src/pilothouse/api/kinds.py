"""``Kind``: a served resource, and the view that its objects are decoded to."""

from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from pilothouse.api.meta import Object

T = TypeVar("T")
U = TypeVar("U")


class Kind(msgspec.Struct, Generic[T], frozen=True, cache_hash=True):
    """One served resource, read as ``view``.

    ``group`` is empty for the core group. ``metadata_only`` asks the server for ``PartialObjectMetadata``.
    """

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    view: type[T]
    metadata_only: bool = False

    @property
    def api_version(self) -> str:
        """``apps/v1``, or ``v1`` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_resource(self) -> str:
        """``replicasets.apps``, or ``pods`` for the core group."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def read_as(self, view: type[U]) -> "Kind[U]":
        """The same resource, read with another view."""
        return _read_as(self, view, self.metadata_only)  # type: ignore[arg-type]  # mypy does not see that types hash

    @property
    def raw(self) -> "Kind[msgspec.Raw]":
        """The same resource, with objects as the JSON that was received."""
        return self.read_as(msgspec.Raw)

    @property
    def metadata(self) -> "Kind[Object]":
        """The same resource with metadata only, also on the wire."""
        return _read_as(self, Object, True)


@lru_cache(maxsize=4096)
def _read_as(kind: Kind[Any], view: type[Any], metadata_only: bool) -> Kind[Any]:
    # Programs write ``LEASES.raw`` where they send, thousands of times per second: the same answer is the same object.
    return Kind(kind.group, kind.version, kind.resource, kind.kind, kind.namespaced, view, metadata_only)
