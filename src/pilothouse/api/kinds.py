"""``Kind``: where a type of object is served, and the view it is read with."""

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import msgspec

from pilothouse.api.meta import Object

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
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
        return replace(self, view=view)  # type: ignore[return-value,arg-type]

    @property
    def raw(self) -> "Kind[msgspec.Raw]":
        """The same resource, its objects left as the JSON they came as."""
        return self.read_as(msgspec.Raw)

    @property
    def metadata(self) -> "Kind[Object]":
        """The same resource, only metadata, also on the wire."""
        return replace(self, view=Object, metadata_only=True)  # type: ignore[return-value,arg-type]
